//! `lazaret audit stats`: events in numbers.

use std::fmt::{Display, Write as _};

use lazaret_audit::{
    follow::RawFollow,
    query::{self, Answer, Matcher, Then},
    stats::{Stats, Tally},
};
use lazaret_runtime::report::printable;
use serde_json::{Map, Value, json};

use super::{Unreadable, resolve, telling};
use crate::{args, exit::Exit, output};

pub fn stats(args: args::Stats) -> anyhow::Result<Exit> {
    let (log, filter) = resolve(args.filters)?;
    let mut stats = Stats::default();
    let mut unreadable = Unreadable::default();
    query::forwards(&mut RawFollow::open(&log)?, &mut Matcher::new(filter, &log)?, |answer| {
        match answer {
            // Its details were read as JSON already, so that they cannot be wrong.
            Answer::Hit(hit) => drop(stats.add(&hit.view)),
            Answer::Unreadable(error) => unreadable.tell(&error),
        }
        Then::GoOn
    });
    if args.json {
        output::data(&format!("{}\n", as_json(&stats, args.top)));
    } else {
        output::data(&as_text(&stats, args.top));
    }
    Ok(unreadable.exit())
}

fn as_json(stats: &Stats, top: usize) -> Value {
    let top = |tally: &Tally| {
        let items: Vec<Value> =
            tally.top(top).into_iter().map(|(name, count)| json!({ "name": name, "count": count })).collect();
        Value::from(items)
    };
    fn counts<K: Display>(items: impl Iterator<Item = (K, u64)>) -> Value {
        Value::Object(items.map(|(key, count)| (key.to_string(), Value::from(count))).collect::<Map<_, _>>())
    }
    let durations = stats.durations().map(
        |it| json!({ "count": it.count, "p50": it.p50, "p90": it.p90, "p99": it.p99, "max": it.longest }),
    );
    json!({
        "events": stats.events,
        "firstTime": stats.first_time,
        "lastTime": stats.last_time,
        "sandboxes": stats.sandboxes,
        "kinds": counts(stats.kinds.iter().map(|(kind, n)| (kind.name(), *n))),
        "severities": counts(stats.severities.iter().map(|(severity, n)| (severity.name(), *n))),
        "outcomes": counts(stats.outcomes.iter().map(|(name, n)| (name, *n))),
        "exitCodes": counts(stats.exit_codes.iter().map(|(code, n)| (code, *n))),
        "durationMs": durations,
        "limits": top(&stats.limits),
        "hostsAllowed": top(&stats.hosts_allowed),
        "hostsRefused": top(&stats.hosts_refused),
        "deniedPaths": top(&stats.denied_paths),
        "blockedSyscalls": top(&stats.blocked_syscalls),
        "tools": top(&stats.tools),
        "toolCalls": top(&stats.tool_calls),
        "toolCallsRefused": top(&stats.tool_calls_refused),
    })
}

fn as_text(stats: &Stats, top: usize) -> String {
    let mut text = format!("{} events", stats.events);
    if let (Some(first), Some(last)) = (&stats.first_time, &stats.last_time) {
        let _ = write!(text, ", {} to {}", printable(first), printable(last));
    }
    let _ = writeln!(text, "; {} sandboxes", stats.sandboxes);
    let mut section = |title: &str, rows: Vec<(String, u64)>| {
        if !rows.is_empty() {
            let _ = writeln!(text, "\n{title}");
            for (name, count) in rows {
                let _ = writeln!(text, "{count:>10}  {name}");
            }
        }
    };
    section("events", stats.kinds.iter().map(|(kind, n)| (kind.to_string(), *n)).collect());
    section(
        "severity",
        stats.severities.iter().rev().map(|(severity, n)| (severity.name().to_owned(), *n)).collect(),
    );
    section("outcomes", stats.outcomes.iter().map(|(name, n)| (printable(name), *n)).collect());
    section("exit codes", stats.exit_codes.iter().map(|(code, n)| (code.to_string(), *n)).collect());
    for (title, tally) in [
        ("limits", &stats.limits),
        ("hosts reached", &stats.hosts_allowed),
        ("hosts refused", &stats.hosts_refused),
        ("paths denied", &stats.denied_paths),
        ("system calls blocked", &stats.blocked_syscalls),
        ("tools", &stats.tools),
        ("tool calls", &stats.tool_calls),
        ("tool calls refused", &stats.tool_calls_refused),
    ] {
        section(title, tally.top(top).into_iter().map(|(name, n)| (printable(name), n)).collect());
    }
    if let Some(it) = stats.durations() {
        let [p50, p90, p99, longest] = [it.p50, it.p90, it.p99, it.longest].map(telling::duration);
        let _ = writeln!(
            text,
            "\nduration of {} runs: median {p50}, 90% {p90}, 99% {p99}, longest {longest}",
            it.count
        );
    }
    text
}
