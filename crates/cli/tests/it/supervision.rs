//! What the supervisor records of blocked calls and of signals, that a flood harms nobody, and that nothing
//! inside outlives the supervisor or reaches a process outside.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    case::{Case, Running, as_everybody, eventually, has_tool, marker, processes_with},
    limits::policy,
    telling::report_of,
};

/// Compiles a small C program into the working directory.
fn compiled(case: &Case, name: &str, source: &str) -> PathBuf {
    let file = case.file(format!("{name}.c"), source);
    let program = case.work.join(name);
    let done = Command::new("gcc").args(["-static", "-O1", "-o"]).arg(&program).arg(&file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    case.own(&program);
    fs::remove_file(file).unwrap();
    program
}

/// Makes the same blocked call so often, and says with what it was refused.
const FLOOD: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long times = atol(argv[1]), refused = 0;
    for (long n = 0; n < times; n++)
        if (syscall(SYS_ptrace, 16, 1, 0, 0) == -1 && errno == EPERM) refused++;
    printf("%ld\n", refused);
}
"#;

#[test]
fn a_blocked_call_is_logged_with_its_number_name_arguments_and_process() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, b'prober', 0, 0, 0)
print(libc.syscall(ctypes.c_long(101), ctypes.c_long(16), ctypes.c_long(0x1234), ctypes.c_long(0xabcdef), ctypes.c_long(7)), ctypes.get_errno())";
        if !cfg!(target_arch = "x86_64") {
            crate::case::not_run("the numbers are those of x86_64");
            return;
        }
        case.python(&[], script).exits(0).prints("-1 1");
        let blocked = case.events_of("SYSCALL_BLOCKED");
        assert_eq!(blocked.len(), 1, "{blocked:?}");
        let details = &blocked[0]["details"];
        assert_eq!(details["process"], json!("prober"));
        assert!(details["pid"].as_i64().unwrap() > 0, "{details}");
        assert_eq!(details["syscall"]["number"], json!(101));
        assert_eq!(details["syscall"]["name"], json!("ptrace"));
        let arguments = details["syscall"]["args"].as_array().unwrap();
        assert_eq!(arguments[..4], [json!("0x10"), json!("0x1234"), json!("0xabcdef"), json!("0x7")]);
        assert_eq!((&details["type"], &details["severity"]), (&json!("SYSCALL"), &json!("HIGH")));
        assert!(blocked[0]["timestamp"].is_u64() && !blocked[0]["sandboxId"].as_str().unwrap().is_empty());
    });
}

#[test]
fn a_flood_of_a_blocked_call_ends_soon_and_does_not_fill_the_log() {
    if !has_tool("gcc") {
        return;
    }
    as_everybody(|case| {
        let program = compiled(case, "flood", FLOOD);
        let (report, outcome) = report_of(case, &["--", program.to_str().unwrap(), "300000"]);
        eprintln!("300000 blocked calls in {:?}", outcome.took);
        assert!(outcome.took < Duration::from_secs(15), "{outcome:?}");
        outcome.exits(0).prints("300000").tells("300000 times");
        let size = fs::metadata(case.log()).unwrap().len();
        eprintln!("the log has {size} bytes and {} events", case.events().len());
        assert!(size < 200 << 10, "{size} bytes");
        assert!(case.events().len() < 40, "{} events", case.events().len());
        let violations = report["violations"].as_array().unwrap();
        assert_eq!((violations.len(), &violations[0]["count"]), (1, &json!(300_000)), "{report}");
        let repeated: Vec<Value> = case.events_of("POLICY_VIOLATION");
        assert_eq!(
            repeated.last().unwrap()["details"]["repeated"][0]["count"],
            json!(300_000),
            "{repeated:?}"
        );
        assert_eq!(case.events_of("SANDBOX_EXITED")[0]["details"]["violations"], json!(300_000));
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn a_flood_ends_at_once_when_violations_are_limited() {
    if !has_tool("gcc") {
        return;
    }
    as_everybody(|case| {
        let program = compiled(case, "flood", FLOOD);
        let policy = policy(case, "maxViolations = 1000\n");
        let (report, outcome) =
            report_of(case, &["--policy", &policy, "--", program.to_str().unwrap(), "1000000"]);
        eprintln!("ended after {:?}", outcome.took);
        assert!(outcome.took < Duration::from_secs(3), "{outcome:?}");
        outcome.exits(137).prints("").tells("maxViolations");
        assert_eq!(report["outcome"], json!("violations"));
        assert_eq!(report["violations"][0]["count"], json!(1000));
        assert!(fs::metadata(case.log()).unwrap().len() < 100 << 10);
    });
}

#[test]
fn exactly_as_many_violations_as_allowed_end_the_sandbox() {
    if !has_tool("gcc") {
        return;
    }
    as_everybody(|case| {
        let program = compiled(case, "flood", FLOOD);
        let policy = policy(case, "maxViolations = 10\n");
        let run = |times| case.run(["--policy", &policy, "--", program.to_str().unwrap(), times]);
        run("9").exits(0).prints("9");
        run("10").exits(137).prints("");
    });
}

/// Calls by number, those of x86_64: ptrace, unshare, chroot, and io_uring_setup, which is harmless.
fn calls(numbers: &[u32]) -> String {
    format!(
        "import ctypes\nlibc = ctypes.CDLL(None)\nfor n in {numbers:?}: libc.syscall(ctypes.c_long(n), 0, 0, 0, 0)"
    )
}

#[test]
fn a_pattern_of_dangerous_calls_is_an_alert_and_fewer_are_none() {
    if !has_tool("python3") {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        crate::case::not_run("the numbers are those of x86_64");
        return;
    }
    as_everybody(|case| {
        case.python(&[], &calls(&[101, 272, 101, 272, 425])).exits(0);
        assert_eq!(case.events_of("SECURITY_ALERT"), Vec::<Value>::new());
        case.python(&[], &calls(&[101, 272, 161])).exits(0);
        let alerts = case.events_of("SECURITY_ALERT");
        assert_eq!(alerts.len(), 1, "{alerts:?}");
        assert_eq!(alerts[0]["details"]["syscalls"], json!(["chroot", "ptrace", "unshare"]));
        assert_eq!(alerts[0]["details"]["severity"], json!("HIGH"));
    });
}

#[test]
fn when_the_supervisor_is_killed_everything_inside_ends_within_two_seconds() {
    as_everybody(|case| {
        let marker = marker();
        let script = "for i in 1 2 3 4 5; do (setsid sh -c 'trap \"\" TERM HUP INT; sleep 60; :' $0 &); sh -c 'sleep 60; :' $0 & done; touch ready; wait; sleep 60";
        let running = case.running(["--", "sh", "-c", script, &marker]).start();
        eventually("everything runs", || {
            case.work.join("ready").exists() && processes_with(&marker).len() >= 12
        });
        let killed = Instant::now();
        running.signal(Signal::KILL);
        running.finish();
        eventually("all gone", || processes_with(&marker).is_empty());
        let took = killed.elapsed();
        eprintln!("all gone after {took:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

/// Starts a script and waits until it has made the file `ready`.
fn started(case: &Case, script: &str) -> Running {
    let running = case.running(["--", "sh", "-c", script]).start();
    eventually("the command is ready", || case.work.join("ready").exists());
    running
}

#[test]
fn signals_from_outside_are_logged_with_their_sender() {
    as_everybody(|case| {
        for (name, signal) in [("TERM", Signal::TERM), ("USR1", Signal::USR1), ("INT", Signal::INT)] {
            let script = format!(
                "trap 'exit 9' {name}; touch ready; n=0; while [ $n -lt 300 ]; do sleep 0.05; n=$((n+1)); done"
            );
            let running = started(case, &script);
            running.signal(signal);
            running.finish().exits(9);
            fs::remove_file(case.work.join("ready")).unwrap();
            let events = case.events_of("SIGNAL_RECEIVED");
            let details = &events.last().unwrap()["details"];
            assert_eq!(details["signal"], json!(signal.as_raw()), "{events:?}");
            assert_eq!(details["fate"], json!("passedOn"));
            assert_eq!(details["senderPid"], json!(std::process::id()));
            assert_eq!(details["senderUid"], json!(rustix::process::getuid().as_raw()));
        }
    });
}

#[test]
fn a_flood_of_signals_from_outside_is_folded() {
    as_everybody(|case| {
        let running = started(case, "trap '' USR1; touch ready; sleep 1; exit 4");
        for _ in 0..200 {
            running.signal(Signal::USR1);
            thread::sleep(Duration::from_millis(1));
        }
        running.finish().exits(4);
        let events = case.events_of("SIGNAL_RECEIVED");
        assert!((1..=3).contains(&events.len()), "{events:?}");
    });
}

#[test]
fn a_signal_that_ends_the_command_is_logged() {
    as_everybody(|case| {
        for (name, number) in [("SEGV", 11), ("KILL", 9), ("ABRT", 6)] {
            case.sh(&format!("ulimit -c 0; kill -{name} $$")).exits(128 + number);
            let events = case.events_of("SIGNAL_RECEIVED");
            let details = &events.last().unwrap()["details"];
            assert_eq!((&details["signal"], &details["fate"]), (&json!(number), &json!("endedTheCommand")));
        }
        assert_eq!(case.events_of("SIGNAL_RECEIVED").len(), 3);
    });
}

#[test]
fn an_orphan_that_dies_by_a_signal_is_logged() {
    as_everybody(|case| {
        case.sh("(setsid sh -c 'ulimit -c 0; kill -SEGV $$' &); sleep 0.5; exit 3").exits(3);
        let events = case.events_of("SIGNAL_RECEIVED");
        assert_eq!(events.len(), 1, "{events:?}");
        let details = &events[0]["details"];
        assert_eq!((&details["signal"], &details["fate"]), (&json!(11), &json!("endedAProcess")));
        assert!(details["pid"].as_i64().unwrap() > 1, "{details}");
        // One that ends by itself is nothing to log.
        case.sh("(setsid sh -c 'exit 1' &); sleep 0.2").exits(0);
        assert_eq!(case.events_of("SIGNAL_RECEIVED").len(), 1);
    });
}

#[test]
fn nothing_inside_can_signal_a_process_outside() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // Somebody outside who is of the same user, and could be signalled by it.
        let mut bystander = Command::new("sleep");
        bystander.arg("30");
        if case.who == crate::case::Who::Other {
            std::os::unix::process::CommandExt::uid(&mut bystander, crate::case::OTHER);
        }
        let mut bystander = bystander.spawn().unwrap();
        let script = "
import os, signal, sys, time
child = os.fork()
if child == 0: time.sleep(30)
for pid in map(int, sys.argv[1:]):
    for attempt in (lambda: os.kill(pid, 9), lambda: os.killpg(pid, 9), lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 9)):
        try: attempt(); print('sent', pid)
        except OSError: pass
os.kill(1, 9)
# Everybody who can be reached: the child, and nobody else.
os.kill(-1, 15)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";
        let mut running = case
            .running(["--", "sh", "-c", "read pids; exec /usr/bin/python3 -c \"$0\" $pids", script])
            .start();
        // The supervisor, its child (init as the host sees it), and the bystander: large numbers, none of
        // which exists inside.
        eventually("init is there", || !children_of(running.pid()).is_empty());
        let init = children_of(running.pid())[0];
        let line = format!("{} {init} {}\n", running.pid(), bystander.id());
        std::io::Write::write_all(&mut running.child.stdin.take().unwrap(), line.as_bytes()).unwrap();
        running.finish().exits(0).prints("-15");
        assert!(bystander.try_wait().unwrap().is_none(), "the bystander was ended");
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 1);
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    });
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
