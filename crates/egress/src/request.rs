//! The requests of one HTTP/1 connection, followed from its first byte to its last: where each head and each
//! body ends, and what every head asks for.
//!
//! Stricter than servers are: what two readers could understand differently is an error, so that no request
//! hides in another (request smuggling). Responses are for the caller to follow; see [`status_of`].

mod authority;
mod body;
mod head;
mod likeness;
mod lines;
mod rewrite;

pub use authority::Authority;
pub use head::{Form, Framing, Head, Scheme, Upgrade};
pub use likeness::{Likeness, Protocol, Status, looks_like_http, status_of};
pub use rewrite::rewrite;

use body::{Body, Progress};
use lines::{Found, Lines};

/// The most bytes the head of a request may have, empty lines before it included.
pub const MAX_HEAD: usize = 64 * 1024;
/// The most header fields a head may have.
pub const MAX_HEADERS: usize = 100;

/// Why a connection cannot be followed any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the head of the request is longer than {MAX_HEAD} bytes")]
    HeadTooLong,
    #[error("the request has more than {MAX_HEADERS} header fields")]
    TooManyHeaders,
    #[error("a carriage return does not end a line")]
    BareCarriageReturn,
    #[error("a line ends without a carriage return")]
    BareLineFeed,
    #[error("a line holds a control character")]
    ControlCharacter,
    #[error("a header field continues on a second line")]
    FoldedHeader,
    #[error("there is a space before the colon of a header field")]
    SpaceBeforeColon,
    #[error("a header field is malformed")]
    Header,
    #[error("the request line is malformed")]
    RequestLine,
    #[error("the request is of another version of HTTP than 1.0 and 1.1")]
    Version,
    #[error("the client speaks HTTP/2, which cannot be followed here")]
    Http2,
    #[error("the client offers an upgrade to HTTP/2 among others")]
    UpgradeToHttp2,
    #[error("the target of the request is malformed, or not of a form that its method has")]
    Target,
    #[error("the request has no Host")]
    MissingHost,
    #[error("the request has more than one Host")]
    RepeatedHost,
    #[error("the Host of the request is no host with or without a port")]
    Host,
    #[error("the Host of the request differs from its target")]
    HostMismatch,
    #[error("the Content-Length is not a plain number")]
    ContentLength,
    #[error("the request has more than one Content-Length")]
    RepeatedContentLength,
    #[error("the request has both a Content-Length and a Transfer-Encoding")]
    TwoLengths,
    #[error("the Transfer-Encoding is another than `chunked`, or not one that HTTP/1.0 has")]
    TransferEncoding,
    #[error("a CONNECT request has a body")]
    BodyOfConnect,
    #[error("a GET or HEAD request has a body, which some servers take for another request")]
    BodyOfGet,
    #[error("the size of a chunk is malformed or too large")]
    ChunkSize,
    #[error("the extension of a chunk is too long")]
    ChunkExtension,
    #[error("a chunk is longer than its size says")]
    ChunkEnd,
    #[error("the trailer of the body is too long")]
    TrailerTooLong,
}

/// What the next bytes are. `taken` counts from the start of what was fed and is never 0 unless nothing was;
/// what comes after it is to be fed next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Part of a head, kept until the rest comes; nothing may be passed on yet. Always all that was fed.
    Kept { taken: usize },
    /// The end of a head. The head is what may be passed on (all its bytes are in it), if it may be.
    Head { taken: usize, head: Box<Head> },
    /// Part of a body, or what comes after an upgrade: may be passed on as it is.
    Pass { taken: usize },
    /// Nothing was taken: first say what the server answered, [`Tracker::upgraded`] or
    /// [`Tracker::not_upgraded`].
    Wait,
}

/// Follows what a client sends over one connection. Keeps no more than one unfinished head. After an error
/// every further step is that error.
#[derive(Debug)]
pub struct Tracker {
    state: State,
    /// The last head asked for another protocol and the answer to that is not known.
    answer_due: bool,
}

#[derive(Debug)]
enum State {
    Head { bytes: Vec<u8>, lines: Lines },
    Body(Body),
    Wait,
    Tunnel,
    Failed(RequestError),
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracker {
    pub fn new() -> Self {
        Self { state: State::next_head(), answer_due: false }
    }

    /// Takes the next bytes, as far as they belong together.
    pub fn feed(&mut self, input: &[u8]) -> Result<Step, RequestError> {
        let step = match &mut self.state {
            State::Head { bytes, lines } => match fill(bytes, lines, input) {
                Ok(None) => Ok(Step::Kept { taken: input.len() }),
                Ok(Some((taken, head))) => {
                    self.answer_due = matches!(head.upgrade, Upgrade::Connect | Upgrade::Asked(_));
                    self.state = Body::of(&head).map_or_else(|| self.after_body(), State::Body);
                    Ok(Step::Head { taken, head: Box::new(head) })
                }
                Err(error) => Err(error),
            },
            State::Body(body) => body.pass(input).map(|(taken, progress)| {
                if progress == Progress::Done {
                    self.state = self.after_body();
                }
                Step::Pass { taken }
            }),
            State::Wait => Ok(Step::Wait),
            State::Tunnel => Ok(Step::Pass { taken: input.len() }),
            State::Failed(error) => Err(*error),
        };
        if let Err(error) = &step {
            self.state = State::Failed(*error);
        }
        step
    }

    /// The server agreed to the CONNECT (2xx) or the upgrade (101) of the last head: what follows is no longer
    /// HTTP. Does nothing when the last head asked for neither, whatever the server says.
    pub fn upgraded(&mut self) {
        if self.answer_due && !matches!(self.state, State::Failed(_)) {
            self.answer_due = false;
            self.state = State::Tunnel;
        }
    }

    /// The server answered the last head in another way: a further request follows. Interim answers (100 to
    /// 199 but 101) and answers to earlier requests are not meant.
    pub fn not_upgraded(&mut self) {
        self.answer_due = false;
        if matches!(self.state, State::Wait) {
            self.state = State::next_head();
        }
    }

    /// Whether the connection may end here without cutting off a request.
    pub fn is_between_requests(&self) -> bool {
        match &self.state {
            State::Head { bytes, .. } => bytes.is_empty(),
            State::Wait | State::Tunnel => true,
            State::Body(_) | State::Failed(_) => false,
        }
    }

    fn after_body(&self) -> State {
        if self.answer_due { State::Wait } else { State::next_head() }
    }
}

impl State {
    fn next_head() -> State {
        State::Head { bytes: Vec::new(), lines: Lines::of_head() }
    }
}

/// Adds input to a head until that is complete. The number counts the input that belongs to it.
fn fill(bytes: &mut Vec<u8>, lines: &mut Lines, input: &[u8]) -> Result<Option<(usize, Head)>, RequestError> {
    let room = MAX_HEAD - bytes.len().min(MAX_HEAD);
    for (at, byte) in input.iter().enumerate() {
        if at >= room {
            return Err(RequestError::HeadTooLong);
        }
        if lines.next(*byte)? == Found::End {
            let (last, _) = input.split_at_checked(at + 1).unwrap_or((input, &[]));
            bytes.extend_from_slice(last);
            // Empty lines before a request are none of it (RFC 9112, 2.2).
            let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or_default();
            let head = Head::parse(bytes.split_off(start))?;
            return Ok(Some((at + 1, head)));
        }
    }
    bytes.extend_from_slice(input);
    Ok(None)
}

#[cfg(test)]
mod tests;
