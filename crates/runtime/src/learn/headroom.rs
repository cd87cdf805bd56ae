//! What is allowed beyond what was seen, so that the next run, a little different in timing, size or luck,
//! does not fail: calls that go together, and limits that are rounded up.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_policy::{
    syscalls::{ALWAYS_BLOCKED, STARTUP, expand, family},
    units::{Bytes, Millis},
};

use super::findings::{Deed, Findings, Refused};

/// Calls that hang on timing, on memory being short or on a terminal being there, and on nothing that the
/// command itself does. They are allowed in every learnt policy, unseen.
pub const ALWAYS: [&str; 16] = [
    "clock_getres",
    "clock_nanosleep",
    // Threads. Processes are another matter: `process.allowFork`.
    "clone",
    "getrusage",
    "ioctl",
    "lseek",
    "madvise",
    "mremap",
    "nanosleep",
    "sched_getaffinity",
    "sched_yield",
    "sysinfo",
    "tgkill",
    "times",
    "write",
    "writev",
];

/// Calls that go together.
struct Group {
    applies: fn(&Findings) -> bool,
    adds: &'static [&'static str],
    why: &'static str,
}

fn any(findings: &Findings, names: &[&str]) -> bool {
    names.iter().any(|name| findings.called(name))
}

const GROUPS: &[Group] = &[
    Group {
        applies: |findings| findings.threads > 0,
        adds: &["futex", "membarrier", "prctl"],
        why: "threads were started",
    },
    Group {
        applies: |findings| findings.forks > 0,
        adds: &["fork", "wait", "pipe", "dup", "kill", "setpgid", "rt_sigsuspend"],
        why: "processes were started",
    },
    Group {
        applies: |findings| any(findings, &["epoll_create", "epoll_create1"]),
        adds: &["epoll_create", "epoll_ctl", "epoll_wait", "eventfd"],
        why: "events were waited for",
    },
    Group {
        applies: |findings| any(findings, &["socket"]),
        adds: &[
            "socket",
            "connect",
            "bind",
            "send",
            "recv",
            "getsockopt",
            "setsockopt",
            "getsockname",
            "getpeername",
            "shutdown",
        ],
        why: "sockets were made",
    },
    Group {
        applies: |findings| {
            findings.paths.values().any(|seen| seen.has(Deed::Write) || seen.has(Deed::Rename))
                || findings.refused.keys().any(|refused| matches!(refused, Refused::Write(_)))
                || !findings.made.is_empty()
        },
        adds: &[
            "truncate",
            "fsync",
            "fdatasync",
            "flock",
            "rename",
            "unlink",
            "mkdir",
            "rmdir",
            "getdents",
            "statfs",
        ],
        why: "files were written",
    },
];

/// The names for `syscalls.syscalls` and why each is there.
pub fn calls(findings: &Findings) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (call, called) in &findings.calls {
        if ALWAYS_BLOCKED.contains(&call.as_str()) {
            continue;
        }
        let Some(name) = family(call) else { continue };
        // What needs no line of its own.
        if name == "execve" || expand(name).unwrap_or_default().iter().all(|member| STARTUP.contains(member))
        {
            continue;
        }
        let by = if called.program.is_empty() { String::new() } else { format!(" by {}", called.program) };
        names.entry(name.to_owned()).or_insert(format!("seen{by}"));
    }
    for group in GROUPS.iter().filter(|group| (group.applies)(findings)) {
        for name in group.adds {
            names.entry((*name).to_owned()).or_insert(group.why.to_owned());
        }
    }
    for call in ALWAYS {
        names.entry(call.to_owned()).or_insert("hangs on timing or a terminal".to_owned());
    }
    drop_contained(names)
}

/// A name whose calls are all in others' families need not be said.
fn drop_contained(names: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let members = |name: &str| expand(name).unwrap_or_default().into_iter().collect::<BTreeSet<_>>();
    let all: Vec<(String, BTreeSet<&str>)> = names.keys().map(|name| (name.clone(), members(name))).collect();
    names
        .into_iter()
        .filter(|(name, _)| {
            let own = members(name);
            !all.iter().any(|(other, theirs)| {
                other != name && own.is_subset(theirs) && (own.len() < theirs.len() || other < name)
            })
        })
        .collect()
}

/// Twice as much and rounded up to a power of two, but not less than `least`.
pub fn bytes(measured: u64, least: u64) -> Bytes {
    Bytes(measured.saturating_mul(2).max(least).checked_next_power_of_two().unwrap_or(u64::MAX))
}

/// Twice as many and rounded up to a power of two, but not less than `least`.
pub fn count(measured: u64, least: u64) -> u64 {
    bytes(measured, least).0
}

/// Four times as long and rounded up to a readable time, but not less than `least`: how busy a machine is
/// changes times more than anything else.
pub fn time(measured_ms: u64, least_ms: u64) -> Millis {
    const SECONDS: [u64; 14] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];
    let wanted = measured_ms.saturating_mul(4).max(least_ms).div_ceil(1000);
    let readable = SECONDS.into_iter().find(|seconds| *seconds >= wanted);
    let seconds = readable.unwrap_or_else(|| wanted.div_ceil(3600).saturating_mul(3600));
    Millis(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_calls(calls: &[&str]) -> Findings {
        let mut findings = Findings::default();
        calls.iter().for_each(|call| findings.call(call, || "sh".to_owned()));
        findings
    }

    fn allowed(findings: &Findings) -> BTreeSet<&'static str> {
        calls(findings).keys().flat_map(|name| expand(name).unwrap()).collect()
    }

    #[test]
    fn everything_that_was_seen_is_allowed_under_a_name_that_is_known() {
        let seen = ["pread64", "lseek", "newfstatat", "getcwd", "wait4", "dup3", "getdents64"];
        let findings = with_calls(&seen);
        let allowed = allowed(&findings);
        for call in seen {
            assert!(allowed.contains(call) || STARTUP.contains(&call), "{call}");
        }
    }

    #[test]
    fn what_was_not_seen_and_belongs_to_nothing_seen_is_not_allowed() {
        let allowed = allowed(&with_calls(&["getcwd"]));
        for call in
            ["socket", "rename", "fork", "vfork", "ptrace", "kill", "chmod", "epoll_wait", "memfd_create"]
        {
            assert!(!allowed.contains(call), "{call}");
        }
    }

    #[test]
    fn what_is_always_blocked_is_never_listed() {
        assert!(!allowed(&with_calls(&["ptrace", "mount"])).contains("ptrace"));
    }

    #[test]
    fn calls_come_in_groups() {
        let allowed = allowed(&with_calls(&["socket"]));
        for call in ["connect", "sendto", "recvmsg", "getsockopt"] {
            assert!(allowed.contains(call), "{call}");
        }
        let threaded = Findings { threads: 1, ..Findings::default() };
        assert!(self::allowed(&threaded).contains("clone"));
    }

    #[test]
    fn no_name_says_what_another_says_already() {
        let names = calls(&with_calls(&["stat", "lstat", "newfstatat", "fstat"]));
        let of_stat: Vec<&String> =
            names.keys().filter(|name| expand(name).unwrap().contains(&"stat")).collect();
        assert_eq!(of_stat.len(), 1, "{of_stat:?}");
    }

    #[test]
    fn limits_have_room_a_floor_and_readable_figures() {
        assert_eq!(bytes(0, 1 << 20), Bytes(1 << 20));
        assert_eq!(bytes(3 << 20, 1 << 20), Bytes(8 << 20));
        assert_eq!(bytes(u64::MAX, 1), Bytes(u64::MAX));
        assert_eq!(count(5, 8), 16);
        assert_eq!(time(10, 1000), Millis(1000));
        assert_eq!(time(20_000, 1000), Millis(120_000));
        assert_eq!(time(4 * 3_600_000, 1000), Millis(16 * 3_600_000));
    }
}
