//! One server as the proxy sees it: its state, what it can do, and what it was asked and has not answered.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lazaret_gate::Tool;
use serde_json::Value;

use super::{call::OpenCall, process::Process};
use crate::{
    breaker::Breaker,
    config::Limits,
    generation::Generation,
    message::{self, Message},
    names::ServerIndex,
    outbox::Outbox,
    pins::Change,
};

#[derive(Debug)]
pub struct Slot {
    pub index: ServerIndex,
    pub name: String,
    pub state: State,
    pub limits: Limits,
    pub process: Option<Box<Process>>,
    pub outbox: Option<Outbox>,
    pub generation: Generation,
    pub capabilities: Value,
    pub instructions: String,
    /// In the server's order, raw.
    pub listed: Vec<Listed>,
    pub catalog: BTreeMap<String, Tool>,
    /// Against what was pinned.
    pub change: Change,
    pub breaker: Breaker,
    pub pending: HashMap<u64, Pending>,
    next: u64,
    flood: Flood,
    /// Lines on standard output that were no messages.
    pub garbage: u64,
    /// Since when nothing can come any more.
    pub silent: Option<Instant>,
    /// Does it say that its tools are not what they were?
    pub stale: Stale,
    /// How often it refused to be introduced.
    pub attempts: u32,
    /// What its list of tools has beside them, raw members.
    pub beside: String,
}

/// A tool as it is passed on to the client.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    pub raw: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Starting,
    /// Runs, and waits for the client to say who it is.
    Running,
    Introducing,
    Ready,
    Failed(String),
}

impl State {
    pub fn word(&self) -> &'static str {
        match self {
            State::Starting | State::Running | State::Introducing => "starting",
            State::Ready => "ready",
            State::Failed(_) => "failed",
        }
    }

    /// Nothing more is to be waited for.
    pub fn is_settled(&self) -> bool {
        matches!(self, State::Ready | State::Failed(_))
    }
}

/// A request that was sent to the server.
#[derive(Debug)]
pub struct Pending {
    pub purpose: Purpose,
    pub since: Instant,
    /// Raw: what its progress is told under.
    pub progress: Option<String>,
}

#[derive(Debug)]
pub enum Purpose {
    Initialize,
    Discover,
    /// A page of tools, and those of the pages before.
    Tools(Vec<String>),
    Call(Box<OpenCall>),
    /// Passed on for the client.
    Client {
        id: Bytes,
        method: String,
    },
    /// A part of an answer that several servers give.
    Gather(u64),
}

/// Notifications in the present second.
#[derive(Debug)]
struct Flood {
    since: Instant,
    count: u32,
}

const MOST_IN_A_SECOND: u32 = 2000;

impl Slot {
    pub fn new(index: ServerIndex, name: &str, limits: Limits) -> Slot {
        Slot {
            index,
            name: name.to_owned(),
            state: State::Starting,
            limits,
            process: None,
            outbox: None,
            generation: Generation::Handshake,
            capabilities: Value::Null,
            instructions: String::new(),
            listed: Vec::new(),
            catalog: BTreeMap::new(),
            change: Change::default(),
            breaker: Breaker::default(),
            pending: HashMap::new(),
            next: 1,
            flood: Flood { since: Instant::now(), count: 0 },
            garbage: 0,
            silent: None,
            stale: Stale::No,
            attempts: 0,
            beside: String::new(),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    pub fn can(&self, capability: &str) -> bool {
        self.is_ready() && self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }

    pub fn new_id(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Sends bytes, if anybody is there.
    pub fn send(&self, parts: Vec<Bytes>) {
        if let Some(outbox) = &self.outbox {
            let _ = outbox.put(parts);
        }
    }

    /// A request of our own.
    pub fn ask(&mut self, method: &str, params: &str, purpose: Purpose) {
        let id = self.new_id();
        self.pending.insert(id, Pending { purpose, since: Instant::now(), progress: None });
        self.send(vec![crate::reply::request(id, method, params)]);
    }

    /// The request that this answers.
    pub fn answered(&mut self, id: &[u8]) -> Option<Pending> {
        self.pending.remove(&std::str::from_utf8(id).ok()?.parse().ok()?)
    }

    /// Was a request sent whose progress is told under this token?
    pub fn expects_progress(&self, token: &str) -> Option<&Pending> {
        self.pending.values().find(|pending| pending.progress.as_deref() == Some(token))
    }

    /// Counts a notification; too many in a second are dropped.
    pub fn admits_notification(&mut self, now: Instant) -> Admitted {
        if now.duration_since(self.flood.since) >= Duration::from_secs(1) {
            self.flood = Flood { since: now, count: 0 };
        }
        self.flood.count += 1;
        match self.flood.count {
            count if count <= MOST_IN_A_SECOND => Admitted::Yes,
            count if count == MOST_IN_A_SECOND + 1 => Admitted::FirstDropped,
            _ => Admitted::Dropped,
        }
    }

    /// When only one request of the client is open here, what comes belongs to it.
    pub fn only_client_request(&self) -> Option<Bytes> {
        let mut ids = self.pending.values().filter_map(|pending| match &pending.purpose {
            Purpose::Call(call) => Some(&call.client_id),
            Purpose::Client { id, .. } => Some(id),
            _ => None,
        });
        match (ids.next(), ids.next()) {
            (Some(id), None) => Some(id.clone()),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    Yes,
    FirstDropped,
    Dropped,
}

/// The raw token under which the progress of a request is to be told.
pub fn progress_token(request: &Message) -> Option<String> {
    let meta = message::member(request.params(), "_meta")?;
    message::member(meta, "progressToken").map(str::to_owned)
}
