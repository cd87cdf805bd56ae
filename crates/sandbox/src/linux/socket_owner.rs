//! Was a unix socket bound inside this network namespace? The kernel's socket diagnostics know: they list
//! the sockets of the asking namespace with the inode each is bound to.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const UDIAG_SHOW_VFS: u32 = 2;
const UNIX_DIAG_VFS: u16 = 1;
/// struct unix_diag_msg without attributes.
const DIAG_HEADER: usize = 16;

/// `socket` is a path descriptor of the socket's name in the filesystem.
pub fn bound_inside(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let stat = rustix::fs::fstat(socket)?;
    // The kernel tells dev_t in its own packing: major << 20 | minor.
    let device = rustix::fs::major(stat.st_dev) << 20 | rustix::fs::minor(stat.st_dev);
    let wanted = (stat.st_ino as u32, device);
    let diag = ask()?;
    let mut buffer = vec![0_u8; 64 * 1024];
    loop {
        let (length, _) = recv(&diag, buffer.as_mut_slice(), RecvFlags::empty())?;
        let Some(mut rest) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { return Ok(false) };
        while let Some((kind, body, next)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(false),
                NLMSG_ERROR => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
                _ if attributes(body).any(|vfs| vfs == wanted) => return Ok(true),
                _ => {}
            }
            rest = next;
        }
    }
}

fn ask() -> io::Result<OwnedFd> {
    let diag =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    // struct unix_diag_req: family, protocol, pad, states, ino, show, cookie.
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(UDIAG_SHOW_VFS.to_ne_bytes());
    request.extend([0; 8]);
    send(&diag, &request, SendFlags::empty())?;
    Ok(diag)
}

/// Splits off one netlink message: its type, its body, what follows.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(16..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The (inode, device) attributes of one diagnostic message.
fn attributes(body: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let mut rest = body.get(DIAG_HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let length = u16::from_ne_bytes(*rest.first_chunk()?) as usize;
            let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
            let value = rest.get(4..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if kind == UNIX_DIAG_VFS {
                let inode = u32::from_ne_bytes(*value.first_chunk()?);
                return Some((inode, u32::from_ne_bytes(*value.get(4..)?.first_chunk()?)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_bound_here_is_found_and_a_plain_file_is_not() {
        let path = std::env::temp_dir().join(format!("lazaret-diag-{}", std::process::id()));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let flags = rustix::fs::OFlags::PATH;
        let fd = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        assert!(bound_inside(fd.as_fd()).unwrap());
        std::fs::remove_file(&path).unwrap();
        let other = rustix::fs::open("/proc/self/status", flags, rustix::fs::Mode::empty()).unwrap();
        assert!(!bound_inside(other.as_fd()).unwrap());
    }
}
