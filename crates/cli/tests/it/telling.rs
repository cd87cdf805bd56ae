//! What is said afterwards, and beforehand: summary, report, plan.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::case::{Case, Outcome, as_everybody, has_tool, marker, processes_with};

pub fn report_of(case: &Case, args: &[&str]) -> (Value, Outcome) {
    let file = case.root.join("report.json");
    let outcome = case.run(["--report", file.to_str().unwrap()].into_iter().chain(args.iter().copied()));
    let text = fs::read_to_string(&file).unwrap();
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}; {outcome:?}")), outcome)
}

#[test]
fn nothing_denied_is_nothing_said() {
    as_everybody(|case| {
        case.sh("echo x > file; cat file; ls /usr > /dev/null").exits(0).tells_nothing();
        case.sh("exit 3").exits(3).tells_nothing();
    });
}

#[test]
fn a_denied_write_is_told_with_layer_and_remedy_and_the_remedy_works() {
    as_everybody(|case| {
        let beside = case.file(case.root.join("beside/file"), "");
        let directory = beside.parent().unwrap().to_str().unwrap();
        let script = format!("echo x > {}", beside.display());
        case.sh_with(&["--ro", directory], &script)
            .exits(2)
            .tells("denied in this sandbox (sb-")
            .tells(&format!("write to {} by sh [view]", beside.display()))
            .tells(&format!("to allow: --rw {directory} (policy: filesystem.readWritePaths)"));
        case.sh_with(&["--rw", directory], &script).exits(0).tells_nothing();
    });
}

#[test]
fn a_denied_path_is_told_with_the_rule_that_denies_it() {
    as_everybody(|case| {
        let secret = case.file("secret", "s");
        let outcome = case.run(["--deny", "secret", "--", "cat", "secret"]).exits(1).prints("");
        outcome.tells(secret.to_str().unwrap()).tells("by cat").tells("denied wins");
        let violations = case.events_of("POLICY_VIOLATION");
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert_eq!(violations[0]["details"]["path"], json!(secret.to_str().unwrap()));
    });
}

#[test]
fn the_same_denial_many_times_is_one_line_with_a_count() {
    as_everybody(|case| {
        let outcome =
            case.sh("for i in 1 2 3 4 5; do (echo x > /etc/lazaret-it) 2>/dev/null; done; true").exits(0);
        assert_eq!(outcome.stderr.matches("write to /etc/lazaret-it").count(), 1, "{outcome:?}");
        outcome.tells("5 times");
    });
}

#[test]
fn many_different_denials_do_not_flood_the_terminal() {
    as_everybody(|case| {
        let outcome = case.sh(
            "i=0; while [ $i -lt 100 ]; do (echo x > /etc/lazaret-it-$i) 2>/dev/null; i=$((i+1)); done; true",
        );
        assert!(outcome.stderr.lines().count() < 30, "{outcome:?}");
        outcome.exits(0).tells("and 92 more");
    });
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import ctypes, os
libc = ctypes.CDLL(None)
libc.prctl(15, b'\\x1b[31mevil\\x07\\n', 0, 0, 0)
try: open('/etc/\\x1b]0;title\\x07\\nlazaret: fine\\u202e', 'w')
except OSError: pass
libc.socket(17, 3, 0)";
        let outcome = case.python(&[], script).exits(0).tells("denied in this sandbox");
        let strange: Vec<char> =
            outcome.stderr.chars().filter(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}').collect();
        assert!(strange.is_empty(), "{strange:?} in {outcome:?}");
        assert!(!outcome.stderr.lines().any(|line| line.starts_with("lazaret: fine")), "{outcome:?}");
        let shown = case.lazaret(["audit", "show"]).go().exits(0);
        assert!(!shown.out().chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn a_command_with_control_characters_in_its_name_is_told_harmlessly() {
    as_everybody(|case| {
        let outcome = case.run(["--", "no\x1b[31msuch\x07"]).exits(127);
        assert!(!outcome.stderr.contains(['\x1b', '\x07']), "{outcome:?}");
    });
}

#[test]
fn the_report_has_every_field() {
    as_everybody(|case| {
        let (report, _) = report_of(
            case,
            &[
                "--",
                "sh",
                "-c",
                "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo x > /etc/lazaret-it; exit 3",
            ],
        );
        assert!(report["sandboxId"].as_str().unwrap().starts_with("sb-"));
        assert_eq!(report["level"], json!(2));
        assert_eq!(
            (&report["exitCode"], &report["signal"], &report["outcome"]),
            (&json!(3), &Value::Null, &json!("exited"))
        );
        let layers: Vec<&str> =
            report["enforcement"]["layers"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
        for layer in ["userns", "mountns", "pidns", "netns", "landlock", "seccomp", "notify"] {
            assert!(layers.contains(&layer), "{layer} in {layers:?}");
        }
        assert_eq!(report["enforcement"]["missing"], json!([]));
        assert!(report["durationMs"].is_u64());
        assert!(report["usage"]["cpuMs"].as_u64().unwrap() > 0, "{report}");
        assert!(report["usage"]["maxRssBytes"].as_u64().unwrap() > 100_000, "{report}");
        let violations = report["violations"].as_array().unwrap();
        assert_eq!(violations.len(), 1, "{report}");
        for key in ["type", "severity", "description", "layer", "pid", "process", "remedy", "count", "path"] {
            assert!(!violations[0][key].is_null(), "{key} in {report}");
        }
        assert_eq!(case.events()[0]["sandboxId"], report["sandboxId"]);
    });
}

#[test]
fn the_report_tells_every_kind_of_end() {
    as_everybody(|case| {
        for (args, code, signal, outcome) in [
            (&["--", "true"][..], 0, Value::Null, "exited"),
            (&["--", "sh", "-c", "kill -TERM $$"], 143, json!(15), "signaled"),
            (&["--timeout", "200ms", "--", "sleep", "9"], 124, Value::Null, "timeout"),
            (&["--", "mount", "-t", "tmpfs", "none", "/tmp"], 137, Value::Null, "escape"),
            (&["--", "nonesuch"], 127, Value::Null, "notExecuted"),
            (&["--", "/tmp"], 126, Value::Null, "notExecuted"),
        ] {
            let (report, run) = report_of(case, args);
            run.exits(code);
            assert_eq!(
                (&report["exitCode"], &report["signal"], &report["outcome"]),
                (&json!(code), &signal, &json!(outcome)),
                "{args:?}"
            );
            assert!(report["violations"].is_array());
            if ["timeout", "escape"].contains(&outcome) {
                assert!(report["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{report}");
            }
        }
        let (report, _) = report_of(case, &["--timeout", "200ms", "--", "sleep", "9"]);
        assert!((200..3000).contains(&report["durationMs"].as_u64().unwrap()), "{report}");
    });
}

#[test]
fn the_report_is_for_its_owner_and_replaces_an_older_one() {
    as_everybody(|case| {
        let old = case.file(case.root.join("report.json"), "x".repeat(100_000));
        report_of(case, &["--", "true"]);
        assert!(fs::metadata(&old).unwrap().len() < 10_000);
        fs::remove_file(&old).unwrap();
        report_of(case, &["--", "true"]);
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o600);
    });
}

#[test]
fn a_report_in_the_current_directory_cannot_be_read_or_changed_by_the_command() {
    as_everybody(|case| {
        let script = "cat report.json; echo forged > report.json; rm -f report.json; mv report.json other; ln -s /tmp/x report.json; true";
        case.sh_with(&["--report", "report.json"], script);
        let report: Value =
            serde_json::from_slice(&fs::read(case.work.join("report.json")).unwrap()).unwrap();
        assert_eq!(report["outcome"], json!("exited"));
    });
}

#[test]
fn a_report_that_cannot_be_written_is_a_refusal_before_anything_runs() {
    as_everybody(|case| {
        let target = case.file(case.root.join("target"), "precious");
        std::os::unix::fs::symlink(&target, case.root.join("link")).unwrap();
        let link = case.root.join("link");
        for path in [link.to_str().unwrap(), "/nonexistent/report.json", case.work.to_str().unwrap()] {
            case.run(["--report", path, "--", "touch", "ran"]).exits(125).tells("report");
        }
        assert_eq!(fs::read_to_string(target).unwrap(), "precious");
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

#[test]
fn a_plan_starts_nothing_and_shows_the_view() {
    as_everybody(|case| {
        let marker = marker();
        case.file("secret", "");
        let outcome =
            case.run(["--plan", "--ro", "/opt", "--deny", "secret", "--", "touch", "ran", &marker]).exits(0);
        let plan = outcome.out();
        for line in [
            "/usr",
            "read-write",
            case.work.to_str().unwrap(),
            "secret",
            "private",
            "/tmp",
            "seccomp",
            "landlock",
            "execute touch",
        ] {
            assert!(plan.contains(line), "{line:?} is not in {plan}");
        }
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
        assert!(processes_with(&marker).is_empty());
        assert_eq!(fs::read_dir(&case.state).unwrap().count(), 0);
    });
}

#[test]
fn a_plan_as_json_has_the_same_steps() {
    as_everybody(|case| {
        let plan = case.run(["--plan", "--json", "--", "true"]).exits(0).json();
        let steps = plan["steps"].as_array().unwrap();
        let text = case.run(["--plan", "--", "true"]).exits(0).out();
        assert!(steps.len() > 10);
        for step in steps {
            assert!(text.contains(step.as_str().unwrap()), "{step}");
        }
    });
}

#[test]
fn a_plan_does_not_touch_a_report() {
    as_everybody(|case| {
        let report: PathBuf = case.file(case.root.join("report.json"), "older");
        case.run(["--plan", "--report", report.to_str().unwrap(), "--", "true"]).exits(0);
        assert_eq!(fs::read_to_string(&report).unwrap(), "older");
    });
}
