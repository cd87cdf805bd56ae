//! Servers inside have every port to themselves, and nobody mistakes them for the outside.

use super::{flags, free_port, listed, python, servers::Server, without_variables};
use crate::case::as_everybody;

#[test]
fn servers_inside_have_every_port_and_every_loopback_address() {
    as_everybody(|case| {
        let outside = Server::echo();
        let script = format!(
            "
import socket
def server(family, address, port):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port))
    s.listen()
    return s
count = 0
for port in (80, 443, 53, 22, 5432, 8080, {}, 0):
    for bound, asked in (('127.0.0.1', '127.0.0.1'), ('0.0.0.0', '127.0.0.1'), ('0.0.0.0', '127.3.2.1'),
                         ('127.0.0.9', '127.0.0.9'), ('0.0.0.0', '0.0.0.0'), ('::1', '::1'), ('::', '::1'),
                         ('::', '127.0.0.1')):
        family = socket.AF_INET6 if ':' in bound else socket.AF_INET
        # The name server has this port at an address of its own.
        if port == 53 and bound in ('0.0.0.0', '::'): continue
        listener = server(family, bound, port)
        client = socket.create_connection((asked, listener.getsockname()[1]), 3)
        end = listener.accept()[0]
        end.sendall(b'inside')
        assert client.recv(9) == b'inside', (port, bound, asked)
        for s in (client, end, listener): s.close()
        count += 1
print(count)",
            outside.port
        );
        python(case, &listed("web.test", outside.port), &script).exits(0).prints("59").tells_nothing();
        assert_eq!(outside.accepted(), 0);
    });
}

#[test]
fn a_server_inside_on_the_same_port_does_not_get_what_is_meant_for_outside() {
    as_everybody(|case| {
        let outside = Server::echo();
        let script = format!(
            "
import socket, threading
def serve(family, address):
    s = socket.socket(family)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, {0}))
    s.listen()
    def answer():
        while True:
            end = s.accept()[0]
            end.sendall(b'inside')
            end.close()
    threading.Thread(target=answer, daemon=True).start()
serve(socket.AF_INET, '0.0.0.0')
serve(socket.AF_INET6, '::')
for family in (socket.AF_INET, socket.AF_INET6):
    for waits in (True, False):
        s = socket.socket(family)
        if not waits: s.settimeout(5)
        s.connect(socket.getaddrinfo('web.test', {0}, family, socket.SOCK_STREAM)[0][4])
        s.sendall(b'outside\\n')
        print(s.recv(9).decode().strip())
for address in ('127.0.0.1', '::1', 'localhost'):
    print(socket.create_connection((address, {0}), 5).recv(9).decode().strip())
# Nor does it get what is refused.
for address in ('10.0.0.1', '93.184.216.34', 'fd00::1'):
    try: print(socket.create_connection((address, {0}), 5).recv(9).decode().strip())
    except OSError as e: print(e.strerror)",
            outside.port
        );
        let expected = ["outside"; 4].into_iter().chain(["inside"; 3]).chain(["Permission denied"; 3]);
        python(case, &listed("web.test", outside.port), &script)
            .exits(0)
            .prints(&expected.collect::<Vec<_>>().join("\n"));
        assert_eq!(outside.accepted(), 4);
    });
}

#[test]
fn a_server_inside_wins_over_a_listed_port_of_localhost() {
    as_everybody(|case| {
        let outside = Server::echo();
        let script = format!(
            "
import socket
def said():
    s = socket.create_connection(('localhost', {0}), 5)
    s.sendall(b'outside\\n')
    return s
print(said().recv(9).decode().strip())
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', {0}))
listener.listen()
client = said()
end = listener.accept()[0]
end.sendall(b'inside')
print(client.recv(9).decode().strip())
listener.close(); end.close(); client.close()
print(said().recv(9).decode().strip())",
            outside.port
        );
        let flags = without_variables(case, &[&format!("localhost:{}", outside.port)]);
        python(case, &flags, &script).exits(0).prints("outside\ninside\noutside").tells_nothing();
        assert_eq!(outside.accepted(), 2);
    });
}

#[test]
fn a_listed_port_of_localhost_that_nobody_serves_refuses_whoever_waits() {
    as_everybody(|case| {
        let dead = free_port();
        let live = Server::echo();
        let script = format!(
            "
import errno, socket
for address in ('127.0.0.1', '::1'):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    print(errno.errorcode.get(socket.socket(family).connect_ex((address, {dead})), 'reached'))
    s = socket.socket(family)
    s.connect((address, {}))
    s.sendall(b'outside\\n')
    print(s.recv(9).decode().strip())
listener = socket.create_server(('127.0.0.1', {0}))
s = socket.socket()
s.connect(('127.0.0.1', {0}))
listener.accept()[0].sendall(b'inside')
print(s.recv(9).decode())
print(errno.errorcode.get(socket.socket(socket.AF_INET6).connect_ex(('::1', {0})), 'reached'))",
            live.port
        );
        let entries = [dead, live.port].map(|port| format!("localhost:{port}"));
        let flags = without_variables(case, &entries.each_ref().map(String::as_str));
        let expected = "ECONNREFUSED\noutside\nECONNREFUSED\noutside\ninside\nECONNREFUSED";
        python(case, &flags, &script).exits(0).prints(expected).tells_nothing();
    });
}

#[test]
fn other_ports_of_localhost_stay_those_of_the_sandbox() {
    as_everybody(|case| {
        let (open, closed) = (Server::echo(), Server::echo());
        let script = format!(
            "
import errno, socket
for port in ({}, {}):
    for address in ('127.0.0.1', '::1', '0.0.0.0', '127.0.0.5'):
        s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET)
        print(address, errno.errorcode.get(s.connect_ex((address, port)), 'reached'))",
            open.port, closed.port
        );
        let rest =
            ["127.0.0.1", "::1", "0.0.0.0", "127.0.0.5"].map(|address| format!("{address} ECONNREFUSED"));
        let outcome = python(case, &flags("web.test", &format!("localhost:{}", open.port)), &script).exits(0);
        let lines: Vec<String> = outcome.out().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "127.0.0.1 reached", "{outcome:?}");
        assert_eq!(lines[2..4], rest[2..4], "{outcome:?}");
        assert_eq!(lines[4..], rest, "{outcome:?}");
        assert_eq!(closed.accepted(), 0);
    });
}
