//! JSON that everybody reads alike: a member that occurs twice is refused, because the checker and the tool
//! might each believe another one, and depth and size are bounded before anything is built from it.

use std::{cell::RefCell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::InputError;

/// The most that a tool may be given as input, in bytes.
pub(super) const LARGEST: usize = 1 << 20;

/// Containers within containers; also keeps what walks over a value off the end of the stack.
pub(super) const DEEPEST: usize = 64;

pub(super) fn parse(text: &str, largest: usize) -> Result<Value, InputError> {
    if text.len() > largest {
        return Err(InputError::new("", format!("the JSON text is larger than {largest} bytes")));
    }
    let place = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0, place: &place }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| InputError::new(pointer(&place.borrow()), format!("not accepted as JSON: {error}")))
}

/// A JSON pointer (RFC 6901).
pub(super) fn pointer(place: &[String]) -> String {
    place.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

/// One value at a depth. `place` is where the reader is: names are taken off again when their value is done,
/// so that after an error it says where.
#[derive(Clone, Copy)]
struct Strict<'p> {
    depth: usize,
    place: &'p RefCell<Vec<String>>,
}

impl Strict<'_> {
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEEPEST {
            return Err(E::custom(format_args!("nested more than {DEEPEST} deep")));
        }
        Ok(Strict { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut list = Vec::new();
        loop {
            self.place.borrow_mut().push(list.len().to_string());
            let item = items.next_element_seed(inside)?;
            self.place.borrow_mut().pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.place.borrow_mut().push(name.clone());
            if object.contains_key(&name) {
                return Err(de::Error::custom(
                    "this member occurs twice: it is unclear which of them counts",
                ));
            }
            object.insert(name, members.next_value_seed(inside)?);
            self.place.borrow_mut().pop();
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_member_that_occurs_twice_is_refused_also_when_spelt_with_escapes() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"a":1,"b":2,"a":3}}]"#] {
            let error = parse(text, LARGEST).unwrap_err();
            assert!(error.path.ends_with("/a") && error.message.contains("occurs twice"), "{error}");
        }
        assert_eq!(parse(r#"[{"x":{"a":1,"a":3}}]"#, LARGEST).unwrap_err().path, "/0/x/a");
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#, LARGEST).is_ok());
    }

    #[test]
    fn depth_is_bounded_and_huge_nesting_does_not_exhaust_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEEPEST), LARGEST).is_ok());
        assert!(parse(&nested(DEEPEST + 1), LARGEST).unwrap_err().message.contains("64 deep"));
        assert!(parse(&"[".repeat(LARGEST), LARGEST).is_err());
        assert!(parse(&r#"{"a":"#.repeat(100_000), LARGEST).is_err());
    }

    #[test]
    fn size_is_bounded() {
        let text = format!("\"{}\"", "x".repeat(LARGEST - 2));
        assert!(parse(&text, LARGEST).is_ok());
        assert!(parse(&(text + " "), LARGEST).unwrap_err().message.contains("larger than"));
    }

    #[test]
    fn what_is_almost_json_is_refused() {
        for text in ["", " ", "{} {}", "{},", "{'a':1}", "{a:1}", "[1,]", "NaN", "1e999", "01", "\u{feff}{}"]
        {
            assert!(parse(text, LARGEST).is_err(), "{text:?}");
        }
        for text in ["\"a\nb\"", "\"a\0b\"", r#""\ud800""#, "// c\n1", "[1\u{a0}]"] {
            assert!(parse(text, LARGEST).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_pointer_escapes_slashes_and_tildes() {
        assert_eq!(pointer(&["a/b".to_owned(), "~".to_owned(), String::new()]), "/a~1b/~0/");
        assert_eq!(pointer(&[]), "");
    }

    proptest! {
        #[test]
        fn any_text_is_answered_and_what_is_accepted_is_what_serde_json_reads(text in "[\\[\\]{}\":,0-9a-b\\\\u .e-]{0,60}") {
            if let Ok(value) = parse(&text, LARGEST) {
                prop_assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}
