//! Where a command may connect to: the rules of a [`NetworkPolicy`], compiled once and asked for every name,
//! every connection and every address. Pure: who resolves and connects is the business of the egress gate.
//!
//! Denied wins. Otherwise a host is reached when a list names it (or there is no list), and an address of a
//! [`Class`] only when it is listed itself, so that no name on the internet leads back inside.

mod entry;
pub mod parent;
mod pins;
mod publish;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

pub use entry::EntryFault;
pub(crate) use entry::{Entry, List};
use parent::{ParentFault, Parents, Upstream};
pub use pins::Pins;
pub use publish::{Publish, PublishError};
pub use verdict::{Denial, Reason, Verdict};

use crate::{
    host::{Cidr, Class, Host, Name, class_of, embedded},
    schema::NetworkPolicy,
};

/// A bad entry: where it stands and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network.{field}: {fault}: {}", self.fault.hint())]
pub struct RuleError {
    /// The key in the section `network`.
    pub field: &'static str,
    /// From zero; in `resolve`, which is no list, in the order of the names.
    pub index: usize,
    /// As written; in `resolve` the name.
    pub entry: String,
    pub fault: EntryFault,
}

/// The rules, ready to be asked.
#[derive(Debug, Clone)]
pub struct Rules {
    network: Network,
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
    ports: BTreeSet<u16>,
    addresses: Vec<Cidr>,
    denied_addresses: Vec<Cidr>,
    /// By the text of the entry.
    reasons: BTreeMap<String, String>,
    parents: Parents,
    pins: BTreeMap<Name, Vec<IpAddr>>,
    verify_server_name: bool,
    max_connections: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Off,
    /// No list names what may be reached.
    AnyHost,
    Listed,
}

/// An entry and the field it comes from.
#[derive(Debug, Clone)]
struct Rule {
    field: &'static str,
    entry: Entry,
}

impl Rule {
    fn text(&self) -> String {
        format!("{}: {}", self.field, self.entry)
    }
}

/// Why an address is refused unless it is listed.
#[derive(Clone, Copy)]
enum Guarded {
    Class(Class),
    Own,
}

impl Rules {
    pub fn compile(policy: &NetworkPolicy) -> Result<Rules, RuleError> {
        let mut allowed = rules("allowedHosts", &policy.allowed_hosts, List::Allow)?;
        allowed.extend(rules(
            "allowedDomains",
            policy.allowed_domains.as_deref().unwrap_or_default(),
            List::Allow,
        )?);
        let listed = !policy.allowed_hosts.is_empty() || policy.allowed_domains.is_some();
        let network = match (policy.allow_network, listed) {
            (false, _) => Network::Off,
            (true, false) => Network::AnyHost,
            (true, true) => Network::Listed,
        };
        let ports = each("allowedPorts", &policy.allowed_ports, |port| match port {
            0 => Err(EntryFault::PortZero),
            port => Ok(*port),
        })?;
        let mut pins = BTreeMap::new();
        for (index, (text, Pins(addresses))) in policy.resolve.iter().enumerate() {
            let fault = match pinned_name(text, addresses) {
                Ok(name) if !pins.contains_key(&name) => {
                    pins.insert(name, addresses.iter().map(IpAddr::to_canonical).collect());
                    continue;
                }
                Ok(name) => EntryFault::Twice { name },
                Err(fault) => fault,
            };
            return Err(RuleError { field: "resolve", index, entry: text.clone(), fault });
        }
        Ok(Rules {
            network,
            allowed,
            denied: rules("deniedDomains", &policy.denied_domains, List::Deny)?,
            ports: ports.into_iter().collect(),
            addresses: each("allowedAddresses", &policy.allowed_addresses, |text| allowed_address(text))?,
            denied_addresses: each("deniedAddresses", &policy.denied_addresses, |text| {
                Ok(Cidr::parse(text)?)
            })?,
            reasons: reasons(policy)?,
            parents: parents(policy)?,
            pins,
            verify_server_name: policy.verify_server_name.unwrap_or(true),
            max_connections: policy.max_connections,
        })
    }

    /// May this host be connected to at this port? A name that passes still has to resolve to addresses that
    /// pass [`Rules::judge_address`].
    pub fn judge(&self, host: &Host, port: u16) -> Verdict {
        self.judge_at(&canonical(host), Some(port))
    }

    /// Is there any port at which this name may be connected to? Whoever may not connect need not resolve:
    /// a question is a message to whoever runs the name's server.
    pub fn may_resolve(&self, name: &Name) -> Verdict {
        let host = Host::Name(name.clone());
        let general = self.judge_at(&host, None);
        if !general.is_allowed() {
            return general;
        }
        // The ports at which anything changes, and one at which nothing does.
        let named = self.allowed.iter().chain(&self.denied).filter(|rule| rule.entry.covers(&host));
        let mut ports: BTreeSet<u16> = named.filter_map(|rule| rule.entry.port).collect();
        ports.extend(&self.ports);
        let other = (1..=u16::MAX).find(|port| !ports.contains(port));
        let mut refusal = None;
        for port in ports.into_iter().chain(other) {
            match self.judge_at(&host, Some(port)) {
                Verdict::Allow { rule } => return Verdict::Allow { rule },
                denied => refusal = refusal.or(Some(denied)),
            }
        }
        refusal.unwrap_or(general)
    }

    /// May the address that `asked` resolved to, or is, be connected to? Asked after [`Rules::judge`].
    pub fn judge_address(&self, asked: &Host, address: IpAddr, port: u16) -> Verdict {
        self.guard(asked, address, port, class_of(address).map(Guarded::Class))
    }

    /// The same for an address that the host itself has, which is refused whatever its class is.
    pub fn judge_own_address(&self, asked: &Host, address: IpAddr, port: u16) -> Verdict {
        let guarded = match class_of(address) {
            // The stricter rule stays.
            Some(Class::Metadata) => Guarded::Class(Class::Metadata),
            _ => Guarded::Own,
        };
        self.guard(asked, address, port, Some(guarded))
    }

    /// The proxy outside through which a host is reached, if there is one.
    pub fn parent_of(&self, host: &Host, port: u16) -> Option<&Upstream> {
        self.parents.of(host, port)
    }

    /// The addresses that the policy gives a name, in place of asking a server.
    pub fn pinned(&self, name: &Name) -> Option<&[IpAddr]> {
        self.pins.get(name).map(Vec::as_slice)
    }

    /// Does an entry name this loopback address at this port: the address, a network, or `localhost`? Never
    /// because any host is allowed, since the host's own services are nobody's internet.
    pub fn lists_loopback(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let usual = address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
        let is_localhost = |entry: &Entry| usual && entry.is_name("localhost");
        let names = |rule: &&Rule| {
            rule.entry.at(Some(port)) && (rule.entry.covers_address(address) || is_localhost(&rule.entry))
        };
        address.is_loopback()
            && self.network != Network::Off
            && self.has_port(port)
            && self.denied_network(&[address], port).is_none()
            && !self.denied.iter().any(|rule| names(&rule))
            && self.allowed.iter().any(|rule| names(&rule))
    }

    /// Is the network on and no list there to say what may be reached?
    pub fn any_host(&self) -> bool {
        self.network == Network::AnyHost
    }

    /// Must the server name of TLS and the host of HTTP agree with the name that was allowed?
    pub fn verify_server_name(&self) -> bool {
        self.verify_server_name
    }

    pub fn max_connections(&self) -> Option<u64> {
        self.max_connections
    }

    /// The denied network that one of these forms of an address is in, unless the address itself is listed.
    fn denied_network(&self, forms: &[IpAddr], port: u16) -> Option<&Cidr> {
        let listed = |rule: &Rule| {
            let single = rule.entry.network().filter(|network| network.is_single());
            rule.entry.at(Some(port))
                && single.is_some_and(|one| forms.iter().any(|form| one.contains(*form)))
        };
        let denied = |network: &&Cidr| forms.iter().any(|form| network.contains(*form));
        let denied = self.denied_addresses.iter().find(denied)?;
        (!self.allowed.iter().any(listed)).then_some(denied)
    }

    fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.contains(&port)
    }

    /// Without a port: is the host denied or unlisted at every port?
    fn judge_at(&self, host: &Host, port: Option<u16>) -> Verdict {
        if self.network == Network::Off {
            return Verdict::Deny(Denial::network_off(host, port));
        }
        let denied = |rule: &&Rule| rule.entry.at(port) && rule.entry.covers(host);
        if let Some(rule) = self.denied.iter().find(denied) {
            let denial = Denial::denied(host, port, rule.text());
            return Verdict::Deny(match self.reasons.get(&rule.entry.to_string()) {
                Some(reason) => denial.because(reason),
                None => denial,
            });
        }
        let port_listed = port.is_none_or(|port| self.has_port(port));
        let rule = if self.network == Network::AnyHost {
            "any host".to_owned()
        } else {
            let named: Vec<&Rule> = self.allowed.iter().filter(|rule| rule.entry.covers(host)).collect();
            if named.is_empty() {
                return Verdict::Deny(Denial::host_not_allowed(host, port, port_listed));
            }
            match named.iter().find(|rule| port.is_none() || rule.entry.at(port)) {
                Some(rule) => rule.text(),
                None => {
                    let ports = named.iter().filter_map(|rule| rule.entry.port).collect();
                    return Verdict::Deny(Denial::entry_has_other_ports(host, port, ports, port_listed));
                }
            }
        };
        match port {
            Some(port) if !port_listed => Verdict::Deny(Denial::port_not_allowed(port, &self.ports)),
            _ => Verdict::Allow { rule },
        }
    }

    fn guard(&self, asked: &Host, address: IpAddr, port: u16, guarded: Option<Guarded>) -> Verdict {
        let (asked, address) = (canonical(asked), address.to_canonical());
        if self.network == Network::Off {
            return Verdict::Deny(Denial::network_off(&asked, Some(port)));
        }
        // Also what a gateway would make of the address.
        let forms: Vec<IpAddr> = match address {
            IpAddr::V4(_) => vec![address],
            IpAddr::V6(v6) => embedded(v6).into_iter().map(IpAddr::V4).chain([address]).collect(),
        };
        let denied = |rule: &&Rule| {
            rule.entry.at(Some(port)) && forms.iter().any(|form| rule.entry.covers_address(*form))
        };
        if let Some(rule) = self.denied.iter().find(denied) {
            return Verdict::Deny(Denial::address_denied(&asked, address, port, rule.text()));
        }
        if let Some(network) = self.denied_network(&forms, port) {
            let rule = format!("deniedAddresses: {network}");
            return Verdict::Deny(Denial::address_denied(&asked, address, port, rule));
        }
        let Some(guarded) = guarded else { return Verdict::Allow { rule: "public address".to_owned() } };
        let metadata = matches!(guarded, Guarded::Class(Class::Metadata));
        // A wide network is written for the neighbours, and nobody thinks of the metadata service among them.
        let lifts = |network: &Cidr| network.contains(address) && (network.is_single() || !metadata);
        if let Some(network) = self.addresses.iter().find(|network| lifts(network)) {
            return Verdict::Allow { rule: format!("allowedAddresses: {network}") };
        }
        let listed = |rule: &&Rule| rule.entry.at(Some(port)) && rule.entry.network().is_some_and(lifts);
        if let Some(rule) = self.allowed.iter().find(listed) {
            return Verdict::Allow { rule: rule.text() };
        }
        let class = match guarded {
            Guarded::Class(class) => class.to_string(),
            Guarded::Own => "the host's own address".to_owned(),
        };
        Verdict::Deny(Denial::address_refused(&asked, address, &class))
    }
}

pub(crate) fn reasons(policy: &NetworkPolicy) -> Result<BTreeMap<String, String>, RuleError> {
    let keys: Vec<&String> = policy.denied_reasons.keys().collect();
    let entries = each("deniedReasons", &keys, |text| Entry::parse(text, List::Deny))?;
    let texts = entries.iter().map(ToString::to_string);
    Ok(texts.zip(policy.denied_reasons.values().cloned()).collect())
}

pub(crate) fn parents(policy: &NetworkPolicy) -> Result<Parents, RuleError> {
    let Some(parent) = &policy.parent_proxy else { return Ok(Parents::default()) };
    for route in &parent.routes {
        rules("parentProxy.routes", &route.hosts, List::Deny)?;
    }
    let faulty = |(field, entry, fault): parent::Misplaced<ParentFault>| {
        // What it is may hold a password.
        let entry = if entry.contains('@') { "(not shown)".to_owned() } else { entry };
        RuleError { field, index: 0, entry, fault: EntryFault::Parent(fault) }
    };
    Parents::compile(parent).map_err(faulty)
}

/// The variants are public, so an address may have come in another form.
fn canonical(host: &Host) -> Host {
    match host {
        Host::Name(_) => host.clone(),
        Host::Address(address) => Host::from(*address),
    }
}

fn rules(field: &'static str, list: &[String], kind: List) -> Result<Vec<Rule>, RuleError> {
    each(field, list, |text| Entry::parse(text, kind).map(|entry| Rule { field, entry }))
}

fn each<T: ToString, U>(
    field: &'static str,
    list: &[T],
    parse: impl Fn(&T) -> Result<U, EntryFault>,
) -> Result<Vec<U>, RuleError> {
    let place = |(index, item): (usize, &T)| {
        parse(item).map_err(|fault| RuleError { field, index, entry: item.to_string(), fault })
    };
    list.iter().enumerate().map(place).collect()
}

/// An entry of `allowedAddresses`.
pub(crate) fn allowed_address(text: &str) -> Result<Cidr, EntryFault> {
    match Cidr::parse(text)? {
        network if network.is_everything() => Err(EntryFault::EveryAddress { network }),
        network => Ok(network),
    }
}

/// A name of `resolve` with its addresses.
pub(crate) fn pinned_name(text: &str, addresses: &[IpAddr]) -> Result<Name, EntryFault> {
    let name = Name::parse(text)?;
    match addresses.is_empty() {
        true => Err(EntryFault::NoAddress { name }),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests;
