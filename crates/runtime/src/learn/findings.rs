//! What was seen in a run, as plain data: paths with what was done to them, system calls, hosts, amounts, and
//! what was refused. Who sees is in [`super::observe`], what is made of it in [`super::draft`].

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// What was done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// Asked about, entered or opened without being read.
    Touch,
    Read,
    /// The names in a directory.
    List,
    /// A symbolic link that was followed or read.
    Follow,
    /// Content, mode or times of something that was there.
    Write,
    /// Names in this directory were made, moved or removed.
    Rename,
    Execute,
    /// Named by an executed file as the program that loads it.
    Load,
    /// Mapped as code.
    Map,
    /// A socket.
    Connect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    #[default]
    File,
    Directory,
    Link,
}

/// One path of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sighting {
    pub kind: Kind,
    pub deeds: BTreeSet<Deed>,
    pub times: u64,
    /// Names of the programs that did it, the first few.
    pub programs: BTreeSet<String>,
}

/// So many programs are named.
const NAMED: usize = 3;

impl Sighting {
    pub fn has(&self, deed: Deed) -> bool {
        self.deeds.contains(&deed)
    }
}

/// A system call by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Called {
    pub times: u64,
    /// The first that made it.
    pub program: String,
}

/// A host and port that was connected to, or (without a port) a name that was only looked up.
pub type Peer = (String, Option<u16>);

/// The most that was used at once, or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    /// Processes and threads at once.
    pub tasks: u64,
    /// The largest file that was written, as it was at the end.
    pub file_bytes: u64,
    /// All that was written.
    pub written_bytes: u64,
}

/// Something that was asked for and not given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// A protected path.
    Secret(PathBuf),
    /// A write where nothing is writable: this directory, or this file, would have to be.
    Write(PathBuf),
    /// Anything else, in the words of the report.
    Other(String),
}

/// Everything that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    pub paths: BTreeMap<PathBuf, Sighting>,
    /// Names that came into being in the run; what is done to them needs their directory only.
    pub made: BTreeSet<PathBuf>,
    /// Where relative names led to, from the working directory: the first of them.
    pub relative: BTreeSet<PathBuf>,
    pub calls: BTreeMap<String, Called>,
    /// Names that were looked up.
    pub names: BTreeSet<String>,
    pub hosts: BTreeMap<Peer, u64>,
    pub amounts: Amounts,
    pub refused: BTreeMap<Refused, Called>,
    /// Programs were executed after the first one.
    pub executions: u64,
    pub forks: u64,
    pub threads: u64,
    /// What was executed or mapped as code although no list could name it beforehand, if anything was.
    pub unlistable_code: BTreeSet<PathBuf>,
    /// Programs that could not be looked into, and how many of their calls.
    pub unseen: BTreeMap<String, u64>,
    /// There was more than is kept.
    pub truncated: bool,
}

/// More paths than this are not kept apart: a walk over a whole disk is not learnt.
const MOST_PATHS: usize = 200_000;

impl Findings {
    /// Something was done to a path of the host. The program is asked for only if it would be kept.
    pub fn see(&mut self, path: &Path, kind: Kind, deed: Deed, program: impl FnOnce() -> String) {
        if let Some(known) = self.paths.get_mut(path) {
            known.times += 1;
            if known.deeds.insert(deed) && known.programs.len() < NAMED {
                known.programs.insert(program());
            }
            return;
        }
        if self.paths.len() >= MOST_PATHS {
            self.truncated = true;
            return;
        }
        let sighting =
            Sighting { kind, deeds: BTreeSet::from([deed]), times: 1, programs: BTreeSet::from([program()]) };
        self.paths.insert(path.to_owned(), sighting);
    }

    pub fn refuse(&mut self, what: Refused, program: impl FnOnce() -> String) {
        const MOST: usize = 1000;
        if self.refused.len() >= MOST && !self.refused.contains_key(&what) {
            self.truncated = true;
            return;
        }
        let known = self.refused.entry(what).or_insert_with(|| Called { times: 0, program: program() });
        known.times += 1;
    }

    /// A program does not let anybody look at what it asks for.
    pub fn blind(&mut self, program: impl FnOnce() -> String) {
        const MOST: usize = 16;
        let program = program();
        if self.unseen.len() < MOST || self.unseen.contains_key(&program) {
            *self.unseen.entry(program).or_default() += 1;
        }
    }

    pub fn call(&mut self, name: &str, program: impl FnOnce() -> String) {
        match self.calls.get_mut(name) {
            Some(known) => known.times += 1,
            None => drop(self.calls.insert(name.to_owned(), Called { times: 1, program: program() })),
        }
    }

    pub fn called(&self, name: &str) -> bool {
        self.calls.contains_key(name)
    }

    /// Did this name, or a directory above it, come into being in the run?
    pub fn is_made(&self, path: &Path) -> bool {
        !self.made.is_empty() && path.ancestors().any(|above| self.made.contains(above))
    }

    /// How many paths had this done to them.
    pub fn count(&self, deeds: &[Deed]) -> usize {
        self.paths.values().filter(|seen| deeds.iter().any(|deed| seen.has(*deed))).count()
    }
}
