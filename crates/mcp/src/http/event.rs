//! Server-sent events: how messages are written on a stream, and the comments that keep a silent one alive.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use super::desk::{Attachment, Item, Next, Place};

/// How long a client should wait before it comes back.
const RETRY: &str = "retry: 1000";

/// Whether events have ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// They have, and the first event gives the client one before there is any message (since 2025-11-25).
    Primed,
    /// They have; older clients take an event without data for a message and fail.
    Plain,
    /// They have not: there is nothing to come back to.
    None,
}

/// A stream that is being sent.
#[derive(Debug)]
pub struct Events {
    attachment: Attachment,
    ids: Ids,
    ready: VecDeque<Bytes>,
    alive: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl Events {
    /// Begins with messages that were already taken from the stream.
    pub fn begin(
        attachment: Attachment,
        ids: Ids,
        start: Place,
        first: Vec<Item>,
        keep_alive: Duration,
    ) -> Events {
        let mut ready = VecDeque::new();
        match ids {
            Ids::Primed => ready.push_back(Bytes::from(format!("id: {start}\n{RETRY}\ndata: \n\n"))),
            // So that the head is sent at once.
            Ids::Plain | Ids::None => ready.push_back(Bytes::from_static(b": open\n\n")),
        }
        if ids != Ids::None {
            attachment.make_resumable();
        }
        let alive = Box::pin(tokio::time::sleep(keep_alive));
        let mut events = Events { attachment, ids, ready, alive, keep_alive };
        for item in first {
            events.write(item);
        }
        events
    }

    fn write(&mut self, item: Item) {
        let head = match self.ids {
            Ids::Primed | Ids::Plain => format!("id: {}\ndata: ", self.attachment.place_of(&item)),
            Ids::None => "data: ".to_owned(),
        };
        write(&mut self.ready, head, item.parts);
    }

    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                self.alive.as_mut().reset(Instant::now() + self.keep_alive);
                return Poll::Ready(Some(Ok(part)));
            }
            match self.attachment.poll_next(context) {
                Poll::Ready(Next::Item(item)) => self.write(item),
                Poll::Ready(Next::End) => return Poll::Ready(None),
                Poll::Ready(Next::Cut) => return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into()))),
                Poll::Pending => match self.alive.as_mut().poll(context) {
                    Poll::Ready(()) => self.ready.push_back(Bytes::from_static(b": alive\n\n")),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}

/// A line break in a message would end the line, and what follows could be an event of somebody's own making:
/// each becomes the beginning of another line of data.
fn write(ready: &mut VecDeque<Bytes>, head: String, parts: Vec<Bytes>) {
    ready.push_back(Bytes::from(head));
    for mut part in parts {
        while let Some(at) = part.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let line = part.split_to(at);
            if !line.is_empty() {
                ready.push_back(line);
            }
            ready.push_back(Bytes::from_static(b"\ndata: "));
            let _ = part.split_to(1);
        }
        if !part.is_empty() {
            ready.push_back(part);
        }
    }
    ready.push_back(Bytes::from_static(b"\n\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&'static str]) -> String {
        let mut ready = VecDeque::new();
        write(
            &mut ready,
            "id: 1-2\ndata: ".to_owned(),
            parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect(),
        );
        String::from_utf8(ready.iter().flatten().copied().collect()).unwrap()
    }

    #[test]
    fn a_message_is_one_event() {
        assert_eq!(written(&["{\"a\":", "", "1}"]), "id: 1-2\ndata: {\"a\":1}\n\n");
    }

    #[test]
    fn a_line_break_cannot_begin_an_event() {
        let text = written(&["{\"a\":\r1}\n", "\nid: 9-9\r\rdata: {\"forged\":1}"]);
        assert_eq!(text.matches("\n\n").count(), 1);
        assert!(text.lines().skip(1).all(|line| line.is_empty() || line.starts_with("data: ")), "{text}");
        assert!(!text.contains('\r'));
    }
}
