//! The exit code says how the run ended, for scripts and for people.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use crate::case::{as_everybody, eventually, has_tool, marker, processes_with};

#[test]
fn the_commands_own_code_is_passed_on() {
    as_everybody(|case| {
        for code in [0, 1, 2, 3, 42, 124, 125, 126, 127, 137, 254, 255] {
            case.sh(&format!("exit {code}")).exits(code).tells_nothing();
        }
    });
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_the_number() {
    as_everybody(|case| {
        for (name, number) in
            [("HUP", 1), ("INT", 2), ("QUIT", 3), ("ABRT", 6), ("KILL", 9), ("SEGV", 11), ("TERM", 15)]
        {
            case.sh(&format!("kill -{name} $$")).exits(128 + number);
        }
    });
}

#[test]
fn a_command_that_takes_too_long_gives_124_and_says_why() {
    as_everybody(|case| {
        let outcome =
            case.run(["--timeout", "300ms", "--", "sleep", "30"]).exits(124).tells("longer than 300ms");
        assert!(
            outcome.took >= Duration::from_millis(300) && outcome.took < Duration::from_secs(2),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_command_that_ends_in_time_is_not_touched_by_the_clock() {
    as_everybody(|case| {
        case.run(["--timeout", "20s", "--", "sh", "-c", "exit 7"]).exits(7).tells_nothing();
    });
}

#[test]
fn a_command_may_end_in_order_when_its_time_is_over() {
    as_everybody(|case| {
        let script = "trap 'echo orderly; exit 0' TERM; sleep 30 & wait";
        case.sh_with(&["--timeout", "300ms"], script).exits(124).prints("orderly");
    });
}

#[test]
fn ignoring_the_signal_and_hiding_in_other_sessions_does_not_survive_the_clock() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let marker = marker();
        // Ignored signals are inherited; the second one is orphaned and in a session of its own.
        let script = format!(
            "trap '' TERM HUP INT
             (setsid sh -c 'while :; do sleep 1; done' {marker}a &) &
             setsid sh -c 'exec sleep 99' {marker}b &
             while :; do sleep 1; done"
        );
        let outcome = case.run(["--timeout", "300ms", "--", "sh", "-c", &script, &marker]).exits(124);
        assert!(outcome.took < Duration::from_secs(6), "{outcome:?}");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
    });
}

#[test]
fn a_usage_error_gives_125() {
    as_everybody(|case| {
        for args in [
            vec!["run"],
            vec!["run", "--"],
            vec!["run", "--level", "3", "--", "true"],
            vec!["run", "--timeout", "soon", "--", "true"],
            vec!["run", "--timeout", "0", "--", "true"],
            vec!["run", "--memory", "much", "--", "true"],
            vec!["run", "--max-procs", "0", "--", "true"],
            vec!["run", "--enforce", "--warn", "--", "true"],
            vec!["run", "--on-escape", "pray", "--", "true"],
            vec!["run", "--profile", "nonesuch", "--", "true"],
            vec!["run", "--env", "=value", "--", "true"],
            vec!["run", "--json", "--", "true"],
            vec!["nonesuch"],
            vec![],
        ] {
            let outcome = case.lazaret(&args).go().exits(125);
            assert!(!outcome.stderr.is_empty() && outcome.stdout.is_empty(), "{args:?}: {outcome:?}");
            assert!(!outcome.stderr.contains("internal error"), "{outcome:?}");
        }
        case.assert_nothing_started();
    });
}

#[test]
fn a_misspelt_flag_gives_125_and_is_not_taken_for_the_command() {
    as_everybody(|case| {
        for args in [
            &["--no-such-flag", "--", "touch", "ran"][..],
            &["--denny", "secret", "--", "touch", "ran"],
            &["-x", "touch", "ran"],
        ] {
            case.run(args).exits(125).tells(args[0]).tells("Usage");
        }
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

#[test]
fn a_file_that_is_not_executable_gives_126() {
    as_everybody(|case| {
        case.file("plain", "#!/bin/sh\nexit 0\n");
        case.run(["--", "./plain"]).exits(126).tells("cannot execute ./plain: Permission denied");
        case.run(["--", "/tmp"]).exits(126).tells("cannot execute /tmp");
    });
}

#[test]
fn a_program_for_another_machine_gives_126_and_is_not_taken_for_a_script() {
    as_everybody(|case| {
        case.file("garbage", b"\x7fELF\x02\x01\x01 and then nothing that makes sense".repeat(9));
        fs::set_permissions(case.work.join("garbage"), fs::Permissions::from_mode(0o755)).unwrap();
        case.run(["--", "./garbage"]).exits(126).tells("cannot execute ./garbage");
    });
}

#[test]
fn a_command_that_does_not_exist_gives_127_and_a_sentence() {
    as_everybody(|case| {
        case.run(["--", "no-such-command-anywhere"])
            .exits(127)
            .tells("no-such-command-anywhere: command not found");
        case.run(["--", "./nonesuch"]).exits(127).tells("./nonesuch: command not found");
        case.run(["--", ""]).exits(127);
    });
}

#[test]
fn a_command_that_is_only_on_the_host_gives_127_and_the_flag_that_shows_it() {
    as_everybody(|case| {
        let tool = case.file(case.root.join("tools/tool"), "#!/bin/sh\necho from the tool\n");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let (tool, tools) = (tool.to_str().unwrap(), tool.parent().unwrap().to_str().unwrap());
        let hint = format!("--ro {tools} makes it visible");
        case.run(["--", tool]).exits(127).tells("not found in the sandbox").tells(&hint);
        case.run(["--ro", tools, "--", tool]).exits(0).prints("from the tool");
    });
}

#[test]
fn a_script_whose_interpreter_is_missing_gives_127() {
    as_everybody(|case| {
        let script = case.file("script", "#!/no/such/interpreter\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        case.run(["--", "./script"]).exits(127).tells("./script").tells("interpreter");
    });
}

#[test]
fn a_script_without_an_interpreter_line_runs_in_a_shell() {
    as_everybody(|case| {
        let script = case.file("script", "echo arguments: $*\nexit 5\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        case.run(["--", "./script", "a", "b"]).exits(5).prints("arguments: a b");
    });
}

#[test]
fn an_escape_attempt_ends_everything_with_137() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let marker = marker();
        let script = format!("(sh -c 'sleep 60; :' {marker} &) ; mount -t tmpfs none /tmp; echo went on");
        let outcome = case.sh(&script).exits(137).tells("escape attempt").tells("mount");
        assert_eq!(outcome.out(), "");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert_eq!(case.events_of("ESCAPE_ATTEMPT").len(), 1);
    });
}

#[test]
fn an_escape_attempt_can_be_denied_instead() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let outcome = case.run(["--on-escape", "deny", "--", "mount", "-t", "tmpfs", "none", "/tmp"]);
        assert!([1, 32].contains(&outcome.code()), "{outcome:?}");
        outcome.tells("denied in this sandbox").tells("system call mount");
        case.sh_with(&["--on-escape", "deny"], "mount -t tmpfs none /tmp; echo went on")
            .exits(0)
            .prints("went on");
    });
}

#[test]
fn a_background_child_does_not_keep_the_run_alive() {
    as_everybody(|case| {
        let marker = marker();
        let outcome = case.sh(&format!("sh -c 'sleep 60; :' {marker} & echo done")).exits(0);
        outcome.prints("done");
        eventually("the child is gone", || processes_with(&marker).is_empty());
    });
}
