//! The addresses that the policy gives a name: one text or a list of them.

use std::{borrow::Cow, fmt, net::IpAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// The addresses of a pinned name, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Pins(pub Vec<IpAddr>);

const FORM: &str = "an IP address in quotes, or a list of them";

fn address<E: de::Error>(text: &str) -> Result<IpAddr, E> {
    text.parse().map_err(|_| E::custom(format!("{text:?} is not an IP address")))
}

/// One element of the list, so that an error stands at it.
struct Pin(IpAddr);

impl<'de> Deserialize<'de> for Pin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneText;

        impl de::Visitor<'_> for OneText {
            type Value = Pin;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pin, E> {
                address(text).map(Pin)
            }
        }

        deserializer.deserialize_str(OneText)
    }
}

impl<'de> Deserialize<'de> for Pins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> de::Visitor<'de> for OneOrMany {
            type Value = Pins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pins, E> {
                address(text).map(|address| Pins(vec![address]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Pins, A::Error> {
                let mut addresses = Vec::new();
                while let Some(Pin(address)) = list.next_element()? {
                    addresses.push(address);
                }
                Ok(Pins(addresses))
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

impl JsonSchema for Pins {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Pins".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": FORM,
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_a_list_of_one_are_the_same() {
        let one: Pins = serde_json::from_str("\"10.0.0.1\"").unwrap();
        assert_eq!(one, serde_json::from_str("[\"10.0.0.1\"]").unwrap());
        assert_eq!(serde_json::to_string(&one).unwrap(), "[\"10.0.0.1\"]");
        assert_eq!(serde_json::from_str::<Pins>("[\"::1\", \"127.0.0.1\"]").unwrap().0.len(), 2);
    }

    #[test]
    fn what_is_no_plain_address_is_refused() {
        for text in
            ["\"\"", "\"127.1\"", "\"a.example\"", "\"10.0.0.0/8\"", "\"fe80::1%eth0\"", "1", "[1]", "[\"\"]"]
        {
            assert!(serde_json::from_str::<Pins>(text).is_err(), "{text}");
        }
    }
}
