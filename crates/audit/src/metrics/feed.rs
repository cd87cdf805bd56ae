//! From the log to the tally: reads what is new, also when the log is made later, set aside, replaced or cut off.

use std::io;
use std::path::{Path, PathBuf};

use super::Tally;
use crate::reader::ReadError;

/// Is everything read that is there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// A log that is read bit by bit.
#[derive(Debug)]
pub struct Feed {
    path: PathBuf,
    events: Option<events::Events>,
    /// Number and time of the newest event that was counted. A log that was replaced by a copy of itself, or cut
    /// off, is read again, and what is not newer than this is passed over.
    newest: (u64, u64),
}

impl Feed {
    /// Nothing is read yet; the log need not exist.
    #[must_use]
    pub fn new(path: &Path) -> Feed {
        Feed { path: path.to_owned(), events: None, newest: (0, 0) }
    }

    /// Counts what is new, at most so many lines.
    pub fn read(&mut self, tally: &mut Tally, at_most: usize) -> Result<Progress, ReadError> {
        let mut left = at_most;
        // What was written into the file that is open before another took its name comes first.
        if self.drain(tally, &mut left)? == Progress::More {
            return Ok(Progress::More);
        }
        let stale = self.events.as_ref().is_none_or(|events| events.is_stale(&self.path));
        if !stale {
            return Ok(Progress::Done);
        }
        self.events = match events::Events::open(&self.path) {
            Err(ReadError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            other => Some(other?),
        };
        self.drain(tally, &mut left)
    }

    fn drain(&mut self, tally: &mut Tally, left: &mut usize) -> Result<Progress, ReadError> {
        let Some(events) = &mut self.events else { return Ok(Progress::Done) };
        loop {
            if *left == 0 {
                return Ok(Progress::More);
            }
            *left -= 1;
            match events.next() {
                None => return Ok(Progress::Done),
                Some(Ok(event)) => {
                    let (seq, timestamp) = self.newest;
                    if event.seq > seq || event.timestamp > timestamp {
                        self.newest = (event.seq, event.timestamp.max(timestamp));
                        tally.count(&event);
                    }
                }
                Some(Err(error @ (ReadError::Io { .. } | ReadError::Open { .. }))) => {
                    self.events = None;
                    return Err(error);
                }
                Some(Err(_)) => tally.bad_line(),
            }
        }
    }
}

/// Which reader it is: the only place that knows.
mod events {
    use std::fs;
    use std::path::Path;

    use crate::event::Event;
    use crate::follow::Follow;
    use crate::reader::ReadError;

    #[derive(Debug)]
    pub struct Events(Follow);

    impl Events {
        pub fn open(path: &Path) -> Result<Events, ReadError> {
            Follow::open(path).map(Events)
        }

        /// Rotation is followed; a file that has become shorter than what was read of it is not.
        pub fn is_stale(&self, path: &Path) -> bool {
            let position = self.0.position();
            let read = if position.line == 0 { 0 } else { position.offset };
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.len() < read)
        }

        pub fn next(&mut self) -> Option<Result<Event, ReadError>> {
            self.0.next()
        }
    }
}
