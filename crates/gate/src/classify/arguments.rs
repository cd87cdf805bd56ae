//! Does a call fit the schema of its tool: no names that the schema does not have, none missing, and values of the
//! kinds it wants? Ranges, lengths and the like are left to the server.
//!
//! A tool without a schema (missing, `true` or `{}`) takes anything; what it is given is looked through all the same.

use serde_json::{Map, Value};

use super::{
    refusal::{Fault, shown},
    schema::{Branches, Level, Schema, TooLarge, list, object},
};

const DEEPEST: usize = 160;
const MOST_NAMES: usize = 30;

pub(super) fn check(schema: Schema<'_>, arguments: &Map<String, Value>) -> Result<(), Fault> {
    let root = schema.root;
    if says_nothing(root) {
        return Ok(());
    }
    if !describes_objects(root) {
        return if arguments.is_empty() { Ok(()) } else { Err(Fault::NotAnObjectSchema) };
    }
    let branches = schema.branches(&[root])?;
    let mut unknown = Unknown::default();
    unknown.look(&schema, &branches, arguments, Level::Top, "", 0)?;
    if !unknown.names.is_empty() {
        return Err(Fault::UnknownArguments { names: joined(&unknown.names), known: known(&branches) });
    }
    Fitting { schema }.fits(root, Given::Object(arguments), "", 0)
}

impl From<TooLarge> for Fault {
    fn from(too_large: TooLarge) -> Self {
        match too_large {
            TooLarge::Schema => Fault::SchemaTooLarge,
            TooLarge::Call => Fault::TooLarge,
        }
    }
}

/// No schema, or one without a word about arguments.
pub(super) fn says_nothing(schema: &Value) -> bool {
    const WORDS: [&str; 12] = [
        "type",
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
        "not",
        "propertyNames",
    ];
    match schema {
        Value::Null | Value::Bool(true) => true,
        Value::Object(schema) => !WORDS.iter().any(|word| schema.contains_key(*word)),
        _ => false,
    }
}

fn describes_objects(schema: &Value) -> bool {
    match schema.get("type") {
        None => schema.is_object(),
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    }
}

fn joined<T: AsRef<str>>(names: &[T]) -> String {
    let mut text =
        names.iter().take(MOST_NAMES).map(|name| shown(name.as_ref())).collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMES {
        text.push_str(", …");
    }
    text
}

fn known(branches: &Branches<'_>) -> String {
    let names = branches.names();
    match names.is_empty() {
        true => "The tool takes no arguments.".to_owned(),
        false => format!("The tool knows: {}.", joined(&names)),
    }
}

/// Names that no branch of the schema declares, at any depth.
#[derive(Default)]
struct Unknown {
    names: Vec<String>,
}

impl Unknown {
    fn look<'a>(
        &mut self,
        schema: &Schema<'a>,
        branches: &Branches<'a>,
        object: &Map<String, Value>,
        level: Level,
        at: &str,
        depth: usize,
    ) -> Result<(), TooLarge> {
        let additional = branches.additional(level);
        for (name, value) in object {
            schema.budget.spend(branches.cost())?;
            let described = match (branches.member(name), &additional) {
                (Some(schemas), _) => schemas,
                (None, Some(schemas)) => schemas.clone(),
                (None, None) => {
                    self.names.push(format!("{at}{name}"));
                    continue;
                }
            };
            self.value(schema, &described, value, &|| format!("{at}{name}"), depth + 1)?;
        }
        Ok(())
    }

    fn value<'a>(
        &mut self,
        schema: &Schema<'a>,
        described: &[&'a Value],
        value: &Value,
        at: &dyn Fn() -> String,
        depth: usize,
    ) -> Result<(), TooLarge> {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Ok(());
        }
        if depth > DEEPEST {
            return Err(TooLarge::Call);
        }
        let branches = schema.branches(described)?;
        match value {
            Value::Object(object) => {
                self.look(schema, &branches, object, Level::Below, &format!("{}.", at()), depth)
            }
            Value::Array(array) => {
                let elements = branches.elements();
                for (index, element) in array.iter().enumerate() {
                    let described = elements.at(index, schema.budget)?;
                    self.value(schema, &described, element, &|| format!("{}.{index}", at()), depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Kinds and required names.
struct Fitting<'a> {
    schema: Schema<'a>,
}

/// A value, or the arguments themselves, which are an object without being a value.
#[derive(Clone, Copy)]
enum Given<'v> {
    Object(&'v Map<String, Value>),
    Other(&'v Value),
}

impl<'v> From<&'v Value> for Given<'v> {
    fn from(value: &'v Value) -> Self {
        match value {
            Value::Object(object) => Given::Object(object),
            other => Given::Other(other),
        }
    }
}

impl Given<'_> {
    /// Its kind, with an article.
    fn kind(self) -> &'static str {
        match self {
            Given::Object(_) | Given::Other(Value::Object(_)) => "an object",
            Given::Other(Value::Null) => "null",
            Given::Other(Value::Bool(_)) => "a boolean",
            Given::Other(Value::Number(_)) => "a number",
            Given::Other(Value::String(_)) => "a string",
            Given::Other(Value::Array(_)) => "an array",
        }
    }

    fn is(self, kind: &str) -> bool {
        match (kind, self) {
            ("object", Given::Object(_))
            | ("null", Given::Other(Value::Null))
            | ("boolean", Given::Other(Value::Bool(_)))
            | ("number", Given::Other(Value::Number(_)))
            | ("string", Given::Other(Value::String(_)))
            | ("array", Given::Other(Value::Array(_))) => true,
            ("integer", Given::Other(Value::Number(number))) => {
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
            }
            ("object" | "null" | "boolean" | "number" | "string" | "array" | "integer", _) => false,
            // No kind of JSON Schema; some servers write `any`.
            _ => true,
        }
    }
}

impl<'a> Fitting<'a> {
    /// The first thing that does not fit.
    fn fits(&mut self, schema: &'a Value, given: Given<'_>, at: &str, depth: usize) -> Result<(), Fault> {
        self.schema.budget.spend(1)?;
        if depth > DEEPEST {
            return Err(Fault::SchemaTooLarge);
        }
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return Err(wrong(at, given, "it left out".to_owned())),
            _ => return Ok(()),
        };
        check_kind(schema, given, at)?;
        if let Some(target) = schema.get("$ref").and_then(|reference| self.schema.target(reference)) {
            self.fits(target, given, at, depth + 1)?;
        }
        for part in list(schema, "allOf") {
            self.fits(part, given, at, depth + 1)?;
        }
        for key in ["anyOf", "oneOf"] {
            self.fits_one_of(list(schema, key), given, at, depth)?;
        }
        match given {
            Given::Object(members) => self.fits_members(schema, members, at, depth),
            Given::Other(Value::Array(elements)) => self.fits_elements(schema, elements, at, depth),
            Given::Other(_) => Ok(()),
        }
    }

    fn fits_one_of(
        &mut self,
        parts: &'a [Value],
        given: Given<'_>,
        at: &str,
        depth: usize,
    ) -> Result<(), Fault> {
        let mut faults = Vec::new();
        for part in parts {
            match self.fits(part, given, at, depth + 1) {
                Ok(()) => return Ok(()),
                Err(fault @ (Fault::SchemaTooLarge | Fault::TooLarge)) => return Err(fault),
                // "or null" is how an optional one is written; what is wrong is wrong with the other.
                Err(_) if part.get("type").is_some_and(|kind| kind == "null") => {}
                Err(fault) => faults.push(fault),
            }
        }
        match faults.len() {
            0 if parts.is_empty() => Ok(()),
            1 => faults.pop().map_or(Ok(()), Err),
            _ => Err(wrong(at, given, "one of several other forms".to_owned())),
        }
    }

    fn fits_members(
        &mut self,
        schema: &'a Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), Fault> {
        let required = || list(schema, "required").iter().filter_map(Value::as_str);
        let missing: Vec<String> =
            required().filter(|name| !members.contains_key(*name)).map(|name| below(at, name)).collect();
        if !missing.is_empty() {
            return Err(Fault::MissingArguments { names: joined(&missing) });
        }
        let Some(properties) = object(schema, "properties") else { return Ok(()) };
        for (name, value) in members {
            let Some(described) = properties.get(name) else { continue };
            // Many clients write null for what they leave out.
            if value.is_null() && !required().any(|it| it == name) {
                continue;
            }
            self.fits(described, value.into(), &below(at, name), depth + 1)?;
        }
        Ok(())
    }

    fn fits_elements(
        &mut self,
        schema: &'a Map<String, Value>,
        elements: &[Value],
        at: &str,
        depth: usize,
    ) -> Result<(), Fault> {
        let first = list(schema, "prefixItems");
        let every = schema.get("items").filter(|items| !items.is_array());
        for (index, element) in elements.iter().enumerate() {
            if let Some(described) = first.get(index).or(every) {
                self.fits(described, element.into(), &below(at, &index.to_string()), depth + 1)?;
            }
        }
        Ok(())
    }
}

fn check_kind(schema: &Map<String, Value>, given: Given<'_>, at: &str) -> Result<(), Fault> {
    let (fits, wanted) = match schema.get("type") {
        Some(Value::String(kind)) => (given.is(kind), kind.clone()),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            (kinds.iter().any(|kind| given.is(kind)), kinds.join(" or "))
        }
        _ => return Ok(()),
    };
    let nullable = || schema.get("nullable") == Some(&Value::Bool(true)) && given.is("null");
    if fits || nullable() { Ok(()) } else { Err(wrong(at, given, wanted)) }
}

fn wrong(at: &str, given: Given<'_>, wanted: String) -> Fault {
    Fault::WrongType { argument: shown(at), found: given.kind(), wanted: shown(&wanted) }
}

fn below(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests;
