//! The append side of a log: one lock, one write, and a chain that continues from whatever the file ends with.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::clean::{self, Clean};
use crate::event::{Event, EventKind, NewEvent};
use crate::file::{self, Lock};
use crate::head;
use crate::line::{self, BadLine, MAX_LINE, ZERO_HASH};
use crate::rotation::{Rotated, Rotation, Standing};
use crate::segment::Segment;

/// Why an event could not be recorded. Nothing of it is in the log then.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("cannot make the directory of the audit log {path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot open the audit log {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} is not a regular file and cannot be an audit log")]
    NotRegular { path: PathBuf },
    #[error("cannot lock the audit log {path}: {source}")]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot read the end of the audit log {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write to the audit log {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("only {written} of {wanted} bytes could be written to the audit log {path}")]
    Short { path: PathBuf, written: usize, wanted: usize },
    #[error("a failed write could not be taken back from the audit log {path}: {source}")]
    Rollback { path: PathBuf, source: io::Error },
    #[error("the last line of the audit log {path} is damaged ({what}), so the log is not extended")]
    Broken { path: PathBuf, what: &'static str },
    #[error("the audit log {path} was deleted while it was open")]
    Gone { path: PathBuf },
    #[error("the audit log {path} cannot be set aside as {to}: {source}")]
    SetAside { path: PathBuf, to: PathBuf, source: io::Error },
    #[error("the audit log {path} was opened by another process; open it again after a fork")]
    Forked { path: PathBuf },
    #[error("an event cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

/// A log open for appending. Threads may share one; processes open their own.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    pid: u32,
    rotation: Rotation,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: OwnedFd,
    head: Option<OwnedFd>,
    tail: Option<Tail>,
    rotating: Rotating,
}

/// Whether a log that has become too large is still tried to be set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rotating {
    Works,
    /// It failed once; it was told, and this log goes on in the same file.
    Failed,
}

/// Where the file ends and what the last line of the log is.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub end: u64,
    pub seq: u64,
    pub hash: String,
}

/// What an append came to.
enum Step {
    Done(Vec<Event>),
    /// The file is no longer the one that is written: to be tried again with the one that is.
    Moved,
}

/// Others may rotate as often while this one waits for its turn; more than that is no rotation.
const ATTEMPTS: usize = 1000;

impl Log {
    /// Opens a log, making it and the directories above it for the owner alone. It never rotates by itself:
    /// see [`Log::rotating`].
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        // It is looked up again after a rotation, maybe from another working directory.
        let path =
            std::path::absolute(path).map_err(|source| AuditError::Open { path: path.to_owned(), source })?;
        file::make_parent(&path).map_err(|source| AuditError::Directory { path: path.clone(), source })?;
        let file = open_file(&path)?;
        let inner = Mutex::new(Inner { file, head: None, tail: None, rotating: Rotating::Works });
        Ok(Self { path, pid: std::process::id(), rotation: Rotation::NEVER, inner })
    }

    /// From when on the log is set aside, and how much is kept.
    #[must_use]
    pub fn rotating(self, rotation: Rotation) -> Self {
        Self { rotation, ..self }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// Records one event and returns it as it stands in the log.
    pub fn append(&self, event: &NewEvent) -> Result<Event, AuditError> {
        let mut events = self.append_all(std::slice::from_ref(event))?;
        events.pop().ok_or_else(|| self.write_error(Errno::IO))
    }

    /// Records several events next to each other: all of them, or none.
    pub fn append_all(&self, events: &[NewEvent]) -> Result<Vec<Event>, AuditError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let mut inner = self.enter()?;
        for _ in 0..ATTEMPTS {
            match self.try_append(&mut inner, events)? {
                Step::Done(written) => return Ok(written),
                Step::Moved => self.reopen(&mut inner)?,
            }
        }
        Err(AuditError::Gone { path: self.path.clone() })
    }

    /// Sets the file aside now, whatever its size, and begins a new one that goes on where it ends.
    pub fn rotate(&self) -> Result<Rotated, AuditError> {
        let mut inner = self.enter()?;
        let segment = loop {
            let Inner { file, head, .. } = &mut *inner;
            let head = self.head(head)?;
            let lock = self.lock(file)?;
            if self.standing(file)? == Standing::Live {
                let size = self.size(file)?;
                let Recovered { tail, first: alerts, .. } = self.recover(file, head, size)?;
                if !alerts.is_empty() {
                    // What was found is recorded before anything is moved.
                    drop(lock);
                    self.try_append(&mut inner, &[])?;
                    continue;
                }
                if tail.end == 0 || self.is_fresh(file, &tail)? {
                    return Ok(Rotated::NothingToDo);
                }
                break self.set_aside(file)?;
            }
            drop(lock);
            self.reopen(&mut inner)?;
        };
        self.reopen(&mut inner)?;
        while let Step::Moved = self.try_append(&mut inner, &[])? {
            self.reopen(&mut inner)?;
        }
        Ok(Rotated::To(segment))
    }

    fn enter(&self) -> Result<MutexGuard<'_, Inner>, AuditError> {
        // A forked child shares the open file and so the lock: it would not keep its parent out.
        if self.pid != std::process::id() {
            return Err(AuditError::Forked { path: self.path.clone() });
        }
        Ok(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_append(&self, inner: &mut Inner, events: &[NewEvent]) -> Result<Step, AuditError> {
        let mut wanted = events.iter().map(clean::clean).collect::<Result<Vec<_>, _>>()?;
        let Inner { file, head, tail: cached, rotating } = inner;
        let head = self.head(head)?;
        let _lock = self.lock(file)?;
        match self.standing(file)? {
            Standing::Live => {}
            Standing::Moved => return Ok(Step::Moved),
            Standing::Deleted => return Err(AuditError::Gone { path: self.path.clone() }),
        }
        let size = self.size(file)?;
        let mut expired = Vec::new();
        let mut tail = match cached.take() {
            Some(tail) if tail.end == size => tail,
            _ => {
                let recovered = self.recover(file, head, size)?;
                wanted.splice(0..0, recovered.first);
                expired = recovered.expired;
                recovered.tail
            }
        };
        let due = self.rotation.at.is_some_and(|at| tail.end >= at.get());
        if due && wanted.len() == events.len() && *rotating == Rotating::Works {
            match self.set_aside(file) {
                Ok(_) => return Ok(Step::Moved),
                Err(error) => {
                    *rotating = Rotating::Failed;
                    let alert = NewEvent::new(EventKind::SecurityAlert, "")
                        .with("description", "the audit log is too large and could not be set aside")
                        .with("error", error.to_string());
                    wanted.insert(0, clean::clean(&alert)?);
                }
            }
        }
        if wanted.is_empty() {
            return Ok(Step::Done(Vec::new()));
        }
        let added = wanted.len().saturating_sub(events.len());
        let old_end = tail.end;
        let mut bytes = Vec::with_capacity(wanted.len() * 512);
        let mut written = compose(&mut bytes, &mut tail, wanted);
        self.write(file, head, &bytes, &tail)
            .or_else(|error| self.roll_back(file, old_end).and(Err(error)))?;
        *cached = Some(tail);
        // That they go is in the log now. What cannot be removed is tried again at the next rotation.
        expired.iter().for_each(|segment| drop(std::fs::remove_file(&segment.path)));
        Ok(Step::Done(written.split_off(added.min(written.len()))))
    }

    fn lock<'a>(&self, file: &'a OwnedFd) -> Result<Lock<'a, OwnedFd>, AuditError> {
        Lock::exclusive(file)
            .map_err(|errno| AuditError::Lock { path: self.path.clone(), source: errno.into() })
    }

    fn size(&self, file: &OwnedFd) -> Result<u64, AuditError> {
        let stat = rustix::fs::fstat(file).map_err(|errno| self.read_error(errno))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn head<'a>(&self, head: &'a mut Option<OwnedFd>) -> Result<&'a OwnedFd, AuditError> {
        match head {
            Some(head) => Ok(head),
            None => Ok(head.insert(self.open_head()?)),
        }
    }

    fn reopen(&self, inner: &mut Inner) -> Result<(), AuditError> {
        inner.file = open_file(&self.path)?;
        inner.tail = None;
        Ok(())
    }

    /// One write of all lines, then the head.
    fn write(&self, file: &OwnedFd, head: &OwnedFd, bytes: &[u8], tail: &Tail) -> Result<(), AuditError> {
        let n = retry_on_intr(|| rustix::io::write(file, bytes)).map_err(|errno| self.write_error(errno))?;
        if n != bytes.len() {
            return Err(AuditError::Short { path: self.path.clone(), written: n, wanted: bytes.len() });
        }
        head::write(head, tail.seq, &tail.hash).map_err(|errno| self.write_error(errno))
    }

    fn roll_back(&self, file: &OwnedFd, end: u64) -> Result<(), AuditError> {
        retry_on_intr(|| rustix::fs::ftruncate(file, end))
            .map_err(|errno| AuditError::Rollback { path: self.path.clone(), source: errno.into() })
    }

    fn open_head(&self) -> Result<OwnedFd, AuditError> {
        let path = head::path_of(&self.path);
        match head::open(&self.path) {
            Ok(Some(head)) => Ok(head),
            Ok(None) => Err(AuditError::NotRegular { path }),
            Err(errno) => Err(AuditError::Open { path, source: errno.into() }),
        }
    }

    /// Finds the last line of the log in a file of `size` bytes, removes a torn one after it, and says what to
    /// record about the state the file was found in.
    fn recover(&self, file: &OwnedFd, head: &OwnedFd, size: u64) -> Result<Recovered, AuditError> {
        let mut first = Vec::new();
        let mut expired = Vec::new();
        let end = line_start(file, size).map_err(|errno| self.read_error(errno))?;
        let tail = match self.last_line(&self.path, file, end)? {
            Some(tail) => tail,
            None => match self.continued()? {
                Some(continued) => {
                    first.push(clean::clean(&continued.event)?);
                    expired = continued.expired;
                    continued.tail
                }
                None => Tail { end: 0, seq: 0, hash: ZERO_HASH.to_owned() },
            },
        };
        if end < size {
            self.roll_back(file, end)?;
            let alert = NewEvent::new(EventKind::SecurityAlert, "").with("recovered", "torn line");
            first.push(clean::clean(&alert.with("bytes", size - end))?);
        }
        if let head::State::Known(head) = head::read(head).map_err(|errno| self.read_error(errno))? {
            let cut = head.seq > tail.seq;
            if cut || (head.seq == tail.seq && head.hash != tail.hash) {
                let what = if cut { "lines missing at the end" } else { "last line replaced" };
                let alert = NewEvent::new(EventKind::SecurityAlert, "").with("found", what);
                let alert = alert.with("lastLine", tail.seq).with("recordedLine", head.seq);
                first.push(clean::clean(&alert.with("recordedHash", head.hash))?);
            }
        }
        Ok(Recovered { tail, first, expired })
    }

    /// The last of the lines in the first `end` bytes of a file, if there are any.
    pub(crate) fn last_line(
        &self,
        path: &Path,
        file: &OwnedFd,
        end: u64,
    ) -> Result<Option<Tail>, AuditError> {
        let Some(stop) = end.checked_sub(1) else { return Ok(None) };
        let broken = |what| AuditError::Broken { path: path.to_owned(), what };
        let start = line_start(file, stop).map_err(|errno| self.read_error(errno))?;
        let length = usize::try_from(stop - start).unwrap_or(usize::MAX);
        if length >= MAX_LINE {
            return Err(broken("too long"));
        }
        let mut text = vec![0; length];
        let n = file::read_at(file, &mut text, start).map_err(|errno| self.read_error(errno))?;
        match line::link(text.get(..n).unwrap_or_default()) {
            Ok(link) => Ok(Some(Tail { end, seq: link.seq, hash: link.hash.to_owned() })),
            Err(BadLine::Form) => Err(broken("not a log line")),
            Err(BadLine::Content) => Err(broken("its content was changed")),
        }
    }

    pub(crate) fn read_error(&self, errno: Errno) -> AuditError {
        AuditError::Read { path: self.path.clone(), source: errno.into() }
    }

    fn write_error(&self, errno: Errno) -> AuditError {
        AuditError::Write { path: self.path.clone(), source: errno.into() }
    }
}

/// How a log was found before the first append.
struct Recovered {
    tail: Tail,
    /// What is to be recorded before anything else.
    first: Vec<Clean>,
    /// Segments beyond what is kept, to be removed when that is recorded.
    expired: Vec<Segment>,
}

fn open_file(path: &Path) -> Result<OwnedFd, AuditError> {
    match file::open(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(AuditError::NotRegular { path: path.to_owned() }),
        Err(errno) => Err(AuditError::Open { path: path.to_owned(), source: errno.into() }),
    }
}

/// Gives events their place in the chain, and moves `tail` to the last of them.
fn compose(bytes: &mut Vec<u8>, tail: &mut Tail, events: Vec<Clean>) -> Vec<Event> {
    let now = jiff::Timestamp::now();
    let timestamp = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let time = format!("{now:.3}");
    let start = bytes.len();
    let end = tail.end;
    let compose_one = |clean: Clean| {
        let mut event = Event {
            seq: tail.seq + 1,
            event_id: uuid::Uuid::now_v7().to_string(),
            sandbox_id: clean.sandbox_id,
            timestamp,
            time: time.clone(),
            event: clean.kind,
            details: clean.details,
            prev: std::mem::take(&mut tail.hash),
            hash: String::new(),
        };
        line::write(bytes, &mut event, &clean.sandbox_json, &clean.details_json);
        tail.seq = event.seq;
        tail.hash.clone_from(&event.hash);
        tail.end = end + (bytes.len() - start) as u64;
        event
    };
    events.into_iter().map(compose_one).collect()
}

/// The offset after the last newline in the first `end` bytes, looked for backwards.
pub(crate) fn line_start(file: &OwnedFd, end: u64) -> Result<u64, Errno> {
    const CHUNK: usize = 4096;
    let mut chunk = [0; CHUNK];
    let mut upto = end;
    while upto > 0 {
        let from = upto.saturating_sub(CHUNK as u64);
        let want = usize::try_from(upto - from).unwrap_or(CHUNK);
        let buffer = chunk.get_mut(..want).ok_or(Errno::INVAL)?;
        let n = file::read_at(file, buffer, from)?;
        if let Some(at) = buffer.get(..n).and_then(|read| read.iter().rposition(|byte| *byte == b'\n')) {
            return Ok(from + at as u64 + 1);
        }
        upto = from;
    }
    Ok(0)
}
