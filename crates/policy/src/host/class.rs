//! Addresses that a name on the internet has no business to resolve to: the host itself, its neighbours, the
//! cloud's metadata service. After the special-purpose registries of IANA.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Why an address is not reached unless it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Loopback,
    Unspecified,
    Private,
    LinkLocal,
    /// 100.64.0.0/10 (RFC 6598): the provider's side of a NAT, and what VPNs use.
    SharedNat,
    Multicast,
    Broadcast,
    /// Where clouds hand out credentials to whoever asks from inside a machine.
    Metadata,
    Reserved,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Loopback => "loopback",
            Class::Unspecified => "unspecified",
            Class::Private => "private",
            Class::LinkLocal => "link-local",
            Class::SharedNat => "shared-nat",
            Class::Multicast => "multicast",
            Class::Broadcast => "broadcast",
            Class::Metadata => "metadata",
            Class::Reserved => "reserved",
        }
    }
}

/// With an article, as part of a sentence.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Loopback => "a loopback address",
            Class::Unspecified => "the unspecified address",
            Class::Private => "a private address",
            Class::LinkLocal => "a link-local address",
            Class::SharedNat => "an address of a shared NAT",
            Class::Multicast => "a multicast address",
            Class::Broadcast => "the broadcast address",
            Class::Metadata => "a metadata service of a cloud",
            Class::Reserved => "a reserved address",
        })
    }
}

/// The class of an address that is refused; nothing for a public one. An address that carries an IPv4 address
/// for a gateway to unpack is as bad as that one.
pub fn class_of(address: IpAddr) -> Option<Class> {
    match address.to_canonical() {
        IpAddr::V4(address) => class_of_v4(address),
        IpAddr::V6(address) => own_class_of_v6(address)
            .or_else(|| embedded(address).into_iter().find_map(class_of_v4))
            .or_else(|| outside_of_the_internet(address).then_some(Class::Reserved)),
    }
}

fn class_of_v4(address: Ipv4Addr) -> Option<Class> {
    let class = match address.octets() {
        // AWS, Google, Azure, Oracle, DigitalOcean, Hetzner and more; credentials of ECS tasks and of EKS pods.
        [169, 254, 169, 254] | [169, 254, 170, 2 | 23] => Class::Metadata,
        // Alibaba; Azure's host agent; Oracle.
        [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192] => Class::Metadata,
        [0, 0, 0, 0] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        [100, 64..=127, ..] => Class::SharedNat,
        [255, 255, 255, 255] => Class::Broadcast,
        [224..=239, ..] => Class::Multicast,
        // "This network", protocol assignments, documentation, benchmarks, the future.
        [0, ..] | [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Class::Reserved
        }
        [240..=255, ..] => Class::Reserved,
        _ => return None,
    };
    Some(class)
}

fn own_class_of_v6(address: Ipv6Addr) -> Option<Class> {
    let class = match address.segments() {
        // AWS: the metadata service and the credentials of EKS pods. Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254 | 0x23] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            Class::Metadata
        }
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0xfc00..=0xfdff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        // Documentation (twice), benchmarks, the first ORCHID.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 2, 0, ..] | [0x2001, 0x10..=0x1f, ..] => {
            Class::Reserved
        }
        _ => return None,
    };
    Some(class)
}

/// Only 2000::/3 is given out (RFC 4291 §2.4), and what lies outside is site-local (fec0::/10), discarded
/// (100::/64), for segment routing (5f00::/16) or not in use. What a gateway unpacks is judged by what is in it.
fn outside_of_the_internet(address: Ipv6Addr) -> bool {
    !matches!(address.segments(), [0x2000..=0x3fff, ..]) && embedded(address).is_empty()
}

/// The IPv4 addresses that an IPv6 address may stand for.
pub(crate) fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // IPv4-compatible, IPv4-mapped and IPv4-translated (RFC 4291, RFC 2765).
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        // NAT64 (RFC 6052).
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![join(high, low)],
        [0x64, 0xff9b, 1, ..] => local_nat64(address),
        // 6to4 (RFC 3056); Teredo (RFC 4380), where the bits of the client are turned over.
        [0x2002, high, low, ..] => vec![join(high, low)],
        [0x2001, 0, .., high, low] => vec![join(!high, !low)],
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![join(high, low)],
        _ => Vec::new(),
    }
}

/// The prefix that everybody may use for a NAT64 of their own (RFC 8215). Its length is their choice, so every
/// reading of RFC 6052 §2.2 counts whose unused end is zero.
fn local_nat64(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let [_, _, _, _, _, _, b0, b1, zero, b2, b3, b4, b5, rest @ ..] = address.octets();
    let [b6, b7, b8] = rest;
    let mut readings = Vec::new();
    let ends: [(&[u8], [u8; 4]); 3] = [
        (&[b4, b5, b6, b7, b8], [b0, b1, b2, b3]),
        (&[b5, b6, b7, b8], [b1, b2, b3, b4]),
        (&[b6, b7, b8], [b2, b3, b4, b5]),
    ];
    for (unused, reading) in ends {
        if zero == 0 && unused.iter().all(|byte| *byte == 0) {
            readings.push(Ipv4Addr::from(reading));
        }
    }
    let last = Ipv4Addr::new(b5, b6, b7, b8);
    if readings.is_empty() || !last.is_unspecified() {
        readings.push(last);
    }
    readings
}
