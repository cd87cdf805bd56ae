//! Limits and switches of a policy: processes, sizes, descriptors, time, violations.

use std::{fs, time::Duration};

use crate::case::{Case, as_everybody, has_tool, marker, processes_with};

/// A policy like the default one, with something on top.
pub fn policy(case: &Case, rest: &str) -> String {
    let (top, sections) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
    let filesystem = "readOnlyPaths = [\"/usr\", \"/bin\", \"/sbin\", \"/lib\", \"/lib64\", \"/etc\"]\nreadWritePaths = [\".\"]\n";
    let sections = match sections.strip_prefix("[filesystem]\n") {
        Some(more) => format!("[filesystem]\n{filesystem}{more}"),
        None => format!("[filesystem]\n{filesystem}{sections}"),
    };
    let text = format!("{top}\n{sections}\n[environment]\nallow = [\"PATH\", \"HOME\"]\n");
    case.file(format!("{}.toml", marker()), text).to_str().unwrap().to_owned()
}

#[test]
fn without_fork_no_process_is_started_but_threads_are() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[process]\nallowFork = false\n");
        let script = "
import os, threading, subprocess, ctypes
t = threading.Thread(target=lambda: print('a thread')); t.start(); t.join()
for attempt in [os.fork, lambda: subprocess.run(['/bin/true']), lambda: os.posix_spawn('/bin/true', ['true'], {})]:
    try: attempt(); print('started')
    except OSError as e: print(e.errno)
libc = ctypes.CDLL(None, use_errno=True)
print(libc.vfork(), ctypes.get_errno())";
        let outcome = case.python(&["--policy", &policy], script).exits(0).prints("a thread\n1\n1\n1\n-1 1");
        outcome.tells("to allow: process.allowFork = true");
        case.sh_with(&["--policy", &policy], "echo builtins work; /bin/true; echo went on")
            .tells("process.allowFork");
    });
}

#[test]
fn without_exec_nothing_is_executed_after_the_start() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[process]\nallowExec = false\n");
        let script = "
import os, threading
def execute():
    try: os.execv('/bin/true', ['true'])
    except OSError as e: print(e.errno, flush=True)
execute(); execute()
t = threading.Thread(target=execute); t.start(); t.join()
f = os.open('/bin/true', os.O_RDONLY)
try: os.execve(f, ['true'], {})
except OSError as e: print(e.errno, flush=True)
p = os.fork()
if p == 0: execute(); os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))";
        case.python(&["--policy", &policy], script)
            .exits(0)
            .prints("1\n1\n1\n1\n1\n3")
            .tells("process.allowExec = true");
    });
}

#[test]
fn no_more_processes_than_allowed() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import os, signal
n = 1
try:
    while n < 200:
        if os.fork() == 0: signal.pause(); os._exit(0)
        n += 1
except OSError: pass
print(n)";
        let policy = policy(case, "[process]\nmaxProcesses = 10\n");
        let count: u32 = case.python(&["--policy", &policy], script).exits(0).out().parse().unwrap();
        assert!((8..=10).contains(&count), "{count} processes");
        let count: u32 = case.python(&["--max-procs", "5"], script).exits(0).out().parse().unwrap();
        assert!((3..=5).contains(&count), "{count} processes");
    });
}

#[test]
fn a_fork_bomb_ends_with_the_clock_and_leaves_nothing() {
    as_everybody(|case| {
        let marker = marker();
        let script = "f() { f | f & }; f 2>/dev/null; sleep 30";
        let outcome =
            case.run(["--max-procs", "50", "--timeout", "1s", "--", "sh", "-c", script, &marker]).exits(124);
        assert!(outcome.took < Duration::from_secs(8), "{outcome:?}");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
    });
}

#[test]
fn no_file_grows_beyond_the_limit() {
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxFileSize = \"1M\"\nmaxTotalSize = \"10M\"\n");
        for target in ["file", "/tmp/file"] {
            let script =
                format!("dd if=/dev/zero of={target} bs=64k count=64 2>/dev/null; stat -c %s {target}");
            case.sh_with(&["--policy", &policy], &script).exits(0).prints("1048576");
        }
        assert_eq!(fs::metadata(case.work.join("file")).unwrap().len(), 1 << 20);
        let script = "dd if=/dev/zero of=other bs=64k count=64 2>/dev/null; stat -c %s other";
        case.sh_with(&["--max-write", "512K"], script).exits(0).prints("524288");
    });
}

#[test]
fn no_more_descriptors_than_allowed() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[resources]\nmaxFileDescriptors = 20\n");
        let script = "
import os, resource
n = 3
try:
    while n < 500: os.dup(0); n += 1
except OSError: pass
print(n)
try: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500)); print('raised')
except Exception: pass";
        let count: u32 = case.python(&["--policy", &policy], script).exits(0).out().parse().unwrap();
        assert!((18..=20).contains(&count), "{count} descriptors");
    });
}

#[test]
fn private_storage_has_a_bottom() {
    as_everybody(|case| {
        let policy = policy(case, "[filesystem]\nmaxTotalSize = \"4M\"\nmaxInodes = 100\n");
        let script = "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=$1/f$i bs=64k count=16 2>/dev/null; done; du -sk $1 | cut -f1";
        for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
            let outcome = case.run(["--policy", &policy, "--", "sh", "-c", script, "sh", directory]).exits(0);
            let used: u64 = outcome.out().parse().unwrap();
            assert!((3 * 1024..=4 * 1024 + 512).contains(&used), "{directory}: {used} K");
        }
        // The directories share one budget.
        let script = "for d in /tmp /var/tmp /dev/shm $HOME; do dd if=/dev/zero of=$d/f bs=64k count=64 2>/dev/null; done; \
                      cat /tmp/f /var/tmp/f /dev/shm/f $HOME/f 2>/dev/null | wc -c";
        let used: u64 = case.sh_with(&["--policy", &policy], script).exits(0).out().parse().unwrap();
        assert!(used <= (4 << 20) + (1 << 19), "{used} bytes");
        let script = "i=0; while [ $i -lt 2000 ]; do true > /tmp/$i || break; i=$((i+1)); done 2>/dev/null; ls /tmp | wc -l";
        let files: u64 = case.sh_with(&["--policy", &policy], script).out().parse().unwrap();
        assert!(files <= 400, "{files} files");
    });
}

#[test]
fn a_timeout_in_the_policy_holds() {
    as_everybody(|case| {
        let policy = policy(case, "timeout = \"300ms\"\n");
        case.run(["--policy", &policy, "--", "sleep", "30"]).exits(124).tells("longer than");
    });
}

#[test]
fn cpu_time_is_limited_and_the_end_is_told() {
    as_everybody(|case| {
        let report = case.work.join("report.json");
        let outcome = case
            .run([
                "--cpu-time",
                "1s",
                "--report",
                report.to_str().unwrap(),
                "--",
                "sh",
                "-c",
                "while :; do :; done",
            ])
            .exits(137);
        assert!(outcome.took < Duration::from_secs(6), "{outcome:?}");
        outcome.tells("CPU");
    });
}

#[test]
fn memory_is_limited() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let outcome = case.python(&["--memory", "100M"], "x = bytearray(400 << 20); print(len(x))");
        assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
        case.python(&["--memory", "500M"], "x = bytearray(100 << 20); print(len(x))")
            .exits(0)
            .prints("104857600");
    });
}

#[test]
fn too_many_violations_end_the_sandbox() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "maxViolations = 5\n");
        let script = "
import socket
for n in range(100):
    print(n, flush=True)
    try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    except OSError: pass";
        let outcome = case.python(&["--policy", &policy], script).exits(137).tells("maxViolations");
        assert_eq!(outcome.out(), "0\n1\n2\n3\n4", "{outcome:?}");
    });
}

#[test]
fn on_escape_of_the_policy_holds_and_the_flag_overrides_it() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let deny = policy(case, "onEscape = \"deny\"\n");
        let kill = policy(case, "onEscape = \"kill\"\n");
        let script = "mount -t tmpfs none /tmp; echo went on";
        case.sh_with(&["--policy", &deny], script).exits(0).prints("went on");
        case.sh_with(&["--policy", &kill], script).exits(137).prints("");
        case.sh_with(&["--policy", &deny, "--on-escape", "kill"], script).exits(137).prints("");
        case.sh_with(&["--policy", &kill, "--on-escape", "deny"], script).exits(0).prints("went on");
        case.sh_with(&["--policy", &kill, "--level", "1"], script).exits(137).prints("");
    });
}

#[test]
fn a_denied_system_call_of_the_policy_is_refused() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(case, "[syscalls]\nmode = \"BLACKLIST\"\nsyscalls = [\"getcwd\", \"symlink\"]\n");
        let script = "
import os
for attempt in [os.getcwd, lambda: os.symlink('a', 'b')]:
    try: attempt(); print('done')
    except OSError as e: print(e.errno)";
        case.python(&["--policy", &policy], script)
            .exits(0)
            .prints("1\n1")
            .tells("system call getcwd")
            .tells("system call symlink");
    });
}
