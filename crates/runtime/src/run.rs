//! The life of `lazaret run -- command`, in order: resolve, record, build, compare, go, watch, end, tell.

use std::{
    cell::{Cell, RefCell},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use lazaret_audit::{EventKind, Log, NewEvent};
use lazaret_policy::schema::Level;
use lazaret_sandbox::{
    linux::{
        launch::{Birth, LaunchError, Stem},
        sys,
    },
    spec::Namespaces,
};
use serde_json::json;

use crate::{
    approvals::{self, Approval},
    conclude::{Finished, Used, exited},
    lower,
    meter::Meter,
    prepare::{Prepared, RunError},
    record::Record,
    report::{EnforcementReport, Report},
    request::Requirement,
    settle,
    supervise::{self, Until},
    terminal::{self, Relay},
    watch::Watch,
};

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

impl Prepared {
    /// Runs the command to its end. `tell` is called with warnings before the command starts.
    pub fn run(mut self, stem: Option<Stem>, tell: impl FnMut(&str)) -> Result<Outcome, RunError> {
        self.run_to_its_end(stem, tell)
    }

    pub(crate) fn run_to_its_end(
        &mut self,
        stem: Option<Stem>,
        tell: impl FnMut(&str),
    ) -> Result<Outcome, RunError> {
        self.refuse_quarantined()?;
        let approval = match self.request.policy.isolation_level {
            Level::None => Some(approvals::find(&self.program_on_host(&self.request.command))?),
            _ => None,
        };
        let sandbox_id = format!("sb-{}", uuid::Uuid::now_v7());
        let log = self.open_log()?;
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
        let record = RefCell::new(Record::new(log, sandbox_id).heard_by(self.request.violations.clone()));
        let mut network = self.network()?;
        if self.observer.is_some() {
            network.note_names();
        }
        let mut sandbox = self.build(Birth::Here, stem, || {
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
        network.chosen_ports().iter().for_each(|note| tell(note));

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
        if let (Some(relay), Some(master)) = (&relay, sandbox.terminal()) {
            // It may have changed since it was looked at, before signals were waited for.
            relay.resize(master);
        }
        sandbox.go().map_err(|error| RunError::Launch(LaunchError::Channel(error)))?;
        if relay.is_none() {
            release_streams();
        }
        network.serve(&mut sandbox, &self.lowered).map_err(RunError::Egress)?;
        // Written while the command is being loaded; if it cannot be, the sandbox dies with this function.
        record.append(
            &NewEvent::new(EventKind::SandboxEntered, sandbox_id)
                .with("pid", sandbox.pid())
                .with("enforcement", json!(enforcement)),
        )?;
        let mut watch = Watch::new(&self.request.policy, &self.lowered, &mut network);
        watch.observer = self.observer.take();
        let limit = self.request.policy.timeout.map(Duration::from);
        let supervised = supervise::supervise(
            &sandbox,
            &mut watch,
            &mut record,
            &mut meter,
            Until::InitIsGone,
            Some(signals.as_fd()),
            None,
            limit,
            relay,
        );
        self.observer = watch.observer.take();
        if supervised.is_err() {
            sandbox.kill();
        }
        let ended = sandbox.wait();
        drop(modes);
        let supervised = supervised.map_err(RunError::Supervise)?;
        network.finish(&mut record)?;
        if let Some(observer) = &mut self.observer {
            observer.names(network.names());
        }
        let mut outcome = self.conclude(
            Finished {
                command: &self.request.command,
                sandbox: &sandbox,
                supervised,
                used: Used::by_all(&ended, sandbox.calls()),
                enforcement,
                duration: started.elapsed(),
                network: network.report(),
            },
            &mut meter,
            &mut record,
        )?;
        settle::settle(self, sandbox.take_written(), &mut outcome.report, &mut record)?;
        record.append_all(&[
            exited(&outcome.report, &record),
            NewEvent::new(EventKind::SandboxDestroyed, sandbox_id),
        ])?;
        Ok(outcome)
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
