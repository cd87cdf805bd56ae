//! A small process of its own that splits off sandboxes for a program that cannot: a program with threads
//! must not be forked (a lock may be held that nobody will release), and one with much memory takes tens of
//! milliseconds to fork. The program and its launcher talk over one socket; whatever the launcher starts
//! belongs to the program as soon as it is told the process's number and handle.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    channel::Channel,
    child, guardian, offspring,
    sys::{self, Block, Cloned},
};
use crate::spec::Namespaces;

/// The hidden command of the `lazaret` program.
pub const COMMAND: &str = "launcher";

#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    #[error("the launcher {program} cannot be started: {source}", program = program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("the launcher is gone: {0}")]
    Gone(#[source] io::Error),
    #[error("the launcher could not start a process: {0}")]
    Refused(#[source] io::Error),
}

/// What can be asked of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Sandbox(Namespaces),
    /// A process that only carries a user namespace until the line that came along is closed.
    Carrier,
    /// A command without walls, and who watches over it.
    Guardian,
}

impl Wish {
    fn to_byte(self) -> u8 {
        match self {
            Wish::Sandbox(Namespaces::All) => 1,
            Wish::Sandbox(Namespaces::AllButNetwork) => 2,
            Wish::Sandbox(Namespaces::None) => 3,
            Wish::Carrier => 4,
            Wish::Guardian => 5,
        }
    }

    fn from_byte(byte: u8) -> Option<Wish> {
        Some(match byte {
            1 => Wish::Sandbox(Namespaces::All),
            2 => Wish::Sandbox(Namespaces::AllButNetwork),
            3 => Wish::Sandbox(Namespaces::None),
            4 => Wish::Carrier,
            5 => Wish::Guardian,
            _ => return None,
        })
    }
}

/// The program's side. Ends its process, and with it every sandbox that it started, when dropped.
#[derive(Debug)]
pub struct Launcher {
    line: Mutex<Channel>,
    process: Child,
}

impl Launcher {
    /// Starts `program`, which is the `lazaret` executable.
    pub fn start(program: &Path) -> Result<Launcher, LauncherError> {
        let failed = |source| LauncherError::Start { program: program.to_owned(), source };
        let (ours, theirs) = Channel::pair().map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "the launcher is this crate's own second process")]
        let process = Command::new(program)
            .arg(COMMAND)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed)?;
        Ok(Launcher { line: Mutex::new(ours), process })
    }

    pub(super) fn start_sandbox(
        &self,
        namespaces: Namespaces,
        group: Option<OwnedFd>,
        control: Channel,
        launch: Channel,
    ) -> Result<(i32, OwnedFd), LauncherError> {
        let mut descriptors = vec![OwnedFd::from(control), OwnedFd::from(launch)];
        descriptors.extend(group);
        self.ask(Wish::Sandbox(namespaces), &descriptors)
    }

    /// The process ends when the other end of `line` is closed.
    pub(super) fn start_carrier(&self, line: Channel) -> Result<(i32, OwnedFd), LauncherError> {
        self.ask(Wish::Carrier, &[OwnedFd::from(line)])
    }

    /// The guardian ends with what it guards when the other end of `line` is closed.
    pub(super) fn start_guardian(
        &self,
        line: Channel,
        streams: [OwnedFd; 3],
    ) -> Result<(i32, OwnedFd), LauncherError> {
        let descriptors: Vec<OwnedFd> = std::iter::once(line.into()).chain(streams).collect();
        self.ask(Wish::Guardian, &descriptors)
    }

    fn ask(&self, wish: Wish, descriptors: &[OwnedFd]) -> Result<(i32, OwnedFd), LauncherError> {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let borrowed: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        line.send(&[wish.to_byte()], &borrowed).map_err(LauncherError::Gone)?;
        let answer = line.receive().map_err(LauncherError::Gone)?;
        let answer = answer.ok_or_else(|| LauncherError::Gone(io::ErrorKind::BrokenPipe.into()))?;
        let [a, b, c, d] = *answer.bytes.as_slice() else {
            return Err(LauncherError::Gone(io::ErrorKind::InvalidData.into()));
        };
        let number = i32::from_le_bytes([a, b, c, d]);
        match answer.descriptors.into_iter().next() {
            Some(pidfd) => Ok((number, pidfd)),
            None => Err(LauncherError::Refused(io::Error::from_raw_os_error(number))),
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The launcher's own life: standard input is the line. Never returns.
pub fn serve() -> ! {
    let _ = rustix::thread::set_name(c"lazaret-launch");
    let Ok(line) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else { sys::exit_now(125) };
    let line = Channel::from_descriptor(line);
    if let Ok(null) = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
    let Ok(children) = sys::signals_as_descriptor(&[libc::SIGCHLD]) else { sys::exit_now(125) };
    // What a guardian leaves behind, or an init without a pid namespace, comes here and not to the host's init.
    let _ = sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    let mut started = BTreeSet::new();
    loop {
        let mut fds = [PollFd::new(&children, PollFlags::IN), PollFd::new(&line, PollFlags::IN)];
        if let Err(error) = poll(&mut fds, None)
            && error != rustix::io::Errno::INTR
        {
            sys::exit_now(125);
        }
        let [ended, asked] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            while sys::read_signal(children.as_fd()).is_some() {}
            while let Ok(Some(ended)) = sys::reap(-1, Block::No) {
                started.remove(&ended.pid);
            }
            end_orphans(&started);
        }
        if asked {
            match grant(&line) {
                Some(pid) => started.extend(pid),
                // Whoever asked is gone. What was started asked to die with this process.
                None => sys::exit_now(0),
            }
        }
    }
}

/// Whoever watched over them is gone.
fn end_orphans(started: &BTreeSet<i32>) {
    let orphans = offspring::children_of(std::process::id() as i32);
    for pid in orphans.into_iter().filter(|pid| !started.contains(pid)) {
        for descendant in offspring::descendants(pid) {
            let _ = sys::kill(descendant, libc::SIGKILL);
        }
        let _ = sys::kill(pid, libc::SIGKILL);
    }
}

/// `None` when there is nobody to answer; otherwise the number of what was started, if it was.
fn grant(line: &Channel) -> Option<Option<i32>> {
    let message = line.receive().ok()??;
    let wish = Wish::from_byte(*message.bytes.first()?)?;
    let mut descriptors = message.descriptors.into_iter();
    let first = Channel::from_descriptor(descriptors.next()?);
    let cloned = match wish {
        Wish::Carrier => sys::clone_process(libc::CLONE_NEWUSER as u64),
        Wish::Guardian => {
            let streams: [OwnedFd; 3] = descriptors.collect::<Vec<_>>().try_into().ok()?;
            let launcher = rustix::process::getpid();
            let cloned = sys::clone_process(0);
            if let Ok(Cloned::Child) = cloned {
                guardian::guard(launcher, first, streams);
            }
            cloned
        }
        Wish::Sandbox(namespaces) => {
            let launch = Channel::from_descriptor(descriptors.next()?);
            let flags = super::launch::flags(namespaces);
            let cloned = match descriptors.next() {
                Some(group) => sys::clone_into_group(flags, group.as_fd()),
                None => sys::clone_process(flags),
            };
            if let Ok(Cloned::Child) = cloned {
                child::run(namespaces, first, launch);
            }
            cloned
        }
    };
    match cloned {
        Ok(Cloned::Child) => {
            let _ = first.receive();
            sys::exit_now(0)
        }
        Ok(Cloned::Parent { pid, pidfd }) => {
            line.send(&pid.to_le_bytes(), &[pidfd.as_fd()]).ok()?;
            Some(Some(pid))
        }
        Err(error) => {
            line.send(&error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes(), &[]).ok()?;
            Some(None)
        }
    }
}
