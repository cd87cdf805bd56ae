//! Walks a path on behalf of another process: where would it lead, and what is its last name?

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
};

/// Who asks, as numbered inside: what `/proc/self` means.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub pid: u32,
    pub tid: u32,
}

/// Where a path led: an open parent directory and the last name, every link on the way resolved.
pub struct Place {
    pub parent: OwnedFd,
    pub name: OsString,
}

/// What a path turned out to be.
pub enum Resolved {
    Place(Place),
    Magic(PathBuf),
}

const MAX_LINKS: usize = 40;
const PROC_MAGIC: i64 = 0x9fa0;

/// What a walk has to know, and what it tells.
pub struct Way<'a> {
    /// A procfs of our own.
    pub proc: BorrowedFd<'a>,
    /// Init and its children: they may look into themselves, the command must not.
    pub private: &'a [u32],
    /// Where the links are that were followed.
    pub followed: Option<&'a mut Vec<PathBuf>>,
}

impl Way<'_> {
    /// A directory of a procfs that belongs to one of ours?
    fn refuse_private(&self, directory: &OwnedFd) -> Result<(), Errno> {
        if rustix::fs::fstatfs(directory)?.f_type != PROC_MAGIC {
            return Ok(());
        }
        let path = path_of(self.proc, directory)?;
        let first = path.strip_prefix("/proc").ok().and_then(|rest| rest.components().next());
        let number = first.and_then(|first| first.as_os_str().to_str()?.parse::<u32>().ok());
        match number {
            Some(number) if self.private.contains(&number) => Err(Errno::ACCESS),
            _ => Ok(()),
        }
    }
}

/// Resolves a path as the kernel would for the task, link by link, and stops before the last name.
pub fn resolve(
    task: Caller,
    base: Option<BorrowedFd<'_>>,
    path: &[u8],
    follow_last: bool,
    mut way: Way<'_>,
) -> Result<Resolved, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = || rustix::fs::openat(CWD, c"/", directory, Mode::empty());
    let mut current = match base {
        Some(base) if !path.starts_with(b"/") => rustix::io::dup(base)?,
        _ => root()?,
    };
    way.refuse_private(&current)?;
    // Components still to go, the next one last.
    let split = |path: &[u8]| -> Vec<Vec<u8>> {
        path.split(|b| *b == b'/').filter(|c| !c.is_empty() && *c != b".").rev().map(<[u8]>::to_vec).collect()
    };
    let mut todo = split(path);
    let mut trailing_slash = path.ends_with(b"/");
    let mut links = 0;
    while let Some(name) = todo.pop() {
        let last = todo.is_empty();
        if name == b".." {
            current = rustix::fs::openat(&current, c"..", directory, Mode::empty())?;
            way.refuse_private(&current)?;
            continue;
        }
        let stat = rustix::fs::statat(&current, &*name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link =
            stat.as_ref().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        if is_link && (!last || follow_last || trailing_slash) {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            let in_proc = rustix::fs::fstatfs(&current)?.f_type == PROC_MAGIC;
            if let Some(followed) = way.followed.as_mut().filter(|_| !in_proc) {
                followed.push(path_of(way.proc, &current)?.join(OsStr::from_bytes(&name)));
            }
            let target = match name.as_slice() {
                // These mean the process that asks, which is not this one.
                b"self" if in_proc => task.pid.to_string().into_bytes(),
                b"thread-self" if in_proc => format!("{}/task/{}", task.pid, task.tid).into_bytes(),
                _ => rustix::fs::readlinkat(&current, &*name, Vec::new())?.into_bytes(),
            };
            let ordinary_in_proc = matches!(name.as_slice(), b"self" | b"thread-self" | b"mounts" | b"net");
            if in_proc && !ordinary_in_proc {
                if last {
                    let fd_path = std::fs::read_link(format!("/proc/self/fd/{}", current.as_raw_fd()))
                        .map_err(|_| Errno::ACCESS)?;
                    return Ok(Resolved::Magic(fd_path.join(OsStr::from_bytes(&name))));
                }
                current = rustix::fs::openat(&current, &*name, directory, Mode::empty())?;
                way.refuse_private(&current)?;
                continue;
            }
            if target.starts_with(b"/") {
                current = root()?;
            }
            if last && target.ends_with(b"/") {
                trailing_slash = true;
            }
            todo.extend(split(&target));
            if todo.is_empty() {
                todo.push(b".".to_vec());
            }
            continue;
        }
        if last {
            // The directory of one of ours is not to be opened, either.
            if rustix::fs::fstatfs(&current)?.f_type == PROC_MAGIC
                && let Ok(itself) =
                    rustix::fs::openat(&current, &*name, directory | OFlags::NOFOLLOW, Mode::empty())
            {
                way.refuse_private(&itself)?;
            }
            return Ok(Resolved::Place(Place { parent: current, name: OsString::from_vec(name) }));
        }
        current = rustix::fs::openat(&current, &*name, directory | OFlags::NOFOLLOW, Mode::empty())?;
        way.refuse_private(&current)?;
    }
    // The path was a directory itself (".", "/", "a/.."): nothing to create there.
    Ok(Resolved::Place(Place { parent: current, name: OsString::from(".") }))
}

/// The path of a place as seen inside. `proc` is a procfs of our own, whether or not the view has one.
pub fn canonical(proc: BorrowedFd<'_>, place: &Place) -> Result<PathBuf, Errno> {
    let parent = path_of(proc, &place.parent)?;
    Ok(if place.name == "." { parent } else { parent.join(&place.name) })
}

fn path_of(proc: BorrowedFd<'_>, directory: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("self/fd/{}", directory.as_raw_fd());
    let path = rustix::fs::readlinkat(proc, link, Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    if path.is_absolute() { Ok(path) } else { Err(Errno::ACCESS) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use std::path::Path;

    use super::*;

    /// The process above this one, since nobody may look into init itself.
    fn me() -> Caller {
        let parent = std::os::unix::process::parent_id();
        Caller { pid: parent, tid: parent }
    }

    fn walked(base: &Path, path: &str) -> PathBuf {
        let dir = rustix::fs::open(base, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let proc = rustix::fs::open("/proc", OFlags::PATH, Mode::empty()).unwrap();
        let way = Way { proc: proc.as_fd(), private: &[std::process::id()], followed: None };
        match resolve(me(), Some(dir.as_fd()), path.as_bytes(), true, way).unwrap() {
            Resolved::Place(place) => canonical(proc.as_fd(), &place).unwrap(),
            Resolved::Magic(path) => path,
        }
    }

    #[test]
    fn links_dots_and_proc_lead_where_the_kernel_would_go() {
        let base = std::env::temp_dir().join(format!("lazaret-broker-{}", std::process::id()));
        let base = {
            std::fs::create_dir_all(base.join("sub")).unwrap();
            base.canonicalize().unwrap()
        };
        std::os::unix::fs::symlink("secret", base.join("dangling")).unwrap();
        std::os::unix::fs::symlink("sub/../dangling", base.join("twice")).unwrap();
        let secret = base.join("secret");
        for path in ["secret", "./secret", "sub/../secret", "sub//..//./secret", "dangling", "twice"] {
            assert_eq!(walked(&base, path), secret, "{path}");
        }
        assert_eq!(walked(&base, &format!("{}/secret", base.display())), secret);
        assert_eq!(walked(&base, "/proc/self/root/etc/x"), Path::new("/etc/x"));
        let by_number = walked(&base, "/proc/self/fd/0");
        assert!(by_number.ends_with(format!("{}/fd/0", me().pid)), "{by_number:?}");
        let dir = rustix::fs::open(&base, OFlags::PATH, Mode::empty()).unwrap();
        let proc = rustix::fs::open("/proc", OFlags::PATH, Mode::empty()).unwrap();
        let private = [std::process::id()];
        let way = || Way { proc: proc.as_fd(), private: &private, followed: None };
        let own = format!("/proc/{}", std::process::id());
        let inner = rustix::fs::open(&own, OFlags::PATH, Mode::empty()).unwrap();
        for (base, path) in [
            (&dir, format!("{own}/environ")),
            (&dir, own.clone()),
            (&dir, format!("{own}/fd/../environ")),
            (&inner, "environ".to_owned()),
            (&inner, "fd/0".to_owned()),
        ] {
            let refused = resolve(me(), Some(base.as_fd()), path.as_bytes(), true, way());
            assert!(matches!(refused, Err(Errno::ACCESS)), "{path}");
        }
        std::os::unix::fs::symlink("loop", base.join("loop")).unwrap();
        let dir = rustix::fs::open(&base, OFlags::PATH, Mode::empty()).unwrap();
        let looped = resolve(me(), Some(dir.as_fd()), b"loop", true, way());
        assert!(matches!(looped, Err(Errno::LOOP)));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
