//! Which object a path names, found as the operating system would: component by component, links followed, `..`
//! after them and not by name, names that do not exist yet kept. Only looks, with `lstat` and `readlink`.
//!
//! What is seen here can change before the server looks; the sandbox is what holds then.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{FileType, Stat, lstat, readlink, statfs},
    io::Errno,
};

/// PATH_MAX and NAME_MAX of Linux.
pub(super) const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// MAXSYMLINKS of Linux.
const MOST_LINKS: usize = 40;
/// PROC_SUPER_MAGIC. Links there lead to another place for every process.
const PROC: i64 = 0x9fa0;

/// Why a path leads to nothing that could be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("it contains a NUL byte, which no path does; leave the byte out")]
    Nul,
    #[error("it is too long: a path has at most 4095 bytes, a name in it 255")]
    TooLong,
    #[error("it runs through more than 40 symbolic links, probably a loop; name the file itself")]
    Loop,
    #[error(
        "what lies under /proc/<process> or /dev/fd depends on the process that looks; name the file itself"
    )]
    ProcessView,
    #[error("it names the home of another user with `~`; write the whole path, or `./~…` for such a name")]
    OtherHome,
    #[error("it begins with `~`, and no home directory is known; write the whole path")]
    NoHome,
    #[error("it begins with a variable that only a shell could replace; write the whole path")]
    Variable,
    #[error("it is a pattern whose groups can lead to too many places; write several patterns, or the paths")]
    Pattern,
    #[error("it is a file: URL of another machine or a broken one; write the path itself")]
    FileUrl,
    #[error("`{at}` on its way cannot be looked at ({errno}); use a path that can be read", at = at.display())]
    Unseen { at: PathBuf, errno: Errno },
}

/// One object of the file system, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    pub fn of(stat: &Stat) -> Self {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }

    /// Of what is there, links followed.
    pub fn at(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().as_ref().map(Identity::of)
    }
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Absolute, without links, `.` and `..`.
    pub path: PathBuf,
    /// The objects along that path, from the first name below `/` on, as far as they exist.
    pub trail: Vec<Identity>,
    /// How many names at the end do not exist yet.
    pub missing: usize,
    /// What the last existing name is.
    pub object: Object,
    /// Links that stood at the very end, where they lie: deleting and renaming act on them.
    pub links: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    Directory,
    /// A file with more than one name may be known by another one.
    File {
        names: u64,
    },
    Other,
}

impl Resolved {
    pub fn exists(&self) -> bool {
        self.missing == 0
    }

    pub fn is_directory(&self) -> bool {
        self.exists() && self.object == Object::Directory
    }

    /// Does anything of it exist, below the root?
    pub fn is_rooted(&self) -> bool {
        !self.trail.is_empty()
    }
}

/// The object that `path` names, relative to `base`, which is absolute.
pub(super) fn resolve(base: &Path, path: &Path) -> Result<Resolved, PathFault> {
    let text = path.as_os_str().as_bytes();
    if text.contains(&0) {
        return Err(PathFault::Nul);
    }
    if text.len() > LONGEST_PATH {
        return Err(PathFault::TooLong);
    }
    let mut walk = Walk::new();
    walk.put(path.as_os_str());
    if !path.is_absolute() {
        walk.put(base.as_os_str());
    }
    walk.run()
}

/// The path with `..` taken back by name, as programs do that tidy a path up before they open it. None when that
/// makes no difference.
pub(super) fn tidied(path: &Path) -> Option<PathBuf> {
    if !path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if tidy.file_name().is_some() => {
                tidy.pop();
            }
            Component::ParentDir if tidy.has_root() => {}
            Component::ParentDir => tidy.push(".."),
            Component::CurDir | Component::Prefix(_) => {}
            Component::RootDir | Component::Normal(_) => tidy.push(component),
        }
        // `file_name` of `../..` is none, so leading ones stay.
    }
    Some(if tidy.as_os_str().is_empty() { PathBuf::from(".") } else { tidy })
}

struct Walk {
    /// What is still to be walked, the next one last.
    ahead: Vec<OsString>,
    at: PathBuf,
    trail: Vec<Identity>,
    /// Beyond the existing part of `at`.
    missing: usize,
    /// What the objects of the trail are.
    objects: Vec<Object>,
    hops: usize,
    links: Vec<PathBuf>,
}

impl Walk {
    fn new() -> Self {
        Walk {
            ahead: Vec::new(),
            at: PathBuf::from("/"),
            trail: Vec::new(),
            missing: 0,
            objects: Vec::new(),
            hops: 0,
            links: Vec::new(),
        }
    }

    /// Puts a path before everything that is still ahead.
    fn put(&mut self, path: &OsStr) {
        let names = path.as_bytes().split(|byte| *byte == b'/').rev();
        self.ahead.extend(
            names.filter(|name| !matches!(*name, b"" | b".")).map(|name| OsStr::from_bytes(name).into()),
        );
    }

    fn restart(&mut self) {
        self.at = PathBuf::from("/");
        self.trail.clear();
        self.objects.clear();
        self.missing = 0;
    }

    fn up(&mut self) {
        if self.missing > 0 {
            self.missing -= 1;
        } else {
            self.trail.pop();
            self.objects.pop();
        }
        self.at.pop();
    }

    fn run(mut self) -> Result<Resolved, PathFault> {
        while let Some(name) = self.ahead.pop() {
            if name == ".." {
                self.up();
            } else {
                self.enter(&name)?;
            }
            if depends_on_process(&self.at) {
                return Err(PathFault::ProcessView);
            }
        }
        let object = self.objects.last().copied().unwrap_or(Object::Directory);
        Ok(Resolved { path: self.at, trail: self.trail, missing: self.missing, object, links: self.links })
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), PathFault> {
        if name.len() > LONGEST_NAME {
            return Err(PathFault::TooLong);
        }
        self.at.push(name);
        if self.missing > 0 {
            self.missing += 1;
            return Ok(());
        }
        let stat = match lstat(&self.at) {
            Ok(stat) => stat,
            // Below a file there is nothing, whatever its name.
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.missing = 1;
                return Ok(());
            }
            Err(Errno::LOOP) => return Err(PathFault::Loop),
            Err(Errno::NAMETOOLONG) => return Err(PathFault::TooLong),
            Err(errno) => return Err(PathFault::Unseen { at: self.at.clone(), errno }),
        };
        let object = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => return self.follow(),
            FileType::Directory => Object::Directory,
            FileType::RegularFile => Object::File { names: stat.st_nlink as u64 },
            _ => Object::Other,
        };
        self.trail.push(Identity::of(&stat));
        self.objects.push(object);
        Ok(())
    }

    fn follow(&mut self) -> Result<(), PathFault> {
        self.hops += 1;
        if self.hops > MOST_LINKS {
            return Err(PathFault::Loop);
        }
        let unseen = |at: &Path, errno| PathFault::Unseen { at: at.to_owned(), errno };
        let target = readlink(&self.at, Vec::new()).map_err(|errno| unseen(&self.at, errno))?;
        let link = self.at.clone();
        self.at.pop();
        let system = statfs(&self.at).map_err(|errno| unseen(&self.at, errno))?;
        #[allow(clippy::unnecessary_cast, reason = "the type of f_type differs between architectures")]
        if system.f_type as i64 == PROC {
            return Err(PathFault::ProcessView);
        }
        if self.ahead.is_empty() {
            self.links.push(link);
        }
        let target = OsStr::from_bytes(target.as_bytes());
        if target.as_bytes().first() == Some(&b'/') {
            self.restart();
        }
        self.put(target);
        Ok(())
    }
}

/// Inside the sandbox other processes have these numbers, and `self` is the server: whatever is seen here is not
/// what the server would see.
fn depends_on_process(path: &Path) -> bool {
    let mut names = path.components().skip(1).map(|component| component.as_os_str().as_bytes());
    match (names.next(), names.next()) {
        (Some(b"proc"), Some(name)) => {
            matches!(name, b"self" | b"thread-self") || name.iter().all(u8::is_ascii_digit)
        }
        (Some(b"dev"), Some(name)) => matches!(name, b"fd" | b"stdin" | b"stdout" | b"stderr"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
