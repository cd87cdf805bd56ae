//! One event in one line, for a person. Names that were chosen inside a sandbox are made harmless.

use std::fmt::Write as _;

use lazaret_audit::{Event, EventKind};
use lazaret_runtime::report::printable;
use serde_json::{Map, Value};

/// So much of an id tells sandboxes apart: it begins with the millisecond of its creation.
const ID: usize = 16;

/// Time, kind, sandbox and what happened.
pub fn line(event: &Event) -> String {
    let id: String = event.sandbox_id.chars().take(ID).collect();
    let id = if id.is_empty() { "-".to_owned() } else { printable(&id) };
    let mut text = format!(
        "{} {:<23} {id:<ID$} {}",
        event.time,
        event.event.name(),
        summary(event.event, &event.details)
    );
    text.truncate(text.trim_end().len());
    text
}

/// What happened, in a few words.
pub fn summary(kind: EventKind, details: &Map<String, Value>) -> String {
    let it = Details(details);
    match kind {
        EventKind::SandboxCreated => created(&it),
        EventKind::SandboxEntered => entered(&it),
        EventKind::SandboxExited => exited(&it),
        EventKind::PolicyViolation | EventKind::SyscallBlocked => violation(&it),
        EventKind::EscapeAttempt => it.sentence(&["description"], &[("response", "response")]),
        EventKind::ResourceLimitExceeded => it.sentence(&["description"], &[("consequence", "consequence")]),
        EventKind::EnforcementWeakened => format!("missing: {}", it.list("missing")),
        EventKind::ToolQuarantined | EventKind::ToolReleased => {
            it.sentence(&["tool"], &[("reason", "reason"), ("by", "by")])
        }
        EventKind::Level0Used => it.sentence(&["program"], &[("server", "server"), ("reason", "reason")]),
        EventKind::SignalReceived => it.sentence(&["signal", "fate"], &[("count", "count")]),
        EventKind::NetworkConnection => connection(&it),
        EventKind::DnsQuery => format!(
            "{} {} -> {}{}",
            it.text("name"),
            it.text("type"),
            it.text("answer"),
            times(it.number("count"))
        ),
        EventKind::ToolCall => tool_call(&it),
        EventKind::McpServerStarted | EventKind::McpServerFailed | EventKind::McpServerEnded => it.sentence(
            &["serverName"],
            &[("error", "error"), ("exitCode", "exit code"), ("reason", "reason")],
        ),
        EventKind::ToolListChanged => it
            .sentence(&["serverName"], &[("added", "added"), ("removed", "removed"), ("changed", "changed")]),
        EventKind::EscalationRequested | EventKind::EscalationAnswered => {
            let more = it.sentence(&[], &[("decision", "answer"), ("by", "by"), ("reason", "reason")]);
            if more.is_empty() { named_tool(&it) } else { format!("{}; {more}", named_tool(&it)) }
        }
        EventKind::LogRotated => it.sentence(&[], &[("previous", "goes on from"), ("removed", "removed")]),
        EventKind::SandboxDestroyed
        | EventKind::SecurityAlert
        | EventKind::McpSessionStarted
        | EventKind::McpSessionEnded
        | EventKind::PolicyReloaded
        | EventKind::TransactionCommitted
        | EventKind::TransactionDiscarded => everything(details),
    }
}

struct Details<'a>(&'a Map<String, Value>);

impl Details<'_> {
    fn text(&self, key: &str) -> String {
        self.0.get(key).map(plain).unwrap_or_default()
    }

    fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(Value::as_u64).unwrap_or(0)
    }

    fn list(&self, key: &str) -> String {
        let items = self.0.get(key).and_then(Value::as_array).into_iter().flatten();
        items.map(plain).collect::<Vec<_>>().join(", ")
    }

    /// Some details as they are, then others with a name, as far as they are there.
    fn sentence(&self, first: &[&str], named: &[(&str, &str)]) -> String {
        let mut parts: Vec<String> = vec![
            first
                .iter()
                .map(|key| self.text(key))
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
        ];
        for (key, name) in named {
            let text = self.text(key);
            if !text.is_empty() {
                parts.push(format!("{name} {text}"));
            }
        }
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }
}

/// A value without quotes or braces where it has none.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

fn times(count: u64) -> String {
    if count > 1 { format!(" ({count} times)") } else { String::new() }
}

/// A command line that could be typed again.
pub fn command(details: &Map<String, Value>) -> String {
    let words = details.get("command").and_then(Value::as_array).into_iter().flatten();
    words.map(|word| quoted(&plain(word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn created(it: &Details<'_>) -> String {
    let mut text = command(it.0);
    if text.is_empty() {
        "(for several commands)".clone_into(&mut text);
    }
    let _ = write!(text, "  in {}, level {}", it.text("directory"), it.text("level"));
    for (key, name) in [("profile", "profile"), ("tool", "tool")] {
        if it.0.contains_key(key) {
            let _ = write!(text, ", {name} {}", it.text(key));
        }
    }
    text
}

fn entered(it: &Details<'_>) -> String {
    let enforcement = it.0.get("enforcement").and_then(Value::as_object);
    let layers = enforcement.map(|it| Details(it).list("layers")).unwrap_or_default();
    let missing = enforcement.map(|it| Details(it).list("missing")).unwrap_or_default();
    let missing = if missing.is_empty() { missing } else { format!("; missing: {missing}") };
    format!("pid {}, {layers}{missing}", it.text("pid"))
}

fn exited(it: &Details<'_>) -> String {
    let mut text = format!("exit code {}, {}", it.text("exitCode"), it.text("outcome"));
    if it.number("signal") > 0 {
        let _ = write!(text, " (signal {})", it.number("signal"));
    }
    let _ =
        write!(text, ", after {}", duration(it.0.get("durationMs").and_then(Value::as_f64).unwrap_or(0.0)));
    match it.number("violations") {
        0 => {}
        1 => text.push_str(", 1 violation"),
        n => {
            let _ = write!(text, ", {n} violations");
        }
    }
    text
}

fn violation(it: &Details<'_>) -> String {
    if let Some(repeated) = it.0.get("repeated").and_then(Value::as_array) {
        let one = |value: &Value| {
            let it =
                value.as_object().map(|map| (Details(map).text("description"), Details(map).number("count")));
            it.map(|(what, count)| format!("{what}{}", times(count))).unwrap_or_default()
        };
        return format!("in all: {}", repeated.iter().map(one).collect::<Vec<_>>().join("; "));
    }
    let who = match it.text("process") {
        process if process.is_empty() => String::new(),
        // Who sent a datagram is not always known by number.
        process if it.number("pid") == 0 => format!(" by {process}"),
        process => format!(" by {process}[{}]", it.text("pid")),
    };
    format!(
        "{:<8} {}{who}, refused by {}{}",
        it.text("severity"),
        it.text("description"),
        it.text("layer"),
        times(it.number("count"))
    )
}

fn connection(it: &Details<'_>) -> String {
    let host = match it.text("host") {
        host if host.contains(':') => format!("[{host}]"),
        host => host,
    };
    let mut text = format!("{} {host}:{}", it.text("decision"), it.text("port"));
    if it.text("direction") == "inbound" {
        text.push_str(" (from outside)");
    }
    if it.0.contains_key("sentBytes") {
        let _ = write!(
            text,
            ", sent {}, received {}",
            size(it.number("sentBytes")),
            size(it.number("receivedBytes"))
        );
    }
    if let Some(ms) = it.0.get("durationMs").and_then(Value::as_f64) {
        let _ = write!(text, ", {}", duration(ms));
    }
    if it.0.contains_key("failure") {
        let _ = write!(text, ": {}", it.text("failure"));
    }
    text
}

/// As `SERVER/TOOL`.
fn named_tool(it: &Details<'_>) -> String {
    format!("{}/{}", it.text("serverName"), it.text("toolName"))
}

fn tool_call(it: &Details<'_>) -> String {
    // Either a word or an object that says more.
    let status = |key: &str| match it.0.get(key).and_then(Value::as_object) {
        Some(map) => Details(map).text("status"),
        None => it.text(key),
    };
    let decision = [status("policyDecision"), it.text("decision")].into_iter().find(|text| !text.is_empty());
    let mut text = format!("{} {}", decision.unwrap_or_default(), named_tool(it));
    let result = status("result");
    if !result.is_empty() {
        let _ = write!(text, ", {result}");
    }
    if let Some(ms) = it.0.get("durationMs").and_then(Value::as_f64) {
        let _ = write!(text, ", {}", duration(ms));
    }
    let policy = it.0.get("policyDecision").and_then(Value::as_object);
    let reason = policy.map(|map| Details(map).text("reason")).unwrap_or_default();
    if !reason.is_empty() {
        let _ = write!(text, ": {reason}");
    }
    text
}

/// Whatever there is, for events whose details differ.
fn everything(details: &Map<String, Value>) -> String {
    let first = ["description", "found", "recovered", "reason"];
    let main = first.iter().filter_map(|key| details.get(*key)).map(plain);
    let rest = details
        .iter()
        .filter(|(key, _)| !first.contains(&key.as_str()))
        .map(|(key, value)| format!("{}={}", printable(key), plain(value)));
    main.chain(rest).collect::<Vec<_>>().join(", ")
}

pub fn duration(ms: f64) -> String {
    if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else if ms < 120_000.0 {
        format!("{:.1} s", ms / 1000.0)
    } else if ms < 7_200_000.0 {
        format!("{:.1} min", ms / 60_000.0)
    } else {
        format!("{:.1} h", ms / 3_600_000.0)
    }
}

pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift {
            return format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(kind: EventKind, details: Value) -> String {
        summary(kind, details.as_object().unwrap())
    }

    #[test]
    fn a_command_line_is_told_so_that_it_can_be_typed() {
        let details =
            json!({ "command": ["sh", "-c", "it's \u{1b}[31m"], "directory": "/w", "level": 2, "tool": "t" });
        assert_eq!(
            told(EventKind::SandboxCreated, details),
            r"sh -c 'it'\''s ?[31m'  in /w, level 2, tool t"
        );
    }

    #[test]
    fn every_kind_has_words_for_details_it_does_not_know() {
        for kind in EventKind::ALL {
            for details in [json!({}), json!({ "description": 5, "host": [], "command": "x", "count": "y" })]
            {
                assert!(!told(*kind, details).contains('\n'));
            }
        }
    }

    #[test]
    fn what_was_denied_is_told_with_who_and_how_often() {
        let details = json!({ "severity": "HIGH", "description": "read of /x", "process": "cat", "pid": 7,
                              "layer": "mountns", "count": 10 });
        assert_eq!(
            told(EventKind::PolicyViolation, details),
            "HIGH     read of /x by cat[7], refused by mountns (10 times)"
        );
        let repeated = json!({ "repeated": [{ "description": "a", "count": 12 }] });
        assert_eq!(told(EventKind::PolicyViolation, repeated), "in all: a (12 times)");
    }

    #[test]
    fn a_call_is_told_with_its_tool_its_decision_and_what_came_of_it() {
        let details = json!({ "serverName": "files", "toolName": "read_file", "durationMs": 3,
                              "policyDecision": { "status": "deny", "rule": "r", "reason": "it is a \u{1b}secret" },
                              "result": { "status": "denied" } });
        let expected = "deny files/read_file, denied, 3 ms: it is a ?secret";
        assert_eq!(told(EventKind::ToolCall, details), expected);
        let plain = json!({ "serverName": "s", "toolName": "t", "decision": "allow", "result": "success" });
        assert_eq!(told(EventKind::ToolCall, plain), "allow s/t, success");
        let answered = json!({ "serverName": "s", "toolName": "t", "decision": "approved", "by": "uid 7" });
        assert_eq!(told(EventKind::EscalationAnswered, answered), "s/t; answer approved; by uid 7");
    }

    #[test]
    fn numbers_are_told_in_units() {
        assert_eq!([size(12), size(2048), size(5 << 30)], ["12 B", "2.0 KiB", "5.0 GiB"]);
        assert_eq!([duration(3.4), duration(2500.0), duration(600_000.0)], ["3 ms", "2.5 s", "10.0 min"]);
    }
}
