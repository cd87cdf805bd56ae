//! One connection at one stream: takes what is to be sent, and says what becomes of the rest when it leaves.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Desk, Item, Keeping, Next, Place, STANDALONE};

/// One connection's hold of a stream, given up when dropped.
#[derive(Debug)]
pub struct Attachment {
    desk: Arc<Desk>,
    stream: u64,
    number: u64,
    give_up: Option<GiveUp>,
}

/// What the proxy is told when a client leaves a request that is not answered.
#[derive(Debug)]
pub struct GiveUp {
    pub to_proxy: mpsc::Sender<Bytes>,
    pub message: Bytes,
}

impl Attachment {
    pub(super) fn new(desk: Arc<Desk>, stream: u64, number: u64) -> Attachment {
        Attachment { desk, stream, number, give_up: None }
    }

    /// Leaving means giving up, from now on.
    pub fn giving_up(mut self, give_up: GiveUp) -> Attachment {
        self.give_up = Some(give_up);
        self
    }

    pub fn poll_next(&self, context: &Context<'_>) -> Poll<Next> {
        let mut state = self.desk.state();
        let closed = state.closed;
        let Some(stream) = state.streams.get_mut(&self.stream) else { return Poll::Ready(Next::End) };
        if stream.attached != Some(self.number) {
            let cut = stream.stalled && stream.attached.is_none();
            return Poll::Ready(if cut { Next::Cut } else { Next::End });
        }
        let Some(item) = stream.unsent().next().cloned() else {
            if closed || (stream.open == 0 && self.stream != STANDALONE) {
                return Poll::Ready(Next::End);
            }
            stream.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        stream.sent = item.number;
        stream.unsent_bytes = stream.unsent_bytes.saturating_sub(item.size());
        if self.desk.keeping == Keeping::UntilSent {
            stream.items.pop_front();
            state.kept_bytes = state.kept_bytes.saturating_sub(item.size());
            state.kept_messages = state.kept_messages.saturating_sub(1);
        }
        drop(state);
        self.desk.drained.notify_one();
        Poll::Ready(Next::Item(item))
    }

    pub async fn next(&self) -> Next {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Whether every request of this stream is answered.
    pub fn is_answered(&self) -> bool {
        self.desk.state().streams.get(&self.stream).is_none_or(|stream| stream.open == 0)
    }

    /// From now on the client learns where it is, and can come back.
    pub fn make_resumable(&self) {
        if let Some(stream) = self.desk.state().streams.get_mut(&self.stream) {
            stream.resumable = true;
        }
    }

    pub fn place_of(&self, item: &Item) -> Place {
        Place { stream: self.stream, number: item.number }
    }

    /// A place before everything that has not been sent.
    pub fn place(&self) -> Place {
        let state = self.desk.state();
        Place { stream: self.stream, number: state.streams.get(&self.stream).map_or(0, |stream| stream.sent) }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        state.used = Instant::now();
        let Some(stream) = state.streams.get_mut(&self.stream) else { return };
        if stream.attached.is_some_and(|attached| attached != self.number) {
            return;
        }
        stream.attached = None;
        let unanswered = stream.open > 0;
        if !stream.resumable || self.desk.keeping == Keeping::UntilSent {
            state.remove(self.stream);
        } else {
            state.forget_oldest();
        }
        drop(state);
        self.desk.drained.notify_one();
        if unanswered && let Some(GiveUp { to_proxy, message }) = self.give_up.take() {
            tell(to_proxy, message);
        }
    }
}

/// At once when there is room, else as soon as there is.
fn tell(to_proxy: mpsc::Sender<Bytes>, message: Bytes) {
    if let Err(mpsc::error::TrySendError::Full(message)) = to_proxy.try_send(message)
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(async move { to_proxy.send(message).await });
    }
}
