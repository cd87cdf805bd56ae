//! Takes secrets out of command lines and text before they are recorded.
//!
//! Scanners by hand, one pass over the text: what is recognised is the shape of a secret or the name before
//! it. It errs on the side of removing too much.

/// What stands where a secret stood.
pub const MARK: &str = "[redacted]";

/// Options whose value is a secret, without their dashes.
const FLAGS: [&str; 8] = ["password", "passwd", "token", "api-key", "apikey", "secret", "access-key", "auth"];

/// A name with one of these in it names a secret; `-` counts as `_`.
const NAMES: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTHORIZATION",
    "COOKIE",
];

/// How far ahead the end of a quotation, a user or a token's first part is looked for, in bytes: without a
/// bound, hostile text would be scanned again and again.
const WINDOW: usize = 4096;

const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];

/// A token that gives itself away: what it starts with, how much follows at least, and of which characters.
struct Shape {
    prefix: &'static str,
    least: usize,
    rest: fn(u8) -> bool,
    /// Whether it must not follow a letter or a digit.
    alone: bool,
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn upper_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

const SHAPES: [Shape; 14] = [
    Shape { prefix: "ghp_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "gho_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "ghs_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "ghu_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "ghr_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "github_pat_", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "glpat-", least: 10, rest: word_byte, alone: false },
    Shape { prefix: "xoxb-", least: 8, rest: word_byte, alone: false },
    Shape { prefix: "xoxp-", least: 8, rest: word_byte, alone: false },
    Shape { prefix: "sk-", least: 16, rest: word_byte, alone: true },
    Shape { prefix: "sk_live_", least: 10, rest: word_byte, alone: true },
    Shape { prefix: "npm_", least: 20, rest: plain_byte, alone: true },
    Shape { prefix: "AKIA", least: 16, rest: upper_byte, alone: true },
    Shape { prefix: "ASIA", least: 16, rest: upper_byte, alone: true },
];

/// Whether a variable, option or key of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name: String = name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_uppercase() }).collect();
    NAMES.iter().any(|secret| name.contains(secret))
}

/// Whether the word after this one is a secret.
fn is_secret_flag(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    if name.len() == word.len() || name.is_empty() {
        return false;
    }
    let name = name.to_ascii_lowercase().replace('_', "-");
    FLAGS.iter().any(|flag| {
        name == *flag
            || (*flag != "auth"
                && name.strip_suffix(flag).is_some_and(|rest| rest.ends_with('-') && rest != "no-"))
    })
}

/// A command line, one argument at a time: an option can make the next argument a secret.
#[derive(Debug, Default)]
pub struct Words {
    secret_next: bool,
}

impl Words {
    /// The next argument as it may be recorded.
    pub fn next(&mut self, word: &str) -> String {
        if std::mem::replace(&mut self.secret_next, is_secret_flag(word)) {
            // `--password --token x`: the second is a value or an option; both readings are honoured.
            return MARK.to_owned();
        }
        // An argument can hold spaces, so its value ends where it ends.
        if let Some((name, value)) = word.split_once('=')
            && !value.is_empty()
            && name.bytes().all(name_byte)
            && names_secret(name)
        {
            return format!("{}={MARK}", text(name));
        }
        text(word)
    }
}

/// A command line without its secrets.
#[must_use]
pub fn argv(words: &[String]) -> Vec<String> {
    let mut state = Words::default();
    words.iter().map(|word| state.next(word)).collect()
}

/// Text without its secrets.
#[must_use]
pub fn text(text: &str) -> String {
    let mut current = pass(text);
    // What is left can look like a secret only now that its neighbour is gone; it settles at once.
    for _ in 0..8 {
        let next = pass(&current);
        if next == current {
            break;
        }
        current = next;
    }
    current
}

fn name_byte(byte: u8) -> bool {
    word_byte(byte) || byte == b'.'
}

/// Whether `name=` is followed by a secret.
fn names_secret(name: &str) -> bool {
    is_secret_name(name) || is_secret_flag(name)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

fn pass(input: &str) -> String {
    let blocks;
    let mut rest = if input.contains("-----BEGIN") {
        blocks = without_key_blocks(input);
        blocks.as_str()
    } else {
        input
    };
    let mut out = String::with_capacity(rest.len());
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix(MARK) {
            out.push_str(MARK);
            rest = tail;
            continue;
        }
        let length = rest.bytes().take_while(|byte| name_byte(*byte)).count();
        let (word, after) = rest.split_at(length);
        if word.is_empty() {
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
            continue;
        }
        rest = named(&mut out, word, after).unwrap_or_else(|| {
            tokens(&mut out, word);
            after
        });
    }
    out
}

/// Handles a word that says what follows it; gives back what remains, or nothing if it is any other word.
fn named<'a>(out: &mut String, word: &str, after: &'a str) -> Option<&'a str> {
    let before = out.chars().next_back();
    if let Some(tail) = after.strip_prefix("://") {
        let (keep, remain) = after_userinfo(word, tail)?;
        tokens(out, word);
        out.push_str("://");
        out.push_str(keep);
        return Some(remain);
    }
    if word.eq_ignore_ascii_case("authorization") || word.eq_ignore_ascii_case("proxy-authorization") {
        return authorization(out, word, after);
    }
    if let Some(value) = after.strip_prefix('=')
        && names_secret(word)
    {
        tokens(out, word);
        out.push('=');
        return Some(value_gone(out, value, before));
    }
    // "name": "value"
    let spaced = after.strip_prefix(is_quote).map(str::trim_start).and_then(|tail| tail.strip_prefix(':'));
    if let Some(value) = spaced.map(str::trim_start)
        && value.starts_with(is_quote)
        && is_secret_name(word)
    {
        tokens(out, word);
        out.push_str(after.get(..after.len() - value.len()).unwrap_or_default());
        return Some(value_gone(out, value, None));
    }
    let value = after.trim_start();
    if value.len() < after.len() && !value.is_empty() && is_secret_flag(word) {
        tokens(out, word);
        out.push_str(after.get(..after.len() - value.len()).unwrap_or_default());
        return Some(value_gone(out, value, before));
    }
    None
}

/// Writes the mark instead of the value `rest` starts with, and gives back what follows the value.
fn value_gone<'a>(out: &mut String, rest: &'a str, before: Option<char>) -> &'a str {
    if let Some(quote) = rest.chars().next().filter(|c| is_quote(*c)) {
        let inner = rest.get(quote.len_utf8()..).unwrap_or_default();
        if let Some(end) = closing(inner, quote) {
            let (value, tail) = inner.split_at(end);
            out.push(quote);
            out.push_str(if value.is_empty() { "" } else { MARK });
            return tail;
        }
    }
    let end = match before {
        Some(quote) if is_quote(quote) && closing(rest, quote).is_some() => closing(rest, quote),
        Some('?' | '&') => rest.find(|c: char| c.is_whitespace() || is_quote(c) || matches!(c, '&' | '#')),
        _ => rest.find(char::is_whitespace),
    };
    let (value, tail) = rest.split_at(end.unwrap_or(rest.len()));
    out.push_str(if value.is_empty() { "" } else { MARK });
    tail
}

/// Where a quotation ends, at the latest where the window does; a quote after a backslash does not end it.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = (c == quote && !escaped) || at >= WINDOW;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// At most the first `limit` bytes of a text, in whole characters.
pub(crate) fn first(text: &str, limit: usize) -> &str {
    (limit.saturating_sub(3)..=limit).rev().find_map(|end| text.get(..end)).unwrap_or(text)
}

/// After `scheme://`: what to write instead of the user and password, and what remains after them.
fn after_userinfo<'a>(scheme: &str, tail: &'a str) -> Option<(&'static str, &'a str)> {
    let word = first(tail, WINDOW)
        .split(|c: char| c.is_whitespace() || is_quote(c) || c == '<')
        .next()
        .unwrap_or_default();
    let authority = word.split(['/', '?', '#']).next().unwrap_or_default();
    let at = match authority.rfind('@') {
        Some(at) => {
            let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            authority.get(..at).filter(|user| web || user.contains(':'))?;
            at
        }
        // A password can hold a slash that should have been escaped; a port cannot.
        None => {
            let (_, port) = authority.split_once(':')?;
            (!port.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
            word.rfind('@')?
        }
    };
    Some((MARK, tail.get(at..)?))
}

/// `Authorization: Scheme value`
fn authorization<'a>(out: &mut String, word: &str, after: &'a str) -> Option<&'a str> {
    let before = out.chars().next_back().filter(|c| is_quote(*c));
    let tail = after.strip_prefix(is_quote).unwrap_or(after).trim_start_matches([' ', '\t']);
    let tail = tail.strip_prefix([':', '=']).map(|tail| tail.trim_start_matches([' ', '\t']))?;
    let quote = tail.chars().next().filter(|c| is_quote(*c));
    let tail = tail.strip_prefix(is_quote).unwrap_or(tail);
    let scheme = tail.bytes().take_while(|byte| name_byte(*byte)).count();
    let (name, credentials) = tail.split_at(scheme);
    let known = SCHEMES.iter().any(|scheme| name.eq_ignore_ascii_case(scheme));
    let value = credentials.trim_start_matches([' ', '\t']);
    let value = if known && value.len() < credentials.len() { value } else { tail };
    let ends = |c: char| {
        matches!(c, '\n' | '\r') || Some(c) == quote.or(before) || (quote.or(before).is_none() && is_quote(c))
    };
    let (secret, remain) = value.split_at(value.find(ends).unwrap_or(value.len()));
    tokens(out, word);
    out.push_str(after.get(..after.len() - value.len()).unwrap_or_default());
    out.push_str(if secret.is_empty() { "" } else { MARK });
    Some(remain)
}

/// Writes a word without the tokens in it.
fn tokens(out: &mut String, word: &str) {
    let mut rest = word;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let alone = !before.is_some_and(|c: char| c.is_ascii_alphanumeric());
        let length = token(rest, alone);
        if length > 0 {
            out.push_str(MARK);
            before = Some(']');
        } else {
            out.push(first);
            before = Some(first);
        }
        rest = rest.get(length.max(first.len_utf8())..).unwrap_or_default();
    }
}

/// The length of the token at the start of `text`, or 0.
fn token(text: &str, alone: bool) -> usize {
    for shape in SHAPES.iter().filter(|shape| alone || !shape.alone) {
        if let Some(tail) = text.strip_prefix(shape.prefix) {
            let length = tail.bytes().take_while(|byte| (shape.rest)(*byte)).count();
            if length >= shape.least {
                return shape.prefix.len() + length;
            }
        }
    }
    if alone && text.starts_with("eyJ") { web_token(text) } else { 0 }
}

/// The length of a JSON web token: two long parts and, if present, a third.
fn web_token(text: &str) -> usize {
    let part = |from: usize| {
        text.get(from..).unwrap_or_default().bytes().take_while(|byte| word_byte(*byte)).count()
    };
    let dot = |at: usize| text.get(at..).is_some_and(|tail| tail.starts_with('.'));
    let header = first(text, WINDOW).bytes().take_while(|byte| word_byte(*byte)).count();
    let second = if dot(header) { part(header + 1) } else { 0 };
    if header < 10 || second < 10 {
        return 0;
    }
    let end = header + 1 + second;
    if dot(end) { end + 1 + part(end + 1) } else { end }
}

/// Text without blocks of private keys; a block without an end goes on to the end of the text.
fn without_key_blocks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once("-----BEGIN ") {
        out.push_str(before);
        let label = block.split("-----").next().unwrap_or_default();
        if !label.contains("PRIVATE KEY") || label.len() > 64 {
            out.push_str("-----BEGIN ");
            rest = block;
            continue;
        }
        out.push_str(MARK);
        rest = block
            .split_once("-----END ")
            .and_then(|(_, end)| end.split_once("-----"))
            .map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out
}
