//! Path validation of RFC-0002 §4.1 as one function: is this path inside the tool's root and not denied,
//! and which object is it? The answer carries a handle, so that what is used afterwards is what was
//! checked, even when somebody renames directories and plants links in between.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::schema::FilesystemPolicy;

/// PATH_MAX and NAME_MAX of Linux; the kernel refuses more, and so do we before asking it.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// How often a path that changes under our hands is looked at again.
const ATTEMPTS: usize = 128;

/// A path that passed every rule, and the object it named at that moment.
#[derive(Debug)]
pub struct ValidPath {
    /// Absolute and free of symbolic links, below the canonical root.
    pub canonical: PathBuf,
    /// Opened with `O_PATH`: the object that was checked, or the directory it is to be created in. Work on
    /// this, not on the path.
    pub handle: OwnedFd,
    pub object: Object,
}

/// What the handle of a [`ValidPath`] refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// The object itself.
    Existing,
    /// The directory in which an object of this name does not exist yet. Create it relative to the handle
    /// and with `O_CREAT | O_EXCL`, which follows no link.
    NotYet(OsString),
}

/// Why a path was refused: one variant per rule, and the cases in which no answer could be found.
#[derive(Debug, thiserror::Error)]
pub enum PathRefusal {
    #[error("the path is empty: name a file below the root")]
    Empty,
    #[error("the path contains a NUL byte: no file has such a name, remove the byte")]
    Nul,
    #[error("the path or one of its names is too long: use at most 4095 bytes, 255 in a name")]
    TooLong,
    #[error("`{path}` contains `..`: write the directory that is meant", path = path.display())]
    Traversal { path: PathBuf },
    #[error("`{path}` is outside `{root}`: use a path below it", path = path.display(), root = root.display())]
    OutsideRoot { path: PathBuf, root: PathBuf },
    #[error(
        "`{path}` is denied by `{rule}`: use another path, or change deniedPaths",
        path = path.display(), rule = rule.display()
    )]
    Denied { path: PathBuf, rule: PathBuf },
    #[error(
        "`{path}` leaves `{root}` by a symbolic link: use a link that is relative and stays inside",
        path = path.display(), root = root.display()
    )]
    LeavesRoot { path: PathBuf, root: PathBuf },
    #[error(
        "`{path}` goes through a loop of symbolic links or a link of /proc: name the file itself",
        path = path.display()
    )]
    Loop { path: PathBuf },
    #[error(
        "`{path}` is a symbolic link to nothing: create its target first, or remove the link",
        path = path.display()
    )]
    DanglingLink { path: PathBuf },
    #[error("the directory of `{path}` does not exist: create it first", path = path.display())]
    NoParent { path: PathBuf },
    #[error(
        "`{path}` keeps changing while it is being checked: try again when nothing moves it",
        path = path.display()
    )]
    Unstable { path: PathBuf },
    #[error("the policy has no absolute rootPath: set filesystem.rootPath to check paths against")]
    NoRoot,
    #[error("the root `{root}` cannot be opened: create it, or correct filesystem.rootPath", root = root.display())]
    RootUnavailable {
        root: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the denied path `{rule}` is not absolute: replace `~` and `.` before paths are checked",
        rule = rule.display()
    )]
    RelativeRule { rule: PathBuf },
    #[error("`{path}` cannot be resolved: check that it exists and may be reached", path = path.display())]
    Unresolvable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The path without `.`, doubled and trailing slashes. Refuses what can be refused by looking at it alone,
/// `..` among it: after a symbolic link it does not lead back to where it seems to.
pub fn normalize(path: &Path) -> Result<PathBuf, PathRefusal> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err(PathRefusal::Empty);
    }
    if bytes.contains(&0) {
        return Err(PathRefusal::Nul);
    }
    if bytes.len() > LONGEST_PATH || path.components().any(|name| name.as_os_str().len() > LONGEST_NAME) {
        return Err(PathRefusal::TooLong);
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(PathRefusal::Traversal { path: path.to_owned() });
    }
    let normal: PathBuf = path.components().filter(|component| *component != Component::CurDir).collect();
    Ok(if normal.as_os_str().is_empty() { PathBuf::from(".") } else { normal })
}

/// The five rules of RFC-0002 §4.1. A relative path is taken from `rootPath`.
///
/// Symbolic links are followed by the kernel (`openat2` with `RESOLVE_BENEATH`), never by name, so there is
/// no moment between check and use. This refuses every link that is absolute, also one that would lead back
/// inside: its meaning depends on where the root is, which changes inside the sandbox.
pub fn validate(path: &Path, policy: &FilesystemPolicy) -> Result<ValidPath, PathRefusal> {
    // Rule 1: normal form.
    let normal = normalize(path)?;
    let root = Root::open(policy)?;
    // Rule 2: absolute paths only inside. Rule 3, no traversal, is part of the normal form.
    let relative = root.relative(&normal)?;
    // Rule 4: denied paths, by name, whether or not anything is there.
    let rules = Rules::of(policy)?;
    rules.judge(path, &root.path.join(&relative))?;
    rules.judge(path, &root.canonical.join(&relative))?;
    // Rule 5: follow the links and judge again what is really there.
    let valid = root.resolve(path, &relative)?;
    Rules::of(policy)?.judge(path, &valid.canonical)?;
    Ok(valid)
}

/// The root directory, held open: everything is looked up beneath this object.
struct Root {
    path: PathBuf,
    canonical: PathBuf,
    handle: OwnedFd,
}

impl Root {
    fn open(policy: &FilesystemPolicy) -> Result<Self, PathRefusal> {
        let root =
            policy.root_path.as_deref().filter(|root| root.is_absolute()).ok_or(PathRefusal::NoRoot)?;
        let path = normalize(root)?;
        let unavailable =
            |error: Errno| PathRefusal::RootUnavailable { root: path.clone(), source: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty()).map_err(unavailable)?;
        let canonical = path_of(handle.as_fd()).map_err(unavailable)?;
        Ok(Root { path, canonical, handle })
    }

    fn relative(&self, normal: &Path) -> Result<PathBuf, PathRefusal> {
        if normal.is_relative() {
            return Ok(normal.to_owned());
        }
        let inside = normal.strip_prefix(&self.path).or_else(|_| normal.strip_prefix(&self.canonical));
        match inside {
            Ok(inside) if inside.as_os_str().is_empty() => Ok(PathBuf::from(".")),
            Ok(inside) => Ok(inside.to_owned()),
            Err(_) => Err(PathRefusal::OutsideRoot { path: normal.to_owned(), root: self.path.clone() }),
        }
    }

    /// Finds the object and its canonical path; starts over while the two do not agree.
    fn resolve(&self, asked: &Path, relative: &Path) -> Result<ValidPath, PathRefusal> {
        for _ in 0..ATTEMPTS {
            let (handle, object) = match self.beneath(relative, OFlags::empty()) {
                Ok(handle) => (handle, Object::Existing),
                Err(Errno::NOENT) => match self.parent_of(asked, relative)? {
                    Some(found) => found,
                    None => continue,
                },
                Err(Errno::AGAIN) => continue,
                Err(error) => return Err(self.refusal(asked, error)),
            };
            let place = path_of(handle.as_fd()).map_err(|error| self.refusal(asked, error))?;
            let Ok(inside) = place.strip_prefix(&self.canonical) else {
                return Err(PathRefusal::LeavesRoot { path: asked.to_owned(), root: self.path.clone() });
            };
            // The name of a handle is only a description: the object may have been moved or deleted.
            if !self.leads_to(inside, handle.as_fd()) {
                continue;
            }
            let canonical = match &object {
                Object::Existing => place,
                Object::NotYet(name) => place.join(name),
            };
            return Ok(ValidPath { canonical, handle, object });
        }
        Err(PathRefusal::Unstable { path: asked.to_owned() })
    }

    /// The directory in which the last name of the path is missing; none when it has just appeared.
    fn parent_of(&self, asked: &Path, relative: &Path) -> Result<Option<(OwnedFd, Object)>, PathRefusal> {
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Err(self.refusal(asked, Errno::NOENT));
        };
        let parent = match self.beneath(parent, OFlags::DIRECTORY) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Err(PathRefusal::NoParent { path: asked.to_owned() }),
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(self.refusal(asked, error)),
        };
        match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(Some((parent, Object::NotYet(name.to_owned())))),
            Err(error) => Err(self.refusal(asked, error)),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                // Either it leads to nothing, or it was put there since; only the former stays so.
                match self.beneath(relative, OFlags::empty()) {
                    Err(Errno::NOENT) => Err(PathRefusal::DanglingLink { path: asked.to_owned() }),
                    _ => Ok(None),
                }
            }
            Ok(_) => Ok(None),
        }
    }

    fn beneath(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let relative = if relative.as_os_str().is_empty() { OsStr::new(".") } else { relative.as_os_str() };
        rustix::fs::openat2(
            &self.handle,
            relative,
            flags | OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// Is the object at `inside` the one behind the handle?
    fn leads_to(&self, inside: &Path, handle: BorrowedFd<'_>) -> bool {
        let Ok(again) = self.beneath(inside, OFlags::NOFOLLOW) else { return false };
        match (rustix::fs::fstat(again), rustix::fs::fstat(handle)) {
            (Ok(again), Ok(first)) => (again.st_dev, again.st_ino) == (first.st_dev, first.st_ino),
            _ => false,
        }
    }

    fn refusal(&self, asked: &Path, error: Errno) -> PathRefusal {
        let path = asked.to_owned();
        match error {
            Errno::XDEV => PathRefusal::LeavesRoot { path, root: self.path.clone() },
            Errno::LOOP => PathRefusal::Loop { path },
            error => PathRefusal::Unresolvable { path, source: error.into() },
        }
    }
}

/// Where the kernel says that the object behind a handle is.
fn path_of(handle: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.as_bytes())))
}

/// The denied paths, each as it was written and as it is when its links are followed.
struct Rules(Vec<(PathBuf, PathBuf)>);

impl Rules {
    fn of(policy: &FilesystemPolicy) -> Result<Self, PathRefusal> {
        let both = |rule: &PathBuf| match normalize(rule) {
            Ok(normal) if normal.is_absolute() => {
                let canonical = canonical_prefix(&normal);
                Ok((normal, canonical))
            }
            _ => Err(PathRefusal::RelativeRule { rule: rule.clone() }),
        };
        policy.denied_paths.iter().map(both).collect::<Result<_, _>>().map(Rules)
    }

    /// Component by component: `/a/secret` covers `/a/secret/key` and not `/a/secretary`. Of several rules
    /// that match the shortest is named, whatever their order.
    fn judge(&self, asked: &Path, candidate: &Path) -> Result<(), PathRefusal> {
        let matching = self
            .0
            .iter()
            .filter(|(normal, canonical)| candidate.starts_with(normal) || candidate.starts_with(canonical));
        match matching.map(|(normal, _)| normal).min() {
            Some(rule) => Err(PathRefusal::Denied { path: asked.to_owned(), rule: rule.clone() }),
            None => Ok(()),
        }
    }
}

/// The path with the links of its longest existing part followed.
fn canonical_prefix(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|ancestor| {
            let real = std::fs::canonicalize(ancestor).ok()?;
            let rest = path.strip_prefix(ancestor).ok()?;
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        })
        .unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests;
