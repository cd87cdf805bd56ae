//! Signals to `lazaret` reach the command.

use std::{fs, thread, time::Duration};

use rustix::process::Signal;

use crate::case::{Case, Running, as_everybody, eventually};

/// Starts a script and waits until it has made the file `ready`.
fn started(case: &Case, script: &str) -> Running {
    let running = case.running(["--", "sh", "-c", script]).start();
    eventually("the command is ready", || case.work.join("ready").exists());
    running
}

#[test]
fn signals_reach_a_command_that_handles_them() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        as_everybody(|case| {
            let script =
                format!("trap 'echo got {name}; exit 9' {name}; touch ready; while :; do sleep 0.1; done");
            let running = started(case, &script);
            running.signal(signal);
            running.finish().exits(9).prints(&format!("got {name}"));
        });
    }
}

#[test]
fn signals_end_a_command_that_does_not_handle_them() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        as_everybody(|case| {
            let running = started(case, "touch ready; exec sleep 30");
            running.signal(signal);
            running.finish().exits(128 + signal.as_raw());
        });
    }
}

#[test]
fn an_ignored_signal_does_not_end_the_run() {
    as_everybody(|case| {
        let running = started(case, "trap '' TERM; touch ready; sleep 0.5; echo still here");
        running.signal(Signal::TERM);
        running.finish().exits(0).prints("still here");
    });
}

#[test]
fn a_signal_in_the_first_milliseconds_is_not_lost() {
    as_everybody(|case| {
        for delay in [0, 1, 2, 3, 5, 8, 13, 20] {
            let running = case.running(["--", "sleep", "30"]).start();
            thread::sleep(Duration::from_millis(delay));
            running.signal(Signal::TERM);
            let outcome = running.finish();
            // Before it listens, it dies of it; afterwards the command does.
            let died = std::os::unix::process::ExitStatusExt::signal(&outcome.status) == Some(15);
            assert!(died || outcome.status.code() == Some(143), "after {delay} ms: {outcome:?}");
        }
    });
}

#[test]
fn a_stopped_run_goes_on_where_it_was() {
    as_everybody(|case| {
        let running = started(case, "touch ready; sleep 0.3; echo done");
        running.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(600));
        let state = fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
        assert!(state.contains(") T "), "{state}");
        running.signal(Signal::CONT);
        running.finish().exits(0).prints("done");
    });
}

#[test]
fn a_stop_from_the_keyboard_stops_the_command_too() {
    as_everybody(|case| {
        let script = "touch ready; while :; do echo x >> ticks; sleep 0.02; done";
        let running = started(case, script);
        running.signal(Signal::TSTP);
        let stopped = |running: &Running| {
            fs::read_to_string(format!("/proc/{}/stat", running.pid()))
                .is_ok_and(|state| state.contains(") T "))
        };
        eventually("it stops", || stopped(&running));
        let ticks = || fs::read(case.work.join("ticks")).unwrap_or_default().len();
        thread::sleep(Duration::from_millis(100));
        let before = ticks();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(ticks(), before, "the command went on while lazaret was stopped");
        running.signal(Signal::CONT);
        eventually("the command goes on", || ticks() > before);
        running.signal(Signal::TERM);
        running.finish().exits(143);
    });
}
