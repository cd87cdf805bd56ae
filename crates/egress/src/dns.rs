//! The sandbox's own name server. It asks nobody: an allowed name gets the addresses that stand for it, every
//! other name does not exist, and so no question ever leaves the host.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    rc::Rc,
    time::{Duration, Instant},
};

use lazaret_policy::{
    host::{Host, Name},
    violation::is_told,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    task::spawn_local,
    time::timeout,
};

use crate::{
    door,
    engine::Shared,
    event::{Answered, Event, Looked, Origin},
    wire::{self, MAX_QUERY, Query},
};

/// What an address that stands for a name may be kept for: it stays the same as long as the sandbox lives.
const TTL: u32 = 60;
const NEGATIVE_TTL: u32 = 5;
/// Questions in a second, without a limit in the policy.
pub const QUERIES_PER_SECOND: u64 = 200;
/// So many different questions are counted one by one.
const COUNTED: usize = 4096;
/// Streams at once, and how long one may be silent.
const MOST_STREAMS: u32 = 32;
const SILENCE: Duration = Duration::from_secs(10);

/// Answers questions.
#[derive(Debug)]
pub struct Server {
    shared: Rc<Shared>,
    ipv6: bool,
    search: Vec<String>,
    limit: RefCell<Limit>,
    counts: RefCell<HashMap<(String, u16), u64>>,
    open_streams: Cell<u32>,
}

/// Questions that may still be asked in this second.
#[derive(Debug)]
pub struct Limit {
    per_second: u64,
    left: u64,
    began: Instant,
    refused: u64,
}

impl Limit {
    pub fn new(per_second: u64) -> Limit {
        Limit { per_second, left: per_second, began: Instant::now(), refused: 0 }
    }

    /// `Err` with how many were refused in this second: 1 for the first.
    pub fn take(&mut self) -> Result<(), u64> {
        if self.began.elapsed() >= Duration::from_secs(1) {
            (self.began, self.left, self.refused) = (Instant::now(), self.per_second, 0);
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.refused += 1;
                Err(self.refused)
            }
        }
    }
}

/// Serves datagrams; only returns when the socket fails.
pub async fn datagrams(server: Rc<Server>, socket: UdpSocket) -> io::Result<()> {
    let mut buffer = vec![0; MAX_QUERY + 1];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // An earlier answer found nobody.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        if let Some(answer) = server.answer(bytes, from.port()).await {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// Serves streams; only returns when the socket fails.
pub async fn streams(server: Rc<Server>, listener: TcpListener) -> io::Result<()> {
    loop {
        let stream = door::accept(&listener).await?;
        if server.open_streams.get() >= MOST_STREAMS {
            let per_second = server.limit.borrow().per_second;
            server.shared.teller.tell(Event::TooManyQueries { per_second, refused: 1 }).await;
            continue;
        }
        let server = Rc::clone(&server);
        server.open_streams.set(server.open_streams.get() + 1);
        spawn_local(async move {
            let _ = converse(&server, stream).await;
            server.open_streams.set(server.open_streams.get() - 1);
        });
    }
}

async fn converse(server: &Server, mut stream: TcpStream) -> io::Result<()> {
    let port = stream.peer_addr()?.port();
    loop {
        let mut length = [0; 2];
        timeout(SILENCE, stream.read_exact(&mut length)).await??;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length)).min(MAX_QUERY + 1)];
        timeout(SILENCE, stream.read_exact(&mut bytes)).await??;
        let Some(answer) = server.answer(&bytes, port).await else { return Ok(()) };
        let length = u16::try_from(answer.len()).unwrap_or(0).to_be_bytes();
        timeout(SILENCE, stream.write_all(&[&length[..], &answer].concat())).await??;
    }
}

impl Server {
    pub fn new(shared: Rc<Shared>, ipv6: bool, search: Vec<String>, per_second: u64) -> Server {
        Server {
            shared,
            ipv6,
            search,
            limit: RefCell::new(Limit::new(per_second)),
            counts: RefCell::default(),
            open_streams: Cell::new(0),
        }
    }

    /// The bytes to answer with, if any.
    async fn answer(&self, bytes: &[u8], port: u16) -> Option<Vec<u8>> {
        let query = match wire::read_query(bytes) {
            Ok(query) => query,
            Err(error) => return error.answer(),
        };
        let taken = self.limit.borrow_mut().take();
        if let Err(refused) = taken {
            if refused == 1 {
                let per_second = self.limit.borrow().per_second;
                self.shared.teller.tell(Event::TooManyQueries { per_second, refused }).await;
            }
            return Some(query.refused());
        }
        if query.class != wire::IN {
            return Some(query.refused());
        }
        let (answer, outcome) = self.decide(&query);
        let name = query.host().unwrap_or_else(|| query.text());
        self.shared.look_at_name(&name).await;
        let count = self.count(&name, query.kind);
        let is_denied = matches!(outcome, Answered::Denied(_));
        if is_denied || is_told(count) {
            let looked = Looked {
                origin: Origin::Port(port),
                name,
                kind: kind_name(query.kind),
                answer: outcome,
                // 0: counted, but not told again.
                count: if is_told(count) { count } else { 0 },
            };
            self.shared.teller.tell(Event::Looked(Box::new(looked))).await;
        }
        Some(answer)
    }

    fn decide(&self, query: &Query) -> (Vec<u8>, Answered) {
        let gate = &self.shared.gate;
        if query.kind == wire::PTR {
            let name = query.reverse_address().and_then(|address| {
                if address.is_loopback() {
                    return Some("localhost".to_owned());
                }
                gate.meaning_of(address).map(|name| name.to_string())
            });
            return match name {
                Some(name) => (query.pointer(&name, TTL), Answered::Addresses),
                None => (query.no_such_name(NEGATIVE_TTL), Answered::Unlisted),
            };
        }
        let Some(text) = query.host() else { return (query.no_such_name(NEGATIVE_TTL), Answered::Unlisted) };
        if text == "localhost" || text.ends_with(".localhost") {
            let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return (query.addresses(&addresses, TTL), Answered::Addresses);
        }
        let Ok(Host::Name(name)) = Host::parse(&text) else {
            return (query.no_such_name(NEGATIVE_TTL), Answered::Unlisted);
        };
        match gate.look_up(&name) {
            Ok(Some(stand)) => {
                let addresses: &[IpAddr] = match query.kind {
                    wire::A => &[IpAddr::V4(stand.v4)],
                    wire::AAAA if self.ipv6 => &[IpAddr::V6(stand.v6)],
                    _ => &[],
                };
                if addresses.is_empty() {
                    return (query.no_data(TTL), Answered::Empty);
                }
                (query.addresses(addresses, TTL), Answered::Addresses)
            }
            // There is an end to names.
            Ok(None) => (query.server_failure(), Answered::Empty),
            Err(_) if self.is_only_a_search(&name) => (query.no_such_name(NEGATIVE_TTL), Answered::Unlisted),
            Err(denial) => (query.no_such_name(NEGATIVE_TTL), Answered::Denied(denial)),
        }
    }

    /// An allowed name with a domain of the host's search list appended, by a resolver that tries them all.
    fn is_only_a_search(&self, name: &Name) -> bool {
        let text = name.to_string();
        self.search.iter().any(|domain| {
            let short = text.strip_suffix(domain.as_str()).and_then(|rest| rest.strip_suffix('.'));
            let Some(Ok(Host::Name(short))) = short.map(Host::parse) else { return false };
            self.shared.gate.rules().may_resolve(&short).is_allowed()
        })
    }

    fn count(&self, name: &str, kind: u16) -> u64 {
        let mut counts = self.counts.borrow_mut();
        let known = counts.len() < COUNTED || counts.contains_key(&(name.to_owned(), kind));
        let key = if known { (name.to_owned(), kind) } else { (String::new(), 0) };
        let count = counts.entry(key).or_default();
        *count += 1;
        *count
    }
}

fn kind_name(kind: u16) -> String {
    match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        64 => "SVCB",
        65 => "HTTPS",
        255 => "ANY",
        other => return format!("TYPE{other}"),
    }
    .to_owned()
}
