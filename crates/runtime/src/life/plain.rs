//! A server without a sandbox: it has every right of whoever started it, and still ends with this program,
//! together with everything that it started. A guardian of ours sees to that.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use lazaret_audit::{EventKind, Log, NewEvent, Rotation, redact};
use lazaret_sandbox::{
    linux::{
        guardian::{FromGuardian, Guarded},
        launch::{Departure, LaunchError, Target},
        launcher::Launcher,
    },
    spec,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::serve::{Departed, End, Handle, Pipes, Running, watched};
use crate::{
    prepare::RunError,
    report::{Ending, printable},
    steer::{Stage, Steering, Wish},
};

const ENOENT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// So long after the end was ordered the guardian may take to say that everything is gone.
const LAST_WORD: Duration = Duration::from_secs(10);

/// A command that runs with nothing around it.
#[derive(Debug, Clone)]
pub struct Unconfined {
    /// Under which name it is known; for the log.
    pub server: String,
    /// Why there is no sandbox; for the log.
    pub reason: String,
    pub command: Vec<OsString>,
    pub directory: PathBuf,
    /// Exactly this, and nothing else.
    pub environment: Vec<(OsString, OsString)>,
    pub audit_log: PathBuf,
    pub rotation: Rotation,
}

/// Starts it, after `LEVEL0_USED` is in the log. Otherwise as [`super::serve::start`].
pub fn start_unconfined(
    launcher: &Launcher,
    plain: Unconfined,
    on_end: impl FnOnce(End) + Send + 'static,
) -> Result<Running, RunError> {
    let id = format!("sb-{}", uuid::Uuid::now_v7());
    let words: Vec<String> = plain.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let bytes = |text: &OsString| text.as_bytes().to_vec();
    let command = spec::Command {
        argv: plain.command.iter().map(bytes).collect(),
        environment: plain.environment.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        directory: plain.directory,
    };
    if command.argv.is_empty() {
        return Err(RunError::Launch(LaunchError::NoCommand));
    }
    let log = Log::open(&plain.audit_log)?.rotating(plain.rotation);
    let used = NewEvent::new(EventKind::Level0Used, &id)
        .with("server", plain.server)
        .with("program", words.first().cloned().unwrap_or_default())
        .with("command", redact::argv(&words))
        .with("directory", command.directory.to_string_lossy())
        .with("reason", plain.reason);
    log.append(&used)?;
    let Pipes { theirs, ours } = Pipes::make()?;
    let guarded = Guarded::start(launcher, &command, theirs)?;
    let steering = Arc::new(Steering::new().map_err(RunError::Signals)?);
    let program = words.into_iter().next().unwrap_or_default();
    let watcher = watched(&steering, move |steering| watch(guarded, &program, steering), on_end)?;
    Running::plain(id, ours, Handle::new(steering), watcher).once_executed()
}

/// Until the guardian has said the last word.
fn watch(guarded: Guarded, program: &str, steering: &Steering) -> End {
    let lost = |error: io::Error| RunError::Launch(LaunchError::Channel(error));
    let mut not_executed = None;
    // When it is made to end, and when the guardian is no longer waited for.
    let (mut patience, mut last): (Option<Instant>, Option<Instant>) = (None, None);
    let kill = |last: &mut Option<Instant>| {
        drop(guarded.signal(SIGKILL, Target::Command));
        last.get_or_insert(Instant::now() + LAST_WORD);
    };
    loop {
        let until = [patience, last].into_iter().flatten().min();
        let (heard, steered) = wait(&guarded, steering, until).map_err(lost)?;
        if heard {
            match guarded.hear().map_err(lost)? {
                FromGuardian::Executed => steering.reach(Stage::Running),
                FromGuardian::NotExecuted(errno) => not_executed = Some(why_not_executed(program, errno)),
                FromGuardian::Failed { what, errno } => {
                    let source = Some(io::Error::from_raw_os_error(errno));
                    return Err(RunError::Launch(LaunchError::Step { what, source }));
                }
                FromGuardian::Exited(departure) => return Ok(departed(&departure, not_executed)),
                FromGuardian::Gone => {
                    return Err(died("its guardian is gone, and everything that it watched over with it"));
                }
            }
        }
        if steered {
            let wishes = steering.take();
            // There are no violations here that could be on their way.
            steering.settled(wishes);
            match wishes.end {
                Some(Wish::Kill) => kill(&mut last),
                Some(Wish::Terminate(grace)) => {
                    drop(guarded.signal(SIGTERM, Target::Group));
                    let end = Instant::now() + grace;
                    patience = Some(patience.map_or(end, |known| known.min(end)));
                }
                None => {}
            }
        }
        if patience.is_some_and(|patience| Instant::now() >= patience) {
            patience = None;
            kill(&mut last);
        }
        if last.is_some_and(|last| Instant::now() >= last) {
            return Err(died("its guardian did not answer, and was ended"));
        }
    }
}

fn died(how: &str) -> RunError {
    RunError::Launch(LaunchError::Died(how.to_owned()))
}

/// Has the guardian said something, and is there a wish?
fn wait(guarded: &Guarded, steering: &Steering, until: Option<Instant>) -> io::Result<(bool, bool)> {
    let mut fds = [
        PollFd::from_borrowed_fd(guarded.readable(), PollFlags::IN),
        PollFd::from_borrowed_fd(steering.readable(), PollFlags::IN),
    ];
    let timeout = until.map(|until| {
        let left: Duration = until.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [heard, steered] = fds.map(|fd| !fd.revents().is_empty());
    Ok((heard, steered))
}

fn departed(departure: &Departure, not_executed: Option<String>) -> Departed {
    let (code, signal) = ((departure.status >> 8) & 0xff, departure.status & 0x7f);
    let (exit_code, signal, outcome) = match (&not_executed, signal) {
        (Some(_), _) => (code, None, Ending::NotExecuted),
        (None, 0) => (code, None, Ending::Exited),
        (None, signal) => (128 + signal, Some(signal), Ending::Signaled),
    };
    Departed { exit_code, signal, outcome, reason: not_executed, report: None }
}

fn why_not_executed(program: &str, errno: i32) -> String {
    let (shown, error) = (printable(program), io::Error::from_raw_os_error(errno));
    if errno == ENOENT && !Path::new(program).is_file() {
        return format!("{shown}: command not found");
    }
    format!("cannot execute {shown}: {error}")
}
