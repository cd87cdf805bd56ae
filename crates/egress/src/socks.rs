//! SOCKS 5 (RFC 1928) as a server sees it: the greeting and the request of a client, and what is said back.
//!
//! Offers nothing and connects nowhere; which method and which request are acceptable is for others to say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const VERSION: u8 = 5;

/// What the bytes so far amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<T> {
    Incomplete,
    /// The message takes the first `taken` bytes; what follows is not part of it.
    Complete {
        message: T,
        taken: usize,
    },
}

/// The authentication methods a client offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    pub methods: Vec<u8>,
}

impl Greeting {
    pub fn offers(&self, method: Method) -> bool {
        self.methods.contains(&(method as u8))
    }
}

/// What a server answers to a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    NoAuthentication = 0,
    /// RFC 1929.
    Password = 2,
    NoneAcceptable = 0xff,
}

/// What a client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub command: Command,
    pub destination: Destination,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Connect,
    Bind,
    UdpAssociate,
}

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// An address, also when it was sent as text in place of a name.
    Ip(IpAddr),
    /// As it was sent: visible ASCII characters, not checked to be a host name.
    Name(String),
}

/// What a server answers to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TtlExpired = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// Why bytes are no message of SOCKS 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    #[error("the client speaks version {0} of SOCKS, not version 5")]
    Version(u8),
    #[error("the reserved byte of the request is {0}, not 0")]
    Reserved(u8),
    #[error("SOCKS has no command {0}")]
    Command(u8),
    #[error("SOCKS has no address type {0}")]
    AddressType(u8),
    #[error("the name in the request is empty or holds a character that no host name has")]
    Name,
}

impl SocksError {
    /// What to tell a client whose request this is.
    pub fn reply(self) -> Reply {
        match self {
            SocksError::Command(_) => Reply::CommandNotSupported,
            SocksError::AddressType(_) => Reply::AddressTypeNotSupported,
            SocksError::Version(_) | SocksError::Reserved(_) | SocksError::Name => Reply::GeneralFailure,
        }
    }
}

/// Reads the greeting at the start of `bytes`.
pub fn greeting(bytes: &[u8]) -> Result<Parsed<Greeting>, SocksError> {
    read(bytes, |bytes| {
        version(bytes)?;
        let count = bytes.byte()?;
        Ok(Greeting { methods: bytes.take(count.into())?.to_vec() })
    })
}

/// Reads the request at the start of `bytes`: what came after the greeting.
pub fn request(bytes: &[u8]) -> Result<Parsed<Request>, SocksError> {
    read(bytes, |bytes| {
        version(bytes)?;
        let command = match bytes.byte()? {
            1 => Command::Connect,
            2 => Command::Bind,
            3 => Command::UdpAssociate,
            other => return Err(SocksError::Command(other).into()),
        };
        match bytes.byte()? {
            0 => {}
            other => return Err(SocksError::Reserved(other).into()),
        }
        let destination = match bytes.byte()? {
            1 => Destination::Ip(Ipv4Addr::from(bytes.array::<4>()?).into()),
            3 => name(bytes)?,
            4 => Destination::Ip(Ipv6Addr::from(bytes.array::<16>()?).into()),
            other => return Err(SocksError::AddressType(other).into()),
        };
        let port = u16::from_be_bytes(bytes.array()?);
        Ok(Request { command, destination, port })
    })
}

fn version(bytes: &mut Bytes<'_>) -> Result<(), Stop> {
    match bytes.byte()? {
        VERSION => Ok(()),
        other => Err(SocksError::Version(other).into()),
    }
}

fn name(bytes: &mut Bytes<'_>) -> Result<Destination, Stop> {
    let length = bytes.byte()?;
    let mut name = String::with_capacity(length.into());
    for _ in 0..length {
        match bytes.byte()? {
            byte if byte.is_ascii_graphic() => name.push(byte.into()),
            _ => return Err(SocksError::Name.into()),
        }
    }
    if name.is_empty() {
        return Err(SocksError::Name.into());
    }
    Ok(name.parse().map_or(Destination::Name(name), Destination::Ip))
}

/// The answer to a greeting.
pub fn method_selection(method: Method) -> [u8; 2] {
    [VERSION, method as u8]
}

/// The answer to a request. `bound` is the server's own end of the connection; on a failure any will do.
pub fn reply(reply: Reply, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, reply as u8, 0];
    match bound.ip() {
        IpAddr::V4(address) => {
            bytes.push(1);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
    }
    bytes.extend_from_slice(&bound.port().to_be_bytes());
    bytes
}

/// Why reading stopped before the end.
enum Stop {
    More,
    Wrong(SocksError),
}

impl From<SocksError> for Stop {
    fn from(error: SocksError) -> Self {
        Stop::Wrong(error)
    }
}

fn read<T>(
    bytes: &[u8],
    message: impl FnOnce(&mut Bytes<'_>) -> Result<T, Stop>,
) -> Result<Parsed<T>, SocksError> {
    let mut rest = Bytes(bytes);
    match message(&mut rest) {
        Ok(message) => Ok(Parsed::Complete { message, taken: bytes.len() - rest.0.len() }),
        Err(Stop::More) => Ok(Parsed::Incomplete),
        Err(Stop::Wrong(error)) => Err(error),
    }
}

/// What was not read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Stop::More)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Stop::More)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        self.array().map(|[byte]| byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BY_NAME: &[u8] = b"\x05\x01\x00\x03\x0bexample.com\x01\xbb";
    const BY_V4: &[u8] = b"\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50";

    fn connect(destination: Destination, port: u16) -> Request {
        Request { command: Command::Connect, destination, port }
    }

    #[test]
    fn a_greeting_lists_its_methods_and_leaves_what_follows() {
        let message = Greeting { methods: vec![0, 2] };
        assert!(message.offers(Method::NoAuthentication) && message.offers(Method::Password));
        assert!(!message.offers(Method::NoneAcceptable));
        assert_eq!(greeting(b"\x05\x02\x00\x02more"), Ok(Parsed::Complete { message, taken: 4 }));
        assert_eq!(
            greeting(b"\x05\x00"),
            Ok(Parsed::Complete { message: Greeting { methods: vec![] }, taken: 2 })
        );
    }

    #[test]
    fn a_request_names_its_destination_in_three_ways() {
        let name = connect(Destination::Name("example.com".to_owned()), 443);
        assert_eq!(request(BY_NAME), Ok(Parsed::Complete { message: name, taken: 18 }));
        let v4 = connect(Destination::Ip("192.0.2.7".parse().unwrap()), 80);
        assert_eq!(request(BY_V4), Ok(Parsed::Complete { message: v4, taken: 10 }));
        let v6 = b"\x05\x03\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x35rest";
        let message = Request {
            command: Command::UdpAssociate,
            destination: Destination::Ip("2001:db8::1".parse().unwrap()),
            port: 53,
        };
        assert_eq!(request(v6), Ok(Parsed::Complete { message, taken: 22 }));
    }

    #[test]
    fn an_address_sent_as_a_name_is_an_address() {
        let bytes = b"\x05\x01\x00\x03\x09127.0.0.1\x00\x50";
        let message = connect(Destination::Ip(Ipv4Addr::LOCALHOST.into()), 80);
        assert_eq!(request(bytes), Ok(Parsed::Complete { message, taken: bytes.len() }));
    }

    #[test]
    fn what_is_wrong_is_named_as_soon_as_it_is_there() {
        assert_eq!(greeting(b"\x04"), Err(SocksError::Version(4)));
        assert_eq!(greeting(b"GET"), Err(SocksError::Version(b'G')));
        assert_eq!(request(b"\x05\x09"), Err(SocksError::Command(9)));
        assert_eq!(request(b"\x05\x01\x01"), Err(SocksError::Reserved(1)));
        assert_eq!(request(b"\x05\x01\x00\x02"), Err(SocksError::AddressType(2)));
        assert_eq!(request(b"\x05\x01\x00\x03\x00"), Err(SocksError::Name));
        for name in [&b"\x05\x01\x00\x03\x09a\0"[..], b"\x05\x01\x00\x03\x09 ", b"\x05\x01\x00\x03\x09\xff"] {
            assert_eq!(request(name), Err(SocksError::Name));
        }
    }

    #[test]
    fn an_error_says_what_to_reply() {
        assert_eq!(SocksError::Command(9).reply(), Reply::CommandNotSupported);
        assert_eq!(SocksError::AddressType(2).reply(), Reply::AddressTypeNotSupported);
        assert_eq!(SocksError::Name.reply(), Reply::GeneralFailure);
    }

    #[test]
    fn replies_have_the_bytes_of_the_rfc() {
        assert_eq!(method_selection(Method::NoAuthentication), [5, 0]);
        assert_eq!(method_selection(Method::NoneAcceptable), [5, 0xff]);
        let v4 = "192.0.2.7:80".parse().unwrap();
        assert_eq!(reply(Reply::Succeeded, v4), [5, 0, 0, 1, 192, 0, 2, 7, 0, 80]);
        let v6 = "[::1]:443".parse().unwrap();
        let mut expected = vec![5, 2, 0, 4];
        expected.extend([0; 15]);
        expected.extend([1, 1, 0xbb]);
        assert_eq!(reply(Reply::NotAllowed, v6), expected);
    }

    /// What came first decides: a part is incomplete or already says what the whole says.
    fn same_for_every_part<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        read: fn(&[u8]) -> Result<Parsed<T>, SocksError>,
    ) {
        let whole = read(bytes);
        for end in 0..bytes.len() {
            let part = read(&bytes[..end]);
            assert!(part == Ok(Parsed::Incomplete) || part == whole, "{end} of {bytes:?}");
        }
        if let Ok(Parsed::Complete { taken, .. }) = &whole {
            assert_eq!(read(&bytes[..*taken]), whole);
            assert_eq!(read(&bytes[..taken - 1]), Ok(Parsed::Incomplete));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_the_same_in_any_pieces(
            start in proptest::sample::select(vec![&b""[..], b"\x05", b"\x05\x01\x00", BY_NAME, BY_V4]),
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = [start, &rest].concat();
            same_for_every_part(&bytes, greeting);
            same_for_every_part(&bytes, request);
        }

        #[test]
        fn a_changed_request_is_read_the_same_in_any_pieces(at in 0usize..18, byte: u8) {
            let mut bytes = BY_NAME.to_vec();
            bytes[at] = byte;
            same_for_every_part(&bytes, request);
        }
    }
}
