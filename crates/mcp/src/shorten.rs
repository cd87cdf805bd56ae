//! Arguments and texts as they go into the log: whole when they are short, else their beginning, length and hash.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

const LONGEST_TEXT: usize = 1000;
const KEPT: usize = 200;
const MOST_ITEMS: usize = 50;
const DEEPEST: usize = 8;
/// All of it together.
const MOST: usize = 16 << 10;

pub fn text(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let mut end = KEPT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    format!("{head}… ({} bytes, sha256 {})", text.len(), digest(text.as_bytes()))
}

pub fn value(whole: &Value) -> Value {
    let short = part(whole, 0);
    let size = short.to_string().len();
    if size <= MOST {
        return short;
    }
    let all = whole.to_string();
    json!({ "…": format!("{} bytes, sha256 {}", all.len(), digest(all.as_bytes())) })
}

fn part(value: &Value, depth: usize) -> Value {
    match value {
        Value::String(long) => Value::String(text(long)),
        Value::Array(_) | Value::Object(_) if depth >= DEEPEST => json!("…"),
        Value::Array(items) => {
            let mut short: Vec<Value> =
                items.iter().take(MOST_ITEMS).map(|item| part(item, depth + 1)).collect();
            if items.len() > MOST_ITEMS {
                short.push(json!(format!("… ({} more)", items.len() - MOST_ITEMS)));
            }
            Value::Array(short)
        }
        Value::Object(members) => {
            let mut short: Map<String, Value> = members
                .iter()
                .take(MOST_ITEMS)
                .map(|(key, value)| (text(key), part(value, depth + 1)))
                .collect();
            if members.len() > MOST_ITEMS {
                short.insert("…".to_owned(), json!(format!("{} more", members.len() - MOST_ITEMS)));
            }
            Value::Object(short)
        }
        plain => plain.clone(),
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_things_become_their_beginning_length_and_hash() {
        let long = "é".repeat(5000);
        let short = value(&json!({ "content": long, "n": 1, "list": (0..1000).collect::<Vec<_>>() }));
        assert!(short["content"].as_str().unwrap().contains("10000 bytes, sha256 "));
        assert_eq!(short["n"], 1);
        assert_eq!(short["list"].as_array().unwrap().len(), 51);
        let many: Value =
            (0..40).map(|n| (n.to_string(), json!("x".repeat(900)))).collect::<Map<_, _>>().into();
        assert!(value(&many).to_string().len() < 200);
    }
}
