//! From single paths to the few that a policy lists: many files of a directory become the directory, what a
//! writable directory holds needs no line of its own, and nothing is ever folded into something too wide.
//! Pure: it looks at names only.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::findings::{Deed, Findings, Kind, Sighting};
use crate::paths::is_at_or_below;

/// So many names of one directory become the directory.
const MANY: usize = 8;
/// Directories of programs are listed one by one for longer: each line is one program less.
const MANY_PROGRAMS: usize = 32;
/// On a merged system the links to them are made without being listed.
const MERGED: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What the rules have to know of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ground {
    /// Where the command was started.
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    /// Protected paths.
    pub denied: Vec<PathBuf>,
}

/// Why a path is listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Why {
    pub deeds: BTreeSet<Deed>,
    pub programs: BTreeSet<String>,
    pub times: u64,
    /// How many paths it stands for.
    pub paths: usize,
}

impl Why {
    fn of(seen: &Sighting) -> Why {
        Why { deeds: seen.deeds.clone(), programs: seen.programs.clone(), times: seen.times, paths: 1 }
    }

    fn add(&mut self, other: Why) {
        self.deeds.extend(other.deeds);
        self.programs.extend(other.programs);
        self.times += other.times;
        self.paths += other.paths;
    }
}

pub type Grants = BTreeMap<PathBuf, Why>;

/// What a policy lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    pub readable: Grants,
    pub writable: Grants,
    /// Needed, but too wide to be listed by a program.
    pub too_wide: Grants,
}

impl Ground {
    /// May everything in this directory be opened because something in it was used?
    pub fn is_too_wide(&self, directory: &Path) -> bool {
        let depth = directory.components().count();
        let of_root = depth < 3 && !MERGED.iter().any(|merged| directory == Path::new(merged));
        of_root
            || PRIVATE.iter().any(|private| directory == Path::new(private))
            || self.home.as_ref().is_some_and(|home| is_at_or_below(home, directory))
            || (directory != self.directory && is_at_or_below(&self.directory, directory))
            // In the directory of the command the denied path is denied by the new policy, too.
            || (!is_at_or_below(directory, &self.directory)
                && self.denied.iter().any(|denied| is_at_or_below(denied, directory)))
    }
}

/// Packages of the system are read as a whole: their files have versions in their names and hold no secrets.
fn package(path: &Path) -> Option<PathBuf> {
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let length = match parts.as_slice() {
        ["/", "usr", "include", ..] => 3,
        ["/", "usr", "lib" | "lib32" | "lib64" | "libx32" | "libexec" | "share", _, _, ..] => 4,
        ["/", "usr", "local", "include", ..] => 4,
        ["/", "usr", "local", "lib" | "libexec" | "share", _, _, ..] => 5,
        ["/", "lib" | "lib32" | "lib64" | "libx32", _, _, ..] => 3,
        ["/", "nix", "store", _, ..] => 4,
        _ => return None,
    };
    Some(parts.iter().take(length).collect())
}

/// Folds everything that was seen.
pub fn fold(findings: &Findings, ground: &Ground) -> Folded {
    let mut folded = Folded::default();
    for (path, seen) in &findings.paths {
        if seen.has(Deed::Connect) {
            folded.writable.insert(path.clone(), Why::of(seen));
        } else if seen.has(Deed::Rename) || seen.has(Deed::Write) {
            let whole = seen.kind == Kind::Directory;
            // What was made in the run need not be there the next time, but its directory is.
            if !whole && findings.is_made(path) {
                continue;
            }
            let place =
                if whole && ground.is_too_wide(path) { &mut folded.too_wide } else { &mut folded.writable };
            place.insert(path.clone(), Why::of(seen));
        }
    }
    folded.writable = gather(folded.writable, ground);
    let mut readable = Grants::new();
    let mut touched = Vec::new();
    for (path, seen) in &findings.paths {
        let by_merge = seen.kind == Kind::Link && MERGED.iter().any(|merged| path == Path::new(merged));
        if by_merge || findings.is_made(path) || covering(&folded.writable, path).is_some() {
            continue;
        }
        match seen.kind {
            Kind::Directory if !seen.has(Deed::List) => {
                touched.push((path, seen));
                continue;
            }
            Kind::Directory if ground.is_too_wide(path) => {
                touched.push((path, seen));
                continue;
            }
            _ => {}
        }
        let at = package(path).filter(|package| !ground.is_too_wide(package)).unwrap_or_else(|| path.clone());
        readable.entry(at).or_default().add(Why::of(seen));
    }
    readable = gather(readable, ground);
    // A directory that was only asked about has to be there, which it is when something in it is.
    for (path, seen) in touched {
        let on_the_way = readable.keys().chain(folded.writable.keys()).any(|at| is_at_or_below(at, path));
        // Of the system's directories only those of one package.
        let too_general = path.starts_with("/usr") && package(path).is_none();
        let there =
            too_general || on_the_way || covering(&readable, path).is_some() || is_standing(path, ground);
        if there {
            continue;
        }
        if ground.is_too_wide(path) {
            if seen.has(Deed::List) {
                folded.too_wide.insert(path.clone(), Why::of(seen));
            }
            continue;
        }
        let at = package(path).unwrap_or_else(|| path.clone());
        readable.entry(at).or_default().add(Why::of(seen));
    }
    if needs_directory(findings, ground)
        && !readable.keys().chain(folded.writable.keys()).any(|at| is_at_or_below(at, &ground.directory))
        && !ground.is_too_wide(&ground.directory)
    {
        // Otherwise the command would start somewhere else, and its names begin there.
        let why = findings.paths.get(&ground.directory).map(Why::of).unwrap_or_default();
        readable.insert(ground.directory.clone(), why);
    }
    folded.readable = gather(readable, ground);
    folded.readable.retain(|path, _| covering(&folded.writable, path).is_none());
    folded
}

/// Does a name begin at the directory of the command and lead out of it?
fn needs_directory(findings: &Findings, ground: &Ground) -> bool {
    let leads_out = |end: &PathBuf| {
        !is_at_or_below(end, &ground.directory)
            && !is_at_or_below(&ground.directory, end)
            && (findings.paths.contains_key(end)
                || end.parent().is_some_and(|at| findings.paths.contains_key(at)))
    };
    findings.relative.iter().any(leads_out)
}

/// In every sandbox, whatever the policy says; or, for the directory of the command, as far as it is used.
fn is_standing(path: &Path, ground: &Ground) -> bool {
    path == ground.directory
        || is_at_or_below(&ground.directory, path)
        || ground.home.as_ref().is_some_and(|home| is_at_or_below(home, path))
        || PRIVATE.iter().any(|private| is_at_or_below(Path::new(private), path))
}

/// The entry that a path is in.
pub fn covering<'a>(grants: &'a Grants, path: &Path) -> Option<&'a PathBuf> {
    path.ancestors().find_map(|above| grants.get_key_value(above)).map(|(at, _)| at)
}

/// What is in another entry vanishes in it, and many of one directory become the directory, until nothing
/// changes any more.
pub fn gather(mut grants: Grants, ground: &Ground) -> Grants {
    loop {
        let before = grants.len();
        let mut flat = Grants::new();
        for (path, why) in std::mem::take(&mut grants) {
            let above = path.parent().and_then(|parent| covering(&flat, parent).cloned());
            flat.entry(above.unwrap_or(path)).or_default().add(why);
        }
        let mut siblings: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for parent in flat.keys().filter_map(|path| path.parent()) {
            *siblings.entry(parent.to_owned()).or_default() += 1;
        }
        for (path, why) in flat {
            let many = |parent: &&Path| {
                let most = if holds_programs(parent) { MANY_PROGRAMS } else { MANY };
                siblings.get(*parent).is_some_and(|count| *count >= most) && !ground.is_too_wide(parent)
            };
            let at = path.parent().filter(many).map_or_else(|| path.clone(), Path::to_owned);
            grants.entry(at).or_default().add(why);
        }
        if grants.len() == before {
            return grants;
        }
    }
}

fn holds_programs(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == "bin" || name == "sbin")
}
