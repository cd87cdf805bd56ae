//! The whole host in view: everything in its root, /tmp and /var/tmp as layers over the host's, and sockets by name.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use lazaret_policy::schema::UnixSockets;
use lazaret_sandbox::spec::{Access, Exec, Kind, Owner};

use super::{Node, View, is_kernel_made, mount_points};
use crate::{
    lower::LowerError,
    paths::{Found, canonical, canonical_as_far_as_it_exists, is_at_or_below, look},
};

/// The one private directory that is a layer over the host's here.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

impl View<'_> {
    /// Everything that is in the root, but for what the kernel makes. What is written to /tmp and /var/tmp stays private, over
    /// what the host has there.
    pub(super) fn everything(&mut self, access: Access) -> Result<(), LowerError> {
        let missing = |source| LowerError::Missing { path: "/".into(), source };
        for entry in fs::read_dir("/").map_err(missing)? {
            let path = entry.map_err(missing)?.path();
            if !is_kernel_made(&path) {
                self.shown(path, access);
            }
        }
        if access == Access::ReadOnly {
            let mounts = mount_points();
            for path in TEMPORARY {
                self.layered_temporary(Path::new(path), &mounts);
            }
        }
        Ok(())
    }

    /// A layer over the host's directory; the part of it that is worked in stays as it is.
    fn layered_temporary(&mut self, path: &Path, mounts: &[PathBuf]) {
        let Ok(found) = look(path) else { return };
        if found.path != path || found.kind != Kind::Directory {
            return;
        }
        self.nodes.remove(path);
        let below = |below: &Path| is_at_or_below(below, path) && below != path;
        // An ordinary user cannot take apart what is mounted below: then it is private and empty.
        if !mounts.iter().any(|mount| below(mount)) {
            let (object, kind, access) = (found.object, found.kind, Access::CopyOnWrite);
            let node = Node::Bind { object, kind, access, exec: Exec::Allowed, owner: Owner::Caller };
            self.nodes.insert(found.path, node);
        }
        let filesystem = &self.request.policy.filesystem;
        let listed = filesystem.hidden_paths.iter().chain(&filesystem.read_only_paths);
        let listed = listed.chain(&filesystem.read_write_paths).chain(&filesystem.protected_paths);
        let listed = listed.filter_map(|path| self.expand(path).ok());
        let needed: Vec<PathBuf> = listed
            .chain([self.request.directory.clone()])
            .chain(self.home.clone())
            .chain(self.request.own_directories.iter().cloned())
            .map(|path| canonical_as_far_as_it_exists(&path, &mut Vec::new()).0)
            .filter(|path| below(path))
            .collect();
        if self.request.policy.network.unix_sockets == Some(UnixSockets::All) {
            self.sockets_in(path);
        }
        for needed in needed {
            let first = needed.strip_prefix(path).ok().and_then(|rest| rest.components().next());
            if let Some(first) = first {
                self.shown(path.join(first), Access::ReadOnly);
            }
        }
    }

    /// Sockets, and directories that hold one, are not to be reached through a layer.
    fn sockets_in(&mut self, directory: &Path) {
        let is_socket =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        let entries =
            |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok).take(1000);
        for entry in entries(directory) {
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_socket(&path) || (is_directory && entries(&path).any(|inner| is_socket(&inner.path()))) {
                self.shown(path, Access::ReadOnly);
            }
        }
    }

    /// As it is: a link stays a link, and a socket is not listed by being seen.
    fn shown(&mut self, path: PathBuf, access: Access) {
        if let Ok(target) = fs::read_link(&path) {
            self.nodes.entry(path).or_insert(Node::Symlink(target));
        } else if let Ok(found) = look(&path)
            && found.path == path
        {
            self.bind(Found { is_socket: false, ..found }, access);
        }
    }

    /// Sockets by their names, there or not.
    pub fn listed_sockets(&mut self) -> Result<(), LowerError> {
        let mut parents = Vec::new();
        for path in &self.request.policy.network.unix_socket_paths {
            let expanded = self.expand(path)?;
            let resolved = canonical(&expanded)
                .unwrap_or_else(|_| canonical_as_far_as_it_exists(&expanded, &mut parents).0);
            // Through a layer a socket is another one.
            let layered = |node: &Node| matches!(node, Node::Bind { access: Access::CopyOnWrite, .. });
            if let Ok(found) = look(&expanded)
                && (!self.visible(&found.path) || self.node_above(&found.path).is_some_and(layered))
                && !is_kernel_made(&found.path)
            {
                self.link_to(&expanded, &found.path);
                self.bind(Found { is_socket: false, ..found }, Access::ReadOnly);
            }
            self.reachable.push(resolved);
        }
        Ok(())
    }
}
