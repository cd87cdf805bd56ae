//! `lazaret audit`: which log, and what to do with it; each command is in a file of its own.

mod export;
mod moment;
mod query;
mod show;
mod stats;
mod tail;
mod telling;
mod timeline;

use std::{env, path::PathBuf};

use anyhow::Context as _;
use lazaret_audit::{Filter, HostPattern, Log, ReadError, Rotated, Rotation, VerifyError, verify};
use lazaret_runtime::{
    configuration::{self, Configuration},
    state::Directories,
};
use serde_json::json;

use crate::{args, exit::Exit, output};

pub use self::moment::Moment;

pub fn audit(command: args::Audit) -> anyhow::Result<Exit> {
    match command {
        args::Audit::Verify(args) => verify_log(args),
        args::Audit::Query(args) => query::query(args),
        args::Audit::Tail(args) => tail::tail(args),
        args::Audit::Stats(args) => stats::stats(args),
        args::Audit::Show(args) => show::show(args),
        args::Audit::Export(args) => export::export(args),
        args::Audit::Rotate(args) => rotate(args),
    }
}

pub fn log_file(file: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    file.or_else(|| Directories::from_environment(|name| env::var_os(name)).audit_log())
        .context("there is no audit log: set HOME or XDG_STATE_HOME, or name a file")
}

/// What was typed as the log and the question.
fn resolve(filters: args::Filters) -> anyhow::Result<(PathBuf, Filter)> {
    let args::Filters { since, until, sandbox, event, severity, host, path, tool, file } = filters;
    let filter = Filter {
        since: since.map(|moment| moment.0),
        until: until.map(|moment| moment.0),
        sandbox,
        kinds: event,
        severity,
        host: host.as_deref().map(HostPattern::from),
        path,
        tool,
    };
    Ok((log_file(file)?, filter))
}

/// Lines that could not be read: each is told, none stops the others, and the exit code shows them.
#[derive(Debug, Default)]
struct Unreadable(u64);

impl Unreadable {
    fn tell(&mut self, error: &ReadError) {
        self.0 += 1;
        // A file full of something else is not told line by line.
        if self.0 <= 20 {
            output::warning(&error.to_string());
        }
    }

    fn exit(&self) -> Exit {
        if self.0 > 20 {
            output::warning(&format!("{} more lines could not be read", self.0 - 20));
        }
        if self.0 > 0 { Exit::Failed } else { Exit::Ok }
    }
}

fn verify_log(args: args::Verify) -> anyhow::Result<Exit> {
    let file = log_file(args.file)?;
    match verify(&file) {
        Ok(verified) => {
            if args.json {
                output::data(&format!(
                    "{}\n",
                    json!({ "ok": true, "lines": verified.lines, "files": verified.files,
                            "firstSeq": verified.first_seq, "lastSeq": verified.last_seq,
                            "lastHash": verified.last_hash, "note": verified.notes.first(),
                            "notes": verified.notes })
                ));
            } else {
                let files = match verified.files {
                    0 | 1 => String::new(),
                    files => format!(" in {files} files"),
                };
                let lines = verified.lines;
                output::data(&format!("{}: {lines} events{files}, chain intact\n", file.display()));
                verified.notes.iter().for_each(|note| output::warning(note));
            }
            Ok(Exit::Ok)
        }
        Err(error) => {
            let (place, line) = match &error {
                VerifyError::Broken { file, line, .. } => (file, Some(*line)),
                _ => (&file, None),
            };
            if args.json {
                output::data(&format!(
                    "{}\n",
                    json!({ "ok": false, "file": place.to_string_lossy(), "line": line,
                            "error": error.to_string() })
                ));
            } else {
                output::error(&format!("{}: {error}", place.display()));
            }
            Ok(if line.is_some() { Exit::Failed } else { Exit::Refused })
        }
    }
}

fn rotate(args: args::Rotate) -> anyhow::Result<Exit> {
    let file = log_file(args.file)?;
    // A log that is not there is not made.
    file.symlink_metadata().with_context(|| format!("cannot open the audit log {}", file.display()))?;
    let directories = Directories::from_environment(|name| env::var_os(name));
    let configured = Configuration::load(&configuration::files(directories.config.as_deref()))?.rotation();
    let rotation = Rotation { at: None, keep: args.keep.or(configured.keep) };
    let rotated = Log::open(&file)?.rotating(rotation).rotate()?;
    let to = match &rotated {
        Rotated::To(path) => Some(path),
        Rotated::NothingToDo => None,
    };
    if args.json {
        let to = to.map(|path| path.to_string_lossy());
        output::data(&format!("{}\n", json!({ "rotated": to.is_some(), "file": to })));
    } else {
        match to {
            Some(path) => output::data(&format!("{}\n", path.display())),
            None => output::message("lazaret: nothing to rotate: there are no events since the last time"),
        }
    }
    Ok(Exit::Ok)
}
