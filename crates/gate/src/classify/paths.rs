//! Is a text a path, and which paths may it be? Rather one too many than one too few: what is relative and wrongly
//! taken for a path lies inside the session and does no harm.

use std::path::{Path, PathBuf};

use super::{
    patterns::{self, Beginning},
    resolve::{LONGEST_PATH, PathFault},
    words::{Roles, Strength},
};

/// One way to read a text as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub path: PathBuf,
    pub keep: Keep,
}

/// When a reading counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Always,
    /// When its first name exists: `/etc/x` does, `/help` does not.
    IfRooted,
    /// When its first name exists, or it leads out of the directory it is relative to.
    IfBegun,
    /// When it exists, or leads out of the directory it is relative to.
    IfReal,
    /// The last name is a pattern, and links that it may match count.
    Links,
}

/// All paths that a text may be.
pub(super) fn readings(
    text: &str,
    roles: Roles,
    home: Option<&Path>,
    kind: TextKind,
) -> Result<Vec<Reading>, PathFault> {
    let mut found = Readings { home, list: Vec::new() };
    if text.is_empty() {
        if roles.path == Some(Strength::Certain) {
            found.push(PathBuf::from("."), Keep::IfReal);
        }
        return Ok(found.list);
    }
    match kind {
        TextKind::Url => found.url(text, roles)?,
        TextKind::Other if roles.text => found.free_text(text)?,
        TextKind::Other if roles.pattern => found.pattern(text)?,
        TextKind::Other => found.name(text, roles)?,
    }
    Ok(found.list)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// With a host.
    Url,
    Other,
}

struct Readings<'a> {
    home: Option<&'a Path>,
    list: Vec<Reading>,
}

impl Readings<'_> {
    fn push(&mut self, path: PathBuf, keep: Keep) {
        // Bytes are quicker to compare than the names of paths, and lists can be long.
        let same = |it: &Reading| it.keep == keep && it.path.as_os_str() == path.as_os_str();
        if !self.list.iter().any(same) {
            self.list.push(Reading { path, keep });
        }
    }

    /// `https:` can be the name of a directory, and `https://../../../etc/passwd` climbs out for who tidies it up as a
    /// path.
    fn url(&mut self, text: &str, roles: Roles) -> Result<(), PathFault> {
        let named = roles.path.is_some();
        self.push(PathBuf::from(text), if named { Keep::IfBegun } else { Keep::IfReal });
        if named {
            let separates = |c: char| matches!(c, ',' | ';' | '|' | '\'' | '"') || c.is_whitespace();
            let parts = text.split(separates).filter(|part| !part.is_empty() && *part != text);
            parts.filter(|part| !part.contains("://")).try_for_each(|part| self.part(part, roles))?;
        }
        Ok(())
    }

    /// Only when the whole text is an absolute path, one from home, or one upwards.
    fn free_text(&mut self, text: &str) -> Result<(), PathFault> {
        let text = text.trim();
        if text.len() > LONGEST_PATH || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Ok(());
        }
        if text.starts_with('/') {
            self.push(PathBuf::from(text), Keep::IfRooted);
        } else if text == "~" || text.starts_with("~/") {
            self.below_home(text)?;
        } else if text.starts_with("../") {
            self.push(PathBuf::from(text), Keep::IfReal);
        }
        Ok(())
    }

    /// About the directory that it begins in, as far up as it leads.
    fn pattern(&mut self, text: &str) -> Result<(), PathFault> {
        let text = text.trim().trim_start_matches('!');
        if text.len() > LONGEST_PATH || text.contains('\0') {
            return Ok(());
        }
        for Beginning { directory, ups, through } in patterns::beginnings(text)? {
            let rooted = directory.starts_with('/');
            if directory == "~" || directory.starts_with("~/") {
                self.below_home(&directory)?;
            } else if names_user(&directory) {
                return Err(PathFault::OtherHome);
            } else if !directory.is_empty() || text.split('/').any(|name| name == "..") {
                let keep = if rooted { Keep::IfRooted } else { Keep::IfReal };
                self.push(PathBuf::from(&directory), keep);
            }
            if let Some(through) = through {
                self.push(Path::new(&directory).join(through), Keep::Links);
            }
            if ups > 0 {
                let mut up = PathBuf::from(directory);
                up.extend(std::iter::repeat_n("..", ups));
                self.push(up, Keep::IfReal);
            }
        }
        // For who knows no patterns it is a name.
        if !text.starts_with(['/', '~']) && !text.contains("..") {
            self.push(PathBuf::from(text), Keep::IfReal);
        }
        Ok(())
    }

    /// Anything that is neither free text nor a pattern.
    fn name(&mut self, text: &str, roles: Roles) -> Result<(), PathFault> {
        let trimmed = text.trim();
        let named = roles.path.is_some();
        let certain = roles.path == Some(Strength::Certain);
        let rooted = trimmed.starts_with('/') || trimmed == "~" || trimmed.starts_with("~/");
        let dotted = matches!(trimmed, "." | "..") || trimmed.starts_with("./") || trimmed.starts_with("../");
        let prose = trimmed.contains(|c: char| c.is_whitespace() || c.is_control());
        if text.contains('\0') && (certain || rooted || dotted) {
            return Err(PathFault::Nul);
        }
        if text.len() > LONGEST_PATH {
            // The kernel would not take it, but a program that tidies it up first might.
            return if certain || (rooted || dotted) && !prose { Err(PathFault::TooLong) } else { Ok(()) };
        }
        if text.contains('\0') {
            return Ok(());
        }
        if trimmed.starts_with('~') && (rooted || named || trimmed.contains('/') && !prose) {
            self.below_home(trimmed)?;
        } else if named && is_variable(trimmed) {
            return Err(PathFault::Variable);
        } else if rooted {
            let keep = if prose && !named { Keep::IfRooted } else { Keep::Always };
            self.push(PathBuf::from(trimmed), keep);
        } else if dotted || certain || named && !prose {
            self.push(PathBuf::from(trimmed), Keep::Always);
        } else {
            self.push(PathBuf::from(trimmed), Keep::IfReal);
        }
        if trimmed != text {
            self.push(PathBuf::from(text), if named { Keep::Always } else { Keep::IfReal });
        }
        if named && patterns::has_groups(trimmed) {
            self.pattern(trimmed)?;
        }
        if named {
            self.list(trimmed, roles)?;
        } else if !prose {
            self.parts(trimmed)?;
        }
        Ok(())
    }

    /// Options and lists in an argument that need not be about paths: each further part that begins like one.
    fn parts(&mut self, text: &str) -> Result<(), PathFault> {
        for part in text.split(separates).skip(1) {
            if part.starts_with('/') {
                self.push(PathBuf::from(part), Keep::IfRooted);
            } else if part.starts_with("~/") {
                self.below_home(part)?;
            } else if part.starts_with("../") {
                self.push(PathBuf::from(part), Keep::IfReal);
            }
        }
        Ok(())
    }

    /// Lists in one text (`/a,/b`, `a b`, `["a"]`) in an argument for paths: each part that is absolute, from home, or
    /// there.
    fn list(&mut self, text: &str, roles: Roles) -> Result<(), PathFault> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if inner.is_some()
            && let Ok(names) = serde_json::from_str::<Vec<serde_json::Value>>(text)
        {
            // Written with escapes, a name is not found by splitting.
            names.iter().filter_map(|name| name.as_str()).try_for_each(|name| self.part(name, roles))?;
        }
        let inner = inner.unwrap_or(text);
        let parts = inner.split(separates).map(str::trim).filter(|part| !part.is_empty() && *part != text);
        parts.into_iter().try_for_each(|part| self.part(part, roles))
    }

    fn part(&mut self, part: &str, roles: Roles) -> Result<(), PathFault> {
        if part.starts_with('/') {
            let certain = roles.path == Some(Strength::Certain);
            self.push(PathBuf::from(part), if certain { Keep::Always } else { Keep::IfRooted });
        } else if part == "~" || part.starts_with("~/") {
            self.below_home(part)?;
        } else if names_user(part) {
            return Err(PathFault::OtherHome);
        } else {
            self.push(PathBuf::from(part), Keep::IfReal);
        }
        Ok(())
    }

    /// `~` and `~/…`; and as it stands, for programs that do not know `~`.
    fn below_home(&mut self, text: &str) -> Result<(), PathFault> {
        let below = match text.strip_prefix('~') {
            Some("") => "",
            Some(below) if below.starts_with('/') => below.trim_start_matches('/'),
            _ => return Err(PathFault::OtherHome),
        };
        let home = self.home.ok_or(PathFault::NoHome)?;
        self.push(home.join(below), Keep::Always);
        self.push(PathBuf::from(text), Keep::IfReal);
        Ok(())
    }
}

/// What stands between the paths of a list, and before the value of an option.
fn separates(c: char) -> bool {
    matches!(c, ',' | ';' | ':' | '=' | '|' | '\'' | '"' | '`') || c.is_whitespace()
}

/// `~user`.
fn names_user(text: &str) -> bool {
    text.strip_prefix('~').is_some_and(|name| name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()))
}

/// `$HOME/x`, `${HOME}`.
fn is_variable(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('$') else { return false };
    rest.starts_with(|c: char| c == '{' || c == '(' || c == '_' || c.is_ascii_alphabetic())
}
