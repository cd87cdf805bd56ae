//! Reading the audit log: asking, following, counting, telling the story of a run.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::case::{Case, as_everybody, has_tool, ordinary, wait_within};

/// Three runs: one that fails, one under a tool's name that is refused a path, one that tries to escape.
fn runs(case: &Case) {
    case.sh("exit 3").exits(3);
    case.sh_with(&["--tool", "hammer"], "echo x > /etc/lazaret-it").tells("/etc/lazaret-it");
    case.sh("mount -t tmpfs none /tmp").exits(137);
}

fn query(case: &Case, args: &[&str]) -> Vec<Value> {
    let all = ["audit", "query", "--json"].into_iter().chain(args.iter().copied());
    let out = case.lazaret(all).go().exits(0).out();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(case: &Case) -> Vec<String> {
    let created = case.events_of("SANDBOX_CREATED");
    created.iter().map(|event| event["sandboxId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_query_without_conditions_is_the_log_as_it_is() {
    as_everybody(|case| {
        runs(case);
        let out = case.lazaret(["audit", "query", "--json"]).go().exits(0);
        assert_eq!(String::from_utf8_lossy(&out.stdout), fs::read_to_string(case.log()).unwrap());
        let human = case.lazaret(["audit", "query"]).go().exits(0).out();
        assert_eq!(human.lines().count(), case.events().len());
    });
}

#[test]
fn conditions_hold_together() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        runs(case);
        let ids = ids(case);
        let kinds = |events: Vec<Value>| -> Vec<String> {
            events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
        };
        let first = query(case, &["--sandbox", &ids[0]]);
        assert_eq!(first, case.events()[..4]);
        assert_eq!(query(case, &["--sandbox", "sb-"]).len(), case.events().len());
        assert_eq!(kinds(query(case, &["--event", "escape-attempt"])), ["ESCAPE_ATTEMPT"]);
        let both = query(case, &["--event", "Sandbox_Created", "--event", "sandbox-exited"]);
        assert_eq!(both.len(), 6);
        let critical = kinds(query(case, &["--severity", "critical"]));
        assert_eq!(critical, ["SYSCALL_BLOCKED", "ESCAPE_ATTEMPT"]);
        let medium = query(case, &["--severity", "MEDIUM"]);
        assert!(
            medium.len() >= 3 && medium.iter().all(|event| event["details"]["severity"] != "LOW"),
            "{medium:?}"
        );
        let path = query(case, &["--path", "/etc", "--severity", "low", "--sandbox", &ids[1]]);
        assert_eq!(path.len(), 1, "{path:?}");
        assert_eq!(path[0]["details"]["path"], "/etc/lazaret-it");
        assert_eq!(query(case, &["--path", "/et"]), [Value::Null; 0]);
        let tool = query(case, &["--tool", "hammer"]);
        assert!(
            tool.len() >= 5 && tool.iter().all(|event| event["sandboxId"] == ids[1].as_str()),
            "{tool:?}"
        );
        assert_eq!(tool[0]["details"]["tool"], "hammer");
        assert_eq!(
            query(case, &["--tool", "hammer", "--event", "sandbox-exited", "--sandbox", &ids[0]]).len(),
            0
        );
    });
}

#[test]
fn times_can_be_said_in_many_ways() {
    let case = ordinary();
    case.sh("true").exits(0);
    std::thread::sleep(Duration::from_millis(5));
    case.sh("true").exits(0);
    let middle = case.events()[4]["time"].as_str().unwrap().to_owned();
    assert_eq!(query(&case, &["--since", "1h"]).len(), 8);
    assert_eq!(query(&case, &["--until", "1h"]).len(), 0);
    assert_eq!(query(&case, &["--since", "2020-01-01"]).len(), 8);
    assert_eq!(query(&case, &["--until", "2020-01-01T10:00"]).len(), 0);
    assert_eq!(query(&case, &["--since", &middle]).len(), 4);
    assert_eq!(query(&case, &["--until", &middle]).len(), 4);
    case.lazaret(["audit", "query", "--since", "soon"]).go().exits(125).tells("is not a moment");
}

#[test]
fn the_newest_come_first_when_asked_and_a_limit_is_one() {
    let case = ordinary();
    case.sh("exit 1");
    case.sh("exit 2");
    let codes = |args: &[&str]| -> Vec<u64> {
        let mut all = vec!["--event", "sandbox-exited"];
        all.extend(args);
        query(&case, &all).iter().map(|event| event["details"]["exitCode"].as_u64().unwrap()).collect()
    };
    assert_eq!(codes(&[]), [1, 2]);
    assert_eq!(codes(&["--reverse"]), [2, 1]);
    assert_eq!(codes(&["--limit", "1"]), [1]);
    assert_eq!(codes(&["--reverse", "--limit", "1"]), [2]);
    assert_eq!(codes(&["--limit", "0"]), [0; 0]);
}

#[test]
fn what_is_no_kind_or_severity_is_refused_with_those_that_are() {
    let case = ordinary();
    case.sh("true").exits(0);
    let asked = |flag: &str, value: &str| case.lazaret(["audit", "query", flag, value]).go().exits(125);
    asked("--event", "escape").tells("ESCAPE_ATTEMPT").tells("LOG_ROTATED");
    asked("--severity", "awful").tells("LOW, MEDIUM, HIGH, CRITICAL");
    case.lazaret(["audit", "query", "--file", "/nonexistent"])
        .go()
        .exits(125)
        .tells("cannot open the audit log");
}

#[test]
fn a_damaged_line_is_named_and_hides_no_other() {
    let case = ordinary();
    case.sh("true").exits(0);
    let mut lines: Vec<String> = fs::read_to_string(case.log()).unwrap().lines().map(str::to_owned).collect();
    lines[1] = "{\"seq\":2,\"damaged\"".to_owned();
    fs::write(case.log(), format!("{}\n{{\"seq\":5,\"torn", lines.join("\n"))).unwrap();
    for args in [&["audit", "query", "--json"][..], &["audit", "query", "--json", "--reverse"]] {
        let outcome = case.lazaret(args).go().exits(1).tells("audit.jsonl:2: this line is not an event");
        assert_eq!(outcome.out().lines().count(), 3);
        assert_eq!(outcome.stderr.lines().count(), 1, "a line still being written is none: {outcome:?}");
    }
    case.lazaret(["audit", "stats"]).go().exits(1).tells("audit.jsonl:2");
    case.lazaret(["audit", "show"]).go().exits(1).tells("audit.jsonl:2");
}

#[test]
fn show_tells_the_story_of_a_run() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        runs(case);
        let ids = ids(case);
        let newest = case.lazaret(["audit", "show"]).go().exits(0).out();
        for part in [
            &*ids[2],
            "sh -c 'mount -t tmpfs none /tmp'",
            "ESCAPE_ATTEMPT",
            "CRITICAL",
            "in force",
            "+0.0",
            "escape",
        ] {
            assert!(newest.contains(part), "{part}: {newest}");
        }
        let refused = case.lazaret(["audit", "show", &ids[1]]).go().exits(0).out();
        for part in ["hammer", "write to /etc/lazaret-it", "-> to allow: --rw /etc", "1 violation", "of CPU"]
        {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let shown = case.lazaret(["audit", "show", &ids[0], "--json"]).go().exits(0).out();
        let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events, case.events()[..4]);
    });
}

#[test]
fn show_finds_one_sandbox_or_says_why_not() {
    let case = ordinary();
    case.lazaret(["audit", "show"]).go().exits(125).tells("cannot open the audit log");
    case.sh("true").exits(0);
    case.sh("true").exits(0);
    let ids = ids(&case);
    let ambiguous = case.lazaret(["audit", "show", "sb-"]).go().exits(1).tells("several sandboxes");
    assert!(ids.iter().all(|id| ambiguous.stderr.contains(id)), "{ambiguous:?}");
    case.lazaret(["audit", "show", "sb-zzz"]).go().exits(1).tells("there is no sandbox sb-zzz");
    case.lazaret(["audit", "show", &ids[0][..ids[0].len() - 1]]).go().exits(0);
    // It is found in a file that was set aside, and so is the newest.
    case.lazaret(["audit", "rotate"]).go().exits(0);
    assert!(case.lazaret(["audit", "show"]).go().exits(0).out().contains(&ids[1]));
    assert!(case.lazaret(["audit", "show", &ids[0]]).go().exits(0).out().contains("exit code 0"));
}

#[test]
fn an_empty_log_has_nothing_to_show() {
    let case = ordinary();
    let file = case.file("empty.jsonl", "");
    let file = file.to_str().unwrap();
    case.lazaret(["audit", "show", "--file", file]).go().exits(1).tells("no sandbox has been made yet");
    case.lazaret(["audit", "query", "--file", file]).go().exits(0).prints("");
    case.lazaret(["audit", "tail", "--file", file]).go().exits(0).prints("");
    let stats = case.lazaret(["audit", "stats", "--json", "--file", file]).go().exits(0).json();
    assert_eq!((&stats["events"], &stats["durationMs"]), (&json!(0), &json!(null)));
}

#[test]
fn stats_count_what_happened() {
    if !has_tool("mount") {
        return;
    }
    as_everybody(|case| {
        runs(case);
        case.lazaret(["audit", "rotate"]).go().exits(0);
        case.sh("exit 3");
        let stats = case.lazaret(["audit", "stats", "--json"]).go().exits(0).json();
        assert_eq!(stats["sandboxes"], 4);
        assert_eq!(stats["kinds"]["SANDBOX_CREATED"], 4);
        assert_eq!(stats["kinds"]["LOG_ROTATED"], 1);
        assert_eq!(stats["severities"]["CRITICAL"], 2);
        assert!(stats["severities"]["MEDIUM"].as_u64().unwrap() >= 1);
        assert_eq!(stats["exitCodes"]["3"], 2);
        assert_eq!(stats["outcomes"]["escape"], 1);
        for (list, name) in [("deniedPaths", "/etc/lazaret-it"), ("blockedSyscalls", "mount")] {
            let counted = stats[list].as_array().unwrap();
            assert!(counted.contains(&json!({ "name": name, "count": 1 })), "{counted:?}");
        }
        assert_eq!(stats["tools"], json!([{ "name": "hammer", "count": 1 }]));
        assert_eq!(stats["durationMs"]["count"], 4);
        assert!(stats["durationMs"]["p50"].as_f64() <= stats["durationMs"]["max"].as_f64());
        let some = case.lazaret(["audit", "stats", "--json", "--tool", "hammer"]).go().exits(0).json();
        assert_eq!(some["sandboxes"], 1);
        let text = case.lazaret(["audit", "stats"]).go().exits(0).out();
        assert!(text.contains("\nsystem calls blocked\n") && text.contains("         1  mount\n"), "{text}");
    });
}

#[test]
fn tail_prints_the_last_ones_in_their_order() {
    let case = ordinary();
    case.sh("exit 1");
    case.lazaret(["audit", "rotate"]).go().exits(0);
    case.sh("exit 2");
    let tail = |args: &[&str]| -> Vec<u64> {
        let all = ["audit", "tail", "--json"].into_iter().chain(args.iter().copied());
        let out = case.lazaret(all).go().exits(0).out();
        out.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(tail(&[]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(tail(&["-n", "6"]), [4, 5, 6, 7, 8, 9]);
    assert_eq!(tail(&["-n", "0"]), [0; 0]);
    assert_eq!(tail(&["-n", "2", "--event", "sandbox-exited"]), [3, 8]);
}

#[test]
fn tail_follows_over_rotation_and_ends_with_its_reader() {
    let case = ordinary();
    case.sh("exit 1");
    let mut command = case.lazaret(["audit", "tail", "-f", "-n", "1", "--json"]).command();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> u64 {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        event["seq"].as_u64().unwrap()
    };
    assert_eq!(next(), 4);
    let began = Instant::now();
    case.sh("exit 2");
    assert_eq!([next(), next(), next(), next()], [5, 6, 7, 8]);
    assert!(began.elapsed() < Duration::from_secs(5));
    case.lazaret(["audit", "rotate"]).go().exits(0);
    case.sh("exit 3");
    assert_eq!([next(), next(), next(), next(), next()], [9, 10, 11, 12, 13]);
    // Nobody reads any more, and nothing needs to happen for that to be noticed.
    drop(lines);
    let status = wait_within(&mut child, Duration::from_secs(5)).expect("it goes on without a reader");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn tail_ends_when_interrupted() {
    let case = ordinary();
    case.sh("true").exits(0);
    let running = case.lazaret(["audit", "tail", "-f"]).start();
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let outcome = running.finish();
    assert!(outcome.took < Duration::from_secs(5));
    assert_eq!(outcome.out().lines().count(), 4, "what was there is printed whole: {outcome:?}");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_closed_pipe_ends_a_query_quietly() {
    let case = ordinary();
    case.sh("true").exits(0);
    let text = fs::read(case.log()).unwrap();
    let mut file = fs::File::options().append(true).open(case.log()).unwrap();
    (0..2000).for_each(|_| file.write_all(&text).unwrap());
    let program = crate::case::program();
    let script = format!("{} audit query --json | head -n 1 | wc -l", program.display());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).env("XDG_STATE_HOME", &case.state);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
