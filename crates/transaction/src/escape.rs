//! Makes names and contents harmless for a terminal. What a sandbox wrote may hold escape sequences that move
//! the cursor, set titles or answer as if typed, and characters that turn the direction of the text.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as git prints it: plain where that is safe, else in double quotes with `\n`, `\t`, `\"` and octal
/// bytes.
pub fn name(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let plain = std::str::from_utf8(bytes)
        .is_ok_and(|text| text.chars().all(|c| !is_hostile(c) && !matches!(c, '\n' | '\t' | '"' | '\\')));
    if plain {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                c if is_hostile(c) => octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

/// The lines of a file: everything but tabs and newlines that a terminal could obey is written as `\x1b` or
/// `\u{202e}`, and bytes that are no text as `\xff`.
pub fn content(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' | '\t' => out.push(c),
                c if is_hostile(c) && c.is_ascii() => {
                    let _ = write!(out, "\\x{:02x}", u32::from(c));
                }
                c if is_hostile(c) => {
                    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Controls of C0 and C1, and the invisible characters that reorder or hide text (CVE-2021-42574).
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn quoted(bytes: &[u8]) -> String {
        name(Path::new(OsStr::from_bytes(bytes)))
    }

    #[test]
    fn plain_names_stay_and_others_are_quoted_as_git_does() {
        assert_eq!(quoted(b"a b/c.txt"), "a b/c.txt");
        assert_eq!(quoted("größe".as_bytes()), "größe");
        assert_eq!(quoted(b"a\nb\tc\"d\\e"), r#""a\nb\tc\"d\\e""#);
        assert_eq!(quoted(b"\x1b[31m\xff"), r#""\033[31m\377""#);
        assert_eq!(quoted("a\u{202e}b".as_bytes()), r#""a\342\200\256b""#);
    }

    #[test]
    fn contents_keep_tabs_and_newlines_and_nothing_else_that_acts() {
        assert_eq!(content(b"a\tb\n\x1b]0;x\x07\r\x7f\xff"), "a\tb\n\\x1b]0;x\\x07\\x0d\\x7f\\xff");
        assert_eq!(content("\u{9b}1m \u{2066}".as_bytes()), "\\u{9b}1m \\u{2066}");
    }
}
