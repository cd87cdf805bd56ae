//! Standard streams pass through as they are.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::case::{Running, as_everybody, has_tool, wait_within};

/// A million bytes of every value, without a pattern that a line discipline or a text conversion would miss.
fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..1 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

#[test]
fn a_megabyte_of_binary_data_passes_both_ways_unchanged() {
    as_everybody(|case| {
        let data = noise();
        let outcome = case.running(["--", "cat"]).input(data.clone()).go().exits(0).tells_nothing();
        assert!(outcome.stdout == data, "{} of {} bytes came back", outcome.stdout.len(), data.len());
    });
}

#[test]
fn standard_error_passes_unchanged_and_apart_from_standard_output() {
    as_everybody(|case| {
        let outcome = case.sh("printf 'to out'; printf 'to err' >&2").exits(0).prints("to out");
        assert_eq!(outcome.stderr, "to err");
    });
}

#[test]
fn the_streams_are_the_callers_own_pipes() {
    as_everybody(|case| {
        case.sh("test -p /dev/stdin && test -p /dev/stdout && test -p /dev/stderr").exits(0);
    });
}

#[test]
fn the_streams_can_be_opened_again_by_their_names() {
    as_everybody(|case| {
        let script = "echo a > /dev/stdout; echo b > /dev/stderr; echo c >> /dev/fd/1; echo d | tee /dev/stderr > /dev/null";
        // The pipe is one of the caller's own, as in a shell's pipeline.
        case.running(["--", "sh", "-c", script])
            .under(["sh", "-c", "\"$@\" 2>&1 | cat", "sh"])
            .go()
            .exits(0)
            .prints("a\nb\nc\nd");
    });
}

#[test]
fn an_empty_input_is_seen_as_its_end() {
    as_everybody(|case| {
        case.run(["--", "wc", "-c"]).exits(0).prints("0");
        let mut command = case.running(["--", "wc", "-c"]).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap()).finish().exits(0).prints("0");
    });
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_command_promptly() {
    as_everybody(|case| {
        let mut command = case.running(["--", "yes"]).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        drop(stdout);
        let outcome = Running::new(child).finish().exits(128 + 13);
        assert!(
            !outcome.stderr.contains("panic") && !outcome.stderr.contains("internal error"),
            "{outcome:?}"
        );
        assert!(outcome.took < Duration::from_secs(3), "{outcome:?}");
    });
}

#[test]
fn our_own_output_to_a_closed_pipe_is_no_reason_to_panic() {
    as_everybody(|case| {
        for args in [&["policy", "schema"][..], &["run", "--plan", "--", "true"], &["--help"], &["doctor"]] {
            let mut command = case.lazaret(args).command();
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            drop(command);
            let outcome = Running::new(child).finish();
            assert!(!outcome.stderr.contains("internal error"), "{args:?}: {outcome:?}");
            assert!(outcome.status.code().is_some(), "{args:?}: {outcome:?}");
        }
    });
}

#[test]
fn a_command_that_closes_its_output_lets_the_reader_see_the_end_while_it_goes_on() {
    as_everybody(|case| {
        let mut command = case.running(["--", "sh", "-c", "echo first; exec >&-; sleep 3; exit 6"]).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let seen = started.elapsed();
        assert_eq!(text, "first\n");
        assert!(seen < Duration::from_millis(2500), "the end came after {seen:?}");
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(wait_within(&mut child, Duration::from_secs(10)).unwrap().code(), Some(6));
    });
}

#[test]
fn a_command_that_closes_its_input_lets_the_writer_see_it() {
    as_everybody(|case| {
        let mut command = case.running(["--", "sh", "-c", "exec <&-; echo closed; sleep 3"]).command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 7]).unwrap();
        let started = Instant::now();
        let error = child.stdin.take().unwrap().write_all(&[0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        assert!(started.elapsed() < Duration::from_secs(2));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_background_child_that_holds_the_pipe_does_not_keep_the_reader_waiting() {
    as_everybody(|case| {
        let outcome = case.sh("sleep 60 & echo ready").exits(0).prints("ready");
        assert!(outcome.took < Duration::from_secs(3), "{outcome:?}");
    });
}

#[test]
fn the_command_sees_output_as_it_is_written_not_at_the_end() {
    as_everybody(|case| {
        let mut running =
            case.running(["--", "sh", "-c", "read a; echo got $a; read b; echo got $b"]).command();
        running.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = running.spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            let mut answer = vec![0; "got one\n".len()];
            output.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), format!("got {word}\n"));
        }
        assert_eq!(wait_within(&mut child, Duration::from_secs(10)).unwrap().code(), Some(0));
    });
}

#[test]
fn closed_standard_streams_of_the_caller_are_no_reason_to_fail_or_to_leak() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        let report = case.work.join("report.json");
        for closing in ["exec <&-", "exec >&-", "exec 2>&-", "exec <&- >&- 2>&-"] {
            let script = format!("{closing}; exec \"$@\"");
            let inside = "echo x >> written; ls /proc/self/fd | wc -l >> written";
            let outcome = case
                .running(["--report", report.to_str().unwrap(), "--", "sh", "-c", inside])
                .under(["bash", "-c", &script, "bash"])
                .go();
            assert!(outcome.status.code().is_some_and(|code| code != 101), "{closing}: {outcome:?}");
            // Whatever came of it, our own files must not have been written by the command's streams.
            let text = std::fs::read_to_string(&report).unwrap();
            assert!(
                text.is_empty() || serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                "{closing}: {text}"
            );
            let verified = case.lazaret(["audit", "verify"]).go();
            verified.exits(0);
        }
    });
}

#[test]
fn two_runs_can_be_joined_by_a_pipe() {
    as_everybody(|case| {
        let mut first = case.running(["--", "sh", "-c", "echo c; echo a; echo b"]).command();
        let mut first =
            first.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut second: Command = case.running(["--", "sort"]).command();
        second.stdin(first.stdout.take().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let second = Running::new(second.spawn().unwrap());
        second.finish().exits(0).prints("a\nb\nc");
        thread::sleep(Duration::from_millis(1));
        assert_eq!(wait_within(&mut first, Duration::from_secs(10)).unwrap().code(), Some(0));
    });
}

#[test]
fn a_stream_in_memory_is_a_stream() {
    as_everybody(|case| {
        let script = "import os, subprocess, sys\nfd = os.memfd_create('x')\n\
                      r = subprocess.run(sys.argv[1:], stdout=fd)\nos.lseek(fd, 0, 0)\n\
                      print(r.returncode, os.read(fd, 100).decode().strip())";
        case.running(["--", "echo", "in memory"])
            .under(["/usr/bin/python3", "-c", script])
            .go()
            .exits(0)
            .prints("0 in memory");
    });
}
