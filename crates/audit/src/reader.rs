//! Reading events back, also while other processes append.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::Event;
use crate::file::{self, Found, Lines};

/// Why a line could not be read as an event. `line` counts from 1; it is 0 when a file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot open the audit log {path}: {source}")]
    Open { line: u64, path: PathBuf, source: io::Error },
    #[error("{file}:{line}: cannot read the audit log: {source}", file = .path.display())]
    Io { line: u64, path: PathBuf, source: io::Error },
    #[error("{file}:{line}: this line is not an event: {source}", file = .path.display())]
    NotAnEvent { line: u64, path: PathBuf, source: serde_json::Error },
    #[error("{file}:{line}: this line is too long", file = .path.display())]
    TooLong { line: u64, path: PathBuf },
    /// In a file that is not written any more.
    #[error("{file}:{line}: this line was torn off", file = .path.display())]
    Torn { line: u64, path: PathBuf },
    /// Where reading was to go on is no longer there.
    #[error("the files with the lines after {after} of the audit log {path} are gone")]
    Gone { line: u64, path: PathBuf, after: u64 },
}

impl ReadError {
    /// The line it is about.
    #[must_use]
    pub fn line(&self) -> u64 {
        match self {
            Self::Open { line, .. } | Self::Io { line, .. } | Self::NotAnEvent { line, .. } => *line,
            Self::TooLong { line, .. } | Self::Torn { line, .. } | Self::Gone { line, .. } => *line,
        }
    }

    /// Whether nothing more can be read because of it; after the others the next line follows.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Io { .. })
    }

    pub(crate) fn open(path: &Path, source: io::Error) -> Self {
        Self::Open { line: 0, path: path.to_owned(), source }
    }
}

/// The events of one file in order. It does not check the chain and knows nothing of the files that were set
/// aside before: see [`Follow`](crate::Follow) for those.
///
/// A line still being written is not there yet: the iterator ends before it, and asked again it goes on
/// with what has arrived since. A line that is no event is an error, and the lines after it follow.
pub struct Reader {
    lines: Lines,
    path: PathBuf,
    line: u64,
    failed: bool,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = file::open_to_read(path).map_err(|source| ReadError::open(path, source))?;
        Ok(Self { lines: Lines::new(file, u64::MAX), path: path.to_owned(), line: 0, failed: false })
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("line", &self.line).finish_non_exhaustive()
    }
}

impl Iterator for Reader {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let line = self.line + 1;
        let path = || self.path.clone();
        let item = match self.lines.next() {
            Ok(Found::Line) => serde_json::from_slice(self.lines.text())
                .map_err(|source| ReadError::NotAnEvent { line, path: path(), source }),
            Ok(Found::TooLong) => Err(ReadError::TooLong { line, path: path() }),
            Ok(Found::Partial | Found::End) => return None,
            Err(source) => {
                self.failed = true;
                Err(ReadError::Io { line, path: path(), source })
            }
        };
        self.line = line;
        Some(item)
    }
}
