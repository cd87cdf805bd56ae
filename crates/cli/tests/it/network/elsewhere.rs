//! Ways around TCP: none of them leads anywhere, each ends at once and is told.

use std::os::unix::net::UnixListener;

use serde_json::json;

use super::{assert_refused, listed, python, refusals, servers::Server};
use crate::case::as_everybody;

#[test]
fn datagrams_are_refused_at_once_and_told() {
    as_everybody(|case| {
        let script = "
import errno, socket, time
began = time.time()
def try_it(what):
    try: print(what() or 'sent')
    except OSError as e: print(errno.errorcode[e.errno])
u = lambda family=socket.AF_INET: socket.socket(family, socket.SOCK_DGRAM)
try_it(lambda: u().sendto(b'x', ('93.184.216.34', 443)) and 'sent')
try_it(lambda: u(socket.AF_INET6).sendto(b'x', ('2606:2800::1', 123)) and 'sent')
web = socket.getaddrinfo('web.test', 80, socket.AF_INET)[0][4][0]
try_it(lambda: u().sendto(b'x', (web, 4433)) and 'sent')
# Connecting such a socket is how a program learns its own address.
c = u()
c.connect(('93.184.216.35', 9))
def twice():
    c.send(b'one')
    time.sleep(0.05)
    c.send(b'two')
try_it(twice)
m = u()
try_it(lambda: m.sendmsg([b'x'], [], 0, ('93.184.216.36', 10)) and 'sent')
assert time.time() - began < 2";
        let outcome = python(case, &listed("web.test", 80), script).exits(0);
        let out = outcome.out();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..3], ["EACCES"; 3], "{outcome:?}");
        assert_eq!(lines[3], "ECONNREFUSED", "{outcome:?}");
        for (host, address, port) in [
            ("93.184.216.34", Some("93.184.216.34"), 443),
            ("2606:2800::1", Some("2606:2800::1"), 123),
            ("web.test", None, 4433),
            ("93.184.216.35", Some("93.184.216.35"), 9),
            ("93.184.216.36", Some("93.184.216.36"), 10),
        ] {
            let mut expected = vec![
                ("host", json!(host)),
                ("port", json!(port)),
                ("protocol", json!("udp")),
                ("reason", json!("protocol-refused")),
            ];
            expected.extend(address.map(|address| ("address", json!(address))));
            assert_refused(case, &expected);
        }
    });
}

#[test]
fn datagrams_on_loopback_work_and_are_not_told() {
    as_everybody(|case| {
        let script = "
import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'), (socket.AF_INET, '127.4.4.4')):
    s, c = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    s.bind((address, 0))
    c.sendto(b'hello', s.getsockname()[:2])
    print(s.recv(9).decode())";
        python(case, &listed("web.test", 80), script).exits(0).prints("hello\nhello\nhello").tells_nothing();
    });
}

#[test]
fn a_server_for_datagrams_inside_does_not_get_what_is_meant_for_outside() {
    as_everybody(|case| {
        let script = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 5353))
s.settimeout(0.3)
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: c.sendto(b'x', ('8.8.8.8', 5353))
except OSError: print('refused')
try: print(s.recv(9))
except OSError: print('nothing')";
        python(case, &listed("web.test", 80), script).exits(0).prints("refused\nnothing");
    });
}

#[test]
fn a_question_to_another_name_server_is_told_with_its_name() {
    as_everybody(|case| {
        let script = "
import socket, struct, time
query = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + b'\\x06secret\\x04test\\0\\0\\1\\0\\1'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('8.8.8.8', 53))
try: s.send(query); time.sleep(0.1); print(s.recv(99))
except OSError as e: print('refused')";
        python(case, &listed("web.test", 80), script).exits(0).prints("refused");
        assert_refused(case, &[("host", json!("secret.test")), ("protocol", json!("dns"))]);
    });
}

#[test]
fn other_kinds_of_sockets_cannot_be_made() {
    as_everybody(|case| {
        let script = "
import errno, socket, time
began = time.time()
kinds = [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_INET6, socket.SOCK_RAW, 58),
         (socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET6, socket.SOCK_DGRAM, 58),
         (socket.AF_INET, socket.SOCK_STREAM, 132),
         (socket.AF_INET, socket.SOCK_SEQPACKET, 132), (socket.AF_INET, socket.SOCK_DCCP if hasattr(socket, 'SOCK_DCCP') else 6, 33),
         (socket.AF_PACKET, socket.SOCK_RAW, 0x300), (socket.AF_PACKET, socket.SOCK_DGRAM, 0x300),
         (40, socket.SOCK_STREAM, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 0), (socket.AF_NETLINK, socket.SOCK_DGRAM, 16),
         (38, socket.SOCK_SEQPACKET, 0), (31, socket.SOCK_RAW, 1), (29, socket.SOCK_RAW, 1), (44, socket.SOCK_RAW, 0)]
made = []
for kind in kinds:
    try: socket.socket(*kind); made.append(kind)
    except OSError: pass
assert time.time() - began < 2
print(made)";
        python(case, &listed("web.test", 80), script).exits(0).prints("[]");
        let events = case.events_of("SYSCALL_BLOCKED");
        let told: Vec<&str> =
            events.iter().filter_map(|event| event["details"]["description"].as_str()).collect();
        for part in ["raw network", "icmp", "family 17", "family 40", "netlink"] {
            let found = told.iter().any(|text| text.to_lowercase().contains(part));
            assert!(found, "{part} is not among {told:?}");
        }
    });
}

#[test]
fn data_with_the_first_packet_does_not_go_around_the_rules() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import errno, socket
MSG_FASTOPEN, TCP_FASTOPEN_CONNECT = 0x20000000, 30
web = socket.getaddrinfo('web.test', {}, socket.AF_INET)[0][4]
def try_it(what):
    try: print(what())
    except OSError as e: print(errno.errorcode[e.errno])
for to in (web, ('93.184.216.34', 443), ('127.0.0.1', {0})):
    s = socket.socket()
    s.settimeout(5)
    try_it(lambda: s.sendto(b'hello', MSG_FASTOPEN, to))
    s = socket.socket()
    s.settimeout(5)
    try_it(lambda: s.sendmsg([b'hello'], [], MSG_FASTOPEN, to))
# The option is only an offer, and connecting is judged as always.
s = socket.socket()
s.settimeout(5)
try: s.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
except OSError: pass
def refused():
    s.connect(('93.184.216.34', 443))
    s.send(b'x')
    return 'sent'
try_it(refused)",
            server.port
        );
        let expected = ["ENOTSUP"; 6].into_iter().chain(["EACCES"]).collect::<Vec<_>>().join("\n");
        python(case, &listed("web.test", server.port), &script)
            .exits(0)
            .prints(&expected)
            .tells("MSG_FASTOPEN");
        assert_eq!(server.accepted(), 0);
        assert!(
            case.events_of("SYSCALL_BLOCKED").iter().any(|event| event.to_string().contains("MSG_FASTOPEN"))
        );
    });
}

#[test]
fn a_socket_of_many_paths_is_judged_like_any_other() {
    as_everybody(|case| {
        let server = Server::echo();
        let script = format!(
            "
import errno, socket
MPTCP = 262
def connect(to):
    try: s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    except OSError: return 'no such socket'
    return errno.errorcode.get(s.connect_ex(to), s)
web = socket.getaddrinfo('web.test', {}, socket.AF_INET)[0][4]
print(connect(('93.184.216.34', 443)), connect((web[0], 1)))
s = connect(web)
if s != 'no such socket':
    s.sendall(b'hello\\n')
    print(s.recv(9).decode().strip())",
            server.port
        );
        let outcome = python(case, &listed("web.test", server.port), &script).exits(0);
        let either = ["no such socket no such socket", "EACCES EACCES\nhello"];
        assert!(either.contains(&outcome.out().as_str()), "{outcome:?}");
    });
}

#[test]
fn sockets_of_the_host_open_by_their_path_only_also_with_a_network() {
    as_everybody(|case| {
        let path = case.work.join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        case.own(&path);
        let script = "import socket\nsocket.socket(socket.AF_UNIX).connect('socket'); print('connected')";
        let mut flags = listed("web.test", 80);
        let outcome = python(case, &flags, script).exits(1).prints("");
        outcome.tells("the host's socket");
        flags.extend(["--rw".to_owned(), path.to_str().unwrap().to_owned()]);
        python(case, &flags, script).exits(0).prints("connected").tells_nothing();
    });
}

#[test]
fn without_a_network_everything_is_refused_and_told_with_what_would_allow_it() {
    as_everybody(|case| {
        let script = "
import errno, socket, time
began = time.time()
for to in (('93.184.216.34', 443), ('10.0.0.1', 80)):
    print(errno.errorcode[socket.socket().connect_ex(to)])
s = socket.socket(socket.AF_INET6)
print(errno.errorcode[s.connect_ex(('2606:2800::1', 443))])
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: u.sendto(b'x', ('93.184.216.34', 123)); print('sent')
except OSError as e: print(errno.errorcode[e.errno])
assert time.time() - began < 2";
        python(case, &[], script)
            .exits(0)
            .prints(&["ENETUNREACH"; 4].join("\n"))
            .tells("--allow 93.184.216.34:443");
        for (address, port, protocol) in [
            ("93.184.216.34", 443, "tcp"),
            ("10.0.0.1", 80, "tcp"),
            ("2606:2800::1", 443, "tcp"),
            ("93.184.216.34", 123, "udp"),
        ] {
            let expected = [
                ("address", json!(address)),
                ("port", json!(port)),
                ("protocol", json!(protocol)),
                ("reason", json!("network-off")),
            ];
            assert_refused(case, &expected);
        }
        assert_eq!(refusals(case).len(), 4, "{:#?}", refusals(case));
    });
}
