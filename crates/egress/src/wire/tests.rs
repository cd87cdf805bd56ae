//! Queries read, and answers to them as another implementation reads these.

use std::net::IpAddr;

use proptest::prelude::*;
use simple_dns::rdata::RData;
use simple_dns::{OPCODE, Packet, PacketFlag, RCODE};

use super::*;

/// `wWw.Example.com`, type A, with EDNS: what `dig` sends, less its cookie.
const QUERY: &[u8] = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x03wWw\x07Example\x03com\0\0\x01\0\x01\
    \0\0\x29\x04\xd0\0\0\0\0\0\0";

fn encode(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
}

/// A query without EDNS.
fn query(name: &str, kind: u16) -> Vec<u8> {
    [&b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0"[..], &encode(name), &kind.to_be_bytes(), &[0, 1]].concat()
}

fn read(name: &str, kind: u16) -> Query {
    read_query(&query(name, kind)).unwrap()
}

fn flaw(bytes: &[u8]) -> Flaw {
    match read_query(bytes) {
        Err(QueryError::Format { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// What another implementation makes of an answer.
fn judge(bytes: &[u8]) -> Packet<'_> {
    let packet = Packet::parse(bytes).unwrap();
    assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_AVAILABLE));
    assert!(!packet.has_flags(PacketFlag::AUTHORITATIVE_ANSWER));
    assert_eq!(packet.opcode(), OPCODE::StandardQuery);
    packet
}

#[test]
fn a_query_is_read_with_its_options() {
    let query = read_query(QUERY).unwrap();
    assert_eq!((query.id, query.kind, query.class), (0x1234, A, IN));
    assert!(query.recursion_desired && query.edns);
    assert_eq!(query.udp_size, 1232);
    assert_eq!(query.name, [&b"wWw"[..], b"Example", b"com"]);
    assert_eq!(query.host().as_deref(), Some("www.example.com"));
    assert_eq!(query.text(), "wWw.Example.com.");
}

#[test]
fn a_query_without_edns_takes_512_bytes() {
    let plain = read("example.com", AAAA);
    assert!(!plain.edns);
    assert_eq!(plain.udp_size, 512);
    let mut small = QUERY.to_vec();
    let at = small.len() - 8;
    small[at..at + 2].copy_from_slice(&[0, 9]);
    assert_eq!(read_query(&small).unwrap().udp_size, 512);
}

#[test]
fn a_type_nobody_knows_is_still_a_query() {
    assert_eq!(read("example.com", 65280).kind, 65280);
}

#[test]
fn a_name_that_is_no_host_is_told_from_one() {
    let bytes = [&QUERY[..12], b"\x05a.b\\\xff\x01 \0\0\x01\0\x01", &QUERY[33..]].concat();
    let query = read_query(&bytes).unwrap();
    assert_eq!(query.host(), None);
    assert_eq!(query.text(), "a\\046b\\092\\255.\\032.");
    let root = read(".", A);
    assert_eq!((root.host(), root.text()), (None, ".".to_owned()));
    assert_eq!(read("_dmarc.Example.com", 16).host().as_deref(), Some("_dmarc.example.com"));
}

#[test]
fn an_answer_is_never_answered() {
    let mut bytes = QUERY.to_vec();
    bytes[2] |= 0x80;
    assert_eq!(read_query(&bytes), Err(QueryError::Response));
    assert_eq!(read_query(&bytes[..4]), Err(QueryError::Response));
    assert_eq!(QueryError::Response.answer(), None);
    assert_eq!(read_query(b"\x12\x34\x01"), Err(QueryError::Short));
    assert_eq!(QueryError::Short.answer(), None);
}

#[test]
fn another_opcode_is_not_implemented() {
    let mut bytes = QUERY.to_vec();
    bytes[2] |= 5 << 3;
    let error = read_query(&bytes).unwrap_err();
    assert!(matches!(error, QueryError::Opcode { opcode: 5, .. }));
    assert_eq!(error.answer().unwrap(), b"\x12\x34\xa9\x84\0\0\0\0\0\0\0\0");
}

#[test]
fn another_version_of_edns_is_named_as_such() {
    let mut bytes = QUERY.to_vec();
    let at = bytes.len() - 5;
    bytes[at] = 1;
    let error = read_query(&bytes).unwrap_err();
    assert!(matches!(error, QueryError::EdnsVersion { version: 1, .. }));
    // The upper bits of code 16 are in the OPT record.
    assert_eq!(error.answer().unwrap(), b"\x12\x34\x81\x80\0\0\0\0\0\0\0\x01\0\0\x29\x04\xd0\x01\0\0\0\0\0");
}

#[test]
fn what_is_malformed_is_named_and_answered() {
    let counts = |at: usize, count: u8| {
        let mut bytes = QUERY.to_vec();
        bytes[at] = count;
        bytes
    };
    assert_eq!(flaw(&counts(5, 0)), Flaw::Questions(0));
    assert_eq!(flaw(&counts(5, 2)), Flaw::Questions(2));
    for at in [7, 9] {
        assert_eq!(flaw(&counts(at, 1)), Flaw::Records);
    }
    assert_eq!(flaw(&counts(11, 2)), Flaw::Records);
    assert_eq!(flaw(&counts(11, 0)), Flaw::Trailing);
    assert_eq!(flaw(&counts(12, 0xc0)), Flaw::Label);
    assert_eq!(flaw(&counts(12, 0x41)), Flaw::Label);
    assert_eq!(flaw(&[QUERY, b"x"].concat()), Flaw::Trailing);
    assert_eq!(flaw(&QUERY[..20]), Flaw::Cut);
    assert_eq!(flaw(&QUERY[..4]), Flaw::Cut);
    assert_eq!(flaw(&[QUERY, &[0; MAX_QUERY]].concat()), Flaw::Long);
    let mut options = QUERY.to_vec();
    *options.last_mut().unwrap() = 5;
    assert_eq!(flaw(&[&options[..], &[0, 10, 0, 2, 1]].concat()), Flaw::Options);
    assert!(read_query(&[&options[..], &[0, 10, 0, 1, 1]].concat()).is_ok());
    let answer = read_query(&QUERY[..20]).unwrap_err().answer().unwrap();
    assert_eq!(answer, b"\x12\x34\x81\x81\0\0\0\0\0\0\0\0");
}

#[test]
fn a_name_has_at_most_255_bytes() {
    let long = |last: usize| format!("{}.{}", vec!["a".repeat(63); 3].join("."), "b".repeat(last));
    assert_eq!(read(&long(61), A).question.len(), 259);
    assert_eq!(flaw(&query(&long(62), A)), Flaw::Name);
}

#[test]
fn addresses_of_the_kind_asked_for_are_answered() {
    let query = read_query(QUERY).unwrap();
    let addresses: Vec<IpAddr> =
        ["192.0.2.1", "2001:db8::1", "192.0.2.2"].iter().map(|text| text.parse().unwrap()).collect();
    let bytes = query.addresses(&addresses, 60);
    let packet = judge(&bytes);
    assert_eq!((packet.id(), packet.rcode()), (0x1234, RCODE::NoError));
    assert!(packet.has_flags(PacketFlag::RECURSION_DESIRED) && !packet.has_flags(PacketFlag::TRUNCATION));
    assert_eq!(packet.opt().unwrap().udp_packet_size, 1232);
    assert_eq!(packet.answers.len(), 2);
    for (record, expected) in packet.answers.iter().zip(["192.0.2.1", "192.0.2.2"]) {
        assert_eq!((record.name.to_string().as_str(), record.ttl), ("wWw.Example.com", 60));
        let RData::A(found) = &record.rdata else { panic!("{record:?}") };
        assert_eq!(Ipv4Addr::from(found.address), expected.parse::<Ipv4Addr>().unwrap());
    }

    let query = read("example.com", AAAA);
    let bytes = query.addresses(&addresses, 60);
    let packet = judge(&bytes);
    assert!(packet.opt().is_none());
    let [record] = &packet.answers[..] else { panic!("{packet:?}") };
    let RData::AAAA(found) = &record.rdata else { panic!("{record:?}") };
    assert_eq!(Ipv6Addr::from(found.address), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn another_class_than_that_of_the_internet_has_no_addresses() {
    let mut bytes = query("example.com", A);
    *bytes.last_mut().unwrap() = 3;
    let query = read_query(&bytes).unwrap();
    assert!(judge(&query.addresses(&[Ipv4Addr::LOCALHOST.into()], 1)).answers.is_empty());
}

#[test]
fn the_question_comes_back_byte_for_byte() {
    let query = read_query(QUERY).unwrap();
    for answer in [
        query.addresses(&[Ipv4Addr::LOCALHOST.into()], 1),
        query.no_data(1),
        query.no_such_name(1),
        query.refused(),
        query.server_failure(),
        query.format_error(),
        query.not_implemented(),
        query.pointer("a.example", 1),
    ] {
        assert_eq!(answer[12..33], QUERY[12..33]);
        assert!(judge(&answer).opt().is_some());
    }
}

#[test]
fn as_many_addresses_as_fit_are_answered() {
    let many: Vec<IpAddr> = (0..200u8).map(|last| Ipv4Addr::new(192, 0, 2, last).into()).collect();
    let bytes = read("example.com", A).addresses(&many, 60);
    assert!(bytes.len() <= 512);
    let packet = judge(&bytes);
    assert!(packet.answers.len() > 25 && !packet.has_flags(PacketFlag::TRUNCATION));
    assert!(read_query(QUERY).unwrap().addresses(&many, 60).len() <= 1232);
}

#[test]
fn nothing_found_says_for_how_long() {
    let query = read("nowhere.example", AAAA);
    for (bytes, code) in [
        (query.no_data(5), RCODE::NoError),
        (query.no_such_name(5), RCODE::NameError),
        (query.addresses(&[Ipv4Addr::LOCALHOST.into()], 5), RCODE::NoError),
    ] {
        let packet = judge(&bytes);
        assert_eq!(packet.rcode(), code);
        assert!(packet.answers.is_empty());
        let [record] = &packet.name_servers[..] else { panic!("{packet:?}") };
        let RData::SOA(soa) = &record.rdata else { panic!("{record:?}") };
        assert_eq!((record.ttl, soa.minimum), (5, 5));
    }
}

#[test]
fn failures_have_their_codes() {
    let query = read("example.com", A);
    for (bytes, code) in [
        (query.refused(), RCODE::Refused),
        (query.server_failure(), RCODE::ServerFailure),
        (query.format_error(), RCODE::FormatError),
        (query.not_implemented(), RCODE::NotImplemented),
    ] {
        let packet = judge(&bytes);
        assert_eq!(packet.rcode(), code);
        assert!(packet.answers.is_empty() && packet.name_servers.is_empty());
    }
}

#[test]
fn an_address_is_given_its_name() {
    let query = read("7.2.0.192.in-addr.arpa", PTR);
    assert_eq!(query.reverse_address(), Some("192.0.2.7".parse().unwrap()));
    let bytes = query.pointer("Host.example.com.", 30);
    let packet = judge(&bytes);
    let [record] = &packet.answers[..] else { panic!("{packet:?}") };
    let RData::PTR(name) = &record.rdata else { panic!("{record:?}") };
    assert_eq!(name.0.to_string(), "Host.example.com");
    for bad in ["", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
        assert_eq!(judge(&query.pointer(bad, 30)).rcode(), RCODE::ServerFailure, "{bad}");
    }
}

#[test]
fn an_answer_that_does_not_fit_is_truncated() {
    let long = vec!["a".repeat(60); 4].join(".");
    let bytes = read(&long, PTR).pointer(&long, 30);
    let packet = judge(&bytes);
    assert!(packet.has_flags(PacketFlag::TRUNCATION) && packet.answers.is_empty());
    assert!(bytes.len() <= 512);
}

#[test]
fn only_the_names_of_addresses_are_addresses() {
    let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.B.D.0.1.0.0.2.ip6.ARPA";
    assert_eq!(read(v6, PTR).reverse_address(), Some("2001:db8::1".parse().unwrap()));
    for name in ["2.0.192.in-addr.arpa", "256.2.0.192.in-addr.arpa", "x.2.0.192.in-addr.arpa", "a.b", "arpa"]
    {
        assert_eq!(read(name, PTR).reverse_address(), None, "{name}");
    }
    assert_eq!(read(&v6.replace("8.B", "8.g"), PTR).reverse_address(), None);
}

/// Whatever the bytes are, what is sent back is well formed and never answers an answer.
fn check(bytes: &[u8]) {
    match read_query(bytes) {
        Ok(query) => {
            let _ = (query.host(), query.text(), query.reverse_address());
            let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let answers = [
                query.addresses(&addresses, 1),
                query.no_such_name(1),
                query.refused(),
                query.pointer("a", 1),
            ];
            for answer in answers {
                assert!(answer.len() <= usize::from(query.udp_size));
                assert_eq!(answer[..2], bytes[..2]);
                assert_eq!(answer[12..12 + query.question.len()], bytes[12..12 + query.question.len()]);
                assert_eq!(read_query(&answer), Err(QueryError::Response));
            }
        }
        Err(error) => {
            let answer = error.answer();
            assert_eq!(answer.is_none(), bytes.len() < 4 || bytes[2] & 0x80 != 0);
            if let Some(answer) = answer {
                assert_eq!(answer[..2], bytes[..2]);
                assert_eq!(read_query(&answer), Err(QueryError::Response));
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_get_a_sound_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes);
        check(&[&QUERY[..12], &bytes].concat());
    }

    #[test]
    fn a_changed_query_gets_a_sound_answer_or_none(
        changes in proptest::collection::vec((0..QUERY.len(), any::<u8>()), 1..4),
        end in 0..=QUERY.len(),
    ) {
        let mut bytes = QUERY.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        check(&bytes);
        check(&bytes[..end]);
    }

    #[test]
    fn a_query_cut_anywhere_is_refused(end in 0..QUERY.len()) {
        prop_assert!(read_query(&QUERY[..end]).is_err());
    }
}
