//! Where a name leads in the view of the process that uses it, through which links, and what is there.

use std::{
    collections::HashMap,
    ffi::OsStr,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path, PathBuf},
};

use lazaret_sandbox::linux::notify::Task;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::findings::Kind;
use crate::watch::links::{Last, Walked, walked};

/// A name as the process means it: from `directory` (a descriptor, or the working directory). None for the empty
/// one, and where there is no directory to begin at.
pub fn absolute(task: &Task, directory: i32, name: &[u8]) -> Option<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    if name.is_absolute() {
        return Some(name.to_owned());
    }
    let base = (!name.as_os_str().is_empty()).then(|| task.path_of(directory).ok()).flatten()?;
    base.is_absolute().then(|| base.join(name))
}

/// What is at the end of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub end: PathBuf,
    pub links: Vec<PathBuf>,
    /// None when nothing is there, or nothing that can be looked at.
    pub kind: Option<Kind>,
}

/// The view of a sandbox, which is the same for everybody inside: nobody can change the root.
#[derive(Debug, Default)]
pub struct Walker {
    root: Option<OwnedFd>,
    /// Walks through links take a call for every name, and programs repeat them.
    through_links: HashMap<(PathBuf, Last), Walked>,
}

impl Walker {
    /// The host itself, while nothing inside differs from it.
    pub fn of_host() -> Walker {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Walker { root: rustix::fs::open("/", flags, Mode::empty()).ok(), ..Walker::default() }
    }

    /// From the root.
    pub fn arrive(&mut self, task: &Task, full: &Path, last: Last) -> Option<Arrival> {
        if self.root.is_none() {
            self.root = task.root().ok();
        }
        let root = self.root.as_ref()?;
        let plain: PathBuf = full.components().filter(|part| *part != Component::CurDir).collect();
        let direct = look(root, &plain, last);
        if let Some((path, kind)) = &direct
            && *path == plain
        {
            return Some(Arrival { end: plain, links: Vec::new(), kind: Some(*kind) });
        }
        const MOST: usize = 50_000;
        let key = (plain, last);
        if let Some(known) = self.through_links.get(&key)
            && let Some((path, kind)) = &direct
            && *path == known.end
        {
            return Some(Arrival { end: known.end.clone(), links: known.links.clone(), kind: Some(*kind) });
        }
        let walked = walked(root, task, &key.0, last)?;
        // Through a link of /proc there is no direct way.
        let kind = direct
            .filter(|(path, _)| *path == walked.end)
            .or_else(|| look(root, &walked.end, Last::Keep))
            .map(|(_, kind)| kind);
        if kind.is_some() && self.through_links.len() < MOST {
            self.through_links.insert(key, walked.clone());
        }
        Some(Arrival { end: walked.end, links: walked.links, kind })
    }

    /// May somebody execute it?
    pub fn is_executable(&self, path: &Path) -> bool {
        let file = self.root.as_ref().and_then(|root| open(root, path, OFlags::PATH));
        file.and_then(|file| rustix::fs::fstat(&file).ok()).is_some_and(|stat| stat.st_mode & 0o111 != 0)
    }

    /// The beginning of a file.
    pub fn head(&self, path: &Path, length: usize) -> Option<Vec<u8>> {
        let file = open(self.root.as_ref()?, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut head = vec![0; length];
        let read = rustix::io::pread(&file, &mut head, 0).ok()?;
        head.truncate(read);
        Some(head)
    }
}

fn open(root: &OwnedFd, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = flags | OFlags::CLOEXEC;
    rustix::fs::openat2(root, relative, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()
}

fn look(root: &OwnedFd, path: &Path, last: Last) -> Option<(PathBuf, Kind)> {
    let keep = if last == Last::Keep { OFlags::NOFOLLOW } else { OFlags::empty() };
    let handle = open(root, path, OFlags::PATH | keep)?;
    let kind = match FileType::from_raw_mode(rustix::fs::fstat(&handle).ok()?.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::File,
    };
    let path = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok()?;
    Some((path, kind))
}
