//! Learning a policy: the command runs behind the usual walls with a wide view, every call that says something
//! is seen on its way, and what was seen becomes the smallest policy that would have sufficed.
//!
//! [`wide`] makes the policy of the run, [`observe`] sees (with [`acts`], [`walk`], [`places`],
//! [`interpreter`] and [`amounts`]), [`findings`] is what was seen. From there on it is pure: [`fold`], [`headroom`], [`draft`],
//! [`merge`], [`text`].

mod acts;
mod amounts;
mod draft;
pub mod findings;
mod fold;
mod headroom;
mod interpreter;
mod merge;
mod observe;
mod places;
#[cfg(test)]
mod tests;
mod text;
mod walk;
mod wide;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use lazaret_policy::schema::EnvironmentPolicy;
use lazaret_sandbox::linux::launch::Stem;

pub use draft::Draft;
use findings::{Deed, Findings, Refused};
use fold::Ground;
pub use merge::{MergeError, check, merge};
pub use observe::Observer;
pub use text::{Heading, write};
pub use wide::{has_vanished, widen};

use crate::{
    paths::canonical,
    prepare::{Prepared, RunError},
    report::printable,
    run::Outcome,
    view,
};

/// A run that was watched, and what was seen.
#[derive(Debug)]
pub struct Lesson {
    pub outcome: Outcome,
    pub findings: Findings,
    ground: Ground,
}

impl Prepared {
    /// Runs the command to its end and watches it.
    pub fn learn(mut self, stem: Option<Stem>, tell: impl FnMut(&str)) -> Result<Lesson, RunError> {
        self.observer = Some(Observer::new(&mut self.lowered));
        let outcome = self.run_to_its_end(stem, tell)?;
        let mut findings = self.observer.take().map(Observer::finish).unwrap_or_default();
        complete(&mut findings, &outcome);
        Ok(Lesson { outcome, findings, ground: self.ground() })
    }

    fn ground(&self) -> Ground {
        let request = &self.request;
        let home = request.home.as_ref().map(|home| canonical(home).unwrap_or_else(|_| home.clone()));
        let expand = |path: &PathBuf| match path.strip_prefix("~") {
            Ok(rest) => home.as_ref().map(|home| home.join(rest)),
            Err(_) => Some(path.clone()),
        };
        Ground {
            denied: request.policy.filesystem.denied_paths.iter().filter_map(expand).collect(),
            directory: canonical(&request.directory).unwrap_or_else(|_| request.directory.clone()),
            home: home.filter(|home| home != Path::new("/")),
        }
    }
}

impl Lesson {
    /// The policy that would have sufficed, with these variables.
    pub fn draft(&self, environment: EnvironmentPolicy) -> Draft {
        draft::draft(&self.findings, &self.ground, environment)
    }
}

/// Adds what only the end tells.
fn complete(findings: &mut Findings, outcome: &Outcome) {
    let report = &outcome.report;
    let amounts = &mut findings.amounts;
    amounts.wall_ms = report.duration_ms;
    amounts.cpu_ms = report.usage.cpu_ms;
    amounts.memory_bytes = amounts.memory_bytes.max(report.usage.max_rss_bytes);
    let mut sizes = Sizes::default();
    let written = findings.paths.iter().filter(|(_, seen)| seen.has(Deed::Write)).map(|(path, _)| path);
    for path in findings.made.iter().chain(written) {
        sizes.add(path);
    }
    findings.amounts.file_bytes = sizes.largest;
    findings.amounts.written_bytes = findings.amounts.written_bytes.max(sizes.total);
    if let Some(network) = &report.network {
        for host in network.hosts.iter().filter(|host| host.counts.connections > 0) {
            findings.hosts.insert((host.host.clone(), Some(host.port)), host.counts.connections);
        }
    }
    for name in &findings.names {
        let connected = findings.hosts.keys().any(|(host, port)| host == name && port.is_some());
        if !connected {
            findings.hosts.insert((name.clone(), None), 1);
        }
    }
    for violation in &report.violations {
        // Paths were seen on their own.
        if violation.path.is_none() {
            let what = format!("{}; {}", violation.description, violation.remedy);
            findings.refuse(Refused::Other(what), || printable(&violation.process));
        }
    }
    // A path that is gone could not be listed, and one that could not be read need not be.
    let mut unreadable = Vec::new();
    findings.paths.retain(|path, seen| {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        let readable = !metadata.is_file() || !seen.has(Deed::Read) || is_readable(path, &metadata);
        if !readable {
            unreadable.push((path.clone(), seen.programs.first().cloned().unwrap_or_default()));
        }
        readable
    });
    for (path, program) in unreadable {
        let what = format!("reading of {}, which its permissions forbid", path.display());
        findings.refuse(Refused::Other(what), || program);
    }
}

/// Could the command read it? Started by root it is not root, and what only root may read of the system is
/// closed to it.
fn is_readable(path: &Path, metadata: &fs::Metadata) -> bool {
    if !rustix::process::geteuid().is_root() {
        return rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok();
    }
    !view::is_of_system(path) || metadata.permissions().mode() & 0o004 != 0
}

/// How large what was written is.
#[derive(Debug, Default)]
struct Sizes {
    largest: u64,
    total: u64,
    looked_at: usize,
}

impl Sizes {
    fn add(&mut self, path: &Path) {
        const MOST: usize = 100_000;
        self.looked_at += 1;
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if metadata.is_file() {
            self.largest = self.largest.max(metadata.len());
            self.total = self.total.saturating_add(metadata.len());
        } else if metadata.is_dir() && self.looked_at < MOST {
            let Ok(entries) = fs::read_dir(path) else { return };
            entries.flatten().for_each(|entry| self.add(&entry.path()));
        }
    }
}
