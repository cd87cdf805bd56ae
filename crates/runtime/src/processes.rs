//! The processes of a sandbox as the host sees them: what each has used, and who started whom.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    os::fd::{BorrowedFd, OwnedFd},
    time::Instant,
};

use rustix::fs::{Dir, Mode, OFlags};
use serde::Serialize;

/// The kernel's clock ticks in /proc, on every architecture there is.
const TICK_MS: u64 = 10;

/// One process. Numbers are those of the sandbox's own pid namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
    pub state: char,
    pub threads: u64,
    /// Its own and that of the children it has waited for.
    pub cpu_ms: u64,
    /// Its own alone.
    #[serde(skip)]
    pub own_cpu_ms: u64,
    /// When it began, in ticks: with its number, who it is.
    #[serde(skip)]
    pub started: u64,
    /// Memory that belongs to no file, shared parts counted fully, and the tables it takes.
    pub memory: u64,
    #[serde(skip)]
    pub tables: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// Which of the processes in a procfs belong to the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belonging {
    /// All: it is the sandbox's own.
    All,
    /// Those that come from this one: it is the host's.
    Below(i32),
}

/// Everything that runs inside at this moment, init included.
pub fn snapshot(proc: BorrowedFd<'_>, belonging: Belonging) -> Vec<Process> {
    of_those(numbers(proc).into_iter().filter_map(|pid| process(proc, pid)).collect(), belonging)
}

/// As many as can be looked at until then, without their memory.
pub fn snapshot_until(proc: BorrowedFd<'_>, belonging: Belonging, end: Instant) -> Vec<Process> {
    let pids = numbers(proc).into_iter().take_while(|_| Instant::now() < end);
    of_those(pids.filter_map(|pid| brief(proc, pid)).collect(), belonging)
}

fn of_those(mut processes: Vec<Process>, belonging: Belonging) -> Vec<Process> {
    if let Belonging::Below(top) = belonging {
        let parents: BTreeMap<i32, i32> = processes.iter().map(|p| (p.pid, p.parent)).collect();
        let mut below = BTreeSet::from([top]);
        for pid in parents.keys() {
            let mut chain = vec![*pid];
            while let Some(parent) = chain.last().and_then(|last| parents.get(last)) {
                if below.contains(parent) {
                    below.extend(&chain);
                    break;
                }
                // A parent that is gone, or a loop made by a number used anew.
                if chain.len() > parents.len() {
                    break;
                }
                chain.push(*parent);
            }
        }
        processes.retain(|process| below.contains(&process.pid));
    }
    processes
}

/// How many processes there are, init not counted.
pub fn count(proc: BorrowedFd<'_>) -> u64 {
    (numbers(proc).len() as u64).saturating_sub(1)
}

pub fn numbers(proc: BorrowedFd<'_>) -> Vec<i32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat(proc, c".", flags, Mode::empty()) else { return Vec::new() };
    let Ok(entries) = Dir::new(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
}

pub fn brief(proc: BorrowedFd<'_>, pid: i32) -> Option<Process> {
    let stat = read(proc, &format!("{pid}/stat"))?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain anything, a bracket included.
    let (begin, rest) = stat.rsplit_once(')')?;
    let name = begin.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name,
        state: fields.first().and_then(|state| state.chars().next()).unwrap_or('?'),
        threads: field(17),
        cpu_ms: (11..15).map(field).sum::<u64>() * TICK_MS,
        own_cpu_ms: (11..13).map(field).sum::<u64>() * TICK_MS,
        started: field(19),
        memory: 0,
        tables: 0,
        command: Vec::new(),
    })
}

fn process(proc: BorrowedFd<'_>, pid: i32) -> Option<Process> {
    let process = brief(proc, pid)?;
    let status = read(proc, &format!("{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let kilobytes = |key: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
    };
    let parts = ["RssAnon:", "RssShmem:", "VmPTE:"].map(|key| kilobytes(key).unwrap_or(0));
    let memory = parts.iter().sum::<u64>() << 10;
    Some(Process { memory, tables: kilobytes("VmPTE:").unwrap_or(0) << 10, ..process })
}

/// The same with shared parts divided among those who share them. Where a process hides (it made itself
/// unreadable), the full amount stands.
pub fn proportional_memory(proc: BorrowedFd<'_>, process: &Process) -> u64 {
    let Some(text) = read(proc, &format!("{}/smaps_rollup", process.pid)) else { return process.memory };
    let text = String::from_utf8_lossy(&text);
    let kilobytes = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
    };
    match (kilobytes("Pss_Anon:"), kilobytes("Pss_Shmem:")) {
        (Some(anonymous), Some(shared)) => process.tables + ((anonymous + shared) << 10),
        _ => process.memory,
    }
}

/// Shared memory without a name that a process has mapped, by its inode: it stays when nobody's pages show it.
pub fn shared_mappings(proc: BorrowedFd<'_>, process: &Process) -> Vec<(u64, u64)> {
    let text = read(proc, &format!("{}/maps", process.pid)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mapping = |line: &str| {
        let mut fields = line.split_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let shared = fields.next()?.ends_with('s');
        let inode = fields.nth(2)?.parse().ok()?;
        let name = fields.next()?;
        let size = u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(begin, 16).ok()?)?;
        (shared
            && (name.starts_with("/dev/zero") || name.starts_with("/memfd:") || name.starts_with("/SYSV")))
        .then_some((inode, size))
    };
    text.lines().filter_map(mapping).collect()
}

/// The blocks of files that are open and have no name any more, once each.
pub fn deleted_files(proc: BorrowedFd<'_>, processes: &[Process]) -> u64 {
    let mut seen = BTreeSet::new();
    for process in processes {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("{}/fd", process.pid);
        let Ok(directory) = rustix::fs::openat(proc, path, flags, Mode::empty()) else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten().take(4096) {
            if let Ok(stat) = rustix::fs::statat(&directory, entry.file_name(), rustix::fs::AtFlags::empty())
                && stat.st_nlink == 0
                && rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
            {
                seen.insert((stat.st_dev, stat.st_ino, u64::try_from(stat.st_blocks).unwrap_or(0)));
            }
        }
    }
    seen.iter().map(|(.., blocks)| blocks * 512).sum()
}

/// Bytes that a process, and those it waited for, have made dirty on disks.
pub fn written(proc: BorrowedFd<'_>, process: &Process) -> u64 {
    let text = read(proc, &format!("{}/io", process.pid)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    let taken_back = value("cancelled_write_bytes:").unwrap_or(0);
    value("write_bytes:").unwrap_or(0).saturating_sub(taken_back)
}

/// How many descriptors a process has open (since Linux 6.2; 0 before).
pub fn descriptors(proc: BorrowedFd<'_>, process: &Process) -> u64 {
    let stat = rustix::fs::statat(proc, format!("{}/fd", process.pid), rustix::fs::AtFlags::empty());
    stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}

/// How many of its descriptors are sockets.
pub fn sockets(proc: BorrowedFd<'_>, process: &Process) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(proc, format!("{}/fd", process.pid), flags, Mode::empty());
    let Ok(directory) = directory else { return 0 };
    let Ok(entries) = Dir::read_from(&directory) else { return 0 };
    let is_socket = |name: &std::ffi::CStr| {
        rustix::fs::readlinkat(&directory, name, Vec::new())
            .is_ok_and(|link| link.as_bytes().starts_with(b"socket:"))
    };
    entries.flatten().take(4096).filter(|entry| is_socket(entry.file_name())).count() as u64
}

/// Its arguments, shortened, for the record.
pub fn with_command(proc: BorrowedFd<'_>, mut process: Process) -> Process {
    let text = read(proc, &format!("{}/cmdline", process.pid)).unwrap_or_default();
    process.command = text
        .split(|byte| *byte == 0)
        .filter(|argument| !argument.is_empty())
        .take(64)
        .map(|argument| String::from_utf8_lossy(argument.get(..200).unwrap_or(argument)).into_owned())
        .collect();
    process
}

/// Does a process have this open? By what its link in /proc says.
pub fn has_open(proc: BorrowedFd<'_>, pid: i32, what: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat(proc, format!("{pid}/fd"), flags, Mode::empty()) else {
        return false;
    };
    let Ok(entries) = Dir::read_from(&directory) else { return false };
    entries.flatten().any(|entry| {
        rustix::fs::readlinkat(&directory, entry.file_name(), Vec::new())
            .is_ok_and(|link| link.as_bytes() == what.as_bytes())
    })
}

pub fn read(proc: BorrowedFd<'_>, path: &str) -> Option<Vec<u8>> {
    const MOST: u64 = 64 << 10;
    let file: OwnedFd =
        rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn this_process_is_seen_with_what_it_uses() {
        let proc = std::fs::File::open("/proc").unwrap();
        let own = std::process::id() as i32;
        let all = snapshot(proc.as_fd(), Belonging::Below(own));
        let this = all.iter().find(|process| process.pid == own).unwrap();
        assert!(this.memory > 0 && this.threads > 0, "{this:?}");
        assert!(proportional_memory(proc.as_fd(), this) > 0);
        assert!(all.len() < snapshot(proc.as_fd(), Belonging::All).len());
    }
}
