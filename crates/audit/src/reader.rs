//! Reading events back, also while other processes append.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::Event;
use crate::file::{self, Found, Lines};

/// Why a line could not be read as an event. `line` counts from 1; it is 0 when the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot open the audit log {path}: {source}")]
    Open { line: u64, path: PathBuf, source: io::Error },
    #[error("cannot read line {line} of the audit log: {source}")]
    Io { line: u64, source: io::Error },
    #[error("line {line} of the audit log is not an event: {source}")]
    NotAnEvent { line: u64, source: serde_json::Error },
    #[error("line {line} of the audit log is too long")]
    TooLong { line: u64 },
}

impl ReadError {
    /// The line it is about.
    #[must_use]
    pub fn line(&self) -> u64 {
        match self {
            Self::Open { line, .. } | Self::Io { line, .. } => *line,
            Self::NotAnEvent { line, .. } | Self::TooLong { line } => *line,
        }
    }
}

/// The events of a log in order. It does not check the chain.
///
/// A line still being written is not there yet: the iterator ends before it, and asked again it goes on
/// with what has arrived since. A line that is no event is an error, and the lines after it follow.
pub struct Reader {
    lines: Lines,
    line: u64,
    failed: bool,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = file::open_to_read(path).map_err(|source| ReadError::Open {
            line: 0,
            path: path.to_owned(),
            source,
        })?;
        Ok(Self { lines: Lines::new(file, u64::MAX), line: 0, failed: false })
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Iterator for Reader {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let line = self.line + 1;
        let item = match self.lines.next() {
            Ok(Found::Line) => serde_json::from_slice(self.lines.text())
                .map_err(|source| ReadError::NotAnEvent { line, source }),
            Ok(Found::TooLong) => Err(ReadError::TooLong { line }),
            Ok(Found::Partial | Found::End) => return None,
            Err(source) => {
                self.failed = true;
                Err(ReadError::Io { line, source })
            }
        };
        self.line = line;
        Some(item)
    }
}
