//! Where the proxy asks: writes a question, looks for its answer, and cleans up after both.
//!
//! ```text
//! let desk = Desk::open(&directory)?.for_session(id).waiting(timeout);
//! let ticket = desk.ask(&question)?;          // an error denies
//! loop {
//!     // wait for desk.wake_fd() to become readable, at most Desk::PATIENCE
//!     desk.clear_wake();
//!     if let Some(answer) = desk.look(&ticket) { break }
//! }
//! ```
//!
//! A ticket that is dropped withdraws its question, so that a call which the client cancelled leaves nothing.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::inotify,
    io::Errno,
};
use thiserror::Error;

use super::{
    context,
    directory::{DirectoryError, FileTrouble, PrivateDirectory},
    presence::Presence,
    request::{MOST, Question, QuestionId, Request, WriteError},
    response::{self, Answer, Asked, Denial},
};

/// So many questions can be open: more of them nobody reads, and a flood would hide the one that matters.
const MOST_OPEN: usize = 64;
/// A front end that does not write by renaming has so many seconds to finish.
const STILL_WRITING: i64 = 1;
/// A temporary file this old, in seconds, has lost its writer.
const FORGOTTEN: i64 = 60;

/// How long a question waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout(Duration);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0:?} is no time to wait for an answer: 1 s to 1 h")]
pub struct BadTimeout(Duration);

impl Timeout {
    pub fn new(time: Duration) -> Result<Timeout, BadTimeout> {
        let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
        if allowed.contains(&time) { Ok(Timeout(time)) } else { Err(BadTimeout(time)) }
    }

    pub fn duration(self) -> Duration {
        self.0
    }
}

impl Default for Timeout {
    fn default() -> Timeout {
        Timeout(Duration::from_secs(300))
    }
}

#[derive(Debug, Error)]
pub enum DeskError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Why a question could not be asked. The call is to be denied.
#[derive(Debug, Error)]
pub enum AskError {
    #[error("{MOST_OPEN} questions are waiting for an answer already: answer some of them first")]
    TooMany,
    #[error("the question cannot be written down: {0}")]
    Unwritable(#[from] WriteError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("the question cannot be written to {directory}: {source}")]
    Write { directory: String, source: Errno },
}

#[derive(Debug)]
struct Counter {
    directory: PrivateDirectory,
    open: AtomicUsize,
}

impl Counter {
    /// The question first: whoever sees a question without an answer takes it for open.
    fn remove(&self, id: &QuestionId) {
        self.directory.remove(&id.request_file());
        self.directory.remove(&id.response_file());
    }
}

#[derive(Debug)]
pub struct Desk {
    counter: Arc<Counter>,
    watch: Option<OwnedFd>,
    session: String,
    timeout: Timeout,
}

/// A question that was asked.
#[derive(Debug)]
pub struct Ticket {
    counter: Arc<Counter>,
    id: QuestionId,
    asked: Asked,
    deadline: Instant,
    expires: Timestamp,
    answer: OnceLock<Answer>,
}

impl Desk {
    /// So often an answer should be looked for although nothing woke anybody.
    pub const PATIENCE: Duration = Duration::from_millis(150);

    /// Makes the directory if it is missing, and clears what a proxy that was killed left in it.
    pub fn open(directory: &Path) -> Result<Desk, DeskError> {
        let directory = PrivateDirectory::ours(directory)?;
        clear(&directory)?;
        let watch = watch(&directory);
        Ok(Desk {
            counter: Arc::new(Counter { directory, open: AtomicUsize::new(0) }),
            watch,
            session: String::new(),
            timeout: Timeout::default(),
        })
    }

    /// Which session asks.
    #[must_use]
    pub fn for_session(self, id: &str) -> Desk {
        Desk { session: id.to_owned(), ..self }
    }

    /// How long its questions wait.
    #[must_use]
    pub fn waiting(self, timeout: Timeout) -> Desk {
        Desk { timeout, ..self }
    }

    /// Puts a question to whoever looks.
    pub fn ask(&self, question: &Question) -> Result<Ticket, AskError> {
        let directory = &self.counter.directory;
        directory.check_again()?;
        let request =
            Request::new(question, context::read(directory), &self.session, self.timeout.duration())?;
        let (text, digest) = request.write()?;
        let counted = self
            .counter
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < MOST_OPEN).then_some(open + 1));
        if counted.is_err() {
            return Err(AskError::TooMany);
        }
        // From here on the ticket gives the place back.
        let ticket = Ticket {
            counter: Arc::clone(&self.counter),
            id: request.escalation_id.clone(),
            asked: Asked { digest, candidates: question.candidates.len() },
            deadline: Instant::now() + self.timeout.duration(),
            expires: request.expires_at,
            answer: OnceLock::new(),
        };
        // Nobody can have answered what was not asked yet.
        directory.remove(&ticket.id.response_file());
        directory.put_new(&ticket.id.request_file(), text.as_bytes()).map_err(|source| AskError::Write {
            directory: directory.path().display().to_string(),
            source,
        })?;
        Ok(ticket)
    }

    /// The answer, once there is one; from then on always the same. Both files are gone then.
    pub fn look(&self, ticket: &Ticket) -> Option<Answer> {
        if let Some(answer) = ticket.answer.get() {
            return Some(answer.clone());
        }
        let answer = ticket.find_answer()?;
        self.counter.remove(&ticket.id);
        Some(ticket.answer.get_or_init(|| answer).clone())
    }

    /// Looks until there is an answer, for programs that have nothing else to do.
    pub fn wait(&self, ticket: &Ticket) -> Answer {
        loop {
            self.clear_wake();
            if let Some(answer) = self.look(ticket) {
                return answer;
            }
            let patience = Desk::PATIENCE.min(ticket.time_left()).max(Duration::from_millis(1));
            match (self.wake_fd(), Timespec::try_from(patience)) {
                (Some(fd), Ok(patience)) => {
                    let _ = rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience));
                }
                _ => std::thread::sleep(patience),
            }
        }
    }

    /// The client does not want the call any more.
    pub fn withdraw(&self, ticket: Ticket) {
        drop(ticket);
    }

    /// Becomes readable when something came into the directory. `None` where the kernel gives no more of these:
    /// then look every [`Desk::PATIENCE`].
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(OwnedFd::as_fd)
    }

    /// Makes it unreadable again. To be called before looking.
    pub fn clear_wake(&self) {
        if let Some(watch) = &self.watch {
            let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
            while matches!(rustix::io::read(watch, &mut buffer), Ok((filled, _)) if !filled.is_empty()) {}
        }
    }
}

impl Ticket {
    pub fn id(&self) -> &QuestionId {
        &self.id
    }

    /// What identifies the question as it was shown.
    pub fn digest(&self) -> &str {
        &self.asked.digest
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn find_answer(&self) -> Option<Answer> {
        // The monotonic clock stands still while the host sleeps, and the other can be set: whichever is over first.
        if Instant::now() >= self.deadline || Timestamp::now() >= self.expires {
            return Some(Answer::TimedOut);
        }
        let directory = &self.counter.directory;
        let read = match directory.read(&self.id.response_file(), response::MOST) {
            Ok(read) => read,
            Err(FileTrouble::Missing) => return None,
            Err(trouble) => return Some(Answer::Denied(Denial::Untrusted(trouble))),
        };
        if let Err(exposed) = directory.check_again() {
            return Some(Answer::Denied(exposed.into()));
        }
        match response::judge(&read.bytes, &self.asked) {
            Ok(answer) => Some(answer),
            Err(_) if Timestamp::now().as_second() - read.changed <= STILL_WRITING => None,
            Err(cut_off) => Some(cut_off.into()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.counter.remove(&self.id);
        self.counter.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Removes questions whose asker is gone, and answers without a question. Another proxy may use the same
/// directory: its questions stay.
fn clear(directory: &PrivateDirectory) -> Result<(), DirectoryError> {
    for name in directory.names()? {
        if let Some(id) = QuestionId::of_file(&name, "request-") {
            let read = directory.read(&name, MOST).ok();
            let request = read.and_then(|read| Request::read(&read.bytes, &id).ok());
            let asked = request.is_some_and(|(request, _)| {
                request.asked_by.presence() != Presence::Gone && !request.is_expired()
            });
            if !asked {
                directory.remove(&id.request_file());
                directory.remove(&id.response_file());
            }
        } else if let Some(id) = QuestionId::of_file(&name, "response-") {
            if !directory.has(&id.request_file()) {
                directory.remove(&name);
            }
        } else if name.ends_with(".tmp") && is_forgotten(directory, &name) {
            directory.remove(&name);
        }
    }
    Ok(())
}

fn is_forgotten(directory: &PrivateDirectory, name: &str) -> bool {
    let ours = ["request-", "response-", ".request-", ".response-"];
    ours.iter().any(|prefix| name.starts_with(prefix))
        && directory.changed(name).is_some_and(|at| Timestamp::now().as_second() - at > FORGOTTEN)
}

/// By descriptor, so that it is the same directory even if its name is not any more.
fn watch(directory: &PrivateDirectory) -> Option<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    let name = format!("/proc/self/fd/{}", directory.handle().as_raw_fd());
    let flags =
        inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::ONLYDIR;
    inotify::add_watch(&fd, name, flags).ok()?;
    Some(fd)
}

#[cfg(test)]
mod tests;
