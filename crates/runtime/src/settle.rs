//! What becomes of what a copy-on-write sandbox wrote: thrown away, kept, or committed; and what a killed
//! process left half-done.

use std::{
    fmt::Write as _,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use lazaret_audit::{AuditError, EventKind, Log, NewEvent, redact};
use lazaret_sandbox::spec::{Access, Entry, Identity, Kind};
use lazaret_transaction::{
    CommitError, CommitOptions, Committed, Origin, Recovery, Remainder, Store, Transaction, TransactionId,
    Tree, TreeKind, collect,
};
use serde_json::json;

use crate::{
    prepare::{Prepared, RunError},
    record::Record,
    report::{Ending, Report, TransactionReport, TransactionState, printable},
    request::{OnSuccess, Writing},
};

/// Where the transactions of a caller are.
pub fn store_directory(state: &Path) -> PathBuf {
    state.join("transactions")
}

/// Nothing that was changed before has a later time. (Filesystems stamp by a clock that may be some milliseconds
/// behind this one, never ahead: what the host changes in the first moment of a run may pass for older.)
pub fn file_time() -> SystemTime {
    SystemTime::now()
}

/// Settles the transaction of a sandbox in which nothing runs any more.
pub fn settle(
    prepared: &Prepared,
    written: Vec<OwnedFd>,
    report: &mut Report,
    record: &mut Record<'_>,
) -> Result<(), RunError> {
    let Writing::CopyOnWrite { on_success } = prepared.request.writing else { return Ok(()) };
    let trees = trees(prepared, written);
    if report.outcome == Ending::Escape || on_success == OnSuccess::Discard {
        let why = if report.outcome == Ending::Escape { "escape attempt" } else { "as asked" };
        record.event(EventKind::TransactionDiscarded, &[("reason", json!(why))])?;
        let description = format!("what it wrote was thrown away ({why}); the host's files are untouched");
        let state = TransactionState::Discarded;
        report.transaction = Some(TransactionReport { id: None, state, changes: 0, description });
        return Ok(());
    }
    let changes = collect(&trees, prepared.began)?;
    let count = changes.len();
    if changes.is_empty() {
        let description = "nothing was changed".to_owned();
        let state = TransactionState::Empty;
        report.transaction = Some(TransactionReport { id: None, state, changes: 0, description });
        return Ok(());
    }
    let state = prepared.request.state.as_ref().ok_or(RunError::NoState)?;
    let command: Vec<String> =
        prepared.request.command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let origin = Origin {
        id: TransactionId::new(),
        sandbox_id: report.sandbox_id.clone(),
        directory: prepared.request.directory.clone(),
        command: redact::argv(&command),
        started: prepared.began,
    };
    let transaction = Store::open(&store_directory(state))?.keep(origin, &trees, changes)?;
    let id = transaction.id().to_string();
    let succeeded = report.outcome == Ending::Exited && report.exit_code == 0;
    let (state, description) = if succeeded && on_success == OnSuccess::Commit {
        commit_now(&transaction, count, record)?
    } else {
        (
            TransactionState::Kept,
            format!("{} kept as transaction {id}: lazaret diff, commit or discard", changed(count)),
        )
    };
    report.transaction = Some(TransactionReport { id: Some(id), state, changes: count, description });
    Ok(())
}

fn commit_now(
    transaction: &Transaction,
    count: usize,
    record: &mut Record<'_>,
) -> Result<(TransactionState, String), RunError> {
    let id = transaction.id();
    match transaction.commit(CommitOptions::default()) {
        Ok(committed) => {
            record.append(&committed_event(record.sandbox_id(), transaction, &committed))?;
            Ok((TransactionState::Committed, describe(&committed, &id.to_string())))
        }
        Err(CommitError::Conflicts { conflicts }) => {
            let mut text = format!(
                "{} kept as transaction {id} and NOT committed, because the host's files have changed meanwhile or cannot be written:",
                changed(count)
            );
            for clash in conflicts.iter().take(8) {
                let _ =
                    write!(text, "\n  - {}: {}", printable(&clash.path.to_string_lossy()), clash.conflict);
            }
            Ok((TransactionState::Kept, text))
        }
        Err(error) => Err(error.into()),
    }
}

fn changed(count: usize) -> String {
    if count == 1 { "1 change is".to_owned() } else { format!("{count} changes are") }
}

/// In a sentence: what a commit came to.
pub fn describe(committed: &Committed, id: &str) -> String {
    let mut text = format!("{} committed", changed(committed.applied));
    if committed.left_out > 0 {
        let _ = write!(
            text,
            "; {} left out because they act on the next run: `lazaret diff {id}` shows them, `lazaret commit \
             --include-persistence {id}` applies them",
            committed.left_out
        );
    }
    if committed.refused > 0 {
        let _ = write!(text, "; {} refused: a device, or a link that leaves the tree", committed.refused);
    }
    if !committed.skipped.is_empty() {
        let _ = write!(text, "; {} skipped, because the host's files have changed", committed.skipped.len());
    }
    if committed.remainder == Remainder::Open {
        let _ = write!(text, " (the rest is still transaction {id})");
    }
    text
}

pub fn committed_event(sandbox_id: &str, transaction: &Transaction, committed: &Committed) -> NewEvent {
    NewEvent::new(EventKind::TransactionCommitted, sandbox_id)
        .with("transaction", transaction.id().to_string())
        .with("applied", committed.applied)
        .with("leftOut", committed.left_out)
        .with("refused", committed.refused)
        .with(
            "skipped",
            json!(committed.skipped.iter().map(|clash| clash.path.to_string_lossy()).collect::<Vec<_>>()),
        )
}

/// Finishes or undoes what a killed process left. Cheap where there is nothing.
pub fn recover(state: &Path, log: &Path) -> Result<Vec<String>, RunError> {
    let directory = store_directory(state);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let recovered = Store::open(&directory)?.recover();
    if recovered.is_empty() {
        return Ok(Vec::new());
    }
    let log = Log::open(log)?;
    recovered
        .iter()
        .map(|one| record_recovery(&log, &one.id.to_string(), &one.recovery))
        .collect::<Result<_, AuditError>>()
        .map_err(RunError::Audit)
}

fn record_recovery(log: &Log, id: &str, recovery: &Recovery) -> Result<String, AuditError> {
    let (kind, what) = match recovery {
        Recovery::Removed => {
            (EventKind::TransactionDiscarded, "was never complete and has been removed".to_owned())
        }
        Recovery::Undone => {
            (EventKind::TransactionDiscarded, "had not begun to be committed; it is open again".to_owned())
        }
        Recovery::Finished(committed) => (
            EventKind::TransactionCommitted,
            format!("was half committed and is finished now: {}", describe(committed, id)),
        ),
        Recovery::Failed(error) => {
            (EventKind::SecurityAlert, format!("is half committed and could not be finished: {error}"))
        }
    };
    let sentence = format!("transaction {id} {what} (its process was killed)");
    log.append(&NewEvent::new(kind, "").with("transaction", id).with("recovered", sentence.as_str()))?;
    Ok(sentence)
}

/// The written layers, each with what it lies over, in the order of the view.
fn trees(prepared: &Prepared, written: Vec<OwnedFd>) -> Vec<Tree> {
    let spec = &prepared.lowered.spec;
    let layered = spec.view.iter().filter_map(|entry| match entry {
        Entry::Bind { path, kind, access: Access::CopyOnWrite, .. } => Some((path, *kind)),
        Entry::Hollow { path, .. } => Some((path, Kind::Directory)),
        _ => None,
    });
    layered
        .zip(written)
        .map(|((path, kind), upper)| Tree {
            root: path.clone(),
            upper,
            kind: match kind {
                Kind::Directory => TreeKind::Directory,
                Kind::File => TreeKind::File,
            },
            owner: match spec.identity {
                Identity::Same { .. } => None,
                Identity::Mapped { .. } => {
                    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.uid(), metadata.gid()))
                }
            },
        })
        .collect()
}
