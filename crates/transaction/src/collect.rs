//! Reads an upper directory against the host and decides what changed.
//!
//! The walk keeps a list of directories still to read, not a stack of open ones: depth costs neither stack
//! nor descriptors. Directories the owner has shut out even himself from are opened up in the upper copy;
//! their true permissions are in the change.

mod removed;

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::change::{Base, Change, Changes, Conflict, Kind, Node, Object, Refusal, Stamp, What, kind_of};
use crate::copy;
use crate::encode::moment;
use crate::error::CollectError;
use crate::link::{self, Reach};
use crate::persistence;
use crate::place;
use crate::stage;
use crate::tree::{FILE_COPY, Tree, TreeKind, directory_of};

/// Deeper directories are refused: a chain of them costs the square of its length.
const DEPTH: usize = 1024;
/// What all paths together may take.
const NAMES: usize = 256 << 20;

/// Reads what a sandbox wrote. `started` is the coarse clock from before it was launched.
pub fn collect(trees: &[Tree], started: SystemTime) -> Result<Changes, CollectError> {
    let (seconds, nanoseconds) = moment::since_epoch(started);
    let mut changes = Vec::new();
    let mut contents = 0;
    for (index, tree) in (0..).zip(trees) {
        let directory = directory_of(&tree.root, tree.kind);
        let lower = place::open_root(directory)
            .map_err(|errno| CollectError::Root { path: directory.to_owned(), source: errno.into() })?;
        let mut walk = Walk {
            tree,
            index,
            directory,
            lower,
            started: Stamp { seconds, nanoseconds },
            judge: persistence::Judge::new(directory),
            changes: &mut changes,
            contents: &mut contents,
            links: HashMap::new(),
            todo: Vec::new(),
            names: 0,
        };
        match tree.kind {
            TreeKind::Directory => walk.directories()?,
            TreeKind::File => walk.file()?,
        }
    }
    persistence::mark_repositories(&mut changes);
    Ok(Changes(changes))
}

/// A directory still to be read.
struct Waiting {
    path: PathBuf,
    depth: usize,
    /// Whether the host has a directory there that shows through.
    merged: bool,
    /// Whether a directory above it replaced the host's: then so does this one, and is not marked again.
    opaque: bool,
}

struct Walk<'a> {
    tree: &'a Tree,
    index: u32,
    directory: &'a Path,
    lower: OwnedFd,
    started: Stamp,
    judge: persistence::Judge,
    changes: &'a mut Vec<Change>,
    contents: &'a mut u32,
    /// The content number of each file that has several names.
    links: HashMap<(u64, u64), u32>,
    todo: Vec<Waiting>,
    names: usize,
}

/// One name in the upper directory.
struct Found<'a> {
    parent: BorrowedFd<'a>,
    name: &'a CStr,
    lower: Option<BorrowedFd<'a>>,
    path: PathBuf,
    depth: usize,
    base: Base,
    /// Its directory replaced the host's.
    opaque: bool,
}

impl Walk<'_> {
    fn directories(&mut self) -> Result<(), CollectError> {
        // The permissions of the root itself are the sandbox's business: it made that upper directory.
        self.todo.push(Waiting { path: PathBuf::new(), depth: 0, merged: true, opaque: false });
        while let Some(waiting) = self.todo.pop() {
            self.read_directory(&waiting)?;
        }
        Ok(())
    }

    fn file(&mut self) -> Result<(), CollectError> {
        let upper = self.tree.upper.as_fd();
        let name = CString::new(FILE_COPY).unwrap_or_default();
        let path = self.tree.root.file_name().map(PathBuf::from).unwrap_or_default();
        let host = |errno: Errno| CollectError::Host { path: self.tree.root.clone(), source: errno.into() };
        let base = base_of(place::look(self.lower.as_fd(), &path).map_err(host)?);
        let look = |errno: Errno| CollectError::Look { path: self.tree.root.clone(), source: errno.into() };
        let Some(stat) = place::look(upper, name.as_c_str()).map_err(look)? else { return Ok(()) };
        let lower = rustix::io::dup(&self.lower).map_err(host)?;
        let found = Found {
            parent: upper,
            name: &name,
            lower: Some(lower.as_fd()),
            path,
            depth: 0,
            base,
            opaque: false,
        };
        match kind_of(&stat) {
            Kind::File => self.regular(found, &stat),
            _ => self.push(found, What::TypeChanged, Some(Node::Special), 0, Some(Refusal::Device)),
        }
    }

    fn read_directory(&mut self, waiting: &Waiting) -> Result<(), CollectError> {
        let absolute = || self.directory.join(&waiting.path);
        let list = |errno: Errno| CollectError::List { path: absolute(), source: errno.into() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let upper = place::open_beneath(self.tree.upper.as_fd(), &waiting.path, flags).map_err(list)?;
        let opaque = waiting.merged && (waiting.opaque || is_opaque(upper.as_fd()));
        let lower = if waiting.merged {
            let flags = if opaque { flags } else { OFlags::PATH | OFlags::DIRECTORY };
            match place::open_beneath(self.lower.as_fd(), &waiting.path, flags) {
                Ok(lower) => Some(lower),
                Err(Errno::XDEV) => return self.other_mount(&waiting.path),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
                Err(errno) => {
                    return Err(CollectError::Host { path: absolute(), source: errno.into() });
                }
            }
        } else {
            None
        };
        let names = place::names(upper.as_fd()).map_err(list)?;
        let lower_fd = lower.as_ref().map(AsFd::as_fd);
        for name in &names {
            self.entry(waiting, opaque, upper.as_fd(), lower_fd, name)?;
        }
        if let Some(lower) = lower_fd.filter(|_| opaque) {
            let host = |errno: Errno| CollectError::Host { path: absolute(), source: errno.into() };
            for name in place::names(lower).map_err(host)? {
                if names.binary_search(&name).is_err()
                    && let Some(stat) = place::look(lower, name.as_c_str()).map_err(host)?
                {
                    self.deleted(waiting.path.join(os(&name)), &stat)?;
                }
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        waiting: &Waiting,
        opaque: bool,
        parent: BorrowedFd<'_>,
        lower: Option<BorrowedFd<'_>>,
        name: &CString,
    ) -> Result<(), CollectError> {
        let path = waiting.path.join(os(name));
        let fail =
            |errno: Errno| CollectError::Look { path: self.directory.join(&path), source: errno.into() };
        let Some(stat) = place::look(parent, name.as_c_str()).map_err(fail)? else { return Ok(()) };
        let below = match lower {
            Some(lower) => place::look(lower, name.as_c_str()).map_err(|errno| CollectError::Host {
                path: self.directory.join(&path),
                source: errno.into(),
            })?,
            None => None,
        };
        let base = base_of(below);
        let depth = waiting.depth + 1;
        let found = Found { parent, name, lower, path, depth, base, opaque };
        let replaced = |kind| match base.kind() {
            None => What::Created,
            Some(old) if old == kind => What::Modified,
            Some(_) => What::TypeChanged,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => match &below {
                Some(below) => self.deleted(found.path, below),
                None => Ok(()),
            },
            FileType::Directory => self.subdirectory(found, &stat),
            FileType::RegularFile => self.regular(found, &stat),
            FileType::Symlink => self.symlink(found, &stat),
            FileType::Fifo => {
                let what = match base.object() {
                    Some(old) if old.kind == Kind::Fifo && old.mode == stat.st_mode & 0o7777 => return Ok(()),
                    Some(old) if old.kind == Kind::Fifo => What::ModeChanged,
                    _ => replaced(Kind::Fifo),
                };
                self.push(found, what, Some(Node::Fifo), stat.st_mode, None)
            }
            FileType::Socket => self.push(
                found,
                replaced(Kind::Other),
                Some(Node::Special),
                stat.st_mode,
                Some(Refusal::Socket),
            ),
            _ => self.push(
                found,
                replaced(Kind::Other),
                Some(Node::Special),
                stat.st_mode,
                Some(Refusal::Device),
            ),
        }
    }

    fn subdirectory(&mut self, found: Found<'_>, stat: &Stat) -> Result<(), CollectError> {
        let merged = found.base.kind() == Some(Kind::Directory);
        let waiting = Waiting { path: found.path.clone(), depth: found.depth, merged, opaque: found.opaque };
        let refused = match &found.path {
            _ if found.depth >= DEPTH => Some(Refusal::TooDeep),
            path if stage::is_reserved(path) => Some(Refusal::Reserved),
            _ => None,
        };
        if refused.is_some() {
            // It is not looked into either: nothing below it could be applied.
            let what = if merged { What::Modified } else { What::Created };
            return self.push(found, what, Some(Node::Directory), stat.st_mode, refused);
        }
        if stat.st_mode & 0o700 != 0o700 && !rustix::process::geteuid().is_root() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(found.parent, found.name, flags, Mode::empty())
                .and_then(|directory| place::set_mode(directory.as_fd(), stat.st_mode & 0o777 | 0o700))
                .map_err(|errno| self.read_error(&found, errno))?;
        }
        match found.base.object() {
            Some(old) if old.kind == Kind::Directory => {
                if old.mode & 0o3777 != stat.st_mode & 0o3777 {
                    self.push(found, What::ModeChanged, Some(Node::Directory), stat.st_mode, None)?;
                }
            }
            Some(_) => self.push(found, What::TypeChanged, Some(Node::Directory), stat.st_mode, None)?,
            None => self.push(found, What::Created, Some(Node::Directory), stat.st_mode, None)?,
        }
        self.todo.push(waiting);
        Ok(())
    }

    fn regular(&mut self, found: Found<'_>, stat: &Stat) -> Result<(), CollectError> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let mode = stat.st_mode & 0o7777;
        let what = match found.base.object() {
            None => What::Created,
            Some(old) if old.kind != Kind::File => What::TypeChanged,
            Some(old) => match (self.same_content(&found, old, size)?, old.mode == mode) {
                (true, true) => return Ok(()),
                (true, false) if old.mode == mode & 0o777 => {
                    let node = Node::File { size, content: None, same: None };
                    return self.push(
                        found,
                        What::ModeChanged,
                        Some(node),
                        mode,
                        Some(Refusal::OnlyPrivilege),
                    );
                }
                (true, false) => What::ModeChanged,
                (false, _) => What::Modified,
            },
        };
        let (mut content, mut same) = (None, None);
        if what != What::ModeChanged {
            let number = *self.contents;
            *self.contents += 1;
            content = Some(number);
            let object = Object::of(stat);
            if object.links > 1 {
                let first = *self.links.entry((object.device, object.inode)).or_insert(number);
                same = (first != number).then_some(first);
            }
        }
        self.push(found, what, Some(Node::File { size, content, same }), mode, None)
    }

    /// A file of the host that cannot be read counts as another: what is not known to be equal is a change.
    fn same_content(&self, found: &Found<'_>, old: &Object, size: u64) -> Result<bool, CollectError> {
        let Some(lower) = found.lower.filter(|_| old.size == size) else { return Ok(false) };
        let name = match self.tree.kind {
            TreeKind::Directory => os(found.name),
            TreeKind::File => found.path.as_os_str(),
        };
        let Ok((host, _)) = copy::open_regular(lower, name) else { return Ok(false) };
        let (file, _) =
            copy::open_own(found.parent, found.name).map_err(|errno| self.read_error(found, errno))?;
        copy::same_content(file.as_fd(), host.as_fd(), size).map_err(|errno| self.read_error(found, errno))
    }

    fn symlink(&mut self, found: Found<'_>, stat: &Stat) -> Result<(), CollectError> {
        let link = |errno: Errno| CollectError::Link {
            path: self.directory.join(&found.path),
            source: errno.into(),
        };
        let target = rustix::fs::readlinkat(found.parent, found.name, Vec::new()).map_err(link)?;
        let what = match (found.base.kind(), found.lower) {
            (None, _) => What::Created,
            (Some(Kind::Symlink), Some(lower)) => {
                match rustix::fs::readlinkat(lower, found.name, Vec::new()) {
                    Ok(old) if old == target => return Ok(()),
                    _ => What::Modified,
                }
            }
            _ => What::TypeChanged,
        };
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let inside = found.path.parent().unwrap_or(Path::new(""));
        let refused = match link::reach(self.directory, inside, &target) {
            Reach::Inside => None,
            Reach::Outside => Some(Refusal::LinkLeavesTree),
        };
        self.push(found, what, Some(Node::Symlink { target }), stat.st_mode, refused)
    }

    fn other_mount(&mut self, path: &Path) -> Result<(), CollectError> {
        let found = Found {
            parent: self.tree.upper.as_fd(),
            name: c"",
            lower: None,
            path: path.to_owned(),
            depth: 0,
            base: Base::Absent,
            opaque: false,
        };
        self.push(found, What::Modified, Some(Node::Directory), 0o755, Some(Refusal::OtherMount))
    }

    fn push(
        &mut self,
        found: Found<'_>,
        what: What,
        node: Option<Node>,
        mode: u32,
        mut refused: Option<Refusal>,
    ) -> Result<(), CollectError> {
        let kept = match node {
            Some(Node::Directory) => 0o3777,
            Some(Node::Symlink { .. }) => 0,
            _ => 0o777,
        };
        let stripped = match node {
            Some(Node::Symlink { .. }) => 0,
            _ => mode & 0o7000 & !kept,
        };
        if refused.is_none() && stage::is_reserved(&found.path) {
            refused = Some(Refusal::Reserved);
        }
        let persistence = self.judge.judge(&found.path, node.as_ref(), found.base.kind());
        let change = Change {
            path: self.directory.join(&found.path),
            tree: self.index,
            what,
            mode: mode & kept,
            base: found.base,
            conflict: self.conflict(what, &found.base),
            persistence,
            refused,
            stripped,
            node,
        };
        self.names += change.path.as_os_str().len();
        if self.names > NAMES {
            return Err(CollectError::TooMuch { path: self.tree.root.clone(), limit: NAMES >> 20 });
        }
        let replaces_directory =
            change.what == What::TypeChanged && change.removes_directory() && change.refused.is_none();
        self.changes.push(change);
        if replaces_directory {
            self.deleted_below(vec![found.path])?;
        }
        Ok(())
    }

    fn conflict(&self, what: What, base: &Base) -> Option<Conflict> {
        let object = base.object()?;
        // A directory's time also moves when something is made in it. What was made is in the list of
        // deletions itself then, with a time of its own.
        if what == What::Deleted && object.kind == Kind::Directory {
            return None;
        }
        (object.changed > self.started).then_some(Conflict::ChangedDuringRun)
    }

    fn read_error(&self, found: &Found<'_>, errno: Errno) -> CollectError {
        CollectError::Read { path: self.directory.join(&found.path), source: errno.into() }
    }
}

fn base_of(stat: Option<Stat>) -> Base {
    stat.map_or(Base::Absent, |stat| Base::Present(Object::of(&stat)))
}

fn is_opaque(directory: BorrowedFd<'_>) -> bool {
    let mut value = [0_u8; 2];
    matches!(rustix::fs::fgetxattr(directory, c"user.overlay.opaque", &mut value[..]), Ok(1))
        && value.first() == Some(&b'y')
}

fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}
