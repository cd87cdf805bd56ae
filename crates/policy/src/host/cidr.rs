//! Networks of addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// An IPv4 or IPv6 network; a single address is one of /32 or /128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// All bits beyond the prefix are zero; never an IPv4-mapped address.
    network: IpAddr,
    prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    #[error("{0:?} is neither an address nor a network")]
    Address(String),
    #[error("{text:?} has no length between 0 and {most} after the `/`")]
    Prefix { text: String, most: u8 },
    #[error("{text:?} has bits beyond its first {prefix}: the network is {meant}")]
    HostBits { text: String, prefix: u8, meant: Cidr },
}

impl Cidr {
    /// Reads `10.0.0.0/8`, `2001:db8::/32` or a single address. Only plain forms: what `10/8` means depends on
    /// whom one asks.
    pub fn parse(text: &str) -> Result<Cidr, CidrError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address(text.to_owned()))?;
        let Some(length) = length else { return Ok(Cidr::from(address)) };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = Some(length)
            .filter(|length| (1..=3).contains(&length.len()) && length.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|length| length.parse::<u8>().ok())
            .filter(|prefix| *prefix <= most)
            .ok_or_else(|| CidrError::Prefix { text: text.to_owned(), most })?;
        let meant = Cidr::around(address, prefix);
        if meant.network != address.to_canonical() {
            return Err(CidrError::HostBits { text: text.to_owned(), prefix, meant });
        }
        Ok(meant)
    }

    /// The network of this length that the address lies in.
    fn around(address: IpAddr, prefix: u8) -> Cidr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Cidr { network: Ipv4Addr::from(u32::from(v4) & mask).into(), prefix }
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                let network = Ipv6Addr::from(u128::from(v6) & mask);
                // A network of IPv4-mapped addresses is one of IPv4.
                match (network.to_ipv4_mapped(), prefix.checked_sub(96)) {
                    (Some(network), Some(prefix)) => Cidr { network: network.into(), prefix },
                    _ => Cidr { network: network.into(), prefix },
                }
            }
        }
    }

    /// Does the address lie in this network? An IPv4-mapped address counts as IPv4, and no IPv4 address lies
    /// in a network of IPv6, not even in `::/0`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && Cidr::around(address, self.prefix) == *self
    }

    pub fn is_single(&self) -> bool {
        self.prefix == if self.network.is_ipv4() { 32 } else { 128 }
    }

    /// Is this every address of its family?
    pub fn is_everything(&self) -> bool {
        self.prefix == 0
    }
}

impl From<IpAddr> for Cidr {
    fn from(address: IpAddr) -> Self {
        let network = address.to_canonical();
        Cidr { network, prefix: if network.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        Cidr::parse(text)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_single() {
            true => self.network.fmt(f),
            false => write!(f, "{}/{}", self.network, self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        network.parse::<Cidr>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_contains_its_first_and_its_last_address_and_not_the_next() {
        for (network, first, last, next) in [
            ("10.0.0.0/8", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("192.168.4.0/22", "192.168.4.0", "192.168.7.255", "192.168.8.0"),
            ("1.2.3.4", "1.2.3.4", "1.2.3.4", "1.2.3.5"),
            ("fd00::/8", "fd00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe00::"),
            ("::1", "::1", "::1", "::2"),
        ] {
            assert!(holds(network, first) && holds(network, last) && !holds(network, next), "{network}");
        }
        assert!(holds("0.0.0.0/0", "255.255.255.255") && holds("::/0", "ff::"));
    }

    #[test]
    fn a_mapped_address_counts_as_ipv4_on_both_sides() {
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!holds("::/0", "::ffff:10.1.2.3") && !holds("0.0.0.0/0", "::1"));
        assert_eq!("::ffff:10.0.0.0/104".parse::<Cidr>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("::ffff:1.2.3.4".parse::<Cidr>().unwrap().to_string(), "1.2.3.4");
    }

    #[test]
    fn bits_beyond_the_prefix_are_refused_with_the_network_that_was_meant() {
        for (text, meant) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.168.1.1/24", "192.168.1.0/24"),
            ("fd00::1/8", "fd00::/8"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            ("::ffff:10.0.0.1/104", "10.0.0.0/8"),
        ] {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("the network is {meant}")), "{error}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "/", "10/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/255.0.0.0"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        for text in
            ["::/129", "::/-1", "fe80::1%eth0", "example.com/8", "10.0.0.0/8/8", "[::1]", "::ffff:0:0/95"]
        {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_single_address_is_single_however_it_is_written() {
        for text in ["1.2.3.4", "1.2.3.4/32", "::1", "::1/128", "::ffff:1.2.3.4/128"] {
            assert!(text.parse::<Cidr>().unwrap().is_single(), "{text}");
        }
        assert!(!"1.2.3.4/31".parse::<Cidr>().unwrap().is_single());
    }

    proptest::proptest! {
        #[test]
        fn a_network_survives_being_written_and_read(bits: u128, v4: bool, prefix in 0u8..=128) {
            let (address, prefix) = match v4 {
                true => (IpAddr::from(Ipv4Addr::from(bits as u32)), prefix.min(32)),
                false => (IpAddr::from(Ipv6Addr::from(bits)), prefix),
            };
            let cidr = Cidr::around(address, prefix);
            assert!(cidr.contains(address));
            assert_eq!(cidr.to_string().parse(), Ok(cidr));
        }
    }
}
