//! What was decided about a call, by what, and why.

use serde::Serialize;

use crate::facts::Facts;

/// The strictest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    Escalate,
    Deny,
}

/// What decided: a policy by its id, or a rule that no policy can lift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Rule(pub String);

impl Rule {
    pub const DEFAULT_DENY: &'static str = "default-deny";
    pub const PROTECTED_PATH: &'static str = "structural-protected-path";
    pub const UNKNOWN_TOOL: &'static str = "structural-unknown-tool";
    pub const UNKNOWN_ARGUMENT: &'static str = "structural-unknown-argument";
    pub const INVALID_ARGUMENT: &'static str = "structural-invalid-argument";
    pub const UNDECIDABLE: &'static str = "structural-undecidable";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub decision: Decision,
    pub rule: Rule,
    /// A sentence that a person, or a model, can act on.
    pub reason: String,
    pub facts: Facts,
}
