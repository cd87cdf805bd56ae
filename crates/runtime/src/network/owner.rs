//! Whose socket it is: a process inside, by the local port of what it sent.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use lazaret_egress::event::Origin;
use lazaret_sandbox::linux::launch::Sandbox;

use crate::processes;

/// Looking longer than this is not worth it.
const PATIENCE: Duration = Duration::from_millis(2);
/// So many look-ups in a second: who floods is known by then.
const A_SECOND: u32 = 20;

/// Rations look-ups: while one is made nothing else is.
#[derive(Debug, Default)]
pub struct Ration {
    second: Option<Instant>,
    taken: u32,
}

impl Ration {
    fn take(&mut self) -> bool {
        if self.second.is_none_or(|began| began.elapsed() >= Duration::from_secs(1)) {
            (self.second, self.taken) = (Some(Instant::now()), 0);
        }
        self.taken += 1;
        self.taken <= A_SECOND
    }
}

/// Who did something, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// On the host; 0 when it is not known.
    pub pid: i32,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Owner {
    pub fn of(origin: &Origin, sandbox: Option<&Sandbox>, protocol: Protocol, ration: &mut Ration) -> Owner {
        match origin {
            Origin::Process { pid, name } => Owner { pid: *pid, name: name.clone() },
            Origin::Port(port) if ration.take() => {
                let name = sandbox.and_then(Sandbox::proc).and_then(|proc| by_port(proc, protocol, *port));
                Owner { pid: 0, name: name.unwrap_or_default() }
            }
            Origin::Port(_) | Origin::Host => Owner::default(),
        }
    }
}

/// The name of the process that has a socket with this local port.
fn by_port(proc: BorrowedFd<'_>, protocol: Protocol, port: u16) -> Option<String> {
    let tables = match protocol {
        Protocol::Tcp => ["1/net/tcp", "1/net/tcp6"],
        Protocol::Udp => ["1/net/udp", "1/net/udp6"],
    };
    let inode = tables.iter().find_map(|table| {
        let text = processes::read(proc, table)?;
        inode_of(&String::from_utf8_lossy(&text), port)
    })?;
    let link = format!("socket:[{inode}]");
    let end = Instant::now() + PATIENCE;
    processes::numbers(proc)
        .into_iter()
        .take_while(|_| Instant::now() < end)
        .find(|pid| processes::has_open(proc, *pid, &link))
        .and_then(|pid| processes::brief(proc, pid))
        .map(|process| process.name)
}

/// The inode of the socket with this local port, in a table of the kernel.
fn inode_of(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let inode: u64 = fields.get(9)?.parse().ok()?;
        (u16::from_str_radix(local, 16) == Ok(port) && inode != 0).then_some(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             7: 0100007F:D431 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 24242 2 0 0\n";
        assert_eq!(inode_of(table, 0xd431), Some(24242));
        assert_eq!(inode_of(table, 0xd432), None);
    }
}
