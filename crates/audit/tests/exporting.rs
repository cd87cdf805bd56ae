//! Databases: what is written is what the real SQLite reads, row for row, and it finds nothing to object to.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::fs::File;
use std::path::Path;

use common::{Dir, event, filled, not_run};
use lazaret_audit::export::{self, EventDatabase};
use lazaret_audit::sqlite::{Database, Definition, SqliteError, Value};
use lazaret_audit::{EventKind, Log, NewEvent, View};
use serde_json::{Value as Json, json};

const T: Definition =
    Definition { name: "t", sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT, z TEXT)" };

/// What a script for Python prints, as JSON; `db` is open and was checked.
fn asked(path: &Path, script: &str) -> Option<Json> {
    let script = format!(
        "import sqlite3, json, sys\n\
         db = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n\
         assert db.execute('PRAGMA integrity_check').fetchall() == [('ok',)], db.execute('PRAGMA integrity_check').fetchall()\n\
         {script}"
    );
    #[expect(clippy::disallowed_methods, reason = "the real SQLite is what is asked")]
    let output = std::process::Command::new("python3").args(["-c", &script]).arg(path).output();
    let Ok(output) = output else {
        not_run("needs python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_table_without_rows_is_an_empty_table() {
    let dir = Dir::new();
    let path = dir.path().join("x.db");
    Database::new(File::create(&path).unwrap()).unwrap().finish(T, &[]).unwrap();
    let found = asked(&path, "print(json.dumps(db.execute('SELECT * FROM t').fetchall()))");
    assert!(found.is_none_or(|rows| rows == json!([])));
}

#[test]
fn rows_of_every_size_around_every_limit_come_back() {
    let dir = Dir::new();
    let path = dir.path().join("x.db");
    let mut database = Database::new(File::create(&path).unwrap()).unwrap();
    let numbers = [0, 1, 2, -1, 127, 128, -129, 32_768, 1 << 23, 1 << 31, 1 << 47, i64::MIN, i64::MAX];
    let sizes = (0..200)
        .chain(4040..4100)
        .chain(4096 * 2 - 60..4096 * 2 + 60)
        .chain([20_000, 65_536, 300_000, 1_000_000]);
    let mut rows = Vec::new();
    for (n, size) in sizes.enumerate() {
        // Gaps, so that rows are not their own numbers, and numbers of every length.
        let id = 3 * n as i64 + if n > 300 { 1 << 40 } else { -7 };
        rows.push((id, numbers[n % numbers.len()], "é\0x".repeat(size / 4), size));
    }
    for (id, number, text, _) in &rows {
        database.row(*id, &[Value::Null, Value::Integer(*number), Value::Text(text), Value::Null]).unwrap();
    }
    assert_eq!(database.rows(), rows.len() as u64);
    database.finish(T, &[]).unwrap();
    let expected: Vec<Json> =
        rows.iter().map(|(id, number, text, _)| json!([id, number, text, null])).collect();
    let found =
        asked(&path, "print(json.dumps(db.execute('SELECT id, n, s, z FROM t ORDER BY id').fetchall()))");
    assert!(found.is_none_or(|rows| rows == Json::from(expected)));
}

#[test]
fn a_million_rows_are_found_one_by_one() {
    let dir = Dir::new();
    let path = dir.path().join("x.db");
    let mut database = Database::new(File::create(&path).unwrap()).unwrap();
    for n in 1..=1_000_000i64 {
        let text = n.to_string();
        database.row(n, &[Value::Null, Value::Integer(n * 7), Value::Text(&text), Value::Null]).unwrap();
    }
    database.finish(T, &[]).unwrap();
    let script = "\
one = lambda q: db.execute(q).fetchone()\n\
print(json.dumps([one('SELECT count(*), sum(n), min(id), max(id) FROM t'), \
one('SELECT count(*) FROM t WHERE CAST(s AS INTEGER) <> id'), \
[one('SELECT s FROM t WHERE id = %d' % i)[0] for i in (1, 2, 499999, 777777, 1000000)], \
one('SELECT s FROM t WHERE id = 1000001')]))";
    let expected = json!([
        [1_000_000, 3_500_003_500_000i64, 1, 1_000_000],
        [0],
        ["1", "2", "499999", "777777", "1000000"],
        null
    ]);
    assert!(asked(&path, script).is_none_or(|found| found == expected));
}

#[test]
fn definitions_that_do_not_fit_are_refused() {
    let dir = Dir::new();
    let database = Database::new(File::create(dir.path().join("x.db")).unwrap()).unwrap();
    let many = [Definition { name: "v", sql: "CREATE VIEW v AS SELECT 1 FROM t" }; 100];
    assert!(matches!(database.finish(T, &many), Err(SqliteError::SchemaTooLarge)));
}

/// A log of a bit of everything.
fn log(dir: &Dir) -> Vec<Vec<u8>> {
    let log = Log::open(&dir.log()).unwrap();
    let new = |kind, id: &str| NewEvent::new(kind, id);
    let created = new(EventKind::SandboxCreated, "sb-1").with("command", json!(["a", "b c"]));
    log.append(&created.with("tool", "hammer").with("directory", "/w").with("level", 2)).unwrap();
    let denied = new(EventKind::PolicyViolation, "sb-1").with("severity", "HIGH").with("path", "/etc/shadow");
    log.append(&denied.with("description", "read of /etc/shadow").with("count", 1).with("remedy", "--ro"))
        .unwrap();
    let refused =
        new(EventKind::PolicyViolation, "sb-1").with("severity", "MEDIUM").with("host", "bad.example.com");
    log.append(&refused.with("port", 443).with("protocol", "tcp").with("reason", "unlisted")).unwrap();
    let blocked = new(EventKind::SyscallBlocked, "sb-1").with("severity", "CRITICAL");
    let call = json!({ "number": 165, "name": "mount", "args": ["0x1"] });
    log.append(&blocked.with("syscall", call.clone())).unwrap();
    let indicator = json!({ "severity": "CRITICAL", "syscall": call, "path": "/tmp" });
    log.append(&new(EventKind::EscapeAttempt, "sb-1").with("indicator", indicator)).unwrap();
    let connected =
        new(EventKind::NetworkConnection, "sb-1").with("decision", "allowed").with("host", "example.com");
    log.append(&connected.with("port", 443).with("sentBytes", 5).with("durationMs", 1.5)).unwrap();
    log.append(&new(EventKind::DnsQuery, "sb-1").with("name", "example.com").with("answer", "addresses"))
        .unwrap();
    log.append(&event(1).with("long", "x y ".repeat(900)).with("text", "\u{202e}\"\\\n")).unwrap();
    let call = new(EventKind::ToolCall, "sb-1").with("serverName", "files").with("toolName", "read");
    let decision = json!({ "status": "deny", "rule": "r", "reason": "why" });
    log.append(&call.with("policyDecision", decision).with("result", json!({ "status": "denied" }))).unwrap();
    let exited = new(EventKind::SandboxExited, "sb-1").with("exitCode", 3).with("outcome", "exited");
    log.append(&exited.with("durationMs", 12).with("violations", 4)).unwrap();
    common::lines(&dir.log())
}

#[test]
fn events_are_rows_and_the_views_answer() {
    let dir = Dir::new();
    let path = dir.path().join("events.db");
    let lines = log(&dir);
    let mut database = EventDatabase::new(File::create(&path).unwrap()).unwrap();
    lines.iter().for_each(|line| database.add(&View::of(line).unwrap()).unwrap());
    database.finish().unwrap();
    let script = "\
q = lambda s: db.execute(s).fetchall()\n\
print(json.dumps({'events': q('SELECT * FROM events ORDER BY seq'), \
'sandboxes': q('SELECT sandbox_id, tool, command, outcome, exit_code, duration_ms FROM sandboxes'), \
'violations': q('SELECT severity, description, path, host, syscall, remedy FROM violations'), \
'connections': q('SELECT decision, host, port FROM connections'), \
'calls': q('SELECT server, tool, decision, rule, reason, result FROM tool_calls')}))";
    let Some(found) = asked(&path, script) else { return };
    let rows = found["events"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        let event: Json = serde_json::from_slice(line).unwrap();
        assert_eq!((&row[0], &row[1], &row[2]), (&event["seq"], &event["time"], &event["timestamp"]));
        assert_eq!((&row[3], &row[4]), (&event["sandboxId"], &event["event"]));
        let details: Json = serde_json::from_str(row[10].as_str().unwrap()).unwrap();
        assert_eq!(details, event["details"]);
    }
    let facts = |n: usize| -> Vec<&Json> { (5..10).map(|column| &rows[n][column]).collect() };
    assert_eq!(facts(0), [&json!(null), &json!(null), &json!(null), &json!("hammer"), &json!(null)]);
    assert_eq!(facts(4), [&json!("CRITICAL"), &json!(null), &json!("/tmp"), &json!(null), &json!("mount")]);
    assert_eq!(rows[6][6], "example.com");
    assert_eq!(found["sandboxes"], json!([["sb-1", "hammer", "[\"a\",\"b c\"]", "exited", 3, 12]]));
    assert_eq!(found["violations"].as_array().unwrap().len(), 4);
    assert_eq!(
        found["violations"][0],
        json!(["HIGH", "read of /etc/shadow", "/etc/shadow", null, null, "--ro"])
    );
    let connections = json!([["refused", "bad.example.com", 443], ["allowed", "example.com", 443]]);
    assert_eq!(found["connections"], connections);
    assert_eq!(found["calls"], json!([["files", "read", "deny", "r", "why", "denied"]]));
}

#[test]
fn a_line_that_stands_twice_is_one_row() {
    let dir = Dir::new();
    let lines = common::lines(&filled(&dir, 2));
    let mut database = EventDatabase::new(File::create(dir.path().join("x.db")).unwrap()).unwrap();
    database.add(&View::of(&lines[0]).unwrap()).unwrap();
    assert!(database.add(&View::of(&lines[0]).unwrap()).unwrap_err().is_about_one_event());
    database.add(&View::of(&lines[1]).unwrap()).unwrap();
    assert_eq!(database.rows(), 2);
}

#[test]
fn comma_separated_values_are_quoted_and_no_formulas() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let event =
        NewEvent::new(EventKind::PolicyViolation, "sb").with("path", "=1+1,\"x\"\n").with("host", "a.b");
    log.append(&event).unwrap();
    let line = &common::lines(&dir.log())[0];
    let mut out = Vec::new();
    export::csv_header(&mut out).unwrap();
    export::csv_row(&mut out, &View::of(line).unwrap()).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("seq,time,timestamp,sandbox_id,event,"), "{text}");
    // The order of the details is that of the program's maps.
    assert!(text.contains(",sb,POLICY_VIOLATION,,a.b,\"'=1+1,\"\"x\"\"\n\",,,\"{\"\""), "{text}");
    assert!(text.contains("\"\"host\"\":\"\"a.b\"\""), "{text}");
}
