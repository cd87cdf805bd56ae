//! From counts to metrics: their names, what they mean, their labels.

use std::borrow::Cow;

use super::family::{Family, Kind, Sample, Value};
use super::run::Watched;
use super::tally::Tally;

/// Over how many seconds the rate of creation is told.
const RATE_SECONDS: u64 = 60;

/// What is told besides the counts.
#[derive(Debug, Clone, Copy)]
pub struct Telling {
    /// Milliseconds since the epoch.
    pub now_ms: u64,
    /// Of this program.
    pub version: &'static str,
    /// So many of the newest sandboxes are told one by one.
    pub one_by_one: usize,
    pub log: Readable,
}

/// Could the log be read to its end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// Also when there is none yet.
    Yes,
    No,
}

type Labels = Vec<(&'static str, Cow<'static, str>)>;

impl Tally {
    /// Everything that has been counted, as metrics.
    #[must_use]
    pub fn families(&self, telling: &Telling) -> Vec<Family> {
        let mut families = self.of_sandboxes(telling);
        families.extend(self.of_usage());
        families.extend(self.of_denials());
        families.extend(self.of_network());
        families.extend(self.of_log(telling));
        families.extend(self.one_by_one(telling));
        families
    }

    /// When the first event was written that has been counted, in milliseconds since the epoch.
    #[must_use]
    pub fn since(&self) -> Option<u64> {
        self.first
    }

    fn of_sandboxes(&self, telling: &Telling) -> Vec<Family> {
        vec![
            self.created.family("lazaret_sandboxes_created_total", "Sandboxes that were made."),
            self.ended.family(
                "lazaret_sandboxes_ended_total",
                "Sandboxes that ended, by how; lost: the program that watched over it was killed.",
            ),
            single(
                Kind::Gauge,
                "lazaret_sandboxes_active",
                "Sandboxes that exist now.",
                self.running.len() as u64,
            ),
            single(
                Kind::Gauge,
                "lazaret_sandbox_creation_rate",
                "Sandboxes made per second, over the last minute.",
                self.rate(telling.now_ms / 1000),
            ),
            histogram(
                "lazaret_sandbox_lifetime_seconds",
                "How long sandboxes existed.",
                vec![(Vec::new(), self.lifetime.clone())],
            ),
            self.tool_runs.family("lazaret_tool_runs_total", "Commands that ran under the name of a tool."),
            self.tool_calls.family("lazaret_tool_calls_total", "Calls of tools through the proxy."),
        ]
    }

    fn of_usage(&self) -> Vec<Family> {
        vec![
            histogram(
                "lazaret_sandbox_cpu_seconds",
                "CPU time that everything in a sandbox used.",
                vec![(Vec::new(), self.cpu.clone())],
            ),
            histogram(
                "lazaret_sandbox_memory_bytes",
                "Most memory that a sandbox used at once.",
                vec![(Vec::new(), self.memory.clone())],
            ),
            histogram(
                "lazaret_sandbox_io_bytes",
                "Bytes that a sandbox read from storage and wrote to it.",
                vec![
                    (vec![("direction", "read".into())], self.read.clone()),
                    (vec![("direction", "write".into())], self.written.clone()),
                ],
            ),
            self.limits.family(
                "lazaret_resource_limits_exceeded_total",
                "Limits that a sandbox ran into, each once for every run.",
            ),
        ]
    }

    fn of_denials(&self) -> Vec<Family> {
        let counter = |name, help, count: u64| single(Kind::Counter, name, help, count);
        vec![
            self.violations.family(
                "lazaret_policy_violations_total",
                "What was tried and denied by a policy, blocked system calls included.",
            ),
            self.syscalls.family("lazaret_syscalls_blocked_total", "System calls that were blocked."),
            counter(
                "lazaret_escape_attempts_total",
                "Violations that looked like an attempt to get out and ended their sandbox.",
                self.escapes,
            ),
            counter("lazaret_security_alerts_total", "What a person should look at.", self.alerts),
            counter(
                "lazaret_tools_quarantined_total",
                "Tools that were barred from running.",
                self.quarantined,
            ),
            counter(
                "lazaret_enforcement_weakened_total",
                "Runs in which a layer of protection was missing.",
                self.weakened,
            ),
            counter("lazaret_level0_runs_total", "Runs without any isolation.", self.without_walls),
        ]
    }

    fn of_network(&self) -> Vec<Family> {
        vec![
            self.connections.family(
                "lazaret_connections_total",
                "Connections that were carried, and connections, look-ups and datagrams that were denied.",
            ),
            single(
                Kind::Counter,
                "lazaret_connections_failed_total",
                "Connections that were allowed and failed.",
                self.failed_connections,
            ),
            self.network_bytes
                .family("lazaret_network_bytes_total", "Bytes carried out of and into sandboxes."),
            self.transactions.family(
                "lazaret_transactions_total",
                "Changes of copy-on-write sandboxes that were applied or thrown away.",
            ),
        ]
    }

    fn of_log(&self, telling: &Telling) -> Vec<Family> {
        vec![
            self.events.family("lazaret_audit_events_total", "Events of the audit log that were read."),
            single(
                Kind::Counter,
                "lazaret_audit_bad_lines_total",
                "Lines of the audit log that are no events.",
                self.bad_lines,
            ),
            single(
                Kind::Gauge,
                "lazaret_audit_last_event_timestamp_seconds",
                "When the newest event was written; 0 when there is none.",
                self.last.unwrap_or(0) as f64 / 1000.0,
            ),
            single(
                Kind::Gauge,
                "lazaret_audit_readable",
                "Whether the audit log can be read; all else is old when it cannot.",
                u64::from(telling.log == Readable::Yes),
            ),
            Family::new(Kind::Gauge, "lazaret_build_info", "The version of the program that tells this.")
                .with(vec![("version", telling.version.into())], 1),
        ]
    }

    fn rate(&self, now: u64) -> f64 {
        let recent = self.births.iter().filter(|(second, _)| second + RATE_SECONDS > now);
        recent.map(|(_, count)| *count).sum::<u64>() as f64 / RATE_SECONDS as f64
    }

    /// The newest sandboxes, those that run first.
    fn one_by_one(&self, telling: &Telling) -> Vec<Family> {
        if telling.one_by_one == 0 {
            return Vec::new();
        }
        let gauge = |name, help| Family::new(Kind::Gauge, name, help);
        let mut info = gauge(
            "lazaret_recent_sandbox_info",
            "One of the newest sandboxes; how many are told one by one is bounded.",
        );
        let mut lifetime = gauge("lazaret_recent_sandbox_lifetime_seconds", "How long it has existed.");
        let mut violations = gauge("lazaret_recent_sandbox_violations", "What it tried and was denied.");
        let mut cpu =
            gauge("lazaret_recent_sandbox_cpu_seconds", "CPU time of its commands that have ended.");
        let mut memory = gauge("lazaret_recent_sandbox_memory_bytes", "Most memory that they used at once.");
        let mut traffic =
            gauge("lazaret_recent_sandbox_io_bytes", "Bytes that they read from storage and wrote to it.");
        let running = self.running.iter().rev().map(|(id, watched)| (id, watched, None));
        let ended =
            self.recent.iter().rev().map(|ended| (&ended.id, &ended.watched, Some(ended.lifetime_ms)));
        for (id, watched, end) in running.chain(ended).take(telling.one_by_one) {
            let tell = |family: &mut Family, more: Labels, value: Value| {
                let mut labels: Labels = vec![("sandbox", id.clone().into())];
                labels.extend(more);
                family.samples.push(Sample { labels, value });
            };
            tell(&mut info, description(watched, end.is_some()), 1.into());
            let so_far = watched.created.map(|created| telling.now_ms.saturating_sub(created));
            if let Some(existed) = end.unwrap_or(so_far) {
                tell(&mut lifetime, Vec::new(), (existed as f64 / 1000.0).into());
            }
            tell(&mut violations, Vec::new(), watched.violations.into());
            if let Some(usage) = watched.usage {
                tell(&mut cpu, Vec::new(), usage.cpu_seconds.into());
                tell(&mut memory, Vec::new(), usage.memory_bytes.into());
                tell(&mut traffic, vec![("direction", "read".into())], usage.read_bytes.into());
                tell(&mut traffic, vec![("direction", "write".into())], usage.written_bytes.into());
            }
        }
        vec![info, lifetime, violations, cpu, memory, traffic]
    }
}

fn description(watched: &Watched, has_ended: bool) -> Labels {
    let state = match (&watched.outcome, has_ended) {
        (Some(outcome), true) => outcome.clone(),
        (None, true) => "unused".to_owned(),
        (_, false) => "running".to_owned(),
    };
    vec![
        ("level", watched.level.clone().into()),
        ("profile", watched.profile.clone().into()),
        ("tool", watched.tool.clone().unwrap_or_default().into()),
        ("state", state.into()),
    ]
}

fn single(kind: Kind, name: &'static str, help: &'static str, value: impl Into<Value>) -> Family {
    Family::single(kind, name, help, value)
}

fn histogram(
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels, super::family::Histogram)>,
) -> Family {
    let samples =
        samples.into_iter().map(|(labels, it)| Sample { labels, value: Value::Histogram(it) }).collect();
    Family { name, help, kind: Kind::Histogram, samples }
}
