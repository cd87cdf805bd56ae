//! The clients' sessions: each has a proxy of its own. Clients without a session share one.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::{
    Generation,
    desk::{Desk, Keeping},
    token,
};
use crate::link::Front;

#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub desk: Arc<Desk>,
    to_proxy: Mutex<Option<mpsc::Sender<Bytes>>>,
    reader: OnceLock<AbortHandle>,
    /// What was agreed on in `initialize`.
    version: OnceLock<String>,
}

/// The proxy of a session has ended.
#[derive(Debug)]
pub struct Ended;

impl Session {
    pub fn to_proxy(&self) -> Result<mpsc::Sender<Bytes>, Ended> {
        locked(&self.to_proxy).clone().filter(|sender| !sender.is_closed()).ok_or(Ended)
    }

    pub async fn send(&self, message: Bytes) -> Result<(), Ended> {
        self.to_proxy()?.send(message).await.map_err(|_| Ended)
    }

    pub fn agree_on(&self, version: String) {
        // The first one counts; there is no second `initialize` in a session.
        let _ = self.version.set(version);
    }

    pub fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// The proxy sees both directions closed.
    fn end(&self) {
        locked(&self.to_proxy).take();
        self.desk.close();
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}

#[derive(Debug, Default)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
    shared: Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        locked(&self.by_id).get(id).cloned()
    }

    /// The one of clients without a session, while its proxy lives.
    pub fn shared(&self) -> Option<Arc<Session>> {
        locked(&self.shared).clone().filter(|session| session.to_proxy().is_ok())
    }

    /// Is there room for one more? Many clients leave without a word: who has been away longest makes room.
    pub fn has_room(&self, most: usize) -> bool {
        const AWAY: Duration = Duration::from_secs(1);
        let longest_away = {
            let all = locked(&self.by_id);
            if all.len() < most {
                return true;
            }
            all.values().max_by_key(|session| session.desk.idle()).cloned()
        };
        match longest_away {
            Some(session) if session.desk.idle() > AWAY => {
                self.end(&session);
                true
            }
            _ => false,
        }
    }

    /// Takes in a proxy, and reads what it says for as long as it lives.
    pub fn add(
        self: &Arc<Self>,
        front: Front,
        generation: Generation,
        readers: &mut JoinSet<()>,
    ) -> io::Result<Arc<Session>> {
        let keeping = match generation {
            Generation::Handshake => Keeping::ForReplay,
            Generation::Stateless => Keeping::UntilSent,
        };
        // 122 random bits; a UUID of version 7 would tell the time and have fewer.
        let id = uuid::Builder::from_random_bytes(token::random()?).into_uuid().to_string();
        let session = Arc::new(Session {
            id,
            desk: Arc::new(Desk::new(keeping)),
            to_proxy: Mutex::new(Some(front.to_proxy)),
            reader: OnceLock::new(),
            version: OnceLock::new(),
        });
        match generation {
            Generation::Handshake => {
                locked(&self.by_id).insert(session.id.clone(), Arc::clone(&session));
            }
            Generation::Stateless => *locked(&self.shared) = Some(Arc::clone(&session)),
        }
        let (sessions, reading) = (Arc::clone(self), Arc::clone(&session));
        let mut from_proxy = front.from_proxy;
        let reader = readers.spawn(async move {
            while let Some(outgoing) = from_proxy.recv().await {
                reading.desk.deliver(outgoing).await;
            }
            sessions.end(&reading);
        });
        let _ = session.reader.set(reader);
        Ok(session)
    }

    pub fn end(&self, session: &Session) {
        locked(&self.by_id).remove(&session.id);
        session.end();
    }

    pub fn end_idle(&self, longest: Duration) {
        let idle: Vec<_> =
            locked(&self.by_id).values().filter(|session| session.desk.idle() > longest).cloned().collect();
        for session in idle {
            self.end(&session);
        }
    }

    pub fn end_all(&self) {
        let all: Vec<_> = locked(&self.by_id).drain().map(|(_, session)| session).collect();
        for session in all.into_iter().chain(locked(&self.shared).take()) {
            session.end();
        }
    }
}

/// A session that ends unless it is kept: the client may leave before it has begun.
pub struct Beginning {
    sessions: Arc<Sessions>,
    session: Option<Arc<Session>>,
}

impl Beginning {
    pub fn of(sessions: &Arc<Sessions>, session: &Arc<Session>) -> Beginning {
        Beginning { sessions: Arc::clone(sessions), session: Some(Arc::clone(session)) }
    }

    pub fn keep(mut self) {
        self.session = None;
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.end(&session);
        }
    }
}

/// No holder of these locks can leave something half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
