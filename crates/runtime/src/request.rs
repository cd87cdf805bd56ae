//! What the caller asks for, resolved as far as the command line can: one command under one policy.

use std::{ffi::OsString, path::PathBuf};

use lazaret_audit::Rotation;
use lazaret_policy::Policy;

use crate::{alert::Destinations, network::LiveRules, tap::ViolationTap};

/// Everything that `run` needs to know; nothing is read from the process's own surroundings later.
#[derive(Debug, Clone)]
pub struct Request {
    pub policy: Policy,
    /// The profile that the policy comes from, if it comes from one; for the log.
    pub profile: Option<String>,
    pub command: Vec<OsString>,
    /// The caller's working directory.
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    pub environment: Vec<(OsString, OsString)>,
    pub requirement: Requirement,
    pub audit_log: PathBuf,
    /// When the audit log goes on in a new file. Not done where a sandbox would see that file.
    pub rotation: Rotation,
    pub terminal: TerminalUse,
    pub writing: Writing,
    /// Our own directory for what outlives a run: traces, the quarantine, transactions.
    pub state: Option<PathBuf>,
    /// The name under which an escape attempt bars it from running again.
    pub tool: Option<String>,
    /// Who is told of an escape attempt.
    pub alerts: Destinations,
    /// Directories of our own that nothing inside may ever see.
    pub own_directories: Vec<PathBuf>,
    /// Who replaces the network's rules while it runs, if anybody does.
    pub live_rules: Option<LiveRules>,
    /// Who hears of every violation while it runs, if anybody does.
    pub violations: Option<ViolationTap>,
}

impl Request {
    /// A request of a program that uses this as a library: nothing of its own surroundings is passed on but
    /// what is set here or afterwards.
    pub fn new(policy: Policy, directory: impl Into<PathBuf>, audit_log: impl Into<PathBuf>) -> Request {
        let audit_log = audit_log.into();
        Request {
            policy,
            profile: None,
            command: Vec::new(),
            directory: directory.into(),
            home: None,
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            requirement: Requirement::Enforce,
            own_directories: lazaret_audit::files_of(&audit_log),
            audit_log,
            rotation: Rotation::default(),
            terminal: TerminalUse::Never,
            writing: Writing::Through,
            state: None,
            tool: None,
            alerts: Destinations::default(),
            live_rules: None,
            violations: None,
        }
    }
}

/// Where writing to writable paths goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// To the host, at once.
    Through,
    /// Into a transaction.
    CopyOnWrite { on_success: OnSuccess },
}

/// What becomes of a transaction when the command has succeeded. When it has not, it is kept, unless it was to
/// be thrown away in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSuccess {
    Commit,
    Keep,
    Discard,
}

/// What to do when a layer that the level needs cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// Refuse to run.
    Enforce,
    /// Run with what there is, and say loudly what is weaker.
    Warn,
}

/// Does the command get a terminal of its own?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalUse {
    /// When standard input and output are a terminal.
    WhenInteractive,
    Never,
}
