//! What has been counted so far, event by event.
//!
//! A flood of violations is folded in the log, which hears of the first, the tenth, the hundredth … Each of those
//! carries how often it was by then, so that the count grows while the sandbox runs; the last event of a run has the
//! exact numbers, and what was missing is added then. Of a run that was killed only the former is known.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::family::Histogram;
use super::run::{Carried, Offence, Usage, Watched, number, text};
use super::table::Table;
use crate::event::{Event, EventKind};

/// Most values of a label that is not from a list of our own.
const MOST_NAMES: usize = 50;
const MOST_CALLS: usize = 200;
const MOST_CALLED_TOOLS: usize = 400;
/// Most sandboxes that are thought to run at once; beyond, the oldest is taken for lost.
const MOST_RUNNING: usize = 10_000;
/// So many that have ended are remembered one by one.
pub const MOST_ENDED: usize = 100;
/// What nobody can look for is thought to run no longer than this after it was heard of last.
const PATIENCE_MS: u64 = 24 * 60 * 60 * 1000;

const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0,
];
const MEMORY: &[f64] = &[
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
    17_179_869_184.0,
];
const TRAFFIC: &[f64] =
    &[0.0, 4096.0, 65_536.0, 1_048_576.0, 16_777_216.0, 268_435_456.0, 1_073_741_824.0, 17_179_869_184.0];

/// Does a sandbox of which no end is in the log still run?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Runs,
    Lost,
    /// It cannot be looked for from here.
    Unknown,
}

/// A sandbox that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub id: String,
    pub watched: Watched,
    pub lifetime_ms: Option<u64>,
}

/// The counts behind the metrics.
#[derive(Debug, Clone)]
pub struct Tally {
    pub(super) created: Table,
    pub(super) ended: Table,
    pub(super) tool_runs: Table,
    pub(super) tool_calls: Table,
    pub(super) violations: Table,
    pub(super) syscalls: Table,
    pub(super) limits: Table,
    pub(super) connections: Table,
    pub(super) network_bytes: Table,
    pub(super) transactions: Table,
    pub(super) events: Table,
    pub(super) escapes: u64,
    pub(super) alerts: u64,
    pub(super) weakened: u64,
    pub(super) without_walls: u64,
    pub(super) quarantined: u64,
    pub(super) failed_connections: u64,
    pub(super) bad_lines: u64,
    pub(super) lifetime: Histogram,
    pub(super) cpu: Histogram,
    pub(super) memory: Histogram,
    pub(super) read: Histogram,
    pub(super) written: Histogram,
    pub(super) running: BTreeMap<String, Watched>,
    /// The newest last.
    pub(super) recent: VecDeque<Ended>,
    /// How many began in each of the last seconds.
    pub(super) births: VecDeque<(u64, u64)>,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally::new()
    }
}

impl Tally {
    #[must_use]
    pub fn new() -> Tally {
        let kinds = ["filesystem", "process", "network", "syscall"];
        let severities = ["low", "medium", "high", "critical"];
        let outcomes = ["exited", "signaled", "timeout", "escape", "violations", "limit", "error", "lost"];
        let every_violation = kinds.iter().flat_map(|kind| severities.map(|severity| vec![*kind, severity]));
        let one_by_one = |values: &'static [&'static str]| values.iter().map(|value| vec![*value]);
        Tally {
            created: Table::new(&["level", "profile"], MOST_NAMES),
            ended: Table::new(&["outcome"], MOST_NAMES).expecting(outcomes.map(|outcome| vec![outcome])),
            tool_runs: Table::new(&["outcome", "tool"], 3 * MOST_NAMES),
            tool_calls: Table::new(&["decision", "result", "server", "tool"], MOST_CALLED_TOOLS),
            violations: Table::new(&["type", "severity"], MOST_NAMES).expecting(every_violation),
            syscalls: Table::new(&["syscall"], MOST_CALLS),
            limits: Table::new(&["limit"], MOST_NAMES),
            connections: Table::new(&["verdict"], MOST_NAMES).expecting(one_by_one(&["allowed", "denied"])),
            network_bytes: Table::new(&["direction"], MOST_NAMES)
                .expecting(one_by_one(&["sent", "received"])),
            transactions: Table::new(&["result"], MOST_NAMES)
                .expecting(one_by_one(&["committed", "discarded"])),
            events: Table::new(&["event"], MOST_NAMES),
            escapes: 0,
            alerts: 0,
            weakened: 0,
            without_walls: 0,
            quarantined: 0,
            failed_connections: 0,
            bad_lines: 0,
            lifetime: Histogram::new(SECONDS),
            cpu: Histogram::new(SECONDS),
            memory: Histogram::new(MEMORY),
            read: Histogram::new(TRAFFIC),
            written: Histogram::new(TRAFFIC),
            running: BTreeMap::new(),
            recent: VecDeque::new(),
            births: VecDeque::new(),
            first: None,
            last: None,
        }
    }

    /// A line of the log that is no event.
    pub fn bad_line(&mut self) {
        self.bad_lines += 1;
    }

    pub fn count(&mut self, event: &Event) {
        self.events.add(&[event.event.name()], 1);
        self.first.get_or_insert(event.timestamp);
        self.last = self.last.max(Some(event.timestamp));
        if let Some(watched) = self.running.get_mut(&event.sandbox_id) {
            watched.last = event.timestamp;
        }
        match event.event {
            EventKind::SandboxCreated => self.begun(event),
            EventKind::SandboxExited => self.command_ended(event),
            EventKind::SandboxDestroyed => self.destroyed(event),
            EventKind::PolicyViolation | EventKind::SyscallBlocked => self.violation(event),
            EventKind::NetworkConnection => self.connection(event),
            EventKind::ToolCall => self.tool_call(event),
            EventKind::EscapeAttempt => self.escapes += 1,
            EventKind::ResourceLimitExceeded => {
                self.limits.add(&[text(&event.details, "limit").unwrap_or("unknown")], 1);
            }
            EventKind::SecurityAlert => self.alerts += 1,
            EventKind::EnforcementWeakened => self.weakened += 1,
            EventKind::Level0Used => self.without_walls += 1,
            EventKind::ToolQuarantined => self.quarantined += 1,
            EventKind::TransactionCommitted => self.transactions.add(&["committed"], 1),
            EventKind::TransactionDiscarded => self.transactions.add(&["discarded"], 1),
            // Counted by kind only.
            _ => {}
        }
    }

    /// Sandboxes whose end nobody wrote down: those are counted as lost that do not run any more. `fate` is asked
    /// for each that has not ended.
    pub fn look_for_lost(&mut self, now_ms: u64, mut fate: impl FnMut(&Watched) -> Fate) {
        let lost: Vec<String> = self
            .running
            .iter()
            .filter(|(_, watched)| match fate(watched) {
                Fate::Runs => false,
                Fate::Lost => true,
                Fate::Unknown => now_ms.saturating_sub(watched.last) > PATIENCE_MS,
            })
            .map(|(id, _)| id.clone())
            .collect();
        lost.iter().for_each(|id| self.lose(id));
    }

    fn lose(&mut self, id: &str) {
        if let Some(mut watched) = self.running.remove(id) {
            watched.outcome = Some("lost".to_owned());
            self.remember(id, watched, None);
        }
    }

    fn begun(&mut self, event: &Event) {
        let watched = self.running.entry(event.sandbox_id.clone()).or_insert_with(|| Watched::new(event));
        watched.begin(event);
        let (level, profile) = (watched.level.clone(), watched.profile.clone());
        self.created.add(&[&level, &profile], 1);
        self.born(event.timestamp / 1000);
        if self.running.len() > MOST_RUNNING {
            // Their names begin with the time.
            let oldest = self.running.keys().next().cloned();
            oldest.iter().for_each(|id| self.lose(id));
        }
    }

    fn born(&mut self, second: u64) {
        match self.births.back_mut() {
            Some((last, count)) if *last >= second => *count += 1,
            _ => self.births.push_back((second, 1)),
        }
        while self.births.len() > 120 {
            self.births.pop_front();
        }
    }

    /// The sandbox of an event, also when its beginning is not in the log. One that has ended does not come back.
    fn watched(&mut self, event: &Event) -> Option<&mut Watched> {
        if !self.running.contains_key(&event.sandbox_id) {
            if event.sandbox_id.is_empty() || self.recent.iter().any(|ended| ended.id == event.sandbox_id) {
                return None;
            }
            self.running.insert(event.sandbox_id.clone(), Watched::new(event));
        }
        self.running.get_mut(&event.sandbox_id)
    }

    fn violation(&mut self, event: &Event) {
        let is_of_network = event.details.contains_key("protocol");
        let Some(watched) = self.watched(event) else { return };
        let Some((offence, more)) = watched.told_of(event) else { return };
        if is_of_network {
            let carried = watched.carried(Carried { denied: more, ..Carried::default() });
            self.add_carried(carried);
        }
        self.add_offence(&offence, more);
    }

    fn add_offence(&mut self, offence: &Offence, more: u64) {
        self.violations.add(&[&offence.kind, &offence.severity], more);
        if offence.event == EventKind::SyscallBlocked.name() {
            self.syscalls.add(&[offence.syscall.as_deref().unwrap_or("unknown")], more);
        }
    }

    fn connection(&mut self, event: &Event) {
        let details = &event.details;
        let value = |key| number(details, key).unwrap_or(0);
        let allowed = text(details, "decision") == Some("allowed");
        let carried = Carried {
            allowed: u64::from(allowed),
            failed: u64::from(!allowed || details.contains_key("failure")),
            denied: 0,
            sent: value("sentBytes"),
            received: value("receivedBytes"),
        };
        if let Some(watched) = self.watched(event) {
            let carried = watched.carried(carried);
            self.add_carried(carried);
        }
    }

    fn add_carried(&mut self, carried: Carried) {
        self.connections.add(&["allowed"], carried.allowed);
        self.connections.add(&["denied"], carried.denied);
        self.failed_connections = self.failed_connections.saturating_add(carried.failed);
        self.network_bytes.add(&["sent"], carried.sent);
        self.network_bytes.add(&["received"], carried.received);
    }

    fn tool_call(&mut self, event: &Event) {
        let details = &event.details;
        // Either a word or an object that says more.
        let status = |key: &str| match details.get(key) {
            Some(Value::Object(more)) => text(more, "status"),
            _ => text(details, key),
        };
        let decision = status("policyDecision").or_else(|| text(details, "decision"));
        let name = |key| text(details, key).unwrap_or("unknown");
        let labels = [
            decision.unwrap_or("unknown"),
            status("result").unwrap_or("unknown"),
            name("serverName"),
            name("toolName"),
        ];
        self.tool_calls.add(&labels, 1);
    }

    fn command_ended(&mut self, event: &Event) {
        let details = &event.details;
        let Some(watched) = self.watched(event) else { return };
        let outcome = text(details, "outcome").unwrap_or("unknown").to_owned();
        let duration = number(details, "durationMs").unwrap_or(0);
        watched.duration_ms = watched.duration_ms.saturating_add(duration);
        watched.outcome = Some(outcome.clone());
        watched.used(details);
        let tool = watched.tool.clone();
        self.add_exact(event);
        if let Some(tool) = tool {
            self.tool_runs.add(&[&outcome, &tool], 1);
        }
    }

    fn add_exact(&mut self, event: &Event) {
        let Some(watched) = self.watched(event) else { return };
        let missing = watched.exact(&event.details);
        let carried = watched.exactly_carried(&event.details);
        missing.iter().for_each(|(offence, more)| self.add_offence(offence, *more));
        self.add_carried(carried);
    }

    fn destroyed(&mut self, event: &Event) {
        if self.watched(event).is_none() {
            return;
        }
        // What was told after the last command had ended.
        self.add_exact(event);
        let Some(mut watched) = self.running.remove(&event.sandbox_id) else { return };
        if event.details.get("error").is_some_and(Value::is_string) {
            watched.outcome = Some("error".to_owned());
        }
        let lifetime_ms = match watched.created {
            Some(created) => event.timestamp.saturating_sub(created),
            None => watched.duration_ms,
        };
        self.lifetime.observe(lifetime_ms as f64 / 1000.0);
        if let Some(Usage { cpu_seconds, memory_bytes, read_bytes, written_bytes }) = watched.usage {
            self.cpu.observe(cpu_seconds);
            self.memory.observe(memory_bytes as f64);
            self.read.observe(read_bytes as f64);
            self.written.observe(written_bytes as f64);
        }
        self.remember(&event.sandbox_id, watched, Some(lifetime_ms));
    }

    fn remember(&mut self, id: &str, watched: Watched, lifetime_ms: Option<u64>) {
        self.ended.add(&[watched.outcome.as_deref().unwrap_or("unused")], 1);
        self.recent.push_back(Ended { id: id.to_owned(), watched, lifetime_ms });
        while self.recent.len() > MOST_ENDED {
            self.recent.pop_front();
        }
    }
}
