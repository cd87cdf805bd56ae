//! Does the process that asked still run? Its number alone is not enough, as numbers are given again.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process, so that no other can be taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub pid: u32,
    /// When it began, in the kernel's ticks since the host did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// Where that number counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Here,
    Gone,
    /// It is, or was, in a container of its own, or is hidden from who asks.
    Unknown,
}

impl Process {
    pub fn this() -> Process {
        Process {
            pid: std::process::id(),
            start_ticks: start_of("self").ok().flatten(),
            pid_namespace: namespace(),
        }
    }

    pub fn presence(&self) -> Presence {
        if self.pid_namespace.is_some() && namespace() != self.pid_namespace {
            return Presence::Unknown;
        }
        match (start_of(&self.pid.to_string()), self.start_ticks) {
            (Ok(Some(ticks)), Some(began)) if ticks == began => Presence::Here,
            (Ok(Some(_)), None) => Presence::Here,
            (Ok(_), _) => Presence::Gone,
            // There may be one, and /proc does not show those of others (`hidepid`).
            (Err(()), _) if self.is_hidden() => Presence::Unknown,
            (Err(()), _) => Presence::Gone,
        }
    }

    fn is_hidden(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let answer = pid.map(rustix::process::test_kill_process);
        matches!(answer, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
    }
}

/// `None` for a process that has ended and is not reaped yet.
fn start_of(pid: &str) -> Result<Option<u64>, ()> {
    let stat = fs::read(format!("/proc/{pid}/stat")).map_err(|_| ())?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain anything, a bracket included.
    let mut fields = stat.rsplit_once(')').ok_or(())?.1.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X") | None) {
        return Ok(None);
    }
    Ok(fields.nth(18).and_then(|ticks| ticks.parse().ok()))
}

fn namespace() -> Option<u64> {
    rustix::fs::stat("/proc/self/ns/pid").ok().map(|stat| stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_again_is_somebody_else() {
        let this = Process::this();
        let began = this.start_ticks.unwrap();
        assert_eq!(this.presence(), Presence::Here);
        assert_eq!(Process { start_ticks: Some(began + 1), ..this }.presence(), Presence::Gone);
        assert_eq!(Process { start_ticks: None, ..this }.presence(), Presence::Here);
        assert_eq!(Process { pid: u32::MAX, ..this }.presence(), Presence::Gone);
        assert_eq!(Process { pid: 0, ..this }.presence(), Presence::Gone);
        assert_eq!(Process { pid_namespace: Some(1), ..this }.presence(), Presence::Unknown);
    }
}
