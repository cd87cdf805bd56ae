//! Catches a connection on its way out: for a moment somebody listens at the very address and port that was
//! asked for, so that the connecting program sees nothing but the peer it wanted, and what was accepted there
//! goes to the supervisor.
//!
//! Nobody keeps listening, so that a server inside can have every port.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::OnceLock,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, SocketAddrAny, SocketFlags, SocketType, accept_with, bind, connect, getpeername,
        getsockname, listen, socket_with, sockopt,
    },
};

use super::{network, sys};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// On the loopback interface a connection is there as soon as it is asked for.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// When somebody inside has the port already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenTaken {
    /// It is for them.
    LeaveIt,
    /// It is captured on another port; only the peer's port looks different then.
    CaptureElsewhere,
}

/// What came of it.
pub enum Captured {
    /// The other end; connecting succeeded, or goes on for a socket that does not wait.
    Yes { end: OwnedFd, connected: Result<(), Errno> },
    /// Somebody inside listens there.
    Taken,
}

/// Connects `socket` to `address`, a C structure, and returns the other end.
pub fn capture(socket: BorrowedFd<'_>, address: &[u8], when_taken: WhenTaken) -> io::Result<Captured> {
    let family = sockopt::socket_domain(socket)?;
    if when_taken == WhenTaken::LeaveIt
        && network::address_of(address)
            .is_some_and(|to| to.ip() == Ipv6Addr::LOCALHOST && is_taken_v4(to.port()))
    {
        // Whoever means `localhost` tries this address first, and there goes on to the server inside.
        return Ok(Captured::Taken);
    }
    let listener = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    match capture_by(&listener, socket, address, when_taken) {
        Err(error) if is_in_the_way(&error) => {
            let wanted = network::address_of(address).ok_or(Errno::AFNOSUPPORT)?;
            capture_elsewhere(socket, family, SocketAddr::new(for_family(wanted, family)?.ip(), 0))
        }
        other => other,
    }
}

/// Somebody inside has the port, or it must not be bound.
pub fn is_in_the_way(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EACCES))
}

/// As [`capture`], from anywhere, by a socket of the sandbox's network that nobody uses; see [`is_in_the_way`].
pub fn capture_by(
    listener: &OwnedFd,
    socket: BorrowedFd<'_>,
    address: &[u8],
    when_taken: WhenTaken,
) -> io::Result<Captured> {
    let wanted = network::address_of(address).ok_or(Errno::AFNOSUPPORT)?;
    let family = sockopt::socket_domain(socket)?;
    sockopt::set_socket_reuseaddr(listener, true)?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(listener, false)?;
    }
    free_to_bind(listener, family)?;
    let wanted = for_family(wanted, family)?;
    match bind(listener, &wanted).and_then(|()| listen(listener, 1)) {
        Ok(()) => finish(socket, listener, &wanted),
        Err(Errno::ADDRINUSE) if when_taken == WhenTaken::LeaveIt => Ok(Captured::Taken),
        Err(error) => Err(error.into()),
    }
}

/// New sockets of this network: so many of IPv4, so many of IPv6, as far as they can be had.
pub fn new_sockets(v4: u64, v6: u64) -> Vec<OwnedFd> {
    const MOST: u64 = 64;
    let some = |family: AddressFamily, count: u64| {
        (0..count.min(MOST)).map_while(move |_| socket_with(family, SocketType::STREAM, FLAGS, None).ok())
    };
    some(AddressFamily::INET, v4).chain(some(AddressFamily::INET6, v6)).collect()
}

/// Every address is local here by its route, which is enough for IPv4; IPv6 asks for the interface's own.
fn free_to_bind(socket: &OwnedFd, family: AddressFamily) -> Result<(), Errno> {
    if family == AddressFamily::INET6 { sockopt::set_ip_freebind(socket, true) } else { Ok(()) }
}

/// Does somebody inside listen at 127.0.0.1?
fn is_taken_v4(port: u16) -> bool {
    let probe = || {
        let probe = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_socket_reuseaddr(&probe, true)?;
        bind(&probe, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    probe() == Err(Errno::ADDRINUSE)
}

fn capture_elsewhere(
    socket: BorrowedFd<'_>,
    family: AddressFamily,
    any_port: SocketAddr,
) -> io::Result<Captured> {
    let listener = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    free_to_bind(&listener, family)?;
    bind(&listener, &any_port)?;
    listen(&listener, 1)?;
    let bound = SocketAddr::try_from(getsockname(&listener)?)?;
    finish(socket, &listener, &bound)
}

fn finish(socket: BorrowedFd<'_>, listener: &OwnedFd, at: &SocketAddr) -> io::Result<Captured> {
    let connected = match connect(socket, at) {
        Err(error @ (Errno::INPROGRESS | Errno::AGAIN)) => Err(error),
        Err(Errno::INTR) => return Err(Errno::TIMEDOUT.into()),
        Err(error) => return Err(error.into()),
        Ok(()) => Ok(()),
    };
    // Somebody else inside may have guessed where to connect to: that one is not carried.
    for _ in 0..16 {
        let end = match accept_with(listener, FLAGS) {
            Ok(end) => end,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(listener, PollFlags::IN)];
                match poll(&mut fds, Some(&PATIENCE)) {
                    Ok(0) => break,
                    Ok(_) | Err(Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        };
        if getpeername(&end)?.is_some_and(|peer| getsockname(socket).is_ok_and(|own| same(peer, own))) {
            return Ok(Captured::Yes { end, connected });
        }
    }
    Err(Errno::TIMEDOUT.into())
}

fn same(a: SocketAddrAny, b: SocketAddrAny) -> bool {
    match (SocketAddr::try_from(a), SocketAddr::try_from(b)) {
        (Ok(a), Ok(b)) => a.ip().to_canonical() == b.ip().to_canonical() && a.port() == b.port(),
        _ => false,
    }
}

/// An IPv6 socket takes IPv4 addresses in its own clothing.
fn for_family(address: SocketAddr, family: AddressFamily) -> Result<SocketAddr, Errno> {
    match (address.ip(), family) {
        (IpAddr::V4(_), AddressFamily::INET) | (IpAddr::V6(_), AddressFamily::INET6) => Ok(address),
        (IpAddr::V4(v4), AddressFamily::INET6) => {
            Ok(SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// A new connection to a server inside, wherever on loopback it listens.
pub fn dial_inside(port: u16) -> io::Result<OwnedFd> {
    let mut last = Errno::CONNREFUSED;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let Ok(socket) = socket_with(family, SocketType::STREAM, FLAGS, None) else { continue };
        match connect(&socket, &SocketAddr::new(address, port)) {
            Ok(()) => return Ok(socket),
            Err(Errno::INPROGRESS) => {
                let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut fds, Some(&PATIENCE))? == 0 {
                    last = Errno::TIMEDOUT;
                    continue;
                }
                match sockopt::socket_error(&socket)? {
                    Ok(()) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Does a socket belong to another network than this process? One that came in as a standard stream would
/// lead around everything.
pub fn is_foreign(socket: BorrowedFd<'_>) -> io::Result<bool> {
    static OWN: OnceLock<u64> = OnceLock::new();
    let own = match OWN.get() {
        Some(own) => *own,
        None => {
            let own = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
            let number = sys::network_of(own.as_fd())?;
            *OWN.get_or_init(|| number)
        }
    };
    Ok(sys::network_of(socket)? != own)
}

/// Are two sockets of one network?
pub fn of_one_network(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sys::network_of(a)? == sys::network_of(b)?)
}
