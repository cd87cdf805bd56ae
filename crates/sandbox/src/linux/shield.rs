//! Names that are judged by pattern: what may not be written, what may not be read, and what came into being
//! inside and is therefore the command's own.

use std::{
    cell::RefCell,
    collections::HashSet,
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags},
    io::Errno,
};

use super::walk::Place;
use crate::pattern::{New, Pattern};

/// So many things of its own are remembered; what comes after them counts as the host's.
const MOST_OWN: usize = 200_000;
/// A directory with more than this in it is not looked through, and not moved.
const MOST_LOOKED_AT: usize = 100_000;

/// One object: a number that is used again belongs to something of another birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

#[derive(Debug, Default)]
pub struct Shield {
    protected: Vec<Pattern>,
    hidden: Vec<Pattern>,
    own: RefCell<HashSet<Identity>>,
}

impl Shield {
    pub fn new(protected: Vec<Pattern>, hidden: Vec<Pattern>) -> Self {
        Shield { protected, hidden, own: RefCell::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.protected.is_empty() && self.hidden.is_empty()
    }

    /// What is at a place, if anything is and if it matters.
    pub fn identity(&self, place: &Place) -> Option<Identity> {
        if self.is_empty() { None } else { identity(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW) }
    }

    pub fn identity_of(&self, object: BorrowedFd<'_>) -> Option<Identity> {
        if self.is_empty() { None } else { identity(object, c"", AtFlags::EMPTY_PATH) }
    }

    /// It was made inside.
    pub fn remember(&self, place: &Place) {
        self.keep(self.identity(place));
    }

    pub fn remember_object(&self, object: BorrowedFd<'_>) {
        self.keep(self.identity_of(object));
    }

    fn keep(&self, made: Option<Identity>) {
        let mut own = self.own.borrow_mut();
        if own.len() < MOST_OWN {
            own.extend(made);
        }
    }

    /// It is gone. (What has another name is only no longer known as its own.)
    pub fn forget(&self, gone: Option<Identity>) {
        if let Some(gone) = gone {
            self.own.borrow_mut().remove(&gone);
        }
    }

    fn is_own(&self, identity: Option<Identity>) -> bool {
        identity.is_some_and(|identity| self.own.borrow().contains(&identity))
    }

    /// Is it the host's, and not to be read? `what` is what is there, if anything is.
    pub fn hides(&self, path: &Path, what: Option<Identity>) -> bool {
        what.is_some()
            && !self.is_own(what)
            && self.hidden.iter().any(|pattern| pattern.covers(path).is_some())
    }

    /// The same for a link by its own name.
    pub fn hides_name(&self, path: &Path) -> bool {
        self.hides(path, identity(CWD, path, AtFlags::SYMLINK_NOFOLLOW))
    }

    pub fn protects(&self, path: &Path) -> bool {
        self.protected.iter().any(|pattern| self.holds(pattern, path))
    }

    fn holds(&self, pattern: &Pattern, path: &Path) -> bool {
        let Some(matched) = pattern.covers(path) else { return false };
        match pattern.new {
            New::Covered => true,
            New::Free => !self.is_in_own(&matched),
            New::OnlyOldFiles => {
                let old = rustix::fs::lstat(&matched)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory);
                old && !self.is_own(identity(CWD, &matched, AtFlags::SYMLINK_NOFOLLOW))
            }
        }
    }

    /// Does it lie in a directory that was made inside?
    fn is_in_own(&self, path: &Path) -> bool {
        let parent = path.parent().unwrap_or(path);
        self.is_own(identity(CWD, parent, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// A link of this name would put something else under a protected name that begins with it.
    pub fn forbids_link(&self, path: &Path) -> bool {
        self.protected.iter().any(|pattern| {
            pattern.has_begun_with(path)
                && match pattern.new {
                    New::Covered => true,
                    New::Free => !self.is_in_own(path),
                    New::OnlyOldFiles => false,
                }
        })
    }

    /// May what is at `place` be moved? A directory takes along what is in it: nothing protected may come to be
    /// in this way, nor stop to be, and what is free in a new directory must not have been taken out of an old
    /// one.
    pub fn forbids_move(&self, place: &Place, from: &Path, to: &Path) -> Result<bool, Errno> {
        if self.is_empty() {
            return Ok(false);
        }
        let Ok(stat) = rustix::fs::statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW) else {
            // The move will fail in the same way.
            return Ok(false);
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Ok(self.forbids_link(to)),
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let top = rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())?;
                self.forbids_below(&top, from, to)
            }
            _ => Ok(false),
        }
    }

    fn forbids_below(&self, top: &OwnedFd, from: &Path, to: &Path) -> Result<bool, Errno> {
        let mut waiting = vec![PathBuf::new()];
        let mut left = MOST_LOOKED_AT;
        while let Some(relative) = waiting.pop() {
            let directory = open_below(top, &relative)?;
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(true);
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => {
                        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                        FileType::from_raw_mode(stat.st_mode)
                    }
                    kind => kind,
                };
                let below = relative.join(name);
                if self.forbids_taking_along(name, kind, &from.join(&below), &to.join(&below)) {
                    return Ok(true);
                }
                if kind == FileType::Directory {
                    waiting.push(below);
                }
            }
        }
        Ok(false)
    }

    /// What is in a directory that is moved. A pattern that covers something is met where it ends.
    fn forbids_taking_along(&self, name: &OsStr, kind: FileType, old: &Path, new: &Path) -> bool {
        let name = name.as_bytes();
        if kind == FileType::Symlink && self.forbids_link(new) && !self.forbids_link(old) {
            return true;
        }
        let ends = |pattern: &&Pattern| pattern.may_end_with(name);
        self.protected.iter().filter(ends).any(|pattern| {
            let (was, will) = (self.holds(pattern, old), pattern.covers(new).is_some());
            match pattern.new {
                New::Covered => was != will,
                // Room would be made for another.
                New::Free | New::OnlyOldFiles => was,
            }
        }) || self.hidden.iter().filter(ends).any(|pattern| {
            pattern.covers(old).is_some()
                && pattern.covers(new).is_none()
                && !self.is_own(identity(CWD, old, AtFlags::SYMLINK_NOFOLLOW))
        })
    }
}

fn identity(base: impl AsFd, name: impl rustix::path::Arg, flags: AtFlags) -> Option<Identity> {
    let stat = rustix::fs::statx(base, name, flags, StatxFlags::INO | StatxFlags::BTIME).ok()?;
    Some(Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        born: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
    })
}

fn open_below(top: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(top, relative, flags, Mode::empty(), resolve)
}
