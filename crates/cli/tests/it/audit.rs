//! The audit log: complete, in order, chained, without secrets; and no run without one.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
};

use serde_json::{Value, json};

use crate::case::{Case, Outcome, as_everybody, has_root, has_tool, ordinary};

const LIFE: [&str; 4] = ["SANDBOX_CREATED", "SANDBOX_ENTERED", "SANDBOX_EXITED", "SANDBOX_DESTROYED"];

fn verify(case: &Case) -> Outcome {
    case.lazaret(["audit", "verify"]).go()
}

/// Each sandbox in the log has had its whole life, in order, and the numbers only grow.
fn assert_whole_lives(case: &Case, sandboxes: usize) {
    let events = case.events();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
    let mut ids: Vec<&str> = events.iter().map(|event| event["sandboxId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), sandboxes);
    for id in ids {
        let life: Vec<&str> = events
            .iter()
            .filter(|event| event["sandboxId"] == id)
            .map(|event| event["event"].as_str().unwrap())
            .filter(|event| event.starts_with("SANDBOX"))
            .collect();
        assert_eq!(life, LIFE, "{id}");
    }
}

#[test]
fn every_run_leaves_its_four_events_in_order() {
    as_everybody(|case| {
        case.sh("exit 3").exits(3);
        case.sh("kill -9 $$").exits(137);
        case.run(["--", "nonesuch"]).exits(127);
        case.run(["--timeout", "100ms", "--", "sleep", "9"]).exits(124);
        case.sh("mount -t tmpfs none /tmp");
        assert_whole_lives(case, 5);
        verify(case).exits(0);
        let exited = case.events_of("SANDBOX_EXITED");
        let ends: Vec<(&Value, &Value)> = exited
            .iter()
            .map(|event| (&event["details"]["exitCode"], &event["details"]["outcome"]))
            .collect();
        let expected =
            [(3, "exited"), (137, "signaled"), (127, "notExecuted"), (124, "timeout"), (137, "escape")];
        let expected: Vec<(Value, Value)> =
            expected.iter().map(|(code, outcome)| (json!(code), json!(outcome))).collect();
        assert!(ends.iter().zip(&expected).all(|(is, should)| *is == (&should.0, &should.1)), "{ends:?}");
    });
}

#[test]
fn events_say_who_ran_what_where() {
    as_everybody(|case| {
        case.run(["--", "echo", "hello", "world"]).exits(0);
        let created = &case.events()[0];
        assert_eq!(created["details"]["command"], json!(["echo", "hello", "world"]));
        assert_eq!(created["details"]["directory"], json!(case.work.to_str().unwrap()));
        assert_eq!(created["details"]["uid"], json!(case.who.uid()));
        assert_eq!(created["details"]["level"], json!(2));
        for key in ["eventId", "sandboxId", "timestamp", "time", "event", "details", "prev", "hash"] {
            assert!(!created[key].is_null(), "{key}");
        }
        let entered = &case.events()[1];
        assert_eq!(entered["details"]["enforcement"]["missing"], json!([]));
        assert!(entered["details"]["pid"].as_u64().unwrap() > 1);
    });
}

#[test]
fn the_log_is_for_its_owner_alone() {
    as_everybody(|case| {
        case.sh("true").exits(0);
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&case.log()), 0o600);
        assert_eq!(mode(case.log().parent().unwrap()), 0o700);
    });
}

#[test]
fn eight_runs_at_once_share_a_log_that_verifies() {
    as_everybody(|case| {
        for _ in 0..3 {
            let running: Vec<_> =
                (0..8).map(|n| case.running(["--", "sh", "-c", &format!("exit {n}")]).start()).collect();
            for (n, running) in running.into_iter().enumerate() {
                running.finish().exits(n as i32);
            }
        }
        assert_whole_lives(case, 24);
        verify(case).exits(0);
    });
}

#[test]
fn a_changed_byte_is_found_and_its_line_named() {
    as_everybody(|case| {
        for n in 0..3 {
            case.sh(&format!("exit {n}"));
        }
        let text = fs::read_to_string(case.log()).unwrap();
        // The sixth line is the second run's SANDBOX_ENTERED.
        let at: usize = text.lines().take(5).map(|line| line.len() + 1).sum::<usize>() + 100;
        let byte = text.as_bytes()[at];
        let file = fs::File::options().write(true).open(case.log()).unwrap();
        file.write_all_at(&[if byte == b'0' { b'1' } else { b'0' }], at as u64).unwrap();
        verify(case).exits(1).tells("line 6");
        let report = case.lazaret(["audit", "verify", "--json"]).go().exits(1).json();
        assert_eq!((&report["ok"], &report["line"]), (&json!(false), &json!(6)));
        file.write_all_at(&[byte], at as u64).unwrap();
        verify(case).exits(0);
    });
}

#[test]
fn lines_taken_out_moved_or_cut_off_are_found() {
    as_everybody(|case| {
        for n in 0..3 {
            case.sh(&format!("exit {n}"));
        }
        let text = fs::read_to_string(case.log()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let rewrite = |lines: &[&str]| fs::write(case.log(), lines.join("\n") + "\n").unwrap();
        rewrite(&[&lines[..4], &lines[5..]].concat());
        verify(case).exits(1).tells("line 5");
        rewrite(&lines[..8]);
        verify(case).exits(1).tells("line 9");
        let mut swapped = lines.clone();
        swapped.swap(2, 3);
        rewrite(&swapped);
        verify(case).exits(1).tells("line 3");
        rewrite(&lines);
        verify(case).exits(0);
    });
}

#[test]
fn a_log_that_is_not_there_cannot_be_verified() {
    let case = ordinary();
    verify(&case).exits(125).tells("cannot open the audit log");
    case.lazaret(["audit", "verify", "/nonexistent"]).go().exits(125);
}

#[test]
fn a_log_elsewhere_is_used_and_hidden() {
    as_everybody(|case| {
        let log = case.work.join("own.jsonl");
        let log = log.to_str().unwrap();
        case.sh_with(
            &["--audit", log],
            "cat own.jsonl; echo x >> own.jsonl; rm -f own.jsonl own.jsonl.head; ls",
        )
        .prints("own.jsonl\nown.jsonl.head");
        case.lazaret(["audit", "verify", log]).go().exits(0);
        case.assert_nothing_started();
    });
}

/// Runs with this log, which must fail, and the command must not run.
fn refused(case: &Case, log: &str) -> Outcome {
    let outcome = case.run(["--audit", log, "--", "touch", "ran"]).exits(125).tells("audit log");
    assert!(!case.work.join("ran").exists());
    outcome
}

#[test]
fn without_a_log_that_can_be_written_nothing_runs() {
    as_everybody(|case| {
        let file = case.file("file", "");
        refused(case, &format!("{}/audit.jsonl", file.display()));
        refused(case, case.work.to_str().unwrap());
        refused(case, "/dev/null");
        refused(case, "/proc/audit.jsonl");
        std::os::unix::fs::symlink(case.root.join("target"), case.work.join("link")).unwrap();
        refused(case, "link");
        assert!(!case.root.join("target").exists());
    });
    let case = ordinary();
    let closed = case.root.join("closed");
    case.directory(&closed);
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    refused(&case, closed.join("audit.jsonl").to_str().unwrap());
    refused(&case, closed.join("deeper/audit.jsonl").to_str().unwrap());
}

#[test]
fn a_log_whose_end_is_damaged_is_not_extended() {
    as_everybody(|case| {
        let log = case.file("log", "this is no log line\n");
        refused(case, log.to_str().unwrap());
        assert_eq!(fs::read_to_string(log).unwrap(), "this is no log line\n");
    });
}

#[test]
fn a_torn_last_line_is_mended_and_recorded() {
    as_everybody(|case| {
        case.sh("true").exits(0);
        let mut text = fs::read_to_string(case.log()).unwrap();
        text.push_str("{\"seq\":5,\"eventId\":\"torn");
        fs::write(case.log(), text).unwrap();
        case.sh("true").exits(0);
        verify(case).exits(0);
        assert_eq!(case.events_of("SECURITY_ALERT").len(), 1);
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 2);
    });
}

#[test]
fn when_the_log_may_not_grow_nothing_runs() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        // The command's own file would be too large as well, so it only says that it ran.
        let outcome = case
            .running(["--", "echo", "ran"])
            .under(["bash", "-c", "ulimit -f 0; exec \"$@\"", "bash"])
            .go();
        assert_eq!(outcome.out(), "", "{outcome:?}");
        outcome.exits(125).tells("audit log");
        case.assert_nothing_started();
        case.sh("true").exits(0);
        verify(case).exits(0);
    });
}

#[test]
fn when_the_disk_is_full_nothing_runs() {
    if !has_root() || !has_tool("unshare") {
        return;
    }
    let case = Case::new(crate::case::Who::Caller);
    // In a mount namespace of its own: the host sees nothing of it.
    let script = "mount -t tmpfs -o size=64k none \"$XDG_STATE_HOME\" && mkdir \"$XDG_STATE_HOME/lazaret\" && \
                  : > \"$XDG_STATE_HOME/lazaret/audit.jsonl\" && : > \"$XDG_STATE_HOME/lazaret/audit.jsonl.head\" && \
                  (cat /dev/zero > \"$XDG_STATE_HOME/full\") 2>/dev/null; exec \"$@\"";
    let outcome =
        case.running(["--", "touch", "ran"]).under(["unshare", "-m", "sh", "-c", script, "sh"]).go();
    outcome.exits(125).tells("audit log");
    assert!(!case.work.join("ran").exists());
}

#[test]
fn a_log_that_fills_up_during_the_run_ends_it() {
    if !has_root() || !has_tool("unshare") || !has_tool("python3") {
        return;
    }
    let case = Case::new(crate::case::Who::Caller);
    let script = "mount -t tmpfs -o size=16k none \"$XDG_STATE_HOME\" && exec \"$@\"";
    // Distinct violations: each is worth a line of its own.
    let inside = "
import ctypes, itertools
libc = ctypes.CDLL(None)
for n in range(11, 900): libc.socket(n % 60 + 16, 3, n); ctypes.CDLL(None).prctl(15, str(n).encode(), 0, 0, 0)
print('went on')";
    let outcome = case
        .running(["--", "/usr/bin/python3", "-c", inside])
        .under(["unshare", "-m", "sh", "-c", script, "sh"])
        .go();
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    assert_eq!(outcome.out(), "", "{outcome:?}");
    outcome.tells("audit log");
}

#[test]
fn secrets_in_the_command_line_do_not_reach_the_log() {
    as_everybody(|case| {
        let secrets = [
            "hunter2hunter2",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AKIAIOSFODNN7EXAMPLE",
            "s3cretpassw0rd",
        ];
        case.run([
            "--",
            "true",
            "--password",
            secrets[0],
            "--token=ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
            "https://user:s3cretpassw0rd@example.com/x",
            "--verbose",
            "file.txt",
        ])
        .exits(0);
        let text = fs::read_to_string(case.log()).unwrap();
        for secret in secrets {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("--verbose") && text.contains("file.txt"), "{text}");
    });
}

#[test]
fn a_blocked_call_is_recorded_with_who_and_what() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "import ctypes; ctypes.CDLL(None).prctl(15, b'inside-name', 0, 0, 0); ctypes.CDLL(None).syscall(165, 0x11, 0x22, 0x33, 0x44, 0x55)";
        case.python(&["--on-escape", "deny"], script);
        let blocked = case.events_of("SYSCALL_BLOCKED");
        assert_eq!(blocked.len(), 1, "{blocked:?}");
        let details = &blocked[0]["details"];
        assert_eq!(details["process"], json!("inside-name"));
        assert!(details["pid"].as_u64().unwrap() > 1);
        if cfg!(target_arch = "x86_64") {
            let syscall = &details["syscall"];
            assert_eq!((&syscall["number"], &syscall["name"]), (&json!(165), &json!("mount")));
            let args: Vec<&str> =
                syscall["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
            assert_eq!(args[..5], ["0x11", "0x22", "0x33", "0x44", "0x55"]);
        }
        assert_eq!(details["severity"], json!("CRITICAL"));
    });
}

#[test]
fn a_flood_of_the_same_violation_is_folded() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "import ctypes\nlibc = ctypes.CDLL(None)\nfor n in range(5000): libc.socket(17, 3, 0)";
        case.python(&[], script).exits(0).tells("5000 times");
        assert!(case.events().len() < 20, "{} events", case.events().len());
        let exited = case.events_of("SANDBOX_EXITED");
        assert_eq!(exited[0]["details"]["violations"], json!(5000));
    });
}
