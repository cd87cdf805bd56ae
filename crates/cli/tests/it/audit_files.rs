//! The files of the audit log: rotation, retention, export.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::case::{Case, Lazaret, as_everybody, has_tool, ordinary};

fn segments(case: &Case) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(case.log().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("audit.jsonl.0"))
        .collect();
    files.sort();
    files
}

fn verified(case: &Case) -> Value {
    case.lazaret(["audit", "verify", "--json"]).go().exits(0).json()
}

/// With a configuration.
fn configured<'a>(case: &'a Case, text: &str, args: &[&str]) -> Lazaret<'a> {
    let config = case.root.join("config");
    case.file(config.join("lazaret/config.toml"), text);
    case.lazaret(args).env("XDG_CONFIG_HOME", config)
}

#[test]
fn rotation_by_hand_keeps_the_chain() {
    as_everybody(|case| {
        case.lazaret(["audit", "rotate"]).go().exits(125).tells("cannot open the audit log");
        assert!(!case.log().exists());
        case.sh("exit 1");
        let told = case.lazaret(["audit", "rotate", "--json"]).go().exits(0).json();
        let first = case.log().with_file_name("audit.jsonl.000000000001");
        assert_eq!(told, json!({ "rotated": true, "file": first.to_str().unwrap() }));
        let mode = fs::metadata(&first).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        case.lazaret(["audit", "rotate"]).go().exits(0).tells("nothing to rotate");
        case.sh("exit 2");
        case.lazaret(["audit", "rotate"]).go().exits(0);
        let told = verified(case);
        assert_eq!((&told["lines"], &told["files"], &told["firstSeq"]), (&json!(10), &json!(3), &json!(1)));
        assert_eq!(told["note"], Value::Null);
        case.lazaret(["audit", "verify"])
            .go()
            .exits(0)
            .prints(&format!("{}: 10 events in 3 files, chain intact", case.log().display()));
    });
}

#[test]
fn a_missing_file_in_the_middle_is_found_and_the_oldest_is_a_note() {
    let case = ordinary();
    for n in 0..4 {
        case.sh(&format!("exit {n}"));
        case.lazaret(["audit", "rotate"]).go().exits(0);
    }
    let files = segments(&case);
    assert_eq!(files.len(), 4);
    let second = fs::read(&files[1]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    case.lazaret(["audit", "verify"])
        .go()
        .exits(1)
        .tells("audit.jsonl.000000000010: line 1: 5 lines are missing");
    let told = case.lazaret(["audit", "verify", "--json"]).go().exits(1).json();
    assert_eq!((&told["ok"], &told["line"]), (&json!(false), &json!(1)));
    assert_eq!(told["file"], files[2].to_str().unwrap());
    fs::write(&files[1], second).unwrap();
    fs::remove_file(&files[0]).unwrap();
    case.lazaret(["audit", "verify"])
        .go()
        .exits(0)
        .tells("begins at line 5, earlier files are gone: nothing in the log says");
    assert_eq!(verified(&case)["firstSeq"], 5);
}

#[test]
fn old_files_are_removed_when_asked_and_the_log_says_so() {
    let case = ordinary();
    for n in 0..4 {
        case.sh(&format!("exit {n}"));
        case.lazaret(["audit", "rotate", "--keep", "2"]).go().exits(0);
    }
    assert_eq!(segments(&case).len(), 2);
    case.lazaret(["audit", "verify"]).go().exits(0).tells("retention removed them, the log says");
    case.lazaret(["audit", "rotate", "--keep", "0"]).go().exits(125);
    // As configured, when nothing is said.
    case.sh("true").exits(0);
    configured(&case, "[audit]\nkeep = 1\n", &["audit", "rotate"]).go().exits(0);
    assert_eq!(segments(&case).len(), 1);
}

#[test]
fn a_log_that_has_become_large_goes_on_by_itself() {
    as_everybody(|case| {
        for n in 0..6 {
            let script = format!("exit {n}");
            configured(case, "[audit]\nrotateAt = 4000\n", &["run", "--", "sh", "-c", &script]).go().exits(n);
        }
        let files = segments(case);
        assert!(files.len() >= 2, "{files:?}");
        assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() < 8000));
        let told = verified(case);
        assert_eq!((&told["files"], &told["note"]), (&json!(files.len() + 1), &Value::Null));
        let exited =
            case.lazaret(["audit", "query", "--event", "sandbox-exited", "--json"]).go().exits(0).out();
        assert_eq!(exited.lines().count(), 6);
    });
    let case = ordinary();
    (0..6).for_each(|_| {
        drop(configured(&case, "[audit]\nrotateAt = 0\n", &["run", "--", "true"]).go().exits(0))
    });
    assert!(segments(&case).is_empty());
}

#[test]
fn runs_at_once_rotate_under_each_other_and_lose_nothing() {
    as_everybody(|case| {
        let config = "[audit]\nrotateAt = 3000\n";
        for _ in 0..2 {
            let running: Vec<_> =
                (0..6).map(|_| configured(case, config, &["run", "--", "true"]).start()).collect();
            running.into_iter().for_each(|running| drop(running.finish().exits(0)));
        }
        assert!(segments(case).len() >= 3);
        verified(case);
        let stats = case.lazaret(["audit", "stats", "--json"]).go().exits(0).json();
        for kind in ["SANDBOX_CREATED", "SANDBOX_ENTERED", "SANDBOX_EXITED", "SANDBOX_DESTROYED"] {
            assert_eq!(stats["kinds"][kind], 12, "{kind}");
        }
    });
}

#[test]
fn a_log_that_a_sandbox_could_see_does_not_rotate_by_itself_and_its_files_are_hidden() {
    as_everybody(|case| {
        let log = case.work.join("own.jsonl");
        let log = log.to_str().unwrap();
        let small = "[audit]\nrotateAt = 100\n";
        for _ in 0..3 {
            configured(case, small, &["run", "--audit", log, "--", "true"]).go().exits(0);
        }
        assert!(!case.work.join("own.jsonl.000000000001").exists());
        case.lazaret(["audit", "rotate", "--file", log]).go().exits(0);
        let inside = "cat own.jsonl*; echo x >> own.jsonl.000000000001; rm -f own.jsonl.000000000001; ls";
        configured(case, small, &["run", "--audit", log, "--", "sh", "-c", inside])
            .go()
            .prints("own.jsonl\nown.jsonl.000000000001\nown.jsonl.head");
        case.lazaret(["audit", "verify", log]).go().exits(0);
    });
}

#[test]
fn a_database_has_every_event_and_answers() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        case.sh_with(&["--tool", "hammer"], "echo x > /etc/lazaret-it");
        case.lazaret(["audit", "rotate"]).go().exits(0);
        case.sh("exit 3").exits(3);
        let db = case.work.join("audit.db");
        case.lazaret(["audit", "export", "--sqlite", "audit.db"]).go().exits(0).prints("");
        assert_eq!(fs::metadata(&db).unwrap().permissions().mode() & 0o777, 0o600);
        let script = "import sqlite3, sys, json\ndb = sqlite3.connect(sys.argv[1])\nq = lambda s: db.execute(s).fetchall()\n\
            print(json.dumps([q('PRAGMA integrity_check'), q('SELECT count(*), max(seq) FROM events'), \
            q('SELECT tool, exit_code, violations FROM sandboxes ORDER BY created'), \
            q('SELECT severity, path FROM violations'), q('SELECT json_extract(details, \"$.exitCode\") FROM events WHERE event = \"SANDBOX_EXITED\"')]))";
        let output = std::process::Command::new("python3").args(["-c", script]).arg(&db).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let last = verified(case)["lastSeq"].clone();
        assert_eq!(found[0], json!([["ok"]]));
        assert_eq!(found[1], json!([[last, last]]));
        assert_eq!(found[2], json!([["hammer", 2, 1], [null, 3, 0]]));
        assert_eq!(found[3], json!([["MEDIUM", "/etc/lazaret-it"]]));
        assert_eq!(found[4], json!([[2], [3]]));
    });
}

#[test]
fn an_export_replaces_nothing_unless_forced_and_leaves_nothing_behind() {
    let case = ordinary();
    case.sh("true").exits(0);
    let file = case.file("audit.db", "mine");
    case.lazaret(["audit", "export", "--sqlite", "audit.db"]).go().exits(125).tells("--force replaces it");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    case.lazaret(["audit", "export", "--sqlite", "audit.db", "--force", "--event", "dns-query"])
        .go()
        .exits(0);
    assert!(fs::read(&file).unwrap().starts_with(b"SQLite format 3\0"));
    case.lazaret(["audit", "export", "--sqlite", "none/audit.db"]).go().exits(125).tells("cannot make");
    case.lazaret(["audit", "export", "--sqlite", "new.db", "--file", "/nonexistent"]).go().exits(125);
    case.lazaret(["audit", "export"]).go().exits(125);
    let left: Vec<_> = fs::read_dir(&case.work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["audit.db"]);
}

#[test]
fn comma_separated_values_go_to_a_file_or_to_standard_output() {
    let case = ordinary();
    case.sh("exit 3").exits(3);
    let out =
        case.lazaret(["audit", "export", "--csv", "-", "--event", "sandbox-exited"]).go().exits(0).out();
    assert_eq!(out.lines().count(), 2);
    assert!(
        out.starts_with("seq,time,timestamp,sandbox_id,event,severity,host,path,tool,syscall,details"),
        "{out}"
    );
    assert!(out.contains("\"\"exitCode\"\":3"), "{out}");
    case.lazaret(["audit", "export", "--csv", "all.csv"]).go().exits(0);
    assert_eq!(fs::read_to_string(case.work.join("all.csv")).unwrap().lines().count(), 5);
}
