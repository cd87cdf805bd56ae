//! What the settings come to: the network, sockets, the environment, and what is refused.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::{srt, with};
use crate::case::{Case, as_everybody, eventually};

/// A web server that answers everybody with `ok`.
fn web() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(&mut stream.unwrap()));
        }
    });
    port
}

fn answer(stream: &mut TcpStream) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

/// A proxy that tells what it was asked for and answers itself.
fn proxy() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, heard) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                head += &format!("{line}\n");
            }
            asked.send(head).unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            answer(&mut stream);
        }
    });
    (port, heard)
}

const CODE: &str = "curl -s -m 10 -o /dev/null -w '%{http_code}'";

#[test]
fn hosts_are_reached_through_the_parent_proxy_and_only_those_that_are_listed() {
    as_everybody(|case| {
        let (port, heard) = proxy();
        let network = json!({
            "allowedDomains": ["web.example"],
            "parentProxy": { "http": format!("http://user:p%40ss@127.0.0.1:{port}") },
        });
        let script = format!(
            "{CODE} http://web.example/; {CODE} --noproxy '*' http://web.example:8080/; {CODE} http://other.example/"
        );
        srt(case, &with(&network, &json!({})), ["-c", &script]).go().exits(0).prints("200200403");
        let asked: Vec<String> = heard.try_iter().collect();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].starts_with("CONNECT web.example:80 HTTP/1.1\n"), "{asked:?}");
        assert!(asked[1].starts_with("CONNECT web.example:8080 HTTP/1.1\n"), "{asked:?}");
        assert!(asked[0].contains("Proxy-Authorization: Basic dXNlcjpwQHNz"), "{asked:?}");
        let log = fs::read_to_string(case.log()).unwrap();
        assert!(!log.contains("p@ss") && !log.contains("p%40ss"));
    });
}

#[test]
fn the_callers_own_proxy_is_the_parent_and_exempt_hosts_go_without() {
    as_everybody(|case| {
        let (port, heard) = proxy();
        let direct = web();
        let network = json!({ "allowedDomains": ["web.example", "127.0.0.1"] });
        let script = format!("{CODE} http://web.example/; {CODE} --noproxy '' http://127.0.0.1:{direct}/");
        srt(case, &with(&network, &json!({})), ["-c", &script])
            .env("http_proxy", format!("127.0.0.1:{port}"))
            .go()
            .exits(0)
            .prints("200200");
        assert_eq!(heard.try_iter().count(), 1);
    });
}

#[test]
fn a_proxy_on_a_socket_gets_its_domains_only() {
    as_everybody(|case| {
        let path = case.root.join("mitm.sock");
        let listener = UnixListener::bind(&path).unwrap();
        case.own(&path);
        let (asked, heard) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let n = stream.read(&mut request).unwrap();
            asked.send(String::from_utf8_lossy(&request[..n]).into_owned()).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 204 Fine\r\nConnection: close\r\n\r\n");
        });
        let network = json!({
            "allowedDomains": ["*.mitm.example"],
            "mitmProxy": { "socketPath": path, "domains": ["*.mitm.example"] },
        });
        let script = format!("{CODE} http://a.mitm.example/");
        srt(case, &with(&network, &json!({})), ["-c", &script]).go().exits(0).prints("204");
        assert!(heard.recv().unwrap().starts_with("CONNECT a.mitm.example:80 HTTP/1.1\r\n"));
    });
}

#[test]
fn addresses_and_reasons_of_the_settings_are_told() {
    as_everybody(|case| {
        let port = web();
        let network = json!({
            "allowedDomains": ["localhost", "example.com"],
            "deniedDomains": ["example.com"],
            "deniedDomainReasons": { "example.com": "ask the platform team" },
        });
        let script =
            format!("curl -s -m 10 http://example.com/; {CODE} --noproxy '' http://localhost:{port}/");
        let outcome = srt(case, &with(&network, &json!({})), ["-c", &script]).go().exits(0);
        assert!(outcome.out().contains("ask the platform team"), "{outcome:?}");
        assert!(outcome.out().ends_with("200"), "{outcome:?}");
    });
}

#[test]
fn a_name_may_not_lead_to_a_denied_address() {
    as_everybody(|case| {
        let port = web();
        let network =
            json!({ "allowedDomains": ["localhost"], "deniedResolvedAddresses": ["127.0.0.0/8", "::1"] });
        let script = format!("{CODE} --noproxy '' http://localhost:{port}/");
        srt(case, &with(&network, &json!({})), ["-c", &script]).go().prints("403");
    });
}

#[test]
fn unix_sockets_are_allowed_by_path() {
    as_everybody(|case| {
        let listed = case.root.join("listed.sock");
        let other = case.root.join("other.sock");
        let listeners: Vec<UnixListener> =
            [&listed, &other].map(|path| UnixListener::bind(path).unwrap()).into();
        [&listed, &other].into_iter().for_each(|path| case.own(path));
        let script = "import socket, sys\nfor path in sys.argv[1:]:\n  s = socket.socket(socket.AF_UNIX)\n  \
                      try: s.connect(path); print('in')\n  except OSError as e: print(e.errno)";
        let args = ["/usr/bin/python3", "-c", script, listed.to_str().unwrap(), other.to_str().unwrap()];
        let network = json!({ "allowUnixSockets": [listed] });
        let outcome = srt(case, &with(&network, &json!({})), args).go().exits(0).prints("in\n13");
        assert!(outcome.stderr.contains("network.allowUnixSockets"), "{outcome:?}");
        let network = json!({ "allowAllUnixSockets": true });
        srt(case, &with(&network, &json!({})), args).go().exits(0).prints("in\nin");
        drop(listeners);
    });
}

#[test]
fn a_server_inside_is_offered_on_the_host_when_local_binding_is_allowed() {
    as_everybody(|case| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = format!("exec timeout 20 /usr/bin/python3 -m http.server {port} --bind 127.0.0.1");
        for (allowed, reached) in [(false, false), (true, true)] {
            let network = json!({ "allowLocalBinding": allowed });
            let running = srt(case, &with(&network, &json!({})), ["-c", &script]).start();
            let ask = || {
                let stream = TcpStream::connect(("127.0.0.1", port));
                stream.and_then(|mut stream| {
                    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer)?;
                    Ok(answer.starts_with("HTTP/1.0 200"))
                })
            };
            if reached {
                eventually("the server inside answers", || ask().unwrap_or(false));
            } else {
                thread::sleep(Duration::from_millis(1500));
                assert!(!ask().unwrap_or(false));
            }
            running.signal(rustix::process::Signal::TERM);
            running.finish();
        }
    });
}

#[test]
fn new_lists_of_hosts_come_over_the_control_descriptor() {
    as_everybody(|case| {
        let port = web();
        let fifo = case.root.join("control");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        case.own(&fifo);
        let go = case.file("go", "");
        let settings =
            |domains: Value| with(&json!({ "allowedDomains": domains }), &json!({ "allowWrite": ["."] }));
        let fetch = format!("{CODE} --noproxy '' http://127.0.0.1:{port}/");
        let script = format!(
            "{fetch}; rm go; while [ ! -e on ]; do sleep 0.1; done; {fetch}; ls /proc/self/fd | wc -w"
        );
        let running = srt(case, &settings(json!([])), ["--control-fd", "9", "-c", &script])
            .under(["sh", "-c", &format!("exec \"$@\" 9<{}", fifo.display()), "sh"])
            .start();
        let mut channel = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        eventually("the first request is over", || !go.exists());
        writeln!(channel, "not settings\n{}", settings(json!([format!("127.0.0.1:{port}")]))).unwrap();
        thread::sleep(Duration::from_millis(1500));
        case.file("on", "");
        let outcome = running.finish().exits(0).tells("previous config still in force");
        assert!(outcome.out().starts_with("403200"), "{outcome:?}");
        // Standard streams and what `ls` itself has open.
        assert!(outcome.out().trim().ends_with('4'), "{outcome:?}");
    });
}

#[test]
fn a_control_descriptor_that_cannot_be_read_is_refused() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({}));
        srt(case, &settings, ["--control-fd", "9", "-c", "echo ran"])
            .go()
            .exits(1)
            .prints("")
            .tells("--control-fd 9");
        srt(case, &settings, ["--control-fd", "2", "-c", "echo ran"]).go().exits(1).prints("");
    });
}

#[test]
fn the_environment_is_passed_on_and_cleaned_on_request() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({}));
        let script = "echo \"$TOKEN|$SANDBOX_RUNTIME|$(test -d \"$TMPDIR\" && echo there)\"";
        let run = |flags: &[&str]| {
            let args = flags.iter().copied().chain(["-c", script]);
            srt(case, &settings, args).env("TOKEN", "t").go().exits(0).out()
        };
        assert_eq!(run(&[]), "t|1|there");
        assert_eq!(run(&["--clean-env"]), "|1|there");
    });
}

#[test]
fn ignored_violations_are_recorded_and_not_shown() {
    as_everybody(|case| {
        let mut settings = with(&json!({}), &json!({}));
        settings["ignoreViolations"] = json!({ "*": ["not-shown"] });
        let script = "echo x > not-shown; echo x > shown; true";
        let outcome = srt(case, &settings, ["-c", script]).go().exits(0);
        let told: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("write to")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with("/shown by bash [view]"), "{told:?}");
        let recorded = case
            .events_of("POLICY_VIOLATION")
            .into_iter()
            .filter(|event| event["details"]["path"].as_str().is_some_and(|path| path.ends_with("shown")));
        assert_eq!(recorded.count(), 2);
    });
}

#[test]
fn the_policy_that_is_printed_is_one() {
    as_everybody(|case| {
        case.file("sec/key", "s");
        let network = json!({ "allowedDomains": ["example.com"], "allowUnixSockets": ["/run/x.sock"],
            "parentProxy": { "http": "http://proxy.example:3128" } });
        let filesystem =
            json!({ "denyRead": ["sec", "**/*.pem"], "allowWrite": ["."], "denyWrite": ["*.lock"] });
        let printed = srt(case, &with(&network, &filesystem), ["--print-policy"]).go().exits(0);
        let file = case.file(case.root.join("policy.json"), printed.out());
        case.lazaret(["policy", "check", file.to_str().unwrap()]).go().exits(0);
        case.run([
            "--policy",
            file.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "ls sec; echo x > new; echo x > a.lock; cat new",
        ])
        .exits(0)
        .prints("x");
        assert!(!case.work.join("a.lock").exists());
    });
}

#[test]
fn settings_that_cannot_be_held_start_nothing() {
    let wrong: Vec<(&str, Value)> = vec![
        ("tlsTerminate", with(&json!({ "tlsTerminate": {} }), &json!({}))),
        ("mask", {
            let mut masked = with(&json!({}), &json!({}));
            masked["credentials"] = json!({ "files": [{ "path": "~/.netrc", "mode": "mask" }] });
            masked
        }),
        ("allowWrite", with(&json!({}), &json!({ "allowWrite": ["*.log"] }))),
        ("unknown field", with(&json!({ "allowedDomain": [] }), &json!({}))),
        ("unknown field", with(&json!({ "parentProxy": { "htpp": "http://x" } }), &json!({}))),
        ("expected", with(&json!({}), &json!({ "denyRead": "sec" }))),
        ("https", with(&json!({ "parentProxy": { "http": "https://proxy.example" } }), &json!({}))),
        ("invalid value", with(&json!({ "httpProxyPort": 70000 }), &json!({}))),
    ];
    let case = Case::new(crate::case::Who::Caller);
    for (what, settings) in wrong {
        srt(&case, &settings, ["-c", "touch ran"]).go().exits(1).tells(what);
    }
    assert!(!case.work.join("ran").exists());
    case.assert_nothing_started();
}
