//! The sandbox's own name server, which asks nobody.

use std::{net::IpAddr, time::Duration};

use serde_json::json;

use super::{
    assert_refused, flags, listed, policy, python,
    resolver::{Resolver, with_resolver},
    servers::Server,
    sh,
};
use crate::case::{as_everybody, has_tool};

/// Raw questions, for scripts.
const ASK: &str = "
import socket, struct, time
SERVER = ('198.18.0.1', 53)
def query(name, kind=1, number=7):
    labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.'))
    return struct.pack('>HHHHHH', number, 0x100, 1, 0, 0, 0) + labels + b'\\0' + struct.pack('>HH', kind, 1)
def ask(data, patience=3):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(patience)
    s.sendto(data, SERVER)
    return s.recv(4096)
def code(answer): return answer[3] & 15
def count(answer): return struct.unpack('>H', answer[6:8])[0]
";

#[test]
fn an_allowed_name_has_an_address_of_each_kind_and_keeps_them() {
    as_everybody(|case| {
        let script = "
import socket, time
began = time.time()
def of(name, family): return [a[4][0] for a in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)]
first = of('web.test', socket.AF_INET), of('web.test', socket.AF_INET6)
assert first == (of('WEB.Test.', socket.AF_INET), of('web.test', socket.AF_INET6))
assert len(of('web.test', 0)) == 2
a, b = of('a.sub.test', socket.AF_INET), of('b.sub.test', socket.AF_INET)
assert len({*a, *b, *first[0]}) == 3, (a, b, first)
print(time.time() - began < 1)";
        let mut all = listed("web.test", 80);
        all.extend(flags("b.sub.test", "*.sub.test:80"));
        python(case, &all, script).exits(0).prints("True").tells_nothing();
    });
}

#[test]
fn an_unlisted_name_does_not_exist_and_says_so_at_once() {
    as_everybody(|case| {
        let script = "
import socket, time
for name in ('other.test', 'example.com', 'sub.web.test', 'test'):
    began = time.time()
    try: print(socket.getaddrinfo(name, 80))
    except socket.gaierror as e: print(e.errno == socket.EAI_NONAME, time.time() - began < 1)";
        python(case, &listed("web.test", 80), script)
            .exits(0)
            .prints(&["True True"; 4].join("\n"))
            .tells("look-up of other.test")
            .tells("--allow other.test");
        for host in ["other.test", "example.com", "sub.web.test", "test"] {
            assert_refused(case, &[("host", json!(host)), ("protocol", json!("dns"))]);
        }
    });
}

#[test]
fn no_question_leaves_before_a_connection_does() {
    let server = Server::echo();
    let (inside, port) = (IpAddr::from([127, 0, 0, 1]), server.port);
    with_resolver(|case, run| {
        let resolver = Resolver::start(move |_, _| vec![inside]);
        let script = format!(
            "
import socket, sys
for name in ('secret.other.test', 'secret.web.test', 'web.test', 'example.com'):
    try: socket.getaddrinfo(name, 80)
    except OSError: pass
if len(sys.argv) > 1 or {{}}:
    s = socket.create_connection(('web.test', {port}), 5)
    s.sendall(b'hello\\n')
    print(s.recv(9).decode().strip())"
        );
        let flags: Vec<String> =
            ["--allow", &format!("web.test:{port}"), "--allow", "*.web.test", "--allow-address", "127.0.0.1"]
                .map(str::to_owned)
                .to_vec();
        run(&resolver.address, &flags, &script.replace("{}", "False")).exits(0);
        assert_eq!(resolver.asked(), []);
        run(&resolver.address, &flags, &script.replace("{}", "True")).exits(0).prints("hello");
        let asked = resolver.asked();
        assert!(!asked.is_empty() && asked.iter().all(|(name, _)| name == "web.test"), "{asked:?}");
        assert_refused(case, &[("host", json!("secret.other.test")), ("protocol", json!("dns"))]);
    });
}

#[test]
fn other_records_of_an_allowed_name_are_empty() {
    if !has_tool("dig") {
        return;
    }
    as_everybody(|case| {
        for kind in ["HTTPS", "SVCB", "TXT", "MX", "SRV", "NS", "CNAME", "SOA", "TYPE1234"] {
            let script =
                format!("dig +time=2 +tries=1 -t {kind} web.test; dig +time=2 +tries=1 -t {kind} no.test");
            let text = sh(case, &listed("web.test", 80), &script).exits(0).out();
            assert!(text.contains("status: NOERROR") && text.contains("status: NXDOMAIN"), "{kind}: {text}");
            assert_eq!(text.matches("ANSWER: 0").count(), 2, "{kind}: {text}");
        }
    });
}

#[test]
fn names_are_looked_up_over_tcp_as_well() {
    if !has_tool("dig") {
        return;
    }
    as_everybody(|case| {
        let script = "
            udp=$(dig +short +time=2 +tries=1 web.test A web.test AAAA)
            tcp=$(dig +short +time=2 +tries=1 +tcp web.test A web.test AAAA)
            [ \"$udp\" = \"$tcp\" ] && echo \"$tcp\" | wc -l
            dig +tcp +time=2 +tries=1 +keepopen other.test web.test | grep -o 'status: [A-Z]*'";
        sh(case, &listed("web.test", 80), script).exits(0).prints("2\nstatus: NXDOMAIN\nstatus: NOERROR");
    });
}

#[test]
fn malformed_questions_do_no_harm() {
    as_everybody(|case| {
        let script = format!(
            "{ASK}
import os, random
random.seed(7)
good = query('web.test')
bad = [b'', b'x', good[:2], good[:11], good[:12], good[:-1], good + b'trailing', b'\\0' * 12,
       struct.pack('>HHHHHH', 1, 0x100, 2, 0, 0, 0) + good[12:] * 2,
       struct.pack('>HHHHHH', 1, 0x100, 1, 0, 0, 0) + b'\\xc0\\x0c\\0\\1\\0\\1',
       struct.pack('>HHHHHH', 1, 0x8180, 1, 0, 0, 0) + good[12:],
       struct.pack('>HHHHHH', 1, 0x2800, 1, 0, 0, 0) + good[12:],
       struct.pack('>HHHHHH', 1, 0x100, 1, 0, 0, 65535) + good[12:],
       struct.pack('>HHHHHH', 1, 0x100, 1, 0, 0, 0) + (b'\\x3f' + b'a' * 63) * 5 + b'\\0\\0\\1\\0\\1',
       good[:12] + b'\\x3f' + os.urandom(63) + b'\\0\\0\\1\\0\\1', b'\\xff' * 60000]
bad += [bytes(random.randrange(256) for _ in range(random.randrange(80))) for _ in range(100)]
for data in bad:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setblocking(False)
    s.sendto(data, SERVER)
assert code(ask(good[:-1])) == 1, 'no FORMERR'
for data in bad:
    s = socket.create_connection(SERVER, 3)
    s.sendall(struct.pack('>H', len(data)) + data if len(data) % 2 else data[:3])
    s.close()
answer = ask(good)
print(code(answer), count(answer))"
        );
        python(case, &listed("web.test", 80), &script).exits(0).prints("0 1");
    });
}

#[test]
fn more_questions_in_a_second_than_allowed_are_refused() {
    as_everybody(|case| {
        let flags = policy(
            case,
            "allowNetwork = true\nallowedHosts = [\"web.test:80\"]\nmaxDNSQueries = 5\n\
             resolve = { \"web.test\" = \"127.0.0.1\" }",
        );
        let script = format!(
            "{ASK}
codes = [code(ask(query('web.test'))) for _ in range(30)]
assert codes[:5] == [0] * 5 and 5 in codes, codes
time.sleep(1.1)
print(code(ask(query('web.test'))))"
        );
        python(case, &flags, &script).exits(0).prints("0").tells("maxDNSQueries");
        let limits = case.events_of("RESOURCE_LIMIT_EXCEEDED");
        assert_eq!(limits[0]["details"]["limit"], json!("maxDNSQueries"), "{limits:?}");
        assert_eq!(limits[0]["details"]["value"], json!(5), "{limits:?}");
    });
}

#[test]
fn a_name_that_may_carry_data_is_an_alert() {
    as_everybody(|case| {
        let label = "mfrggzdfmztwq2lknnwg23tpobyxe43uov3ho6dzpi";
        let script = format!(
            "import socket\nsocket.getaddrinfo('{label}.web.test', 80)\nsocket.getaddrinfo('www.web.test', 80)"
        );
        python(case, &flags("www.web.test", "*.web.test:80"), &script).exits(0);
        let alerts = case.events_of("SECURITY_ALERT");
        assert!(!alerts.is_empty(), "{:?}", case.events());
        for alert in alerts {
            assert_eq!(alert["details"]["name"], json!(format!("{label}.web.test")), "{alert}");
        }
    });
}

#[test]
fn an_address_leads_back_to_its_name() {
    if !has_tool("dig") {
        return;
    }
    as_everybody(|case| {
        let script = "for kind in A AAAA; do dig +short -x $(dig +short web.test $kind); done
            dig +short -x 127.0.0.1; dig -x 198.18.200.1 | grep -o 'status: [A-Z]*'; dig -x 8.8.8.8 | grep -o 'status: [A-Z]*'";
        sh(case, &listed("web.test", 80), script)
            .exits(0)
            .prints("web.test.\nweb.test.\nlocalhost.\nstatus: NXDOMAIN\nstatus: NXDOMAIN");
    });
}

#[test]
fn localhost_is_the_sandbox_and_the_table_of_hosts_has_nobody_else() {
    as_everybody(|case| {
        let script = "
import ipaddress, socket
def of(name): return sorted({a[4][0] for a in socket.getaddrinfo(name, 80)})
print(of('localhost'), of('lazaret')[0])
for line in open('/etc/hosts'):
    assert not line.split() or ipaddress.ip_address(line.split()[0]).is_loopback, line
print(open('/etc/resolv.conf').readline().strip())
print(socket.gethostname())";
        python(case, &listed("web.test", 80), script)
            .exits(0)
            .prints("['127.0.0.1', '::1'] 127.0.0.1\nnameserver 198.18.0.1\nlazaret")
            .tells_nothing();
    });
}

#[test]
fn without_a_network_names_fail_at_once_too() {
    as_everybody(|case| {
        let script = "
import socket, time
began = time.time()
try: print(socket.getaddrinfo('web.test', 80))
except socket.gaierror: print(time.time() - began < 1)";
        let outcome = case.python(&[], script).exits(0).prints("True");
        assert!(outcome.took < Duration::from_secs(5), "{outcome:?}");
    });
}
