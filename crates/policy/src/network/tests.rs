//! What the rules allow, what they refuse, and in which words.

mod properties;

use super::*;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn policy(allowed: &[&str]) -> NetworkPolicy {
    NetworkPolicy { allow_network: true, allowed_hosts: strings(allowed), ..NetworkPolicy::default() }
}

fn compile(policy: &NetworkPolicy) -> Rules {
    Rules::compile(policy).unwrap_or_else(|error| panic!("{error}"))
}

fn rules(allowed: &[&str], denied: &[&str]) -> Rules {
    compile(&NetworkPolicy { denied_domains: strings(denied), ..policy(allowed) })
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The reason, or nothing when it is allowed.
fn reason(verdict: Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Allow { .. } => None,
        Verdict::Deny(denial) => Some(denial.reason),
    }
}

fn denial(verdict: Verdict) -> Denial {
    match verdict {
        Verdict::Allow { rule } => panic!("allowed by {rule}"),
        Verdict::Deny(denial) => denial,
    }
}

fn judged(rules: &Rules, target: &str, port: u16) -> Option<Reason> {
    reason(rules.judge(&host(target), port))
}

fn guarded(rules: &Rules, target: &str, port: u16) -> Option<Reason> {
    reason(rules.judge_address(&host("a.example"), address(target), port))
}

#[test]
fn without_the_network_nothing_is_allowed() {
    let off = compile(&NetworkPolicy { allow_network: false, ..policy(&["a.example", "127.0.0.1"]) });
    let off_reason = Some(Reason::NetworkOff);
    assert_eq!(judged(&off, "a.example", 443), off_reason);
    assert_eq!(guarded(&off, "8.8.8.8", 443), off_reason);
    assert_eq!(reason(off.may_resolve(&Name::parse("a.example").unwrap())), off_reason);
    assert!(!off.any_host() && !off.lists_loopback(address("127.0.0.1"), 80));
}

#[test]
fn without_a_list_any_host_is_allowed_and_an_empty_list_of_domains_allows_none() {
    let open = compile(&policy(&[]));
    assert!(open.any_host());
    assert_eq!(judged(&open, "a.example", 1), None);
    assert_eq!(judged(&open, "8.8.8.8", 53), None);
    let closed = compile(&NetworkPolicy { allowed_domains: Some(Vec::new()), ..policy(&[]) });
    assert!(!closed.any_host());
    assert_eq!(judged(&closed, "a.example", 443), Some(Reason::HostNotAllowed));
    let both =
        compile(&NetworkPolicy { allowed_domains: Some(strings(&["b.example"])), ..policy(&["a.example"]) });
    assert_eq!((judged(&both, "a.example", 1), judged(&both, "b.example", 1)), (None, None));
    let one = compile(&NetworkPolicy { allowed_domains: Some(Vec::new()), ..policy(&["a.example"]) });
    assert_eq!(judged(&one, "a.example", 1), None);
}

#[test]
fn entries_cover_what_they_say() {
    for (entry, target, port, allowed) in [
        ("example.com", "example.com", 443, true),
        ("EXAMPLE.com.", "example.COM.", 443, true),
        ("example.com", "www.example.com", 443, false),
        ("example.com", "example.com.evil.example", 443, false),
        ("*.example.com", "www.example.com", 443, true),
        ("*.example.com", "a.b.c.example.com", 443, true),
        ("*.example.com", "example.com", 443, false),
        ("*.example.com", "evilexample.com", 443, false),
        ("*.bücher.example", "www.xn--bcher-kva.example", 443, true),
        ("bücher.example:8443", "BÜCHER.example", 8443, true),
        ("*.example.com:8443", "a.example.com", 8443, true),
        ("*.example.com:8443", "a.example.com", 443, false),
        ("*.internal", "db.internal", 5432, true),
        ("10.0.0.0/8", "10.1.2.3", 1, true),
        ("10.0.0.0/8", "11.1.2.3", 1, false),
        ("10.0.0.0/8:443", "10.1.2.3", 443, true),
        ("10.0.0.0/8:443", "10.1.2.3", 80, false),
        ("127.1", "2130706433", 80, true),
        ("[::1]:443", "::1", 443, true),
        ("[::1]:443", "::1", 80, false),
        ("::1", "[::1]", 80, true),
        ("fd00::/8:443", "fd00::1", 443, true),
        ("[fd00::]/8:443", "fd00::1", 443, true),
        ("[fd00::/8]:443", "fd00::1", 80, false),
        ("::ffff:10.0.0.1", "10.0.0.1", 80, true),
        ("localhost:3000", "localhost", 3000, true),
        ("localhost", "127.0.0.1", 3000, false),
        ("8.8.8.8", "dns.google", 443, false),
    ] {
        assert_eq!(judged(&rules(&[entry], &[]), target, port).is_none(), allowed, "{entry} {target}:{port}");
    }
}

#[test]
fn an_entry_is_written_in_its_normal_form_and_reads_back() {
    for (text, normal) in [
        ("EXAMPLE.com.:443", "example.com:443"),
        ("*.Bücher.example", "*.xn--bcher-kva.example"),
        ("0x7f.1:80", "127.0.0.1:80"),
        ("[::1]:443", "[::1]:443"),
        ("[fd00::]/8:443", "[fd00::/8]:443"),
        ("10.0.0.0/8:443", "10.0.0.0/8:443"),
        ("*:22", "*:22"),
    ] {
        let entry = Entry::parse(text, List::Deny).unwrap();
        assert_eq!(entry.to_string(), normal);
        assert_eq!(Entry::parse(normal, List::Deny), Ok(entry));
    }
}

#[test]
fn an_allow_list_refuses_what_everybody_is_in() {
    for (entry, says) in [
        ("*", "allows every host"),
        ("*:443", "allows every host"),
        ("*.*", "allows every host"),
        ("*.*:443", "allows every host"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
        ("a.*.example", "whole first label"),
        ("a*.example", "whole first label"),
        ("*a.example", "whole first label"),
        ("*.*.example", "whole first label"),
        ("example.*", "whole first label"),
        ("**.example", "whole first label"),
        ("*.com", "public suffix com"),
        ("*.COM.", "public suffix com"),
        ("*.co.uk", "public suffix co.uk"),
        ("*.github.io", "NAME.github.io"),
        ("*.公司.cn", "public suffix xn--55qx5d.cn"),
        ("*.xn--55qx5d.cn", "public suffix"),
        ("*.kawasaki.jp", "public suffix kawasaki.jp"),
        ("*.x.kawasaki.jp", "public suffix"),
        ("*.compute.amazonaws.com:443", "public suffix"),
        ("*.10.0.0.1", "before an address"),
        ("https://a.example", "write `a.example`"),
        ("https://user:pw@a.example:8443/x?y#z", "write `a.example:8443`"),
        ("https://", "not a host name"),
        ("a.example/path", "write `a.example`"),
        ("a.example:8443/path", "write `a.example:8443`"),
        ("a.example:", "from 1 to 65535"),
        ("a.example:0", "from 1 to 65535"),
        ("a.example:65536", "from 1 to 65535"),
        ("a.example:https", "from 1 to 65535"),
        ("a.example:+80", "from 1 to 65535"),
        ("", "empty"),
        (":443", "empty"),
        ("*.", "empty"),
        ("[::1", "brackets"),
        ("[::1]x", "brackets"),
        ("[a.example]:80", "brackets"),
        ("fe80::1%eth0", "zone"),
        ("10.0.0.1/8", "write `10.0.0.0/8` for the network, or `10.0.0.1` for the one address"),
        ("10.0.0.0/33", "between 0 and 32"),
        ("10.[0].0.0/8", "neither an address nor a network"),
        ("[fd00::]]/8", "neither an address nor a network"),
        ("*.a.example/x", "write `*.a.example`"),
        ("10/8", "neither an address nor a network"),
        ("1.2.3.4.5", "ends in a number"),
        ("a b.example", "white space"),
        (&"*".repeat(5000), "too long"),
        ("a.example\n", "line break"),
    ] {
        let error = Rules::compile(&policy(&["fine.example", entry])).expect_err(entry);
        assert_eq!((error.field, error.index, error.entry.as_str()), ("allowedHosts", 1, entry));
        assert!(error.to_string().contains(says), "{says:?} is missing in {error}");
    }
    for fine in
        ["*.example.com", "*.me.github.io", "*.internal", "*.local", "*.test", "*.city.kawasaki.jp", "com"]
    {
        assert!(Rules::compile(&policy(&[fine])).is_ok(), "{fine}");
    }
}

#[test]
fn a_bad_entry_is_named_by_its_field() {
    let empty = policy(&[]);
    let pins =
        |name: &str, list: &[&str]| (name.to_owned(), Pins(list.iter().map(|text| address(text)).collect()));
    for (field, bad) in [
        ("allowedDomains", NetworkPolicy { allowed_domains: Some(strings(&["*"])), ..empty.clone() }),
        ("deniedDomains", NetworkPolicy { denied_domains: strings(&["a..b"]), ..empty.clone() }),
        ("allowedPorts", NetworkPolicy { allowed_ports: vec![0], ..empty.clone() }),
        ("allowedAddresses", NetworkPolicy { allowed_addresses: strings(&["a.example"]), ..empty.clone() }),
        ("allowedAddresses", NetworkPolicy { allowed_addresses: strings(&["0.0.0.0/0"]), ..empty.clone() }),
        ("resolve", NetworkPolicy { resolve: [pins("*.a.example", &["::1"])].into(), ..empty.clone() }),
        ("resolve", NetworkPolicy { resolve: [pins("127.1", &["::1"])].into(), ..empty.clone() }),
        ("resolve", NetworkPolicy { resolve: [pins("a.example", &[])].into(), ..empty.clone() }),
    ] {
        let error = Rules::compile(&bad).unwrap_err();
        assert_eq!((error.field, error.index), (field, 0));
        assert!(error.to_string().starts_with(&format!("network.{field}: ")), "{error}");
    }
    let twice = [pins("A.example", &["::1"]), pins("a.example.", &["::1"])].into();
    let error = Rules::compile(&NetworkPolicy { resolve: twice, ..empty }).unwrap_err();
    assert_eq!(
        (error.index, error.fault),
        (1, EntryFault::Twice { name: Name::parse("a.example").unwrap() })
    );
}

#[test]
fn deny_wins_over_allow_for_the_same_host() {
    let denied = Some(Reason::HostDenied);
    for entry in ["a.example", "*.example", "*", "*:443", "a.example:443", "A.EXAMPLE."] {
        let rules = rules(&["a.example"], &[entry]);
        assert_eq!(judged(&rules, "a.example", 443), denied, "{entry}");
    }
    let mail = rules(&[], &["*:25", "*.com", "10.0.0.0/8"]);
    assert_eq!(judged(&mail, "a.example", 25), denied);
    assert_eq!(judged(&mail, "8.8.8.8", 25), denied);
    assert_eq!(judged(&mail, "a.example", 443), None);
    assert_eq!(judged(&mail, "example.com", 443), denied);
    assert_eq!(judged(&mail, "10.0.0.1", 443), denied);
}

#[test]
fn a_denied_network_refuses_names_that_lead_into_it() {
    let mut policy = policy(&["a.example", "10.0.0.0/8"]);
    policy.denied_domains = strings(&["10.0.0.0/16", "8.8.0.0/16:53"]);
    policy.allowed_addresses = strings(&["10.0.0.0/8"]);
    let rules = compile(&policy);
    let denied = Some(Reason::HostDenied);
    for hidden in ["10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::", "::10.0.0.1"] {
        assert_eq!(guarded(&rules, hidden, 443), denied, "{hidden}");
    }
    assert_eq!(guarded(&rules, "10.1.0.1", 443), None);
    assert_eq!((guarded(&rules, "8.8.8.8", 53), guarded(&rules, "8.8.8.8", 443)), (denied, None));
    assert_eq!(
        denial(rules.judge_address(&host("a.example"), address("10.0.0.1"), 443)).detail,
        "a.example leads to 10.0.0.1:443, which is denied by deniedDomains: 10.0.0.0/16"
    );
}

#[test]
fn ports_must_be_in_the_list_and_fit_the_entry() {
    let mut policy = policy(&["a.example", "b.example:443", "b.example:8443"]);
    policy.allowed_ports = vec![80, 443];
    let rules = compile(&policy);
    let refused = Some(Reason::PortNotAllowed);
    for (target, port, expected) in [
        ("a.example", 80, None),
        ("a.example", 22, refused),
        ("b.example", 443, None),
        ("b.example", 80, refused),
        ("b.example", 8443, refused),
        ("c.example", 80, Some(Reason::HostNotAllowed)),
    ] {
        assert_eq!(judged(&rules, target, port), expected, "{target}:{port}");
    }
}

#[test]
fn a_name_is_resolved_when_some_port_is_open() {
    let resolves = |rules: &Rules, name: &str| reason(rules.may_resolve(&Name::parse(name).unwrap()));
    let listed = rules(&["a.example:443", "*.b.example", "c.example:22"], &["*:22", "x.b.example"]);
    assert_eq!((resolves(&listed, "a.example"), resolves(&listed, "y.b.example")), (None, None));
    assert_eq!(resolves(&listed, "x.b.example"), Some(Reason::HostDenied));
    assert_eq!(resolves(&listed, "c.example"), Some(Reason::HostDenied));
    assert_eq!(resolves(&listed, "d.example"), Some(Reason::HostNotAllowed));
    let ports =
        compile(&NetworkPolicy { allowed_ports: vec![80], ..policy(&["a.example:443", "b.example"]) });
    assert_eq!(resolves(&ports, "a.example"), Some(Reason::PortNotAllowed));
    assert_eq!(resolves(&ports, "b.example"), None);
    assert_eq!(resolves(&rules(&[], &[]), "any.example"), None);
    assert_eq!(resolves(&rules(&[], &["*"]), "any.example"), Some(Reason::HostDenied));
}

#[test]
fn guarded_addresses_need_an_entry_of_their_own() {
    let refused = Some(Reason::AddressRefused);
    let open = rules(&[], &[]);
    for inside in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "64:ff9b::10.0.0.1", "0.0.0.0"]
    {
        assert_eq!(guarded(&open, inside, 443), refused, "{inside}");
    }
    assert_eq!((guarded(&open, "8.8.8.8", 443), guarded(&open, "2606:4700::1", 443)), (None, None));
    let lifted = compile(&NetworkPolicy { allowed_addresses: strings(&["10.0.0.0/8"]), ..policy(&[]) });
    assert_eq!((guarded(&lifted, "10.9.9.9", 1), guarded(&lifted, "192.168.0.1", 1)), (None, refused));
    // What a gateway makes of it is not the listed machine.
    assert_eq!(guarded(&lifted, "64:ff9b::10.9.9.9", 1), refused);
    let listed = rules(&["a.example", "192.168.0.0/16:443"], &[]);
    assert_eq!((guarded(&listed, "192.168.0.1", 443), guarded(&listed, "192.168.0.1", 80)), (None, refused));
}

#[test]
fn the_metadata_service_needs_an_entry_of_its_own_and_no_network_around_it() {
    for (allowed, addresses, expected) in [
        (&[][..], &["169.254.0.0/16"][..], Some(Reason::AddressRefused)),
        (&["169.254.0.0/16"], &["169.254.169.254/31"], Some(Reason::AddressRefused)),
        (&[], &["169.254.169.254"], None),
        (&["169.254.169.254:80"], &[], None),
        (&["169.254.169.254:443"], &[], Some(Reason::AddressRefused)),
    ] {
        let rules = compile(&NetworkPolicy { allowed_addresses: strings(addresses), ..policy(allowed) });
        assert_eq!(guarded(&rules, "169.254.169.254", 80), expected, "{allowed:?} {addresses:?}");
    }
}

#[test]
fn an_address_of_the_host_itself_is_refused_also_when_it_is_public() {
    let asked = host("me.example");
    let refusal = denial(rules(&[], &[]).judge_own_address(&asked, address("8.8.8.8"), 22));
    assert_eq!(refusal.reason, Reason::AddressRefused);
    assert_eq!(refusal.detail, "me.example leads to 8.8.8.8, which is the host's own address");
    let listed = rules(&["8.8.8.8:22"], &[]);
    assert!(listed.judge_own_address(&asked, address("8.8.8.8"), 22).is_allowed());
    assert!(!listed.judge_own_address(&asked, address("8.8.8.8"), 23).is_allowed());
    assert!(
        !rules(&["8.8.8.8"], &["8.8.8.8"]).judge_own_address(&asked, address("8.8.8.8"), 22).is_allowed()
    );
}

#[test]
fn loopback_is_listed_by_name_address_or_network_and_never_by_any_host() {
    for (entry, target, port, expected) in [
        ("localhost", "127.0.0.1", 80, true),
        ("localhost", "::1", 80, true),
        ("localhost:3000", "127.0.0.1", 80, false),
        ("localhost", "127.0.0.2", 80, false),
        ("127.0.0.0/8", "127.0.0.2", 80, true),
        ("127.0.0.1:80", "::ffff:127.0.0.1", 80, true),
        ("[::1]:80", "::1", 80, true),
        ("*.localhost", "127.0.0.1", 80, false),
        ("10.0.0.1", "10.0.0.1", 80, false),
    ] {
        let rules = rules(&[entry], &[]);
        assert_eq!(rules.lists_loopback(address(target), port), expected, "{entry} {target}:{port}");
    }
    assert!(!rules(&[], &[]).lists_loopback(address("127.0.0.1"), 80));
    for deny in ["localhost", "127.0.0.1", "*:80", "127.0.0.0/8"] {
        assert!(
            !rules(&["127.0.0.1", "localhost"], &[deny]).lists_loopback(address("127.0.0.1"), 80),
            "{deny}"
        );
    }
    let ports = compile(&NetworkPolicy { allowed_ports: vec![443], ..policy(&["localhost"]) });
    assert!(!ports.lists_loopback(address("127.0.0.1"), 80));
}

#[test]
fn pinned_names_are_found_in_every_spelling() {
    let pins = Pins(vec![address("::ffff:10.0.0.1"), address("::1")]);
    let rules =
        compile(&NetworkPolicy { resolve: [("DB.Internal.".to_owned(), pins)].into(), ..policy(&[]) });
    let name = Name::parse("db.internal").unwrap();
    assert_eq!(rules.pinned(&name), Some(&[address("10.0.0.1"), address("::1")][..]));
    assert_eq!(rules.pinned(&Name::parse("x.internal").unwrap()), None);
}

#[test]
fn a_refusal_says_what_to_write() {
    let mut policy = policy(&["a.example", "b.example:443"]);
    let rules = compile(&policy);
    let refusal = denial(rules.judge(&host("Example.com"), 443));
    assert_eq!(refusal.detail, "example.com is not in the list of allowed hosts");
    assert_eq!(refusal.remedy, "to allow: --allow example.com:443 (policy: network.allowedHosts)");
    let refusal = denial(rules.judge(&host("::1"), 80));
    assert_eq!(refusal.remedy, "to allow: --allow [::1]:80 (policy: network.allowedHosts)");
    let refusal = denial(rules.judge(&host("b.example"), 80));
    assert_eq!(refusal.detail, "b.example:80 is not allowed, b.example is at port 443 only");
    let refusal = denial(rules.judge_address(&host("a.example"), address("10.0.0.1"), 80));
    assert_eq!(refusal.detail, "a.example leads to 10.0.0.1, which is a private address");
    assert_eq!(refusal.remedy, "to allow: --allow-address 10.0.0.1 (policy: network.allowedAddresses)");
    let refusal = denial(rules.may_resolve(&Name::parse("c.example").unwrap()));
    assert_eq!(refusal.remedy, "to allow: --allow c.example (policy: network.allowedHosts)");
    policy.allowed_ports = vec![443];
    let rules = compile(&policy);
    assert_eq!(
        denial(rules.judge(&host("a.example"), 80)).remedy,
        "to allow: add 80 to network.allowedPorts"
    );
    assert_eq!(
        denial(rules.judge(&host("c.example"), 80)).remedy,
        "to allow: --allow c.example:80 (policy: network.allowedHosts), and add 80 to network.allowedPorts"
    );
    assert_eq!(
        rules.judge(&host("a.example"), 443),
        Verdict::Allow { rule: "allowedHosts: a.example".to_owned() }
    );
}
