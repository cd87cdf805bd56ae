//! What is counted: events of real runs.

use std::fs;

use rustix::process::Signal;

use super::{FLOOD, flood, printed, sum, value};
use crate::case::{as_everybody, eventually, has_tool, not_run};

#[test]
fn floods_are_counted_exactly_and_whoever_is_killed_is_lost() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        flood(case, 57);
        flood(case, 3);
        // Fifteen and then killed: the log was told of the first and of the tenth.
        let script = format!("{FLOOD}\nopen('ready', 'w')\nimport time; time.sleep(60)");
        let running = case.running(["--", "/usr/bin/python3", "-c", &script, "15"]).start();
        eventually("it is ready", || case.work.join("ready").exists());
        let text = printed(case);
        assert_eq!(value(&text, "lazaret_sandboxes_active"), 1.0);
        assert_eq!(value(&text, "lazaret_syscalls_blocked_total{syscall=\"chroot\"}"), 70.0);
        running.signal(Signal::KILL);
        running.finish();
        case.run(["--tool", "copier", "--", "/bin/sh", "-c", "exit 3"]).exits(3);
        let text = printed(case);
        let high = "lazaret_policy_violations_total{type=\"syscall\",severity=\"high\"}";
        for (name, expected) in [
            ("lazaret_syscalls_blocked_total{syscall=\"chroot\"}", 70.0),
            (high, 70.0),
            ("lazaret_sandboxes_created_total{level=\"2\",profile=\"default\"}", 4.0),
            ("lazaret_sandboxes_active", 0.0),
            ("lazaret_sandboxes_ended_total{outcome=\"exited\"}", 3.0),
            ("lazaret_sandboxes_ended_total{outcome=\"lost\"}", 1.0),
            ("lazaret_sandbox_lifetime_seconds_count", 3.0),
            ("lazaret_sandbox_cpu_seconds_count", 3.0),
            ("lazaret_tool_runs_total{outcome=\"exited\",tool=\"copier\"}", 1.0),
            ("lazaret_escape_attempts_total", 0.0),
            ("lazaret_audit_bad_lines_total", 0.0),
        ] {
            assert_eq!(value(&text, name), expected, "{name} in\n{text}");
        }
        assert!(value(&text, "lazaret_sandbox_creation_rate") > 0.0);
        // The same as the runs themselves say.
        let exact: u64 = case
            .events_of("SANDBOX_EXITED")
            .iter()
            .filter_map(|it| it["details"]["violations"].as_u64())
            .sum();
        assert_eq!(sum(&text, "lazaret_policy_violations_total"), exact as f64 + 10.0);
    });
}

#[test]
fn an_escape_a_limit_and_a_refused_file_are_counted_each_as_what_it_is() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let mount = "import ctypes; ctypes.CDLL(None).mount(b'a', b'/mnt', b'tmpfs', 0, None)";
        case.python(&[], mount).exits(137);
        case.python(&["--cpu-time", "200ms"], "while True: pass").exits(137);
        case.sh_with(&["--deny", "secret"], "echo x > secret").exits(2);
        let text = printed(case);
        assert_eq!(value(&text, "lazaret_escape_attempts_total"), 1.0, "{text}");
        assert_eq!(value(&text, "lazaret_sandboxes_ended_total{outcome=\"escape\"}"), 1.0);
        assert_eq!(value(&text, "lazaret_syscalls_blocked_total{syscall=\"mount\"}"), 1.0);
        assert_eq!(
            value(&text, "lazaret_policy_violations_total{type=\"syscall\",severity=\"critical\"}"),
            1.0
        );
        assert_eq!(value(&text, "lazaret_resource_limits_exceeded_total{limit=\"maxCPU\"}"), 1.0);
        assert_eq!(value(&text, "lazaret_sandboxes_ended_total{outcome=\"limit\"}"), 1.0);
        assert!(
            sum(&text, "lazaret_policy_violations_total{type=\"filesystem\",severity=\"high\"}") >= 1.0,
            "{text}"
        );
    });
}

#[test]
fn reading_and_writing_is_in_the_report_the_event_and_the_metrics() {
    const SIZE: u64 = 8 << 20;
    const TMPFS: u64 = 0x0102_1994;
    as_everybody(|case| {
        if rustix::fs::statfs(&case.work).unwrap().f_type as u64 == TMPFS {
            not_run("the temporary directory has no disk behind it");
            return;
        }
        let report = case.work.join("report.json");
        // The second is waited for by nobody but init.
        let script = "head -c 4194304 /dev/zero > a; (sh -c 'sleep 0.2; head -c 4194304 /dev/zero > b; touch done' &); \
                      while ! [ -e done ]; do sleep 0.02; done";
        case.run(["--report", report.to_str().unwrap(), "--", "sh", "-c", script]).exits(0);
        let report: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let exited = &case.events_of("SANDBOX_EXITED")[0]["details"];
        for usage in [&report["usage"], &exited["usage"]] {
            let written = usage["ioWriteBytes"].as_u64().unwrap();
            assert!((SIZE..2 * SIZE).contains(&written), "{usage}");
            assert!(usage["ioReadBytes"].is_u64(), "{usage}");
            // What goes through calls is told to root only.
            if let Some(written) = usage["ioWriteCallBytes"].as_u64() {
                assert!((SIZE..2 * SIZE).contains(&written), "{usage}");
            }
        }
        assert_eq!(report["usage"], exited["usage"]);
        let text = printed(case);
        assert!(value(&text, "lazaret_sandbox_io_bytes_sum{direction=\"write\"}") >= SIZE as f64, "{text}");
        assert_eq!(value(&text, "lazaret_sandbox_io_bytes_count{direction=\"read\"}"), 1.0);
    });
}

#[test]
fn printed_as_json_the_numbers_are_the_same() {
    as_everybody(|case| {
        case.sh("exit 0").exits(0);
        let all = case.lazaret(["metrics", "print", "--json", "--per-sandbox", "0"]).go().exits(0).json();
        let metrics = all["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(named("lazaret_sandboxes_created_total")["samples"][0]["value"], 1);
        assert_eq!(named("lazaret_sandboxes_created_total")["samples"][0]["labels"]["level"], "2");
        assert_eq!(named("lazaret_sandbox_lifetime_seconds")["samples"][0]["count"], 1);
        assert!(metrics.iter().all(|it| !it["name"].as_str().unwrap().starts_with("lazaret_recent_")));
    });
}

#[test]
fn a_log_that_cannot_be_read_is_a_failure_and_one_that_is_not_there_is_none() {
    as_everybody(|case| {
        let text = printed(case);
        assert_eq!(sum(&text, "lazaret_sandboxes_created_total"), 0.0);
        let directory = case.work.to_str().unwrap();
        case.lazaret(["metrics", "print", "--audit", directory])
            .go()
            .exits(125)
            .tells("cannot open the audit log");
    });
}
