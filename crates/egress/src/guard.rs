//! From a name to the one address that is dialled: resolved outside, once for every connection, and judged by
//! what it resolved to. Whatever a name server says the next time, the connection goes to what was checked.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use lazaret_policy::{
    host::{Host, Name},
    network::{Denial, Reason, Verdict},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    dns::Limit,
    gate::{Gate, Target},
};

/// A host resolver that does not answer is given up.
const RESOLVING: Duration = Duration::from_secs(15);
/// The most look-ups at once: each waits in a thread of its own.
pub const MOST_LOOKUPS: usize = 8;

/// Resolves names on the host.
#[derive(Debug)]
pub struct Resolver {
    places: Arc<Semaphore>,
    limit: RefCell<Limit>,
}

/// The addresses a target may be dialled at, in the order to be tried; never empty.
pub async fn addresses(gate: &Gate, resolver: &Resolver, target: &Target) -> Result<Vec<SocketAddr>, Denial> {
    let found = match (known(gate, target), &target.host) {
        (Some(known), _) => known,
        (None, Host::Name(name)) => {
            resolver.look_up(name).await.map_err(|why| unresolvable(&target.host, &why))?
        }
        (None, Host::Address(address)) => vec![*address],
    };
    those_allowed(gate, target, found)
}

/// What can be said before a name server is asked: an address that is refused is refused at once. Returns the
/// addresses that are known to be allowed.
pub fn judge_early(gate: &Gate, target: &Target) -> Result<Vec<SocketAddr>, Denial> {
    match known(gate, target) {
        Some(known) => those_allowed(gate, target, known),
        None => Ok(Vec::new()),
    }
}

/// The addresses that need no asking.
fn known(gate: &Gate, target: &Target) -> Option<Vec<IpAddr>> {
    match &target.host {
        Host::Address(address) => {
            // `localhost` is two addresses, and a server may be at one of them only.
            let other = match address {
                IpAddr::V4(Ipv4Addr::LOCALHOST) => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
                IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                _ => None,
            };
            let other = other.filter(|other| gate.rules().lists_loopback(*other, target.port));
            Some([*address].into_iter().chain(other).collect())
        }
        Host::Name(name) => gate.rules().pinned(name).map(<[IpAddr]>::to_vec),
    }
}

fn those_allowed(gate: &Gate, target: &Target, found: Vec<IpAddr>) -> Result<Vec<SocketAddr>, Denial> {
    let mut refused = None;
    let mut good = Vec::new();
    for address in found {
        match judge(gate, target, address) {
            Verdict::Allow { .. } => good.push(SocketAddr::new(address, target.port)),
            Verdict::Deny(denial) => refused = refused.or(Some(denial)),
        }
    }
    match (good.is_empty(), refused) {
        (false, _) => Ok(good),
        (true, Some(denial)) => Err(denial),
        (true, None) => Err(unresolvable(&target.host, "it has no address")),
    }
}

fn judge(gate: &Gate, target: &Target, address: IpAddr) -> Verdict {
    let rules = gate.rules();
    let is_localhost = match &target.host {
        Host::Address(asked) => asked.is_loopback(),
        Host::Name(name) => name.as_str() == "localhost",
    };
    if is_localhost && rules.lists_loopback(address, target.port) {
        return Verdict::Allow { rule: target.rule.clone() };
    }
    match rules.judge_address(&target.host, address, target.port) {
        Verdict::Allow { .. } => match rules.judge_own_address(&target.host, address, target.port) {
            // Whether it is, has to be asked of the kernel.
            Verdict::Deny(denial) if is_own(address) => Verdict::Deny(denial),
            _ => Verdict::Allow { rule: target.rule.clone() },
        },
        verdict => verdict,
    }
}

/// Is this an address of this very host? The kernel chooses an address as the source for itself.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((any, 0))?;
        // Nothing is sent by this.
        socket.connect((address, 9))?;
        Ok(socket.local_addr()?.ip())
    };
    match source() {
        Ok(source) => source == address,
        // There is no way to it at all. Whatever else goes wrong must not make it a stranger's.
        Err(error) => {
            !matches!(error.raw_os_error(), Some(ENETUNREACH | EHOSTUNREACH | EADDRNOTAVAIL | EAFNOSUPPORT))
        }
    }
}

const ENETUNREACH: i32 = 101;
const EHOSTUNREACH: i32 = 113;
const EADDRNOTAVAIL: i32 = 99;
const EAFNOSUPPORT: i32 = 97;

impl Resolver {
    /// As many questions in a second as the sandbox may ask of its own name server: these leave the host.
    pub fn new(per_second: u64) -> Resolver {
        Resolver {
            places: Arc::new(Semaphore::new(MOST_LOOKUPS)),
            limit: RefCell::new(Limit::new(per_second)),
        }
    }

    pub async fn look_up(&self, name: &Name) -> Result<Vec<IpAddr>, String> {
        let text = name.to_string();
        if text == "localhost" || text.ends_with(".localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let taken = self.limit.borrow_mut().take();
        if taken.is_err() {
            return Err(
                "too many names were to be resolved in this second (network.maxDNSQueries)".to_owned()
            );
        }
        let Ok(permit) = Arc::clone(&self.places).acquire_owned().await else {
            return Err("the resolver is gone".to_owned());
        };
        let task = tokio::task::spawn_blocking(move || {
            let found = ask_host(&text);
            drop(permit);
            found
        });
        match timeout(RESOLVING, task).await {
            Ok(Ok(Ok(found))) => Ok(found),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err("the look-up failed".to_owned()),
            Err(_) => Err(format!("the host's resolver did not answer within {RESOLVING:?}")),
        }
    }
}

/// The C library reads /etc/hosts and /etc/resolv.conf of the host.
fn ask_host(name: &str) -> io::Result<Vec<IpAddr>> {
    use std::net::ToSocketAddrs as _;
    #[expect(clippy::disallowed_methods, reason = "the one place where names are resolved")]
    let found = (name, 0).to_socket_addrs()?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|found| found.ip().to_canonical()) {
        if !addresses.contains(&address) && addresses.len() < 16 {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn unresolvable(host: &Host, why: &str) -> Denial {
    Denial {
        reason: Reason::Unresolvable,
        rule: None,
        detail: format!("{host} is allowed but could not be resolved on the host: {why}"),
        remedy: format!("check the host's resolver, or pin it: --resolve {host}=ADDRESS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_host_is_known_as_such() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
    }
}
