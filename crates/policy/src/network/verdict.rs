//! What comes of asking the rules, in words for the log and for the person at the terminal.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use serde::Serialize;

use crate::host::Host;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// `rule` is the entry that allows it, as `field: entry`, or says that none was needed.
    Allow {
        rule: String,
    },
    Deny(Denial),
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allow { .. })
    }
}

/// A refusal, and what the person who wants it otherwise has to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub reason: Reason,
    /// The entry that refuses it, as `field: entry`.
    pub rule: Option<String>,
    /// Part of a sentence: "example.com is not in the list of allowed hosts".
    pub detail: String,
    /// "to allow: --allow example.com:443 (policy: network.allowedHosts)".
    pub remedy: String,
}

/// Why something on the way out was refused. The codes are stable; logs and programs rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    NetworkOff,
    HostNotAllowed,
    HostDenied,
    PortNotAllowed,
    AddressRefused,
    ConnectionLimit,
    NameMismatch,
    UnknownAddress,
    InvalidHost,
    ProtocolRefused,
    Unresolvable,
    Unreachable,
}

impl Reason {
    pub const ALL: [Reason; 12] = [
        Reason::NetworkOff,
        Reason::HostNotAllowed,
        Reason::HostDenied,
        Reason::PortNotAllowed,
        Reason::AddressRefused,
        Reason::ConnectionLimit,
        Reason::NameMismatch,
        Reason::UnknownAddress,
        Reason::InvalidHost,
        Reason::ProtocolRefused,
        Reason::Unresolvable,
        Reason::Unreachable,
    ];

    pub fn code(self) -> &'static str {
        match self {
            Reason::NetworkOff => "network-off",
            Reason::HostNotAllowed => "host-not-allowed",
            Reason::HostDenied => "host-denied",
            Reason::PortNotAllowed => "port-not-allowed",
            Reason::AddressRefused => "address-refused",
            Reason::ConnectionLimit => "connection-limit",
            Reason::NameMismatch => "name-mismatch",
            Reason::UnknownAddress => "unknown-address",
            Reason::InvalidHost => "invalid-host",
            Reason::ProtocolRefused => "protocol-refused",
            Reason::Unresolvable => "unresolvable",
            Reason::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// How `--allow` takes it.
fn target(host: &Host, port: Option<u16>) -> String {
    match (host, port) {
        (Host::Address(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_string(),
    }
}

/// In a list of ports `--allow` changes nothing.
fn and_the_port(port: Option<u16>, port_listed: bool) -> String {
    match port {
        Some(port) if !port_listed => format!(", and add {port} to network.allowedPorts"),
        _ => String::new(),
    }
}

fn ports_in_words(ports: &BTreeSet<u16>) -> String {
    // A list may hold thousands, and this is one line.
    let shown: Vec<String> = ports.iter().take(8).map(u16::to_string).collect();
    let more = if ports.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

impl Denial {
    /// With what whoever wrote the rule has to say about it.
    pub(super) fn because(mut self, reason: &str) -> Denial {
        self.detail = format!("{} ({reason})", self.detail);
        self
    }

    pub(super) fn network_off(host: &Host, port: Option<u16>) -> Denial {
        Denial {
            reason: Reason::NetworkOff,
            rule: Some("allowNetwork: false".to_owned()),
            detail: format!("{} cannot be reached, since the network is off", target(host, port)),
            remedy: format!(
                "to allow: --allow {} (policy: network.allowNetwork and network.allowedHosts)",
                target(host, port)
            ),
        }
    }

    pub(super) fn denied(host: &Host, port: Option<u16>, rule: String) -> Denial {
        Denial {
            reason: Reason::HostDenied,
            detail: format!("{} is denied by {rule}", target(host, port)),
            remedy: "to allow: remove the entry from network.deniedDomains, denied wins over allowed"
                .to_owned(),
            rule: Some(rule),
        }
    }

    pub(super) fn address_denied(asked: &Host, address: IpAddr, port: u16, rule: String) -> Denial {
        let address = Host::Address(address);
        let detail = match *asked == address {
            true => format!("{} is denied by {rule}", target(&address, Some(port))),
            false => format!("{asked} leads to {}, which is denied by {rule}", target(&address, Some(port))),
        };
        Denial { detail, ..Denial::denied(&address, Some(port), rule) }
    }

    pub(super) fn host_not_allowed(host: &Host, port: Option<u16>, port_listed: bool) -> Denial {
        Denial {
            reason: Reason::HostNotAllowed,
            rule: None,
            detail: format!("{host} is not in the list of allowed hosts"),
            remedy: format!(
                "to allow: --allow {} (policy: network.allowedHosts){}",
                target(host, port),
                and_the_port(port, port_listed)
            ),
        }
    }

    pub(super) fn entry_has_other_ports(
        host: &Host,
        port: Option<u16>,
        ports: BTreeSet<u16>,
        port_listed: bool,
    ) -> Denial {
        Denial {
            reason: Reason::PortNotAllowed,
            rule: None,
            detail: format!(
                "{} is not allowed, {host} is at port {} only",
                target(host, port),
                ports_in_words(&ports)
            ),
            remedy: format!(
                "to allow: --allow {} (policy: network.allowedHosts){}",
                target(host, port),
                and_the_port(port, port_listed)
            ),
        }
    }

    pub(super) fn port_not_allowed(port: u16, ports: &BTreeSet<u16>) -> Denial {
        Denial {
            reason: Reason::PortNotAllowed,
            rule: Some(format!("allowedPorts: {}", ports_in_words(ports))),
            detail: format!("port {port} is not in the list of allowed ports ({})", ports_in_words(ports)),
            remedy: format!("to allow: add {port} to network.allowedPorts"),
        }
    }

    pub(super) fn address_refused(asked: &Host, address: IpAddr, class: &str) -> Denial {
        let detail = match asked {
            Host::Address(own) if *own == address => format!("{address} is {class}"),
            asked => format!("{asked} leads to {address}, which is {class}"),
        };
        Denial {
            reason: Reason::AddressRefused,
            rule: None,
            detail,
            remedy: format!("to allow: --allow-address {address} (policy: network.allowedAddresses)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_serialise_as_their_codes() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.code());
        }
        assert_eq!(
            Reason::ALL.map(Reason::code).into_iter().collect::<BTreeSet<_>>().len(),
            Reason::ALL.len()
        );
    }

    #[test]
    fn a_long_list_of_ports_is_cut() {
        let denial = Denial::port_not_allowed(1, &(2..100).collect());
        assert_eq!(denial.rule.as_deref(), Some("allowedPorts: 2, 3, 4, 5, 6, 7, 8, 9, …"));
    }
}
