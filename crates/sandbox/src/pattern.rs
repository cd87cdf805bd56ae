//! Patterns of absolute paths: what init compares a name with before it acts on it.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A path in which a component may hold `*`, `?` and `[…]`, and `**` stands for any number of components. It
/// covers what it matches and everything below that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// As a person would write it.
    written: String,
    /// Does it cover what lies in a directory that was made inside?
    pub new: New,
}

/// Whether a pattern covers what the command makes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum New {
    Covered,
    /// Not when the directory that holds the match came into being inside.
    Free,
    /// Only what is there already, and neither a directory nor made inside.
    OnlyOldFiles,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Segment {
    /// `**`
    Any,
    Name(Vec<u8>),
    Glob(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `*`
    Many,
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern is not absolute")]
    Relative,
    #[error("the pattern contains `..`")]
    Parent,
    #[error("the pattern is too long")]
    TooLong,
    #[error("a `[` has no `]`")]
    Unclosed,
}

const MAX_SEGMENTS: usize = 64;
const MAX_LENGTH: usize = 4096;

/// Does a path hold characters that mean something in a pattern?
pub fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

impl Pattern {
    /// A path as it is: no character has a meaning.
    pub fn literal(path: &Path) -> Pattern {
        Pattern {
            segments: path.components().filter_map(name).map(Segment::Name).collect(),
            written: path.to_string_lossy().into_owned(),
            new: New::Covered,
        }
    }

    /// Names that hang together, wherever they are below a directory.
    pub fn below(directory: &Path, names: &Path, new: New) -> Result<Pattern, PatternError> {
        let mut segments = Pattern::literal(directory).segments;
        segments.push(Segment::Any);
        segments.extend(Pattern::parse(&Path::new("/").join(names))?.segments);
        let written = directory.join("**").join(names).to_string_lossy().into_owned();
        Ok(Pattern { segments, written, new })
    }

    pub fn parse(path: &Path) -> Result<Pattern, PatternError> {
        if !path.is_absolute() {
            return Err(PatternError::Relative);
        }
        let mut segments = Vec::new();
        if path.as_os_str().len() > MAX_LENGTH {
            return Err(PatternError::TooLong);
        }
        for component in path.components() {
            match component {
                // Two of them say nothing that one does not.
                Component::Normal(name) if name == "**" && segments.last() == Some(&Segment::Any) => {}
                Component::Normal(name) if name == "**" => segments.push(Segment::Any),
                Component::Normal(name) => segments.push(segment(name.as_bytes())?),
                Component::ParentDir => return Err(PatternError::Parent),
                _ => {}
            }
        }
        // "Everything below" is covered anyway.
        while segments.len() > 1 && segments.last() == Some(&Segment::Any) {
            segments.pop();
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(PatternError::TooLong);
        }
        Ok(Pattern { segments, written: path.to_string_lossy().into_owned(), new: New::Covered })
    }

    /// The part of `path` that matches, if it or something above it does: the shortest one.
    pub fn covers(&self, path: &Path) -> Option<PathBuf> {
        let names = components(path);
        let length = self.matched(&names)?;
        let mut matched = PathBuf::from("/");
        names.iter().take(length).for_each(|name| matched.push(OsStr::from_bytes(name)));
        Some(matched)
    }

    /// Has a match begun with `path` that only needs more names? What floats has begun with nothing yet.
    pub fn has_begun_with(&self, path: &Path) -> bool {
        let names: Vec<&[u8]> = components(path);
        // After `**` what stands behind it may come at once, without anything having been seen.
        let floating = self.segments.iter().position(|segment| *segment == Segment::Any);
        let unseen = floating.map_or(0, |at| at + 1);
        let mut states = self.begin();
        for text in &names {
            states = self.next(&states, text);
        }
        states.iter().enumerate().any(|(at, state)| *state && at > unseen && at < self.segments.len())
    }

    /// Can a shortest match end with this name?
    pub fn may_end_with(&self, name: &[u8]) -> bool {
        self.segments.last().is_none_or(|last| last.is(name))
    }

    /// How many names the shortest match takes. Which segments may come next is known after each name: there is
    /// no going back, whatever the pattern is.
    fn matched(&self, names: &[&[u8]]) -> Option<usize> {
        let mut states = self.begin();
        let done = |states: &[bool]| states.last() == Some(&true);
        if done(&states) {
            return Some(0);
        }
        for (number, text) in names.iter().enumerate() {
            states = self.next(&states, text);
            if done(&states) {
                return Some(number + 1);
            }
        }
        None
    }

    fn begin(&self) -> Vec<bool> {
        let mut states = vec![false; self.segments.len() + 1];
        self.enter(&mut states, 0);
        states
    }

    fn next(&self, states: &[bool], text: &[u8]) -> Vec<bool> {
        let mut next = vec![false; states.len()];
        for (at, segment) in self.segments.iter().enumerate() {
            if states.get(at) != Some(&true) {
                continue;
            }
            match segment {
                Segment::Any => self.enter(&mut next, at),
                other if other.is(text) => self.enter(&mut next, at + 1),
                _ => {}
            }
        }
        next
    }

    /// `**` may stand for nothing, so what is behind it may come at once.
    fn enter(&self, states: &mut [bool], mut at: usize) {
        loop {
            if let Some(state) = states.get_mut(at) {
                *state = true;
            }
            match self.segments.get(at) {
                Some(Segment::Any) => at += 1,
                _ => break,
            }
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.written)
    }
}

impl Segment {
    fn is(&self, text: &[u8]) -> bool {
        match self {
            Segment::Any => true,
            Segment::Name(name) => name == text,
            Segment::Glob(tokens) => glob(tokens, text),
        }
    }
}

fn components(path: &Path) -> Vec<&[u8]> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.as_bytes()),
            _ => None,
        })
        .collect()
}

fn name(component: Component<'_>) -> Option<Vec<u8>> {
    match component {
        Component::Normal(name) => Some(name.as_bytes().to_vec()),
        _ => None,
    }
}

fn segment(text: &[u8]) -> Result<Segment, PatternError> {
    if !text.iter().any(|byte| b"*?[".contains(byte)) {
        return Ok(Segment::Name(text.to_vec()));
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        tokens.push(match first {
            b'?' => Token::One,
            b'*' => {
                if tokens.last() == Some(&Token::Many) {
                    continue;
                }
                Token::Many
            }
            b'[' => {
                let (class, after) = class(tail)?;
                rest = after;
                class
            }
            byte => Token::Byte(*byte),
        });
    }
    Ok(Segment::Glob(tokens))
}

/// What stands between `[` and `]`; a `]` that comes first is one of the characters.
fn class(text: &[u8]) -> Result<(Token, &[u8]), PatternError> {
    let (negated, mut rest) = match text.split_first() {
        Some((b'!' | b'^', tail)) => (true, tail),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        rest = match rest {
            [b']', tail @ ..] if !ranges.is_empty() => return Ok((Token::Class { negated, ranges }, tail)),
            [from, b'-', to, tail @ ..] if *to != b']' => {
                ranges.push((*from, *to));
                tail
            }
            [byte, tail @ ..] => {
                ranges.push((*byte, *byte));
                tail
            }
            [] => return Err(PatternError::Unclosed),
        };
    }
}

/// One component: remembers the last `*` only, which is enough and takes no more than length times length.
fn glob(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        let byte = text.get(at).copied().unwrap_or_default();
        let one = match tokens.get(token) {
            Some(Token::Byte(wanted)) => *wanted == byte,
            Some(Token::One) => true,
            Some(Token::Class { negated, ranges }) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte)) != *negated
            }
            Some(Token::Many) => {
                star = Some((token, at));
                token += 1;
                continue;
            }
            None => false,
        };
        if one {
            (token, at) = (token + 1, at + 1);
        } else if let Some((star_token, star_at)) = star {
            star = Some((star_token, star_at + 1));
            (token, at) = (star_token + 1, star_at + 1);
        } else {
            return false;
        }
    }
    tokens.iter().skip(token).all(|token| *token == Token::Many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, path: &str) -> bool {
        Pattern::parse(Path::new(pattern)).unwrap().covers(Path::new(path)).is_some()
    }

    #[test]
    fn a_pattern_covers_what_it_matches_and_everything_below() {
        for (pattern, yes, no) in [
            (
                "/a/*.pem",
                vec!["/a/x.pem", "/a/.pem", "/a/x.pem/deep"],
                vec!["/a/b/x.pem", "/a/x.pemm", "/x.pem"],
            ),
            ("/a/**/*.pem", vec!["/a/x.pem", "/a/b/c/x.pem"], vec!["/b/x.pem", "/a"]),
            ("/**/id_?sa", vec!["/id_rsa", "/x/id_dsa/y"], vec!["/id_rrsa"]),
            ("/a/[a-c]x/[!z]", vec!["/a/bx/y"], vec!["/a/dx/y", "/a/bx/z"]),
            ("/a/**", vec!["/a", "/a/b"], vec!["/b"]),
            ("/a/**/b/**/c", vec!["/a/b/c", "/a/1/b/2/3/c/4"], vec!["/a/c/b"]),
            ("/[]x]", vec!["/]", "/x"], vec!["/y"]),
        ] {
            for path in yes {
                assert!(covers(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!covers(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn names_that_hang_together_are_found_at_any_depth_below_a_directory() {
        let hooks = Pattern::below(Path::new("/w"), Path::new(".git/hooks"), New::Free).unwrap();
        let matched = |path: &str| hooks.covers(Path::new(path));
        assert_eq!(matched("/w/.git/hooks/pre-commit"), Some("/w/.git/hooks".into()));
        assert_eq!(matched("/w/a/b/.git/hooks"), Some("/w/a/b/.git/hooks".into()));
        assert_eq!(matched("/w/.git/info/hooks"), None);
        assert_eq!(matched("/x/.git/hooks"), None);
        let begun = |pattern: &Pattern, path: &str| pattern.has_begun_with(Path::new(path));
        assert!(begun(&hooks, "/w/a/.git"));
        assert!(!begun(&hooks, "/w/a/hooks") && !begun(&hooks, "/w") && !begun(&hooks, "/x/.git"));
        let modules = Pattern::below(Path::new("/w"), Path::new(".git/modules/**/hooks"), New::Free).unwrap();
        assert!(begun(&modules, "/w/.git/modules/sub") && begun(&modules, "/w/.git"));
        assert!(!begun(&modules, "/w/.github"));
        let literal = Pattern::literal(Path::new("/w/deep/er/key"));
        assert!(begun(&literal, "/w/deep") && begun(&literal, "/w/deep/er") && !begun(&literal, "/w/else"));
        assert!(!begun(
            &Pattern::below(Path::new("/w"), Path::new(".bashrc"), New::Covered).unwrap(),
            "/w/a"
        ));
    }

    #[test]
    fn a_literal_path_gives_no_character_a_meaning() {
        let literal = Pattern::literal(Path::new("/a/*.pem"));
        assert!(literal.covers(Path::new("/a/*.pem/x")).is_some());
        assert!(literal.covers(Path::new("/a/x.pem")).is_none());
    }

    #[test]
    fn what_is_no_pattern_is_said_to_be_none() {
        for (text, error) in [
            ("a/b", PatternError::Relative),
            ("/a/../b", PatternError::Parent),
            ("/a/[b", PatternError::Unclosed),
            ("/[]", PatternError::Unclosed),
        ] {
            assert_eq!(Pattern::parse(Path::new(text)), Err(error), "{text}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_long_time() {
        let pattern = Pattern::parse(Path::new(&format!("/{}b", "**/a*".repeat(20)))).unwrap();
        let path = format!("/{}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/".repeat(60));
        let started = std::time::Instant::now();
        assert!(pattern.covers(Path::new(&path)).is_none());
        assert!(started.elapsed().as_secs() < 2);
    }
}
