//! The front door for programs that look for a proxy.

use serde_json::json;

use super::{assert_refused, connections, free_port, listed, python, run, servers::Server, sh};
use crate::case::{as_everybody, has_tool};

/// Talks to the door, for scripts.
const DOOR: &str = "
import os, socket, struct
PROXY = ('127.0.0.1', 61080)
def door():
    return socket.create_connection(PROXY, 8)
def read_all(s):
    data = b''
    try:
        while piece := s.recv(65536): data += piece
    except OSError: data += b' (broken)'
    return data
def response(f):
    status, headers = f.readline().decode().strip(), {}
    while (line := f.readline().decode().strip()):
        name, value = line.split(':', 1)
        headers[name.lower()] = value.strip()
    return status, headers, f.read(int(headers.get('content-length', 0))).decode()
def socks(host, port, early=b''):
    s = door()
    s.sendall(b'\\5\\1\\0')
    assert s.recv(2) == b'\\5\\0'
    try: to = b'\\1' + socket.inet_aton(host)
    except OSError: to = b'\\3' + bytes([len(host)]) + host.encode()
    s.sendall(b'\\5\\1\\0' + to + struct.pack('>H', port) + early)
    return s, s.recv(10)[1]
";

#[test]
fn variables_lead_programs_to_the_door_unless_the_policy_says_otherwise() {
    as_everybody(|case| {
        let script = "for name in HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy; do
            eval echo $name=\\$$name; done";
        let text = sh(case, &listed("web.test", 80), script).exits(0).out();
        for (name, value) in [
            ("HTTP_PROXY", "http://127.0.0.1:61080"),
            ("HTTPS_PROXY", "http://127.0.0.1:61080"),
            ("ALL_PROXY", "socks5h://127.0.0.1:61080"),
            ("NO_PROXY", "localhost,127.0.0.1,::1"),
        ] {
            assert!(text.contains(&format!("{name}={value}\n")), "{text}");
            assert!(text.contains(&format!("{}={value}", name.to_lowercase())), "{text}");
        }
        let none = sh(case, &super::without_variables(case, &["web.test"]), "env | grep -ci proxy");
        assert_eq!(none.out(), "0");
        assert_eq!(case.sh("env | grep -ci proxy").out(), "0");
    });
}

#[test]
fn curl_goes_by_every_door() {
    if !has_tool("curl") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        let url = format!("http://web.test:{}/x", server.port);
        let text = format!("GET /x at web.test:{} with 0 bytes", server.port);
        let (forward, connect, socks4) = ("http-proxy", "connect", "socks5");
        for (way, flags) in [
            (forward, &[][..]),
            (connect, &["-p", "-x", "http://127.0.0.1:61080"]),
            (socks4, &["-x", "socks5h://127.0.0.1:61080"]),
            (socks4, &["-x", "socks5://127.0.0.1:61080"]),
            ("transparent", &["--noproxy", "*"]),
        ] {
            let before = connections(case, "web.test").len();
            let command: Vec<&str> =
                ["curl", "-sS", "--max-time", "8", &url].into_iter().chain(flags.iter().copied()).collect();
            run(case, &listed("web.test", server.port), &command).exits(0).prints(&text).tells_nothing();
            let after = connections(case, "web.test");
            assert_eq!(after.len(), before + 1, "{flags:?}");
            // An address that stands for the name says nothing else.
            assert_eq!(after[before]["way"], json!(way), "{flags:?}");
        }
    });
}

#[test]
fn requests_are_passed_on_over_one_connection_to_several_hosts() {
    as_everybody(|case| {
        let (one, two) = (Server::http(), Server::http());
        let mut flags = listed("one.test", one.port);
        flags.extend(listed("two.test", two.port));
        let script = format!(
            "{DOOR}
s = door()
f = s.makefile('rb')
def ask(request):
    s.sendall(request.encode())
    status, headers, body = response(f)
    print(status[9:12], body)
for _ in range(2):
    ask('GET http://one.test:{0}/a HTTP/1.1\\r\\nHost: one.test:{0}\\r\\n\\r\\n')
ask('POST http://one.test:{0}/b HTTP/1.1\\r\\nHost: one.test:{0}\\r\\nContent-Length: 5\\r\\n\\r\\nhello')
ask('GET http://two.test:{1}/c HTTP/1.1\\r\\nHost: two.test:{1}\\r\\nProxy-Connection: keep-alive\\r\\n\\r\\n')
ask('GET http://one.test:{0}/d HTTP/1.1\\r\\nHost: one.test:{0}\\r\\n\\r\\n')
ask('POST http://one.test:{0}/e HTTP/1.1\\r\\nHost: one.test:{0}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n6\\r\\n world\\r\\n0\\r\\n\\r\\n')",
            one.port, two.port
        );
        let (a, b) = (one.port, two.port);
        let expected = format!(
            "200 GET /a at one.test:{a} with 0 bytes\n200 GET /a at one.test:{a} with 0 bytes\n\
             200 POST /b at one.test:{a} with 5 bytes\n200 GET /c at two.test:{b} with 0 bytes\n\
             200 GET /d at one.test:{a} with 0 bytes\n200 POST /e at one.test:{a} with 11 bytes"
        );
        python(case, &flags, &script).exits(0).prints(&expected).tells_nothing();
        assert_eq!((one.accepted(), two.accepted()), (2, 1));
    });
}

#[test]
fn a_refused_request_is_answered_with_the_reason_and_the_remedy() {
    as_everybody(|case| {
        let server = Server::http();
        let script = format!(
            "{DOOR}
for request in ('GET http://other.test/x HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n',
                'GET http://web.test:1/x HTTP/1.1\\r\\nHost: web.test:1\\r\\n\\r\\n',
                'POST http://10.0.0.1/ HTTP/1.1\\r\\nHost: 10.0.0.1\\r\\nContent-Length: 100000\\r\\n\\r\\n' + 'x' * 100000,
                'CONNECT other.test:443 HTTP/1.1\\r\\nHost: other.test:443\\r\\n\\r\\n',
                'CONNECT 127.0.0.1:{0} HTTP/1.1\\r\\n\\r\\n',
                'CONNECT [::1]:{0} HTTP/1.1\\r\\n\\r\\n'):
    s = door()
    s.sendall(request.encode())
    status, headers, body = response(s.makefile('rb'))
    print(status[9:], headers.get('x-lazaret-reason'), '--allow ' in body)
print(socks('other.test', 80)[1], socks('10.0.0.1', 80)[1], socks('web.test', 1)[1])",
            server.port
        );
        let outcome = python(case, &listed("web.test", server.port), &script).exits(0);
        let out = outcome.out();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "403 Forbidden host-not-allowed True", "{outcome:?}");
        assert_eq!(lines[1], "403 Forbidden port-not-allowed True", "{outcome:?}");
        assert_eq!(lines[2..6], ["403 Forbidden host-not-allowed True"; 4], "{outcome:?}");
        assert_eq!(lines[6], "2 2 2", "{outcome:?}");
        for (host, port) in [("other.test", 80), ("web.test", 1), ("10.0.0.1", 80), ("other.test", 443)] {
            assert_refused(case, &[("host", json!(host)), ("port", json!(port)), ("protocol", json!("tcp"))]);
        }
        assert_eq!(server.accepted(), 0);
    });
}

#[test]
fn socks_takes_names_and_addresses() {
    as_everybody(|case| {
        let server = Server::echo();
        let dead = free_port();
        let mut flags = listed("web.test", server.port);
        flags.extend([
            "--allow".to_owned(),
            format!("web.test:{dead}"),
            "--allow".to_owned(),
            format!("127.0.0.1:{}", server.port),
        ]);
        let script = format!(
            "{DOOR}
for host in ('web.test', '127.0.0.1', socket.gethostbyname('web.test')):
    s, code = socks(host, {}, b'early')
    s.sendall(b' and late')
    s.shutdown(socket.SHUT_WR)
    print(code, read_all(s).decode())
print(socks('web.test', {dead})[1])
s = door()
s.sendall(b'\\5\\1\\2')
print(s.recv(2) == b'\\5\\xff')
for command in (2, 3):
    s = door()
    s.sendall(b'\\5\\1\\0')
    s.recv(2)
    s.sendall(b'\\5' + bytes([command]) + b'\\0\\1\\0\\0\\0\\0\\0\\0')
    print(s.recv(10)[1])",
            server.port
        );
        python(case, &flags, &script)
            .exits(0)
            .prints("0 early and late\n0 early and late\n0 early and late\n5\nTrue\n7\n7");
    });
}

#[test]
fn bad_requests_are_told_so_and_garbage_does_no_harm() {
    as_everybody(|case| {
        let server = Server::http();
        let script = format!(
            "{DOOR}
import random
bad = [b'GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n', b'GET https://web.test/ HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n',
       b'GET http://web.test:{0}/ HTTP/1.1\\r\\nHost: web.test:{0}\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\n',
       b'GET http://web.test:{0}/ HTTP/1.1\\r\\nHost: web.test:{0}\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n',
       b'GET http://web.test:{0}/ HTTP/1.1\\nHost: other.test\\n\\n', b'NONSENSE\\r\\n\\r\\n', b'GET\\r\\n\\r\\n',
       b'CONNECT web.test HTTP/9.9\\r\\n\\r\\n', b'CONNECT http://web.test/ HTTP/1.1\\r\\n\\r\\n',
       b'GET http://web.test:{0}/ HTTP/1.1\\r\\nHost: web.test\\r\\nX: ' + b'y' * 200000 + b'\\r\\n\\r\\n']
for data in bad:
    s = door()
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    except OSError: pass
    print(read_all(s)[:12].decode())
random.seed(3)
for _ in range(100):
    s = door()
    try: s.sendall(random.choice((b'\\5', b'\\4', b'', b'GET ')) + random.randbytes(random.randrange(300)))
    except OSError: pass
    s.close()
s = door()
s.sendall(b'GET http://web.test:{0}/x HTTP/1.1\\r\\nHost: web.test:{0}\\r\\n\\r\\n')
print(response(s.makefile('rb'))[0])",
            server.port
        );
        let outcome = python(case, &listed("web.test", server.port), &script).exits(0);
        let out = outcome.out();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..10], ["HTTP/1.1 400"; 10], "{outcome:?}");
        assert_eq!(lines[10], "HTTP/1.1 200 OK", "{outcome:?}");
        assert_eq!(server.accepted(), 1);
    });
}

#[test]
fn a_tunnel_carries_anything_but_checks_for_whom_it_is() {
    as_everybody(|case| {
        let (echo, http) = (Server::echo(), Server::http());
        let mut flags = listed("web.test", echo.port);
        flags.extend(["--allow".to_owned(), format!("web.test:{}", http.port)]);
        let script = format!(
            "{DOOR}
def tunnel(port):
    s = door()
    s.sendall(f'CONNECT web.test:{{port}} HTTP/1.1\\r\\nHost: web.test:{{port}}\\r\\n\\r\\n'.encode())
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1)
    print(head.split(b'\\r\\n')[0].decode())
    return s
s = tunnel({})
s.sendall(b'\\0anything')
print(s.recv(99))
s = tunnel({})
s.sendall(b'GET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n')
print(s.recv(12).decode())",
            echo.port, http.port
        );
        let established = "HTTP/1.1 200 Connection established";
        python(case, &flags, &script)
            .exits(0)
            .prints(&format!("{established}\nb'\\x00anything'\n{established}\nHTTP/1.1 403"));
        assert_refused(case, &[("reason", json!("name-mismatch")), ("host", json!("web.test"))]);
    });
}
