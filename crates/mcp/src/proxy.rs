//! The proxy of one client: one loop over what the client sends, what servers send, and the clock. Everything is
//! decided here, one thing after the other; reading and writing is done by small tasks around it.

mod answers;
mod bridge;
mod call;
mod client;
mod handshake;
mod lists;
pub mod process;
mod questions;
mod reads;
mod slot;
mod status;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lazaret_audit::{EventKind, NewEvent};
use lazaret_gate::{
    escalation::{Approvals, Desk},
    judge::Refresh,
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncRead,
    net::unix::pipe::Receiver,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::{
    decide::Gatekeeper,
    generation::Client,
    house::House,
    journal::Journal,
    line::{Incoming, Lines},
    link::{About, Front, Outgoing},
    names::{Names, ServerIndex},
    reply::{self, Code},
    session::Session,
};
use lists::Gather;
use process::{Ended, Process};
use questions::Question;
use slot::{Purpose, Slot, Stale, State};

/// One client, its servers and its session.
#[derive(Debug)]
pub struct Proxy {
    house: Arc<House>,
    session: Session,
    client: Option<Client>,
    introduced: Option<Instant>,
    settled: Settled,
    servers: Vec<Slot>,
    names: Names,
    prompts: Names,
    resources: HashMap<String, ServerIndex>,
    /// The fixed beginnings of templates.
    templates: BTreeSet<(String, ServerIndex)>,
    tasks: HashMap<String, ServerIndex>,
    /// What the client waits for.
    requests: HashMap<Bytes, Where>,
    deferred: VecDeque<crate::message::Message>,
    gathers: HashMap<u64, Gather>,
    /// Calls that wait for a person.
    questions: HashMap<u64, Question>,
    desk: Desk,
    approvals: Approvals,
    /// What servers asked the client.
    asked: HashMap<u64, (ServerIndex, Bytes)>,
    tokens: HashMap<u64, (ServerIndex, String)>,
    keys: u64,
    gatekeeper: Gatekeeper,
    /// The log cannot be written: nothing more is let through.
    latched: Option<String>,
    events: mpsc::Sender<Event>,
    budget: Arc<Semaphore>,
    to_client: ToClient,
}

/// Are all servers ready or failed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    No,
    Yes,
}

/// Where a request of the client is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Where {
    /// Waits for the servers to start.
    Deferred,
    Server(ServerIndex, u64),
    Gather(u64),
    Question(u64),
}

/// Has the client said all that it will say?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draining {
    No,
    Yes,
}

/// What happens around the loop.
#[derive(Debug)]
pub enum Event {
    Started(ServerIndex, Result<Box<Process>, String>),
    /// With its share of what may be under way.
    Said(ServerIndex, Incoming, Option<OwnedSemaphorePermit>),
    /// Its standard output ended.
    Silent(ServerIndex),
    Ended(ServerIndex, Ended),
}

/// What waits for the client to read it.
#[derive(Debug)]
struct ToClient {
    line: mpsc::Sender<Outgoing>,
    backlog: VecDeque<Outgoing>,
    size: usize,
}

/// More than this waits for the client: the servers are not listened to until it has read.
const MOST_BACKLOG: usize = 32 << 20;
/// When the client has closed its side: how long nothing may come from any server before it is over.
const PATIENCE: Duration = Duration::from_secs(3);
/// Kilobytes of messages of all servers that were read and not looked at.
const UNDER_WAY: usize = 64 << 10;
/// How long a server may live on without its standard output.
const SILENCE: Duration = Duration::from_millis(500);
/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);

/// Makes a proxy and the line to it. It ends when the front's end is dropped, or at the word `stop`; when the task
/// has ended, so has everything that it started.
pub fn connect(
    house: &Arc<House>,
    session: Session,
    stop: watch::Receiver<Stop>,
) -> Result<(Front, JoinHandle<()>), crate::house::OpenError> {
    let (to_proxy, from_client) = mpsc::channel(64);
    let (line, from_proxy) = mpsc::channel(64);
    let (events, incoming) = mpsc::channel(256);
    let proxy = Proxy::new(Arc::clone(house), session, events, line)?;
    let done = tokio::spawn(proxy.run(from_client, incoming, stop));
    Ok((Front { to_proxy, from_proxy }, done))
}

/// Is the whole program to end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    No,
    Yes,
}

impl Proxy {
    fn new(
        house: Arc<House>,
        session: Session,
        events: mpsc::Sender<Event>,
        line: mpsc::Sender<Outgoing>,
    ) -> Result<Proxy, crate::house::OpenError> {
        let servers: Vec<Slot> = house
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| Slot::new(ServerIndex(index), &server.name, server.limits))
            .collect();
        let desk =
            Desk::open(session.escalations())?.for_session(session.id()).waiting(house.escalation_timeout);
        let gatekeeper = Gatekeeper::new(&house, &session)?;
        Ok(Proxy {
            names: Names::new(house.naming),
            prompts: Names::new(house.naming),
            house,
            session,
            client: None,
            introduced: None,
            settled: Settled::No,
            servers,
            resources: HashMap::new(),
            templates: BTreeSet::new(),
            tasks: HashMap::new(),
            requests: HashMap::new(),
            deferred: VecDeque::new(),
            gathers: HashMap::new(),
            questions: HashMap::new(),
            desk,
            approvals: Approvals::default(),
            asked: HashMap::new(),
            tokens: HashMap::new(),
            keys: 0,
            gatekeeper,
            latched: None,
            events,
            budget: Arc::new(Semaphore::new(UNDER_WAY)),
            to_client: ToClient { line, backlog: VecDeque::new(), size: 0 },
        })
    }

    /// The whole life: start the servers, serve the client, end everything.
    async fn run(
        mut self,
        mut from_client: mpsc::Receiver<Bytes>,
        mut events: mpsc::Receiver<Event>,
        mut stop: watch::Receiver<Stop>,
    ) {
        self.begin();
        let mut draining = Draining::No;
        let mut heard = Instant::now();
        let mut looked = Instant::now();
        let line = self.to_client.line.clone();
        let wake = self.desk.wake_fd().and_then(|fd| {
            let fd = fd.try_clone_to_owned().ok()?;
            Receiver::from_owned_fd_unchecked(fd).ok()
        });
        loop {
            if draining == Draining::Yes && self.to_client.backlog.is_empty() {
                let idle = heard.elapsed() > PATIENCE && self.settled == Settled::Yes;
                if self.requests.is_empty() || idle {
                    break;
                }
            }
            let next_look = looked + self.pause();
            tokio::select! {
                message = from_client.recv(), if draining == Draining::No => match message {
                    Some(message) => self.on_client(message),
                    // What was asked is still answered, for as long as somebody reads.
                    None => {
                        draining = Draining::Yes;
                        heard = Instant::now();
                    }
                },
                event = events.recv(), if self.to_client.size < MOST_BACKLOG => match event {
                    Some(event) => {
                        self.on_event(event);
                        heard = Instant::now();
                    }
                    None => break,
                },
                permit = line.reserve(), if !self.to_client.backlog.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(outgoing) = self.to_client.backlog.pop_front() {
                            self.to_client.size -= size_of(&outgoing);
                            permit.send(outgoing);
                        }
                    }
                    // Nobody reads any more.
                    Err(_) => break,
                },
                () = awakened(wake.as_ref()), if !self.questions.is_empty() => {
                    self.look_at_answers();
                }
                () = tokio::time::sleep_until(next_look.into()) => {
                    looked = Instant::now();
                    self.look_around(looked);
                }
                changed = stop.changed() => {
                    if changed.is_err() || *stop.borrow() == Stop::Yes {
                        break;
                    }
                }
            }
        }
        drop((from_client, line));
        self.end(&mut events).await;
    }

    fn begin(&mut self) {
        let id = self.session.id().to_owned();
        self.ledger_note(
            EventKind::McpSessionStarted,
            &id,
            &[
                ("directory", json!(self.session.directory())),
                ("config", json!(self.house.config_path)),
                ("servers", json!(self.house.servers.iter().map(|server| &server.name).collect::<Vec<_>>())),
                ("sandboxPolicy", json!(self.house.requirement_word())),
                ("policies", json!(self.gatekeeper.source())),
            ],
        );
        for note in self.house.notes.clone() {
            self.journal().note(&note);
        }
        for note in self.gatekeeper.warnings() {
            self.journal().note(&note);
        }
        for index in 0..self.servers.len() {
            self.start_server(ServerIndex(index));
        }
        self.write_status();
    }

    fn start_server(&mut self, server: ServerIndex) {
        let (house, session) = (Arc::clone(&self.house), self.session.clone());
        let events = self.events.clone();
        tokio::task::spawn_blocking(move || {
            let started = house.start(server, &session).map(Box::new);
            let _ = events.blocking_send(Event::Started(server, started));
        });
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Started(server, started) => self.on_started(server, started),
            Event::Said(server, incoming, share) => {
                self.on_server(server, incoming);
                drop(share);
            }
            Event::Silent(server) => {
                // How it ended says more, and is usually known in a moment.
                if let Some(slot) = self.servers.get_mut(server.0) {
                    slot.silent = Some(Instant::now());
                }
            }
            Event::Ended(server, ended) => {
                let id = self.sandbox_id(server);
                if let Some(slot) = self.servers.get(server.0) {
                    let name = slot.name.clone();
                    self.ledger_note(
                        EventKind::McpServerEnded,
                        &id,
                        &[("serverName", json!(name)), ("outcome", json!(ended.outcome))],
                    );
                }
                self.fail_server(server, &ended.outcome);
                if let Some(slot) = self.servers.get_mut(server.0) {
                    slot.process = None;
                }
            }
        }
    }

    /// How long until the next look around.
    fn pause(&self) -> Duration {
        let busy = !self.questions.is_empty()
            || self.servers.iter().any(|slot| slot.stale == Stale::Yes || slot.silent.is_some())
            || self.settled == Settled::No
            || self.servers.iter().any(|slot| !slot.pending.is_empty());
        Duration::from_millis(if busy { 200 } else { 2000 })
    }

    /// What the clock brings: answers of people, servers that are late, policies that changed.
    fn look_around(&mut self, now: Instant) {
        self.hurry(now);
        self.look_at_answers();
        self.tell_waiting(now);
        self.refresh_policies();
        self.ask_stale();
        for index in 0..self.servers.len() {
            let server = ServerIndex(index);
            let Some(slot) = self.servers.get(index) else { continue };
            if slot.silent.is_some_and(|silent| now.duration_since(silent) > SILENCE) {
                self.fail_server(server, "it closed its standard output");
                continue;
            }
            let since = self.introduced.unwrap_or(now);
            let limit = slot.limits.startup_timeout;
            if !slot.state.is_settled() && self.client.is_some() && now.duration_since(since) > limit {
                let why = format!(
                    "it was not ready within {} seconds (limits.startupTimeoutSeconds)",
                    limit.as_secs()
                );
                self.fail_server(server, &why);
                continue;
            }
            let introducing =
                slot.pending.values().any(|pending| matches!(pending.purpose, Purpose::Initialize));
            let discovering = slot.pending.values().any(|pending| {
                matches!(pending.purpose, Purpose::Discover) && pending.since.elapsed() > GRACE
            }) && slot.state == State::Introducing
                && !introducing;
            let call_limit = slot.limits.call_timeout;
            let late: Vec<u64> = slot
                .pending
                .iter()
                .filter(|(_, pending)| {
                    matches!(pending.purpose, Purpose::Call(_) | Purpose::Client { .. } | Purpose::Gather(_))
                        && pending.since.elapsed() > call_limit
                })
                .map(|(id, _)| *id)
                .collect();
            if discovering {
                self.discover_is_late(server);
            }
            for id in late {
                self.give_up(server, id, call_limit);
            }
        }
    }

    /// Tools of servers that said they changed, one question at a time.
    fn ask_stale(&mut self) {
        for index in 0..self.servers.len() {
            let Some(slot) = self.servers.get_mut(index) else { continue };
            let asking = slot.pending.values().any(|pending| matches!(pending.purpose, Purpose::Tools(_)));
            if slot.stale == Stale::Yes && slot.is_ready() && !asking {
                slot.stale = Stale::No;
                self.ask_tools(ServerIndex(index), None, Vec::new());
            }
        }
    }

    /// A request took too long: the server is told, and whoever waits hears it.
    fn give_up(&mut self, server: ServerIndex, id: u64, limit: Duration) {
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        let Some(pending) = slot.pending.remove(&id) else { return };
        slot.send(vec![reply::notification(
            "notifications/cancelled",
            &json!({ "requestId": id, "reason": "it took too long" }),
        )]);
        let text = format!(
            "the server {} did not answer within {} seconds (limits.callTimeoutSeconds)",
            slot.name,
            limit.as_secs()
        );
        self.fail_pending(server, pending, &text);
    }

    /// Ends every server, then says that it is over.
    async fn end(mut self, events: &mut mpsc::Receiver<Event>) {
        self.withdraw_all("the session ended");
        for index in 0..self.servers.len() {
            let Some(slot) = self.servers.get_mut(index) else { continue };
            let pending: Vec<_> = slot.pending.drain().collect();
            slot.outbox = None;
            for (_, pending) in pending {
                if let Purpose::Call(call) = pending.purpose {
                    self.call_failed(*call, "the session ended before the server answered");
                }
            }
        }
        for slot in &self.servers {
            if let Some(process) = &slot.process {
                process.stop();
            }
        }
        let deadline = tokio::time::Instant::now() + GRACE + Duration::from_secs(2);
        while self.servers.iter().any(|slot| slot.process.is_some()) {
            match tokio::time::timeout_at(deadline, events.recv()).await {
                Ok(Some(Event::Ended(server, ended))) => {
                    let id = self.sandbox_id(server);
                    if let Some(slot) = self.servers.get_mut(server.0) {
                        let name = slot.name.clone();
                        slot.process = None;
                        slot.state = State::Failed("the session ended".to_owned());
                        self.ledger_note(
                            EventKind::McpServerEnded,
                            &id,
                            &[("serverName", json!(name)), ("outcome", json!(ended.outcome))],
                        );
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // What has not ended by now is killed when it is dropped.
        self.servers.clear();
        let id = self.session.id().to_owned();
        self.ledger_note(EventKind::McpSessionEnded, &id, &[]);
    }

    fn new_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    fn journal(&self) -> Arc<Journal> {
        self.session.journal()
    }

    fn sandbox_id(&self, server: ServerIndex) -> String {
        self.servers
            .get(server.0)
            .and_then(|slot| slot.process.as_ref())
            .map_or_else(|| self.session.id().to_owned(), |process| process.facts().sandbox_id.clone())
    }

    /// To the client.
    fn tell(&mut self, parts: Vec<Bytes>, about: About) {
        let outgoing = Outgoing { parts, about };
        let outgoing = if self.to_client.backlog.is_empty() {
            match self.to_client.line.try_send(outgoing) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(outgoing) | mpsc::error::TrySendError::Closed(outgoing),
                ) => outgoing,
            }
        } else {
            outgoing
        };
        self.to_client.size += size_of(&outgoing);
        self.to_client.backlog.push_back(outgoing);
    }

    fn answer(&mut self, id: &Bytes, result: &Value) {
        self.answer_raw(id, &result.to_string());
    }

    fn answer_raw(&mut self, id: &Bytes, result: &str) {
        self.requests.remove(id);
        self.tell(vec![reply::raw_result(id, result)], About::Response(id.clone()));
    }

    fn refuse(&mut self, id: &Bytes, code: Code, text: &str) {
        self.requests.remove(id);
        self.tell(vec![reply::error(id, code, text)], About::Response(id.clone()));
    }

    /// An event that is no call. When it cannot be written, no call is let through any more.
    fn ledger_note(&mut self, kind: EventKind, sandbox: &str, details: &[(&str, Value)]) {
        let mut event = NewEvent::new(kind, sandbox).with("sessionId", self.session.id());
        for (key, value) in details {
            event = event.with(key, value.clone());
        }
        self.append(&event);
    }

    fn append(&mut self, event: &NewEvent) {
        if self.latched.is_some() {
            return;
        }
        if let Err(error) = self.house.log.append(event) {
            let text = format!("the audit log cannot be written, so no call is let through: {error}");
            self.journal().note(&text);
            self.latched = Some(text);
        }
    }
}

fn size_of(outgoing: &Outgoing) -> usize {
    outgoing.parts.iter().map(Bytes::len).sum()
}

/// Files in the directory of questions have changed. What there is to read says no more than that.
async fn awakened(wake: Option<&Receiver>) {
    let Some(wake) = wake else { return std::future::pending().await };
    let mut buffer = [0; 4096];
    if wake.readable().await.is_ok() {
        while wake.try_read(&mut buffer).is_ok_and(|count| count > 0) {}
    }
}

/// What a server writes to standard output.
async fn read_messages<R: AsyncRead + Unpin>(
    server: ServerIndex,
    mut lines: Lines<R>,
    events: mpsc::Sender<Event>,
    budget: Arc<Semaphore>,
) {
    while let Ok(Some(incoming)) = lines.next().await {
        let size = match &incoming {
            Incoming::Line(line) => line.len() / 1024 + 1,
            _ => 1,
        };
        let share = u32::try_from(size.min(UNDER_WAY)).unwrap_or(1);
        let share = Arc::clone(&budget).acquire_many_owned(share).await.ok();
        if events.send(Event::Said(server, incoming, share)).await.is_err() {
            return;
        }
    }
    let _ = events.send(Event::Silent(server)).await;
}

/// What a server writes to standard error goes into the session's log.
async fn read_errors<R: AsyncRead + Unpin>(server: String, stderr: R, journal: Arc<Journal>) {
    const LONGEST: usize = 16 << 10;
    let mut lines = Lines::new(stderr, LONGEST);
    while let Ok(Some(incoming)) = lines.next().await {
        match incoming {
            Incoming::Line(line) => journal.line(&server, &String::from_utf8_lossy(&line)),
            Incoming::TooLong { length, .. } | Incoming::Endless { length } => {
                journal.line(&server, &format!("(a line of {length} bytes, left out)"));
            }
        }
    }
}

async fn await_end(server: ServerIndex, ended: oneshot::Receiver<Ended>, events: mpsc::Sender<Event>) {
    let ended = ended.await.unwrap_or_else(|_| Ended { outcome: "it ended".to_owned() });
    let _ = events.send(Event::Ended(server, ended)).await;
}

impl Proxy {
    /// Tools came or went: the policies are checked against those that there are now.
    fn catalog_changed(&mut self) {
        let servers = self.servers.iter().map(|slot| {
            let tools = slot.is_ready().then(|| slot.catalog.values().collect::<Vec<_>>());
            (slot.name.as_str(), tools)
        });
        self.gatekeeper.set_tools(servers);
        self.refresh_policies();
    }

    fn refresh_policies_if_due(&mut self) {
        if self.gatekeeper.is_due() {
            self.refresh_policies();
        }
    }

    fn refresh_policies(&mut self) {
        let (outcome, diagnostics) = match self.gatekeeper.refresh() {
            Refresh::Unchanged => return,
            Refresh::Replaced(diagnostics) => ("in force", diagnostics),
            Refresh::Broken(diagnostics) => ("broken, so that the old ones stay in force", diagnostics),
        };
        let told: Vec<String> = diagnostics.iter().map(crate::decide::told).collect();
        if self.settled == Settled::Yes || !told.is_empty() {
            self.journal().note(&format!("the policies were looked at again: {outcome}"));
        }
        for line in &told {
            self.journal().note(line);
        }
        let id = self.session.id().to_owned();
        self.ledger_note(
            EventKind::PolicyReloaded,
            &id,
            &[
                ("policies", json!(self.gatekeeper.source())),
                ("outcome", json!(if outcome == "in force" { "replaced" } else { "broken" })),
                ("diagnostics", json!(told.iter().take(20).collect::<Vec<_>>())),
            ],
        );
    }
}
