//! What the carrying thread told, as events and violations, and the counts of it.

use std::collections::hash_map::Entry;

use lazaret_audit::{AuditError, EventKind, NewEvent};
use lazaret_egress::event::{Answered, Closed, Looked, Origin, Refused, Way};
use lazaret_policy::{
    network::{Denial, Reason},
    violation::is_told,
};
use lazaret_sandbox::linux::launch::Sandbox;
use serde::Serialize;
use serde_json::json;

use super::{Network, News, Owner, owner};
use crate::{
    meter::{Consequence, Exceeded},
    record::{Peer, Record, Violation},
    report::printable,
};

/// So many connections have an event of their own; beyond, they are counted.
const TOLD_ONE_BY_ONE: u64 = 10_000;
/// So many hosts are counted one by one.
const COUNTED_HOSTS: usize = 1000;

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

impl Network {
    pub(super) fn closed(&mut self, closed: Closed, record: &Record<'_>) -> Option<NewEvent> {
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

    pub(super) fn refused(
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
            if !is_told(count) || self.told > TOLD_ONE_BY_ONE {
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

    pub(super) fn looked(
        &mut self,
        looked: Looked,
        sandbox: Option<&Sandbox>,
        record: &mut Record<'_>,
    ) -> Result<Option<News>, AuditError> {
        let Looked { origin, name, kind, answer, count } = looked;
        let name = printable(&name);
        self.counts.queries += 1;
        if let Some(names) = &mut self.answered
            && answer == Answered::Addresses
            && names.len() < COUNTED_HOSTS
        {
            names.insert(name.clone());
        }
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

    pub(super) fn count(&mut self, host: &str, port: u16) -> Option<&mut HostCounts> {
        let key = (host.to_owned(), port);
        if self.hosts.len() >= COUNTED_HOSTS && !self.hosts.contains_key(&key) {
            return None;
        }
        Some(self.hosts.entry(key).or_default())
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

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
