//! The checklists of RFC-0002, row by row: §9.3, §12.1, §12.2 and §12.3. Each test is named after its row and
//! checks it by itself; the same matters are tried in more ways elsewhere. Where it is harmless, the probe is
//! shown to work without the sandbox.

use std::{
    fs::{self, Permissions},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, symlink},
            net::{SocketAddr, UnixListener},
            process::CommandExt,
        },
    },
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    case::{
        Case, OTHER, Outcome, PATH, Running, Who, as_everybody, eventually, has_tool, marker, not_run,
        processes_with,
    },
    limits::policy,
    telling::report_of,
};

/// The same without a sandbox, as whoever runs the case.
fn outside(case: &Case, command: &[&str]) -> Outcome {
    let mut outside = Command::new(command[0]);
    outside.args(&command[1..]).current_dir(&case.work).env_clear().env("PATH", PATH).env("HOME", &case.home);
    outside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if case.who == Who::Other {
        outside.uid(OTHER).gid(OTHER);
    }
    Running::new(outside.spawn().unwrap()).finish()
}

fn sh_outside(case: &Case, script: &str) -> Outcome {
    outside(case, &["sh", "-c", script])
}

fn python_outside(case: &Case, script: &str) -> Outcome {
    outside(case, &["/usr/bin/python3", "-c", script])
}

/// A file of the host that is not in the view.
fn beside(case: &Case) -> String {
    case.file(case.root.join("beside"), "precious").to_str().unwrap().to_owned()
}

fn is_x86_64() -> bool {
    if !cfg!(target_arch = "x86_64") {
        not_run("the numbers of system calls are those of x86_64");
    }
    cfg!(target_arch = "x86_64")
}

// §9.3, escape prevention

#[test]
fn path_validation_prevents_traversal() {
    as_everybody(|case| {
        let beside = beside(case);
        case.directory(&case.work.join("sub"));
        for path in ["../beside", "sub/../../beside", "./.././project/../beside", &beside] {
            let script = format!("cat '{path}'");
            sh_outside(case, &script).exits(0).prints("precious");
            case.sh(&script).exits(1).prints("");
        }
    });
}

#[test]
fn symlinks_are_resolved_and_validated() {
    as_everybody(|case| {
        let beside = beside(case);
        case.file("denied", "precious");
        symlink(&beside, case.work.join("out")).unwrap();
        symlink("denied", case.work.join("alias")).unwrap();
        for link in ["out", "alias"] {
            sh_outside(case, &format!("cat {link}")).exits(0).prints("precious");
            case.run(["--deny", "denied", "--", "cat", link]).exits(1).prints("");
        }
        // Made inside, too, and through more than one.
        let script = format!("ln -s {beside} a; ln -s a b; ln -s denied c; cat b; cat c");
        case.sh_with(&["--deny", "denied"], &script).exits(1).prints("");
    });
}

#[test]
fn process_namespace_prevents_host_visibility() {
    as_everybody(|case| {
        let marker = marker();
        let mut bystander = Command::new("sleep").arg0(&marker).arg("30").spawn().unwrap();
        eventually("the bystander runs", || !processes_with(&marker).is_empty());
        let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done";
        let seen = sh_outside(case, script);
        let inside = case.sh(script);
        let alive = bystander.try_wait().unwrap().is_none();
        bystander.kill().unwrap();
        bystander.wait().unwrap();
        assert!(alive && seen.out().contains(&marker), "{seen:?}");
        assert!(!inside.out().contains(&marker) && inside.out().len() < 500, "{inside:?}");
    });
}

#[test]
fn network_namespace_prevents_unauthorized_access() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let script =
            format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('connected')");
        python_outside(case, &script).exits(0).prints("connected");
        case.python(&[], &script).exits(1).prints("");
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(case.sh("readlink /proc/self/ns/net").exits(0).out(), own.to_str().unwrap());
    });
}

/// RFC-0002 §8.2, with the numbers of x86_64; `umount` is `umount2` there.
const DANGEROUS: [(&str, u32); 13] = [
    ("ptrace", 101),
    ("kexec_load", 246),
    ("open_by_handle_at", 304),
    ("perf_event_open", 298),
    ("bpf", 321),
    ("userfaultfd", 323),
    ("io_uring_setup", 425),
    ("mount", 165),
    ("umount2", 166),
    ("pivot_root", 155),
    ("chroot", 161),
    ("unshare", 272),
    ("setns", 308),
];

fn syscall(number: u32) -> String {
    format!(
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.syscall(ctypes.c_long({number}), 0, 0, 0, 0, 0), ctypes.get_errno())"
    )
}

#[test]
fn seccomp_filters_block_dangerous_syscalls() {
    if !has_tool("python3") || !is_x86_64() {
        return;
    }
    as_everybody(|case| {
        // The one that is harmless everywhere: unshare of nothing.
        python_outside(case, &syscall(272)).exits(0).prints("0 0");
        for (name, number) in DANGEROUS {
            case.python(&["--on-escape", "deny"], &syscall(number)).exits(0).prints("-1 1");
            let blocked = case.events_of("SYSCALL_BLOCKED");
            assert_eq!(blocked.last().unwrap()["details"]["syscall"]["name"], json!(name));
            assert_eq!(blocked.last().unwrap()["details"]["syscall"]["number"], json!(number));
        }
        // And clone, where fork is not allowed.
        let no_fork = policy(case, "[process]\nallowFork = false\n");
        let fork = "import os\ntry: os.fork(); print('forked')\nexcept OSError as e: print(e.errno)";
        case.python(&["--policy", &no_fork], fork).exits(0).prints("1");
    });
}

#[test]
fn resource_limits_prevent_exhaustion() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let memory = "x = []\nfor n in range(30): x.append(b'x' * (10 << 20) + b'y')\nprint(len(x))";
        python_outside(case, memory).exits(0).prints("30");
        case.python(&["--memory", "64M"], memory).exits(137).prints("").tells("--memory");
        let spin = "import time\nwhile time.process_time() < 3: pass\nprint('spun')";
        case.python(&["--cpu-time", "500ms"], spin).exits(137).prints("").tells("--cpu-time");
    });
}

const CAPABILITIES: &str = "grep ^Cap /proc/self/status | tr -d ' \\t'";

#[test]
fn capability_set_is_minimized() {
    as_everybody(|case| {
        let none: Vec<String> = ["Inh", "Prm", "Eff", "Bnd", "Amb"]
            .iter()
            .map(|set| format!("Cap{set}:0000000000000000"))
            .collect();
        assert_ne!(sh_outside(case, CAPABILITIES).out(), none.join("\n"));
        case.sh(CAPABILITIES).exits(0).prints(&none.join("\n"));
        case.sh_with(&["--level", "1"], CAPABILITIES).exits(0).prints(&none.join("\n"));
    });
}

#[test]
fn mount_namespace_prevents_escape() {
    as_everybody(|case| {
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        let (before, beside) = (mounts(), beside(case));
        let own = fs::read_link("/proc/self/ns/mnt").unwrap();
        assert_ne!(case.sh("readlink /proc/self/ns/mnt").exits(0).out(), own.to_str().unwrap());
        for way in [
            format!("cat /proc/1/root{beside}"),
            format!("cat /proc/self/root{beside}"),
            format!("cd /; cat ../../../..{beside}"),
            format!("cat /proc/self/cwd/..{beside}"),
        ] {
            sh_outside(case, &format!("cat {beside}")).prints("precious");
            case.sh(&way).exits(1).prints("");
        }
        if has_tool("mount") {
            let script = "mount --bind / /tmp; mount -o remount,rw /usr; umount /tmp; echo went on";
            case.sh(script).exits(137).prints("");
            case.sh_with(&["--on-escape", "deny"], script).exits(0).prints("went on");
        }
        assert_eq!(mounts(), before);
    });
}

// §12.1, implementation

#[test]
fn all_isolation_levels_are_implemented() {
    as_everybody(|case| {
        if Path::new("/etc/lazaret/approvals.toml").exists() {
            not_run("this host has approvals of its own");
        } else {
            case.run(["--level", "0", "--", "true"]).exits(125).tells("administrator's approval");
        }
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let script = "readlink /proc/self/ns/pid; readlink /proc/self/ns/mnt; readlink /proc/self/ns/net";
        for (level, own_network) in [("1", false), ("2", true)] {
            let (report, outcome) = report_of(case, &["--level", level, "--", "sh", "-c", script]);
            assert_eq!(report["level"].to_string(), level);
            let out = outcome.exits(0).out();
            let lines: Vec<&str> = out.lines().collect();
            assert_ne!(lines[0], namespace("pid").to_str().unwrap());
            assert_ne!(lines[1], namespace("mnt").to_str().unwrap());
            assert_eq!(lines[2] != namespace("net").to_str().unwrap(), own_network, "level {level}");
        }
    });
}

#[test]
fn filesystem_isolation_is_enforced() {
    as_everybody(|case| {
        let beside = beside(case);
        case.sh(&format!("cat {beside}; ls {}", case.root.display()));
        let listed = case.sh(&format!("ls {}", case.root.display())).out();
        assert!(!listed.contains("beside") && sh_outside(case, "ls ..").out().contains("beside"), "{listed}");
        let name = marker();
        case.sh(&format!("echo x > made; echo x > /tmp/{name}; echo x > /usr/{name}; echo x > ~/{name}"));
        assert!(case.work.join("made").exists());
        for directory in [Path::new("/tmp"), Path::new("/usr"), &case.home] {
            assert!(!directory.join(&name).exists(), "{}", directory.display());
        }
        case.run(["--ro", ".", "--", "sh", "-c", "echo y >> made"]);
        case.file(case.root.join("read/only"), "o");
        let only = case.root.join("read/only");
        let script = format!("cat {0}; echo x > {0}; rm -f {0}", only.display());
        let read = case.run(["--ro", only.parent().unwrap().to_str().unwrap(), "--", "sh", "-c", &script]);
        assert_eq!(
            (read.out().as_str(), fs::read_to_string(&only).unwrap().as_str()),
            ("o", "o"),
            "{read:?}"
        );
    });
}

#[test]
fn process_isolation_is_enforced() {
    as_everybody(|case| {
        case.sh("cat /proc/1/comm; echo /proc/[0-9]*").exits(0).prints("lazaret-init\n/proc/1 /proc/2");
        let marker = marker();
        let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 30; :' $0 &); sleep 0.1";
        case.run(["--", "sh", "-c", script, &marker]).exits(0);
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        let ids = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        for name in ["pid", "ipc", "uts", "user", "cgroup"] {
            let inside = case.sh(&format!("readlink /proc/self/ns/{name}")).exits(0).out();
            assert_ne!(inside, ids(name).to_str().unwrap(), "{name}");
        }
    });
}

#[test]
fn network_isolation_is_enforced() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // A loopback of its own, that works and leads nowhere else.
        let script = "
import os, socket
print([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])
s = socket.create_server(('127.0.0.1', 0))
socket.create_connection(s.getsockname()).send(b'hello')
print(s.accept()[0].recv(5).decode())
print(socket.socket().connect_ex(('192.0.2.1', 80)) != 0)";
        case.python(&[], script).exits(0).prints("['lo']\nhello\nTrue").tells("connection to 192.0.2.1:80");
        let told = case.events_of("POLICY_VIOLATION");
        assert!(told.iter().any(|event| event["details"]["type"] == "NETWORK"), "{told:?}");
        // With network, only what is listed.
        let allowed = policy(case, "[network]\nallowNetwork = true\nallowedHosts = [\"example.com\"]\n");
        let script = "import socket; print(socket.socket().connect_ex(('192.0.2.1', 80)))";
        let denied = case.python(&["--policy", &allowed], script).exits(0).prints("13");
        denied.tells("connection to 192.0.2.1:80").tells("--allow 192.0.2.1:80");
    });
}

#[test]
fn resource_limits_are_enforced() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let policy = policy(
            case,
            "[filesystem]\nmaxFileSize = \"1M\"\n[process]\nmaxProcesses = 5\n[resources]\nmaxFileDescriptors = 20\n",
        );
        let script = "
import os, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def count(act):
    n = 0
    try:
        while n < 100: act(); n += 1
    except OSError: pass
    return n
descriptors = []
print(count(lambda: descriptors.append(os.dup(0))) < 20)
for descriptor in descriptors: os.close(descriptor)
f = os.open('large', os.O_CREAT | os.O_WRONLY)
count(lambda: os.write(f, b'x' * 65536))
print(os.fstat(f).st_size)
def fork():
    if os.fork() == 0: time.sleep(30)
print(count(fork) < 5)";
        python_outside(case, &script.replace("def fork():", "def fork():\n    return"))
            .exits(0)
            .prints("False\n6553600\nFalse");
        fs::remove_file(case.work.join("large")).unwrap();
        case.python(&["--policy", &policy], script).exits(0).prints("True\n1048576\nTrue");
        let limits = case.events_of("RESOURCE_LIMIT_EXCEEDED");
        assert!(!limits.is_empty());
    });
}

#[test]
fn seccomp_filtering_is_active() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status | tr -d ' \\t'";
        case.sh(script).exits(0).prints("NoNewPrivs:1\nSeccomp:2");
        case.sh_with(&["--level", "1"], script).exits(0).prints("NoNewPrivs:1\nSeccomp:2");
        let (report, _) = report_of(case, &["--", "true"]);
        assert!(report["enforcement"]["layers"].as_array().unwrap().contains(&json!("seccomp")));
        // A list of the policy's own.
        let policy = policy(case, "[syscalls]\nmode = \"BLACKLIST\"\nsyscalls = [\"getcwd\"]\n");
        let attempt = "import os\ntry: os.getcwd(); print('done')\nexcept OSError as e: print(e.errno)";
        python_outside(case, attempt).prints("done");
        case.python(&[], attempt).prints("done");
        case.python(&["--policy", &policy], attempt).exits(0).prints("1");
    });
}

#[test]
fn escape_detection_is_active() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let (report, outcome) =
            report_of(case, &["--", "sh", "-c", "mount -t tmpfs none /tmp; touch went-on"]);
        outcome.exits(137).tells("escape attempt");
        assert!(!case.work.join("went-on").exists());
        let attempts = case.events_of("ESCAPE_ATTEMPT");
        assert_eq!(attempts.len(), 1);
        let indicator = &attempts[0]["details"]["indicator"];
        assert_eq!((&indicator["type"], &indicator["severity"]), (&json!("SYSCALL"), &json!("CRITICAL")));
        assert!(Path::new(report["trace"].as_str().unwrap()).is_file());
    });
}

#[test]
fn audit_events_are_emitted() {
    if !has_tool("mount") || !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        case.sh("echo x > /etc/lazaret-it; true").exits(0);
        case.sh("mount -t tmpfs none /tmp").exits(137);
        case.python(&["--memory", "64M"], "x = b'x' * (200 << 20)").exits(137);
        let events = case.events();
        for kind in [
            "SANDBOX_CREATED",
            "SANDBOX_ENTERED",
            "SANDBOX_EXITED",
            "SANDBOX_DESTROYED",
            "POLICY_VIOLATION",
            "ESCAPE_ATTEMPT",
            "RESOURCE_LIMIT_EXCEEDED",
            "SYSCALL_BLOCKED",
        ] {
            assert!(events.iter().any(|event| event["event"] == kind), "{kind}");
        }
        let mut ids: Vec<&str> = events.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), events.len());
        for event in &events {
            assert!(event["sandboxId"].as_str().unwrap().starts_with("sb-"), "{event}");
            assert!(event["timestamp"].as_u64().unwrap() > 1_600_000_000_000 && event["details"].is_object());
        }
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

// §12.2, security

#[test]
fn path_traversal_is_prevented() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        beside(case);
        let script = "
import os
def by_descriptor():
    d = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
    return os.open('../beside', os.O_RDONLY, dir_fd=d)
def by_climbing():
    os.chdir('..'); return os.open('beside', os.O_RDONLY)
def by_proc():
    return os.open('/proc/self/cwd/../project/../beside', os.O_RDONLY)
here = os.getcwd()
for way in (by_descriptor, by_climbing, by_proc):
    try: print(os.read(way(), 100).decode())
    except OSError: print('no')
    os.chdir(here)";
        python_outside(case, script).exits(0).prints("precious\nprecious\nprecious");
        case.python(&[], script).exits(0).prints("no\nno\nno");
    });
}

#[test]
fn symlink_attacks_are_prevented() {
    as_everybody(|case| {
        let beside = beside(case);
        let script = format!("rm -f x; ln -s {beside} x; echo evil > x");
        sh_outside(case, &script).exits(0);
        assert_eq!(fs::read_to_string(&beside).unwrap().trim(), "evil");
        fs::write(&beside, "precious").unwrap();
        case.sh(&script);
        assert_eq!(fs::read_to_string(&beside).unwrap(), "precious");
        // A link in the place of a directory that is written into from outside afterwards.
        let report = case.work.join("report.json");
        let script = format!("rm -f report.json; ln -sf {beside} report.json; true");
        case.run(["--report", report.to_str().unwrap(), "--", "sh", "-c", &script]);
        assert_eq!(fs::read_to_string(&beside).unwrap(), "precious");
    });
}

#[test]
fn process_escape_is_prevented() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        // What a daemon does: it outlives the shell that started it, outside.
        let script = "setsid sleep 20 >/dev/null 2>&1 </dev/null & echo $!";
        let pid: i32 = sh_outside(case, script).exits(0).out().parse().unwrap();
        let survived = Path::new(&format!("/proc/{pid}")).exists();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        assert!(survived);
        let marker = marker();
        let script = "(setsid sh -c 'trap \"\" TERM HUP INT; touch ready; sleep 20; :' $0 >/dev/null 2>&1 </dev/null &); while [ ! -e ready ]; do sleep 0.01; done";
        case.run(["--", "sh", "-c", script, &marker]).exits(0);
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        // The namespaces of others cannot be entered.
        if has_tool("nsenter") {
            case.sh("nsenter -t 1 -m -p touch entered").exits(1);
            case.sh("nsenter -t $$ -u touch entered");
            assert!(!case.work.join("entered").exists());
        }
    });
}

#[test]
fn network_exfiltration_is_prevented() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let port = datagrams.local_addr().unwrap().port();
        let script = format!(
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'secret', ('127.0.0.1', {port}))"
        );
        let mut buffer = [0; 16];
        python_outside(case, &script).exits(0);
        assert_eq!(datagrams.recv(&mut buffer).unwrap(), 6);
        case.python(&[], &script);
        assert!(datagrams.recv(&mut buffer).is_err());
        // Nor by sockets that have names instead of addresses.
        let name = marker();
        let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let _named = UnixListener::bind(case.work.join("socket")).unwrap();
        fs::set_permissions(case.work.join("socket"), Permissions::from_mode(0o777)).unwrap();
        let script = format!(
            "
import socket
for address in ('\\0{name}', 'socket'):
    try: socket.socket(socket.AF_UNIX).connect(address); print('connected')
    except OSError: print('no')"
        );
        python_outside(case, &script).exits(0).prints("connected\nconnected");
        case.python(&[], &script).exits(0).prints("no\nno");
    });
}

#[test]
fn privilege_escalation_is_prevented() {
    as_everybody(|case| {
        // Whoever it is inside, on the host it is nobody with rights.
        let marker = marker();
        let running = case.running(["--", "sh", "-c", "touch ready; sleep 5; :", &marker]).start();
        eventually("the command is ready", || case.work.join("ready").exists());
        let own = running.pid();
        for pid in processes_with(&marker).into_iter().filter(|pid| *pid != own) {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
            assert!(uids.split_whitespace().all(|uid| uid != "0"), "process {pid} has {uids}");
            assert!(!uids.is_empty());
        }
        running.signal(rustix::process::Signal::TERM);
        running.finish();
        // A file cannot be made into one that acts as somebody else.
        let script = "cp /bin/true t && chmod u+s t";
        sh_outside(case, script).exits(0);
        assert!(fs::metadata(case.work.join("t")).unwrap().permissions().mode() & 0o4000 != 0);
        fs::remove_file(case.work.join("t")).unwrap();
        case.sh(script).exits(1);
        assert!(fs::metadata(case.work.join("t")).unwrap().permissions().mode() & 0o6000 == 0);
        case.sh("grep NoNewPrivs /proc/self/status | tr -d ' \\t'").exits(0).prints("NoNewPrivs:1");
    });
}

#[test]
fn resource_exhaustion_is_prevented() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let forks = "
import os, time
n = 1
try:
    for i in range(40):
        if os.fork() == 0: time.sleep(5); os._exit(0)
        n += 1
except OSError: pass
print(n, flush=True)
os._exit(0)";
        let count: u32 = case.python(&["--max-procs", "10"], forks).exits(0).out().parse().unwrap();
        assert!((5..=10).contains(&count), "{count} processes");
        let writes = "
import time
for n in range(60): open('f%d' % n, 'wb').write(b'x' * (1 << 20))
time.sleep(1)";
        case.python(&["--max-write", "5M"], writes).exits(137).tells("--max-write");
        let written: u64 =
            fs::read_dir(&case.work).unwrap().flatten().map(|entry| entry.metadata().unwrap().len()).sum();
        assert!(written < 55 << 20, "{written} bytes");
        case.run(["--timeout", "300ms", "--", "sleep", "30"]).exits(124);
    });
}

#[test]
fn dangerous_syscalls_are_blocked() {
    if !has_tool("python3") || !is_x86_64() {
        return;
    }
    as_everybody(|case| {
        for (name, number) in DANGEROUS {
            let critical =
                ["mount", "umount2", "pivot_root", "setns", "open_by_handle_at", "kexec_load", "bpf"];
            let outcome = case.python(&[], &syscall(number));
            if critical.contains(&name) {
                outcome.exits(137).prints("");
            } else {
                outcome.exits(0).prints("-1 1");
            }
        }
        // Whatever a policy lists.
        let listed = DANGEROUS.map(|(name, _)| format!("\"{name}\"")).join(", ");
        let policy = policy(case, &format!("[syscalls]\nmode = \"BLACKLIST\"\nsyscalls = [{listed}]\n"));
        case.python(&["--policy", &policy], &syscall(101)).exits(0).prints("-1 1");
    });
}

// §12.3, integration

const TOOLS: &str = r#"
[tools.greet]
description = "Greets"
command = ["printf", "hello %s", "{name}"]
input = "arguments"
inputSchema = { type = "object", required = ["name"], properties = { name = { type = "string" } } }
[tools.fail]
command = ["false"]
"#;

fn tool(case: &Case, name: &str, input: &str) -> (Value, i32) {
    case.file(case.root.join("config/lazaret/tools.toml"), TOOLS);
    let outcome = case
        .lazaret(["tool", "run", name, "--input", input])
        .env("XDG_CONFIG_HOME", case.root.join("config"))
        .go();
    (outcome.json(), outcome.code())
}

#[test]
fn integrates_with_the_rfc_0001_execution_model() {
    as_everybody(|case| {
        let (result, code) = tool(case, "greet", r#"{"name": 1}"#);
        assert_eq!((code, &result["error"]["code"]), (125, &json!("INVALID_INPUT")));
        let (result, code) = tool(case, "undeclared", "{}");
        assert_eq!((code, &result["error"]["code"]), (125, &json!("UNKNOWN_TOOL")));
        case.assert_nothing_started();
        let (result, code) = tool(case, "greet", r#"{"name": "you"}"#);
        assert_eq!((code, &result["success"]), (0, &json!(true)));
        assert_eq!((&result["tool"], &result["output"]), (&json!("greet"), &json!("hello you")));
        assert_eq!(result["sandboxId"], case.events_of("SANDBOX_DESTROYED")[0]["sandboxId"]);
    });
}

#[test]
fn integrates_with_the_rfc_0003_capability_system() {
    as_everybody(|case| {
        for flags in [&[][..], &["--level", "1"], &["--profile", "build"]] {
            let sets = case.sh_with(flags, CAPABILITIES).exits(0).out();
            assert!(sets.lines().count() == 5 && sets.lines().all(|set| set.ends_with(":0000000000000000")));
        }
        if Path::new("/etc/lazaret/approvals.toml").exists() {
            not_run("this host has approvals of its own");
            return;
        }
        let before = case.events().len();
        case.run(["--level", "0", "--", "touch", "ran"]).exits(125).tells("approval");
        assert!(!case.work.join("ran").exists());
        assert_eq!(case.events().len(), before);
    });
}

#[test]
fn integrates_with_state_transaction() {
    as_everybody(|case| {
        let file = case.file("file", "before\n");
        let script = "echo after > file; echo new > other";
        case.sh_with(&["--cow"], script).exits(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "before\n");
        let shown = case.lazaret(["diff"]).go().exits(0).out();
        assert!(shown.contains("-before") && shown.contains("+after") && shown.contains("other"), "{shown}");
        case.lazaret(["discard"]).go().exits(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "before\n");
        case.sh_with(&["--cow"], script).exits(0);
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "after\n");
        assert_eq!(fs::read_to_string(case.work.join("other")).unwrap(), "new\n");
        assert_eq!(case.events_of("TRANSACTION_DISCARDED").len(), 1);
        assert_eq!(case.events_of("TRANSACTION_COMMITTED").len(), 1);
    });
}

#[test]
fn integrates_with_error_handler() {
    as_everybody(|case| {
        let network = policy(case, "[network]\nallowNetwork = true\nallowedHosts = [\"*\"]\n");
        for args in [
            &["--profile", "nonesuch", "--", "touch", "ran"][..],
            &["--policy", "/nonexistent", "--", "touch", "ran"],
            &["--policy", &network, "--", "touch", "ran"],
            &["--ro", "nonesuch", "--", "touch", "ran"],
            &["--memory", "0", "--", "touch", "ran"],
            &["--report", "/nonexistent/report", "--", "touch", "ran"],
        ] {
            let outcome = case.run(args).exits(125);
            let lines: Vec<&str> = outcome.stderr.trim_end().lines().collect();
            assert!(lines[0].starts_with("lazaret: "), "{args:?}: {outcome:?}");
            assert!(lines[1..].iter().all(|line| line.starts_with("  hint: ")), "{args:?}: {outcome:?}");
            assert!(lines[0].len() > 20 && !case.work.join("ran").exists());
        }
        case.assert_nothing_started();
        for (name, input, code, exit) in [
            ("greet", "{", "INVALID_INPUT", 125),
            ("nonesuch", "{}", "UNKNOWN_TOOL", 125),
            ("fail", "{}", "FAILED", 1),
        ] {
            let (result, exited) = tool(case, name, input);
            assert_eq!((&result["error"]["code"], exited), (&json!(code), exit), "{result}");
            assert!(!result["error"]["message"].as_str().unwrap().is_empty());
        }
    });
}

#[test]
fn integrates_with_telemetry() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import time
x = b'x' * (50 << 20)
while time.process_time() < 0.3: pass
try: open('/etc/lazaret-it', 'w')
except OSError: pass";
        let (report, _) = report_of(case, &["--memory", "500M", "--", "/usr/bin/python3", "-c", script]);
        let exited = &case.events_of("SANDBOX_EXITED")[0]["details"];
        for usage in [&report["usage"], &exited["usage"]] {
            assert!((300..5000).contains(&usage["cpuMs"].as_u64().unwrap()), "{usage}");
            assert!(usage["maxRssBytes"].as_u64().unwrap() > 50 << 20, "{usage}");
            assert!(usage["ioReadBytes"].is_u64() && usage["ioWriteBytes"].is_u64(), "{usage}");
        }
        assert_eq!(exited["durationMs"], report["durationMs"]);
        assert!(report["durationMs"].as_u64().unwrap() >= 300);
        assert!(exited["violations"].as_u64().unwrap() >= 1);
        // How long it existed, from its first event to its last.
        let moment = |kind: &str| case.events_of(kind)[0]["timestamp"].as_u64().unwrap();
        assert!(moment("SANDBOX_DESTROYED") - moment("SANDBOX_CREATED") >= 300);
    });
}
