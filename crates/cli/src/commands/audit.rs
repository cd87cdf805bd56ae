//! `lazaret audit`: verify the chain, show what happened.

use std::{env, path::PathBuf};

use anyhow::Context as _;
use lazaret_audit::{Event, Reader, verify};
use lazaret_runtime::state::Directories;
use serde_json::json;

use crate::{args, exit::Exit, output};

pub fn audit(command: args::Audit) -> anyhow::Result<Exit> {
    match command {
        args::Audit::Verify { file, json } => verify_log(file, json),
        args::Audit::Show { sandbox, file, json } => show(sandbox.as_deref(), file, json),
    }
}

pub fn log_file(file: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    file.or_else(|| Directories::from_environment(|name| env::var_os(name)).audit_log())
        .context("there is no audit log: set HOME or XDG_STATE_HOME, or name a file")
}

fn verify_log(file: Option<PathBuf>, as_json: bool) -> anyhow::Result<Exit> {
    let file = log_file(file)?;
    match verify(&file) {
        Ok(verified) => {
            if as_json {
                output::data(&format!(
                    "{}\n",
                    json!({ "ok": true, "lines": verified.lines, "lastSeq": verified.last_seq,
                            "lastHash": verified.last_hash, "note": verified.note })
                ));
            } else {
                output::data(&format!("{}: {} events, chain intact\n", file.display(), verified.lines));
                if let Some(note) = verified.note {
                    output::warning(&note);
                }
            }
            Ok(Exit::Ok)
        }
        Err(error) => {
            let line = match &error {
                lazaret_audit::VerifyError::Broken { line, .. } => Some(*line),
                _ => None,
            };
            if as_json {
                output::data(&format!(
                    "{}\n",
                    json!({ "ok": false, "line": line, "error": error.to_string() })
                ));
            } else {
                output::error(&format!("{}: {error}", file.display()));
            }
            Ok(if line.is_some() { Exit::Failed } else { Exit::Refused })
        }
    }
}

fn show(sandbox: Option<&str>, file: Option<PathBuf>, as_json: bool) -> anyhow::Result<Exit> {
    let file = log_file(file)?;
    let mut events: Vec<Event> = Vec::new();
    for event in Reader::open(&file)? {
        match event {
            Ok(event) if sandbox.is_none_or(|id| event.sandbox_id.starts_with(id)) => events.push(event),
            Ok(_) => {}
            Err(error) => output::warning(&error.to_string()),
        }
        if sandbox.is_none() && events.len() > 200 {
            events.drain(..100);
        }
    }
    if sandbox.is_none() {
        // Without a name: the newest sandbox.
        let newest = events.last().map(|event| event.sandbox_id.clone());
        events.retain(|event| Some(&event.sandbox_id) == newest.as_ref());
    }
    for event in events {
        if as_json {
            output::data(&format!("{}\n", serde_json::to_string(&event)?));
        } else {
            let details = serde_json::to_string(&event.details)?;
            output::data(&format!("{} {:<24} {details}\n", event.time, event.event.to_string()));
        }
    }
    Ok(Exit::Ok)
}
