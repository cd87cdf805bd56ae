//! What to build, as plain data. Everything is decided and resolved before a `Spec` exists; nothing in it
//! is a policy word.

use std::{net::SocketAddrV4, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{linux::bpf::Filter, pattern::Pattern};

/// A whole sandbox, with one command in it or ready for several.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    pub walls: Walls,
    pub namespaces: Namespaces,
    pub identity: Identity,
    pub hostname: String,
    /// The view, in the order in which it is put together: a later entry lies on top of an earlier one.
    pub view: Vec<Entry>,
    /// Private writable storage behind every [`Entry::Private`].
    pub scratch: Scratch,
    /// Without one, commands are given to the finished sandbox, one after the other.
    pub command: Option<Command>,
    /// Does not travel: the child gets the compiled program.
    #[serde(skip)]
    pub filter: Option<Filter>,
    /// Absolute paths, as seen inside, that do not exist and must not come into being. The filter must send
    /// every call that can create a name to the supervisor when there is one.
    #[serde(with = "paths")]
    pub guarded: Vec<PathBuf>,
    /// Names that can be read and not written. The filter must send every call that can write, create, move
    /// or remove to the supervisor when there is one.
    pub protected: Vec<Pattern>,
    /// Names that cannot be read, unless they came into being inside. The filter must send every `open` to the
    /// supervisor when there is one.
    pub hidden: Vec<Pattern>,
    pub sockets: Sockets,
    pub landlock: Landlock,
    pub limits: Limits,
    /// Limits on everything inside together.
    pub group: Group,
    /// The processors that may be used; empty for all.
    pub processors: Vec<u32>,
    pub terminal: Terminal,
    /// Without them nothing leads out of a network namespace.
    pub doors: Option<Doors>,
}

/// Which unix sockets of the host may be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sockets {
    /// These, or those in these directories.
    Listed(#[serde(with = "paths")] Vec<PathBuf>),
    /// Every one that is visible.
    All,
}

/// Where the ways out of a sandbox begin, inside. Whoever launches it serves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doors {
    /// The name server, for datagrams and streams.
    pub resolver: SocketAddrV4,
    /// HTTP and SOCKS.
    pub proxy: SocketAddrV4,
}

/// Level 0 has none: the command runs as the caller would run it, only supervised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Walls {
    Built,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// Everything: user, mount, pid, net, ipc, uts, cgroup.
    All,
    /// All but the network (level 1).
    AllButNetwork,
    /// None could be had: Landlock and seccomp stand alone.
    None,
}

/// Which host identity the command runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// An ordinary caller: the same ids inside and outside.
    Same { uid: u32, gid: u32 },
    /// The caller is root: inside it looks like root, outside it is an unprivileged id, and idmapped mounts
    /// make written files belong to the caller.
    Mapped { inside: u32, host: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    ReadOnly,
    ReadWrite,
    /// Writable inside; what is written goes into private storage, and the host's files stay as they are.
    CopyOnWrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exec {
    Allowed,
    Refused,
}

/// How file owners of a bound path are shown when the caller is root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// As they are: foreign to the sandbox.
    Foreign,
    /// What belongs to the owner of the path belongs to the sandbox's identity.
    Caller,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Directory,
    File,
}

/// A file by its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    pub device: u64,
    pub inode: u64,
}

/// One thing in the new root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    Bind {
        #[serde(with = "path")]
        path: PathBuf,
        /// The very object that was looked at when this was decided: a name can come to mean another.
        object: Object,
        kind: Kind,
        access: Access,
        exec: Exec,
        owner: Owner,
    },
    /// A copy-on-write directory that cannot be layered as it is, because something is mounted below it and
    /// the caller may not take the two apart: its files and links are copied, its directories are empty, and
    /// later entries lie on them.
    Hollow {
        #[serde(with = "path")]
        path: PathBuf,
        exec: Exec,
    },
    /// A directory of the view, bound onto itself: what is a mount point cannot be moved away.
    Pin {
        #[serde(with = "path")]
        path: PathBuf,
    },
    /// A private writable directory, empty at the start, gone at the end.
    Private {
        #[serde(with = "path")]
        path: PathBuf,
        mode: u32,
        exec: Exec,
    },
    /// An empty directory that lies on top of what is there; later entries may lie in it, nothing else can be
    /// put there.
    Empty {
        #[serde(with = "path")]
        path: PathBuf,
    },
    /// An empty directory of the root itself.
    Directory {
        #[serde(with = "path")]
        path: PathBuf,
    },
    Symlink {
        #[serde(with = "path")]
        path: PathBuf,
        #[serde(with = "path")]
        target: PathBuf,
    },
    /// A small read-only file made for the sandbox.
    Text {
        #[serde(with = "path")]
        path: PathBuf,
        content: String,
    },
    /// Nothing can be read, written or listed here.
    Mask {
        #[serde(with = "path")]
        path: PathBuf,
        kind: Kind,
    },
    Proc,
    Dev,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scratch {
    pub bytes: u64,
    pub inodes: u64,
}

/// The command, resolved as far as it can be outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in the PATH of `environment`.
    pub argv: Vec<Vec<u8>>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    #[serde(with = "path")]
    pub directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Terminal {
    /// Standard streams are passed on as they are.
    Inherit,
    /// The command gets a pseudo-terminal of its own.
    Own { rows: u16, columns: u16 },
}

/// The second wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landlock {
    pub rules: Vec<LandlockRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    #[serde(with = "path")]
    pub path: PathBuf,
    pub access: LandlockAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockAccess {
    /// Directories can be listed, nothing else.
    List,
    Read,
    ReadExecute,
    Write,
    WriteExecute,
    Execute,
    Device,
}

/// rlimits; `None` leaves the caller's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
    pub file_size: Option<u64>,
    pub data: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

/// What a control group holds; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Group {
    pub memory: Option<u64>,
    pub tasks: Option<u64>,
    /// 100 is one whole processor.
    pub cpu_percent: Option<u64>,
    /// No group limits this: it is counted there, and the supervisor acts.
    pub cpu_time_ms: Option<u64>,
    /// Bytes per second, read and written each.
    pub io_bytes: Option<u64>,
    pub io_operations: Option<u64>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        *self == Group::default()
    }
}

/// A path is bytes, not text: names that are not UTF-8 travel, too.
mod path {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
    };

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Vec::<u8>::deserialize(deserializer).map(|bytes| OsString::from_vec(bytes).into())
    }
}

mod paths {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::PathBuf,
    };

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.as_os_str().as_bytes()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<Vec<u8>>::deserialize(deserializer)?;
        Ok(paths.into_iter().map(|bytes| OsString::from_vec(bytes).into()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn entries_with_any_bytes_survive_the_trip() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/a\xff\n b"));
        let entries = vec![
            Entry::Mask { path: odd.clone(), kind: Kind::File },
            Entry::Symlink { path: odd.clone(), target: odd },
            Entry::Proc,
        ];
        let bytes = postcard::to_allocvec(&entries).unwrap();
        assert_eq!(postcard::from_bytes::<Vec<Entry>>(&bytes).unwrap(), entries);
    }
}
