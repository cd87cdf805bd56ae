//! What waits to be written to a server: never blocks who puts something in, and says how much waits.

use std::{
    io::IoSlice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

#[derive(Debug, Clone)]
pub struct Outbox {
    queue: mpsc::UnboundedSender<Vec<Bytes>>,
    waiting: Arc<AtomicUsize>,
}

/// Whoever reads is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads any more")]
pub struct Closed;

impl Outbox {
    /// Writes one message after the other, each with a line break. The future ends when writing fails or the
    /// last outbox is dropped.
    pub fn new<W: AsyncWrite + Unpin>(writer: W) -> (Outbox, impl Future<Output = ()>) {
        let (queue, messages) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        (Outbox { queue, waiting: Arc::clone(&waiting) }, write_all(writer, messages, waiting))
    }

    pub fn put(&self, parts: Vec<Bytes>) -> Result<(), Closed> {
        let size: usize = parts.iter().map(Bytes::len).sum();
        self.waiting.fetch_add(size, Ordering::Relaxed);
        self.queue.send(parts).map_err(|_| Closed)
    }

    /// Bytes that are not written yet.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut messages: mpsc::UnboundedReceiver<Vec<Bytes>>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(message) = messages.recv().await {
        let size: usize = message.iter().map(Bytes::len).sum();
        let written = write_line(&mut writer, message).await;
        waiting.fetch_sub(size, Ordering::Relaxed);
        if written.is_err() {
            return;
        }
    }
}

/// A message and its line break, without putting the parts together first.
pub async fn write_line<W: AsyncWrite + Unpin>(writer: &mut W, parts: Vec<Bytes>) -> std::io::Result<()> {
    let mut parts: std::collections::VecDeque<Bytes> = parts.into();
    parts.push_back(Bytes::from_static(b"\n"));
    while !parts.is_empty() {
        let slices: Vec<IoSlice<'_>> = parts.iter().take(64).map(|part| IoSlice::new(part)).collect();
        let mut written = writer.write_vectored(&slices).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        while let Some(first) = parts.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            parts.pop_front();
        }
    }
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order_through_a_narrow_pipe() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(7);
            let (outbox, writing) = Outbox::new(near);
            let long = "x".repeat(1000);
            outbox
                .put(vec![
                    Bytes::from_static(b"{\"id\":"),
                    Bytes::from_static(b"1"),
                    Bytes::from_static(b"}"),
                ])
                .unwrap();
            outbox.put(vec![Bytes::from(long.clone())]).unwrap();
            assert_eq!(outbox.waiting(), 1008);
            let waiting = outbox.clone();
            drop(outbox);
            let reading = async {
                let mut all = Vec::new();
                tokio::io::AsyncReadExt::read_to_end(&mut far, &mut all).await.unwrap();
                all
            };
            let checked = Arc::clone(&waiting.waiting);
            drop(waiting);
            let ((), all) = tokio::join!(writing, reading);
            assert_eq!(all, format!("{{\"id\":1}}\n{long}\n").as_bytes());
            assert_eq!(checked.load(Ordering::Relaxed), 0);
        });
    }
}
