//! Sockets of the sandbox's network that init has made in advance: with one at hand the supervisor captures a
//! connection by itself, without waking init.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, sockopt};

/// So many are asked for at a time, and again when so few are left.
const PORTION: u64 = 16;
const FEW: usize = 4;

#[derive(Debug, Default)]
pub struct Pool {
    v4: Vec<OwnedFd>,
    v6: Vec<OwnedFd>,
    /// The errand that brings more.
    errand: Option<u64>,
    trust: Trust,
}

/// May the supervisor connect sockets of this sandbox by itself?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trust {
    #[default]
    Yes,
    /// One of them did not connect at once, as every honest one does: from now on that is for init.
    No,
}

/// How many are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub v4: u64,
    pub v6: u64,
}

impl Pool {
    /// Somebody inside prepared a socket so that it keeps whoever connects it waiting.
    pub fn distrust(&mut self) {
        *self = Pool { trust: Trust::No, ..Pool::default() };
    }

    pub fn take(&mut self, family: AddressFamily) -> Option<OwnedFd> {
        if family == AddressFamily::INET6 { self.v6.pop() } else { self.v4.pop() }
    }

    /// What to ask for now, if anything, for somebody who uses this family.
    pub fn wants(&self, family: AddressFamily) -> Option<Wanted> {
        let left = if family == AddressFamily::INET6 { self.v6.len() } else { self.v4.len() };
        if self.trust == Trust::No || self.errand.is_some() || left >= FEW {
            return None;
        }
        Some(if family == AddressFamily::INET6 {
            Wanted { v4: 0, v6: PORTION }
        } else {
            Wanted { v4: PORTION, v6: 0 }
        })
    }

    pub fn asked(&mut self, errand: u64) {
        self.errand = Some(errand);
    }

    /// Is this the answer to what was asked for?
    pub fn is_mine(&self, errand: u64) -> bool {
        self.errand == Some(errand)
    }

    pub fn fill(&mut self, sockets: impl IntoIterator<Item = OwnedFd>) {
        self.errand = None;
        for socket in sockets {
            match sockopt::socket_domain(&socket) {
                Ok(AddressFamily::INET6) => self.v6.push(socket),
                Ok(AddressFamily::INET) => self.v4.push(socket),
                _ => {}
            }
        }
    }
}
