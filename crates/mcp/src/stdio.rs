//! The front on standard input and output: a message per line.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use bytes::Bytes;
use rustix::fs::{FileType, OFlags};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    line::{Incoming, Lines},
    link::Front,
    outbox::write_line,
    reply::{self, Code},
};

/// So often it is looked whether anybody still reads.
const LOOKING: std::time::Duration = std::time::Duration::from_millis(250);

/// A stream, and whether it was blocking before: it is shared with whoever started this program.
#[derive(Debug)]
pub struct Borrowed {
    original: OwnedFd,
    flags: OFlags,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_setfl(&self.original, self.flags);
    }
}

/// Carries messages between a proxy and the streams until either ends.
pub async fn serve(front: Front, limit: usize) -> io::Result<()> {
    let (input, _restore_input) = input()?;
    let (mut output, _restore_output) = output()?;
    let Front { to_proxy, mut from_proxy } = front;
    let (refused, mut refusals) = tokio::sync::mpsc::channel::<Bytes>(16);
    let reading = tokio::spawn(async move {
        let mut lines = Lines::new(input, limit);
        while let Ok(Some(incoming)) = lines.next().await {
            let sent = match incoming {
                Incoming::Line(line) => to_proxy.send(line).await.is_ok(),
                Incoming::Endless { .. } => return,
                Incoming::TooLong { id, length } => {
                    let text = format!("a message of {length} bytes is too long; at most {limit} are taken");
                    let id = id.unwrap_or_else(|| Bytes::from_static(b"null"));
                    refused.send(reply::error(&id, Code::InvalidRequest, &text)).await.is_ok()
                }
            };
            if !sent {
                return;
            }
        }
    });
    let reader = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    loop {
        let parts = tokio::select! {
            outgoing = from_proxy.recv() => match outgoing {
                Some(outgoing) => outgoing.parts,
                None => break,
            },
            Some(refusal) = refusals.recv() => vec![refusal],
            // Who has said everything may still read, or be gone.
            () = tokio::time::sleep(LOOKING), if reading.is_finished() => {
                if has_left(&reader) {
                    break;
                }
                continue;
            }
        };
        if write_line(&mut output, parts).await.is_err() {
            // Nobody reads: dropping the front ends the proxy.
            break;
        }
    }
    reading.abort();
    Ok(())
}

/// Has the other end of this pipe been closed?
fn has_left(output: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut polled = [PollFd::new(output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

fn input() -> io::Result<(Box<dyn AsyncRead + Send + Unpin>, Option<Borrowed>)> {
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    if is_pipe(&stdin) {
        let restore = borrowed(&stdin)?;
        return Ok((Box::new(tokio::net::unix::pipe::Receiver::from_owned_fd(stdin)?), Some(restore)));
    }
    if is_socket(&stdin) {
        let restore = borrowed(&stdin)?;
        let socket = std::os::unix::net::UnixStream::from(stdin);
        socket.set_nonblocking(true)?;
        return Ok((Box::new(tokio::net::UnixStream::from_std(socket)?), Some(restore)));
    }
    // A file or a terminal cannot be waited for: a thread reads it.
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let mut file = std::fs::File::from(stdin);
    let (chunks, mut arriving) = tokio::sync::mpsc::channel::<Bytes>(4);
    std::thread::Builder::new().name("lazaret-stdin".to_owned()).spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count) = io::Read::read(&mut file, &mut buffer) {
            let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { return };
            if chunks.blocking_send(Bytes::copy_from_slice(chunk)).is_err() {
                return;
            }
        }
    })?;
    tokio::spawn(async move {
        while let Some(chunk) = arriving.recv().await {
            if tokio::io::AsyncWriteExt::write_all(&mut near, &chunk).await.is_err() {
                return;
            }
        }
    });
    Ok((Box::new(far), None))
}

fn output() -> io::Result<(Box<dyn AsyncWrite + Send + Unpin>, Option<Borrowed>)> {
    let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    if is_pipe(&stdout) {
        let restore = borrowed(&stdout)?;
        return Ok((Box::new(tokio::net::unix::pipe::Sender::from_owned_fd(stdout)?), Some(restore)));
    }
    if is_socket(&stdout) {
        let restore = borrowed(&stdout)?;
        let socket = std::os::unix::net::UnixStream::from(stdout);
        socket.set_nonblocking(true)?;
        return Ok((Box::new(tokio::net::UnixStream::from_std(socket)?), Some(restore)));
    }
    Ok((Box::new(Plain(std::fs::File::from(stdout))), None))
}

fn is_pipe(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

fn is_socket(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
        && rustix::net::sockopt::socket_domain(fd)
            .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX)
}

fn borrowed(fd: &OwnedFd) -> io::Result<Borrowed> {
    let original = fd.as_fd().try_clone_to_owned()?;
    let flags = rustix::fs::fcntl_getfl(&original)?;
    Ok(Borrowed { original, flags })
}

/// A file or a terminal: writing is done at once.
struct Plain(std::fs::File);

impl AsyncWrite for Plain {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::task::Poll::Ready(io::Write::write(&mut self.get_mut().0, bytes))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}
