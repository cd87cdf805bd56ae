//! Reads the typed policy out of a [`Node`] tree, so that an error stands exactly at the key or value
//! it is about, whichever format the text was in.

use std::{fmt, slice};

use serde::{
    Deserialize,
    de::{self, DeserializeSeed, IntoDeserializer, Unexpected, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};

use super::{
    Fault,
    document::{Entry, Node, Value},
};
use crate::{Policy, spelling};

pub(super) fn policy(tree: &Node) -> Result<Policy, Fault> {
    Policy::deserialize(tree).map_err(DecodeError::into_fault)
}

#[derive(Debug)]
pub struct DecodeError {
    /// From the innermost key outwards.
    path: Vec<String>,
    offset: Option<usize>,
    message: String,
    hint: Option<String>,
}

impl DecodeError {
    fn at(mut self, offset: usize) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    fn within(mut self, key: impl Into<String>) -> Self {
        self.path.push(key.into());
        self
    }

    fn into_fault(self) -> Fault {
        let path = self.path.iter().rev().map(String::as_str).collect::<Vec<_>>().join(".");
        let message = if path.is_empty() { self.message } else { format!("{path}: {}", self.message) };
        let hint = match path.starts_with("network.allowedPorts.") {
            true => Some("a port is a whole number from 1 to 65535".to_owned()),
            false => self.hint,
        };
        Fault { offset: self.offset, message, hint }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        DecodeError { path: Vec::new(), offset: None, message: message.to_string(), hint: None }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = match (belongs_to(field), spelling::nearest(field, expected.iter().copied())) {
            (Some(home), _) => Some(format!("`{field}` belongs {home}")),
            (None, Some(near)) => Some(format!("did you mean `{near}`?")),
            (None, None) => Some(format!("known here: {}", expected.join(", "))),
        };
        DecodeError { hint, ..DecodeError::custom(format!("unknown key `{field}`")) }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        // All of them: the nearest by letters may be the furthest by meaning (LEVEL_3 is not LEVEL_0).
        DecodeError {
            hint: Some(one_of(expected)),
            ..DecodeError::custom(format!("unknown value `{variant}`"))
        }
    }
}

fn one_of(values: &[&str]) -> String {
    format!(
        "write one of {}",
        values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ")
    )
}

/// The section that has a key of this name, as the schema says.
fn belongs_to(key: &str) -> Option<String> {
    let schema = super::json_schema();
    let top = schema.get("properties")?.as_object()?;
    if top.contains_key(key) {
        return Some("at the top level, outside every section".to_owned());
    }
    top.iter().find_map(|(section, property)| {
        let name = property.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        schema.get("$defs")?.get(name)?.get("properties")?.get(key)?;
        Some(format!("in the section `{section}`"))
    })
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Unsigned(number) => Unexpected::Unsigned(*number),
            Value::Signed(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Text(text) => Unexpected::Str(text),
            Value::Date => Unexpected::Other("date"),
            Value::List(_) => Unexpected::Other("list"),
            Value::Table(_) => Unexpected::Other("section"),
        }
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Unsigned(number) => visitor.visit_u64(*number),
            Value::Signed(number) => visitor.visit_i64(*number),
            // JSON has one kind of number: 10.0 is ten.
            Value::Float(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => {
                visitor.visit_u64(*number as u64)
            }
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Date => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            Value::List(items) => visitor.visit_seq(Items { rest: items.iter(), number: 0 }),
            Value::Table(entries) => visitor.visit_map(Entries { rest: entries.iter(), current: None }),
        }
        .map_err(|error| error.at(self.offset))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    // Derived visitors also take a list of the fields in order; in a policy that is a mistake.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Table(_) => self.deserialize_any(visitor),
            _ => Err(DecodeError::at(
                de::Error::invalid_type(self.unexpected(), &"a section with keys"),
                self.offset,
            )),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Text(text) => {
                let text: StrDeserializer<'_, DecodeError> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            _ => Err(DecodeError {
                hint: Some(one_of(variants)),
                ..de::Error::invalid_type(self.unexpected(), &"a name in quotes")
            }),
        }
        .map_err(|error| error.at(self.offset))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    rest: slice::Iter<'de, Node>,
    number: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(node) = self.rest.next() else { return Ok(None) };
        self.number += 1;
        seed.deserialize(node).map(Some).map_err(|error| error.within(self.number.to_string()))
    }
}

struct Entries<'de> {
    rest: slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        self.current = self.rest.next();
        let Some(entry) = self.current else { return Ok(None) };
        let key: StrDeserializer<'_, DecodeError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.at(entry.offset))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let Some(entry) = self.current else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(&entry.node).map_err(|error| error.within(&entry.key))
    }
}
