//! DNS messages (RFC 1035, RFC 6891): the question in a query, and the answers to it (`answer.rs`).
//!
//! Written by hand, though `simple-dns` is small and safe: it keeps neither the bytes of a question, which an
//! answer repeats with the case of each letter, nor whether its name was compressed, and it refuses a whole
//! message for a record type it does not know, when even that message deserves an answer. It judges the
//! answers in the tests.

mod answer;

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Record types (RFC 1035, 3.2.2; RFC 3596; RFC 9460).
pub const A: u16 = 1;
pub const PTR: u16 = 12;
pub const AAAA: u16 = 28;
pub const HTTPS: u16 = 65;
pub const ANY: u16 = 255;
/// The Internet, the only class in use.
pub const IN: u16 = 1;

/// The most bytes a query may have. A question needs 271; the rest is room for options and padding.
pub const MAX_QUERY: usize = 4096;

const SOA: u16 = 6;
const OPT: u16 = 41;
const HEADER: usize = 12;
const MAX_LABEL: u8 = 63;
/// With the length bytes and the root's.
const MAX_NAME: usize = 255;
/// What a client takes over UDP when it does not say so.
const MIN_UDP_SIZE: u16 = 512;

/// A query with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub id: u16,
    /// The labels of the name as they were sent, without the root's empty one.
    pub name: Vec<Vec<u8>>,
    pub kind: u16,
    pub class: u16,
    pub recursion_desired: bool,
    /// The client sent EDNS and is answered with it.
    pub edns: bool,
    /// The most bytes the client takes over UDP, at least 512.
    pub udp_size: u16,
    checking_disabled: bool,
    /// The bytes of the question.
    question: Vec<u8>,
}

/// Why bytes are no query that can be answered, with what it takes to say so to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the message ends within its identifier and flags")]
    Short,
    /// Never answered: two servers would go on answering each other.
    #[error("the message is an answer, not a query")]
    Response,
    #[error("the query is malformed: {what}")]
    Format { client: Client, what: Flaw },
    #[error("the message is not a standard query but has opcode {opcode}")]
    Opcode { client: Client, opcode: u8 },
    #[error("the query uses version {version} of EDNS")]
    EdnsVersion { client: Client, version: u8 },
}

/// What of a query its answer repeats even when the question could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    pub id: u16,
    /// Opcode, `RD` and `CD`, where the header has them.
    flags: u16,
}

/// What is malformed about a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("it is longer than {MAX_QUERY} bytes")]
    Long,
    #[error("it ends too early")]
    Cut,
    #[error("it has {0} questions instead of one")]
    Questions(u16),
    #[error("it carries records that a query does not have")]
    Records,
    #[error("its name is compressed or has a label of an unknown kind")]
    Label,
    #[error("its name is longer than {MAX_NAME} bytes")]
    Name,
    #[error("its EDNS options do not add up")]
    Options,
    #[error("bytes follow its last record")]
    Trailing,
}

const RESPONSE: u16 = 1 << 15;
const OPCODE: u16 = 0b1111 << 11;
const TRUNCATED: u16 = 1 << 9;
const RECURSION_DESIRED: u16 = 1 << 8;
const RECURSION_AVAILABLE: u16 = 1 << 7;
const CHECKING_DISABLED: u16 = 1 << 4;

/// Reads a query: a whole datagram, or a message over TCP without its length.
pub fn read_query(bytes: &[u8]) -> Result<Query, QueryError> {
    let mut rest = Bytes(bytes);
    let (Ok(id), Ok(flags)) = (rest.number(), rest.number()) else {
        return Err(QueryError::Short);
    };
    if flags & RESPONSE != 0 {
        return Err(QueryError::Response);
    }
    let client = Client { id, flags: flags & (OPCODE | RECURSION_DESIRED | CHECKING_DISABLED) };
    if flags & OPCODE != 0 {
        let [high, _] = (flags & OPCODE).to_be_bytes();
        return Err(QueryError::Opcode { client, opcode: high >> 3 });
    }
    if bytes.len() > MAX_QUERY {
        return Err(QueryError::Format { client, what: Flaw::Long });
    }
    let (query, version) = rest.query(client).map_err(|what| QueryError::Format { client, what })?;
    match version {
        0 => Ok(query),
        version => Err(QueryError::EdnsVersion { client, version }),
    }
}

impl Query {
    /// The name as a host's: lower case, with dots between labels. `None` when it has a character that names
    /// of hosts and services do not have, or no label at all.
    pub fn host(&self) -> Option<String> {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let text = |label: &Vec<u8>| {
            label
                .iter()
                .all(fits)
                .then(|| label.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
        };
        let labels: Vec<String> = self.name.iter().map(text).collect::<Option<_>>()?;
        (!labels.is_empty()).then(|| labels.join("."))
    }

    /// The name for a log: what is not visible, and a dot within a label, as `\DDD` (RFC 1035, 5.1).
    pub fn text(&self) -> String {
        let mut text = String::new();
        for label in &self.name {
            for byte in label {
                match byte {
                    b'.' | b'\\' | 0..=0x20 | 0x7f.. => {
                        // Writing to a string does not fail.
                        let _ = write!(text, "\\{byte:03}");
                    }
                    _ => text.push(char::from(*byte)),
                }
            }
            text.push('.');
        }
        if text.is_empty() { ".".to_owned() } else { text }
    }

    /// The address whose name is asked for: `7.2.0.192.in-addr.arpa`, or its counterpart of IPv6.
    pub fn reverse_address(&self) -> Option<IpAddr> {
        let (labels, zone) = self.name.split_last_chunk::<2>()?;
        let [zone, arpa] = zone;
        if !arpa.eq_ignore_ascii_case(b"arpa") {
            return None;
        }
        let mut labels = labels.iter().rev().map(|label| str::from_utf8(label).unwrap_or_default());
        if zone.eq_ignore_ascii_case(b"in-addr") && labels.len() == 4 {
            let text: Vec<&str> = labels.collect();
            text.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
        } else if zone.eq_ignore_ascii_case(b"ip6") && labels.len() == 32 {
            let address = labels.try_fold(0u128, |address, label| match label.as_bytes() {
                [digit] => Some(address << 4 | u128::from(char::from(*digit).to_digit(16)?)),
                _ => None,
            })?;
            Some(Ipv6Addr::from_bits(address).into())
        } else {
            None
        }
    }
}

/// What was not read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Flaw::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let (byte, rest) = self.0.split_first().ok_or(Flaw::Cut)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u16, Flaw> {
        Ok(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// What follows the flags, and the version of EDNS.
    fn query(&mut self, client: Client) -> Result<(Query, u8), Flaw> {
        let counts = [self.number()?, self.number()?, self.number()?, self.number()?];
        let additional = match counts {
            [1, 0, 0, additional @ 0..=1] => additional,
            [1, ..] => return Err(Flaw::Records),
            [questions, ..] => return Err(Flaw::Questions(questions)),
        };
        let start = self.0;
        let name = self.name()?;
        let (kind, class) = (self.number()?, self.number()?);
        let question = start.get(..start.len() - self.0.len()).unwrap_or_default().to_vec();
        let (udp_size, version) = if additional == 1 { self.edns()? } else { (MIN_UDP_SIZE, 0) };
        if !self.0.is_empty() {
            return Err(Flaw::Trailing);
        }
        let query = Query {
            id: client.id,
            name,
            kind,
            class,
            recursion_desired: client.flags & RECURSION_DESIRED != 0,
            edns: additional == 1,
            udp_size,
            checking_disabled: client.flags & CHECKING_DISABLED != 0,
            question,
        };
        Ok((query, version))
    }

    fn name(&mut self) -> Result<Vec<Vec<u8>>, Flaw> {
        let (mut labels, mut length) = (Vec::new(), 1);
        loop {
            match self.byte()? {
                0 => return Ok(labels),
                size @ 1..=MAX_LABEL => {
                    length += 1 + usize::from(size);
                    if length > MAX_NAME {
                        return Err(Flaw::Name);
                    }
                    labels.push(self.take(size.into())?.to_vec());
                }
                _ => return Err(Flaw::Label),
            }
        }
    }

    /// RFC 6891, 6.1.2: the only record a query has.
    fn edns(&mut self) -> Result<(u16, u8), Flaw> {
        if self.byte()? != 0 || self.number()? != OPT {
            return Err(Flaw::Records);
        }
        let udp_size = self.number()?.max(MIN_UDP_SIZE);
        let (_extended_code, version, _flags) = (self.byte()?, self.byte()?, self.number()?);
        let length = self.number()?;
        let mut options = Bytes(self.take(length.into())?);
        while !options.0.is_empty() {
            let mut option = || {
                let (_code, length) = (options.number()?, options.number()?);
                options.take(length.into())
            };
            option().map_err(|_| Flaw::Options)?;
        }
        Ok((udp_size, version))
    }
}

#[cfg(test)]
mod tests;
