//! `lazaret diff`, `commit`, `discard`: what a copy-on-write run wrote, shown, applied or forgotten.

use std::{env, path::PathBuf};

use anyhow::{Context as _, bail};
use lazaret_audit::{EventKind, Log, NewEvent};
use lazaret_runtime::{leftovers, settle, state::Directories};
use lazaret_transaction::{
    CommitError, CommitOptions, Contested, DiffOptions, Persistent, State, Store, Transaction,
};
use serde_json::json;

use crate::{
    args::{Commit, Diff, Discard},
    exit::Exit,
    output,
};

/// The caller's store, with whatever a killed process left in it put in order first.
struct Place {
    store: Store,
    log: PathBuf,
}

fn place() -> anyhow::Result<Place> {
    let directories = Directories::from_environment(|name| env::var_os(name));
    let (Some(state), Some(log)) = (directories.state.clone(), directories.audit_log()) else {
        bail!("there is no place for transactions: set HOME or XDG_STATE_HOME");
    };
    leftovers::clear(&state, &log)?.iter().for_each(|sentence| output::warning(sentence));
    Ok(Place { store: Store::open(&settle::store_directory(&state))?, log })
}

impl Place {
    fn find(&self, id: Option<&str>) -> anyhow::Result<Transaction> {
        match id {
            Some(sandbox) if sandbox.starts_with("sb-") => self
                .store
                .list()
                .into_iter()
                .find(|transaction| transaction.origin().sandbox_id.starts_with(sandbox))
                .with_context(|| format!("sandbox {sandbox} has left no transaction")),
            Some(id) => Ok(self.store.find(id)?),
            None => {
                let directory = env::current_dir().context("the current directory cannot be used")?;
                self.store.newest_for(&directory).with_context(|| {
                    format!(
                        "there is no transaction of {}: `lazaret run --cow` makes one, `lazaret diff --list` shows all",
                        directory.display()
                    )
                })
            }
        }
    }
}

pub fn diff(args: &Diff) -> anyhow::Result<Exit> {
    let place = place()?;
    if args.list {
        return list(&place, args.json);
    }
    let transaction = place.find(args.id.as_deref())?;
    let options = DiffOptions::default();
    if args.json {
        let summary = transaction.summary(options);
        output::data(&format!("{}\n", serde_json::to_string(&summary)?));
    } else if args.stat {
        output::data(&transaction.summary(options).to_string());
    } else {
        output::data(&transaction.diff(options).to_string());
    }
    Ok(Exit::Ok)
}

fn list(place: &Place, as_json: bool) -> anyhow::Result<Exit> {
    let all = place.store.list();
    if as_json {
        let all: Vec<_> = all
            .iter()
            .map(|transaction| {
                let origin = transaction.origin();
                json!({
                    "id": transaction.id().to_string(),
                    "sandboxId": origin.sandbox_id,
                    "directory": origin.directory.to_string_lossy(),
                    "command": origin.command,
                    "changes": transaction.changes().len(),
                    "state": if transaction.state() == State::Open { "open" } else { "committing" },
                })
            })
            .collect();
        output::data(&format!("{}\n", json!(all)));
        return Ok(Exit::Ok);
    }
    for transaction in &all {
        let origin = transaction.origin();
        let command = lazaret_runtime::report::printable(&origin.command.join(" "));
        let changes = transaction.changes().len();
        output::data(&format!(
            "{}  {changes:>6} changes  {}  {command}\n",
            transaction.id(),
            lazaret_runtime::report::printable(&origin.directory.to_string_lossy())
        ));
    }
    Ok(Exit::Ok)
}

pub fn commit(args: &Commit) -> anyhow::Result<Exit> {
    let place = place()?;
    let transaction = place.find(args.id.as_deref())?;
    let options = CommitOptions {
        persistent: if args.include_persistence { Persistent::Include } else { Persistent::LeaveOut },
        contested: if args.leave_conflicts { Contested::LeaveOut } else { Contested::Refuse },
    };
    let id = transaction.id().to_string();
    match transaction.commit(options) {
        Ok(committed) => {
            let event = settle::committed_event(&transaction.origin().sandbox_id, &transaction, &committed);
            Log::open(&place.log)?.append(&event)?;
            if args.json {
                output::data(&format!(
                    "{}\n",
                    json!({ "ok": true, "id": id, "applied": committed.applied, "leftOut": committed.left_out,
                            "refused": committed.refused, "skipped": committed.skipped,
                            "remaining": committed.remainder == lazaret_transaction::Remainder::Open })
                ));
            } else {
                output::message(&format!("lazaret: {}", settle::describe(&committed, &id)));
            }
            Ok(Exit::Ok)
        }
        Err(CommitError::Conflicts { conflicts }) => {
            if args.json {
                output::data(&format!("{}\n", json!({ "ok": false, "id": id, "conflicts": conflicts })));
            } else {
                output::error(&format!(
                    "nothing was committed, because the host's files have changed meanwhile or cannot be written ({} of them):",
                    conflicts.len()
                ));
                for clash in &conflicts {
                    let path = lazaret_runtime::report::printable(&clash.path.to_string_lossy());
                    output::message(&format!("  - {path}: {}", clash.conflict));
                }
                output::message("`lazaret commit --leave-conflicts` applies the rest");
            }
            Ok(Exit::Failed)
        }
        Err(error) => Err(error.into()),
    }
}

pub fn discard(args: &Discard) -> anyhow::Result<Exit> {
    let place = place()?;
    let transaction = place.find(args.id.as_deref())?;
    let (id, count) = (transaction.id().to_string(), transaction.changes().len());
    let event = NewEvent::new(EventKind::TransactionDiscarded, &transaction.origin().sandbox_id)
        .with("transaction", id.as_str())
        .with("reason", "as asked");
    transaction.discard()?;
    Log::open(&place.log)?.append(&event)?;
    if args.json {
        output::data(&format!("{}\n", json!({ "ok": true, "id": id, "changes": count })));
    } else {
        output::message(&format!("lazaret: transaction {id} with {count} changes is forgotten"));
    }
    Ok(Exit::Ok)
}
