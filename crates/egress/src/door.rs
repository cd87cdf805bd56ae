//! The front door for programs that look for a proxy: HTTP (forward and CONNECT) and SOCKS 5 on one port, told
//! apart by the first byte. The rules and the record are the same as for everybody.

mod forward;
mod socks;

use std::{cell::Cell, io, net::SocketAddr, rc::Rc, time::Duration};

use lazaret_policy::{
    host::Host,
    network::{Denial, Reason},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::spawn_local,
    time::timeout,
};

use crate::{
    carry::Journey,
    engine::{Shared, UnderWay},
    event::{Event, Origin, Refused, Way},
    relay::{self, read_some},
};

/// How long a client may take to say what it wants.
const SAYING: Duration = Duration::from_secs(10);
/// So many clients may be at the door at once.
const MOST_CLIENTS: u32 = 2048;

/// Serves the door; only returns when the socket fails.
pub async fn serve(shared: Rc<Shared>, listener: TcpListener) -> io::Result<()> {
    let clients = Rc::new(Cell::new(0));
    loop {
        let client = accept(&listener).await?;
        if clients.get() >= MOST_CLIENTS {
            let origin = Origin::Port(client.peer_addr().map_or(0, |peer| peer.port()));
            relay::reset(&client);
            drop(client);
            let denial = Denial {
                reason: Reason::ConnectionLimit,
                rule: None,
                detail: format!("{MOST_CLIENTS} clients are at the proxy, and this would be one more"),
                remedy: "nothing allows more".to_owned(),
            };
            tell_refused(&shared, "(proxy)".to_owned(), 0, &origin, Way::HttpProxy, denial).await;
            continue;
        }
        clients.set(clients.get() + 1);
        let clients = Rc::clone(&clients);
        let under_way = UnderWay::new(&shared);
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            let _under_way = under_way;
            let _ = attend(&shared, client).await;
            clients.set(clients.get() - 1);
        });
    }
}

/// The next client. That there are no descriptors left for the moment is no reason to stop.
pub async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => match error.raw_os_error() {
                // EMFILE, ENFILE, ENOBUFS, ENOMEM
                Some(24 | 23 | 105 | 12) => tokio::time::sleep(Duration::from_millis(20)).await,
                // ECONNABORTED, EPROTO, EINTR
                Some(103 | 71 | 4) => {}
                _ => return Err(error),
            },
        }
    }
}

async fn attend(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    let origin = Origin::Port(client.peer_addr()?.port());
    let mut early = Vec::new();
    read_more(&mut client, &mut early).await?;
    match early.first() {
        Some(5) => socks::serve(shared, client, origin, early).await,
        Some(_) => forward::serve(shared, client, origin, early).await,
        None => Ok(()),
    }
}

/// Adds what comes next; an error at the end, or when nothing comes for too long.
async fn read_more(client: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<()> {
    let (mut from, _) = client.split();
    match timeout(SAYING, read_some(&mut from, |bytes| into.extend_from_slice(bytes))).await {
        Ok(Ok(Some(()))) => Ok(()),
        Ok(Ok(None)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn write(client: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let (_, mut to) = client.split();
    timeout(SAYING, relay::write_all(&mut to, bytes, &Cell::new(0))).await?
}

/// Says something and hangs up, in such a way that it is read.
async fn last_word(client: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    write(client, bytes).await?;
    let (mut from, mut to) = client.split();
    relay::finish(&mut to).await?;
    // What the client still sends is taken off the line: else its end would break before it has read.
    let drained = async { while let Ok(Some(())) = read_some(&mut from, |_| ()).await {} };
    let _ = timeout(Duration::from_secs(1), drained).await;
    Ok(())
}

/// May this client go there?
fn admit(
    shared: &Shared,
    host: &str,
    port: u16,
    origin: &Origin,
    way: Way,
) -> Result<Journey, (String, Denial)> {
    let parsed = Host::parse(host).map_err(|error| {
        let denial = Denial {
            reason: Reason::InvalidHost,
            rule: None,
            detail: format!("{host:?} is no host: {error}"),
            remedy: "write the name or address of a host".to_owned(),
        };
        (host.to_owned(), denial)
    })?;
    let shown = parsed.to_string();
    let judged = match parsed {
        // Some look a name up by themselves: what they got stands for that name.
        Host::Address(address) => shared.gate.judge_address(SocketAddr::new(address, port)),
        name => shared.gate.judge(name, port),
    };
    let judged = judged.and_then(|target| {
        let slot = shared.gate.admit(&target)?;
        Ok(Journey::new(shared, target, slot, origin.clone(), way))
    });
    judged.map_err(|denial| (shown, denial))
}

/// The client asked for what this door does not do, or in no way that can be read.
async fn tell_misused(shared: &Shared, origin: &Origin, way: Way, what: &str) {
    let denial = Denial {
        reason: Reason::ProtocolRefused,
        rule: None,
        detail: what.to_owned(),
        remedy: "the proxy takes plain HTTP requests, CONNECT, and SOCKS 5 without a password".to_owned(),
    };
    tell_refused(shared, "(proxy)".to_owned(), 0, origin, way, denial).await;
}

async fn tell_refused(shared: &Shared, host: String, port: u16, origin: &Origin, way: Way, denial: Denial) {
    let refused = Refused { origin: origin.clone(), way, host, port, address: None, denial };
    shared.teller.tell(Event::Refused(Box::new(refused))).await;
}
