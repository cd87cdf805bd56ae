//! `user-context.json`: what the person typed last, as a front end leaves it in the escalation directory. It helps
//! whoever answers; it decides nothing.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{directory::PrivateDirectory, hidden::plain, request::Context, strict};

const FILE: &str = "user-context.json";
const MOST: u64 = 64 << 10;
/// The only source that is not the agent itself.
const SOURCE: &str = "mux-trusted-input";
/// What was said longer ago need not be about this call.
const FRESH: SignedDuration = SignedDuration::from_secs(120);
const SHOWN: usize = 200;

/// Anything odd about the file: there is no context.
pub fn read(directory: &PrivateDirectory) -> Option<Context> {
    let bytes = directory.read(FILE, MOST).ok()?.bytes;
    judge(&strict::read(&bytes).ok()?, Timestamp::now())
}

fn judge(value: &Value, now: Timestamp) -> Option<Context> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if text("source")? != SOURCE {
        return None;
    }
    let age = now.duration_since(text("timestamp")?.parse().ok()?);
    if age > FRESH || age.is_negative() {
        return None;
    }
    let user_message = plain(text("userMessage")?, SHOWN);
    (!user_message.is_empty()).then_some(Context { user_message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(source: &str, timestamp: &str, message: &str) -> Option<String> {
        let value = json!({ "userMessage": message, "timestamp": timestamp, "source": source });
        judge(&value, "2026-01-01T00:02:00Z".parse().unwrap()).map(|context| context.user_message)
    }

    #[test]
    fn fresh_words_of_the_trusted_source_are_taken_and_cleaned() {
        let message = format!("write\u{1b}[2J the\nfile\u{202e} {}", "x".repeat(300));
        let taken = said(SOURCE, "2026-01-01T00:00:00.000Z", &message).unwrap();
        assert!(taken.starts_with("write[2J the file x"), "{taken}");
        assert_eq!(taken.chars().count(), 200);
    }

    #[test]
    fn anything_else_is_not() {
        assert_eq!(said("agent", "2026-01-01T00:01:00Z", "x"), None);
        assert_eq!(said(SOURCE, "2025-12-31T23:59:59Z", "too old"), None);
        assert_eq!(said(SOURCE, "2026-01-01T00:02:01Z", "from the future"), None);
        assert_eq!(said(SOURCE, "yesterday", "x"), None);
        assert_eq!(said(SOURCE, "2026-01-01T00:01:00Z", " \n"), None);
        assert_eq!(judge(&json!([]), Timestamp::now()), None);
    }
}
