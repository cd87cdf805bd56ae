//! Names that are judged by pattern: what may not be written, what may not be read, and what came into being
//! inside and is therefore the command's own.

use std::{
    cell::RefCell,
    collections::HashSet,
    ffi::OsStr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::walk::Place;
use crate::pattern::{New, Pattern};

/// So many things of its own are remembered; what comes after them counts as the host's.
const MOST_OWN: usize = 200_000;
/// A directory with more than this in it is not looked through, and not moved.
const MOST_LOOKED_AT: usize = 50_000;

#[derive(Debug, Default)]
pub struct Shield {
    pub protected: Vec<Pattern>,
    pub hidden: Vec<Pattern>,
    own: RefCell<HashSet<(u64, u64)>>,
}

/// Which of two ends of a rename.
struct Ends<'a> {
    from: &'a Path,
    to: &'a Path,
}

impl Shield {
    pub fn new(protected: Vec<Pattern>, hidden: Vec<Pattern>) -> Self {
        Shield { protected, hidden, own: RefCell::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.protected.is_empty() && self.hidden.is_empty()
    }

    /// It was made inside.
    pub fn remember(&self, stat: &Stat) {
        let mut own = self.own.borrow_mut();
        if own.len() < MOST_OWN {
            own.insert((stat.st_dev, stat.st_ino));
        }
    }

    fn is_own(&self, stat: &Stat) -> bool {
        self.own.borrow().contains(&(stat.st_dev, stat.st_ino))
    }

    /// Is it the host's, and not to be read? `stat` is what is there, if anything is.
    pub fn hides(&self, path: &Path, stat: Option<&Stat>) -> bool {
        stat.is_some_and(|stat| !self.is_own(stat))
            && self.hidden.iter().any(|pattern| pattern.covers(path).is_some())
    }

    pub fn protects(&self, path: &Path) -> bool {
        self.protected.iter().any(|pattern| self.holds(pattern, path))
    }

    fn holds(&self, pattern: &Pattern, path: &Path) -> bool {
        let Some(matched) = pattern.covers(path) else { return false };
        match (pattern.new, matched.parent()) {
            (New::Free, Some(parent)) => !rustix::fs::lstat(parent).is_ok_and(|stat| self.is_own(&stat)),
            _ => true,
        }
    }

    /// A link of this name would put something else under a protected name that begins with it.
    pub fn forbids_link(&self, path: &Path) -> bool {
        let mut covered = self.protected.iter().filter(|pattern| pattern.new == New::Covered);
        covered.any(|pattern| pattern.begins_with_name_of(path))
    }

    /// May what is at `place` be moved? A directory takes along what is in it: nothing protected may come to
    /// be in this way, and what is free in a new directory must not have been taken out of an old one.
    pub fn forbids_move(&self, place: &Place, from: &Path, to: &Path) -> Result<bool, Errno> {
        if self.protected.is_empty() {
            return Ok(false);
        }
        let stat = match rustix::fs::statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // The move will fail in the same way.
            Err(_) => return Ok(false),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Ok(self.forbids_link(to)),
            FileType::Directory => {
                let directory = open_directory(place.parent.as_fd(), &place.name)?;
                let mut left = MOST_LOOKED_AT;
                self.forbids_below(directory, &Ends { from, to }, &mut left)
            }
            _ => Ok(false),
        }
    }

    fn forbids_below(&self, directory: OwnedFd, ends: &Ends<'_>, left: &mut usize) -> Result<bool, Errno> {
        let mut waiting: Vec<(OwnedFd, PathBuf)> = vec![(directory, PathBuf::new())];
        while let Some((directory, relative)) = waiting.pop() {
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return Ok(true);
                }
                let name = Path::new(OsStr::from_bytes(name.to_bytes()));
                let below = relative.join(name);
                let (old, new) = (ends.from.join(&below), ends.to.join(&below));
                let loses = |pattern: &&Pattern| pattern.new == New::Free && self.holds(pattern, &old);
                let gains =
                    |pattern: &&Pattern| pattern.new == New::Covered && pattern.covers(&new).is_some();
                let covered = self.protected.iter().any(|pattern| pattern.covers(&old).is_some());
                if self.protected.iter().any(|pattern| loses(&pattern) || (!covered && gains(&pattern))) {
                    return Ok(true);
                }
                if entry.file_type() == FileType::Directory {
                    waiting.push((open_directory(directory.as_fd(), entry.file_name())?, below));
                }
            }
        }
        Ok(false)
    }
}

fn open_directory(base: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(base, name, flags, Mode::empty())
}
