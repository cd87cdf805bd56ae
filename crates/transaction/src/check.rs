//! Whether the host is still what the changes were made to.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::change::{Base, Change, Clash, Conflict, Kind, Node, Object, What};
use crate::place::{self, Parents};
use crate::record::Record;
use crate::tree::Ground;

/// The roots of a transaction's trees, open.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Result<OwnedFd, Conflict>>,
    directories: Vec<PathBuf>,
}

impl Roots {
    /// A root that is gone or another one now is a conflict of every change below it.
    pub fn open(grounds: &[Ground]) -> Self {
        let open = |ground: &Ground| {
            let root = place::open_root(ground.directory()).map_err(conflict_of)?;
            let stat = rustix::fs::fstat(&root).map_err(conflict_of)?;
            let same = (stat.st_dev, stat.st_ino) == (ground.device, ground.inode);
            if same { Ok(root) } else { Err(Conflict::Parent) }
        };
        Self {
            roots: grounds.iter().map(open).collect(),
            directories: grounds.iter().map(|ground| ground.directory().to_owned()).collect(),
        }
    }

    /// Two commits to one tree must not mix: the tree is locked from the first look to the last rename. Whoever
    /// else may open the directory can hold the lock, so it is not waited for without end.
    pub fn lock(&self) -> Result<Vec<OwnedFd>, PathBuf> {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
        let end = std::time::Instant::now() + PATIENCE;
        let mut held = Vec::new();
        let mut known: Vec<(u64, u64)> = Vec::new();
        // By identity, so that two commits to the same trees take them in the same order.
        let mut roots: Vec<(u64, u64, usize)> = Vec::new();
        for (index, root) in self.roots.iter().enumerate() {
            if let Ok(stat) =
                root.as_ref().map_err(drop).and_then(|root| rustix::fs::fstat(root).map_err(drop))
            {
                roots.push((stat.st_dev, stat.st_ino, index));
            }
        }
        roots.sort_unstable();
        for (device, inode, index) in roots {
            if known.contains(&(device, inode)) {
                continue;
            }
            known.push((device, inode));
            let Some(Ok(root)) = self.roots.get(index) else { continue };
            // The root itself is a mere handle, which cannot be locked.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(root) = rustix::fs::openat(root, c".", flags, Mode::empty()) else { continue };
            while let Err(errno) =
                rustix::fs::flock(&root, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            {
                let busy = errno == Errno::WOULDBLOCK || errno == Errno::INTR;
                if !busy {
                    // A filesystem without locks: nothing can be promised there.
                    break;
                }
                if std::time::Instant::now() > end {
                    return Err(self.directories.get(index).cloned().unwrap_or_default());
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            held.push(root);
        }
        Ok(held)
    }

    pub fn get(&self, tree: u32) -> Result<BorrowedFd<'_>, Conflict> {
        match self.roots.get(tree as usize) {
            Some(Ok(root)) => Ok(root.as_fd()),
            Some(Err(conflict)) => Err(conflict.clone()),
            None => Err(Conflict::Parent),
        }
    }

    /// A way to each change's parent directory.
    pub fn parents(&self) -> Ways<'_> {
        let ways = self.roots.iter().map(|root| root.as_ref().ok().map(|root| Parents::new(root.as_fd())));
        Ways { roots: self, parents: ways.collect() }
    }
}

/// See [`Roots::parents`].
#[derive(Debug)]
pub struct Ways<'a> {
    roots: &'a Roots,
    parents: Vec<Option<Parents<'a>>>,
}

/// An open parent directory, and the last name as the kernel takes it.
pub type Spot<'a> = (BorrowedFd<'a>, &'a std::ffi::OsStr);

impl Ways<'_> {
    pub fn to<'a>(&'a mut self, change: &'a Change) -> Result<Spot<'a>, Conflict> {
        let directory = self.roots.directories.get(change.tree as usize).ok_or(Conflict::Parent)?;
        let below = change.path.strip_prefix(directory).map_err(|_| Conflict::Parent)?;
        match self.parents.get_mut(change.tree as usize) {
            Some(Some(parents)) => parents.of(below).map_err(conflict_of),
            _ => Err(self.roots.get(change.tree).err().unwrap_or(Conflict::Parent)),
        }
    }

    pub fn forget(&mut self) {
        self.parents.iter_mut().flatten().for_each(Parents::forget);
    }
}

pub fn conflict_of(errno: Errno) -> Conflict {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Conflict::Parent,
        errno => Conflict::Failed(std::io::Error::from(errno).to_string()),
    }
}

/// Everything that stands against applying these changes.
pub fn check(record: &Record, numbers: &[usize], roots: &Roots) -> Vec<(usize, Clash)> {
    let changes = &record.changes.0;
    let numbered = || numbers.iter().filter_map(|number| Some((*number, changes.get(*number)?)));
    let chosen = || numbered().map(|(_, change)| change);
    let made: HashSet<&Path> =
        chosen().filter(|change| change.makes_directory()).map(|change| change.path.as_path()).collect();
    let opened: HashSet<&Path> =
        chosen().filter(|change| opens_directory(change)).map(|change| change.path.as_path()).collect();
    let mut ways = roots.parents();
    let mut last: Option<&Path> = None;
    let mut clashes = Vec::new();
    let removed = removed_from(chosen());
    for (number, change) in numbered() {
        let parent = change.path.parent();
        // What goes into a directory that this commit makes cannot be in the way of anything.
        if change.conflict.is_none()
            && change.base == Base::Absent
            && parent.is_some_and(|parent| made.contains(parent))
        {
            continue;
        }
        let writable = last == parent
            || change.what == What::ModeChanged
            || parent.is_some_and(|parent| opened.contains(parent));
        let checked =
            check_one(change, &mut ways, writable).and_then(|()| match removed.get(change.path.as_path()) {
                Some(count) => check_emptied(change, &mut ways, *count),
                None => Ok(()),
            });
        match checked {
            Ok(()) if change.what != What::ModeChanged => last = parent,
            Ok(()) => {}
            Err(conflict) => clashes.push((number, Clash { path: change.path.clone(), conflict })),
        }
    }
    clashes
}

/// How many names go from each directory that goes itself.
fn removed_from<'a>(changes: impl Iterator<Item = &'a Change> + Clone) -> HashMap<&'a Path, usize> {
    let going = changes.clone().filter(|change| change.removes_directory());
    let mut removed: HashMap<&Path, usize> = going.map(|change| (change.path.as_path(), 0)).collect();
    if removed.is_empty() {
        return removed;
    }
    for change in changes.filter(|change| change.what == What::Deleted) {
        if let Some(count) = change.path.parent().and_then(|parent| removed.get_mut(parent)) {
            *count += 1;
        }
    }
    removed
}

/// A directory can go only if all that is in it goes. What is in it and unchanged was counted; more names
/// than that are not the sandbox's to delete. One that cannot be listed is left to the deletion to fail on.
fn check_emptied(change: &Change, ways: &mut Ways<'_>, count: usize) -> Result<(), Conflict> {
    let (parent, name) = ways.to(change)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat(parent, name, flags, Mode::empty()) else { return Ok(()) };
    match place::names(directory.as_fd()) {
        Ok(names) if names.len() > count => Err(Conflict::NotEmpty),
        _ => Ok(()),
    }
}

/// Whether applying it first lets its directory be written to.
pub fn opens_directory(change: &Change) -> bool {
    change.what == What::ModeChanged
        && matches!(change.node, Some(Node::Directory))
        && change.mode & 0o300 == 0o300
}

fn check_one(change: &Change, ways: &mut Ways<'_>, writable: bool) -> Result<(), Conflict> {
    if let Some(conflict) = &change.conflict {
        return Err(conflict.clone());
    }
    let (parent, name) = ways.to(change)?;
    if !writable {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(parent, c".", access, AtFlags::EACCESS).map_err(conflict_of)?;
    }
    compare(change, look(parent, name)?.as_ref())
}

pub fn look(parent: BorrowedFd<'_>, name: &std::ffi::OsStr) -> Result<Option<Object>, Conflict> {
    Ok(place::look(parent, name).map_err(conflict_of)?.map(|stat| Object::of(&stat)))
}

/// Whether an object of the host is the one the change was made to, unchanged.
pub fn compare(change: &Change, now: Option<&Object>) -> Result<(), Conflict> {
    let (old, now) = match (&change.base, now) {
        (Base::Absent, None) => return Ok(()),
        (Base::Absent, Some(_)) => return Err(Conflict::Appeared),
        (Base::Present(_), None) => return Err(Conflict::Gone),
        (Base::Present(old), Some(now)) => (old, now),
    };
    if !old.is(now) || old.kind != now.kind {
        return Err(Conflict::Replaced);
    }
    if old.kind == Kind::Directory {
        // Its times move with everything that is made in it, by this commit as well.
        let held = change.what != What::ModeChanged || old.mode == now.mode;
        return if held { Ok(()) } else { Err(Conflict::Changed) };
    }
    if old.changed == now.changed && old.size == now.size {
        return Ok(());
    }
    // Another name of the same file that was replaced or deleted, by this commit as well, moves the time of
    // the last change too; it alters nothing else.
    let renamed = old.links > 1
        && old.links != now.links
        && (old.size, old.modified, old.mode, old.uid, old.gid)
            == (now.size, now.modified, now.mode, now.uid, now.gid);
    if renamed { Ok(()) } else { Err(Conflict::Changed) }
}
