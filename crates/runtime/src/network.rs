//! The network of a running sandbox: which course a connection takes, what the carrying thread tells, what was
//! sent to nowhere, and the counts of it all.

mod owner;
mod pool;
mod strays;
mod telling;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    event::{Event, Origin},
    gate::{Gate, Slot, Target},
    guard,
};
use lazaret_policy::{
    host::Host,
    network::{Denial, Reason, RuleError, Rules},
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
use serde_json::json;

use crate::{
    lower::Lowered,
    meter::{Consequence, Exceeded},
    record::{Peer, Record, Violation},
    report::printable,
    resolver,
};

pub use owner::Owner;
pub use telling::{HostCounts, HostReport, NetworkReport, connection_limit, violation};

/// After its command has ended, what is still on its way out may arrive.
const LAST_BYTES: Duration = Duration::from_secs(2);

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
    /// Names that were answered, when somebody wants to know them.
    answered: Option<BTreeSet<String>>,
    live: Option<LiveRules>,
    offers_ports: bool,
    /// Ports that are offered on the host because something inside listens there.
    offered: BTreeSet<u16>,
    /// What a person should know about them.
    offers: Vec<String>,
}

/// Rules that can be replaced while the sandbox runs: what is to be done with the means to do it.
#[derive(Clone)]
pub struct LiveRules(Arc<dyn Fn(RulesUpdate) + Send + Sync>);

impl LiveRules {
    /// `start` is called when the network is served, and may keep what it gets in a thread of its own.
    pub fn new(start: impl Fn(RulesUpdate) + Send + Sync + 'static) -> LiveRules {
        LiveRules(Arc::new(start))
    }
}

impl std::fmt::Debug for LiveRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveRules")
    }
}

/// The means to replace the rules of a running sandbox.
#[derive(Debug, Clone)]
pub struct RulesUpdate(Arc<Gate>);

impl RulesUpdate {
    /// The lists of another policy hold for every connection from now on.
    pub fn replace(&self, policy: &NetworkPolicy) -> Result<(), RuleError> {
        self.0.replace_rules(Rules::compile(policy)?);
        Ok(())
    }
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
    pub fn new(
        policy: &NetworkPolicy,
        gate: Option<Arc<Gate>>,
        published: Vec<Published>,
        live: Option<LiveRules>,
    ) -> Network {
        let (queries_per_second, offers_ports) = (policy.max_dns_queries, policy.publish_listening);
        Network { gate, published, queries_per_second, offers_ports, live, ..Network::default() }
    }

    /// Something inside is about to listen: the host's loopback leads there, if the port is free there, too.
    pub fn offer(&mut self, port: u16) {
        const MOST: usize = 64;
        let Some(engine) = &self.engine else { return };
        // The host's own services are at these, and root inside is no root outside.
        if port < unprivileged_ports_start() {
            if self.offered.insert(port) {
                self.offers.push(format!(
                    "port {port} of the sandbox is not offered on the host: such a port is for the host's services (network.publish names one all the same)"
                ));
            }
            return;
        }
        if self.offered.len() >= MOST || !self.offered.insert(port) {
            return;
        }
        match std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => {
                engine.publish(Published { listener, port, any_port: false });
                self.offers.push(format!("port {port} of the sandbox was offered at 127.0.0.1:{port}"));
            }
            Err(error) => self.offers.push(format!(
                "port {port} of the sandbox could not be offered on the host ({error}): it can be reached from inside only"
            )),
        }
    }

    /// Keeps the names that are looked up, for [`Network::names`].
    pub fn note_names(&mut self) {
        self.answered = Some(BTreeSet::new());
    }

    /// Names that were looked up, and have an address as far as anybody asked for it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let has_none = |name: &str| self.unresolved.keys().any(|(unresolved, _)| unresolved == name);
        self.answered.iter().flatten().map(String::as_str).filter(move |name| !has_none(name))
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
        if doors.is_none() && self.published.is_empty() && !self.offers_ports {
            return Ok(());
        }
        raise_descriptor_limit();
        let published = std::mem::take(&mut self.published);
        if let Some(LiveRules(start)) = &self.live {
            start(RulesUpdate(Arc::clone(gate)));
        }
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
            let proxied = gate.rules().parent_of(&target.host, target.port).is_some();
            let server = if inside || proxied { None } else { dial_at_once(&addresses) };
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
        self.offers.drain(..).for_each(|sentence| record.tell(sentence));
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

    /// A number that no waiting call has: those are given by the kernel and begin anywhere.
    pub fn new_errand(&mut self) -> u64 {
        self.next_inbound = self.next_inbound.wrapping_add(1);
        self.next_inbound
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

fn unprivileged_ports_start() -> u16 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    text.trim().parse().unwrap_or(1024).max(1)
}

/// Two descriptors for every connection: as many as the host gives without asking.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn lost(target: &Target) -> Denial {
    Denial {
        reason: Reason::Unreachable,
        rule: None,
        detail: format!("{} is allowed, but the sandbox has lost its network", target.host),
        remedy: "run the command again; the audit log says what went wrong".to_owned(),
    }
}
