//! Sizes and durations as people write them: a plain number (bytes, milliseconds, as in the RFC) or a
//! number with a unit (`"512M"`, `"30s"`).

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Duration::from_millis(millis.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("`{0}` does not begin with a whole number")]
    NotANumber(String),
    #[error("unknown unit `{unit}` in `{text}`: {valid}")]
    UnknownUnit { text: String, unit: String, valid: &'static str },
    #[error("`{0}` is too large")]
    TooLarge(String),
}

const SIZE_UNITS: &str = "a size is a number of bytes, or a number with K, M, G or T (powers of 1024)";
const TIME_UNITS: &str = "a duration is a number of milliseconds, or a number with ms, s, m or h";

fn split(text: &str) -> Result<(u64, &str), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(UnitError::NotANumber(text.to_owned()));
    }
    let number = digits.parse().map_err(|_| UnitError::TooLarge(text.to_owned()))?;
    Ok((number, unit.trim()))
}

fn scale(text: &str, number: u64, factor: u64) -> Result<u64, UnitError> {
    number.checked_mul(factor).ok_or_else(|| UnitError::TooLarge(text.to_owned()))
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text)?;
        let factor = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => 1 << 10,
            "M" | "MB" | "MIB" => 1 << 20,
            "G" | "GB" | "GIB" => 1 << 30,
            "T" | "TB" | "TIB" => 1 << 40,
            _ => {
                return Err(UnitError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.to_owned(),
                    valid: SIZE_UNITS,
                });
            }
        };
        scale(text, number, factor).map(Bytes)
    }
}

impl FromStr for Millis {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text)?;
        let factor = match unit {
            "" | "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => {
                return Err(UnitError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.to_owned(),
                    valid: TIME_UNITS,
                });
            }
        };
        scale(text, number, factor).map(Millis)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1000 && self.0.is_multiple_of(1000) {
            return write!(f, "{}s", self.0 / 1000);
        }
        write!(f, "{}ms", self.0)
    }
}

/// Reads a whole number or a text with a unit.
struct NumberOrText<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = UnitError> + FromNumber> de::Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Ok(T::from_number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number)
            .map(T::from_number)
            .map_err(|_| E::custom(format!("{number} is negative: {}", self.1)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(format!("{number} is not a whole number: {}", self.1)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

trait FromNumber {
    fn from_number(number: u64) -> Self;
}

impl FromNumber for Bytes {
    fn from_number(number: u64) -> Self {
        Bytes(number)
    }
}

impl FromNumber for Millis {
    fn from_number(number: u64) -> Self {
        Millis(number)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText(std::marker::PhantomData, SIZE_UNITS))
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText(std::marker::PhantomData, TIME_UNITS))
    }
}

fn number_or_text(pattern: &str, description: &str) -> Schema {
    json_schema!({
        "description": description,
        "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": pattern }]
    })
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        number_or_text(r"^[0-9]+ *([KMGT]?i?B?|[kmgt]?i?b?)$", SIZE_UNITS)
    }
}

impl JsonSchema for Millis {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Millis".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        number_or_text(r"^[0-9]+ *(ms|s|m|min|h)?$", TIME_UNITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_with_and_without_units() {
        assert_eq!("512M".parse(), Ok(Bytes(512 << 20)));
        assert_eq!("10".parse(), Ok(Bytes(10)));
        assert_eq!("1 GiB".parse(), Ok(Bytes(1 << 30)));
    }

    #[test]
    fn durations_read_with_and_without_units() {
        assert_eq!("5s".parse(), Ok(Millis(5000)));
        assert_eq!("250".parse(), Ok(Millis(250)));
        assert_eq!("2m".parse(), Ok(Millis(120_000)));
    }

    #[test]
    fn a_wrong_unit_is_an_error_that_names_the_right_ones() {
        let error = "10 parsecs".parse::<Millis>().unwrap_err().to_string();
        assert!(error.contains("parsecs") && error.contains("ms, s, m or h"), "{error}");
        assert!("5s".parse::<Bytes>().is_err());
        assert!("-1".parse::<Bytes>().is_err());
        assert!("99999999999999999999".parse::<Bytes>().is_err());
        assert!("99999999999T".parse::<Bytes>().is_err());
    }
}
