//! A server's process: its streams for the loop, what holds it, and what it was denied since a moment.

use std::{os::fd::OwnedFd, path::PathBuf, time::Duration};

use lazaret_policy::violation::Severity;
use lazaret_runtime::{ViolationTap, serve};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::oneshot,
};

use crate::blocked::{Denied, Evidence, Sign, looks_refused};

/// How long what the network's thread refused may take to be heard of.
const SETTLING: Duration = Duration::from_millis(20);
/// How long a server has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// What is known of a process for judging and for the log.
#[derive(Debug, Clone)]
pub struct Facts {
    pub sandbox_id: String,
    pub evidence: Evidence,
    /// Is there any way out?
    pub network: bool,
    /// Paths that the sandbox closes, as the operating system would find them.
    pub closed: Vec<PathBuf>,
    /// Why there is no sandbox, when there is none.
    pub reason: Option<&'static str>,
}

/// How it ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub outcome: String,
}

#[derive(Debug)]
pub struct Process {
    /// Killed when dropped.
    running: serve::Running,
    tap: Option<ViolationTap>,
    facts: Facts,
    ended: Option<oneshot::Receiver<Ended>>,
}

/// A moment in a server's life.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark(Option<lazaret_runtime::Mark>);

impl Process {
    pub fn new(
        running: serve::Running,
        tap: Option<ViolationTap>,
        facts: Facts,
        ended: oneshot::Receiver<Ended>,
    ) -> Process {
        Process { running, tap, facts, ended: Some(ended) }
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Once.
    pub fn take_streams(&mut self) -> Option<(Sender, Receiver, Receiver)> {
        let read = |fd: Option<OwnedFd>| Receiver::from_owned_fd(fd?).ok();
        let stdin = Sender::from_owned_fd(self.running.stdin.take()?).ok()?;
        Some((stdin, read(self.running.stdout.take())?, read(self.running.stderr.take())?))
    }

    /// Told when everything of it is gone. Once.
    pub fn ended(&mut self) -> oneshot::Receiver<Ended> {
        self.ended.take().unwrap_or_else(|| oneshot::channel().1)
    }

    pub fn mark(&self) -> Mark {
        Mark(self.tap.as_ref().map(ViolationTap::mark))
    }

    /// What it tried since and was denied.
    pub fn blocked_since(&self, mark: Mark, failed: Failed) -> Vec<Denied> {
        let (Some(tap), Mark(Some(mark))) = (&self.tap, mark) else { return Vec::new() };
        if failed == Failed::Yes && self.facts.network && tap.count_since(mark) == 0 {
            self.running.handle().settle(SETTLING);
        }
        if tap.count_since(mark) == 0 {
            return Vec::new();
        }
        tap.since(mark)
            .into_iter()
            .map(|violation| match (&violation.path, &violation.peer) {
                (Some(path), _) => Denied::file(violation.description, path),
                (None, None) if violation.severity < Severity::High => {
                    Denied { description: violation.description, sign: Sign::Attempt }
                }
                _ => Denied { description: violation.description, sign: Sign::Sure },
            })
            .collect()
    }

    /// Looking at a closed path without opening it leaves no record: what a call names is compared instead.
    pub fn closed(&self, facts: &lazaret_gate::Facts, text: &str) -> Vec<Denied> {
        let named = facts.paths.iter().filter_map(|fact| {
            let closed = self.facts.closed.iter().find(|closed| fact.resolved.starts_with(closed))?;
            Some((fact.resolved.as_path(), closed))
        });
        let mut denied: Vec<Denied> = named
            .map(|(path, _)| Denied {
                description: format!("{} is closed to this server", path.display()),
                sign: Sign::Sure,
            })
            .collect();
        if denied.is_empty() && looks_refused(text) {
            let spoken_of =
                self.facts.closed.iter().filter(|closed| text.contains(&*closed.to_string_lossy()));
            denied.extend(spoken_of.take(1).map(|closed| Denied {
                description: format!("{} is closed to this server", closed.display()),
                sign: Sign::Sure,
            }));
        }
        denied
    }

    pub fn stop(&self) {
        self.running.handle().terminate(GRACE);
    }
}

/// Did the call fail, so that it is worth waiting for a reason?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    Yes,
    No,
}
