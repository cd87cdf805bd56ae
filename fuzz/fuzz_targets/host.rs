//! Arbitrary text as a host, a network and an entry of a list: reading never panics, what is accepted is its
//! own normal form, and what is denied stays denied whatever is allowed.
#![no_main]

use lazaret_policy::{
    host::{Cidr, Host},
    network::{Rules, Verdict},
    schema::NetworkPolicy,
};
use libfuzzer_sys::fuzz_target;

fn rules(allowed: &str, denied: &str) -> Option<Rules> {
    let list = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
    let policy = NetworkPolicy {
        allow_network: true,
        allowed_hosts: list(allowed),
        denied_domains: list(denied),
        ..NetworkPolicy::default()
    };
    Rules::compile(&policy).inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(network) = Cidr::parse(text) {
        assert_eq!(Cidr::parse(&network.to_string()), Ok(network));
    }
    // The first line is a host, the second is allowed, the third denied.
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (host, allowed, denied) = (line(), line(), line());
    let Ok(host) = Host::parse(host) else { return };
    assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
    if let Host::Name(name) = &host {
        let text = name.as_str();
        assert!(text.len() <= 253 && text.split('.').all(|label| (1..=63).contains(&label.len())));
        assert!(text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')));
    }
    let (Some(both), Some(only_denied)) = (rules(allowed, denied), rules("", denied)) else { return };
    if let Verdict::Deny(_) = only_denied.judge(&host, 443) {
        assert!(matches!(both.judge(&host, 443), Verdict::Deny(_)));
    }
});
