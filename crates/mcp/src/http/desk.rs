//! Sorts what the proxy says into the streams of a client, and keeps it there until it was sent, and for a while
//! after, so that a client that lost a connection can ask for the rest.
//!
//! A stream belongs to the requests of one POST, or, number 0, to the session. At most one connection is
//! attached to a stream at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::{alias::Alias, answer};
use crate::link::{About, Outgoing};

mod attachment;

pub use attachment::{Attachment, GiveUp};

/// What is kept of messages that were sent, or that nobody is attached to receive.
const KEPT_BYTES: usize = 4 << 20;
const KEPT_MESSAGES: usize = 1024;
/// More than this is not taken from the proxy for a client that does not read.
const UNSENT_BYTES: usize = 4 << 20;
const UNSENT_MESSAGES: usize = 256;
/// A client that does not read for longer loses the connection.
const STALL: Duration = Duration::from_secs(20);
/// Requests under way for one client.
const REQUESTS: usize = 1024;

/// The stream of what belongs to no request.
const STANDALONE: u64 = 0;

/// What happens with a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It is kept for a client that comes back.
    ForReplay,
    /// It is forgotten; a client that leaves gives up its request.
    UntilSent,
}

#[derive(Debug)]
pub struct Desk {
    keeping: Keeping,
    state: Mutex<State>,
    /// Something was sent, or a stream was left.
    drained: Notify,
    stall: Duration,
}

#[derive(Debug)]
struct State {
    streams: HashMap<u64, Stream>,
    /// By the raw id of a request that is not answered.
    owners: HashMap<Bytes, u64>,
    next_stream: u64,
    next_number: u64,
    next_attachment: u64,
    kept_bytes: usize,
    kept_messages: usize,
    used: Instant,
    closed: bool,
}

#[derive(Debug, Default)]
struct Stream {
    items: VecDeque<Item>,
    /// Everything up to this number was sent.
    sent: u64,
    unsent_bytes: usize,
    /// Requests that are not answered.
    open: usize,
    attached: Option<u64>,
    waker: Option<Waker>,
    /// The client has event ids and can come back.
    resumable: bool,
    /// The client did not read and is cut off.
    stalled: bool,
    alias: Option<Alias>,
}

/// A message on its way to the client.
#[derive(Debug, Clone)]
pub struct Item {
    number: u64,
    pub parts: Vec<Bytes>,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Response,
    Other,
}

/// What comes next on a stream.
#[derive(Debug)]
pub enum Next {
    Item(Item),
    /// Nothing more will come.
    End,
    /// The connection is to be cut.
    Cut,
}

/// Why a stream cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// A request with this id is under way.
    InUse,
    /// Too many requests are under way.
    Full,
    /// Another connection is attached.
    Taken,
    /// The place in the stream is not known.
    Forgotten,
    Closed,
}

/// Where in which stream a client is: the id of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    stream: u64,
    number: u64,
}

impl Place {
    /// As it is written by `Display`, and in no other way.
    pub fn read(text: &str) -> Option<Place> {
        let (stream, number) = text.split_once('-')?;
        let place = Place { stream: stream.parse().ok()?, number: number.parse().ok()? };
        (place.to_string() == text).then_some(place)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.stream, self.number)
    }
}

impl Desk {
    pub fn new(keeping: Keeping) -> Desk {
        let state = State {
            streams: HashMap::from([(STANDALONE, Stream { resumable: true, ..Stream::default() })]),
            owners: HashMap::new(),
            next_stream: STANDALONE + 1,
            next_number: 1,
            next_attachment: 1,
            kept_bytes: 0,
            kept_messages: 0,
            used: Instant::now(),
            closed: false,
        };
        Desk { keeping, state: Mutex::new(state), drained: Notify::new(), stall: STALL }
    }

    /// Nothing that holds the lock can leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn touch(&self) {
        self.state().used = Instant::now();
    }

    /// How long nobody has been here.
    pub fn idle(&self) -> Duration {
        let state = self.state();
        match state.streams.values().any(|stream| stream.attached.is_some()) {
            true => Duration::ZERO,
            false => state.used.elapsed(),
        }
    }

    /// A number that was never used on this desk.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next_number += 1;
        state.next_number - 1
    }

    /// A stream for requests that are about to be sent to the proxy.
    pub fn open(self: &Arc<Self>, ids: &[Bytes], alias: Option<Alias>) -> Result<Attachment, Unavailable> {
        let mut state = self.state();
        if state.closed {
            return Err(Unavailable::Closed);
        }
        if state.owners.len() + ids.len() > REQUESTS {
            return Err(Unavailable::Full);
        }
        let twice = ids.iter().enumerate().any(|(index, id)| ids.iter().take(index).any(|other| other == id));
        if twice || ids.iter().any(|id| state.owners.contains_key(id)) {
            return Err(Unavailable::InUse);
        }
        let stream = state.next_stream;
        state.next_stream += 1;
        for id in ids {
            state.owners.insert(id.clone(), stream);
        }
        state.streams.insert(stream, Stream { open: ids.len(), alias, ..Stream::default() });
        Ok(self.attach(&mut state, stream))
    }

    /// The stream of what belongs to no request, from where the client left it.
    pub fn attach_standalone(self: &Arc<Self>) -> Result<Attachment, Unavailable> {
        let mut state = self.state();
        match state.streams.get(&STANDALONE) {
            _ if state.closed => Err(Unavailable::Closed),
            Some(stream) if stream.attached.is_some() => Err(Unavailable::Taken),
            _ => Ok(self.attach(&mut state, STANDALONE)),
        }
    }

    /// A stream the client had, after the last event it has seen. Who was attached before is not any more: a
    /// client that comes back knows better than we do that the connection is dead.
    pub fn resume(self: &Arc<Self>, place: Place) -> Result<Attachment, Unavailable> {
        let mut state = self.state();
        if state.closed {
            return Err(Unavailable::Closed);
        }
        let next_number = state.next_number;
        let stream = state
            .streams
            .get_mut(&place.stream)
            .filter(|stream| stream.resumable && place.number < next_number)
            .ok_or(Unavailable::Forgotten)?;
        stream.sent = place.number;
        stream.stalled = false;
        stream.unsent_bytes = stream.unsent().map(Item::size).sum();
        Ok(self.attach(&mut state, place.stream))
    }

    fn attach(self: &Arc<Self>, state: &mut State, stream: u64) -> Attachment {
        let number = state.next_attachment;
        state.next_attachment += 1;
        state.used = Instant::now();
        if let Some(stream) = state.streams.get_mut(&stream) {
            stream.attached = Some(number);
            stream.wake();
        }
        Attachment::new(Arc::clone(self), stream, number)
    }

    /// Takes a message of the proxy, and waits as long as the client it is for does not read.
    pub async fn deliver(&self, outgoing: Outgoing) {
        let stream = self.state().stream_of(&outgoing.about, self.keeping);
        let Some(stream) = stream else { return };
        while self.state().is_full(stream) {
            if tokio::time::timeout(self.stall, self.drained.notified()).await.is_err() {
                self.state().cut(stream);
            }
        }
        self.state().push(stream, outgoing, self.keeping);
    }

    /// Everything ends here; nobody comes back.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.owners.clear();
        for stream in state.streams.values_mut() {
            stream.wake();
        }
        drop(state);
        self.drained.notify_one();
    }
}

impl State {
    fn stream_of(&self, about: &About, keeping: Keeping) -> Option<u64> {
        let owned = match about {
            About::Response(id) => return self.owners.get(id).copied(),
            About::Request(id) => self.owners.get(id).copied(),
            About::Nothing => None,
        };
        match keeping {
            Keeping::ForReplay => Some(owned.unwrap_or(STANDALONE)),
            // There is no stream of the session without a session.
            Keeping::UntilSent => owned,
        }
    }

    fn is_full(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| {
            !self.closed
                && !stream.stalled
                && stream.attached.is_some()
                && (stream.unsent_bytes > UNSENT_BYTES
                    || stream.items.len() - stream.sent_items() > UNSENT_MESSAGES)
        })
    }

    fn cut(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.stalled = true;
            stream.attached = None;
            stream.wake();
        }
    }

    fn push(&mut self, number: u64, outgoing: Outgoing, keeping: Keeping) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let mut parts = outgoing.parts;
        let role = match &outgoing.about {
            About::Response(id) => {
                self.owners.remove(id);
                stream.open = stream.open.saturating_sub(1);
                if let Some(alias) = &stream.alias {
                    let theirs = alias.theirs().clone();
                    parts =
                        alias.restore_response(parts).unwrap_or_else(|| vec![answer::unreadable(&theirs)]);
                }
                Role::Response
            }
            _ => {
                if let Some(alias) = &stream.alias {
                    parts = alias.restore_related(parts);
                }
                Role::Other
            }
        };
        let item = Item { number: self.next_number, parts, role };
        self.next_number += 1;
        self.kept_bytes += item.size();
        self.kept_messages += 1;
        stream.unsent_bytes += item.size();
        stream.items.push_back(item);
        stream.wake();
        if keeping == Keeping::ForReplay {
            self.forget_oldest();
        }
    }

    /// Keeps the memory of one client bounded. What somebody attached has not been sent stays, and so does the
    /// newest message: a large response must not push out itself.
    fn forget_oldest(&mut self) {
        while self.kept_bytes > KEPT_BYTES || self.kept_messages > KEPT_MESSAGES {
            let newest = self.next_number - 1;
            let oldest = self
                .streams
                .iter()
                .filter_map(|(number, stream)| Some((stream.items.front()?.number, *number, stream)))
                .filter(|(item, _, stream)| {
                    *item != newest && (stream.attached.is_none() || *item <= stream.sent)
                })
                .map(|(item, number, _)| (item, number))
                .min();
            let Some((_, number)) = oldest else { return };
            let Some(stream) = self.streams.get_mut(&number) else { return };
            if let Some(item) = stream.items.pop_front() {
                self.kept_bytes = self.kept_bytes.saturating_sub(item.size());
                self.kept_messages = self.kept_messages.saturating_sub(1);
                if item.number > stream.sent {
                    stream.unsent_bytes = stream.unsent_bytes.saturating_sub(item.size());
                }
            }
            if stream.items.is_empty()
                && stream.open == 0
                && stream.attached.is_none()
                && number != STANDALONE
            {
                self.remove(number);
            }
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(stream) = self.streams.remove(&number) {
            self.kept_bytes = self.kept_bytes.saturating_sub(stream.items.iter().map(Item::size).sum());
            self.kept_messages = self.kept_messages.saturating_sub(stream.items.len());
            if stream.open > 0 {
                self.owners.retain(|_, owner| *owner != number);
            }
        }
    }
}

impl Stream {
    fn unsent(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().skip(self.sent_items())
    }

    fn sent_items(&self) -> usize {
        self.items.partition_point(|item| item.number <= self.sent)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Item {
    /// With what a message costs besides its bytes.
    fn size(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum::<usize>() + 128
    }
}

#[cfg(test)]
#[path = "desk/tests.rs"]
mod tests;
