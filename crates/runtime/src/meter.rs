//! Measures a running sandbox against the limits of its policy. What the kernel holds by itself (memory and
//! tasks in a control group, sizes, descriptors) is only told here; what it does not hold (CPU time of the
//! whole tree; memory, where there is no control group) is sampled, and the sandbox is ended when it is too
//! much.

use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::BorrowedFd,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use lazaret_policy::{
    Policy,
    schema::Level,
    units::{Bytes, Millis},
};
use lazaret_sandbox::{
    linux::{
        cgroup::{Consumption, Kind},
        launch::Sandbox,
    },
    spec::{Access, Entry, Group, Limits, Namespaces, Scratch},
};
use serde::Serialize;

use crate::{
    growth::{Growth, Written, at_size},
    lower::Lowered,
    processes::{self, Belonging, Process},
};

/// A limit that was hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exceeded {
    /// The policy's own word for it.
    pub limit: &'static str,
    pub value: u64,
    pub usage: u64,
    /// A sentence: what was used, what the limit is, and what raises it.
    pub description: String,
    pub consequence: Consequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Consequence {
    /// The kernel refused what went beyond it; the command goes on.
    Refused,
    /// The sandbox is ended.
    Ended,
}

/// Which mechanism holds the limits on everything together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    #[serde(rename = "cgroup2")]
    Unified,
    #[serde(rename = "cgroup1")]
    Legacy,
    #[serde(rename = "polling")]
    Polling,
    /// There are no such limits.
    #[serde(rename = "none")]
    Unneeded,
}

/// Samples of a quantity that the kernel holds are only for telling: seldom.
const SELDOM: Duration = Duration::from_millis(100);
/// Nothing is sampled more often.
const OFTEN: Duration = Duration::from_millis(5);
/// No program fills memory faster than this, in bytes per millisecond.
const FILL_RATE: u64 = 4 << 20;

/// What is measured, and what has been seen so far.
#[derive(Debug)]
pub struct Meter {
    group: Group,
    limits: Limits,
    scratch: Scratch,
    total_size: Option<u64>,
    inodes: Option<u64>,
    tasks_name: &'static str,
    pub belonging: Belonging,
    pub mechanism: Mechanism,
    processors: u64,
    growth: Option<Growth>,
    writable: Vec<PathBuf>,
    started: SystemTime,
    due: Option<Instant>,
    told: VecDeque<&'static str>,
    /// What the group had counted before, for other commands.
    before: Consumption,
    host_before: HostMemory,
    /// CPU time of every process ever seen.
    seen: BTreeMap<(i32, u64), u64>,
    /// What was measured last, for the report.
    pub cpu_ms: u64,
    pub memory_peak: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Meter {
    pub fn new(policy: &Policy, lowered: &Lowered, sandbox: &Sandbox) -> Meter {
        let spec = &lowered.spec;
        let mechanism = match sandbox.group().map(lazaret_sandbox::linux::cgroup::Cgroup::kind) {
            _ if spec.group.is_empty() => Mechanism::Unneeded,
            Some(Kind::Unified) => Mechanism::Unified,
            Some(Kind::Legacy) => Mechanism::Legacy,
            None => Mechanism::Polling,
        };
        // Level 0 is not limited at all.
        let built = policy.isolation_level != Level::None;
        let files = &policy.filesystem;
        let writable: Vec<PathBuf> = spec
            .view
            .iter()
            .filter_map(|entry| match entry {
                Entry::Bind { path, access: Access::ReadWrite, .. } => Some(path.clone()),
                _ => None,
            })
            .collect();
        let total_size = files.max_total_size.map(|bytes| bytes.0).filter(|_| built);
        let inodes = files.max_inodes.filter(|_| built);
        let limited = total_size.is_some() || inodes.is_some();
        Meter {
            group: spec.group,
            limits: spec.limits,
            scratch: spec.scratch,
            total_size,
            inodes,
            tasks_name: if policy.resources.max_threads.is_some() { "maxThreads" } else { "maxProcesses" },
            belonging: match spec.namespaces {
                Namespaces::None => Belonging::Below(sandbox.pid()),
                _ => Belonging::All,
            },
            mechanism,
            // To ask takes a tenth of a millisecond.
            processors: match spec.group.cpu_time_ms {
                Some(_) => std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
                None => 1,
            },
            growth: (limited && !writable.is_empty()).then(|| Growth::begin(&writable)),
            writable,
            started: SystemTime::now(),
            due: None,
            told: VecDeque::new(),
            before: sandbox.group().map(|group| group.consumption()).unwrap_or_default(),
            host_before: match (mechanism, spec.group.memory) {
                (Mechanism::Polling, Some(_)) => HostMemory::now(),
                _ => HostMemory::default(),
            },
            seen: BTreeMap::new(),
            cpu_ms: 0,
            memory_peak: 0,
            read_bytes: 0,
            written_bytes: 0,
        }
    }

    /// When to look next; `None` when nothing needs looking at.
    pub fn due(&mut self) -> Option<Instant> {
        let needed = !self.group.is_empty()
            || self.growth.is_some()
            || self.limits.open_files.is_some()
            || self.total_size.is_some()
            || self.inodes.is_some();
        if needed && self.due.is_none() {
            self.due = Some(Instant::now() + OFTEN);
        }
        self.due
    }

    /// Looks, and says which limits have been hit since the last look.
    pub fn look(&mut self, sandbox: &Sandbox) -> Vec<Exceeded> {
        let mut found = Vec::new();
        let mut wait = SELDOM;
        let consumption = sandbox.group().map(|group| group.consumption());
        let processes = match (sandbox.proc(), consumption.is_some() && self.limits.open_files.is_none()) {
            (Some(proc), false) => processes::snapshot(proc, self.belonging),
            _ => Vec::new(),
        };
        if let Some(limit) = self.group.cpu_time_ms {
            let used = match consumption {
                Some(consumption) => consumption.cpu_us.saturating_sub(self.before.cpu_us) / 1000,
                None => self.cpu_of(&processes),
            };
            self.cpu_ms = self.cpu_ms.max(used);
            if used >= limit {
                found.push(self.cpu(limit, used));
            } else {
                // Even on all processors at once the limit is not reached before this.
                wait = wait.min(Duration::from_millis((limit - used) / self.processors));
                if consumption.is_none() {
                    // Who ends between two looks, and is waited for by nobody, is missed.
                    wait = wait.min(Duration::from_millis(10));
                }
            }
        }
        match (consumption, self.group.memory, sandbox.proc()) {
            (Some(consumption), ..) => self.held_by_group(consumption, &mut found),
            (None, Some(limit), Some(proc)) => {
                let storage = storage(sandbox).map_or(0, |used| used.bytes);
                let mut used = storage + processes.iter().map(|process| process.memory).sum::<u64>();
                if used >= limit {
                    // Perhaps much of it is shared.
                    let parts = processes.iter().map(|process| processes::proportional_memory(proc, process));
                    used = storage + parts.sum::<u64>();
                }
                let host = HostMemory::now();
                used = used.max(storage + self.unseen_shared(proc, &processes, &host));
                used += self.in_sockets(proc, &processes);
                self.memory_peak = self.memory_peak.max(used);
                let spare = host.spare();
                if used >= limit {
                    found.push(memory(limit, used));
                } else if spare == 0 {
                    found.push(host_is_short(limit, used));
                } else {
                    wait = wait.min(Duration::from_millis((limit - used).min(spare) / FILL_RATE));
                }
            }
            _ => {}
        }
        if consumption.is_none()
            && let Some(limit) = self.group.tasks
        {
            // Init and its helpers are not the command's.
            let used = processes.iter().filter(|p| p.pid != 1).map(|process| process.threads).sum::<u64>();
            if used >= limit {
                found.push(self.tasks(limit, used));
            }
        }
        if let (Some(limit), Some(proc)) = (self.limits.open_files, sandbox.proc()) {
            let most = processes.iter().map(|process| processes::descriptors(proc, process)).max();
            if let Some(most) = most.filter(|most| *most >= limit) {
                found.push(refused(
                    "maxFileDescriptors",
                    limit,
                    most,
                    format!("a process has {most} descriptors open, the limit is {limit} (resources.maxFileDescriptors)"),
                ));
            }
        }
        self.storage_full(sandbox, &mut found);
        if let Some(growth) = &mut self.growth {
            let belonging = self.belonging;
            let grown = growth.measure(|| {
                let Some(proc) = sandbox.proc() else { return Written::default() };
                let processes = processes::snapshot(proc, belonging);
                Written {
                    altogether: processes.iter().map(|process| processes::written(proc, process)).sum(),
                    without_a_name: processes::deleted_files(proc, &processes),
                }
            });
            found.extend(self.total_size.filter(|limit| grown.bytes > *limit).map(|limit| {
                ended(
                    "maxTotalSize",
                    limit,
                    grown.bytes,
                    format!(
                        "{} were written, the limit is {} (--max-write, filesystem.maxTotalSize)",
                        Bytes(grown.bytes),
                        Bytes(limit)
                    ),
                )
            }));
            found.extend(self.inodes.filter(|limit| grown.inodes > *limit).map(|limit| {
                let description =
                    format!("{} files were made, the limit is {limit} (filesystem.maxInodes)", grown.inodes);
                ended("maxInodes", limit, grown.inodes, description)
            }));
            if self.total_size.is_some() {
                wait = wait.min(Duration::from_millis(10));
            }
        }
        self.due = Some(Instant::now() + wait.max(OFTEN));
        self.only_new(found)
    }

    /// After the end: what can still be told.
    pub fn last_look(&mut self, sandbox: &Sandbox) -> Vec<Exceeded> {
        let mut found = Vec::new();
        if let Some(consumption) = sandbox.group().map(|group| group.consumption()) {
            self.cpu_ms = self.cpu_ms.max(consumption.cpu_us.saturating_sub(self.before.cpu_us) / 1000);
            self.read_bytes = consumption.read_bytes.saturating_sub(self.before.read_bytes);
            self.written_bytes = consumption.written_bytes.saturating_sub(self.before.written_bytes);
            self.held_by_group(consumption, &mut found);
        }
        self.storage_full(sandbox, &mut found);
        if let Some(limit) = self.limits.file_size
            && let Some(size) = at_size(&self.writable, sandbox.storage(), limit, self.started)
        {
            found.push(self.file_size(limit, size));
        }
        self.only_new(found)
    }

    /// The command was ended by the signal that goes with the limit.
    pub fn ended_by_file_size(&mut self) -> Vec<Exceeded> {
        let limit = self.limits.file_size.unwrap_or(0);
        let found = vec![Exceeded { consequence: Consequence::Ended, ..self.file_size(limit, limit) }];
        self.only_new(found)
    }

    /// As [`Meter::ended_by_file_size`], for the CPU time of a single process.
    pub fn ended_by_cpu(&mut self, used: u64) -> Vec<Exceeded> {
        let limit = self.group.cpu_time_ms.unwrap_or(0);
        let found = vec![self.cpu(limit, used)];
        self.only_new(found)
    }

    /// CPU time of everything that ever ran: of those who are there with the children they waited for, or of all
    /// that were ever seen, each by itself. The first misses children that nobody waits for, the second what
    /// came and went between two looks.
    fn cpu_of(&mut self, processes: &[Process]) -> u64 {
        for process in processes {
            self.seen.insert((process.pid, process.started), process.own_cpu_ms);
        }
        let there = processes.iter().map(|process| process.cpu_ms).sum::<u64>();
        there.max(self.seen.values().sum())
    }

    /// Shared memory without a name can be held without showing in anybody's pages. What is mapped counts as far
    /// as the host's own shared memory has grown.
    fn unseen_shared(&self, proc: BorrowedFd<'_>, processes: &[Process], host: &HostMemory) -> u64 {
        let grown = host.shared.saturating_sub(self.host_before.shared);
        if grown < (1 << 20) {
            return 0;
        }
        let mut mapped: BTreeMap<u64, u64> = BTreeMap::new();
        for process in processes {
            for (inode, size) in processes::shared_mappings(proc, process) {
                let known = mapped.entry(inode).or_default();
                *known = size.max(*known);
            }
        }
        mapped.values().sum::<u64>().min(grown)
    }

    /// What lies in the buffers of sockets belongs to nobody, and cannot be seen: those of a process with many
    /// sockets are taken to be full.
    fn in_sockets(&self, proc: BorrowedFd<'_>, processes: &[Process]) -> u64 {
        const BUFFER: u64 = 212_992;
        const MANY: u64 = 64;
        let suspects = processes.iter().filter(|process| processes::descriptors(proc, process) > MANY);
        suspects.map(|process| processes::sockets(proc, process).saturating_sub(MANY) * BUFFER).sum()
    }

    fn held_by_group(&mut self, consumption: Consumption, found: &mut Vec<Exceeded>) {
        self.memory_peak = self.memory_peak.max(consumption.memory_peak);
        if let Some(limit) = self.group.memory
            && consumption.oom_kills > self.before.oom_kills
        {
            found.push(memory(limit, consumption.memory_peak.max(limit)));
        }
        if let Some(limit) = self.group.tasks
            && consumption.tasks_refused > self.before.tasks_refused
        {
            found.push(self.tasks(limit, limit));
        }
    }

    fn storage_full(&self, sandbox: &Sandbox, found: &mut Vec<Exceeded>) {
        let Some(used) = storage(sandbox) else { return };
        if used.bytes >= self.scratch.bytes {
            let limit = self.scratch.bytes;
            let description =
                format!("private storage is full: {} (--max-write, filesystem.maxTotalSize)", Bytes(limit));
            found.push(refused("maxTotalSize", limit, used.bytes, description));
        }
        let limit = self.scratch.inodes;
        if used.inodes >= limit {
            let description =
                format!("private storage holds as many files as it may: {limit} (filesystem.maxInodes)");
            found.push(refused("maxInodes", limit, used.inodes, description));
        }
    }

    fn cpu(&self, limit: u64, used: u64) -> Exceeded {
        let description = format!(
            "the command used {} of CPU time, its limit is {} (--cpu-time, resources.maxCPU)",
            Millis(used),
            Millis(limit)
        );
        ended("maxCPU", limit, used, description)
    }

    fn tasks(&self, limit: u64, used: u64) -> Exceeded {
        let (flag, what) = match self.tasks_name {
            "maxThreads" => ("resources.maxThreads", "threads"),
            _ => ("--max-procs, process.maxProcesses", "processes and threads"),
        };
        let description = format!("no more than {limit} {what} may run at once ({flag})");
        refused(self.tasks_name, limit, used, description)
    }

    fn file_size(&self, limit: u64, size: u64) -> Exceeded {
        let description =
            format!("a file may not be larger than {} (--max-write, filesystem.maxFileSize)", Bytes(limit));
        refused("maxFileSize", limit, size, description)
    }

    fn only_new(&mut self, found: Vec<Exceeded>) -> Vec<Exceeded> {
        let mut new = Vec::new();
        for exceeded in found {
            if !self.told.contains(&exceeded.limit) {
                self.told.push_back(exceeded.limit);
                new.push(exceeded);
            }
        }
        new
    }
}

fn memory(limit: u64, used: u64) -> Exceeded {
    let description = format!(
        "the command used {} of memory, its limit is {} (--memory, resources.maxMemory)",
        Bytes(used),
        Bytes(limit)
    );
    ended("maxMemory", limit, used, description)
}

/// Memory that belongs to no process (buffers of sockets and pipes, page tables) cannot be counted without a
/// control group: there the host is looked at, too.
fn host_is_short(limit: u64, used: u64) -> Exceeded {
    let description = format!(
        "the host is nearly out of memory, and without a control group it cannot be told who took it: ended as if beyond its limit of {} (--memory, resources.maxMemory)",
        Bytes(limit)
    );
    ended("maxMemory", limit, used, description)
}

/// The host's memory at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct HostMemory {
    total: u64,
    available: u64,
    shared: u64,
}

impl HostMemory {
    fn now() -> HostMemory {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let bytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kilobytes.unwrap_or(0) << 10
        };
        HostMemory { total: bytes("MemTotal:"), available: bytes("MemAvailable:"), shared: bytes("Shmem:") }
    }

    /// What can still be used before the host is short of memory.
    fn spare(&self) -> u64 {
        // A host that does not tell is not short.
        if self.total == 0 { u64::MAX } else { self.available.saturating_sub(self.total / 25) }
    }
}

fn refused(limit: &'static str, value: u64, usage: u64, description: String) -> Exceeded {
    Exceeded { limit, value, usage, description, consequence: Consequence::Refused }
}

fn ended(limit: &'static str, value: u64, usage: u64, description: String) -> Exceeded {
    Exceeded { limit, value, usage, description, consequence: Consequence::Ended }
}

struct Storage {
    bytes: u64,
    inodes: u64,
}

/// What is used of private storage.
fn storage(sandbox: &Sandbox) -> Option<Storage> {
    let fs = rustix::fs::fstatfs(sandbox.storage()?).ok()?;
    let block = u64::try_from(fs.f_bsize).unwrap_or(4096);
    Some(Storage {
        bytes: fs.f_blocks.saturating_sub(fs.f_bfree) * block,
        inodes: fs.f_files.saturating_sub(fs.f_ffree),
    })
}
