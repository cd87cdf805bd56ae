//! Hellos that OpenSSL 3.0 sent, whole, in pieces, and with something changed.

use proptest::prelude::*;

use super::*;

/// Only TLS 1.2, for `api.example.com`.
const TLS12_SNI: &str = "\
    160301009b010000970303356729e8dc1d48c4c6b35a9fda0ed2275921ae2584d0c251e74c8797cecf5257000004c02f00\
    ff0100006a00000014001200000f6170692e6578616d706c652e636f6d000b000403000102000a000c000a001d0017001e\
    00190018002300000016000000170000000d002a0028040305030603080708080809080a080b0804080508060401050106\
    01030303010302040205020602";
/// Only TLS 1.2, without a name.
const TLS12_BARE: &str = "\
    16030100830100007f0303027ecf3cfda20edccdbf5a94376537900675efd054a585dca1366248626dc961000004c02f00\
    ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a00280403\
    05030603080708080809080a080b080408050806040105010601030303010302040205020602";
/// Only TLS 1.3, for `Registry.NPMjs.org`, with ALPN and padding.
const TLS13_SNI: &str = "\
    1603010200010001fc030350e1dfb314a447979761299a53f713543f4828c5ff3f440c065a5bb1500c458420fce74aa783\
    73e09aad318bf61f5f784f5d3cc1b557d46cc2e2631f48ab56fd96000813021303130100ff010001ab0000001700150000\
    1252656769737472792e4e504d6a732e6f7267000b000403000102000a00160014001d0017001e00190018010001010102\
    01030104002300000010000e000c02683208687474702f312e310016000000170000000d001e001c040305030603080708\
    080809080a080b080408050806040105010601002b0003020304002d00020101003300260024001d00207556d5991670d3\
    3f65a29a7b1efbed9bd7a18757eb9d5d7dbdbbdaf86d2f3b50001500f30000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000";
/// Only TLS 1.3, without a name.
const TLS13_BARE: &str = "\
    16030100dc010000d80303419a4aab5e3ada0d3fe9b0e6192ba23db92ed35c802eb6e1995764aa9077df75200b4c7b3db3\
    9f009a237af8d8304bd936e15ef5d903f9c9a9a0083d961c64bd6b000813021303130100ff01000087000b000403000102\
    000a00160014001d0017001e0019001801000101010201030104002300000016000000170000000d001e001c0403050306\
    03080708080809080a080b080408050806040105010601002b0003020304002d00020101003300260024001d002076e740\
    d02d819ac6721f38db07b00eb99643993a78618f98608eb7926a0bc851";
/// TLS 1.2 or 1.3, for `web.test`.
const TLS13_BOTH: &str = "\
    1603010200010001fc0303d437b1dd2bebc3c2a63b74cd226807f259a5727a1d9bb07b7ccf54b81355905f20379216b4b1\
    7feaa392c9ea897360df986f798c3313e4336b99c87cc19e5bb417000a130213031301c02f00ff010001a90000000d000b\
    0000087765622e74657374000b000403000102000a00160014001d0017001e001900180100010101020103010400230000\
    0010000b000908687474702f312e310016000000170000000d002a0028040305030603080708080809080a080b08040805\
    0806040105010601030303010302040205020602002b00050403040303002d00020101003300260024001d0020cd2ca5d4\
    65698aea6503a3c02b0ecfdc6dae0f4f8365a67673cab6faa6990b0c001500f00000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn named(name: &str) -> Hello {
    Hello::ClientHello { server_name: Some(name.to_owned()), encrypted: false }
}

const UNNAMED: Hello = Hello::ClientHello { server_name: None, encrypted: false };

/// A hello with these extensions in one record.
fn with_extensions(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, content) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend((content.len() as u16).to_be_bytes());
        list.extend(*content);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend((list.len() as u16).to_be_bytes());
    body.extend(list);
    records(&handshake(&body), MAX_RECORD)
}

fn handshake(body: &[u8]) -> Vec<u8> {
    [&[1], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

/// A message in records of at most `size` bytes each.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for fragment in message.chunks(size) {
        bytes.extend([22, 3, 1]);
        bytes.extend((fragment.len() as u16).to_be_bytes());
        bytes.extend(fragment);
    }
    bytes
}

/// The content of a server_name extension with these entries.
fn names(entries: &[(u8, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, name) in entries {
        list.push(*kind);
        list.extend((name.len() as u16).to_be_bytes());
        list.extend(*name);
    }
    [&(list.len() as u16).to_be_bytes(), &list[..]].concat()
}

/// A part is incomplete or already what the whole is, and what follows a hello does not matter.
fn same_for_every_part(bytes: &[u8]) -> Hello {
    let whole = server_name(bytes);
    for end in 0..bytes.len() {
        let part = server_name(&bytes[..end]);
        assert!(part == Hello::Incomplete || part == whole, "{end} bytes: {part:?}, all: {whole:?}");
    }
    if whole != Hello::Incomplete {
        assert_eq!(server_name(&[bytes, b"\x14\x03\x03\x00\x01\x01"].concat()), whole);
    }
    whole
}

#[test]
fn the_name_in_a_real_hello_is_found_as_it_was_sent() {
    assert_eq!(same_for_every_part(&hex(TLS12_SNI)), named("api.example.com"));
    assert_eq!(same_for_every_part(&hex(TLS13_SNI)), named("Registry.NPMjs.org"));
    assert_eq!(same_for_every_part(&hex(TLS13_BOTH)), named("web.test"));
}

#[test]
fn a_real_hello_without_a_name_has_none() {
    assert_eq!(same_for_every_part(&hex(TLS12_BARE)), UNNAMED);
    assert_eq!(same_for_every_part(&hex(TLS13_BARE)), UNNAMED);
}

#[test]
fn a_hello_is_complete_with_its_last_byte_and_not_before() {
    for hello in [TLS12_SNI, TLS12_BARE, TLS13_SNI, TLS13_BARE, TLS13_BOTH] {
        let bytes = hex(hello);
        assert_eq!(server_name(&bytes[..bytes.len() - 1]), Hello::Incomplete);
    }
}

#[test]
fn a_hello_in_many_records_reads_like_one_in_a_single_record() {
    let bytes = hex(TLS13_SNI);
    for size in [1, 2, 3, 4, 5, 37, 100, 511, 512] {
        assert_eq!(same_for_every_part(&records(&bytes[5..], size)), named("Registry.NPMjs.org"), "{size}");
    }
}

#[test]
fn a_hello_without_any_extensions_has_no_name() {
    let mut body = vec![3, 1];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0, 47, 1, 0]);
    assert_eq!(same_for_every_part(&records(&handshake(&body), 512)), UNNAMED);
}

#[test]
fn an_encrypted_hello_is_said_to_be_one() {
    let name = names(&[(0, b"public.example")]);
    let bytes = with_extensions(&[(0, &name), (0xfe0d, &[0, 0, 1, 0, 1, 9, 0, 0, 0, 0])]);
    assert_eq!(
        same_for_every_part(&bytes),
        Hello::ClientHello { server_name: Some("public.example".to_owned()), encrypted: true }
    );
}

#[test]
fn what_is_not_tls_is_known_by_its_first_wrong_byte() {
    for bytes in [&b"GET / HTTP/1.1"[..], b"\x80\x2e\x02", b"\x19", b"\0"] {
        assert_eq!(same_for_every_part(bytes), Hello::NotTls, "{bytes:?}");
    }
}

#[test]
fn what_some_server_takes_for_tls_is_not_passed_as_something_else() {
    for bytes in [&b"\x80\x2e\x01\x03\x01"[..], b"\x80\x2e\x01\0\x02", b"\x14", b"\x15", b"\x17"] {
        assert_eq!(same_for_every_part(bytes), Hello::Malformed, "{bytes:?}");
    }
    // The version of a record is ignored, by servers as by us.
    let mut bytes = with_extensions(&[(0, &names(&[(0, b"a.example")]))]);
    for (major, minor) in [(3, 4), (3, 255), (2, 0), (15, 1)] {
        (bytes[1], bytes[2]) = (major, minor);
        let named = Hello::ClientHello { server_name: Some("a.example".to_owned()), encrypted: false };
        assert_eq!(same_for_every_part(&bytes), named);
    }
}

#[test]
fn a_record_of_another_size_than_allowed_is_malformed() {
    for bytes in [&b"\x16\x03\x01\x00\x00"[..], b"\x16\x03\x01\x41", b"\x16\x03\x01\x40\x01"] {
        assert_eq!(same_for_every_part(bytes), Hello::Malformed, "{bytes:?}");
    }
    assert_eq!(server_name(b"\x16\x03\x01\x40\x00"), Hello::Incomplete);
}

#[test]
fn another_message_than_a_hello_is_malformed_at_its_first_byte() {
    assert_eq!(same_for_every_part(b"\x16\x03\x01\x00\x50\x02"), Hello::Malformed);
}

#[test]
fn another_record_in_the_middle_of_a_hello_is_malformed() {
    let mut bytes = hex(TLS12_SNI)[..5].to_vec();
    bytes[3..5].copy_from_slice(&[0, 10]);
    bytes.extend(&hex(TLS12_SNI)[5..15]);
    assert_eq!(server_name(&bytes), Hello::Incomplete);
    for next in [20, 21, 23] {
        assert_eq!(server_name(&[&bytes[..], &[next]].concat()), Hello::Malformed);
    }
}

#[test]
fn a_record_that_holds_more_than_the_hello_is_malformed() {
    let mut bytes = hex(TLS12_SNI);
    bytes[4] += 1;
    bytes.push(0);
    assert_eq!(same_for_every_part(&bytes), Hello::Malformed);
    assert_eq!(server_name(&bytes[..9]), Hello::Malformed);
}

#[test]
fn a_hello_that_claims_or_takes_too_much_is_malformed() {
    assert_eq!(server_name(b"\x16\x03\x01\x40\x00\x01\x01\x00\x00"), Hello::Malformed);
    // Records of a single byte each: the headers alone fill the limit.
    let message = handshake(&[&[3, 3][..], &[0; 32], &[0], &[0xf0, 0x00], &[0; 0xfd00 - 37]].concat());
    let bytes = records(&message, 1);
    assert_eq!(server_name(&bytes[..MAX_HELLO - 1]), Hello::Incomplete);
    assert_eq!(server_name(&bytes[..MAX_HELLO]), Hello::Malformed);
    assert_eq!(server_name(&bytes), Hello::Malformed);
}

#[test]
fn a_second_name_is_malformed_wherever_it_stands() {
    let one = names(&[(0, b"a.example")]);
    assert_eq!(same_for_every_part(&with_extensions(&[(0, &one)])), named("a.example"));
    assert_eq!(same_for_every_part(&with_extensions(&[(0, &one), (0, &one)])), Hello::Malformed);
    let two = names(&[(0, b"a.example"), (0, b"b.example")]);
    assert_eq!(same_for_every_part(&with_extensions(&[(0, &two)])), Hello::Malformed);
    let other = names(&[(1, b"b.example")]);
    assert_eq!(same_for_every_part(&with_extensions(&[(0, &other)])), Hello::Malformed);
}

#[test]
fn a_name_with_a_character_no_host_has_is_malformed() {
    for name in [&b""[..], b"a b", b"a\0b", b"a\x7f", b"\xc3\xa9.example", b"a\nb", &[b'a'; 256]] {
        let list = names(&[(0, name)]);
        assert_eq!(same_for_every_part(&with_extensions(&[(0, &list)])), Hello::Malformed, "{name:?}");
    }
    let empty = names(&[]);
    assert_eq!(server_name(&with_extensions(&[(0, &empty)])), Hello::Malformed);
    assert_eq!(server_name(&with_extensions(&[(0, b"")])), Hello::Malformed);
}

#[test]
fn lengths_that_do_not_add_up_are_malformed() {
    let good = with_extensions(&[(0, &names(&[(0, b"a.example")])), (16, b"x")]);
    // The length of: session id, cipher suites (odd, none), compression, extensions, one extension, list, name.
    for (at, byte) in [(43, 33), (45, 3), (45, 0), (48, 0), (51, 0), (55, 200), (57, 1), (60, 8)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        assert_eq!(same_for_every_part(&bytes), Hello::Malformed, "byte {at}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_the_same_in_any_pieces(
        start in proptest::sample::select(vec![&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x00\xf0\x01\0\0\xec\x03"]),
        rest in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        same_for_every_part(&[start, &rest].concat());
    }

    #[test]
    fn a_changed_hello_is_read_the_same_in_any_pieces(
        hello in proptest::sample::select(vec![TLS12_SNI, TLS12_BARE, TLS13_SNI, TLS13_BARE, TLS13_BOTH]),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        size in 1usize..600,
    ) {
        let mut message = hex(hello)[5..].to_vec();
        for (at, byte) in &changes {
            *at.get_mut(&mut message) = *byte;
        }
        let bytes = records(&message, size);
        let read = same_for_every_part(&bytes);
        // How a hello is cut into records makes no difference, unless a record now holds more than the hello.
        if number(&message[1..4]) + 4 == message.len() {
            prop_assert_eq!(server_name(&records(&message, 600)), read);
        }
    }

    #[test]
    fn a_hello_cut_anywhere_is_never_complete(at in 0usize..1 << 10) {
        let bytes = hex(TLS13_SNI);
        let cut = &bytes[..at.min(bytes.len() - 1)];
        prop_assert_eq!(server_name(cut), Hello::Incomplete);
    }
}
