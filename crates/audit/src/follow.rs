//! All events of a log over all its files, in order, and what arrives later, also when the log is rotated
//! meanwhile.
//!
//! ```no_run
//! # use std::path::Path;
//! let mut follow = lazaret_audit::Follow::open(Path::new("/var/log/audit.jsonl"))?;
//! loop {
//!     for event in follow.by_ref() {
//!         match event {
//!             Ok(event) => println!("{} {}", event.seq, event.event),
//!             Err(error) if error.is_final() => return Err(error),
//!             Err(error) => eprintln!("{error}"),
//!         }
//!     }
//!     // It ends where the log ends, for now. A position can be kept (it is serde's) and gone on from by
//!     // `Follow::resume` in another process.
//!     let _position = follow.position();
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), lazaret_audit::ReadError>(())
//! ```

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::file::{self, Found, Lines};
use crate::line;
use crate::reader::ReadError;
use crate::segment::{self, Segment};

/// How far a log has been read. It stays right when the log is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// The number of the first line of the file, by which the file is known whatever its name is by now.
    /// 0: before the first line of all.
    pub first: u64,
    /// Where in the file the next line begins.
    pub offset: u64,
    /// How many lines of the file have been read.
    pub line: u64,
}

/// A line as it stands in a file.
#[derive(Debug, Clone, Copy)]
pub struct RawLine<'a> {
    pub file: &'a Path,
    /// From 1, in its file.
    pub line: u64,
    /// Without the newline.
    pub text: &'a [u8],
}

/// Reads the events of a log from its oldest file to its newest. Asked again after its end it goes on with
/// what has arrived since. It does not check the chain.
#[derive(Debug)]
pub struct Follow {
    raw: RawFollow,
}

impl Follow {
    /// From the oldest event there is. A log that does not exist yet is an error.
    pub fn open(log: &Path) -> Result<Self, ReadError> {
        Ok(Self { raw: RawFollow::open(log)? })
    }

    /// From where somebody stopped. If that file is gone, from the oldest one after it, after an error that
    /// says so.
    pub fn resume(log: &Path, position: Position) -> Result<Self, ReadError> {
        Ok(Self { raw: RawFollow::resume(log, position)? })
    }

    /// Only what arrives from now on.
    pub fn from_now(log: &Path) -> Result<Self, ReadError> {
        Ok(Self { raw: RawFollow::from_now(log)? })
    }

    #[must_use]
    pub fn position(&self) -> Position {
        self.raw.position()
    }
}

impl Iterator for Follow {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.raw.next_line()?.and_then(|raw| {
            serde_json::from_slice(raw.text).map_err(|source| ReadError::NotAnEvent {
                line: raw.line,
                path: raw.file.to_owned(),
                source,
            })
        }))
    }
}

/// The same line by line, for those who look at lines before they read them.
pub struct RawFollow {
    log: PathBuf,
    current: Option<Current>,
    /// The first line of the file read last: what comes next begins later.
    after: u64,
    /// The number of the last line that was read or passed over.
    seen: u64,
    /// Where a file that was found gone was to be gone on from.
    lost: Option<u64>,
    failed: bool,
}

struct Current {
    path: PathBuf,
    lines: Lines,
    /// 0 as long as the file is empty.
    first: u64,
    line: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Others may append to it.
    Live,
    /// It was set aside: after its end comes the next file.
    Closed,
}

impl std::fmt::Debug for RawFollow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawFollow").field("log", &self.log).field("position", &self.position()).finish()
    }
}

impl RawFollow {
    pub fn open(log: &Path) -> Result<Self, ReadError> {
        Self::resume(log, Position::default())
    }

    pub fn resume(log: &Path, position: Position) -> Result<Self, ReadError> {
        let mut follow =
            Self { log: log.to_owned(), current: None, after: 0, seen: 0, lost: None, failed: false };
        follow.begin(position).map_err(|source| ReadError::open(log, source))?;
        Ok(follow)
    }

    pub fn from_now(log: &Path) -> Result<Self, ReadError> {
        let mut follow = Self::open(log)?;
        let failed = |source| ReadError::open(log, source);
        while let Some(next) = follow.open_next().map_err(failed)? {
            follow.after = follow.after.max(next.first);
            let live = next.state == State::Live;
            follow.current = Some(next);
            if live {
                break;
            }
        }
        if let Some(current) = &mut follow.current {
            // The end of the last whole line, and how many there are, for those who are told of a line.
            while let Found::Line | Found::TooLong = current.lines.next().map_err(failed)? {
                current.line += 1;
                follow.seen = line::number(current.lines.text()).unwrap_or(follow.seen);
            }
        }
        Ok(follow)
    }

    /// The number of the last line that was read, or passed over because it was there already.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    #[must_use]
    pub fn position(&self) -> Position {
        match &self.current {
            Some(current) if current.first > 0 => {
                Position { first: current.first, offset: current.lines.offset(), line: current.line }
            }
            // At the end of a file that is not written any more, or before any line of a new one.
            _ => Position { first: self.after, offset: u64::MAX, line: 0 },
        }
    }

    /// The next line, nothing at the end of what is there.
    pub fn next_line(&mut self) -> Option<Result<RawLine<'_>, ReadError>> {
        if self.failed {
            return None;
        }
        match self.advance() {
            Ok(true) => {
                let current = self.current.as_ref()?;
                Some(Ok(RawLine { file: &current.path, line: current.line, text: current.lines.text() }))
            }
            Ok(false) => None,
            Err(error) => {
                self.failed = error.is_final();
                Some(Err(error))
            }
        }
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        if let Some(after) = self.lost.take() {
            return Err(ReadError::Gone { line: 0, path: self.log.clone(), after });
        }
        loop {
            if self.current.is_none() {
                self.current = self.open_next().map_err(|source| ReadError::open(&self.log, source))?;
            }
            let Some(current) = &mut self.current else { return Ok(false) };
            let failed =
                |source| ReadError::Io { line: current.line + 1, path: current.path.clone(), source };
            let found = current.lines.next().map_err(failed)?;
            match found {
                Found::Line | Found::TooLong => {
                    current.line += 1;
                    if current.first == 0 {
                        // What is no line of ours in the first place has no number; any will do.
                        current.first = line::number(current.lines.text()).unwrap_or(self.after + 1);
                    }
                    self.after = self.after.max(current.first);
                    self.seen = line::number(current.lines.text()).unwrap_or(self.seen);
                    return match found {
                        Found::Line => Ok(true),
                        _ => Err(ReadError::TooLong { line: current.line, path: current.path.clone() }),
                    };
                }
                Found::Partial | Found::End if current.state == State::Live => {
                    if file::is_named(Some(current.lines.file()), &self.log).map_err(failed)? {
                        return Ok(false);
                    }
                    // Set aside, or not there for a moment. Lines may have come before that: once more.
                    current.state = State::Closed;
                }
                Found::Partial => {
                    let torn = ReadError::Torn { line: current.line + 1, path: current.path.clone() };
                    self.current = None;
                    return Err(torn);
                }
                Found::End => self.current = None,
            }
        }
    }

    /// The file that comes after those already read.
    fn open_next(&self) -> io::Result<Option<Current>> {
        loop {
            let later = self.segments()?.into_iter().find(|segment| segment.first > self.after);
            if let Some(segment) = later {
                match file::open_to_read(&segment.path) {
                    // Retention was faster.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    file => return Ok(Some(Current::new(segment.path, file?, segment.first, State::Closed))),
                }
            }
            let live = match file::open_to_read(&self.log) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let first = segment::first_of(&live)?.unwrap_or(0);
            // A file that was set aside between the two looks comes before this one.
            let missed = self.segments()?.iter().any(|segment| segment.first > self.after);
            if !missed {
                return Ok(Some(Current::new(self.log.clone(), live, first, State::Live)));
            }
        }
    }

    fn segments(&self) -> io::Result<Vec<Segment>> {
        segment::list(&self.log)
    }

    /// Finds the file a position is in.
    fn begin(&mut self, position: Position) -> io::Result<()> {
        if position.first == 0 {
            if self.segments()?.is_empty() {
                file::open_to_read(&self.log)?;
            }
            return Ok(());
        }
        self.after = position.first - 1;
        let found = self.open_next()?;
        self.after = position.first;
        match found {
            Some(mut current) if current.first == position.first => {
                let end = current.lines.file().metadata()?.len();
                current.lines.seek(position.offset.min(end));
                current.line = position.line;
                self.current = Some(current);
            }
            // An empty file that goes on after it.
            Some(current) if current.first == 0 => self.current = Some(current),
            _ => self.lost = Some(position.first),
        }
        Ok(())
    }
}

impl Current {
    fn new(path: PathBuf, file: File, first: u64, state: State) -> Self {
        Self { path, lines: Lines::new(file, u64::MAX), first, line: 0, state }
    }
}
