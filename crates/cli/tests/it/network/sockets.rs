//! Sockets as programs use them: what comes of connecting, and what arrives.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    sync::mpsc,
    time::Duration,
};

use serde_json::json;

use super::{connections, free_port, listed, python, servers::Server};
use crate::case::as_everybody;

#[test]
fn both_versions_of_ip_lead_out_and_the_peer_is_the_one_that_was_asked_for() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import socket
for family in (socket.AF_INET, socket.AF_INET6):
    to = socket.getaddrinfo('web.test', {}, family, socket.SOCK_STREAM)[0][4]
    s = socket.socket(family, socket.SOCK_STREAM)
    s.connect(to)
    assert s.getpeername()[:2] == to[:2], (s.getpeername(), to)
    s.sendall(b'hello\\n')
    print(s.recv(9).decode().strip())
# IPv4 in the clothing of IPv6.
to = socket.getaddrinfo('web.test', {0}, socket.AF_INET, socket.SOCK_STREAM)[0][4]
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.connect(('::ffff:' + to[0], to[1]))
assert s.getpeername()[:2] == ('::ffff:' + to[0], to[1])
s.sendall(b'mapped\\n')
print(s.recv(9).decode().strip())",
            server.port
        );
        python(case, &listed("web.test", server.port), &script)
            .exits(0)
            .prints("hello\nhello\nmapped")
            .tells_nothing();
        assert_eq!(server.accepted(), 3);
        assert_eq!(connections(case, "web.test").len(), 3);
    });
}

#[test]
fn sockets_that_do_not_wait_connect_as_well() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import errno, select, socket
for family in (socket.AF_INET, socket.AF_INET6):
    to = socket.getaddrinfo('web.test', {}, family, socket.SOCK_STREAM)[0][4]
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setblocking(False)
    assert s.connect_ex(to) in (0, errno.EINPROGRESS)
    assert select.select([], [s], [], 5)[1]
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert s.connect_ex(to) in (0, errno.EISCONN)
    assert s.getpeername()[:2] == to[:2]
    s.send(b'hello\\n')
    assert select.select([s], [], [], 5)[0]
    print(s.recv(9).decode().strip())",
            server.port
        );
        python(case, &listed("web.test", server.port), &script)
            .exits(0)
            .prints("hello\nhello")
            .tells_nothing();
    });
}

#[test]
fn a_port_that_nobody_serves_refuses() {
    as_everybody(|case| {
        let port = free_port();
        let script = format!(
            "
import errno, select, socket, time
began = time.time()
for family in (socket.AF_INET, socket.AF_INET6):
    to = socket.getaddrinfo('web.test', {port}, family, socket.SOCK_STREAM)[0][4]
    s = socket.socket(family, socket.SOCK_STREAM)
    print(errno.errorcode[s.connect_ex(to)])
    # It can be tried again on the same socket.
    print(errno.errorcode[s.connect_ex(to)])
# One that does not wait learns it by what it reads.
s = socket.socket()
s.setblocking(False)
s.connect_ex(socket.getaddrinfo('web.test', {port}, socket.AF_INET)[0][4])
assert select.select([s], [], [], 5)[0]
try: print(len(s.recv(1)))
except OSError as e: print(errno.errorcode[e.errno])
assert time.time() - began < 5"
        );
        python(case, &listed("web.test", port), &script)
            .exits(0)
            .prints("ECONNREFUSED\nECONNREFUSED\nECONNREFUSED\nECONNREFUSED\nECONNRESET");
        let carried = connections(case, "web.test");
        assert_eq!(carried.len(), 5, "{carried:#?}");
        assert!(carried[0]["failure"].as_str().unwrap().contains("refused"), "{carried:#?}");
    });
}

#[test]
fn one_direction_can_end_before_the_other() {
    as_everybody(|case| {
        // Says how much came, but only when all has come.
        let counting = Server::start(|mut stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            write!(stream, "{} bytes", all.len()).unwrap();
        });
        let script = format!(
            "
import socket
s = socket.create_connection(('web.test', {}), 5)
s.sendall(b'x' * 100000)
s.shutdown(socket.SHUT_WR)
print(b''.join(iter(lambda: s.recv(99), b'')).decode())",
            counting.port
        );
        python(case, &listed("web.test", counting.port), &script).exits(0).prints("100000 bytes");
        // Says all it has to say, and hears on.
        let (sender, heard) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let greeting = Server::start(move |mut stream| {
            stream.write_all(b"welcome").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            sender.lock().unwrap().send(all.len()).unwrap();
        });
        let script = format!(
            "
import socket
s = socket.create_connection(('web.test', {}), 5)
print(s.recv(99).decode(), len(s.recv(99)))
s.sendall(b'x' * 100000)",
            greeting.port
        );
        python(case, &listed("web.test", greeting.port), &script).exits(0).prints("welcome 0");
        assert_eq!(heard.recv_timeout(Duration::from_secs(5)), Ok(100_000));
    });
}

#[test]
fn large_transfers_arrive_byte_for_byte_both_ways_at_once() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import hashlib, os, socket, threading
s = socket.create_connection(('web.test', {}), 15)
piece = os.urandom(1 << 20)
sent, got = hashlib.sha256(), hashlib.sha256()
def send():
    for number in range(32):
        data = piece[number * 1000:] + piece[:number * 1000]
        sent.update(data)
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
thread = threading.Thread(target=send)
thread.start()
total = 0
while data := s.recv(1 << 16):
    got.update(data)
    total += len(data)
thread.join()
print(total, sent.hexdigest() == got.hexdigest())",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("33554432 True");
        let carried = connections(case, "web.test");
        assert_eq!(carried[0]["sentBytes"], json!(33_554_432), "{carried:?}");
        assert_eq!(carried[0]["receivedBytes"], json!(33_554_432), "{carried:?}");
    });
}

#[test]
fn what_is_written_just_before_the_end_arrives() {
    as_everybody(|case| {
        let (sender, heard) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut stream| {
            std::thread::sleep(Duration::from_millis(300));
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            sender.lock().unwrap().send(all.len()).unwrap();
        });
        for (size, waits) in [(1, "True"), (200_000, "True"), (1, "False"), (50_000, "False")] {
            let script = format!(
                "
import os, select, socket
s = socket.socket()
s.setblocking({waits})
s.connect_ex(socket.getaddrinfo('web.test', {}, socket.AF_INET)[0][4])
select.select([], [s], [], 5)
assert s.send(b'x' * {size}) == {size}
os._exit(0)",
                server.port
            );
            python(case, &listed("web.test", server.port), &script).exits(0);
            assert_eq!(heard.recv_timeout(Duration::from_secs(5)), Ok(size), "waits: {waits}");
        }
    });
}

#[test]
fn two_hundred_connections_at_once_do_not_mix() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import socket, threading
import resource
gate = threading.Barrier(200)
right = []
to = socket.getaddrinfo('web.test', {}, socket.AF_INET)[0][4]
def one(number):
    s = socket.socket()
    s.settimeout(15 if number % 2 else None)
    s.connect(to)
    gate.wait()
    text = (str(number) * 1000).encode()
    s.sendall(text)
    s.shutdown(socket.SHUT_WR)
    got = b''
    while data := s.recv(65536): got += data
    if got == text: right.append(number)
threading.stack_size(65536)
threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(right))",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("200").tells_nothing();
        assert_eq!(server.accepted(), 200);
    });
}
