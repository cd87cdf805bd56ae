//! What can fail, and on what. A conflict with the host is not one of these until a commit is asked for.

use std::io;
use std::path::PathBuf;

use crate::change::Clash;
use crate::id::TransactionId;

/// Why the changes could not be read. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("cannot open {} on the host: {source}", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("cannot read the changes of the directory {}: {source}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot look at the changed {}: {source}", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("cannot look at {} on the host: {source}", path.display())]
    Host { path: PathBuf, source: io::Error },
    #[error("cannot read the changed file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the changed link {}: {source}", path.display())]
    Link { path: PathBuf, source: io::Error },
    #[error("more was written below {} than can be listed: the names alone are over {limit} MiB", path.display())]
    TooMuch { path: PathBuf, limit: usize },
}

/// Why changes could not be kept. What was written of them is removed.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("cannot make the transaction {}: {source}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot lock the transaction {}: {source}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot open {} on the host: {source}", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("cannot read the changed file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot keep the content of {}: {source}; is the disk full?", path.display())]
    Copy { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Record { path: PathBuf, source: io::Error },
    #[error("the changes name the tree {index}, which was not given")]
    NoSuchTree { index: u32 },
    #[error("the thread that copies files ended unexpectedly")]
    Thread,
}

/// Why the store or one transaction in it could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot make the directory {} for transactions: {source}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot open the directory {} of transactions: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} belongs to another user and cannot hold transactions", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot read the directory {} of transactions: {source}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot lock the directory {} of transactions: {source}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("{} was written by another version of this program", path.display())]
    Version { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no transaction is called {name}")]
    NotFound { name: String },
    #[error("{name} could be {count} transactions; give more of the name")]
    Ambiguous { name: String, count: usize },
    #[error("the transaction {id} is in use by another process")]
    Busy { id: TransactionId },
    #[error("a commit of {id} was interrupted; recover it first")]
    Interrupted { id: TransactionId },
    #[error("cannot remove {}: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// Why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{} of the changes conflict with the host, so nothing was applied; the first is {}: {}",
        conflicts.len(),
        first(conflicts).0,
        first(conflicts).1
    )]
    Conflicts { conflicts: Vec<Clash> },
    #[error("cannot prepare {} next to its place: {source}", path.display())]
    Stage { path: PathBuf, source: io::Error },
    #[error("{} exists already, and is needed to prepare the commit", path.display())]
    Occupied { path: PathBuf },
    #[error("somebody else is committing to {} or holds its lock; try again", path.display())]
    Busy { path: PathBuf },
    #[error("the changes are applied, but {source}; the next command finishes this")]
    Conclude { source: StoreError },
}

fn first(conflicts: &[Clash]) -> (String, String) {
    conflicts
        .first()
        .map_or_else(Default::default, |clash| (crate::escape::name(&clash.path), clash.conflict.to_string()))
}
