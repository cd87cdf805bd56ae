//! Where user namespaces are refused: no run, unless the caller accepts less, and then told what is less.

use std::fs;

use serde_json::{Value, json};

use crate::case::{Case, Lazaret, has_tool, ordinary};

/// A host of which every user namespace is taken: inside one that allows no more, as an ordinary user
/// without capabilities.
fn without_namespaces<'a>(case: &Case, command: Lazaret<'a>) -> Lazaret<'a> {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all \"$@\"";
    let (user, group) = (format!("--map-user={}", case.who.uid()), format!("--map-group={}", case.who.uid()));
    command.under(["unshare", "-U", &user, &group, "--keep-caps", "sh", "-c", script, "sh"])
}

fn tools() -> bool {
    has_tool("unshare") && has_tool("setpriv")
}

#[test]
fn without_namespaces_nothing_runs_and_doctor_is_named() {
    if !tools() {
        return;
    }
    let case = ordinary();
    for flags in [&[][..], &["--enforce"], &["--level", "1"]] {
        let args = flags.iter().copied().chain(["--", "touch", "ran"]);
        without_namespaces(&case, case.running(args))
            .go()
            .exits(125)
            .tells("user namespaces are refused")
            .tells("lazaret doctor")
            .tells("--warn");
    }
    assert!(!case.work.join("ran").exists());
    assert!(case.events_of("SANDBOX_ENTERED").is_empty());
    // What was begun in the log is ended there.
    assert_eq!(case.events_of("SANDBOX_CREATED").len(), case.events_of("SANDBOX_DESTROYED").len());
}

#[test]
fn accepting_less_runs_and_lists_what_is_weaker() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let report = case.root.join("report.json");
    let outcome = without_namespaces(
        &case,
        case.running([
            "--warn",
            "--report",
            report.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "echo x > made; echo ran",
        ]),
    )
    .go()
    .exits(0)
    .prints("ran");
    for layer in ["userns", "mountns", "pidns", "netns"] {
        assert!(outcome.stderr.contains(&format!("weaker: no {layer}")), "{layer}: {outcome:?}");
    }
    assert!(case.work.join("made").exists());
    let weakened = case.events_of("ENFORCEMENT_WEAKENED");
    assert_eq!(weakened.len(), 1);
    assert!(weakened[0]["details"]["missing"].as_array().unwrap().contains(&json!("mountns")));
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert!(report["enforcement"]["missing"].as_array().unwrap().contains(&json!("userns")), "{report}");
    assert!(!report["enforcement"]["layers"].as_array().unwrap().contains(&json!("mountns")), "{report}");
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn files_outside_the_policy_stay_closed_by_landlock() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let beside = case.file(case.root.join("beside/file"), "s");
    case.file(case.home.join("diary"), "s");
    case.file("mine", "m");
    let in_tmp = format!("/tmp/{}", crate::case::marker());
    let script = format!(
        "cat mine; cat {0} ~/diary; echo x > {0}; echo x > ~/new; echo x > {in_tmp}; mkdir ../new; rm -f {0}; true",
        beside.display()
    );
    without_namespaces(&case, case.running(["--warn", "--", "sh", "-c", &script])).go().exits(0).prints("m");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "s");
    assert!(!case.home.join("new").exists() && !case.root.join("new").exists());
    assert!(!std::path::Path::new(&in_tmp).exists());
}

#[test]
fn what_is_denied_stays_denied() {
    if !tools() {
        return;
    }
    let case = ordinary();
    case.file("secret", "s");
    let run = |args: &[&str]| without_namespaces(&case, case.running(args)).go();
    let outcome = run(&["--warn", "--deny", "secret", "--", "cat", "secret"]);
    assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
    assert_eq!(fs::read_to_string(case.work.join("secret")).unwrap(), "s");
}

#[test]
fn network_sockets_stay_blocked() {
    if !tools() || !has_tool("python3") {
        return;
    }
    let case = ordinary();
    let script = "
import socket
for kind in [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_PACKET, socket.SOCK_RAW)]:
    try: socket.socket(*kind); print('made', kind)
    except OSError: pass";
    without_namespaces(&case, case.running(["--warn", "--", "/usr/bin/python3", "-c", script]))
        .go()
        .exits(0)
        .prints("")
        .tells("network socket");
}

#[test]
fn dangerous_calls_stay_blocked_and_identity_stays_without_rights() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let status = without_namespaces(&case, case.running(["--warn", "--", "cat", "/proc/self/status"]))
        .go()
        .exits(0)
        .out();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    without_namespaces(&case, case.running(["--warn", "--", "mount", "-t", "tmpfs", "none", "/tmp"]))
        .go()
        .exits(137);
}

#[test]
fn nothing_outlives_the_run_even_without_a_process_namespace() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let marker = crate::case::marker();
    let script = "(setsid sh -c 'sleep 60; :' $0 &); sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 & sleep 0.2; echo done";
    without_namespaces(&case, case.running(["--warn", "--", "sh", "-c", script, &marker]))
        .go()
        .exits(0)
        .prints("done");
    crate::case::eventually("everything is gone", || crate::case::processes_with(&marker).is_empty());
}

#[test]
fn when_the_supervisor_is_killed_nothing_survives_even_without_a_process_namespace() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let marker = crate::case::marker();
    let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 &); sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 & \
                  touch ready; trap '' TERM; sleep 60";
    let running =
        without_namespaces(&case, case.running(["--warn", "--", "sh", "-c", script, &marker])).start();
    crate::case::eventually("it runs", || case.work.join("ready").exists());
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    crate::case::eventually("everything is gone", || crate::case::processes_with(&marker).is_empty());
}

#[test]
fn doctor_says_what_is_missing_why_and_how_to_mend_it() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let findings = without_namespaces(&case, case.lazaret(["doctor", "--json"])).go().exits(1).json();
    assert_eq!((&findings["level2"], &findings["level1"]), (&json!(false), &json!(false)));
    let layers = findings["layers"].as_array().unwrap();
    for layer in layers {
        // Not about namespaces: see the next test.
        if layer["layer"] == json!("cgroup") {
            continue;
        }
        let missing = ["userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "overlay"]
            .contains(&layer["layer"].as_str().unwrap());
        assert_eq!(layer["available"], json!(!missing), "{layer}");
        if missing {
            assert!(layer["reason"].as_str().unwrap().contains("max_user_namespaces"), "{layer}");
            assert!(layer["fix"].as_str().unwrap().contains("sysctl"), "{layer}");
        }
    }
    without_namespaces(&case, case.lazaret(["doctor"])).go().exits(1).tells_nothing();
}

#[test]
fn doctor_on_the_plain_host_finds_everything() {
    crate::case::as_everybody(|case| {
        let findings = case.lazaret(["doctor", "--json"]).go().exits(0).json();
        assert_eq!(findings["level2"], json!(true), "{findings}");
        assert_eq!(findings["uid"], json!(case.who.uid()));
        for layer in findings["layers"].as_array().unwrap() {
            // Whether an ordinary user has a control group to limit things in is the host's to say.
            let optional = layer["layer"] == json!("cgroup") && case.who.uid() != 0;
            assert!(optional || layer["available"] == json!(true), "{layer}");
            assert!(layer["available"] == json!(true) || layer["fix"].is_string(), "{layer}");
        }
        let text = case.lazaret(["doctor"]).go().exits(0).tells_nothing().out();
        assert!(text.contains("level 2 can be enforced here"), "{text}");
    });
}

#[test]
fn a_timeout_ends_everything_even_without_a_process_namespace() {
    if !tools() {
        return;
    }
    let case = ordinary();
    let marker = crate::case::marker();
    let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 &); sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 & \
                  trap '' TERM; sleep 60";
    without_namespaces(
        &case,
        case.running(["--warn", "--timeout", "500ms", "--", "sh", "-c", script, &marker]),
    )
    .go()
    .exits(124);
    crate::case::eventually("everything is gone", || crate::case::processes_with(&marker).is_empty());
}

#[test]
fn nothing_is_written_through_that_was_to_be_undone() {
    if !tools() {
        return;
    }
    let case = ordinary();
    without_namespaces(&case, case.running(["--warn", "--cow", "--", "touch", "ran"]))
        .go()
        .exits(125)
        .tells("user namespaces are refused");
    case.run(["--level", "0", "--cow", "--", "touch", "ran"]).exits(125).tells("leave --cow out");
    assert!(!case.work.join("ran").exists());
}
