//! What a person approved for the session. In memory only, per server and tool, and never wider than what was
//! approved: a pattern covers a call when all that the call is about lies in the pattern, and all of the pattern
//! is what the call is about. So an approval to send a file of one directory to one host is no approval to send
//! something else there.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use thiserror::Error;

use super::canonical::CallDigest;
use crate::{Access, Facts, HostFact, HostKind, PathFact, Place};

/// One thing that calls may be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// This directory and all below it, in this way and no other: reading is not writing, nor is writing reading.
    Directory { path: PathBuf, access: Access },
    /// This host, its subdomains not. Where it was reached by a port of its own, at that port.
    Domain { host: String, port: Option<u16>, kind: HostKind },
    /// The same call again.
    Exact(CallDigest),
}

/// Which approval covered a call, for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PatternId(u64);

impl fmt::Display for PatternId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "approval-{}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrantError {
    #[error("an approval that names nothing would cover everything")]
    Nothing,
    #[error("{0} is too much to be approved for a session")]
    TooWide(PathBuf),
    #[error("the same call again cannot be approved together with anything else")]
    Mixed,
}

#[derive(Debug, Clone)]
struct Pattern {
    id: PatternId,
    server: String,
    tool: String,
    scopes: Vec<Scope>,
}

#[derive(Debug, Default)]
pub struct Approvals {
    patterns: Vec<Pattern>,
    given: u64,
}

impl Approvals {
    /// Approves calls of one tool until the session ends.
    pub fn grant(&mut self, server: &str, tool: &str, scopes: Vec<Scope>) -> Result<PatternId, GrantError> {
        check(&scopes)?;
        self.given += 1;
        let id = PatternId(self.given);
        self.patterns.push(Pattern { id, server: server.to_owned(), tool: tool.to_owned(), scopes });
        Ok(id)
    }

    /// Was a call like this approved? `digest` is that of its very arguments.
    pub fn covers(&self, server: &str, tool: &str, facts: &Facts, digest: CallDigest) -> Option<PatternId> {
        if facts.paths.iter().any(|path| path.protected.is_some()) {
            return None;
        }
        let mut own = self.patterns.iter().filter(|pattern| pattern.server == server && pattern.tool == tool);
        own.find(|pattern| pattern.covers(facts, digest)).map(|pattern| pattern.id)
    }

    /// A tool is not what it was any more: what was approved for it was approved for another one.
    pub fn forget(&mut self, server: &str, tool: &str) {
        self.patterns.retain(|pattern| pattern.server != server || pattern.tool != tool);
    }

    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl Pattern {
    fn covers(&self, facts: &Facts, digest: CallDigest) -> bool {
        if let [Scope::Exact(exact)] = self.scopes.as_slice() {
            return *exact == digest;
        }
        let (paths, hosts) = concerns(facts);
        if paths.is_empty() && hosts.is_empty() {
            return false;
        }
        let by_path = |scope: &Scope, fact: &PathFact| match scope {
            Scope::Directory { path, access } => *access == fact.access && holds(path, &fact.resolved),
            _ => false,
        };
        let by_host = |scope: &Scope, fact: &HostFact| match scope {
            Scope::Domain { host, port, kind } => {
                *host == fact.host && *port == fact.port && *kind == fact.kind
            }
            _ => false,
        };
        let every_fact = paths.iter().all(|fact| self.scopes.iter().any(|scope| by_path(scope, fact)))
            && hosts.iter().all(|fact| self.scopes.iter().any(|scope| by_host(scope, fact)));
        let every_scope = self.scopes.iter().all(|scope| {
            paths.iter().any(|fact| by_path(scope, fact)) || hosts.iter().any(|fact| by_host(scope, fact))
        });
        every_fact && every_scope
    }
}

/// What a pattern has to cover: whatever is outside, and whatever is deleted anywhere.
fn concerns(facts: &Facts) -> (Vec<&PathFact>, Vec<&HostFact>) {
    let counts = |path: &&PathFact| path.place == Place::Outside || path.access == Access::Delete;
    (facts.paths.iter().filter(counts).collect(), facts.hosts.iter().collect())
}

fn holds(directory: &Path, path: &Path) -> bool {
    // A resolved path has none; one that has is not resolved.
    let plain = !path.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir));
    plain && path.is_absolute() && path.starts_with(directory)
}

fn check(scopes: &[Scope]) -> Result<(), GrantError> {
    let exact = scopes.iter().filter(|scope| matches!(scope, Scope::Exact(_))).count();
    if scopes.is_empty() {
        return Err(GrantError::Nothing);
    }
    if exact > 0 && scopes.len() > 1 {
        return Err(GrantError::Mixed);
    }
    for scope in scopes {
        match scope {
            Scope::Directory { path, .. } if is_too_wide(path, &[]) => {
                return Err(GrantError::TooWide(path.clone()));
            }
            Scope::Domain { host, .. } if host.is_empty() || host.contains('*') => {
                return Err(GrantError::Nothing);
            }
            _ => {}
        }
    }
    Ok(())
}

/// `/`, the directories in it, and whatever holds something that nobody gives away as a whole.
fn is_too_wide(directory: &Path, never: &[PathBuf]) -> bool {
    let names = directory.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let plain = directory.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    !directory.is_absolute() || !plain || names < 2 || never.iter().any(|path| path.starts_with(directory))
}

/// What approving a call for the session should mean: the directories of its files and its hosts, or where that
/// would be too wide, and for calls that delete, the same call again. `never` is not given away as a whole, nor is
/// what holds it: the home, our own files. Nothing for a call on a protected path.
pub fn suggest(facts: &Facts, digest: CallDigest, never: &[PathBuf]) -> Vec<Scope> {
    if facts.paths.iter().any(|path| path.protected.is_some()) {
        return Vec::new();
    }
    let (paths, hosts) = concerns(facts);
    let mut scopes: Vec<Scope> = Vec::new();
    for fact in &paths {
        let directory = fact.resolved.parent().unwrap_or(Path::new("/"));
        if fact.access == Access::Delete || is_too_wide(directory, never) {
            return vec![Scope::Exact(digest)];
        }
        scopes.push(Scope::Directory { path: directory.to_owned(), access: fact.access });
    }
    scopes.extend(hosts.iter().map(|fact| Scope::Domain {
        host: fact.host.clone(),
        port: fact.port,
        kind: fact.kind,
    }));
    let mut unique: Vec<Scope> = Vec::new();
    for scope in scopes {
        if !unique.contains(&scope) {
            unique.push(scope);
        }
    }
    if unique.is_empty() { vec![Scope::Exact(digest)] } else { unique }
}

/// In words, for the person who is asked: `Candidate { description }`.
pub fn describe(server: &str, tool: &str, scopes: &[Scope]) -> String {
    let one = |scope: &Scope| match scope {
        Scope::Directory { path, access } => {
            let how = match access {
                Access::Read => "reading in",
                Access::Write => "writing in",
                Access::Delete => "deleting in",
            };
            format!("{how} {} and below", path.display())
        }
        Scope::Domain { host, port, kind } => {
            let how = match kind {
                HostKind::Url | HostKind::Host => "reaching",
                HostKind::GitFetch => "fetching from",
                HostKind::GitPush => "pushing to",
            };
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{how} {host}{port}")
        }
        Scope::Exact(_) => "the very same arguments".to_owned(),
    };
    let all: Vec<String> = scopes.iter().map(one).collect();
    format!("{server}/{tool}: {}", all.join(", "))
}

#[cfg(test)]
mod tests;
