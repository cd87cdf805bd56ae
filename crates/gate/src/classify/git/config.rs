//! Reads the syntax of git's configuration files as git does: sections and subsections, quotes, escapes, lines that go
//! on, comments, keys without a value. What git would reject is an error here.

/// One `section.subsection.key = value`, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In lower case.
    pub section: String,
    /// As it stands there; in lower case in the old form `[section.subsection]`.
    pub subsection: Option<String>,
    /// In lower case.
    pub key: String,
    /// None for a key alone, which means true.
    pub value: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no configuration that git would take")]
pub struct ConfigError {
    pub line: usize,
}

/// All entries. Bytes that are no UTF-8 become U+FFFD, which no host and no usable path has.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>, ConfigError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = Reader { rest: bytes, line: 1 };
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => section = Some(reader.header()?),
            _ if is_space(byte) => {}
            _ if byte.is_ascii_alphabetic() => {
                let (section, subsection) = section.clone().ok_or_else(|| reader.error())?;
                let (key, value) = reader.assignment(byte)?;
                entries.push(Entry { section, subsection, key, value });
            }
            _ => return Err(reader.error()),
        }
    }
    Ok(entries)
}

struct Reader<'a> {
    rest: &'a [u8],
    line: usize,
}

impl Reader<'_> {
    fn error(&self) -> ConfigError {
        ConfigError { line: self.line }
    }

    /// The next byte; a line break of two bytes is one.
    fn next(&mut self) -> Option<u8> {
        if let [b'\r', b'\n', ..] = self.rest {
            self.rest = self.rest.get(1..)?;
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        if *first == b'\n' {
            self.line += 1;
        }
        Some(*first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// After `[`.
    fn header(&mut self) -> Result<(String, Option<String>), ConfigError> {
        let mut name = String::new();
        loop {
            match self.next().ok_or_else(|| self.error())? {
                b']' => break,
                b' ' | b'\t' => {
                    let subsection = self.subsection()?;
                    return Ok(match name.split_once('.') {
                        Some((section, more)) => (section.to_owned(), Some(format!("{more}.{subsection}"))),
                        None => (name, Some(subsection)),
                    });
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err(self.error()),
            }
        }
        Ok(match name.split_once('.') {
            Some((section, subsection)) => (section.to_owned(), Some(subsection.to_owned())),
            None => (name, None),
        })
    }

    /// After the white space behind a section's name: `"subsection"]`.
    fn subsection(&mut self) -> Result<String, ConfigError> {
        loop {
            match self.next().ok_or_else(|| self.error())? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return Err(self.error()),
            }
        }
        let mut name = Vec::new();
        loop {
            match self.next().ok_or_else(|| self.error())? {
                b'"' => break,
                b'\n' | 0 => return Err(self.error()),
                b'\\' => match self.next().ok_or_else(|| self.error())? {
                    b'\n' | 0 => return Err(self.error()),
                    byte => name.push(byte),
                },
                byte => name.push(byte),
            }
        }
        if self.next() != Some(b']') {
            return Err(self.error());
        }
        Ok(text(name))
    }

    fn assignment(&mut self, first: u8) -> Result<(String, Option<String>), ConfigError> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next();
        while let Some(part) = byte.filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(char::from(part.to_ascii_lowercase()));
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Ok((key, None)),
            Some(b'=') => Ok((key, Some(self.value()?))),
            Some(_) => Err(self.error()),
        }
    }

    /// After `=`, up to the end of the line.
    fn value(&mut self) -> Result<String, ConfigError> {
        let mut value = Vec::new();
        let (mut quoted, mut in_comment) = (false, false);
        // White space at the end does not count, and whether it is the end shows later.
        let mut keep = 0;
        loop {
            let byte = self.next();
            match byte {
                None | Some(b'\n') if quoted => return Err(self.error()),
                None | Some(b'\n') => break,
                Some(_) if in_comment => continue,
                Some(0) => return Err(self.error()),
                Some(byte) if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(b'#' | b';') if !quoted => {
                    in_comment = true;
                    continue;
                }
                Some(b'"') => {
                    quoted = !quoted;
                    // Quotes keep the white space before them: `a ""` ends in a space.
                    keep = value.len();
                    continue;
                }
                Some(b'\\') => match self.next() {
                    // Also keeps the white space before it.
                    Some(b'\n') => {}
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(b'n') => value.push(b'\n'),
                    Some(byte @ (b'\\' | b'"')) => value.push(byte),
                    _ => return Err(self.error()),
                },
                Some(byte) => value.push(byte),
            }
            keep = value.len();
        }
        value.truncate(keep);
        Ok(text(value))
    }
}

/// What git takes for white space; not quite what C does.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(text: &str) -> Vec<String> {
        let entries = parse(text.as_bytes()).expect("git takes this");
        entries.into_iter().map(|entry| entry.value.unwrap_or_else(|| "(true)".to_owned())).collect()
    }

    fn name(text: &str) -> String {
        let entries = parse(text.as_bytes()).expect("git takes this");
        let Entry { section, subsection, key, .. } = &entries[0];
        match subsection {
            Some(subsection) => format!("{section}|{subsection}|{key}"),
            None => format!("{section}|{key}"),
        }
    }

    // Each as `git config --get` of git 2.47 answered.
    #[test]
    fn values_are_what_git_reads() {
        for (line, value) in [
            ("k = a \"\"", "a "),
            ("k = \"  x  \"  y  ; c", "  x    y"),
            ("k = a   b # c", "a   b"),
            ("k = a\\\n  b", "a  b"),
            ("k= \"\" ", ""),
            ("k =   \"a\" \"b\"  ", "a b"),
            ("k = x \\\n\n", "x "),
            ("k = a\t b", "a\t b"),
            ("k =  \\\n  z", "z"),
            ("k = \"a\\\nb\"", "ab"),
            ("k = \"a#b;c\" #d", "a#b;c"),
            ("k = a\\tb\\nc\\\\d\\\"e", "a\tb\nc\\d\"e"),
            ("k = a\r\n", "a"),
            ("k", "(true)"),
            ("k =", ""),
        ] {
            assert_eq!(values(&format!("[s]\n{line}")), [value], "{line:?}");
        }
    }

    #[test]
    fn names_are_what_git_reads() {
        assert_eq!(name("[Remote \"Ori.Gin\"] URL = x"), "remote|Ori.Gin|url");
        assert_eq!(name("[remote.Origin]\nurl = x"), "remote|origin|url");
        assert_eq!(name("[a.B \"C\"]\nk"), "a|b.C|k");
        assert_eq!(name("[s \"a\\\"b\\\\c\\d\"]\nk-1=2"), "s|a\"b\\cd|k-1");
        assert_eq!(name("\u{feff}[s]\n#c\n;d\n k = v"), "s|k");
    }

    #[test]
    fn what_git_rejects_is_an_error_with_its_line() {
        for (text, line) in [
            ("k = v", 1),
            ("[s]\n= v", 2),
            ("[s\nk = v", 2),
            ("[s \"a]\n", 2),
            ("[s \"a\" ]", 1),
            ("[s]\nk = \"a\n", 3),
            ("[s]\nk = \\x", 2),
            ("[s]\nk v", 2),
            ("[s]\n9 = v", 2),
            ("[s_t]\n", 1),
            ("[s]\nk = a\0b", 2),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(ConfigError { line }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_quoted_value_comes_back_as_it_was(value in "[^\\x00\r]{0,40}") {
            let mut quoted = String::new();
            for character in value.chars() {
                match character {
                    '\\' | '"' => quoted.extend(['\\', character]),
                    '\n' => quoted.push_str("\\n"),
                    _ => quoted.push(character),
                }
            }
            prop_assert_eq!(values(&format!("[s]\nk = \"{quoted}\"\n")), [value]);
        }
    }
}
