//! A pseudo-terminal with `lazaret` on its other side, as a person at a keyboard has it.

use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcgetattr, tcsetwinsize},
};

use crate::case::{Lazaret, wait_within};

const PATIENCE: Duration = Duration::from_secs(10);

pub struct Terminal {
    master: File,
    slave: File,
    child: Child,
    /// Everything shown so far, and how much of it has been looked for already.
    shown: String,
    seen: usize,
}

/// Which streams are the terminal; the others are pipes that can be taken from the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    All,
    OnlyInput,
    OnlyOutput,
}

impl Terminal {
    /// Starts the program with the terminal as its controlling one.
    pub fn start(command: Lazaret<'_>, on: On) -> Terminal {
        Terminal::start_as("dumb", command, on)
    }

    /// The same, with a terminal of this kind.
    pub fn start_as(kind: &str, command: Lazaret<'_>, on: On) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = rustix::fs::open(
            std::ffi::OsStr::from_bytes(name.as_bytes()),
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        let slave = File::from(slave);
        let stream = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        // setsid takes its standard input as the controlling terminal; without one, there is none.
        let command =
            if on == On::OnlyOutput { command.under(["setsid"]) } else { command.under(["setsid", "-c"]) };
        let mut command = command.command();
        command.env("TERM", kind);
        command.stdin(if on == On::OnlyOutput { Stdio::piped() } else { stream() });
        command.stdout(if on == On::OnlyInput { Stdio::piped() } else { stream() });
        command.stderr(if on == On::OnlyInput { Stdio::piped() } else { stream() });
        let size = Winsize { ws_row: 31, ws_col: 117, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let child = command.spawn().unwrap();
        Terminal { master: File::from(master), child, slave, shown: String::new(), seen: 0 }
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).unwrap();
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn types(&mut self, text: &str) -> &mut Self {
        self.master.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Waits until this is shown, after what was looked for before.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> &mut Self {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return self;
            }
            assert!(Instant::now() < end, "{text:?} was not shown: {:?}", &self.shown);
            self.read(Duration::from_millis(50));
        }
    }

    fn read(&mut self, patience: Duration) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        if matches!(poll(&mut fds, Some(&timeout)), Ok(1..)) {
            let mut buffer = [0; 4096];
            if let Ok(count) = self.master.read(&mut buffer) {
                self.shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        }
    }

    /// The modes of the terminal, comparable.
    pub fn modes(&self) -> String {
        let modes = tcgetattr(&self.slave).unwrap();
        format!(
            "{:?} {:?} {:?} {:?}",
            modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
        )
    }

    /// Waits for the end; the code, or minus the signal.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            // Somebody has to look at the screen, or writing to it would block.
            self.read(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                use std::os::unix::process::ExitStatusExt;
                self.read(Duration::from_millis(1));
                return status.code().unwrap_or_else(|| -status.signal().unwrap());
            }
        }
        panic!("did not end: {:?}", self.shown);
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = wait_within(&mut self.child, Duration::from_secs(5));
    }
}
