//! What a sandbox wrote, as a transaction: read from the upper directories of its overlays, kept on disk,
//! shown as a diff, and then committed to the host or discarded.
//!
//! ```text
//! collect(trees) -> Changes      what is different from the host, and what of it is dangerous
//! Store::keep    -> Transaction  the new content on disk, so that the sandbox's memory can go
//! Transaction::diff / commit / discard
//! Store::recover                 finishes or undoes what a killed process left behind
//! ```
//!
//! Everything in an upper directory was written by code that is not trusted. It is walked by descriptor,
//! never followed through a link, and nothing is opened that is not a regular file or a directory.

#![forbid(unsafe_code)]

mod apply;
mod change;
mod check;
mod collect;
mod commit;
mod copy;
mod diff;
mod encode;
mod error;
mod escape;
mod failpoint;
mod id;
mod journal;
mod keep;
mod link;
mod persistence;
mod place;
mod record;
mod recover;
mod select;
mod stage;
mod store;
mod summary;
mod transaction;
mod tree;

#[cfg(test)]
mod tests;

pub use change::{Base, Change, Changes, Clash, Conflict, Kind, Node, Object, Reason, Refusal, Stamp, What};
pub use collect::collect;
pub use commit::{Committed, Remainder};
pub use diff::{Diff, DiffOptions};
pub use error::{CollectError, CommitError, KeepError, StoreError};
pub use id::{BadId, TransactionId};
pub use recover::{Recovered, Recovery};
pub use select::{CommitOptions, Contested, Persistent};
pub use store::Store;
pub use summary::{Entry, Lines, Section, Summary};
pub use transaction::{Origin, State, Transaction};
pub use tree::{Tree, TreeKind};
