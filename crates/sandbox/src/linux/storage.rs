//! Private storage as a filesystem of its own: the written layers of copy-on-write paths and the private
//! directories share its budget of bytes and files. It is mounted in the new root while that is being built
//! and taken out before anything runs; the supervisor keeps a handle on every written layer.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags},
};

use super::view::{Result, attach, on};
use crate::spec::{Exec, Scratch};

/// Its name in the new root, for the moment.
pub const STORAGE: &str = ".storage";
/// The one file in the written layer of a single file.
pub const FILE: &str = "file";

pub struct Storage {
    pub fd: OwnedFd,
    pub written: Vec<OwnedFd>,
    names: u32,
}

impl Storage {
    pub fn mount(root: BorrowedFd<'_>, budget: Scratch) -> Result<Storage> {
        let what = "mount private storage";
        let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(on(what))?;
        // The layers themselves take a few inodes, and a page each.
        let bytes = budget.bytes.saturating_add(1 << 18);
        let inodes = budget.inodes.saturating_add(256);
        for (key, value) in
            [("size", bytes.to_string()), ("nr_inodes", inodes.to_string()), ("mode", "0700".to_owned())]
        {
            rustix::mount::fsconfig_set_string(context.as_fd(), key, value).map_err(on(what))?;
        }
        rustix::mount::fsconfig_create(context.as_fd()).map_err(on(what))?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(on(what))?;
        rustix::fs::mkdirat(root, STORAGE, Mode::from_raw_mode(0o700)).map_err(on(what))?;
        let target = open(root, STORAGE, OFlags::PATH | OFlags::DIRECTORY).map_err(on(what))?;
        attach(mount.as_fd(), target.as_fd(), Path::new(STORAGE))?;
        let fd = open(root, STORAGE, OFlags::RDONLY | OFlags::DIRECTORY).map_err(on(what))?;
        // An overlay can be mounted without, and fails later, where a directory is to be replaced.
        rustix::fs::fsetxattr(&fd, c"user.lazaret", b"", rustix::fs::XattrFlags::empty()).map_err(on(
            "keep written layers in memory (needs user attributes on tmpfs: Linux 6.6 or newer)",
        ))?;
        Ok(Storage { fd, written: Vec::new(), names: 0 })
    }

    pub fn new_name(&mut self) -> PathBuf {
        self.names += 1;
        PathBuf::from(self.names.to_string())
    }

    /// An overlay: `source`, which is attached at `target` first, below, a new empty layer above.
    pub fn layer(
        &mut self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        path: &Path,
        exec: Exec,
    ) -> Result<OwnedFd> {
        attach(source, target, path)?;
        self.overlay(source, path, exec)
    }

    /// An overlay over a copy of the directory itself, without what lies in its directories.
    pub fn hollow(&mut self, source: OwnedFd, path: &Path, exec: Exec) -> Result<OwnedFd> {
        let what = || format!("copy {}", path.display());
        let stat = rustix::fs::fstat(&source).map_err(on(what()))?;
        let copy = self.directory(0o700).map_err(on(what()))?;
        copy_names(source.as_fd(), copy.as_fd()).map_err(on(what()))?;
        rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o7777)).map_err(on(what()))?;
        self.overlay(copy.as_fd(), path, exec)
    }

    fn overlay(&mut self, lower: BorrowedFd<'_>, path: &Path, exec: Exec) -> Result<OwnedFd> {
        let what = || format!("make {} copy-on-write", path.display());
        let stat = rustix::fs::fstat(lower).map_err(on(what()))?;
        let (written, work) = (self.directory(0o700), self.directory(0o700));
        let (written, work) = (written.map_err(on(what()))?, work.map_err(on(what()))?);
        // The merged directory shows the mode of the upper one.
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        rustix::fs::fchmod(&written, mode).map_err(on(what()))?;
        let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(on(what()))?;
        // By descriptor: a path could contain anything, and would have to be quoted.
        for (key, fd) in [("lowerdir", lower), ("upperdir", written.as_fd()), ("workdir", work.as_fd())] {
            let value = format!("/proc/self/fd/{}", fd.as_raw_fd());
            rustix::mount::fsconfig_set_string(context.as_fd(), key, value).map_err(on(what()))?;
        }
        rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr").map_err(on(what()))?;
        rustix::mount::fsconfig_create(context.as_fd()).map_err(on(what()))?;
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        if exec == Exec::Refused {
            attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
        }
        let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(on(what()))?;
        self.written.push(written);
        Ok(mount)
    }

    /// A single file cannot be layered: a copy takes its place.
    pub fn copy(&mut self, source: BorrowedFd<'_>, path: &Path, exec: Exec) -> Result<OwnedFd> {
        let what = || format!("copy {}", path.display());
        let stat = rustix::fs::fstat(source).map_err(on(what()))?;
        let written = self.directory(0o700).map_err(on(what()))?;
        // The source is a mount that is attached nowhere: opened again, it can be read.
        let reopened = format!("/proc/self/fd/{}", source.as_raw_fd());
        let from = rustix::fs::openat(CWD, reopened, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(on(what()))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(&written, FILE, flags, Mode::from_raw_mode(0o600)).map_err(on(what()))?;
        let copied = io::copy(&mut std::fs::File::from(from), &mut std::fs::File::from(to));
        copied.map_err(on(what()))?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        rustix::fs::chmodat(&written, FILE, mode, AtFlags::empty()).map_err(on(what()))?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(&written, FILE, flags).map_err(on(what()))?;
        let mut set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        if exec == Exec::Refused {
            set |= libc::MOUNT_ATTR_NOEXEC;
        }
        let attributes = super::sys::MountAttributes { set, ..super::sys::MountAttributes::default() };
        super::sys::mount_setattr(tree.as_fd(), attributes).map_err(on(what()))?;
        self.written.push(written);
        Ok(tree)
    }

    fn directory(&mut self, mode: u32) -> io::Result<OwnedFd> {
        let name = self.new_name();
        rustix::fs::mkdirat(&self.fd, &name, Mode::from_raw_mode(mode))?;
        open(self.fd.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

fn open(base: BorrowedFd<'_>, name: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(base, name.as_ref(), flags, Mode::empty())?)
}

/// Files with their content, links as they are, directories as empty places. What cannot be read is left as
/// an empty file that nobody can read either; sockets, FIFOs and devices are left out.
fn copy_names(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o755))?;
                rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(&target, to, name)?;
            }
            FileType::RegularFile => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let copy = rustix::fs::openat(to, name, flags, Mode::from_raw_mode(0o600))?;
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let mode = match rustix::fs::openat(from, name, flags, Mode::empty()) {
                    Ok(original) => {
                        let mut copy = std::fs::File::from(rustix::io::dup(&copy)?);
                        io::copy(&mut std::fs::File::from(original), &mut copy)?;
                        mode
                    }
                    Err(_) => Mode::empty(),
                };
                rustix::fs::fchmod(&copy, mode)?;
            }
            _ => {}
        }
    }
    Ok(())
}
