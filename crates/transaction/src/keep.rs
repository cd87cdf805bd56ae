//! Takes the new contents out of the sandbox's memory and onto the disk. They get their final permissions,
//! owner and time here, so that a commit has only to rename them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::change::{Base, Change, Changes, Kind, Node};
use crate::copy::{self, Attributes};
use crate::error::{KeepError, StoreError};
use crate::failpoint;
use crate::place::{self, Parents};
use crate::record::{self, Loaded, RECORD, Record, VERSION};
use crate::store::{Held, Store};
use crate::transaction::{Origin, State, Transaction};
use crate::tree::{FILE_COPY, Ground, Tree, TreeKind, directory_of};

/// From this many files on, two threads copy.
const SHARED: usize = 64;

impl Store {
    /// Keeps what was collected. Once this returns, the upper directories are not needed any more.
    pub fn keep(&self, origin: Origin, trees: &[Tree], changes: Changes) -> Result<Transaction, KeepError> {
        let grounds = grounds(trees)?;
        let held = self.make(origin.id).map_err(make_error)?;
        let record = Record { version: VERSION, generation: 1, origin, trees: grounds, changes };
        match fill(&held, trees, &record) {
            Ok(file) => {
                let loaded = Loaded { record, file };
                Ok(Transaction { store: self.clone(), loaded, state: State::Open })
            }
            Err(error) => {
                // What failed first is what matters; recovery would remove the rest as well.
                let _ = self.retire(held);
                Err(error)
            }
        }
    }
}

fn make_error(error: StoreError) -> KeepError {
    match error {
        StoreError::Make { path, source } => KeepError::Make { path, source },
        StoreError::Lock { path, source } => KeepError::Lock { path, source },
        other => KeepError::Make { path: PathBuf::new(), source: io::Error::other(other) },
    }
}

fn grounds(trees: &[Tree]) -> Result<Vec<Ground>, KeepError> {
    let ground = |tree: &Tree| {
        let directory = directory_of(&tree.root, tree.kind);
        let stat = place::open_root(directory).and_then(rustix::fs::fstat);
        let stat =
            stat.map_err(|errno| KeepError::Root { path: directory.to_owned(), source: errno.into() })?;
        Ok(Ground {
            root: tree.root.clone(),
            kind: tree.kind,
            owner: tree.owner,
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    };
    trees.iter().map(ground).collect()
}

fn fill(held: &Held, trees: &[Tree], record: &Record) -> Result<crate::change::Object, KeepError> {
    if let Some(index) = record.changes.iter().map(|change| change.tree).find(|index| !exists(trees, *index))
    {
        return Err(KeepError::NoSuchTree { index });
    }
    let files = held
        .files()
        .map_err(|error| KeepError::Make { path: held.path.clone(), source: io::Error::other(error) })?;
    let (mut jobs, mut links) = (Vec::new(), Vec::new());
    for change in record.changes.iter().filter(|change| change.refused.is_none()) {
        match change.node {
            Some(Node::File { content: Some(number), same: None, .. }) => jobs.push((number, change)),
            Some(Node::File { content: Some(number), same: Some(first), .. }) => {
                links.push((number, first, change));
            }
            _ => {}
        }
    }
    copy_all(&jobs, trees, &record.trees, files.as_fd())?;
    for (number, first, change) in links {
        failpoint::step();
        // The first name may be refused, or have had another owner on the host.
        let linked =
            jobs.binary_search_by_key(&first, |(number, _)| *number).ok().and_then(|at| jobs.get(at));
        let owner = |change: &Change| owner_of(change, record.trees.get(change.tree as usize));
        match linked {
            Some((_, other)) if owner(other) == owner(change) => {
                let (from, to) = (first.to_string(), number.to_string());
                rustix::fs::linkat(&files, from, &files, to, AtFlags::empty())
                    .map_err(|errno| copy_error(change, errno))?;
            }
            _ => copy_all(&[(number, change)], trees, &record.trees, files.as_fd())?,
        }
    }
    record::write(held.fd(), RECORD, record)
        .map_err(|source| KeepError::Record { path: held.path.join(RECORD), source })
}

fn exists(trees: &[Tree], index: u32) -> bool {
    (index as usize) < trees.len()
}

type Job<'a> = (u32, &'a Change);

fn copy_all(
    jobs: &[Job<'_>],
    trees: &[Tree],
    grounds: &[Ground],
    files: BorrowedFd<'_>,
) -> Result<(), KeepError> {
    let half = if jobs.len() < SHARED { jobs.len() } else { jobs.len() / 2 };
    let (mine, theirs) = jobs.split_at(half);
    std::thread::scope(|scope| {
        let other = (!theirs.is_empty()).then(|| scope.spawn(|| copy_some(theirs, trees, grounds, files)));
        let result = copy_some(mine, trees, grounds, files);
        match other.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(other)) => result.and(other),
            Some(Err(_)) => Err(KeepError::Thread),
            None => result,
        }
    })
}

fn copy_some(
    jobs: &[Job<'_>],
    trees: &[Tree],
    grounds: &[Ground],
    files: BorrowedFd<'_>,
) -> Result<(), KeepError> {
    let mut parents: Vec<_> = trees.iter().map(|tree| Parents::new(tree.upper.as_fd())).collect();
    let mut buffer = vec![0; copy::BUFFER];
    for (number, change) in jobs {
        failpoint::step();
        let (Some(parents), Some(ground)) =
            (parents.get_mut(change.tree as usize), grounds.get(change.tree as usize))
        else {
            return Err(KeepError::NoSuchTree { index: change.tree });
        };
        let below = match ground.kind {
            TreeKind::Directory => change.below(&ground.root),
            TreeKind::File => PathBuf::from(FILE_COPY),
        };
        let (from, stat) = parents
            .of(&below)
            .and_then(|(parent, name)| copy::open_own(parent, name))
            .map_err(|errno| KeepError::Read { path: change.path.clone(), source: errno.into() })?;
        let attributes = Attributes { mode: change.mode, owner: owner_of(change, Some(ground)) };
        let name = number.to_string();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(files, &name, flags, Mode::RUSR | Mode::WUSR)
            .and_then(|to| {
                copy::copy_content(from.as_fd(), &stat, to.as_fd(), &mut buffer)?;
                copy::finish(from.as_fd(), &stat, to.as_fd(), attributes)
            })
            .map_err(|errno| copy_error(change, errno))?;
    }
    Ok(())
}

fn copy_error(change: &Change, errno: Errno) -> KeepError {
    KeepError::Copy { path: change.path.clone(), source: errno.into() }
}

/// Whom an applied object belongs to, where we may choose: to whom the replaced file belonged, else to the
/// user the sandbox ran for.
pub fn owner_of(change: &Change, ground: Option<&Ground>) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    match &change.base {
        Base::Present(old) if old.kind != Kind::Directory => Some((old.uid, old.gid)),
        _ => ground.and_then(|ground| ground.owner),
    }
}
