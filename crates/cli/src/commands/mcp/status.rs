//! `lazaret mcp status`: the sessions that are open now, and their servers.

use std::{fs, path::Path};

use anyhow::Context as _;
use lazaret_gate::escalation::{Presence, Process};
use serde_json::{Value, json};

use crate::{args::McpStatus, exit::Exit, output};

pub fn status(args: &McpStatus) -> anyhow::Result<Exit> {
    let state = super::directories().state.context("there is no place for our own files: HOME is not set")?;
    let sessions = open_sessions(&state.join("sessions"));
    if args.json {
        output::data(&format!("{}\n", serde_json::to_string_pretty(&json!({ "sessions": sessions }))?));
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        output::data("no session is open\n");
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    for session in &sessions {
        text.push_str(&told(session));
    }
    output::data(&text);
    Ok(Exit::Ok)
}

fn told(session: &Value) -> String {
    let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    let mut text = format!(
        "session {}\n  process {}, since {}\n  directory {}\n  config {}\n  log {}\n",
        word(session, "id"),
        session.get("pid").and_then(Value::as_u64).unwrap_or(0),
        word(session, "started"),
        word(session, "directory"),
        word(session, "config"),
        word(session, "log"),
    );
    for server in session.get("servers").and_then(Value::as_array).into_iter().flatten() {
        let walls = match (
            server.get("sandboxed").and_then(Value::as_bool),
            server.get("network").and_then(Value::as_bool),
        ) {
            (Some(true), Some(true)) => "sandboxed, some network",
            (Some(true), _) => "sandboxed, no network",
            (Some(false), _) => "NOT sandboxed",
            (None, _) => "not running",
        };
        let tools = server.get("tools").and_then(Value::as_u64).unwrap_or(0);
        text.push_str(&format!(
            "  {}: {}, {walls}, {tools} tools",
            word(server, "name"),
            word(server, "state")
        ));
        if let Some(error) = server.get("error").and_then(Value::as_str) {
            text.push_str(&format!(" ({})", lazaret_runtime::report::printable(error)));
        }
        if server.get("toolsChanged").is_some() {
            text.push_str(", its tools have changed since they were pinned");
        }
        text.push('\n');
    }
    text
}

/// Those whose process is alive.
fn open_sessions(directory: &Path) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut sessions: Vec<Value> = entries
        .flatten()
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path().join("session.json")).ok()?).ok())
        .filter(is_alive)
        .collect();
    sessions
        .sort_by_key(|session| session.get("started").and_then(Value::as_str).unwrap_or_default().to_owned());
    sessions
}

fn is_alive(session: &Value) -> bool {
    serde_json::from_value::<Process>(session.clone())
        .is_ok_and(|process| process.presence() != Presence::Gone)
}
