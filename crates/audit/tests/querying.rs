//! Questions: what is found by looking at few bytes is what is found by reading everything, in both directions,
//! over several files, with damaged lines in between.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::collections::HashSet;
use std::path::Path;

use common::{Dir, event, filled, lines};
use lazaret_audit::follow::RawFollow;
use lazaret_audit::query::{self, Answer, Matcher, Then};
use lazaret_audit::view::Header;
use lazaret_audit::{Event, EventKind, Filter, HostPattern, Log, NewEvent, Severity, View};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What is found, and the lines that could not be read.
fn ask(log: &Path, filter: &Filter) -> (Vec<u64>, Vec<u64>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let mut follow = RawFollow::open(log).unwrap();
    query::forwards(&mut follow, &mut Matcher::new(filter.clone(), log).unwrap(), |answer| {
        match answer {
            Answer::Hit(hit) => found.push(hit.view.seq),
            Answer::Unreadable(error) => unreadable.push(error.line()),
        }
        Then::GoOn
    });
    let (mut reversed, mut also) = (Vec::new(), Vec::new());
    query::backwards(log, &mut Matcher::new(filter.clone(), log).unwrap(), |answer| {
        match answer {
            Answer::Hit(hit) => reversed.push(hit.view.seq),
            Answer::Unreadable(error) => also.push(error.line()),
        }
        Then::GoOn
    })
    .unwrap();
    reversed.reverse();
    assert_eq!(reversed, found, "backwards");
    also.sort_unstable();
    let mut sorted = unreadable.clone();
    sorted.sort_unstable();
    assert_eq!(also, sorted, "backwards");
    (found, unreadable)
}

/// The same by reading every line and taking every word of the filter for what it says.
fn naively(log: &Path, filter: &Filter) -> Vec<u64> {
    let events: Vec<Event> = lazaret_audit::Follow::open(log).unwrap().flatten().collect();
    let of_tool = |event: &&Event| {
        event.event == EventKind::SandboxCreated
            && event.details.get("tool").and_then(Value::as_str) == filter.tool.as_deref()
    };
    let tools: HashSet<String> = events
        .iter()
        .filter(of_tool)
        .map(|event| event.sandbox_id.clone())
        .filter(|id| !id.is_empty())
        .collect();
    let mut found = Vec::new();
    for event in events {
        let Event { seq, sandbox_id, timestamp, event: kind, details, .. } = event;
        let inner = details.get("indicator").filter(|_| kind == EventKind::EscapeAttempt);
        let text = |key: &str| {
            let own = details.get(key).or_else(|| inner.and_then(|inner| inner.get(key)));
            own.and_then(Value::as_str).map(str::to_owned)
        };
        let tool = details.get("tool").and_then(Value::as_str).map(str::to_owned);
        let host = text("host").or_else(|| text("name").filter(|_| kind == EventKind::DnsQuery));
        let severity = text("severity").map(|name| name.parse::<Severity>().unwrap());
        let of_tool = filter.tool.is_none() || tool == filter.tool || tools.contains(&sandbox_id);
        let host_fits = match &filter.host {
            None => true,
            Some(HostPattern::Exactly(name)) => host.is_some_and(|host| host.eq_ignore_ascii_case(name)),
            Some(HostPattern::Below(domain)) => host.is_some_and(|host| {
                host.to_lowercase().strip_suffix(domain.as_str()).is_some_and(|rest| !rest.is_empty())
            }),
        };
        let path_fits = filter.path.as_ref().is_none_or(|above| {
            text("path").is_some_and(|path| {
                path == *above || path.starts_with(&format!("{}/", above.trim_end_matches('/')))
            })
        });
        let fits = of_tool
            && host_fits
            && path_fits
            && filter.since.is_none_or(|since| timestamp >= since)
            && filter.until.is_none_or(|until| timestamp < until)
            && filter.sandbox.as_ref().is_none_or(|prefix| sandbox_id.starts_with(prefix.as_str()))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
            && filter.severity.is_none_or(|least| severity.is_some_and(|severity| severity >= least));
        if fits {
            found.push(seq);
        }
    }
    found
}

const SANDBOXES: [&str; 5] = ["sb-1", "sb-11", "sb-2", "", "sb-\"quoted\\\u{202e}"];
const KINDS: [EventKind; 6] = [
    EventKind::SandboxCreated,
    EventKind::PolicyViolation,
    EventKind::EscapeAttempt,
    EventKind::NetworkConnection,
    EventKind::DnsQuery,
    EventKind::SyscallBlocked,
];
const HOSTS: [&str; 5] = ["example.com", "a.example.com", "A.B.example.com", "badexample.com", "other.org"];
const PATHS: [&str; 6] = ["/", "/etc", "/etc/shadow", "/etcetera", "/home/\u{e9}/x y", "/etc/\"q\""];
const TOOLS: [&str; 2] = ["hammer", "saw"];
const SEVERITIES: [&str; 4] = ["LOW", "MEDIUM", "HIGH", "CRITICAL"];

fn any_event() -> impl Strategy<Value = NewEvent> {
    let details = (
        proptest::option::of(proptest::sample::select(&HOSTS)),
        proptest::option::of(proptest::sample::select(&PATHS)),
        proptest::option::of(proptest::sample::select(&TOOLS)),
        proptest::option::of(proptest::sample::select(&SEVERITIES)),
        0..4u8,
        ".{0,40}",
    );
    (proptest::sample::select(&SANDBOXES), proptest::sample::select(&KINDS), details).prop_map(
        |(sandbox, kind, (host, path, tool, severity, shape, text))| {
            let mut fields = json!({});
            for (key, value) in [("host", host), ("path", path), ("tool", tool), ("severity", severity)] {
                if let Some(value) = value {
                    fields[key] = json!(value);
                }
            }
            if let Some(host) = host {
                fields["name"] = json!(host);
            }
            let mut event = NewEvent::new(kind, sandbox).with("text", text);
            match shape {
                // As an escape attempt has it, and as something else that only looks so.
                0 => event = event.with("indicator", fields),
                1 => event = event.with("host", json!([fields])).with("path", 7),
                _ => {
                    for (key, value) in fields.as_object().unwrap().clone() {
                        event = event.with(&key, value);
                    }
                }
            }
            event
        },
    )
}

fn any_filter() -> impl Strategy<Value = Filter> {
    (
        proptest::option::weighted(0.3, proptest::sample::select(&["sb-1", "sb-", "sb-2", "none", "sb-\""])),
        proptest::collection::vec(proptest::sample::select(&KINDS), 0..3),
        proptest::option::weighted(0.3, proptest::sample::select(&SEVERITIES)),
        proptest::option::weighted(
            0.3,
            proptest::sample::select(&["example.com", "*.example.com", "A.EXAMPLE.com.", "*"]),
        ),
        proptest::option::weighted(0.3, proptest::sample::select(&PATHS)),
        proptest::option::weighted(0.3, proptest::sample::select(&TOOLS)),
    )
        .prop_map(|(sandbox, kinds, severity, host, path, tool)| Filter {
            since: None,
            until: None,
            sandbox: sandbox.map(str::to_owned),
            kinds,
            severity: severity.map(|name| name.parse().unwrap()),
            host: host.map(HostPattern::from),
            path: path.map(str::to_owned),
            tool: tool.map(str::to_owned),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn few_bytes_tell_the_same_as_all_of_them(
        events in proptest::collection::vec(any_event(), 1..30),
        filter in any_filter(),
        cuts in proptest::collection::vec(0..30usize, 0..3),
    ) {
        let dir = Dir::new();
        let log = Log::open(&dir.log()).unwrap();
        for (n, event) in events.iter().enumerate() {
            log.append(event).unwrap();
            if cuts.contains(&n) {
                log.rotate().unwrap();
            }
        }
        let (found, unreadable) = ask(&dir.log(), &filter);
        prop_assert_eq!(&found, &naively(&dir.log(), &filter));
        prop_assert!(unreadable.is_empty());
    }

    #[test]
    fn damaged_lines_hide_no_others(
        filter in any_filter(),
        events in proptest::collection::vec(any_event(), 3..12),
        damage in proptest::collection::vec((0..12usize, ".{0,60}"), 1..4),
    ) {
        let dir = Dir::new();
        let log = Log::open(&dir.log()).unwrap();
        log.append_all(&events).unwrap();
        let mut all = lines(&dir.log());
        for (at, text) in damage {
            let at = at.min(all.len());
            all.insert(at, format!("{}\n", text.replace('\n', " ")).into_bytes());
        }
        std::fs::write(dir.log(), all.concat()).unwrap();
        let (found, _) = ask(&dir.log(), &filter);
        prop_assert_eq!(&found, &naively(&dir.log(), &filter));
    }

    #[test]
    fn the_beginning_of_a_line_says_what_the_line_says(event in any_event()) {
        let dir = Dir::new();
        let written = Log::open(&dir.log()).unwrap().append(&event).unwrap();
        let line = &lines(&dir.log())[0];
        let line = &line[..line.len() - 1];
        let view = View::of(line).unwrap();
        prop_assert_eq!(view.seq, written.seq);
        prop_assert_eq!(&view.sandbox_id, &written.sandbox_id);
        prop_assert_eq!(serde_json::from_str::<Value>(view.details.get()).unwrap(), Value::from(written.details));
        match Header::of(line) {
            Some(header) => {
                prop_assert_eq!(header.sandbox_id, written.sandbox_id.as_bytes());
                prop_assert_eq!((header.timestamp, header.kind), (written.timestamp, written.event));
            }
            // What is written with escapes is read as a whole.
            None => prop_assert!(written.sandbox_id.contains('"')),
        }
    }

    #[test]
    fn no_line_makes_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..400usize) {
        let _ = (Header::of(&text), View::of(&text).map(|view| view.facts()));
        let dir = Dir::new();
        let mut line = lines(&filled(&dir, 1)).remove(0);
        line.truncate(cut.max(1));
        if let Some(byte) = line.last_mut() {
            *byte ^= text.first().copied().unwrap_or(1);
        }
        let _ = (Header::of(&line), View::of(&line).map(|view| view.facts()));
    }
}

#[test]
fn times_are_a_range_that_begins_and_does_not_include_its_end() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    let mut all = lines(&path);
    // A clock that was set back: the second is older than the first.
    for (line, timestamp) in all.iter_mut().zip([3000, 1000, 2000]) {
        let text = String::from_utf8(line.clone()).unwrap();
        let (before, rest) = text.split_once("\"timestamp\":").unwrap();
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        *line = format!("{before}\"timestamp\":{timestamp}{rest}").into_bytes();
    }
    std::fs::write(&path, all.concat()).unwrap();
    let between = |since, until| ask(&path, &Filter { since, until, ..Filter::default() }).0;
    assert_eq!(between(Some(2000), None), [1, 3]);
    assert_eq!(between(None, Some(2000)), [2]);
    assert_eq!(between(Some(1000), Some(3000)), [2, 3]);
    assert_eq!(between(Some(3001), None), [0; 0]);
}

#[test]
fn lines_of_another_shape_are_read_as_a_whole() {
    let dir = Dir::new();
    let path = filled(&dir, 2);
    let first: Value = serde_json::from_slice(&lines(&path)[0]).unwrap();
    // In the order of the alphabet and with spaces, as another program might write it.
    let pretty = serde_json::to_string(&first).unwrap().replace("\":", "\": ");
    std::fs::write(&path, format!("{pretty}\n{pretty}x\n")).unwrap();
    assert_eq!(Header::of(pretty.as_bytes()), None);
    let filter = Filter { kinds: vec![EventKind::SyscallBlocked], ..Filter::default() };
    assert_eq!(ask(&path, &filter), (vec![1], vec![2]));
    let filter = Filter { kinds: vec![EventKind::DnsQuery], ..Filter::default() };
    assert_eq!(ask(&path, &filter), (vec![], vec![2]));
}

#[test]
fn lines_longer_than_a_block_and_torn_ends_are_read_in_both_directions() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    // More than one block of a reader, with lines across every border.
    for n in 0..400 {
        log.append(&event(n).with("filling", "z ".repeat(900 + n as usize % 700))).unwrap();
    }
    let mut all = lines(&dir.log());
    all.insert(7, [vec![b'x'; 700_000], vec![b'\n']].concat());
    all.push(b"{\"seq\":401,\"torn".to_vec());
    std::fs::write(dir.log(), all.concat()).unwrap();
    let (found, unreadable) = ask(&dir.log(), &Filter::default());
    assert!(found.into_iter().eq(1..=400));
    assert_eq!(unreadable, [8]);
}

#[test]
fn asking_stops_when_it_is_told_to() {
    let dir = Dir::new();
    let path = filled(&dir, 5);
    let mut seen = Vec::new();
    query::backwards(&path, &mut Matcher::new(Filter::default(), &path).unwrap(), |answer| {
        if let Answer::Hit(hit) = answer {
            seen.push(hit.view.seq);
        }
        if seen.len() == 2 { Then::Stop } else { Then::GoOn }
    })
    .unwrap();
    assert_eq!(seen, [5, 4]);
}

/// A call as the proxy records it; what the arguments say is nobody's fact.
fn call(server: &str, tool: &str, decision: &str, result: &str) -> NewEvent {
    NewEvent::new(EventKind::ToolCall, "sb-1")
        .with("serverName", server)
        .with("toolName", tool)
        .with("arguments", json!({ "host": "elsewhere.org", "path": "/secret", "severity": "CRITICAL" }))
        .with("policyDecision", json!({ "status": decision, "rule": "r", "reason": "because" }))
        .with("result", json!({ "status": result }))
}

#[test]
fn calls_through_the_proxy_are_found_by_tool_severity_host_and_path() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let new = |kind| NewEvent::new(kind, "sb-1").with("serverName", "files");
    log.append_all(&[
        call("files", "read_file", "allow", "success").with("path", "/w/a"),
        call("files", "read_file", "deny", "denied").with("path", "/etc/x"),
        call("web", "fetch", "allow", "success").with("host", "a.example.com"),
        call("web", "read_file", "allow", "denied").with("severity", "HIGH"),
        new(EventKind::McpServerFailed),
        new(EventKind::McpServerStarted),
        new(EventKind::EscalationAnswered).with("toolName", "read_file").with("decision", "approved"),
        new(EventKind::EscalationAnswered).with("toolName", "write_file").with("decision", "denied"),
        NewEvent::new(EventKind::PolicyReloaded, "").with("outcome", "failed"),
        NewEvent::new(EventKind::PolicyReloaded, "").with("outcome", "loaded"),
    ])
    .unwrap();
    let found = |filter: Filter| {
        let (found, unreadable) = ask(&dir.log(), &filter);
        assert!(unreadable.is_empty());
        found
    };
    let tool = |name: &str| found(Filter { tool: Some(name.to_owned()), ..Filter::default() });
    assert_eq!(tool("read_file"), [1, 2, 4, 7]);
    assert_eq!(tool("files/read_file"), [1, 2, 7]);
    assert_eq!(tool("web/fetch"), [3]);
    assert_eq!(tool("web"), Vec::<u64>::new());
    let severity = |least| found(Filter { severity: Some(least), ..Filter::default() });
    assert_eq!(severity(Severity::Low), [2, 4, 5, 7, 8, 9, 10]);
    assert_eq!(severity(Severity::Medium), [2, 4, 5, 8, 9]);
    assert_eq!(severity(Severity::High), [4]);
    assert_eq!(severity(Severity::Critical), Vec::<u64>::new());
    let host = HostPattern::from("*.example.com");
    assert_eq!(found(Filter { host: Some(host), ..Filter::default() }), [3]);
    let host = HostPattern::from("elsewhere.org");
    assert_eq!(found(Filter { host: Some(host), ..Filter::default() }), Vec::<u64>::new());
    assert_eq!(found(Filter { path: Some("/etc".to_owned()), ..Filter::default() }), [2]);
    assert_eq!(found(Filter { path: Some("/secret".to_owned()), ..Filter::default() }), Vec::<u64>::new());
}
