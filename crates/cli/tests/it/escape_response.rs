//! What counts as an attempt to get out, and what follows: the end of everything inside, the trace, the alert,
//! the bar on the tool. And that honest programs are not taken for one.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    case::{Case, Lazaret, as_everybody, eventually, has_tool, marker, not_run, processes_with},
    limits::policy,
    telling::report_of,
};

const ESCAPE: &str = "mount -t tmpfs none /tmp; echo went on";

fn config(case: &Case) -> PathBuf {
    case.root.join("config")
}

/// `lazaret` with a configuration directory of its own.
fn configured<'a>(case: &'a Case, args: &[&str]) -> Lazaret<'a> {
    case.lazaret(args).env("XDG_CONFIG_HOME", config(case))
}

fn configure(case: &Case, text: &str) -> PathBuf {
    case.file(config(case).join("lazaret/config.toml"), text)
}

#[test]
fn every_kind_of_indicator_appears_with_its_severity() {
    if !has_tool("python3") || !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let no_exec = policy(case, "[process]\nallowExec = false\n");
        case.file("denied", "x");
        let connect = "import socket\nsocket.socket().connect_ex(('192.0.2.1', 80))";
        let execute = "import os\ntry: os.execv('/bin/true', ['true'])\nexcept OSError: pass";
        for (flags, script, kind, severity) in [
            (&["--deny", "denied"][..], "open('denied')", "FILESYSTEM", "HIGH"),
            (&[], "open('/etc/lazaret-it', 'w')", "FILESYSTEM", "MEDIUM"),
            (
                &["--on-escape", "deny"],
                "open('/proc/sys/kernel/core_pattern', 'w')",
                "FILESYSTEM",
                "CRITICAL",
            ),
            (&["--policy", &no_exec], execute, "PROCESS", "HIGH"),
            (&[], connect, "NETWORK", "HIGH"),
            (&[], "import ctypes; ctypes.CDLL(None).unshare(0x20000)", "SYSCALL", "HIGH"),
            (
                &["--on-escape", "deny"],
                "import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)",
                "SYSCALL",
                "CRITICAL",
            ),
        ] {
            let before = case.events().len();
            case.python(flags, script);
            let events = case.events().split_off(before);
            let found = events.iter().any(|event| {
                let details = &event["details"];
                ["POLICY_VIOLATION", "SYSCALL_BLOCKED"].contains(&event["event"].as_str().unwrap())
                    && details["type"] == kind
                    && details["severity"] == severity
                    && !details["description"].as_str().unwrap_or_default().is_empty()
                    && event["timestamp"].is_u64()
            });
            assert!(found, "{kind} {severity} for {script}: {events:?}");
            assert_eq!(case.events_of("ESCAPE_ATTEMPT").len(), 0);
        }
    });
}

#[test]
fn acts_that_no_honest_program_goes_on_from_end_the_sandbox() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        for act in [
            "libc.mount(0, 0, 0, 0, 0)",
            "libc.umount2(b'/tmp', 2)",
            "libc.setns(0, 0)",
            "libc.open_by_handle_at(0, 0, 0)",
            "libc.reboot(0)",
            "open('/proc/sys/kernel/core_pattern', 'w')",
            "open('/proc/sysrq-trigger', 'w')",
        ] {
            let script = format!("import ctypes\nlibc = ctypes.CDLL(None)\n{act}\nprint('went on')");
            let outcome = case.python(&[], &script).exits(137).prints("").tells("escape attempt");
            assert!(outcome.took < Duration::from_secs(5), "{outcome:?}");
        }
        assert_eq!(case.events_of("ESCAPE_ATTEMPT").len(), 7);
    });
}

const CROWD: &str = "
import ctypes, os, signal, sys, time
for n in range(199):
    if os.fork() == 0:
        if n % 2:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        time.sleep(60); os._exit(0)
open('ready', 'w')
for n in range(1000):
    if os.path.exists('go'): break
    time.sleep(0.01)
ctypes.CDLL(None).mount(0, 0, 0, 0, 0)
open('went-on', 'w')
time.sleep(60)";

#[test]
fn an_escape_attempt_ends_two_hundred_processes_at_once_and_leaves_a_trace() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let marker = marker();
        let running = case.running(["--", "/usr/bin/python3", "-c", CROWD, &marker]).start();
        let own = running.pid();
        let inside = || processes_with(&marker).into_iter().filter(|pid| *pid != own).count();
        eventually("two hundred processes run", || case.work.join("ready").exists() && inside() >= 200);
        case.file("go", "");
        let end = Instant::now() + Duration::from_secs(10);
        while inside() > 0 && Instant::now() < end {
            thread::sleep(Duration::from_micros(200));
        }
        let gone = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        running.finish().exits(137).tells("escape attempt");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert!(!case.work.join("went-on").exists());
        let attempts = case.events_of("ESCAPE_ATTEMPT");
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        let took = gone.saturating_sub(attempts[0]["timestamp"].as_u64().unwrap());
        eprintln!("all gone {took} ms after the event");
        // A tenth of a second is meant; this machine may be busy with other things.
        assert!(took < 300, "{took} ms");

        let id = attempts[0]["sandboxId"].as_str().unwrap();
        let file = case.state.join(format!("lazaret/traces/{id}.json"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let trace: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(trace["sandboxId"], json!(id));
        let kinds: Vec<&str> = trace["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["event"].as_str().unwrap())
            .collect();
        for kind in ["SANDBOX_CREATED", "SYSCALL_BLOCKED", "ESCAPE_ATTEMPT"] {
            assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
        }
        let processes = trace["processes"].as_array().unwrap();
        eprintln!("{} processes in the trace", processes.len());
        assert!(processes.len() > 100, "{}", processes.len());
        let python =
            processes.iter().filter(|process| process["name"].as_str().unwrap().starts_with("python3"));
        assert!(python.count() > 100, "{processes:?}");
        assert_eq!(trace["violation"]["syscall"]["name"], json!("mount"));
        assert_eq!(trace["violation"]["severity"], json!("CRITICAL"));
    });
}

#[test]
fn what_an_escaping_command_wrote_is_thrown_away() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let file = case.file("file", "before");
        let script = "echo after > file; echo new > other; ";
        let (report, outcome) = report_of(
            case,
            &["--cow", "--on-success", "commit", "--", "sh", "-c", &format!("{script}{ESCAPE}")],
        );
        outcome.exits(137);
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        assert!(!case.work.join("other").exists());
        assert_eq!(report["transaction"]["state"], json!("discarded"), "{report}");
        assert_eq!(case.lazaret(["diff", "--list", "--json"]).go().exits(0).json(), json!([]));
        // The same without the attempt is applied.
        case.sh_with(&["--cow", "--on-success", "commit"], script).exits(0);
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), "after");
        assert!(case.work.join("other").exists());
    });
}

/// Takes one request within ten seconds and answers it.
fn take_request(listener: &TcpListener) -> Option<String> {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            request.extend_from_slice(&buffer[..length]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let wanted = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            if wanted.is_some_and(|wanted: usize| body.len() >= wanted) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                return Some(text);
            }
        }
    }
    None
}

#[test]
fn the_operator_is_told_by_command_and_by_webhook() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let told = case.home.join("told.json");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        configure(
            case,
            &format!(
                "[alert]\ncommand = [\"sh\", \"-c\", 'cat > \"$0\"', \"{}\"]\nwebhook = \"http://{address}/hook\"\n",
                told.display()
            ),
        );
        // Nothing is told without a reason.
        configured(case, &["run", "--", "true"]).go().exits(0);
        assert!(!told.exists());
        let server = thread::spawn(move || take_request(&listener));
        configured(case, &["run", "--tool", "agent", "--", "sh", "-c", ESCAPE]).go().exits(137);
        let request = server.join().unwrap().expect("the webhook got nothing");
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        let by_webhook: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let by_command: Value = serde_json::from_slice(&fs::read(&told).unwrap()).unwrap();
        assert_eq!(by_webhook, by_command);
        let attempt = &case.events_of("ESCAPE_ATTEMPT")[0];
        assert_eq!(by_command["event"], json!("ESCAPE_ATTEMPT"));
        assert_eq!(by_command["severity"], json!("CRITICAL"));
        assert_eq!(by_command["sandboxId"], attempt["sandboxId"]);
        assert_eq!((&by_command["tool"], &by_command["quarantined"]), (&json!("agent"), &json!("agent")));
        assert_eq!(by_command["violation"]["syscall"]["name"], json!("mount"));
        assert!(PathBuf::from(by_command["trace"].as_str().unwrap()).is_file());
    });
}

#[test]
fn an_alert_that_cannot_be_delivered_is_in_the_log_and_stops_nothing() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        configure(case, "[alert]\ncommand = [\"/nonexistent\"]\nwebhook = \"http://127.0.0.1:9/\"\n");
        configured(case, &["run", "--tool", "agent", "--", "sh", "-c", ESCAPE]).go().exits(137);
        let alerts = case.events_of("SECURITY_ALERT");
        assert_eq!(alerts.len(), 2, "{alerts:?}");
        assert_eq!(case.events_of("TOOL_QUARANTINED").len(), 1);
    });
}

#[test]
fn a_configuration_that_cannot_be_trusted_is_refused() {
    as_everybody(|case| {
        let refused = |tells: &str| {
            let run = configured(case, &["run", "--", "touch", "ran"]).go().exits(125).tells(tells);
            assert_eq!(run.stderr.trim_end().lines().count(), 1, "{run:?}");
            assert!(!case.work.join("ran").exists());
            case.assert_nothing_started();
        };
        let file = configure(case, "[alert]\ncommand = [\"true\"]\n");
        for mode in [0o666, 0o664, 0o646] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            refused("not safe to trust");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        for webhook in ["http://192.0.2.1:80/", "https://127.0.0.1:443/", "http://example.com:80/"] {
            configure(case, &format!("[alert]\nwebhook = \"{webhook}\"\n"));
            refused("loopback");
        }
        configure(case, "[alert]\ncommand = []\n");
        refused("empty");
        configure(case, "[alert]\ncommand = [\"true\"]\n");
        configured(case, &["run", "--", "true"]).go().exits(0);
    });
}

#[test]
fn on_escape_deny_goes_on_and_nothing_is_barred() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let run =
            |_| case.sh_with(&["--tool", "agent", "--on-escape", "deny"], ESCAPE).exits(0).prints("went on");
        (0..2).for_each(|n| drop(run(n)));
        assert!(!case.events_of("SYSCALL_BLOCKED").is_empty());
        assert_eq!(case.events_of("ESCAPE_ATTEMPT").len(), 0);
        assert_eq!(case.lazaret(["tool", "list", "--json"]).go().exits(0).json(), json!([]));
    });
}

#[test]
fn a_tool_that_tried_to_escape_is_barred_until_it_is_released() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        let run = |script: &str| case.sh_with(&["--tool", "agent"], script);
        run("echo fine").exits(0).prints("fine");
        run(ESCAPE).exits(137).tells("agent is quarantined").tells("lazaret tool release agent");
        let refused =
            run("touch ran").exits(125).tells("agent is quarantined").tells("lazaret tool release agent");
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{refused:?}");
        assert!(!case.work.join("ran").exists());
        // Others are not concerned.
        case.sh_with(&["--tool", "other"], "echo fine").exits(0).prints("fine");
        case.sh("echo fine").exits(0).prints("fine");
        let list = case.lazaret(["tool", "list", "--json"]).go().exits(0).json();
        let list = list.as_array().unwrap();
        assert_eq!(list.len(), 1, "{list:?}");
        assert_eq!((&list[0]["name"], &list[0]["state"]), (&json!("agent"), &json!("quarantined")));
        assert_eq!(list[0]["quarantine"]["sandboxId"], case.events_of("ESCAPE_ATTEMPT")[0]["sandboxId"]);
        let barred = case.events_of("TOOL_QUARANTINED");
        assert_eq!((barred.len(), &barred[0]["details"]["tool"]), (1, &json!("agent")));
        // Nothing inside can release it.
        let inside = format!("{} tool release agent --reason me", crate::case::program().display());
        case.sh(&inside);
        run("true").exits(125);
        case.lazaret(["tool", "release", "agent", "--reason", "looked at it"]).go().exits(0);
        let released = case.events_of("TOOL_RELEASED");
        assert_eq!(released.len(), 1);
        assert_eq!(released[0]["details"]["tool"], json!("agent"));
        assert_eq!(released[0]["details"]["reason"], json!("looked at it"));
        assert_eq!(released[0]["details"]["by"], json!(case.who.uid()));
        run("echo again").exits(0).prints("again");
        case.lazaret(["tool", "release", "agent", "--reason", "x"]).go().exits(125).tells("not quarantined");
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn a_run_without_a_tools_name_is_never_barred() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        case.sh(ESCAPE).exits(137);
        case.sh(ESCAPE).exits(137);
        case.sh("echo fine").exits(0).prints("fine");
        assert_eq!(case.events_of("TOOL_QUARANTINED"), Vec::<Value>::new());
        assert_eq!(case.lazaret(["tool", "list", "--json"]).go().exits(0).json(), json!([]));
    });
}

#[test]
fn a_damaged_quarantine_bars_every_named_tool() {
    as_everybody(|case| {
        case.sh_with(&["--tool", "agent"], "true").exits(0);
        case.file(case.state.join("lazaret/quarantine.json"), "{ not json");
        case.sh_with(&["--tool", "agent"], "touch ran").exits(125).tells("quarantine.json");
        assert!(!case.work.join("ran").exists());
        case.sh("true").exits(0);
    });
}

/// Ends as it would anywhere, and nobody takes it for an escape.
fn runs_to_its_end(case: &Case, flags: &[&str], command: &[&str]) -> crate::case::Outcome {
    let args: Vec<&str> = flags.iter().copied().chain(["--"]).chain(command.iter().copied()).collect();
    let (report, outcome) = report_of(case, &args);
    assert_eq!(report["outcome"], json!("exited"), "{command:?}: {outcome:?}");
    assert_eq!(case.events_of("ESCAPE_ATTEMPT").len(), 0, "{command:?}");
    outcome
}

#[test]
fn honest_programs_run_to_their_end() {
    as_everybody(|case| {
        if has_tool("node") {
            let script = "const {Worker} = require('worker_threads'); new Worker('process.stdout.write(\"from a thread\\\\n\")', {eval: true}).on('exit', () => console.log(1 + 1))";
            runs_to_its_end(case, &[], &["/usr/bin/node", "-e", script]).exits(0).prints("from a thread\n2");
        }
        if has_tool("gdb") {
            runs_to_its_end(case, &[], &["/usr/bin/gdb", "-batch", "-ex", "run", "/bin/true"]);
        }
        if has_tool("python3") {
            let script = "import multiprocessing as m\nif __name__ == '__main__':\n with m.Pool(2) as p: print(p.map(abs, [-1, 2]))";
            runs_to_its_end(case, &[], &["/usr/bin/python3", "-c", script]).exits(0).prints("[1, 2]");
        }
        if has_tool("git") {
            let script = "git init -q r && cd r && echo x > f && git add f && git -c user.name=n -c user.email=e commit -qm m && git log --oneline | wc -l";
            runs_to_its_end(case, &[], &["sh", "-c", script]).exits(0).prints("1");
        }
        if has_tool("make") {
            case.file("Makefile", "all: a b\na b:\n\techo $@ > $@\n");
            runs_to_its_end(case, &[], &["make", "-s", "-j2"]).exits(0);
            assert!(case.work.join("a").exists() && case.work.join("b").exists());
        }
    });
}

#[test]
fn java_compiles_and_runs() {
    if !has_tool("java") {
        return;
    }
    as_everybody(|case| {
        runs_to_its_end(case, &[], &["/usr/bin/java", "-version"]).exits(0);
        if has_tool("javac") {
            case.file(
                "Hello.java",
                "public class Hello { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println(\"hello\")); t.start(); t.join(); } }",
            );
            runs_to_its_end(case, &[], &["sh", "-c", "/usr/bin/javac Hello.java && /usr/bin/java Hello"])
                .exits(0)
                .prints("hello");
        }
    });
}

#[test]
fn probes_of_honest_programs_are_denied_and_the_command_goes_on() {
    if !has_tool("python3") {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        not_run("the numbers are those of x86_64");
        return;
    }
    as_everybody(|case| {
        // unshare, ptrace, keyctl, io_uring_setup, perf_event_open, userfaultfd, process_vm_readv
        let numbers = [272, 101, 250, 425, 298, 323, 310];
        let script = format!(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor n in {numbers:?}: print(libc.syscall(ctypes.c_long(n), 0, 0, 0, 0, 0), ctypes.get_errno())\nprint('went on')"
        );
        let outcome = runs_to_its_end(case, &[], &["/usr/bin/python3", "-c", &script]).exits(0);
        let expected = "-1 1\n".repeat(numbers.len()) + "went on";
        assert_eq!(outcome.out(), expected, "{outcome:?}");
        if has_tool("unshare") {
            runs_to_its_end(
                case,
                &[],
                &["sh", "-c", "unshare -r true; echo $?; unshare -n true; echo went on"],
            )
            .exits(0)
            .prints("1\nwent on");
        }
    });
}

#[test]
fn a_detour_through_proc_does_not_hide_an_escape_attempt() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let file = "/proc/sys/kernel/core_pattern";
        for path in [
            format!("'/proc/self/root{file}'"),
            format!("'/proc/self/fd/%d' % os.open('{file}', os.O_PATH)"),
            "os.chdir('/proc/sys/kernel') or '/proc/self/cwd/core_pattern'".to_owned(),
            format!("os.symlink('/proc/self/root{file}', '/tmp/link') or '/tmp/link'"),
        ] {
            let script = format!("import os; os.open({path}, os.O_WRONLY)");
            case.python(&[], &script).exits(137).tells("escape attempt").tells(file);
        }
    });
}
