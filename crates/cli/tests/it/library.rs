//! The library, used by a program with threads: this one.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use lazaret_policy::{Policy, schema::Level, units::Millis};
use lazaret_runtime::{
    Launcher, Report, Request, RunError, Sandbox, Stdio,
    report::{Ending, TransactionState},
    request::{OnSuccess, Writing},
};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::{
    case::{Case, Who, as_everybody, eventually, marker, processes_with, program},
    host::{names, outside, prepared},
};

/// A case of whoever runs the tests: a library has its program's identity.
fn case() -> Case {
    Case::new(Who::Caller)
}

fn launcher() -> Launcher {
    Launcher::start(&program()).unwrap()
}

fn policy(case: &Case) -> Policy {
    let mut policy = Policy { isolation_level: Level::Full, ..Policy::default() };
    policy.filesystem.read_only_paths = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into).to_vec();
    policy.filesystem.read_write_paths = vec![case.work.clone()];
    policy
}

fn request(case: &Case) -> Request {
    let log = case.log();
    case.directory(log.parent().unwrap());
    let mut request = Request::new(policy(case), &case.work, log);
    request.state = Some(case.state.join("lazaret"));
    request
}

fn create(launcher: &Launcher, case: &Case) -> Sandbox {
    Sandbox::create(launcher, request(case)).unwrap_or_else(|error| panic!("{error}"))
}

/// A script; what it printed, and its report.
fn sh(sandbox: &mut Sandbox, script: &str) -> (String, Report) {
    let output = sandbox.command("sh").arg("-c").arg(script).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).trim().to_owned(), output.report)
}

fn count(case: &Case, kind: &str) -> usize {
    case.events_of(kind).len()
}

#[test]
fn commands_of_one_sandbox_share_its_files_and_nothing_else() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let marker = marker();
    let first = format!(
        "echo one > file; echo t > /tmp/private; cd /; export X=y; umask 077; \
         (setsid sh -c 'trap \"\" TERM HUP; sleep 60; :' {marker} &) ; sh -c 'sleep 60; :' {marker} & echo done"
    );
    assert_eq!(sh(&mut sandbox, &first).0, "done");
    assert_eq!(processes_with(&marker), Vec::<u32>::new(), "background processes end with their command");
    let (text, report) =
        sh(&mut sandbox, "cat file /tmp/private; pwd; echo \"x=$X\"; umask; ps 2>/dev/null | grep -c sleep");
    let here = case.work.display();
    assert_eq!(text, format!("one\nt\n{here}\nx=\n0022\n0"));
    assert_eq!((report.outcome, report.exit_code), (Ending::Exited, 1));
    assert_eq!(report.sandbox_id, sandbox.id());
    assert_eq!(fs::read_to_string(case.work.join("file")).unwrap(), "one\n");
    for number in 0..20 {
        assert_eq!(sh(&mut sandbox, &format!("echo {number} >> many; exit {number}")).1.exit_code, number);
    }
    assert_eq!(fs::read_to_string(case.work.join("many")).unwrap().lines().count(), 20);
    sandbox.destroy().unwrap();
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn two_sandboxes_see_nothing_of_each_other() {
    let (one, two, launcher) = (case(), case(), launcher());
    let (mut a, mut b) = (create(&launcher, &one), create(&launcher, &two));
    assert_ne!(a.id(), b.id());
    sh(&mut a, "echo a > /tmp/private; echo a > file");
    let script = format!("cat /tmp/private {}/file", one.work.display());
    let (text, report) = sh(&mut b, &script);
    assert!(report.exit_code != 0 && !text.lines().any(|line| line == "a"), "{text}");
}

#[test]
fn streams_are_pipes_of_any_length() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let output =
        sandbox.command("sh").args(["-c", "head -c 10485760 /dev/zero; head -c 3000000 /dev/zero >&2"]);
    let output = output.output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (10 << 20, 3_000_000));

    let mut child =
        sandbox.command("sort").arg("-n").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for number in (0..200_000).rev() {
            writeln!(input, "{number}").unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!((lines.len(), lines[0], lines[199_999]), (200_000, "0", "199999"));

    // Talking back and forth while it runs.
    let mut child = sandbox.command("cat").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn().unwrap();
    let (mut input, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for word in ["one", "two"] {
        input.write_all(word.as_bytes()).unwrap();
        let mut back = [0; 3];
        out.read_exact(&mut back).unwrap();
        assert_eq!(back, word.as_bytes());
    }
    drop(input);
    assert_eq!(child.wait().unwrap().exit_code, 0);
    // Nothing is there to read where nothing was given, and a file is taken as it is.
    assert_eq!(sandbox.command("cat").output().unwrap().stdout, b"");
    let file = fs::File::create(case.root.join("given")).unwrap();
    sandbox.command("echo").arg("to a file").stdout(Stdio::Given(file.into())).status().unwrap();
    assert_eq!(fs::read_to_string(case.root.join("given")).unwrap(), "to a file\n");
    // A reader that goes away does not hang the command.
    let mut child = sandbox.command("yes").stdout(Stdio::Piped).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    assert_eq!(child.wait().unwrap().signal, Some(13));
    assert_eq!(sh(&mut sandbox, "echo still here").0, "still here");
}

#[test]
fn environment_and_directory_are_the_commands_own() {
    let (case, launcher) = (case(), launcher());
    prepared(&case, "mkdir -p sub/dir");
    let mut sandbox = create(&launcher, &case);
    let output = sandbox
        .command("sh")
        .args(["-c", "echo $A-$B; pwd; env | wc -l"])
        .env("A", "1")
        .env("B", "x")
        .env("B", "2 3")
        .current_dir(case.work.join("sub/dir"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1-2 3"));
    assert_eq!(lines.next().map(Path::new), Some(case.work.join("sub/dir").as_path()));
    assert_eq!(sh(&mut sandbox, "echo $A-$B; pwd").0, format!("-\n{}", case.work.display()));
    // Nothing of this process is passed on.
    let (text, _) = sh(&mut sandbox, "env");
    assert!(!text.contains("CARGO") && !text.contains("RUST"), "{text}");
}

#[test]
fn a_directory_that_is_not_there_inside_is_an_error_at_once() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let (sender, receiver) = mpsc::channel();
    // In a thread: a call that never returns must not keep the other tests from running.
    thread::spawn(move || {
        let outcome = sandbox.command("pwd").current_dir("/nonesuch").output();
        let refused = !outcome.is_ok_and(|output| output.report.exit_code == 0);
        drop((sandbox, launcher));
        sender.send(refused).unwrap();
    });
    let refused = receiver.recv_timeout(Duration::from_secs(5)).expect("no answer within 5 s");
    assert!(refused, "executed where there is no such directory");
}

#[test]
fn the_report_tells_how_a_command_ended() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    for code in [0, 1, 42, 255] {
        let (_, report) = sh(&mut sandbox, &format!("exit {code}"));
        assert_eq!((report.outcome, report.exit_code, report.signal), (Ending::Exited, code, None));
    }
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let (_, report) = sh(&mut sandbox, &format!("kill -{name} $$"));
        assert_eq!((report.outcome, report.signal), (Ending::Signaled, Some(number)));
        assert_eq!(report.exit_code, 128 + number);
    }
    let report = sandbox.command("nonesuch-program").status().unwrap();
    assert_eq!((report.outcome, report.exit_code), (Ending::NotExecuted, 127));
    let report = sandbox.command("/etc/passwd").status().unwrap();
    assert_eq!((report.outcome, report.exit_code), (Ending::NotExecuted, 126));
    assert_eq!(sh(&mut sandbox, "echo still here").0, "still here");
    assert_eq!(sandbox.destroy().unwrap().map(|report| report.exit_code), Some(0));
}

#[test]
fn a_command_is_killed_with_all_that_it_started_and_the_sandbox_stays() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let marker = marker();
    let script = format!(
        "(setsid sh -c 'sleep 60; :' {marker} &); touch ready; trap '' TERM; sleep 60; echo not reached"
    );
    let child = sandbox.command("sh").args(["-c", &script]).stdout(Stdio::Piped).spawn().unwrap();
    eventually("it runs", || case.work.join("ready").exists());
    let started = Instant::now();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!((output.report.signal, output.stdout), (Some(9), vec![]));
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    // A signal reaches the command itself.
    fs::remove_file(case.work.join("ready")).unwrap();
    let script = "trap 'echo caught; exit 7' USR1; touch ready; while :; do sleep 0.05; done";
    let child = sandbox.command("sh").args(["-c", script]).stdout(Stdio::Piped).spawn().unwrap();
    eventually("it runs", || case.work.join("ready").exists());
    child.signal(10).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.report.exit_code, output.stdout.as_slice()), (7, &b"caught\n"[..]));
    // One that is dropped is killed.
    fs::remove_file(case.work.join("ready")).unwrap();
    let again = crate::case::marker();
    let child = sandbox.command("sh").args(["-c", "touch ready; sleep 60; :", &again]).spawn().unwrap();
    eventually("it runs", || case.work.join("ready").exists());
    drop(child);
    assert_eq!(processes_with(&again), Vec::<u32>::new());
    assert_eq!(sh(&mut sandbox, "echo still here").0, "still here");
}

#[test]
fn a_command_that_takes_too_long_ends_the_sandbox() {
    let (case, launcher) = (case(), launcher());
    let mut request = request(&case);
    request.policy.timeout = Some(Millis(400));
    let mut sandbox = Sandbox::create(&launcher, request).unwrap();
    // The clock is the command's, not the sandbox's.
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(200));
        assert_eq!(sh(&mut sandbox, "sleep 0.1; echo in time").0, "in time");
    }
    let marker = marker();
    let script = format!("trap '' TERM; (setsid sh -c 'sleep 60; :' {marker} &); sleep 60");
    let report = sandbox.command("sh").args(["-c", &script]).status().unwrap();
    assert_eq!((report.outcome, report.exit_code), (Ending::Timeout, 124));
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    let error = sandbox.command("true").status().unwrap_err();
    assert!(matches!(error, RunError::Gone), "{error}");
    assert_eq!(sandbox.destroy().unwrap().unwrap().outcome, Ending::Timeout);
    assert_eq!((count(&case, "SANDBOX_CREATED"), count(&case, "SANDBOX_DESTROYED")), (1, 1));
}

#[test]
fn an_escape_attempt_ends_the_sandbox_and_is_logged() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    assert_eq!(sh(&mut sandbox, "echo fine").0, "fine");
    let (text, report) = sh(&mut sandbox, "mount -t tmpfs none /tmp; echo went on");
    assert_eq!((text.as_str(), report.outcome, report.exit_code), ("", Ending::Escape, 137));
    assert!(report.trace.is_some_and(|trace| trace.exists()));
    let error = sandbox.command("true").status().unwrap_err();
    assert!(matches!(error, RunError::Gone), "{error}");
    drop(sandbox);
    assert_eq!(count(&case, "ESCAPE_ATTEMPT"), 1);
    assert_eq!((count(&case, "SANDBOX_ENTERED"), count(&case, "SANDBOX_EXITED")), (2, 2));
    assert_eq!((count(&case, "SANDBOX_CREATED"), count(&case, "SANDBOX_DESTROYED")), (1, 1));
    // The others and the launcher are not affected.
    assert_eq!(sh(&mut create(&launcher, &case), "echo fine").0, "fine");
}

#[test]
fn the_log_has_one_life_per_sandbox_and_one_visit_per_command() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let id = sandbox.id().to_owned();
    sh(&mut sandbox, "true");
    sh(&mut sandbox, "exit 3");
    let _ = sandbox.command("nonesuch-program").status().unwrap();
    sandbox.destroy().unwrap();
    let kinds: Vec<String> = case
        .events()
        .iter()
        .filter(|event| event["sandboxId"] == id.as_str())
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .filter(|kind| kind.starts_with("SANDBOX_"))
        .collect();
    let visit = ["SANDBOX_ENTERED", "SANDBOX_EXITED"];
    let expected: Vec<&str> = ["SANDBOX_CREATED"]
        .into_iter()
        .chain(visit)
        .chain(visit)
        .chain(visit)
        .chain(["SANDBOX_DESTROYED"])
        .collect();
    assert_eq!(kinds, expected);
    let codes: Vec<i64> = case
        .events_of("SANDBOX_EXITED")
        .iter()
        .map(|event| event["details"]["exitCode"].as_i64().unwrap())
        .collect();
    assert_eq!(codes, [0, 3, 127]);
    // One that is only dropped, and one in which nothing was ever executed.
    drop(create(&launcher, &case));
    let mut dropped = create(&launcher, &case);
    sh(&mut dropped, "true");
    drop(dropped);
    assert_eq!((count(&case, "SANDBOX_CREATED"), count(&case, "SANDBOX_DESTROYED")), (3, 3));
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn fifty_sandboxes_of_four_threads_at_once() {
    let (case, launcher) = (case(), launcher());
    let marker = marker();
    let (started, good) = (Instant::now(), AtomicU32::new(0));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (case, launcher, marker, good) = (&case, &launcher, &marker, &good);
            scope.spawn(move || {
                let numbers = (0..50).filter(|number| number % 4 == thread);
                let mut all: Vec<(u32, Sandbox)> = numbers.map(|n| (n, create(launcher, case))).collect();
                for round in 0..2 {
                    for (number, sandbox) in &mut all {
                        let script = format!(
                            "[ {round} = 0 ] || cat /tmp/own; echo {number} > /tmp/own; sh -c 'sleep 60; :' {marker} &"
                        );
                        let (text, report) = sh(sandbox, &script);
                        let expected = if round == 0 { String::new() } else { number.to_string() };
                        assert_eq!((text, report.exit_code), (expected, 0));
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                }
                all.into_iter().for_each(|(_, sandbox)| drop(sandbox.destroy().unwrap()));
            });
        }
    });
    eprintln!("50 sandboxes, 100 commands: {:?}", started.elapsed());
    assert_eq!(good.into_inner(), 100);
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
    assert_eq!((count(&case, "SANDBOX_CREATED"), count(&case, "SANDBOX_DESTROYED")), (50, 50));
    case.lazaret(["audit", "verify"]).go().exits(0);
}

#[test]
fn what_is_written_copy_on_write_is_settled_when_the_sandbox_is_destroyed() {
    let launcher = launcher();
    for (on_success, last, committed, open) in [
        (OnSuccess::Commit, "exit 0", true, 0),
        (OnSuccess::Commit, "exit 1", false, 1),
        (OnSuccess::Keep, "exit 0", false, 1),
        (OnSuccess::Discard, "exit 0", false, 0),
    ] {
        let case = case();
        prepared(&case, "echo a > a; echo b > b");
        let mut request = request(&case);
        request.writing = Writing::CopyOnWrite { on_success };
        let mut sandbox = Sandbox::create(&launcher, request).unwrap();
        sh(&mut sandbox, "echo in >> a; rm b; echo n > n");
        assert_eq!(
            sh(&mut sandbox, &format!("cat a n; ls; {last}")).0,
            "a\nin\nn\na\nn",
            "the second sees it"
        );
        assert_eq!(outside(&case, "cat a b"), "a\nb", "the host does not");
        let report = sandbox.destroy().unwrap().unwrap();
        let expected = match (committed, open) {
            (true, _) => TransactionState::Committed,
            (false, 0) => TransactionState::Discarded,
            _ => TransactionState::Kept,
        };
        assert_eq!(report.transaction.unwrap().state, expected);
        let here = if committed { vec!["a", "n"] } else { vec!["a", "b"] };
        assert_eq!(names(&case.work), here);
        let listed = case.lazaret(["diff", "--list", "--json"]).go().exits(0).json();
        assert_eq!(listed.as_array().unwrap().len(), open);
        assert_eq!(count(&case, "TRANSACTION_COMMITTED"), usize::from(committed));
    }
}

/// The process of a launcher: the only child of this process that is called so and was not there before.
fn launchers() -> Vec<i32> {
    let own = std::process::id();
    let tasks = fs::read_dir(format!("/proc/{own}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = children
        .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    let is_launcher = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"\0launcher\0"))
    };
    children.into_iter().filter(is_launcher).collect()
}

#[test]
fn when_the_launcher_is_killed_its_sandboxes_die_and_no_more_are_made() {
    let case = case();
    // In a process of its own name, so that it is found among those of other tests.
    let copy = case.root.join("own-lazaret");
    fs::copy(program(), &copy).unwrap();
    let launcher = Launcher::start(&copy).unwrap();
    let mut sandbox = create(&launcher, &case);
    let mut idle = create(&launcher, &case);
    let marker = marker();
    let child = sandbox.command("sh").args(["-c", "touch ready; sleep 60; :", &marker]).spawn().unwrap();
    eventually("it runs", || case.work.join("ready").exists());
    let path = copy.to_str().unwrap().as_bytes();
    let ours: Vec<i32> = launchers()
        .into_iter()
        .filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(path)))
        .collect();
    let [pid] = ours.as_slice() else { panic!("{ours:?}") };
    rustix::process::kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    let ended = child.wait();
    assert!(!ended.is_ok_and(|report| report.exit_code == 0), "a command of a dead sandbox has succeeded");
    eventually("all gone", || processes_with(&marker).is_empty());
    let error = Sandbox::create(&launcher, request(&case)).unwrap_err();
    assert!(error.to_string().contains("launcher"), "{error}");
    let started = Instant::now();
    let outcome = idle.command("true").status();
    assert!(!outcome.is_ok_and(|report| report.exit_code == 0));
    assert!(started.elapsed() < Duration::from_secs(5));
    drop((sandbox, idle));
    assert_eq!(
        (count(&case, "SANDBOX_CREATED"), count(&case, "SANDBOX_DESTROYED")),
        (2, 2),
        "{:?}",
        case.events()
    );
    case.lazaret(["audit", "verify"]).go().exits(0);
    // Another launcher works.
    assert_eq!(sh(&mut create(&self::launcher(), &case), "echo fine").0, "fine");
}

#[test]
fn a_launcher_that_is_dropped_ends_its_sandboxes() {
    let (case, launcher) = (case(), launcher());
    let mut sandbox = create(&launcher, &case);
    let marker = marker();
    let child = sandbox.command("sh").args(["-c", "touch ready; sleep 60; :", &marker]).spawn().unwrap();
    eventually("it runs", || case.work.join("ready").exists());
    drop(launcher);
    assert!(!child.wait().is_ok_and(|report| report.exit_code == 0));
    assert_eq!(processes_with(&marker), Vec::<u32>::new());
}

#[test]
fn when_the_program_that_uses_it_is_killed_nothing_survives() {
    as_everybody(|case| {
        // `lazaret tool run` is such a program.
        let config = case.root.join("config/lazaret");
        let marker = marker();
        let text = format!(
            "[tools.slow]\ndescription = \"Sleeps\"\ncommand = [\"sh\", \"-c\", \"touch ready; (setsid sh -c 'sleep 60; :' {marker} &); sleep 60\", \"{marker}\"]\n\
             profile = \"default\"\noutput = \"text\"\n"
        );
        case.file(config.join("tools.toml"), text);
        for round in 0..5 {
            let run = case.lazaret(["tool", "run", "slow"]).env("XDG_CONFIG_HOME", config.parent().unwrap());
            let running = run.start();
            let ready = case.work.join("ready");
            let end = Instant::now() + Duration::from_secs(10);
            while !ready.exists() && Instant::now() < end {
                thread::sleep(Duration::from_millis(2));
            }
            if !ready.exists() {
                running.signal(Signal::KILL);
                panic!("round {round}: the tool does not run: {:?}", running.finish());
            }
            assert!(!processes_with(&marker).is_empty());
            running.signal(Signal::KILL);
            running.finish();
            eventually(&format!("round {round}: all gone"), || processes_with(&marker).is_empty());
            fs::remove_file(ready).unwrap();
        }
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn what_cannot_be_built_is_an_error_and_nothing_is_left() {
    let (case, launcher) = (case(), launcher());
    let mut none = request(&case);
    none.policy.isolation_level = Level::None;
    assert!(matches!(Sandbox::create(&launcher, none).unwrap_err(), RunError::NoWalls));
    let mut absent = request(&case);
    absent.policy.filesystem.read_only_paths.push(PathBuf::from("/nonesuch"));
    assert!(Sandbox::create(&launcher, absent).is_err());
    let mut stateless = request(&case);
    stateless.writing = Writing::CopyOnWrite { on_success: OnSuccess::Keep };
    stateless.state = None;
    assert!(matches!(Sandbox::create(&launcher, stateless).unwrap_err(), RunError::NoState));
    let mut no_log = request(&case);
    no_log.audit_log = case.work.join("a/b/c\0d");
    assert!(Sandbox::create(&launcher, no_log).is_err());
    assert!(Launcher::start(Path::new("/nonesuch/lazaret")).is_err());
    assert_eq!(case.events(), Vec::<Value>::new());
    assert_eq!(sh(&mut create(&launcher, &case), "echo fine").0, "fine");
}
