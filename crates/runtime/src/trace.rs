//! What is kept of an escape attempt: the events of that sandbox, its processes at that moment and the call
//! that gave it away, in one file for whoever looks into it.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lazaret_audit::Event;
use lazaret_sandbox::linux::launch::Sandbox;
use serde_json::json;

use crate::{
    processes::{self, Belonging, Process},
    report::Report,
};

/// An escape attempt is ended at once: looking around must not take long.
const LOOK: Duration = Duration::from_millis(40);

/// The processes inside, as many as can be looked at in a moment.
pub fn processes_now(sandbox: &Sandbox, belonging: Belonging) -> Vec<Process> {
    let end = Instant::now() + LOOK;
    let Some(proc) = sandbox.proc() else { return Vec::new() };
    let mut processes = processes::snapshot_until(proc, belonging, end);
    for process in &mut processes {
        if Instant::now() > end {
            break;
        }
        *process = processes::with_command(proc, process.clone());
    }
    processes
}

/// Writes the bundle below the state directory and says where it is.
pub fn keep(
    directory: &Path,
    tool: Option<&str>,
    report: &Report,
    processes: &[Process],
    events: &[Event],
) -> io::Result<PathBuf> {
    let directory = directory.join("traces");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let path = directory.join(format!("{}.json", report.sandbox_id));
    let bundle = json!({
        "sandboxId": report.sandbox_id,
        "tool": tool,
        "reason": report.reason,
        "violation": report.violations.last(),
        "processes": processes,
        "events": events,
        "report": report,
    });
    let text = serde_json::to_vec_pretty(&bundle).map_err(io::Error::other)?;
    // Whole or not at all.
    let temporary = path.with_extension("json.new");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    Ok(path)
}
