//! What a policy can see of a tool's arguments: the part of its JSON Schema that Cedar's types can express.
//! The schema is a hostile server's text: reading it is bounded, never fails, and what cannot be expressed
//! soundly is left out with the reason.

mod read;

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Value, json};

use crate::judge::diagnostic::printable;

/// Whole numbers beyond this are no longer exact when they are written with a fraction.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Text,
    Whole,
    Truth,
    /// An array, of scalars.
    Many(Box<Shape>),
    Object(Members),
}

/// The members of an object that are expressed, and why the others are not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    pub expressed: BTreeMap<String, Member>,
    pub left_out: BTreeMap<String, &'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub shape: Shape,
    pub presence: Presence,
    /// Whether `null` stands for an absent value.
    pub null: Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    Refused,
    Absent,
}

/// An argument that is not what its tool's schema says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{}` is {given}, and the tool's schema says {expected}", printable(argument))]
pub struct Mismatch {
    pub argument: String,
    pub given: &'static str,
    pub expected: &'static str,
}

impl Members {
    /// Of a tool's `inputSchema`.
    pub fn of(schema: &Value) -> Self {
        read::members(schema)
    }

    /// As an attribute type of Cedar's JSON schema.
    pub fn to_cedar(&self) -> Value {
        let attributes: Map<String, Value> = self
            .expressed
            .iter()
            .map(|(name, member)| {
                let mut kind = member.shape.to_cedar();
                if let Some(kind) = kind.as_object_mut() {
                    kind.insert("required".into(), json!(member.presence == Presence::Required));
                }
                (name.clone(), kind)
            })
            .collect();
        json!({ "type": "Record", "attributes": attributes })
    }

    /// The arguments as Cedar sees them. What is not expressed is not seen, whatever it holds.
    pub fn value(&self, given: &Map<String, Value>) -> Result<RestrictedExpression, Mismatch> {
        self.record(given, "")
    }

    fn record(&self, given: &Map<String, Value>, above: &str) -> Result<RestrictedExpression, Mismatch> {
        let mut fields = Vec::with_capacity(given.len().min(self.expressed.len()));
        for (name, member) in &self.expressed {
            let argument = || if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
            match given.get(name) {
                Some(Value::Null) if member.null == Null::Absent => {}
                Some(value) => fields.push((name.clone(), member.shape.value(value, &argument)?)),
                None if member.presence == Presence::Optional => {}
                None => {
                    let expected = "that it must be given";
                    return Err(Mismatch { argument: argument(), given: "missing", expected });
                }
            }
        }
        RestrictedExpression::new_record(fields).map_err(|_| Mismatch {
            argument: above.to_owned(),
            given: "an object with a name twice",
            expected: "an object",
        })
    }

    /// What is known about the member that a path of names leads to.
    pub fn find(&self, path: &[&str]) -> Found {
        let Some((first, rest)) = path.split_first() else { return Found::Expressed };
        match (self.expressed.get(*first), self.left_out.get(*first)) {
            (Some(Member { shape: Shape::Object(members), .. }), _) => members.find(rest),
            (Some(_), _) => Found::Expressed,
            (None, Some(why)) => Found::LeftOut(why),
            (None, None) => Found::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Expressed,
    LeftOut(&'static str),
    Unknown,
}

impl Shape {
    fn to_cedar(&self) -> Value {
        match self {
            Shape::Text => json!({ "type": "String" }),
            Shape::Whole => json!({ "type": "Long" }),
            Shape::Truth => json!({ "type": "Boolean" }),
            Shape::Many(item) => json!({ "type": "Set", "element": item.to_cedar() }),
            Shape::Object(members) => members.to_cedar(),
        }
    }

    fn value(&self, given: &Value, argument: &impl Fn() -> String) -> Result<RestrictedExpression, Mismatch> {
        match (self, given) {
            (Shape::Text, Value::String(text)) => Ok(RestrictedExpression::new_string(text.clone())),
            (Shape::Truth, Value::Bool(truth)) => Ok(RestrictedExpression::new_bool(*truth)),
            (Shape::Whole, Value::Number(number)) => {
                whole(number).map(RestrictedExpression::new_long).ok_or_else(|| Mismatch {
                    argument: argument(),
                    given: "a number that is not whole, or too large",
                    expected: self.in_words(),
                })
            }
            (Shape::Many(item), Value::Array(values)) => {
                let values: Result<Vec<_>, _> =
                    values.iter().map(|value| item.value(value, argument)).collect();
                values.map(RestrictedExpression::new_set)
            }
            (Shape::Object(members), Value::Object(given)) => members.record(given, &argument()),
            _ => Err(Mismatch { argument: argument(), given: kind(given), expected: self.in_words() }),
        }
    }

    fn in_words(&self) -> &'static str {
        match self {
            Shape::Text => "a string",
            Shape::Whole => "a whole number",
            Shape::Truth => "true or false",
            Shape::Many(_) => "an array",
            Shape::Object(_) => "an object",
        }
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        // JSON Schema takes 2.0 for an integer.
        let value = number.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        (value.fract() == 0.0 && value.abs() <= LARGEST_EXACT).then_some(value as i64)
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_the_schema_does_not_allow_is_a_mismatch() {
        let members = Members::of(&json!({
            "properties": { "path": { "type": "string" }, "depth": { "type": "integer" } },
            "required": ["path"],
        }));
        let try_it = |given: Value| members.value(given.as_object().expect("an object")).map(|_| ());
        assert_eq!(try_it(json!({ "path": "/x", "depth": 2.0, "more": [] })), Ok(()));
        assert!(try_it(json!({ "path": "/x", "depth": 2.5 })).is_err());
        assert!(try_it(json!({ "path": "/x", "depth": 1e30 })).is_err());
        assert!(try_it(json!({ "path": ["/x"] })).is_err());
        assert!(try_it(json!({ "path": null })).is_err());
        let error = try_it(json!({})).expect_err("missing");
        assert_eq!(
            error.to_string(),
            "the argument `path` is missing, and the tool's schema says that it must be given"
        );
    }
}
