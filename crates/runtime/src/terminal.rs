//! The caller's terminal while the command has one of its own: raw mode, bytes both ways, window size.

use std::{
    collections::VecDeque,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use crate::request::TerminalUse;
use rustix::{
    io::Errno,
    termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize},
};

/// Standard input and output are a terminal: its size.
pub fn interactive() -> Option<(u16, u16)> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    if !isatty(input) || !isatty(output) {
        return None;
    }
    let size = tcgetwinsize(input).ok();
    Some(size.map_or((24, 80), |size| (size.ws_row, size.ws_col)))
}

/// Does the command get one of the caller's own terminals, instead of one of its own?
pub fn passed_on(terminal: TerminalUse) -> bool {
    let own = terminal == TerminalUse::WhenInteractive && interactive().is_some();
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    !own && streams.into_iter().any(isatty)
}

/// A standard stream that is a directory, if there is one.
pub fn directory_among_streams() -> Option<u8> {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    (0..).zip(streams).find_map(|(number, stream)| {
        let stat = rustix::fs::fstat(stream).ok()?;
        rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir().then_some(number)
    })
}

/// The modes of the terminals that are passed on, put back when this goes: a command must not leave the
/// caller without an echo.
#[derive(Debug)]
pub struct SavedModes(Vec<(OwnedFd, Termios)>);

impl SavedModes {
    pub fn of_streams() -> SavedModes {
        let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        // Copies, because the streams themselves are given up while the command runs.
        let saved = streams.into_iter().filter_map(|stream| {
            Some((rustix::io::fcntl_dupfd_cloexec(stream, 3).ok()?, tcgetattr(stream).ok()?))
        });
        SavedModes(saved.filter(|(stream, _)| isatty(stream)).collect())
    }
}

impl Drop for SavedModes {
    fn drop(&mut self) {
        for (stream, modes) in &self.0 {
            let _ = tcsetattr(stream, OptionalActions::Now, modes);
        }
    }
}

/// Raw mode for as long as this lives.
#[derive(Debug)]
pub struct Relay {
    before: Termios,
    /// Typed, not yet taken by the command.
    pending: VecDeque<u8>,
    pub output_open: bool,
    pub input_open: bool,
}

impl Relay {
    pub fn start() -> io::Result<Relay> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Relay { before, pending: VecDeque::new(), output_open: true, input_open: true })
    }

    pub fn resize(&self, master: BorrowedFd<'_>) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdin()) {
            let _ = tcsetwinsize(master, size);
        }
    }

    pub fn wants_to_write(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The caller typed something.
    pub fn read_input(&mut self) {
        let mut buffer = [0; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(0) => self.input_open = false,
            Ok(count) => self.pending.extend(buffer.iter().take(count)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.input_open = false,
        }
    }

    pub fn write_input(&mut self, master: BorrowedFd<'_>) {
        let (first, _) = self.pending.as_slices();
        match rustix::io::write(master, first) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.pending.clear(),
        }
    }

    /// The command wrote something.
    pub fn read_output(&mut self, master: BorrowedFd<'_>) {
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(master, &mut buffer) {
            Ok(0) => self.output_open = false,
            Ok(count) => {
                let mut rest = buffer.get(..count).unwrap_or_default();
                while !rest.is_empty() {
                    match rustix::io::write(rustix::stdio::stdout(), rest) {
                        Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => {
                            let mut fds = [rustix::event::PollFd::from_borrowed_fd(
                                rustix::stdio::stdout(),
                                rustix::event::PollFlags::OUT,
                            )];
                            let _ = rustix::event::poll(&mut fds, None);
                        }
                        Err(_) => {
                            self.output_open = false;
                            return;
                        }
                    }
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // EIO: the last process with this terminal is gone.
            Err(_) => self.output_open = false,
        }
    }

    /// What is still in the pipe when the command has ended.
    pub fn drain(&mut self, master: BorrowedFd<'_>) {
        while self.output_open {
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(master, rustix::event::PollFlags::IN)];
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            match rustix::event::poll(&mut fds, Some(&zero)) {
                Ok(1..) => self.read_output(master),
                _ => return,
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before);
    }
}
