//! A tool as its server describes it, and a call of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool of a server. What the server says about itself is not trusted: it can only make a decision stricter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub server: String,
    /// As its server names it, not as the client sees it.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of its arguments.
    #[serde(default)]
    pub input_schema: Value,
    #[serde(default)]
    pub hints: Hints,
}

/// MCP's `annotations`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    pub read_only_hint: Option<bool>,
    pub destructive_hint: Option<bool>,
    pub idempotent_hint: Option<bool>,
    pub open_world_hint: Option<bool>,
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub tool: &'a Tool,
    pub arguments: &'a Map<String, Value>,
}
