//! Who is talked to: names and addresses in their one normal form, networks, and the classes of addresses
//! that no sandbox reaches by accident. One normaliser for policy files, flags, DNS questions, HTTP and TLS, so
//! that two spellings of a host cannot be two hosts. What may be reached is decided in [`crate::network`].

mod cidr;
mod class;
mod number;

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

pub use cidr::{Cidr, CidrError};
pub(crate) use class::embedded;
pub use class::{Class, class_of};

/// RFC 1035 §2.3.4: 255 bytes on the wire are 253 characters, a label is 63.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// What a name of 253 characters can have been at most, four bytes to each. More is not worth looking at.
const LONGEST_INPUT: usize = 4 * LONGEST_NAME;

/// A DNS name in its normal form: lower-case ASCII (punycode where it was not), without the dot at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// A name or an address. Make addresses with [`Host::from`], which turns an IPv4-mapped one into IPv4.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(Name),
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("a host name is empty")]
    Empty,
    #[error("{0:?} contains a NUL byte")]
    Nul(String),
    #[error("{0:?} contains a line break")]
    LineBreak(String),
    #[error("{0:?} contains white space")]
    WhiteSpace(String),
    #[error("{0:?} contains a control character")]
    Control(String),
    #[error("{0:?} has a zone (`%`), which means something on one machine only")]
    Zone(String),
    #[error("{0:?} contains a `%`, and a host name is not percent-encoded")]
    Percent(String),
    #[error("{0:?} contains a `/`, so it is a URL, a path or a network and not a host name")]
    Slash(String),
    #[error("{0:?} contains an `@`: what stands before it is a user and not part of the host name")]
    User(String),
    #[error("{0:?} contains a `:` and is no IPv6 address")]
    Colon(String),
    #[error("{0:?} has brackets that do not hold an IPv6 address")]
    Brackets(String),
    #[error("{text:?} contains {character:?}, which no host name does")]
    Character { text: String, character: char },
    #[error("{0:?} is not a valid international name (UTS-46)")]
    International(String),
    #[error("{0:?} has an empty label: two dots in a row, or one at the beginning")]
    EmptyLabel(String),
    #[error("{0:?} has a label of more than 63 characters")]
    LongLabel(String),
    #[error("a host name of {length} bytes is too long, a name has at most 253 characters")]
    Long { length: usize },
    #[error("{0:?} ends in a number but is no IPv4 address")]
    Number(String),
    #[error("{0:?} is an address, not a name")]
    Address(String),
}

impl Host {
    /// The host a text means. Case, one dot at the end, international spellings and the numeric forms of
    /// IPv4 that `inet_aton` and browsers take (`127.1`, `0x7f000001`) make no difference.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > LONGEST_INPUT {
            return Err(HostError::Long { length: text.len() });
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| HostError::Brackets(text.to_owned()))?;
            return match inner.parse::<Ipv6Addr>() {
                Ok(address) => Ok(Host::from(IpAddr::V6(address))),
                Err(_) if has_zone(inner) => Err(HostError::Zone(text.to_owned())),
                Err(_) => Err(HostError::Brackets(text.to_owned())),
            };
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Host::from(IpAddr::V6(address)));
        }
        if has_zone(text) {
            return Err(HostError::Zone(text.to_owned()));
        }
        let ascii = normal(text)?;
        match number::ipv4(&ascii) {
            number::Reading::Address(address) => Ok(Host::Address(IpAddr::V4(address))),
            number::Reading::Broken => Err(HostError::Number(text.to_owned())),
            number::Reading::Name => Ok(Host::Name(Name(ascii))),
        }
    }
}

/// Is this an IPv6 address with a zone, as in `fe80::1%eth0`?
fn has_zone(text: &str) -> bool {
    text.split_once('%').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

/// The labels in lower-case ASCII, each of 1 to 63 characters, 253 in all, without the dot at the end.
fn normal(text: &str) -> Result<String, HostError> {
    if let Some(error) = text.chars().find_map(|character| fault_of(text, character)) {
        return Err(error);
    }
    // Hyphens may stand anywhere: `r3---sn-x.googlevideo.com` and `-a.example` exist. Characters are judged
    // below, where the fault can be named.
    let mapped = Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow, DnsLength::Ignore)
        .map_err(|_| HostError::International(text.to_owned()))?;
    let mapped = mapped.strip_suffix('.').unwrap_or(&mapped);
    // Again, since full-width forms become ASCII only now: `％` is `%`, and `℀` is `a/c`.
    if let Some(error) = mapped.chars().find_map(|character| fault_of(text, character)) {
        return Err(error);
    }
    for character in mapped.chars() {
        if !matches!(character, 'a'..='z' | '0'..='9' | '-' | '_' | '.') {
            return Err(HostError::Character { text: text.to_owned(), character });
        }
    }
    if mapped.is_empty() || mapped.split('.').any(str::is_empty) {
        return Err(HostError::EmptyLabel(text.to_owned()));
    }
    if mapped.split('.').any(|label| label.len() > LONGEST_LABEL) {
        return Err(HostError::LongLabel(text.to_owned()));
    }
    if mapped.len() > LONGEST_NAME {
        return Err(HostError::Long { length: mapped.len() });
    }
    Ok(mapped.to_owned())
}

/// What a character that is no part of any name is likely to mean.
fn fault_of(text: &str, character: char) -> Option<HostError> {
    let fault = match character {
        '\0' => HostError::Nul,
        '\r' | '\n' => HostError::LineBreak,
        '%' => HostError::Percent,
        '/' => HostError::Slash,
        '@' => HostError::User,
        ':' => HostError::Colon,
        '[' | ']' => HostError::Brackets,
        _ if character.is_whitespace() => HostError::WhiteSpace,
        _ if character.is_control() => HostError::Control,
        _ => return None,
    };
    Some(fault(text.to_owned()))
}

impl Name {
    /// Like [`Host::parse`], for places where an address makes no sense.
    pub fn parse(text: &str) -> Result<Name, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(HostError::Address(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is this name a subdomain of `parent`, at any depth? No name is below itself.
    pub fn is_below(&self, parent: &Name) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// Is there no dot in it, as in `localhost`?
    pub fn is_single_label(&self) -> bool {
        !self.0.contains('.')
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Host::Address(address.to_canonical())
    }
}

impl From<Name> for Host {
    fn from(name: Name) -> Self {
        Host::Name(name)
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Host::parse(text)
    }
}

impl FromStr for Name {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Name::parse(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(f),
            Host::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
