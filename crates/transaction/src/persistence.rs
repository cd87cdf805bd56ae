//! Which files act on the next run: what a shell, an editor, a build, a CI or an agent executes or obeys
//! without being asked. Such a change is shown apart, and left out of a commit unless it is asked for.
//!
//! The list is about names, since a name is what those programs look for. It cannot be complete: a program
//! of the project that was changed acts when it is run next, and no name tells.

mod table;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::change::{Change, Kind, Node};
use table::TABLE;

/// For a reason that this version does not know: kept rather than dropped.
const UNKNOWN: &str = "acts on the next run";
const REPOSITORY: &str = "git obeys it: the directory is a repository";

/// A row of the table, split into components.
struct Pattern {
    /// The directories it starts with; none for a mere name.
    directories: Vec<&'static [u8]>,
    last: Last,
    reason: &'static str,
}

enum Last {
    /// One name, perhaps with `*` in it.
    Name(&'static [u8]),
    /// `**`: anything at any depth below.
    Anything,
    /// `**/x`: this, at any depth below.
    Deep(Vec<&'static [u8]>),
}

struct Index {
    exact: HashMap<&'static [u8], &'static str>,
    globs: Vec<(&'static [u8], &'static str)>,
    /// By the first directory, where that has no `*`.
    rooted: HashMap<&'static [u8], Vec<Pattern>>,
    starred: Vec<Pattern>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index =
        Index { exact: HashMap::new(), globs: Vec::new(), rooted: HashMap::new(), starred: Vec::new() };
    for (reason, patterns) in TABLE {
        for pattern in *patterns {
            let mut parts: Vec<&'static [u8]> = pattern.split('/').map(str::as_bytes).collect();
            let deep = parts.iter().position(|part| *part == b"**");
            let last = match deep {
                Some(at) => {
                    let tail = parts.split_off(at).split_off(1);
                    if tail.is_empty() { Last::Anything } else { Last::Deep(tail) }
                }
                None => Last::Name(parts.pop().unwrap_or_default()),
            };
            match (parts.first(), &last) {
                (None, Last::Name(name)) if name.contains(&b'*') => index.globs.push((name, reason)),
                (None, Last::Name(name)) => {
                    index.exact.insert(name, reason);
                }
                (Some(first), _) if !first.contains(&b'*') => {
                    let pattern = Pattern { directories: parts.clone(), last, reason };
                    index.rooted.entry(first).or_default().push(pattern);
                }
                _ => index.starred.push(Pattern { directories: parts, last, reason }),
            }
        }
    }
    index
});

/// Judges the names below one tree root. What is found about a directory is remembered for the next name in
/// it.
pub struct Judge {
    /// The components of the root, in lower case.
    root: Vec<Vec<u8>>,
    last: Option<(PathBuf, Vec<Vec<u8>>)>,
}

impl Judge {
    pub fn new(root: &Path) -> Self {
        Self { root: lower(root), last: None }
    }

    /// Why a change to this path (below the root) acts on the next run. A directory does not act itself; a
    /// link in place of one does, and so does what replaced or removed a file that acted.
    pub fn judge(&mut self, path: &Path, node: Option<&Node>, base: Option<Kind>) -> Option<&'static str> {
        let directory = Some(Kind::Directory);
        match node {
            Some(Node::Directory) if base.is_none() || base == directory => return None,
            None if base == directory => return None,
            _ => {}
        }
        let bytes = path.as_os_str().as_bytes();
        let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (bytes.get(..slash)?, bytes.get(slash + 1..)?),
            None => (&[][..], bytes),
        };
        if self.last.as_ref().is_none_or(|(known, _)| known.as_os_str().as_bytes() != parent) {
            let parent = PathBuf::from(OsStr::from_bytes(parent));
            let mut components = self.root.clone();
            components.extend(lower(&parent));
            self.last = Some((parent, components));
        }
        let name = name.to_ascii_lowercase();
        let index = &*INDEX;
        if let Some(reason) = index.exact.get(name.as_slice()) {
            return Some(reason);
        }
        if let Some((_, reason)) = index.globs.iter().find(|(glob, _)| matches(glob, &name)) {
            return Some(reason);
        }
        let (_, components) = self.last.as_mut()?;
        components.push(name);
        let link = matches!(node, Some(Node::Symlink { .. }));
        let found = in_directories(index, components, self.root.len(), link);
        components.pop();
        found
    }
}

/// Looks for a pattern that starts at any component, in the root's own path as well. Only a worktree that an
/// agent made below its own directory is a project like any other.
fn in_directories(index: &Index, components: &[Vec<u8>], root: usize, link: bool) -> Option<&'static str> {
    for start in 0..components.len() {
        let rest = components.get(start..)?;
        let rooted = rest.first().and_then(|first| index.rooted.get(first.as_slice())).into_iter().flatten();
        for pattern in rooted.chain(&index.starred) {
            let fixed = pattern.directories.len();
            let own = components.get(start..root).unwrap_or_default();
            let worktree = own.len() > 2 && each_matches(&[b".claude", b"worktrees"], own);
            let reaches = start + fixed >= root || !worktree;
            if reaches && (fits(pattern, rest) || (link && leads_to(pattern, rest))) {
                return Some(pattern.reason);
            }
        }
    }
    None
}

fn fits(pattern: &Pattern, components: &[Vec<u8>]) -> bool {
    let fixed = pattern.directories.len();
    if components.len() <= fixed || !each_matches(&pattern.directories, components) {
        return false;
    }
    let rest = components.get(fixed..).unwrap_or_default();
    match &pattern.last {
        Last::Anything => true,
        Last::Name(name) => rest.len() == 1 && each_matches(&[name], rest),
        Last::Deep(tail) => {
            rest.len() >= tail.len() && {
                let end = rest.get(rest.len() - tail.len()..).unwrap_or_default();
                each_matches(tail, end)
            }
        }
    }
}

/// Whether a link stands where the pattern has a directory: what it leads to would be obeyed.
fn leads_to(pattern: &Pattern, components: &[Vec<u8>]) -> bool {
    components.len() <= pattern.directories.len() && each_matches(&pattern.directories, components)
}

/// Compares as many as both have.
fn each_matches(globs: &[&[u8]], components: &[Vec<u8>]) -> bool {
    globs.iter().zip(components).all(|(glob, component)| matches(glob, component))
}

/// `*` stands for any bytes, none included.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    let mut pieces = glob.split(|byte| *byte == b'*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        if piece.is_empty() {
            continue;
        }
        match rest.windows(piece.len()).position(|window| window == piece) {
            Some(at) => rest = rest.get(at + piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

fn lower(path: &Path) -> Vec<Vec<u8>> {
    let bytes = path.as_os_str().as_bytes();
    bytes
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_ascii_lowercase)
        .collect()
}

/// A directory with these three is a repository to git, whatever it is called: what it obeys there acts.
pub fn mark_repositories(changes: &mut [Change]) {
    let names: HashSet<PathBuf> =
        changes.iter().filter(|change| change.node.is_some()).map(|change| change.path.clone()).collect();
    let there = |path: PathBuf| names.contains(&path) || std::fs::symlink_metadata(&path).is_ok();
    let mut known: HashMap<PathBuf, bool> = HashMap::new();
    for change in changes.iter_mut().filter(|change| change.persistence.is_none() && change.node.is_some()) {
        let Some(parent) = change.path.parent() else { continue };
        let name = change.path.file_name().unwrap_or_default().to_ascii_lowercase();
        let is_hook = parent.file_name().is_some_and(|name| name.eq_ignore_ascii_case("hooks"));
        let obeyed = ["config", "config.worktree", "commondir", "gitdir", "head", "alternates"];
        let directory = match parent.parent() {
            Some(above) if is_hook => above,
            _ if obeyed.iter().any(|obeyed| name == *obeyed) => parent,
            _ => continue,
        };
        let repository = *known.entry(directory.to_owned()).or_insert_with(|| {
            there(directory.join("HEAD"))
                && (there(directory.join("objects")) || there(directory.join("commondir")))
        });
        if repository {
            change.persistence = Some(REPOSITORY);
        }
    }
}

/// Reasons are read back as the same static text they were written from.
pub fn deserialize_reason<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'static str>, D::Error> {
    let written = Option::<String>::deserialize(deserializer)?;
    Ok(written.map(|written| {
        let mut known = TABLE.iter().map(|(reason, _)| *reason).chain([REPOSITORY]);
        known.find(|reason| *reason == written).unwrap_or(UNKNOWN)
    }))
}

#[cfg(test)]
mod tests;
