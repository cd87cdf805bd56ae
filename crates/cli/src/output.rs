//! All output: data on standard output, messages on standard error. A closed pipe is the reader's right and
//! never a reason to panic.

use std::{
    io::{self, BufWriter, StdoutLock, Write as _},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::exit::Exit;

/// Data for standard output.
pub fn data(text: &str) {
    let mut out = io::stdout().lock();
    // EPIPE: the reader has seen enough.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Standard output, kept while a command that runs has it.
#[derive(Debug)]
pub struct Kept(std::fs::File);

/// Keeps it for later.
pub fn keep() -> io::Result<Kept> {
    Ok(Kept(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?.into()))
}

impl Kept {
    /// As [`data`].
    pub fn data(&self, text: &str) {
        let _ = (&self.0).write_all(text.as_bytes());
    }
}

/// Whether somebody takes the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Yes,
    /// The pipe is closed, or the disk is full: there is no reason to go on.
    NobodyReads,
}

/// Much data for standard output, line by line.
pub struct Stream(BufWriter<StdoutLock<'static>>);

impl Stream {
    pub fn new() -> Self {
        Stream(BufWriter::with_capacity(64 * 1024, io::stdout().lock()))
    }

    pub fn line(&mut self, text: &[u8]) -> Written {
        written(self.0.write_all(text).and_then(|()| self.0.write_all(b"\n")))
    }

    pub fn flush(&mut self) -> Written {
        written(self.0.flush().and_then(|()| self.0.get_mut().flush()))
    }
}

fn written(result: io::Result<()>) -> Written {
    match result {
        Ok(()) => Written::Yes,
        Err(error) => {
            if error.kind() != io::ErrorKind::BrokenPipe {
                self::error(&format!("cannot write to standard output: {error}"));
            }
            Written::NobodyReads
        }
    }
}

/// Waits, and says whether the reader of standard output has gone meanwhile.
pub fn wait_for_reader_to_leave(patience: Duration) -> bool {
    let stdout = io::stdout();
    // Nothing is asked for: that the other end is closed is told in any case.
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    rustix::event::poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// A message for a person.
pub fn message(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Text that already has its line ends.
pub fn block(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

pub fn error(text: &str) {
    message(&format!("lazaret: error: {text}"));
}

pub fn warning(text: &str) {
    message(&format!("lazaret: warning: {text}"));
}

/// An error with all its causes on one line.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Some errors carry their source in their own words.
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

/// Help and version go out as data; anything else is a usage error.
pub fn usage(error: &clap::Error) -> Exit {
    let _ = error.print();
    if error.use_stderr() { Exit::Refused } else { Exit::Ok }
}
