//! `allowedExecutables`: only the programs that are listed execute, whatever way is tried.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::case::{Case, as_everybody, has_tool};

fn policy(case: &Case, programs: &str) -> String {
    let text = format!(
        "[filesystem]\nreadOnlyPaths = [\"/usr\", \"/bin\", \"/sbin\", \"/lib\", \"/lib64\", \"/etc\"]\nreadWritePaths = [\".\"]\n\
         [process]\nallowedExecutables = [{programs}]\n[environment]\nallow = [\"PATH\", \"HOME\"]\n"
    );
    case.file("policy.toml", text).to_str().unwrap().to_owned()
}

#[test]
fn a_listed_program_runs_and_an_unlisted_one_does_not() {
    as_everybody(|case| {
        let policy = policy(case, "\"/bin/sh\", \"/usr/bin/env\"");
        case.run(["--policy", &policy, "--", "/bin/sh", "-c", "echo runs"]).exits(0).prints("runs");
        case.run(["--policy", &policy, "--", "sh", "-c", "/usr/bin/env echo-not-listed"]).exits(127);
        case.run(["--policy", &policy, "--", "sh", "-c", "/usr/bin/env sh -c 'echo both'"])
            .exits(0)
            .prints("both");
        case.run(["--policy", &policy, "--", "/usr/bin/id"]).exits(126).tells("ermission denied");
        case.run(["--policy", &policy, "--", "/bin/sh", "-c", "/usr/bin/id; echo $?"]).exits(0).prints("126");
    });
}

#[test]
fn the_dynamic_loader_does_not_run_what_is_not_listed() {
    as_everybody(|case| {
        let policy = policy(case, "\"/bin/sh\"");
        let script = "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 /lib/ld-musl-*.so.1; do
                        [ -e $l ] && $l /usr/bin/id; [ -e $l ] && $l --preload /usr/bin/id /usr/bin/id; done; true";
        let outcome = case.run(["--policy", &policy, "--", "/bin/sh", "-c", script]);
        assert_eq!(outcome.out(), "", "{outcome:?}");
    });
}

#[test]
fn a_program_that_is_brought_along_does_not_run() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let brought = case.work.join("brought");
        fs::copy("/usr/bin/id", &brought).unwrap();
        case.own(&brought);
        fs::set_permissions(&brought, fs::Permissions::from_mode(0o755)).unwrap();
        let python = fs::canonicalize("/usr/bin/python3").unwrap();
        let policy = policy(case, &format!("\"{}\"", python.display()));
        let script = "
import os, shutil, sys
def attempt(what, f):
    try: f(); print(what, 'ran')
    except OSError as e: print(what, e.errno)
def run(path):
    p = os.fork()
    if p == 0:
        try: os.execv(path, [path])
        except OSError as e: os._exit(100 + e.errno)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    if code != 113: print(path, code)
run('./brought'); run('/usr/bin/id'); run('/bin/sh')
for place in ['./copy', '/tmp/copy', '/dev/shm/copy', '/var/tmp/copy', os.environ['HOME'] + '/copy']:
    shutil.copy('/usr/bin/id', place); os.chmod(place, 0o755); run(place)
os.symlink('/usr/bin/id', './link'); run('./link')
with open('script', 'w') as f: f.write('#!/bin/sh\\necho script ran\\n')
os.chmod('script', 0o755); run('./script')
attempt('memfd', lambda: os.memfd_create('x'))
import mmap
f = os.open('./copy', os.O_RDONLY)
attempt('map', lambda: mmap.mmap(f, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
attempt('fexecve', lambda: os.execve(f, ['id'], {}))";
        let outcome = case.python(&["--policy", &policy], script).exits(0);
        let text = outcome.out();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{outcome:?}");
        assert_eq!(lines[0], "memfd 1");
        assert!(["map 1", "map 13"].contains(&lines[1]), "{outcome:?}");
        assert!(["fexecve 1", "fexecve 13"].contains(&lines[2]), "{outcome:?}");
    });
}

#[test]
fn a_listed_program_through_a_link_is_the_program_itself() {
    as_everybody(|case| {
        // /bin/sh is a link on most systems.
        let policy = policy(case, "\"/bin/sh\"");
        case.run(["--policy", &policy, "--", "/usr/bin/sh", "-c", "echo runs"]).exits(0).prints("runs");
    });
}

#[test]
fn a_listed_program_that_does_not_exist_is_a_refusal() {
    as_everybody(|case| {
        let policy = policy(case, "\"/usr/bin/no-such-program\"");
        case.run(["--policy", &policy, "--", "/bin/true"]).exits(125).tells("/usr/bin/no-such-program");
        case.assert_nothing_started();
    });
}

#[test]
fn a_listed_program_in_the_current_directory_runs_and_cannot_be_replaced() {
    as_everybody(|case| {
        let mine = case.work.join("mine");
        fs::copy("/usr/bin/env", &mine).unwrap();
        case.own(&mine);
        let policy = policy(case, &format!("\"{}\", \"/bin/sh\"", mine.display()));
        case.run(["--policy", &policy, "--", "./mine", "-u", "X", "/bin/sh", "-c", "echo runs"])
            .exits(0)
            .prints("runs");
        let script = "cat /usr/bin/id > mine; cat /usr/bin/id > new; mv new mine; ./mine 2>/dev/null; true";
        case.run(["--policy", &policy, "--", "/bin/sh", "-c", script]);
        let outcome =
            case.run(["--policy", &policy, "--", "/bin/sh", "-c", "./mine -u X /bin/sh -c 'echo still'"]);
        outcome.exits(0).prints("still");
    });
}
