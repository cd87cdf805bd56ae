//! The life of a tool call: what it is, whether it may be made, the answer, and the entry in the log.

use std::time::Instant;

use bytes::Bytes;
use lazaret_audit::{EventKind, NewEvent};
use lazaret_gate::{Decision, Facts, Rule, Verdict};
use serde_json::{Map, Value, json};

use super::{
    Proxy,
    process::{Failed, Mark},
    slot::Purpose,
};
use crate::{
    blocked::{self, Evidence},
    breaker,
    link::About,
    message::{self, Message},
    names::ServerIndex,
    reply,
    screen::Screened,
    shorten,
};

/// A call on its way.
#[derive(Debug)]
pub struct OpenCall {
    pub client_id: Bytes,
    pub request_id: String,
    pub server: Option<ServerIndex>,
    pub server_name: String,
    /// As its server names it.
    pub tool: String,
    pub arguments: Value,
    pub verdict: Verdict,
    pub escalation: Escalation,
    pub started: Instant,
    pub mark: Mark,
}

/// What a person had to do with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Escalation {
    #[default]
    None,
    Approved,
    /// By what was approved for the session before.
    Covered(String),
    Denied,
}

/// How a call ended, for the log.
enum End<'a> {
    Success,
    Denied(&'a str),
    Error(&'a str),
}

/// More than this waits to be written to a server: it does not read.
const MOST_WAITING: usize = 64 << 20;

impl Proxy {
    pub(super) fn call(&mut self, message: &Message, id: &Bytes) {
        let mut call = OpenCall {
            client_id: id.clone(),
            request_id: uuid::Uuid::now_v7().to_string(),
            server: None,
            server_name: String::new(),
            tool: String::new(),
            arguments: Value::Null,
            verdict: structural(Rule::UNDECIDABLE, String::new()),
            escalation: Escalation::None,
            started: Instant::now(),
            mark: Mark::default(),
        };
        // Who reads it next must not read something else in it.
        let known = ["name", "arguments", "_meta", "task", "inputResponses", "requestState"];
        if let Err(fault) = message::require_plain(message.params(), &known) {
            let text = format!("Invalid request: {fault}");
            call.verdict = structural(Rule::INVALID_ARGUMENT, text.clone());
            return self.refuse_call(call, &text);
        }
        let shown = message::string(message.params(), "name").unwrap_or_default();
        let arguments = message::member(message.params(), "arguments").filter(|raw| *raw != "null");
        call.tool = shown.clone();
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(arguments.unwrap_or("{}")) else {
            let text = "Invalid arguments: they must be an object".to_owned();
            call.verdict = structural(Rule::INVALID_ARGUMENT, text.clone());
            return self.refuse_call(call, &text);
        };
        call.arguments = Value::Object(arguments);
        let Some((server, own)) = self.names.meaning(&shown).map(|(server, own)| (server, own.to_owned()))
        else {
            let text = format!("Unknown tool: {shown}");
            call.verdict = structural(Rule::UNKNOWN_TOOL, text.clone());
            return self.refuse_call(call, &text);
        };
        let Some(slot) = self.servers.get(server.0) else { return };
        call.server = Some(server);
        call.server_name = slot.name.clone();
        call.tool = own.clone();
        if !slot.is_ready() {
            let text = match &slot.state {
                super::State::Failed(why) => format!("The server {} does not run: {why}", slot.name),
                _ => format!("The server {} is still starting", slot.name),
            };
            return self.call_failed(call, &text);
        }
        if let Some(text) = self.latched.clone() {
            return self.call_failed(call, &text);
        }
        self.refresh_policies_if_due();
        let Some(slot) = self.servers.get(server.0) else { return };
        let Some(tool) = slot.catalog.get(&own) else {
            let text = format!("Unknown tool: {shown}");
            call.verdict = structural(Rule::UNKNOWN_TOOL, text.clone());
            return self.refuse_call(call, &text);
        };
        let facts = slot.process.as_ref().map(|process| process.facts().clone());
        let arguments = call.arguments.as_object().cloned().unwrap_or_default();
        call.verdict = self.gatekeeper.judge(tool, &arguments, facts.as_ref(), &slot.change);
        match call.verdict.decision {
            Decision::Deny => {
                let text = format!("DENIED: {}", call.verdict.reason);
                self.refuse_call(call, &text);
            }
            Decision::Allow => self.forward_call(call, message),
            Decision::Escalate => {
                let digest = super::questions::digest_of(&call);
                let approved_as = super::questions::approved_as(&call);
                match self.approvals.covers(&call.server_name, &approved_as, &call.verdict.facts, digest) {
                    Some(pattern) => {
                        call.escalation = Escalation::Covered(pattern.to_string());
                        self.forward_call(call, message);
                    }
                    None => self.ask_person(call, message),
                }
            }
        }
    }

    /// It may be made: past the brakes and to the server.
    pub(super) fn forward_call(&mut self, mut call: OpenCall, message: &Message) {
        let Some(server) = call.server else { return };
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let limits = breaker::Limits {
            identical: slot.limits.identical_calls as usize,
            within: slot.limits.identical_calls_within,
            per_minute: slot.limits.calls_per_minute.map_or(0, |calls| calls as usize),
        };
        let now = Instant::now();
        if let Err(brake) = slot.breaker.pass(&call.tool, &call.arguments.to_string(), limits, now) {
            let text = brake.to_string();
            return self.refuse_call(call, &text);
        }
        if slot.outbox.as_ref().is_none_or(|outbox| outbox.waiting() > MOST_WAITING) {
            let text = format!("The server {} does not read what it is sent", slot.name);
            return self.call_failed(call, &text);
        }
        if let Some(process) = &slot.process {
            call.mark = process.mark();
        }
        let mut edits = Vec::new();
        if let Some(raw) = message::member(message.params(), "name") {
            edits.push((message.place(raw), Bytes::from(Value::String(call.tool.clone()).to_string())));
        }
        let text = format!("The server {} does not run", call.server_name);
        let refused = Proxy::copy(&call);
        if self.send_request(message, server, edits, Purpose::Call(Box::new(call))).is_none() {
            self.call_failed(refused, &text);
        }
    }

    fn copy(call: &OpenCall) -> OpenCall {
        OpenCall {
            client_id: call.client_id.clone(),
            request_id: call.request_id.clone(),
            server: call.server,
            server_name: call.server_name.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            verdict: call.verdict.clone(),
            escalation: call.escalation.clone(),
            started: call.started,
            mark: call.mark,
        }
    }

    pub(super) fn on_call_answer(&mut self, call: OpenCall, answer: &Message) {
        let Some(server) = call.server else { return };
        let Some(slot) = self.servers.get(server.0) else { return };
        let limit = slot.limits.max_output_bytes;
        if answer.len() as u64 > limit {
            let text = format!(
                "The result of {} has {} bytes; at most {limit} are passed on (limits.maxOutputBytes). Ask for less.",
                call.tool,
                answer.len()
            );
            return self.call_failed(call, &text);
        }
        let failed = blocked::has_failed(answer);
        let mut edits = Vec::new();
        let text = if failed { blocked::text_of(answer) } else { String::new() };
        let (evidence, denied) = match &slot.process {
            Some(process) if failed => {
                let mut denied = process.blocked_since(call.mark, Failed::Yes);
                if denied.is_empty() {
                    denied = process.closed(&call.verdict.facts, &text);
                }
                (process.facts().evidence, denied)
            }
            Some(process) => (process.facts().evidence, process.blocked_since(call.mark, Failed::No)),
            None => (Evidence::None, Vec::new()),
        };
        let mut told = text.clone();
        if failed && let Some(sentence) = blocked::sentence(&denied, evidence, &text) {
            edits = blocked::marked(answer, &sentence);
            told = format!("{} {text} ({sentence})", blocked::PREFIX);
        }
        let blocked: Vec<String> = denied.into_iter().map(|denied| denied.description).collect();
        if let Screened::Withhold(why) =
            self.house.screen.result(&call.server_name, &call.tool, answer.outcome())
        {
            let text = format!("The result was withheld: {why}");
            return self.call_failed(call, &text);
        }
        let end = if failed { End::Error(&told) } else { End::Success };
        self.record(&call, &end, &blocked);
        if let Some(text) = self.latched.clone() {
            // What is not in the log did not happen, for the client.
            self.give(&call, &text);
            return;
        }
        self.relay(server, answer, &call.client_id, "tools/call", edits);
    }

    /// Nobody let it through.
    pub(super) fn refuse_call(&mut self, call: OpenCall, text: &str) {
        self.record(&call, &End::Denied(text), &[]);
        self.give(&call, text);
    }

    /// It was let through, or could have been, and came to nothing.
    pub(super) fn call_failed(&mut self, call: OpenCall, text: &str) {
        self.record(&call, &End::Error(text), &[]);
        self.give(&call, text);
    }

    fn give(&mut self, call: &OpenCall, text: &str) {
        self.requests.remove(&call.client_id);
        let text = match &self.latched {
            Some(latched) => latched.clone(),
            None => text.to_owned(),
        };
        let stateless = self
            .client
            .as_ref()
            .is_some_and(|client| client.generation == crate::generation::Generation::Stateless);
        let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        if stateless && let Some(result) = result.as_object_mut() {
            result.insert("resultType".to_owned(), json!("complete"));
        }
        self.tell(vec![reply::result(&call.client_id, &result)], About::Response(call.client_id.clone()));
    }

    /// The client has lost interest: the answer will be dropped, the entry is written now.
    pub(super) fn cancel_at_server(&mut self, server: ServerIndex, id: u64) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let Some(pending) = slot.pending.remove(&id) else { return };
        if let Purpose::Call(call) = pending.purpose {
            self.record(&call, &End::Error("the client cancelled the call"), &[]);
        }
    }

    /// A call that waited for a person and is not wanted any more.
    pub(super) fn record_withdrawn(&mut self, call: &OpenCall, why: &str) {
        self.record(call, &End::Denied(why), &[]);
    }

    fn record(&mut self, call: &OpenCall, end: &End<'_>, blocked: &[String]) {
        let (sandboxed, id) = match call.server {
            Some(server) => {
                let sandboxed = self
                    .servers
                    .get(server.0)
                    .and_then(|slot| slot.process.as_ref())
                    .is_some_and(|process| process.facts().evidence != Evidence::None);
                (sandboxed, self.sandbox_id(server))
            }
            None => (false, self.session.id().to_owned()),
        };
        let result = match end {
            End::Success => json!({ "status": "success" }),
            End::Denied(text) => json!({ "status": "denied", "error": shorten::text(text) }),
            End::Error(text) => json!({ "status": "error", "error": shorten::text(text) }),
        };
        let journal = self.journal();
        let mut event = NewEvent::new(EventKind::ToolCall, &id)
            .with("sessionId", self.session.id())
            .with("requestId", call.request_id.as_str())
            .with("serverName", call.server_name.as_str())
            .with("toolName", shorten::text(&call.tool))
            .with("arguments", journal.unsecret(&shorten::value(&call.arguments)))
            .with(
                "policyDecision",
                json!({
                    "status": call.verdict.decision,
                    "rule": call.verdict.rule,
                    "reason": shorten::text(&call.verdict.reason),
                }),
            )
            .with("result", journal.unsecret(&result))
            .with("durationMs", u64::try_from(call.started.elapsed().as_millis()).unwrap_or(u64::MAX))
            .with("sandboxed", sandboxed);
        match &call.escalation {
            Escalation::None => {}
            Escalation::Approved => event = event.with("escalationResult", "approved"),
            Escalation::Denied => event = event.with("escalationResult", "denied"),
            Escalation::Covered(pattern) => {
                event = event.with("whitelistApproved", true).with("whitelistPatternId", pattern.as_str());
            }
        }
        if !blocked.is_empty() {
            event = event.with("blocked", json!(blocked.iter().take(20).collect::<Vec<_>>()));
        }
        self.append(&event);
    }
}

/// A decision that no policy made.
pub fn structural(rule: &str, reason: String) -> Verdict {
    Verdict { decision: Decision::Deny, rule: Rule(rule.to_owned()), reason, facts: Facts::default() }
}
