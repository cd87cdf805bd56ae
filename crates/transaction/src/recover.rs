//! Clears up after processes that were killed. Every command calls it first.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::check::Roots;
use crate::commit::{self, Committed};
use crate::error::{CommitError, StoreError};
use crate::id::TransactionId;
use crate::journal::{JOURNAL, Phase};
use crate::place;
use crate::record::RECORD;
use crate::stage;
use crate::store::{Held, Store};

/// What was found, and done about it.
#[derive(Debug)]
pub struct Recovered {
    pub id: TransactionId,
    pub recovery: Recovery,
}

#[derive(Debug)]
pub enum Recovery {
    /// It was never complete: the upper directories it came from are gone, and so is it.
    Removed,
    /// A commit had not begun to change anything: the transaction is open again.
    Undone,
    /// A commit was finished.
    Finished(Committed),
    /// It could not be put in order; the next command tries again.
    Failed(CommitError),
}

impl Store {
    /// Puts every transaction in order that nobody works on.
    pub fn recover(&self) -> Vec<Recovered> {
        // What cannot be removed now is invisible anyway.
        let _ = self.sweep_gone();
        let ids = self.ids().unwrap_or_default();
        ids.into_iter()
            .filter_map(|id| match self.recover_one(id) {
                Ok(recovery) => recovery.map(|recovery| Recovered { id, recovery }),
                // Somebody works on it, or finished it meanwhile.
                Err(CommitError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => None,
                Err(error) => Some(Recovered { id, recovery: Recovery::Failed(error) }),
            })
            .collect()
    }

    fn recover_one(&self, id: TransactionId) -> Result<Option<Recovery>, CommitError> {
        // Under the store's lock, no transaction is between being made and being locked.
        let lock = self.lock()?;
        let held = self.hold(id)?;
        drop(lock);
        if !self.has(&held, RECORD)? {
            self.retire(held)?;
            return Ok(Some(Recovery::Removed));
        }
        if !self.has(&held, JOURNAL)? {
            return Ok(None);
        }
        let (Some(journal), record) = (held.journal()?, held.load()?.record) else { return Ok(None) };
        // A journal of an older record is all that was left to remove after a commit.
        let concluded = journal.generation != record.generation;
        match journal.phase {
            _ if concluded => {
                stage::unstage(held.id, &record, &Roots::open(&record.trees));
                held.remove_journal()?;
                Ok(None)
            }
            Phase::Staging => {
                stage::unstage(held.id, &record, &Roots::open(&record.trees));
                held.remove_journal()?;
                Ok(Some(Recovery::Undone))
            }
            Phase::Committing => {
                commit::resume(self, held, &record, &journal).map(|done| Some(Recovery::Finished(done)))
            }
        }
    }

    fn has(&self, held: &Held, name: &str) -> Result<bool, StoreError> {
        let read = |errno: Errno| StoreError::Read { path: held.path.join(name), source: errno.into() };
        Ok(place::look(held.fd().as_fd(), name).map_err(read)?.is_some())
    }
}
