//! The directory in which questions and answers lie, held open: who exchanges a name above it leads nobody astray.
//! Files in it are opened without following links or waiting, and only plain ones of the right owner are read.

use std::{
    io::Read as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};
use thiserror::Error;
use uuid::Uuid;

/// Why a directory is not used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    #[error(
        "the escalation directory {path} cannot be made: {source}. Does its parent exist, and is it yours?"
    )]
    Make { path: PathBuf, source: Errno },
    #[error("the escalation directory {path} cannot be opened: {source}")]
    Open { path: PathBuf, source: Errno },
    #[error(
        "the escalation directory {path} is a symbolic link or no directory; remove it: it could lead anywhere"
    )]
    NotADirectory { path: PathBuf },
    #[error(
        "the escalation directory {path} belongs to uid {owner}: who owns it could answer questions that are not theirs"
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "the escalation directory {path} has the mode {mode:03o}, so that others can reach it: chmod 700 {path}"
    )]
    Accessible { path: PathBuf, mode: u32 },
    #[error("the escalation directory {path} cannot be read: {source}")]
    Read { path: PathBuf, source: Errno },
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FileTrouble {
    #[error("it is not there")]
    Missing,
    #[error("it is a symbolic link")]
    Link,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it belongs to uid {0}")]
    Foreign(u32),
    #[error("it has more than one name")]
    Shared,
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("{0}")]
    Io(#[from] Errno),
}

#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    handle: OwnedFd,
    owner: u32,
}

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct Read {
    pub bytes: Vec<u8>,
    /// When it was last changed, in seconds since the epoch.
    pub changed: i64,
}

impl PrivateDirectory {
    /// Ours: made if it is missing.
    pub fn ours(path: &Path) -> Result<PrivateDirectory, DirectoryError> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(source) => return Err(DirectoryError::Make { path: path.to_owned(), source }),
        }
        let directory = PrivateDirectory::open(path)?;
        let us = rustix::process::geteuid().as_raw();
        if directory.owner != us {
            return Err(DirectoryError::Foreign { path: path.to_owned(), owner: directory.owner });
        }
        Ok(directory)
    }

    /// Anybody's, as long as only the owner can enter it.
    pub fn open(path: &Path) -> Result<PrivateDirectory, DirectoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|source| match source {
            Errno::LOOP | Errno::NOTDIR => DirectoryError::NotADirectory { path: path.to_owned() },
            source => DirectoryError::Open { path: path.to_owned(), source },
        })?;
        let stat = rustix::fs::fstat(&handle)
            .map_err(|source| DirectoryError::Open { path: path.to_owned(), source })?;
        let directory = PrivateDirectory { path: path.to_owned(), handle, owner: stat.st_uid };
        directory.check(&stat)?;
        Ok(directory)
    }

    fn check(&self, stat: &Stat) -> Result<(), DirectoryError> {
        let mode = stat.st_mode & 0o777;
        if mode & 0o077 != 0 {
            return Err(DirectoryError::Accessible { path: self.path.clone(), mode });
        }
        Ok(())
    }

    /// Is it still as it was when it was opened?
    pub fn check_again(&self) -> Result<(), DirectoryError> {
        let stat = rustix::fs::fstat(&self.handle)
            .map_err(|source| DirectoryError::Open { path: self.path.clone(), source })?;
        if stat.st_uid != self.owner {
            return Err(DirectoryError::Foreign { path: self.path.clone(), owner: stat.st_uid });
        }
        self.check(&stat)
    }

    pub fn owner(&self) -> u32 {
        self.owner
    }

    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn names(&self) -> Result<Vec<String>, DirectoryError> {
        let failed = |source| DirectoryError::Read { path: self.path.clone(), source };
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The content of a plain file that the directory's owner, or root, wrote.
    pub fn read(&self, name: &str, most: u64) -> Result<Read, FileTrouble> {
        // A FIFO without a writer would be waited for otherwise.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&self.handle, name, flags, Mode::empty()).map_err(|error| match error {
                Errno::NOENT => FileTrouble::Missing,
                Errno::LOOP => FileTrouble::Link,
                // A socket.
                Errno::NXIO => FileTrouble::NotAFile,
                other => FileTrouble::Io(other),
            })?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileTrouble::NotAFile);
        }
        if stat.st_uid != self.owner && stat.st_uid != 0 {
            return Err(FileTrouble::Foreign(stat.st_uid));
        }
        // Another name may lie where somebody else can write, and none is left of one that was deleted.
        if stat.st_nlink != 1 {
            return Err(if stat.st_nlink == 0 { FileTrouble::Missing } else { FileTrouble::Shared });
        }
        let mut bytes = Vec::new();
        // What is larger than it said, because it grows, is too large as well.
        std::fs::File::from(file)
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| FileTrouble::Io(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        if bytes.len() as u64 > most {
            return Err(FileTrouble::TooLarge(most));
        }
        Ok(Read { bytes, changed: stat.st_mtime })
    }

    /// Is there anything of this name?
    pub fn has(&self, name: &str) -> bool {
        !matches!(rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// When anything of this name was last changed, in seconds since the epoch.
    pub fn changed(&self, name: &str) -> Option<i64> {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_mtime)
    }

    /// Writes a file as a whole: nobody sees half of it. One that is there stays: `EEXIST`.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), Errno> {
        let temporary = format!(".{name}.{}.tmp", Uuid::now_v7());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, temporary.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        // What root writes into somebody's directory is for its owner to read.
        let given = if rustix::process::geteuid().as_raw() == self.owner {
            Ok(())
        } else {
            rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(self.owner)), None)
        };
        let done =
            given.and_then(|()| write_all(&file, bytes)).and_then(|()| self.rename_to_new(&temporary, name));
        if done.is_err() {
            self.remove(&temporary);
        }
        done
    }

    fn rename_to_new(&self, from: &str, to: &str) -> Result<(), Errno> {
        match rustix::fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE) {
            // Some filesystems cannot promise it (NFS, old FUSE): then it is looked up first.
            Err(Errno::INVAL | Errno::NOSYS) if self.has(to) => Err(Errno::EXIST),
            Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(&self.handle, from, &self.handle, to),
            result => result,
        }
    }

    /// Removes a name, whatever it is; an empty directory, too. That it was not there is as good.
    pub fn remove(&self, name: &str) {
        if let Err(Errno::ISDIR | Errno::PERM) = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR);
        }
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;
    use crate::escalation::place::Place;

    #[test]
    fn a_missing_directory_is_made_for_its_owner_alone() {
        let place = Place::new();
        let path = place.join("escalations");
        let directory = PrivateDirectory::ours(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        directory.put_new("a", b"1").unwrap();
        assert_eq!(directory.put_new("a", b"2"), Err(Errno::EXIST));
        assert_eq!(directory.read("a", 9).unwrap().bytes, b"1");
        assert_eq!(fs::metadata(path.join("a")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(directory.names().unwrap().iter().filter(|name| name.ends_with(".tmp")).count(), 0);
        PrivateDirectory::ours(&path).unwrap();
    }

    #[test]
    fn one_that_others_can_reach_or_that_leads_elsewhere_is_refused() {
        let place = Place::new();
        let path = place.join("d");
        fs::create_dir(&path).unwrap();
        for mode in [0o710, 0o701, 0o740, 0o777, 0o2770] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = PrivateDirectory::ours(&path).unwrap_err();
            assert!(matches!(error, DirectoryError::Accessible { .. }), "{mode:o}: {error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        symlink(&path, place.join("link")).unwrap();
        symlink("nowhere", place.join("dangling")).unwrap();
        fs::write(place.join("file"), "").unwrap();
        for name in ["link", "dangling", "file"] {
            let error = PrivateDirectory::ours(&place.join(name)).unwrap_err();
            assert!(matches!(error, DirectoryError::NotADirectory { .. }), "{name}: {error}");
        }
        let error = PrivateDirectory::ours(&place.join("missing/escalations")).unwrap_err();
        assert!(matches!(error, DirectoryError::Make { .. }), "{error}");
    }

    #[test]
    fn only_plain_files_with_one_name_are_read() {
        let place = Place::new();
        let path = place.join("d");
        let directory = PrivateDirectory::ours(&path).unwrap();
        fs::write(path.join("plain"), "12345").unwrap();
        symlink("plain", path.join("link")).unwrap();
        fs::create_dir(path.join("directory")).unwrap();
        fs::write(path.join("one"), "").unwrap();
        fs::hard_link(path.join("one"), path.join("two")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        let trouble = |name: &str| directory.read(name, 5).map(|read| read.bytes.len()).unwrap_err();
        assert_eq!(directory.read("plain", 5).unwrap().bytes, b"12345");
        assert_eq!(directory.read("plain", 4).unwrap_err(), FileTrouble::TooLarge(4));
        assert_eq!(trouble("missing"), FileTrouble::Missing);
        assert_eq!(trouble("link"), FileTrouble::Link);
        assert_eq!(trouble("two"), FileTrouble::Shared);
        for name in ["directory", "fifo", "socket"] {
            assert_eq!(trouble(name), FileTrouble::NotAFile, "{name}");
        }
    }

    #[test]
    fn names_are_removed_whatever_they_are() {
        let place = Place::new();
        let path = place.join("d");
        let directory = PrivateDirectory::ours(&path).unwrap();
        fs::write(place.join("outside"), "").unwrap();
        fs::create_dir(path.join("directory")).unwrap();
        symlink(place.join("outside"), path.join("link")).unwrap();
        for name in ["directory", "link", "missing"] {
            directory.remove(name);
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        assert!(place.join("outside").exists());
    }
}
