//! A command without walls that still cannot outlive the program it was started for: a small process of ours
//! is its parent, and that of every orphan it leaves behind (also of one that made a session of its own). When
//! the line to the program closes, or the launcher ends, the guardian ends all of them, and then itself. Should
//! the guardian be killed, the command dies with it, and the launcher ends what was left to it.
//!
//! Needs no namespaces: their absence is one reason to be here.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Pid,
};

use super::{
    channel::Channel,
    child::hear_order,
    inherited,
    init::{close_all_but, detach_from_streams},
    launch::{Departure, LaunchError, Tag, Target, check, send_in_parts, send_signal},
    launcher::Launcher,
    offspring::end_descendants,
    program::{become_program, c_strings, find_program},
    sys::{self, Block, Cloned},
};
use crate::spec::Command;

/// The program's side. When it is dropped, everything that was started has ended.
#[derive(Debug)]
pub struct Guarded {
    pid: i32,
    pidfd: OwnedFd,
    line: Option<Channel>,
}

/// What the guardian says.
#[derive(Debug)]
pub enum FromGuardian {
    Executed,
    /// The errno of `execve`, or of looking for the program.
    NotExecuted(i32),
    /// The directory could not be entered, for one.
    Failed {
        what: String,
        errno: i32,
    },
    /// The command has ended, and with it everything that it started.
    Exited(Departure),
    /// The guardian is gone.
    Gone,
}

/// How long it may take until nobody is left.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

impl Guarded {
    /// Starts the guardian, which starts the command with exactly this environment. [`Guarded::hear`] tells
    /// how that went.
    pub fn start(
        launcher: &Launcher,
        command: &Command,
        streams: [OwnedFd; 3],
    ) -> Result<Guarded, LaunchError> {
        check(command)?;
        let (line, theirs) = Channel::pair().map_err(LaunchError::Channel)?;
        let (pid, pidfd) = launcher.start_guardian(theirs, streams).map_err(LaunchError::Launcher)?;
        let guarded = Guarded { pid, pidfd, line: Some(line) };
        send_in_parts(guarded.line()?, command)?;
        Ok(guarded)
    }

    fn line(&self) -> Result<&Channel, LaunchError> {
        self.line.as_ref().ok_or_else(|| LaunchError::Channel(io::ErrorKind::BrokenPipe.into()))
    }

    /// The guardian's own number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable when there is something to hear.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.line.as_ref().map_or(self.pidfd.as_fd(), AsFd::as_fd)
    }

    /// Waits for what the guardian says next.
    pub fn hear(&self) -> io::Result<FromGuardian> {
        let Some(line) = &self.line else { return Ok(FromGuardian::Gone) };
        let Some(message) = line.receive()? else { return Ok(FromGuardian::Gone) };
        Ok(match message.bytes.as_slice() {
            [tag] if *tag == Tag::Ready as u8 => FromGuardian::Executed,
            [tag, a, b, c, d] if *tag == Tag::NotExecuted as u8 => {
                FromGuardian::NotExecuted(i32::from_le_bytes([*a, *b, *c, *d]))
            }
            [tag, a, b, c, d, what @ ..] if *tag == Tag::Failed as u8 => FromGuardian::Failed {
                errno: i32::from_le_bytes([*a, *b, *c, *d]),
                what: String::from_utf8_lossy(what).into_owned(),
            },
            [tag, rest @ ..] if *tag == Tag::Exited as u8 => {
                Departure::from_bytes(rest).map_or(FromGuardian::Gone, FromGuardian::Exited)
            }
            _ => FromGuardian::Gone,
        })
    }

    pub fn signal(&self, signal: i32, target: Target) -> io::Result<()> {
        let line = self.line.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        send_signal(line, signal, target)
    }

    /// Ends everything, and returns when it has ended.
    pub fn end(&mut self) {
        self.line = None;
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        loop {
            match poll(&mut fds, Some(&PATIENCE)) {
                Err(rustix::io::Errno::INTR) => {}
                // Somebody has stopped it. The launcher ends what it leaves behind.
                Ok(0) => {
                    let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
                    return;
                }
                _ => return,
            }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}

/// The guardian's own life; `launcher` is whose child it is. Never returns.
pub fn guard(launcher: Pid, line: Channel, streams: [OwnedFd; 3]) -> ! {
    let _ = rustix::thread::set_name(c"lazaret-guard");
    inherited::forget_callers_words();
    let watched = watch_over(launcher, &line, streams);
    // Whatever went wrong, nobody stays.
    end_descendants();
    if let Ok(Some(departure)) = watched {
        let bytes = [&[Tag::Exited as u8][..], &departure.to_bytes()].concat();
        let _ = line.send(&bytes, &[]);
    }
    sys::exit_now(0)
}

fn watch_over(launcher: Pid, line: &Channel, streams: [OwnedFd; 3]) -> io::Result<Option<Departure>> {
    let _ = rustix::process::setsid();
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    // A signal that can be heard: what is guarded has to be ended first.
    let signals = sys::signals_as_descriptor(&[libc::SIGCHLD, libc::SIGTERM])?;
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as u64)?;
    if rustix::process::getppid() != Some(launcher) {
        return Ok(None);
    }
    detach_from_streams()?;
    let [input, output, errors] = streams.each_ref().map(AsFd::as_fd);
    close_all_but([line.as_fd(), signals.as_fd(), input, output, errors])?;
    let Some(command) = hear_order::<Command>(line) else { return Ok(None) };
    let (launch, theirs) = Channel::pair()?;
    let Cloned::Parent { pid, .. } = sys::clone_process(0)? else {
        drop(launch);
        become_command(&command, &streams, &theirs)
    };
    drop((theirs, streams));
    let mut launch = Some(launch);
    let mut used = Departure::default();
    loop {
        while let Some(ended) = next_ended()? {
            used.add(&ended);
            if ended.pid == pid {
                tell_of_launch(line, launch.take());
                return Ok(Some(Departure { status: ended.status, ..used }));
            }
        }
        let launching = launch.as_ref().map_or(line.as_fd(), AsFd::as_fd);
        let mut fds = [
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(line, PollFlags::IN),
            PollFd::from_borrowed_fd(launching, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [signalled, asked, launched] = fds.map(|fd| !fd.revents().is_empty());
        if launched && launch.is_some() {
            tell_of_launch(line, launch.take());
        }
        while signalled && let Some(signal) = sys::read_signal(signals.as_fd()) {
            if signal.number == libc::SIGTERM {
                return Ok(None);
            }
        }
        if asked {
            // The program is gone, or wants everything gone.
            let Some(message) = line.receive()? else { return Ok(None) };
            if let [tag, signal, group] = message.bytes.as_slice()
                && *tag == Tag::Signal as u8
            {
                let _ = sys::kill(if *group == 1 { -pid } else { pid }, i32::from(*signal));
            }
        }
    }
}

/// What the command's process said before it executed, or that it did.
fn tell_of_launch(line: &Channel, launch: Option<Channel>) {
    let Some(launch) = launch else { return };
    let bytes = match launch.receive() {
        Ok(Some(message)) => message.bytes,
        _ => vec![Tag::Ready as u8],
    };
    let _ = line.send(&bytes, &[]);
}

fn next_ended() -> io::Result<Option<sys::Ended>> {
    match sys::reap(-1, Block::No) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

fn become_command(command: &Command, streams: &[OwnedFd; 3], launch: &Channel) -> ! {
    let fail = |tag: Tag, what: &str, error: &io::Error| -> ! {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let bytes = [&[tag as u8][..], &errno.to_le_bytes(), what.as_bytes()].concat();
        let _ = launch.send(&bytes, &[]);
        sys::exit_now(if errno == libc::ENOENT { 127 } else { 126 })
    };
    let prepare = || -> io::Result<()> {
        sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64)?;
        rustix::process::setsid()?;
        for (number, stream) in (0..).zip(streams) {
            sys::duplicate_to_stdio(stream.as_fd(), number)?;
        }
        sys::close_on_exec_from(3)
    };
    if let Err(error) = prepare() {
        fail(Tag::Failed, "get the command's process ready", &error);
    }
    if let Err(error) = rustix::process::chdir(&command.directory) {
        fail(Tag::Failed, &format!("enter {}", command.directory.display()), &error.into());
    }
    let argv = c_strings(command.argv.iter().cloned());
    let envp = c_strings(command.environment.iter().map(|(k, v)| [k.as_slice(), b"=", v].concat()));
    let program = match find_program(&command.argv, &command.environment) {
        Ok(program) => program,
        Err(error) => fail(Tag::NotExecuted, "", &error),
    };
    sys::reset_signals();
    fail(Tag::NotExecuted, "", &become_program(&program, &argv, &envp))
}
