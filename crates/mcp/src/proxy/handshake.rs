//! How servers are started and introduced, and what they have: from the first word of the client until every
//! server is ready or has failed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Proxy, Settled,
    process::Process,
    slot::{Listed, Purpose, State},
};
use crate::{
    blocked::Evidence,
    generation::{self, Client, Generation},
    line::Lines,
    link::About,
    message::{self, Message, Outcome},
    names::ServerIndex,
    outbox::Outbox,
    pins::{self, Known, Pins},
    reply,
    screen::Screened,
};

/// So many tools of one server are taken.
const MOST_TOOLS: usize = 2000;

impl Proxy {
    /// The client has said who it is: the servers hear it.
    pub(super) fn introduce(&mut self, client: Client) {
        self.client = Some(client);
        self.introduced = Some(Instant::now());
        for index in 0..self.servers.len() {
            self.introduce_to(ServerIndex(index));
        }
        self.settle();
    }

    fn introduce_to(&mut self, server: ServerIndex) {
        let Some(client) = &self.client else { return };
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        if slot.state != State::Running {
            return;
        }
        slot.state = State::Introducing;
        match client.generation {
            Generation::Handshake => slot.ask("initialize", &client.handshake(), Purpose::Initialize),
            Generation::Stateless => {
                let params = json!({ "_meta": client.meta() }).to_string();
                slot.ask("server/discover", &params, Purpose::Discover);
            }
        }
    }

    /// A process runs.
    pub(super) fn on_started(&mut self, server: ServerIndex, started: Result<Box<Process>, String>) {
        let mut process = match started {
            Ok(process) => process,
            Err(why) => return self.fail_server(server, &why),
        };
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        if slot.state != State::Starting {
            // It was given up; it ends when it is dropped.
            return;
        }
        let Some((stdin, stdout, stderr)) = process.take_streams() else {
            return self.fail_server(server, "its streams cannot be used");
        };
        let (outbox, writing) = Outbox::new(stdin);
        slot.outbox = Some(outbox);
        tokio::spawn(writing);
        let lines = Lines::new(stdout, usize::try_from(slot.limits.max_message_bytes).unwrap_or(usize::MAX));
        tokio::spawn(super::read_messages(server, lines, self.events.clone(), Arc::clone(&self.budget)));
        tokio::spawn(super::read_errors(slot.name.clone(), stderr, self.session.journal()));
        tokio::spawn(super::await_end(server, process.ended(), self.events.clone()));
        slot.state = State::Running;
        let facts = process.facts().clone();
        slot.process = Some(process);
        let (name, id) = (slot.name.clone(), facts.sandbox_id.clone());
        self.ledger_note(
            lazaret_audit::EventKind::McpServerStarted,
            &id,
            &[
                ("serverName", json!(name)),
                ("sandboxed", json!(facts.evidence != Evidence::None)),
                ("network", json!(facts.network)),
                ("reason", json!(facts.reason)),
            ],
        );
        self.introduce_to(server);
        self.write_status();
    }

    pub(super) fn on_handshake_answer(
        &mut self,
        server: ServerIndex,
        purpose: Purpose,
        answer: &Message,
        outcome: Outcome,
    ) {
        match (purpose, outcome) {
            (Purpose::Initialize, Outcome::Result) => {
                self.on_introduced(server, answer, Generation::Handshake);
            }
            (Purpose::Discover, Outcome::Result) => self.on_introduced(server, answer, Generation::Stateless),
            (Purpose::Initialize, Outcome::Error) => self.try_other(server, Generation::Handshake, answer),
            (Purpose::Discover, Outcome::Error) => self.try_other(server, Generation::Stateless, answer),
            (Purpose::Tools(before), Outcome::Result) => self.on_tools(server, before, answer),
            (Purpose::Tools(_), Outcome::Error) => {
                // It has none, whatever it said.
                self.on_all_tools(server, Vec::new());
            }
            _ => {}
        }
    }

    /// One generation was refused; the other may do.
    fn try_other(&mut self, server: ServerIndex, refused: Generation, answer: &Message) {
        const MOST_ATTEMPTS: u32 = 4;
        let Some(client) = self.client.clone() else { return };
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let open = |purpose: &Purpose| matches!(purpose, Purpose::Initialize | Purpose::Discover);
        // While the other question is still open, its answer decides.
        if slot.state != State::Introducing || slot.pending.values().any(|pending| open(&pending.purpose)) {
            return;
        }
        let code = message::member(answer.outcome(), "code").unwrap_or_default();
        // It says itself that it speaks without handshakes.
        let stateless_only = refused == Generation::Handshake && code == "-32022";
        slot.attempts += 1;
        if (refused == client.generation || stateless_only) && slot.attempts < MOST_ATTEMPTS {
            match refused {
                Generation::Handshake => {
                    let params = json!({ "_meta": client.meta() }).to_string();
                    slot.ask("server/discover", &params, Purpose::Discover);
                }
                Generation::Stateless => slot.ask("initialize", &client.handshake(), Purpose::Initialize),
            }
            return;
        }
        let why = message::string(answer.outcome(), "message").unwrap_or_else(|| answer.outcome().to_owned());
        self.fail_server(server, &format!("it refused the handshake: {why}"));
    }

    /// It has not answered `server/discover` yet: an old server may ignore what it does not know. An answer that
    /// comes late still counts.
    pub(super) fn discover_is_late(&mut self, server: ServerIndex) {
        let Some(client) = self.client.clone() else { return };
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        slot.ask("initialize", &client.handshake(), Purpose::Initialize);
    }

    fn on_introduced(&mut self, server: ServerIndex, answer: &Message, spoken: Generation) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        if slot.state != State::Introducing {
            return;
        }
        slot.generation = spoken;
        let part =
            |name| message::member(answer.outcome(), name).and_then(|raw| serde_json::from_str(raw).ok());
        slot.capabilities = part("capabilities").unwrap_or_else(|| json!({}));
        slot.instructions =
            part("instructions").and_then(|text: Value| text.as_str().map(str::to_owned)).unwrap_or_default();
        let version = message::string(answer.outcome(), "protocolVersion").unwrap_or_default();
        if spoken == Generation::Handshake {
            slot.send(vec![reply::notification("notifications/initialized", &Value::Null)]);
            if version == generation::WITHOUT_HANDSHAKE {
                slot.generation = Generation::Stateless;
            }
        }
        if slot.capabilities.get("tools").is_none() {
            self.on_all_tools(server, Vec::new());
            return;
        }
        self.ask_tools(server, None, Vec::new());
    }

    pub(super) fn ask_tools(&mut self, server: ServerIndex, cursor: Option<&str>, before: Vec<String>) {
        let meta = self.client.as_ref().map(Client::meta).unwrap_or_default();
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let mut fields = Vec::new();
        if let Some(cursor) = cursor {
            fields.push(format!("\"cursor\":{cursor}"));
        }
        if slot.generation == Generation::Stateless {
            fields.push(format!("\"_meta\":{}", Value::Object(meta)));
        }
        slot.ask("tools/list", &format!("{{{}}}", fields.join(",")), Purpose::Tools(before));
    }

    fn on_tools(&mut self, server: ServerIndex, mut tools: Vec<String>, answer: &Message) {
        let page = message::member(answer.outcome(), "tools").map(message::elements).unwrap_or_default();
        let fresh = !page.is_empty();
        let beside = super::lists::beside(answer.outcome(), "tools");
        if let Some(slot) = self.servers.get_mut(server.0) {
            slot.beside = beside;
        }
        tools.extend(page.into_iter().map(str::to_owned));
        let next = message::member(answer.outcome(), "nextCursor").filter(|cursor| *cursor != "null");
        match next {
            Some(cursor) if fresh && tools.len() < MOST_TOOLS => {
                let cursor = cursor.to_owned();
                self.ask_tools(server, Some(&cursor), tools);
            }
            _ => self.on_all_tools(server, tools),
        }
    }

    /// The whole list of a server, at its start or after a change.
    fn on_all_tools(&mut self, server: ServerIndex, raw: Vec<String>) {
        let screen = self.house.screen.clone();
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let first = slot.state != State::Ready;
        let mut notes = Vec::new();
        let (mut listed, mut values) = (Vec::new(), Vec::new());
        slot.catalog.clear();
        if raw.len() > MOST_TOOLS {
            notes.push(format!(
                "of the {} tools of {} the first {MOST_TOOLS} are taken",
                raw.len(),
                slot.name
            ));
        }
        for raw in raw.into_iter().take(MOST_TOOLS) {
            // A description that can be read in two ways is none.
            let value = match message::require_unambiguous(&raw) {
                Ok(()) => serde_json::from_str::<Value>(&raw).unwrap_or_default(),
                Err(fault) => {
                    notes.push(format!("a tool of {} is left out: {fault}", slot.name));
                    continue;
                }
            };
            if let Err(fault) = message::members(&raw) {
                notes.push(format!("a tool of {} is left out: {fault}", slot.name));
                continue;
            }
            let Some(tool) = pins::described(&slot.name, &value).filter(|tool| !tool.name.is_empty()) else {
                notes.push(format!("a tool of {} has no name and is left out", slot.name));
                continue;
            };
            if slot.catalog.contains_key(&tool.name) {
                notes.push(format!("{} has two tools {:?}; the second is left out", slot.name, tool.name));
                continue;
            }
            if let Screened::Withhold(why) = screen.description(&slot.name, &tool.name, &tool.description) {
                notes.push(format!("the tool {:?} of {} is left out: {why}", tool.name, slot.name));
                continue;
            }
            listed.push(Listed { name: tool.name.clone(), raw });
            slot.catalog.insert(tool.name.clone(), tool);
            values.push(value);
        }
        slot.listed = listed;
        slot.state = State::Ready;
        let name = slot.name.clone();
        for note in notes {
            self.journal().note(&note);
        }
        self.compare_with_pins(server, &name, &values);
        if self.settled == Settled::Yes {
            self.name_tools();
        }
        self.catalog_changed();
        if !first || self.settled == Settled::Yes {
            self.tell_tools_changed();
        }
        self.write_status();
        self.settle();
    }

    fn compare_with_pins(&mut self, server: ServerIndex, name: &str, tools: &[Value]) {
        let config = self.house.config_path.clone();
        let kind = self.client.as_ref().map(Client::kind).unwrap_or_default();
        match self.house.cabinet.load(&config, name) {
            Ok(Some(mut known)) => {
                let change = known.compare(&kind, tools);
                if known.knows(&kind) == Known::No && change.is_empty() {
                    known.add(&kind, tools);
                    if let Err(error) = self.house.cabinet.store(&known) {
                        self.journal().note(&error.to_string());
                    }
                }
                if !change.is_empty() && self.servers.get(server.0).is_some_and(|slot| slot.change != change)
                {
                    let id = self.sandbox_id(server);
                    self.ledger_note(
                        lazaret_audit::EventKind::ToolListChanged,
                        &id,
                        &[
                            ("serverName", json!(name)),
                            ("change", json!(change)),
                            ("pinnedAt", json!(known.pinned_at)),
                        ],
                    );
                    self.journal().note(&format!(
                        "the tools of {name} differ from those pinned at {}: {}. `lazaret mcp trust {name}` accepts them",
                        known.pinned_at,
                        json!(change)
                    ));
                }
                let differs = self.servers.get(server.0).is_some_and(|slot| slot.change != change);
                if differs {
                    // What was approved was not this.
                    self.approvals = lazaret_gate::escalation::Approvals::default();
                }
                if let Some(slot) = self.servers.get_mut(server.0) {
                    slot.change = change;
                }
            }
            Ok(None) => {
                let pins = Pins::of(name, &config, crate::journal::now(), &kind, tools);
                if let Err(error) = self.house.cabinet.store(&pins) {
                    self.journal().note(&error.to_string());
                }
            }
            Err(error) => {
                // What cannot be compared counts as changed.
                self.journal().note(&error.to_string());
                let change = Pins::of(name, &config, String::new(), &kind, &[]).compare(&kind, tools);
                if let Some(slot) = self.servers.get_mut(server.0) {
                    slot.change = change;
                }
            }
        }
    }

    pub(super) fn tell_tools_changed(&mut self) {
        let told = reply::notification("notifications/tools/list_changed", &Value::Null);
        if self.client.as_ref().is_some_and(|client| client.generation == Generation::Handshake)
            && self.settled == Settled::Yes
        {
            self.tell(vec![told], About::Nothing);
        }
    }

    /// It cannot be used, and everybody who waits for it hears why.
    pub(super) fn fail_server(&mut self, server: ServerIndex, why: &str) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        if matches!(slot.state, State::Failed(_)) {
            return;
        }
        let was_ready = slot.is_ready();
        let why = self.session.journal().masked(why);
        slot.state = State::Failed(why.clone());
        slot.outbox = None;
        let name = slot.name.clone();
        let pending: Vec<_> = slot.pending.drain().collect();
        if let Some(process) = &slot.process {
            process.stop();
        }
        let id = self.sandbox_id(server);
        self.journal().note(&format!("the server {name} does not run: {why}"));
        self.ledger_note(
            lazaret_audit::EventKind::McpServerFailed,
            &id,
            &[("serverName", json!(name)), ("error", json!(why))],
        );
        let text = format!("the server {name} does not run: {why}");
        for (_, pending) in pending {
            if !matches!(pending.purpose, Purpose::Initialize | Purpose::Discover | Purpose::Tools(_)) {
                self.fail_pending(server, pending, &text);
            }
        }
        self.asked.retain(|_, (asker, _)| *asker != server);
        if was_ready {
            self.catalog_changed();
            self.tell_tools_changed();
        }
        self.write_status();
        self.settle();
    }

    /// Once nobody is waited for, the client is served.
    pub(super) fn settle(&mut self) {
        if self.settled == Settled::Yes || self.client.is_none() {
            return;
        }
        if self.servers.iter().all(|slot| slot.state.is_settled()) {
            self.open_up();
        }
    }

    /// Names are given when all are there, so that it does not matter who came first.
    fn open_up(&mut self) {
        self.settled = Settled::Yes;
        self.name_tools();
        self.dispatch_deferred();
    }

    /// One server that does not get ready must not keep the client from the others: it is greeted after a while,
    /// and served after another. What gets ready later is told as a change.
    pub(super) fn hurry(&mut self, now: Instant) {
        const GREETING: Duration = Duration::from_secs(5);
        const SERVING: Duration = Duration::from_secs(10);
        let Some(since) = self.introduced.filter(|_| self.settled == Settled::No) else { return };
        let waited = now.duration_since(since);
        if waited > SERVING {
            let late: Vec<String> = self
                .servers
                .iter()
                .filter(|slot| !slot.state.is_settled())
                .map(|slot| slot.name.clone())
                .collect();
            self.journal()
                .note(&format!("the client is served without waiting any longer for {}", late.join(", ")));
            self.open_up();
        } else if waited > GREETING {
            self.greet();
        }
    }
}
