//! What is hidden although it lies in something visible, and what is protected although it lies in something
//! writable: by mounts where it exists, and by the names that init judges.

use std::path::{Path, PathBuf};

use lazaret_sandbox::{
    pattern::{New, Pattern, is_glob},
    spec::{Access, Kind},
};

use super::{Node, View, is_kernel_made};
use crate::{
    lower::{LowerError, Sight},
    paths::{Found, canonical, canonical_as_far_as_it_exists, is_at_or_below, links_on_the_way, look},
};

impl View<'_> {
    /// What is not to be seen, where it exists. What is listed below it is visible again.
    pub fn hidden(&mut self) -> Result<(), LowerError> {
        if self.request.policy.filesystem.shows_everything() {
            for path in &self.request.own_directories {
                self.protected.push(Pattern::literal(path));
                if let Ok(found) = look(path) {
                    self.protected.push(Pattern::literal(&found.path));
                    self.nodes.insert(found.path, Node::Hidden(found.kind));
                }
            }
        }
        let filesystem = &self.request.policy.filesystem;
        let listed = filesystem.read_only_paths.iter().chain(&filesystem.read_write_paths);
        let listed: Vec<PathBuf> = listed
            .chain(&filesystem.layered_paths)
            .filter(|path| *path != Path::new("/"))
            .filter_map(|path| canonical(&self.expand(path).ok()?).ok())
            .collect();
        for path in &filesystem.hidden_paths {
            let expanded = match self.expand(path) {
                Err(LowerError::NoHome { .. }) => continue,
                other => other?,
            };
            let Ok(found) = look(&expanded) else { continue };
            if found.path == Path::new("/") || is_kernel_made(&found.path) {
                return Err(LowerError::Kernel { path: expanded });
            }
            // A directory that is listed under the very same name is meant to be seen.
            if found.kind == Kind::Directory && listed.contains(&found.path) {
                continue;
            }
            self.nodes.insert(found.path, Node::Hidden(found.kind));
        }
        self.remove_hidden_in_hidden();
        for pattern in &filesystem.hidden_patterns {
            let parsed = self.pattern(pattern)?;
            self.hidden.push(parsed);
        }
        Ok(())
    }

    /// What lies in a hidden directory is hidden with it.
    fn remove_hidden_in_hidden(&mut self) {
        let is_hidden = |node: &Node| matches!(node, Node::Hidden(_));
        let covered =
            |path: &Path| path.parent().is_some_and(|parent| self.node_above(parent).is_some_and(is_hidden));
        let gone: Vec<PathBuf> = self
            .nodes
            .iter()
            .filter(|(path, node)| is_hidden(node) && covered(path))
            .map(|(path, _)| path.clone())
            .collect();
        gone.iter().for_each(|path| drop(self.nodes.remove(path)));
    }

    fn pattern(&self, path: &Path) -> Result<Pattern, LowerError> {
        let expanded = self.expand(path)?;
        // Links in what has no wildcard: names are compared with what they lead to.
        let fixed: PathBuf = expanded.components().take_while(|part| !is_glob(part.as_ref())).collect();
        let rest = expanded.strip_prefix(&fixed).unwrap_or(Path::new(""));
        let fixed =
            canonical(&fixed).unwrap_or_else(|_| canonical_as_far_as_it_exists(&fixed, &mut Vec::new()).0);
        let whole = if rest.as_os_str().is_empty() { fixed } else { fixed.join(rest) };
        Pattern::parse(&whole).map_err(|source| LowerError::Pattern { path: path.to_owned(), source })
    }

    /// What can be read and not be changed: by its name, and where it exists also by a mount of its own.
    pub fn protected(&mut self) -> Result<(), LowerError> {
        let filesystem = &self.request.policy.filesystem;
        for path in &filesystem.protected_paths {
            let expanded = match self.expand(path) {
                Err(LowerError::NoHome { .. }) => continue,
                other => other?,
            };
            if is_glob(&expanded) && !expanded.exists() {
                let pattern = self.pattern(path)?;
                self.protected.push(pattern);
                continue;
            }
            let mut parents = Vec::new();
            let (resolved, _) = canonical_as_far_as_it_exists(&expanded, &mut parents);
            self.protected.push(Pattern::literal(&resolved));
            self.protect_way_to(&expanded);
            let Ok(found) = look(&expanded) else { continue };
            self.protected.push(Pattern::literal(&found.path));
            let inside_writable = self
                .node_above(&found.path)
                .is_some_and(|node| matches!(node, Node::Bind { access: Access::ReadWrite, .. }));
            if inside_writable && !is_kernel_made(&found.path) {
                self.nodes.remove(&found.path);
                self.bind(Found { is_socket: false, ..found }, Access::ReadOnly);
            }
        }
        for path in &filesystem.hidden_paths {
            if let Ok(expanded) = self.expand(path) {
                self.protect_links_to(&expanded);
            }
        }
        let writable: Vec<PathBuf> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::Bind { access: Access::ReadWrite, .. }))
            .map(|(path, _)| path.clone())
            .collect();
        let start = canonical(&self.request.directory).unwrap_or_else(|_| self.request.directory.clone());
        for name in &filesystem.protected_names {
            let new = match name.as_str() {
                ".git" => New::OnlyOldFiles,
                name if name.starts_with(".git/") => New::Free,
                _ => New::Covered,
            };
            for top in &writable {
                // The names of what is listed count, too, but not those of the directory that is worked in.
                let base = if is_at_or_below(top, &start) { &start } else { top.parent().unwrap_or(top) };
                let pattern = Pattern::below(base, Path::new(name), new)
                    .map_err(|source| LowerError::Pattern { path: name.into(), source })?;
                if !self.protected.contains(&pattern) {
                    self.protected.push(pattern);
                }
                if new != New::OnlyOldFiles {
                    self.protect_way_to(&top.join(name));
                }
            }
        }
        Ok(())
    }

    /// Where links lead to something protected or hidden, they are protected as well, and so is what is at their
    /// end: another link in their place would lead elsewhere.
    fn protect_way_to(&mut self, path: &Path) {
        links_on_the_way(path).into_iter().for_each(|link| self.protect_if_writable(&link));
    }

    fn protect_if_writable(&mut self, path: &Path) {
        let inside = self.node_above(path);
        if inside.is_some_and(|node| matches!(node, Node::Bind { access: Access::ReadWrite, .. })) {
            self.protected.push(Pattern::literal(path));
        }
    }

    /// The same without the end, which is hidden anyway.
    fn protect_links_to(&mut self, path: &Path) {
        let mut links = links_on_the_way(path);
        links.pop();
        links.into_iter().for_each(|link| self.protect_if_writable(&link));
    }

    /// Is there something hidden that is to be told of when it is tried? Our own directories are not worth it.
    pub fn tells_hidden(&self) -> bool {
        let own = &self.request.own_directories;
        self.nodes.iter().any(|(path, node)| matches!(node, Node::Hidden(_)) && !own.contains(path))
    }

    /// Hidden paths, and what is visible below them.
    pub fn sights(&self) -> Vec<(PathBuf, Sight)> {
        let hidden: Vec<&PathBuf> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::Hidden(_)))
            .map(|(path, _)| path)
            .collect();
        let sight = |(path, node): (&PathBuf, &Node)| {
            let below = hidden.iter().any(|hidden| is_at_or_below(path, hidden));
            let sight = if matches!(node, Node::Hidden(_)) { Sight::Hidden } else { Sight::Visible };
            below.then(|| (path.clone(), sight))
        };
        self.nodes.iter().filter_map(sight).collect()
    }
}
