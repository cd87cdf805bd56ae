//! One request and its answer: POST sends messages, GET receives, DELETE ends a session.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, HeaderValue, RETRY_AFTER},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    Generation, Pace,
    alias::Alias,
    answer::{self, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Refusal, Reply, TRANSPORT},
    body,
    desk::{Attachment, GiveUp, Item, Next, Place, Role, Unavailable},
    event::{Events, Ids},
    guard::{Admitted, Guard},
    head::{self, Named},
    posted::{Fault, Kind, Message, Params, Posted},
    session::{Beginning, Session, Sessions},
    stateless,
};

/// The one place there is.
pub const PATH: &str = "/mcp";

/// What all connections share.
pub struct Desks {
    pub guard: Guard,
    pub max_body: usize,
    pub pace: Pace,
    pub sessions: Arc<Sessions>,
    pub opening: mpsc::Sender<Open>,
}

/// Asks for a proxy.
pub struct Open {
    pub generation: Generation,
    pub reply: oneshot::Sender<Result<Arc<Session>, NotOpened>>,
}

#[derive(Debug, Clone, Copy)]
pub enum NotOpened {
    TooMany,
    Failed,
}

type Answer = Result<Response<Reply>, Refusal>;

impl Desks {
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let (head, body) = request.into_parts();
        let admitted = self.guard.admit(&head);
        let kind = admitted.as_ref().ok().copied();
        let answer = match admitted {
            Err(refusal) => Err(refusal),
            Ok(_) if head.uri.path() != PATH => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                TRANSPORT,
                "there is nothing here; the place is /mcp",
            )),
            Ok(Admitted::Preflight) => Ok(answer::empty(StatusCode::NO_CONTENT)),
            Ok(Admitted::Request) => match head.method {
                Method::POST => self.post(&head.headers, body).await,
                Method::GET => self.get(&head.headers),
                Method::DELETE => self.delete(&head.headers),
                _ => Err(not_allowed("POST, GET, DELETE")),
            },
        };
        let mut response = answer.unwrap_or_else(Refusal::into_response);
        self.guard.share(&head.headers, kind, response.headers_mut());
        response
    }

    async fn post(&self, headers: &HeaderMap, body: Incoming) -> Answer {
        head::accepts_both(headers)?;
        head::content_is_json(headers)?;
        let version = head::version(headers)?;
        let body = body::read(body, self.max_body, self.pace.body).await?;
        let posted = Posted::read(body).map_err(|fault| {
            let code = match fault {
                Fault::NotJson => PARSE_ERROR,
                Fault::NotMessage(_) => INVALID_REQUEST,
            };
            Refusal::new(StatusCode::BAD_REQUEST, code, fault.to_string())
        })?;
        match posted {
            Posted::Batch(messages) => {
                let session = self.session(headers, version)?;
                self.take_batch(&session, messages).await
            }
            Posted::One(message) => match &message.kind {
                Kind::Request { id, method, params } => {
                    let raw = message.bytes.slice(id.clone());
                    let answer = if method == "initialize" {
                        self.begin(headers, &raw, version, params, message.bytes.clone()).await
                    } else if is_stateless(headers, version, method, params) {
                        stateless::check(headers, method, params)
                            .map_err(|refusal| refusal.of(raw.clone()))?;
                        self.take_stateless(message.bytes.clone(), id.clone(), method).await
                    } else {
                        match self.session(headers, version) {
                            Ok(session) => {
                                self.take_request(&session, raw.clone(), message.bytes.clone()).await
                            }
                            Err(refusal) => Err(refusal),
                        }
                    };
                    answer.map_err(|refusal| refusal.of(raw))
                }
                Kind::Notification { method } if matches!(version, Named::Stateless(_)) => {
                    // It names a request by an id that many clients may use at once; here a request is given up
                    // by leaving it.
                    if method != "notifications/cancelled" {
                        let session = self.shared().await?;
                        session.send(message.bytes).await.map_err(|_| ended())?;
                    }
                    Ok(answer::empty(StatusCode::ACCEPTED))
                }
                Kind::Response if matches!(version, Named::Stateless(_)) => {
                    let message =
                        "in this version the client is asked nothing, so it has nothing to respond to";
                    Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message))
                }
                Kind::Notification { .. } | Kind::Response => {
                    let session = self.session(headers, version)?;
                    session.send(message.bytes).await.map_err(|_| ended())?;
                    Ok(answer::empty(StatusCode::ACCEPTED))
                }
            },
        }
    }

    /// `initialize`, whatever version it asks for: what is spoken is agreed on in its answer.
    async fn begin(
        &self,
        headers: &HeaderMap,
        id: &Bytes,
        version: Named<'_>,
        params: &Params,
        message: Bytes,
    ) -> Answer {
        if head::single(headers, &head::SESSION_ID)?.is_some() {
            let message = "initialize begins a session and cannot be sent in one";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message));
        }
        if let Named::Unknown(named) = version
            && params.protocol_version.as_deref() != Some(named)
        {
            return Err(head::unsupported(named));
        }
        if headers.contains_key(head::METHOD) {
            stateless::check_method(headers, "initialize")?;
        }
        let session = self.open(Generation::Handshake).await?;
        let beginning = Beginning::of(&self.sessions, &session);
        let attachment = session.desk.open(std::slice::from_ref(id), None).map_err(unavailable)?;
        session.send(message).await.map_err(|_| ended())?;
        let mut items = Vec::new();
        loop {
            match attachment.next().await {
                Next::Item(item) if item.role == Role::Response => {
                    items.push(item);
                    break;
                }
                Next::Item(item) => items.push(item),
                Next::End | Next::Cut => return Err(ended()),
            }
        }
        let agreed = items.last().and_then(agreed_version);
        let mut response = match items.pop() {
            Some(only) if items.is_empty() => answer::whole(only.parts),
            last => {
                items.extend(last);
                let start = attachment.place();
                self.stream(attachment, Ids::None, start, items)
            }
        };
        if let Some(version) = agreed {
            session.agree_on(version);
            if let Ok(value) = HeaderValue::from_str(&session.id) {
                response.headers_mut().insert(head::SESSION_ID, value);
            }
            beginning.keep();
        }
        Ok(response)
    }

    async fn take_request(&self, session: &Session, id: Bytes, message: Bytes) -> Answer {
        let attachment = session.desk.open(&[id], None).map_err(unavailable)?;
        let start = attachment.place();
        session.send(message).await.map_err(|_| ended())?;
        self.first_or_stream(attachment, ids_for(session), start).await
    }

    /// Batches were there in 2025-03-26 only.
    async fn take_batch(&self, session: &Session, messages: Vec<Message>) -> Answer {
        if session.version().is_none_or(|version| version > "2025-03-26") {
            let message = "batches are not a part of the protocol version of this session";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message));
        }
        let ids: Vec<Bytes> = messages
            .iter()
            .filter_map(|message| match &message.kind {
                Kind::Request { method, .. } if method == "initialize" => None,
                Kind::Request { id, .. } => Some(message.bytes.slice(id.clone())),
                _ => None,
            })
            .collect();
        if messages.iter().filter(|message| matches!(message.kind, Kind::Request { .. })).count() != ids.len()
        {
            let message = "initialize cannot be a part of a batch";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message));
        }
        let attachment = match ids.is_empty() {
            true => None,
            false => Some(session.desk.open(&ids, None).map_err(unavailable)?),
        };
        for message in messages {
            session.send(message.bytes).await.map_err(|_| ended())?;
        }
        Ok(match attachment {
            None => answer::empty(StatusCode::ACCEPTED),
            Some(attachment) => {
                let start = attachment.place();
                self.stream(attachment, ids_for(session), start, Vec::new())
            }
        })
    }

    async fn take_stateless(&self, message: Bytes, id: std::ops::Range<usize>, method: &str) -> Answer {
        let session = self.shared().await?;
        let (message, alias) = Alias::assume(message, id, method, session.desk.number());
        let ours = alias.ours().clone();
        let to_proxy = session.to_proxy().map_err(|_| ended())?;
        let attachment = session.desk.open(std::slice::from_ref(&ours), Some(alias)).map_err(unavailable)?;
        to_proxy.send(message).await.map_err(|_| ended())?;
        let attachment = attachment.giving_up(GiveUp { to_proxy, message: cancelled(&ours) });
        let start = attachment.place();
        self.first_or_stream(attachment, Ids::None, start).await
    }

    /// One message as JSON when it is all there is; a stream when there is more, or when it takes long.
    async fn first_or_stream(&self, attachment: Attachment, ids: Ids, start: Place) -> Answer {
        match timeout(self.pace.patience, attachment.next()).await {
            Ok(Next::Item(item)) if item.role == Role::Response && attachment.is_answered() => {
                let status = match ids {
                    Ids::None => stateless::status(&item.parts),
                    Ids::Plain | Ids::Primed => StatusCode::OK,
                };
                let mut response = answer::whole(item.parts);
                *response.status_mut() = status;
                Ok(response)
            }
            Ok(Next::Item(item)) => Ok(self.stream(attachment, ids, start, vec![item])),
            Err(_) => Ok(self.stream(attachment, ids, start, Vec::new())),
            Ok(Next::End | Next::Cut) => Err(ended()),
        }
    }

    fn stream(&self, attachment: Attachment, ids: Ids, start: Place, first: Vec<Item>) -> Response<Reply> {
        answer::events(Events::begin(attachment, ids, start, first, self.pace.keep_alive))
    }

    fn get(&self, headers: &HeaderMap) -> Answer {
        head::accepts_events(headers)?;
        let version = head::version(headers)?;
        if matches!(version, Named::Stateless(_)) {
            return Err(not_allowed("POST"));
        }
        let session = self.session(headers, version)?;
        let attachment = match head::single(headers, &head::LAST_EVENT_ID)? {
            None => session.desk.attach_standalone(),
            Some(text) => {
                Place::read(text).ok_or(Unavailable::Forgotten).and_then(|place| session.desk.resume(place))
            }
        };
        let attachment = attachment.map_err(unavailable)?;
        let start = attachment.place();
        Ok(self.stream(attachment, ids_for(&session), start, Vec::new()))
    }

    fn delete(&self, headers: &HeaderMap) -> Answer {
        let version = head::version(headers)?;
        if matches!(version, Named::Stateless(_)) {
            return Err(not_allowed("POST"));
        }
        let session = self.session(headers, version)?;
        self.sessions.end(&session);
        Ok(answer::empty(StatusCode::OK))
    }

    /// The session a request says it belongs to.
    fn session(&self, headers: &HeaderMap, version: Named<'_>) -> Result<Arc<Session>, Refusal> {
        if let Named::Unknown(version) = version {
            return Err(head::unsupported(version));
        }
        let Some(id) = head::single(headers, &head::SESSION_ID)? else {
            let message = "the header Mcp-Session-Id is missing; begin a session with initialize, \
                           or send requests of 2026-07-28";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, TRANSPORT, message));
        };
        let session = self.sessions.find(id).ok_or_else(|| {
            let message = "there is no such session, or it has ended; begin another with initialize";
            Refusal::new(StatusCode::NOT_FOUND, TRANSPORT, message)
        })?;
        session.desk.touch();
        Ok(session)
    }

    async fn shared(&self) -> Result<Arc<Session>, Refusal> {
        match self.sessions.shared() {
            Some(session) => Ok(session),
            None => self.open(Generation::Stateless).await,
        }
    }

    async fn open(&self, generation: Generation) -> Result<Arc<Session>, Refusal> {
        let (reply, opened) = oneshot::channel();
        self.opening.send(Open { generation, reply }).await.map_err(|_| ended())?;
        opened.await.map_err(|_| ended())?.map_err(|reason| match reason {
            NotOpened::TooMany => {
                let message = "there are too many sessions; end one (DELETE), or come back later";
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, TRANSPORT, message).with_header(RETRY_AFTER, "30")
            }
            NotOpened::Failed => ended(),
        })
    }
}

/// A request of 2026-07-28 or later says so; one that asks what is spoken here is such a request, too.
fn is_stateless(headers: &HeaderMap, version: Named<'_>, method: &str, params: &Params) -> bool {
    let meant = params.meta.as_ref().and_then(|meta| meta.version.as_deref());
    matches!(version, Named::Stateless(_))
        || meant.is_some_and(|version| !head::HANDSHAKE.contains(&version))
        || (method == "server/discover" && !headers.contains_key(head::SESSION_ID))
}

fn ids_for(session: &Session) -> Ids {
    match session.version() {
        Some(version) if version >= "2025-11-25" => Ids::Primed,
        _ => Ids::Plain,
    }
}

/// `None` when `initialize` failed.
fn agreed_version(response: &Item) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Succeeded {
        result: Agreed,
    }
    #[derive(serde::Deserialize)]
    struct Agreed {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    serde_json::from_slice::<Succeeded>(&response.parts.concat())
        .ok()
        .map(|succeeded| succeeded.result.version)
}

fn cancelled(id: &Bytes) -> Bytes {
    let mut text = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#.to_vec();
    text.extend_from_slice(id);
    text.extend_from_slice(br#","reason":"the client has closed the connection"}}"#);
    Bytes::from(text)
}

fn unavailable(reason: Unavailable) -> Refusal {
    match reason {
        Unavailable::InUse => {
            let message = "a request with this id is under way";
            Refusal::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
        }
        Unavailable::Full => {
            let message = "too many requests are under way; wait for answers";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, TRANSPORT, message).with_header(RETRY_AFTER, "1")
        }
        Unavailable::Taken => {
            let message = "the stream of this session is open on another connection; a session has one";
            Refusal::new(StatusCode::CONFLICT, TRANSPORT, message)
        }
        Unavailable::Forgotten => {
            let message = "what came after this event is not known any more (header Last-Event-ID)";
            Refusal::new(StatusCode::BAD_REQUEST, TRANSPORT, message)
        }
        Unavailable::Closed => ended(),
    }
}

fn ended() -> Refusal {
    let message = "the proxy has ended before it answered; look into its log, and begin another session";
    Refusal::new(StatusCode::BAD_GATEWAY, INTERNAL_ERROR, message)
}

fn not_allowed(allowed: &'static str) -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, TRANSPORT, "this method means nothing here")
        .with_header(ALLOW, allowed)
}
