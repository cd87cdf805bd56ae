//! What becomes of an event before it may enter a log: secrets out, long text cut, size bounded.

use serde_json::{Map, Value};

use crate::event::{EventKind, NewEvent};
use crate::{line, redact};

/// The longest string kept whole, in bytes.
const MAX_TEXT: usize = 4096;
/// The longest key or sandbox identifier kept whole, in bytes.
const MAX_NAME: usize = 256;
/// How much of a string is searched for secrets; what comes after is dropped unseen.
const MAX_SCANNED: usize = 64 * 1024;
/// Room for details in a line; the rest of a line needs less than what remains.
const MAX_DETAILS: usize = line::MAX_LINE - 4096;
/// Deeper values are left out: readers of JSON give up on them.
const MAX_DEPTH: usize = 32;

/// An event that may be written, with the parts of its line that do not depend on its place.
pub struct Clean {
    pub sandbox_id: String,
    pub sandbox_json: Vec<u8>,
    pub kind: EventKind,
    pub details: Map<String, Value>,
    pub details_json: Vec<u8>,
}

/// Text without secrets, of a bounded length.
fn short(text: &str, limit: usize, redact: impl FnOnce(&str) -> String) -> String {
    let start = redact::first(text, MAX_SCANNED);
    if start.len() == text.len() {
        return cut(redact(text), limit, 0);
    }
    // The last word may be half a secret, no longer known by its shape.
    let whole = start.rfind(char::is_whitespace).and_then(|at| start.get(..at)).unwrap_or_default();
    cut(redact(whole), limit, text.len() - whole.len())
}

/// Prepares an event. Everything on its way to a log passes here.
pub fn clean(event: &NewEvent) -> Result<Clean, serde_json::Error> {
    let sandbox_id = cut(event.sandbox_id.clone(), MAX_NAME, 0);
    let mut details = object(&event.details, false, MAX_DEPTH);
    let mut details_json = line::encode(&details)?;
    if details_json.len() > MAX_DETAILS {
        details = shrink(details)?;
        details_json = line::encode(&details)?;
    }
    Ok(Clean {
        sandbox_json: line::encode(&sandbox_id)?,
        sandbox_id,
        kind: event.kind,
        details,
        details_json,
    })
}

/// Keeps the details that fit, smallest first, and counts the others.
fn shrink(details: Map<String, Value>) -> Result<Map<String, Value>, serde_json::Error> {
    let mut entries = Vec::with_capacity(details.len());
    for (key, value) in details {
        let size = line::encode(&key)?.len() + line::encode(&value)?.len() + 2;
        entries.push((size, key, value));
    }
    entries.sort_by_key(|(size, ..)| *size);
    let (mut kept, mut used, mut left_out) = (Map::new(), MAX_NAME, 0u64);
    for (size, key, value) in entries {
        used += size;
        if used <= MAX_DETAILS {
            kept.insert(key, value);
        } else {
            left_out += 1;
        }
    }
    kept.insert("detailsLeftOut".to_owned(), Value::from(left_out));
    Ok(kept)
}

fn object(map: &Map<String, Value>, secret: bool, depth: usize) -> Map<String, Value> {
    let mut cleaned = Map::new();
    for (key, value) in map {
        let value = any(value, secret || redact::is_secret_name(key), depth);
        let mut name = short(key, MAX_NAME, redact::text);
        while cleaned.contains_key(&name) {
            name.push('+');
        }
        cleaned.insert(name, value);
    }
    cleaned
}

fn any(value: &Value, secret: bool, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else {
        return Value::from("[too deep]");
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(_) if secret => Value::from(redact::MARK),
        Value::String(text) => Value::from(short(text, MAX_TEXT, redact::text)),
        Value::Array(items) => {
            let mut words = redact::Words::default();
            let item = |item: &Value| match item {
                Value::String(text) if !secret => Value::from(short(text, MAX_TEXT, |text| words.next(text))),
                other => any(other, secret, depth),
            };
            Value::Array(items.iter().map(item).collect())
        }
        Value::Object(map) => Value::Object(object(map, secret, depth)),
    }
}

/// Cuts text at a character boundary so that with its marker it has at most `limit` bytes; `dropped` bytes
/// were left out before.
fn cut(mut text: String, limit: usize, dropped: usize) -> String {
    if text.len() > limit || dropped > 0 {
        let at = redact::first(&text, limit.saturating_sub(40)).len();
        let marker = format!("…[{} more bytes]", text.len() - at + dropped);
        text.truncate(at);
        text.push_str(&marker);
    }
    text
}
