//! The policy that would have sufficed, with the reason for every line of it. Pure: from findings to a policy;
//! how it is written down is in [`super::text`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    schema::{EnvironmentPolicy, Level, SyscallMode},
};

use super::{
    findings::{Called, Deed, Findings, Refused},
    fold::{Folded, Ground, Why, fold},
    headroom,
};
use crate::{paths::is_at_or_below, report::printable};

/// Less than this is never the limit: starting a program alone takes some of it.
const LEAST_MEMORY: u64 = 256 << 20;
const LEAST_CPU_MS: u64 = 10_000;
const LEAST_WALL_MS: u64 = 60_000;
const LEAST_TASKS: u64 = 16;
const LEAST_FILE: u64 = 64 << 20;
const LEAST_WRITTEN: u64 = 256 << 20;
/// Where programs load code from without being listed.
const LIBRARIES: [&str; 6] = ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib64"];

/// A policy in the making.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draft {
    pub policy: Policy,
    /// By list and entry: why it is there.
    pub reasons: BTreeMap<(List, String), String>,
    /// Lines that somebody could add, and why they are not there.
    pub suggestions: BTreeMap<(List, String), String>,
    /// What each limit was measured as.
    pub measured: BTreeMap<&'static str, String>,
    /// The programs that were executed, whether or not the policy lists programs.
    pub programs: Vec<PathBuf>,
    /// Sentences about what was asked for and not given, or could not be learnt.
    pub remarks: Vec<String>,
}

/// A list of the policy that has a line for every entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    ReadOnly,
    ReadWrite,
    Executables,
    Hosts,
    Syscalls,
}

/// How a path is written so that the policy can be used by others: by the directory of the command and by
/// home. None where a policy cannot say it.
pub fn portable(path: &Path, ground: &Ground) -> Option<String> {
    let below = |prefix: &str, base: &Path| {
        let rest = path.strip_prefix(base).ok().filter(|_| base != Path::new("/"))?;
        let rest = rest.to_str()?;
        Some(if rest.is_empty() { prefix.to_owned() } else { format!("{prefix}/{rest}") })
    };
    below(".", &ground.directory)
        .or_else(|| below("~", ground.home.as_deref()?))
        .or_else(|| path.to_str().map(str::to_owned))
}

/// Puts it all together.
pub fn draft(findings: &Findings, ground: &Ground, environment: EnvironmentPolicy) -> Draft {
    let mut draft = Draft::default();
    draft.policy.isolation_level = Level::Full;
    draft.policy.environment = environment;
    draft.files(&fold(findings, ground), ground);
    draft.programs(findings);
    draft.hosts(findings);
    draft.calls(findings);
    draft.limits(findings);
    draft.refused(findings, ground);
    for (program, times) in &findings.unseen {
        draft.remarks.push(format!(
            "what {program} asked for could not be seen ({}): it does not let others look into its memory",
            how_often(*times)
        ));
    }
    if findings.truncated {
        draft.remarks.push("there was more to see than is kept: the lists below are not complete".to_owned());
    }
    draft
}

impl Draft {
    fn files(&mut self, folded: &Folded, ground: &Ground) {
        let Folded { readable, writable, too_wide } = folded;
        for (list, grants) in [(List::ReadOnly, readable), (List::ReadWrite, writable)] {
            for (path, why) in grants {
                let Some(entry) = portable(path, ground) else {
                    let shown = printable(&path.to_string_lossy());
                    self.remarks
                        .push(format!("{shown} was used, but its name is no text that a policy could hold"));
                    continue;
                };
                self.reasons.insert((list, entry.clone()), reason(why));
                match list {
                    List::ReadWrite => self.policy.filesystem.read_write_paths.push(entry.into()),
                    _ => self.policy.filesystem.read_only_paths.push(entry.into()),
                }
            }
        }
        self.policy.filesystem.read_only_paths.sort();
        self.policy.filesystem.read_write_paths.sort();
        for (path, why) in too_wide {
            let Some(entry) = portable(path, ground) else { continue };
            let changed = why.deeds.contains(&Deed::Rename) || why.deeds.contains(&Deed::Write);
            let list = if changed { List::ReadWrite } else { List::ReadOnly };
            let what = format!("{}; too wide to be opened without a person saying so", reason(why));
            self.suggestions.insert((list, entry), what);
        }
        let visible: Vec<&PathBuf> = readable.keys().chain(writable.keys()).collect();
        let inside =
            ground.denied.iter().filter(|denied| visible.iter().any(|at| is_at_or_below(denied, at)));
        self.policy.filesystem.denied_paths =
            inside.filter_map(|denied| portable(denied, ground)).map(PathBuf::from).collect();
    }

    fn programs(&mut self, findings: &Findings) {
        let executed = findings.paths.iter().filter(|(_, seen)| seen.has(Deed::Execute));
        self.programs = executed.map(|(path, _)| path.clone()).collect();
        let process = &mut self.policy.process;
        process.allow_fork = findings.forks > 0;
        // The first one starts the command itself, and needs no permission.
        process.allow_exec = findings.executions > 1;
        if !process.allow_exec {
            return;
        }
        let mut listed = BTreeMap::new();
        for (path, seen) in &findings.paths {
            let library = LIBRARIES.iter().any(|library| is_at_or_below(path, Path::new(library)));
            let what = if seen.has(Deed::Execute) {
                "executed"
            } else if (seen.has(Deed::Map) || seen.has(Deed::Load)) && !library {
                "loaded as code"
            } else {
                continue;
            };
            let by: Vec<&str> = seen.programs.iter().map(String::as_str).collect();
            listed.insert(path.clone(), format!("{what} by {}", by.join(", ")));
        }
        let unlistable = findings.unlistable_code.iter().next();
        for (path, why) in listed {
            let Some(entry) = path.to_str() else { continue };
            if unlistable.is_some() {
                self.suggestions.insert((List::Executables, entry.to_owned()), why);
                continue;
            }
            process.allowed_executables.push(path.clone());
            self.reasons.insert((List::Executables, entry.to_owned()), why);
        }
        if let Some(path) = unlistable {
            let shown = printable(&path.to_string_lossy());
            self.remarks.push(format!(
                "programs are not restricted to a list: the command also runs code that no list could name beforehand ({shown})"
            ));
        }
    }

    fn hosts(&mut self, findings: &Findings) {
        let network = &mut self.policy.network;
        network.allow_network = !findings.hosts.is_empty();
        for ((host, port), times) in &findings.hosts {
            let bracketed = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            let (entry, why) = match port {
                Some(port) => (format!("{bracketed}:{port}"), format!("connected to, {}", how_often(*times))),
                // Some port has to be open for a name to be answered at all.
                None => (format!("{bracketed}:443"), "only looked up".to_owned()),
            };
            if self.reasons.insert((List::Hosts, entry.clone()), why).is_none() {
                network.allowed_hosts.push(entry);
            }
        }
    }

    fn calls(&mut self, findings: &Findings) {
        let calls = headroom::calls(findings);
        self.policy.syscalls.mode = SyscallMode::Whitelist;
        self.policy.syscalls.syscalls = calls.keys().cloned().collect();
        self.reasons.extend(calls.into_iter().map(|(name, why)| ((List::Syscalls, name), why)));
    }

    fn limits(&mut self, findings: &Findings) {
        let amounts = findings.amounts;
        let measured = &mut self.measured;
        self.policy.timeout = Some(headroom::time(amounts.wall_ms, LEAST_WALL_MS));
        measured.insert("timeout", milliseconds(amounts.wall_ms));
        self.policy.resources.max_cpu = Some(headroom::time(amounts.cpu_ms, LEAST_CPU_MS));
        measured.insert("maxCPU", milliseconds(amounts.cpu_ms));
        // The kernel counts processes and threads alike; to count processes alone every fork has to wait where
        // there is no control group, and a signal could break that off.
        self.policy.resources.max_threads = Some(headroom::count(amounts.tasks, LEAST_TASKS));
        measured.insert("maxThreads", format!("{} processes and threads at once", amounts.tasks.max(1)));
        // Where there is no control group, a limit on memory closes what makes memory that nobody has.
        let uncounted = ["memfd_create", "shmget", "msgget"].into_iter().find(|call| findings.called(call));
        match uncounted {
            Some(call) => self.remarks.push(format!(
                "memory ({} at most) is not limited: the command uses {call}, which a limit would close where there is no control group",
                mebibytes(amounts.memory_bytes)
            )),
            None => {
                self.policy.resources.max_memory = Some(headroom::bytes(amounts.memory_bytes, LEAST_MEMORY));
                measured.insert("maxMemory", mebibytes(amounts.memory_bytes));
            }
        }
        let file = headroom::bytes(amounts.file_bytes, LEAST_FILE);
        self.policy.filesystem.max_file_size = Some(file);
        measured.insert("maxFileSize", mebibytes(amounts.file_bytes));
        if findings.called("fallocate") {
            self.remarks.push(format!(
                "the total that is written ({}) is not limited: the command uses fallocate, which a limit would close",
                mebibytes(amounts.written_bytes)
            ));
        } else {
            let total = headroom::bytes(amounts.written_bytes, LEAST_WRITTEN).max(file);
            self.policy.filesystem.max_total_size = Some(total);
            measured.insert("maxTotalSize", mebibytes(amounts.written_bytes));
        }
    }

    fn refused(&mut self, findings: &Findings, ground: &Ground) {
        for (what, Called { times, program }) in &findings.refused {
            let by = format!("{program}, {}", how_often(*times));
            match what {
                Refused::Secret(path) => {
                    let shown = portable(path, ground).unwrap_or_else(|| path.to_string_lossy().into_owned());
                    self.remarks.push(format!("asked for and not granted: {} ({by})", printable(&shown)));
                }
                Refused::Write(path) => {
                    let Some(entry) = portable(path, ground) else { continue };
                    let why = format!("a write was refused ({by})");
                    let wide =
                        if ground.is_too_wide(path) { "; very wide, name something below it" } else { "" };
                    self.suggestions.insert((List::ReadWrite, entry), format!("{why}{wide}"));
                }
                Refused::Other(text) => self.remarks.push(format!("refused: {} ({by})", printable(text))),
            }
        }
    }
}

pub fn how_often(times: u64) -> String {
    match times {
        0 | 1 => "once".to_owned(),
        times => format!("{times} times"),
    }
}

fn milliseconds(value: u64) -> String {
    if value < 10_000 { format!("{value} ms") } else { format!("{} s", value / 1000) }
}

fn mebibytes(value: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    match value {
        0 => "0".to_owned(),
        small if small < MEBIBYTE => format!("{} KiB", small.div_ceil(1024)),
        large => format!("{} MiB", large.div_ceil(MEBIBYTE)),
    }
}

/// What was done, by whom, how often.
fn reason(why: &Why) -> String {
    let mut done = Vec::new();
    for (deed, word) in [
        (Deed::Execute, "executed"),
        (Deed::Load, "the loader"),
        (Deed::Map, "code"),
        (Deed::Rename, "names made or removed"),
        (Deed::Write, "written"),
        (Deed::Read, "read"),
        (Deed::List, "listed"),
        (Deed::Follow, "a link"),
        (Deed::Connect, "connected to"),
    ] {
        if why.deeds.contains(&deed) {
            done.push(word);
        }
    }
    if done.is_empty() {
        done.push("asked about");
    }
    let programs: Vec<&str> =
        why.programs.iter().map(String::as_str).filter(|name| !name.is_empty()).take(3).collect();
    let by = if programs.is_empty() { String::new() } else { format!(" by {}", programs.join(", ")) };
    let paths = if why.paths > 1 { format!(", {} paths", why.paths) } else { String::new() };
    format!("{}{by}{paths}, {}", done.join(", "), how_often(why.times))
}
