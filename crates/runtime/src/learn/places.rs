//! What lies where in the sandbox: the host's files, writable or not, what is the sandbox's own, what is protected.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use lazaret_sandbox::spec::{Access, Entry, Sockets};

use crate::{lower::Lowered, paths::is_at_or_below};

/// Whose a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The host's, not to be changed.
    ReadOnly,
    /// The host's, writable.
    Writable,
    /// A link that was made for the sandbox, as it is on the host.
    Link,
    /// Made for the sandbox: gone at its end, and there in every other one.
    Own,
    /// Nobody's to see.
    Protected,
}

#[derive(Debug)]
pub struct Places {
    entries: HashMap<PathBuf, Place>,
    denied: Vec<PathBuf>,
    sockets: BTreeSet<PathBuf>,
}

impl Places {
    pub fn of(lowered: &Lowered) -> Places {
        let mut entries = HashMap::new();
        for entry in &lowered.spec.view {
            let (path, place) = match entry {
                Entry::Bind { path, access: Access::ReadOnly, .. } => (path.clone(), Place::ReadOnly),
                Entry::Bind { path, .. } | Entry::Hollow { path, .. } | Entry::Pin { path } => {
                    (path.clone(), Place::Writable)
                }
                // It stands for the host's, where there is no network that needs another.
                Entry::Text { path, .. } => (path.clone(), Place::ReadOnly),
                Entry::Private { path, .. } | Entry::Directory { path } => (path.clone(), Place::Own),
                Entry::Symlink { path, .. } => (path.clone(), Place::Link),
                Entry::Mask { path, .. } | Entry::Empty { path } => (path.clone(), Place::Protected),
                Entry::Proc => (PathBuf::from("/proc"), Place::Own),
                Entry::Dev => (PathBuf::from("/dev"), Place::Own),
            };
            entries.insert(path, place);
        }
        let sockets = match &lowered.spec.sockets {
            Sockets::Listed(sockets) => sockets.iter().cloned().collect(),
            // Only what is listed can be learnt to be listed.
            Sockets::All => BTreeSet::new(),
        };
        Places { entries, denied: lowered.denied.clone(), sockets }
    }

    pub fn at(&self, path: &Path) -> Place {
        if self.denied.iter().any(|denied| is_at_or_below(path, denied)) {
            return Place::Protected;
        }
        // The root itself, and the directories on the way to what is in it, are the sandbox's own.
        path.ancestors().find_map(|above| self.entries.get(above)).copied().unwrap_or(Place::Own)
    }

    /// A socket of the host that may be connected to.
    pub fn is_open_socket(&self, path: &Path) -> bool {
        self.sockets.contains(path)
    }
}
