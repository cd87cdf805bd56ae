//! Names that lead back inside, and addresses that nobody reaches by accident.

use std::net::{IpAddr, UdpSocket};

use serde_json::json;

use super::{
    assert_refused, connections, flags, python,
    resolver::{Resolver, with_resolver},
    servers::Server,
};
use crate::case::{Case, Outcome, as_everybody};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `patience` is that of Python: `None` makes a socket that waits.
fn connecting(host: &str, port: u16, patience: &str) -> String {
    format!(
        "
import socket, time
began = time.time()
try:
    s = socket.create_connection(({host:?}, {port}), {patience})
    s.sendall(b'hello\\n')
    print('reached' if s.recv(9) == b'hello\\n' else 'strange')
except OSError as e: print(e.strerror)
assert time.time() - began < 5"
    )
}

fn connect(case: &Case, flags: &[String], host: &str, port: u16) -> Outcome {
    python(case, flags, &connecting(host, port, "8")).exits(0)
}

#[test]
fn a_name_that_leads_to_a_guarded_address_is_refused() {
    as_everybody(|case| {
        let server = Server::echo();
        let port = server.port;
        for (address, class) in [
            ("127.0.0.1", "loopback"),
            ("127.200.3.4", "loopback"),
            ("::1", "loopback"),
            ("0.0.0.0", "unspecified"),
            ("10.1.2.3", "private"),
            ("172.31.0.1", "private"),
            ("192.168.0.1", "private"),
            ("fd12::1", "private"),
            ("169.254.7.7", "link-local"),
            ("fe80::1", "link-local"),
            ("169.254.169.254", "metadata"),
            ("fd00:ec2::254", "metadata"),
            ("100.64.0.1", "shared"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("203.0.113.7", "reserved"),
            ("::ffff:10.0.0.1", "private"),
            ("64:ff9b::a00:1", "private"),
            ("2002:a00:1::", "private"),
        ] {
            let all = words(&["--allow", "web.test", "--resolve", &format!("web.test={address}")]);
            let outcome = connect(case, &all, "web.test", port).prints("Permission denied");
            assert!(
                outcome.stderr.contains("web.test leads to") && outcome.stderr.contains(class),
                "{address} {outcome:?}"
            );
            assert!(outcome.stderr.contains("--allow-address"), "{address} {outcome:?}");
        }
        assert_refused(
            case,
            &[("host", json!("web.test")), ("port", json!(port)), ("reason", json!("address-refused"))],
        );
        assert_eq!(server.accepted(), 0);
        connect(case, &flags("web.test", "web.test"), "web.test", port).prints("reached").tells_nothing();
    });
}

#[test]
fn an_address_of_the_host_itself_is_refused() {
    // The address by which this host would reach another; nothing is sent.
    let own = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("192.0.2.1:9")?;
        Ok(socket.local_addr()?.ip())
    };
    let Ok(own) = own() else {
        eprintln!("not run: this host has no address but loopback");
        return;
    };
    as_everybody(|case| {
        let all = words(&["--allow", "web.test", "--resolve", &format!("web.test={own}")]);
        connect(case, &all, "web.test", 80).prints("Permission denied").tells("web.test leads to");
        connect(case, &words(&["--allow", "web.test"]), &own.to_string(), 80).prints("Permission denied");
    });
}

#[test]
fn of_several_addresses_only_the_good_one_is_used() {
    as_everybody(|case| {
        let server = Server::echo();
        for pin in ["web.test=10.255.255.1,127.0.0.1", "web.test=127.0.0.1,169.254.169.254,fd00::1"] {
            let all = words(&["--allow", "web.test", "--resolve", pin, "--allow-address", "127.0.0.1"]);
            connect(case, &all, "web.test", server.port).prints("reached").tells_nothing();
        }
        for connection in connections(case, "web.test") {
            assert_eq!(connection["address"], json!("127.0.0.1"), "{connection}");
        }
        assert_eq!(server.accepted(), 2);
    });
}

#[test]
fn a_raw_private_address_is_refused_and_so_is_the_metadata_service_in_a_listed_network() {
    as_everybody(|case| {
        let base = words(&["--allow", "web.test"]);
        for address in
            ["10.0.0.1", "192.168.1.1", "169.254.169.254", "fd00::1", "::ffff:10.0.0.1", "100.64.0.1"]
        {
            // An IPv4 address is told in its plain form.
            let shown = address.trim_start_matches("::ffff:");
            connect(case, &base, address, 80).prints("Permission denied").tells(shown);
            assert_refused(case, &[("reason", json!("host-not-allowed")), ("address", json!(shown))]);
        }
        let pin = "meta.test=169.254.169.254";
        for extra in [
            &["--allow-address", "169.254.0.0/16"][..],
            &["--allow-address", "169.254.169.0/24"],
            &["--allow", "169.254.0.0/16"],
            &["--allow", "169.254.0.0/16:80"],
        ] {
            let mut all = words(&["--allow", "meta.test", "--resolve", pin]);
            all.extend(words(extra));
            connect(case, &all, "meta.test", 80).prints("Permission denied").tells("metadata");
            if extra[0] == "--allow" {
                connect(case, &all, "169.254.169.254", 80).prints("Permission denied").tells("metadata");
            }
        }
        assert_refused(case, &[("reason", json!("address-refused")), ("host", json!("meta.test"))]);
        assert_refused(case, &[("reason", json!("address-refused")), ("host", json!("169.254.169.254"))]);
    });
}

#[test]
fn a_resolver_that_changes_its_mind_leads_nowhere_else() {
    let server = Server::echo();
    let port = server.port;
    let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
    with_resolver(|case, run| {
        let good = addresses(&["127.0.0.1"]);
        // The second answer leads to the metadata service, and others to several at once.
        let resolver = Resolver::start(move |name, before| match (name, before) {
            ("web.test", 0) => good.clone(),
            ("web.test", _) => vec!["169.254.169.254".parse().unwrap()],
            ("mixed.test", _) => vec!["10.255.255.1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            ("private.test", _) => vec!["10.255.255.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            _ => Vec::new(),
        });
        let all = words(&[
            "--allow",
            "web.test",
            "--allow",
            "mixed.test",
            "--allow",
            "private.test",
            "--allow",
            "empty.test",
            "--allow-address",
            "127.0.0.1",
        ]);
        let script = ["web.test", "web.test", "mixed.test", "private.test"]
            .map(|host| connecting(host, port, "None"))
            .join("\n");
        run(&resolver.address, &all, &script)
            .exits(0)
            .prints("reached\nPermission denied\nreached\nPermission denied")
            .tells("metadata")
            .tells("private.test leads to");
        assert_refused(case, &[("reason", json!("address-refused")), ("host", json!("private.test"))]);
        for connection in connections(case, "mixed.test") {
            assert_eq!(connection["address"], json!("127.0.0.1"), "{connection}");
        }
        // A name without an address.
        let outcome = run(&resolver.address, &all, &connecting("empty.test", port, "None")).exits(0);
        assert_ne!(outcome.out(), "reached", "{outcome:?}");
        let failed = connections(case, "empty.test");
        assert_eq!(failed[0]["reason"], json!("unresolvable"), "{failed:?}");
    });
}
