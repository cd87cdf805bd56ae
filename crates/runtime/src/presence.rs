//! Does the program that watches over a sandbox still run? One that was killed leaves no last event, and
//! everything inside ended with it. A number alone is not enough, as it is given again: who began when, and in
//! which pid namespace the number counts, belong to it.

use std::fs;

use serde::{Deserialize, Serialize};

/// Who watches over a sandbox, as `SANDBOX_CREATED` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Supervisor {
    pub pid: u32,
    /// When it began, in the kernel's ticks since the host did.
    pub start_ticks: u64,
    /// Where that number counts.
    pub pid_namespace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Here,
    Gone,
    /// It is, or was, in a container of its own, or is hidden from who asks.
    Unknown,
}

impl Supervisor {
    /// This process. `None` where the kernel does not say.
    pub fn this() -> Option<Supervisor> {
        Some(Supervisor {
            pid: std::process::id(),
            start_ticks: start_of("self")?,
            pid_namespace: namespace()?,
        })
    }

    fn is_hidden(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let answer = pid.map(rustix::process::test_kill_process);
        matches!(answer, Some(Err(rustix::io::Errno::PERM)))
    }

    pub fn presence(&self) -> Presence {
        if namespace() != Some(self.pid_namespace) {
            return Presence::Unknown;
        }
        match start_of(&self.pid.to_string()) {
            Some(ticks) if ticks == self.start_ticks => Presence::Here,
            // There is a process with that number, and /proc does not show those of others (`hidepid`).
            None if self.is_hidden() => Presence::Unknown,
            _ => Presence::Gone,
        }
    }
}

/// A process that has ended and is not reaped yet has no start: it watches over nothing.
fn start_of(pid: &str) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain anything, a bracket included.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn namespace() -> Option<u64> {
    rustix::fs::stat("/proc/self/ns/pid").ok().map(|stat| stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_again_is_somebody_else() {
        let this = Supervisor::this().unwrap();
        assert_eq!(this.presence(), Presence::Here);
        assert_eq!(Supervisor { start_ticks: this.start_ticks + 1, ..this }.presence(), Presence::Gone);
        assert_eq!(Supervisor { pid: u32::MAX, ..this }.presence(), Presence::Gone);
        assert_eq!(Supervisor { pid_namespace: 1, ..this }.presence(), Presence::Unknown);
    }
}
