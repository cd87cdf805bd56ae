//! What a run came to: from what the supervisor saw to the report.

use std::{ffi::OsString, io, time::Duration};

use lazaret_audit::{AuditError, EventKind, NewEvent};
use lazaret_sandbox::linux::{
    launch::{Departure, Sandbox},
    sys::Ended,
    traffic::Calls,
};
use serde_json::json;

use crate::{
    meter::{Consequence, Exceeded, Meter},
    network::NetworkReport,
    prepare::Prepared,
    record::{Fate, Record},
    report::{CallUsage, Ending, EnforcementReport, Report, Usage, printable},
    respond::respond,
    run::Outcome,
    supervise::Supervised,
};

/// What is known when nothing runs any more.
pub struct Finished<'a> {
    pub command: &'a [OsString],
    pub sandbox: &'a Sandbox,
    pub supervised: Supervised,
    pub used: Used,
    pub enforcement: EnforcementReport,
    pub duration: Duration,
    pub network: Option<NetworkReport>,
}

/// What the kernel counted for the processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    cpu_ms: u64,
    max_rss_bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
    calls: Option<Calls>,
}

impl Used {
    /// By everything that ever was in the sandbox, init included.
    pub fn by_all(ended: &Ended, calls: Option<Calls>) -> Used {
        Used {
            cpu_ms: ended.cpu_ms,
            max_rss_bytes: ended.max_rss_bytes,
            read_bytes: ended.read_bytes,
            written_bytes: ended.written_bytes,
            calls,
        }
    }

    /// By one command and what it started. What went through calls is not told of a sandbox that goes on.
    pub fn by_command(departure: &Departure) -> Used {
        Used {
            cpu_ms: departure.cpu_ms,
            max_rss_bytes: departure.max_rss_bytes,
            read_bytes: departure.read_bytes,
            written_bytes: departure.written_bytes,
            calls: None,
        }
    }

    fn usage(&self, meter: &Meter) -> Usage {
        Usage {
            cpu_ms: self.cpu_ms.max(meter.cpu_ms),
            max_rss_bytes: self.max_rss_bytes,
            memory_peak_bytes: (meter.memory_peak > 0).then_some(meter.memory_peak),
            // A group misses what is carried to the disk later, the processes' own count who was waited for by
            // nobody: both tell no more than there was.
            io_read_bytes: self.read_bytes.max(meter.read_bytes),
            io_write_bytes: self.written_bytes.max(meter.written_bytes),
            calls: self.calls.map(|calls| CallUsage {
                io_read_calls: calls.reads,
                io_read_call_bytes: calls.read_bytes,
                io_write_calls: calls.writes,
                io_write_call_bytes: calls.written_bytes,
            }),
        }
    }
}

impl Prepared {
    /// Tells the log what the end tells, and makes the report.
    pub(crate) fn conclude(
        &self,
        finished: Finished<'_>,
        meter: &mut Meter,
        record: &mut Record<'_>,
    ) -> Result<Outcome, AuditError> {
        let Finished { command, sandbox, mut supervised, used, enforcement, duration, network } = finished;
        tell_of_signal(&supervised, record)?;
        for exceeded in self.limits_at_the_end(meter, sandbox, &supervised, used.usage(meter)) {
            if exceeded.consequence == Consequence::Ended && supervised.status() != Some(0) {
                supervised.ended.get_or_insert((Ending::Limit, exceeded.description.clone()));
            }
            record.limit(exceeded)?;
        }
        record.close()?;
        let usage = used.usage(meter);
        let mut outcome =
            self.outcome(command, record.sandbox_id(), enforcement, &supervised, usage, duration);
        outcome.report.violations = record.violations().to_vec();
        outcome.report.limits = record.limits().to_vec();
        outcome.report.network = network;
        outcome.report.remarks = record.remarks().to_vec();
        if outcome.report.outcome == Ending::Escape {
            respond(&self.request, &mut outcome.report, &supervised.processes, record)?;
        }
        Ok(outcome)
    }

    fn outcome(
        &self,
        command: &[OsString],
        sandbox_id: &str,
        enforcement: EnforcementReport,
        supervised: &Supervised,
        usage: Usage,
        duration: Duration,
    ) -> Outcome {
        let (mut signal, mut not_executed) = (None, None);
        let (outcome, exit_code) = match (&supervised.ended, supervised.not_executed, supervised.status()) {
            (Some((Ending::Timeout, _)), _, _) => (Ending::Timeout, 124),
            (Some((ending, _)), _, _) => (*ending, 137),
            (None, Some(errno), _) => {
                let (why, code) = self.why_not_executed(command, errno);
                not_executed = Some(why);
                (Ending::NotExecuted, code)
            }
            (None, None, Some(status)) if status & 0x7f == 0 => (Ending::Exited, (status >> 8) & 0xff),
            (None, None, status) => {
                // Init itself was killed from outside: what it would have told is lost.
                let number = status.map_or(9, |status| status & 0x7f);
                signal = Some(number);
                (Ending::Signaled, 128 + number)
            }
        };
        let report = Report {
            sandbox_id: sandbox_id.to_owned(),
            level: self.request.policy.isolation_level.number(),
            enforcement,
            exit_code,
            signal,
            outcome,
            reason: supervised.ended.as_ref().map(|(_, reason)| reason.clone()),
            duration_ms: duration.as_millis() as u64,
            usage,
            violations: Vec::new(),
            trace: None,
            transaction: None,
            quarantined: None,
            limits: Vec::new(),
            network: None,
            remarks: Vec::new(),
        };
        Outcome { report, not_executed }
    }

    /// Limits of which only the end tells that they were hit.
    fn limits_at_the_end(
        &self,
        meter: &mut Meter,
        sandbox: &Sandbox,
        supervised: &Supervised,
        usage: Usage,
    ) -> Vec<Exceeded> {
        const SIGXFSZ: i32 = 25;
        let mut found = Vec::new();
        if let Some(status) = supervised.status() {
            if self.cpu_limit_hit(status, usage) {
                found.extend(meter.ended_by_cpu(usage.cpu_ms));
            }
            if status & 0x7f == SIGXFSZ && self.lowered.spec.limits.file_size.is_some() {
                found.extend(meter.ended_by_file_size());
            }
        }
        // What ended the command is told as that, and not once more as refused.
        found.extend(meter.last_look(sandbox));
        found
    }

    /// At its CPU limit a process gets SIGXCPU, and a second later, if it does not mind that, SIGKILL.
    fn cpu_limit_hit(&self, status: i32, usage: Usage) -> bool {
        const SIGKILL: i32 = 9;
        const SIGXCPU: i32 = 24;
        let Some(limit) = self.request.policy.resources.max_cpu else { return false };
        match status & 0x7f {
            SIGXCPU => true,
            SIGKILL => usage.cpu_ms >= limit.0,
            _ => false,
        }
    }

    fn why_not_executed(&self, command: &[OsString], errno: i32) -> (String, i32) {
        const ENOENT: i32 = 2;
        let program = command.first().map(|p| printable(&p.to_string_lossy())).unwrap_or_default();
        let error = io::Error::from_raw_os_error(errno);
        if errno != ENOENT {
            return (format!("cannot execute {program}: {error}"), 126);
        }
        let on_host = self.program_on_host(command);
        let why = if on_host.is_absolute() && on_host.is_file() {
            let directory = on_host.parent().unwrap_or(&on_host);
            format!(
                "{program}: not found in the sandbox. It is {} on the host, which is not visible inside, or it needs an interpreter that is not: --ro {} makes it visible",
                printable(&on_host.to_string_lossy()),
                printable(&directory.to_string_lossy())
            )
        } else {
            format!("{program}: command not found")
        };
        (why, 127)
    }
}

fn tell_of_signal(supervised: &Supervised, record: &mut Record<'_>) -> Result<(), AuditError> {
    match supervised.status() {
        Some(status) if status & 0x7f != 0 => record.signal(status & 0x7f, Fate::EndedTheCommand, &[]),
        _ => Ok(()),
    }
}

/// The event that ends a command.
pub fn exited(report: &Report, record: &Record<'_>) -> NewEvent {
    let event = record
        .new_event(EventKind::SandboxExited)
        .with("exitCode", report.exit_code)
        .with("signal", json!(report.signal))
        .with("outcome", json!(report.outcome))
        .with("durationMs", report.duration_ms)
        .with("usage", json!(report.usage))
        .with("violations", record.total());
    let event = with_totals(event, record);
    match &report.network {
        Some(network) => event.with("network", json!(network)),
        None => event,
    }
}

/// How often what was denied: the log was told of the first, the tenth, the hundredth … only.
pub fn with_totals(event: NewEvent, record: &Record<'_>) -> NewEvent {
    let totals = record.totals();
    if totals.is_empty() { event } else { event.with("violationCounts", json!(totals)) }
}
