//! How a directory is reached: from a root, by descriptor, without a link on the way and without leaving
//! the filesystem. Nothing that is exchanged meanwhile can lead elsewhere, and a path may be of any length.

use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

/// Well below PATH_MAX: longer paths are walked in pieces.
const PIECE: usize = 4000;
/// How often a walk is repeated that the kernel gave up because of a rename elsewhere (`EAGAIN`).
const ATTEMPTS: usize = 16;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

fn open_one(
    from: BorrowedFd<'_>,
    path: &OsStr,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut result = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        result = rustix::fs::openat2(from, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

/// Opens the directory at an absolute, canonical path.
pub fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    if !path.is_absolute() {
        return Err(Errno::INVAL);
    }
    open_one(CWD, path.as_os_str(), OFlags::PATH | OFlags::DIRECTORY, NO_LINKS)
}

/// Opens what is at a path below a directory; the empty path is the directory itself.
pub fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = NO_LINKS | ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let mut rest = path.as_os_str().as_bytes();
    let mut at: Option<OwnedFd> = None;
    while rest.len() > PIECE {
        let window = rest.get(..PIECE).unwrap_or(rest);
        let cut = window.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let (piece, tail) = rest.split_at(cut);
        let from = at.as_ref().map_or(root, AsFd::as_fd);
        let next = open_one(from, OsStr::from_bytes(piece), OFlags::PATH | OFlags::DIRECTORY, resolve)?;
        at = Some(next);
        rest = tail.get(1..).unwrap_or_default();
    }
    let last = if rest.is_empty() { b"." } else { rest };
    open_one(at.as_ref().map_or(root, AsFd::as_fd), OsStr::from_bytes(last), flags, resolve)
}

/// Looks at a name, never at what a link points to. `None` when there is nothing.
pub fn look<P: rustix::path::Arg>(directory: BorrowedFd<'_>, name: P) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The names in an open directory, sorted. The descriptor must be fresh: reading starts where it stands.
pub fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Changes the permissions of exactly the object behind a descriptor, which may be an `O_PATH` one.
pub fn set_mode(object: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

/// The parent directories of names below one root. The last one stays open: what belongs to one directory
/// comes together, so most names cost no walk.
#[derive(Debug)]
pub struct Parents<'root> {
    root: BorrowedFd<'root>,
    at: Option<(PathBuf, Result<OwnedFd, Errno>)>,
}

impl<'root> Parents<'root> {
    pub fn new(root: BorrowedFd<'root>) -> Self {
        Self { root, at: None }
    }

    /// The open directory a path below the root ends in, and the last name.
    pub fn of<'path>(&mut self, path: &'path Path) -> Result<(BorrowedFd<'_>, &'path OsStr), Errno> {
        let bytes = path.as_os_str().as_bytes();
        let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => {
                let (parent, name) = bytes.split_at(slash);
                (parent, name.get(1..).unwrap_or_default())
            }
            None => (&[][..], bytes),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return Err(Errno::INVAL);
        }
        let known = self.at.as_ref().is_some_and(|(path, _)| path.as_os_str().as_bytes() == parent);
        if !known {
            let parent = PathBuf::from(OsStr::from_bytes(parent));
            let opened = open_beneath(self.root, &parent, OFlags::PATH | OFlags::DIRECTORY);
            self.at = Some((parent, opened));
        }
        match &self.at {
            Some((_, Ok(directory))) => Ok((directory.as_fd(), OsStr::from_bytes(name))),
            Some((_, Err(errno))) => Err(*errno),
            None => Err(Errno::BADF),
        }
    }

    /// Forgets the open directory, because directories were made or removed.
    pub fn forget(&mut self) {
        self.at = None;
    }
}
