//! The bytes of answers. None of them says to be authoritative: they are a resolver's.

use std::net::IpAddr;

use super::{
    A, AAAA, CHECKING_DISABLED, Client, HEADER, IN, MAX_LABEL, MAX_NAME, OPT, PTR, Query, QueryError,
    RECURSION_AVAILABLE, RECURSION_DESIRED, RESPONSE, SOA, TRUNCATED,
};

/// What fits into one packet on nearly every path; longer datagrams may be lost whole (flag day 2020).
const MAX_ANSWER: u16 = 1232;
/// The name of the question, which begins right after the header.
const QUESTION_NAME: [u8; 2] = [0xc0, HEADER as u8];
/// An OPT record without options.
const OPT_SIZE: usize = 11;
/// Name, type, class, time to live and length of a record whose name is a pointer.
const RECORD_HEADER: usize = 12;

/// Response codes (RFC 1035, 4.1.1). `BadVersion` needs EDNS (RFC 6891, 6.1.3).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    BadVersion = 16,
}

impl Query {
    /// These addresses, as far as they are of the kind asked for and fit. Every address is good by itself, so
    /// that an answer without the last of many is not called truncated. Without any it is [`Query::no_data`].
    pub fn addresses(&self, addresses: &[IpAddr], ttl: u32) -> Vec<u8> {
        let mut room = self.limit().saturating_sub(HEADER + self.question.len() + OPT_SIZE);
        let mut records = Records::default();
        for address in addresses {
            let size = match (self.kind, address) {
                _ if self.class != IN => continue,
                (A, IpAddr::V4(_)) => RECORD_HEADER + 4,
                (AAAA, IpAddr::V6(_)) => RECORD_HEADER + 16,
                _ => continue,
            };
            let Some(left) = room.checked_sub(size) else { break };
            room = left;
            match address {
                IpAddr::V4(address) => records.add(&QUESTION_NAME, A, ttl, &address.octets()),
                IpAddr::V6(address) => records.add(&QUESTION_NAME, AAAA, ttl, &address.octets()),
            }
        }
        if records.count == 0 {
            self.no_data(ttl)
        } else {
            self.answer(Code::NoError, &records, &Records::default())
        }
    }

    /// This name for the address asked about. A name that is none gives [`Query::server_failure`].
    pub fn pointer(&self, host: &str, ttl: u32) -> Vec<u8> {
        let Some(name) = encode(host) else { return self.server_failure() };
        let mut records = Records::default();
        records.add(&QUESTION_NAME, PTR, ttl, &name);
        self.answer(Code::NoError, &records, &Records::default())
    }

    /// The name is there, a record of this kind is not; to be asked again after `ttl` seconds.
    pub fn no_data(&self, ttl: u32) -> Vec<u8> {
        self.answer(Code::NoError, &Records::default(), &negative(ttl))
    }

    /// There is no such name; to be asked again after `ttl` seconds.
    pub fn no_such_name(&self, ttl: u32) -> Vec<u8> {
        self.answer(Code::NxDomain, &Records::default(), &negative(ttl))
    }

    pub fn refused(&self) -> Vec<u8> {
        self.answer(Code::Refused, &Records::default(), &Records::default())
    }

    pub fn server_failure(&self) -> Vec<u8> {
        self.answer(Code::ServFail, &Records::default(), &Records::default())
    }

    pub fn format_error(&self) -> Vec<u8> {
        self.answer(Code::FormErr, &Records::default(), &Records::default())
    }

    pub fn not_implemented(&self) -> Vec<u8> {
        self.answer(Code::NotImp, &Records::default(), &Records::default())
    }

    fn limit(&self) -> usize {
        self.udp_size.min(MAX_ANSWER).into()
    }

    fn answer(&self, code: Code, answers: &Records, authority: &Records) -> Vec<u8> {
        let mut flags = RESPONSE | RECURSION_AVAILABLE | code as u16;
        flags |= if self.recursion_desired { RECURSION_DESIRED } else { 0 };
        flags |= if self.checking_disabled { CHECKING_DISABLED } else { 0 };
        let opt = if self.edns { opt(code) } else { Records::default() };
        let length =
            [&answers.bytes, &authority.bytes, &opt.bytes].iter().map(|part| part.len()).sum::<usize>();
        if HEADER + self.question.len() + length > self.limit() {
            let none = Records::default();
            return message(self.id, flags | TRUNCATED, &self.question, [&none, &none, &opt]);
        }
        message(self.id, flags, &self.question, [answers, authority, &opt])
    }
}

impl QueryError {
    /// What to send back. `None`: nothing at all.
    pub fn answer(&self) -> Option<Vec<u8>> {
        let (client, code) = match self {
            QueryError::Short | QueryError::Response => return None,
            QueryError::Format { client, .. } => (client, Code::FormErr),
            QueryError::Opcode { client, .. } => (client, Code::NotImp),
            QueryError::EdnsVersion { client, .. } => (client, Code::BadVersion),
        };
        let Client { id, flags } = *client;
        let none = Records::default();
        let opt = if code == Code::BadVersion { opt(code) } else { Records::default() };
        let flags = flags | RESPONSE | RECURSION_AVAILABLE | (code as u16 & 0xf);
        Some(message(id, flags, &[], [&none, &none, &opt]))
    }
}

/// Records of one section.
#[derive(Default)]
struct Records {
    count: u16,
    bytes: Vec<u8>,
}

impl Records {
    fn add(&mut self, name: &[u8], kind: u16, ttl: u32, data: &[u8]) {
        self.add_of_class(name, kind, IN, ttl, data);
    }

    fn add_of_class(&mut self, name: &[u8], kind: u16, class: u16, ttl: u32, data: &[u8]) {
        // No data here is longer than a name and five numbers.
        let Ok(length) = u16::try_from(data.len()) else { return };
        self.count += 1;
        self.bytes.extend_from_slice(name);
        for number in [kind, class] {
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(data);
    }
}

fn message(id: u16, flags: u16, question: &[u8], [answers, authority, additional]: [&Records; 3]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + question.len() + answers.bytes.len() + 64);
    let questions = u16::from(!question.is_empty());
    for number in [id, flags, questions, answers.count, authority.count, additional.count] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(question);
    for section in [answers, authority, additional] {
        bytes.extend_from_slice(&section.bytes);
    }
    bytes
}

/// How long an answer that there is nothing may be kept (RFC 2308, 5): the SOA record of the root, above
/// every name.
fn negative(ttl: u32) -> Records {
    const ROOT: [u8; 1] = [0];
    let mut data = [ROOT, ROOT].concat();
    for number in [1, 3600, 600, 86400, ttl] {
        data.extend_from_slice(&u32::to_be_bytes(number));
    }
    let mut records = Records::default();
    records.add(&ROOT, SOA, ttl, &data);
    records
}

/// Where the class of a record is, OPT has the size this side takes, and where its time is, the upper bits of
/// the code, the version and flags.
fn opt(code: Code) -> Records {
    let mut records = Records::default();
    records.add_of_class(&[0], OPT, MAX_ANSWER, u32::from(code as u16 >> 4) << 24, &[]);
    records
}

/// A name on the wire.
fn encode(host: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(host.len() + 2);
    for label in host.strip_suffix('.').unwrap_or(host).split('.') {
        let size = u8::try_from(label.len()).ok().filter(|size| (1..=MAX_LABEL).contains(size))?;
        bytes.push(size);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    (bytes.len() <= MAX_NAME).then_some(bytes)
}
