//! `[SANDBOX BLOCKED]`: an answer that failed because the sandbox held says so, with what was blocked. Decided
//! from what the sandbox itself recorded while the call ran; TB0's pattern over the text only where there can be
//! no such record.

use std::ops::Range;

use bytes::Bytes;

use crate::message::{self, Kind, Message, Outcome};

pub const PREFIX: &str = "[SANDBOX BLOCKED]";

/// Could there be a record?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Every refusal is recorded: no record, no block.
    Recorded,
    /// Some walls stand whose refusals nobody hears of.
    TextOnly,
    /// There is no sandbox.
    None,
}

/// Did the call fail, as far as the client can see?
pub fn has_failed(answer: &Message) -> bool {
    match answer.kind() {
        Kind::Response(Outcome::Error) => true,
        Kind::Response(Outcome::Result) => message::member(answer.outcome(), "isError") == Some("true"),
        _ => false,
    }
}

/// What a failed answer says.
pub fn text_of(answer: &Message) -> String {
    match answer.kind() {
        Kind::Response(Outcome::Error) => message::string(answer.outcome(), "message").unwrap_or_default(),
        _ => texts(answer).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n"),
    }
}

/// Does a text look like a refusal of the operating system?
pub fn looks_refused(text: &str) -> bool {
    let text = text.to_lowercase();
    ["eacces", "eperm", "operation not permitted", "permission denied", "read-only file system"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// What was recorded while a call ran, or is known without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    pub description: String,
    pub sign: Sign,
}

/// How sure it is that a failure comes from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sign {
    /// A file or a host that the call may have been about.
    Sure,
    /// A file that programs look for by habit: it counts when the text speaks of it.
    Habit(String),
    /// A system call that programs try and do without: it counts when the text speaks of a refusal.
    Attempt,
}

/// Files that libraries look for at every opportunity.
const HABITS: [&str; 12] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc",
    ".pypirc",
    ".curlrc",
    ".wgetrc",
    ".git-credentials",
    "pip.conf",
    "credentials",
    "config.json",
    "hosts.yml",
];

impl Denied {
    /// A file.
    pub fn file(description: String, path: &str) -> Denied {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let sign = if HABITS.contains(&name.as_str()) { Sign::Habit(name) } else { Sign::Sure };
        Denied { description, sign }
    }

    fn explains(&self, text: &str) -> bool {
        match &self.sign {
            Sign::Sure => true,
            Sign::Habit(name) => text.contains(name.as_str()),
            Sign::Attempt => looks_refused(text),
        }
    }
}

/// What to say of a failed call.
pub fn sentence(denied: &[Denied], evidence: Evidence, text: &str) -> Option<String> {
    const POINTLESS: &str = "The sandbox of this server does not permit it and retrying will not help; only its operator can change that.";
    let blocked: Vec<&str> = denied
        .iter()
        .filter(|denied| denied.explains(text))
        .map(|denied| denied.description.as_str())
        .collect();
    if !blocked.is_empty() {
        const MOST: usize = 5;
        let mut what = blocked.iter().take(MOST).copied().collect::<Vec<_>>().join("; ");
        if blocked.len() > MOST {
            what.push_str(&format!("; and {} more", blocked.len() - MOST));
        }
        return Some(format!("Blocked: {what}. {POINTLESS}"));
    }
    (evidence == Evidence::TextOnly && looks_refused(text)).then(|| POINTLESS.to_owned())
}

/// The answer with the prefix in front of its text and the sentence behind it.
pub fn marked(answer: &Message, sentence: &str) -> Vec<(Range<usize>, Bytes)> {
    let put = |text: &str| {
        let text = if text.starts_with(PREFIX) {
            format!("{text}\n{sentence}")
        } else if text.is_empty() {
            format!("{PREFIX} {sentence}")
        } else {
            format!("{PREFIX} {text}\n{sentence}")
        };
        Bytes::from(serde_json::Value::String(text).to_string())
    };
    let outcome = answer.outcome();
    if answer.kind() == Kind::Response(Outcome::Error) {
        return match message::member(outcome, "message") {
            Some(raw) => {
                let text: String = serde_json::from_str(raw).unwrap_or_default();
                vec![(answer.place(raw), put(&text))]
            }
            None => Vec::new(),
        };
    }
    if let Some((raw, text)) = texts(answer).into_iter().next() {
        return vec![(answer.place(raw), put(&text))];
    }
    let item = |rest: &str| {
        let text = put("");
        let comma = if rest.trim().is_empty() { "" } else { "," };
        Bytes::from(format!("{{\"type\":\"text\",\"text\":{}}}{comma}", String::from_utf8_lossy(&text)))
    };
    match message::member(outcome, "content") {
        Some(content) if content.starts_with('[') => {
            let place = answer.place(content);
            let inner = content.get(1..content.len().saturating_sub(1)).unwrap_or_default();
            vec![(place.start + 1..place.start + 1, item(inner))]
        }
        _ => {
            let place = answer.place(outcome);
            let content = format!("\"content\":[{}],", String::from_utf8_lossy(&item("")));
            vec![(place.start + 1..place.start + 1, Bytes::from(content))]
        }
    }
}

/// The text items of a result: raw and as text.
fn texts(answer: &Message) -> Vec<(&str, String)> {
    let Some(content) = message::member(answer.outcome(), "content") else { return Vec::new() };
    message::elements(content)
        .into_iter()
        .filter(|item| message::string(item, "type").as_deref() == Some("text"))
        .filter_map(|item| {
            let raw = message::member(item, "text")?;
            Some((raw, serde_json::from_str(raw).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(value: &Value) -> Message {
        Message::parse(Bytes::from(value.to_string())).unwrap()
    }

    fn after(value: &Value, sentence: &str) -> Value {
        let message = answer(value);
        serde_json::from_slice(&message.edited(marked(&message, sentence)).concat()).unwrap()
    }

    #[test]
    fn thrown_errors_and_error_results_are_marked_alike() {
        let thrown =
            json!({"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"EPERM: nope","data":{"x":1}}});
        assert_eq!(
            after(&thrown, "Why.")["error"],
            json!({"code":-32603,"message":"[SANDBOX BLOCKED] EPERM: nope\nWhy.","data":{"x":1}})
        );
        let result = json!({"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[
            {"type":"image","data":""},{"type":"text","text":"EACCES","_meta":{"k":1}}],"structuredContent":{"a":1}}});
        let marked = after(&result, "Why.");
        assert_eq!(marked["result"]["content"][1]["text"], "[SANDBOX BLOCKED] EACCES\nWhy.");
        assert_eq!(marked["result"]["content"][1]["_meta"], json!({"k":1}));
        assert_eq!(marked["result"]["structuredContent"], json!({"a":1}));
    }

    #[test]
    fn a_result_without_text_gets_one() {
        for content in [json!([]), json!([{"type":"image","data":""}])] {
            let result = json!({"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":content}});
            assert_eq!(after(&result, "Why.")["result"]["content"][0]["text"], "[SANDBOX BLOCKED] Why.");
        }
        let bare = json!({"jsonrpc":"2.0","id":1,"result":{"isError":true}});
        assert_eq!(after(&bare, "Why.")["result"]["content"][0]["text"], "[SANDBOX BLOCKED] Why.");
    }

    #[test]
    fn the_record_decides_and_the_text_only_where_there_can_be_no_record() {
        let blocked = [Denied::file("write to /etc/x".to_owned(), "/etc/x")];
        assert!(sentence(&blocked, Evidence::Recorded, "oops").unwrap().contains("write to /etc/x"));
        assert_eq!(sentence(&[], Evidence::Recorded, "EPERM"), None);
        assert!(sentence(&[], Evidence::TextOnly, "EPERM").is_some());
        assert_eq!(sentence(&[], Evidence::None, "EPERM"), None);
    }

    #[test]
    fn what_programs_try_by_habit_explains_a_failure_only_when_the_text_speaks_of_it() {
        let netrc = [Denied::file("opening of /home/u/.netrc".to_owned(), "/home/u/.netrc")];
        assert_eq!(sentence(&netrc, Evidence::Recorded, "status code 404"), None);
        assert!(sentence(&netrc, Evidence::Recorded, "cannot read .netrc").is_some());
        let netlink = [Denied { description: "netlink socket".to_owned(), sign: Sign::Attempt }];
        assert_eq!(sentence(&netlink, Evidence::Recorded, "status code 404"), None);
        assert!(sentence(&netlink, Evidence::Recorded, "socket: Operation not permitted").is_some());
    }

    #[test]
    fn tb0s_pattern_holds_row_by_row() {
        for text in
            ["EPERM: x", "EACCES", "Permission denied", "Operation not permitted", "Read-only file system"]
        {
            assert!(sentence(&[], Evidence::TextOnly, text).is_some(), "{text}");
        }
        assert_eq!(sentence(&[], Evidence::TextOnly, "ENOENT: no such file"), None);
        assert_eq!(sentence(&[], Evidence::None, "EPERM: unsandboxed"), None);
    }
}
