//! The streamable HTTP front: clients of this machine that show the token speak MCP over HTTP. Messages pass as
//! they are; what they mean is left to the proxy at the other end of each [`Front`].
//!
//! Both generations of the protocol are served at `/mcp`. Until 2025-11-25 a client begins a session with
//! `initialize`, which has a proxy of its own, and streams that can be resumed. Since 2026-07-28 every request
//! stands for itself, and all of them share a proxy.

use std::{
    future::Future,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{interval, timeout},
};

use self::{
    exchange::{Desks, NotOpened, Open},
    guard::Guard,
    session::Sessions,
    token::Token,
};
use crate::link::Front;

mod alias;
mod answer;
mod body;
mod desk;
mod event;
mod exchange;
mod guard;
mod head;
mod origin;
mod posted;
mod session;
mod splice;
mod stateless;
pub mod token;

pub use exchange::PATH;
pub use origin::{NotAnOrigin, Origin};

/// Connections at once, all sessions together.
const CONNECTIONS: usize = 256;
/// What a client was sent and does not take within this time ends its connection.
const WRITE_TIME: Duration = Duration::from_secs(30);
const HEAD_BYTES: usize = 32 << 10;
const HEADERS: usize = 64;
/// For answers that are under way when everything ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long the front waits for what.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The head of a request must come within this time, and a connection without requests is closed after it.
    head: Duration,
    /// Between two pieces of a body.
    body: Duration,
    /// How long a request may be silent before its answer becomes a stream, which can be kept alive.
    patience: Duration,
    /// Between two signs of life on a silent stream: shorter than clients and their proxies usually wait.
    keep_alive: Duration,
}

const PACE: Pace = Pace {
    head: Duration::from_secs(10),
    body: Duration::from_secs(10),
    patience: Duration::from_secs(10),
    keep_alive: Duration::from_secs(15),
};

/// How the front is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// 127.0.0.1 or ::1; port 0 takes a free one.
    pub address: SocketAddr,
    pub token: Token,
    /// Bytes of a request's body.
    pub max_body: usize,
    pub max_sessions: usize,
    /// Pages besides those of this machine that may use the front from a browser.
    pub allowed_origins: Vec<Origin>,
    /// After this time without a connection a session ends.
    pub idle: Duration,
}

impl Config {
    /// A free port of 127.0.0.1, with limits that suit a person's own clients.
    pub fn new(token: Token) -> Config {
        Config {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token,
            max_body: 16 << 20,
            max_sessions: 16,
            allowed_origins: Vec::new(),
            idle: Duration::from_secs(30 * 60),
        }
    }
}

/// Why there is no front.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(
        "{address} is not an address of this machine alone; the HTTP front listens on 127.0.0.1 or [::1] only"
    )]
    NotLoopback { address: SocketAddr },
    #[error(
        "cannot listen on {address}: {source}; another program may have the port, port 0 takes a free one"
    )]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot serve on {address}: {source}")]
    Serve { address: SocketAddr, source: io::Error },
}

/// Which kind of client a proxy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// One client that begins with `initialize` (until 2025-11-25).
    Handshake,
    /// All clients that do not (since 2026-07-28). Ids and progress tokens are unique among them; a
    /// `notifications/cancelled` says that a client has left.
    Stateless,
}

/// A front that has its port and does not serve yet.
#[derive(Debug)]
pub struct Bound {
    config: Config,
    listener: TcpListener,
    address: SocketAddr,
    pace: Pace,
}

/// Takes the port.
pub fn bind(config: &Config) -> Result<Bound, HttpError> {
    let address = config.address;
    if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
        return Err(HttpError::NotLoopback { address });
    }
    let failed = |source| HttpError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { config: config.clone(), listener, address, pace: PACE })
}

impl Bound {
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// What a client is to be given.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `shutdown` is there: then sessions end, answers under way have a moment, and everything is
    /// closed. Needs a tokio runtime with time and network. `connect` is called here, in no other task.
    pub async fn serve(
        self,
        connect: impl Fn(Generation) -> Front,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), HttpError> {
        let Bound { config, listener, address, pace } = self;
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(|source| HttpError::Serve { address, source })?;
        let sessions = Arc::new(Sessions::default());
        let (opening, mut opens) = mpsc::channel(16);
        let desks = Arc::new(Desks {
            guard: Guard {
                port: address.port(),
                allowed_origins: config.allowed_origins,
                token: config.token,
            },
            max_body: config.max_body,
            pace,
            sessions: Arc::clone(&sessions),
            opening,
        });
        let (closing, closed) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut readers = JoinSet::new();
        let mut sweep = interval((config.idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(30)));
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if connections.len() < CONNECTIONS => {
                        connections.spawn(carry(stream, Arc::clone(&desks), closed.clone()));
                    }
                    Ok((stream, _)) => turn_away(stream),
                    // Usually no descriptors are left; those who are here give theirs back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(open) = opens.recv() => {
                    let Open { generation, reply } = open;
                    let session = match generation {
                        Generation::Stateless => sessions.shared().map(Ok),
                        Generation::Handshake => {
                            (!sessions.has_room(config.max_sessions)).then_some(Err(NotOpened::TooMany))
                        }
                    };
                    let session = session.unwrap_or_else(|| {
                        sessions.add(connect(generation), generation, &mut readers).map_err(|_| NotOpened::Failed)
                    });
                    // A client that has left: the session ends when nobody keeps it.
                    if let Err(Ok(session)) = reply.send(session)
                        && generation == Generation::Handshake
                    {
                        sessions.end(&session);
                    }
                },
                Some(_) = connections.join_next() => {}
                Some(_) = readers.join_next() => {}
                _ = sweep.tick() => sessions.end_idle(config.idle),
            }
        }
        drop(listener);
        sessions.end_all();
        let _ = closing.send(());
        let _ = timeout(FAREWELL, async { while connections.join_next().await.is_some() {} }).await;
        Ok(())
    }
}

/// One connection, from its first request to its last.
async fn carry(stream: TcpStream, desks: Arc<Desks>, mut closed: watch::Receiver<()>) {
    // Without these it is slower, or held longer by somebody who does not read, but not wrong.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(
        &stream,
        WRITE_TIME.as_millis().try_into().unwrap_or(u32::MAX),
    );
    let head_time = desks.pace.head;
    let service = service_fn(move |request| {
        let desks = Arc::clone(&desks);
        async move { Ok::<_, std::convert::Infallible>(desks.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // An error is the client's: it has left, or does not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Says why without waiting for anything.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    // Nothing depends on whether it arrives.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(ANSWER);
    }
}

#[cfg(test)]
mod tests;
