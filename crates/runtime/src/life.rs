//! A sandbox as a value, in the manner of `std::process`: [`Sandbox::create`] it, execute commands in it one
//! after the other, [`Sandbox::destroy`] it (RFC-0002 §10). What is not destroyed is destroyed when dropped.
//!
//! ```no_run
//! use lazaret_runtime::{Launcher, Sandbox, Request, Stdio};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Launcher::start("/usr/bin/lazaret".as_ref())?;
//! let policy = lazaret_policy::load::load_file("tool.toml".as_ref())?.policy;
//! let mut sandbox = Sandbox::create(&launcher, Request::new(policy, "/srv/project", "/var/log/audit.jsonl"))?;
//!
//! let output = sandbox.command("sort").arg("-u").arg("names.txt").output()?;
//! assert!(output.report.exit_code == 0);
//!
//! let mut child = sandbox.command("wc").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn()?;
//! std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one two three")?;
//! let output = child.wait_with_output()?;
//! println!("{}", String::from_utf8_lossy(&output.stdout));
//!
//! sandbox.destroy()?;
//! # Ok(())
//! # }
//! ```

mod plain;
pub mod serve;

use std::{
    cell::RefCell,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use lazaret_audit::{EventKind, Log, NewEvent};
use lazaret_policy::schema::Level;
use lazaret_sandbox::{
    Layer,
    linux::{
        launch::{self, Birth, LaunchError, Remote},
        launcher::Launcher,
    },
    spec,
};
use serde_json::json;

use crate::{
    conclude::{Finished, Used, exited, with_totals},
    meter::Meter,
    network::Network,
    prepare::{Prepared, RunError, prepare},
    record::Record,
    report::{EnforcementReport, Report},
    request::{Request, Requirement, TerminalUse},
    run::Outcome,
    settle,
    steer::Steering,
    supervise::{self, Until},
    watch::Watch,
};

/// A sandbox that stands and runs nothing, or one command.
#[derive(Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
    /// Away while a command runs.
    inner: Option<Inner>,
    survives: Survives,
    /// Directory and environment of every command, as the policy has them.
    template: spec::Command,
    last: Option<Report>,
    logged: Logged,
}

/// What a command runs in.
#[derive(Debug)]
struct Inner {
    sandbox: launch::Sandbox,
    network: Network,
}

#[derive(Debug)]
struct Shared {
    prepared: Prepared,
    log: Log,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    Created,
    Destroyed,
}

/// Where a stream of a command comes from or goes to.
#[derive(Debug, Default)]
pub enum Stdio {
    /// Nothing: end of file for reading, oblivion for writing.
    #[default]
    Null,
    /// A new pipe, whose other end the [`Child`] has.
    Piped,
    /// This program's own stream.
    Inherit,
    Given(OwnedFd),
}

/// What a finished command wrote, and how it went.
#[derive(Debug)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub report: Report,
}

impl Sandbox {
    /// Builds everything that does not depend on the command. `request.command` is not used.
    pub fn create(launcher: &Launcher, request: Request) -> Result<Sandbox, RunError> {
        Sandbox::build(Birth::By(launcher), request)
    }

    /// As [`Sandbox::create`], split off from this process itself.
    ///
    /// Only for a process that has no other threads: what another thread holds locked at that moment stays
    /// locked for ever in the new process, which may then never finish.
    pub fn create_here(request: Request) -> Result<Sandbox, RunError> {
        Sandbox::build(Birth::Here, request)
    }

    fn build(birth: Birth<'_>, mut request: Request) -> Result<Sandbox, RunError> {
        if request.policy.isolation_level == Level::None {
            return Err(RunError::NoWalls);
        }
        request.terminal = TerminalUse::Never;
        let mut prepared = prepare(request)?;
        prepared.refuse_quarantined()?;
        let template = prepared.lowered.spec.command.take().unwrap_or_else(|| spec::Command {
            argv: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::from("/"),
        });
        let id = format!("sb-{}", uuid::Uuid::now_v7());
        let log = prepared.open_log()?;
        let created = prepared.created(&id);
        let written = RefCell::new(None);
        let built = prepared.build(birth, None, || {
            if written.borrow().is_none() {
                *written.borrow_mut() = Some(log.append(&created)?);
            }
            Ok(())
        });
        let destroyed = |error: RunError| {
            if written.borrow().is_some() {
                let event = NewEvent::new(EventKind::SandboxDestroyed, &id).with("error", error.to_string());
                let _ = log.append(&event);
            }
            error
        };
        let mut inner = built.map_err(destroyed)?;
        let mut network = prepared.network().map_err(destroyed)?;
        let needed: Vec<Layer> = per_sandbox(&prepared.lowered.needed);
        let missing = inner.enforcement().missing(&needed);
        if !missing.is_empty() && prepared.request.requirement == Requirement::Enforce {
            drop(inner);
            let level = prepared.request.policy.isolation_level.number();
            return Err(destroyed(RunError::Short { level, missing }));
        }
        network.serve(&mut inner, &prepared.lowered).map_err(|error| destroyed(RunError::Egress(error)))?;
        let inner = Inner { sandbox: inner, network };
        let shared = Arc::new(Shared { prepared, log, id });
        let survives = Survives::Yes;
        Ok(Sandbox { shared, inner: Some(inner), survives, template, last: None, logged: Logged::Created })
    }

    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// What a person should know, which did not stop it from being built.
    pub fn notes(&self) -> &[String] {
        self.shared.prepared.notes()
    }

    /// Begins to describe a command. Its environment and directory are those of the policy unless said
    /// otherwise.
    pub fn command(&mut self, program: impl AsRef<OsStr>) -> Command<'_> {
        Command {
            argv: vec![program.as_ref().to_owned()],
            environment: Vec::new(),
            directory: None,
            stdin: None,
            stdout: None,
            stderr: None,
            sandbox: self,
        }
    }

    /// Ends everything inside and removes what belonged to it. What was written copy-on-write is settled as
    /// the request says, by how the last command went.
    pub fn destroy(mut self) -> Result<Option<Report>, RunError> {
        self.end()
    }

    fn end(&mut self) -> Result<Option<Report>, RunError> {
        if self.logged == Logged::Destroyed {
            return Ok(self.last.take());
        }
        self.logged = Logged::Destroyed;
        let shared = Arc::clone(&self.shared);
        let tap = shared.prepared.request.violations.clone();
        let mut record = Record::new(&shared.log, &shared.id).heard_by(tap);
        let mut written = Vec::new();
        if let Some(Inner { mut sandbox, mut network }) = self.inner.take() {
            sandbox.kill();
            sandbox.wait();
            network.finish(&mut record)?;
            written = sandbox.take_written();
        }
        let settled = match &mut self.last {
            Some(report) => settle::settle(&shared.prepared, written, report, &mut record),
            None => Ok(()),
        };
        let destroyed = NewEvent::new(EventKind::SandboxDestroyed, &shared.id);
        record.append(&with_totals(destroyed, &record))?;
        settled?;
        Ok(self.last.take())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Those that hold for the whole sandbox; the others are raised for each command.
fn per_sandbox(needed: &[Layer]) -> Vec<Layer> {
    needed.iter().copied().filter(|layer| !matches!(layer, Layer::Seccomp | Layer::Notify)).collect()
}

/// A command that is about to be executed.
#[derive(Debug)]
pub struct Command<'sandbox> {
    sandbox: &'sandbox mut Sandbox,
    argv: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    stdin: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

impl<'sandbox> Command<'sandbox> {
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(argument.as_ref().to_owned());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable on top of those that the policy passes on.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// As seen inside.
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    pub fn stdin(mut self, stdio: Stdio) -> Self {
        self.stdin = Some(stdio);
        self
    }

    pub fn stdout(mut self, stdio: Stdio) -> Self {
        self.stdout = Some(stdio);
        self
    }

    pub fn stderr(mut self, stdio: Stdio) -> Self {
        self.stderr = Some(stdio);
        self
    }

    /// Starts it. A thread of this program watches over it until it has ended.
    pub fn spawn(self) -> Result<Child<'sandbox>, RunError> {
        let Command { sandbox, argv, environment, directory, stdin, stdout, stderr } = self;
        let mut command = sandbox.template.clone();
        command.argv = argv.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        for (name, value) in environment {
            command.environment.retain(|(key, _)| key != name.as_bytes());
            command.environment.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        command.directory = directory.unwrap_or(command.directory);
        let (input, to_input) = stream(stdin.unwrap_or_default(), Direction::In)?;
        let (output, from_output) = stream(stdout.unwrap_or(Stdio::Inherit), Direction::Out)?;
        let (errors, from_errors) = stream(stderr.unwrap_or(Stdio::Inherit), Direction::Error)?;
        if sandbox.survives == Survives::No {
            return Err(RunError::Gone);
        }
        let mut inner = sandbox.inner.take().ok_or(RunError::Gone)?;
        if let Err(error) = inner.sandbox.execute(&command, [input.as_fd(), output.as_fd(), errors.as_fd()]) {
            // A step of this command failed; the sandbox stands, unless it is the sandbox that is gone.
            if matches!(error, LaunchError::Step { .. } | LaunchError::NoCommand | LaunchError::Nul(_)) {
                sandbox.inner = Some(inner);
            }
            return Err(error.into());
        }
        drop((input, output, errors));
        let remote = inner.sandbox.remote().map_err(|error| RunError::Launch(LaunchError::Channel(error)))?;
        let shared = Arc::clone(&sandbox.shared);
        let watcher = std::thread::Builder::new()
            .name("lazaret-watch".to_owned())
            .spawn(move || watch(&shared, inner, &argv, None))
            .map_err(RunError::Signals)?;
        Ok(Child {
            stdin: to_input,
            stdout: from_output,
            stderr: from_errors,
            sandbox,
            remote,
            watcher: Some(watcher),
        })
    }

    /// Runs it to its end with its output collected.
    pub fn output(mut self) -> Result<Output, RunError> {
        self.stdout = Some(Stdio::Piped);
        self.stderr = Some(Stdio::Piped);
        self.spawn()?.wait_with_output()
    }

    /// Runs it to its end.
    pub fn status(self) -> Result<Report, RunError> {
        self.spawn()?.wait()
    }
}

type Watched = (Result<Outcome, RunError>, Inner, Survives);

/// A command that runs.
#[derive(Debug)]
pub struct Child<'sandbox> {
    pub stdin: Option<File>,
    pub stdout: Option<File>,
    pub stderr: Option<File>,
    sandbox: &'sandbox mut Sandbox,
    remote: Remote,
    watcher: Option<JoinHandle<Watched>>,
}

impl Child<'_> {
    /// Sends a signal to the command itself.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.remote.signal(signal, launch::Target::Command)
    }

    /// Ends the command, and everything that it started.
    pub fn kill(&self) -> io::Result<()> {
        const SIGKILL: i32 = 9;
        self.signal(SIGKILL)
    }

    /// Waits for its end. Everything that it started has ended by then, too.
    pub fn wait(mut self) -> Result<Report, RunError> {
        self.stdin = None;
        self.join()
    }

    /// As [`Child::wait`], with what it wrote to its pipes.
    pub fn wait_with_output(mut self) -> Result<Output, RunError> {
        self.stdin = None;
        let readers = [self.stdout.take(), self.stderr.take()].map(|pipe| {
            pipe.map(|mut pipe| {
                std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    let _ = pipe.read_to_end(&mut bytes);
                    bytes
                })
            })
        });
        let report = self.join()?;
        let [stdout, stderr] =
            readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
        Ok(Output { stdout, stderr, report })
    }

    fn join(&mut self) -> Result<Report, RunError> {
        let watched = self.watcher.take().and_then(|watcher| watcher.join().ok());
        let (outcome, inner, survives) = watched.ok_or(RunError::Gone)?;
        self.sandbox.inner = Some(inner);
        self.sandbox.survives = survives;
        let report = outcome?.report;
        self.sandbox.last = Some(report.clone());
        Ok(report)
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        if self.watcher.is_some() {
            let _ = self.kill();
            let _ = self.join();
        }
    }
}

/// Can the sandbox take another command?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Survives {
    Yes,
    /// A command had to be ended together with it.
    No,
}

/// The life of one command, from the word to go to its end.
fn watch(shared: &Shared, mut inner: Inner, argv: &[OsString], steering: Option<&Steering>) -> Watched {
    match watch_over(shared, &mut inner, argv, Instant::now(), steering) {
        Ok((outcome, Survives::Yes)) => (Ok(outcome), inner, Survives::Yes),
        other => {
            inner.sandbox.kill();
            inner.sandbox.wait();
            (other.map(|(outcome, _)| outcome), inner, Survives::No)
        }
    }
}

fn watch_over(
    shared: &Shared,
    inner: &mut Inner,
    argv: &[OsString],
    started: Instant,
    steering: Option<&Steering>,
) -> Result<(Outcome, Survives), RunError> {
    let Shared { prepared, log, id } = shared;
    let Inner { sandbox: inner, network } = inner;
    let mut record = Record::new(log, id).heard_by(prepared.request.violations.clone());
    let mut meter = Meter::new(&prepared.request.policy, &prepared.lowered, inner);
    let needed = &prepared.lowered.needed;
    let enforcement = EnforcementReport::new(&inner.enforcement(), needed, meter.mechanism);
    let missing = inner.enforcement().missing(needed);
    if !missing.is_empty() && prepared.request.requirement == Requirement::Enforce {
        let level = prepared.request.policy.isolation_level.number();
        return Err(RunError::Short { level, missing });
    }
    inner.go().map_err(|error| RunError::Launch(LaunchError::Channel(error)))?;
    record.append(
        &NewEvent::new(EventKind::SandboxEntered, id)
            .with("pid", inner.pid())
            .with("enforcement", json!(enforcement)),
    )?;
    let mut watch = Watch::new(&prepared.request.policy, &prepared.lowered, network);
    let limit = prepared.request.policy.timeout.map(Duration::from);
    let until = Until::CommandHasEnded;
    let supervised =
        supervise::supervise(inner, &mut watch, &mut record, &mut meter, until, None, steering, limit, None)
            .map_err(RunError::Supervise)?;
    let departure = supervised.departure.unwrap_or_default();
    let survives = if supervised.ended.is_none() && supervised.departure.is_some() {
        Survives::Yes
    } else {
        Survives::No
    };
    let outcome = prepared.conclude(
        Finished {
            command: argv,
            sandbox: inner,
            supervised,
            used: Used::by_command(&departure),
            enforcement,
            duration: started.elapsed(),
            network: network.report(),
        },
        &mut meter,
        &mut record,
    )?;
    record.append(&exited(&outcome.report, &record))?;
    Ok((outcome, survives))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
    Error,
}

/// The end for the command, and the one that stays here.
fn stream(stdio: Stdio, direction: Direction) -> Result<(OwnedFd, Option<File>), RunError> {
    let failed = |error: rustix::io::Errno| RunError::Launch(LaunchError::Channel(error.into()));
    Ok(match stdio {
        Stdio::Given(fd) => (fd, None),
        Stdio::Null => {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
            (rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).map_err(failed)?, None)
        }
        Stdio::Inherit => {
            let own = match direction {
                Direction::In => rustix::stdio::stdin(),
                Direction::Out => rustix::stdio::stdout(),
                Direction::Error => rustix::stdio::stderr(),
            };
            (rustix::io::fcntl_dupfd_cloexec(own, 3).map_err(failed)?, None)
        }
        Stdio::Piped => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed)?;
            if direction == Direction::In { (read, Some(write.into())) } else { (write, Some(read.into())) }
        }
    })
}
