//! Writable paths as layers: what is written goes to private storage, and the host's files stay as they are.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use lazaret_sandbox::spec::{Access, Exec, Kind, Owner};

use super::{Node, View, is_kernel_made, is_of_system, mount_points};
use crate::{
    lower::LowerError,
    paths::{Found, is_at_or_below, look},
};

impl View<'_> {
    /// Directories that are layers whatever becomes of the writable ones. They are conveniences: what cannot be
    /// one stays as it is seen without.
    pub fn layered(&mut self, paths: &[PathBuf]) -> Result<(), LowerError> {
        let mounts = if paths.is_empty() { Vec::new() } else { mount_points() };
        for path in paths {
            let expanded = self.expand(path)?;
            let Ok(found) = look(&expanded) else { continue };
            let below = |mount: &PathBuf| *mount != found.path && is_at_or_below(mount, &found.path);
            if let Some(mount) = mounts.iter().find(|mount| below(mount)) {
                let (path, mount) = (expanded.display(), mount.display());
                self.notes.push(format!("{path} is no private layer: {mount} is mounted below it"));
                continue;
            }
            let system = is_of_system(&found.path) || is_kernel_made(&found.path);
            if found.kind != Kind::Directory || found.path == Path::new("/") || system {
                self.notes.push(format!(
                    "{} is no private layer: only a directory of the caller's can be one",
                    expanded.display()
                ));
                continue;
            }
            self.link_to(&expanded, &found.path);
            self.bind(found, Access::CopyOnWrite);
        }
        Ok(())
    }

    /// Every writable path becomes a layer of its own, and so does everything that is mounted below one.
    pub fn copy_on_write(&mut self) -> Result<(), LowerError> {
        let is_writable = |node: &Node| matches!(node, Node::Bind { access: Access::ReadWrite, .. });
        let writable: Vec<PathBuf> =
            self.nodes.iter().filter(|(_, node)| is_writable(node)).map(|(path, _)| path.clone()).collect();
        for path in &writable {
            let above = path.parent().and_then(|parent| {
                self.nodes
                    .iter()
                    .filter(|(at, node)| !matches!(node, Node::Symlink(_)) && is_at_or_below(parent, at))
                    .max_by_key(|(at, _)| at.as_os_str().len())
            });
            // Only there so that it cannot be moved: it is part of the layer above.
            let pin = matches!(above, Some((_, Node::Pin | Node::Bind { access: Access::CopyOnWrite, .. })))
                && !self.sockets.contains(path);
            match self.nodes.get_mut(path) {
                Some(node) if pin => *node = Node::Pin,
                Some(Node::Bind { access, .. }) if !self.sockets.contains(path) => {
                    *access = Access::CopyOnWrite;
                }
                _ => {}
            }
        }
        let layers: Vec<(PathBuf, Node)> = self
            .nodes
            .iter()
            .filter(|(_, node)| {
                matches!(node, Node::Bind { access: Access::CopyOnWrite, kind: Kind::Directory, .. })
            })
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        let (root, group) = (rustix::process::geteuid().is_root(), rustix::process::getegid().as_raw());
        for (path, _) in layers.iter().filter(|_| !root) {
            if let Ok(metadata) = fs::metadata(path)
                && metadata.gid() != group
            {
                self.notes.push(format!(
                    "{} belongs to group {}, not to yours ({group}): files of other groups cannot be changed \
                     copy-on-write by an ordinary user. `sg GROUP -c 'lazaret …'` runs with that group",
                    path.display(),
                    metadata.gid()
                ));
            }
        }
        let mounts = if layers.is_empty() { Vec::new() } else { mount_points() };
        for (top, node) in layers {
            for below in mounts.iter().filter(|mount| **mount != top && is_at_or_below(mount, &top)) {
                if self.nodes.contains_key(below) || self.denied.iter().any(|d| is_at_or_below(below, d)) {
                    continue;
                }
                if !rustix::process::geteuid().is_root() {
                    let Node::Bind { exec, .. } = node else { continue };
                    self.hollow(&top, exec, &mounts, below)?;
                    break;
                }
                if let Ok(found) = look(below)
                    && let Node::Bind { exec, owner, .. } = node
                {
                    let access = Access::CopyOnWrite;
                    let node = Node::Bind { object: found.object, kind: found.kind, access, exec, owner };
                    self.nodes.insert(found.path, node);
                }
            }
        }
        Ok(())
    }

    /// As an ordinary user, a directory with something mounted below it is taken apart: every directory in it
    /// becomes a layer of its own, and those with a mount below them are taken apart in turn.
    fn hollow(&mut self, top: &Path, exec: Exec, mounts: &[PathBuf], below: &Path) -> Result<(), LowerError> {
        const MOST: usize = 2000;
        let too_many = || LowerError::Submount { path: top.to_owned(), below: below.to_owned() };
        let mut waiting = vec![top.to_owned()];
        let mut made = 0;
        while let Some(directory) = waiting.pop() {
            self.nodes.insert(directory.clone(), Node::Hollow { exec });
            let missing = |source| LowerError::Missing { path: directory.clone(), source };
            for entry in fs::read_dir(&directory).map_err(missing)? {
                let path = entry.map_err(missing)?.path();
                let kept = !matches!(
                    self.nodes.get(&path),
                    None | Some(Node::Pin | Node::Bind { access: Access::CopyOnWrite, .. })
                );
                if kept || !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                    continue;
                }
                made += 1;
                if made > MOST {
                    return Err(too_many());
                }
                if mounts.iter().any(|mount| *mount != path && is_at_or_below(mount, &path)) {
                    waiting.push(path);
                } else {
                    let Found { path, object, kind, .. } = look(&path).map_err(|_| too_many())?;
                    let (access, owner) = (Access::CopyOnWrite, Owner::Caller);
                    self.nodes.insert(path, Node::Bind { object, kind, access, exec, owner });
                }
            }
        }
        Ok(())
    }
}
