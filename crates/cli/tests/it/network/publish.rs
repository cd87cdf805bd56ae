//! Ports of the host that lead to a server inside.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{as_everybody_at_once, free_port, listed, python, run};
use crate::case::{Case, Running, as_everybody};

/// A server inside that answers with what it got, until it gets "stop".
const SERVE: &str = "
import socket, threading
s = socket.socket(FAMILY)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((ADDRESS, 8080))
s.listen(50)
done = threading.Event()
def answer(end):
    data = b''
    while piece := end.recv(65536): data += piece
    end.sendall(b'inside: ' + data)
    end.close()
    if data == b'stop': done.set()
def serve():
    while True: threading.Thread(target=answer, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
done.wait(15)
import time; time.sleep(0.1)";

fn started(case: &Case, flags: &[String], address: &str) -> Running {
    let family = if address.contains(':') { "socket.AF_INET6" } else { "socket.AF_INET" };
    let script = SERVE.replace("FAMILY", family).replace("ADDRESS", &format!("{address:?}"));
    let command = ["--", "/usr/bin/python3", "-c", &script];
    case.running(flags.iter().map(String::as_str).chain(command)).start()
}

/// What a server answers; tries until there is one.
fn ask(port: u16, text: &str) -> String {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let attempt = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(text.as_bytes())?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        match attempt() {
            Ok(answer) if !answer.is_empty() => return answer,
            other => assert!(Instant::now() < end, "no answer: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_server_inside_is_reached_from_the_host() {
    as_everybody(|case| {
        for (address, network) in [("127.0.0.1", false), ("0.0.0.0", true), ("::1", false)] {
            let port = free_port();
            let mut flags = words(&["--publish", &format!("{port}:8080")]);
            if network {
                flags.extend(listed("web.test", 80));
            }
            let running = started(case, &flags, address);
            assert_eq!(ask(port, "hello"), "inside: hello", "{address}");
            let large = "x".repeat(3_000_000);
            assert_eq!(ask(port, &large).len(), large.len() + 8, "{address}");
            assert_eq!(ask(port, "stop"), "inside: stop", "{address}");
            running.finish().exits(0).tells_nothing();
            // With the sandbox the port is gone.
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        }
        let inbound: Vec<_> = case
            .events_of("NETWORK_CONNECTION")
            .into_iter()
            .filter(|event| {
                event["details"]["direction"] == "inbound" && event["details"]["failure"].is_null()
            })
            .collect();
        assert_eq!(inbound.len(), 9, "{inbound:#?}");
        for event in &inbound {
            let details = &event["details"];
            assert_eq!(details["way"], json!("published"), "{details}");
            assert_eq!(details["port"], json!(8080), "{details}");
            assert_eq!(details["rule"], json!("network.publish"), "{details}");
        }
        assert_eq!(inbound[0]["details"]["sentBytes"], json!(13), "{inbound:#?}");
        assert_eq!(inbound[0]["details"]["receivedBytes"], json!(5), "{inbound:#?}");
    });
}

#[test]
fn a_port_that_is_taken_is_refused_before_anything_starts() {
    as_everybody(|case| {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        run(case, &words(&["--publish", &format!("{port}:8080")]), &["touch", "ran"])
            .exits(125)
            .tells(&port.to_string())
            .tells("in use");
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

#[test]
fn only_what_is_published_is_reached_and_only_from_this_host() {
    as_everybody(|case| {
        let before = TcpStream::connect(("127.0.0.1", 8080)).is_ok();
        let port = free_port();
        let running = started(case, &words(&["--publish", &format!("{port}:8080")]), "127.0.0.1");
        ask(port, "hello");
        assert_eq!(TcpStream::connect(("127.0.0.1", 8080)).is_ok(), before);
        // It listens on loopback only.
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let listening: Vec<&str> = table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .filter(|local| local.ends_with(&format!(":{port:04X}")))
            .collect();
        assert!(listening.iter().all(|local| local.starts_with("0100007F:")), "{listening:?}");
        ask(port, "stop");
        running.finish().exits(0);
    });
}

#[test]
fn nobody_inside_listening_is_a_connection_that_breaks() {
    as_everybody_at_once(|case| {
        let port = free_port();
        let command = ["--publish", &format!("{port}:8080"), "--", "sleep", "2"];
        let running = case.running(command).start();
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut byte = [0];
        let read = stream.read(&mut byte);
        assert!(
            matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
        );
        running.finish().exits(0);
        let event = &case.events_of("NETWORK_CONNECTION")[0]["details"];
        assert!(event["failure"].as_str().unwrap().contains("refused"), "{event}");
    });
}

#[test]
fn a_published_port_is_in_a_policy_as_well_and_zero_takes_a_free_one() {
    as_everybody(|case| {
        let port = free_port();
        let flags = super::policy(case, &format!("publish = [\"{port}:8080\", \"0:8081\"]"));
        let running = started(case, &flags, "127.0.0.1");
        assert_eq!(ask(port, "stop"), "inside: stop");
        running.finish().exits(0);
        // What is published opens nothing outwards.
        python(case, &flags, "import socket\nprint(socket.socket().connect_ex(('93.184.216.34', 80)))")
            .prints("101");
    });
}
