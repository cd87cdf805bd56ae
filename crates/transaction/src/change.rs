//! One difference between the sandbox's tree and the host's, as data.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{encode, persistence};

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    Created,
    Modified,
    Deleted,
    ModeChanged,
    /// A file became a directory, a directory a link, and so on.
    TypeChanged,
}

/// The new object behind a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub enum Node {
    File {
        size: u64,
        /// The number of the kept content; none where the content is the host's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<u32>,
        /// The number of another name's content that is the same file: they are hard links.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        same: Option<u32>,
    },
    Directory,
    Symlink {
        #[serde(with = "encode::path")]
        target: PathBuf,
    },
    Fifo,
    /// A device or a socket: never applied.
    Special,
}

/// The kind of an object on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Other,
}

/// A time of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        encode::time::write((self.seconds, self.nanoseconds), serializer)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, nanoseconds) = encode::time::read(deserializer)?;
        Ok(Self { seconds, nanoseconds })
    }
}

/// An object of the host, as it was when the changes were collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    pub kind: Kind,
    pub device: u64,
    pub inode: u64,
    pub changed: Stamp,
    pub modified: Stamp,
    pub size: u64,
    pub mode: u32,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
}

impl Object {
    #[expect(clippy::unnecessary_cast, reason = "the fields differ in width between architectures")]
    pub(crate) fn of(stat: &Stat) -> Self {
        let stamp = |seconds, nanoseconds| Stamp { seconds, nanoseconds };
        Object {
            kind: kind_of(stat),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            changed: stamp(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            modified: stamp(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode as u32 & 0o7777,
            links: stat.st_nlink as u64,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }

    pub(crate) fn is(&self, other: &Object) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

pub(crate) fn kind_of(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        _ => Kind::Other,
    }
}

/// What the host had under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Base {
    Absent,
    Present(Object),
}

impl Base {
    pub(crate) fn object(&self) -> Option<&Object> {
        match self {
            Base::Absent => None,
            Base::Present(object) => Some(object),
        }
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.object().map(|object| object.kind)
    }
}

/// Why the host's object is not what the change was made to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Conflict {
    /// It was changed on the host while the sandbox ran.
    ChangedDuringRun,
    /// It was changed on the host after the sandbox ended.
    Changed,
    /// Something has this name now, where nothing had.
    Appeared,
    /// Nothing has this name any more.
    Gone,
    /// Another object has this name now.
    Replaced,
    /// The directory to be deleted has something in it that the sandbox never saw.
    NotEmpty,
    /// The directory it belongs into is not the one it was, or could not be made.
    Parent,
    /// The host refused: the system's message.
    Failed(String),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conflict::ChangedDuringRun => "changed on the host while the sandbox ran",
            Conflict::Changed => "changed on the host since",
            Conflict::Appeared => "appeared on the host since",
            Conflict::Gone => "deleted on the host since",
            Conflict::Replaced => "replaced on the host since",
            Conflict::NotEmpty => "holds something on the host that the sandbox never saw",
            Conflict::Parent => "its directory on the host is not the one it was",
            Conflict::Failed(message) => return write!(f, "the host refused: {message}"),
        })
    }
}

/// A conflict and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clash {
    #[serde(with = "encode::path")]
    pub path: PathBuf,
    pub conflict: Conflict,
}

/// Why a change will never be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    Device,
    Socket,
    /// The link leads out of the tree, or could through another link.
    LinkLeavesTree,
    /// All that was new was a set-user-id, set-group-id or sticky bit.
    OnlyPrivilege,
    /// Deeper than any directory is followed.
    TooDeep,
    /// Another filesystem is mounted there on the host; the sandbox saw what is underneath.
    OtherMount,
    /// A name that a commit uses for itself.
    Reserved,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Device => "a device node",
            Refusal::Socket => "a socket",
            Refusal::LinkLeavesTree => "a link that leads out of the directory",
            Refusal::OnlyPrivilege => "only adds set-user-id, set-group-id or sticky bits",
            Refusal::TooDeep => "nested too deep",
            Refusal::OtherMount => "another filesystem is mounted there",
            Refusal::Reserved => "a name that commits use for themselves",
        })
    }
}

/// Why something acts on the next run: one of a fixed list.
pub type Reason = &'static str;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Change {
    /// On the host, absolute.
    #[serde(with = "encode::path")]
    pub path: PathBuf,
    /// Which of the trees it is in.
    pub tree: u32,
    pub what: What,
    /// What the name stands for now; none when it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The new permissions, without those that were taken off.
    #[serde(default)]
    pub mode: u32,
    pub base: Base,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// Why this acts on the next run, if it does.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "persistence::deserialize_reason"
    )]
    pub persistence: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// The set-user-id, set-group-id and sticky bits that were taken off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stripped: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(bits: &u32) -> bool {
    *bits == 0
}

impl Change {
    pub(crate) fn makes_directory(&self) -> bool {
        matches!(self.what, What::Created | What::TypeChanged) && matches!(self.node, Some(Node::Directory))
    }

    /// Whether a directory of the host goes away.
    pub(crate) fn removes_directory(&self) -> bool {
        matches!(self.what, What::Deleted | What::TypeChanged) && self.base.kind() == Some(Kind::Directory)
    }

    /// Below the directory its tree is resolved from.
    pub(crate) fn below(&self, directory: &Path) -> PathBuf {
        self.path.strip_prefix(directory).map(Path::to_owned).unwrap_or_default()
    }
}

/// All differences: a directory always before what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changes(pub Vec<Change>);

impl Changes {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Change> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Changes {
    type Item = &'a Change;
    type IntoIter = std::slice::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
