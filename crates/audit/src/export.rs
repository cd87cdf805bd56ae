//! Events as rows: which columns they have, in a database and as comma-separated values.

use std::fs::File;
use std::io::{self, Write};

use crate::sqlite::{Database, Definition, SqliteError, Value};
use crate::view::View;

/// The columns, in order. `details` is JSON.
pub const COLUMNS: [&str; 11] = [
    "seq",
    "time",
    "timestamp",
    "sandbox_id",
    "event",
    "severity",
    "host",
    "path",
    "tool",
    "syscall",
    "details",
];

const EVENTS: Definition = Definition {
    name: "events",
    sql: "CREATE TABLE events (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, timestamp INTEGER NOT NULL, \
          sandbox_id TEXT NOT NULL, event TEXT NOT NULL, severity TEXT, host TEXT, path TEXT, tool TEXT, \
          syscall TEXT, details TEXT NOT NULL)",
};

const VIEWS: [Definition; 4] = [
    Definition {
        name: "sandboxes",
        sql: "CREATE VIEW sandboxes AS SELECT c.sandbox_id, c.time AS created, c.tool, \
              c.details->>'$.profile' AS profile, c.details->>'$.command' AS command, \
              c.details->>'$.directory' AS directory, c.details->>'$.level' AS level, \
              c.details->>'$.uid' AS uid, x.time AS ended, x.details->>'$.outcome' AS outcome, \
              x.details->>'$.exitCode' AS exit_code, x.details->>'$.durationMs' AS duration_ms, \
              x.details->>'$.violations' AS violations FROM events c LEFT JOIN events x \
              ON x.sandbox_id = c.sandbox_id AND x.event = 'SANDBOX_EXITED' \
              WHERE c.event = 'SANDBOX_CREATED'",
    },
    Definition {
        name: "violations",
        sql: "CREATE VIEW violations AS SELECT seq, time, sandbox_id, event, severity, \
              details->>'$.description' AS description, details->>'$.process' AS process, \
              details->>'$.layer' AS layer, host, path, syscall, details->>'$.count' AS count, \
              details->>'$.remedy' AS remedy FROM events WHERE event IN \
              ('POLICY_VIOLATION', 'SYSCALL_BLOCKED', 'ESCAPE_ATTEMPT') AND severity IS NOT NULL",
    },
    Definition {
        name: "connections",
        sql: "CREATE VIEW connections AS SELECT seq, time, sandbox_id, \
              CASE event WHEN 'NETWORK_CONNECTION' THEN details->>'$.decision' ELSE 'refused' END AS decision, \
              host, details->>'$.port' AS port, details->>'$.protocol' AS protocol, \
              details->>'$.address' AS address, details->>'$.sentBytes' AS sent_bytes, \
              details->>'$.receivedBytes' AS received_bytes, details->>'$.durationMs' AS duration_ms, \
              details->>'$.reason' AS reason FROM events WHERE event = 'NETWORK_CONNECTION' OR \
              (event IN ('POLICY_VIOLATION', 'SYSCALL_BLOCKED') AND host IS NOT NULL)",
    },
    Definition {
        name: "tool_calls",
        sql: "CREATE VIEW tool_calls AS SELECT seq, time, sandbox_id, details->>'$.serverName' AS server, tool, \
              coalesce(details->>'$.policyDecision.status', details->>'$.decision') AS decision, \
              details->>'$.policyDecision.rule' AS rule, details->>'$.policyDecision.reason' AS reason, \
              coalesce(details->>'$.result.status', details->>'$.result') AS result, \
              details->>'$.sandboxed' AS sandboxed, details->>'$.durationMs' AS duration_ms, host, path \
              FROM events WHERE event = 'TOOL_CALL'",
    },
];

/// Why an event could not become a row.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    #[error("its details cannot be read: {0}")]
    Details(#[from] serde_json::Error),
}

impl ExportError {
    /// Whether this event is the reason, and others can still be written.
    #[must_use]
    pub fn is_about_one_event(&self) -> bool {
        matches!(self, Self::Sqlite(SqliteError::NotAscending { .. }) | Self::Details(_))
    }
}

/// A database of events, being written.
#[derive(Debug)]
pub struct EventDatabase(Database);

impl EventDatabase {
    /// In an empty file.
    pub fn new(file: File) -> Result<Self, ExportError> {
        Ok(Self(Database::new(file)?))
    }

    pub fn add(&mut self, view: &View<'_>) -> Result<(), ExportError> {
        let facts = view.facts()?;
        let integer = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.0.row(
            integer(view.seq),
            &[
                Value::Null,
                Value::Text(&view.time),
                Value::Integer(integer(view.timestamp)),
                Value::Text(&view.sandbox_id),
                Value::Text(view.event.name()),
                Value::text(facts.severity.map(|severity| severity.name())),
                Value::text(facts.host.as_deref()),
                Value::text(facts.path.as_deref()),
                Value::text(facts.tool.as_deref()),
                Value::text(facts.syscall.as_deref()),
                Value::Text(view.details.get()),
            ],
        )?;
        Ok(())
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows()
    }

    pub fn finish(self) -> Result<File, ExportError> {
        Ok(self.0.finish(EVENTS, &VIEWS)?)
    }
}

/// The line with the names of the columns.
pub fn csv_header(out: &mut impl Write) -> Result<(), ExportError> {
    Ok(out.write_all(format!("{}\r\n", COLUMNS.join(",")).as_bytes())?)
}

/// An event as in RFC 4180.
pub fn csv_row(out: &mut impl Write, view: &View<'_>) -> Result<(), ExportError> {
    let facts = view.facts()?;
    write!(out, "{},{},{},", view.seq, field(&view.time), view.timestamp)?;
    write!(out, "{},{},", field(&view.sandbox_id), view.event.name())?;
    let severity = facts.severity.map(|severity| severity.name());
    for text in [
        severity,
        facts.host.as_deref(),
        facts.path.as_deref(),
        facts.tool.as_deref(),
        facts.syscall.as_deref(),
    ] {
        write!(out, "{},", field(text.unwrap_or_default()))?;
    }
    write!(out, "{}\r\n", field(view.details.get()))?;
    Ok(())
}

fn field(text: &str) -> std::borrow::Cow<'_, str> {
    // What a spreadsheet would take for a formula is kept from being one.
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula || text.contains([',', '"', '\n', '\r']) {
        let mark = if formula { "'" } else { "" };
        return format!("\"{mark}{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}
