//! The patterns of `patternProperties`, as far as they are simple: literal characters, `.`, classes, `* + ?` and
//! anchors, optionally in one pair of parentheses. What is not understood matches nothing, so such a name is refused
//! as unknown rather than admitted by mistake.

use std::{iter::Peekable, str::Chars};

const MOST_ATOMS: usize = 64;
const LONGEST_NAME: usize = 256;

pub(super) struct NamePattern {
    atoms: Vec<Atom>,
    from_start: bool,
    to_end: bool,
}

struct Atom {
    set: Set,
    optional: bool,
    repeated: bool,
}

enum Set {
    Any,
    One(char),
    Ranges { ranges: Vec<(char, char)>, negated: bool },
}

impl NamePattern {
    pub fn matches(pattern: &str, name: &str) -> bool {
        name.len() <= LONGEST_NAME && NamePattern::parse(pattern).is_some_and(|pattern| pattern.covers(name))
    }

    fn parse(pattern: &str) -> Option<NamePattern> {
        let (mut text, mut from_start, mut to_end) = (pattern, false, false);
        if let Some(rest) = text.strip_prefix('^') {
            (text, from_start) = (rest, true);
        }
        if let Some(rest) = text.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
            (text, to_end) = (rest, true);
        }
        if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            text = inner.strip_prefix("?:").unwrap_or(inner);
        }
        let mut atoms = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            let set = match character {
                '.' => Set::Any,
                '\\' => escaped(rest.next()?)?,
                '[' => class(&mut rest)?,
                '(' | ')' | '|' | '{' | '}' | '^' | '$' | '*' | '+' | '?' | ']' => return None,
                literal => Set::One(literal),
            };
            let (optional, repeated) = match rest.peek() {
                Some('*') => (true, true),
                Some('+') => (false, true),
                Some('?') => (true, false),
                _ => (false, false),
            };
            if optional || repeated {
                rest.next();
            }
            atoms.push(Atom { set, optional, repeated });
        }
        (atoms.len() <= MOST_ATOMS).then_some(NamePattern { atoms, from_start, to_end })
    }

    /// Follows all ways at once, so no pattern takes long.
    fn covers(&self, name: &str) -> bool {
        let mut at = vec![false; self.atoms.len() + 1];
        mark(&mut at, 0);
        self.skip_optional(&mut at);
        for character in name.chars() {
            if at.last() == Some(&true) && !self.to_end {
                return true;
            }
            let mut next = vec![false; at.len()];
            if !self.from_start {
                mark(&mut next, 0);
            }
            for (index, atom) in self.atoms.iter().enumerate() {
                if at.get(index) == Some(&true) && atom.set.has(character) {
                    mark(&mut next, index + 1);
                    if atom.repeated {
                        mark(&mut next, index);
                    }
                }
            }
            at = next;
            self.skip_optional(&mut at);
        }
        at.last() == Some(&true)
    }

    fn skip_optional(&self, at: &mut [bool]) {
        for (index, atom) in self.atoms.iter().enumerate() {
            if atom.optional && at.get(index) == Some(&true) {
                mark(at, index + 1);
            }
        }
    }
}

fn mark(at: &mut [bool], index: usize) {
    if let Some(state) = at.get_mut(index) {
        *state = true;
    }
}

impl Set {
    fn has(&self, character: char) -> bool {
        match self {
            Set::Any => !matches!(character, '\n' | '\r'),
            Set::One(one) => *one == character,
            Set::Ranges { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

fn escaped(character: char) -> Option<Set> {
    let negated = character.is_ascii_uppercase();
    let ranges = match character {
        'w' | 'W' => vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
        'd' | 'D' => vec![('0', '9')],
        's' | 'S' => vec![(' ', ' '), ('\t', '\r')],
        // `\b`, `\1`, `\u…` and their like.
        _ if character.is_ascii_alphanumeric() => return None,
        _ => return Some(Set::One(character)),
    };
    Some(Set::Ranges { ranges, negated })
}

fn class(rest: &mut Peekable<Chars<'_>>) -> Option<Set> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let first = match rest.next()? {
            ']' => return Some(Set::Ranges { ranges, negated }),
            '\\' => match escaped(rest.next()?)? {
                Set::One(one) => one,
                Set::Ranges { ranges: more, negated: false } => {
                    ranges.extend(more);
                    continue;
                }
                _ => return None,
            },
            literal => literal,
        };
        if rest.peek() != Some(&'-') {
            ranges.push((first, first));
            continue;
        }
        rest.next();
        match rest.next()? {
            ']' => {
                ranges.extend([(first, first), ('-', '-')]);
                return Some(Set::Ranges { ranges, negated });
            }
            '\\' => return None,
            last => ranges.push((first, last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_patterns_match_as_in_ecma_262() {
        for (pattern, name, expected) in [
            ("^(.*)$", "anything", true),
            (".*", "", true),
            ("^x-", "x-a", true),
            ("^x-", "ax-", false),
            ("x-", "ax-", true),
            ("^[a-z_][a-z0-9_-]*$", "a_9-b", true),
            ("^[a-z_][a-z0-9_-]*$", "9a", false),
            ("^\\d+$", "123", true),
            ("^\\d+$", "12a", false),
            ("^a?b$", "b", true),
            ("^a?b$", "aab", false),
            ("^[^/]+$", "a/b", false),
            ("^a+b$", "aaab", true),
            ("^a+b$", "b", false),
        ] {
            assert_eq!(NamePattern::matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_not_understood_matches_nothing() {
        for pattern in ["^(a|b)$", "a{2}", "(a)(b)", "(?=a)", "[", "\\", "*", "a|b", "\\bword", "[\\W]"] {
            assert!(!NamePattern::matches(pattern, "a"), "{pattern}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = format!("^{}$", "a*".repeat(60));
        assert!(NamePattern::matches(&pattern, &"a".repeat(200)));
        assert!(!NamePattern::matches(&pattern, &format!("{}b", "a".repeat(200))));
    }
}
