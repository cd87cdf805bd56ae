//! What a client gets back: a refusal that says why, one message, or a stream of events.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    body::{Body, Frame, SizeHint},
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::event::Events;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// What a server may define itself: refusals of this transport.
pub const TRANSPORT: i64 = -32000;
pub const HEADER_MISMATCH: i64 = -32020;
pub const MISSING_CAPABILITY: i64 = -32021;
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Says no, in HTTP and in JSON-RPC. Repeats nothing that could be secret.
#[derive(Debug)]
pub struct Refusal(Box<Words>);

#[derive(Debug)]
struct Words {
    status: StatusCode,
    code: i64,
    message: String,
    data: Option<Value>,
    id: Option<Bytes>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Refusal {
        let words =
            Words { status, code, message: message.into(), data: None, id: None, headers: Vec::new() };
        Refusal(Box::new(words))
    }

    /// The raw id of the request that is refused.
    pub fn of(mut self, id: Bytes) -> Refusal {
        self.0.id = Some(id);
        self
    }

    pub fn with_data(mut self, data: Value) -> Refusal {
        self.0.data = Some(data);
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: &'static str) -> Refusal {
        self.0.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    pub fn into_response(self) -> Response<Reply> {
        let words = *self.0;
        let mut error = json!({ "code": words.code, "message": words.message });
        if let (Some(data), Some(error)) = (words.data, error.as_object_mut()) {
            error.insert("data".to_owned(), data);
        }
        let mut response = whole(vec![error_message(words.id.as_deref().unwrap_or(b"null"), &error)]);
        *response.status_mut() = words.status;
        response.headers_mut().extend(words.headers);
        response
    }
}

fn error_message(id: &[u8], error: &Value) -> Bytes {
    let mut text = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    text.extend_from_slice(id);
    text.extend_from_slice(format!(",\"error\":{error}}}").as_bytes());
    Bytes::from(text)
}

/// The response to a request whose real response cannot be given its id.
pub fn unreadable(id: &[u8]) -> Bytes {
    let message = "the response could not be passed on: no id was found in it";
    error_message(id, &json!({ "code": INTERNAL_ERROR, "message": message }))
}

/// One message, as JSON.
pub fn whole(parts: Vec<Bytes>) -> Response<Reply> {
    let left = parts.iter().map(|part| part.len() as u64).sum();
    let mut response = Response::new(Reply::Whole { parts: parts.into(), left });
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub fn events(events: Events) -> Response<Reply> {
    let mut response = Response::new(Reply::Events(Box::new(events)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}

pub fn empty(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole { parts: VecDeque::new(), left: 0 });
    *response.status_mut() = status;
    response
}

/// The body of an answer.
#[derive(Debug)]
pub enum Reply {
    Whole { parts: VecDeque<Bytes>, left: u64 },
    Events(Box<Events>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Reply::Whole { parts, left } => {
                // An empty frame would mean the end of a chunked body.
                while parts.front().is_some_and(Bytes::is_empty) {
                    parts.pop_front();
                }
                let part = parts.pop_front();
                *left = left.saturating_sub(part.as_ref().map_or(0, |part| part.len() as u64));
                Poll::Ready(part.map(|part| Ok(Frame::data(part))))
            }
            Reply::Events(events) => events.poll(context).map(|next| next.map(|part| part.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Reply::Whole { left: 0, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Whole { left, .. } => SizeHint::with_exact(*left),
            Reply::Events(_) => SizeHint::default(),
        }
    }
}
