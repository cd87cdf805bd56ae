//! A control group for one sandbox: version 2 where the host offers its controllers, version 1 where those
//! are there, each controller by itself (hybrid hosts). Only groups of our own are made, below or beside the
//! caller's own, and they are removed at the end; what a killed owner left is removed by the next.

mod place;

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use self::place::{Place, Version};
use super::traffic;
use crate::spec::Group;

/// How the names of our groups begin.
const PREFIX: &str = "lazaret-";
/// Zombies leave a group a moment after their end.
const REMOVAL_TRIES: u32 = 200;

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("no control group with {0} can be made here")]
    NoPlace(String),
    #[error("cannot set {file} of a control group: {source}")]
    Limit { file: &'static str, source: io::Error },
    #[error("cannot put the sandbox into its control group: {0}")]
    Join(#[source] io::Error),
}

/// Which kind of control group holds the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Unified,
    /// At least one controller is one of version 1.
    Legacy,
}

/// What a group has used, and how often it ran into its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consumption {
    pub cpu_us: u64,
    pub memory_peak: u64,
    pub oom_kills: u64,
    /// How often a process or thread could not be started.
    pub tasks_refused: u64,
    /// From and to disks. What is written to a file counts when the kernel carries it to its disk, often later.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// One directory of a group that is in force.
#[derive(Debug)]
struct Directory {
    version: Version,
    path: PathBuf,
    /// Locked as long as this process lives: how the next one tells a group in use from one left behind.
    fd: OwnedFd,
}

/// A control group; removed when dropped. Everything in it must have ended by then.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<Directory>,
}

impl Cgroup {
    /// Makes a group with these limits, where one can be made.
    pub fn make(limits: &Group) -> Result<Cgroup, CgroupError> {
        let wanted = controllers(limits);
        let places = place::find(&wanted).ok_or_else(|| CgroupError::NoPlace(wanted.join(", ")))?;
        let mut group = Cgroup { directories: Vec::new() };
        let name = format!("{PREFIX}{}-{}", std::process::id(), unique());
        for place in places {
            sweep(&place.parent);
            let directory = make_directory(&place, &name)
                .map_err(|_| CgroupError::NoPlace(place.controllers.join(", ")))?;
            group.directories.push(directory);
            let Some(directory) = group.directories.last() else { continue };
            for controller in &place.controllers {
                apply(directory, controller, limits)?;
            }
        }
        Ok(group)
    }

    pub fn kind(&self) -> Kind {
        if self.directories.iter().all(|directory| directory.version == Version::Two) {
            Kind::Unified
        } else {
            Kind::Legacy
        }
    }

    /// For a clone straight into the group, which version 2 alone can do.
    pub fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        match self.directories.as_slice() {
            [Directory { version: Version::Two, fd, .. }] => Some(fd.as_fd()),
            _ => None,
        }
    }

    /// Moves a process in. It must not have run anything foreign yet.
    pub fn join(&self, pid: i32) -> Result<(), CgroupError> {
        for directory in &self.directories {
            fs::write(directory.path.join("cgroup.procs"), pid.to_string()).map_err(CgroupError::Join)?;
        }
        Ok(())
    }

    /// Asks the kernel where a process is: only what it confirms is in force.
    pub fn holds(&self, pid: i32) -> bool {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return false };
        self.directories.iter().all(|directory| {
            let name = directory.path.file_name().unwrap_or_default().to_string_lossy();
            text.lines().any(|line| line.rsplit('/').next() == Some(&*name))
        })
    }

    pub fn consumption(&self) -> Consumption {
        let mut sum = Consumption::default();
        for directory in &self.directories {
            let file = |name: &str| fs::read_to_string(directory.path.join(name)).unwrap_or_default();
            match directory.version {
                Version::Two => {
                    sum.cpu_us = field(&file("cpu.stat"), "usage_usec").unwrap_or(sum.cpu_us);
                    sum.memory_peak = number(&file("memory.peak")).unwrap_or(sum.memory_peak);
                    sum.oom_kills += field(&file("memory.events"), "oom_kill").unwrap_or(0);
                    sum.tasks_refused += field(&file("pids.events"), "max").unwrap_or(0);
                    let (read, written) = traffic::io_stat(&file("io.stat"));
                    sum.read_bytes += read;
                    sum.written_bytes += written;
                }
                Version::One => {
                    sum.cpu_us = number(&file("cpuacct.usage")).map_or(sum.cpu_us, |nanos| nanos / 1000);
                    sum.memory_peak = number(&file("memory.max_usage_in_bytes")).unwrap_or(sum.memory_peak);
                    sum.oom_kills += field(&file("memory.oom_control"), "oom_kill").unwrap_or(0);
                    sum.tasks_refused += field(&file("pids.events"), "max").unwrap_or(0);
                    let (read, written) = traffic::blkio(&file("blkio.throttle.io_service_bytes"));
                    sum.read_bytes += read;
                    sum.written_bytes += written;
                }
            }
        }
        sum
    }

    /// Where it is.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|directory| directory.path.as_path())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            for _ in 0..REMOVAL_TRIES {
                match fs::remove_dir(&directory.path) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// The controllers that hold these limits.
fn controllers(limits: &Group) -> Vec<&'static str> {
    [
        (limits.memory.is_some(), "memory"),
        (limits.tasks.is_some(), "pids"),
        (limits.cpu_percent.is_some(), "cpu"),
        (limits.cpu_time_ms.is_some(), "cpuacct"),
        (limits.io_bytes.is_some() || limits.io_operations.is_some(), "io"),
    ]
    .into_iter()
    .filter_map(|(wanted, name)| wanted.then_some(name))
    .collect()
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn make_directory(place: &Place, name: &str) -> io::Result<Directory> {
    let path = place.parent.join(name);
    // A sweeper may take a directory for one left behind in the moment before it is locked: then again.
    for _ in 0..10 {
        fs::create_dir(&path)?;
        let fd = rustix::fs::openat(
            CWD,
            &path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let locked = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && path.is_dir() {
            return Ok(Directory { version: place.version, path, fd });
        }
        let _ = fs::remove_dir(&path);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes groups whose owner is gone. The kernel refuses to remove one with a process in it.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        remove_abandoned(&entry.path());
    }
}

/// Removes a group unless its owner lives.
pub fn remove_abandoned(path: &Path) {
    let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::openat(CWD, path, flags, Mode::empty())
        && is_ours
        && rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        let _ = fs::remove_dir(path);
    }
}

fn apply(directory: &Directory, controller: &str, limits: &Group) -> Result<(), CgroupError> {
    let set = |file: &'static str, value: String| {
        fs::write(directory.path.join(file), value).map_err(|source| CgroupError::Limit { file, source })
    };
    // Kernels without swap accounting do not have every file.
    let set_if_there = |file: &'static str, value: &str| match set(file, value.to_owned()) {
        Err(CgroupError::Limit { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    // Init is one of the counted tasks.
    let tasks = limits.tasks.map(|tasks| tasks.saturating_add(1)).unwrap_or_default();
    let memory = limits.memory.unwrap_or_default().to_string();
    match (directory.version, controller) {
        (Version::Two, "memory") => {
            set("memory.max", memory)?;
            set_if_there("memory.swap.max", "0")?;
            set_if_there("memory.oom.group", "1")
        }
        (Version::One, "memory") => {
            set("memory.limit_in_bytes", memory.clone())?;
            // Memory and swap together no more than memory alone: no swap.
            set_if_there("memory.memsw.limit_in_bytes", &memory)?;
            set_if_there("memory.swappiness", "0")
        }
        (_, "pids") => set("pids.max", tasks.to_string()),
        (version, "cpu") => {
            const PERIOD: u64 = 100_000;
            let quota = (limits.cpu_percent.unwrap_or(100) * PERIOD / 100).max(1000);
            match version {
                Version::Two => set("cpu.max", format!("{quota} {PERIOD}")),
                Version::One => {
                    set("cpu.cfs_period_us", PERIOD.to_string())?;
                    set("cpu.cfs_quota_us", quota.to_string())
                }
            }
        }
        (version, "io") => place::disks().into_iter().try_for_each(|disk| match version {
            Version::Two => {
                let max = |value: Option<u64>| value.map_or("max".to_owned(), |value| value.to_string());
                let (bytes, operations) = (max(limits.io_bytes), max(limits.io_operations));
                set(
                    "io.max",
                    format!("{disk} rbps={bytes} wbps={bytes} riops={operations} wiops={operations}"),
                )
            }
            Version::One => {
                if let Some(bytes) = limits.io_bytes {
                    set("blkio.throttle.read_bps_device", format!("{disk} {bytes}"))?;
                    set("blkio.throttle.write_bps_device", format!("{disk} {bytes}"))?;
                }
                if let Some(operations) = limits.io_operations {
                    set("blkio.throttle.read_iops_device", format!("{disk} {operations}"))?;
                    set("blkio.throttle.write_iops_device", format!("{disk} {operations}"))?;
                }
                Ok(())
            }
        }),
        _ => Ok(()),
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(name)?.strip_prefix(' ')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_both_versions_are_read() {
        assert_eq!(field("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n", "oom_kill"), Some(2));
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "oom_kill"), Some(1));
    }

    #[test]
    fn only_the_controllers_that_are_needed_are_asked_for() {
        assert!(controllers(&Group::default()).is_empty());
        let limits = Group { memory: Some(1), cpu_time_ms: Some(1), ..Group::default() };
        assert_eq!(controllers(&limits), ["memory", "cpuacct"]);
    }
}
