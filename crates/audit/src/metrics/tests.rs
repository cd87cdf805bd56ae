//! What is counted, event by event, and that it does not depend on how much of it the log was told.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::event::{Event, EventKind};

const NOW: u64 = 1_800_000_000_000;

fn event(kind: EventKind, sandbox: &str, after_ms: u64, details: Json) -> Event {
    let Json::Object(details) = details else { panic!("{details}") };
    Event {
        seq: 1,
        event_id: String::new(),
        sandbox_id: sandbox.to_owned(),
        timestamp: NOW + after_ms,
        time: String::new(),
        event: kind,
        details,
        prev: String::new(),
        hash: String::new(),
    }
}

fn created(sandbox: &str) -> Event {
    let supervisor = json!({ "pid": 1, "startTicks": 2, "pidNamespace": 3 });
    let details = json!({ "level": 2, "profile": "default", "tool": "sort", "supervisor": supervisor });
    event(EventKind::SandboxCreated, sandbox, 0, details)
}

fn exited(sandbox: &str, more: Json) -> Event {
    let mut details = json!({
        "outcome": "exited", "durationMs": 40,
        "usage": { "cpuMs": 20, "maxRssBytes": 5 << 20, "ioReadBytes": 8192, "ioWriteBytes": 0 },
    });
    details.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(EventKind::SandboxExited, sandbox, 50, details)
}

fn destroyed(sandbox: &str) -> Event {
    event(EventKind::SandboxDestroyed, sandbox, 60, json!({}))
}

fn blocked(sandbox: &str, call: &str, count: u64) -> Event {
    let details = json!({
        "type": "SYSCALL", "severity": "HIGH", "description": format!("system call {call}"), "process": "p",
        "layer": "seccomp", "syscall": { "number": 1, "name": call, "args": [] }, "count": count,
    });
    event(EventKind::SyscallBlocked, sandbox, 10, details)
}

fn total(call: &str, count: u64) -> Json {
    json!({ "event": "SYSCALL_BLOCKED", "type": "SYSCALL", "severity": "HIGH", "syscall": call, "count": count })
}

fn tally(events: &[Event]) -> Tally {
    let mut tally = Tally::new();
    events.iter().for_each(|event| tally.count(event));
    tally
}

fn telling(after_ms: u64) -> Telling {
    Telling { now_ms: NOW + after_ms, version: "1.2.3", one_by_one: 5, log: Readable::Yes }
}

/// The value of a line of the text.
fn value(tally: &Tally, line: &str) -> f64 {
    let text = text(&tally.families(&telling(1000)), Format::Prometheus);
    let found = text.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse().unwrap()
}

#[test]
fn a_sandbox_is_counted_from_its_first_event_to_its_last() {
    let mut tally = tally(&[created("a")]);
    assert_eq!(value(&tally, "lazaret_sandboxes_created_total{level=\"2\",profile=\"default\"}"), 1.0);
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 1.0);
    assert_eq!(value(&tally, "lazaret_sandbox_creation_rate"), 1.0 / 60.0);
    tally.count(&exited("a", json!({ "violations": 0 })));
    tally.count(&destroyed("a"));
    for (line, expected) in [
        ("lazaret_sandboxes_active", 0.0),
        ("lazaret_sandboxes_ended_total{outcome=\"exited\"}", 1.0),
        ("lazaret_sandbox_lifetime_seconds_sum", 0.06),
        ("lazaret_sandbox_lifetime_seconds_bucket{le=\"0.05\"}", 0.0),
        ("lazaret_sandbox_lifetime_seconds_bucket{le=\"0.1\"}", 1.0),
        ("lazaret_sandbox_cpu_seconds_sum", 0.02),
        ("lazaret_sandbox_memory_bytes_sum", f64::from(5 << 20)),
        ("lazaret_sandbox_io_bytes_sum{direction=\"read\"}", 8192.0),
        ("lazaret_sandbox_io_bytes_bucket{direction=\"write\",le=\"0\"}", 1.0),
        ("lazaret_tool_runs_total{outcome=\"exited\",tool=\"sort\"}", 1.0),
        ("lazaret_recent_sandbox_cpu_seconds{sandbox=\"a\"}", 0.02),
        ("lazaret_audit_events_total{event=\"SANDBOX_EXITED\"}", 1.0),
        ("lazaret_build_info{version=\"1.2.3\"}", 1.0),
    ] {
        assert_eq!(value(&tally, line), expected, "{line}");
    }
}

#[test]
fn a_flood_counts_while_it_goes_on_and_exactly_at_the_end() {
    let line = "lazaret_syscalls_blocked_total{syscall=\"chroot\"}";
    let mut tally = tally(&[created("a"), blocked("a", "chroot", 1), blocked("a", "chroot", 10)]);
    assert_eq!(value(&tally, line), 10.0);
    tally.count(&exited("a", json!({ "violations": 57, "violationCounts": [total("chroot", 57)] })));
    assert_eq!(value(&tally, line), 57.0);
    assert_eq!(value(&tally, "lazaret_policy_violations_total{type=\"syscall\",severity=\"high\"}"), 57.0);
    // The next command of the same sandbox begins anew.
    tally.count(&blocked("a", "chroot", 1));
    assert_eq!(value(&tally, line), 58.0);
    tally.count(&exited("a", json!({ "violations": 2, "violationCounts": [total("chroot", 2)] })));
    tally.count(&destroyed("a"));
    assert_eq!(value(&tally, line), 59.0);
    assert_eq!(value(&tally, "lazaret_recent_sandbox_violations{sandbox=\"a\"}"), 59.0);
}

#[test]
fn a_log_without_exact_numbers_by_name_loses_none() {
    let tally = tally(&[created("a"), blocked("a", "chroot", 10), exited("a", json!({ "violations": 17 }))]);
    assert_eq!(value(&tally, "lazaret_policy_violations_total{type=\"syscall\",severity=\"high\"}"), 10.0);
    assert_eq!(value(&tally, "lazaret_policy_violations_total{type=\"unknown\",severity=\"unknown\"}"), 7.0);
}

#[test]
fn whoever_was_killed_is_lost_and_not_active_for_ever() {
    let mut tally = tally(&[created("a"), blocked("a", "chroot", 10), created("b"), created("c")]);
    tally.look_for_lost(NOW, |watched| {
        assert_eq!(watched.supervisor.as_ref().unwrap()["pid"], 1);
        Fate::Unknown
    });
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 3.0);
    let mut fates = [Fate::Lost, Fate::Runs, Fate::Unknown].into_iter();
    tally.look_for_lost(NOW, |_| fates.next().unwrap());
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 2.0);
    assert_eq!(value(&tally, "lazaret_sandboxes_ended_total{outcome=\"lost\"}"), 1.0);
    assert_eq!(value(&tally, "lazaret_syscalls_blocked_total{syscall=\"chroot\"}"), 10.0);
    assert_eq!(value(&tally, "lazaret_sandbox_lifetime_seconds_count"), 0.0);
    // What nobody can look for is given up on after a day.
    tally.look_for_lost(NOW + 25 * 3_600_000, |_| Fate::Unknown);
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 0.0);
    // An end that comes late after all changes nothing.
    tally.count(&destroyed("a"));
    assert_eq!(value(&tally, "lazaret_sandboxes_ended_total{outcome=\"lost\"}"), 3.0);
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 0.0);
}

#[test]
fn connections_and_bytes_are_exact_at_the_end() {
    let connection = |sent: u64| {
        let details =
            json!({ "decision": "allowed", "host": "a.example", "sentBytes": sent, "receivedBytes": 1 });
        event(EventKind::NetworkConnection, "a", 5, details)
    };
    let denied = event(
        EventKind::PolicyViolation,
        "a",
        6,
        json!({ "type": "NETWORK", "severity": "HIGH", "description": "d", "protocol": "tcp", "host": "h", "count": 1 }),
    );
    let network = json!({ "connections": 5, "failed": 1, "denied": 3, "sentBytes": 100, "receivedBytes": 9 });
    let counts = [json!({ "event": "POLICY_VIOLATION", "type": "NETWORK", "severity": "HIGH", "count": 3 })];
    let end = exited("a", json!({ "network": network, "violations": 3, "violationCounts": counts }));
    let tally = tally(&[created("a"), connection(10), connection(20), denied, end]);
    for (line, expected) in [
        ("lazaret_connections_total{verdict=\"allowed\"}", 5.0),
        ("lazaret_connections_total{verdict=\"denied\"}", 3.0),
        ("lazaret_connections_failed_total", 1.0),
        ("lazaret_network_bytes_total{direction=\"sent\"}", 100.0),
        ("lazaret_network_bytes_total{direction=\"received\"}", 9.0),
        ("lazaret_policy_violations_total{type=\"network\",severity=\"high\"}", 3.0),
    ] {
        assert_eq!(value(&tally, line), expected, "{line}");
    }
    let text = text(&tally.families(&telling(0)), Format::Prometheus);
    assert!(!text.contains("example"), "a host is no label");
}

#[test]
fn metrics_do_not_grow_with_what_is_in_the_log() {
    let mut tally = Tally::new();
    for number in 0..2000 {
        let id = format!("sb-{number:05}");
        let mut begin = created(&id);
        begin.details.insert("tool".to_owned(), format!("tool{number}").into());
        begin.details.insert("profile".to_owned(), "long".repeat(number).into());
        tally.count(&begin);
        tally.count(&blocked(&id, &format!("call{number}"), 1));
        let limit = json!({ "limit": format!("limit{number}") });
        tally.count(&event(EventKind::ResourceLimitExceeded, &id, 1, limit));
        if number % 2 == 0 {
            tally.count(&exited(&id, json!({ "outcome": format!("outcome{number}") })));
            tally.count(&destroyed(&id));
        }
    }
    let text = text(&tally.families(&telling(0)), Format::Prometheus);
    assert!(text.len() < 100_000, "{}", text.len());
    assert_eq!(value(&tally, "lazaret_sandboxes_active"), 1000.0);
}

#[test]
fn an_empty_tally_has_every_number_that_alerts_ask_for() {
    let tally = Tally::new();
    for line in [
        "lazaret_escape_attempts_total",
        "lazaret_policy_violations_total{type=\"filesystem\",severity=\"critical\"}",
        "lazaret_sandboxes_ended_total{outcome=\"lost\"}",
        "lazaret_sandboxes_active",
        "lazaret_audit_bad_lines_total",
    ] {
        assert_eq!(value(&tally, line), 0.0, "{line}");
    }
    assert_eq!(value(&tally, "lazaret_audit_readable"), 1.0);
}

proptest! {
    /// Whatever the log was told of a flood, and whether or not the end is there: never more than there was, never
    /// less than was told, exactly as much when the end is there.
    #[test]
    fn no_violation_is_counted_twice(floods in prop::collection::vec((0..4u8, 1..5000u64), 1..30), ends: bool) {
        let mut events = vec![created("a")];
        let mut exact = std::collections::BTreeMap::<String, u64>::new();
        let mut told = 0;
        for (call, more) in floods {
            let name = format!("call{call}");
            let count = exact.entry(name.clone()).or_default();
            for _ in 0..more {
                *count += 1;
                let power = 10u64.pow(count.ilog10());
                if *count == power {
                    events.push(blocked("a", &name, *count));
                }
            }
        }
        for count in exact.values() {
            told += 10u64.pow(count.ilog10());
        }
        let all: u64 = exact.values().sum();
        if ends {
            let totals: Vec<Json> = exact.iter().map(|(name, count)| total(name, *count)).collect();
            events.push(exited("a", json!({ "violations": all, "violationCounts": totals })));
            events.push(destroyed("a"));
        }
        let tally = tally(&events);
        let counted = value(&tally, "lazaret_policy_violations_total{type=\"syscall\",severity=\"high\"}");
        prop_assert_eq!(counted, if ends { all } else { told } as f64);
    }

    /// Any event of any kind with any details is counted without a panic, and the text stays one that can be read.
    #[test]
    fn no_event_is_too_strange(
        kinds in prop::collection::vec(0..EventKind::ALL.len(), 1..40),
        names in prop::collection::vec(".{0,20}", 8),
        number: u64,
    ) {
        let mut tally = Tally::new();
        for (at, kind) in kinds.iter().enumerate() {
            let name = &names[at % names.len()];
            let details = json!({
                "level": number, "profile": name, "tool": name, "limit": name, "outcome": name, "count": number / 2,
                "violations": number / 2, "type": name, "severity": name, "description": name,
                "usage": { "cpuMs": number }, "network": { "connections": number / 2 },
                "violationCounts": [{ "event": name, "count": number / 4 }],
                "syscall": { "name": name }, "durationMs": number / 100, "error": name,
            });
            tally.count(&event(EventKind::ALL[*kind], &names[at % 3], number % 1000, details));
        }
        let text = text(&tally.families(&telling(0)), Format::Prometheus);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            prop_assert!(value.parse::<f64>().is_ok(), "{}", line);
        }
    }
}

#[test]
fn calls_of_tools_are_counted_by_what_became_of_them_and_names_are_bounded() {
    let call = |decision: Json, result: Json, tool: &str| {
        let details =
            json!({ "serverName": "files", "toolName": tool, "policyDecision": decision, "result": result });
        event(EventKind::ToolCall, "a", 5, details)
    };
    let mut tally = tally(&[
        call(json!({ "status": "allow" }), json!({ "status": "success" }), "read"),
        call(json!("allow"), json!("success"), "read"),
        call(json!({ "status": "deny" }), json!({ "status": "denied" }), "read"),
        event(EventKind::ToolCall, "a", 6, json!({ "decision": "escalate" })),
    ]);
    let line = |labels: &str| format!("lazaret_tool_calls_total{{{labels}}}");
    let allowed = line("decision=\"allow\",result=\"success\",server=\"files\",tool=\"read\"");
    let denied = line("decision=\"deny\",result=\"denied\",server=\"files\",tool=\"read\"");
    let unknown = line("decision=\"escalate\",result=\"unknown\",server=\"unknown\",tool=\"unknown\"");
    assert_eq!([&allowed, &denied, &unknown].map(|line| value(&tally, line)), [2.0, 1.0, 1.0]);
    (0..5000).for_each(|n| tally.count(&call(json!("allow"), json!("success"), &format!("t{n}"))));
    let text = text(&tally.families(&telling(0)), Format::Prometheus);
    assert!(text.lines().filter(|line| line.starts_with("lazaret_tool_calls_total")).count() < 410);
    let other = line("decision=\"allow\",result=\"success\",server=\"files\",tool=\"other\"");
    assert!(value(&tally, &other) > 4500.0);
}
