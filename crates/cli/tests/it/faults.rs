//! Killed at any moment, twice at once, out of space: what was asked for has happened as a whole or not at
//! all, and nothing is left behind.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    case::{
        Case, Lazaret, PATH, Running, Who, as_everybody, eventually, has_root, has_tool, marker,
        processes_with, program,
    },
    host::{let_time_pass, names, outside, prepared, tree},
};

/// How many files have a version.
const FILES: usize = 200;
/// How many are made anew by each version.
const FRESH: usize = 40;

/// A generator of our own, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let limit = u64::try_from(limit.as_micros()).unwrap().max(1);
        Duration::from_micros((self.0 >> 33) % limit)
    }
}

/// Makes the whole tree that of version `$1`: files changed, a directory removed, another made.
const SCRIPT: &str = "i=0; while [ $i -lt 200 ]; do echo $1 > f$i; i=$((i+1)); done; rm -rf v-*; mkdir v-$1; \
                      i=0; while [ $i -lt 40 ]; do echo $1 > v-$1/$i; i=$((i+1)); done; ln -s ../f0 v-$1/link";

/// Which version the tree is, if it is one and nothing else.
fn version(case: &Case) -> Result<u32, String> {
    let all = tree(&case.work);
    let content = |name: &str| all.get(Path::new(name)).map(|entry| entry.content.clone());
    let first = content("f0").ok_or("f0 is gone")?;
    let version: u32 =
        String::from_utf8_lossy(&first).trim().parse().map_err(|_| format!("f0 is {first:?}"))?;
    for number in 0..FILES {
        let found = content(&format!("f{number}"));
        if found.as_ref() != Some(&first) {
            return Err(format!("f0 is of version {version}, f{number} is {found:?}"));
        }
    }
    for number in 0..FRESH {
        let found = content(&format!("v-{version}/{number}"));
        if found.as_ref() != Some(&first) {
            return Err(format!("f0 is of version {version}, v-{version}/{number} is {found:?}"));
        }
    }
    let count = FILES + FRESH + 2;
    if all.len() != count {
        let strange: Vec<_> = all.keys().filter(|path| !path.starts_with("f")).take(60).collect();
        return Err(format!("{} names instead of {count}: {strange:?}", all.len()));
    }
    Ok(version)
}

/// What is in the store: the ids of whole transactions. Anything else but its lock is an error.
fn stored(case: &Case) -> Vec<String> {
    let store = case.state.join("lazaret/transactions");
    let mut ids = Vec::new();
    for entry in fs::read_dir(&store).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name == "lock" {
            continue;
        }
        let allowed = ["files", "lock", "transaction.json", ".journal.json.new", ".transaction.json.new"];
        for inside in fs::read_dir(entry.path()).unwrap() {
            let inside = inside.unwrap().file_name().into_string().unwrap();
            // A file that was being written is overwritten by the next who writes it.
            assert!(allowed.contains(&inside.as_str()), "{name} holds {inside}");
        }
        assert!(entry.path().join("transaction.json").is_file(), "{name} is no transaction");
        ids.push(name);
    }
    ids
}

/// Control groups of ours whose owner is gone.
fn abandoned_groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((directory, depth)) = todo.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if depth >= 8 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner =
                name.strip_prefix("lazaret-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            match owner {
                Some(owner) if !Path::new(&format!("/proc/{owner}")).exists() => found.push(entry.path()),
                Some(_) => {}
                None => todo.push((entry.path(), depth + 1)),
            }
        }
    }
    found
}

/// How often each end was seen.
#[derive(Debug, Default)]
struct Seen {
    before: u32,
    after: u32,
    open: u32,
}

/// Kills `victim` at a random moment of what it takes when it is let be, and calls the program once more.
fn killed(case: &Case, victim: &Lazaret<'_>, marker: &str, moment: Duration, what: &str) {
    let running = victim.start();
    thread::sleep(moment);
    running.signal(Signal::KILL);
    running.finish();
    eventually(&format!("{what}: all gone"), || processes_with(marker).is_empty());
    case.lazaret(["diff", "--list"]).go().exits(0);
}

/// The tree is as it was or as it was to become.
fn judged(case: &Case, before: u32, after: u32, what: &str, seen: &mut Seen) -> u32 {
    let now = version(case).unwrap_or_else(|error| panic!("{what}: a mixture: {error}"));
    assert!(now == before || now == after, "{what}: version {now}");
    if now == before {
        seen.before += 1
    } else {
        seen.after += 1
    }
    for id in stored(case) {
        assert_eq!(now, before, "{what}: committed, and {id} is still there");
        seen.open += 1;
        case.lazaret(["discard", &id]).go().exits(0);
    }
    let_time_pass();
    now
}

fn cow_of<'a>(case: &'a Case, on_success: &str, version: u32, marker: &str) -> Lazaret<'a> {
    let version = version.to_string();
    let end = ["--", "sh", "-c", SCRIPT, marker, &version];
    case.running(["--cow", "--on-success", on_success].into_iter().chain(end))
}

fn first_version(case: &Case) {
    prepared(case, &format!("set -- 0; {SCRIPT}"));
    assert_eq!(version(case), Ok(0));
}

fn unharmed(case: &Case, mounts: &str) {
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
    case.lazaret(["audit", "verify"]).go().exits(0);
    let staging: Vec<String> =
        names(&case.work).into_iter().filter(|name| name.contains(".lazaret-")).collect();
    assert_eq!(staging, Vec::<String>::new());
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[test]
fn a_run_that_is_killed_commits_all_or_nothing() {
    as_everybody(|case| {
        let (mounts, marker, mut dice, mut seen) = (mounts(), marker(), Dice(1), Seen::default());
        first_version(case);
        let took = cow_of(case, "commit", 1, &marker).go().exits(0).tells("committed").took;
        let mut current = version(case).unwrap();
        let_time_pass();
        for round in 2..47 {
            let moment = dice.below(took * 9 / 8);
            let what = format!("round {round}, killed after {moment:?} of {took:?}");
            killed(case, &cow_of(case, "commit", round, &marker), &marker, moment, &what);
            current = judged(case, current, round, &what, &mut seen);
        }
        eprintln!("{seen:?}");
        assert!(seen.before > 0, "{seen:?}");
        unharmed(case, &mounts);
    });
}

#[test]
fn a_commit_that_is_killed_is_finished_or_undone() {
    as_everybody(|case| {
        let (mounts, marker, mut dice, mut seen) = (mounts(), marker(), Dice(2), Seen::default());
        first_version(case);
        let mut current = 0;
        let mut took = Duration::from_millis(40);
        for round in 1..31 {
            cow_of(case, "keep", round, &marker).go().exits(0).tells("kept");
            let commit = case.lazaret(["commit"]);
            if round == 1 {
                took = commit.go().exits(0).took;
                current = judged(case, current, round, "not killed", &mut seen);
                continue;
            }
            let moment = dice.below(took * 9 / 8);
            let what = format!("round {round}, killed after {moment:?} of {took:?}");
            killed(case, &commit, &marker, moment, &what);
            let before = seen.before;
            current = judged(case, current, round, &what, &mut seen);
            // However fast the machine is at the moment: sometimes too early, sometimes too late.
            took = if seen.before > before { took * 5 / 4 } else { took * 4 / 5 };
        }
        eprintln!("{seen:?}");
        assert!(seen.before > 0 && seen.after > 1, "both ends happen: {seen:?}");
        unharmed(case, &mounts);
    });
}

#[test]
fn a_discard_that_is_killed_leaves_the_host_alone() {
    as_everybody(|case| {
        let (mounts, marker, mut dice, mut seen) = (mounts(), marker(), Dice(3), Seen::default());
        first_version(case);
        let mut took = Duration::from_millis(20);
        for round in 1..13 {
            cow_of(case, "keep", round, &marker).go().exits(0).tells("kept");
            let discard = case.lazaret(["discard"]);
            if round == 1 {
                took = discard.go().exits(0).took;
                continue;
            }
            let moment = dice.below(took * 9 / 8);
            let what = format!("round {round}, killed after {moment:?} of {took:?}");
            killed(case, &discard, &marker, moment, &what);
            judged(case, 0, 0, &what, &mut seen);
        }
        unharmed(case, &mounts);
    });
}

#[test]
fn a_limited_run_that_is_killed_leaves_no_control_group() {
    as_everybody(|case| {
        let (mounts, mut dice) = (mounts(), Dice(4));
        let limits = ["--memory", "200M", "--max-procs", "30", "--cpu-time", "20s"];
        let limited = |script: &str, marker: &str| {
            case.running(limits.into_iter().chain(["--", "sh", "-c", script, marker]))
        };
        let took = limited("true", &marker()).go().exits(0).took;
        for round in 0..18 {
            let marker = marker();
            let moment = dice.below(took * 3 / 2);
            let what = format!("round {round}, killed after {moment:?} of {took:?}");
            let script = "(setsid sleep 60 &); sh -c 'trap \"\" TERM HUP; sleep 60; :' $0 & sleep 60";
            killed(case, &limited(script, &marker), &marker, moment, &what);
        }
        limited("true", &marker()).go().exits(0);
        eventually("no group of a dead owner is left", || abandoned_groups().is_empty());
        unharmed(case, &mounts);
        assert_eq!(stored(case), Vec::<String>::new());
    });
}

#[test]
fn a_process_that_wants_to_stay_ends_with_the_clock() {
    as_everybody(|case| {
        let marker = marker();
        let script = "trap '' TERM HUP INT QUIT; \
                      (setsid sh -c 'trap \"\" TERM HUP; (setsid sh -c \"trap : TERM; while :; do sleep 1; done\" $0 &); sleep 60; :' $0 &) & \
                      while :; do sleep 1; done";
        for flags in [
            &["--timeout", "300ms"][..],
            &["--timeout", "300ms", "--cow"],
            &["--timeout", "300ms", "--level", "1"],
        ] {
            let all = flags.iter().copied().chain(["--", "sh", "-c", script, &marker]);
            let outcome = case.run(all).exits(124).tells("longer than");
            assert!(outcome.took < Duration::from_secs(10), "{flags:?}: {outcome:?}");
            assert_eq!(processes_with(&marker), Vec::<u32>::new(), "{flags:?}");
        }
    });
}

#[test]
fn two_runs_that_commit_to_one_directory_never_mix() {
    as_everybody(|case| {
        first_version(case);
        let mut both = 0;
        for round in 0..12 {
            let before = version(case).unwrap();
            let marker = marker();
            let versions = [100 + 2 * round, 101 + 2 * round];
            let mut running: Vec<Running> = versions
                .iter()
                .map(|version| {
                    let script = format!("read go; {SCRIPT}");
                    let version = version.to_string();
                    let end = ["--", "sh", "-c", &script, &marker, &version];
                    case.running(["--cow", "--on-success", "commit"].into_iter().chain(end)).start()
                })
                .collect();
            eventually("both are inside", || processes_with(&marker).len() >= 4);
            running.iter_mut().for_each(|running| drop(running.child.stdin.take()));
            let outcomes: Vec<_> = running.into_iter().map(Running::finish).collect();
            let now = version(case)
                .unwrap_or_else(|error| panic!("round {round}: a mixture: {error}\n{outcomes:?}"));
            assert!(now == before || versions.contains(&now), "round {round}: {now}");
            let told = outcomes.iter().filter(|outcome| outcome.stderr.contains("are committed")).count();
            both += u32::from(told > 0);
            for id in stored(case) {
                case.lazaret(["discard", &id]).go().exits(0);
            }
            let_time_pass();
        }
        assert!(both > 0, "no commit ever succeeded");
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn of_two_commits_of_one_transaction_exactly_one_applies() {
    as_everybody(|case| {
        first_version(case);
        let marker = marker();
        for round in 1..11 {
            cow_of(case, "keep", round, &marker).go().exits(0).tells("kept");
            let id = stored(case).pop().unwrap();
            let before = case.events_of("TRANSACTION_COMMITTED").len();
            let running = [0, 1].map(|_| case.lazaret(["commit", &id]).start());
            let outcomes = running.map(Running::finish);
            let applied = outcomes.iter().filter(|outcome| outcome.stderr.contains("are committed")).count();
            assert_eq!(applied, 1, "round {round}: {outcomes:?}");
            let mut codes = outcomes.iter().map(crate::case::Outcome::code).collect::<Vec<_>>();
            codes.sort_unstable();
            assert!(codes[0] == 0 && codes[1] != 0, "round {round}: {outcomes:?}");
            assert_eq!(version(case), Ok(round), "round {round}");
            assert_eq!(case.events_of("TRANSACTION_COMMITTED").len(), before + 1, "round {round}");
            assert_eq!(stored(case), Vec::<String>::new());
            let_time_pass();
        }
    });
}

#[test]
fn a_commit_and_a_discard_at_once_do_one_of_the_two() {
    as_everybody(|case| {
        first_version(case);
        let marker = marker();
        for round in 1..11 {
            let before = version(case).unwrap();
            cow_of(case, "keep", round, &marker).go().exits(0).tells("kept");
            let id = stored(case).pop().unwrap();
            let running = ["commit", "discard"].map(|command| case.lazaret([command, &id]).start());
            let [commit, discard] = running.map(Running::finish);
            let now = version(case)
                .unwrap_or_else(|error| panic!("round {round}: {error}: {commit:?} {discard:?}"));
            assert_eq!(now == round, commit.code() == 0, "round {round}: {commit:?} {discard:?}");
            assert_eq!(now == before, commit.code() != 0, "round {round}: {commit:?} {discard:?}");
            assert!(commit.code() == 0 || discard.code() == 0, "round {round}: {commit:?} {discard:?}");
            let left = stored(case);
            assert!(left.is_empty(), "round {round}: {left:?} {commit:?} {discard:?}");
            let_time_pass();
        }
    });
}

/// Runs `script` with `$L` in a mount namespace of its own, with a tmpfs with these options at `$S`, which is
/// the state directory. Its output, and whether it succeeded.
fn with_state_on(case: &Case, options: &str, prepare: &str, script: &str) -> (String, bool) {
    let (uid, state) = (case.who.uid(), case.state.display());
    let user = match case.who {
        Who::Other => format!("setpriv --reuid {uid} --regid {uid} --clear-groups"),
        Who::Caller => String::new(),
    };
    let script = format!(
        "mount -t tmpfs -o {options},mode=0777 none {state}; {prepare}\n{user} sh -c '{script}' 2>&1"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &script]).current_dir(&case.work).env_clear().stdin(Stdio::null());
    command.env("PATH", PATH).env("HOME", &case.home).env("XDG_STATE_HOME", &case.state);
    command.env("L", program()).env("S", &case.state);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).trim().to_owned(), output.status.success())
}

#[test]
fn a_full_disk_while_keeping_is_an_error_and_leaves_the_host_alone() {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "echo a > a");
        let script = "$L run --cow --on-success commit -- sh -c \"echo in >> a; head -c 6000000 /dev/urandom > big\"; \
                      echo code $?; ls -A $S/lazaret/transactions; cat a; ls; \
                      $L run --cow --on-success commit -- sh -c \"echo small > small\"; echo code $?; cat small; \
                      $L audit verify; echo code $?";
        let (seen, _) = with_state_on(case, "size=3m", ":", script);
        let (first, rest) = seen.split_once("code 125").unwrap_or_else(|| panic!("{seen}"));
        assert!(first.contains("cannot be kept") && first.contains("No space left on device"), "{seen}");
        assert!(rest.starts_with("\nlock\na\na\n"), "the host was touched, or half of it is kept: {seen}");
        assert!(rest.contains("code 0\nsmall\n") && rest.ends_with("code 0"), "{seen}");
    });
}

#[test]
fn a_state_directory_that_cannot_be_written_is_an_error_and_leaves_the_host_alone() {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "echo a > a");
        let log = case.root.join("audit.jsonl");
        let script = format!(
            "$L run --cow --on-success commit --audit {} -- sh -c \"echo in >> a\"; echo code $?; cat a; \
             $L run --cow -- sh -c \"echo in >> a\"; echo code $?; cat a; $L diff --list; echo code $?",
            log.display()
        );
        let read_only = format!("mount -o remount,ro,bind {}", case.state.display());
        let (seen, _) = with_state_on(case, "size=1m", &read_only, &script);
        let parts: Vec<&str> = seen.split("code 125\n").collect();
        assert!(parts.len() >= 3, "{seen}");
        assert!(parts[1].starts_with("a\n") && parts[2].starts_with("a\n"), "{seen}");
        assert!(seen.contains("Read-only file system"), "{seen}");
    });
}

#[test]
fn a_directory_that_is_read_only_on_the_host_takes_no_commit() {
    if !has_root() {
        return;
    }
    let case = crate::case::ordinary();
    prepared(&case, "mkdir d; echo a > d/a; echo b > b");
    case.run(["--cow", "--", "sh", "-c", "echo in >> d/a; echo in >> b"]).exits(0);
    fs::set_permissions(case.work.join("d"), fs::Permissions::from_mode(0o555)).unwrap();
    let before = tree(&case.work);
    let outcome = case.lazaret(["commit"]).go();
    assert!(outcome.code() != 0 && outcome.stderr.contains("/d/a"), "{outcome:?}");
    assert_eq!(tree(&case.work), before);
    fs::set_permissions(case.work.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    case.lazaret(["commit"]).go().exits(0);
    assert_eq!(outside(&case, "cat d/a b"), "a\nin\nb\nin");
}

#[test]
fn a_kept_transaction_that_is_damaged_is_told_and_harms_nothing() {
    as_everybody(|case| {
        prepared(case, "echo a > a");
        let keep = || drop(case.run(["--cow", "--", "sh", "-c", "echo in >> a"]).exits(0));
        keep();
        let id = stored(case).pop().unwrap();
        let record = case.state.join("lazaret/transactions").join(&id).join("transaction.json");
        let whole = fs::read(&record).unwrap();
        for damage in [&b""[..], b"{}", b"not json", &whole[..whole.len() / 2], b"\xff\xfe\0"] {
            fs::write(&record, damage).unwrap();
            let started = Instant::now();
            for command in ["diff", "commit", "discard"] {
                let outcome = case.lazaret([command, &id]).go();
                assert!(outcome.code() != 0 || command == "discard", "{command} {damage:?}: {outcome:?}");
            }
            assert!(started.elapsed() < Duration::from_secs(5));
            assert_eq!(outside(case, "cat a"), "a");
            case.run(["--cow", "--on-success", "discard", "--", "true"]).exits(0);
            if !record.exists() {
                break;
            }
        }
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}
