//! The network of a sandbox, judged from outside: what real programs reach, what they do not, and what is told of
//! it. Everything talks to servers on the host's loopback that the tests start themselves; names are pinned to
//! them, so that nothing depends on any name server.

mod agreement;
mod clients;
mod compiled;
mod disguise;
mod doors;
mod elsewhere;
mod faults;
mod guard;
mod inside;
mod names;
mod publish;
mod record;
mod resolver;
mod rules;
pub mod servers;
mod services;
mod sockets;
mod streams;

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
    thread,
};

use serde_json::Value;

use crate::case::{Case, Outcome, Who, is_root};

/// What is visible under a policy of its own.
const VISIBLE: &str =
    "readOnlyPaths = [\"/usr\", \"/bin\", \"/sbin\", \"/lib\", \"/lib64\", \"/etc\", \"/opt\"]";

/// Flags that let `host` be reached and lead its name to this host.
fn flags(name: &str, host: &str) -> Vec<String> {
    let pin = format!("{name}=127.0.0.1");
    ["--allow", host, "--resolve", &pin, "--allow-address", "127.0.0.1"].map(str::to_owned).to_vec()
}

/// The same for a name at one port.
fn listed(name: &str, port: u16) -> Vec<String> {
    flags(name, &format!("{name}:{port}"))
}

/// A policy with this section `network`; the working directory is writable.
fn policy(case: &Case, network: &str) -> Vec<String> {
    policy_with(case, "", network)
}

/// The same with lines for the top of it.
fn policy_with(case: &Case, top: &str, network: &str) -> Vec<String> {
    let text = format!(
        "{top}\n[filesystem]\n{VISIBLE}\nreadWritePaths = [{:?}]\n[process]\nallowFork = true\nallowExec = true\n\
         [network]\n{network}\n",
        case.work.to_str().unwrap()
    );
    let file = case.file(case.root.join("policy.toml"), text);
    vec!["--policy".to_owned(), file.to_str().unwrap().to_owned()]
}

/// A policy that allows these hosts, all of the names lead here, and sets no variable of a proxy.
fn without_variables(case: &Case, hosts: &[&str]) -> Vec<String> {
    policy(
        case,
        &format!(
            "allowNetwork = true\nproxyVariables = false\nallowedHosts = {hosts:?}\n\
             allowedAddresses = [\"127.0.0.1\"]\n[network.resolve]\n\"web.test\" = \"127.0.0.1\"\n\
             \"other.test\" = \"127.0.0.1\"\n"
        ),
    )
}

fn run(case: &Case, flags: &[String], command: &[&str]) -> Outcome {
    case.run(flags.iter().map(String::as_str).chain(["--"]).chain(command.iter().copied()))
}

fn python(case: &Case, flags: &[String], script: &str) -> Outcome {
    run(case, flags, &["/usr/bin/python3", "-c", script])
}

fn sh(case: &Case, flags: &[String], script: &str) -> Outcome {
    run(case, flags, &["sh", "-c", script])
}

/// As [`crate::case::as_everybody`], all at once: for what waits more than it works.
fn as_everybody_at_once(test: impl Fn(&Case) + Sync) {
    let everybody: &[Who] = if is_root() { &[Who::Caller, Who::Other] } else { &[Who::Caller] };
    thread::scope(|scope| {
        for who in everybody {
            scope.spawn(|| test(&Case::new(*who)));
        }
    });
}

/// What was refused, with a peer.
fn refusals(case: &Case) -> Vec<Value> {
    let found = case.events().into_iter().map(|event| event["details"].clone());
    found.filter(|details| details["reason"].is_string() && details["decision"].is_null()).collect()
}

/// There is a refusal with these properties.
#[track_caller]
fn assert_refused(case: &Case, properties: &[(&str, Value)]) {
    let all = refusals(case);
    let fits = |details: &Value| properties.iter().all(|(key, value)| details[*key] == *value);
    assert!(all.iter().any(fits), "no refusal with {properties:?} among {all:#?}");
}

/// The connections that were let through, by host.
fn connections(case: &Case, host: &str) -> Vec<Value> {
    let found = case.events_of("NETWORK_CONNECTION").into_iter().map(|event| event["details"].clone());
    found.filter(|details| details["host"] == host).collect()
}

/// A port on which nobody listens.
fn free_port() -> u16 {
    // Below those that the kernel gives out by itself, so that it stays free.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = (std::process::id() % 100) as u16 * 200 + NEXT.fetch_add(1, Ordering::Relaxed) % 200;
        let port = 11_000 + offset;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
