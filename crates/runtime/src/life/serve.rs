//! A server that runs for long, as a value of its own: one sandbox with one command in it, its streams as pipes,
//! a handle for other threads, and a word when it has ended. For programs that keep many of them; each takes one
//! thread that waits, and one more if it has a network.
//!
//! ```no_run
//! use std::time::Duration;
//! use lazaret_runtime::{Launcher, Request, ViolationTap, serve};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Launcher::start("/usr/bin/lazaret".as_ref())?;
//! let policy = lazaret_policy::load::load_file("server.toml".as_ref())?.policy;
//! let tap = ViolationTap::new();
//! let mut request = Request::new(policy, "/srv/session", "/var/log/audit.jsonl");
//! request.command = vec!["mcp-server-git".into()];
//! request.violations = Some(tap.clone());
//!
//! let (sender, ended) = std::sync::mpsc::channel();
//! let mut server = serve::start(&launcher, request, move |end| drop(sender.send(end)))?;
//! let (input, output) = (server.stdin.take(), server.stdout.take());
//!
//! let mark = tap.mark();
//! // … a question through `input`, an answer with an error from `output` …
//! server.handle().settle(Duration::from_millis(20));
//! for violation in tap.since(mark) {
//!     println!("blocked: {} ({})", violation.description, violation.remedy);
//! }
//!
//! drop(input);
//! server.handle().terminate(Duration::from_secs(2));
//! let end = ended.recv()??;
//! println!("exit code {}", end.exit_code);
//! # drop(output);
//! # Ok(())
//! # }
//! ```

use std::{
    ffi::OsString,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use lazaret_sandbox::linux::{launch::LaunchError, launcher::Launcher};

use super::{Direction, Inner, Sandbox, Stdio, plain, stream, watch};
use crate::{
    meter::Meter,
    prepare::RunError,
    report::{Ending, EnforcementReport, Report},
    request::Request,
    steer::{Stage, Steering, Wish},
};

pub use plain::{Unconfined, start_unconfined};

/// Enough for what the watching thread does; what is not used of it takes no memory.
const STACK: usize = 512 << 10;

/// A server that runs. Dropping it kills it and waits until everything that belonged to it is gone; once its
/// end has been told that takes no time.
#[derive(Debug)]
pub struct Running {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    id: String,
    containment: Containment,
    notes: Vec<String>,
    handle: Handle,
    watcher: Option<JoinHandle<Option<End>>>,
}

/// What holds a server.
#[derive(Debug, Clone)]
pub enum Containment {
    /// A sandbox; the report says which layers are in force, and which are missing.
    Sandbox(EnforcementReport),
    /// It has all the rights of whoever started it.
    Nothing,
}

impl Containment {
    /// In a sandbox of which nothing is missing.
    pub fn is_whole(&self) -> bool {
        matches!(self, Containment::Sandbox(enforcement) if enforcement.missing.is_empty())
    }
}

/// How a server ended. By then everything inside is gone, and what it was is in the log.
pub type End = Result<Departed, RunError>;

#[derive(Debug, Clone)]
pub struct Departed {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub outcome: Ending,
    /// Why it ended, when it did not end by itself.
    pub reason: Option<String>,
    /// Of a sandbox.
    pub report: Option<Box<Report>>,
}

/// To steer a server from any thread. Nothing here waits, but for [`Handle::settle`].
#[derive(Debug, Clone)]
pub struct Handle(Arc<Steering>);

impl Handle {
    pub(super) fn new(steering: Arc<Steering>) -> Handle {
        Handle(steering)
    }

    /// Asks it to end (SIGTERM to its process group), and after `grace` ends everything. Close its standard
    /// input before: that is how a server is asked first.
    pub fn terminate(&self, grace: Duration) {
        self.0.wish(Wish::Terminate(grace));
    }

    /// Ends everything at once.
    pub fn kill(&self) {
        self.0.wish(Wish::Kill);
    }

    /// Waits until every violation that happened before this call has been heard by the tap, but no longer than
    /// `patience`; some 20 µs if the host is not busy. Tells whether it has come to that.
    pub fn settle(&self, patience: Duration) -> bool {
        self.0.settle(patience)
    }

    pub fn has_ended(&self) -> bool {
        self.0.stage() == Stage::Over
    }
}

/// Makes a sandbox and starts `request.command` in it. On return it has been executed: what could not be built,
/// enforced or found is an error, and then nothing runs. `on_end` is called once, by the thread that watched,
/// when everything has ended; not if this function fails.
///
/// Takes some milliseconds. The launcher must be kept as long as the server.
pub fn start(
    launcher: &Launcher,
    request: Request,
    on_end: impl FnOnce(End) + Send + 'static,
) -> Result<Running, RunError> {
    let argv = request.command.clone();
    let mut sandbox = Sandbox::create(launcher, request)?;
    let mut command = sandbox.template.clone();
    command.argv = argv.iter().map(|argument| argument.as_bytes().to_vec()).collect();
    let pipes = Pipes::make()?;
    let mut inner = sandbox.inner.take().ok_or(RunError::Gone)?;
    let [input, output, errors] = pipes.theirs.each_ref().map(AsFd::as_fd);
    inner.sandbox.execute(&command, [input, output, errors])?;
    drop(pipes.theirs);
    let containment = Containment::Sandbox(enforcement(&sandbox, &inner));
    let (id, notes) = (sandbox.id().to_owned(), sandbox.notes().to_vec());
    let steering = Arc::new(Steering::new().map_err(RunError::Signals)?);
    let life = move |steering: &Steering| live(sandbox, inner, &argv, steering);
    let watcher = watched(&steering, life, on_end)?;
    let [stdin, stdout, stderr] = pipes.ours.map(Some);
    let handle = Handle::new(steering);
    Running { stdin, stdout, stderr, id, containment, notes, handle, watcher: Some(watcher) }.once_executed()
}

impl Running {
    pub(super) fn plain(
        id: String,
        [stdin, stdout, stderr]: [OwnedFd; 3],
        handle: Handle,
        watcher: JoinHandle<Option<End>>,
    ) -> Running {
        let [stdin, stdout, stderr] = [stdin, stdout, stderr].map(Some);
        let (containment, notes) = (Containment::Nothing, Vec::new());
        Running { stdin, stdout, stderr, id, containment, notes, handle, watcher: Some(watcher) }
    }

    /// Waits for that, or says why it has not been.
    pub(super) fn once_executed(mut self) -> Result<Running, RunError> {
        if self.handle.0.await_start() == Stage::Running {
            return Ok(self);
        }
        match self.watcher.take().and_then(|watcher| watcher.join().ok()).flatten() {
            Some(Err(error)) => Err(error),
            Some(Ok(Departed { outcome: Ending::NotExecuted, reason: Some(why), .. })) => {
                Err(RunError::NotExecuted(why))
            }
            // It was executed and has ended already.
            None => Ok(self),
            Some(Ok(_)) => Err(RunError::Gone),
        }
    }

    /// As the log has it.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn containment(&self) -> &Containment {
        &self.containment
    }

    /// What a person should know, which did not stop it from being started.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.handle.kill();
            // Who is told of the end may drop it, too, and then waits for itself.
            if watcher.thread().id() != std::thread::current().id() {
                let _ = watcher.join();
            }
        }
    }
}

/// The ends for the server, and those that stay here.
pub(super) struct Pipes {
    pub theirs: [OwnedFd; 3],
    pub ours: [OwnedFd; 3],
}

impl Pipes {
    pub fn make() -> Result<Pipes, RunError> {
        let pipe = |direction| -> Result<(OwnedFd, OwnedFd), RunError> {
            let (theirs, ours) = stream(Stdio::Piped, direction)?;
            Ok((theirs, OwnedFd::from(ours.ok_or(RunError::Gone)?)))
        };
        let (input, to_input) = pipe(Direction::In)?;
        let (output, from_output) = pipe(Direction::Out)?;
        let (errors, from_errors) = pipe(Direction::Error)?;
        Ok(Pipes { theirs: [input, output, errors], ours: [to_input, from_output, from_errors] })
    }
}

/// Lets a thread live the life of a server. It tells `on_end` of the end, unless there was no beginning: then
/// it returns it.
pub(super) fn watched(
    steering: &Arc<Steering>,
    life: impl FnOnce(&Steering) -> End + Send + 'static,
    on_end: impl FnOnce(End) + Send + 'static,
) -> Result<JoinHandle<Option<End>>, RunError> {
    let steering = Arc::clone(steering);
    let name = "lazaret-watch".to_owned();
    std::thread::Builder::new()
        .name(name)
        .stack_size(STACK)
        .spawn(move || {
            // Should this thread panic, nobody waits for it for ever.
            let end = catch_unwind(AssertUnwindSafe(|| life(&steering))).unwrap_or(Err(RunError::Gone));
            let began = steering.stage() == Stage::Running;
            steering.reach(Stage::Over);
            if began {
                on_end(end);
                return None;
            }
            Some(end)
        })
        .map_err(RunError::Signals)
}

/// What is in force for the command that is about to be executed.
fn enforcement(sandbox: &Sandbox, inner: &Inner) -> EnforcementReport {
    let prepared = &sandbox.shared.prepared;
    let meter = Meter::new(&prepared.request.policy, &prepared.lowered, &inner.sandbox);
    EnforcementReport::new(&inner.sandbox.enforcement(), &prepared.lowered.needed, meter.mechanism)
}

fn live(mut sandbox: Sandbox, inner: Inner, argv: &[OsString], steering: &Steering) -> End {
    let shared = Arc::clone(&sandbox.shared);
    let (outcome, inner, survives) = watch(&shared, inner, argv, Some(steering));
    sandbox.inner = Some(inner);
    sandbox.survives = survives;
    let outcome = outcome?;
    sandbox.last = Some(outcome.report);
    let report = sandbox.destroy()?.ok_or(RunError::Launch(LaunchError::NoCommand))?;
    Ok(Departed {
        exit_code: report.exit_code,
        signal: report.signal,
        outcome: report.outcome,
        reason: outcome.not_executed.or_else(|| report.reason.clone()),
        report: Some(Box::new(report)),
    })
}
