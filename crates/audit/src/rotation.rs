//! Setting a log aside when it has become large, and going on in a new file.
//!
//! It is one `rename` under the log's lock; nothing is copied and nothing else has to happen. Whoever finds
//! the log absent makes a new one, and whoever finds it empty beside segments goes on from the last line of
//! the newest. A process killed at any moment therefore leaves either the old state or the new one. Whoever
//! has the old file open notices under its lock that the name leads elsewhere.

use std::num::{NonZeroU32, NonZeroU64};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::event::{EventKind, NewEvent};
use crate::log::{AuditError, Log, Tail, line_start};
use crate::segment::{self, Segment};
use crate::{file, line};

/// When a log is set aside by itself, and how many files of the past are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// From this size in bytes on.
    pub at: Option<NonZeroU64>,
    /// So many segments are kept; without a number, all.
    pub keep: Option<NonZeroU32>,
}

impl Rotation {
    pub const NEVER: Rotation = Rotation { at: None, keep: None };
}

/// At 64 MiB, and everything is kept.
impl Default for Rotation {
    fn default() -> Self {
        Rotation { at: NonZeroU64::new(64 << 20), keep: None }
    }
}

/// What a rotation by hand came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    /// The file that was written until now.
    To(PathBuf),
    /// There is no line yet that could be set aside.
    NothingToDo,
}

/// What the name of a log leads to, compared with the file that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Live,
    /// To another file, or to none while this one has another name.
    Moved,
    Deleted,
}

/// The end of the newest segment, for a new file to go on from.
pub(crate) struct Continued {
    pub tail: Tail,
    /// The first line of the new file.
    pub event: NewEvent,
    pub expired: Vec<Segment>,
}

impl Log {
    pub(crate) fn standing(&self, file: &OwnedFd) -> Result<Standing, AuditError> {
        let own = rustix::fs::fstat(file).map_err(|errno| self.read_error(errno))?;
        match retry_on_intr(|| rustix::fs::lstat(self.path())) {
            Ok(named) if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) => Ok(Standing::Live),
            Ok(_) => Ok(Standing::Moved),
            Err(Errno::NOENT) if own.st_nlink == 0 => Ok(Standing::Deleted),
            Err(Errno::NOENT) => Ok(Standing::Moved),
            Err(errno) => Err(self.read_error(errno)),
        }
    }

    /// Renames the locked file. Nothing is written to it from here on, by anybody.
    pub(crate) fn set_aside(&self, file: &OwnedFd) -> Result<PathBuf, AuditError> {
        let first = segment::first_of(file)
            .map_err(|source| AuditError::Read { path: self.path().to_owned(), source })?;
        let Some(first) = first else {
            return Err(AuditError::Broken {
                path: self.path().to_owned(),
                what: "its first line is not a log line",
            });
        };
        let to = segment::path_of(self.path(), first);
        let failed = |errno: Errno| AuditError::SetAside {
            path: self.path().to_owned(),
            to: to.clone(),
            source: errno.into(),
        };
        // After a crash of the machine lines may be missing at the end, but not in the middle.
        retry_on_intr(|| rustix::fs::fdatasync(file)).map_err(failed)?;
        match rename_to_new(self.path(), &to) {
            // Not every filesystem can refuse to replace. Nobody else renames while this is locked.
            Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => rustix::fs::rename(self.path(), &to),
            other => other,
        }
        .map_err(failed)?;
        Ok(to)
    }

    /// Whether a log holds nothing but the line that says where it goes on from.
    pub(crate) fn is_fresh(&self, file: &OwnedFd, tail: &Tail) -> Result<bool, AuditError> {
        let first = segment::first_of(file)
            .map_err(|source| AuditError::Read { path: self.path().to_owned(), source })?;
        Ok(first == Some(tail.seq) && tail.seq > 1)
    }

    /// Where an empty log goes on: after the last line of the newest segment.
    pub(crate) fn continued(&self) -> Result<Option<Continued>, AuditError> {
        let read = |source| AuditError::Read { path: self.path().to_owned(), source };
        let segments = segment::list(self.path()).map_err(read)?;
        let keep = self.rotation().keep.map_or(usize::MAX, |keep| keep.get() as usize);
        for newest in segments.iter().rev() {
            let Some(mut tail) = self.end_of(newest)? else { continue };
            tail.end = 0;
            let (expired, kept) = segments.split_at(segments.len().saturating_sub(keep));
            let oldest = kept.first().map_or(newest.first, |segment| segment.first);
            let event = NewEvent::new(EventKind::LogRotated, "")
                .with("previous", newest.name())
                .with("previousFirst", newest.first)
                .with("previousLast", tail.seq)
                .with("oldestKept", oldest)
                .with("removed", expired.len());
            return Ok(Some(Continued { tail, event, expired: expired.to_vec() }));
        }
        Ok(None)
    }

    fn end_of(&self, segment: &Segment) -> Result<Option<Tail>, AuditError> {
        let open = |errno: Errno| AuditError::Open { path: segment.path.clone(), source: errno.into() };
        let Some(fd) = file::open(&segment.path, OFlags::RDONLY).map_err(open)? else {
            return Err(AuditError::NotRegular { path: segment.path.clone() });
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| self.read_error(errno))?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if line_start(&fd, size).map_err(|errno| self.read_error(errno))? != size {
            return Err(AuditError::Broken { path: segment.path.clone(), what: "torn off" });
        }
        self.last_line(&segment.path, &fd, size)
    }
}

fn rename_to_new(from: &Path, to: &Path) -> Result<(), Errno> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    retry_on_intr(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE))
}

/// What the first line of a file says about the files before it.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Beginning {
    pub oldest_kept: u64,
}

impl Beginning {
    /// Of a line that passed [`line::link`].
    pub fn of(text: &[u8], link: &line::Link<'_>) -> Option<Beginning> {
        #[derive(serde::Deserialize)]
        struct Line {
            details: Beginning,
        }
        if link.event != EventKind::LogRotated.name() {
            return None;
        }
        serde_json::from_slice::<Line>(text).ok().map(|line| line.details)
    }
}
