//! Paths by name: containment and canonical forms, cheap enough for a launch.

use std::{
    fs, io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use lazaret_sandbox::spec::{Kind, Object};

/// Is `path` the same as `above`, or below it? Both are absolute and normal, so bytes tell; this runs some
/// thousand times per launch, and walking components would take most of a millisecond.
pub fn is_at_or_below(path: &Path, above: &Path) -> bool {
    let (path, above) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || above == b"/")
}

/// What a path leads to, all looked at through one descriptor: the name, the identity and the kind belong
/// together even when somebody exchanges directories for links meanwhile.
#[derive(Debug, Clone)]
pub struct Found {
    pub path: PathBuf,
    pub object: Object,
    pub kind: Kind,
    pub is_socket: bool,
}

/// Looks at a path, through links.
pub fn look(path: &Path) -> io::Result<Found> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    let stat = rustix::fs::fstat(&handle)?;
    let found = fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
    if !found.is_absolute() {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    let file_type = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    Ok(Found {
        path: found,
        object: Object { device: stat.st_dev, inode: stat.st_ino },
        kind: if file_type.is_dir() { Kind::Directory } else { Kind::File },
        is_socket: file_type == rustix::fs::FileType::Socket,
    })
}

/// The path without links, in three system calls where the C library takes one per component.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    match fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())) {
        Ok(canonical) if canonical.is_absolute() => Ok(canonical),
        _ => path.canonicalize(),
    }
}

/// The links on the way to a path, each by its own canonical name, and where the path leads in the end.
pub fn links_on_the_way(path: &Path) -> Vec<PathBuf> {
    const MOST: usize = 40;
    let mut met = Vec::new();
    let mut sofar = PathBuf::from("/");
    let mut todo: Vec<std::ffi::OsString> = names_of(path);
    while let Some(name) = todo.pop() {
        if name == ".." {
            sofar.pop();
            continue;
        }
        let next = sofar.join(&name);
        match fs::read_link(&next) {
            Ok(target) if met.len() < MOST => {
                met.push(next);
                if target.is_absolute() {
                    sofar = PathBuf::from("/");
                }
                todo.extend(names_of(&target));
            }
            _ => sofar = next,
        }
    }
    if !met.is_empty() {
        met.push(sofar);
    }
    met
}

/// The last one first.
fn names_of(path: &Path) -> Vec<std::ffi::OsString> {
    use std::path::Component::{Normal, ParentDir};
    let names = path.components().filter(|component| matches!(component, Normal(_) | ParentDir));
    let mut names: Vec<_> = names.map(|component| component.as_os_str().to_owned()).collect();
    names.reverse();
    names
}

/// A directory that was looked at: by its written name, where it is, and whether it is there at all.
#[derive(Debug)]
pub struct Parent {
    written: PathBuf,
    resolved: PathBuf,
    exists: bool,
}

/// Resolves links in the part of a path that exists; the rest stays as it is. Also says whether the directory
/// exists that the path would be in. Many denied paths share their parents, so those are remembered.
pub fn canonical_as_far_as_it_exists(path: &Path, parents: &mut Vec<Parent>) -> (PathBuf, bool) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return (path.to_owned(), true);
    };
    let known = parents.iter().rev().find(|known| known.written.as_os_str() == parent.as_os_str());
    if let Some(known) = known {
        return (known.resolved.join(name), known.exists);
    }
    let (resolved, exists) = match canonical(parent) {
        Ok(resolved) => (resolved, true),
        Err(_) => (canonical_as_far_as_it_exists(parent, parents).0, false),
    };
    let place = resolved.join(name);
    parents.push(Parent { written: parent.to_owned(), resolved, exists });
    (place, exists)
}
