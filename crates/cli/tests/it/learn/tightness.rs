//! What the command did not do is refused under what was learnt from it.

use std::fs;

use super::{again, learn, learn_with, learned, policy_file, text, texts};
use crate::case::{as_everybody, has_tool};

#[test]
fn a_file_beside_the_one_that_was_read_is_not_there() {
    as_everybody(|case| {
        case.file("data/read", "yes");
        case.file("data/beside", "no");
        learn(case, &["cat", "data/read"]).exits(0).prints("yes");
        assert_eq!(
            texts(&learned(case).filesystem.read_only_paths)
                .iter()
                .filter(|path| path.starts_with('.'))
                .count(),
            1,
            "{}",
            text(case)
        );
        again(case, &["cat", "data/read"]).exits(0).prints("yes");
        let outcome = again(case, &["cat", "data/beside"]).exits(1);
        assert_eq!(outcome.out(), "", "{outcome:?}");
    });
}

#[test]
fn only_the_file_that_was_changed_is_writable() {
    as_everybody(|case| {
        case.file("log", "old\n");
        case.file("beside", "old\n");
        let append = ["sh", "-c", "echo new >> log"];
        learn(case, &append).exits(0);
        assert_eq!(texts(&learned(case).filesystem.read_write_paths), ["./log"], "{}", text(case));
        again(case, &append).exits(0);
        assert_eq!(fs::read_to_string(case.work.join("log")).unwrap(), "old\nnew\nnew\n");
        // It may find something private there, but nothing of the host's.
        let outcome =
            again(case, &["sh", "-c", "read x < beside; echo $x; echo new >> beside; echo new > other"]);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        assert_eq!(fs::read_to_string(case.work.join("beside")).unwrap(), "old\n");
        assert!(!case.work.join("other").exists());
    });
}

#[test]
fn another_program_does_not_run() {
    as_everybody(|case| {
        learn(case, &["sh", "-c", "cat /dev/null; true"]).exits(0);
        again(case, &["sh", "-c", "cat /dev/null; true"]).exits(0);
        for program in ["id", "/usr/bin/id"] {
            let outcome = again(case, &["sh", "-c", &format!("{program}; exit $?")]);
            assert!([126, 127].contains(&outcome.code()), "{outcome:?}");
            assert_eq!(outcome.out(), "");
        }
        // One that starts nothing starts nothing else.
        learn(case, &["sh", "-c", ":"]).exits(0);
        assert_ne!(again(case, &["sh", "-c", "cat /dev/null; true; cat /dev/null"]).code(), 0);
    });
}

#[test]
fn system_calls_that_were_not_made_are_blocked() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let python = ["/usr/bin/python3", "-c"];
        let command = |script: &'static str| [python[0], python[1], script];
        learn(case, &command("print(1)")).exits(0);
        again(case, &command("print(1)")).exits(0);
        let calls = learned(case).syscalls.syscalls;
        for call in ["ptrace", "socket", "fork", "rename", "chmod", "inotify_init", "memfd_create"] {
            assert!(!calls.iter().any(|listed| listed == call), "{call}: {calls:?}");
        }
        for script in [
            "import socket; socket.socket()",
            "import os; os.fork()",
            "import os; os.memfd_create('x')",
            "import os; os.mkdir('/tmp/x')",
            "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.ptrace(0, 0, 0, 0) and exit(3)",
        ] {
            let outcome = again(case, &command(script));
            assert_ne!(outcome.code(), 0, "{script}: {outcome:?}");
        }
    });
}

#[test]
fn secrets_are_refused_while_learning_and_not_granted() {
    as_everybody(|case| {
        case.file(case.home.join(".ssh/id_test"), "secret key");
        case.file(case.home.join(".config/gh/hosts.yml"), "secret token");
        case.file(case.home.join(".config/tool/settings"), "plain");
        let script =
            "cat ~/.ssh/id_test ~/.config/gh/hosts.yml ~/.aws/credentials; cat ~/.config/tool/settings";
        let outcome = learn(case, &["sh", "-c", script]).exits(0).prints("plain");
        let text = text(case);
        for secret in ["~/.ssh/id_test", "~/.config/gh/hosts.yml", "~/.aws/credentials"] {
            assert!(text.contains(&format!("asked for and not granted: {secret}")), "{text}");
            assert!(outcome.stderr.contains(secret.trim_start_matches('~')), "{outcome:?}");
        }
        let policy = learned(case);
        let granted = texts(&policy.filesystem.read_only_paths);
        assert!(granted.contains(&"~/.config/tool/settings"), "{text}");
        assert!(
            !granted.iter().any(|path| path.contains(".ssh") || path.contains("gh") || *path == "~"),
            "{text}"
        );
        again(case, &["sh", "-c", script]).exits(0).prints("plain");
    });
}

#[test]
fn what_is_denied_in_the_project_stays_denied_in_the_policy() {
    as_everybody(|case| {
        case.file(".env", "secret");
        let command = ["sh", "-c", "cat .env; echo x > new; ls > /dev/null"];
        learn_with(case, &["--deny", ".env"], &command).exits(0).prints("").tells(".env");
        let policy = learned(case);
        assert_eq!(texts(&policy.filesystem.read_write_paths), ["."], "{}", text(case));
        assert_eq!(texts(&policy.filesystem.denied_paths), ["./.env"], "{}", text(case));
        again(case, &command).exits(0).prints("");
        assert!(case.work.join("new").exists());
    });
}

#[test]
fn what_the_permissions_forbid_is_not_granted() {
    as_everybody(|case| {
        learn(case, &["sh", "-c", "cat /etc/shadow; cat /etc/passwd > /dev/null"]).exits(0).prints("");
        let policy = learned(case);
        let granted = texts(&policy.filesystem.read_only_paths);
        assert!(granted.contains(&"/etc/passwd") && !granted.contains(&"/etc/shadow"), "{}", text(case));
        assert!(text(case).contains("reading of /etc/shadow"), "{}", text(case));
    });
}

#[test]
fn a_socket_of_the_host_is_learnt_when_it_was_opened_for_the_command() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let path = case.root.join("service.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        case.own(&path);
        let script =
            format!("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({path:?})\nprint('in')");
        let command = ["/usr/bin/python3", "-c", &script];
        assert_ne!(learn(case, &command).code(), 0);
        assert!(text(case).contains("service.sock"), "{}", text(case));
        learn_with(case, &["--rw", path.to_str().unwrap()], &command).exits(0).prints("in");
        assert!(learned(case).filesystem.read_write_paths.contains(&path), "{}", text(case));
        again(case, &command).exits(0).prints("in");
        drop(listener);
    });
}

#[test]
fn nothing_outside_the_current_directory_is_written_while_learning() {
    as_everybody(|case| {
        case.file(case.home.join("notes"), "mine");
        case.file("../beside/file", "mine");
        let script = "echo x > ~/notes; echo x > ../beside/file; echo x > ../beside/new; rm -f ../beside/file; \
                      mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/y; exit 0";
        learn(case, &["sh", "-c", script]).exits(0).tells("--rw");
        assert_eq!(fs::read_to_string(case.home.join("notes")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(case.root.join("beside/file")).unwrap(), "mine");
        assert!(!case.root.join("beside/new").exists() && !case.home.join(".cache").exists());
        assert!(learned(case).filesystem.read_write_paths.is_empty(), "{}", text(case));
        assert!(text(case).contains("# \"~/notes\",  # a write was refused"), "{}", text(case));
        again(case, &["sh", "-c", script]).exits(0);
        // With consent it is learnt.
        let beside = case.root.join("beside");
        learn_with(case, &["--rw", beside.to_str().unwrap()], &["sh", "-c", "echo x > ../beside/new"])
            .exits(0);
        assert_eq!(learned(case).filesystem.read_write_paths, [beside]);
        again(case, &["sh", "-c", "echo x > ../beside/new"]).exits(0);
    });
}

#[test]
fn no_secret_of_the_command_line_gets_into_the_file() {
    as_everybody(|case| {
        let secret = "hunter2hunter2";
        let password = format!("--password={secret}");
        let variable = format!("API_TOKEN={secret}");
        let command = ["sh", "-c", "exit 0", "sh", &password, "--token", secret];
        learn_with(case, &["--env", &variable, "--env", "PLAIN=yes"], &command).exits(0).tells("API_TOKEN");
        let text = text(case);
        assert!(!text.contains(secret), "{text}");
        let environment = learned(case).environment;
        assert!(environment.allow.contains(&"API_TOKEN".to_owned()));
        assert_eq!(environment.set.get("PLAIN").map(String::as_str), Some("yes"));
        assert!(policy_file(case).exists());
    });
}
