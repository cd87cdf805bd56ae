//! Spellings of hosts, and addresses that are refused.

use std::net::Ipv4Addr;

use super::*;

fn normal_form(text: &str) -> String {
    Host::parse(text).map(|host| host.to_string()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn is_address(text: &str) -> bool {
    matches!(Host::parse(text), Ok(Host::Address(_)))
}

fn class(text: &str) -> Option<Class> {
    class_of(text.parse().unwrap())
}

#[test]
fn spellings_of_one_name_are_one_name() {
    for text in [
        "example.com",
        "EXAMPLE.com",
        "example.com.",
        "ｅｘａｍｐｌｅ。com",
        "example。com。",
        "ＥＸＡＭＰＬＥ．ＣＯＭ",
        // A soft hyphen and a zero-width space are nothing (UTS-46 §4), to browsers as well.
        "exa\u{ad}mple.com",
        "exam\u{200b}ple.com",
        "example.c\u{2060}om",
    ] {
        assert_eq!(normal_form(text), "example.com", "{text:?}");
    }
    for text in ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "XN--BCHER-KVA.example"] {
        assert_eq!(normal_form(text), "xn--bcher-kva.example");
    }
    assert_eq!(normal_form("bu\u{308}cher.example"), "xn--bcher-kva.example");
    assert_eq!(normal_form("faß.example"), "xn--fa-hia.example");
}

#[test]
fn names_that_dns_knows_and_purists_do_not_are_taken() {
    for text in [
        "localhost",
        "foo_bar.example",
        "_dns.resolver.arpa",
        "-a.example",
        "a-.example",
        "r3---sn-x.googlevideo.com",
        "a--b.example",
        "1.example",
        "1.2.3.example",
        "0x.example",
        "0xg",
        "127.0.0.1.example",
    ] {
        assert_eq!(normal_form(text), text);
        assert!(!is_address(text), "{text}");
    }
}

#[test]
fn every_form_of_an_ipv4_address_is_that_address() {
    for text in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0x7f.0.0.0x1",
        "１２７.0.0.1",
        "127。0。0。1",
        "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
        "①②⑦.⓪.⓪.①",
        "127.0.0.1\u{ad}",
        "::ffff:127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ] {
        assert_eq!(Host::parse(text), Ok(Host::Address(Ipv4Addr::LOCALHOST.into())), "{text:?}");
    }
    for (text, address) in [("0", "0.0.0.0"), ("0x", "0.0.0.0"), ("0.0.0.0", "0.0.0.0"), ("1.0x", "1.0.0.0")]
    {
        assert_eq!(normal_form(text), address);
    }
    assert_eq!(normal_form("4294967295"), "255.255.255.255");
}

#[test]
fn a_name_that_ends_in_a_number_and_is_no_address_is_refused() {
    for text in [
        "1.2.3.4.5",
        "256.0.0.1",
        "1.2.3.256",
        "1.2.65536",
        "4294967296",
        "0x100000000",
        "99999999999999999999999999999",
        "08.0.0.1",
        "1.2.3.09",
        "a.1",
        "a.0x1",
        "a.0x",
        "example.123",
        "1.2.-3.4",
        "1_0.0.0.1",
        "0x1g.1",
    ] {
        assert_eq!(Host::parse(text), Err(HostError::Number(text.to_owned())));
    }
    // Digits of other scripts are letters to DNS.
    assert!(!is_address("١٢٧"));
}

#[test]
fn ipv6_is_taken_with_and_without_brackets() {
    for text in ["::1", "[::1]", "0:0:0:0:0:0:0:1", "[0000::0001]"] {
        assert_eq!(normal_form(text), "::1");
    }
    assert_eq!(normal_form("[2001:DB8::A]"), "2001:db8::a");
    for text in ["fe80::1%eth0", "[fe80::1%eth0]", "[fe80::1%25eth0]", "::1%"] {
        assert_eq!(Host::parse(text), Err(HostError::Zone(text.to_owned())));
    }
    for text in ["[]", "[", "[::1", "::1]", "[127.0.0.1]", "[example.com]", "[::1].", "[[::1]]", "[::1]:80"] {
        assert!(Host::parse(text).is_err(), "{text}");
    }
}

#[test]
fn each_fault_is_named() {
    type Fault = fn(String) -> HostError;
    let cases: [(&str, Fault); 25] = [
        ("a\0b", HostError::Nul),
        ("example.com\0.evil.example", HostError::Nul),
        ("a\rb", HostError::LineBreak),
        ("a.example\n", HostError::LineBreak),
        ("a b", HostError::WhiteSpace),
        (" a", HostError::WhiteSpace),
        ("a\u{a0}b", HostError::WhiteSpace),
        ("a\u{3000}b", HostError::WhiteSpace),
        ("a\tb", HostError::WhiteSpace),
        ("a\u{7f}b", HostError::Control),
        ("a\u{1b}[0m", HostError::Control),
        ("a%41", HostError::Percent),
        ("a％41", HostError::Percent),
        ("a/b", HostError::Slash),
        ("a／b", HostError::Slash),
        ("a℀b", HostError::Slash),
        ("user@a.example", HostError::User),
        ("a.example:443", HostError::Colon),
        ("a.example：443", HostError::Colon),
        ("1.2.3.4:80", HostError::Colon),
        ("a..example", HostError::EmptyLabel),
        (".example", HostError::EmptyLabel),
        ("example.com..", HostError::EmptyLabel),
        (".", HostError::EmptyLabel),
        ("\u{ad}", HostError::EmptyLabel),
    ];
    for (text, fault) in cases {
        assert_eq!(Host::parse(text), Err(fault(text.to_owned())), "{text:?}");
    }
    assert_eq!(Host::parse(""), Err(HostError::Empty));
    for text in ["a*b", "*", "a\\b", "a?b", "a#b", "a,b", "a<b", "a'b", "a\"b", "a=b", "a～b"] {
        assert!(matches!(Host::parse(text), Err(HostError::Character { .. })), "{text}");
    }
}

#[test]
fn broken_punycode_and_characters_that_no_name_has_are_refused() {
    for text in
        ["xn--", "xn--a.example", "xn--\u{fc}.example", "a.xn--0", "xn--a-.example", "xn--zzzzzz99999"]
    {
        assert_eq!(Host::parse(text), Err(HostError::International(text.to_owned())));
    }
    for text in ["a\u{200d}b", "\u{301}a", "a\u{fffd}b", "a\u{202e}b", "a\u{e000}b", "\u{5d0}a"] {
        assert_eq!(Host::parse(text), Err(HostError::International(text.to_owned())), "{text:?}");
    }
    // Punycode of what is not in normal form: "bÜcher" encoded as it stands.
    assert!(Host::parse("xn--bcher-2pa.example").is_err());
    assert!(Host::parse("a‥example").is_err());
}

#[test]
fn names_and_labels_end_where_dns_ends_them() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(longest.len(), 253);
    assert_eq!(normal_form(&longest), longest);
    assert_eq!(normal_form(&format!("{longest}.")), longest);
    assert_eq!(Host::parse(&format!("{longest}b")), Err(HostError::Long { length: 254 }));
    let label = "a".repeat(64);
    assert_eq!(Host::parse(&label), Err(HostError::LongLabel(label.clone())));
    assert!(matches!(Host::parse(&"ü".repeat(60)), Err(HostError::LongLabel(_)) | Ok(_)));
    assert_eq!(Host::parse(&"a.".repeat(100_000)), Err(HostError::Long { length: 200_000 }));
}

#[test]
fn a_subdomain_is_told_at_the_dots() {
    let name = |text| Name::parse(text).unwrap();
    assert!(name("a.example.com").is_below(&name("example.com")));
    assert!(name("a.b.example.com").is_below(&name("Example.COM.")));
    for text in ["example.com", "badexample.com", "com", "example.com.evil.example", "a.example.org"] {
        assert!(!name(text).is_below(&name("example.com")), "{text}");
    }
    assert!(name("localhost").is_single_label() && !name("a.b").is_single_label());
    assert_eq!(Name::parse("127.1"), Err(HostError::Address("127.1".to_owned())));
}

#[test]
fn addresses_are_classed_after_the_registries() {
    for (expected, addresses) in [
        (Class::Loopback, &["127.0.0.1", "127.255.255.255", "::1"][..]),
        (Class::Unspecified, &["0.0.0.0", "::"]),
        (Class::Private, &["10.0.0.0", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1"]),
        (Class::LinkLocal, &["169.254.0.1", "169.254.169.253", "fe80::1", "febf::1"]),
        (Class::SharedNat, &["100.64.0.0", "100.127.255.255"]),
        (Class::Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1"]),
        (Class::Broadcast, &["255.255.255.255"]),
        (
            Class::Metadata,
            &[
                "169.254.169.254",
                "169.254.170.2",
                "169.254.170.23",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd00:ec2::23",
                "fd20:ce::254",
            ],
        ),
        (Class::Reserved, &["0.0.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.19.255.255"]),
        (Class::Reserved, &["198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.254"]),
        (
            Class::Reserved,
            &["2001:db8::1", "3fff::1", "3fff:fff::1", "100::1", "fec0::1", "5f00::1", "4000::1"],
        ),
    ] {
        for address in addresses {
            assert_eq!(class(address), Some(expected), "{address}");
        }
    }
}

#[test]
fn public_addresses_have_no_class() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.17",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "3fff:1000::1",
    ] {
        assert_eq!(class(address), None, "{address}");
    }
}

#[test]
fn an_embedded_address_is_as_bad_as_itself() {
    for (address, expected) in [
        ("::ffff:127.0.0.1", Some(Class::Loopback)),
        ("::ffff:8.8.8.8", None),
        ("::127.0.0.1", Some(Class::Loopback)),
        ("::ffff:0:10.0.0.1", Some(Class::Private)),
        ("64:ff9b::169.254.169.254", Some(Class::Metadata)),
        ("64:ff9b::8.8.8.8", None),
        ("64:ff9b:1::10.0.0.1", Some(Class::Private)),
        ("64:ff9b:1:abcd:ef:1234:127.0.0.1", Some(Class::Loopback)),
        ("64:ff9b:1::8.8.8.8", None),
        // RFC 6052 with a prefix of 48 bits: 10.0.0.1.
        ("64:ff9b:1:a00:0:100::", Some(Class::Private)),
        ("64:ff9b:1:808:8:800::", None),
        ("2002:7f00:1::1", Some(Class::Loopback)),
        ("2002:a9fe:a9fe::", Some(Class::Metadata)),
        ("2002:808:808::1", None),
        // Teredo: the client 192.168.0.1, turned over.
        ("2001:0:4136:e378:8000:63bf:3f57:fffe", Some(Class::Private)),
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", None),
        ("2606:4700::5efe:10.0.0.1", Some(Class::Private)),
        ("2606:4700::200:5efe:127.0.0.1", Some(Class::Loopback)),
    ] {
        assert_eq!(class(address), expected, "{address}");
    }
}

#[test]
fn classes_have_names_of_their_own() {
    assert_eq!(Class::SharedNat.name(), "shared-nat");
    assert_eq!(Class::Metadata.to_string(), "a metadata service of a cloud");
}

/// Dots, digits, hexadecimal, punycode and what looks like them.
const NASTY: &str = "([a-zA-Z0-9._\\-]|xn--|0x|[０-９．。]|[äöüßÀ-ž]|\u{ad}|\u{200b}|\\PC){0,40}";

proptest::proptest! {
    #[test]
    fn normalising_is_idempotent(text in NASTY) {
        if let Ok(host) = Host::parse(&text) {
            assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            if let Host::Name(name) = host {
                assert!(name.as_str().len() <= 253);
                assert!(name.as_str().split('.').all(|label| (1..=63).contains(&label.len())));
            }
        }
    }

    #[test]
    fn case_and_one_dot_at_the_end_make_no_difference(text in "[a-zA-Z0-9_.-]{1,60}") {
        let (lower, upper) = (Host::parse(&text.to_lowercase()), Host::parse(&text.to_uppercase()));
        assert_eq!(lower.as_ref().ok(), upper.as_ref().ok());
        if let Ok(host) = lower {
            assert_eq!(Host::parse(text.strip_suffix('.').unwrap_or(&text)), Ok(host.clone()));
            assert_eq!(Host::parse(&format!("{host}.")), if host.to_string().contains(':') {
                Err(HostError::Colon(format!("{host}.")))
            } else {
                Ok(host)
            });
        }
    }

    #[test]
    fn every_ipv4_address_is_read_back_from_every_form(bits: u32) {
        let address = IpAddr::V4(Ipv4Addr::from(bits));
        for text in [
            address.to_string(),
            bits.to_string(),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("{}.{}", bits >> 24, bits & 0xff_ffff),
            format!("{:#x}.{:#o}.{}", bits >> 24, bits >> 16 & 0xff, bits & 0xffff).replace("0o", "0"),
        ] {
            assert_eq!(Host::parse(&text), Ok(Host::Address(address)), "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,300}") {
        let _ = Host::parse(&text);
        let _ = Cidr::parse(&text);
    }
}
