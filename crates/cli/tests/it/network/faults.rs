//! Floods, silence, breaks: the sandbox and its supervisor live on.

use std::{
    fs,
    io::{Read as _, Write as _},
    thread,
    time::Duration,
};

use serde_json::json;

use super::{
    as_everybody_at_once, connections, listed, python, refusals,
    resolver::{Resolver, with_resolver},
    servers::Server,
};
use crate::case::{Case, Outcome, as_everybody, ordinary};

/// The most memory that the supervisor and its carrying thread may ever have had, in kB.
const MOST_MEMORY: u64 = 64 << 10;

/// Runs a script that waits for a line at its end, and says how much memory the supervisor has had by then.
fn measured(case: &Case, flags: &[String], script: &str) -> (Outcome, u64) {
    let script = format!("{script}\nopen('done', 'w').close()\ninput()");
    let command = ["--", "/usr/bin/python3", "-c", &script];
    let mut running = case.running(flags.iter().map(String::as_str).chain(command)).start();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !case.work.join("done").exists() && running.child.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < end, "the flood does not end");
        thread::sleep(Duration::from_millis(20));
    }
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let peak = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    let _ = running.child.stdin.take().unwrap().write_all(b"\n");
    (running.finish(), peak)
}

/// Ten thousand attempts, many at a time.
fn flood(host: &str, port: u16, waits: bool) -> String {
    format!(
        "
import os, socket
to = socket.getaddrinfo({host:?}, {port}, socket.AF_INET)[0][4]
children = []
for _ in range(4):
    if not (pid := os.fork()):
        held = []
        for number in range(2500):
            s = socket.socket()
            s.setblocking({})
            try: s.connect_ex(to); s.send(b'x\\n')
            except OSError: pass
            held.append(s)
            if len(held) > 100: held.pop(0).close()
        os._exit(0)
    children.append(pid)
for pid in children: assert os.waitpid(pid, 0)[1] == 0",
        if waits { "True" } else { "False" }
    )
}

#[test]
fn ten_thousand_refused_connections_leave_everything_alive() {
    let case = ordinary();
    let server = Server::http();
    let after = format!(
        "\ns = socket.create_connection(('web.test', {}), 8)\n\
         s.sendall(b'GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n')\nprint(s.recv(12).decode())",
        server.port
    );
    let script = flood("10.0.0.1", 80, true) + &after;
    let (outcome, peak) = measured(&case, &listed("web.test", server.port), &script);
    outcome.exits(0).prints("HTTP/1.1 200").tells("10000 times");
    assert!(peak > 0 && peak < MOST_MEMORY, "{peak} kB");
    // Folded, not written ten thousand times.
    assert!(refusals(&case).len() < 20, "{}", refusals(&case).len());
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn ten_thousand_allowed_connections_leave_everything_alive() {
    let case = ordinary();
    let server = Server::start(|mut stream| {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let _ = stream.read(&mut [0; 16]);
    });
    let (outcome, peak) = measured(
        &case,
        &listed("web.test", server.port),
        &(flood("web.test", server.port, false) + "\nprint('alive')"),
    );
    outcome.exits(0).prints("alive");
    assert!(peak > 0 && peak < MOST_MEMORY, "{peak} kB");
    assert!(server.accepted() > 5000, "{}", server.accepted());
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn a_flood_of_datagrams_and_questions_leaves_everything_alive() {
    let case = ordinary();
    let script = "
import socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(('93.184.216.34', 443))
for _ in range(20000):
    try: u.send(b'x' * 1000)
    except OSError: pass
for number in range(3000):
    try: u.sendto(b'x', ('10.0.%d.%d' % (number // 250, number % 250), number + 1))
    except OSError: pass
q = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(20000):
    try: q.sendto(b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\3web\\4test\\0\\0\\1\\0\\1', ('198.18.0.1', 53))
    except OSError: pass
import time; time.sleep(1.2)
print(len(socket.getaddrinfo('web.test', 80, socket.AF_INET, socket.SOCK_STREAM)))";
    let (outcome, peak) = measured(&case, &listed("web.test", 80), script);
    outcome.exits(0).prints("1");
    assert!(peak > 0 && peak < MOST_MEMORY, "{peak} kB");
    assert!(fs::metadata(case.log()).unwrap().len() < 4 << 20);
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn a_server_that_stalls_is_bounded_by_the_timeout() {
    as_everybody_at_once(|case| {
        let server = Server::start(|mut stream| {
            let _ = stream.read(&mut [0; 16]);
            thread::sleep(Duration::from_secs(12));
        });
        let mut flags = listed("web.test", server.port);
        flags.extend(["--timeout".to_owned(), "1s".to_owned()]);
        let script = format!(
            "import socket\ns = socket.create_connection(('web.test', {}))\ns.sendall(b'x\\n')\ns.recv(1)\nprint('answered')",
            server.port
        );
        let outcome = python(case, &flags, &script).exits(124).prints("");
        assert!(outcome.took < Duration::from_secs(6), "{outcome:?}");
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 1);
    });
}

#[test]
fn a_server_that_breaks_off_is_seen_to_do_so() {
    as_everybody(|case| {
        let server = Server::start(|mut stream| {
            let _ = stream.read(&mut [0; 16]);
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        });
        let script = format!(
            "
import errno, socket
for waits in (None, 5):
    s = socket.create_connection(('web.test', {}), waits)
    s.sendall(b'x\\n')
    try: print(len(s.recv(1)))
    except OSError as e: print(errno.errorcode[e.errno])",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("ECONNRESET\nECONNRESET");
        let found = connections(case, "web.test");
        assert!(found.iter().all(|one| one["failure"].as_str().unwrap().contains("reset")), "{found:#?}");
    });
}

#[test]
fn a_client_that_breaks_off_is_seen_outside() {
    as_everybody(|case| {
        let (sender, seen) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut stream| {
            let mut all = Vec::new();
            let broken = stream.read_to_end(&mut all).is_err();
            sender.lock().unwrap().send(broken).unwrap();
        });
        let script = format!(
            "
import socket, struct, time
s = socket.create_connection(('web.test', {}), 5)
s.sendall(b'x\\n')
time.sleep(0.1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
time.sleep(0.2)",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0);
        assert_eq!(seen.recv_timeout(Duration::from_secs(5)), Ok(true));
    });
}

#[test]
fn a_host_without_a_resolver_is_told_as_such() {
    with_resolver(|case, run| {
        // Nobody listens there.
        let address = Resolver::address();
        let flags = ["--allow", "web.test"].map(str::to_owned).to_vec();
        let script = "
import socket, time
began = time.time()
try: socket.create_connection(('web.test', 80), None); print('reached')
except OSError as e: print(e.strerror)
assert time.time() - began < 17";
        let outcome = run(&address, &flags, script).exits(0);
        assert_ne!(outcome.out(), "reached", "{outcome:?}");
        let found = connections(case, "web.test");
        assert_eq!(found[0]["reason"], json!("unresolvable"), "{found:#?}");
        assert_eq!(found[0]["decision"], json!("failed"), "{found:#?}");
    });
}

#[test]
fn the_sandbox_ends_although_its_connections_are_open() {
    as_everybody_at_once(|case| {
        let server = Server::start(|_stream| thread::sleep(Duration::from_secs(12)));
        let script = format!(
            "import os, socket\nheld = [socket.create_connection(('web.test', {}), 5) for _ in range(20)]\nos._exit(3)",
            server.port
        );
        let outcome = python(case, &listed("web.test", server.port), &script).exits(3);
        assert!(outcome.took < Duration::from_secs(6), "{outcome:?}");
        assert_eq!(connections(case, "web.test").len(), 20, "{:#?}", connections(case, "web.test"));
    });
}

#[test]
fn the_clock_is_kept_whatever_is_refused_at_the_door() {
    as_everybody_at_once(|case| {
        // Many sockets to look through, and many refusals at once that somebody must have asked for.
        let script = "
import os, socket
for _ in range(6):
    if os.fork() == 0: break
idle = [socket.socket() for _ in range(900)]
for s in idle: s.bind(('127.0.0.1', 0))
while True:
    clients = []
    for n in range(100):
        s = socket.create_connection(('127.0.0.1', 61080), 5)
        s.sendall(f'CONNECT a{n}.bad.test:443 HTTP/1.1\\r\\nHost: a{n}.bad.test:443\\r\\n\\r\\n'.encode())
        clients.append(s)
    for s in clients: s.close()";
        let mut flags = listed("web.test", 80);
        flags.extend(["--timeout", "2s"].map(str::to_owned));
        let outcome = python(case, &flags, script).exits(124);
        assert!(outcome.took < Duration::from_secs(9), "{outcome:?}");
        assert!(!refusals(case).is_empty());
    });
}
