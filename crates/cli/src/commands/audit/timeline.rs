//! The events of one sandbox as a story: what was started and under which rules, what happened when, what
//! would have been allowed how, and how it ended.

use lazaret_audit::{Event, EventKind};
use lazaret_runtime::report::printable;
use serde_json::{Map, Value};

use super::telling;

/// The lines of the story.
pub fn of(events: &[Event]) -> Vec<String> {
    let Some(first) = events.first() else { return Vec::new() };
    let mut lines = beginning(first, events);
    lines.push(String::new());
    for event in events {
        let after = event.timestamp.saturating_sub(first.timestamp) as f64 / 1000.0;
        let name = event.event.name();
        let what = match event.event {
            // Told above.
            EventKind::SandboxCreated => String::new(),
            EventKind::SandboxEntered => format!("pid {}", text(&event.details, "pid")),
            kind => telling::summary(kind, &event.details),
        };
        lines.push(format!("{:>10} {name:<23} {what}", format!("+{after:.3}s")).trim_end().to_owned());
        let remedy = text(&event.details, "remedy");
        if !remedy.is_empty() {
            lines.push(format!("{:>34} {remedy}", "->"));
        }
    }
    lines.push(String::new());
    lines.extend(end(events));
    lines
}

fn beginning(first: &Event, events: &[Event]) -> Vec<String> {
    let mut lines = vec![row("sandbox", &printable(&first.sandbox_id)), row("began", &first.time)];
    if first.event == EventKind::SandboxCreated {
        let details = &first.details;
        lines.push(row("command", &telling::command(details)));
        for key in ["directory", "level", "profile", "tool", "uid"] {
            lines.push(row(key, &text(details, key)));
        }
    } else {
        lines.push(row("", "(its beginning is no longer in the log)"));
    }
    let entered = events.iter().find(|event| event.event == EventKind::SandboxEntered);
    if let Some(enforcement) =
        entered.and_then(|event| event.details.get("enforcement")).and_then(Value::as_object)
    {
        lines.push(row("in force", &list(enforcement, "layers")));
        lines.push(row("missing", &list(enforcement, "missing")));
        lines.push(row("limits by", &text(enforcement, "resources").replace("none", "")));
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn end(events: &[Event]) -> Vec<String> {
    let Some(exited) = events.iter().rev().find(|event| event.event == EventKind::SandboxExited) else {
        let destroyed = events.iter().any(|event| event.event == EventKind::SandboxDestroyed);
        let how = if destroyed {
            "no command ended in it"
        } else {
            "it has not ended, or was killed with its supervisor"
        };
        return vec![row("ended", how)];
    };
    let details = &exited.details;
    let mut lines = vec![row("ended", &telling::summary(exited.event, details))];
    if let Some(usage) = details.get("usage").and_then(Value::as_object) {
        let number = |key: &str| usage.get(key).and_then(Value::as_u64);
        let mut parts = Vec::new();
        parts.extend(number("cpuMs").map(|ms| format!("{} of CPU", telling::duration(ms as f64))));
        let memory = number("memoryPeakBytes").or_else(|| number("maxRssBytes"));
        parts.extend(memory.map(|bytes| format!("{} of memory", telling::size(bytes))));
        lines.push(row("used", &parts.join(", ")));
    }
    if let Some(network) = details.get("network").and_then(Value::as_object) {
        let number = |key: &str| network.get(key).and_then(Value::as_u64).unwrap_or(0);
        let told = format!(
            "{} connections, {} denied, {} look-ups, sent {}, received {}",
            number("connections"),
            number("denied"),
            number("queries"),
            telling::size(number("sentBytes")),
            telling::size(number("receivedBytes")),
        );
        lines.push(row("network", &told));
    }
    lines
}

/// Nothing when there is nothing to tell.
fn row(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{name:<10} {value}") }
}

fn text(details: &Map<String, Value>, key: &str) -> String {
    match details.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => printable(text),
        Some(other) => printable(&other.to_string()),
    }
}

fn list(details: &Map<String, Value>, key: &str) -> String {
    let items = details.get(key).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(printable).collect::<Vec<_>>().join(" ")
}
