//! Reading a JSON Schema into a shape, within limits.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Member, Members, Null, Presence, Shape, whole};

/// Objects in objects; the arguments themselves are the first.
const DEEPEST: usize = 4;
/// Members of one object that are looked at, and of one tool altogether.
const MOST_MEMBERS: usize = 256;
const MOST_NODES: usize = 1024;
/// A name that is longer is left out: no policy would name it.
const LONGEST_NAME: usize = 256;
/// `$ref` that leads to `$ref`, and alternatives in alternatives.
const MOST_STEPS: usize = 16;

pub fn members(schema: &Value) -> Members {
    let mut reader = Reader { root: schema, nodes: 0 };
    let resolved = reader.resolve(schema, 0).unwrap_or(schema);
    reader.members(resolved, 1)
}

const FREE: &str = "its schema does not say what it holds";
const SEVERAL: &str = "it can hold values of several types";
const NUMBER: &str = "it is a number that need not be whole, which the policy language cannot compare";
const NESTED: &str = "it is an array of something other than strings, whole numbers or booleans";
const LARGE: &str = "the tool's schema is too large or too deep";

/// A type that was understood, or why not.
type Kind = Result<(Shape, Null), &'static str>;

struct Reader<'a> {
    root: &'a Value,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn members(&mut self, schema: &'a Value, depth: usize) -> Members {
        let mut members = Members::default();
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return members };
        let listed = schema.get("required").and_then(Value::as_array);
        let required: BTreeSet<&str> =
            listed.into_iter().flatten().take(MOST_MEMBERS).filter_map(Value::as_str).collect();
        for (name, property) in properties.iter().take(MOST_MEMBERS) {
            if name.len() > LONGEST_NAME {
                continue;
            }
            match self.kind(property, depth, 0) {
                Ok((shape, null)) => {
                    let needed = required.contains(name.as_str()) && null == Null::Refused;
                    let presence = if needed { Presence::Required } else { Presence::Optional };
                    members.expressed.insert(name.clone(), Member { shape, presence, null });
                }
                Err(why) => {
                    members.left_out.insert(name.clone(), why);
                }
            }
        }
        for name in properties.keys().skip(MOST_MEMBERS).filter(|name| name.len() <= LONGEST_NAME) {
            members.left_out.insert(name.clone(), LARGE);
        }
        members
    }

    fn kind(&mut self, schema: &'a Value, depth: usize, steps: usize) -> Kind {
        self.nodes += 1;
        if self.nodes > MOST_NODES || depth > DEEPEST || steps > MOST_STEPS {
            return Err(LARGE);
        }
        let schema = self.resolve(schema, steps)?;
        match schema.get("type") {
            Some(Value::String(word)) => self.named(word, schema, depth, Null::Refused),
            Some(Value::Array(words)) => {
                let (nulls, others): (Vec<_>, Vec<_>) =
                    words.iter().take(8).filter_map(Value::as_str).partition(|word| *word == "null");
                match others.as_slice() {
                    [word] => {
                        let null = if nulls.is_empty() { Null::Refused } else { Null::Absent };
                        self.named(word, schema, depth, null)
                    }
                    _ => Err(SEVERAL),
                }
            }
            Some(_) => Err(FREE),
            None => self.untyped(schema, depth, steps),
        }
    }

    fn named(&mut self, word: &str, schema: &'a Value, depth: usize, null: Null) -> Kind {
        let shape = match word {
            "string" => Shape::Text,
            "integer" => Shape::Whole,
            "boolean" => Shape::Truth,
            "number" => return Err(NUMBER),
            "array" => self.many(schema, depth)?,
            "object" => {
                if depth >= DEEPEST {
                    return Err(LARGE);
                }
                let members = self.members(schema, depth + 1);
                if members.expressed.is_empty() && members.left_out.is_empty() {
                    return Err(FREE);
                }
                Shape::Object(members)
            }
            _ => return Err(FREE),
        };
        Ok((shape, null))
    }

    fn many(&mut self, schema: &'a Value, depth: usize) -> Result<Shape, &'static str> {
        if schema.get("prefixItems").is_some() {
            return Err(NESTED);
        }
        let items = schema.get("items").ok_or(FREE)?;
        match self.kind(items, depth + 1, 0)? {
            (item @ (Shape::Text | Shape::Whole | Shape::Truth), Null::Refused) => {
                Ok(Shape::Many(Box::new(item)))
            }
            _ => Err(NESTED),
        }
    }

    /// Without `type`: alternatives that agree, or a list of values that do.
    fn untyped(&mut self, schema: &'a Value, depth: usize, steps: usize) -> Kind {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return agree(values.iter().take(MOST_MEMBERS).map(of_value));
        }
        if let Some(value) = schema.get("const") {
            return agree(std::iter::once(of_value(value)));
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(word).and_then(Value::as_array) {
                let mut kinds = Vec::new();
                for branch in branches.iter().take(MOST_STEPS + 1) {
                    let null = branch.get("type").and_then(Value::as_str) == Some("null");
                    kinds.push(if null { Ok(None) } else { self.kind(branch, depth, steps + 1).map(Some) });
                }
                if branches.len() > MOST_STEPS {
                    return Err(LARGE);
                }
                return agree(kinds.into_iter());
            }
        }
        match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => self.kind(only, depth, steps + 1),
            Some(_) => Err(SEVERAL),
            None => Err(FREE),
        }
    }

    /// Where `$ref` leads, inside the same schema.
    fn resolve(&self, schema: &'a Value, mut steps: usize) -> Result<&'a Value, &'static str> {
        let mut schema = schema;
        while let Some(reference) = schema.get("$ref") {
            steps += 1;
            if steps > MOST_STEPS {
                return Err(LARGE);
            }
            let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).ok_or(FREE)?;
            schema = self.root.pointer(pointer).ok_or(FREE)?;
        }
        Ok(schema)
    }
}

/// None is `null`.
fn of_value(value: &Value) -> Result<Option<(Shape, Null)>, &'static str> {
    match value {
        Value::Null => Ok(None),
        Value::String(_) => Ok(Some((Shape::Text, Null::Refused))),
        Value::Bool(_) => Ok(Some((Shape::Truth, Null::Refused))),
        Value::Number(number) if whole(number).is_some() => Ok(Some((Shape::Whole, Null::Refused))),
        Value::Number(_) => Err(NUMBER),
        Value::Array(_) | Value::Object(_) => Err(FREE),
    }
}

fn agree(kinds: impl Iterator<Item = Result<Option<(Shape, Null)>, &'static str>>) -> Kind {
    let mut agreed: Option<Shape> = None;
    let mut may_be_null = Null::Refused;
    for kind in kinds {
        match kind? {
            None => may_be_null = Null::Absent,
            Some((shape, null)) => {
                if null == Null::Absent {
                    may_be_null = Null::Absent;
                }
                // Two records of different members are not one type, and a scalar type stays what it is.
                if agreed.as_ref().is_some_and(|agreed| *agreed != shape) {
                    return Err(SEVERAL);
                }
                agreed = Some(shape);
            }
        }
    }
    agreed.map(|shape| (shape, may_be_null)).ok_or(FREE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::{super::Found, *};

    fn seen(schema: Value) -> Members {
        Members::of(&schema)
    }

    fn one(property: Value) -> Result<Shape, &'static str> {
        let members = seen(json!({ "type": "object", "properties": { "it": property } }));
        match members.expressed.get("it") {
            Some(member) => Ok(member.shape.clone()),
            None => Err(members.left_out.get("it").expect("either or")),
        }
    }

    #[test]
    fn scalars_arrays_and_objects_are_expressed() {
        assert_eq!(one(json!({ "type": "string" })), Ok(Shape::Text));
        assert_eq!(one(json!({ "type": "integer" })), Ok(Shape::Whole));
        assert_eq!(one(json!({ "type": "boolean" })), Ok(Shape::Truth));
        assert_eq!(
            one(json!({ "type": "array", "items": { "type": "string" } })),
            Ok(Shape::Many(Box::new(Shape::Text)))
        );
        let Ok(Shape::Object(members)) =
            one(json!({ "type": "object", "properties": { "in": { "type": "string" } } }))
        else {
            panic!("an object")
        };
        assert_eq!(members.find(&["in"]), Found::Expressed);
    }

    #[test]
    fn what_the_policy_language_cannot_express_is_left_out_with_the_reason() {
        assert_eq!(one(json!({ "type": "number" })), Err(NUMBER));
        assert_eq!(one(json!({})), Err(FREE));
        assert_eq!(one(json!(true)), Err(FREE));
        assert_eq!(one(json!({ "type": "object" })), Err(FREE));
        assert_eq!(one(json!({ "type": ["string", "integer"] })), Err(SEVERAL));
        assert_eq!(one(json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] })), Err(SEVERAL));
        assert_eq!(
            one(
                json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } })
            ),
            Err(NESTED)
        );
        assert_eq!(one(json!({ "type": "array", "items": { "type": ["string", "null"] } })), Err(NESTED));
    }

    #[test]
    fn alternatives_that_agree_are_one_type_and_null_makes_them_optional() {
        let members = seen(json!({
            "properties": { "it": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
            "required": ["it"],
        }));
        let member = members.expressed.get("it").expect("expressed");
        assert_eq!(
            (&member.shape, member.presence, member.null),
            (&Shape::Text, Presence::Optional, Null::Absent)
        );
        assert_eq!(one(json!({ "enum": ["a", "b"] })), Ok(Shape::Text));
        assert_eq!(one(json!({ "enum": ["a", 1] })), Err(SEVERAL));
        assert_eq!(one(json!({ "const": 3 })), Ok(Shape::Whole));
    }

    #[test]
    fn references_are_followed_inside_the_schema_only_and_not_in_circles() {
        let members = seen(json!({
            "$defs": {
                "Name": { "type": "string" },
                "Self": { "$ref": "#/$defs/Self" },
                "Tree": { "type": "object", "properties": { "child": { "$ref": "#/$defs/Tree" }, "x": { "type": "string" } } },
            },
            "properties": {
                "name": { "$ref": "#/$defs/Name" },
                "circle": { "$ref": "#/$defs/Self" },
                "far": { "$ref": "https://example.org/schema" },
                "tree": { "$ref": "#/$defs/Tree" },
            },
        }));
        assert_eq!(members.find(&["name"]), Found::Expressed);
        assert!(matches!(members.find(&["circle"]), Found::LeftOut(_)));
        assert!(matches!(members.find(&["far"]), Found::LeftOut(_)));
        assert_eq!(members.find(&["tree", "child", "x"]), Found::Expressed);
        assert_eq!(members.find(&["nmae"]), Found::Unknown);
    }

    #[test]
    fn wide_and_deep_schemas_are_bounded() {
        let wide: Map<String, Value> =
            (0..5000).map(|number| (format!("p{number:05}"), json!({ "type": "string" }))).collect();
        let members = seen(json!({ "properties": wide }));
        assert_eq!(members.expressed.len(), MOST_MEMBERS);
        assert!(matches!(members.find(&["p04999"]), Found::LeftOut(_)));

        let mut deep = json!({ "type": "string" });
        for _ in 0..100 {
            deep = json!({ "type": "object", "properties": { "d": deep } });
        }
        assert!(matches!(seen(deep).find(&["d"; 50]), Found::LeftOut(_)));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(vec![
            "string",
            "integer",
            "object",
            "array",
            "type",
            "properties",
            "items",
            "anyOf",
            "$ref",
            "#/properties/a",
            "a",
            "required",
            "enum",
            "__extn",
            "__entity",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            words.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((words.clone(), inner), 0..5).prop_map(|members| {
                    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_schema_is_read_without_harm(schema in any_json()) {
            let _ = Members::of(&schema).to_cedar();
        }
    }
}
