//! `lazaret mcp trust`: the tools of a server may be what they are now.

use anyhow::Context as _;
use lazaret_audit::{EventKind, Log, NewEvent};
use lazaret_mcp::pins::{Cabinet, Known};
use serde_json::json;

use crate::{args::McpTrust, exit::Exit, output};

pub fn trust(args: &McpTrust) -> anyhow::Result<Exit> {
    let config = super::load(args.config.as_ref())?;
    let directories = super::directories();
    let state = directories.state.clone().context("there is no place for our own files: HOME is not set")?;
    if !config.servers.iter().any(|server| server.name.as_str() == args.server) {
        let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
        anyhow::bail!(
            "there is no server {:?} in {}; there are: {}",
            args.server,
            config.file.display(),
            names.join(", ")
        );
    }
    let cabinet = Cabinet::new(&state);
    match cabinet.forget(&config.file, &args.server)? {
        Known::No => {
            output::message(&format!(
                "nothing is pinned for {}: its tools are pinned when it is used next",
                args.server
            ));
        }
        Known::Yes => {
            let log = config.options.audit_log.clone().unwrap_or_else(|| state.join("audit.jsonl"));
            let event = NewEvent::new(EventKind::ToolListChanged, "mcp")
                .with("serverName", args.server.as_str())
                .with("decision", "accepted")
                .with("config", json!(config.file));
            Log::open(&log)?.append(&event)?;
            output::message(&format!(
                "the tools of {} are pinned anew when a session begins; sessions that are open keep asking",
                args.server
            ));
        }
    }
    Ok(Exit::Ok)
}
