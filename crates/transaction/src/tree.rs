//! A writable directory or file of a sandbox: where it is on the host and where its private copy is.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::encode;

/// What the root of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TreeKind {
    Directory,
    /// One file: `upper` is a directory that holds the private copy under the name `file`.
    File,
}

/// The name of the private copy in the upper directory of a [`TreeKind::File`].
pub(crate) const FILE_COPY: &str = "file";

/// One writable directory of a sandbox, or one writable file.
#[derive(Debug)]
pub struct Tree {
    /// On the host; absolute and canonical.
    pub root: PathBuf,
    /// The upper directory of the overlay.
    pub upper: OwnedFd,
    pub kind: TreeKind,
    /// Set when root launched the sandbox: what is applied belongs to these, unless it replaces a file of
    /// the host; then it belongs to whom that belonged.
    pub owner: Option<(u32, u32)>,
}

/// What is remembered of a tree after its upper directory is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ground {
    #[serde(with = "encode::path")]
    pub root: PathBuf,
    pub kind: TreeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// Which directory it was: another one at the same path is not the place these changes were made for.
    pub device: u64,
    pub inode: u64,
}

/// The directory changes are resolved from: the root, or the directory a single file is in.
pub fn directory_of(root: &Path, kind: TreeKind) -> &Path {
    match kind {
        TreeKind::Directory => root,
        TreeKind::File => root.parent().unwrap_or(root),
    }
}

impl Ground {
    pub fn directory(&self) -> &Path {
        directory_of(&self.root, self.kind)
    }
}
