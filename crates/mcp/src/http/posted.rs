//! What a client posted: one message, or a batch of them. Only what decides about the way is read; the bytes go
//! on as they came, on one line.

use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// More would be a way around the limit of requests under way.
const LARGEST_BATCH: usize = 64;

#[derive(Debug)]
pub enum Posted {
    One(Message),
    Batch(Vec<Message>),
}

#[derive(Debug)]
pub struct Message {
    /// Without line breaks.
    pub bytes: Bytes,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// With the place of its id.
    Request {
        id: Range<usize>,
        method: String,
        params: Params,
    },
    Notification {
        method: String,
    },
    Response,
}

/// The parts of a request's parameters that headers repeat.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The version an `initialize` asks for.
    pub protocol_version: Option<String>,
    pub name: Option<String>,
    pub uri: Option<String>,
    pub task: Option<String>,
    pub meta: Option<Meta>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Meta {
    pub version: Option<String>,
    pub capabilities: Presence,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    #[default]
    Absent,
    Present,
}

/// Why a body is no message. What is in the body is not repeated: it may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the body is not JSON in UTF-8")]
    NotJson,
    #[error("the body is not a JSON-RPC 2.0 message: {0}")]
    NotMessage(&'static str),
}

impl Posted {
    pub fn read(body: Bytes) -> Result<Posted, Fault> {
        let text = std::str::from_utf8(&body).map_err(|_| Fault::NotJson)?;
        if text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| Fault::NotJson)?;
            if items.is_empty() || items.len() > LARGEST_BATCH {
                return Err(Fault::NotMessage("a batch has between 1 and 64 messages"));
            }
            let messages = items.iter().map(|item| Message::read(body.slice_ref(item.get().as_bytes())));
            return messages.collect::<Result<_, _>>().map(Posted::Batch);
        }
        Message::read(body).map(Posted::One)
    }
}

impl Message {
    fn read(bytes: Bytes) -> Result<Message, Fault> {
        let text = std::str::from_utf8(&bytes).map_err(|_| Fault::NotJson)?;
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                Fault::NotMessage("it is no object, a key is there twice, or the method is not a string")
            }
            _ => Fault::NotJson,
        })?;
        if envelope.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
            return Err(Fault::NotMessage("\"jsonrpc\" must be \"2.0\""));
        }
        let answers = usize::from(envelope.result.is_some()) + usize::from(envelope.error.is_some());
        let kind = match (envelope.method, envelope.id, answers) {
            (Some(method), Some(id), 0) => {
                if !id.get().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
                {
                    return Err(Fault::NotMessage("an id is a string or a number"));
                }
                let params = envelope.params.map(Params::read).transpose()?.unwrap_or_default();
                Kind::Request { id: span(text, id.get()), method, params }
            }
            (Some(method), None, 0) => Kind::Notification { method },
            (None, Some(_), 1) => Kind::Response,
            _ => {
                return Err(Fault::NotMessage("it is neither a request, nor a notification, nor a response"));
            }
        };
        Ok(Message { bytes: on_one_line(bytes), kind })
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

impl Params {
    /// Of something that is no object nothing is known: what it means is decided by those who read all of it.
    fn read(raw: &RawValue) -> Result<Params, Fault> {
        #[derive(Deserialize)]
        struct Known<'a> {
            #[serde(borrow, default, rename = "protocolVersion")]
            protocol_version: Option<&'a RawValue>,
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            uri: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "taskId")]
            task: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct KnownMeta<'a> {
            #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
            version: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
            capabilities: Option<&'a RawValue>,
        }
        const TWICE: Fault = Fault::NotMessage("a key of its parameters is there twice");
        if !raw.get().starts_with('{') {
            return Ok(Params::default());
        }
        let known: Known<'_> = serde_json::from_str(raw.get()).map_err(|_| TWICE)?;
        let meta = match known.meta {
            Some(raw) if raw.get().starts_with('{') => {
                let known: KnownMeta<'_> = serde_json::from_str(raw.get()).map_err(|_| TWICE)?;
                let capabilities = match known.capabilities {
                    Some(_) => Presence::Present,
                    None => Presence::Absent,
                };
                Some(Meta { version: string(known.version), capabilities })
            }
            _ => None,
        };
        Ok(Params {
            protocol_version: string(known.protocol_version),
            name: string(known.name),
            uri: string(known.uri),
            task: string(known.task),
            meta,
        })
    }
}

fn string(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// `null` is there, too.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn span(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// In JSON a line break can only stand between tokens, where a space means the same. Servers read by lines.
fn on_one_line(bytes: Bytes) -> Bytes {
    if !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return bytes;
    }
    bytes.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Result<Message, Fault> {
        match Posted::read(Bytes::copy_from_slice(text.as_bytes()))? {
            Posted::One(message) => Ok(message),
            Posted::Batch(_) => panic!("a batch"),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let request = one(r#" {"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#).unwrap();
        let Kind::Request { id, method, params } = request.kind else { panic!("no request") };
        assert_eq!(&request.bytes[id], b"\"a\"");
        assert_eq!((method.as_str(), params.name.as_deref()), ("tools/call", Some("t")));
        assert_eq!(params.meta.unwrap().version.as_deref(), Some("2026-07-28"));
        assert!(matches!(one(r#"{"jsonrpc":"2.0","method":"x"}"#).unwrap().kind, Kind::Notification { .. }));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).unwrap().kind, Kind::Response);
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#).unwrap().kind, Kind::Response);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            "17",
            "[]",
        ] {
            assert!(
                matches!(Posted::read(Bytes::copy_from_slice(text.as_bytes())), Err(Fault::NotMessage(_))),
                "{text}"
            );
        }
        for text in ["", "{", "{}{}", "[", "{\"a\":\"\n\"}", "\u{0}"] {
            assert_eq!(
                Posted::read(Bytes::copy_from_slice(text.as_bytes())).unwrap_err(),
                Fault::NotJson,
                "{text}"
            );
        }
        assert_eq!(Posted::read(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err(), Fault::NotJson);
    }

    #[test]
    fn a_message_on_many_lines_becomes_one_line() {
        let message = one("{\r\n \"jsonrpc\": \"2.0\",\n \"id\":\n 12,\r\"method\": \"x\\n\"\n}").unwrap();
        assert!(!message.bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')));
        let Kind::Request { id, method, .. } = message.kind else { panic!("no request") };
        assert_eq!((&message.bytes[id], method.as_str()), (&b"12"[..], "x\n"));
    }

    #[test]
    fn a_batch_is_its_messages() {
        let body = Bytes::from_static(
            br#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"} ]"#,
        );
        let Posted::Batch(messages) = Posted::read(body).unwrap() else { panic!("no batch") };
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].bytes, &br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#[..]);
        let many = format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"b"}"#; 65].join(","));
        assert!(Posted::read(Bytes::from(many)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Posted::read(Bytes::from(body));
        }
    }
}
