//! What holds whatever the lists are.

use proptest::{collection::vec, prop_assert_eq, sample::select};

use super::*;

const ENTRIES: [&str; 14] = [
    "a.example",
    "a.example:443",
    "A.example.:80",
    "*.example",
    "*.a.example:443",
    "b.a.example",
    "10.0.0.0/8",
    "10.0.0.1:443",
    "127.0.0.1",
    "localhost",
    "[::1]:443",
    "169.254.169.254",
    "c.example:22",
    "8.8.8.0/24:443",
];
const HOSTS: [&str; 9] = [
    "a.example",
    "b.a.example",
    "c.example",
    "localhost",
    "10.0.0.1",
    "127.0.0.1",
    "::1",
    "8.8.8.8",
    "d.test",
];
const ADDRESSES: [&str; 7] =
    ["10.0.0.1", "127.0.0.1", "::1", "8.8.8.8", "169.254.169.254", "64:ff9b::10.0.0.1", "2606:4700::1"];
const PORTS: [u16; 4] = [22, 80, 443, 8443];

proptest::proptest! {
    #[test]
    fn what_is_denied_stays_denied_whatever_is_allowed(
        allowed in vec(select(&ENTRIES[..]), 0..6), denied in vec(select(&ENTRIES[..]), 1..4),
        target in select(&HOSTS[..]), port in select(&PORTS[..]),
    ) {
        let only_denied = rules(&[], &denied);
        if judged(&only_denied, target, port) == Some(Reason::HostDenied) {
            prop_assert_eq!(judged(&rules(&allowed, &denied), target, port), Some(Reason::HostDenied));
        }
        for resolved in ADDRESSES {
            if guarded(&only_denied, resolved, port) == Some(Reason::HostDenied) {
                prop_assert_eq!(guarded(&rules(&allowed, &denied), resolved, port), Some(Reason::HostDenied));
            }
        }
    }

    #[test]
    fn the_order_of_the_entries_is_irrelevant(
        allowed in vec(select(&ENTRIES[..]), 0..6), denied in vec(select(&ENTRIES[..]), 0..4),
        ports in vec(select(&PORTS[..]), 0..3), target in select(&HOSTS[..]), port in select(&PORTS[..]),
    ) {
        let forward = NetworkPolicy { denied_domains: strings(&denied), allowed_ports: ports, ..policy(&allowed) };
        let mut backward = forward.clone();
        backward.allowed_hosts.reverse();
        backward.denied_domains.reverse();
        backward.allowed_ports.reverse();
        let (forward, backward) = (compile(&forward), compile(&backward));
        prop_assert_eq!(judged(&forward, target, port), judged(&backward, target, port));
        for resolved in ADDRESSES {
            prop_assert_eq!(guarded(&forward, resolved, port), guarded(&backward, resolved, port));
        }
    }

    #[test]
    fn a_name_resolves_exactly_when_a_port_is_open(
        allowed in vec(select(&ENTRIES[..]), 0..6), denied in vec(select(&ENTRIES[..]), 0..4),
        ports in vec(select(&PORTS[..]), 0..3), target in select(&HOSTS[..]),
    ) {
        let policy = NetworkPolicy { denied_domains: strings(&denied), allowed_ports: ports, ..policy(&allowed) };
        let rules = compile(&policy);
        if let Host::Name(name) = host(target) {
            let open = (1..1024).chain(PORTS).any(|port| judged(&rules, target, port).is_none());
            prop_assert_eq!(rules.may_resolve(&name).is_allowed(), open);
        }
    }

    #[test]
    fn an_accepted_entry_reads_back_from_its_normal_form(text in "(\\*\\.)?([a-zA-Z0-9.äöü。-]|xn--){1,20}(:[0-9]{1,5})?") {
        for list in [List::Allow, List::Deny] {
            if let Ok(entry) = Entry::parse(&text, list) {
                prop_assert_eq!(Entry::parse(&entry.to_string(), list), Ok(entry));
            }
        }
    }

    #[test]
    fn no_entry_makes_the_parser_panic(text in "([\\[\\]/:*.%@0-9a-f]|\\PC){0,30}") {
        let _ = Entry::parse(&text, List::Allow);
        let _ = allowed_address(&text);
    }
}
