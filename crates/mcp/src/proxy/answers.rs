//! What servers send: answers to what they were asked, questions to the client, notifications.

use std::time::Instant;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Proxy, bridge,
    slot::{Admitted, Pending, Purpose, Stale, State},
};
use crate::{
    generation::Generation,
    line::Incoming,
    link::About,
    message::{self, Kind, Message, Outcome},
    names::ServerIndex,
    reply::{self, Code},
};

/// So many lines that are no messages are told of one server.
const TOLD_GARBAGE: u64 = 50;
const LONGEST_ID: usize = 1024;
/// So much may wait to be read by a server.
const MOST_UNREAD: usize = 64 << 20;
/// So many questions of one server wait for the client at a time.
const MOST_ASKED: usize = 200;

impl Proxy {
    pub(super) fn on_server(&mut self, server: ServerIndex, incoming: Incoming) {
        let line = match incoming {
            Incoming::Line(line) => line,
            Incoming::TooLong { id, length } => return self.on_too_long(server, id, length),
            Incoming::Endless { length } => {
                let why = format!("it wrote a line of more than {length} bytes, without end");
                return self.fail_server(server, &why);
            }
        };
        for parsed in message::parse_all(line.clone()) {
            match parsed {
                Ok(message) => match message.kind() {
                    Kind::Response(outcome) => self.on_answer(server, &message, outcome),
                    Kind::Request => self.on_question(server, &message),
                    Kind::Notification => self.on_told(server, &message),
                },
                Err(fault) => self.on_garbage(server, &line, &fault.to_string()),
            }
        }
    }

    fn on_garbage(&mut self, server: ServerIndex, line: &[u8], why: &str) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        // An answer that cannot be read is still one: whoever waits for it is told.
        if let Some(pending) = crate::line::id_of(line).and_then(|id| slot.answered(&id)) {
            let text = format!("the server {} answered with something that is no message: {why}", slot.name);
            self.journal().note(&text);
            return self.fail_pending(server, pending, &text);
        }
        slot.garbage += 1;
        if slot.garbage <= TOLD_GARBAGE {
            let text: String =
                String::from_utf8_lossy(line.get(..line.len().min(400)).unwrap_or(line)).into_owned();
            let note = format!("(on standard output, and no message: {why}) {text}");
            let name = slot.name.clone();
            self.journal().line(&name, &note);
        }
    }

    fn on_too_long(&mut self, server: ServerIndex, id: Option<Bytes>, length: u64) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let (name, limit) = (slot.name.clone(), slot.limits.max_message_bytes);
        let text = format!(
            "the server {name} sent a message of {length} bytes; at most {limit} are taken (limits.maxMessageBytes)"
        );
        let pending = id.and_then(|id| slot.answered(&id));
        self.journal().note(&text);
        if let Some(pending) = pending {
            self.fail_pending(server, pending, &text);
        }
    }

    fn on_answer(&mut self, server: ServerIndex, answer: &Message, outcome: Outcome) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let pending = answer.id().and_then(|id| slot.answered(&id));
        let Some(Pending { purpose, .. }) = pending else {
            slot.garbage += 1;
            if slot.garbage <= TOLD_GARBAGE {
                let name = slot.name.clone();
                self.journal().line(&name, "(an answer to nothing that it was asked: dropped)");
            }
            return;
        };
        match purpose {
            Purpose::Initialize | Purpose::Discover | Purpose::Tools(_) => {
                self.on_handshake_answer(server, purpose, answer, outcome);
            }
            Purpose::Call(call) => self.on_call_answer(*call, answer),
            Purpose::Gather(key) => self.on_gathered(key, server, answer, outcome),
            Purpose::Client { id, method } => self.relay(server, answer, &id, &method, Vec::new()),
        }
    }

    /// An answer of a server as the client's own.
    pub(super) fn relay(
        &mut self,
        server: ServerIndex,
        answer: &Message,
        id: &Bytes,
        method: &str,
        mut edits: Vec<(std::ops::Range<usize>, Bytes)>,
    ) {
        if self.requests.remove(id).is_none() {
            // It was cancelled.
            return;
        }
        if let Some(place) = answer.id_place() {
            edits.push((place, id.clone()));
        }
        let from = self.servers.get(server.0).map_or(Generation::Handshake, |slot| slot.generation);
        let to = self.client.as_ref().map_or(Generation::Handshake, |client| client.generation);
        if answer.kind() == Kind::Response(Outcome::Result) {
            if (from, to) == (Generation::Handshake, Generation::Stateless)
                && answer.outcome().starts_with('{')
            {
                let start = answer.place(answer.outcome()).start + 1;
                edits.push((start..start, Bytes::from(bridge::completion(answer.outcome(), method))));
            }
            self.remember_task(server, answer);
        }
        self.tell(answer.edited(edits), About::Response(id.clone()));
    }

    /// Later requests name a task, not a server.
    fn remember_task(&mut self, server: ServerIndex, answer: &Message) {
        const MOST: usize = 10_000;
        // A cheap look before a dear one.
        if memchr::memmem::find(answer.bytes(), b"\"taskId\"").is_none() {
            return;
        }
        let task = message::member(answer.outcome(), "task").unwrap_or(answer.outcome());
        if let Some(task) = message::string(task, "taskId")
            && self.tasks.len() < MOST
        {
            self.tasks.entry(task).or_insert(server);
        }
    }

    fn on_question(&mut self, server: ServerIndex, question: &Message) {
        let Some(id) = question.id() else { return };
        let stateless = self.client.as_ref().is_some_and(|client| client.generation == Generation::Stateless);
        let open = self.asked.values().filter(|(asker, _)| *asker == server).count();
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        // An id is a number or a few letters; more is a way to fill memory.
        let long_token = message::member(question.params(), "_meta")
            .and_then(|meta| message::member(meta, "progressToken"))
            .is_some_and(|token| token.len() > LONGEST_ID);
        let stuck = slot.outbox.as_ref().is_some_and(|outbox| outbox.waiting() > MOST_UNREAD);
        if id.len() > LONGEST_ID || long_token || stuck {
            return self
                .fail_server(server, "it sends questions without reading the answers, or with endless ids");
        }
        if question.method() == "ping" {
            slot.send(vec![reply::result(&id, &json!({}))]);
            return;
        }
        if slot.state != State::Ready || stateless || open >= MOST_ASKED {
            let why = if stateless { "this client cannot be asked in this way" } else { "not now" };
            slot.send(vec![reply::error(&id, Code::MethodNotFound, why)]);
            return;
        }
        let about = slot.only_client_request().map_or(About::Nothing, About::Request);
        let own = self.new_key();
        let mut edits = Vec::new();
        if let Some(place) = question.id_place() {
            edits.push((place, Bytes::from(own.to_string())));
        }
        // Two servers may use the same token.
        if let Some(token) = message::member(question.params(), "_meta")
            .and_then(|meta| message::member(meta, "progressToken"))
        {
            edits.push((question.place(token), Bytes::from(format!("\"lazaret-{own}\""))));
            self.tokens.insert(own, (server, token.to_owned()));
        }
        self.asked.insert(own, (server, id));
        self.tell(question.edited(edits), about);
        // Tokens of questions that were answered or taken back mean nothing any more.
        if self.tokens.len() > 2 * MOST_ASKED {
            let asked = &self.asked;
            self.tokens.retain(|key, _| asked.contains_key(key));
        }
    }

    fn on_told(&mut self, server: ServerIndex, told: &Message) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        match slot.admits_notification(Instant::now()) {
            Admitted::Yes => {}
            Admitted::FirstDropped => {
                let text = format!("the server {} floods: notifications are dropped", slot.name);
                self.journal().note(&text);
                return;
            }
            Admitted::Dropped => return,
        }
        match told.method() {
            "notifications/tools/list_changed" => {
                // Asked for when it is looked around next, however often it is said.
                slot.stale = Stale::Yes;
            }
            "notifications/cancelled" => {
                let Some(raw) = message::member(told.params(), "requestId") else { return };
                let key = self.asked.iter().find(|(_, (asker, id))| *asker == server && id == raw.as_bytes());
                if let Some(key) = key.map(|(key, _)| *key) {
                    self.asked.remove(&key);
                    let edits = vec![(told.place(raw), Bytes::from(key.to_string()))];
                    self.tell(told.edited(edits), About::Nothing);
                }
            }
            "notifications/progress" => {
                let token = message::member(told.params(), "progressToken").unwrap_or_default();
                let about = match slot.expects_progress(token).map(|pending| &pending.purpose) {
                    Some(Purpose::Call(call)) => About::Request(call.client_id.clone()),
                    Some(Purpose::Client { id, .. }) => About::Request(id.clone()),
                    // Nobody waits for it, or it belongs to another server's request.
                    _ => return,
                };
                self.tell(vec![told.bytes().clone()], about);
            }
            _ => {
                if slot.is_ready() {
                    let about = slot.only_client_request().map_or(About::Nothing, About::Request);
                    self.tell(vec![told.bytes().clone()], about);
                }
            }
        }
    }

    /// The server is gone, or will not answer this.
    pub(super) fn fail_pending(&mut self, server: ServerIndex, pending: Pending, why: &str) {
        match pending.purpose {
            Purpose::Initialize | Purpose::Discover | Purpose::Tools(_) => self.fail_server(server, why),
            Purpose::Call(call) => self.call_failed(*call, why),
            Purpose::Gather(key) => self.gathered_nothing(key, server),
            Purpose::Client { id, .. } => {
                if self.requests.contains_key(&id) {
                    self.refuse(&id, Code::Internal, why);
                }
            }
        }
    }

    /// The union of what the servers can do.
    pub(super) fn capabilities(&self) -> Value {
        let all: Vec<Value> = self
            .servers
            .iter()
            .filter(|slot| slot.is_ready())
            .map(|slot| slot.capabilities.clone())
            .collect();
        let mut united = crate::generation::united(&all);
        if let Some(object) = united.as_object_mut() {
            // Of who is not there yet everything can be expected.
            if self.servers.iter().any(|slot| !slot.state.is_settled()) {
                object.entry("resources").or_insert_with(|| json!({ "listChanged": true }));
                object.entry("prompts").or_insert_with(|| json!({ "listChanged": true }));
            }
            object.entry("tools").or_insert_with(|| json!({ "listChanged": true }));
        }
        united
    }

    pub(super) fn instructions(&self) -> String {
        let ready: Vec<_> =
            self.servers.iter().filter(|slot| slot.is_ready() && !slot.instructions.is_empty()).collect();
        match ready.as_slice() {
            [only] if self.servers.len() == 1 => only.instructions.clone(),
            several => several
                .iter()
                .map(|slot| format!("{}: {}", slot.name, slot.instructions))
                .collect::<Vec<_>>()
                .join("\n\n"),
        }
    }
}
