//! What the client sends: which server it is for, and what we answer ourselves.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::{
    Proxy, Settled, Where,
    slot::{Pending, Purpose, progress_token},
};
use crate::{
    generation::{self, Client, Generation},
    link::About,
    message::{self, Fault, Kind, Message},
    names::ServerIndex,
    reply::{self, Code},
};

/// So many requests wait for the servers to start; more are refused.
const MOST_DEFERRED: usize = 1000;

impl Proxy {
    /// A line or a body of the client.
    pub(super) fn on_client(&mut self, bytes: Bytes) {
        for parsed in message::parse_all(bytes) {
            match parsed {
                Ok(message) => self.on_client_message(message),
                Err(fault) => {
                    self.journal().note(&format!("the client sent something that is no message: {fault}"));
                    let code = match fault {
                        Fault::NotText | Fault::NotJson(_) => Code::Parse,
                        Fault::NotMessage(_) | Fault::Twice(_) => Code::InvalidRequest,
                    };
                    self.tell(vec![reply::error(b"null", code, &fault.to_string())], About::Nothing);
                }
            }
        }
    }

    fn on_client_message(&mut self, message: Message) {
        match message.kind() {
            Kind::Request => self.on_request(message),
            Kind::Notification => self.on_notification(&message),
            Kind::Response(_) => self.on_client_answer(&message),
        }
    }

    fn on_request(&mut self, message: Message) {
        let Some(id) = message.id() else { return };
        const LONGEST_ID: usize = 1024;
        if id.len() > LONGEST_ID {
            let text = reply::error(b"null", Code::InvalidRequest, "the id is too long");
            return self.tell(vec![text], About::Nothing);
        }
        if self.requests.contains_key(&id) {
            // The one that is open keeps its id.
            let text = reply::error(&id, Code::InvalidRequest, "a request with this id is still open");
            return self.tell(vec![text], About::Response(id));
        }
        match message.method() {
            "ping" => {
                self.answer(&id, &json!({}));
                return;
            }
            "initialize" => {
                if self.client.is_some() {
                    self.refuse(&id, Code::InvalidRequest, "this session has been initialized");
                    return;
                }
                self.introduce(Client::introduced(message.params()));
            }
            _ if self.client.is_none() => {
                self.introduce(Client::stateless(message.params()).unwrap_or_else(Client::unknown));
            }
            _ => {}
        }
        if self.settled == Settled::No {
            if self.deferred.len() >= MOST_DEFERRED {
                self.refuse(&id, Code::Internal, "the servers are still starting; try again later");
                return;
            }
            self.requests.insert(id, Where::Deferred);
            self.deferred.push_back(message);
            return;
        }
        self.dispatch(&message, &id);
    }

    /// Everything that waited for the servers.
    pub(super) fn dispatch_deferred(&mut self) {
        while let Some(message) = self.deferred.pop_front() {
            let Some(id) = message.id() else { continue };
            // It may have been cancelled.
            if self.requests.remove(&id).is_some() {
                self.dispatch(&message, &id);
            }
        }
    }

    /// Answers the greeting before all servers are there.
    pub(super) fn greet(&mut self) {
        let greetings: Vec<Message> = self
            .deferred
            .iter()
            .filter(|message| matches!(message.method(), "initialize" | "server/discover"))
            .cloned()
            .collect();
        for greeting in greetings {
            let Some(id) = greeting.id() else { continue };
            self.deferred.retain(|message| message.id().as_ref() != Some(&id));
            if self.requests.remove(&id).is_some() {
                self.dispatch(&greeting, &id);
            }
        }
    }

    fn dispatch(&mut self, message: &Message, id: &Bytes) {
        if let Some(client) = Client::stateless(message.params())
            && client.version != generation::WITHOUT_HANDSHAKE
            && !generation::WITH_HANDSHAKE.contains(&client.version.as_str())
        {
            let data = json!({
                "requested": client.version,
                "supported": generation::WITH_HANDSHAKE.iter().chain([&generation::WITHOUT_HANDSHAKE]).collect::<Vec<_>>(),
            });
            let error =
                reply::error_with(id, Code::UnsupportedVersion, "Unsupported protocol version", &data);
            self.tell(vec![error], About::Response(id.clone()));
            return;
        }
        match message.method() {
            "initialize" => {
                let client = self.client.clone().unwrap_or_else(Client::unknown);
                let result =
                    generation::initialize_result(&client, &self.capabilities(), &self.instructions());
                self.answer(id, &result);
            }
            "server/discover" => {
                let result = generation::discover_result(&self.capabilities(), &self.instructions());
                self.answer(id, &result);
            }
            "tools/list" => self.answer_tools(id),
            "tools/call" => self.call(message, id),
            "resources/list" => self.gather(id, "resources/list", "resources"),
            "resources/templates/list" => self.gather(id, "resources/templates/list", "resourceTemplates"),
            "prompts/list" => self.gather(id, "prompts/list", "prompts"),
            "logging/setLevel" => self.gather_level(message, id),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                self.resource_request(message, id);
            }
            "prompts/get" => self.prompt_request(message, id),
            "completion/complete" => self.completion_request(message, id),
            _ => self.other_request(message, id),
        }
    }

    fn completion_request(&mut self, message: &Message, id: &Bytes) {
        if let Err(fault) = message::require_plain(message.params(), &["ref", "argument", "context", "_meta"])
        {
            self.refuse(id, Code::InvalidParams, &fault.to_string());
            return;
        }
        let reference = message::member(message.params(), "ref").unwrap_or("{}");
        if let Some(uri) = message::string(reference, "uri") {
            match self.owner_of_resource(&uri) {
                Some(server) => self.judge_completion(message, id, server, &uri, Vec::new()),
                None => self.refuse(id, Code::InvalidParams, &format!("no server has the resource {uri}")),
            }
            return;
        }
        let name = message::string(reference, "name").unwrap_or_default();
        match self.prompts.meaning(&name).map(|(server, own)| (server, own.to_owned())) {
            Some((server, own)) => {
                let edits = message::member(reference, "name")
                    .map(|raw| (message.place(raw), Bytes::from(json!(own).to_string())));
                self.judge_completion(message, id, server, &own, edits.into_iter().collect());
            }
            None => match self.only_server("completions") {
                Some(server) => self.judge_completion(message, id, server, &name, Vec::new()),
                None => self.refuse(id, Code::InvalidParams, &format!("no server has the prompt {name}")),
            },
        }
    }

    /// A method that we do not know: for the server that its task belongs to, or for the only one there is.
    fn other_request(&mut self, message: &Message, id: &Bytes) {
        let task = message::string(message.params(), "taskId");
        let owner = task.and_then(|task| self.tasks.get(&task).copied());
        match owner.or_else(|| self.only_server("")) {
            Some(server) => self.pass_unjudged(message, id, server),
            None => {
                let text = format!("Method not found: {}", message.method());
                self.refuse(id, Code::MethodNotFound, &text);
            }
        }
    }

    /// The only server that is ready and can do this, if there is only one.
    pub(super) fn only_server(&self, capability: &str) -> Option<ServerIndex> {
        let mut able = self
            .servers
            .iter()
            .filter(|slot| if capability.is_empty() { slot.is_ready() } else { slot.can(capability) });
        match (able.next(), able.next()) {
            (Some(slot), None) => Some(slot.index),
            _ => None,
        }
    }

    /// To a server, with an id of ours.
    pub(super) fn pass_on(
        &mut self,
        message: &Message,
        id: &Bytes,
        server: ServerIndex,
        edits: Vec<(std::ops::Range<usize>, Bytes)>,
    ) {
        let purpose = Purpose::Client { id: id.clone(), method: message.method().to_owned() };
        if self.send_request(message, server, edits, purpose).is_none() {
            self.refuse(id, Code::Internal, "the server is not running");
        }
    }

    /// Sends a request of the client to a server and remembers what for.
    pub(super) fn send_request(
        &mut self,
        message: &Message,
        server: ServerIndex,
        mut edits: Vec<(std::ops::Range<usize>, Bytes)>,
        purpose: Purpose,
    ) -> Option<()> {
        let client_generation =
            self.client.as_ref().map_or(Generation::Handshake, |client| client.generation);
        let meta = self.client.as_ref().map(Client::meta).unwrap_or_default();
        let slot = self.servers.get_mut(server.0).filter(|slot| slot.is_ready())?;
        let client_id = match &purpose {
            Purpose::Call(call) => call.client_id.clone(),
            Purpose::Client { id, .. } => id.clone(),
            _ => return None,
        };
        let own = slot.new_id();
        let place = message.id_place()?;
        if client_generation == slot.generation {
            edits.push((place, Bytes::from(own.to_string())));
            slot.send(message.edited(edits));
        } else {
            // The two generations keep different things in `_meta`.
            edits.push((place, Bytes::from(own.to_string())));
            let bytes: Bytes = message.edited(edits).concat().into();
            let translated = Message::parse(bytes).ok()?;
            slot.send(vec![super::bridge::request(&translated, slot.generation, &meta)]);
        }
        let progress = progress_token(message);
        slot.pending.insert(own, Pending { purpose, since: Instant::now(), progress });
        self.requests.insert(client_id, Where::Server(server, own));
        Some(())
    }

    fn on_notification(&mut self, message: &Message) {
        match message.method() {
            "notifications/initialized" => {}
            "notifications/cancelled" => self.on_cancelled(message),
            "notifications/progress" => {
                let token = message::member(message.params(), "progressToken").unwrap_or_default();
                let key: Option<u64> = serde_json::from_str::<String>(token)
                    .ok()
                    .and_then(|token| token.strip_prefix("lazaret-")?.parse().ok());
                if let Some((server, original)) = key.and_then(|key| self.tokens.get(&key).cloned()) {
                    let edits = vec![(message.place(token), Bytes::from(original))];
                    if let Some(slot) = self.servers.get(server.0) {
                        slot.send(message.edited(edits));
                    }
                }
            }
            method if method.starts_with("notifications/") => {
                for slot in self.servers.iter().filter(|slot| slot.is_ready()) {
                    slot.send(vec![message.bytes().clone()]);
                }
            }
            // A request without an id: nobody would judge it, and a careless server would carry it out.
            method => {
                let id = self.session.id().to_owned();
                let details = [
                    (
                        "description",
                        json!("the client sent a request without an id, which nobody could judge: dropped"),
                    ),
                    ("method", json!(crate::shorten::text(method))),
                ];
                self.ledger_note(lazaret_audit::EventKind::SecurityAlert, &id, &details);
            }
        }
    }

    fn on_cancelled(&mut self, message: &Message) {
        let Some(raw) = message::member(message.params(), "requestId") else { return };
        let id = Bytes::copy_from_slice(raw.as_bytes());
        match self.requests.get(&id).cloned() {
            Some(Where::Server(server, own)) => {
                let edits = vec![(message.place(raw), Bytes::from(own.to_string()))];
                if let Some(slot) = self.servers.get(server.0) {
                    slot.send(message.edited(edits));
                }
                // An answer that still comes is dropped.
                self.requests.remove(&id);
                self.cancel_at_server(server, own);
            }
            Some(Where::Question(key)) => self.withdraw(key, "the client cancelled the call"),
            Some(Where::Deferred) => {
                self.requests.remove(&id);
                self.deferred.retain(|message| message.id().as_ref() != Some(&id));
            }
            Some(Where::Gather(_)) => {
                self.requests.remove(&id);
            }
            None => {}
        }
    }

    /// The client's answer to a question of a server.
    fn on_client_answer(&mut self, message: &Message) {
        let Some(id) = message.id() else { return };
        let own: Option<u64> = std::str::from_utf8(&id).ok().and_then(|id| id.parse().ok());
        let Some((server, original)) = own.and_then(|own| self.asked.remove(&own)) else {
            self.journal().note("the client answered a question that nobody asked");
            return;
        };
        if let Some(slot) = self.servers.get(server.0) {
            slot.send(message.with_id(original));
        }
    }
}
