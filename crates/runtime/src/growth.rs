//! How much the writable paths of the host have grown since a sandbox began: by walking them, seldom enough
//! to cost little, and in between by what the processes say they have written.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// Walking takes at most this share of the time.
const SHARE: u32 = 50;
/// A tree that takes longer to walk is given up on.
const PATIENCE: Duration = Duration::from_secs(1);

/// What lies below some paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    pub bytes: u64,
    pub inodes: u64,
}

/// What the processes of a sandbox have written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// Altogether, whatever became of it.
    pub altogether: u64,
    /// Into files that are open and that no walk finds.
    pub without_a_name: u64,
}

#[derive(Debug)]
pub struct Growth {
    paths: Vec<PathBuf>,
    /// `None` when it could not be told: then only what is written counts.
    before: Option<Size>,
    grown: Size,
    /// What the processes had written when it was walked last.
    written_then: u64,
    next: Instant,
}

impl Growth {
    pub fn begin(paths: &[PathBuf]) -> Growth {
        let started = Instant::now();
        let before = size(paths);
        Growth {
            paths: paths.to_vec(),
            before,
            grown: Size::default(),
            written_then: 0,
            next: Instant::now() + started.elapsed() * SHARE,
        }
    }

    /// What the processes wrote since the last walk counts as grown until the next one knows better. Where a walk
    /// cannot see everything, all that was ever written counts.
    pub fn measure(&mut self, written: impl Fn() -> Written) -> Size {
        let now = written();
        if Instant::now() >= self.next {
            let started = Instant::now();
            match (self.before, size(&self.paths)) {
                (Some(before), Some(size)) => {
                    // What was written during the walk may have been seen by it: counted twice would be worse.
                    let after = written();
                    self.grown = Size {
                        bytes: size.bytes.saturating_sub(before.bytes) + after.without_a_name,
                        inodes: size.inodes.saturating_sub(before.inodes),
                    };
                    self.written_then = after.altogether;
                }
                _ => {
                    self.grown.bytes = self.grown.bytes.max(now.altogether).max(now.without_a_name);
                    self.written_then = now.altogether;
                }
            }
            self.next = Instant::now() + (started.elapsed() * SHARE).max(Duration::from_millis(20));
            return self.grown;
        }
        let suspicion = now.altogether.saturating_sub(self.written_then);
        Size { bytes: (self.grown.bytes + suspicion).max(now.without_a_name), inodes: self.grown.inodes }
    }
}

/// `None` when not everything could be seen.
fn size(paths: &[PathBuf]) -> Option<Size> {
    let mut size = Size::default();
    let mut links = std::collections::HashSet::new();
    let complete = walk(paths, None, &mut |stat| {
        // A second name is no second file.
        if stat.st_nlink > 1
            && FileType::from_raw_mode(stat.st_mode).is_file()
            && !links.insert((stat.st_dev, stat.st_ino))
        {
            return Go::On;
        }
        size.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        size.inodes += 1;
        Go::On
    });
    (complete == Some(Seen::Everything)).then_some(size)
}

/// The size of a file that has grown to the limit since `since`, below the paths or in private storage.
pub fn at_size(
    paths: &[PathBuf],
    storage: Option<BorrowedFd<'_>>,
    limit: u64,
    since: SystemTime,
) -> Option<u64> {
    let since = since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |moment| moment.as_secs() as i64);
    let mut found = None;
    walk(paths, storage, &mut |stat| {
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        if is_file && u64::try_from(stat.st_size) == Ok(limit) && stat.st_mtime >= since {
            found = Some(limit);
            return Go::Enough;
        }
        Go::On
    });
    found
}

enum Go {
    On,
    Enough,
}

/// Was anything shut?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Everything,
    Partly,
}

/// Visits everything below some directories, without following links or crossing into other filesystems.
/// `None` when it took too long. By path, not by descriptor: it only measures, and there may be more
/// directories than descriptors.
fn walk(
    paths: &[PathBuf],
    also: Option<BorrowedFd<'_>>,
    visit: &mut impl FnMut(&rustix::fs::Stat) -> Go,
) -> Option<Seen> {
    let end = Instant::now() + PATIENCE;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut seen = Seen::Everything;
    let mut waiting: Vec<PathBuf> = paths.to_vec();
    // The link itself would not be followed.
    waiting.extend(also.map(|fd| PathBuf::from(format!("/proc/self/fd/{}/.", fd.as_raw_fd()))));
    while let Some(path) = waiting.pop() {
        let opened = rustix::fs::openat(CWD, &path, flags, Mode::empty());
        if matches!(opened, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::NAMETOOLONG)) {
            seen = Seen::Partly;
        }
        let Ok(directory) = opened else {
            let stat = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| matches!(visit(&stat), Go::Enough)) {
                return Some(seen);
            }
            continue;
        };
        let Ok(own) = rustix::fs::fstat(&directory) else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if Instant::now() > end {
                return None;
            }
            let Ok(stat) = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if matches!(visit(&stat), Go::Enough) {
                return Some(seen);
            }
            if FileType::from_raw_mode(stat.st_mode).is_dir() && stat.st_dev == own.st_dev {
                waiting.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_was_added_and_a_suspicion_counts_until_the_next_walk() {
        let directory = std::env::temp_dir().join(format!("lazaret-growth-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("old"), vec![1; 100_000]).unwrap();
        let wrote = |altogether| Written { altogether, without_a_name: 0 };
        let mut growth = Growth::begin(std::slice::from_ref(&directory));
        assert_eq!(growth.measure(Written::default), Size::default());
        std::fs::write(directory.join("new"), vec![1; 50_000]).unwrap();
        growth.next = Instant::now() + Duration::from_secs(60);
        assert_eq!(growth.measure(|| wrote(77)).bytes, 77);
        growth.next = Instant::now();
        let grown = growth.measure(|| wrote(77));
        assert!(grown.inodes == 1 && (50_000..70_000).contains(&grown.bytes), "{grown:?}");
        let since = SystemTime::now() - Duration::from_secs(5);
        assert_eq!(at_size(std::slice::from_ref(&directory), None, 50_000, since), Some(50_000));
        assert_eq!(at_size(std::slice::from_ref(&directory), None, 50_001, since), None);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
