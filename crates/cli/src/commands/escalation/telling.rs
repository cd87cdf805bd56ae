//! A question in words.

use std::time::Duration;

use jiff::Timestamp;
use lazaret_gate::escalation::{Open, Request};
use serde_json::{Value, json};

use super::visible;

/// So much of a session's id tells it apart.
const SESSION: usize = 13;
/// No shorter than this, so that ids look alike.
const SHORTEST: usize = 8;

/// The beginnings of ids that tell these questions apart.
pub fn short_ids(questions: &[Open]) -> Vec<String> {
    let ids: Vec<&str> = questions.iter().map(|open| open.request.escalation_id.as_str()).collect();
    let length = (SHORTEST..36).find(|length| {
        let mut beginnings: Vec<_> = ids.iter().map(|id| id.get(..*length)).collect();
        beginnings.sort_unstable();
        beginnings.dedup();
        beginnings.len() == ids.len()
    });
    ids.iter().map(|id| id.get(..length.unwrap_or(36)).unwrap_or(id).to_owned()).collect()
}

pub fn short_session(request: &Request) -> String {
    visible::text(&request.session_id.chars().take(SESSION).collect::<String>())
}

/// `files/write_file`.
pub fn call(request: &Request) -> String {
    format!("{}/{}", visible::text(&request.server_name), visible::text(&request.tool_name))
}

/// In words that are short and do not change their meaning: `45 s`, `4 min 10 s`.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Everything, as JSON.
pub fn json(open: &Open, now: Timestamp) -> Value {
    let mut value = json!(open.request);
    if let Some(members) = value.as_object_mut() {
        members.insert("digest".to_owned(), json!(open.digest));
        members.insert("sessionDirectory".to_owned(), json!(open.session.directory.to_string_lossy()));
        members.insert("escalationDirectory".to_owned(), json!(open.session.escalations.to_string_lossy()));
        members.insert("ageSeconds".to_owned(), json!(open.request.age(now).as_secs()));
        members.insert("secondsLeft".to_owned(), json!(open.request.time_left(now).as_secs()));
    }
    value
}

/// Everything, for a person: lines of any length.
pub fn details(open: &Open, now: Timestamp) -> Vec<String> {
    let request = &open.request;
    let mut lines = Vec::new();
    let mut told = |name: &str, text: &str| lines.push(format!("{name:<10} {text}"));
    told("Call", &call(request));
    told("Reason", &visible::text(&request.reason));
    told("Rule", &visible::text(&request.rule));
    if let Some(context) = &request.context {
        told("You said", &format!("“{}”", visible::text(&context.user_message)));
    }
    told("Asked", &format!("{} ago, {} left", time(request.age(now)), time(request.time_left(now))));
    let directory = visible::text(&open.session.directory.to_string_lossy());
    told("Session", &format!("{} in {directory}", visible::text(&request.session_id)));
    told("Question", request.escalation_id.as_str());
    lines.extend(warnings(request));
    lines.push(String::new());
    lines.push("Arguments".to_owned());
    lines.extend(visible::pretty(&request.arguments).into_iter().map(|line| format!("  {line}")));
    let facts = facts(&request.facts);
    if !facts.is_empty() {
        lines.push(String::new());
        lines.push("What the call is about".to_owned());
        lines.extend(facts);
    }
    lines.push(String::new());
    if request.whitelist_candidates.is_empty() {
        lines.push("It can be approved once, not for the session.".to_owned());
    } else {
        lines.push("Approving for the session would cover".to_owned());
        for (number, candidate) in (1..).zip(&request.whitelist_candidates) {
            lines.push(format!("  {number}  {}", visible::text(&candidate.description)));
        }
    }
    lines
}

fn warnings(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    if visible::has_hidden(&request.arguments) {
        lines.push(
            "BEWARE     the arguments contain characters that cannot be seen: they are shown as \\uXXXX"
                .to_owned(),
        );
    }
    let places =
        ["paths", "hosts"].into_iter().filter_map(|key| request.facts.get(key)?.as_array()).flatten();
    let names = places.filter_map(|fact| fact.get("resolved").or_else(|| fact.get("host"))?.as_str());
    if names.into_iter().any(|name| !name.is_ascii()) {
        lines.push("BEWARE     a name has letters that are not ASCII: they may look like others".to_owned());
    }
    lines
}

/// What is resolved comes first: it is what counts, not what was written.
fn facts(facts: &Value) -> Vec<String> {
    let text = |fact: &Value, key: &str| visible::text(fact.get(key).and_then(Value::as_str).unwrap_or("?"));
    let list = |key: &str| facts.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let given = |fact: &Value| {
        format!(
            "given as {:?} in {}",
            fact.get("given").and_then(Value::as_str).map(visible::text).unwrap_or_default(),
            text(fact, "argument")
        )
    };
    let mut lines = Vec::new();
    for fact in list("paths") {
        let place = match fact.get("place").and_then(Value::as_str) {
            Some("session") => "in the session directory",
            _ => "outside of the session directory",
        };
        let protected = match fact.get("protected").and_then(Value::as_str) {
            Some(what) => format!(", PROTECTED: {}", visible::text(what)),
            None => String::new(),
        };
        lines.push(format!(
            "  {:<7} {}  ({place}{protected}; {})",
            text(&fact, "access"),
            text(&fact, "resolved"),
            given(&fact)
        ));
    }
    for fact in list("hosts") {
        let port =
            fact.get("port").and_then(Value::as_u64).map(|port| format!(":{port}")).unwrap_or_default();
        lines.push(format!("  {:<7} {}{port}  ({})", text(&fact, "kind"), text(&fact, "host"), given(&fact)));
    }
    lines
}
