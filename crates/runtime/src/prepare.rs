//! A request that has been checked, and what it takes to build its sandbox. Nothing has been started yet.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use lazaret_audit::{AuditError, EventKind, Log, NewEvent, redact};
use lazaret_egress::gate::Gate;
use lazaret_policy::{
    Policy,
    network::{RuleError, Rules},
    schema::Level,
};
use lazaret_sandbox::{
    Layer, Plan,
    linux::{
        cgroup::Cgroup,
        launch::{Birth, LaunchError, Sandbox, Stem},
    },
    spec::{self, Namespaces, Terminal},
};
use lazaret_transaction::{CollectError, CommitError, KeepError, StoreError};
use serde_json::json;

use crate::{
    approvals::ApprovalError,
    filter,
    learn::Observer,
    leftovers::Note,
    lower::{self, LowerError, Lowered},
    network::{self, Network},
    paths::canonical_as_far_as_it_exists,
    presence::Supervisor,
    quarantine::{Entry, Quarantine, QuarantineError},
    report::printable,
    request::{Request, Requirement, TerminalUse, Writing},
    settle,
    supervise::SuperviseError,
    terminal,
};

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    #[error("the audit log cannot be used, so nothing was started: {0}")]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(
        "user namespaces are refused on this host ({source}), so level {level} cannot be enforced. \
         `lazaret doctor` names the cause and the fix; --warn runs with what is left"
    )]
    NamespacesRefused { level: u8, source: io::Error },
    #[error(
        "level {level} needs {}, which this host does not give; nothing was started. `lazaret doctor` names the cause and the fix; --warn runs without",
        names(missing)
    )]
    Short { level: u8, missing: Vec<Layer> },
    #[error(
        "{0} cannot be enforced by this sandbox, and nothing is run that is weaker than its policy says; --warn runs without"
    )]
    Unenforceable(String),
    #[error(
        "{what} cannot be enforced: {why}, and nothing is run that is weaker than its policy says. `lazaret doctor` names the cause and the fix; --warn runs without"
    )]
    NeedsGroup { what: String, why: String },
    #[error(transparent)]
    Rules(#[from] RuleError),
    #[error("port {port} of the host cannot be published: {source}")]
    Publish { port: u16, source: io::Error },
    #[error("the network of the sandbox cannot be served: {0}")]
    Egress(#[source] io::Error),
    #[error(
        "standard stream {0} is a directory: through it the command would hold a door to the host's files"
    )]
    DirectoryAsStream(u8),
    #[error(
        "{0} is quarantined since sandbox {1}: {2}. After a look at it, `lazaret tool release {0}` lets it run again",
        printable(tool), entry.sandbox_id, printable(&entry.reason)
    )]
    Quarantined { tool: String, entry: Box<Entry> },
    #[error(transparent)]
    Quarantine(#[from] QuarantineError),
    #[error("the control group cannot be put on record, so nothing was started: {0}")]
    Note(#[source] io::Error),
    #[error("level 0 has no walls, and nothing that is written there could be undone: leave --cow out")]
    NothingToUndo,
    #[error("there is no place for transactions: set HOME or XDG_STATE_HOME")]
    NoState,
    #[error("what the command wrote cannot be read: {0}")]
    Collect(#[from] CollectError),
    #[error("what the command wrote cannot be kept: {0}")]
    Keep(#[from] KeepError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the sandbox is gone: what ran in it last had to be ended together with it")]
    Gone,
    #[error("{0}")]
    NotExecuted(String),
    #[error("level 0 has no sandbox that could be kept: run the command instead")]
    NoWalls,
    #[error(transparent)]
    Supervise(SuperviseError),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
}

fn names(layers: &[Layer]) -> String {
    layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ")
}

/// A request that has been checked and lowered, but of which nothing has been started.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) request: Request,
    pub(crate) lowered: Lowered,
    rules: Rules,
    /// The control group, when there is one, is on record.
    pub(crate) note: Option<Note>,
    /// What changes on the host from now on is no longer what the sandbox began with.
    pub(crate) began: SystemTime,
    /// Sees what the command does, when it is learnt from.
    pub(crate) observer: Option<Observer>,
}

/// Checks everything that can be checked without starting anything.
pub fn prepare(request: Request) -> Result<Prepared, RunError> {
    let rules = Rules::compile(&request.policy.network)?;
    let unenforceable = unenforceable(&request.policy);
    if request.requirement == Requirement::Enforce
        && let Some(what) = unenforceable.first()
    {
        return Err(RunError::Unenforceable((*what).to_owned()));
    }
    if request.writing != Writing::Through {
        if request.policy.isolation_level == Level::None {
            return Err(RunError::NothingToUndo);
        }
        if request.state.is_none() {
            return Err(RunError::NoState);
        }
    }
    let began = settle::file_time();
    let mut lowered = lower::lower(&request)?;
    if let Some(number) = terminal::directory_among_streams() {
        lowered.notes.push(format!("standard stream {number} is a directory, which would be a door to the host's files: the command gets nothing there"));
    }
    lowered.notes.extend(unenforceable.iter().map(|what| format!("weaker: {what} is not enforced")));
    if request.terminal == TerminalUse::WhenInteractive
        && let Some((rows, columns)) = terminal::interactive()
    {
        lowered.spec.terminal = Terminal::Own { rows, columns };
    }
    Ok(Prepared { request, lowered, rules, note: None, began, observer: None })
}

/// What the policy says and this sandbox cannot hold.
fn unenforceable(policy: &Policy) -> Vec<&'static str> {
    let network = &policy.network;
    let by_host = !network.allowed_hosts.is_empty()
        || !network.allowed_ports.is_empty()
        || network.allowed_domains.is_some()
        || !network.denied_domains.is_empty()
        || network.max_connections.is_some();
    let level_1 = policy.isolation_level == Level::Process;
    [
        (
            level_1 && network.allow_network && by_host,
            "a list of hosts or ports, or a number of connections (network.allowedHosts and its like) at level 1, which uses the host's network,",
        ),
        (level_1 && !network.publish.is_empty(), "network.publish at level 1, which uses the host's network,"),
    ]
        .into_iter()
        .filter_map(|(asked, what)| asked.then_some(what))
        .collect()
}

impl Prepared {
    pub fn plan(&self) -> Plan {
        Plan::of(&self.lowered.spec)
    }

    /// The network of a sandbox that is to be built; ports of the host are taken now.
    pub(crate) fn network(&self) -> Result<Network, RunError> {
        let own = self.lowered.spec.namespaces == Namespaces::All;
        let gate = own.then(|| Arc::new(Gate::new(self.rules.clone())));
        let published = network::publish(&self.request.policy.network.publish)
            .map_err(|(port, source)| RunError::Publish { port, source })?;
        Ok(Network::new(&self.request.policy.network, gate, published, self.request.live_rules.clone()))
    }

    /// Things a person should know, which do not stop the run.
    pub fn notes(&self) -> &[String] {
        &self.lowered.notes
    }

    pub(crate) fn refuse_quarantined(&self) -> Result<(), RunError> {
        let (Some(tool), Some(state)) = (&self.request.tool, &self.request.state) else { return Ok(()) };
        match Quarantine::open(state).check(tool)? {
            Some(entry) => Err(RunError::Quarantined { tool: tool.clone(), entry: Box::new(entry) }),
            None => Ok(()),
        }
    }

    /// Launches with everything; where namespaces are refused and that is acceptable, with what is left.
    pub(crate) fn build(
        &mut self,
        birth: Birth<'_>,
        stem: Option<Stem>,
        record: impl Fn() -> Result<(), AuditError>,
    ) -> Result<Sandbox, RunError> {
        let level = self.request.policy.isolation_level.number();
        let meanwhile = || record().map_err(RunError::Audit);
        let group = self.make_group()?;
        let spec = &self.lowered.spec;
        let stem = stem.filter(|stem| stem.fits(spec));
        let built = match (stem, group) {
            (Some(stem), None) => stem.grow(birth, spec, meanwhile),
            // Moving into a group can take ten milliseconds, being born in one takes none.
            (Some(mut stem), Some(group)) if group.clone_target().is_none() => {
                stem.join(group).map_err(RunError::Launch).and_then(|()| stem.grow(birth, spec, meanwhile))
            }
            (_, group) => Stem::start_in(birth, spec.namespaces, spec.identity, group)
                .map_err(RunError::Launch)
                .and_then(|stem| stem.grow(birth, spec, meanwhile)),
        };
        match built {
            Err(RunError::Launch(LaunchError::NamespacesRefused { source })) => {
                // Without namespaces there are no layers: what was to be undone would be written through.
                let undo = self.request.writing != Writing::Through;
                if self.request.requirement == Requirement::Enforce || undo {
                    return Err(RunError::NamespacesRefused { level, source });
                }
                self.lowered = lower::without_namespaces(&self.lowered, &self.request.policy);
                let spec = &self.lowered.spec;
                Stem::start_in(birth, spec.namespaces, spec.identity, None)
                    .map_err(RunError::Launch)?
                    .grow(birth, spec, meanwhile)
            }
            other => other,
        }
    }

    /// The control group that holds the limits on everything together. Where none can be had, what can be
    /// sampled is sampled, and what would slip through between two looks is closed.
    fn make_group(&mut self) -> Result<Option<Cgroup>, RunError> {
        let wanted = self.lowered.spec.group;
        if wanted.is_empty() {
            return Ok(None);
        }
        match Cgroup::make(&wanted) {
            Ok(group) => {
                self.note = Note::write(self.request.state.as_deref(), &group).map_err(RunError::Note)?;
                // The group counts what is used, not what is reserved.
                self.lowered.spec.limits.data = None;
                // It also tells when it refuses another process.
                self.lowered.spec.limits.processes = None;
                Ok(Some(group))
            }
            Err(error) => {
                let only_by_group = [
                    (wanted.cpu_percent.is_some(), "resources.maxCPUPercent"),
                    (wanted.io_bytes.is_some(), "resources.maxIOBandwidth"),
                    (wanted.io_operations.is_some(), "resources.maxIOPS"),
                ];
                let lost: Vec<&str> =
                    only_by_group.iter().filter_map(|(asked, name)| asked.then_some(*name)).collect();
                if let Some(what) = lost.first()
                    && self.request.requirement == Requirement::Enforce
                {
                    return Err(RunError::NeedsGroup { what: (*what).to_owned(), why: error.to_string() });
                }
                self.lowered
                    .notes
                    .extend(lost.iter().map(|what| format!("weaker: {what} is not enforced ({error})")));
                if let Some(filter) = &mut self.lowered.spec.filter {
                    if wanted.memory.is_some() {
                        filter::close_uncounted_memory(filter);
                        // A socket's buffers are nobody's memory: at least there shall be few of them.
                        let limits = &mut self.lowered.spec.limits;
                        limits.open_files = Some(limits.open_files.unwrap_or(1024).min(1024));
                    }
                    if self.request.policy.process.max_processes.is_some() {
                        filter::count_processes(filter);
                        self.lowered.counts_processes = true;
                    }
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn created(&self, sandbox_id: &str) -> NewEvent {
        let argv: Vec<String> =
            self.request.command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let mut event = NewEvent::new(EventKind::SandboxCreated, sandbox_id)
            .with("command", redact::argv(&argv))
            .with("directory", self.request.directory.to_string_lossy())
            .with("level", self.request.policy.isolation_level.number())
            .with("uid", rustix::process::getuid().as_raw())
            .with("supervisor", json!(Supervisor::this()));
        for (key, name) in [("profile", &self.request.profile), ("tool", &self.request.tool)] {
            if let Some(name) = name {
                event = event.with(key, name.as_str());
            }
        }
        if self.observer.is_some() { event.with("learning", true) } else { event }
    }

    /// The log, which goes on in a new file by itself only where that is hidden from what runs inside: a
    /// mask lies on the file, and would go with it to its new name.
    pub(crate) fn open_log(&self) -> Result<Log, AuditError> {
        let log = Log::open(&self.request.audit_log)?;
        let Some(directory) = log.path().parent() else { return Ok(log) };
        let directory = canonical_as_far_as_it_exists(directory, &mut Vec::new()).0;
        let covers = |path: &Path| directory.starts_with(path);
        let visible = self.lowered.spec.view.iter().any(|entry| match entry {
            spec::Entry::Bind { path, .. } | spec::Entry::Hollow { path, .. } => covers(path),
            _ => false,
        });
        let hides = |own: &PathBuf| own.canonicalize().is_ok_and(|own| own.is_dir() && covers(&own));
        let hidden = !visible || self.request.own_directories.iter().any(hides);
        Ok(if hidden { log.rotating(self.request.rotation) } else { log })
    }

    /// Where the program is on the host: for approvals and for telling why it was not found inside.
    pub(crate) fn program_on_host(&self, command: &[OsString]) -> PathBuf {
        let Some(program) = command.first() else { return PathBuf::new() };
        if program.as_bytes().contains(&b'/') {
            return self.request.directory.join(program);
        }
        let path = self.request.environment.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value);
        path.into_iter()
            .flat_map(std::env::split_paths)
            .map(|directory| directory.join(program))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| PathBuf::from(program))
    }
}
