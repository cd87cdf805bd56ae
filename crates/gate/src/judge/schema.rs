//! The Cedar schema of the tools that there are: an action per tool with its own arguments, so that a name in a
//! policy that does not exist is found when the policy is loaded.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::Schema;
use serde_json::{Map, Value, json};

use crate::judge::{
    action,
    catalog::{Catalog, Offer, Server},
    context::{self, Kind},
    shape::Members,
};

/// A schema that Cedar accepts.
#[derive(Debug)]
pub struct Generated {
    pub schema: Schema,
    /// Actions of tools whose arguments Cedar does not accept: policies see an empty record.
    pub opaque: BTreeSet<String>,
}

impl Generated {
    /// What policies see of a tool's arguments.
    pub fn arguments<'a>(&self, action: &str, offer: &'a Offer) -> &'a Members {
        static NOTHING: Members = Members { expressed: BTreeMap::new(), left_out: BTreeMap::new() };
        if self.opaque.contains(action) { &NOTHING } else { &offer.arguments }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the schema of the tools that are running cannot be built: {0}; this is an error of ours")]
pub struct SchemaError(String);

pub fn generate(catalog: &Catalog) -> Result<Generated, SchemaError> {
    let mut opaque = BTreeSet::new();
    let first = match build(catalog, &opaque) {
        Ok(schema) => return Ok(Generated { schema, opaque }),
        Err(first) => first,
    };
    // One hostile tool must not take the others with it: each is tried alone.
    for (server, listing) in catalog.running() {
        for (tool, offer) in &listing.tools {
            let mut alone = Map::new();
            add_action(&mut alone, &action::tool(server, tool), &[], Kind::Call, &offer.arguments);
            if Schema::from_json_value(with_entities(alone)).is_err() {
                opaque.insert(action::tool(server, tool));
            }
        }
    }
    match build(catalog, &opaque) {
        Ok(schema) => Ok(Generated { schema, opaque }),
        Err(_) => Err(first),
    }
}

fn build(catalog: &Catalog, opaque: &BTreeSet<String>) -> Result<Schema, SchemaError> {
    Schema::from_json_value(document(catalog, opaque)).map_err(|error| SchemaError(error.to_string()))
}

fn document(catalog: &Catalog, opaque: &BTreeSet<String>) -> Value {
    let mut actions = Map::new();
    for kind in [action::CALL, action::READ, action::PROMPT] {
        actions.insert(kind.to_owned(), json!({}));
    }
    for (server, state) in catalog.servers() {
        let group = action::server(server);
        actions.insert(group.clone(), json!({}));
        let nothing = Members::default();
        add_action(&mut actions, &action::read(server), &[action::READ], Kind::Read, &nothing);
        add_action(&mut actions, &action::prompt(server), &[action::PROMPT], Kind::Prompt, &nothing);
        let Server::Running(listing) = state else { continue };
        for (tool, offer) in &listing.tools {
            let id = action::tool(server, tool);
            let arguments = if opaque.contains(&id) { &nothing } else { &offer.arguments };
            add_action(&mut actions, &id, &[action::CALL, &group], Kind::Call, arguments);
        }
    }
    with_entities(actions)
}

fn with_entities(actions: Map<String, Value>) -> Value {
    json!({ "": {
        "entityTypes": {
            "Agent": {},
            "Server": { "shape": { "type": "Record", "attributes": {
                "sandboxed": { "type": "Boolean" },
                "network": { "type": "Boolean" },
            } } },
        },
        "actions": actions,
    } })
}

fn add_action(actions: &mut Map<String, Value>, id: &str, groups: &[&str], kind: Kind, arguments: &Members) {
    let groups: Vec<Value> = groups.iter().map(|group| json!({ "id": group })).collect();
    actions.insert(
        id.to_owned(),
        json!({
            "memberOf": groups,
            "appliesTo": {
                "principalTypes": ["Agent"],
                "resourceTypes": ["Server"],
                "context": { "type": "Record", "attributes": context::attributes(kind, arguments) },
            },
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Hints, Tool};

    fn tool(server: &str, name: &str, schema: Value) -> Tool {
        Tool {
            server: server.into(),
            name: name.into(),
            description: String::new(),
            input_schema: schema,
            hints: Hints::default(),
        }
    }

    #[test]
    fn every_tool_is_an_action_of_its_server() {
        let catalog = Catalog::of(&[tool("git", "push", json!({})), tool("call", "it", json!({}))]);
        let generated = generate(&catalog).expect("a schema");
        let actions: BTreeSet<String> =
            generated.schema.actions().map(|uid| uid.id().escaped().to_string()).collect();
        for name in
            ["git/push", "git", "git#read", "git#prompt", "%call/it", "%call", "call", "read", "prompt"]
        {
            assert!(actions.contains(name), "{name} in {actions:?}");
        }
    }

    #[test]
    fn an_empty_catalogue_has_a_schema() {
        generate(&Catalog::new()).expect("a schema");
    }

    #[test]
    fn hostile_tools_do_not_break_the_others() {
        let names =
            ["", "\0", "a\"b", "${x}", "__cedar::x", "🦀\u{202e}", "Action::\"x\"", "a/b#c%d", "..", "if"];
        let mut properties = Map::new();
        for name in names {
            properties.insert(name.to_owned(), json!({ "type": "string" }));
        }
        for name in ["__extn", "__entity", "__expr", "type", "attributes", "has", "principal"] {
            properties.insert(
                name.to_owned(),
                json!({ "type": "object", "properties": { "fn": { "type": "string" } } }),
            );
        }
        let schema = json!({ "type": "object", "properties": properties });
        let mut tools: Vec<Tool> = names.iter().map(|name| tool("evil", name, schema.clone())).collect();
        tools.extend(names.iter().map(|name| tool(name, "x", schema.clone())));
        tools.push(tool("good", "read", json!({ "properties": { "path": { "type": "string" } } })));
        tools.push(tool("evil", "not-an-object", json!([1, 2])));
        let generated = generate(&Catalog::of(&tools)).expect("a schema");
        assert!(generated.opaque.is_empty(), "{:?}", generated.opaque);
        assert!(generated.schema.actions().any(|uid| uid.id().escaped() == "good/read"));
    }

    #[test]
    fn a_megabyte_of_schema_is_read_in_part() {
        let properties: Map<String, Value> = (0..20_000)
            .map(|number| {
                (format!("property-{number:06}"), json!({ "type": "string", "description": "x".repeat(20) }))
            })
            .collect();
        let catalog = Catalog::of(&[tool("evil", "big", json!({ "properties": properties }))]);
        generate(&catalog).expect("a schema");
    }
}
