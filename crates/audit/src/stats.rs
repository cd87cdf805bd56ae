//! Events in numbers: how many of what, about whom, how it ended and how long it took.
//!
//! What is counted are events. A violation that repeats is told at the first, the tenth, the hundredth … time,
//! and counts as often as it was told.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::event::EventKind;
use crate::view::{Severity, View};

/// So many different names of a sort are counted one by one. Whoever is inside chooses them.
const DISTINCT: usize = 100_000;

/// Names with how often each was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    counts: HashMap<String, u64>,
    /// Seen after there were too many different ones.
    pub others: u64,
}

impl Tally {
    fn add(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
        } else if self.counts.len() < DISTINCT {
            self.counts.insert(name.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    fn add_some(&mut self, name: Option<&Cow<'_, str>>) {
        if let Some(name) = name {
            self.add(name);
        }
    }

    /// The most frequent ones, and among equals by name.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(n);
        all
    }

    #[must_use]
    pub fn distinct(&self) -> usize {
        self.counts.len()
    }
}

/// Numbers about events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    pub events: u64,
    pub first_time: Option<String>,
    pub last_time: Option<String>,
    pub kinds: BTreeMap<EventKind, u64>,
    pub severities: BTreeMap<Severity, u64>,
    /// How many sandboxes were made.
    pub sandboxes: u64,
    pub outcomes: BTreeMap<String, u64>,
    pub exit_codes: BTreeMap<i64, u64>,
    pub limits: Tally,
    pub hosts_allowed: Tally,
    pub hosts_refused: Tally,
    pub denied_paths: Tally,
    pub blocked_syscalls: Tally,
    pub tools: Tally,
    /// Calls through the proxy, as `SERVER/TOOL`.
    pub tool_calls: Tally,
    /// Those of them that were not allowed.
    pub tool_calls_refused: Tally,
    durations: Vec<f64>,
}

/// How long sandboxes took, in milliseconds, as nearest ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Durations {
    pub count: usize,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub longest: f64,
}

impl Stats {
    pub fn add(&mut self, view: &View<'_>) -> Result<(), serde_json::Error> {
        use EventKind::{
            DnsQuery, NetworkConnection, PolicyViolation, ResourceLimitExceeded, SandboxCreated,
            SandboxDestroyed, SandboxEntered, SandboxExited, SyscallBlocked, ToolCall,
        };
        self.events += 1;
        *self.kinds.entry(view.event).or_default() += 1;
        if self.first_time.is_none() {
            self.first_time = Some(view.time.clone().into_owned());
        }
        match &mut self.last_time {
            Some(last) => view.time.as_ref().clone_into(last),
            None => self.last_time = Some(view.time.clone().into_owned()),
        }
        if matches!(view.event, SandboxEntered | SandboxDestroyed | DnsQuery) {
            return Ok(());
        }
        let facts = view.facts()?;
        if let Some(severity) = facts.severity {
            *self.severities.entry(severity).or_default() += 1;
        }
        match view.event {
            SandboxCreated => {
                self.sandboxes += 1;
                self.tools.add_some(facts.tool.as_ref());
            }
            SandboxExited => {
                if let Some(outcome) = facts.outcome {
                    *self.outcomes.entry(outcome.into_owned()).or_default() += 1;
                }
                if let Some(code) = facts.exit_code {
                    *self.exit_codes.entry(code).or_default() += 1;
                }
                self.durations.extend(facts.duration_ms);
            }
            NetworkConnection if facts.decision.as_deref() == Some("allowed") => {
                self.hosts_allowed.add_some(facts.host.as_ref());
            }
            PolicyViolation | SyscallBlocked => {
                self.hosts_refused.add_some(facts.host.as_ref());
                self.denied_paths.add_some(facts.path.as_ref());
                if view.event == SyscallBlocked {
                    self.blocked_syscalls.add_some(facts.syscall.as_ref());
                }
            }
            ToolCall => {
                if let (Some(server), Some(tool)) = (&facts.server, &facts.tool) {
                    let name = format!("{server}/{tool}");
                    self.tool_calls.add(&name);
                    if facts.is_refused() {
                        self.tool_calls_refused.add(&name);
                    }
                }
            }
            ResourceLimitExceeded => self.limits.add_some(facts.limit.as_ref()),
            _ => {}
        }
        Ok(())
    }

    /// Nothing when no sandbox has ended.
    #[must_use]
    pub fn durations(&self) -> Option<Durations> {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        let rank = |percent: usize| sorted.get((count * percent).div_ceil(100).saturating_sub(1)).copied();
        let (p50, p90, p99) = (rank(50)?, rank(90)?, rank(99)?);
        Some(Durations { count, p50, p90, p99, longest: sorted.last().copied()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut stats = Stats::default();
        assert_eq!(stats.durations(), None);
        stats.durations = vec![5.0];
        let one = Durations { count: 1, p50: 5.0, p90: 5.0, p99: 5.0, longest: 5.0 };
        assert_eq!(stats.durations(), Some(one));
        stats.durations = (1..=200).rev().map(f64::from).collect();
        let many = Durations { count: 200, p50: 100.0, p90: 180.0, p99: 198.0, longest: 200.0 };
        assert_eq!(stats.durations(), Some(many));
    }

    #[test]
    fn the_top_is_by_count_and_then_by_name_and_does_not_grow_without_end() {
        let mut tally = Tally::default();
        ["b", "a", "c", "c"].into_iter().for_each(|name| tally.add(name));
        assert_eq!(tally.top(2), [("c", 2), ("a", 1)]);
        (0..DISTINCT).for_each(|n| tally.add(&n.to_string()));
        tally.add("c");
        assert_eq!((tally.distinct(), tally.others), (DISTINCT, 3));
        assert_eq!(tally.top(1), [("c", 3)]);
    }
}
