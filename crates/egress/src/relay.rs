//! Copies bytes between two ends until both have finished. There is one buffer for all connections: an idle
//! connection costs nothing, and what a slow reader leaves over is bounded.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    pin::Pin,
    task::ready,
};

use tokio::{
    io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

/// Large enough that a bulk transfer is bound by memory, not by calls.
const BUFFER: usize = 256 << 10;
/// With many connections each takes less, so that what slow readers leave over stays bounded.
const MODEST: usize = 16 << 10;
const MANY: u64 = 64;

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
    static RELAYS: Cell<u64> = const { Cell::new(0) };
}

/// How much has gone which way.
#[derive(Debug, Default)]
pub struct Traffic {
    pub sent: Cell<u64>,
    pub received: Cell<u64>,
}

pub fn count(counter: &Cell<u64>, bytes: usize) {
    counter.set(counter.get() + bytes as u64);
}

/// Counts the relays of this thread.
pub struct Busy;

impl Busy {
    pub fn start() -> Busy {
        RELAYS.set(RELAYS.get() + 1);
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        RELAYS.set(RELAYS.get() - 1);
    }
}

enum Moved {
    End,
    All(usize),
    Some { moved: usize, rest: Vec<u8> },
}

/// Copies everything from one end to the other, and tells the other when there is no more.
pub async fn pump(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, counter: &Cell<u64>) -> io::Result<()> {
    loop {
        match move_some(from, to).await? {
            Moved::End => return finish(to).await,
            Moved::All(moved) => count(counter, moved),
            Moved::Some { moved, rest } => {
                count(counter, moved);
                write_all(to, &rest, counter).await?;
            }
        }
    }
}

/// Tells the other end that nothing more comes.
pub async fn finish(to: &mut WriteHalf<'_>) -> io::Result<()> {
    match to.shutdown().await {
        // The other side has gone already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        other => other,
    }
}

pub async fn write_all(to: &mut WriteHalf<'_>, mut bytes: &[u8], counter: &Cell<u64>) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                count(counter, written);
                bytes = bytes.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads what there is, without keeping it: `look` sees it; `None` at the end.
pub async fn read_some<T>(
    from: &mut ReadHalf<'_>,
    mut look: impl FnMut(&[u8]) -> T,
) -> io::Result<Option<T>> {
    poll_fn(|context| {
        SHARED.with_borrow_mut(|shared| {
            let size = if RELAYS.get() > MANY { MODEST } else { BUFFER };
            let mut buffer = ReadBuf::new(shared.get_mut(..size).unwrap_or_default());
            ready!(Pin::new(&mut *from).poll_read(context, &mut buffer))?;
            let filled = buffer.filled();
            Ok((!filled.is_empty()).then(|| look(filled))).into()
        })
    })
    .await
}

async fn move_some(from: &mut ReadHalf<'_>, to: &WriteHalf<'_>) -> io::Result<Moved> {
    let moved = read_some(from, |bytes| match to.try_write(bytes) {
        Ok(written) if written == bytes.len() => Ok(Moved::All(written)),
        Ok(written) => {
            Ok(Moved::Some { moved: written, rest: bytes.get(written..).unwrap_or_default().to_vec() })
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Ok(Moved::Some { moved: 0, rest: bytes.to_vec() })
        }
        Err(error) => Err(error),
    });
    moved.await?.unwrap_or(Ok(Moved::End))
}

/// A buffer that is kept between two reads gives back what it needed once.
pub fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(MODEST);
}

/// So many connections may have buffers as large as the kernel likes.
const FREE: u64 = 8;
/// What all others together may have in each of the four buffers of a connection.
const TOGETHER: u64 = 16 << 20;

/// With many connections each gets smaller buffers in the kernel: that memory is nobody's.
pub fn make_modest(inner: &TcpStream, outer: &TcpStream, open: u64) {
    if open <= FREE {
        return;
    }
    let size = usize::try_from(TOGETHER / open).unwrap_or(MODEST).clamp(MODEST, 1 << 20);
    for stream in [inner, outer] {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream, size);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, size);
    }
}

/// Ends a connection so that the other side learns that it broke off.
pub fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
}
