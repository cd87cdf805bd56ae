//! The network of a running sandbox: which course a connection takes, what the carrying thread tells, what was
//! sent to nowhere, and the counts of it all.

mod owner;
mod pool;
mod strays;

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use lazaret_audit::{AuditError, EventKind};
use lazaret_egress::{
    dial::dial_at_once,
    dns::QUERIES_PER_SECOND,
    engine::{Doors, Engine, Published},
    event::{Answered, Closed, Event, Looked, Origin, Refused, Way},
    gate::{Gate, Slot, Target},
    guard,
};
use lazaret_policy::{
    host::Host,
    network::{Denial, Reason},
    schema::NetworkPolicy,
};
use lazaret_sandbox::{
    linux::{
        launch::Sandbox,
        network::{RESOLVER, is_inside},
        sys,
    },
    spec::Namespaces,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    lower::Lowered,
    meter::{Consequence, Exceeded},
    record::{Peer, Record, Violation, is_power_of_ten},
    report::printable,
    resolver,
};

pub use owner::Owner;

/// After its command has ended, what is still on its way out may arrive.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// So many connections have an event of their own; beyond, they are counted.
const TOLD_ONE_BY_ONE: u64 = 10_000;
/// So many hosts are counted one by one.
const COUNTED_HOSTS: usize = 1000;

/// The course of a connection.
#[derive(Debug)]
pub enum Course {
    /// Within the sandbox, or as the host's network has it: nothing to decide here.
    Plain,
    Capture {
        target: Target,
        slot: Slot,
        /// Only if nobody inside listens there.
        unless_taken: bool,
        /// The outside, if it answered at once.
        server: Option<OwnedFd>,
    },
    Deny(Denial),
}

#[derive(Debug, Default)]
pub struct Network {
    /// Present when the sandbox has a network namespace of its own.
    gate: Option<Arc<Gate>>,
    engine: Option<Engine>,
    /// Ports of the host that lead inside, until they are served.
    published: Vec<Published>,
    queries_per_second: Option<u64>,
    strays: strays::Strays,
    pub pool: pool::Pool,
    inbound: HashMap<u64, u64>,
    next_inbound: u64,
    counts: NetworkReport,
    hosts: BTreeMap<(String, u16), HostCounts>,
    told: u64,
    /// Who asked first for a name that is denied.
    askers: HashMap<String, Owner>,
    ration: owner::Ration,
    /// Names that were allowed and had no address.
    unresolved: HashMap<(String, u16), u64>,
}

/// What went over the network, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkReport {
    pub connections: u64,
    /// Allowed, but nobody answered or it broke off.
    pub failed: u64,
    pub denied: u64,
    pub queries: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub hosts: Vec<HostReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    pub host: String,
    pub port: u16,
    #[serde(flatten)]
    pub counts: HostCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostCounts {
    pub connections: u64,
    pub denied: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// What the loop has to do after something was heard.
#[derive(Debug)]
pub enum News {
    /// A violation to be counted.
    Violation(Box<Violation>),
    /// The outcome of dialling for a call that waits.
    Dialled { ticket: u64, errno: i32 },
    /// A connection to this port inside is wanted, under this number.
    Inbound { id: u64, port: u16 },
    /// The carrying thread is gone.
    Lost,
}

/// Where ports of the host are asked for, before anything is started.
pub fn publish(ports: &[lazaret_policy::network::Publish]) -> Result<Vec<Published>, (u16, io::Error)> {
    ports
        .iter()
        .map(|publish| {
            let address = (std::net::Ipv4Addr::LOCALHOST, publish.outside);
            let listener = std::net::TcpListener::bind(address).map_err(|error| (publish.outside, error))?;
            Ok(Published { listener, port: publish.inside, any_port: publish.outside == 0 })
        })
        .collect()
}

impl Network {
    pub fn new(policy: &NetworkPolicy, gate: Option<Arc<Gate>>, published: Vec<Published>) -> Network {
        Network { gate, published, queries_per_second: policy.max_dns_queries, ..Network::default() }
    }

    /// Which port of the host was taken, where any would do.
    pub fn chosen_ports(&self) -> Vec<String> {
        let chosen = self.published.iter().filter(|published| published.any_port);
        chosen
            .filter_map(|published| {
                let outside = published.listener.local_addr().ok()?;
                Some(format!("port {} of the sandbox is published at {outside}", published.port))
            })
            .collect()
    }

    /// Serves the doors from now on.
    pub fn serve(&mut self, sandbox: &mut Sandbox, lowered: &Lowered) -> io::Result<()> {
        if lowered.spec.namespaces != Namespaces::All {
            self.gate = None;
            return Ok(());
        }
        let Some(gate) = &self.gate else { return Ok(()) };
        let ipv6 = sandbox.taps().v6.is_some();
        let doors = sandbox.take_doors().map(|listeners| Doors {
            datagrams: listeners.datagrams,
            streams: listeners.streams,
            proxy: listeners.proxy,
            ipv6,
            search: resolver::search_list(),
            queries_per_second: self.queries_per_second.unwrap_or(QUERIES_PER_SECOND),
        });
        if doors.is_none() && self.published.is_empty() {
            return Ok(());
        }
        raise_descriptor_limit();
        let published = std::mem::take(&mut self.published);
        self.engine = Some(Engine::start(Arc::clone(gate), doors, published, sys::block_signals)?);
        Ok(())
    }

    /// Where a stream may go. The address is what the program gave.
    pub fn course(&self, to: SocketAddr) -> Course {
        let Some(gate) = &self.gate else { return Course::Plain };
        if to.ip().to_canonical() == IpAddr::V4(RESOLVER) {
            return Course::Plain;
        }
        let inside = is_inside(to.ip());
        if inside && !(self.engine.is_some() && gate.rules().lists_loopback(to.ip(), to.port())) {
            return Course::Plain;
        }
        let judged = if inside {
            let host = Host::Address(to.ip().to_canonical());
            Ok(Target { host, port: to.port(), rule: format!("network.allowedHosts: {to}") })
        } else {
            gate.judge_address(to)
        };
        let admitted = judged.and_then(|target| {
            if self.engine.is_none() {
                return Err(lost(&target));
            }
            let addresses = guard::judge_early(gate, &target)?;
            let slot = gate.admit(&target)?;
            let server = if inside { None } else { dial_at_once(&addresses) };
            Ok(Course::Capture { target, slot, unless_taken: inside, server })
        });
        admitted.unwrap_or_else(Course::Deny)
    }

    /// The other end of a captured connection.
    pub fn carry(&self, end: OwnedFd, server: Option<OwnedFd>, target: Target, slot: Slot, origin: Origin) {
        if let Some(engine) = &self.engine {
            engine.carry(end, server, target, slot, origin);
        }
    }

    /// Dials for a call that waits; [`News::Dialled`] tells the outcome.
    pub fn dial(&mut self, target: Target, slot: Slot, origin: Origin) -> Option<u64> {
        self.engine.as_mut().map(|engine| engine.dial(target, slot, origin))
    }

    pub fn attach(&mut self, ticket: u64, end: OwnedFd) {
        if let Some(engine) = &mut self.engine {
            engine.attach(ticket, end);
        }
    }

    pub fn abandon(&mut self, ticket: u64) {
        if let Some(engine) = &mut self.engine {
            engine.abandon(ticket);
        }
    }

    /// Is this number one of [`News::Inbound`]? Then the answer goes where it was asked for.
    pub fn answer_inbound(&mut self, id: u64, end: Result<OwnedFd, i32>) -> Result<(), Result<OwnedFd, i32>> {
        match (self.inbound.remove(&id), &self.engine) {
            (Some(ticket), Some(engine)) => {
                engine.inside(ticket, end);
                Ok(())
            }
            (Some(_), None) => Ok(()),
            (None, _) => Err(end),
        }
    }

    /// Readable when [`Network::hear`] has something to hear.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.engine.as_ref().map(Engine::readable)
    }

    pub fn hear(&mut self, sandbox: &Sandbox, record: &mut Record<'_>) -> Result<Vec<News>, AuditError> {
        let events = self.engine.as_mut().map(Engine::hear).unwrap_or_default();
        self.note(events, Some(sandbox), record)
    }

    /// Where stray datagrams can be waited for; not while there are too many of them.
    pub fn taps<'s>(&self, sandbox: &'s Sandbox) -> [Option<BorrowedFd<'s>>; 2] {
        self.strays.taps(sandbox)
    }

    /// When to look at the taps again, if they are not looked at now.
    pub fn due(&self) -> Option<Instant> {
        self.strays.paused_until()
    }

    pub fn hear_strays(&mut self, sandbox: &Sandbox) -> Vec<News> {
        let strays = self.strays.hear(sandbox, self.gate.as_deref());
        self.counts.denied += strays.len() as u64;
        strays.into_iter().map(|violation| News::Violation(Box::new(violation))).collect()
    }

    /// Would a datagram to there leave the sandbox, if it could?
    pub fn leads_nowhere(&self, to: SocketAddr) -> bool {
        self.gate.is_some() && !is_inside(to.ip()) && to.ip().to_canonical() != IpAddr::V4(RESOLVER)
    }

    /// A datagram that was not even sent.
    pub fn stray(&mut self, to: SocketAddr, owner: Owner) -> (Violation, Reason) {
        self.counts.denied += 1;
        let denial = strays::denial(to, self.gate.as_deref());
        let reason = denial.reason;
        (strays::datagram(to, owner, self.gate.as_deref(), &denial), reason)
    }

    /// Nothing inside runs any more: what is on its way may still arrive.
    pub fn finish(&mut self, record: &mut Record<'_>) -> Result<(), AuditError> {
        let Some(mut engine) = self.engine.take() else { return Ok(()) };
        let mut events = Vec::new();
        engine.finish(LAST_BYTES, |heard| events.extend(heard));
        for news in self.note(events, None, record)? {
            if let News::Violation(violation) = news {
                record.violation(EventKind::PolicyViolation, *violation)?;
            }
        }
        Ok(())
    }

    /// The counts since the last time; `None` when there was nothing.
    pub fn report(&mut self) -> Option<NetworkReport> {
        let mut report = std::mem::take(&mut self.counts);
        report.hosts = std::mem::take(&mut self.hosts)
            .into_iter()
            .map(|((host, port), counts)| HostReport { host, port, counts })
            .collect();
        (report != NetworkReport::default()).then_some(report)
    }

    fn note(
        &mut self,
        events: Vec<Event>,
        sandbox: Option<&Sandbox>,
        record: &mut Record<'_>,
    ) -> Result<Vec<News>, AuditError> {
        let mut news = Vec::new();
        let mut closed = Vec::new();
        for event in events {
            match event {
                Event::Dialled { ticket, errno } => news.push(News::Dialled { ticket, errno }),
                Event::Inbound { ticket, port } => {
                    let id = self.new_errand();
                    self.inbound.insert(id, ticket);
                    news.push(News::Inbound { id, port });
                }
                Event::Closed(one) => closed.extend(self.closed(*one, record)),
                Event::Refused(refused) => news.extend(self.refused(*refused, sandbox, record)?),
                Event::Looked(looked) => news.extend(self.looked(*looked, sandbox, record)?),
                Event::Suspicious { name, why } => record.event(
                    EventKind::SecurityAlert,
                    &[
                        ("description", json!("a name that looks like a carrier of data was looked up")),
                        ("name", json!(printable(&name))),
                        ("why", json!(why)),
                    ],
                )?,
                Event::TooManyQueries { per_second, refused } => record.limit(Exceeded {
                    limit: "maxDNSQueries",
                    value: per_second,
                    usage: per_second + refused,
                    description: format!(
                        "more than {per_second} names were looked up in a second (network.maxDNSQueries)"
                    ),
                    consequence: Consequence::Refused,
                })?,
                Event::Failed { why } => {
                    self.engine = None;
                    news.push(News::Lost);
                    record.event(
                        EventKind::SecurityAlert,
                        &[
                            (
                                "description",
                                json!("the sandbox has lost its network: nothing gets out any more"),
                            ),
                            ("why", json!(why)),
                        ],
                    )?;
                    record
                        .tell(format!("the sandbox has lost its network ({why}): nothing gets out any more"));
                }
            }
        }
        // Many at once are one write.
        if !closed.is_empty() {
            record.append_all(&closed)?;
        }
        Ok(news)
    }

    fn closed(&mut self, closed: Closed, record: &Record<'_>) -> Option<lazaret_audit::NewEvent> {
        let Closed { origin, way, host, port, address, rule, sent, received, duration, failure } = closed;
        let host = host.to_string();
        self.counts.connections += 1;
        self.counts.failed += u64::from(failure.is_some());
        self.counts.sent_bytes += sent;
        self.counts.received_bytes += received;
        if let Some(counts) = self.count(&host, port) {
            counts.connections += 1;
            counts.sent_bytes += sent;
            counts.received_bytes += received;
        }
        self.told += 1;
        if self.told > TOLD_ONE_BY_ONE {
            return (self.told == TOLD_ONE_BY_ONE + 1).then(|| {
                record.new_event(EventKind::SecurityAlert).with(
                    "description",
                    "so many connections that only their counts go into the log from here on",
                )
            });
        }
        let mut event = record
            .new_event(EventKind::NetworkConnection)
            .with("decision", "allowed")
            .with("direction", if way == Way::Published { "inbound" } else { "outbound" })
            .with("protocol", "tcp")
            .with("host", host)
            .with("port", port)
            .with("way", way.name())
            .with("rule", rule)
            .with("sentBytes", sent)
            .with("receivedBytes", received)
            .with("durationMs", duration.as_secs_f64() * 1000.0);
        if let Some(address) = address {
            event = event.with("address", address.to_string());
        }
        if let Origin::Process { pid, name } = origin {
            event = event.with("pid", pid).with("process", name);
        }
        if let Some(failure) = failure {
            event = event.with("failure", failure);
        }
        Some(event)
    }

    fn refused(
        &mut self,
        refused: Refused,
        sandbox: Option<&Sandbox>,
        record: &mut Record<'_>,
    ) -> Result<Option<News>, AuditError> {
        let Refused { origin, way, host, port, address, denial } = refused;
        let host = printable(&host);
        if denial.reason == Reason::ConnectionLimit {
            record.limit(connection_limit(self.limit(), &denial))?;
            return Ok(None);
        }
        if denial.reason == Reason::Unresolvable {
            // Allowed, but there is nothing to go to: no violation.
            self.counts.failed += 1;
            if self.unresolved.len() >= COUNTED_HOSTS {
                self.unresolved.clear();
            }
            let count = self.unresolved.entry((host.clone(), port)).or_default();
            *count += 1;
            let count = *count;
            self.told += 1;
            if !is_power_of_ten(count) || self.told > TOLD_ONE_BY_ONE {
                return Ok(None);
            }
            record.append(
                &record
                    .new_event(EventKind::NetworkConnection)
                    .with("decision", "failed")
                    .with("protocol", "tcp")
                    .with("host", host)
                    .with("port", port)
                    .with("way", way.name())
                    .with("reason", denial.reason.code())
                    .with("failure", denial.detail)
                    .with("count", count),
            )?;
            return Ok(None);
        }
        self.counts.denied += 1;
        if let Some(counts) = self.count(&host, port) {
            counts.denied += 1;
        }
        let owner = Owner::of(&origin, sandbox, owner::Protocol::Tcp, &mut self.ration);
        let peer = Peer {
            protocol: "tcp",
            host,
            port,
            address,
            reason: denial.reason.code(),
            rule: denial.rule.clone(),
        };
        Ok(Some(News::Violation(Box::new(violation(owner, peer, &denial)))))
    }

    fn looked(
        &mut self,
        looked: Looked,
        sandbox: Option<&Sandbox>,
        record: &mut Record<'_>,
    ) -> Result<Option<News>, AuditError> {
        let Looked { origin, name, kind, answer, count } = looked;
        let name = printable(&name);
        self.counts.queries += 1;
        let (answered, denial) = match answer {
            Answered::Addresses => ("addresses", None),
            Answered::Empty => ("empty", None),
            Answered::Unlisted => ("nxdomain", None),
            Answered::Denied(denial) => ("denied", Some(denial)),
        };
        if count > 0 {
            let details = [
                ("name", json!(name)),
                ("type", json!(kind)),
                ("answer", json!(answered)),
                ("count", json!(count)),
            ];
            record.event(EventKind::DnsQuery, &details)?;
        }
        Ok(denial.map(|denial| {
            self.counts.denied += 1;
            let mut owner = Owner::of(&origin, sandbox, owner::Protocol::Udp, &mut self.ration);
            if self.askers.len() >= COUNTED_HOSTS {
                self.askers.clear();
            }
            match self.askers.entry(name.clone()) {
                // It often has hung up already, but asks for IPv4 and IPv6 one after the other.
                Entry::Occupied(known) => owner = known.get().clone(),
                Entry::Vacant(place) => drop(place.insert(owner.clone())),
            }
            let rule = denial.rule.clone();
            let peer = Peer {
                protocol: "dns",
                host: name,
                port: 53,
                address: None,
                reason: denial.reason.code(),
                rule,
            };
            News::Violation(Box::new(violation(owner, peer, &denial)))
        }))
    }

    /// A number that no waiting call has: those are given by the kernel and begin anywhere.
    pub fn new_errand(&mut self) -> u64 {
        self.next_inbound = self.next_inbound.wrapping_add(1);
        self.next_inbound
    }

    fn count(&mut self, host: &str, port: u16) -> Option<&mut HostCounts> {
        let key = (host.to_owned(), port);
        if self.hosts.len() >= COUNTED_HOSTS && !self.hosts.contains_key(&key) {
            return None;
        }
        Some(self.hosts.entry(key).or_default())
    }

    /// A connection was refused before it began.
    pub fn count_denied(&mut self, peer: &Peer) {
        self.counts.denied += 1;
        if let Some(counts) = self.count(&peer.host, peer.port) {
            counts.denied += 1;
        }
    }

    /// What the address of a connection stands for, as a person knows it.
    pub fn name_of(&self, to: SocketAddr) -> String {
        let name = self.gate.as_ref().and_then(|gate| gate.meaning_of(to.ip()));
        name.map_or_else(|| to.ip().to_canonical().to_string(), |name| name.to_string())
    }

    pub fn limit(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.most_connections())
    }
}

/// The limit that was hit, to be told once.
pub fn connection_limit(limit: u64, denial: &Denial) -> Exceeded {
    Exceeded {
        limit: "maxConnections",
        value: limit,
        usage: limit + 1,
        description: format!("{} (network.maxConnections)", denial.detail),
        consequence: Consequence::Refused,
    }
}

/// A refused connection, look-up or datagram as a violation.
pub fn violation(owner: Owner, peer: Peer, denial: &Denial) -> Violation {
    use lazaret_policy::violation::{Indicator, severity_of_network};
    let what = match peer.protocol {
        "dns" => format!("look-up of {}", peer.host),
        "udp" => format!("datagram to {}:{} (udp)", bracketed(&peer.host), peer.port),
        _ => format!("connection to {}:{}", bracketed(&peer.host), peer.port),
    };
    Violation {
        event: String::new(),
        kind: Indicator::Network,
        indicator: Indicator::Network.at(crate::respond::now()),
        severity: severity_of_network(peer.protocol, denial.reason),
        description: what,
        layer: if denial.reason == Reason::NetworkOff { "netns" } else { "egress" }.to_owned(),
        pid: owner.pid,
        process: owner.name,
        syscall: None,
        path: None,
        peer: Some(peer),
        remedy: format!("{}; {}", denial.detail, denial.remedy),
        count: 0,
    }
}

/// Two descriptors for every connection: as many as the host gives without asking.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn lost(target: &Target) -> Denial {
    Denial {
        reason: Reason::Unreachable,
        rule: None,
        detail: format!("{} is allowed, but the sandbox has lost its network", target.host),
        remedy: "run the command again; the audit log says what went wrong".to_owned(),
    }
}
