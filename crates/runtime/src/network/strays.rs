//! Datagrams that something inside sent to the outside world: they reach nobody, and this tells who tried.

use std::{
    collections::HashMap,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use lazaret_egress::{event::Origin, gate::Gate, wire};
use lazaret_policy::{
    host::Host,
    network::{Denial, Reason, Verdict},
};
use lazaret_sandbox::linux::{
    launch::Sandbox,
    network::{Stray, next_stray},
};

use super::{
    owner::{Owner, Protocol, Ration},
    violation,
};
use crate::{
    record::{Peer, Violation},
    report::printable,
};

/// So many are looked at in one go, and so many in a second.
const AT_ONCE: usize = 64;
const A_SECOND: usize = 500;
/// So many destinations are remembered with who sent to them.
const REMEMBERED: usize = 512;

#[derive(Debug, Default)]
pub struct Strays {
    senders: HashMap<SocketAddr, Owner>,
    second: Option<(Instant, usize)>,
    paused: Option<Instant>,
    ration: Ration,
}

impl Strays {
    pub fn taps<'s>(&self, sandbox: &'s Sandbox) -> [Option<BorrowedFd<'s>>; 2] {
        if self.paused.is_some_and(|until| Instant::now() < until) {
            return [None, None];
        }
        let taps = sandbox.taps();
        [taps.v4.as_ref().map(AsFd::as_fd), taps.v6.as_ref().map(AsFd::as_fd)]
    }

    pub fn paused_until(&self) -> Option<Instant> {
        self.paused
    }

    /// Those that came, as violations.
    pub fn hear(&mut self, sandbox: &Sandbox, gate: Option<&Gate>) -> Vec<Violation> {
        let now = Instant::now();
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        let mut found = Vec::new();
        for tap in self.taps(sandbox).into_iter().flatten() {
            while found.len() < AT_ONCE
                && let Some(stray) = next_stray(tap)
            {
                found.push(self.describe(&stray, sandbox, gate));
            }
        }
        let (began, count) = self.second.get_or_insert((now, 0));
        if now.duration_since(*began) >= Duration::from_secs(1) {
            (*began, *count) = (now, 0);
        }
        *count += found.len();
        if *count > A_SECOND {
            // A flood: what comes meanwhile is dropped by the kernel when its buffer is full.
            self.paused = Some(*began + Duration::from_secs(1));
        }
        found
    }

    fn describe(&mut self, stray: &Stray, sandbox: &Sandbox, gate: Option<&Gate>) -> Violation {
        let to = stray.destination;
        if self.senders.len() >= REMEMBERED {
            self.senders.clear();
        }
        let owner = self.senders.entry(to).or_insert_with(|| {
            let origin = Origin::Port(stray.source.port());
            Owner::of(&origin, Some(sandbox), Protocol::Udp, &mut self.ration)
        });
        let query = (to.port() == 53).then(|| wire::read_query(&stray.payload).ok()).flatten();
        match query {
            Some(query) => look_up(owner.clone(), &query, gate),
            None => datagram(to, owner.clone(), gate, &denial(to, gate)),
        }
    }
}

/// Why a datagram is refused.
pub fn denial(to: SocketAddr, gate: Option<&Gate>) -> Denial {
    let off = gate.is_some_and(|gate| {
        matches!(
            gate.rules().judge(&Host::Address(to.ip()), to.port()),
            Verdict::Deny(Denial { reason: Reason::NetworkOff, .. })
        )
    });
    let reason = if off { Reason::NetworkOff } else { Reason::ProtocolRefused };
    let (detail, remedy) = match to.port() {
        443 => ("UDP (QUIC, HTTP/3) leads nowhere", "nothing allows this: programs fall back to TCP"),
        _ => ("UDP leads nowhere", "nothing allows this: only TCP is carried"),
    };
    Denial { reason, rule: None, detail: detail.to_owned(), remedy: remedy.to_owned() }
}

pub fn datagram(to: SocketAddr, owner: Owner, gate: Option<&Gate>, denial: &Denial) -> Violation {
    let address = to.ip().to_canonical();
    let name = gate.and_then(|gate| gate.meaning_of(address));
    let peer = Peer {
        protocol: "udp",
        host: name.map_or_else(|| address.to_string(), |name| name.to_string()),
        port: to.port(),
        address: Some(address),
        reason: denial.reason.code(),
        rule: None,
    };
    violation(owner, peer, denial)
}

/// A question to a name server that is not the sandbox's own: there is no network, or the program does not mind
/// how names are looked up here.
fn look_up(owner: Owner, query: &wire::Query, gate: Option<&Gate>) -> Violation {
    let name = query.host().unwrap_or_else(|| query.text());
    let judged = match (Host::parse(&name), gate) {
        (Ok(Host::Name(name)), Some(gate)) => gate.rules().may_resolve(&name),
        _ => Verdict::Allow { rule: String::new() },
    };
    let denial = match judged {
        Verdict::Deny(denial) => denial,
        Verdict::Allow { .. } => Denial {
            reason: Reason::ProtocolRefused,
            rule: None,
            detail: "it was asked of another name server than the sandbox's own".to_owned(),
            remedy: "ask the one in /etc/resolv.conf".to_owned(),
        },
    };
    let (reason, rule) = (denial.reason.code(), denial.rule.clone());
    violation(
        owner,
        Peer { protocol: "dns", host: printable(&name), port: 53, address: None, reason, rule },
        &denial,
    )
}
