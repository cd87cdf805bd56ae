//! Whatever is killed, and when: nothing is left behind.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::process::Signal;

use crate::case::{Case, as_everybody, eventually, marker, processes_with};

fn names(directory: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What a run could leave on the host.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    mounts: String,
    files: BTreeSet<PathBuf>,
}

impl Host {
    fn now(case: &Case) -> Host {
        let files = [
            &case.work,
            &case.home,
            &case.root,
            &PathBuf::from("/var/tmp"),
            &PathBuf::from("/dev/shm"),
            &PathBuf::from("/run"),
        ]
        .into_iter()
        .flat_map(|directory| names(directory))
        .filter(|path| !path.to_string_lossy().contains("lazaret-it-host"))
        .collect();
        Host { mounts: fs::read_to_string("/proc/self/mountinfo").unwrap(), files }
    }
}

/// Names in /tmp that no test and no run has any business to make.
fn strange_in_tmp(before: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let now = names(Path::new("/tmp"));
    now.difference(before)
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.contains("lazaret")
                && !name.starts_with("lazaret-it-")
                && !name.starts_with("lazaret-marker-")
        })
        .cloned()
        .collect()
}

#[test]
fn killed_at_any_moment_nothing_survives() {
    as_everybody(|case| {
        let (host, tmp) = (Host::now(case), names(Path::new("/tmp")));
        // A generator of our own, so that a failure can be repeated.
        let mut state = 12345_u64;
        for round in 0..30 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let micros = (state >> 33) % 30_000;
            let marker = marker();
            let script =
                "(setsid sh -c 'sleep 60; :' $0 &); sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 & sleep 60";
            let running = case.running(["--deny", "denied", "--", "sh", "-c", script, &marker]).start();
            thread::sleep(Duration::from_micros(micros));
            running.signal(Signal::KILL);
            running.finish();
            eventually(&format!("round {round}, killed after {micros} µs: all gone"), || {
                processes_with(&marker).is_empty()
            });
        }
        assert_eq!(Host::now(case), host);
        assert_eq!(strange_in_tmp(&tmp), Vec::<PathBuf>::new());
        // The log opens and the next run works, and whatever was torn is mended.
        case.sh("exit 4").exits(4);
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn killed_while_the_command_runs_nothing_survives() {
    as_everybody(|case| {
        let host = Host::now(case);
        for flags in [&[][..], &["--level", "1"]] {
            let marker = marker();
            let script =
                "(setsid sh -c 'trap \"\" TERM HUP; touch ../project/ready; sleep 60; :' $0 &); sleep 60";
            let running =
                case.running(flags.iter().copied().chain(["--", "sh", "-c", script, &marker])).start();
            eventually("the command is ready", || case.work.join("ready").exists());
            running.signal(Signal::KILL);
            running.finish();
            eventually("all gone", || processes_with(&marker).is_empty());
            fs::remove_file(case.work.join("ready")).unwrap();
        }
        assert_eq!(Host::now(case), host);
        case.sh("true").exits(0);
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn when_init_is_killed_from_outside_the_run_ends() {
    as_everybody(|case| {
        let marker = marker();
        let running = case.running(["--", "sh", "-c", "touch ready; sleep 60", &marker]).start();
        eventually("the command is ready", || case.work.join("ready").exists());
        let pid = running.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let init = children.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(init, Signal::KILL).unwrap();
        running.finish().exits(137);
        assert!(processes_with(&marker).is_empty());
        case.lazaret(["audit", "verify"]).go().exits(0);
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 1);
    });
}

#[test]
fn an_ordinary_run_leaves_nothing_on_the_host() {
    as_everybody(|case| {
        let (host, tmp) = (Host::now(case), names(Path::new("/tmp")));
        case.sh_with(
            &["--deny", "a/b/c", "--deny", ".env"],
            "echo x > /tmp/x; echo x > ~/x; mkdir -p /var/tmp/a/b; true",
        )
        .exits(0);
        case.run(["--", "nonesuch"]).exits(127);
        case.run(["--ro", "nonesuch", "--", "true"]).exits(125);
        case.sh("mount -t tmpfs none /tmp");
        case.run(["--timeout", "100ms", "--", "sleep", "9"]).exits(124);
        assert_eq!(Host::now(case), host);
        assert_eq!(strange_in_tmp(&tmp), Vec::<PathBuf>::new());
        let mut state = names(&case.state.join("lazaret"));
        // The record, and the trace of the escape attempt.
        state.retain(|path| {
            !path.to_string_lossy().contains("audit.jsonl") && path.file_name().unwrap() != "traces"
        });
        assert_eq!(state, BTreeSet::new());
    });
}

#[test]
fn a_caller_that_dies_takes_the_run_along_when_it_was_asked_to() {
    as_everybody(|case| {
        // As `timeout -s KILL` does to a whole job.
        let marker = marker();
        let running = case
            .running(["--", "sh", "-c", "touch ready; sleep 60", &marker])
            .under(["timeout", "-s", "KILL", "1"])
            .start();
        eventually("the command is ready", || case.work.join("ready").exists());
        running.finish();
        eventually("all gone", || processes_with(&marker).is_empty());
    });
}
