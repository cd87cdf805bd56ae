//! Connects to the outside: to the addresses that were checked, and to nothing else.

use std::{io, net::SocketAddr, os::fd::OwnedFd, time::Duration};

use tokio::{net::TcpStream, time::timeout};

/// For all addresses of a host together.
const DIALLING: Duration = Duration::from_secs(30);
/// For one address, when there is another.
const ONE: Duration = Duration::from_secs(5);

/// The first address that answers.
pub async fn dial(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let tried = async {
        let mut last = io::Error::from(io::ErrorKind::HostUnreachable);
        let mut left = addresses.len();
        for address in addresses {
            left -= 1;
            #[expect(clippy::disallowed_methods, reason = "the one place where connections go out")]
            let attempt = TcpStream::connect(address);
            let outcome = if left == 0 {
                attempt.await
            } else {
                timeout(ONE, attempt).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            };
            match outcome {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    timeout(DIALLING, tried).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A service of this very host answers at once, or it is dialled as everybody is.
pub fn dial_at_once(addresses: &[SocketAddr]) -> Option<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let address = addresses.first().filter(|address| address.ip().is_loopback())?;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).ok()?;
    match connect(&socket, address) {
        Ok(()) => Some(socket),
        // On loopback that is: connected, as soon as this call has returned.
        Err(rustix::io::Errno::INPROGRESS) => {
            rustix::net::getpeername(&socket).is_ok_and(|peer| peer.is_some()).then_some(socket)
        }
        Err(_) => None,
    }
}

/// As a system call would have said it.
pub fn errno(error: &io::Error) -> i32 {
    const ETIMEDOUT: i32 = 110;
    const EHOSTUNREACH: i32 = 113;
    match error.raw_os_error() {
        Some(errno) => errno,
        None if error.kind() == io::ErrorKind::TimedOut => ETIMEDOUT,
        None => EHOSTUNREACH,
    }
}
