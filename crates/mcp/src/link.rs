//! The line between a front (stdio, HTTP) and the proxy: whole JSON-RPC messages as bytes, without the newline.

use bytes::Bytes;
use tokio::sync::mpsc;

/// The front's end.
#[derive(Debug)]
pub struct Front {
    pub to_proxy: mpsc::Sender<Bytes>,
    pub from_proxy: mpsc::Receiver<Outgoing>,
}

/// What the proxy sends.
#[derive(Debug)]
pub struct Outgoing {
    /// Concatenated they are one message.
    pub parts: Vec<Bytes>,
    pub about: About,
}

/// What a message is about, so that an HTTP front knows on which stream it belongs. Ids are raw JSON, as the
/// client wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The response to the client's request with this id.
    Response(Bytes),
    /// Belongs to the client's request with this id: progress, a question to the client during a call.
    Request(Bytes),
    /// Nothing in particular.
    Nothing,
}

impl Front {
    /// One whose other end is gone already.
    pub fn over() -> Front {
        Front { to_proxy: mpsc::channel(1).0, from_proxy: mpsc::channel(1).1 }
    }
}
