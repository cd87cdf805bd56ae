//! What was denied: each distinct violation once, with a count, in the audit log as it happens and in the
//! summary at the end. A flood of the same violation is folded, so that it can neither fill the log nor
//! slow the host.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use lazaret_audit::{AuditError, Event, EventKind, Log, NewEvent};
use lazaret_policy::violation::{EscapeIndicator, Indicator, Severity, is_told};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    meter::Exceeded,
    tap::ViolationTap,
    totals::{Total, Totals},
};

/// One thing that something inside tried and the policy denies.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub event: String,
    #[serde(rename = "type")]
    pub kind: Indicator,
    pub severity: Severity,
    /// The same in the RFC's own words.
    pub indicator: EscapeIndicator,
    /// In a few words: what was tried.
    pub description: String,
    /// Which layer refused it.
    pub layer: String,
    pub pid: i32,
    /// The name the process gave itself.
    pub process: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall: Option<Syscall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it was to lead, when it is about the network.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The flag or policy line that would allow it, or why nothing would.
    pub remedy: String,
    pub count: u64,
}

/// The other side of what was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// `tcp`, `udp` or `dns`.
    pub protocol: &'static str,
    /// The name, where one is known, else the address.
    pub host: String,
    pub port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// A closed set of codes, see `lazaret_policy::network::Reason`.
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Syscall {
    pub number: u32,
    pub name: String,
    pub args: Vec<String>,
}

/// The most distinct violations of one severity that are kept one by one: many harmless ones must not push
/// out a grave one.
const DISTINCT: usize = 500;

/// So many events of a run are kept for its trace.
const TRACE: usize = 2000;
/// What violations of one run may take of the log, and what one takes besides its description.
const LOG_BUDGET: u64 = 2 << 20;
const EVENT_SIZE: u64 = 1200;
/// Longer descriptions and paths are cut.
const LONGEST: usize = 512;
/// So many different dangerous calls are a pattern, and again one.
const PATTERN: [usize; 3] = [3, 6, 12];

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Somebody outside sent it to this program, which passed it on.
    PassedOn,
    EndedTheCommand,
    /// It ended a process inside that nobody waited for.
    EndedAProcess,
}

/// The memory of one run.
#[derive(Debug)]
pub struct Record<'log> {
    log: &'log Log,
    sandbox_id: String,
    violations: Vec<Violation>,
    index: HashMap<String, usize>,
    total: u64,
    /// How many distinct ones of each severity are kept, and how many came beyond that.
    kept: [(usize, u64); 4],
    limits: Vec<Exceeded>,
    /// The violation that was counted last, if it is one that is kept.
    last: Option<usize>,
    /// The events of this run, for the trace of an escape.
    trace: Vec<Event>,
    /// Different dangerous calls so far.
    dangerous: BTreeSet<String>,
    signals: HashMap<(i32, Fate), u64>,
    /// How much of the log violations have taken.
    log_size: u64,
    /// Sentences for a person, told at the end.
    remarks: Vec<String>,
    /// Of those that are not kept one by one.
    beyond: Totals,
    /// Who hears of every violation at once.
    tap: Option<ViolationTap>,
}

impl<'log> Record<'log> {
    pub fn new(log: &'log Log, sandbox_id: &str) -> Self {
        Record {
            log,
            sandbox_id: sandbox_id.to_owned(),
            violations: Vec::new(),
            index: HashMap::new(),
            total: 0,
            kept: [(0, 0); 4],
            limits: Vec::new(),
            last: None,
            trace: Vec::new(),
            dangerous: BTreeSet::new(),
            signals: HashMap::new(),
            log_size: 0,
            remarks: Vec::new(),
            beyond: Totals::default(),
            tap: None,
        }
    }

    /// Every violation from now on is heard there, too, before anything else is done about it.
    pub fn heard_by(mut self, tap: Option<ViolationTap>) -> Self {
        self.tap = tap;
        self
    }

    pub fn event(&mut self, kind: EventKind, details: &[(&str, Value)]) -> Result<(), AuditError> {
        let mut event = NewEvent::new(kind, &self.sandbox_id);
        for (key, value) in details {
            event = event.with(key, value.clone());
        }
        self.append(&event)
    }

    /// Into the log, and into the trace.
    pub fn append(&mut self, event: &NewEvent) -> Result<(), AuditError> {
        self.append_all(std::slice::from_ref(event))
    }

    pub fn append_all(&mut self, events: &[NewEvent]) -> Result<(), AuditError> {
        let written = self.log.append_all(events)?;
        for event in written {
            // What matters most is kept whatever else there was.
            let grave = matches!(event.event, EventKind::EscapeAttempt | EventKind::SecurityAlert);
            if self.trace.len() < TRACE || (grave && self.trace.len() < 2 * TRACE) {
                self.trace.push(event);
            }
        }
        Ok(())
    }

    /// An event of this run, to be appended.
    pub fn new_event(&self, kind: EventKind) -> NewEvent {
        NewEvent::new(kind, &self.sandbox_id)
    }

    /// A sentence that a person should read.
    pub fn tell(&mut self, sentence: String) {
        self.remarks.push(sentence);
    }

    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub fn trace(&self) -> &[Event] {
        &self.trace
    }

    pub fn sandbox_id(&self) -> &str {
        &self.sandbox_id
    }

    /// A signal came from outside, or ended something inside. The log hears of the first of a kind, the tenth …
    pub fn signal(&mut self, signal: i32, fate: Fate, details: &[(&str, Value)]) -> Result<(), AuditError> {
        let count = self.signals.entry((signal, fate)).or_default();
        *count += 1;
        let count = *count;
        if !is_told(count) {
            return Ok(());
        }
        let mut all = vec![("signal", json!(signal)), ("fate", json!(fate)), ("count", json!(count))];
        all.extend(details.iter().cloned());
        self.event(EventKind::SignalReceived, &all)
    }

    /// Counts a violation; the log hears of the first, the tenth, the hundredth …
    pub fn violation(&mut self, kind: EventKind, mut violation: Violation) -> Result<(), AuditError> {
        self.total += 1;
        self.last = None;
        violation.event = kind.to_string();
        violation.description = shortened(violation.description);
        violation.path = violation.path.map(shortened);
        let key = format!("{}\0{}\0{}", violation.description, violation.process, violation.layer);
        let severity = violation.severity;
        let Some((kept, beyond)) = self.kept.get_mut(severity as usize) else { return Ok(()) };
        let index = match self.index.get(&key) {
            Some(index) => *index,
            None if *kept < DISTINCT || severity == Severity::Critical => {
                *kept += 1;
                self.index.insert(key, self.violations.len());
                self.violations.push(violation);
                self.violations.len() - 1
            }
            None => {
                self.beyond.add(&violation, 1);
                if let Some(tap) = &self.tap {
                    tap.hear(&violation, 1);
                }
                *beyond += 1;
                let count = *beyond;
                if !is_told(count) {
                    return Ok(());
                }
                return self.event(
                    EventKind::SecurityAlert,
                    &[
                        ("description", json!("more distinct violations than are kept one by one")),
                        ("severity", json!(severity)),
                        ("last", json!(violation.description)),
                        ("count", json!(count)),
                    ],
                );
            }
        };
        self.last = Some(index);
        self.count(index, kind)?;
        self.look_for_pattern(index)
    }

    /// One dangerous call may be a program that tries what it can do without; several different ones are
    /// somebody who looks for a way out (RFC-0002 §8.3).
    fn look_for_pattern(&mut self, index: usize) -> Result<(), AuditError> {
        let Some(violation) = self.violations.get(index) else { return Ok(()) };
        let Some(call) = &violation.syscall else { return Ok(()) };
        if violation.event != EventKind::SyscallBlocked.name() || violation.severity < Severity::Medium {
            return Ok(());
        }
        if !self.dangerous.insert(call.name.clone()) || !PATTERN.contains(&self.dangerous.len()) {
            return Ok(());
        }
        let calls: Vec<&String> = self.dangerous.iter().collect();
        let details = [
            ("description", json!("different dangerous system calls were tried in one sandbox")),
            ("severity", json!(Severity::High)),
            ("syscalls", json!(calls)),
        ];
        self.event(EventKind::SecurityAlert, &details)
    }

    /// Where the violation that was counted last is kept, if it is.
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    /// One that is kept once more, exactly.
    pub fn again(&mut self, index: usize, kind: EventKind) -> Result<(), AuditError> {
        self.total += 1;
        self.count(index, kind)
    }

    fn count(&mut self, index: usize, kind: EventKind) -> Result<(), AuditError> {
        let Some(known) = self.violations.get_mut(index) else { return Ok(()) };
        known.count += 1;
        if let Some(tap) = &self.tap {
            tap.hear(known, known.count);
        }
        if !is_told(known.count) {
            return Ok(());
        }
        let value = serde_json::to_value(&*known).unwrap_or_default();
        let (severity, size) = (known.severity, known.description.len() as u64 + EVENT_SIZE);
        self.log_size += size;
        if self.log_size > LOG_BUDGET && severity < Severity::Critical {
            if self.log_size - size <= LOG_BUDGET {
                let details = [(
                    "description",
                    json!("so many violations that only their counts go into the log from here on"),
                )];
                return self.event(EventKind::SecurityAlert, &details);
            }
            return Ok(());
        }
        self.log_violation(kind, value)
    }

    fn log_violation(&mut self, kind: EventKind, value: Value) -> Result<(), AuditError> {
        let mut event = NewEvent::new(kind, &self.sandbox_id);
        if let Value::Object(fields) = value {
            for (key, value) in fields.into_iter().filter(|(key, _)| key != "event") {
                event = event.with(&key, value);
            }
        }
        self.append(&event)
    }

    /// At the end: the counts of what was folded.
    pub fn close(&mut self) -> Result<(), AuditError> {
        let folded: Vec<Value> = self
            .violations
            .iter()
            .filter(|violation| !is_told(violation.count))
            .map(|violation| json!({ "description": violation.description, "count": violation.count }))
            .take(100)
            .collect();
        if folded.is_empty() {
            return Ok(());
        }
        self.event(EventKind::PolicyViolation, &[("repeated", Value::Array(folded))])
    }

    /// A limit was hit; each is told once.
    pub fn limit(&mut self, exceeded: Exceeded) -> Result<(), AuditError> {
        if self.limits.iter().any(|known| known.limit == exceeded.limit) {
            return Ok(());
        }
        self.event(
            EventKind::ResourceLimitExceeded,
            &[
                ("limit", json!(exceeded.limit)),
                ("value", json!(exceeded.value)),
                ("usage", json!(exceeded.usage)),
                ("description", json!(exceeded.description)),
                ("consequence", json!(exceeded.consequence)),
            ],
        )?;
        self.limits.push(exceeded);
        Ok(())
    }

    pub fn limits(&self) -> &[Exceeded] {
        &self.limits
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often what was denied, exactly.
    pub fn totals(&self) -> Vec<Total> {
        let mut totals = self.beyond.clone();
        for violation in &self.violations {
            totals.add(violation, violation.count);
        }
        totals.0
    }

    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

/// Cut in the middle: beginning and end of a path tell most.
fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST * 3 / 4).collect();
    let tail: String = text.chars().skip(count - LONGEST / 4).collect();
    format!("{head}…({} more)…{tail}", count - LONGEST)
}
