//! Puts everything a commit will rename next to where it goes: links, FIFOs, and contents where the store is
//! on another filesystem. Nothing of the host's own is touched by it.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::change::{Change, Node, What};
use crate::check::Roots;
use crate::copy::{self, Attributes};
use crate::error::CommitError;
use crate::failpoint;
use crate::id::TransactionId;
use crate::journal::{Journal, Phase};
use crate::keep::owner_of;
use crate::place;
use crate::record::Record;
use crate::select::Selection;
use crate::store::{self, Held};

const PREFIX: &str = ".lazaret-";

/// The directory next to a tree's changes, in its root. Each tree has its own: two single files may share
/// a directory.
pub fn staging_name(id: TransactionId, tree: u32) -> String {
    format!("{PREFIX}{id}.{tree}")
}

/// Whether a path ends in the name of some commit's staging directory.
pub fn is_reserved(path: &Path) -> bool {
    let name = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
    let id = name.strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.get(..36));
    id.and_then(|id| std::str::from_utf8(id).ok()).is_some_and(|id| id.parse::<TransactionId>().is_ok())
}

/// Where the things to be renamed are.
#[derive(Debug)]
pub struct Stage {
    pub files: OwnedFd,
    /// One per tree, where there is one.
    pub staging: Vec<Option<OwnedFd>>,
    /// The trees whose contents are in the staging directory.
    pub copied: HashSet<u32>,
}

/// A thing to be renamed.
pub struct Source<'a> {
    pub directory: BorrowedFd<'a>,
    pub name: String,
}

impl Stage {
    /// Where the new object of a change lies ready. None for what is not renamed.
    pub fn source(&self, number: usize, change: &Change) -> Option<Source<'_>> {
        match (&change.node, change.what) {
            (_, What::Deleted | What::ModeChanged) | (None | Some(Node::Directory | Node::Special), _) => {
                None
            }
            (Some(Node::File { content, .. }), _) if !self.copied.contains(&change.tree) => {
                Some(Source { directory: self.files.as_fd(), name: (*content)?.to_string() })
            }
            _ => {
                let directory = self.staging.get(change.tree as usize)?.as_ref()?.as_fd();
                Some(Source { directory, name: number.to_string() })
            }
        }
    }

    /// The stage of a commit that was interrupted after everything lay ready.
    pub fn reopen(held: &Held, record: &Record, roots: &Roots, copied: &[u32]) -> Result<Self, CommitError> {
        let files = held.files()?;
        let open = |tree: u32| {
            let name = staging_name(held.id, tree);
            let root = roots.get(tree).ok()?;
            place::open_beneath(root, Path::new(&name), OFlags::RDONLY | OFlags::DIRECTORY).ok()
        };
        let staging = (0..).zip(&record.trees).map(|(tree, _)| open(tree)).collect();
        Ok(Self { files, staging, copied: copied.iter().copied().collect() })
    }
}

/// What a tree needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Staging,
}

/// Prepares a commit. On failure nothing is left behind.
pub fn stage(
    held: &Held,
    record: &Record,
    selection: &Selection,
    roots: &Roots,
    journal: &mut Journal,
) -> Result<Stage, CommitError> {
    let files = held.files()?;
    let copied: HashSet<u32> = (0..)
        .zip(&record.trees)
        .map(|(tree, _)| tree)
        .filter(|tree| is_elsewhere(&files, roots, *tree))
        .collect();
    let mut needs = vec![Need::Nothing; record.trees.len()];
    for (_, change) in chosen(record, selection) {
        let staged = match (&change.node, change.what) {
            (_, What::Deleted | What::ModeChanged) => false,
            (Some(Node::File { .. }), _) => copied.contains(&change.tree),
            (Some(Node::Symlink { .. } | Node::Fifo), _) => true,
            _ => false,
        };
        if let Some(need) = needs.get_mut(change.tree as usize).filter(|_| staged) {
            *need = Need::Staging;
        }
    }
    journal.copied = copied.iter().copied().collect();
    journal.copied.sort_unstable();
    let mut stage = Stage { files, staging: needs.iter().map(|_| None).collect(), copied };
    if !needs.contains(&Need::Staging) {
        return Ok(stage);
    }
    // A directory of that name which is not ours must not be there: it would be cleared away later.
    for (tree, ground) in (0..).zip(&record.trees) {
        let name = staging_name(held.id, tree);
        if let Ok(root) = roots.get(tree)
            && !matches!(place::look(root, name.as_str()), Ok(None))
        {
            return Err(CommitError::Occupied { path: ground.directory().join(name) });
        }
    }
    journal.phase = Phase::Staging;
    held.write_journal(journal)?;
    match fill(held, record, selection, roots, &needs, &mut stage) {
        Ok(()) => Ok(stage),
        Err(error) => {
            unstage(held.id, record, roots);
            held.remove_journal()?;
            Err(error)
        }
    }
}

fn chosen<'a>(record: &'a Record, selection: &'a Selection) -> impl Iterator<Item = (usize, &'a Change)> {
    selection.apply.iter().filter_map(|number| Some((*number, record.changes.0.get(*number)?)))
}

/// Whether a file of the store cannot be renamed into a tree. The kernel compares the mounts before it looks
/// for the name, so asking for a name that is not there changes nothing; the devices differ where one mount
/// shows several filesystems (subvolumes).
fn is_elsewhere(files: &OwnedFd, roots: &Roots, tree: u32) -> bool {
    let Ok(root) = roots.get(tree) else { return false };
    let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_dev);
    let absent = ".absent";
    rustix::fs::renameat(files, absent, root, absent) == Err(Errno::XDEV)
        || device(files.as_fd()) != device(root)
}

fn fill(
    held: &Held,
    record: &Record,
    selection: &Selection,
    roots: &Roots,
    needs: &[Need],
    stage: &mut Stage,
) -> Result<(), CommitError> {
    for (tree, (need, ground)) in (0..).zip(needs.iter().zip(&record.trees)) {
        if *need == Need::Nothing {
            continue;
        }
        let name = staging_name(held.id, tree);
        let path = || ground.directory().join(&name);
        let Ok(root) = roots.get(tree) else { continue };
        failpoint::step();
        let opened = rustix::fs::mkdirat(root, &name, Mode::RWXU)
            .and_then(|()| place::open_beneath(root, Path::new(&name), OFlags::RDONLY | OFlags::DIRECTORY));
        let opened = opened.map_err(|errno| CommitError::Stage { path: path(), source: errno.into() })?;
        if let Some(slot) = stage.staging.get_mut(tree as usize) {
            *slot = Some(opened);
        }
    }
    let mut buffer = vec![0; copy::BUFFER];
    // Where each content was staged first, by tree: further names of the same file become links to it.
    let mut staged: HashMap<(u32, u32), usize> = HashMap::new();
    for (number, change) in chosen(record, selection) {
        let Some(source) = stage.source(number, change) else { continue };
        let owner = owner_of(change, record.trees.get(change.tree as usize));
        let made = match &change.node {
            Some(Node::File { content: Some(content), same, .. }) if stage.copied.contains(&change.tree) => {
                failpoint::step();
                staged.insert((change.tree, *content), number);
                let twin = same.and_then(|first| staged.get(&(change.tree, first)).copied());
                stage_file(stage, *content, twin, &source, &mut buffer)
            }
            Some(Node::Symlink { target }) => {
                failpoint::step();
                rustix::fs::symlinkat(target, source.directory, &source.name)
                    .and_then(|()| chown(&source, owner))
            }
            Some(Node::Fifo) => {
                failpoint::step();
                let mode = Mode::from_raw_mode(change.mode);
                rustix::fs::mknodat(source.directory, &source.name, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
                    .and_then(|()| chown(&source, owner))
                    .and_then(|()| {
                        rustix::fs::chmodat(source.directory, &source.name, mode, AtFlags::empty())
                    })
            }
            _ => Ok(()),
        };
        made.map_err(|errno| CommitError::Stage { path: change.path.clone(), source: errno.into() })?;
    }
    Ok(())
}

fn chown(source: &Source<'_>, owner: Option<(u32, u32)>) -> Result<(), Errno> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::chownat(source.directory, &source.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

fn stage_file(
    stage: &Stage,
    content: u32,
    twin: Option<usize>,
    to: &Source<'_>,
    buffer: &mut [u8],
) -> Result<(), Errno> {
    let (from, stat) = copy::open_own(stage.files.as_fd(), content.to_string().as_str())?;
    if let Some(twin) = twin.map(|number| number.to_string()).filter(|_| stat.st_nlink > 1)
        && rustix::fs::linkat(to.directory, &twin, to.directory, &to.name, AtFlags::empty()).is_ok()
    {
        return Ok(());
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(to.directory, &to.name, flags, Mode::RUSR | Mode::WUSR)?;
    copy::copy_content(from.as_fd(), &stat, file.as_fd(), buffer)?;
    let owner = rustix::process::geteuid().is_root().then_some((stat.st_uid, stat.st_gid));
    let attributes = Attributes { mode: stat.st_mode & 0o777, owner };
    copy::finish(from.as_fd(), &stat, file.as_fd(), attributes)
}

/// Removes every staging directory. A root that cannot be reached has none that could be.
pub fn unstage(id: TransactionId, record: &Record, roots: &Roots) {
    for (tree, _) in (0..).zip(&record.trees) {
        let Ok(root) = roots.get(tree) else { continue };
        let name = staging_name(id, tree);
        failpoint::step();
        if store::clear(root, name.as_str()).is_ok() {
            failpoint::step();
            let _ = rustix::fs::unlinkat(root, &name, AtFlags::REMOVEDIR);
        }
    }
}
