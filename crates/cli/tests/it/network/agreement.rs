//! What a client says first must agree with the name it asked for: the server name of TLS, the Host of every
//! request of HTTP.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use serde_json::json;

use super::{
    as_everybody_at_once, assert_refused, connections, listed, policy, python, refusals,
    servers::{Server, https},
    sh,
};
use crate::case::{Case, as_everybody, has_tool};

fn mismatch(case: &Case, port: u16) {
    let expected = [
        ("reason", json!("name-mismatch")),
        ("host", json!("web.test")),
        ("port", json!(port)),
        ("rule", json!("network.verifyServerName")),
    ];
    assert_refused(case, &expected);
}

/// The same without the check.
fn unchecked(case: &Case, port: u16) -> Vec<String> {
    policy(
        case,
        &format!(
            "allowNetwork = true\nverifyServerName = false\nallowedHosts = [\"web.test:{port}\"]\n\
             allowedAddresses = [\"127.0.0.1\"]\nresolve = {{ \"web.test\" = \"127.0.0.1\" }}"
        ),
    )
}

#[test]
fn tls_for_another_server_is_cut_off() {
    if !has_tool("openssl") {
        return;
    }
    as_everybody(|case| {
        super::clients::trusted(case);
        let served = case.root.join("served");
        case.file(served.join("x"), "content\n");
        let (_server, port) = https(&served);
        let greet = |flag: &str| {
            format!(
                "printf 'GET /x HTTP/1.0\\r\\n\\r\\n' | timeout 8 openssl s_client -quiet -ign_eof -CAfile ca.crt \
                 -verify_return_error -connect web.test:{port} {flag} 2>&1 | grep -o 'content$'"
            )
        };
        for (flag, passes) in [
            ("-servername web.test", true),
            ("-servername WEB.TEST", true),
            ("-servername other.test", false),
            ("-noservername", false),
        ] {
            let before = refusals(case).len();
            let outcome = sh(case, &listed("web.test", port), &greet(flag));
            assert_eq!(outcome.out(), if passes { "content" } else { "" }, "{flag} {outcome:?}");
            assert_eq!(refusals(case).len() > before, !passes, "{flag} {:?}", refusals(case));
            assert!(outcome.took < Duration::from_secs(7), "{flag} {outcome:?}");
        }
        mismatch(case, port);
        sh(case, &listed("web.test", port), &greet("-servername other.test"))
            .tells("other.test")
            .tells("verifyServerName");
        for flag in ["-servername other.test", "-noservername"] {
            sh(case, &unchecked(case, port), &greet(flag)).exits(0).prints("content").tells_nothing();
        }
    });
}

/// Sends pieces one after the other and prints the first lines of what comes back, and how it ended.
fn talk(port: u16, pieces: &[&str]) -> String {
    format!(
        "
import socket
s = socket.create_connection(('web.test', {port}), 8)
for piece in {pieces:?}:
    try:
        s.sendall(piece.encode())
        data = s.recv(65536)
    except OSError as e: data = type(e).__name__.encode()
    print((data.split(b'\\r\\n')[0] or b'the end').decode())"
    )
}

#[test]
fn a_request_for_another_host_is_answered_by_the_gate() {
    as_everybody(|case| {
        let server = Server::http();
        let port = server.port;
        let good = format!("GET /x HTTP/1.1\r\nHost: web.test:{port}\r\n\r\n");
        let (ok, no) = ("HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden");
        let absolute = format!("GET http://other.test:{port}/ HTTP/1.1\r\nHost: web.test:{port}\r\n\r\n");
        let other = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n";
        let body =
            format!("POST /x HTTP/1.1\r\nHost: web.test\r\nContent-Length: {}\r\n\r\n{other}", other.len());
        for (pieces, expected) in [
            (vec![good.as_str(), &good, &good], vec![ok, ok, ok]),
            (vec!["GET / HTTP/1.1\r\nHost: WEB.test\r\n\r\n"], vec![ok]),
            (vec![other], vec![no]),
            (vec![&good, other], vec![ok, no]),
            (
                vec![&good, &good, "POST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 1\r\n\r\nx"],
                vec![ok, ok, no],
            ),
            (vec![&absolute], vec![no]),
            (vec![&good, &absolute], vec![ok, no]),
            (vec!["GET / HTTP/1.1\r\nHost: web.test\r\nHost: other.test\r\n\r\n"], vec![no]),
            (vec!["GET / HTTP/1.0\r\n\r\n"], vec![no]),
            (vec!["GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], vec![no]),
            // What looks like a request in a body is none.
            (vec![&body, &good], vec![ok, ok]),
        ] {
            let outcome = python(case, &listed("web.test", port), &talk(port, &pieces)).exits(0);
            assert_eq!(outcome.out().lines().collect::<Vec<_>>(), expected, "{pieces:?} {outcome:?}");
        }
        mismatch(case, port);
        for pieces in [vec![other], vec![&good, other], vec![&absolute]] {
            let expected = vec![ok; pieces.len()].join("\n");
            python(case, &unchecked(case, port), &talk(port, &pieces))
                .exits(0)
                .prints(&expected)
                .tells_nothing();
        }
    });
}

#[test]
fn the_refusal_says_why_to_the_program() {
    as_everybody(|case| {
        let server = Server::http();
        let script = format!(
            "
import http.client
c = http.client.HTTPConnection('web.test', {}, timeout=8)
c.request('GET', '/', headers={{'Host': 'other.test'}})
r = c.getresponse()
body = r.read().decode()
print(r.status, r.getheader('X-Lazaret-Reason'), 'other.test' in body, 'verifyServerName' in body)",
            server.port
        );
        python(case, &listed("web.test", server.port), &script)
            .exits(0)
            .prints("403 name-mismatch True True");
    });
}

#[test]
fn other_protocols_and_servers_that_speak_first_are_not_looked_into() {
    as_everybody(|case| {
        let server = Server::start(|mut stream| {
            stream.write_all(b"220 ready\r\n").unwrap();
            let mut line = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut line) {
                stream.write_all(&line[..length]).unwrap();
            }
        });
        let script = format!(
            "
import socket
s = socket.create_connection(('web.test', {}), 8)
print(s.recv(99).decode().strip())
for text in ('EHLO other.test\\r\\n', 'GETTING /somewhere\\r\\n', '\\0\\1\\2'):
    s.sendall(text.encode())
    print(s.recv(99).decode() == text)
s.close()",
            server.port
        );
        python(case, &listed("web.test", server.port), &script)
            .exits(0)
            .prints("220 ready\nTrue\nTrue\nTrue")
            .tells_nothing();
        assert_eq!(connections(case, "web.test").len(), 1);
    });
}

#[test]
fn a_word_without_an_end_of_line_is_carried_once_nothing_more_can_come() {
    as_everybody(|case| {
        let server = Server::echo();
        // As ZooKeeper has it: a word, and an answer.
        let script = format!(
            "
import socket
for word in (b'ruok', b'\\n', b'get / and more'):
    s = socket.create_connection(('web.test', {}), 5)
    s.sendall(word)
    s.shutdown(socket.SHUT_WR)
    print(s.recv(99) == word)
# This might be one for somebody else.
s = socket.create_connection(('web.test', {0}), 5)
s.sendall(b'GET http://other.test/ HTTP/1.1')
s.shutdown(socket.SHUT_WR)
try: print(len(s.recv(99)))
except OSError: print(0)",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("True\nTrue\nTrue\n0");
        mismatch(case, server.port);
    });
}

#[test]
fn http_2_without_tls_is_refused() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = talk(server.port, &["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]);
        let outcome = python(case, &listed("web.test", server.port), &script).exits(0);
        assert!(!outcome.out().contains("PRI"), "{outcome:?}");
        mismatch(case, server.port);
    });
}

/// Takes ten seconds, so there is one such test, and it tries everything at once.
#[test]
fn whoever_does_not_say_for_whom_it_is_is_cut_off() {
    as_everybody_at_once(|case| {
        let (sender, seen) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut stream| {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            sender.lock().unwrap().send(all.len()).unwrap();
        });
        let script = format!(
            "
import socket, threading, time
hello = bytes.fromhex('16030100c8010000c40303') + b'r' * 32
def whole(): return [hello]
def drips(data): return [bytes([byte]) for byte in data]
def wait(pieces):
    s = socket.create_connection(('web.test', {}), 16)
    began = time.time()
    try:
        for piece in pieces:
            s.sendall(piece)
            time.sleep(0.4)
        data = s.recv(99)
        how = 'the end' if not data else 'answered'
    except OSError as e: how = 'cut off'
    took = time.time() - began
    print(how if 8 < took < 14 else took)
slow = [[hello], drips(hello), drips(b'GET / HTTP/1.1\\r\\nHost: web.test and so on'), [b'GE']]
threads = [threading.Thread(target=wait, args=(pieces,)) for pieces in slow]
for thread in threads: thread.start()
for thread in threads: thread.join()",
            server.port
        );
        let outcome = python(case, &listed("web.test", server.port), &script).exits(0);
        for line in outcome.out().lines() {
            assert!(["the end", "cut off"].contains(&line), "{outcome:?}");
        }
        assert_eq!(outcome.out().lines().count(), 4, "{outcome:?}");
        // Nothing of it got out.
        for _ in 0..4 {
            assert_eq!(seen.recv_timeout(Duration::from_secs(3)), Ok(0));
        }
        mismatch(case, server.port);
    });
}
