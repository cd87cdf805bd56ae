//! How far a commit has come.
//!
//! Nothing of the host is touched before a journal is on disk. [`Phase::Staging`]: names next to the targets
//! may exist, and are removed if the process ends here. [`Phase::Committing`]: everything needed lies ready,
//! and a commit that was interrupted is finished, not undone.

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::failpoint;
use crate::record;
use crate::store::Held;

pub const JOURNAL: &str = "journal.json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    Staging,
    Committing,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Journal {
    /// Of the record it speaks of; about any other it says nothing.
    pub generation: u64,
    pub phase: Phase,
    /// The changes, by number, that are not part of this commit.
    pub left_out: Vec<u32>,
    /// The trees whose content lies ready in a staging directory, not in the store.
    pub copied: Vec<u32>,
}

impl Held {
    /// The journal that is in force, if a commit was begun.
    pub fn journal(&self) -> Result<Option<Journal>, StoreError> {
        let path = self.path.join(JOURNAL);
        Ok(record::read(self.fd(), JOURNAL, path)?.map(|(journal, _)| journal))
    }

    pub fn write_journal(&self, journal: &Journal) -> Result<(), StoreError> {
        record::write(self.fd(), JOURNAL, journal)
            .map(drop)
            .map_err(|source| StoreError::Write { path: self.path.join(JOURNAL), source })
    }

    pub fn remove_journal(&self) -> Result<(), StoreError> {
        failpoint::step();
        self.unlink(JOURNAL)
    }
}
