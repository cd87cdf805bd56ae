//! One connection, from its beginning to its end: resolve, guard, dial, check what is said first, copy, tell.

use std::{
    cell::Cell,
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
    engine::{Shared, Teller, stream},
    event::{Closed, Event, Origin, Refused, Way},
    gate::{Slot, Target},
    guard, parent,
    relay::{self, Traffic, reset},
};

/// A connection that has been allowed. Whatever becomes of it, it is told: at the latest when it is dropped.
#[derive(Debug)]
pub struct Journey {
    pub target: Target,
    slot: Option<Slot>,
    origin: Origin,
    way: Way,
    began: Instant,
    traffic: Traffic,
    address: Cell<Option<IpAddr>>,
    teller: Teller,
    told: Cell<bool>,
}

impl Drop for Journey {
    fn drop(&mut self) {
        if !self.told.get() {
            let closed = self.closed(Some("it was given up".to_owned()));
            self.slot = None;
            self.teller.tell_now(closed);
        }
    }
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
    pub fn new(shared: &Shared, target: Target, slot: Slot, origin: Origin, way: Way) -> Journey {
        Journey {
            target,
            slot: Some(slot),
            origin,
            way,
            began: Instant::now(),
            traffic: Traffic::default(),
            address: Cell::new(None),
            teller: shared.teller.clone(),
            told: Cell::new(false),
        }
    }

    /// Connects to the target, at an address that was checked.
    pub async fn set_out(&self, shared: &Shared) -> Result<TcpStream, NoWay> {
        let rules = shared.gate.rules();
        if let Some(upstream) = rules.parent_of(&self.target.host, self.target.port) {
            // An address is judged here; what a name leads to is known only there.
            guard::judge_early(&shared.gate, &self.target).map_err(NoWay::Denied)?;
            let reached = parent::reach(upstream, &shared.resolver, &self.target.host, self.target.port);
            return shared.until_over(reached).await.map_err(NoWay::Unreachable);
        }
        let addresses =
            guard::addresses(&shared.gate, &shared.resolver, &self.target).await.map_err(NoWay::Denied)?;
        let server = shared.until_over(dial::dial(&addresses)).await.map_err(NoWay::Unreachable)?;
        self.has_arrived(&server);
        Ok(server)
    }

    pub fn has_arrived(&self, server: &TcpStream) {
        self.address.set(server.peer_addr().ok().map(|peer| peer.ip()));
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
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
            NoWay::Denied(denial) => self.tell_refused(shared, denial).await,
            NoWay::Unreachable(error) => self.tell_closed(shared, Some(error.to_string())).await,
        }
    }

    pub async fn tell_refused(mut self, shared: &Shared, denial: Denial) {
        let refused = Refused {
            origin: self.origin.clone(),
            way: self.way,
            host: self.target.host.to_string(),
            port: self.target.port,
            address: self.address.get(),
            denial,
        };
        self.told.set(true);
        self.slot = None;
        shared.teller.tell(Event::Refused(Box::new(refused))).await;
    }

    pub async fn tell_closed(mut self, shared: &Shared, failure: Option<String>) {
        let closed = self.closed(failure);
        self.told.set(true);
        // The place is free before anybody hears that it is.
        self.slot = None;
        shared.teller.tell(closed).await;
    }

    fn closed(&self, failure: Option<String>) -> Event {
        Event::Closed(Box::new(Closed {
            origin: self.origin.clone(),
            way: self.way,
            host: self.target.host.clone(),
            port: self.target.port,
            address: self.address.get(),
            rule: self.target.rule.clone(),
            sent: self.traffic.sent.get(),
            received: self.traffic.received.get(),
            duration: self.began.elapsed(),
            failure,
        }))
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
    mut end: oneshot::Receiver<OwnedFd>,
    journey: Journey,
) {
    const EACCES: i32 = 13;
    let set_out = tokio::select! {
        set_out = journey.set_out(shared) => set_out,
        // Nobody waits for it any more.
        _ = &mut end => return,
    };
    match set_out {
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
    let expectation = journey.expectation(shared);
    relay::make_modest(&client, &server, shared.gate.open_connections());
    let relay = check::relay(&mut client, &mut server, expectation.as_ref(), journey.traffic(), early);
    let ended = shared.until_over(relay).await;
    match ended {
        Ok(()) => journey.tell_closed(shared, None).await,
        Err(Broken::Io(error)) => {
            reset(&client);
            reset(&server);
            drop((client, server));
            journey.tell_closed(shared, Some(error.to_string())).await;
        }
        Err(Broken::Denied(denial)) => {
            reset(&server);
            drop((client, server));
            journey.tell_refused(shared, denial).await;
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
        Ok(mut server) => {
            shared.until_over(check::relay(&mut server, &mut client, None, &traffic, Vec::new())).await
        }
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
