//! The directory that holds transactions: one directory each, named by its id, for the owner alone.
//!
//! ```text
//! <store>/lock                      held for a moment while a transaction is made or cleared away
//! <store>/<id>/lock                 held by whoever works on the transaction
//! <store>/<id>/transaction.json     absent while it is being made
//! <store>/<id>/journal.json         present while a commit is under way
//! <store>/<id>/files/<n>            new contents
//! <store>/.gone-<id>/               on its way out
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::change::{Kind, Object, kind_of};
use crate::error::StoreError;
use crate::failpoint;
use crate::id::TransactionId;
use crate::journal::{JOURNAL, Journal, Phase};
use crate::place;
use crate::record::{self, Loaded, RECORD, Record, VERSION};
use crate::transaction::{State, Transaction};

pub const FILES: &str = "files";
const LOCK: &str = "lock";
/// How long a lock is waited for. A process that forks passes its locks on until the child executes its
/// program, so a lock that was just given back may seem held for a moment.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
const GONE: &str = ".gone-";
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The transactions of one user.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    directory: OwnedFd,
}

/// A transaction's directory, locked: nobody else works on it until this is dropped.
#[derive(Debug)]
pub struct Held {
    pub id: TransactionId,
    pub path: PathBuf,
    directory: OwnedFd,
    _lock: OwnedFd,
}

impl Held {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub fn files(&self) -> Result<OwnedFd, StoreError> {
        let path = self.path.join(FILES);
        rustix::fs::openat(&self.directory, FILES, DIRECTORY, Mode::empty())
            .map_err(|errno| StoreError::Read { path, source: errno.into() })
    }

    pub fn load(&self) -> Result<Loaded, StoreError> {
        load(self.fd(), &self.path)?.ok_or_else(|| StoreError::NotFound { name: self.id.to_string() })
    }

    pub fn unlink(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(StoreError::Remove { path: self.path.join(name), source: errno.into() }),
        }
    }
}

fn load(directory: BorrowedFd<'_>, path: &Path) -> Result<Option<Loaded>, StoreError> {
    let path = path.join(RECORD);
    match record::read::<Record>(directory, RECORD, path.clone())? {
        Some((record, _)) if record.version != VERSION => Err(StoreError::Version { path }),
        Some((record, file)) => Ok(Some(Loaded { record, file })),
        None => Ok(None),
    }
}

impl Store {
    /// Opens a store, making it and the directories above it for the owner alone.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let make = |source| StoreError::Make { path: path.to_owned(), source };
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(make)?;
        }
        let open = |errno: Errno| StoreError::Open { path: path.to_owned(), source: errno.into() };
        let directory = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(open)?;
        let stat = rustix::fs::fstat(&directory).map_err(open)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(StoreError::Foreign { path: path.to_owned() });
        }
        if stat.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(&directory, Mode::RWXU).map_err(open)?;
        }
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), directory }) })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.inner.directory.as_fd()
    }

    /// All transactions, the newest first. One that cannot be read is left out.
    #[must_use]
    pub fn list(&self) -> Vec<Transaction> {
        let mut ids = self.ids().unwrap_or_default();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        ids.into_iter().filter_map(|id| self.get(id).ok()).collect()
    }

    /// The transaction of this id, or of the only id that starts so.
    pub fn find(&self, name: &str) -> Result<Transaction, StoreError> {
        if let Ok(id) = name.parse() {
            return self.get(id);
        }
        let not_found = || StoreError::NotFound { name: name.to_owned() };
        let matching: Vec<_> = self
            .ids()?
            .into_iter()
            .filter(|id| !name.is_empty() && id.to_string().starts_with(name))
            .collect();
        match matching.as_slice() {
            [] => Err(not_found()),
            [id] => self.get(*id),
            several => Err(StoreError::Ambiguous { name: name.to_owned(), count: several.len() }),
        }
    }

    /// The newest open transaction that was started from a directory.
    #[must_use]
    pub fn newest_for(&self, directory: &Path) -> Option<Transaction> {
        let mut ids = self.ids().unwrap_or_default();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        ids.into_iter().filter_map(|id| self.get(id).ok()).find(|transaction| {
            transaction.state() == State::Open && transaction.origin().directory == directory
        })
    }

    fn get(&self, id: TransactionId) -> Result<Transaction, StoreError> {
        let (directory, path) = self.open_transaction(id)?;
        let not_found = || StoreError::NotFound { name: id.to_string() };
        let loaded = load(directory.as_fd(), &path)?.ok_or_else(not_found)?;
        if loaded.record.origin.id != id {
            return Err(not_found());
        }
        let journal = record::read::<Journal>(directory.as_fd(), JOURNAL, path.join(JOURNAL))?;
        let state = match journal {
            Some((journal, _))
                if journal.phase == Phase::Committing && journal.generation == loaded.record.generation =>
            {
                State::Committing
            }
            _ => State::Open,
        };
        Ok(Transaction { store: self.clone(), loaded, state })
    }

    pub(crate) fn ids(&self) -> Result<Vec<TransactionId>, StoreError> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let list = |errno: Errno| StoreError::List { path: self.path().to_owned(), source: errno.into() };
        let fresh = rustix::fs::openat(self.fd(), c".", DIRECTORY, Mode::empty()).map_err(list)?;
        let names = place::names(fresh.as_fd()).map_err(list)?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn open_transaction(&self, id: TransactionId) -> Result<(OwnedFd, PathBuf), StoreError> {
        let name = id.to_string();
        let path = self.path().join(&name);
        match rustix::fs::openat(self.fd(), &name, DIRECTORY, Mode::empty()) {
            Ok(directory) => Ok((directory, path)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Err(StoreError::NotFound { name }),
            Err(errno) => Err(StoreError::Open { path, source: errno.into() }),
        }
    }

    /// Locks a transaction, if nobody else has.
    pub(crate) fn hold(&self, id: TransactionId) -> Result<Held, StoreError> {
        let (directory, path) = self.open_transaction(id)?;
        let lock = |errno: Errno| StoreError::Lock { path: path.clone(), source: errno.into() };
        let file = match open_lock(directory.as_fd()) {
            // It was removed in the moment after it was opened.
            Err(Errno::NOENT) => return Err(StoreError::NotFound { name: id.to_string() }),
            other => other.map_err(lock)?,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if attempts < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => return Err(StoreError::Busy { id }),
                Err(errno) => return Err(lock(errno)),
            }
        }
        // Whoever had the lock before may have finished the transaction.
        let held = rustix::fs::fstat(&directory).map_err(lock)?;
        let named = place::look(self.fd(), id.to_string()).map_err(lock)?;
        if named.is_none_or(|named| !Object::of(&named).is(&Object::of(&held))) {
            return Err(StoreError::NotFound { name: id.to_string() });
        }
        Ok(Held { id, path, directory, _lock: file })
    }

    /// Makes the directory of a new transaction, locked from the first moment it can be found.
    pub(crate) fn make(&self, id: TransactionId) -> Result<Held, StoreError> {
        let _store = self.lock()?;
        let name = id.to_string();
        let path = self.path().join(&name);
        let fail = |errno: Errno| StoreError::Make { path: path.clone(), source: errno.into() };
        failpoint::step();
        rustix::fs::mkdirat(self.fd(), &name, Mode::RWXU).map_err(fail)?;
        failpoint::step();
        let held = self.hold(id)?;
        failpoint::step();
        rustix::fs::mkdirat(held.fd(), FILES, Mode::RWXU).map_err(fail)?;
        Ok(held)
    }

    /// The lock of the whole store: for the moment in which a directory exists but is not locked yet.
    pub(crate) fn lock(&self) -> Result<OwnedFd, StoreError> {
        let path = || self.path().to_owned();
        let file = open_lock(self.fd());
        let file = file.map_err(|errno| StoreError::Lock { path: path(), source: errno.into() })?;
        retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .map_err(|errno| StoreError::Lock { path: path(), source: errno.into() })?;
        Ok(file)
    }

    /// Removes a transaction: first its name, so that no half of it is ever found.
    pub(crate) fn retire(&self, held: Held) -> Result<(), StoreError> {
        let name = held.id.to_string();
        let gone = format!("{GONE}{name}");
        failpoint::step();
        rustix::fs::renameat(self.fd(), &name, self.fd(), &gone)
            .map_err(|errno| StoreError::Remove { path: held.path.clone(), source: errno.into() })?;
        self.sweep(&gone)
    }

    /// Removes what is on its way out. The lock of whoever began it does not matter any more.
    pub(crate) fn sweep_gone(&self) -> Result<(), StoreError> {
        for name in self.names()?.iter().filter(|name| name.starts_with(GONE)) {
            self.sweep(name)?;
        }
        Ok(())
    }

    fn sweep(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path().join(name);
        let fail = |errno: Errno| StoreError::Remove { path: path.clone(), source: errno.into() };
        let directory = match rustix::fs::openat(self.fd(), name, DIRECTORY, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(fail(errno)),
        };
        // Whoever looks for its lock in this very moment makes a new one: then once more.
        for _ in 0..ATTEMPTS {
            failpoint::step();
            empty(directory.as_fd()).map_err(fail)?;
            failpoint::step();
            match gone(rustix::fs::unlinkat(self.fd(), name, AtFlags::REMOVEDIR)) {
                Err(Errno::NOTEMPTY) => {}
                other => return other.map_err(fail),
            }
        }
        Err(fail(Errno::NOTEMPTY))
    }
}

/// Empties a transaction's directory: files, and directories of files.
fn empty(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let fresh = rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())?;
    for entry in place::names(fresh.as_fd())? {
        let stat = place::look(directory, entry.as_c_str())?;
        let flags = match stat.map(|stat| kind_of(&stat)) {
            Some(Kind::Directory) => {
                gone(clear(directory, entry.as_c_str()))?;
                AtFlags::REMOVEDIR
            }
            _ => AtFlags::empty(),
        };
        gone(rustix::fs::unlinkat(directory, entry.as_c_str(), flags))?;
        failpoint::step();
    }
    Ok(())
}

/// Two processes may sweep at once: what is gone already is as it should be.
fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Empties a directory that holds no directories.
pub fn clear<P: rustix::path::Arg>(parent: BorrowedFd<'_>, name: P) -> Result<(), Errno> {
    let directory = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?;
    for entry in place::names(directory.as_fd())? {
        gone(rustix::fs::unlinkat(&directory, entry.as_c_str(), AtFlags::empty()))?;
    }
    Ok(())
}

fn open_lock(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(directory, LOCK, flags, Mode::RUSR | Mode::WUSR))
}

/// For errors of the record, which come from the standard library.
pub fn write_error(path: PathBuf) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Write { path, source }
}
