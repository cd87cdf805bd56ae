//! What the new process has of its caller and must not keep: words in memory, doors on streams.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{CWD, Mode, OFlags};

use super::sys;

/// A directory on a standard stream would be a door out of the view, a socket of the host's network that is not
/// a finished connection one into that network.
pub fn close_doors_among_streams() -> io::Result<()> {
    for number in 0..3 {
        let stream = match number {
            0 => rustix::stdio::stdin(),
            1 => rustix::stdio::stdout(),
            _ => rustix::stdio::stderr(),
        };
        let is_directory = rustix::fs::fstat(stream)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir());
        if is_directory || is_open_to_the_network(stream) {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::openat(CWD, c"/dev/null", flags, Mode::empty()) {
                Ok(null) => sys::duplicate_to_stdio(null.as_fd(), number),
                Err(_) => sys::close_descriptors(number as u32, number as u32),
            }?;
        }
    }
    Ok(())
}

fn is_open_to_the_network(stream: BorrowedFd<'_>) -> bool {
    use rustix::net::{AddressFamily, SocketType, getpeername, sockopt};
    let of_ip = matches!(sockopt::socket_domain(stream), Ok(AddressFamily::INET | AddressFamily::INET6));
    let connected = sockopt::socket_type(stream) == Ok(SocketType::STREAM)
        && getpeername(stream).is_ok_and(|peer| peer.is_some());
    of_ip && !connected
}

/// The supervisor's arguments and environment are in this memory, too, and /proc shows them: nothing inside
/// has any business with them.
pub fn forget_callers_words() {
    let forget = || -> Option<()> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<u64> =
            stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Fields 48 to 51 of proc(5): where arguments and environment begin and end.
        let memory = std::fs::File::options().write(true).open("/proc/self/mem").ok()?;
        for (start, end) in [(fields.get(45)?, fields.get(46)?), (fields.get(47)?, fields.get(48)?)] {
            let length = usize::try_from(end.checked_sub(*start)?).ok()?.min(4 << 20);
            std::os::unix::fs::FileExt::write_all_at(&memory, &vec![0; length], *start).ok()?;
        }
        Some(())
    };
    let _ = forget();
}
