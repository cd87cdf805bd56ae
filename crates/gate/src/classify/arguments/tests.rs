use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::classify::schema::Budget;

fn outcome(schema: Value, arguments: Value) -> Result<(), Fault> {
    check(Schema::new(&schema, &Budget::default()), arguments.as_object().expect("arguments are an object"))
}

fn message(schema: Value, arguments: Value) -> String {
    outcome(schema, arguments).expect_err("is refused").to_string()
}

fn reading() -> Value {
    json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "head": {"type": "integer"}},
        "required": ["path"],
    })
}

#[test]
fn an_unknown_argument_is_named_with_those_that_are_known() {
    assert_eq!(
        message(reading(), json!({"path": "a", "a": 1, "b": 2})),
        "Unknown argument(s): a, b. The tool knows: path, head."
    );
}

#[test]
fn missing_and_mistyped_arguments_are_refused() {
    assert!(message(reading(), json!({})).starts_with("Missing argument(s): path."));
    assert_eq!(
        message(reading(), json!({"path": 5})),
        "Argument `path` is a number, and the tool's schema wants string."
    );
    assert!(message(reading(), json!({"path": "a", "head": 1.5})).contains("wants integer"));
    assert!(message(reading(), json!({"path": null})).contains("is null"));
    assert_eq!(outcome(reading(), json!({"path": "a", "head": 2.0})), Ok(()));
    assert_eq!(outcome(reading(), json!({"path": "a", "head": null})), Ok(()));
}

#[test]
fn additional_arguments_need_to_be_admitted_in_so_many_words() {
    let with = |additional: Value| json!({"type": "object", "additionalProperties": additional});
    assert_eq!(outcome(with(json!(true)), json!({"x": 1})), Ok(()));
    assert_eq!(outcome(with(json!({"type": "string"})), json!({"x": "1"})), Ok(()));
    assert!(outcome(with(json!(false)), json!({"x": 1})).is_err());
    assert!(outcome(json!({"type": "object"}), json!({"x": 1})).is_err());
    // A part that holds in any case and closes the object is not opened by an alternative.
    let schema = json!({"additionalProperties": false, "anyOf": [{"additionalProperties": true}]});
    assert!(outcome(schema, json!({"x": 1})).is_err());
}

#[test]
fn a_name_is_known_when_any_branch_declares_it() {
    let schema = json!({
        "type": "object",
        "allOf": [{"properties": {"a": {}}}],
        "anyOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/more"}],
        "oneOf": [{"properties": {"d": {}}}],
        "$defs": {"more": {"properties": {"c": {}}}},
    });
    assert_eq!(outcome(schema.clone(), json!({"a": 1, "b": 1, "c": 1, "d": 1})), Ok(()));
    assert!(message(schema, json!({"e": 1})).starts_with("Unknown argument(s): e."));
}

#[test]
fn names_are_checked_in_objects_and_lists_of_objects_too() {
    let schema = json!({
        "type": "object",
        "properties": {
            "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
            "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
            "free": {"type": "object"},
        },
        "$defs": {"edit": {"type": "object", "properties": {"oldText": {"type": "string"}}, "required": ["oldText"]}},
    });
    assert_eq!(
        outcome(schema.clone(), json!({"edits": [{"oldText": "a"}], "free": {"any": 1}})),
        Ok(()),
        "an object without listed members is free"
    );
    assert!(message(schema.clone(), json!({"edits": [{"oldText": "", "x": 1}]})).contains("edits.0.x"));
    assert!(message(schema.clone(), json!({"options": {"deep": true, "x": 1}})).contains("options.x"));
    assert!(message(schema.clone(), json!({"options": {"deep": 1}})).contains("`options.deep`"));
    assert!(message(schema.clone(), json!({"edits": [{}]})).contains("edits.0.oldText"));
    assert!(message(schema, json!({"edits": [1]})).contains("`edits.0` is a number"));
}

#[test]
fn patterns_of_names_count() {
    let schema = json!({"type": "object", "patternProperties": {"^x-": {}, "(a|b)": {}}});
    assert_eq!(outcome(schema.clone(), json!({"x-1": 1})), Ok(()));
    assert!(outcome(schema.clone(), json!({"y": 1})).is_err());
    assert!(outcome(schema, json!({"a": 1})).is_err(), "a pattern that is not understood admits nothing");
}

#[test]
fn a_reference_that_leads_nowhere_admits_nothing() {
    let schema = json!({"type": "object", "properties": {"o": {"$ref": "https://example.com/schema"}}});
    assert_eq!(outcome(schema.clone(), json!({"o": "text"})), Ok(()));
    assert!(message(schema, json!({"o": {"x": 1}})).contains("o.x"));
}

#[test]
fn alternatives_of_kinds_are_checked() {
    let schema = json!({"type": "object", "properties": {
        "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "b": {"type": ["string", "number"]},
        "c": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }});
    assert_eq!(outcome(schema.clone(), json!({"a": null, "b": 1, "c": "x"})), Ok(()));
    assert!(message(schema.clone(), json!({"a": 1})).contains("wants string"));
    assert!(message(schema.clone(), json!({"b": true})).contains("string or number"));
    assert!(message(schema, json!({"c": true})).contains("several other forms"));
}

#[test]
fn a_missing_schema_takes_anything_and_a_wrong_one_nothing() {
    for schema in [Value::Null, json!(true), json!({}), json!({"$schema": "x", "description": "y"})] {
        assert_eq!(outcome(schema, json!({"x": {"y": 1}})), Ok(()));
    }
    for schema in [json!({"type": "string"}), json!(false), json!(5), json!([])] {
        assert_eq!(outcome(schema.clone(), json!({})), Ok(()));
        assert_eq!(outcome(schema, json!({"x": 1})), Err(Fault::NotAnObjectSchema));
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"$ref": "#", "type": "object"});
    assert!(outcome(schema, json!({"x": 1})).is_err());
    let tree = json!({"type": "object", "properties": {"child": {"$ref": "#"}}});
    assert_eq!(outcome(tree.clone(), json!({"child": {"child": {}}})), Ok(()));
    assert!(message(tree, json!({"child": {"other": {}}})).contains("child.other"));
}

#[test]
fn a_name_cannot_break_out_of_the_message() {
    let message = message(reading(), json!({"path": "a", "x\n\u{1b}[31m": 1}));
    assert!(!message.contains('\n') && !message.contains('\u{1b}'));
}

proptest! {
    #[test]
    fn a_name_that_is_declared_nowhere_is_never_admitted(name in "[a-z]{1,8}", others in prop::collection::vec("[a-z]{1,8}", 0..5)) {
        prop_assume!(!others.contains(&name));
        let properties: Map<String, Value> = others.iter().map(|other| (other.clone(), json!({}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        let refused = matches!(outcome(schema, json!({name: 1})), Err(Fault::UnknownArguments { .. }));
        prop_assert!(refused);
    }
}
