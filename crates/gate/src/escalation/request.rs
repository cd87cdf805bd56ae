//! A question as it is asked, and as it lies in `request-ID.json`. What a front end of IronCurtain shows has the
//! names it has there; the rest is ours.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::{canonical::hash, presence::Process, strict};
use crate::{Facts, Rule};

/// No file of a question is larger: nobody could read it either.
pub const MOST: u64 = 1 << 20;
/// Of a text in the arguments so many bytes are shown; for the rest stands its hash.
const SHOWN_TEXT: usize = 32 << 10;
/// What stands between the question and its own hash.
const DIGEST_KEY: &str = ",\"digest\":\"";

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct Question {
    pub server: String,
    pub tool: String,
    /// The arguments as a person may see them: secrets redacted.
    pub shown_arguments: Value,
    pub reason: String,
    pub rule: Rule,
    pub facts: Facts,
    /// What approving for the session would cover, in words; the first is meant unless another is chosen. None:
    /// the call can be approved once only.
    pub candidates: Vec<Candidate>,
}

/// One way in which a call can be approved for the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub description: String,
}

/// What the person said to the agent shortly before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub user_message: String,
}

/// Random, so that a few characters of it tell questions apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct QuestionId(String);

impl QuestionId {
    pub(super) fn new() -> QuestionId {
        // Version 7 has its random part at the end; of two, hashed, every bit is random.
        let mut random = Sha256::new();
        random.update(Uuid::now_v7());
        random.update(Uuid::now_v7());
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(random.finalize()).for_each(|(byte, random)| *byte = random);
        QuestionId(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
    }

    /// `None` for anything that is not a UUID in its usual form: it becomes part of a file name.
    pub fn parse(text: &str) -> Option<QuestionId> {
        let canonical = Uuid::try_parse(text).ok()?.hyphenated().to_string();
        (canonical == text).then_some(QuestionId(canonical))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn request_file(&self) -> String {
        format!("request-{}.json", self.0)
    }

    pub(super) fn response_file(&self) -> String {
        format!("response-{}.json", self.0)
    }

    /// Which question a file name is about.
    pub(super) fn of_file(name: &str, prefix: &str) -> Option<QuestionId> {
        QuestionId::parse(name.strip_prefix(prefix)?.strip_suffix(".json")?)
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for QuestionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        QuestionId::parse(&text).ok_or_else(|| serde::de::Error::custom("not a UUID"))
    }
}

/// The file of a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub escalation_id: QuestionId,
    pub server_name: String,
    pub tool_name: String,
    pub arguments: Value,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whitelist_candidates: Vec<Candidate>,
    #[serde(with = "moment")]
    pub created_at: Timestamp,
    #[serde(with = "moment")]
    pub expires_at: Timestamp,
    pub session_id: String,
    /// Who asks.
    #[serde(flatten)]
    pub asked_by: Process,
    pub rule: String,
    /// [`Facts`], as they were written.
    pub facts: Value,
}

#[derive(Debug, Error)]
pub enum WriteError {
    #[error("it cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its arguments are too long to be shown: {0} bytes, and {MOST} at most")]
    TooLarge(usize),
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("its end is not that of a question, with a digest as its last member")]
    NoDigest,
    #[error("its digest is not that of its content: it was changed after it was asked")]
    Changed,
    #[error("it is not a question: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it asks as {0}, and not as its name says")]
    OtherName(QuestionId),
}

impl Request {
    pub(super) fn new(
        question: &Question,
        context: Option<Context>,
        session: &str,
        time: Duration,
    ) -> Result<Request, WriteError> {
        let now = Timestamp::now();
        Ok(Request {
            escalation_id: QuestionId::new(),
            server_name: question.server.clone(),
            tool_name: question.tool.clone(),
            arguments: shortened(&question.shown_arguments),
            reason: question.reason.clone(),
            context,
            whitelist_candidates: question.candidates.clone(),
            created_at: now,
            expires_at: now.saturating_add(time).unwrap_or(now),
            session_id: session.to_owned(),
            asked_by: Process::this(),
            rule: question.rule.0.clone(),
            facts: serde_json::to_value(&question.facts)?,
        })
    }

    /// The text of the file, and its digest: the SHA-256 of the text before it.
    pub(super) fn write(&self) -> Result<(String, String), WriteError> {
        let mut text = serde_json::to_string(self)?;
        text.pop();
        let digest = hash(text.as_bytes());
        text.push_str(DIGEST_KEY);
        text.push_str(&digest);
        text.push_str("\"}\n");
        if text.len() as u64 > MOST {
            return Err(WriteError::TooLarge(text.len()));
        }
        Ok((text, digest))
    }

    /// Reads a file back, with its digest.
    pub(super) fn read(bytes: &[u8], id: &QuestionId) -> Result<(Request, String), ReadError> {
        let end = 64 + DIGEST_KEY.len() + "\"}\n".len();
        let at = bytes.len().checked_sub(end).ok_or(ReadError::NoDigest)?;
        let (body, tail) = bytes.split_at_checked(at).ok_or(ReadError::NoDigest)?;
        let digest = tail
            .strip_prefix(DIGEST_KEY.as_bytes())
            .and_then(|tail| tail.strip_suffix(b"\"}\n"))
            .ok_or(ReadError::NoDigest)?;
        let expected = hash(body);
        if digest != expected.as_bytes() {
            return Err(ReadError::Changed);
        }
        let request: Request = serde_json::from_value(strict::read(bytes)?)?;
        if request.escalation_id != *id {
            return Err(ReadError::OtherName(request.escalation_id));
        }
        Ok((request, expected))
    }

    pub fn is_expired(&self) -> bool {
        Timestamp::now() >= self.expires_at
    }

    /// How long it has been waiting.
    pub fn age(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.created_at)).unwrap_or_default()
    }

    /// How long it can still be answered.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.expires_at.duration_since(now)).unwrap_or_default()
    }
}

/// Long texts are shown by their beginning, length and hash: what is approved is still this very text.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > SHOWN_TEXT => {
            let end = (0..=SHOWN_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let shown = text.get(..end).unwrap_or_default();
            Value::String(format!(
                "{shown}… [{} bytes in all, of which {end} are shown; SHA-256 {}]",
                text.len(),
                hash(text.as_bytes())
            ))
        }
        Value::Array(items) => Value::Array(items.iter().map(shortened).collect()),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), shortened(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        plain => plain.clone(),
    }
}

mod moment {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{moment:.3}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(arguments: Value) -> Question {
        Question {
            server: "files".into(),
            tool: "write_file".into(),
            shown_arguments: arguments,
            reason: "outside of the session directory".into(),
            rule: Rule("escalate-outside".into()),
            facts: Facts::default(),
            candidates: vec![Candidate { description: "writing in /srv/data".into() }],
        }
    }

    fn request(arguments: Value) -> Request {
        Request::new(&question(arguments), None, "s", Duration::from_secs(300)).unwrap()
    }

    #[test]
    fn a_question_has_the_members_that_front_ends_know() {
        let request = request(json!({ "path": "/srv/data/a", "n": 0.1 }));
        let (text, digest) = request.write().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["escalationId"], request.escalation_id.as_str());
        assert_eq!(value["serverName"], "files");
        assert_eq!(value["toolName"], "write_file");
        assert_eq!(value["arguments"]["path"], "/srv/data/a");
        assert_eq!(value["reason"], "outside of the session directory");
        assert_eq!(value["whitelistCandidates"][0]["description"], "writing in /srv/data");
        assert_eq!(value["digest"], digest.as_str());
        assert!(value.get("context").is_none());
        assert!(value["createdAt"].as_str().unwrap().ends_with('Z'));
        assert_eq!(value["pid"], std::process::id());
    }

    #[test]
    fn what_was_written_is_read_back_and_a_changed_byte_is_seen() {
        let request = request(json!({ "path": "/srv/data/a", "n": 2.220_446_049_250_313e-16 }));
        let (text, digest) = request.write().unwrap();
        let (read, same) = Request::read(text.as_bytes(), &request.escalation_id).unwrap();
        assert_eq!((read.tool_name.as_str(), same), ("write_file", digest));
        assert_eq!(read.expires_at.duration_since(read.created_at).as_secs(), 300);
        let changed = text.replace("/srv/data/a", "/srv/data/b");
        assert!(matches!(Request::read(changed.as_bytes(), &request.escalation_id), Err(ReadError::Changed)));
        let cut = text.strip_suffix("\"}\n").unwrap();
        assert!(matches!(Request::read(cut.as_bytes(), &request.escalation_id), Err(ReadError::NoDigest)));
        let other = QuestionId::new();
        assert!(matches!(Request::read(text.as_bytes(), &other), Err(ReadError::OtherName(_))));
    }

    #[test]
    fn a_digest_inside_of_the_arguments_is_not_taken_for_the_questions() {
        let request = request(json!({ "x": format!(",\"digest\":\"{}\"}}\n", "0".repeat(64)) }));
        let (text, digest) = request.write().unwrap();
        assert_eq!(Request::read(text.as_bytes(), &request.escalation_id).unwrap().1, digest);
    }

    #[test]
    fn long_texts_are_shortened_and_still_told_apart() {
        let long = |last: &str| request(json!({ "content": ["é".repeat(40_000) + last] }));
        let (one, other) = (long("a"), long("b"));
        let text = one.arguments["content"][0].as_str().unwrap();
        assert!(text.len() < 33_000 && text.contains("80001 bytes in all"), "{}", text.len());
        assert_ne!(one.arguments, other.arguments);
        let many = json!(vec!["x".repeat(30_000); 40]);
        assert!(matches!(request(many).write(), Err(WriteError::TooLarge(_))));
    }

    #[test]
    fn ids_are_uuids_in_their_usual_form() {
        let id = QuestionId::new();
        assert_eq!(QuestionId::parse(id.as_str()), Some(id.clone()));
        assert_ne!(QuestionId::new().as_str().get(..8), id.as_str().get(..8));
        for text in [
            "",
            "x",
            "../../etc/passwd",
            "urn:uuid:c9bb0a3c-7a77-4b0c-8a55-6f9ff2b0f1ab",
            "C9BB0A3C-7A77-4B0C-8A55-6F9FF2B0F1AB",
        ] {
            assert_eq!(QuestionId::parse(text), None, "{text}");
        }
        assert_eq!(QuestionId::of_file(&id.request_file(), "request-"), Some(id));
    }
}
