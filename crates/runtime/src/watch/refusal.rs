//! What a refused call is told as: the violation, its severity, and what would allow it.

use std::path::Path;

use lazaret_audit::EventKind;
use lazaret_policy::{
    schema::{Level, SyscallMode, UnixSockets},
    syscalls::ALWAYS_BLOCKED,
    violation::{Indicator, Severity},
};
use lazaret_sandbox::linux::{
    errand::Operation,
    notify::{Notification, Task},
};

use super::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, CRITICAL_FILES, EACCES, EAFNOSUPPORT, EPERM, PROTECTED, Pending,
    Verdict, Watch,
};
use crate::{
    record::{Syscall, Violation},
    report::printable,
    respond::now,
};

impl Watch<'_> {
    pub(super) fn write_denied(&self, call: &Notification, task: &Task, path: &Path) -> Violation {
        let shown = printable(&path.to_string_lossy());
        let denied = self.is_denied(path);
        let critical =
            CRITICAL_FILES.iter().any(|file| path == Path::new(file)) || path.ends_with("release_agent");
        let severity = if critical || self.is_bait(path) {
            Severity::Critical
        } else if denied {
            Severity::High
        } else if path.starts_with("/usr") || path.starts_with("/proc") {
            // Caches that interpreters try to leave beside their libraries.
            Severity::Low
        } else {
            Severity::Medium
        };
        let remedy = if self.is_bait(path) {
            "the path is bait (filesystem.honeypotPaths): nothing honest touches it".to_owned()
        } else if critical {
            "nothing allows this".to_owned()
        } else if denied {
            self.why_denied(path)
        } else if self.is_protected(path) {
            PROTECTED.to_owned()
        } else {
            let directory = path.parent().unwrap_or(path);
            format!(
                "to allow: --rw {} (policy: filesystem.readWritePaths)",
                printable(&directory.to_string_lossy())
            )
        };
        Violation {
            path: Some(path.to_string_lossy().into_owned()),
            ..self.violation(
                call,
                task,
                Indicator::Filesystem,
                severity,
                if self.is_bait(path) { format!("touching of {shown}") } else { format!("write to {shown}") },
                "view",
                remedy,
            )
        }
    }

    pub(super) fn refused_by_init(&self, pending: &Pending, path: &Path) -> Violation {
        let shown = printable(&path.to_string_lossy());
        let (what, remedy, indicator) = match pending.operation {
            Operation::Connect => (
                format!("connection to the host's socket {shown}"),
                format!("to allow: --rw {shown} (the socket itself, not its directory)"),
                Indicator::Network,
            ),
            _ => (
                format!("{} {shown}", deed(pending.operation, pending.writes)),
                if self.is_denied(path) { self.why_denied(path) } else { PROTECTED.to_owned() },
                Indicator::Filesystem,
            ),
        };
        Violation {
            event: String::new(),
            kind: indicator,
            indicator: indicator.at(now()),
            severity: if self.is_bait(path) { Severity::Critical } else { Severity::High },
            description: what,
            layer: "notify".to_owned(),
            pid: pending.notification.pid,
            // It still waits, so it is still itself.
            process: Task::of(&pending.notification).name(),
            syscall: Some(describe(&pending.notification)),
            path: Some(path.to_string_lossy().into_owned()),
            peer: None,
            remedy,
            count: 0,
        }
    }

    pub(super) fn unjudged(&self, call: &Notification, task: &Task, error: &std::io::Error) -> Violation {
        let what = format!("system call {} that could not be judged ({error})", call.name());
        let remedy = "refused because it could not be decided; try again".to_owned();
        self.violation(call, task, Indicator::Syscall, Severity::Medium, what, "notify", remedy)
    }

    pub(super) fn privileged_mode(&self, call: &Notification, task: &Task, name: &str) -> Verdict {
        let violation = self.violation(
            call,
            task,
            Indicator::Filesystem,
            Severity::High,
            format!("setting a setuid or setgid bit ({name})"),
            "seccomp",
            "nothing allows this: such a file would act with another identity on the host".to_owned(),
        );
        Verdict::Deny { errno: EPERM, violation: Box::new(violation), kind: EventKind::PolicyViolation }
    }

    pub(super) fn socket(&self, call: &Notification, task: &Task, name: &str) -> Verdict {
        let [domain, kind, protocol, ..] = call.args.map(|argument| argument & 0xffff_ffff);
        let unix = self.policy.network.unix_sockets;
        let (what, errno, severity) = match (domain, kind & 0xf) {
            (AF_UNIX, 1 | 5) if unix == Some(UnixSockets::None) => {
                ("unix socket".to_owned(), EPERM, Severity::Low)
            }
            (AF_UNIX, _) => ("datagram unix socket".to_owned(), EACCES, Severity::Low),
            (AF_NETLINK, _) => ("netlink socket".to_owned(), EAFNOSUPPORT, Severity::Low),
            (AF_INET | AF_INET6, 3) => ("raw network socket".to_owned(), EPERM, Severity::High),
            (AF_INET | AF_INET6, _) if protocol == 1 || protocol == 58 => {
                ("ICMP socket".to_owned(), EACCES, Severity::Medium)
            }
            (AF_INET | AF_INET6, _) => ("network socket".to_owned(), EACCES, Severity::Medium),
            (other, _) => (format!("socket of address family {other}"), EAFNOSUPPORT, Severity::High),
        };
        let plain_network = matches!((domain, kind & 0xf), (AF_INET | AF_INET6, 1 | 2));
        let remedy = if plain_network && self.policy.isolation_level == Level::Process {
            "to allow: network.allowNetwork = true (level 1 then uses the host's network)".to_owned()
        } else if domain == AF_UNIX && unix == Some(UnixSockets::None) {
            "to allow: network.unixSockets (srt: allowUnixSockets with the paths, or allowAllUnixSockets)"
                .to_owned()
        } else {
            "nothing allows this kind of socket".to_owned()
        };
        let what = format!("{what} ({name})");
        let violation = self.violation(call, task, Indicator::Network, severity, what, "seccomp", remedy);
        Verdict::Deny { errno, violation: Box::new(violation), kind: EventKind::SyscallBlocked }
    }

    pub(super) fn blocked_call(
        &self,
        call: &Notification,
        task: &Task,
        name: &str,
        errno: i32,
        severity: Severity,
    ) -> Verdict {
        let process = &self.policy.process;
        let remedy = match name {
            "execve" | "execveat" if !process.allow_exec => "to allow: process.allowExec = true".to_owned(),
            "fork" | "vfork" | "clone" if !process.allow_fork => {
                "to allow: process.allowFork = true".to_owned()
            }
            "memfd_create" | "shmget" | "msgget" if process.allowed_executables.is_empty() => {
                "closed because memory is limited and could not be counted here without a control group: `lazaret doctor` names the fix; no limit, no refusal".to_owned()
            }
            "memfd_create" | "execveat" => "closed because process.allowedExecutables is set".to_owned(),
            _ if ALWAYS_BLOCKED.contains(&name) || !call.is_native() => {
                "nothing allows this at level 1 and 2".to_owned()
            }
            _ => match self.policy.syscalls.mode {
                SyscallMode::Whitelist if self.blocked.contains(&call.number) => {
                    format!("to allow: add \"{name}\" to syscalls.syscalls")
                }
                SyscallMode::Blacklist if self.blocked.contains(&call.number) => {
                    format!("to allow: take \"{name}\" out of syscalls.syscalls")
                }
                _ => "nothing allows these arguments".to_owned(),
            },
        };
        let indicator = match name {
            "execve" | "execveat" | "fork" | "vfork" | "clone" => Indicator::Process,
            _ => Indicator::Syscall,
        };
        let what = format!("system call {name}");
        let violation = self.violation(call, task, indicator, severity, what, "seccomp", remedy);
        Verdict::Deny { errno, violation: Box::new(violation), kind: EventKind::SyscallBlocked }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a violation, told apart by type")]
    pub(super) fn violation(
        &self,
        call: &Notification,
        task: &Task,
        indicator: Indicator,
        severity: Severity,
        description: String,
        layer: &str,
        remedy: String,
    ) -> Violation {
        Violation {
            event: String::new(),
            kind: indicator,
            indicator: indicator.at(now()),
            severity,
            description,
            layer: layer.to_owned(),
            pid: call.pid,
            process: task.name(),
            syscall: Some(describe(call)),
            path: None,
            peer: None,
            remedy,
            count: 0,
        }
    }
}

pub(super) fn describe(call: &Notification) -> Syscall {
    Syscall {
        number: call.number,
        name: call.name(),
        args: call.args.iter().map(|argument| format!("{argument:#x}")).collect(),
    }
}

fn deed(operation: Operation, writes: bool) -> &'static str {
    match operation {
        Operation::Open if writes => "write to",
        Operation::Open => "opening of",
        Operation::Unlink | Operation::Truncate => "removal or truncation of",
        Operation::Rename => "renaming of or to",
        _ => "creation of",
    }
}
