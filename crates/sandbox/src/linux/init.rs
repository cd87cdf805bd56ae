//! Process 1 of the sandbox: reaps, passes signals on, acts on behalf of the command where a rule needs a
//! race-free check, and ends with the command, taking everything else along.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags},
};

use super::{
    broker::{self, Broker, Helpers},
    channel::{Channel, Message},
    child::{self, Received},
    launch::{Departure, Tag},
    offspring::end_descendants,
    sys::{self, Block, Cloned, Ended},
};
use crate::spec::Namespaces;

/// After such a time without anything to do init makes itself small.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 150_000_000 };

/// What init is there for.
pub enum Duty {
    /// One command, which runs already; init ends with it.
    Command(i32),
    /// Commands as they come, one at a time, until the supervisor hangs up.
    Commands(Box<Received>),
}

/// Runs until its duty is done; never returns.
pub fn run(control: Channel, duty: Duty, namespaces: Namespaces, broker: &Broker) -> ! {
    let _ = rustix::thread::set_name(c"lazaret-init");
    // Away from the caller's session: what init opens for the command must not be the caller's terminal.
    let _ = rustix::process::setsid();
    // Modes are masked by the asker's own umask.
    let umask = rustix::process::umask(Mode::empty());
    if namespaces == Namespaces::None {
        // Without a pid namespace orphans would go to the host's init; keep them here.
        let _ = sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
    let mut init = Init { control, broker, namespaces, umask, running: None, used: Departure::default() };
    let (running, order) = match duty {
        Duty::Command(pid) => (Some(pid), None),
        Duty::Commands(order) => (None, Some(order)),
    };
    init.running = running;
    match init.serve(order.as_deref()) {
        Ok(departure) => {
            init.tell_of_departure(departure);
            end_without_namespace(namespaces);
            sys::exit_now(0)
        }
        Err(_) => {
            end_without_namespace(namespaces);
            sys::exit_now(125)
        }
    }
}

/// With a pid namespace the kernel does it.
fn end_without_namespace(namespaces: Namespaces) {
    if namespaces == Namespaces::None {
        end_descendants();
    }
}

struct Init<'a> {
    control: Channel,
    broker: &'a Broker,
    namespaces: Namespaces,
    /// The caller's, which commands get.
    umask: Mode,
    running: Option<i32>,
    /// By everything that was reaped since the command began.
    used: Departure,
}

impl Init<'_> {
    fn serve(&mut self, order: Option<&Received>) -> io::Result<Departure> {
        detach_from_streams()?;
        close_all_but([self.control.as_fd(), self.broker.proc.as_fd()])?;
        // The second one comes when the launcher has ended, and is for an init that must clear up by itself.
        let signals = sys::signals_as_descriptor(match self.namespaces {
            Namespaces::None => &[libc::SIGCHLD, libc::SIGTERM],
            Namespaces::All | Namespaces::AllButNetwork => &[libc::SIGCHLD],
        })?;
        let mut helpers = Helpers::new();
        let mut rest = Some(REST);
        loop {
            while let Some(ended) = next_ended()? {
                self.used.add(&ended);
                if self.running == Some(ended.pid) {
                    if order.is_none() {
                        return Ok(Departure { status: ended.status, ..self.used });
                    }
                    self.end_what_is_left(&mut helpers);
                    self.running = None;
                    self.tell_of_departure(Departure { status: ended.status, ..self.used });
                } else if let Some(at) = helpers.iter().position(|(pid, _)| *pid == ended.pid) {
                    let (_, id) = helpers.remove(at);
                    if ended.status != 0 {
                        broker::answer_for_lost(&self.control, id);
                    }
                } else if ended.status & 0x7f != 0 {
                    tell_of_death(&self.control, &ended);
                }
            }
            let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
            match poll(&mut fds, rest.as_ref()) {
                // Nothing to do for a while: most of the code was for building.
                Ok(0) => {
                    rest = None;
                    sys::give_back_code();
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [signal, message] = fds.map(|fd| !fd.revents().is_empty());
            while signal && let Some(signal) = sys::read_signal(signals.as_fd()) {
                if signal.number == libc::SIGTERM {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            if message {
                match self.control.receive()? {
                    Some(message) => self.obey(message, order, &mut helpers)?,
                    // The supervisor is gone, and with it whoever watched the command.
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
        }
    }

    fn obey(&mut self, message: Message, order: Option<&Received>, helpers: &mut Helpers) -> io::Result<()> {
        match message.bytes.as_slice() {
            [tag, signal, group] if *tag == Tag::Signal as u8 => {
                if let Some(command) = self.running {
                    let target = if *group == 1 { -command } else { command };
                    let _ = sys::kill(target, i32::from(*signal));
                }
            }
            [tag, request @ ..] if *tag == Tag::Act as u8 => {
                self.broker.act(&self.control, request, message.descriptors, helpers);
            }
            [tag] if *tag == Tag::Execute as u8 => {
                if let (Some(order), None) = (order, self.running) {
                    self.start(order, message.descriptors)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Splits off the process that becomes the next command.
    fn start(&mut self, order: &Received, mut descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if descriptors.len() != 4 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let streams = descriptors.split_off(1);
        let Some(launch) = descriptors.pop() else { return Err(io::ErrorKind::InvalidData.into()) };
        self.used = Departure::default();
        match sys::clone_process(0) {
            Ok(Cloned::Child) => {
                rustix::process::umask(self.umask);
                child::begin(order, Channel::from_descriptor(launch), &streams)
            }
            Ok(Cloned::Parent { pid, .. }) => {
                self.running = Some(pid);
                Ok(())
            }
            // The line is closed with this function: the supervisor hears that.
            Err(_) => Ok(()),
        }
    }

    /// A command's processes end with it; the next one begins in an empty sandbox.
    fn end_what_is_left(&mut self, helpers: &mut Helpers) {
        if self.namespaces == Namespaces::None {
            return end_descendants();
        }
        for _ in 0..1000 {
            // Everybody in this pid namespace but init itself; elsewhere that would be everybody on the host.
            if rustix::process::getpid().as_raw_nonzero().get() == 1 {
                let _ = sys::kill(-1, libc::SIGKILL);
            }
            match sys::reap(-1, Block::Yes) {
                Ok(Some(ended)) => {
                    self.used.add(&ended);
                    helpers.retain(|(pid, _)| *pid != ended.pid);
                }
                _ => return,
            }
        }
    }

    fn tell_of_departure(&self, departure: Departure) {
        let bytes = [&[Tag::Exited as u8][..], &departure.to_bytes()].concat();
        let _ = self.control.send(&bytes, &[]);
    }
}

/// Nobody inside waited for it: the supervisor shall know how it ended. A message lost in a flood of deaths is
/// no harm.
fn tell_of_death(control: &Channel, ended: &Ended) {
    let mut bytes = vec![Tag::Died as u8];
    bytes.extend(ended.pid.to_le_bytes());
    bytes.push((ended.status & 0x7f) as u8);
    let _ = control.send_at_once(&bytes, &[]);
}

/// Everything else that the supervisor or the launch had open: nothing of it belongs here.
pub(super) fn close_all_but<const N: usize>(mut kept: [BorrowedFd<'_>; N]) -> io::Result<()> {
    kept.sort_by_key(AsRawFd::as_raw_fd);
    let mut first = 3;
    for number in kept.map(|fd| fd.as_raw_fd() as u32) {
        sys::close_descriptors(first, number - 1)?;
        first = number + 1;
    }
    sys::close_descriptors(first, u32::MAX)
}

fn next_ended() -> io::Result<Option<Ended>> {
    match sys::reap(-1, Block::No) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

/// Init must not keep the caller's pipes open.
pub(super) fn detach_from_streams() -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(null) = rustix::fs::openat(CWD, c"/dev/null", flags, Mode::empty()) else {
        // No /dev in this view: close them, nothing here writes.
        return sys::close_descriptors(0, 2);
    };
    (0..3).try_for_each(|number| sys::duplicate_to_stdio(null.as_fd(), number))
}
