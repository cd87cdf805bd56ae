//! What is refused before anything starts: exit 125, a sentence that helps, no line in the log.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use crate::case::{Case, Outcome, as_everybody, has_tool, ordinary};

/// Runs under a policy that must be refused.
fn refused(case: &Case, name: &str, text: impl AsRef<[u8]>) -> Outcome {
    let file = case.file(name, text);
    refused_file(case, file.to_str().unwrap())
}

fn refused_file(case: &Case, file: &str) -> Outcome {
    let outcome = case.run(["--policy", file, "--", "/bin/touch", "ran"]).exits(125).tells(file);
    assert!(outcome.took < Duration::from_secs(2), "{outcome:?}");
    assert!(!case.work.join("ran").exists());
    case.assert_nothing_started();
    outcome
}

#[test]
fn a_misspelt_key_is_named_with_its_place_and_the_nearest_key() {
    as_everybody(|case| {
        refused(case, "p.json", "{\n  \"isolationLevel\": \"LEVEL_2\",\n  \"filesystem\": {\n    \"readWritePath\": [\"/tmp\"]\n  }\n}\n")
            .tells("p.json:4:5")
            .tells("readWritePaths");
        refused(case, "p.toml", "[proces]\nallowFork = true\n").tells("p.toml:1:").tells("process");
        refused(case, "q.toml", "[resources]\nmaxcpu = 3\n").tells("q.toml:2:1").tells("maxCPU");
        refused(case, "r.toml", "[syscalls]\nsyscalls = [\"opennat\"]\n")
            .tells("r.toml:2:")
            .tells("`openat`");
    });
}

#[test]
fn wrong_types_units_and_values_are_named_with_their_place() {
    as_everybody(|case| {
        for (text, place, words) in [
            ("timeout = \"5 parsecs\"\n", ":1:", "parsecs"),
            ("timeout = \"10M\"\n", ":1:", "timeout"),
            ("[resources]\nmaxMemory = \"5s\"\n", ":2:", "maxMemory"),
            ("[resources]\nmaxMemory = -1\n", ":2:", "maxMemory"),
            ("[resources]\nmaxMemory = 0\n", ":2:", "maxMemory"),
            ("[resources]\nmaxMemory = \"99999999999999999999G\"\n", ":2:", "maxMemory"),
            ("[process]\nallowFork = \"yes\"\n", ":2:", "allowFork"),
            ("[process]\nmaxProcesses = 1.5\n", ":2:", "maxProcesses"),
            ("isolationLevel = \"LEVEL_3\"\n", ":1:", "LEVEL_3"),
            ("isolationLevel = 2\n", ":1:", "isolationLevel"),
            ("onEscape = \"ignore\"\n", ":1:", "kill"),
            ("[filesystem]\nrootPath = \"relative/root\"\n", ":2:", "not absolute"),
            ("[filesystem]\nreadOnlyPaths = [\"usr\"]\n", ":2:", "hangs in the air"),
            ("[filesystem]\nreadOnlyPaths = [\"/usr/../etc\"]\n", ":2:", ".."),
            ("[filesystem]\ndeniedPaths = [\"\"]\n", ":2:", "empty"),
            ("[filesystem]\nmaxFileSize = 10\nmaxTotalSize = 5\n", ":2:", "maxTotalSize"),
            ("[process]\nallowExec = false\nallowedExecutables = [\"/bin/true\"]\n", ":3:", "allowExec"),
            ("[process]\nallowedExecutables = [\"true\"]\n", ":2:", "not absolute"),
            ("[network]\nallowedHosts = [\"example.com\"]\n", ":2:", "allowNetwork"),
            ("[syscalls]\nmode = \"GREYLIST\"\n", ":2:", "WHITELIST"),
            ("[environment]\nallow = [\"A=B\"]\n", ":2:", "="),
            ("timeout = 5\ntimeout = 6\n", ":2:", "duplicate"),
            ("[filesystem\n", ":1:", ""),
        ] {
            refused(case, "p.toml", text).tells(place).tells(words);
        }
        refused(case, "p.json", "{\"timeout\": 5,\n \"timeout\": 6}").tells(":2:");
        refused(case, "p.json", "{\"timeout\": 5,\n}").tells(":2:");
        refused(case, "p.json", "[]").tells("p.json:1:1");
        refused(case, "p.json", "null").tells("p.json:1:1");
        refused(case, "p.json", "[".repeat(200_000)).tells("p.json:1:");
    });
}

#[test]
fn a_hint_never_leads_to_less_isolation() {
    as_everybody(|case| {
        let outcome = refused(case, "p.toml", "isolationLevel = \"LEVEL_3\"\n");
        assert!(outcome.stderr.contains("LEVEL_2") || !outcome.stderr.contains("LEVEL_0"), "{outcome:?}");
    });
}

#[test]
fn what_is_no_policy_at_all_is_refused_quickly() {
    as_everybody(|case| {
        refused(case, "garbage.json", b"\x00\xff\xfe\x80garbage".repeat(1000));
        refused(case, "garbage", b"\x7fELF\x02\x01\x01\x00".repeat(1000));
        let huge = case.work.join("huge.json");
        File::create(&huge).unwrap().set_len(100 << 20).unwrap();
        refused_file(case, huge.to_str().unwrap());
        let directory = case.work.join("directory.json");
        case.directory(&directory);
        refused_file(case, directory.to_str().unwrap());
        refused_file(case, "/dev/zero");
        refused_file(case, "/dev/null/nonesuch");
        refused_file(case, "nonesuch.json");
    });
}

#[test]
fn a_fifo_does_not_make_it_wait() {
    if !has_tool("mkfifo") {
        return;
    }
    as_everybody(|case| {
        let fifo = case.work.join("fifo.json");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        case.own(&fifo);
        refused_file(case, fifo.to_str().unwrap());
    });
}

#[test]
fn an_unreadable_policy_is_refused() {
    let case = ordinary();
    let file = case.file("p.toml", "");
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    refused_file(&case, file.to_str().unwrap()).tells("ermission denied");
}

#[test]
fn an_empty_policy_is_more_likely_an_accident() {
    as_everybody(|case| {
        refused(case, "p.toml", "").tells("empty");
        refused(case, "p.json", "").tells("p.json");
    });
}

#[test]
fn a_policy_that_lists_nothing_shows_nothing_so_nothing_is_found() {
    as_everybody(|case| {
        let file = case.file("p.toml", "isolationLevel = \"LEVEL_2\"\n");
        case.run(["--policy", file.to_str().unwrap(), "--", "/bin/true"])
            .exits(127)
            .tells("not found in the sandbox");
    });
}

#[test]
fn paths_that_only_the_kernel_makes_are_refused() {
    as_everybody(|case| {
        for (flag, path) in [
            ("--rw", "/proc"),
            ("--ro", "/proc/1"),
            ("--rw", "/sys"),
            ("--ro", "/sys/kernel"),
            ("--rw", "/dev"),
            ("--rw", "/dev/kmsg"),
        ] {
            if !std::path::Path::new(path).exists() {
                continue;
            }
            case.run([flag, path, "--", "touch", "ran"]).exits(125).tells(path);
        }
        std::os::unix::fs::symlink("/proc", case.work.join("link")).unwrap();
        case.run(["--rw", "link", "--", "touch", "ran"]).exits(125);
        assert!(!case.work.join("ran").exists());
        case.assert_nothing_started();
    });
}

#[test]
fn the_whole_root_is_refused_under_the_name_of_a_link() {
    as_everybody(|case| {
        std::os::unix::fs::symlink("/", case.work.join("link")).unwrap();
        for flag in ["--rw", "--ro"] {
            case.run([flag, "link", "--", "touch", "ran"]).exits(125).tells("root directory");
        }
        case.assert_nothing_started();
    });
}

#[test]
fn a_path_that_does_not_exist_is_refused_unless_it_is_denied() {
    as_everybody(|case| {
        for flag in ["--ro", "--rw"] {
            case.run([flag, "nonesuch", "--", "touch", "ran"])
                .exits(125)
                .tells("nonesuch")
                .tells("No such file");
        }
        case.assert_nothing_started();
        case.run(["--deny", "nonesuch", "--", "true"]).exits(0).tells_nothing();
        assert_eq!(fs::read_dir(&case.work).unwrap().count(), 0);
    });
}

#[test]
fn network_access_and_limits_that_cannot_be_enforced_are_refused() {
    as_everybody(|case| {
        let base = "[filesystem]\nreadOnlyPaths = [\"/usr\"]\n";
        // Level 1 uses the host's network, which knows no hosts.
        let lists = "[network]\nallowNetwork = true\nallowedHosts = [\"example.com\"]\n";
        let network = case.file("n.toml", format!("isolationLevel = \"LEVEL_1\"\n{base}{lists}"));
        case.run(["--policy", network.to_str().unwrap(), "--", "/bin/true"]).exits(125).tells("allowedHosts");
        let bandwidth = case.file("b.toml", format!("{base}[resources]\nmaxIOBandwidth = \"1M\"\n"));
        case.assert_nothing_started();
        // Only a control group holds it.
        if case.lazaret(["doctor"]).go().out().contains("cgroup         yes") {
            case.run(["--policy", bandwidth.to_str().unwrap(), "--", "/bin/true"]).exits(0);
        } else {
            case.run(["--policy", bandwidth.to_str().unwrap(), "--", "/bin/true"])
                .exits(125)
                .tells("maxIOBandwidth")
                .tells("doctor");
            case.assert_nothing_started();
        }
    });
}
