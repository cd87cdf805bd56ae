//! Metrics, judged by those who read them: HTTP clients, files, Prometheus itself.

mod count;
mod prometheus;
#[cfg(feature = "otlp")]
mod push;
mod serve;
mod textfile;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Stdio},
    time::Duration,
};

use crate::case::{Case, wait_within};

/// Tries a call that is blocked, so many times.
const FLOOD: &str = "
import os, sys
for _ in range(int(sys.argv[1])):
    try: os.chroot('/')
    except OSError: pass";

/// One flood of blocked calls.
fn flood(case: &Case, count: u32) {
    case.run(["--", "/usr/bin/python3", "-c", FLOOD, &count.to_string()]).exits(0);
}

/// `lazaret metrics print` as text.
fn printed(case: &Case) -> String {
    let outcome = case.lazaret(["metrics", "print"]).go().exits(0).tells_nothing();
    String::from_utf8(outcome.stdout).unwrap()
}

/// The value of one line.
#[track_caller]
fn value(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

/// All lines of a metric together.
fn sum(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// `lazaret metrics serve`, until the end of the test.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    fn start(case: &Case, more: &[&str]) -> Served {
        let args = ["metrics", "serve", "--listen", "127.0.0.1:0"].iter().chain(more);
        let mut command = case.lazaret(args).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line:?}"));
        let address = url.strip_suffix("/metrics").unwrap().parse().unwrap();
        Served { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream
    }

    /// Sends this as it is, and gives back everything that comes until the end.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Status line, fields and body.
    fn get(&self, path: &str, fields: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}\r\n", self.address);
        self.ask(&request)
    }

    fn metrics(&self) -> String {
        let answer = self.get("/metrics", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it, and says what it told.
    fn end(mut self, signal: rustix::process::Signal) -> String {
        self.signal(signal);
        let status = wait_within(&mut self.child, Duration::from_secs(10)).expect("it does not end");
        assert_eq!(status.code(), Some(0));
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        told
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
