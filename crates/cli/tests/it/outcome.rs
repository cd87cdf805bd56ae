//! A run and what it came to: exit code, output, messages, and what of it is still on the host.

use std::{
    fmt, fs,
    io::Read,
    os::unix::process::ExitStatusExt,
    process::{Child, ExitStatus},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// No run of these tests takes longer.
const LIMIT: Duration = Duration::from_secs(20);
/// Its output is complete this soon after its end.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// A program that runs, with its output being read.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    started: Instant,
    output: Option<Receiver<Vec<u8>>>,
    messages: Option<Receiver<Vec<u8>>>,
}

fn reader(stream: Option<impl Read + Send + 'static>) -> Option<Receiver<Vec<u8>>> {
    stream.map(|mut stream| {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
        receiver
    })
}

impl Running {
    pub fn new(mut child: Child) -> Running {
        let (output, messages) = (child.stdout.take(), child.stderr.take());
        Running { child, started: Instant::now(), output: reader(output), messages: reader(messages) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; one that does not come in time is a failure.
    pub fn finish(mut self) -> Outcome {
        let status = wait_within(&mut self.child, LIMIT);
        let took = self.started.elapsed();
        if status.is_none() {
            let _ = self.child.kill();
        }
        let all = |reader: Option<Receiver<Vec<u8>>>| match reader {
            // When it has ended, nothing of it is left that could hold a stream open.
            Some(reader) => reader.recv_timeout(AFTERWARDS).expect("a stream is held open after the end"),
            None => Vec::new(),
        };
        let stdout = all(self.output);
        let stderr = String::from_utf8_lossy(&all(self.messages)).into_owned();
        let status = status.unwrap_or_else(|| {
            panic!(
                "did not end within {LIMIT:?}; stdout {:?}, stderr {stderr}",
                String::from_utf8_lossy(&stdout)
            )
        });
        Outcome { status, stdout, stderr, took }
    }
}

pub fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Waits until something holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "did not happen within 10 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a run came to.
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {:?}", self.status, self.took)?;
        writeln!(f, "stdout: {}", String::from_utf8_lossy(&self.stdout))?;
        write!(f, "stderr: {}", self.stderr)
    }
}

impl Outcome {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by signal {:?}: {self:?}", self.status.signal()))
    }

    /// Standard output as text, without white space around it.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert_eq!(self.out(), text, "{self:?}");
        self
    }

    /// Standard error contains this.
    #[track_caller]
    pub fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not told: {self:?}");
        self
    }

    /// Nothing on standard error.
    #[track_caller]
    pub fn tells_nothing(self) -> Self {
        assert_eq!(self.stderr, "", "{self:?}");
        self
    }
}

/// The host's processes that have this text in their command line.
pub fn processes_with(marker: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command.windows(marker.len()).any(|window| window == marker.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// A text that occurs nowhere else.
pub fn marker() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("lazaret-marker-{}-{}-", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}
