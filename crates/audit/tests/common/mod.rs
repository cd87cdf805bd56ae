//! A directory per test, logs of a known shape, and the current test started again as another process.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part of this, and may fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

use lazaret_audit::{Event, EventKind, Log, NewEvent, Reader, Reason, VerifyError, verify};

/// Where a child finds the log it is to write to.
pub const LOG: &str = "LAZARET_AUDIT_TEST_LOG";

pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("lazaret-audit-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("audit.log")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn event(n: u64) -> NewEvent {
    NewEvent::new(EventKind::SyscallBlocked, "box-1").with("syscall", "ptrace").with("n", n)
}

/// A log of `n` events.
pub fn filled(dir: &Dir, n: u64) -> PathBuf {
    let log = Log::open(&dir.log()).unwrap();
    for i in 1..=n {
        log.append(&event(i)).unwrap();
    }
    dir.log()
}

pub fn lines(path: &Path) -> Vec<Vec<u8>> {
    std::fs::read(path).unwrap().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

pub fn broken(path: &Path) -> (u64, Reason) {
    match verify(path) {
        Err(VerifyError::Broken { line, reason, .. }) => (line, reason),
        other => unreachable!("expected a broken log, got {other:?}"),
    }
}

pub fn events(path: &Path) -> Vec<Event> {
    Reader::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The named test of this binary, to be run as a process of its own.
#[expect(clippy::disallowed_methods, reason = "concurrent processes are what is tested")]
pub fn again(test: &str, log: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(LOG, log);
    command
}

/// The log to write to, in a process made by [`again`].
pub fn inherited() -> Option<PathBuf> {
    std::env::var_os(LOG).map(PathBuf::from)
}

/// Says what was not tried; CI makes that a failure.
#[allow(clippy::print_stderr, reason = "nothing is left out in silence")]
pub fn not_run(why: &str) {
    assert!(std::env::var_os("LAZARET_MUST_ENFORCE").is_none_or(|value| value != "1"), "not run: {why}");
    eprintln!("not run: {why}");
}
