//! A host directory, an upper directory and a store, all temporary.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::{
    Change, Changes, CommitError, CommitOptions, Committed, Origin, Persistent, Store, Transaction,
    TransactionId, Tree, TreeKind, collect,
};

pub struct Bed {
    pub path: PathBuf,
    pub root: PathBuf,
    pub upper: PathBuf,
    pub store: PathBuf,
}

impl Bed {
    pub fn new() -> Self {
        Self::with_store(&std::env::temp_dir())
    }

    /// The store somewhere else than the tree.
    pub fn with_store(elsewhere: &Path) -> Self {
        let name = format!("lazaret-transaction-{}", uuid::Uuid::now_v7());
        let path = fs::canonicalize(std::env::temp_dir()).unwrap().join(&name);
        fs::create_dir(&path).unwrap();
        let bed = Self::at(&path, &elsewhere.join(&name).join("store"));
        fs::create_dir(&bed.root).unwrap();
        fs::create_dir(&bed.upper).unwrap();
        bed
    }

    pub fn at(path: &Path, store: &Path) -> Self {
        Self { path: path.into(), root: path.join("root"), upper: path.join("upper"), store: store.into() }
    }

    pub fn host(&self, name: &str, content: &str) -> PathBuf {
        put(&self.root, name, content)
    }

    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        put(&self.upper, name, content)
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.upper.join(name)).unwrap();
        self.upper.join(name)
    }

    pub fn link(&self, target: &str, name: &str) {
        let path = self.upper.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub fn fifo(&self, name: &str) {
        rustix::fs::mknodat(CWD, self.upper.join(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
    }

    pub fn whiteout(&self, name: &str) {
        let path = self.upper.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    pub fn opaque(&self, name: &str) {
        let path = self.directory(name);
        rustix::fs::setxattr(path, "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    }

    pub fn trees(&self) -> Vec<Tree> {
        let upper = fs::File::open(&self.upper).unwrap().into();
        vec![Tree { root: self.root.clone(), upper, kind: TreeKind::Directory, owner: None }]
    }

    pub fn collect(&self) -> Changes {
        collect(&self.trees(), SystemTime::now()).unwrap()
    }

    /// What was found, as the paths below the root and the change.
    pub fn found(&self) -> BTreeMap<OsString, Change> {
        let changes = self.collect();
        let below = |change: &Change| change.path.strip_prefix(&self.root).unwrap().as_os_str().to_owned();
        let found: BTreeMap<_, _> = changes.iter().map(|change| (below(change), change.clone())).collect();
        assert_eq!(found.len(), changes.len(), "a path came twice");
        found
    }

    pub fn open_store(&self) -> Store {
        Store::open(&self.store).unwrap()
    }

    pub fn origin(&self) -> Origin {
        Origin {
            id: TransactionId::new(),
            sandbox_id: "bed".to_owned(),
            directory: self.root.clone(),
            command: vec!["true".to_owned()],
            started: SystemTime::now(),
        }
    }

    pub fn keep(&self) -> Transaction {
        let changes = self.collect();
        self.open_store().keep(self.origin(), &self.trees(), changes).unwrap()
    }

    pub fn commit(&self) -> Result<Committed, CommitError> {
        self.keep().commit(everything())
    }

    /// Everything below the host's root.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        look(&self.root, &self.root, &mut snapshot);
        snapshot
    }

    pub fn is_store_empty(&self) -> bool {
        fs::read_dir(&self.store).unwrap().all(|entry| entry.unwrap().file_name() == "lock")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::env::var_os(crate::failpoint::VARIABLE).is_none() {
            open_up(&self.path);
            let _ = fs::remove_dir_all(&self.path);
            if let Some(parent) = self.store.parent() {
                let _ = fs::remove_dir_all(parent);
            }
        }
    }
}

/// Directories that shut their owner out cannot be removed by him.
fn open_up(path: &Path) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

pub fn everything() -> CommitOptions {
    CommitOptions { persistent: Persistent::Include, ..CommitOptions::default() }
}

fn put(root: &Path, name: &str, content: &str) -> PathBuf {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

pub fn bytes(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// By path: the permissions, and the content, the link's target or a word.
pub type Snapshot = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn look(root: &Path, directory: &Path, snapshot: &mut Snapshot) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let content = if kind.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else if kind.is_dir() {
            b"directory".to_vec()
        } else if kind.is_fifo() {
            b"fifo".to_vec()
        } else if kind.is_file() && meta.len() < 1 << 20 {
            fs::read(&path).unwrap_or_else(|_| b"unreadable".to_vec())
        } else {
            b"other".to_vec()
        };
        snapshot.insert(path.strip_prefix(root).unwrap().to_owned(), (meta.mode() & 0o7777, content));
        if kind.is_dir() && fs::read_dir(&path).is_ok() {
            look(root, &path, snapshot);
        }
    }
}

/// Says aloud what was not tested; under `LAZARET_MUST_ENFORCE` that is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("LAZARET_MUST_ENFORCE").is_none(), "cannot be tested here: {why}");
    eprintln!("SKIPPED: {why}");
}
