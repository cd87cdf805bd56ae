//! Paths as srt reads them: `~` is the home, the rest is relative to where the command starts, and a `/**` at
//! the end says nothing.

use std::path::{Component, Path, PathBuf};

use crate::settings::{PathEntry, Reading};

/// What an entry means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    Path(PathBuf),
    Pattern(PathBuf),
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("`{0}` is in the home directory, and there is none: set HOME")]
    NoHome(String),
    #[error("`{0}` begins with the name of a user, which is not looked up: write the whole path")]
    User(String),
    #[error("a path is empty")]
    Empty,
}

/// Absolute, without `.` and `..`.
pub fn absolute(text: &str, directory: &Path, home: Option<&Path>) -> Result<PathBuf, PathFault> {
    let path = match (text.strip_prefix('~'), home) {
        _ if text.trim().is_empty() => return Err(PathFault::Empty),
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        (Some(rest), None) if rest.is_empty() || rest.starts_with('/') => {
            return Err(PathFault::NoHome(text.to_owned()));
        }
        (Some(_), _) => return Err(PathFault::User(text.to_owned())),
        (None, _) => directory.join(text),
    };
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            _ => {}
        }
    }
    Ok(normal)
}

pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', ']'])
}

/// An entry as a path, or as a pattern.
pub fn meaning(entry: &PathEntry, directory: &Path, home: Option<&Path>) -> Result<Meaning, PathFault> {
    let mut text = entry.path.as_str();
    if entry.reading == Reading::MayBePattern {
        while let Some(rest) = text.strip_suffix("/**").or_else(|| text.strip_suffix("/**/")) {
            text = if rest.is_empty() { "/" } else { rest };
        }
    }
    let path = absolute(text, directory, home)?;
    // A name that exists is that name, whatever is in it.
    if entry.reading == Reading::Literal || !is_pattern(text) || path.symlink_metadata().is_ok() {
        Ok(Meaning::Path(path))
    } else {
        Ok(Meaning::Pattern(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Meaning {
        let entry = PathEntry { path: text.to_owned(), reading: Reading::MayBePattern };
        meaning(&entry, Path::new("/no/where"), Some(Path::new("/home/u"))).unwrap()
    }

    #[test]
    fn a_home_that_is_not_known_is_no_place() {
        let nowhere = |text| absolute(text, Path::new("/w"), None);
        assert_eq!(nowhere("~/.ssh"), Err(PathFault::NoHome("~/.ssh".to_owned())));
        assert_eq!(nowhere("~other/x"), Err(PathFault::User("~other/x".to_owned())));
        assert_eq!(nowhere(" "), Err(PathFault::Empty));
    }

    #[test]
    fn paths_are_made_absolute_as_srt_does() {
        for (text, meant) in [
            (".", "/no/where"),
            ("a/../b", "/no/where/b"),
            ("../x", "/no/x"),
            ("~", "/home/u"),
            ("~/.ssh", "/home/u/.ssh"),
            ("/etc/", "/etc"),
            ("src/**", "/no/where/src"),
            ("/**", "/"),
        ] {
            assert_eq!(read(text), Meaning::Path(meant.into()), "{text}");
        }
    }

    #[test]
    fn wildcards_make_a_pattern_unless_they_are_said_to_be_none() {
        assert_eq!(read("**/*.pem"), Meaning::Pattern("/no/where/**/*.pem".into()));
        let literal = PathEntry { path: "*.pem".to_owned(), reading: Reading::Literal };
        assert_eq!(meaning(&literal, Path::new("/w"), None), Ok(Meaning::Path("/w/*.pem".into())));
    }
}
