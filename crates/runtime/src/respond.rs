//! The response to an escape attempt (RFC-0002 §9.2), after the sandbox has been killed and what it wrote has
//! been thrown away: the trace is kept, the tool is barred, the operator is told.

use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_audit::{AuditError, EventKind};
use lazaret_policy::violation::Severity;
use serde_json::json;

use crate::{
    processes::Process,
    quarantine::{Entry, Quarantine},
    record::Record,
    report::Report,
    request::Request,
    trace,
};

/// Does everything that can be done; what could not be done is itself an event, and none of it is a reason to
/// leave out the rest.
pub fn respond(
    request: &Request,
    report: &mut Report,
    processes: &[Process],
    record: &mut Record<'_>,
) -> Result<(), AuditError> {
    let tool = request.tool.as_deref();
    let reason = report.reason.clone().unwrap_or_default();
    if let Some(state) = &request.state {
        match trace::keep(state, tool, report, processes, record.trace()) {
            Ok(path) => report.trace = Some(path),
            Err(error) => failed(record, &format!("the trace could not be kept: {error}"))?,
        }
        if let Some(tool) = tool {
            let entry = Entry {
                key: tool.to_owned(),
                since: now(),
                sandbox_id: report.sandbox_id.clone(),
                reason: reason.clone(),
                bundle: report.trace.clone(),
                count: 1,
            };
            match Quarantine::open(state).add(entry) {
                Ok(_) => {
                    report.quarantined = Some(tool.to_owned());
                    let details =
                        [("tool", json!(tool)), ("reason", json!(reason)), ("by", json!("lazaret"))];
                    record.event(EventKind::ToolQuarantined, &details)?;
                }
                Err(error) => failed(record, &format!("the tool {tool} could not be barred: {error}"))?,
            }
        }
    }
    let alert = json!({
        "event": EventKind::EscapeAttempt.name(),
        "severity": Severity::Critical,
        "sandboxId": report.sandbox_id,
        "tool": tool,
        "reason": reason,
        "violation": report.violations.iter().rev().find(|violation| violation.severity == Severity::Critical),
        "trace": report.trace,
        "quarantined": report.quarantined,
    });
    for error in request.alerts.tell(&alert) {
        failed(record, &error.to_string())?;
    }
    Ok(())
}

fn failed(record: &mut Record<'_>, what: &str) -> Result<(), AuditError> {
    let details = [
        ("description", json!("part of the escape response failed")),
        ("error", json!(what)),
        ("severity", json!(Severity::High)),
    ];
    record.event(EventKind::SecurityAlert, &details)
}

/// Milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
