//! What the gate tells whoever keeps the record.

use std::{net::IpAddr, time::Duration};

use lazaret_policy::{host::Host, network::Denial};

/// Who asked, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A process that made the system call.
    Process { pid: i32, name: String },
    /// Whoever has this local port inside.
    Port(u16),
    /// Somebody on the host, by a published port.
    Host,
}

/// By which way a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Transparent,
    HttpProxy,
    Connect,
    Socks,
    Published,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Transparent => "transparent",
            Way::HttpProxy => "http-proxy",
            Way::Connect => "connect",
            Way::Socks => "socks5",
            Way::Published => "published",
        }
    }
}

/// Something was let through and is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub origin: Origin,
    pub way: Way,
    pub host: Host,
    pub port: u16,
    /// The address it went to.
    pub address: Option<IpAddr>,
    pub rule: String,
    /// From the sandbox to the other side.
    pub sent: u64,
    pub received: u64,
    pub duration: Duration,
    /// Why it did not come about, or broke.
    pub failure: Option<String>,
}

/// Something was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub origin: Origin,
    pub way: Way,
    pub host: String,
    pub port: u16,
    pub address: Option<IpAddr>,
    pub denial: Denial,
}

/// A name was looked up; told for the first time, the tenth, the hundredth …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    pub origin: Origin,
    pub name: String,
    /// `A`, `AAAA`, `HTTPS`, …
    pub kind: String,
    pub answer: Answered,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    Addresses,
    /// The name is allowed, but there is no such record.
    Empty,
    /// Answered that the name does not exist, by rule.
    Denied(Denial),
    /// Unlisted, but only tried because of a search list or for an address: not worth a violation.
    Unlisted,
}

#[derive(Debug)]
pub enum Event {
    /// The result of dialling for a connection that waits for it: 0 or the errno.
    Dialled {
        ticket: u64,
        errno: i32,
    },
    /// Somebody connected to a published port: a connection to this port inside is wanted.
    Inbound {
        ticket: u64,
        port: u16,
    },
    Closed(Box<Closed>),
    Refused(Box<Refused>),
    Looked(Box<Looked>),
    /// A name that looks like a carrier of data.
    Suspicious {
        name: String,
        why: String,
    },
    /// More queries than are answered.
    TooManyQueries {
        per_second: u64,
        refused: u64,
    },
    /// The gate itself failed: from now on nothing gets out.
    Failed {
        why: String,
    },
}
