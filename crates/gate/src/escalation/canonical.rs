//! One way to write down a call, and its fingerprint: for telling whether two calls are the same one.

use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The fingerprint of a call with its very arguments. It stays in memory: of a call with a short secret it could
/// be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// The arguments as they will be sent, nothing redacted: two calls that differ in a secret only are two calls.
    pub fn of(server: &str, tool: &str, arguments: &Map<String, Value>) -> CallDigest {
        let mut text = String::new();
        for name in [server, tool] {
            text.push_str(&Value::from(name).to_string());
            text.push(',');
        }
        write_object(arguments, &mut text);
        CallDigest(Sha256::digest(text.as_bytes()).into())
    }
}

/// SHA-256 in lowercase hex.
pub fn hash(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    Sha256::digest(bytes).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// So that nobody prints more of it than tells calls apart.
impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => write_object(map, text),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

/// Sorted: whether a map of `serde_json` is hangs on a feature that any dependency can turn on.
fn write_object(map: &Map<String, Value>, text: &mut String) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    text.push('{');
    for (key, value) in entries {
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write(value, text);
        text.push(',');
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(server: &str, tool: &str, arguments: &str) -> CallDigest {
        CallDigest::of(server, tool, serde_json::from_str::<Value>(arguments).unwrap().as_object().unwrap())
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        let one = digest("s", "t", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
        assert_eq!(one, digest("s", "t", r#"{"b":{"d":null,"c":[1,2]},"a":1}"#));
        for other in [
            digest("s", "t", r#"{"a":1,"b":{"c":[2,1],"d":null}}"#),
            digest("s", "t", r#"{"a":"1","b":{"c":[1,2],"d":null}}"#),
            digest("s", "t", r#"{"a":1,"b":{"c":[1,2]}}"#),
            digest("s", "u", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn names_cannot_run_into_each_other() {
        assert_ne!(digest("a\",\"b", "c", "{}"), digest("a", "b\",\"c", "{}"));
        let nested = json!({ "a": { "b": 1 } });
        let flat = json!({ "a": {}, "b": 1 });
        assert_ne!(
            CallDigest::of("s", "t", nested.as_object().unwrap()),
            CallDigest::of("s", "t", flat.as_object().unwrap())
        );
    }
}
