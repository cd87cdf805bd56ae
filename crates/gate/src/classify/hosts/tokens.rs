//! URLs in values without a telling name: a value that consists of nothing but URLs names hosts, however they are
//! wrapped (`<https://…>`, `--url=https://…`) or spaced.

use super::{Found, SPECIAL, has_authority, scheme_of, url};

/// A longer one is text.
const LONGEST: usize = 4096;

/// The hosts of a text that is made of URLs only; none for every other text.
pub(super) fn hosts(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    if text.len() > LONGEST || !text.contains(':') {
        return found;
    }
    for token in text.split(is_space).filter(|token| !token.is_empty()) {
        let token = token.trim_matches(is_wrapping);
        // `--url https://…`
        if token.is_empty() || token.starts_with('-') && !token.contains('=') {
            continue;
        }
        let token = match token.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value.trim_matches(is_wrapping),
            _ => token,
        };
        match host(token) {
            Some(host) => found.push(host),
            None => return Vec::new(),
        }
    }
    found
}

fn host(token: &str) -> Option<Found> {
    let (scheme, rest) = scheme_of(token)?;
    let scheme = scheme.to_ascii_lowercase();
    // `http:80` is a port.
    if rest.parse::<u16>().is_ok_and(|port| port != 0) {
        return None;
    }
    let is_url = SPECIAL.contains(&scheme.as_str()) || has_authority(token) && scheme != "file";
    is_url.then(|| url(token, &scheme, rest).ok().flatten()).flatten()
}

/// White space, control characters, and what does not show.
fn is_space(c: char) -> bool {
    let hidden =
        matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    hidden || c.is_whitespace() || c.is_control()
}

fn is_wrapping(c: char) -> bool {
    matches!(c, '<' | '>' | '(' | ')' | '[' | ']' | '{' | '}' | '"' | '\'' | '`' | ',' | ';')
}
