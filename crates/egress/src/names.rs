//! The addresses that stand for names inside. Every allowed name gets one of its own for each version of IP, so
//! that a connection to it tells which name was asked for. Nothing outside has these addresses.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use lazaret_policy::host::Name;

/// The first address that stands for a name; those below are for our own services.
const FIRST: u32 = u32::from_be_bytes([198, 18, 1, 0]);
/// A unique local prefix; the index makes the last 32 bits.
const PREFIX_V6: u128 = (0xfd6c_617a_6172_6574 << 64) + 1;
/// So many names can be asked for in one sandbox.
pub const MOST: usize = 16 * 1024;

/// Both addresses of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stand {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

#[derive(Debug, Default)]
pub struct Names {
    by_name: HashMap<Name, u32>,
    by_index: Vec<Name>,
}

impl Names {
    /// The addresses of a name, for as long as the sandbox lives; `None` when there are too many names.
    pub fn stand_for(&mut self, name: &Name) -> Option<Stand> {
        if let Some(index) = self.by_name.get(name) {
            return Some(stand(*index));
        }
        if self.by_index.len() >= MOST {
            return None;
        }
        let index = self.by_index.len() as u32;
        self.by_name.insert(name.clone(), index);
        self.by_index.push(name.clone());
        Some(stand(index))
    }

    pub fn meaning_of(&self, address: IpAddr) -> Option<&Name> {
        let index = match address.to_canonical() {
            IpAddr::V4(v4) => u32::from(v4).checked_sub(FIRST)?,
            IpAddr::V6(v6) => u32::try_from(u128::from(v6).checked_sub(PREFIX_V6)?).ok()?,
        };
        self.by_index.get(index as usize)
    }
}

fn stand(index: u32) -> Stand {
    Stand { v4: Ipv4Addr::from(FIRST + index), v6: Ipv6Addr::from(PREFIX_V6 + u128::from(index)) }
}

/// Could this be an address of ours, whether or not it stands for a name?
pub fn is_synthetic(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => matches!(v4.octets(), [198, 18 | 19, ..]),
        IpAddr::V6(v6) => u128::from(v6) >> 64 == PREFIX_V6 >> 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        match lazaret_policy::host::Host::parse(text).unwrap() {
            lazaret_policy::host::Host::Name(name) => name,
            lazaret_policy::host::Host::Address(_) => panic!("an address"),
        }
    }

    #[test]
    fn a_name_keeps_its_addresses_and_they_lead_back_to_it() {
        let mut names = Names::default();
        let first = names.stand_for(&name("a.test")).unwrap();
        let second = names.stand_for(&name("b.test")).unwrap();
        assert_ne!(first, second);
        assert_eq!(names.stand_for(&name("a.test")), Some(first));
        for address in [IpAddr::V4(second.v4), IpAddr::V6(second.v6), second.v4.to_ipv6_mapped().into()] {
            assert_eq!(names.meaning_of(address), Some(&name("b.test")));
            assert!(is_synthetic(address));
        }
        assert_eq!(names.meaning_of("198.18.0.1".parse().unwrap()), None);
        assert_eq!(names.meaning_of("198.18.1.9".parse().unwrap()), None);
    }

    #[test]
    fn there_is_an_end_to_names() {
        let mut names = Names::default();
        for number in 0..MOST {
            assert!(names.stand_for(&name(&format!("n{number}.test"))).is_some());
        }
        assert_eq!(names.stand_for(&name("one-more.test")), None);
        assert!(names.stand_for(&name("n7.test")).is_some());
    }
}
