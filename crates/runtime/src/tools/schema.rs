//! The JSON Schema of a tool's input: compiled once, without anything that is fetched from elsewhere, and
//! with patterns whose time grows with the text only.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::{InputError, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The format by which a schema declares a member to be a path.
const PATH: &str = "path";

/// More errors than this help nobody.
const MOST_ERRORS: usize = 32;

/// Above this only the first error is looked for: a list of them may be many times the size of the input.
const LARGEST_FOR_ALL_ERRORS: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Schema {
    value: Value,
    validator: Validator,
    members: Members,
    has_paths: bool,
}

/// Which members an input may have.
#[derive(Debug)]
enum Members {
    Any,
    /// Those that this accepts, whatever their value.
    Named(Box<Validator>),
}

/// Why something is no usable schema, and where in it.
#[derive(Debug)]
pub(super) struct BadSchema {
    pub place: Vec<String>,
    pub message: String,
}

impl Schema {
    pub fn compile(value: Value) -> Result<Schema, BadSchema> {
        let Value::Object(members) = &value else {
            return Err(BadSchema { place: Vec::new(), message: "a schema is an object".to_owned() });
        };
        if let Some(dialect) = members.get("$schema")
            && dialect.as_str().map(|dialect| dialect.trim_end_matches('#')) != Some(DIALECT)
        {
            let message =
                format!("only JSON Schema 2020-12 is known: leave `$schema` out, or write {DIALECT}");
            return Err(BadSchema { place: vec!["$schema".to_owned()], message });
        }
        Ok(Schema {
            validator: build(&value)?,
            members: match members.get("additionalProperties") {
                Some(Value::Bool(false)) => Members::Named(Box::new(build(&names(members))?)),
                _ => Members::Any,
            },
            has_paths: declares_paths(&value),
            value,
        })
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// May an input have a member of this name?
    pub fn knows(&self, member: &str) -> bool {
        match &self.members {
            Members::Any => true,
            Members::Named(names) => names.is_valid(&json!({ member: null })),
        }
    }

    /// What is wrong with an input, the text of which has this size. Values are not repeated: they may be
    /// secret, and they may be large.
    pub fn errors(&self, input: &Value, size: usize) -> Vec<InputError> {
        if self.validator.is_valid(input) {
            return Vec::new();
        }
        let told = |error: jsonschema::ValidationError<'_>| {
            InputError::new(error.instance_path().as_str(), error.masked().to_string())
        };
        let mut errors: Vec<InputError> = if size <= LARGEST_FOR_ALL_ERRORS {
            self.validator.iter_errors(input).take(MOST_ERRORS).map(told).collect()
        } else {
            self.validator.validate(input).err().map(told).into_iter().collect()
        };
        if errors.is_empty() {
            errors.push(InputError::new("", "the input does not satisfy the schema"));
        }
        errors
    }

    /// The members of a valid input that the schema declares to be paths, whatever way it does so: the
    /// validator itself says to which of them the format applies.
    pub fn paths<'v>(&self, input: &'v Value) -> Vec<(String, &'v str)> {
        if !self.has_paths {
            return Vec::new();
        }
        let evaluation = self.validator.evaluate(input);
        let mut found: Vec<(String, &str)> = evaluation
            .iter_annotations()
            .filter(|entry| entry.schema_location.ends_with("/format") && entry.annotations.value() == PATH)
            .filter_map(|entry| {
                let place = entry.instance_location.as_str();
                Some((place.to_owned(), input.pointer(place)?.as_str()?))
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }
}

fn build(schema: &Value) -> Result<Validator, BadSchema> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        // A misspelt "path" would otherwise be a path that nobody checks.
        .should_ignore_unknown_formats(false)
        .with_format(PATH, |_: &str| true)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| BadSchema {
            place: tokens(error.instance_path().as_str()),
            message: error.to_string(),
        })
}

/// The schema that knows the same members, and no others, and asks nothing else of them.
fn names(members: &Map<String, Value>) -> Value {
    let anything = |keyword: &str| -> Map<String, Value> {
        let known = members.get(keyword).and_then(Value::as_object).into_iter().flatten();
        known.map(|(name, _)| (name.clone(), Value::Bool(true))).collect()
    };
    json!({
        "properties": anything("properties"),
        "patternProperties": anything("patternProperties"),
        "additionalProperties": false,
    })
}

fn declares_paths(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("format").is_some_and(|format| format == PATH) || members.values().any(declares_paths)
        }
        Value::Array(items) => items.iter().any(declares_paths),
        _ => false,
    }
}

fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

/// A schema in a file of its own.
pub(super) fn from_json(text: &str) -> Result<Schema, BadSchema> {
    let value = json::parse(text, json::LARGEST)
        .map_err(|error| BadSchema { place: Vec::new(), message: error.to_string() })?;
    Schema::compile(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(schema: Value, input: &Value) -> Vec<String> {
        let schema = Schema::compile(schema).unwrap();
        assert_eq!(schema.errors(input, 1), []);
        schema.paths(input).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn paths_are_found_however_the_schema_declares_them() {
        let path = json!({ "type": "string", "format": "path" });
        let input = json!({ "a": "x", "b": ["y", "z"], "n": { "c/d": "w" }, "other": "v" });
        for schema in [
            json!({ "properties": { "a": path } }),
            json!({ "properties": { "a": { "$ref": "#/$defs/p" } }, "$defs": { "p": path } }),
            json!({ "properties": { "a": { "anyOf": [{ "type": "integer" }, path] } } }),
            json!({ "allOf": [{ "properties": { "a": path } }] }),
            json!({ "if": { "required": ["a"] }, "then": { "properties": { "a": path } } }),
            json!({ "patternProperties": { "^a$": path } }),
            json!({ "properties": { "a": path }, "required": ["a"], "additionalProperties": true }),
            json!({ "dependentSchemas": { "a": { "properties": { "a": path } } } }),
            json!({ "properties": { "a": { "format": "path" } } }),
        ] {
            assert_eq!(paths(schema.clone(), &input), ["/a"], "{schema}");
        }
        let lists = json!({ "properties": { "b": { "items": path } } });
        assert_eq!(paths(lists, &input), ["/b/0", "/b/1"]);
        let first = json!({ "properties": { "b": { "prefixItems": [path] } } });
        assert_eq!(paths(first, &input), ["/b/0"]);
        let some = json!({ "properties": { "b": { "contains": path } } });
        assert_eq!(paths(some, &input), ["/b/0", "/b/1"]);
        let inner = json!({ "properties": { "n": { "additionalProperties": path } } });
        assert_eq!(paths(inner, &input), ["/n/c~1d"]);
        let closed = json!({ "properties": { "a": path, "b": {}, "n": {}, "other": {} }, "additionalProperties": false });
        assert_eq!(paths(closed, &input), ["/a"]);
        let left = json!({ "properties": { "a": {}, "b": {}, "n": {} }, "unevaluatedProperties": path });
        assert_eq!(paths(left, &input), ["/other"]);
    }

    #[test]
    fn nothing_is_fetched() {
        for address in ["https://example.com/s.json", "file:///etc/hostname", "other.json", "/etc/hostname"] {
            assert!(Schema::compile(json!({ "$ref": address })).is_err(), "{address}");
        }
        assert!(Schema::compile(json!({ "$ref": "#/$defs/a", "$defs": { "a": {} } })).is_ok());
    }

    #[test]
    fn a_schema_may_refer_to_itself() {
        let tree = json!({ "properties": { "below": { "$ref": "#" }, "file": { "format": "path" } } });
        assert_eq!(paths(tree, &json!({ "below": { "below": { "file": "x" } } })), ["/below/below/file"]);
        // Nothing but itself: whatever is made of it, it must end.
        if let Ok(empty) = Schema::compile(json!({ "$ref": "#" })) {
            empty.errors(&json!({}), 2);
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        let bad = Schema::compile(json!({ "properties": { "a": { "type": "strnig" } } })).unwrap_err();
        assert_eq!(bad.place, ["properties", "a", "type"], "{}", bad.message);
        for schema in [
            json!(true),
            json!({ "properties": { "a": { "format": "paht" } } }),
            json!({ "properties": { "a": { "pattern": "(" } } }),
            json!({ "properties": { "a": { "pattern": "(?=x)" } } }),
            json!({ "$schema": "http://json-schema.org/draft-07/schema#" }),
        ] {
            assert!(Schema::compile(schema.clone()).is_err(), "{schema}");
        }
        assert!(Schema::compile(json!({ "$schema": DIALECT })).is_ok());
    }

    #[test]
    fn errors_have_a_place_and_do_not_repeat_values() {
        let schema = json!({ "required": ["b"], "properties": { "a": { "items": { "type": "integer" } } } });
        let schema = Schema::compile(schema).unwrap();
        let errors = schema.errors(&json!({ "a": [1, "secret"] }), 30);
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 2, "{told:?}");
        assert!(errors.iter().any(|error| error.path == "/a/1"), "{told:?}");
        assert!(told.iter().any(|text| text.contains("\"b\"")), "{told:?}");
        assert!(!told.concat().contains("secret"), "{told:?}");
        let many = json!({ "a": vec!["x"; 1000], "b": 1 });
        assert_eq!(schema.errors(&many, 5000).len(), MOST_ERRORS);
        assert_eq!(schema.errors(&many, 1 << 20).len(), 1);
    }

    #[test]
    fn the_members_that_a_schema_knows() {
        let closed = json!({ "properties": { "a": false }, "patternProperties": { "^x-": {} }, "additionalProperties": false });
        let closed = Schema::compile(closed).unwrap();
        assert!(closed.knows("a") && closed.knows("x-1") && !closed.knows("b"));
        assert!(Schema::compile(json!({ "properties": { "a": {} } })).unwrap().knows("b"));
    }

    #[test]
    fn patterns_take_no_longer_than_the_text_is_long() {
        let schema = Schema::compile(json!({ "pattern": "^(a+)+$" })).unwrap();
        let before = std::time::Instant::now();
        assert!(!schema.errors(&json!(format!("{}b", "a".repeat(50_000))), 50_000).is_empty());
        assert!(before.elapsed().as_secs() < 5);
    }
}
