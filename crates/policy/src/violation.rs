//! What counts as a violation and how severe it is: the one table behind RFC-0002 §8.3, §9.1 and §9.2.
//!
//! CRITICAL acts are those no honest program goes on from; they trigger the escape response. The rest is
//! denied, logged and counted.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::Reason;

/// RFC-0002 §9.1. `Ord`: the strictest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// RFC-0002 §9.1: which wall the act ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Indicator {
    Filesystem,
    Process,
    Network,
    Syscall,
}

/// An escape indicator in the words of RFC-0002 §9.1. What follows from an act is decided by its severity in
/// the table below, which tells an attack from an honest program's probe; the RFC does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EscapeIndicator {
    #[serde(rename = "type")]
    pub indicator: Indicator,
    pub severity: Severity,
    pub description: &'static str,
    /// Milliseconds since 1970.
    pub timestamp: u64,
}

impl Indicator {
    pub fn at(self, timestamp: u64) -> EscapeIndicator {
        let (severity, description) = match self {
            Indicator::Filesystem => (Severity::Critical, "Path traversal attempt detected"),
            Indicator::Process => (Severity::Critical, "Unauthorized exec attempt"),
            Indicator::Network => (Severity::High, "Unauthorized network connection"),
            Indicator::Syscall => (Severity::Critical, "Blocked syscall attempted"),
        };
        EscapeIndicator { indicator: self, severity, description, timestamp }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        })
    }
}

/// The severity of a blocked system call, by name.
pub fn severity_of_syscall(name: &str) -> Severity {
    match name {
        // Nothing but an attempt to leave the sandbox or to take over the kernel.
        "mount" | "umount2" | "pivot_root" | "setns" | "open_by_handle_at" | "kexec_load"
        | "kexec_file_load" | "bpf" | "init_module" | "finit_module" | "delete_module" | "move_mount"
        | "fsmount" | "mount_setattr" | "reboot" | "swapon" | "swapoff" => Severity::Critical,
        // Reaches into other processes or prepares an escape; debuggers and launchers do it honestly.
        "ptrace" | "process_vm_readv" | "process_vm_writev" | "pidfd_getfd" | "chroot" | "unshare"
        | "clone" | "fsopen" | "fspick" | "open_tree" | "fsconfig" | "userfaultfd" | "perf_event_open"
        | "ioctl" | "chmod" | "fchmod" | "fchmodat" | "fchmodat2" | "execve" | "execveat" | "fork"
        | "vfork" | "memfd_create" => Severity::High,
        // Probed by run-times that carry on without.
        "io_uring_setup" | "io_uring_enter" | "io_uring_register" | "keyctl" | "add_key" | "request_key"
        | "name_to_handle_at" | "kcmp" | "syslog" | "personality" => Severity::Low,
        _ => Severity::Medium,
    }
}

/// What happens again and again is told the first time, the tenth, the hundredth …
pub fn is_told(mut count: u64) -> bool {
    while count >= 10 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}

/// The severity of something that was refused on the network, by its protocol (`tcp`, `udp`, `dns`). A look-up
/// reaches nobody, and programs try UDP (QUIC, time servers) and go on without; a connection is an attempt.
pub fn severity_of_network(protocol: &str, reason: Reason) -> Severity {
    match (protocol, reason) {
        // A host that does not answer, or a name without an address.
        (_, Reason::Unresolvable | Reason::Unreachable) => Severity::Low,
        ("dns" | "udp", _) => Severity::Medium,
        _ => Severity::High,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_severity_is_the_greatest() {
        assert!(Severity::Critical > Severity::High && Severity::High > Severity::Medium);
    }

    #[test]
    fn only_powers_of_ten_are_told() {
        let told: Vec<u64> = (0..=1000).filter(|count| is_told(*count)).collect();
        assert_eq!(told, [1, 10, 100, 1000]);
    }

    #[test]
    fn what_honest_programs_probe_is_not_critical() {
        for name in ["io_uring_setup", "unshare", "ptrace", "keyctl", "perf_event_open"] {
            assert!(severity_of_syscall(name) < Severity::Critical, "{name}");
        }
        for name in ["mount", "pivot_root", "setns", "open_by_handle_at", "kexec_load", "bpf"] {
            assert_eq!(severity_of_syscall(name), Severity::Critical, "{name}");
        }
    }
}
