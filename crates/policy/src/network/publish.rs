//! A port of the sandbox that the host may connect to, as people write it: `PORT` or `HOSTPORT:PORT`.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A door into the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Publish {
    /// The port on the host; 0 takes any that is free.
    pub outside: u16,
    /// The port inside, never 0.
    pub inside: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("`{0}` is not a port to publish: {FORM}")]
    NotAPort(String),
    #[error("`{0}` publishes port 0, at which nothing can listen: {FORM}")]
    Zero(String),
}

const FORM: &str =
    "write PORT or HOSTPORT:PORT with numbers up to 65535, where a HOSTPORT of 0 is any free one";

impl FromStr for Publish {
    type Err = PublishError;

    fn from_str(text: &str) -> Result<Self, PublishError> {
        let number = |digits: &str| {
            // `parse` alone would take a sign.
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain
                .then(|| digits.parse::<u16>().ok())
                .flatten()
                .ok_or_else(|| PublishError::NotAPort(text.to_owned()))
        };
        let (outside, inside) = match text.split_once(':') {
            Some((outside, inside)) => (number(outside)?, number(inside)?),
            None => (number(text)?, number(text)?),
        };
        match inside {
            0 => Err(PublishError::Zero(text.to_owned())),
            inside => Ok(Publish { outside, inside }),
        }
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outside == self.inside {
            true => write!(f, "{}", self.inside),
            false => write!(f, "{}:{}", self.outside, self.inside),
        }
    }
}

impl Serialize for Publish {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Publish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ports;

        impl de::Visitor<'_> for Ports {
            type Value = Publish;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Publish, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Publish, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Publish, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Ports)
    }
}

impl JsonSchema for Publish {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Publish".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": FORM,
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65535 },
                { "type": "string", "pattern": r"^([0-9]+:)?[0-9]+$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_the_same_on_both_sides() {
        assert_eq!("8080".parse(), Ok(Publish { outside: 8080, inside: 8080 }));
        assert_eq!("80:8080".parse(), Ok(Publish { outside: 80, inside: 8080 }));
        assert_eq!("0:65535".parse(), Ok(Publish { outside: 0, inside: 65535 }));
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for text in
            ["", ":", "80:", ":80", "0", "80:0", "65536", "1:65536", "+80", "-1", "80:80:80", "a", " 80"]
        {
            assert!(text.parse::<Publish>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_published_port_survives_being_written_and_read() {
        for text in ["\"8080\"", "\"80:8080\"", "\"0:80\""] {
            let publish: Publish = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&publish).unwrap(), text);
        }
        assert_eq!(serde_json::from_str::<Publish>("8080").unwrap().to_string(), "8080");
        assert!(serde_json::from_str::<Publish>("70000").is_err());
    }
}
