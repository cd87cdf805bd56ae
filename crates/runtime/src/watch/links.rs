//! Follows a path as the process would, links of /proc included (`/proc/self/root`, `cwd`, `fd/N`), which the
//! kernel does not follow for somebody else. For telling only.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use lazaret_sandbox::linux::notify::Task;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// As many links as the kernel follows.
const MOST: usize = 40;

/// Where the path leads, as far as that can be told.
pub fn followed(task: &Task, path: &Path) -> Option<PathBuf> {
    walked(&task.root().ok()?, task, path, Last::Follow).map(|walked| walked.end)
}

/// Is a link at the end followed?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Last {
    Follow,
    Keep,
}

/// The end of a walk, and the links that were met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    pub end: PathBuf,
    pub links: Vec<PathBuf>,
}

/// Walks name by name.
pub fn walked(root: &OwnedFd, task: &Task, path: &Path, last: Last) -> Option<Walked> {
    let mut waiting: Vec<PathBuf> = components(path);
    let mut sofar = PathBuf::from("/");
    let mut links = Vec::new();
    while let Some(name) = waiting.pop() {
        if name == Path::new("..") {
            sofar.pop();
            continue;
        }
        let candidate = sofar.join(&name);
        let target = match of_proc(task, &candidate) {
            _ if waiting.is_empty() && last == Last::Keep => None,
            Some(target) => Some(target),
            None => read_link(root, &candidate),
        };
        let Some(target) = target else {
            sofar = candidate;
            continue;
        };
        links.push(candidate);
        if links.len() > MOST {
            return None;
        }
        if target.is_absolute() {
            sofar = PathBuf::from("/");
        }
        waiting.extend(components(&target));
    }
    Some(Walked { end: sofar, links })
}

/// In the order in which they are to be popped.
fn components(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut parts: Vec<PathBuf> = parts.collect();
    parts.reverse();
    parts
}

fn read_link(root: &OwnedFd, path: &Path) -> Option<PathBuf> {
    let relative = path.strip_prefix("/").ok()?;
    let (parent, name) = (relative.parent()?, relative.file_name()?);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(root, parent, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let target = rustix::fs::readlinkat(&directory, name, Vec::new()).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
}

/// `/proc/WHO/root`, `/proc/WHO/cwd` and `/proc/WHO/fd/N`, of the caller itself; of others their root, which is
/// the same for everybody inside.
fn of_proc(task: &Task, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("/proc").ok()?;
    let parts: Vec<&str> = below.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let own = |who: &str| {
        matches!(who, "self" | "thread-self")
            || task
                .numbers()
                .is_ok_and(|numbers| [numbers.process, numbers.thread].iter().any(|n| who == n.to_string()))
    };
    match parts.as_slice() {
        [_, "root"] | [_, "task", _, "root"] => Some(PathBuf::from("/")),
        [who, "cwd"] | [who, "task", _, "cwd"] if own(who) => task.path_of(AT_FDCWD).ok(),
        [who, "fd", number] | [who, "task", _, "fd", number] if own(who) => {
            task.path_of(number.parse().ok()?).ok().filter(|target| target.is_absolute())
        }
        _ => None,
    }
}

const AT_FDCWD: i32 = -100;
