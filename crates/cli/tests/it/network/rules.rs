//! What the rules cover, on the command line and in policies.

use serde_json::json;

use super::{assert_refused, connections, flags, policy, python, refusals, servers::Server};
use crate::case::{Case, as_everybody};

/// Connects to each host and says how it went.
fn reach(case: &Case, flags: &[String], hosts: &[&str], port: u16) -> Vec<String> {
    let script = format!(
        "
import socket
for host in {hosts:?}:
    try:
        s = socket.create_connection((host, {port}), 5)
        s.sendall(b'hello\\n')
        print('reached' if s.recv(9) == b'hello\\n' else 'strange')
    except socket.gaierror: print('unknown')
    except OSError as e: print(e.strerror)"
    );
    let outcome = python(case, flags, &script).exits(0);
    outcome.out().lines().map(str::to_owned).collect()
}

#[test]
fn every_form_of_a_host_can_be_allowed_on_the_command_line() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        for (entry, host) in [
            ("web.test", "web.test"),
            ("web.test:PORT", "web.test"),
            ("WEB.Test:PORT", "web.test"),
            ("web.test.:PORT", "web.test"),
            ("web.test", "WEB.TEST"),
            ("web.test", "web.test."),
            ("*.web.test", "a.b.web.test"),
            ("*.web.test:PORT", "a.web.test"),
            ("bücher.test", "xn--bcher-kva.test"),
            ("xn--bcher-kva.test:PORT", "bücher.test"),
            ("BÜCHER.test", "xn--bcher-kva.test"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1:PORT", "127.0.0.1"),
            ("127.1:PORT", "127.0.0.1"),
            ("0x7f000001:PORT", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("127.0.0.0/8", "127.0.0.1"),
            ("127.0.0.0/8:PORT", "127.0.0.1"),
            ("[::ffff:127.0.0.1]:PORT", "127.0.0.1"),
            ("localhost:PORT", "localhost"),
            ("localhost", "localhost"),
        ] {
            let entry = entry.replace("PORT", &port.to_string());
            let pin = host.trim_end_matches('.');
            let mut all =
                flags(if pin.parse::<std::net::IpAddr>().is_ok() { "web.test" } else { pin }, &entry);
            if pin == "localhost" {
                // That one needs no pin and no address: it is named by its name.
                all.truncate(2);
            }
            assert_eq!(reach(case, &all, &[host], port), ["reached"], "--allow {entry} for {host}");
        }
    });
}

#[test]
fn an_entry_covers_what_it_says_and_nothing_more() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        for (entry, host, comes) in [
            ("web.test", "sub.web.test", "unknown"),
            ("*.web.test", "web.test", "unknown"),
            ("*.web.test", "notweb.test", "unknown"),
            ("*.web.test", "web.test.other.test", "unknown"),
            ("web.test", "web.test.other.test", "unknown"),
            ("web.test:1", "web.test", "Permission denied"),
            ("web.test", "203.0.113.9", "Permission denied"),
            ("203.0.113.0/24:1", "203.0.113.9", "Permission denied"),
            ("203.0.113.8", "203.0.113.9", "Permission denied"),
            ("localhost:1", "localhost", "Connection refused"),
            ("127.0.0.2", "127.0.0.1", "Connection refused"),
        ] {
            let all = flags(if host.ends_with(".9") { "web.test" } else { host }, entry);
            let all: Vec<String> =
                if host.starts_with("l") || host.starts_with("127") { all[..2].to_vec() } else { all };
            assert_eq!(reach(case, &all, &[host], port), [comes], "--allow {entry} for {host}");
        }
        assert_eq!(server.accepted(), 0);
    });
}

#[test]
fn what_is_too_wide_or_no_host_is_refused_before_anything_starts() {
    as_everybody(|case| {
        for (entry, message) in [
            ("*", "allows every host"),
            ("*:443", "allows every host"),
            ("*.com", "public suffix com"),
            ("*.co.uk", "public suffix co.uk"),
            ("*.github.io:443", "public suffix github.io"),
            ("0.0.0.0/0", "every address"),
            ("::/0", "every address"),
            ("https://web.test", "is a URL"),
            ("https://web.test/path", "write `web.test"),
            ("web.test/path", "has a path"),
            ("a*.web.test", "not the whole first label"),
            ("web.*.test", "not the whole first label"),
            ("*.10.0.0.1", "`*` before an address"),
            ("10.0.0.1/8", "write `10.0.0.0/8`"),
            ("web.test:0", "is a whole number from 1 to 65535"),
            ("web.test:65536", "for a port"),
            ("web.test:http", "for a port"),
            ("", "empty"),
            ("fe80::1%eth0", "zone"),
            ("1.2.3.256", "ends in a number"),
            ("user@web.test", "@"),
            ("web..test", "empty label"),
        ] {
            let outcome = case.run(["--allow", entry, "--", "touch", "ran"]).exits(125).tells(message);
            assert!(outcome.stderr.contains("network.allowedHosts"), "{outcome:?}");
        }
        for (flag, value, message) in [
            ("--resolve", "web.test", "has no `=`"),
            ("--resolve", "web.test=nonsense", "`nonsense` is no address"),
            ("--resolve", "10.0.0.1=10.0.0.2", "is an address, not a name"),
            ("--allow-address", "web.test", "web.test"),
            ("--allow-address", "0.0.0.0/0", "every address"),
            ("--publish", "0", "port 0"),
        ] {
            let outcome = case.run(["--allow", "web.test", flag, value, "--", "touch", "ran"]);
            outcome.exits(125).tells(message);
        }
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

#[test]
fn a_policy_allows_and_denies_and_denied_wins() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        let names = ["web.test", "a.web.test", "b.a.web.test", "other.test"];
        let pins: Vec<String> = names.iter().map(|name| format!("{name:?} = \"127.0.0.1\"")).collect();
        let rest = format!(
            "allowNetwork = true\nallowedAddresses = [\"127.0.0.1\"]\nresolve = {{ {} }}\n",
            pins.join(", ")
        );
        let is = |network: &str, expected: [&str; 4]| {
            let all = policy(case, &format!("{rest}{}", network.replace("PORT", &port.to_string())));
            assert_eq!(reach(case, &all, &names, port), expected, "{network}");
        };
        let (yes, no, denied) = ("reached", "unknown", "Permission denied");
        is("allowedHosts = [\"web.test\"]", [yes, no, no, no]);
        is("allowedDomains = [\"web.test\", \"*.web.test:PORT\"]", [yes, yes, yes, no]);
        is("allowedHosts = [\"other.test\"]\nallowedDomains = [\"web.test\"]", [yes, no, no, yes]);
        is("allowedDomains = []", [no, no, no, no]);
        is("deniedDomains = [\"*.web.test\"]", [yes, no, no, yes]);
        is(
            "allowedHosts = [\"*.web.test\", \"web.test\"]\ndeniedDomains = [\"*.a.web.test\"]",
            [yes, yes, no, no],
        );
        is("allowedHosts = [\"web.test\"]\ndeniedDomains = [\"WEB.test.\"]", [no, no, no, no]);
        is("allowedHosts = [\"web.test\"]\ndeniedDomains = [\"web.test:PORT\"]", [denied, no, no, no]);
        is("allowedHosts = [\"web.test\"]\ndeniedDomains = [\"*\"]", [no, no, no, no]);
        is("deniedDomains = [\"127.0.0.0/8\"]", [denied; 4]);
        is("allowedHosts = [\"web.test\"]\nallowedPorts = [PORT]", [yes, no, no, no]);
        is("allowedHosts = [\"web.test\"]\nallowedPorts = [1, 2]", [denied, no, no, no]);
        is("allowedHosts = [\"web.test:PORT\"]\nallowedPorts = [1, 2]", [no, no, no, no]);
        for reason in ["host-denied", "host-not-allowed", "port-not-allowed"] {
            assert_refused(case, &[("reason", json!(reason)), ("host", json!("web.test"))]);
        }
    });
}

#[test]
fn the_rule_that_decided_is_in_the_record() {
    as_everybody(|case| {
        let server = Server::echo();
        let all = policy(
            case,
            "allowNetwork = true\nallowedDomains = [\"*.Web.test\"]\ndeniedDomains = [\"bad.web.test\"]\n\
             allowedAddresses = [\"127.0.0.1\"]\nresolve = { \"a.web.test\" = \"127.0.0.1\" }",
        );
        assert_eq!(reach(case, &all, &["a.web.test", "bad.web.test"], server.port), ["reached", "unknown"]);
        assert_eq!(connections(case, "a.web.test")[0]["rule"], json!("allowedDomains: *.web.test"));
        assert_refused(
            case,
            &[("rule", json!("deniedDomains: bad.web.test")), ("reason", json!("host-denied"))],
        );
    });
}

#[test]
fn without_a_list_everything_is_allowed_with_a_warning_but_nothing_private() {
    as_everybody(|case| {
        let server = Server::echo();
        let all = policy(
            case,
            "allowNetwork = true\nresolve = { \"web.test\" = \"127.0.0.1\", \"b.test\" = \"10.0.0.1\" }",
        );
        let script = format!(
            "import socket\nfor host in ('web.test', 'b.test', '192.168.1.1', '127.0.0.1'):\n\
             \x20try: socket.create_connection((host, {}), 5); print('reached')\n\
             \x20except OSError as e: print(e.strerror)",
            server.port
        );
        let expected = "Permission denied\nPermission denied\nPermission denied\nConnection refused";
        python(case, &all, &script).exits(0).prints(expected).tells("any host");
        assert_eq!(server.accepted(), 0);
        assert_eq!(refusals(case).iter().filter(|one| one["reason"] == "address-refused").count(), 3);
    });
}

#[test]
fn there_are_no_more_connections_at_once_than_allowed() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        let all = policy(
            case,
            "allowNetwork = true\nallowedHosts = [\"web.test\"]\nmaxConnections = 2\n\
             allowedAddresses = [\"127.0.0.1\"]\nresolve = { \"web.test\" = \"127.0.0.1\" }",
        );
        let script = format!(
            "
import socket, time
to = socket.getaddrinfo('web.test', {port}, socket.AF_INET)[0][4]
def connect(waits):
    s = socket.socket()
    if not waits: s.settimeout(5)
    try:
        s.connect(to)
        s.sendall(b'hello\\n')
        assert s.recv(9) == b'hello\\n'
        print('reached')
        return s
    except OSError as e: print('refused')
held = [connect(True), connect(False)]
for _ in range(5): connect(True); connect(False)
import urllib.request
try: urllib.request.urlopen('http://web.test:{port}/', timeout=5)
except urllib.error.HTTPError as e: print(e.code, e.headers['X-Lazaret-Reason'])
held[0].close()
time.sleep(0.3)
connect(True)"
        );
        let outcome = python(case, &all, &script).exits(0).tells("maxConnections");
        let expected =
            ["reached"; 2].into_iter().chain(["refused"; 10]).chain(["403 connection-limit", "reached"]);
        assert_eq!(outcome.out(), expected.collect::<Vec<_>>().join("\n"), "{outcome:?}");
        let limits = case.events_of("RESOURCE_LIMIT_EXCEEDED");
        assert_eq!(limits.len(), 1, "{limits:?}");
        assert_eq!(limits[0]["details"]["limit"], json!("maxConnections"));
        assert_eq!(limits[0]["details"]["value"], json!(2));
        assert_eq!(server.accepted(), 3);
    });
}
