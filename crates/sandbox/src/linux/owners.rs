//! Mounts that only the host's root can make: the files of a path's owner belong to the sandbox's identity
//! there, whoever that is on the host.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags};

use super::{
    channel::Channel,
    launch::{Birth, LaunchError},
    sys::{self, Block, Cloned, MountAttributes},
    view,
};
use crate::spec::{Access, Object};

pub fn write_maps(pid: i32, uid: u32, gid: u32, host: u32) -> io::Result<()> {
    for (file, id) in [("uid_map", uid), ("gid_map", gid)] {
        std::fs::write(format!("/proc/{pid}/{file}"), format!("{id} {host} 1"))?;
    }
    Ok(())
}

fn open_user_namespace(pid: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/ns/user");
    Ok(rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

pub fn plain_mount(
    (path, object): (&Path, Object),
    attributes: MountAttributes<'_>,
) -> Result<OwnedFd, LaunchError> {
    view::clone_object(path, object, attributes)
        .map_err(|error| LaunchError::Source { path: path.to_owned(), source: error.source })
}

/// A mount in which the files of the path's owner belong to the sandbox.
pub fn owned_mount(
    (path, object): (&Path, Object),
    access: Access,
    attributes: MountAttributes<'_>,
    carriers: &mut Carriers<'_>,
) -> Result<OwnedFd, LaunchError> {
    let metadata = std::fs::symlink_metadata(path)
        .map_err(|source| LaunchError::Source { path: path.to_owned(), source })?;
    let owner = (metadata.uid(), metadata.gid());
    let namespace = carriers.namespace_for(owner)?;
    let mapped = MountAttributes { idmap: Some(namespace.as_fd()), ..attributes };
    match view::clone_object(path, object, mapped) {
        Ok(tree) => Ok(tree),
        // Readable by others is readable enough.
        Err(_) if access == Access::ReadOnly => plain_mount((path, object), attributes),
        Err(error) => Err(LaunchError::Idmap { path: path.to_owned(), source: error.source }),
    }
}

/// User namespaces that only carry a mapping from an owner to the sandbox's host identity.
pub struct Carriers<'a> {
    birth: Birth<'a>,
    host: u32,
    namespaces: BTreeMap<(u32, u32), OwnedFd>,
}

impl<'a> Carriers<'a> {
    /// The sandbox's own namespace carries the mapping of its own identity.
    pub fn with_own(birth: Birth<'a>, pid: i32, inside: u32, host: u32) -> Result<Self, LaunchError> {
        let own = open_user_namespace(pid).map_err(LaunchError::Map)?;
        Ok(Carriers { birth, host, namespaces: BTreeMap::from([((inside, inside), own)]) })
    }

    fn namespace_for(&mut self, owner: (u32, u32)) -> Result<&OwnedFd, LaunchError> {
        Ok(match self.namespaces.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(make_user_namespace(self.birth, owner, self.host)?),
        })
    }
}

/// Made by a short-lived process, kept by its descriptor.
fn make_user_namespace(birth: Birth<'_>, owner: (u32, u32), host: u32) -> Result<OwnedFd, LaunchError> {
    let (ours, theirs) = Channel::pair().map_err(LaunchError::Channel)?;
    let pid = match birth {
        Birth::By(launcher) => launcher.start_carrier(theirs).map_err(LaunchError::Launcher)?.0,
        Birth::Here => match sys::clone_process(libc::CLONE_NEWUSER as u64).map_err(LaunchError::Map)? {
            Cloned::Child => {
                drop(ours);
                let _ = theirs.receive();
                sys::exit_now(0)
            }
            Cloned::Parent { pid, .. } => pid,
        },
    };
    let made = write_maps(pid, owner.0, owner.1, host).and_then(|()| open_user_namespace(pid));
    drop(ours);
    if matches!(birth, Birth::Here) {
        let _ = sys::reap(pid, Block::Yes);
    }
    made.map_err(LaunchError::Map)
}
