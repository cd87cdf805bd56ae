//! Real clients that know of no proxy: each reaches what is listed, and nothing else.

use std::fs;

use serde_json::json;

use super::{
    assert_refused, connections, run,
    servers::{Server, authority, https},
    without_variables,
};
use crate::{
    case::{Case, as_everybody, has_tool},
    host::outside,
};

/// Tries a command for `web.test` at a port three times: listed, listed at another port, and not listed.
#[track_caller]
pub fn try_client(case: &Case, port: u16, command: &[&str], prints: &str) {
    let listed = without_variables(case, &[&format!("web.test:{port}")]);
    let outcome = run(case, &listed, command).exits(0).prints(prints);
    assert!(!outcome.stderr.contains("lazaret:"), "{outcome:?}");
    let carried = connections(case, "web.test");
    assert!(!carried.is_empty(), "{:#?}", case.events());
    for connection in carried {
        assert_eq!(connection["port"], json!(port), "{connection}");
        assert_eq!(connection["way"], json!("transparent"), "{connection}");
    }
    let elsewhere = without_variables(case, &["web.test:1"]);
    let outcome = run(case, &elsewhere, command);
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    let outcome = outcome.tells(&format!("--allow web.test:{port}"));
    assert!(outcome.took.as_secs() < 15, "{outcome:?}");
    let expected = [
        ("host", json!("web.test")),
        ("port", json!(port)),
        ("protocol", json!("tcp")),
        ("reason", json!("port-not-allowed")),
    ];
    assert_refused(case, &expected);
    let unlisted = without_variables(case, &["other.test:1"]);
    let outcome = run(case, &unlisted, command);
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    let outcome = outcome.tells("look-up of web.test");
    assert!(outcome.took.as_secs() < 15, "{outcome:?}");
    let expected =
        [("host", json!("web.test")), ("protocol", json!("dns")), ("reason", json!("host-not-allowed"))];
    assert_refused(case, &expected);
}

/// The certificate of the test's own authority, where the command can read it.
pub fn trusted(case: &Case) {
    case.file("ca.crt", fs::read(authority().join("ca.crt")).unwrap());
}

fn text(port: u16) -> String {
    format!("GET /x at web.test:{port} with 0 bytes")
}

#[test]
fn curl_reaches_a_listed_host() {
    if !has_tool("curl") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        let url = format!("http://web.test:{}/x", server.port);
        try_client(case, server.port, &["curl", "-sS", "--max-time", "8", &url], &text(server.port));
        assert_eq!(server.accepted(), 1);
    });
}

#[test]
fn curl_reaches_a_listed_host_over_tls() {
    if !has_tool("curl") || !has_tool("openssl") {
        return;
    }
    as_everybody(|case| {
        trusted(case);
        let served = case.root.join("served");
        case.file(served.join("x"), "over tls\n");
        let (_server, port) = https(&served);
        let url = format!("https://web.test:{port}/x");
        let command = ["curl", "-sS", "--max-time", "8", "--cacert", "ca.crt", &url];
        try_client(case, port, &command, "over tls");
    });
}

#[test]
fn git_clones_over_https() {
    if !has_tool("git") || !has_tool("openssl") {
        return;
    }
    as_everybody(|case| {
        trusted(case);
        let served = case.root.join("served");
        case.directory(&served);
        outside(
            case,
            "cd ../served; git init -q first; cd first; echo content > file; git add file
             git -c user.name=t -c user.email=t@example.com commit -q -m one; cd ..
             git clone -q --bare first repo.git; git -C repo.git update-server-info",
        );
        let (_server, port) = https(&served);
        let clone = format!(
            "rm -rf copy; git clone -q https://web.test:{port}/repo.git copy && cat copy/file && \
             git -C copy fetch -q origin"
        );
        // Git changes its directory before it reads the file.
        let authority = format!("GIT_SSL_CAINFO={}", case.work.join("ca.crt").display());
        try_client(case, port, &["env", &authority, "sh", "-c", &clone], "content");
    });
}

#[test]
fn python_reaches_a_listed_host() {
    as_everybody(|case| {
        let server = Server::http();
        let script = format!(
            "import urllib.request\n\
             print(urllib.request.urlopen('http://web.test:{}/x', timeout=8).read().decode())",
            server.port
        );
        let command = ["/usr/bin/python3", "-c", &script];
        try_client(case, server.port, &command, &text(server.port));
    });
}

#[test]
fn node_reaches_a_listed_host() {
    if !has_tool("node") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        let script = format!(
            "fetch('http://web.test:{}/x').then(answer => answer.text()).then(text => console.log(text))\
             .catch(error => {{ console.error(error); process.exit(1) }})",
            server.port
        );
        try_client(case, server.port, &["node", "-e", &script], &text(server.port));
    });
}

#[test]
fn node_reaches_a_listed_host_over_tls() {
    if !has_tool("node") || !has_tool("openssl") {
        return;
    }
    as_everybody(|case| {
        trusted(case);
        let served = case.root.join("served");
        case.file(served.join("x"), "over tls\n");
        let (_server, port) = https(&served);
        let script = format!(
            "fetch('https://web.test:{port}/x').then(answer => answer.text()).then(text => console.log(text))\
             .catch(error => {{ console.error(error); process.exit(1) }})"
        );
        let command = ["env", "NODE_EXTRA_CA_CERTS=ca.crt", "node", "-e", &script];
        try_client(case, port, &command, "over tls");
    });
}

#[test]
fn a_name_on_the_list_opens_no_other_name_at_the_same_address() {
    if !has_tool("curl") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        let port = server.port;
        let flags = without_variables(case, &[&format!("web.test:{port}")]);
        let command =
            format!("curl -sS --max-time 8 http://other.test:{port}/; curl -sS http://127.0.0.1:{port}/");
        let outcome = run(case, &flags, &["sh", "-c", &command]);
        assert_ne!(outcome.code(), 0, "{outcome:?}");
        assert_eq!(server.accepted(), 0);
    });
}
