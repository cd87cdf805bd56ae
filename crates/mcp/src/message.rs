//! One JSON-RPC message: what it is, and where in its bytes the parts lie that are looked at or replaced.
//! Nothing else of it is read into values and written again, so that everything unknown stays as it was.

use std::{borrow::Cow, fmt, ops::Range};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Why something is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is not UTF-8")]
    NotText,
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is not a JSON-RPC 2.0 message: {0}")]
    NotMessage(&'static str),
    #[error("the key {0:?} is there twice")]
    Twice(String),
}

/// Text with the places of its parts.
#[derive(Debug, Clone)]
pub struct Message {
    bytes: Bytes,
    id: Option<Range<usize>>,
    method: Option<String>,
    params: Option<Range<usize>>,
    outcome: Option<(Outcome, Range<usize>)>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Result,
    Error,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request,
    Notification,
    Response(Outcome),
}

impl Message {
    /// A line, or a body. Line breaks between tokens become spaces, so that it is one line in any case.
    pub fn parse(bytes: Bytes) -> Result<Message, Fault> {
        let bytes = on_one_line(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| Fault::NotText)?;
        let parts: Parts<'_> = match serde_json::from_str(text) {
            Ok(parts) => parts,
            Err(error) => {
                let message = error.to_string();
                return Err(match message.strip_prefix(TWICE) {
                    Some(rest) => Fault::Twice(rest.split(" at line ").next().unwrap_or(rest).to_owned()),
                    None => Fault::NotJson(message),
                });
            }
        };
        if parts.version.map(|version| version.get()) != Some("\"2.0\"") {
            return Err(Fault::NotMessage("\"jsonrpc\" must be \"2.0\""));
        }
        let range = |raw: &RawValue| span(text, raw.get());
        let outcome = match (parts.result, parts.error) {
            (Some(_), Some(_)) => return Err(Fault::NotMessage("it has a result and an error")),
            (Some(result), None) => Some((Outcome::Result, range(result))),
            (None, Some(error)) => Some((Outcome::Error, range(error))),
            (None, None) => None,
        };
        let method = match parts.method {
            None => None,
            Some(raw) => Some(
                serde_json::from_str::<String>(raw.get())
                    .map_err(|_| Fault::NotMessage("the method is not a string"))?,
            ),
        };
        match (&method, &outcome) {
            (Some(_), Some(_)) => return Err(Fault::NotMessage("it has a method and an outcome")),
            (None, None) => return Err(Fault::NotMessage("it has neither a method nor an outcome")),
            _ => {}
        }
        if let Some(id) = parts.id {
            let first = id.get().as_bytes().first().copied().unwrap_or(b' ');
            let null_answer = id.get() == "null" && matches!(outcome, Some((Outcome::Error, _)));
            if !(first == b'"' || first == b'-' || first.is_ascii_digit() || null_answer) {
                return Err(Fault::NotMessage("the id is neither a string nor a number"));
            }
        }
        if matches!(outcome, Some((Outcome::Result, _))) && parts.id.is_none() {
            return Err(Fault::NotMessage("a result has no id"));
        }
        let (id, params) = (parts.id.map(range), parts.params.map(range));
        Ok(Message { id, method, params, outcome, bytes })
    }

    pub fn kind(&self) -> Kind {
        match (&self.outcome, &self.id) {
            (Some((outcome, _)), _) => Kind::Response(*outcome),
            (None, Some(_)) => Kind::Request,
            (None, None) => Kind::Notification,
        }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Raw JSON.
    pub fn id(&self) -> Option<Bytes> {
        self.id.clone().map(|range| self.bytes.slice(range))
    }

    /// Empty for a response.
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// Raw JSON, `{}` when there are none.
    pub fn params(&self) -> &str {
        self.text(self.params.clone()).unwrap_or("{}")
    }

    /// The result or the error, raw.
    pub fn outcome(&self) -> &str {
        self.text(self.outcome.clone().map(|(_, range)| range)).unwrap_or("null")
    }

    fn text(&self, range: Option<Range<usize>>) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(range?)?).ok()
    }

    /// Where in the whole message a piece of [`Message::params`] or [`Message::outcome`] lies.
    pub fn place(&self, piece: &str) -> Range<usize> {
        std::str::from_utf8(&self.bytes).map_or(0..0, |text| span(text, piece))
    }

    pub fn id_place(&self) -> Option<Range<usize>> {
        self.id.clone()
    }

    pub fn params_place(&self) -> Option<Range<usize>> {
        self.params.clone()
    }

    /// The same message with some places replaced: slices of the old bytes and what is new, nothing copied.
    pub fn edited(&self, mut edits: Vec<(Range<usize>, Bytes)>) -> Vec<Bytes> {
        edits.sort_by_key(|(range, _)| range.start);
        let mut parts = Vec::with_capacity(edits.len() * 2 + 1);
        let mut at = 0;
        for (range, new) in edits {
            if range.start < at || range.end > self.bytes.len() || range.start > range.end {
                continue;
            }
            parts.push(self.bytes.slice(at..range.start));
            parts.push(new);
            at = range.end;
        }
        parts.push(self.bytes.slice(at..));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// With another id.
    pub fn with_id(&self, id: Bytes) -> Vec<Bytes> {
        match self.id.clone() {
            Some(place) => self.edited(vec![(place, id)]),
            None => vec![self.bytes.clone()],
        }
    }
}

/// A message, or several in one array as the revision of March 2025 has them.
pub fn parse_all(bytes: Bytes) -> Vec<Result<Message, Fault>> {
    const MOST: usize = 1000;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return vec![Message::parse(bytes)];
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return vec![Err(Fault::NotText)] };
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(messages) if messages.is_empty() || messages.len() > MOST => {
            vec![Err(Fault::NotMessage("a batch has between 1 and 1000 messages"))]
        }
        Ok(messages) => messages
            .into_iter()
            .map(|message| Message::parse(bytes.slice(span(text, message.get()))))
            .collect(),
        Err(error) => vec![Err(Fault::NotJson(error.to_string()))],
    }
}

fn on_one_line(bytes: Bytes) -> Bytes {
    if bytes.iter().all(|byte| *byte != b'\n' && *byte != b'\r') {
        return bytes;
    }
    // Within strings they cannot stand, so nothing changes its meaning.
    bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// Where `piece`, which is a part of `text`, begins and ends in it.
fn span(text: &str, piece: &str) -> Range<usize> {
    let start = (piece.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let end = start.wrapping_add(piece.len());
    if start <= text.len() && end <= text.len() && start <= end { start..end } else { 0..0 }
}

const TWICE: &str = "twice: ";

#[derive(Default)]
struct Parts<'a> {
    version: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Parts::default();
                while let Some(Key(key)) = map.next_key()? {
                    let slot = match folded(&key).as_ref() {
                        "jsonrpc" => &mut parts.version,
                        "id" => &mut parts.id,
                        "method" => &mut parts.method,
                        "params" => &mut parts.params,
                        "result" => &mut parts.result,
                        "error" => &mut parts.error,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    // Some parsers take `Method` for `method`, so that both together mean two things.
                    if slot.is_some() || folded(&key).as_ref() != key.as_ref() {
                        return Err(A::Error::custom(format!("{TWICE}{key}")));
                    }
                    *slot = Some(map.next_value()?);
                }
                Ok(parts)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// As a parser that does not mind case would read it.
pub fn folded(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(key);
    }
    let fold = |character| match character {
        // These two fold to ASCII letters.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other,
    };
    Cow::Owned(key.chars().map(fold).collect::<String>().to_lowercase())
}

struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The members of an object, raw and in their order. Two of the same name, also when only their case differs, are
/// an error: who reads them next may take the other one.
pub fn members(object: &str) -> Result<Vec<(String, &str)>, Fault> {
    struct Members<'a>(Vec<(String, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Fields;
            impl<'de> Visitor<'de> for Fields {
                type Value = Members<'de>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                    let mut members = Vec::new();
                    while let Some(Key(key)) = map.next_key()? {
                        members.push((key.into_owned(), map.next_value()?));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Fields)
        }
    }
    let Members(members) = serde_json::from_str(object).map_err(|error| Fault::NotJson(error.to_string()))?;
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    for (key, _) in &members {
        if !seen.insert(folded(key).into_owned()) {
            return Err(Fault::Twice(key.clone()));
        }
    }
    Ok(members.into_iter().map(|(key, raw)| (key, raw.get())).collect())
}

/// An error unless there is one way to read it: no key twice at any depth, and none that only differs in its case
/// from one that means something here.
pub fn require_plain(object: &str, known: &[&str]) -> Result<(), Fault> {
    require_unambiguous(object)?;
    for (key, _) in members(object)? {
        if !known.contains(&key.as_str()) && known.iter().any(|known| folded(known) == folded(&key)) {
            return Err(Fault::Twice(key));
        }
    }
    Ok(())
}

/// A member of an object, raw.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let Ok(members) = members(object) else { return None };
    members.into_iter().find(|(key, _)| key == name).map(|(_, raw)| raw)
}

/// The elements of an array, raw.
pub fn elements(array: &str) -> Vec<&str> {
    serde_json::from_str::<Vec<&RawValue>>(array)
        .map(|elements| elements.into_iter().map(RawValue::get).collect())
        .unwrap_or_default()
}

/// A string member of an object.
pub fn string(object: &str, name: &str) -> Option<String> {
    serde_json::from_str(member(object, name)?).ok()
}

/// An error if there is, anywhere in it, an object with two members of the same name.
pub fn require_unambiguous(value: &str) -> Result<(), Fault> {
    struct Unambiguous;
    impl<'de> Deserialize<'de> for Unambiguous {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Any;
            impl<'de> Visitor<'de> for Any {
                type Value = Unambiguous;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("JSON")
                }

                fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_unit<E>(self) -> Result<Unambiguous, E> {
                    Ok(Unambiguous)
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Unambiguous, A::Error> {
                    while sequence.next_element::<Unambiguous>()?.is_some() {}
                    Ok(Unambiguous)
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unambiguous, A::Error> {
                    let mut seen = std::collections::HashSet::new();
                    while let Some(Key(key)) = map.next_key()? {
                        let name = key.clone().into_owned();
                        if !seen.insert(folded(&key).into_owned()) {
                            return Err(A::Error::custom(format!("{TWICE}{name}")));
                        }
                        map.next_value::<Unambiguous>()?;
                    }
                    Ok(Unambiguous)
                }
            }
            deserializer.deserialize_any(Any)
        }
    }
    match serde_json::from_str::<Unambiguous>(value) {
        Ok(Unambiguous) => Ok(()),
        Err(error) => {
            let message = error.to_string();
            Err(match message.strip_prefix(TWICE) {
                Some(rest) => Fault::Twice(rest.split(" at line ").next().unwrap_or(rest).to_owned()),
                None => Fault::NotJson(message),
            })
        }
    }
}

#[cfg(test)]
#[path = "message/tests.rs"]
mod tests;
