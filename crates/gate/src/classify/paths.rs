//! Is a text a path, and which paths may it be? Rather one too many than one too few: what is relative and wrongly
//! taken for a path lies inside the session and does no harm.

use std::path::{Path, PathBuf};

use super::{
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
    /// When it exists, or leads out of the directory it is relative to.
    IfReal,
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
        // `https://../../../etc/passwd` climbs out for who tidies it up as a path.
        TextKind::Url if !text.contains("..") => {}
        TextKind::Url => found.push(PathBuf::from(text), Keep::IfReal),
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
        let reading = Reading { path, keep };
        if !self.list.contains(&reading) {
            self.list.push(reading);
        }
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

    /// `/etc/*.conf` is about `/etc`.
    fn pattern(&mut self, text: &str) -> Result<(), PathFault> {
        let text = text.trim().trim_start_matches('!');
        let rooted = text.starts_with(['/', '~']);
        if !rooted && !text.split('/').any(|name| name == "..") {
            return Ok(());
        }
        let plain = text.split('/').take_while(|name| !name.contains(['*', '?', '[', '{', '(']));
        let plain: Vec<&str> = plain.collect();
        let mut directory = plain.join("/");
        if directory.is_empty() && text.starts_with('/') {
            directory.push('/');
        }
        if directory.len() <= LONGEST_PATH && !directory.contains('\0') {
            match directory.starts_with('~') {
                true if directory == "~" || directory.starts_with("~/") => self.below_home(&directory)?,
                true => return Err(PathFault::OtherHome),
                false if text.starts_with('/') => self.push(PathBuf::from(directory), Keep::IfRooted),
                false => self.push(PathBuf::from(directory), Keep::IfReal),
            }
        }
        // Behind a wildcard `..` leads to the parents of whatever matched.
        let (mut depth, mut lowest) = (0_i32, 0_i32);
        for name in text.split('/').skip(plain.len()) {
            depth += match name {
                ".." => -1,
                // Also stands for no directory at all.
                "" | "." | "**" => 0,
                _ => 1,
            };
            lowest = lowest.min(depth);
        }
        let ups = lowest.unsigned_abs() as usize;
        if ups > 0 {
            let mut up = PathBuf::from(plain.join("/"));
            up.extend(std::iter::repeat_n("..", ups));
            self.push(up, Keep::IfReal);
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
        if named || !prose {
            self.parts(trimmed)?;
        }
        Ok(())
    }

    /// Lists in one text (`/a,/b`, `/a:/b`) and options (`--file=/a`): each part that begins like a path.
    fn parts(&mut self, text: &str) -> Result<(), PathFault> {
        let separates = |c: char| matches!(c, ',' | ';' | ':' | '=' | '|' | '\'' | '"') || c.is_whitespace();
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

/// `$HOME/x`, `${HOME}`.
fn is_variable(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('$') else { return false };
    rest.starts_with(|c: char| c == '{' || c == '(' || c == '_' || c.is_ascii_alphabetic())
}
