//! How much is used: looked at from time to time, and whenever somebody new is seen.

use std::time::{Duration, Instant};

use lazaret_sandbox::linux::{
    launch::Sandbox,
    notify::{Notification, Task},
};

use super::observe::Observer;
use crate::processes::{self, Belonging};

/// How often it is looked.
const PERIOD: Duration = Duration::from_millis(25);

impl Observer {
    /// When it should be looked again how much is used.
    pub fn due(&self) -> Instant {
        self.next_look
    }

    /// Looks how much is used, if it is time to.
    pub fn look(&mut self, sandbox: &Sandbox) {
        if Instant::now() >= self.next_look {
            self.measure(sandbox);
        }
    }

    /// A process or thread that was not seen before, and not the first.
    pub(super) fn newcomer(&mut self, sandbox: &Sandbox, call: &Notification, task: &Task) {
        match task.numbers() {
            Ok(numbers) if numbers.host_process != call.pid => self.findings.threads += 1,
            _ => self.findings.forks += 1,
        }
        self.measure(sandbox);
    }

    fn measure(&mut self, sandbox: &Sandbox) {
        let began = Instant::now();
        if let Some(proc) = sandbox.proc() {
            // Init is ours, and counts for no limit.
            let inside: Vec<_> = processes::snapshot(proc, Belonging::All)
                .into_iter()
                .filter(|process| process.pid != 1)
                .collect();
            // Who makes no call that is seen is seen here, if it lives for a moment.
            if inside.len() > 1 {
                self.findings.forks = self.findings.forks.max(1);
            }
            if inside.iter().any(|process| process.threads > 1) {
                self.findings.threads = self.findings.threads.max(1);
            }
            let amounts = &mut self.findings.amounts;
            amounts.tasks = amounts.tasks.max(inside.iter().map(|process| process.threads).sum());
            amounts.memory_bytes =
                amounts.memory_bytes.max(inside.iter().map(|process| process.memory).sum());
            let written = inside.iter().map(|process| processes::written(proc, process)).sum();
            amounts.written_bytes = amounts.written_bytes.max(written);
        }
        // Looking must not become the work.
        self.next_look = Instant::now() + PERIOD.max(began.elapsed() * 10);
    }
}
