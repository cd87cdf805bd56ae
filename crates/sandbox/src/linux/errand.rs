//! What the supervisor asks of init's broker and what comes back: the messages, not the acting.

use std::{
    ffi::OsString,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use super::{launch::Tag, walk::Caller};

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Open = 1,
    Mkdir,
    Mknod,
    Symlink,
    Link,
    Rename,
    Bind,
    Connect,
    Unlink,
    Truncate,
    /// A new connection to the port `device` of loopback.
    Dial,
    /// New stream sockets of the sandbox's network: `device` of IPv4, `mode` of IPv6.
    Sockets,
}

impl Operation {
    fn from_byte(byte: u8) -> Option<Operation> {
        use Operation::{
            Bind, Connect, Dial, Link, Mkdir, Mknod, Open, Rename, Sockets, Symlink, Truncate, Unlink,
        };
        [Open, Mkdir, Mknod, Symlink, Link, Rename, Bind, Connect, Unlink, Truncate, Dial, Sockets]
            .into_iter()
            .find(|o| *o as u8 == byte)
    }
}

/// Flags of [`Operation::Connect`]: what becomes of a connection that leads out. Without one it is made as it
/// was asked for.
pub const CAPTURE: u32 = 1;
/// The same, unless somebody inside listens there.
pub const CAPTURE_UNLESS_TAKEN: u32 = 2;

/// A request as it travels from the supervisor to init. Descriptors travel along: the directory that `path`
/// starts from, the one for `other`, the socket; see each operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub id: u64,
    pub operation: Operation,
    /// The process and thread that asked, as numbered inside.
    pub pid: u32,
    pub tid: u32,
    pub umask: u32,
    pub flags: u32,
    pub mode: u32,
    pub device: u64,
    pub path: Vec<u8>,
    /// The second path of link, rename and symlink; the raw address of bind and connect.
    pub other: Vec<u8>,
}

impl Request {
    pub(super) fn caller(&self) -> Caller {
        Caller { pid: self.pid, tid: self.tid }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![Tag::Act as u8, self.operation as u8];
        bytes.extend(self.id.to_le_bytes());
        for number in [self.pid, self.tid, self.umask, self.flags, self.mode, self.path.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.device.to_le_bytes());
        bytes.extend(&self.path);
        bytes.extend(&self.other);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Request> {
        let (operation, bytes) = bytes.split_first()?;
        let (id, bytes) = bytes.split_first_chunk()?;
        let mut rest = bytes;
        let mut number = || -> Option<u32> {
            let (head, tail) = rest.split_first_chunk()?;
            rest = tail;
            Some(u32::from_le_bytes(*head))
        };
        let (pid, tid, umask, flags, mode, length) =
            (number()?, number()?, number()?, number()?, number()?, number()?);
        let (device, rest) = rest.split_first_chunk()?;
        let (path, other) = rest.split_at_checked(length as usize)?;
        Some(Request {
            id: u64::from_le_bytes(*id),
            operation: Operation::from_byte(*operation)?,
            pid,
            tid,
            umask,
            flags,
            mode,
            device: u64::from_le_bytes(*device),
            path: path.to_vec(),
            other: other.to_vec(),
        })
    }
}

/// What came of a request.
#[derive(Debug)]
pub struct Reply {
    pub id: u64,
    /// 0, or the errno of the act.
    pub errno: i32,
    /// A guard or the socket rule refused it: the path that was meant.
    pub refused: Option<PathBuf>,
    pub descriptor: Option<OwnedFd>,
    /// Of [`Operation::Sockets`].
    pub sockets: Vec<OwnedFd>,
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![Tag::Acted as u8];
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.errno.to_le_bytes());
        if let Some(path) = &self.refused {
            bytes.extend(path.as_os_str().as_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8], descriptors: Vec<OwnedFd>) -> Option<Reply> {
        let (_, bytes) = bytes.split_first()?;
        let (id, bytes) = bytes.split_first_chunk()?;
        let (errno, path) = bytes.split_first_chunk()?;
        let mut descriptors = descriptors.into_iter();
        Some(Reply {
            id: u64::from_le_bytes(*id),
            errno: i32::from_le_bytes(*errno),
            refused: (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path.to_vec()))),
            descriptor: descriptors.next(),
            sockets: descriptors.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_trip() {
        let request = Request {
            id: 7,
            operation: Operation::Open,
            pid: 1,
            tid: 2,
            umask: 0o22,
            flags: (libc::O_CREAT | libc::O_WRONLY) as u32,
            mode: 0o644,
            device: 3,
            path: b"/a/b".to_vec(),
            other: b"other".to_vec(),
        };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes[1..]), Some(request));
        for end in 0..30 {
            assert!(Request::decode(&bytes[1..end.max(1)]).is_none());
        }
    }
}
