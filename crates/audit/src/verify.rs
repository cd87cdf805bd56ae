//! Checks a log from its first line to its last and names the first line that is wrong.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{self, Found, Lines, Lock};
use crate::head::{self, Head, State};
use crate::line::{self, BadLine, Link, ZERO_HASH};
use crate::rotation::Beginning;
use crate::segment;

/// What an intact log consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many files it consists of.
    pub files: u64,
    pub lines: u64,
    /// The number of the first line; more than 1 when the oldest files are gone, 0 when the log is empty.
    pub first_seq: u64,
    /// 0 when the log is empty.
    pub last_seq: u64,
    /// 64 zeros when the log is empty.
    pub last_hash: String,
    pub first_time: Option<String>,
    pub last_time: Option<String>,
    /// What could not be checked, and what is gone.
    pub notes: Vec<String>,
}

impl Default for Verified {
    fn default() -> Self {
        Self {
            files: 0,
            lines: 0,
            first_seq: 0,
            last_seq: 0,
            last_hash: ZERO_HASH.to_owned(),
            first_time: None,
            last_time: None,
            notes: Vec::new(),
        }
    }
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
    /// `line` counts from 1 in its file.
    #[error("line {line}: {reason}")]
    Broken { file: PathBuf, line: u64, reason: Reason },
}

/// Checks every line of every file of the log as it is now; lines appended meanwhile are not looked at.
pub fn verify(path: &Path) -> Result<Verified, VerifyError> {
    let snapshot = Snapshot::take(path)?;
    let mut check = Check { snapshot: &snapshot, done: Verified::default(), kept_from: None };
    for part in &snapshot.parts {
        check.part(part)?;
    }
    check.finish()
}

/// The files of a log and its head at one moment.
struct Snapshot {
    log: PathBuf,
    parts: Vec<Part>,
    head: Option<Head>,
}

/// One file, up to where it went.
struct Part {
    path: PathBuf,
    /// The one being written is kept open; the others do not change, and may be many.
    file: Option<File>,
    size: u64,
}

impl Snapshot {
    fn take(log: &Path) -> Result<Self, VerifyError> {
        let read = |source| VerifyError::Read { path: log.to_owned(), source };
        loop {
            let live = match file::open_to_read(log) {
                Ok(file) => Some(file),
                // Killed right after it was set aside: the next event makes a new one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(source) => return Err(VerifyError::Open { path: log.to_owned(), source }),
            };
            // No append is halfway while this is held and nothing is set aside, so that files, sizes and head
            // belong together.
            let _lock = live.as_ref().map(Lock::shared).transpose().map_err(|errno| read(errno.into()))?;
            let segments = segment::list(log).map_err(read)?;
            if live.is_none() && segments.is_empty() {
                let source = io::Error::from(io::ErrorKind::NotFound);
                return Err(VerifyError::Open { path: log.to_owned(), source });
            }
            let state = head::read_for(log)
                .map_err(|source| VerifyError::Head { path: head::path_of(log), source })?;
            let mut parts: Vec<Part> = segments
                .into_iter()
                .map(|segment| Part { path: segment.path, file: None, size: u64::MAX })
                .collect();
            if file::is_named(live.as_ref(), log).map_err(read)? {
                let size = live.as_ref().map(File::metadata).transpose().map_err(read)?;
                let size = size.map_or(0, |metadata| metadata.len());
                let file = live.as_ref().map(File::try_clone).transpose().map_err(read)?;
                parts.extend(file.map(|file| Part { path: log.to_owned(), file: Some(file), size }));
                let head = match state {
                    State::Known(head) => Some(head),
                    State::Missing => None,
                    State::Malformed => {
                        return Err(VerifyError::HeadDamaged { path: head::path_of(log) });
                    }
                };
                return Ok(Snapshot { log: log.to_owned(), parts, head });
            }
        }
    }
}

impl Part {
    fn lines(&self) -> Result<Lines, VerifyError> {
        let file = match &self.file {
            Some(file) => file.try_clone().map_err(|source| self.read_error(source))?,
            None => file::open_to_read(&self.path)
                .map_err(|source| VerifyError::Open { path: self.path.clone(), source })?,
        };
        Ok(Lines::new(file, self.size))
    }

    fn broken(&self, line: u64, reason: Reason) -> VerifyError {
        VerifyError::Broken { file: self.path.clone(), line, reason }
    }

    fn read_error(&self, source: io::Error) -> VerifyError {
        VerifyError::Read { path: self.path.clone(), source }
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot,
    done: Verified,
    /// The oldest line that was to be kept, as the newest of the first lines says.
    kept_from: Option<u64>,
}

impl Check<'_> {
    fn part(&mut self, part: &Part) -> Result<(), VerifyError> {
        let mut lines = match part.lines() {
            // Retention took it meanwhile. Anywhere but at the beginning its lines are missed.
            Err(VerifyError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            other => other?,
        };
        let mut number = 0;
        loop {
            number += 1;
            let found = lines.next().map_err(|source| part.read_error(source))?;
            match found {
                Found::Line => {}
                Found::TooLong => return Err(part.broken(number, Reason::NotALogLine)),
                Found::Partial => return Err(part.broken(number, Reason::Torn)),
                Found::End => break,
            }
            let text = lines.text();
            let link = line::link(text).map_err(|bad| match bad {
                BadLine::Form => part.broken(number, Reason::NotALogLine),
                BadLine::Content => part.broken(number, Reason::ContentChanged),
            })?;
            let beginning = if number == 1 { Beginning::of(text, &link) } else { None };
            match self.place(&link, beginning.as_ref()) {
                Ok(()) => {}
                Err(Reason::LinesMissing(missing)) => {
                    let reason = self.lost_or_moved(part, number, &link, missing)?;
                    return Err(part.broken(number, reason));
                }
                Err(reason) => return Err(part.broken(number, reason)),
            }
            if let Some(beginning) = beginning {
                self.kept_from = Some(beginning.oldest_kept);
            }
            self.take(&link);
        }
        self.done.files += 1;
        Ok(())
    }

    fn take(&mut self, link: &Link<'_>) {
        let done = &mut self.done;
        if done.lines == 0 {
            done.first_seq = link.seq;
            done.first_time = Some(link.time.to_owned());
            done.last_time = Some(String::new());
        }
        done.lines += 1;
        done.last_seq = link.seq;
        link.hash.clone_into(&mut done.last_hash);
        if let Some(last) = &mut done.last_time {
            link.time.clone_into(last);
        }
    }

    /// Whether a line belongs after those already checked.
    fn place(&self, link: &Link<'_>, beginning: Option<&Beginning>) -> Result<(), Reason> {
        let done = &self.done;
        let recorded = match &self.snapshot.head {
            Some(head) if head.seq == link.seq && head.hash != link.hash => Err(Reason::NotTheRecorded),
            _ => Ok(()),
        };
        // Only a file can have gone, not the lines at the beginning of one: the line that begins it is part
        // of the chain.
        if done.lines == 0 && link.seq > 1 && beginning.is_some() {
            return recorded;
        }
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
        recorded
    }

    /// Tells a deletion from a move: looks for the expected line further on.
    fn lost_or_moved(
        &self,
        part: &Part,
        number: u64,
        link: &Link<'_>,
        missing: u64,
    ) -> Result<Reason, VerifyError> {
        let expected = link.seq - missing;
        let parts = self.snapshot.parts.iter().skip_while(|other| other.path != part.path);
        for other in parts {
            let mut lines = other.lines()?;
            let mut at = 0;
            loop {
                match lines.next().map_err(|source| other.read_error(source))? {
                    Found::Line => {
                        at += 1;
                        let later = other.path != part.path || at > number;
                        if later && line::link(lines.text()).is_ok_and(|later| later.seq == expected) {
                            return Ok(Reason::OutOfOrder { expected, found: link.seq });
                        }
                    }
                    Found::TooLong => at += 1,
                    Found::Partial | Found::End => break,
                }
            }
        }
        Ok(Reason::LinesMissing(missing))
    }

    fn finish(mut self) -> Result<Verified, VerifyError> {
        let done = &mut self.done;
        match &self.snapshot.head {
            Some(head) if head.seq > done.last_seq => {
                let in_last = match self.snapshot.parts.last() {
                    Some(part) => count_lines(part)?,
                    None => 0,
                };
                return Err(VerifyError::Broken {
                    file: self.snapshot.parts.last().map_or(&self.snapshot.log, |part| &part.path).clone(),
                    line: in_last + 1,
                    reason: Reason::EndsBefore(head.seq),
                });
            }
            None if done.lines > 0 => {
                done.notes
                    .push("there is no head file, so lines cut off at the end would not show".to_owned());
            }
            _ => {}
        }
        if done.first_seq > 1 {
            let why = match self.kept_from {
                Some(kept) if done.first_seq <= kept => "retention removed them, the log says",
                _ => "nothing in the log says that they were to be removed",
            };
            done.notes.push(format!("begins at line {}, earlier files are gone: {why}", done.first_seq));
        }
        Ok(self.done)
    }
}

fn count_lines(part: &Part) -> Result<u64, VerifyError> {
    let mut lines = part.lines()?;
    let mut count = 0;
    while lines.next().map_err(|source| part.read_error(source))? != Found::End {
        count += 1;
    }
    Ok(count)
}
