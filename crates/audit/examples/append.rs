//! How long an append takes: `cargo run --release -p lazaret-audit --example append [DIRECTORY]`. One event of
//! some 600 bytes at a time, as the proxy records a call.
#![allow(clippy::print_stdout, reason = "an example")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use lazaret_audit::{EventKind, Log, NewEvent};
use serde_json::json;

const APPENDS: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = directory.join(format!("lazaret-append-{}", std::process::id()));
    let log = Log::open(&directory.join("audit.jsonl"))?;
    let event = |number: usize| {
        NewEvent::new(EventKind::ToolCall, "sb-01a1e099-23f4-7000-8000-000000000000")
            .with("requestId", number)
            .with("serverName", "filesystem")
            .with("toolName", "read_text_file")
            .with("arguments", json!({ "path": "/srv/session/src/main.rs", "head": 100 }))
            .with(
                "policyDecision",
                json!({ "status": "allow", "rule": "read-in-session", "reason": "inside" }),
            )
            .with("result", json!({ "status": "success" }))
            .with("path", "/srv/session/src/main.rs")
            .with("durationMs", 0.412)
            .with("sandboxed", true)
    };
    let mut took: Vec<Duration> = Vec::with_capacity(APPENDS);
    for number in 0..APPENDS {
        let event = event(number);
        let started = Instant::now();
        log.append(&event)?;
        took.push(started.elapsed());
    }
    let size = std::fs::metadata(log.path())?.len();
    std::fs::remove_dir_all(&directory)?;
    took.sort_unstable();
    let at = |part: usize| took.get(APPENDS * part / 1000).copied().unwrap_or_default();
    println!(
        "{APPENDS} appends of {} bytes: median {:?}, 90% {:?}, 99% {:?}, 99.9% {:?}",
        size / APPENDS as u64,
        at(500),
        at(900),
        at(990),
        at(999)
    );
    Ok(())
}
