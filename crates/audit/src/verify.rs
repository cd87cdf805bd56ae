//! Checks a log from its first line to its last and names the first line that is wrong.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{self, Found, Lines, Lock};
use crate::head::{self, Head, State};
use crate::line::{self, BadLine, Link, ZERO_HASH};

/// What an intact log consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub lines: u64,
    /// 0 when the log is empty.
    pub last_seq: u64,
    /// 64 zeros when the log is empty.
    pub last_hash: String,
    pub first_time: Option<String>,
    pub last_time: Option<String>,
    /// What could not be checked.
    pub note: Option<String>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("its content was changed")]
    ContentChanged,
    #[error("{} missing before it", count(*.0))]
    LinesMissing(u64),
    #[error("it is out of order: it has number {found} where number {expected} belongs")]
    OutOfOrder { expected: u64, found: u64 },
    #[error("it does not continue the line before it")]
    Unlinked,
    #[error("it is not a log line")]
    NotALogLine,
    #[error("it is incomplete: the last line was torn off")]
    Torn,
    #[error("the log ends before line {0}, which the head file records")]
    EndsBefore(u64),
    #[error("it is not the line the head file records")]
    NotTheRecorded,
}

fn count(lines: u64) -> String {
    if lines == 1 { "1 line is".to_owned() } else { format!("{lines} lines are") }
}

/// Why a log does not verify.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot open the audit log {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read the audit log {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the head file {path}: {source}")]
    Head { path: PathBuf, source: io::Error },
    #[error("the head file {path} is damaged")]
    HeadDamaged { path: PathBuf },
    #[error("line {line}: {reason}")]
    Broken { line: u64, reason: Reason },
}

/// Checks every line of the log as it is now; lines appended meanwhile are not looked at.
pub fn verify(path: &Path) -> Result<Verified, VerifyError> {
    let read = |source| VerifyError::Read { path: path.to_owned(), source };
    let file =
        file::open_to_read(path).map_err(|source| VerifyError::Open { path: path.to_owned(), source })?;
    let (size, state) = {
        // No append is halfway while this is held, so that size and head belong together.
        let _lock = Lock::shared(&file).map_err(|errno| read(errno.into()))?;
        let state =
            head::read_for(path).map_err(|source| VerifyError::Head { path: head::path_of(path), source })?;
        (file.metadata().map_err(read)?.len(), state)
    };
    let head = match state {
        State::Known(head) => Some(head),
        State::Missing => None,
        State::Malformed => return Err(VerifyError::HeadDamaged { path: head::path_of(path) }),
    };
    let again = file.try_clone().map_err(read)?;
    Check { path, head, size }.run(file, again)
}

struct Check<'a> {
    path: &'a Path,
    head: Option<Head>,
    size: u64,
}

impl Check<'_> {
    fn run(&self, file: File, again: File) -> Result<Verified, VerifyError> {
        let mut done = Verified {
            lines: 0,
            last_seq: 0,
            last_hash: ZERO_HASH.to_owned(),
            first_time: None,
            last_time: None,
            note: None,
        };
        let mut lines = Lines::new(file, self.size);
        let mut last_time = String::new();
        loop {
            let number = done.lines + 1;
            let broken = |reason| VerifyError::Broken { line: number, reason };
            match lines.next().map_err(|source| self.read_error(source))? {
                Found::Line => {}
                Found::TooLong => return Err(broken(Reason::NotALogLine)),
                Found::Partial => return Err(broken(Reason::Torn)),
                Found::End => break,
            }
            let link = line::link(lines.text()).map_err(|bad| match bad {
                BadLine::Form => broken(Reason::NotALogLine),
                BadLine::Content => broken(Reason::ContentChanged),
            })?;
            match self.place(&link, &done) {
                Ok(()) => {}
                Err(Reason::LinesMissing(missing)) => {
                    let reason = self.lost_or_moved(again, number, &link, missing)?;
                    return Err(broken(reason));
                }
                Err(reason) => return Err(broken(reason)),
            }
            done.lines = number;
            done.last_seq = link.seq;
            link.hash.clone_into(&mut done.last_hash);
            link.time.clone_into(&mut last_time);
            if done.first_time.is_none() {
                done.first_time = Some(last_time.clone());
            }
        }
        match &self.head {
            Some(head) if head.seq > done.last_seq => {
                return Err(VerifyError::Broken {
                    line: done.lines + 1,
                    reason: Reason::EndsBefore(head.seq),
                });
            }
            None if done.lines > 0 => {
                done.note =
                    Some("there is no head file, so lines cut off at the end would not show".to_owned());
            }
            _ => {}
        }
        done.last_time = (done.lines > 0).then_some(last_time);
        Ok(done)
    }

    /// Whether a line belongs after those already checked.
    fn place(&self, link: &Link<'_>, done: &Verified) -> Result<(), Reason> {
        let expected = done.last_seq + 1;
        if link.seq > expected {
            return Err(Reason::LinesMissing(link.seq - expected));
        }
        if link.seq < expected {
            return Err(Reason::OutOfOrder { expected, found: link.seq });
        }
        if link.prev != done.last_hash {
            return Err(Reason::Unlinked);
        }
        match &self.head {
            Some(head) if head.seq == link.seq && head.hash != link.hash => Err(Reason::NotTheRecorded),
            _ => Ok(()),
        }
    }

    /// Tells a deletion from a move: looks for the expected line further on.
    fn lost_or_moved(
        &self,
        file: File,
        number: u64,
        link: &Link<'_>,
        missing: u64,
    ) -> Result<Reason, VerifyError> {
        let expected = link.seq - missing;
        let mut lines = Lines::new(file, self.size);
        lines.rewind().map_err(|source| self.read_error(source))?;
        let mut at = 0;
        loop {
            match lines.next().map_err(|source| self.read_error(source))? {
                Found::Line => {
                    at += 1;
                    if at > number && line::link(lines.text()).is_ok_and(|later| later.seq == expected) {
                        return Ok(Reason::OutOfOrder { expected, found: link.seq });
                    }
                }
                Found::TooLong => at += 1,
                Found::Partial | Found::End => return Ok(Reason::LinesMissing(missing)),
            }
        }
    }

    fn read_error(&self, source: io::Error) -> VerifyError {
        VerifyError::Read { path: self.path.to_owned(), source }
    }
}
