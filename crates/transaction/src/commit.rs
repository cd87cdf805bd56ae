//! The story of a commit: check everything, lay everything ready, say so on disk, do it, forget it.

use std::collections::HashSet;

use serde::Serialize;

use crate::apply::{self, Outcome, Run};
use crate::change::{Changes, Clash};
use crate::check::{self, Roots};
use crate::error::{CommitError, StoreError};
use crate::journal::{Journal, Phase};
use crate::record::{self, Loaded, RECORD, Record};
use crate::select::{self, CommitOptions, Contested, Selection};
use crate::stage;
use crate::store::{Held, Store, write_error};
use crate::transaction::Transaction;

/// What became of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Remainder {
    /// Nothing that could be applied later: it is removed.
    None,
    /// It is open again, with what was left out.
    Open,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// How many changes are on the host now.
    pub applied: usize,
    /// How many stay in the transaction, because they act on the next run, are contested, or hang on such a
    /// one.
    pub left_out: usize,
    /// How many can never be applied.
    pub refused: usize,
    /// What was left out because the host has changed, before the commit or while it was under way. The
    /// transaction keeps it.
    pub skipped: Vec<Clash>,
    pub remainder: Remainder,
}

pub fn commit(transaction: &Transaction, options: CommitOptions) -> Result<Committed, CommitError> {
    let store = &transaction.store;
    let held = store.hold(transaction.id())?;
    if held.journal()?.is_some() {
        return Err(StoreError::Interrupted { id: held.id }.into());
    }
    let reloaded = reload(&held, transaction)?;
    let record = reloaded.as_ref().map_or(transaction.record(), |loaded| &loaded.record);

    let roots = Roots::open(&record.trees);
    let _alone = roots.lock().map_err(|path| CommitError::Busy { path })?;
    let (selection, contested) = choose(record, &roots, options)?;
    if selection.apply.is_empty() {
        return conclude(store, held, record, &roots, selection, Outcome::default())
            .map(|committed| with(committed, contested))
            .map_err(concluding);
    }

    let mut journal = Journal {
        generation: record.generation,
        phase: Phase::Staging,
        left_out: left_out(&selection),
        copied: Vec::new(),
    };
    let stage = stage::stage(&held, record, &selection, &roots, &mut journal)?;
    // Contents are not forced to disk here: for ten thousand files that takes longer than the commit itself,
    // and a copy does not do it either. What a killed process leaves is in the kernel's hands and is safe.
    journal.phase = Phase::Committing;
    if let Err(error) = held.write_journal(&journal) {
        stage::unstage(held.id, record, &roots);
        held.remove_journal()?;
        return Err(error.into());
    }
    let outcome = apply::apply(record, &selection.apply, &roots, &stage, Run::First);
    conclude(store, held, record, &roots, selection, outcome)
        .map(|committed| with(committed, contested))
        .map_err(concluding)
}

fn with(mut committed: Committed, contested: Vec<Clash>) -> Committed {
    committed.skipped.splice(0..0, contested);
    committed
}

/// Which changes are applied, and which are not because the host has changed under them.
fn choose(
    record: &Record,
    roots: &Roots,
    options: CommitOptions,
) -> Result<(Selection, Vec<Clash>), CommitError> {
    let mut contested = HashSet::new();
    let mut clashes = Vec::new();
    loop {
        let selection = select::select(&record.changes, options, &contested);
        let found = check::check(record, &selection.apply, roots);
        if found.is_empty() {
            return Ok((selection, clashes));
        }
        contested.extend(found.iter().map(|(number, _)| *number));
        clashes.extend(found.into_iter().map(|(_, clash)| clash));
        if options.contested == Contested::Refuse {
            return Err(CommitError::Conflicts { conflicts: clashes });
        }
    }
}

/// Finishes a commit that was interrupted after everything lay ready.
pub fn resume(
    store: &Store,
    held: Held,
    record: &Record,
    journal: &Journal,
) -> Result<Committed, CommitError> {
    let selection = select::reselect(&record.changes, &journal.left_out);
    let roots = Roots::open(&record.trees);
    let _alone = roots.lock().map_err(|path| CommitError::Busy { path })?;
    let stage = stage::Stage::reopen(&held, record, &roots, &journal.copied)?;
    let outcome = apply::apply(record, &selection.apply, &roots, &stage, Run::Resumed);
    conclude(store, held, record, &roots, selection, outcome).map_err(concluding)
}

fn concluding(source: StoreError) -> CommitError {
    CommitError::Conclude { source }
}

/// The record as it is now, if another command wrote it since this transaction was read.
fn reload(held: &Held, transaction: &Transaction) -> Result<Option<Loaded>, StoreError> {
    let stat = rustix::fs::statat(held.fd(), RECORD, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    let known = &transaction.loaded.file;
    match stat.map(|stat| crate::change::Object::of(&stat)) {
        Ok(now) if now.is(known) && now.modified == known.modified && now.size == known.size => Ok(None),
        _ => held.load().map(Some),
    }
}

fn left_out(selection: &Selection) -> Vec<u32> {
    let mut numbers: Vec<u32> = selection
        .left
        .iter()
        .chain(&selection.never)
        .filter_map(|number| u32::try_from(*number).ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Clears the staging away and keeps what was left out, or removes the transaction. The new record comes
/// first: what was skipped is in it, and would count as done once its staging is gone. From then on the
/// journal, of an older record, only says that there may be something to clear away.
fn conclude(
    store: &Store,
    held: Held,
    record: &Record,
    roots: &Roots,
    selection: Selection,
    outcome: Outcome,
) -> Result<Committed, StoreError> {
    let skipped = outcome.skipped;
    let mut committed = Committed {
        applied: selection.apply.len() - skipped.len(),
        left_out: selection.left.len(),
        refused: selection.never.len(),
        skipped: skipped.iter().map(|(_, clash)| clash.clone()).collect(),
        remainder: Remainder::None,
    };
    if selection.left.is_empty() && skipped.is_empty() {
        stage::unstage(held.id, record, roots);
        store.retire(held)?;
        return Ok(committed);
    }
    committed.remainder = Remainder::Open;
    if !selection.apply.is_empty() {
        let mut kept: Vec<usize> = selection
            .left
            .iter()
            .chain(&selection.never)
            .copied()
            .chain(skipped.iter().map(|(n, _)| *n))
            .collect();
        kept.sort_unstable();
        let changes: Vec<_> =
            kept.iter().filter_map(|number| record.changes.0.get(*number).cloned()).collect();
        let record = Record {
            generation: record.generation + 1,
            changes: Changes(changes),
            origin: record.origin.clone(),
            trees: record.trees.clone(),
            version: record.version,
        };
        record::write(held.fd(), RECORD, &record).map_err(write_error(held.path.join(RECORD)))?;
        stage::unstage(held.id, &record, roots);
    }
    held.remove_journal()?;
    Ok(committed)
}
