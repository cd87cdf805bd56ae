//! One connection, from its beginning to its end: resolve, guard, dial, check what is said first, copy, tell.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::OwnedFd,
    time::Instant,
};

use lazaret_policy::{
    host::Host,
    network::{Denial, Reason},
};
use tokio::{net::TcpStream, sync::oneshot};

use crate::{
    check::{self, Expectation},
    dial,
    engine::{Shared, stream},
    event::{Closed, Event, Origin, Refused, Way},
    gate::{Slot, Target},
    guard,
    relay::{Traffic, reset},
};

/// A connection that has been allowed.
#[derive(Debug)]
pub struct Journey {
    pub target: Target,
    pub slot: Slot,
    pub origin: Origin,
    pub way: Way,
    pub began: Instant,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum NoWay {
    Denied(Denial),
    Unreachable(io::Error),
}

/// Why a connection ended otherwise than by its own ends.
#[derive(Debug)]
pub enum Broken {
    Io(io::Error),
    Denied(Denial),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Io(error)
    }
}

impl Journey {
    pub fn new(target: Target, slot: Slot, origin: Origin, way: Way) -> Journey {
        Journey { target, slot, origin, way, began: Instant::now() }
    }

    /// Connects to the target, at an address that was checked.
    pub async fn set_out(&self, shared: &Shared) -> Result<TcpStream, NoWay> {
        let addresses =
            guard::addresses(&shared.gate, &shared.resolver, &self.target).await.map_err(NoWay::Denied)?;
        dial::dial(&addresses).await.map_err(NoWay::Unreachable)
    }

    /// What the first bytes must agree with.
    pub fn expectation(&self, shared: &Shared) -> Option<Expectation> {
        match &self.target.host {
            Host::Name(name) if shared.gate.rules().verify_server_name() => {
                Some(Expectation { name: name.clone(), port: self.target.port })
            }
            _ => None,
        }
    }

    pub async fn tell_no_way(self, shared: &Shared, why: NoWay) {
        match why {
            NoWay::Denied(denial) => self.tell_refused(shared, None, denial).await,
            NoWay::Unreachable(error) => {
                self.tell_closed(shared, None, &Traffic::default(), Some(error.to_string())).await;
            }
        }
    }

    pub async fn tell_refused(self, shared: &Shared, address: Option<IpAddr>, denial: Denial) {
        shared
            .teller
            .tell(Event::Refused(Box::new(Refused {
                origin: self.origin,
                way: self.way,
                host: self.target.host.to_string(),
                port: self.target.port,
                address,
                denial,
            })))
            .await;
    }

    pub async fn tell_closed(
        self,
        shared: &Shared,
        address: Option<IpAddr>,
        traffic: &Traffic,
        failure: Option<String>,
    ) {
        let closed = Closed {
            origin: self.origin,
            way: self.way,
            host: self.target.host,
            port: self.target.port,
            address,
            rule: self.target.rule,
            sent: traffic.sent.get(),
            received: traffic.received.get(),
            duration: self.began.elapsed(),
            failure,
        };
        // The place is free before anybody hears that it is.
        drop(self.slot);
        shared.teller.tell(Event::Closed(Box::new(closed))).await;
    }
}

/// The program inside is connected already; what comes of dialling it learns by what becomes of that.
pub async fn dial_and_carry(shared: &Shared, client: TcpStream, journey: Journey) {
    match journey.set_out(shared).await {
        Ok(server) => carry(shared, client, server, journey, Vec::new()).await,
        Err(why) => {
            reset(&client);
            drop(client);
            journey.tell_no_way(shared, why).await;
        }
    }
}

/// The program inside waits for the outcome.
pub async fn dial_then_carry(
    shared: &Shared,
    ticket: u64,
    end: oneshot::Receiver<OwnedFd>,
    journey: Journey,
) {
    const EACCES: i32 = 13;
    match journey.set_out(shared).await {
        Ok(server) => {
            shared.teller.tell(Event::Dialled { ticket, errno: 0 }).await;
            if let Ok(Ok(client)) = end.await.map(stream) {
                carry(shared, client, server, journey, Vec::new()).await;
            }
        }
        Err(why) => {
            let errno = match &why {
                NoWay::Denied(_) => EACCES,
                NoWay::Unreachable(error) => dial::errno(error),
            };
            journey.tell_no_way(shared, why).await;
            shared.teller.tell(Event::Dialled { ticket, errno }).await;
        }
    }
}

/// Copies until both have finished. `early` has come from the client already.
pub async fn carry(
    shared: &Shared,
    mut client: TcpStream,
    mut server: TcpStream,
    journey: Journey,
    early: Vec<u8>,
) {
    let address = server.peer_addr().ok().map(|peer| peer.ip());
    let traffic = Traffic::default();
    let expectation = journey.expectation(shared);
    let ended = check::relay(&mut client, &mut server, expectation.as_ref(), &traffic, early).await;
    match ended {
        Ok(()) => journey.tell_closed(shared, address, &traffic, None).await,
        Err(Broken::Io(error)) => {
            reset(&client);
            reset(&server);
            drop((client, server));
            journey.tell_closed(shared, address, &traffic, Some(error.to_string())).await;
        }
        Err(Broken::Denied(denial)) => {
            reset(&server);
            drop((client, server));
            journey.tell_refused(shared, address, denial).await;
        }
    }
}

/// From a published port of the host to a server inside.
pub async fn carry_inside(
    shared: &Shared,
    mut client: TcpStream,
    port: u16,
    end: oneshot::Receiver<Result<OwnedFd, i32>>,
) {
    let host = Host::Address(Ipv4Addr::LOCALHOST.into());
    let began = Instant::now();
    let traffic = Traffic::default();
    let inside = match end.await {
        Ok(Ok(end)) => stream(end),
        Ok(Err(errno)) => Err(io::Error::from_raw_os_error(errno)),
        Err(_) => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    let ended = match inside {
        // Seen from the sandbox: what it sends goes to the host.
        Ok(mut server) => check::relay(&mut server, &mut client, None, &traffic, Vec::new()).await,
        Err(error) => Err(Broken::Io(error)),
    };
    let failure = match ended {
        Ok(()) => None,
        Err(Broken::Io(error)) => Some(error.to_string()),
        Err(Broken::Denied(denial)) => Some(denial.detail),
    };
    if failure.is_some() {
        reset(&client);
    }
    drop(client);
    let closed = Closed {
        origin: Origin::Host,
        way: Way::Published,
        host,
        port,
        address: None,
        rule: "network.publish".to_owned(),
        sent: traffic.sent.get(),
        received: traffic.received.get(),
        duration: began.elapsed(),
        failure,
    };
    shared.teller.tell(Event::Closed(Box::new(closed))).await;
}

/// The name that was said is not the one that was allowed.
pub fn mismatch(expected: &Expectation, detail: String) -> Broken {
    Broken::Denied(Denial {
        reason: Reason::NameMismatch,
        rule: Some("network.verifyServerName".to_owned()),
        detail,
        remedy: format!(
            "connect to {} by its own name; network.verifyServerName = false turns this check off",
            expected.name
        ),
    })
}
