//! One sandbox between its first and its last event, and what of it has been counted already.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::table::short;
use crate::event::{Event, EventKind};

/// What a violation counts as.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offence {
    pub event: String,
    pub kind: String,
    pub severity: String,
    pub syscall: Option<String>,
}

/// What went over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    pub allowed: u64,
    pub failed: u64,
    pub denied: u64,
    pub sent: u64,
    pub received: u64,
}

/// What the commands of a sandbox have used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A sandbox that has not ended, as far as the log knows.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Milliseconds since the epoch; `None` when its beginning is not in the log.
    pub created: Option<u64>,
    /// When it was heard of last.
    pub last: u64,
    pub level: String,
    pub profile: String,
    pub tool: Option<String>,
    /// What `SANDBOX_CREATED` says of the program that watches over it.
    pub supervisor: Option<Value>,
    pub(super) outcome: Option<String>,
    pub(super) duration_ms: u64,
    pub(super) usage: Option<Usage>,
    pub(super) violations: u64,
    /// How often each has been told of in this run, which is not how often it was: a flood is folded.
    told: HashMap<String, (Offence, u64)>,
    /// What has been counted of this run.
    counted: BTreeMap<Offence, u64>,
    carried: Carried,
}

/// A log that somebody else wrote could name any number of them.
const MOST_TOLD: usize = 5000;

impl Watched {
    pub(super) fn new(event: &Event) -> Watched {
        Watched {
            created: None,
            last: event.timestamp,
            level: "unknown".to_owned(),
            profile: "none".to_owned(),
            tool: None,
            supervisor: None,
            outcome: None,
            duration_ms: 0,
            usage: None,
            violations: 0,
            told: HashMap::new(),
            counted: BTreeMap::new(),
            carried: Carried::default(),
        }
    }

    pub(super) fn begin(&mut self, event: &Event) {
        let details = &event.details;
        self.created = Some(event.timestamp);
        if let Some(level) = details.get("level").and_then(Value::as_u64) {
            self.level = level.to_string();
        }
        if let Some(profile) = text(details, "profile") {
            self.profile = short(profile);
        }
        self.tool = text(details, "tool").map(short);
        self.supervisor = details.get("supervisor").filter(|it| !it.is_null()).cloned();
    }

    /// A violation was told of: how many more that are than have been counted, and as what.
    pub(super) fn told_of(&mut self, event: &Event) -> Option<(Offence, u64)> {
        let details = &event.details;
        // The sum of what was folded, for people; the end of the run has the numbers.
        let count = number(details, "count")?;
        let part = |key| text(details, key).unwrap_or_default();
        let key = format!("{}\0{}\0{}", part("description"), part("process"), part("layer"));
        if let Some((offence, before)) = self.told.get_mut(&key) {
            let more = count.saturating_sub(*before);
            *before = count.max(*before);
            let offence = offence.clone();
            self.note(&offence, more);
            return Some((offence, more));
        }
        if self.told.len() >= MOST_TOLD {
            return None;
        }
        let call = details.get("syscall").and_then(|call| text(call.as_object()?, "name"));
        // By the name of the call it is told apart only where the call is what was blocked.
        let blocked = event.event == EventKind::SyscallBlocked;
        let offence = Offence {
            event: event.event.name().to_owned(),
            kind: lower(details, "type"),
            severity: lower(details, "severity"),
            syscall: call.filter(|_| blocked).map(str::to_owned),
        };
        self.told.insert(key, (offence.clone(), count));
        self.note(&offence, count);
        Some((offence, count))
    }

    fn note(&mut self, offence: &Offence, more: u64) {
        let counted = self.counted.entry(offence.clone()).or_default();
        *counted = counted.saturating_add(more);
        self.violations = self.violations.saturating_add(more);
    }

    /// The end of a run tells exact numbers: what is missing of each.
    pub(super) fn exact(&mut self, details: &Map<String, Value>) -> Vec<(Offence, u64)> {
        let mut missing = Vec::new();
        let totals = details.get("violationCounts").and_then(Value::as_array);
        for total in totals.into_iter().flatten().filter_map(Value::as_object) {
            let offence = Offence {
                event: text(total, "event").unwrap_or_default().to_owned(),
                kind: lower(total, "type"),
                severity: lower(total, "severity"),
                syscall: text(total, "syscall").map(str::to_owned),
            };
            let counted = self.counted.get(&offence).copied().unwrap_or(0);
            missing.push((offence, number(total, "count").unwrap_or(0).saturating_sub(counted)));
        }
        let counted = all_of(self.counted.values().chain(missing.iter().map(|(_, more)| more)));
        let all = number(details, "violations").unwrap_or(0);
        if all > counted {
            // Written before the numbers were told one by one, or more names than are told.
            let unknown = || "unknown".to_owned();
            let event = EventKind::PolicyViolation.name().to_owned();
            let offence = Offence { event, kind: unknown(), severity: unknown(), syscall: None };
            missing.push((offence, all - counted));
        }
        self.violations = self.violations.saturating_add(all_of(missing.iter().map(|(_, more)| more)));
        // Another command of the same sandbox begins to count anew.
        self.told.clear();
        self.counted.clear();
        missing
    }

    /// A connection, a look-up or a datagram was told of.
    pub(super) fn carried(&mut self, carried: Carried) -> Carried {
        self.carried = sum(self.carried, carried);
        carried
    }

    /// The same for the network.
    pub(super) fn exactly_carried(&mut self, details: &Map<String, Value>) -> Carried {
        let told = std::mem::take(&mut self.carried);
        let Some(network) = details.get("network").and_then(Value::as_object) else {
            return Carried::default();
        };
        let missing = |key, told: u64| number(network, key).unwrap_or(0).saturating_sub(told);
        Carried {
            allowed: missing("connections", told.allowed),
            failed: missing("failed", told.failed),
            denied: missing("denied", told.denied),
            sent: missing("sentBytes", told.sent),
            received: missing("receivedBytes", told.received),
        }
    }

    /// One command of it has ended.
    pub(super) fn used(&mut self, details: &Map<String, Value>) {
        let Some(told) = details.get("usage").and_then(Value::as_object) else { return };
        let value = |key| number(told, key).unwrap_or(0);
        let usage = self.usage.get_or_insert_default();
        usage.cpu_seconds += value("cpuMs") as f64 / 1000.0;
        usage.memory_bytes = usage.memory_bytes.max(value("memoryPeakBytes")).max(value("maxRssBytes"));
        usage.read_bytes = usage.read_bytes.saturating_add(value("ioReadBytes"));
        usage.written_bytes = usage.written_bytes.saturating_add(value("ioWriteBytes"));
    }
}

fn sum(a: Carried, b: Carried) -> Carried {
    Carried {
        allowed: a.allowed.saturating_add(b.allowed),
        failed: a.failed.saturating_add(b.failed),
        denied: a.denied.saturating_add(b.denied),
        sent: a.sent.saturating_add(b.sent),
        received: a.received.saturating_add(b.received),
    }
}

fn all_of<'a>(counts: impl Iterator<Item = &'a u64>) -> u64 {
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// A log may have been written by anybody: no number of it is beyond what a metric can hold.
pub fn number(details: &Map<String, Value>, key: &str) -> Option<u64> {
    const MOST: u64 = 1 << 53;
    details.get(key).and_then(Value::as_u64).map(|number| number.min(MOST))
}

pub fn text<'a>(details: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    details.get(key).and_then(Value::as_str)
}

fn lower(details: &Map<String, Value>, key: &str) -> String {
    text(details, key).map_or_else(|| "unknown".to_owned(), str::to_lowercase)
}
