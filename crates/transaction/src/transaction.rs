//! One kept transaction: what it came from, what it would change, and what can be done with it.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::change::Changes;
use crate::commit::{self, Committed};
use crate::diff::{Diff, DiffOptions};
use crate::encode;
use crate::error::{CommitError, StoreError};
use crate::id::TransactionId;
use crate::record::{Loaded, Record};
use crate::select::CommitOptions;
use crate::store::Store;
use crate::summary::Summary;

/// Where changes come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    pub id: TransactionId,
    pub sandbox_id: String,
    /// The working directory of whoever started the sandbox.
    #[serde(with = "encode::path")]
    pub directory: PathBuf,
    pub command: Vec<String>,
    /// The coarse clock before the launch.
    #[serde(with = "encode::moment")]
    pub started: SystemTime,
}

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// For a decision.
    Open,
    /// For the end of a commit, its own process's or, if that was killed, that of [`Store::recover`].
    Committing,
}

/// A kept transaction.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) store: Store,
    pub(crate) loaded: Loaded,
    pub(crate) state: State,
}

impl Transaction {
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.record().origin.id
    }

    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.record().origin
    }

    /// As it was when the transaction was read.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.record().changes
    }

    /// The changes as a text to read, worked out when it is written.
    #[must_use]
    pub fn diff(&self, options: DiffOptions) -> Diff<'_> {
        Diff::new(self, options)
    }

    /// The changes as a list with the lines added and removed, for a program to read.
    #[must_use]
    pub fn summary(&self, options: DiffOptions) -> Summary {
        Summary::of(self, options)
    }

    /// Applies the changes to the host: all that the options include, or none.
    pub fn commit(&self, options: CommitOptions) -> Result<Committed, CommitError> {
        commit::commit(self, options)
    }

    /// Forgets the changes. The host is not touched.
    pub fn discard(self) -> Result<(), StoreError> {
        let held = self.store.hold(self.id())?;
        // A commit that was killed left names on the host: they go first.
        if held.journal()?.is_some() {
            return Err(StoreError::Interrupted { id: self.id() });
        }
        self.store.retire(held)
    }

    pub(crate) fn record(&self) -> &Record {
        &self.loaded.record
    }
}
