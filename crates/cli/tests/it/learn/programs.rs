//! Real programs, learnt from and run again under what was learnt.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{again, learn, learn_with, learned, learns_and_repeats, policy_file, text, texts};
use crate::{
    case::{as_everybody, has_tool},
    network::servers::Server,
};

#[test]
fn a_program_that_does_nothing_needs_next_to_nothing() {
    as_everybody(|case| {
        learns_and_repeats(case, &["true"]);
        let policy = learned(case);
        assert!(!policy.process.allow_fork && !policy.process.allow_exec && !policy.network.allow_network);
        assert!(policy.filesystem.read_write_paths.is_empty());
        assert!(texts(&policy.filesystem.read_only_paths).iter().all(|path| !path.starts_with('.')));
    });
}

#[test]
fn a_shell_that_copies_a_file() {
    as_everybody(|case| {
        case.file("a", "content");
        learns_and_repeats(case, &["sh", "-c", "cat a > b"]);
        assert_eq!(fs::read_to_string(case.work.join("b")).unwrap(), "content");
        assert_eq!(texts(&learned(case).filesystem.read_write_paths), ["."]);
    });
}

#[test]
fn a_python_script_that_reads_a_file_of_a_sibling_directory() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        case.file("../sibling/data", "{\"a\": [1, 2]}");
        let script =
            "import json, ssl\nssl.create_default_context()\nprint(json.load(open('../sibling/data'))['a'])";
        case.file("script.py", script);
        let outcome = learns_and_repeats(case, &["/usr/bin/python3", "script.py"]);
        assert_eq!(outcome.out(), "[1, 2]");
        let sibling = case.root.join("sibling/data");
        assert!(learned(case).filesystem.read_only_paths.contains(&sibling), "{}", text(case));
    });
}

#[test]
fn git_makes_a_repository_and_commits() {
    if !has_tool("git") {
        return;
    }
    as_everybody(|case| {
        case.file("file", "content");
        let script = "rm -rf .git; git init -q . && git add file && \
                      git -c user.name=n -c user.email=n@example.com commit -q -m first && git log --format=%s";
        let outcome = learns_and_repeats(case, &["sh", "-c", script]);
        assert_eq!(outcome.out(), "first");
    });
}

#[test]
fn a_compiler_and_what_it_made() {
    if !has_tool("gcc") {
        return;
    }
    as_everybody(|case| {
        case.file("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
        learns_and_repeats(case, &["gcc", "-o", "hello", "hello.c"]);
        assert!(!learned(case).process.allowed_executables.is_empty());
        // What is compiled and executed in the same run can be in no list.
        let outcome = learns_and_repeats(case, &["sh", "-c", "gcc -o hello hello.c && ./hello"]);
        assert_eq!(outcome.out(), "hello");
        assert!(learned(case).process.allowed_executables.is_empty());
        assert!(text(case).contains("no list could name"), "{}", text(case));
    });
}

#[test]
fn make_with_a_compiler() {
    if !has_tool("gcc") || !has_tool("make") {
        return;
    }
    as_everybody(|case| {
        case.file("src/main.c", "int main(void) { return 0; }\n");
        case.file("Makefile", "build/main: src/main.c\n\tmkdir -p build\n\tgcc -o $@ $<\n");
        learns_and_repeats(case, &["make", "-B"]);
        assert!(case.work.join("build/main").exists());
    });
}

#[test]
fn node_evaluates() {
    if !has_tool("node") {
        return;
    }
    as_everybody(|case| {
        learns_and_repeats(case, &["node", "-e", "console.log(require('os').EOL.length + 1)"]);
    });
}

#[test]
fn threads_and_processes() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let threads = "import threading\nt = [threading.Thread(target=print, args=('x',)) for _ in range(12)]\n\
                       [one.start() for one in t]\n[one.join() for one in t]";
        learns_and_repeats(case, &["/usr/bin/python3", "-c", threads]);
        assert!(!learned(case).process.allow_fork);
        learns_and_repeats(case, &["sh", "-c", "for i in 1 2 3 4; do (echo $i | cat); done"]);
        let policy = learned(case);
        assert!(policy.process.allow_fork && policy.process.allow_exec);
        assert!(policy.resources.max_threads >= Some(16) && policy.process.max_processes.is_none());
    });
}

#[test]
fn scripts_need_their_interpreters() {
    as_everybody(|case| {
        for (name, content) in [("script", "#!/bin/sh\necho one\n"), ("text", "echo two\n")] {
            let script = case.file(name, content);
            fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        }
        learns_and_repeats(case, &["./script"]);
        learns_and_repeats(case, &["./text"]);
        learns_and_repeats(case, &["sh", "-c", "./script; ./text"]);
        let script = case.work.join("script");
        assert!(learned(case).process.allowed_executables.contains(&script), "{}", text(case));
    });
}

#[test]
fn curl_reaches_what_it_reached_and_nothing_else() {
    if !has_tool("curl") {
        return;
    }
    as_everybody(|case| {
        let (server, other) = (Server::http(), Server::http());
        let flags = [
            "--allow-address",
            "127.0.0.0/8",
            "--resolve",
            "web.test=127.0.0.1",
            "--resolve",
            "other.test=127.0.0.1",
        ];
        let url = format!("http://web.test:{}/x", server.port);
        let curl = ["curl", "-fsS", "--max-time", "10", &url];
        learn_with(case, &flags, &curl).exits(0);
        let policy = learned(case);
        assert_eq!(policy.network.allowed_hosts, [format!("web.test:{}", server.port)], "{}", text(case));
        let outcome = again(case, &curl).exits(0);
        assert!(outcome.out().starts_with("GET /x"), "{outcome:?}");
        for elsewhere in
            [format!("http://web.test:{}/x", other.port), format!("http://other.test:{}/x", server.port)]
        {
            let outcome = again(case, &["curl", "-fsS", "--max-time", "10", &elsewhere]);
            assert_ne!(outcome.code(), 0, "{outcome:?}");
        }
        assert_eq!(other.accepted(), 0);
    });
}

#[test]
fn without_network_nothing_is_reached_while_learning() {
    if !has_tool("curl") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        let url = format!("http://127.0.0.1:{}/", server.port);
        let outcome = learn_with(case, &["--no-network"], &["curl", "-fsS", "--max-time", "5", &url]);
        assert_ne!(outcome.code(), 0);
        // The guard holds as well: any public host is not the host itself.
        let outcome = learn_with(
            case,
            &["--resolve", "web.test=127.0.0.1"],
            &["curl", "-fsS", "--max-time", "5", &format!("http://web.test:{}/", server.port)],
        );
        assert_ne!(outcome.code(), 0);
        assert!(outcome.stderr.contains("web.test"), "{outcome:?}");
        assert_eq!(server.accepted(), 0);
        assert!(!learned(case).network.allow_network, "{}", text(case));
    });
}

#[test]
fn a_command_that_fails_passes_its_exit_code_on_and_the_policy_says_so() {
    as_everybody(|case| {
        let outcome = learn(case, &["sh", "-c", "exit 7"]).exits(7).tells("did not succeed");
        assert!(outcome.stderr.contains(policy_file(case).to_str().unwrap()));
        assert!(text(case).contains("exit code 7") && text(case).contains("did not succeed"));
        again(case, &["sh", "-c", "exit 7"]).exits(7);
        learn(case, &["no-such-program-anywhere"]).exits(127);
        learned(case);
        learn(case, &["sh", "-c", "kill -TERM $$"]).exits(143);
        assert!(text(case).contains("signal 15"));
        learn_with(case, &["--timeout", "300ms"], &["sleep", "10"]).exits(124).tells("--timeout");
        assert!(text(case).contains("ended by the timeout"), "{}", text(case));
    });
}
