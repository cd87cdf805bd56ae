//! Levels 0 and 1.

use std::{fs, path::Path};

use serde_json::json;

use crate::case::{Case, OTHER, Who, as_everybody, has_root, has_tool};

#[test]
fn level_0_is_refused_without_the_administrators_approval() {
    if Path::new("/etc/lazaret/approvals.toml").exists() {
        crate::case::not_run("this host has approvals of its own");
        return;
    }
    as_everybody(|case| {
        case.run(["--level", "0", "--", "touch", "ran"])
            .exits(125)
            .tells("level 0")
            .tells("/etc/lazaret/approvals.toml")
            .tells("approval");
        let policy = case.file("p.toml", "isolationLevel = \"LEVEL_0\"\n");
        case.run(["--policy", policy.to_str().unwrap(), "--", "touch", "ran"]).exits(125);
        case.run(["--warn", "--level", "0", "--", "touch", "ran"]).exits(125);
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

/// In a mount namespace of its own, so that the host's /etc stays as it is.
const APPROVING: &str = "mount -t tmpfs none /etc && mkdir -m 755 /etc/lazaret && \
    printf '[[approval]]\\nprogram = \"/bin/sh\"\\nreason = \"a test\"\\n' > /etc/lazaret/approvals.toml && \
    chmod \"$MODE\" /etc/lazaret/approvals.toml && \
    exec setpriv --reuid \"$AS\" --regid \"$AS\" --clear-groups \"$@\"";

#[test]
fn level_0_runs_what_the_administrator_approved_and_records_it() {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    // Started by root; setpriv makes it whoever it is to be.
    for uid in [0, OTHER] {
        let case = Case::new(Who::Caller);
        for directory in [&case.root, &case.work, &case.home, &case.state] {
            std::os::unix::fs::chown(directory, Some(uid), Some(uid)).unwrap();
        }
        let run = |mode: &str, args: &[&str]| {
            case.running(["--level", "0", "--"].iter().chain(args))
                .under(["unshare", "-m", "sh", "-c", APPROVING, "sh"])
                .env("MODE", mode)
                .env("AS", uid.to_string())
                .go()
        };
        run("644", &["/bin/sh", "-c", "id -u; exit 3"]).exits(3).prints(&uid.to_string());
        run("644", &["sh", "-c", "exit 4"]).exits(4);
        let used = case.events_of("LEVEL0_USED");
        assert_eq!(used.len(), 2, "{used:?}");
        assert_eq!(used[0]["details"]["reason"], json!("a test"));
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 2);
        run("644", &["touch", "ran"]).exits(125).tells("approval");
        for mode in ["666", "664"] {
            run(mode, &["/bin/sh", "-c", "touch ran"]).exits(125).tells("not safe to trust");
        }
        assert!(!case.work.join("ran").exists());
        assert_eq!(case.events_of("LEVEL0_USED").len(), 2);
    }
}

#[test]
fn level_1_has_its_own_processes_and_files_but_the_hosts_network() {
    as_everybody(|case| {
        let beside = case.file(case.root.join("beside/file"), "s");
        let run = |script: &str| case.sh_with(&["--level", "1"], script);
        run("readlink /proc/self/ns/net")
            .exits(0)
            .prints(fs::read_link("/proc/self/ns/net").unwrap().to_str().unwrap());
        for name in ["pid", "mnt", "user"] {
            let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert_ne!(run(&format!("readlink /proc/self/ns/{name}")).out(), outside.to_str().unwrap());
        }
        run("echo /proc/[0-9]*; cat /proc/1/comm").exits(0).prints("/proc/1 /proc/2\nlazaret-init");
        run(&format!(
            "cat {0}; echo x > {0}; ls /home /run /root; cat /etc/shadow; echo x > made",
            beside.display()
        ))
        .exits(0)
        .prints("");
        assert!(case.work.join("made").exists());
        assert_eq!(fs::read_to_string(beside).unwrap(), "s");
        assert_eq!(case.events()[0]["details"]["level"], json!(1));
    });
}

#[test]
fn level_1_reaches_a_server_on_the_host_when_the_policy_allows_the_network() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let script =
            format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('connected')");
        let policy = case.file(
            "p.toml",
            "isolationLevel = \"LEVEL_1\"\n[filesystem]\nreadOnlyPaths = [\"/usr\", \"/lib\", \"/lib64\", \"/bin\"]\n\
             [network]\nallowNetwork = true\n",
        );
        case.python(&["--policy", policy.to_str().unwrap()], &script).exits(0).prints("connected");
        case.python(&["--level", "1"], &script).exits(1).prints("").tells("network.allowNetwork = true");
        case.python(&["--level", "2"], &script).exits(1).prints("");
    });
}

#[test]
fn level_1_denies_an_escape_attempt_and_goes_on() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        case.sh_with(&["--level", "1"], "mount -t tmpfs none /tmp; echo went on")
            .exits(0)
            .prints("went on")
            .tells("system call mount");
        case.sh_with(&["--level", "1", "--on-escape", "kill"], "mount -t tmpfs none /tmp; echo went on")
            .exits(137)
            .prints("");
    });
}
