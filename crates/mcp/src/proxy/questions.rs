//! Calls that wait for a person: asked, told to the client while they wait, answered or timed out.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lazaret_audit::EventKind;
use lazaret_gate::{
    Tool,
    escalation::{self, Answer, Breadth, CallDigest, Candidate, Scope, Ticket},
};
use serde_json::{Value, json};

use super::{
    Proxy, Where,
    call::{Escalation, OpenCall},
    slot::progress_token,
};
use crate::{link::About, message::Message, shorten};

#[derive(Debug)]
pub struct Question {
    call: OpenCall,
    message: Message,
    ticket: Ticket,
    /// What each candidate would cover.
    scopes: Vec<Vec<Scope>>,
    asked: Instant,
    token: Option<String>,
    told: Option<Instant>,
    /// As it was when it was asked about.
    tool: Option<Tool>,
}

/// So often the client hears that a call still waits.
const TELLING: Duration = Duration::from_secs(5);

impl Proxy {
    pub(super) fn ask_person(&mut self, mut call: OpenCall, message: &Message) {
        let digest = digest_of(&call);
        let scopes = escalation::suggest(&call.verdict.facts, digest, &self.house.never_whole);
        let scopes: Vec<Vec<Scope>> = if scopes.is_empty() { Vec::new() } else { vec![scopes] };
        let candidates = scopes
            .iter()
            .map(|scopes| Candidate {
                description: escalation::describe(&call.server_name, &call.tool, scopes),
            })
            .collect();
        let question = escalation::Question {
            server: call.server_name.clone(),
            tool: call.tool.clone(),
            // As they will be sent: who decides must see everything, and only the owner can read the question.
            shown_arguments: call.arguments.clone(),
            reason: call.verdict.reason.clone(),
            rule: call.verdict.rule.clone(),
            facts: call.verdict.facts.clone(),
            candidates,
        };
        let ticket = match self.desk.ask(&question) {
            Ok(ticket) => ticket,
            Err(error) => {
                call.escalation = Escalation::Denied;
                let text = format!("ESCALATION DENIED: nobody could be asked: {error}");
                return self.refuse_call(call, &text);
            }
        };
        let server = call.server;
        let sandbox = server.map_or_else(|| self.session.id().to_owned(), |server| self.sandbox_id(server));
        self.ledger_note(
            EventKind::EscalationRequested,
            &sandbox,
            &[
                ("escalationId", json!(ticket.id().as_str())),
                ("requestId", json!(call.request_id)),
                ("serverName", json!(call.server_name)),
                ("toolName", json!(call.tool)),
                ("arguments", shorten::value(&call.arguments)),
                ("rule", json!(call.verdict.rule)),
                ("reason", json!(shorten::text(&call.verdict.reason))),
            ],
        );
        if let Some(text) = self.latched.clone() {
            return self.call_failed(call, &text);
        }
        self.journal().note(&format!(
            "{} of {} waits for a person: {}. `lazaret escalation show {}`",
            call.tool,
            call.server_name,
            call.verdict.reason,
            ticket.id()
        ));
        let key = self.new_key();
        let tool = call.tool.clone();
        self.requests.insert(call.client_id.clone(), Where::Question(key));
        let question = Question {
            call,
            message: message.clone(),
            ticket,
            scopes,
            asked: Instant::now(),
            token: progress_token(message),
            told: None,
            tool: server
                .and_then(|server| self.servers.get(server.0))
                .and_then(|slot| slot.catalog.get(&tool))
                .cloned(),
        };
        self.questions.insert(key, question);
        self.tell_waiting(Instant::now());
    }

    pub(super) fn look_at_answers(&mut self) {
        let answered: Vec<(u64, Answer)> = self
            .questions
            .iter()
            .filter_map(|(key, question)| Some((*key, self.desk.look(&question.ticket)?)))
            .collect();
        for (key, answer) in answered {
            self.on_person(key, answer);
        }
    }

    fn on_person(&mut self, key: u64, answer: Answer) {
        let Some(Question { mut call, message, ticket, mut scopes, asked, tool, .. }) =
            self.questions.remove(&key)
        else {
            return;
        };
        let (word, breadth, by, text) = match &answer {
            Answer::Approved(approval) => {
                ("approved", Some(approval.breadth), approval.by.clone(), String::new())
            }
            Answer::Denied(denial) => ("denied", None, None, format!("ESCALATION DENIED: {denial}")),
            Answer::TimedOut => {
                let waited = asked.elapsed().as_secs();
                (
                    "timedOut",
                    None,
                    None,
                    format!("ESCALATION DENIED: nobody answered within {waited} seconds"),
                )
            }
        };
        let sandbox =
            call.server.map_or_else(|| self.session.id().to_owned(), |server| self.sandbox_id(server));
        let wide = matches!(breadth, Some(Breadth::Session { .. }));
        self.ledger_note(
            EventKind::EscalationAnswered,
            &sandbox,
            &[
                ("escalationId", json!(ticket.id().as_str())),
                ("requestId", json!(call.request_id)),
                ("serverName", json!(call.server_name)),
                ("toolName", json!(call.tool)),
                ("decision", json!(word)),
                ("scope", json!(if wide { "session" } else { "once" })),
                ("answeredBy", json!(by)),
                ("waitedMs", json!(u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX))),
            ],
        );
        drop(ticket);
        match answer {
            Answer::Approved(approval) => {
                call.escalation = Escalation::Approved;
                if let Breadth::Session { candidate } = approval.breadth
                    && candidate < scopes.len()
                {
                    let granted = self.approvals.grant(
                        &call.server_name,
                        &approved_as(&call),
                        scopes.swap_remove(candidate),
                    );
                    if let Err(error) = granted {
                        self.journal().note(&format!("approved once only: {error}"));
                    }
                }
                self.requests.remove(&call.client_id);
                if let Some(text) = self.latched.clone() {
                    return self.call_failed(call, &text);
                }
                match self.still_holds(&call, tool.as_ref()) {
                    Ok(()) => self.forward_call(call, &message),
                    Err(text) => self.refuse_call(call, &text),
                }
            }
            Answer::Denied(_) | Answer::TimedOut => {
                call.escalation = Escalation::Denied;
                self.refuse_call(call, &text);
            }
        }
    }

    /// While a person thought, links may have been turned and policies changed: what was approved must still be
    /// what will be done.
    fn still_holds(&mut self, call: &OpenCall, asked_about: Option<&Tool>) -> Result<(), String> {
        self.refresh_policies_if_due();
        let gone = || "ESCALATION DENIED: the tool is not there any more".to_owned();
        let slot = call.server.and_then(|server| self.servers.get(server.0)).ok_or_else(gone)?;
        let tool = slot.catalog.get(&call.tool).ok_or_else(gone)?;
        if Some(tool) != asked_about {
            return Err("ESCALATION DENIED: the tool changed while the call waited for an answer".to_owned());
        }
        let facts = slot.process.as_ref().map(|process| process.facts().clone());
        let arguments = call.arguments.as_object().cloned().unwrap_or_default();
        let now = self.gatekeeper.judge(tool, &arguments, facts.as_ref(), &slot.change);
        if now.decision == lazaret_gate::Decision::Deny {
            return Err(format!("DENIED: {}", now.reason));
        }
        if now.facts != call.verdict.facts {
            return Err(
                "ESCALATION DENIED: what the call is about changed while it waited for an answer".to_owned()
            );
        }
        Ok(())
    }

    /// The client hears that something goes on.
    pub(super) fn tell_waiting(&mut self, now: Instant) {
        let mut told = Vec::new();
        for question in self.questions.values_mut() {
            let Some(token) = &question.token else { continue };
            if question.told.is_some_and(|told| now.duration_since(told) < TELLING) {
                continue;
            }
            question.told = Some(now);
            let (gone, left) = (question.asked.elapsed(), question.ticket.time_left());
            let message = format!(
                "Waiting for a person to approve {}: lazaret escalation approve {}",
                question.call.tool,
                question.ticket.id()
            );
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{:.3},"total":{:.3},"message":{}}}}}"#,
                gone.as_secs_f64(),
                (gone + left).as_secs_f64(),
                Value::String(message)
            );
            told.push((Bytes::from(text), About::Request(question.call.client_id.clone())));
        }
        for (text, about) in told {
            self.tell(vec![text], about);
        }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn withdraw(&mut self, key: u64, why: &str) {
        let Some(Question { mut call, ticket, .. }) = self.questions.remove(&key) else { return };
        self.desk.withdraw(ticket);
        self.requests.remove(&call.client_id);
        call.escalation = Escalation::Denied;
        self.record_withdrawn(&call, why);
    }

    pub(super) fn withdraw_all(&mut self, why: &str) {
        let keys: Vec<u64> = self.questions.keys().copied().collect();
        for key in keys {
            self.withdraw(key, why);
        }
    }
}

/// What was approved was this tool for this reason: another rule asks again.
pub fn approved_as(call: &OpenCall) -> String {
    format!("{}\n{}", call.tool, call.verdict.rule.0)
}

pub fn digest_of(call: &OpenCall) -> CallDigest {
    let empty = serde_json::Map::new();
    CallDigest::of(&call.server_name, &call.tool, call.arguments.as_object().unwrap_or(&empty))
}
