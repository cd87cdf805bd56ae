//! Resources and prompts: the policy is asked for these as well, since they too bring what a server says to the
//! model.

use bytes::Bytes;
use lazaret_audit::{EventKind, NewEvent};
use lazaret_gate::{Decision, Verdict};
use serde_json::{Value, json};

use super::Proxy;
use crate::{
    blocked::Evidence,
    message::{self, Message},
    names::ServerIndex,
    reply::Code,
    shorten,
};

impl Proxy {
    pub(super) fn resource_request(&mut self, message: &Message, id: &Bytes) {
        if let Err(fault) = message::require_plain(message.params(), &["uri", "_meta"]) {
            self.refuse(id, Code::InvalidParams, &fault.to_string());
            return;
        }
        let Some(uri) = message::string(message.params(), "uri") else {
            self.refuse(id, Code::InvalidParams, "`uri` is missing");
            return;
        };
        let Some(server) = self.owner_of_resource(&uri) else {
            self.refuse(id, Code::ResourceNotFound, &format!("no server has the resource {uri}"));
            return;
        };
        if message.method() == "resources/unsubscribe" {
            self.pass_on(message, id, server, Vec::new());
            return;
        }
        self.refresh_policies_if_due();
        let Some(slot) = self.servers.get(server.0) else { return };
        let facts = slot.process.as_ref().map(|process| process.facts().clone());
        let name = slot.name.clone();
        let verdict = self.gatekeeper.judge_resource(&name, &uri, facts.as_ref());
        self.let_through(message, id, server, &verdict, ("uri", &uri), Vec::new());
    }

    pub(super) fn prompt_request(&mut self, message: &Message, id: &Bytes) {
        if let Err(fault) = message::require_plain(message.params(), &["name", "arguments", "_meta"]) {
            self.refuse(id, Code::InvalidParams, &fault.to_string());
            return;
        }
        let shown = message::string(message.params(), "name").unwrap_or_default();
        let meant = self.prompts.meaning(&shown).map(|(server, own)| (server, own.to_owned()));
        // Who was never listed may still be known to the only server that has prompts.
        let meant = meant.or_else(|| self.only_server("prompts").map(|server| (server, shown.clone())));
        let Some((server, own)) = meant else {
            self.refuse(id, Code::InvalidParams, &format!("Unknown prompt: {shown}"));
            return;
        };
        self.refresh_policies_if_due();
        let Some(slot) = self.servers.get(server.0) else { return };
        let facts = slot.process.as_ref().map(|process| process.facts().clone());
        let name = slot.name.clone();
        let arguments = message::member(message.params(), "arguments").unwrap_or("{}");
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        let verdict = self.gatekeeper.judge_prompt(&name, &own, &arguments, facts.as_ref());
        let edits = message::member(message.params(), "name")
            .map(|raw| (message.place(raw), Bytes::from(Value::String(own.clone()).to_string())));
        self.let_through(message, id, server, &verdict, ("prompt", &own), edits.into_iter().collect());
    }

    /// What is to be completed is a part of what would be asked for.
    pub(super) fn judge_completion(
        &mut self,
        message: &Message,
        id: &Bytes,
        server: ServerIndex,
        name: &str,
        edits: Vec<(std::ops::Range<usize>, Bytes)>,
    ) {
        self.refresh_policies_if_due();
        let argument = message::member(message.params(), "argument").unwrap_or("{}");
        let mut arguments = serde_json::Map::new();
        if let (Some(name), Some(value)) =
            (message::string(argument, "name"), message::string(argument, "value"))
        {
            arguments.insert(name, Value::String(value));
        }
        let Some(slot) = self.servers.get(server.0) else { return };
        let facts = slot.process.as_ref().map(|process| process.facts().clone());
        let server_name = slot.name.clone();
        let verdict = self.gatekeeper.judge_prompt(&server_name, name, &arguments, facts.as_ref());
        self.let_through(message, id, server, &verdict, ("completion", name), edits);
    }

    /// What nobody knows is passed on, and recorded.
    pub(super) fn pass_unjudged(&mut self, message: &Message, id: &Bytes, server: ServerIndex) {
        let verdict = Verdict {
            decision: Decision::Allow,
            rule: lazaret_gate::Rule("unknown-method".to_owned()),
            reason: "no policy knows this method".to_owned(),
            facts: lazaret_gate::Facts::default(),
        };
        self.let_through(message, id, server, &verdict, ("method", message.method()), Vec::new());
    }

    /// There is nobody to ask for these: what would be escalated is denied.
    fn let_through(
        &mut self,
        message: &Message,
        id: &Bytes,
        server: ServerIndex,
        verdict: &Verdict,
        (what, value): (&str, &str),
        edits: Vec<(std::ops::Range<usize>, Bytes)>,
    ) {
        let allowed = verdict.decision == Decision::Allow && self.latched.is_none();
        let Some(slot) = self.servers.get(server.0) else { return };
        let sandboxed =
            slot.process.as_ref().is_some_and(|process| process.facts().evidence != Evidence::None);
        let event = NewEvent::new(EventKind::ToolCall, &self.sandbox_id(server))
            .with("sessionId", self.session.id())
            .with("serverName", slot.name.as_str())
            .with("toolName", message.method())
            .with("arguments", json!({ what: shorten::text(value) }))
            .with(
                "policyDecision",
                json!({ "status": verdict.decision, "rule": verdict.rule, "reason": shorten::text(&verdict.reason) }),
            )
            .with("result", json!({ "status": if allowed { "forwarded" } else { "denied" } }))
            .with("sandboxed", sandboxed);
        self.append(&event);
        if let Some(text) = self.latched.clone() {
            self.refuse(id, Code::Internal, &text);
        } else if allowed {
            self.pass_on(message, id, server, edits);
        } else {
            self.refuse(id, Code::InvalidRequest, &format!("DENIED: {}", verdict.reason));
        }
    }
}
