//! Finds out what a call is about: checks its arguments against the tool's schema, finds every path, URL, host and git
//! remote among them, and resolves each as the operating system, the egress and git would. What no policy may allow is
//! refused here; everything else is left to the policies. See docs/mcp-arguments.md.
//!
//! Looks at files (`lstat`, `readlink`, git's configuration), but changes nothing, starts nothing and asks no network.

mod access;
mod arguments;
pub mod git;
mod hosts;
mod leaves;
mod name_pattern;
mod paths;
mod patterns;
mod protected;
mod refusal;
mod resolve;
mod schema;
mod surroundings;
mod words;

use std::path::{Component, Path, PathBuf};

use rustix::{fs::lstat, io::Errno};

pub use git::GitFault;
pub use hosts::HostFault;
pub use refusal::{Fault, Refusal};
pub use resolve::PathFault;
pub use surroundings::{Lookups, Surroundings, SurroundingsError};

use access::Deed;
use git::Connection;
use hosts::{Found, Unreadable};
use leaves::Leaf;
use paths::{Keep, Reading, TextKind};
use protected::{Touch, Watch};
use resolve::{Resolved, resolve, tidied};
use schema::{Budget, Schema};

use crate::{
    call::Call,
    facts::{Access, Facts, HostFact, HostKind, PathFact, Place},
};

/// A call that refers to more than this is not judged.
const MOST_FACTS: usize = 4096;
/// How many names of files are looked at for one call.
const MOST_LOOKS: usize = 200_000;
/// How many directories among the arguments relative paths are tried against.
const MOST_BASES: usize = 8;

/// What the call is about, or why it is denied whatever the policy says.
pub fn classify(call: &Call<'_>, surroundings: &Surroundings) -> Result<Facts, Refusal> {
    let budget = Budget::default();
    let schema = Schema::new(&call.tool.input_schema, &budget);
    arguments::check(schema, call.arguments)?;
    let leaves = leaves::leaves(schema, call.arguments).map_err(Fault::from)?;
    let mut found = Findings::new(surroundings);
    match found.look(call, &leaves) {
        Ok(()) => Ok(found.facts),
        Err(fault) => Err(Refusal { fault: Box::new(fault), facts: found.facts }),
    }
}

struct Findings<'a> {
    surroundings: &'a Surroundings,
    /// Made when the first path is found.
    watch: Option<Watch<'a>>,
    facts: Facts,
    /// Directories that the call names, which others of its paths may be relative to.
    bases: Vec<PathBuf>,
    /// How many more names of files may be looked at.
    looks: usize,
}

impl<'a> Findings<'a> {
    fn new(surroundings: &'a Surroundings) -> Self {
        Findings { surroundings, watch: None, facts: Facts::default(), bases: Vec::new(), looks: MOST_LOOKS }
    }

    fn look(&mut self, call: &Call<'_>, leaves: &[Leaf<'_>]) -> Result<(), Fault> {
        let deed = Deed::of(call);
        let mut relative: Vec<(&Leaf<'_>, Access, Reading)> = Vec::new();
        for leaf in leaves {
            let access = deed.access(&leaf.name);
            for reading in self.read(leaf)? {
                let directory = self.surroundings.working_directory.clone();
                self.path(leaf, &reading, &directory, access)?;
                if reading.path.is_relative() {
                    relative.push((leaf, access, reading));
                }
            }
        }
        for base in std::mem::take(&mut self.bases) {
            for (leaf, access, reading) in &relative {
                self.path(leaf, reading, &base, *access)?;
            }
        }
        self.connections(call)
    }

    /// Finds the hosts of a text, and answers the paths that it may be.
    fn read(&mut self, leaf: &Leaf<'_>) -> Result<Vec<Reading>, Fault> {
        let found = hosts::read(leaf.text, leaf.roles).map_err(|unreadable| match unreadable {
            Unreadable::Host(fault) => Fault::Host { argument: name_of(&leaf.argument), fault },
            Unreadable::Path(fault) => Fault::Path { argument: name_of(&leaf.argument), fault },
        })?;
        // `user@host:name` and `https:name` are names of files as well.
        let is_url = !found.hosts.is_empty() && (leaf.roles.path.is_none() || leaf.text.contains("://"));
        let mut kind = if is_url { TextKind::Url } else { TextKind::Other };
        for host in found.hosts {
            self.host(&leaf.argument, host)?;
        }
        if !found.files.is_empty() {
            kind = TextKind::Url;
        }
        if leaf.text.contains('{') && (leaf.roles.pattern || leaf.roles.path.is_some()) {
            // Each part of such a pattern is a copy of the rest.
            self.spend(leaf.text.len() / 4)?;
        }
        let home = self.surroundings.home.as_deref();
        let mut readings: Vec<Reading> =
            found.files.into_iter().map(|path| Reading { path, keep: Keep::Always }).collect();
        let others = paths::readings(leaf.text, leaf.roles, home, kind)
            .map_err(|fault| Fault::Path { argument: name_of(&leaf.argument), fault })?;
        readings.extend(others);
        Ok(readings)
    }

    fn path(&mut self, leaf: &Leaf<'_>, reading: &Reading, base: &Path, access: Access) -> Result<(), Fault> {
        self.spend(1)?;
        if reading.keep == Keep::Links {
            return self.links(leaf, &reading.path, base, access);
        }
        // Most words are no paths, and one look tells.
        if matches!(reading.keep, Keep::IfReal | Keep::IfBegun) && is_absent(base, &reading.path) {
            return Ok(());
        }
        let as_it_is = Some(reading.path.clone());
        for path in as_it_is.into_iter().chain(tidied(&reading.path)) {
            self.spend(path.components().count())?;
            let resolved = match resolve(base, &path) {
                Ok(resolved) => resolved,
                // Text that was only tried as a path, and is none.
                Err(PathFault::TooLong | PathFault::Nul) if reading.keep != Keep::Always => continue,
                Err(fault) => return Err(Fault::Path { argument: name_of(&leaf.argument), fault }),
            };
            let counts = match reading.keep {
                Keep::Always | Keep::IfBegun => true,
                Keep::IfRooted => {
                    resolved.is_rooted() || resolved.path == Path::new("/") && leaf.roles.path.is_some()
                }
                Keep::IfReal | Keep::Links => {
                    resolved.exists() || !resolved.links.is_empty() || !resolved.path.starts_with(base)
                }
            };
            if counts {
                let usable_as_base = leaf.top && resolved.is_directory() && reading.keep != Keep::IfReal;
                if usable_as_base && resolved.path != self.surroundings.working_directory {
                    self.add_base(&resolved.path);
                }
                self.resolved(&leaf.argument, leaf.text, &resolved, access)?;
            }
        }
        Ok(())
    }

    /// Links in the session that the last name of a pattern may match: `l*/x` is about where they lead.
    fn links(&mut self, leaf: &Leaf<'_>, path: &Path, base: &Path, access: Access) -> Result<(), Fault> {
        let (Some(directory), Some(pattern)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let Ok(resolved) = resolve(base, directory) else { return Ok(()) };
        // What lies outside is a fact as it is.
        if !resolved.path.starts_with(&self.surroundings.session) {
            return Ok(());
        }
        let Ok(entries) = std::fs::read_dir(&resolved.path) else { return Ok(()) };
        for entry in entries.flatten() {
            self.spend(1)?;
            let name = entry.file_name();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && patterns::may_match(&pattern.to_string_lossy(), &name.to_string_lossy()) {
                let reading = Reading { path: directory.join(name), keep: Keep::IfReal };
                self.path(leaf, &reading, base, access)?;
            }
        }
        Ok(())
    }

    fn spend(&mut self, looks: usize) -> Result<(), Fault> {
        self.looks = self.looks.checked_sub(looks).ok_or(Fault::TooLarge)?;
        Ok(())
    }

    fn add_base(&mut self, path: &Path) {
        if self.bases.len() < MOST_BASES && !self.bases.iter().any(|base| base == path) {
            self.bases.push(path.to_owned());
        }
    }

    /// Makes a path a fact, and refuses it where it touches what is protected.
    fn resolved(
        &mut self,
        argument: &str,
        given: &str,
        resolved: &Resolved,
        access: Access,
    ) -> Result<(), Fault> {
        let surroundings = self.surroundings;
        let watch =
            self.watch.get_or_insert_with(|| Watch::new(&surroundings.protected, &surroundings.session));
        let touched = watch.judge(resolved, access);
        // Deleting and renaming act on a link itself, and what replaces a file replaces the link.
        let links = || resolved.links.iter().filter(|_| access != Access::Read);
        let touched = touched.or_else(|| links().find_map(|link| watch.judge_name(link, access)));
        self.fact(argument, given, &resolved.path, access, touched.map(|(what, _)| what.to_owned()))?;
        match touched {
            None => {}
            Some((what, Touch::Inside)) => {
                return Err(Fault::Protected { argument: name_of(argument), what: what.to_owned() });
            }
            Some((what, Touch::Holds)) => {
                let deed = refusal::deed(access);
                return Err(Fault::HoldsProtected {
                    argument: name_of(argument),
                    what: what.to_owned(),
                    deed,
                });
            }
        }
        for link in links().filter(|link| !link.starts_with(&surroundings.session)) {
            self.fact(argument, given, link, access, None)?;
        }
        Ok(())
    }

    fn fact(
        &mut self,
        argument: &str,
        given: &str,
        path: &Path,
        access: Access,
        protected: Option<String>,
    ) -> Result<(), Fault> {
        let inside = path.starts_with(&self.surroundings.session);
        let fact = PathFact {
            argument: argument.to_owned(),
            given: hosts::shortened(given),
            resolved: path.to_owned(),
            place: if inside { Place::Session } else { Place::Outside },
            protected,
            access,
        };
        if !self.facts.paths.contains(&fact) {
            self.facts.paths.push(fact);
        }
        self.bounded()
    }

    fn host(&mut self, argument: &str, found: Found) -> Result<(), Fault> {
        let Found { given, host, port, scheme, kind } = found;
        let fact = HostFact { argument: argument.to_owned(), given, host, port, scheme, kind };
        if !self.facts.hosts.contains(&fact) {
            self.facts.hosts.push(fact);
        }
        self.bounded()
    }

    fn bounded(&self) -> Result<(), Fault> {
        match self.facts.paths.len() + self.facts.hosts.len() > MOST_FACTS {
            true => Err(Fault::TooMany { most: MOST_FACTS }),
            false => Ok(()),
        }
    }

    fn connections(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let connections = git::connections(call, &self.facts.paths, self.surroundings).map_err(Fault::Git)?;
        for connection in connections {
            match connection {
                Connection::Host { argument, found } => {
                    // The same place, now known for what it is.
                    self.facts.hosts.retain(|fact| {
                        fact.kind != HostKind::Url || fact.argument != argument || fact.host != found.host
                    });
                    self.host(&argument, found)?;
                }
                Connection::Path { argument, given, base, kind } => {
                    let access = if kind == HostKind::GitPush { Access::Write } else { Access::Read };
                    let undecidable = |fault| Fault::Path { argument: name_of(&argument), fault };
                    let home = self.surroundings.home.as_deref();
                    let path = match given.strip_prefix("~/") {
                        Some(below) => home.ok_or(PathFault::NoHome).map_err(undecidable)?.join(below),
                        None => PathBuf::from(&given),
                    };
                    let resolved = resolve(&base, &path).map_err(undecidable)?;
                    self.resolved(&argument, &given, &resolved, access)?;
                }
            }
        }
        Ok(())
    }
}

/// Does a relative path begin with a name that does not exist, and lead nowhere else?
fn is_absent(base: &Path, path: &Path) -> bool {
    if path.components().any(|component| component == Component::ParentDir) {
        return false;
    }
    let first = path.components().find(|component| *component != Component::CurDir);
    let Some(Component::Normal(first)) = first else { return false };
    // A text that cannot be a name is none, too.
    matches!(lstat(base.join(first)), Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL | Errno::NOTDIR))
}

/// How an argument is called in a sentence.
fn name_of(pointer: &str) -> String {
    match pointer.strip_prefix('/') {
        Some(name) => refusal::shown(name),
        None => "(none: the repository's own remote)".to_owned(),
    }
}

#[cfg(test)]
mod tests;
