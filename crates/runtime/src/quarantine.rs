//! The quarantine: which tools are barred, and since which attempt. One small file, replaced as a whole and
//! under a lock. When it cannot be read or understood nothing is known, and the caller refuses everything.
//! What a key stands for is the caller's decision.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::{Errno, retry_on_intr},
};
use serde::{Deserialize, Serialize};

const FILE: &str = "quarantine.json";
const LOCK: &str = "quarantine.lock";
const NEXT: &str = "quarantine.json.new";

/// Thousands of entries. Whatever is larger was not written here.
const LARGEST: u64 = 4 << 20;

/// Reasons and keys are told by what was caught: they must not fill the file.
const LONGEST_KEY: usize = 8 << 10;
const LONGEST_REASON: usize = 2 << 10;

const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// One barred tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// What is barred: a registered name, or what the caller makes of a program.
    pub key: String,
    /// When it was first barred, in milliseconds since 1970.
    pub since: u64,
    /// The sandbox of the latest attempt.
    pub sandbox_id: String,
    /// What was attempted, the latest time.
    pub reason: String,
    /// Where the evidence lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<PathBuf>,
    /// How many attempts were made.
    pub count: u64,
}

/// The file as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    entries: Vec<Entry>,
}

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    #[error("the quarantine's directory {path} cannot be made", path = path.display())]
    MakeDirectory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be opened, so nothing is known about what is barred", path = path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be read, so nothing is known about what is barred", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} is damaged: {why}. Every tool counts as barred until somebody has looked at it; move the file \
         away to begin anew",
        path = path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{path} is not safe to trust: {why}. Every tool counts as barred until this is put right",
        path = path.display()
    )]
    Untrusted { path: PathBuf, why: &'static str },
    #[error("{path} cannot be locked", path = path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be written", path = path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be replaced by its next version", path = path.display())]
    Replace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} has no room for more: release what need not be barred any longer", path = path.display())]
    Full { path: PathBuf },
    #[error("this cannot be the key of a barred tool: it is empty or longer than {LONGEST_KEY} bytes")]
    BadKey,
}

/// The store in one directory. Holds nothing open: every question is answered from the file as it is then.
#[derive(Debug, Clone)]
pub struct Quarantine {
    directory: PathBuf,
}

type Entries = BTreeMap<String, Entry>;

impl Quarantine {
    /// The store in the state directory. Nothing is touched until something is asked or changed.
    pub fn open(directory: impl Into<PathBuf>) -> Quarantine {
        Quarantine { directory: directory.into() }
    }

    /// Is this tool barred? Where nothing ever was, this is one failed open. An error means that it could not
    /// be decided: the caller refuses.
    pub fn check(&self, key: &str) -> Result<Option<Entry>, QuarantineError> {
        Ok(self.read()?.remove(key))
    }

    /// Bars a tool, on disk when this returns. An attempt by one that is barred already adds to its count and
    /// replaces what is known of the latest; `since` stays. Gives back the entry as it now is.
    pub fn add(&self, mut entry: Entry) -> Result<Entry, QuarantineError> {
        if entry.key.is_empty() || entry.key.len() > LONGEST_KEY {
            return Err(QuarantineError::BadKey);
        }
        shorten(&mut entry.reason);
        self.change(|entries| {
            if let Some(known) = entries.get(&entry.key) {
                entry.since = known.since;
                entry.count = entry.count.saturating_add(known.count);
                entry.bundle = entry.bundle.take().or_else(|| known.bundle.clone());
            }
            entries.insert(entry.key.clone(), entry.clone());
            Changed::Yes(entry)
        })
    }

    /// Lets a tool go; gives back what was known about it, or nothing when it was not barred.
    pub fn release(&self, key: &str) -> Result<Option<Entry>, QuarantineError> {
        // Where there is no file there is nothing to lock either.
        if self.read()?.is_empty() {
            return Ok(None);
        }
        self.change(|entries| match entries.remove(key) {
            Some(entry) => Changed::Yes(Some(entry)),
            None => Changed::No(None),
        })
    }

    /// Everything that is barred, by key.
    pub fn list(&self) -> Result<Vec<Entry>, QuarantineError> {
        Ok(self.read()?.into_values().collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Readers take no lock: the file is always a whole one.
    fn read(&self) -> Result<Entries, QuarantineError> {
        let path = self.path(FILE);
        let file = match retry_on_intr(|| rustix::fs::open(&path, OFlags::RDONLY | ALWAYS, Mode::empty())) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Entries::new()),
            Err(error) => return Err(QuarantineError::Open { path, source: error.into() }),
        };
        let mut text = Vec::new();
        let mut read = || -> io::Result<fs::Metadata> {
            let metadata = file.metadata()?;
            (&file).take(LARGEST + 1).read_to_end(&mut text)?;
            Ok(metadata)
        };
        let metadata = read().map_err(|source| QuarantineError::Read { path: path.clone(), source })?;
        if !metadata.is_file() {
            return Err(QuarantineError::Untrusted { path, why: "it is not a regular file" });
        }
        trust(&path, &metadata)?;
        self.trust_directory()?;
        understand(&text).map_err(|why| QuarantineError::Damaged { path, why })
    }

    /// Whoever can write the directory can exchange the file.
    fn trust_directory(&self) -> Result<(), QuarantineError> {
        let path = &self.directory;
        let metadata =
            fs::metadata(path).map_err(|source| QuarantineError::Open { path: path.clone(), source })?;
        trust(path, &metadata)
    }

    /// Reads, changes and replaces the file while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut Entries) -> Changed<T>) -> Result<T, QuarantineError> {
        let directory = &self.directory;
        if !directory.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|source| QuarantineError::MakeDirectory { path: directory.clone(), source })?;
        }
        self.trust_directory()?;
        // Given back when it is closed, at the end of this function.
        let _lock = self.lock()?;
        let mut entries = self.read()?;
        match change(&mut entries) {
            Changed::No(answer) => Ok(answer),
            Changed::Yes(answer) => {
                self.replace(entries)?;
                Ok(answer)
            }
        }
    }

    /// The lock is on a file of its own, which stays: the one it protects is a new one after each change.
    fn lock(&self) -> Result<OwnedFd, QuarantineError> {
        let path = self.path(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE | ALWAYS;
        let mode = Mode::RUSR | Mode::WUSR;
        retry_on_intr(|| rustix::fs::open(&path, flags, mode))
            .and_then(|lock| {
                retry_on_intr(|| rustix::fs::flock(lock.as_fd(), FlockOperation::LockExclusive))?;
                Ok(lock)
            })
            .map_err(|error| QuarantineError::Lock { path, source: error.into() })
    }

    fn replace(&self, entries: Entries) -> Result<(), QuarantineError> {
        let (path, next) = (self.path(FILE), self.path(NEXT));
        let document = Document { version: VERSION, entries: entries.into_values().collect() };
        let written = |source: io::Error| QuarantineError::Write { path: next.clone(), source };
        let mut text = serde_json::to_vec_pretty(&document).map_err(|error| written(error.into()))?;
        text.push(b'\n');
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST {
            return Err(QuarantineError::Full { path });
        }
        write_anew(&next, &text).map_err(written)?;
        let replaced = |source: io::Error| QuarantineError::Replace { path: path.clone(), source };
        fs::rename(&next, &path).map_err(replaced)?;
        // The new name is on disk only when its directory is.
        File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(replaced)
    }
}

/// Did a change leave something to be written?
enum Changed<T> {
    Yes(T),
    No(T),
}

fn write_anew(path: &Path, text: &[u8]) -> io::Result<()> {
    // What is there was left by somebody who was ended between writing and renaming: we hold the lock.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | ALWAYS;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text)?;
    file.sync_all()
}

fn trust(path: &Path, metadata: &fs::Metadata) -> Result<(), QuarantineError> {
    let refuse = |why| Err(QuarantineError::Untrusted { path: path.to_owned(), why });
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to somebody else");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse("others can write it");
    }
    Ok(())
}

fn understand(text: &[u8]) -> Result<Entries, String> {
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err("it is larger than 4 MiB".to_owned());
    }
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        return Err(format!("its version is {}, known is {VERSION}", document.version));
    }
    let mut entries = Entries::new();
    for entry in document.entries {
        let key = entry.key.clone();
        if entries.insert(key, entry).is_some() {
            return Err("a key occurs twice".to_owned());
        }
    }
    Ok(entries)
}

fn shorten(reason: &mut String) {
    if reason.len() > LONGEST_REASON {
        let end = (0..=LONGEST_REASON).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
        reason.truncate(end);
        reason.push('…');
    }
}

#[cfg(test)]
mod tests;
