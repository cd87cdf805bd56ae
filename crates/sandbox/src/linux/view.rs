//! Puts the new root together: an empty tmpfs, then one [`Entry`] after the other. Everything is addressed
//! by descriptor and resolved inside the new root, so that no link can lead a mount astray.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    },
};

use super::{
    storage::{STORAGE, Storage},
    sys::{MountAttributes, mount_setattr},
};
use crate::spec::{Access, Entry, Exec, Kind, Object, Scratch};

/// Device nodes that every program may expect.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Directories on which the new root can be mounted for the moment before it becomes the root.
const STAGING: [&str; 5] = ["/tmp", "/run", "/var", "/mnt", "/usr"];
/// Below /proc, what tells more than a program needs. (What only the host's root may open, kcore or
/// sysrq-trigger, is closed by that: nothing here is the host's root, and /proc is read-only.)
const MASKED_PROC: [&str; 3] = ["keys", "key-users", "sched_debug"];
const DENIED_FILE: &str = ".denied-file";
const TEXT_FILE: &str = ".text-file";
const DENIED_DIRECTORY: &str = ".denied-directory";

/// What went wrong, on what.
#[derive(Debug)]
pub struct ViewError {
    pub what: String,
    pub source: io::Error,
}

pub type Result<T> = std::result::Result<T, ViewError>;

pub(super) fn on<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ViewError {
    let what = what.into();
    move |error| ViewError { what, source: error.into() }
}

/// Puts a detached mount where a descriptor points.
pub(super) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>, path: &Path) -> Result<()> {
    rustix::mount::move_mount(
        tree,
        c"",
        target,
        c"",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )
    .map_err(on(format!("mount {}", path.display())))
}

/// A detached copy of the mount tree at a path, and its attributes.
pub fn clone_tree(path: &Path, attributes: MountAttributes<'_>) -> Result<OwnedFd> {
    let what = || format!("bind {}", path.display());
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if attributes.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = rustix::mount::open_tree(CWD, path, flags).map_err(on(what()))?;
    mount_setattr(tree.as_fd(), attributes).map_err(on(what()))?;
    Ok(tree)
}

/// As [`clone_tree`], if the path still means the object that was decided on.
pub fn clone_object(path: &Path, object: Object, attributes: MountAttributes<'_>) -> Result<OwnedFd> {
    let tree = clone_tree(path, attributes)?;
    let stat = rustix::fs::fstat(&tree).map_err(on(format!("bind {}", path.display())))?;
    if (Object { device: stat.st_dev, inode: stat.st_ino }) != object {
        let changed =
            io::Error::other("it was exchanged for something else while the sandbox was being built");
        return Err(on(format!("bind {}", path.display()))(changed));
    }
    Ok(tree)
}

/// The mount attributes of a bound path.
pub fn attributes_of(access: Access, exec: Exec) -> MountAttributes<'static> {
    let mut set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    // Under a written layer nothing is written, either.
    if access != Access::ReadWrite {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if exec == Exec::Refused {
        set |= libc::MOUNT_ATTR_NOEXEC;
    }
    // A layer is one filesystem; what is mounted below gets a layer of its own.
    MountAttributes { set, recursive: access != Access::CopyOnWrite, make_private: true, idmap: None }
}

/// The sources of a view, opened before the new root hides any of them.
#[derive(Default)]
pub struct Sources {
    /// One per `Entry::Bind`, in order.
    pub binds: Vec<OwnedFd>,
    /// One per `Entry::Hollow`, likewise.
    hollows: Vec<OwnedFd>,
    devices: Vec<(&'static str, OwnedFd)>,
}

impl Sources {
    /// Opens what the supervisor has not sent already.
    pub fn open(view: &[Entry], received: Vec<OwnedFd>) -> Result<Sources> {
        let mut sources = Sources { binds: received, hollows: Vec::new(), devices: Vec::new() };
        for entry in view {
            if let Entry::Hollow { path, .. } = entry {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
                sources.hollows.push(opened.map_err(on(format!("open {}", path.display())))?);
            }
        }
        if sources.binds.is_empty() {
            for entry in view {
                if let Entry::Bind { path, object, access, exec, .. } = entry {
                    sources.binds.push(clone_object(path, *object, attributes_of(*access, *exec))?);
                }
            }
        }
        if view.contains(&Entry::Dev) {
            for name in DEVICES {
                let attributes = MountAttributes {
                    set: libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
                    make_private: true,
                    ..MountAttributes::default()
                };
                sources.devices.push((name, clone_tree(&Path::new("/dev").join(name), attributes)?));
            }
        }
        sources.binds.reverse();
        sources.hollows.reverse();
        Ok(sources)
    }
}

/// A private directory in one of the host's cannot be part of the root: it lies in storage of its own.
fn private_in_bound(view: &[Entry]) -> bool {
    let bound = |path: &Path| {
        view.iter().any(|entry| matches!(entry, Entry::Bind { path: above, .. } if path.starts_with(above)))
    };
    view.iter().any(|entry| matches!(entry, Entry::Private { path, .. } if bound(path)))
}

/// The new root while it is being built.
pub struct Root {
    fd: OwnedFd,
    sources: Sources,
    /// Where copy-on-write is asked for, or a private directory in one of the host's: private storage is a filesystem of its own, which is taken out of
    /// the view again when everything is in place.
    storage: Option<Storage>,
    /// Empty directories, which become read-only when everything is in place.
    empties: Vec<OwnedFd>,
}

impl Root {
    /// Mounts an empty root and goes there. The private directories are part of it, each bound onto itself:
    /// so they share one budget, and stay writable when the root is sealed.
    pub fn create(sources: Sources, view: &[Entry], scratch: Scratch) -> Result<Root> {
        let layered = view.iter().any(|entry| {
            matches!(entry, Entry::Bind { access: Access::CopyOnWrite, .. } | Entry::Hollow { .. })
        }) || private_in_bound(view);
        let staging = STAGING.iter().find(|path| Path::new(path).is_dir()).ok_or_else(|| {
            on("find a directory to mount the new root on")(io::Error::from_raw_os_error(libc::ENOENT))
        })?;
        // The skeleton itself takes a few pages and some dozens of inodes.
        let own = if layered { Scratch { bytes: 1 << 20, inodes: 4096 } } else { scratch };
        let options = format!(
            "mode=0755,size={},nr_inodes={}",
            own.bytes.saturating_add(1 << 18),
            own.inodes.saturating_add(256)
        );
        rustix::mount::mount(
            c"tmpfs",
            *staging,
            c"tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(std::ffi::CString::new(options).unwrap_or_default().as_c_str()),
        )
        .map_err(on("mount the new root"))?;
        let fd = rustix::fs::openat(
            CWD,
            *staging,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(on("open the new root"))?;
        rustix::process::fchdir(&fd).map_err(on("enter the new root"))?;
        let storage = if layered { Some(Storage::mount(fd.as_fd(), scratch)?) } else { None };
        Ok(Root { fd, sources, storage, empties: Vec::new() })
    }

    /// The written layers, in the order of the entries.
    pub fn take_written(&mut self) -> Vec<OwnedFd> {
        self.storage.as_mut().map(|storage| std::mem::take(&mut storage.written)).unwrap_or_default()
    }

    pub fn place(&mut self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Bind { path, kind, access, exec, .. } => {
                let source = self.sources.binds.pop().ok_or_else(|| {
                    on(format!("bind {}", path.display()))(io::Error::from_raw_os_error(libc::EBADF))
                })?;
                let target = self.mount_point(path, *kind)?;
                match (access, &mut self.storage) {
                    (Access::CopyOnWrite, Some(storage)) => {
                        let layered = match kind {
                            Kind::Directory => storage.layer(source.as_fd(), target.as_fd(), path, *exec)?,
                            Kind::File => storage.copy(source.as_fd(), path, *exec)?,
                        };
                        // Onto what lies there now.
                        let target = self.open(path, OFlags::PATH).map_err(on("find a layer"))?;
                        self.attach(layered.as_fd(), target.as_fd(), path)
                    }
                    _ => self.attach(source.as_fd(), target.as_fd(), path),
                }
            }
            Entry::Hollow { path, exec } => {
                let source = self.sources.hollows.pop();
                let (Some(source), Some(storage)) = (source, &mut self.storage) else {
                    return Err(on(format!("copy {}", path.display()))(io::Error::from_raw_os_error(
                        libc::EBADF,
                    )));
                };
                let layered = storage.hollow(source, path, *exec)?;
                let target = self.directory(path, 0o755)?;
                self.attach(layered.as_fd(), target.as_fd(), path)
            }
            Entry::Pin { path } => {
                let relative = path.strip_prefix("/").unwrap_or(path);
                let target = self.directory(path, 0o755)?;
                let tree = self.clone_inside(self.fd.as_fd(), relative, 0)?;
                self.attach(tree.as_fd(), target.as_fd(), path)
            }
            Entry::Private { path, mode, exec } => self.private(path, *mode, *exec),
            Entry::Empty { path } => self.empty(path),
            Entry::Directory { path } => self.directory(path, 0o755).map(drop),
            Entry::Symlink { path, target } => {
                let (parent, name) = self.parent(path)?;
                match rustix::fs::symlinkat(target, &parent, &name) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                    Err(error) => Err(on(format!("link {}", path.display()))(error)),
                }
            }
            Entry::Text { path, content } => self.text(path, content),
            Entry::Mask { path, kind } => self.mask(path, *kind),
            Entry::Proc => self.proc(),
            Entry::Dev => self.dev(),
        }
    }

    /// Root's own skeleton becomes read-only; what is mounted on it keeps its own flags.
    pub fn seal(&self) -> Result<()> {
        // The denied marks are mounted where they are needed; their names would only puzzle.
        let _ = rustix::fs::unlinkat(&self.fd, DENIED_FILE, AtFlags::empty());
        if self.storage.is_some() {
            rustix::mount::unmount(STORAGE, UnmountFlags::DETACH)
                .map_err(on("take private storage out of the view"))?;
            let _ = rustix::fs::unlinkat(&self.fd, STORAGE, AtFlags::REMOVEDIR);
        }
        let _ = rustix::fs::unlinkat(&self.fd, DENIED_DIRECTORY, AtFlags::REMOVEDIR);
        for empty in &self.empties {
            let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
            mount_setattr(empty.as_fd(), MountAttributes { set, ..MountAttributes::default() })
                .map_err(on("make an empty directory read-only"))?;
        }
        mount_setattr(
            self.fd.as_fd(),
            MountAttributes { set: libc::MOUNT_ATTR_RDONLY, ..MountAttributes::default() },
        )
        .map_err(on("make the root read-only"))
    }

    /// Nothing inside can make a user namespace, and with it any other; /proc becomes read-only.
    pub fn forbid_namespaces(&self) -> Result<()> {
        let Ok(proc) = self.open("proc", OFlags::PATH) else { return Ok(()) };
        for name in ["max_user_namespaces", "max_net_namespaces"] {
            let path = format!("proc/sys/user/{name}");
            let file = self.open(&path, OFlags::WRONLY).map_err(on(format!("open /{path}")))?;
            rustix::io::write(&file, b"0").map_err(on(format!("write /{path}")))?;
        }
        // Write protection for /proc as a whole: sys, sysrq-trigger, irq, bus, and every pid's files.
        mount_setattr(
            proc.as_fd(),
            MountAttributes { set: libc::MOUNT_ATTR_RDONLY, ..MountAttributes::default() },
        )
        .map_err(on("make /proc read-only"))
    }

    /// Changes root; returns a handle by which private storage can be measured.
    pub fn pivot(self) -> Result<OwnedFd> {
        let what = "change root";
        rustix::process::fchdir(&self.fd).map_err(on(what))?;
        rustix::process::pivot_root(c".", c".").map_err(on(what))?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH).map_err(on("detach the old root"))?;
        rustix::process::chdir(c"/").map_err(on(what))?;
        Ok(self.storage.map_or(self.fd, |storage| storage.fd))
    }

    fn open(&self, path: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat2(
            &self.fd,
            path.as_ref(),
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )?)
    }

    /// The directory at a path of the new root, made if need be.
    fn directory(&self, path: &Path, mode: u32) -> Result<OwnedFd> {
        let what = || format!("make {}", path.display());
        let name = path.strip_prefix("/").unwrap_or(path);
        if name.components().count() == 1 {
            // In the root itself, where most things go: make it first, then look.
            match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(on(what())(error)),
            }
        }
        match self.open(path, OFlags::PATH | OFlags::DIRECTORY) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => return other.map_err(on(what())),
        }
        let mut sofar = PathBuf::from("/");
        let mut current = rustix::io::dup(&self.fd).map_err(on(what()))?;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            match rustix::fs::mkdirat(&current, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(on(what())(error)),
            }
            sofar.push(name);
            current = self.open(&sofar, OFlags::PATH | OFlags::DIRECTORY).map_err(on(what()))?;
        }
        Ok(current)
    }

    fn parent(&self, path: &Path) -> Result<(OwnedFd, std::ffi::OsString)> {
        let name = path.file_name().ok_or_else(|| {
            on(format!("place {}", path.display()))(io::Error::from_raw_os_error(libc::EINVAL))
        })?;
        Ok((self.directory(path.parent().unwrap_or(Path::new("/")), 0o755)?, name.to_owned()))
    }

    fn mount_point(&self, path: &Path, kind: Kind) -> Result<OwnedFd> {
        match kind {
            Kind::Directory => self.directory(path, 0o755),
            Kind::File => {
                if let Ok(existing) = self.open(path, OFlags::PATH) {
                    return Ok(existing);
                }
                let (parent, name) = self.parent(path)?;
                rustix::fs::openat(
                    &parent,
                    &name,
                    OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW,
                    Mode::from_raw_mode(0o600),
                )
                .map_err(on(format!("place {}", path.display())))?;
                self.open(path, OFlags::PATH).map_err(on(format!("place {}", path.display())))
            }
        }
    }

    fn attach(&self, tree: BorrowedFd<'_>, target: BorrowedFd<'_>, path: &Path) -> Result<()> {
        attach(tree, target, path)
    }

    fn clone_inside(&self, base: BorrowedFd<'_>, path: &Path, attributes: u64) -> Result<OwnedFd> {
        let what = || format!("bind {}", path.display());
        let tree = rustix::mount::open_tree(
            base,
            path,
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )
        .map_err(on(what()))?;
        mount_setattr(tree.as_fd(), MountAttributes { set: attributes, ..MountAttributes::default() })
            .map_err(on(what()))?;
        Ok(tree)
    }

    fn private(&mut self, path: &Path, mode: u32, exec: Exec) -> Result<()> {
        let what = || format!("make private {}", path.display());
        let target = self.directory(path, 0o755)?;
        let in_storage = self.storage.as_mut().map(Storage::new_name);
        let (base, relative) = match (&self.storage, &in_storage) {
            (Some(storage), Some(name)) => {
                rustix::fs::mkdirat(&storage.fd, name, Mode::from_raw_mode(mode)).map_err(on(what()))?;
                (storage.fd.as_fd(), name.as_path())
            }
            _ => (self.fd.as_fd(), path.strip_prefix("/").unwrap_or(path)),
        };
        // mkdir is subject to the caller's umask.
        rustix::fs::chmodat(base, relative, Mode::from_raw_mode(mode), AtFlags::empty())
            .map_err(on(what()))?;
        let mut attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        if exec == Exec::Refused {
            attributes |= libc::MOUNT_ATTR_NOEXEC;
        }
        let tree = self.clone_inside(base, relative, attributes)?;
        self.attach(tree.as_fd(), target.as_fd(), path)
    }

    /// A filesystem of its own: what is below it in the view is gone from sight, and names for what is mounted
    /// in it can be made without touching the host.
    fn empty(&mut self, path: &Path) -> Result<()> {
        let what = || format!("hide {}", path.display());
        let target = self.directory(path, 0o755)?;
        let context = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(on(what()))?;
        for (key, value) in [(c"mode", c"0755"), (c"size", c"1M"), (c"nr_inodes", c"65536")] {
            rustix::mount::fsconfig_set_string(context.as_fd(), key, value).map_err(on(what()))?;
        }
        rustix::mount::fsconfig_create(context.as_fd()).map_err(on(what()))?;
        let tree = rustix::mount::fsmount(
            context.as_fd(),
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
        .map_err(on(what()))?;
        self.attach(tree.as_fd(), target.as_fd(), path)?;
        self.empties.push(tree);
        Ok(())
    }

    /// A file of our own: on top of what is there, or a new one.
    fn text(&self, path: &Path, content: &str) -> Result<()> {
        let what = || format!("write {}", path.display());
        let there = rustix::fs::openat2(
            &self.fd,
            path.strip_prefix("/").unwrap_or(path),
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        );
        if let Ok(there) = there {
            self.new_text(Path::new(TEXT_FILE), content)?;
            let attributes = libc::MOUNT_ATTR_RDONLY
                | libc::MOUNT_ATTR_NOSUID
                | libc::MOUNT_ATTR_NODEV
                | libc::MOUNT_ATTR_NOEXEC;
            let tree = self.clone_inside(self.fd.as_fd(), Path::new(TEXT_FILE), attributes)?;
            self.attach(tree.as_fd(), there.as_fd(), path)?;
            return rustix::fs::unlinkat(&self.fd, TEXT_FILE, AtFlags::empty()).map_err(on(what()));
        }
        self.new_text(path, content)
    }

    fn new_text(&self, path: &Path, content: &str) -> Result<()> {
        let what = || format!("write {}", path.display());
        let (parent, name) = self.parent(path)?;
        let file = rustix::fs::openat(
            &parent,
            &name,
            OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::from_raw_mode(0o644),
        )
        .map_err(on(what()))?;
        rustix::io::write(&file, content.as_bytes()).map_err(on(what())).map(drop)
    }

    /// An object without any permission, owned by nobody who could change that, lies on top.
    fn mask(&self, path: &Path, kind: Kind) -> Result<()> {
        let name = match kind {
            Kind::Directory => DENIED_DIRECTORY,
            Kind::File => DENIED_FILE,
        };
        let made = match kind {
            Kind::Directory => rustix::fs::mkdirat(&self.fd, name, Mode::empty()),
            Kind::File => rustix::fs::openat(
                &self.fd,
                name,
                OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map(drop),
        };
        if let Err(error) = made
            && error != rustix::io::Errno::EXIST
        {
            return Err(on(format!("deny {}", path.display()))(error));
        }
        let attributes = libc::MOUNT_ATTR_RDONLY
            | libc::MOUNT_ATTR_NOSUID
            | libc::MOUNT_ATTR_NODEV
            | libc::MOUNT_ATTR_NOEXEC;
        let tree = self.clone_inside(self.fd.as_fd(), Path::new(name), attributes)?;
        // Denied paths have no links in them; one that appears now was put there to lead the mask astray.
        let target = rustix::fs::openat2(
            &self.fd,
            path.strip_prefix("/").unwrap_or(path),
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .map_err(on(format!("deny {}", path.display())))?;
        self.attach(tree.as_fd(), target.as_fd(), path)
    }

    fn proc(&self) -> Result<()> {
        self.directory(Path::new("/proc"), 0o555)?;
        rustix::mount::mount(
            c"proc",
            c"proc",
            c"proc",
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
            None,
        )
        .map_err(on("mount a fresh /proc"))?;
        for name in MASKED_PROC {
            let path = Path::new("/proc").join(name);
            if self.open(&path, OFlags::PATH).is_ok() {
                self.mask(&path, Kind::File)?;
            }
        }
        Ok(())
    }

    fn dev(&mut self) -> Result<()> {
        let dev = self.directory(Path::new("/dev"), 0o755)?;
        for (name, source) in std::mem::take(&mut self.sources.devices) {
            let path = Path::new("/dev").join(name);
            // The directory is new and ours: what is made in it can be mounted on as it is.
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let target = rustix::fs::openat(&dev, name, flags, Mode::from_raw_mode(0o600))
                .map_err(on(format!("place {}", path.display())))?;
            self.attach(source.as_fd(), target.as_fd(), &path)?;
        }
        self.directory(Path::new("/dev/pts"), 0o755)?;
        rustix::mount::mount(
            c"devpts",
            c"dev/pts",
            c"devpts",
            MountFlags::NOSUID | MountFlags::NOEXEC,
            c"newinstance,ptmxmode=0666,mode=0620",
        )
        .map_err(on("mount /dev/pts"))?;
        for (name, target) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            rustix::fs::symlinkat(target, &dev, name).map_err(on(format!("link /dev/{name}")))?;
        }
        Ok(())
    }
}
