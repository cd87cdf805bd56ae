//! Process 1 of the sandbox: reaps, passes signals on, acts on behalf of the command where a rule needs a
//! race-free check, and ends with the command, taking everything else along.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags},
};

use super::{
    broker::{self, Broker, Helpers},
    channel::{Channel, Message},
    launch::Tag,
    sys::{self, Block, Ended},
};
use crate::spec::Namespaces;

/// Runs until the command has ended; never returns.
pub fn run(control: Channel, command: i32, namespaces: Namespaces, broker: &Broker) -> ! {
    let _ = rustix::thread::set_name(c"lazaret-init");
    // Away from the caller's session: what init opens for the command must not be the caller's terminal.
    let _ = rustix::process::setsid();
    // Modes are masked by the asker's own umask.
    rustix::process::umask(Mode::empty());
    if namespaces == Namespaces::None {
        // Without a pid namespace orphans would go to the host's init; keep them here.
        let _ = sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
    match serve(&control, command, broker) {
        Ok(ended) => {
            let mut bytes = vec![Tag::Exited as u8];
            bytes.extend(ended.status.to_le_bytes());
            let _ = control.send(&bytes, &[]);
        }
        Err(_) => sys::exit_now(125),
    }
    if namespaces == Namespaces::None {
        end_descendants();
    }
    sys::exit_now(0)
}

fn serve(control: &Channel, command: i32, broker: &Broker) -> io::Result<Ended> {
    detach_from_streams()?;
    close_all_but([control.as_fd(), broker.proc.as_fd()])?;
    let signals = sys::signals_as_descriptor(&[libc::SIGCHLD])?;
    let mut helpers = Helpers::new();
    loop {
        while let Some(ended) = next_ended()? {
            if ended.pid == command {
                return Ok(ended);
            }
            if let Some(at) = helpers.iter().position(|(pid, _)| *pid == ended.pid) {
                let (_, id) = helpers.remove(at);
                if ended.status != 0 {
                    broker::answer_for_lost(control, id);
                }
            } else if ended.status & 0x7f != 0 {
                tell_of_death(control, &ended);
            }
        }
        let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [signal, message] = fds.map(|fd| !fd.revents().is_empty());
        if signal {
            while sys::read_signal(signals.as_fd()).is_some() {}
        }
        if message {
            match control.receive()? {
                Some(message) => obey(control, command, broker, message, &mut helpers),
                // The supervisor is gone, and with it whoever watched the command.
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
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
fn close_all_but(mut kept: [BorrowedFd<'_>; 2]) -> io::Result<()> {
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

fn obey(control: &Channel, command: i32, broker: &Broker, message: Message, helpers: &mut Helpers) {
    match message.bytes.as_slice() {
        [tag, signal, group] if *tag == Tag::Signal as u8 => {
            let target = if *group == 1 { -command } else { command };
            let _ = sys::kill(target, i32::from(*signal));
        }
        [tag, request @ ..] if *tag == Tag::Act as u8 => {
            broker.act(control, request, message.descriptors, helpers);
        }
        _ => {}
    }
}

/// Init must not keep the caller's pipes open.
fn detach_from_streams() -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(null) = rustix::fs::openat(CWD, c"/dev/null", flags, Mode::empty()) else {
        // No /dev in this view: close them, nothing here writes.
        return sys::close_descriptors(0, 2);
    };
    (0..3).try_for_each(|number| sys::duplicate_to_stdio(null.as_fd(), number))
}

/// Without a pid namespace: kill whatever is still below us until nothing is.
fn end_descendants() {
    for _ in 0..1000 {
        let Ok(children) = std::fs::read_to_string("/proc/self/task/self/children")
            .or_else(|_| std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())))
        else {
            return;
        };
        let children: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if children.is_empty() {
            return;
        }
        for pid in children {
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::reap(pid, Block::Yes);
        }
    }
}
