//! One entry of a list of hosts: a name, `*.` and a domain, an address or a network, and perhaps a port.

use std::{fmt, net::IpAddr};

use psl::Psl;

use super::parent::ParentFault;
use crate::host::{Cidr, CidrError, Host, HostError, Name};

/// The longest host in its longest spelling, with what stands around it.
const LONGEST_ENTRY: usize = 1100;

/// What an entry does decides what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// May not be so wide that it was hardly meant.
    Allow,
    /// Cannot be too wide.
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pattern: Pattern,
    /// None is every port.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Everything,
    Name(Name),
    /// Every name below the domain, at any depth; neither the domain itself nor an address.
    Below(Name),
    Network(Cidr),
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Network(#[from] CidrError),
    #[error("{text:?} is a URL, not a host name")]
    Url { text: String, host: Option<String> },
    #[error("{text:?} has a path, and what is asked for at a host cannot be told apart")]
    Path { text: String, host: String },
    #[error("{text:?} has {port:?} for a port")]
    Port { text: String, port: String },
    #[error("0 is not a port")]
    PortZero,
    #[error("{text:?} allows every host")]
    Everything { text: String },
    #[error("{text:?} has a `*` that is not the whole first label")]
    Wildcard { text: String },
    #[error("{text:?} has a `*` before an address")]
    WildcardAddress { text: String },
    #[error("{text:?} is open to everybody: anyone can have a name below the public suffix {suffix}")]
    PublicSuffix { text: String, suffix: Name },
    #[error("{network} is every address there is")]
    EveryAddress { network: Cidr },
    #[error("{name} has no address")]
    NoAddress { name: Name },
    #[error("{name} occurs twice")]
    Twice { name: Name },
    #[error("the proxy cannot be used: {0}")]
    Parent(ParentFault),
}

impl EntryFault {
    /// What to write instead.
    pub fn hint(&self) -> String {
        match self {
            EntryFault::Host(HostError::Empty) => "write a host name or remove the entry".to_owned(),
            EntryFault::Host(HostError::Zone(_)) => {
                "write the address without `%` and what follows".to_owned()
            }
            EntryFault::Host(HostError::Number(_)) => {
                "write an IPv4 address as four numbers, such as `192.0.2.1`".to_owned()
            }
            EntryFault::Host(HostError::Address(_)) => "write the name that has the address".to_owned(),
            EntryFault::Host(_) => "write the name alone, such as `example.com`".to_owned(),
            EntryFault::Network(CidrError::HostBits { text, meant, .. }) => {
                let address = text.split('/').next().unwrap_or(text);
                format!("write `{meant}` for the network, or `{address}` for the one address")
            }
            EntryFault::Network(_) => "write an address or a network, such as `10.0.0.0/8`".to_owned(),
            EntryFault::Url { host: Some(host), .. } | EntryFault::Path { host, .. } => {
                format!("write `{host}`")
            }
            EntryFault::Url { host: None, .. } => "write the name alone, such as `example.com`".to_owned(),
            EntryFault::Port { .. } | EntryFault::PortZero => {
                "a port is a whole number from 1 to 65535".to_owned()
            }
            EntryFault::Everything { .. } => {
                "name the hosts, such as `example.com` or `*.example.com`; for any host leave out \
                 allowedHosts and allowedDomains"
                    .to_owned()
            }
            EntryFault::Wildcard { .. } => {
                "a `*` stands alone before the first dot, as in `*.example.com`, and covers every name below"
                    .to_owned()
            }
            EntryFault::WildcardAddress { .. } => {
                "write a network for a range of addresses, such as `10.0.0.0/8`".to_owned()
            }
            EntryFault::PublicSuffix { suffix, .. } => {
                format!("write the names that are meant, such as `NAME.{suffix}` or `*.NAME.{suffix}`")
            }
            EntryFault::EveryAddress { .. } => {
                "write the networks that are meant, such as `10.0.0.0/8`".to_owned()
            }
            EntryFault::NoAddress { .. } => "write the addresses of the name, or remove it".to_owned(),
            EntryFault::Parent(fault) => fault.hint().to_owned(),
            EntryFault::Twice { .. } => "write the name once, with all its addresses".to_owned(),
        }
    }
}

impl Entry {
    pub fn parse(text: &str, list: List) -> Result<Entry, EntryFault> {
        // Faults quote the text.
        if text.len() > LONGEST_ENTRY {
            return Err(HostError::Long { length: text.len() }.into());
        }
        if let Some((_, rest)) = text.split_once("://") {
            return Err(EntryFault::Url {
                text: text.to_owned(),
                host: host_of_url(rest).map(|entry| entry.to_string()),
            });
        }
        let (host, port) = split(text)?;
        let port = match port {
            Some(digits) => Some(
                number(digits)
                    .ok_or_else(|| EntryFault::Port { text: text.to_owned(), port: digits.to_owned() })?,
            ),
            None => None,
        };
        let pattern = pattern(text, host)?;
        if list == List::Allow {
            refuse_too_wide(text, &pattern)?;
        }
        Ok(Entry { pattern, port })
    }

    /// Does the entry hold at this port? One with a port of its own does not hold at an unknown one.
    pub fn at(&self, port: Option<u16>) -> bool {
        self.port.is_none() || self.port == port
    }

    pub fn covers(&self, host: &Host) -> bool {
        match host {
            Host::Address(address) => self.covers_address(*address),
            Host::Name(name) => match &self.pattern {
                Pattern::Everything => true,
                Pattern::Name(listed) => listed == name,
                Pattern::Below(domain) => name.is_below(domain),
                Pattern::Network(_) => false,
            },
        }
    }

    pub fn covers_address(&self, address: IpAddr) -> bool {
        match &self.pattern {
            Pattern::Everything => true,
            Pattern::Network(network) => network.contains(address),
            Pattern::Name(_) | Pattern::Below(_) => false,
        }
    }

    pub fn network(&self) -> Option<&Cidr> {
        match &self.pattern {
            Pattern::Network(network) => Some(network),
            _ => None,
        }
    }

    pub fn is_name(&self, name: &str) -> bool {
        matches!(&self.pattern, Pattern::Name(listed) if listed.as_str() == name)
    }
}

/// The entry in its normal form.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.pattern {
            Pattern::Everything => "*".to_owned(),
            Pattern::Name(name) => name.to_string(),
            Pattern::Below(domain) => format!("*.{domain}"),
            Pattern::Network(network) => network.to_string(),
        };
        match self.port {
            None => f.write_str(&host),
            Some(port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Some(port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Cuts the port off. Brackets and the slash of a network tell it from the last part of an IPv6 address; without
/// them more than one colon is an IPv6 address and nothing else.
fn split(text: &str) -> Result<(&str, Option<&str>), EntryFault> {
    let broken = || EntryFault::Host(HostError::Brackets(text.to_owned()));
    let port_at = if text.starts_with('[') {
        let end = text.find(']').ok_or_else(broken)?;
        text.get(end..).and_then(|rest| rest.find(':')).map(|colon| end + colon)
    } else if let Some(slash) = text.find('/') {
        text.get(slash..).and_then(|rest| rest.find(':')).map(|colon| slash + colon)
    } else if text.matches(':').count() == 1 {
        text.find(':')
    } else {
        None
    };
    Ok(match port_at.and_then(|at| text.split_at_checked(at)) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => (text, None),
    })
}

/// Digits alone, from 1 to 65535.
fn number(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().filter(|port| *port != 0)
}

fn pattern(text: &str, host: &str) -> Result<Pattern, EntryFault> {
    if host == "*" {
        return Ok(Pattern::Everything);
    }
    if host.contains('/') {
        let network = Cidr::parse(&without_brackets(host));
        return match (network, host_of_url(host)) {
            (Err(_), Some(entry)) if entry.network().is_none() => {
                Err(EntryFault::Path { text: text.to_owned(), host: entry.to_string() })
            }
            (network, _) => Ok(Pattern::Network(network?)),
        };
    }
    if let Some(domain) = host.strip_prefix("*.") {
        if domain.contains('*') {
            return match domain.split('.').all(|label| label == "*") {
                true => Err(EntryFault::Everything { text: text.to_owned() }),
                false => Err(EntryFault::Wildcard { text: text.to_owned() }),
            };
        }
        return match Host::parse(domain)? {
            Host::Name(domain) => Ok(Pattern::Below(domain)),
            Host::Address(_) => Err(EntryFault::WildcardAddress { text: text.to_owned() }),
        };
    }
    if host.contains('*') {
        return Err(EntryFault::Wildcard { text: text.to_owned() });
    }
    Ok(match Host::parse(host)? {
        Host::Name(name) => Pattern::Name(name),
        Host::Address(address) => Pattern::Network(Cidr::from(address)),
    })
}

/// Refuses what says "allow these" and means everybody.
fn refuse_too_wide(text: &str, pattern: &Pattern) -> Result<(), EntryFault> {
    match pattern {
        Pattern::Everything => Err(EntryFault::Everything { text: text.to_owned() }),
        Pattern::Below(domain) if is_public_suffix(domain) => {
            Err(EntryFault::PublicSuffix { text: text.to_owned(), suffix: domain.clone() })
        }
        Pattern::Network(network) if network.is_everything() => {
            Err(EntryFault::EveryAddress { network: *network })
        }
        _ => Ok(()),
    }
}

/// Can everybody get a name directly below? By the list alone: a single label that is not on it, such as
/// `internal` or `test`, is somebody's own.
fn is_public_suffix(domain: &Name) -> bool {
    let on_the_list = |name: &str| {
        psl::List.suffix(name.as_bytes()).is_some_and(|suffix| suffix.is_known() && suffix == name)
    };
    // Of `kawasaki.jp` the list says only that all names below it are suffixes.
    on_the_list(domain.as_str()) || on_the_list(&format!("any.{domain}"))
}

/// `[fd00::]/8` and `[fd00::/8]` are `fd00::/8`; other brackets stay, and are refused.
fn without_brackets(network: &str) -> String {
    match network.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, end)) if end.is_empty() || end.starts_with('/') => format!("{inner}{end}"),
        _ => network.to_owned(),
    }
}

/// The host of what follows `://`, with its port, when that would be an entry.
fn host_of_url(rest: &str) -> Option<Entry> {
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    Entry::parse(authority.rsplit('@').next()?, List::Deny).ok()
}
