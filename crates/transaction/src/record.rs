//! The files that describe a transaction, and how they are written: all of it or nothing, also when the
//! process or the machine ends in between.
//!
//! `transaction.json` is the [`Record`]. `journal.json` is there only while a commit is under way: it says
//! how far, and which record it speaks of. So a commit writes a few bytes, not the whole record again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::change::{Changes, Object};
use crate::copy;
use crate::error::StoreError;
use crate::failpoint;
use crate::transaction::Origin;
use crate::tree::Ground;

pub const RECORD: &str = "transaction.json";
pub const VERSION: u32 = 1;

/// All that is known of a transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    pub version: u32,
    /// Counts up each time the list of changes is written: a journal speaks of one of them.
    pub generation: u64,
    pub origin: Origin,
    pub trees: Vec<Ground>,
    pub changes: Changes,
}

/// A record, and which file it was read from.
#[derive(Debug)]
pub struct Loaded {
    pub record: Record,
    pub file: Object,
}

/// Reads a file of a transaction's directory. `Ok(None)` when there is none.
pub fn read<T: DeserializeOwned>(
    directory: BorrowedFd<'_>,
    name: &str,
    path: PathBuf,
) -> Result<Option<(T, Object)>, StoreError> {
    let (file, stat) = match copy::open_regular(directory, name) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(StoreError::Read { path, source: errno.into() }),
    };
    let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0));
    io::Read::read_to_end(&mut std::fs::File::from(file), &mut bytes)
        .map_err(|source| StoreError::Read { path: path.clone(), source })?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some((value, Object::of(&stat)))),
        Err(source) => Err(StoreError::Damaged { path, source }),
    }
}

/// Writes a file of a transaction's directory under another name, to disk, and only then under its own.
pub fn write<T: Serialize>(directory: BorrowedFd<'_>, name: &str, value: &T) -> io::Result<Object> {
    let bytes = serde_json::to_vec(value)?;
    let fresh = format!(".{name}.new");
    failpoint::step();
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: OwnedFd =
        retry_on_intr(|| rustix::fs::openat(directory, &fresh, flags, Mode::RUSR | Mode::WUSR))?;
    failpoint::step();
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, &bytes)?;
    failpoint::step();
    retry_on_intr(|| rustix::fs::fsync(file.as_fd()))?;
    let stat = rustix::fs::fstat(file.as_fd())?;
    failpoint::step();
    rustix::fs::renameat(directory, &fresh, directory, name)?;
    failpoint::step();
    retry_on_intr(|| rustix::fs::fsync(directory))?;
    Ok(Object::of(&stat))
}
