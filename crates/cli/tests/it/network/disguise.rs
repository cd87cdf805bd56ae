//! Requests for somebody else in clothing that some server sees through: what it would take for TLS or HTTP is
//! read as such, whatever it looks like at first.

use std::io::{Read as _, Write as _};

use super::{listed, python, refusals, servers::Server};
use crate::case::as_everybody;

/// Echoes what it gets: whatever reaches it, got through.
#[test]
fn nothing_that_a_server_takes_for_tls_or_http_passes_unread() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import socket, ssl
def hello(name):
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try: context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: pass
    return outgoing.read()
def version(bytes, major, minor): return bytes[:1] + bytes_of(major, minor) + bytes[3:]
def bytes_of(*numbers): return bytes(numbers)
other = hello('other.test')
host = b'Host: other.test\\r\\n\\r\\n'
tries = [
    other, version(other, 3, 4), version(other, 3, 255), version(other, 2, 0), version(other, 15, 3),
    bytes_of(20, 3, 3, 0, 1, 1) + other, bytes_of(21, 3, 3, 0, 2, 1, 0) + other, bytes_of(23, 3, 3, 0, 1, 0) + other,
    bytes_of(0x80, 0x2e, 1, 3, 1) + bytes(41),
    b'GET /\\r\\n' + host, b' GET / HTTP/1.1\\r\\n' + host, b'GET\\x0b/\\x0bHTTP/1.1\\r\\n' + host,
    b'GET\\x0c/ HTTP/1.1\\r\\n' + host, b'GET\\r/\\rHTTP/1.1\\n' + host, b'GET\\x1c/\\x1cHTTP/1.1\\r\\n' + host,
    b'GET /\\x01 HTTP/1.1\\r\\n' + host, b'GET /\\x7f HTTP/1.1\\r\\n' + host, b'GET\\xa0/\\xa0HTTP/1.1\\r\\n' + host,
    b'\\r\\n' * 5000 + b'GET / HTTP/1.1\\r\\n' + host,
    b'GET / HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 45\\r\\n\\r\\nGET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n12345678',
]
for number, words in enumerate(tries):
    s = socket.create_connection(('web.test', {}), 5)
    try:
        s.sendall(words)
        s.shutdown(socket.SHUT_WR)
        answer = s.recv(65536)
    except OSError: answer = b''
    if answer and not answer.startswith(b'HTTP/1.1 403'): print('through', number, answer[:40])
print('done')",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("done");
        assert!(!refusals(case).is_empty());
    });
}

#[test]
fn a_later_request_cannot_end_the_reading_by_an_upgrade() {
    as_everybody(|case| {
        // Its body looks like an answer to an upgrade, wherever a piece of it begins.
        let server = Server::start(|mut stream| {
            let mut bytes = [0; 4096];
            let mut seen = Vec::new();
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                seen.extend_from_slice(&bytes[..length]);
                if seen.windows(10).any(|ten| ten == b"other.test") {
                    let _ = stream.write_all(b"THROUGH");
                }
                let body = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".repeat(200);
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(&body);
            }
        });
        let script = format!(
            "
import socket, time
for _ in range(20):
    s = socket.create_connection(('web.test', {}), 5)
    got = b''
    try:
        s.sendall(b'GET /1 HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n'
                  b'GET /2 HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n')
        time.sleep(0.01)
        s.sendall(b'GET /3 HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n')
        s.settimeout(0.2)
        while True:
            piece = s.recv(65536)
            if not piece: break
            got += piece
    except OSError: pass
    if b'THROUGH' in got: print('through')
print('done')",
            server.port
        );
        python(case, &listed("web.test", server.port), &script).exits(0).prints("done");
        assert!(refusals(case).iter().any(|refusal| refusal["reason"] == "name-mismatch"));
    });
}
