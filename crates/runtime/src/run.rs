//! The life of `lazaret run -- command`, in order: resolve, record, build, compare, go, watch, end, tell.

use std::{
    cell::{Cell, RefCell},
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::PathBuf,
    time::{Duration, Instant},
};

use lazaret_audit::{AuditError, EventKind, Log, NewEvent, redact};
use lazaret_policy::{Policy, schema::Level};
use lazaret_sandbox::{
    Layer, Plan,
    linux::{
        cgroup::Cgroup,
        launch::{LaunchError, Sandbox, Stem, launch},
        sys,
    },
    spec::{Namespaces, Terminal},
};
use serde_json::json;

use crate::{
    approvals::{self, Approval, ApprovalError},
    filter,
    lower::{self, LowerError, Lowered},
    meter::{Consequence, Exceeded, Meter},
    quarantine::{Entry, Quarantine, QuarantineError},
    record::{Fate, Record},
    report::{Ending, EnforcementReport, Report, Usage, printable},
    request::{Request, Requirement, TerminalUse},
    respond::respond,
    supervise::{self, SuperviseError, Supervised},
    terminal::{self, Relay},
    watch::Watch,
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
    #[error(
        "network access (allowNetwork) is not available: a sandbox has no way out. Set network.allowNetwork to false"
    )]
    Network,
    #[error(
        "standard stream {0} is a directory: through it the command would hold a door to the host's files"
    )]
    DirectoryAsStream(u8),
    #[error(
        "{tool} is quarantined since sandbox {}: {}. After a look at it, `lazaret tool release {tool}` lets it run again",
        entry.sandbox_id, printable(&entry.reason)
    )]
    Quarantined { tool: String, entry: Box<Entry> },
    #[error(transparent)]
    Quarantine(#[from] QuarantineError),
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
    request: Request,
    lowered: Lowered,
}

/// A finished run.
#[derive(Debug)]
pub struct Outcome {
    pub report: Report,
    /// Set when the command could not be executed: why, for a person.
    pub not_executed: Option<String>,
}

/// Begins to make the namespaces of a level-2 sandbox, while the caller is still reading what to run there.
/// Nothing of it lasts unless [`Prepared::run`] takes it up.
pub fn begin() -> Option<Stem> {
    Stem::start(Namespaces::All, lower::identity().ok()?).ok()
}

/// Checks everything that can be checked without starting anything.
pub fn prepare(request: Request) -> Result<Prepared, RunError> {
    if request.policy.network.allow_network && request.policy.isolation_level == Level::Full {
        return Err(RunError::Network);
    }
    let unenforceable = unenforceable(&request.policy);
    if request.requirement == Requirement::Enforce
        && let Some(what) = unenforceable.first()
    {
        return Err(RunError::Unenforceable((*what).to_owned()));
    }
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
    Ok(Prepared { request, lowered })
}

/// What the policy says and this sandbox cannot hold.
fn unenforceable(policy: &Policy) -> Vec<&'static str> {
    let network = &policy.network;
    let by_host = !network.allowed_hosts.is_empty() || !network.allowed_ports.is_empty();
    let shared = policy.isolation_level == Level::Process && network.allow_network;
    [
        (
            shared && by_host,
            "network.allowedHosts or allowedPorts at level 1, which uses the host's network,",
        ),
    ]
    .into_iter()
    .filter_map(|(asked, what)| asked.then_some(what))
    .collect()
}

impl Prepared {
    pub fn plan(&self) -> Plan {
        Plan::of(&self.lowered.spec)
    }

    /// Things a person should know, which do not stop the run.
    pub fn notes(&self) -> &[String] {
        &self.lowered.notes
    }

    fn refuse_quarantined(&self) -> Result<(), RunError> {
        let (Some(tool), Some(state)) = (&self.request.tool, &self.request.state) else { return Ok(()) };
        match Quarantine::open(state).check(tool)? {
            Some(entry) => Err(RunError::Quarantined { tool: tool.clone(), entry: Box::new(entry) }),
            None => Ok(()),
        }
    }

    /// Runs the command to its end. `tell` is called with warnings before the command starts.
    pub fn run(mut self, stem: Option<Stem>, tell: impl FnMut(&str)) -> Result<Outcome, RunError> {
        self.refuse_quarantined()?;
        let approval = match self.request.policy.isolation_level {
            Level::None => Some(approvals::find(&self.program_on_host())?),
            _ => None,
        };
        let sandbox_id = format!("sb-{}", uuid::Uuid::now_v7());
        let log = Log::open(&self.request.audit_log)?;
        let created = Cell::new(false);
        let outcome = self.live(stem, &sandbox_id, &log, &created, approval, tell);
        if let Err(error) = &outcome
            && created.get()
        {
            // What was begun in the log is ended there, whatever went wrong in between.
            let event = NewEvent::new(EventKind::SandboxDestroyed, &sandbox_id);
            let _ = log.append(&event.with("error", error.to_string()));
        }
        outcome
    }

    fn live(
        &mut self,
        stem: Option<Stem>,
        sandbox_id: &str,
        log: &Log,
        created: &Cell<bool>,
        approval: Option<Approval>,
        mut tell: impl FnMut(&str),
    ) -> Result<Outcome, RunError> {
        let level = self.request.policy.isolation_level;
        let signals = sys::signals_as_descriptor(&supervise::FORWARDED).map_err(RunError::Signals)?;
        let started = Instant::now();
        let event = self.created(sandbox_id);
        let record = RefCell::new(Record::new(log, sandbox_id));
        let sandbox = self.build(stem, || {
            if !created.replace(true) {
                record.borrow_mut().append(&event)?;
            }
            Ok(())
        })?;
        let mut record = record.into_inner();
        let mut meter = Meter::new(&self.request.policy, &self.lowered, &sandbox);
        let enforcement =
            EnforcementReport::new(&sandbox.enforcement(), &self.lowered.needed, meter.mechanism);
        let missing = sandbox.enforcement().missing(&self.lowered.needed);
        if !missing.is_empty() {
            if self.request.requirement == Requirement::Enforce {
                return Err(RunError::Short { level: level.number(), missing });
            }
            for layer in &missing {
                tell(&format!("weaker: no {layer}, so {}", layer.weaker_without()));
            }
        }
        self.notes().iter().for_each(|note| tell(note));

        let mut events = Vec::new();
        if !missing.is_empty() {
            events.push(
                NewEvent::new(EventKind::EnforcementWeakened, sandbox_id)
                    .with("missing", json!(enforcement.missing))
                    .with("weaker", json!(enforcement.weaker)),
            );
        }
        if let Some(approval) = approval {
            events.push(
                NewEvent::new(EventKind::Level0Used, sandbox_id)
                    .with("program", approval.program.to_string_lossy())
                    .with("reason", approval.reason),
            );
        }
        if !events.is_empty() {
            record.append_all(&events)?;
        }
        let modes = terminal::SavedModes::of_streams();
        let relay = sandbox.terminal().map(|_| Relay::start()).transpose().map_err(RunError::Signals)?;
        sandbox.go().map_err(|error| RunError::Launch(LaunchError::Channel(error)))?;
        if relay.is_none() {
            release_streams();
        }
        // Written while the command is being loaded; if it cannot be, the sandbox dies with this function.
        record.append(
            &NewEvent::new(EventKind::SandboxEntered, sandbox_id)
                .with("pid", sandbox.pid())
                .with("enforcement", json!(enforcement)),
        )?;
        let mut watch = Watch::new(&self.request.policy, &self.lowered);
        let limit = self.request.policy.timeout.map(Duration::from);
        let supervised =
            supervise::supervise(&sandbox, &mut watch, &mut record, &mut meter, signals.as_fd(), limit, relay);
        let mut sandbox = sandbox;
        if supervised.is_err() {
            sandbox.kill();
        }
        let ended = sandbox.wait();
        drop(modes);
        let mut supervised = supervised.map_err(RunError::Supervise)?;
        self.tell_of_signal(&supervised, &mut record)?;
        let usage = Usage {
            cpu_ms: ended.cpu_ms.max(meter.cpu_ms),
            max_rss_bytes: ended.max_rss_bytes,
            memory_peak_bytes: (meter.memory_peak > 0).then_some(meter.memory_peak),
        };
        for exceeded in self.limits_at_the_end(&mut meter, &sandbox, &supervised, usage) {
            if exceeded.consequence == Consequence::Ended && supervised.status() != Some(0) {
                supervised.ended.get_or_insert((Ending::Limit, exceeded.description.clone()));
            }
            record.limit(exceeded)?;
        }
        let mut outcome = self.conclude(sandbox_id, enforcement, &supervised, usage, started.elapsed());
        record.close()?;
        outcome.report.violations = record.violations().to_vec();
        outcome.report.limits = record.limits().to_vec();
        if outcome.report.outcome == Ending::Escape {
            respond(&self.request, &mut outcome.report, &supervised.processes, &mut record)?;
        }
        let (total, report) = (record.total(), &outcome.report);
        record.append_all(&[
            NewEvent::new(EventKind::SandboxExited, sandbox_id)
                .with("exitCode", report.exit_code)
                .with("signal", json!(report.signal))
                .with("outcome", json!(report.outcome))
                .with("durationMs", report.duration_ms)
                .with("usage", json!(report.usage))
                .with("violations", total),
            NewEvent::new(EventKind::SandboxDestroyed, sandbox_id),
        ])?;
        Ok(outcome)
    }

    /// Launches with everything; where namespaces are refused and that is acceptable, with what is left.
    fn build(
        &mut self,
        stem: Option<Stem>,
        record: impl Fn() -> Result<(), AuditError>,
    ) -> Result<Sandbox, RunError> {
        let level = self.request.policy.isolation_level.number();
        let meanwhile = || record().map_err(RunError::Audit);
        let group = self.make_group()?;
        let spec = &self.lowered.spec;
        let stem = stem.filter(|stem| stem.fits(spec));
        let built = match (stem, group) {
            (Some(stem), None) => stem.grow(spec, meanwhile),
            // Moving into a group can take ten milliseconds, being born in one takes none.
            (Some(mut stem), Some(group)) if group.clone_target().is_none() => {
                stem.join(group).map_err(RunError::Launch).and_then(|()| stem.grow(spec, meanwhile))
            }
            (_, group) => Stem::start_in(spec.namespaces, spec.identity, group)
                .map_err(RunError::Launch)
                .and_then(|stem| stem.grow(spec, meanwhile)),
        };
        match built {
            Err(RunError::Launch(LaunchError::NamespacesRefused { source })) => {
                if self.request.requirement == Requirement::Enforce {
                    return Err(RunError::NamespacesRefused { level, source });
                }
                self.lowered = lower::without_namespaces(&self.lowered, &self.request.policy);
                launch(&self.lowered.spec, meanwhile)
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

    fn created(&self, sandbox_id: &str) -> NewEvent {
        let argv: Vec<String> =
            self.request.command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        NewEvent::new(EventKind::SandboxCreated, sandbox_id)
            .with("command", redact::argv(&argv))
            .with("directory", self.request.directory.to_string_lossy())
            .with("level", self.request.policy.isolation_level.number())
            .with("uid", rustix::process::getuid().as_raw())
    }

    /// Where the program is on the host: for approvals and for telling why it was not found inside.
    fn program_on_host(&self) -> PathBuf {
        let Some(program) = self.request.command.first() else { return PathBuf::new() };
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

    fn conclude(
        &self,
        sandbox_id: &str,
        enforcement: EnforcementReport,
        supervised: &Supervised,
        usage: Usage,
        duration: Duration,
    ) -> Outcome {
        let (mut signal, mut not_executed) = (None, None);
        let (outcome, exit_code) = match (&supervised.ended, supervised.not_executed, supervised.status()) {
            (Some((Ending::Timeout, _)), _, _) => (Ending::Timeout, 124),
            (Some((ending, _)), _, _) => (*ending, 137),
            (None, Some(errno), _) => {
                let (why, code) = self.why_not_executed(errno);
                not_executed = Some(why);
                (Ending::NotExecuted, code)
            }
            (None, None, Some(status)) if status & 0x7f == 0 => (Ending::Exited, (status >> 8) & 0xff),
            (None, None, status) => {
                // Init itself was killed from outside: what it would have told is lost.
                let number = status.map_or(9, |status| status & 0x7f);
                signal = Some(number);
                (Ending::Signaled, 128 + number)
            }
        };
        let report = Report {
            sandbox_id: sandbox_id.to_owned(),
            level: self.request.policy.isolation_level.number(),
            enforcement,
            exit_code,
            signal,
            outcome,
            reason: supervised.ended.as_ref().map(|(_, reason)| reason.clone()),
            duration_ms: duration.as_millis() as u64,
            usage,
            violations: Vec::new(),
            trace: None,
            quarantined: None,
            limits: Vec::new(),
        };
        Outcome { report, not_executed }
    }

    fn tell_of_signal(&self, supervised: &Supervised, record: &mut Record<'_>) -> Result<(), AuditError> {
        match supervised.status() {
            Some(status) if status & 0x7f != 0 => record.signal(status & 0x7f, Fate::EndedTheCommand, &[]),
            _ => Ok(()),
        }
    }

    /// Limits of which only the end tells that they were hit.
    fn limits_at_the_end(
        &self,
        meter: &mut Meter,
        sandbox: &Sandbox,
        supervised: &Supervised,
        usage: Usage,
    ) -> Vec<Exceeded> {
        const SIGXFSZ: i32 = 25;
        let mut found = meter.last_look(sandbox);
        if let Some(status) = supervised.status() {
            if self.cpu_limit_hit(status, usage) {
                found.extend(meter.ended_by_cpu(usage.cpu_ms));
            }
            if status & 0x7f == SIGXFSZ && self.lowered.spec.limits.file_size.is_some() {
                found.extend(meter.ended_by_file_size());
            }
        }
        found
    }

    /// At its CPU limit a process gets SIGXCPU, and a second later, if it does not mind that, SIGKILL.
    fn cpu_limit_hit(&self, status: i32, usage: Usage) -> bool {
        const SIGKILL: i32 = 9;
        const SIGXCPU: i32 = 24;
        let Some(limit) = self.request.policy.resources.max_cpu else { return false };
        match status & 0x7f {
            SIGXCPU => true,
            SIGKILL => usage.cpu_ms >= limit.0,
            _ => false,
        }
    }

    fn why_not_executed(&self, errno: i32) -> (String, i32) {
        const ENOENT: i32 = 2;
        let program =
            self.request.command.first().map(|p| printable(&p.to_string_lossy())).unwrap_or_default();
        let error = io::Error::from_raw_os_error(errno);
        if errno != ENOENT {
            return (format!("cannot execute {program}: {error}"), 126);
        }
        let on_host = self.program_on_host();
        let why = if on_host.is_absolute() && on_host.is_file() {
            let directory = on_host.parent().unwrap_or(&on_host);
            format!(
                "{program}: not found in the sandbox. It is {} on the host, which is not visible inside, or it needs an interpreter that is not: --ro {} makes it visible",
                printable(&on_host.to_string_lossy()),
                printable(&directory.to_string_lossy())
            )
        } else {
            format!("{program}: command not found")
        };
        (why, 127)
    }
}

/// The command has the streams; holding its pipes open here would keep readers waiting.
fn release_streams() {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    if let Ok(null) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
