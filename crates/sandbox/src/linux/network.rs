//! The network of a sandbox: a loopback interface and nothing else. Every address in the world is made to be
//! one of this namespace's own, so that a connection or datagram to anywhere stays here, where it can be seen
//! and either captured or refused at once, instead of timing out. What leaves is carried by the supervisor.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, listen, recv, send, socket_with,
    sockopt,
};

use super::sys;
use crate::spec::Doors;

/// The listening ends of [`Doors`].
#[derive(Debug)]
pub struct Listeners {
    pub datagrams: OwnedFd,
    pub streams: OwnedFd,
    pub proxy: OwnedFd,
}

/// Sees every UDP datagram that is not for loopback, one socket for each version of IP.
#[derive(Debug, Default)]
pub struct Taps {
    pub v4: Option<OwnedFd>,
    pub v6: Option<OwnedFd>,
}

/// The name server's address: datagrams to it are no attempt to get out.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

const LOOPBACK_INDEX: u32 = 1;
const IPPROTO_UDP: u32 = 17;
/// The most of a datagram that is looked at.
pub const SEEN: usize = 512;

/// Brings the interface up and leads every address to it.
pub fn wire() -> io::Result<Taps> {
    // NETLINK_ROUTE is protocol 0, which is what no protocol means.
    let line = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut messages = link_up(1);
    messages.extend(everything_is_local(AddressFamily::INET, 2));
    messages.extend(everything_is_local(AddressFamily::INET6, 3));
    send(&line, &messages, SendFlags::empty())?;
    let mut outcomes = [None; 3];
    while outcomes.iter().any(Option::is_none) {
        let mut answer = [0; 4096];
        let (length, _) = recv(&line, &mut answer, RecvFlags::empty())?;
        note_answers(answer.get(..length).unwrap_or_default(), &mut outcomes)?;
    }
    let [link, v4, v6] = outcomes.map(|outcome| outcome.unwrap_or(libc::EIO));
    for errno in [link, v4] {
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
    }
    Ok(Taps {
        v4: Some(tap(AddressFamily::INET)?),
        // A kernel without IPv6 has nothing to be led astray there.
        v6: if v6 == 0 { Some(tap(AddressFamily::INET6)?) } else { None },
    })
}

/// Opens the doors. Low ports become free to bind: a connection to port 443 of some host is captured by
/// listening there for a moment, and nobody outside can reach a port of this namespace.
pub fn open_doors(doors: Doors) -> io::Result<Listeners> {
    let _ = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    // Buffers of sockets are nobody's memory. On loopback nothing needs large ones.
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 1048576");
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 65536 524288");
    let datagrams = socket_with(AddressFamily::INET, SocketType::DGRAM, NONBLOCKING, None)?;
    bind(&datagrams, &doors.resolver)?;
    Ok(Listeners { datagrams, streams: listener(doors.resolver)?, proxy: listener(doors.proxy)? })
}

const NONBLOCKING: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn listener(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, NONBLOCKING, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, 1024)?;
    Ok(socket)
}

fn tap(family: AddressFamily) -> io::Result<OwnedFd> {
    let udp = rustix::net::RawProtocol::new(IPPROTO_UDP).map(rustix::net::Protocol::from_raw);
    let socket = socket_with(family, SocketType::RAW, NONBLOCKING, udp)?;
    let _ = sockopt::set_socket_recv_buffer_size(&socket, 64 << 10);
    if family == AddressFamily::INET6 {
        sys::tell_destination_v6(socket.as_fd())?;
        sys::attach_filter(socket.as_fd(), &not_to_loopback_v6())?;
    } else {
        sys::attach_filter(socket.as_fd(), &not_to_loopback_v4())?;
    }
    // What came before the filter was attached has not been filtered.
    let mut byte = [0; 1];
    while recv(&socket, &mut byte, RecvFlags::DONTWAIT).is_ok() {}
    Ok(socket)
}

/// One datagram that was sent to somewhere outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// The beginning of what it carried.
    pub payload: Vec<u8>,
}

/// Takes one datagram off a tap; `None` when there is none.
pub fn next_stray(tap: BorrowedFd<'_>) -> Option<Stray> {
    let mut bytes = [0; SEEN];
    loop {
        let seen = sys::receive_with_destination(tap, &mut bytes).ok()?;
        let packet = bytes.get(..seen.length)?;
        let stray = match seen.destination {
            Some(destination) => udp(packet, IpAddr::V6(seen.source), IpAddr::V6(destination)),
            None => ipv4(packet),
        };
        if stray.is_some() {
            return stray;
        }
    }
}

fn ipv4(packet: &[u8]) -> Option<Stray> {
    let words = packet.first()? & 0xf;
    let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
    let (source, destination) = (address(12)?, address(16)?);
    udp(packet.get(usize::from(words) * 4..)?, IpAddr::V4(source), IpAddr::V4(destination))
}

fn udp(packet: &[u8], source: IpAddr, destination: IpAddr) -> Option<Stray> {
    let port = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    Some(Stray {
        source: SocketAddr::new(source, port(0)?),
        destination: SocketAddr::new(destination, port(2)?),
        payload: packet.get(8..)?.to_vec(),
    })
}

/// A netlink message with its header.
fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = 16 + body.len() as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn link_up(sequence: u32) -> Vec<u8> {
    let up = libc::IFF_UP as u32;
    let mut body = vec![0; 4];
    for number in [LOOPBACK_INDEX, up, up] {
        body.extend(number.to_ne_bytes());
    }
    message(libc::RTM_NEWLINK, 0, sequence, &body)
}

/// `ip route add local default dev lo`.
fn everything_is_local(family: AddressFamily, sequence: u32) -> Vec<u8> {
    const RTPROT_BOOT: u8 = 3;
    const RTA_OIF: u16 = 4;
    let mut body = vec![
        family.as_raw() as u8,
        0,
        0,
        0,
        libc::RT_TABLE_LOCAL,
        RTPROT_BOOT,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    body.extend(0_u32.to_ne_bytes());
    body.extend(8_u16.to_ne_bytes());
    body.extend(RTA_OIF.to_ne_bytes());
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    message(libc::RTM_NEWROUTE, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16, sequence, &body)
}

/// Reads acknowledgements: the errno of each message, by its sequence number.
fn note_answers(mut bytes: &[u8], outcomes: &mut [Option<i32>; 3]) -> io::Result<()> {
    let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
    while !bytes.is_empty() {
        let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let length = number(0).ok_or_else(unreadable)? as usize;
        let sequence = number(8).ok_or_else(unreadable)?;
        let errno = number(16).ok_or_else(unreadable)? as i32;
        if let Some(outcome) = outcomes.get_mut((sequence as usize).wrapping_sub(1)) {
            *outcome = Some(-errno);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(16)..).unwrap_or_default();
    }
    Ok(())
}

// Offsets from the network header on, whatever the kind of socket: SKF_NET_OFF.
const NETWORK: u32 = 0xfff0_0000;
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUALS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn not_to_loopback_v4() -> [libc::sock_filter; 6] {
    [
        op(LOAD, 0, 0, NETWORK + 16),
        op(EQUALS, 2, 0, u32::from_be_bytes(RESOLVER.octets())),
        op(AND, 0, 0, 0xff00_0000),
        op(EQUALS, 0, 1, 0x7f00_0000),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, SEEN as u32),
    ]
}

fn not_to_loopback_v6() -> [libc::sock_filter; 10] {
    [
        op(LOAD, 0, 0, NETWORK + 24),
        op(EQUALS, 0, 7, 0),
        op(LOAD, 0, 0, NETWORK + 28),
        op(EQUALS, 0, 5, 0),
        op(LOAD, 0, 0, NETWORK + 32),
        op(EQUALS, 0, 3, 0),
        op(LOAD, 0, 0, NETWORK + 36),
        op(EQUALS, 0, 1, 1),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, SEEN as u32),
    ]
}

/// Is this one of the namespace's own addresses in the usual sense?
pub fn is_inside(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

/// The socket address as a C structure has it; `None` for other families.
pub fn address_of(raw: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = raw.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    let address: IpAddr = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
        // Four bytes of flow label come first.
        libc::AF_INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_read_with_its_addresses() {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 8, 8, 4, 4];
        packet.extend([0x30, 0x39, 0, 53, 0, 12, 0, 0]);
        packet.extend(b"hey");
        let stray = ipv4(&packet).unwrap();
        assert_eq!(stray.source, "10.0.0.1:12345".parse().unwrap());
        assert_eq!(stray.destination, "8.8.4.4:53".parse().unwrap());
        assert_eq!(stray.payload, b"hey");
        for end in 0..28 {
            assert_eq!(ipv4(&packet[..end]), None);
        }
    }

    #[test]
    fn addresses_of_both_families_are_read_and_others_are_not() {
        let v4 = [2, 0, 1, 187, 93, 184, 216, 34];
        assert_eq!(address_of(&v4), Some("93.184.216.34:443".parse().unwrap()));
        let mut v6 = vec![10, 0, 0, 80, 0, 0, 0, 0];
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address_of(&v6), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address_of(&v6[..20]), None);
        assert_eq!(address_of(&[1, 0, b'/', b'a', 0, 0, 0, 0]), None);
    }
}
