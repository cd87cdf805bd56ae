//! One request after the other, and everything a client could hide another in.

mod properties;

use super::*;

/// What became of the bytes of a client.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    heads: Vec<Head>,
    passed: Vec<u8>,
    /// What was left when the tracker wanted to know the server's answer.
    held: Option<Vec<u8>>,
    error: Option<RequestError>,
}

/// Feeds pieces like a relay does.
fn run<'a>(tracker: &mut Tracker, pieces: impl IntoIterator<Item = &'a [u8]>) -> Run {
    let mut run = Run::default();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            if let Some(held) = &mut run.held {
                held.extend(rest);
                break;
            }
            let taken = match tracker.feed(rest) {
                Ok(Step::Kept { taken }) => {
                    assert_eq!(taken, rest.len());
                    taken
                }
                Ok(Step::Head { taken, head }) => {
                    run.passed.extend(head.bytes());
                    run.heads.push(*head);
                    taken
                }
                Ok(Step::Pass { taken }) => {
                    run.passed.extend(&rest[..taken]);
                    taken
                }
                Ok(Step::Wait) => {
                    run.held = Some(rest.to_vec());
                    break;
                }
                Err(error) => {
                    assert_eq!(tracker.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Err(error));
                    run.error = Some(error);
                    return run;
                }
            };
            assert!(taken > 0 && taken <= rest.len());
            rest = &rest[taken..];
        }
    }
    run
}

/// Runs bytes whole, byte by byte and cut once anywhere; all three come to the same.
fn whole(bytes: &[u8]) -> Run {
    let whole = run(&mut Tracker::new(), [bytes]);
    assert_eq!(run(&mut Tracker::new(), bytes.chunks(1)), whole);
    for at in 0..bytes.len().min(300) {
        let (a, b) = bytes.split_at(at);
        assert_eq!(run(&mut Tracker::new(), [a, b]), whole, "cut at {at}");
    }
    whole
}

/// The only head in these bytes, all of which pass.
fn head(bytes: &[u8]) -> Head {
    let mut run = whole(bytes);
    assert_eq!((run.error, &run.held), (None, &None), "{}", bytes.escape_ascii());
    assert_eq!(run.passed, bytes);
    assert_eq!(run.heads.len(), 1);
    run.heads.remove(0)
}

/// Why these bytes are refused.
fn error(bytes: &[u8]) -> RequestError {
    let run = whole(bytes);
    run.error.unwrap_or_else(|| panic!("accepted: {}", bytes.escape_ascii()))
}

/// A GET with these header lines besides Host.
fn get(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n").into_bytes()
}

/// A chunked POST with this body.
fn chunked(body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}

fn authority(text: &str) -> Authority {
    Authority::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_plain_request_is_read() {
    let bytes = b"GET /a?b=c HTTP/1.1\r\nHost:  Example.com:8080 \r\nAccept: */*\r\n\r\n";
    let head = head(bytes);
    assert_eq!((head.method.as_str(), head.target.as_str(), head.path.as_str()), ("GET", "/a?b=c", "/a?b=c"));
    assert_eq!((head.form, head.minor_version), (Form::Origin, 1));
    assert_eq!(head.authority, authority("Example.com:8080"));
    assert_eq!((head.framing, head.upgrade.clone()), (Framing::Empty, Upgrade::None));
    assert_eq!(head.bytes(), bytes);
    assert_eq!(head.header_block(), b"Host:  Example.com:8080 \r\nAccept: */*\r\n");
    let headers: Vec<_> = head.headers().map(|(name, value, _)| (name, value)).collect();
    assert_eq!(headers, [("Host", &b"Example.com:8080"[..]), ("Accept", b"*/*")]);
}

#[test]
fn each_form_of_a_target_names_whom_it_is_for() {
    let absolute = head(b"GET HTTP://a.example?q HTTP/1.1\r\nHost: A.example:80\r\n\r\n");
    assert_eq!((absolute.form, absolute.path.as_str()), (Form::Absolute(Scheme::Http), "/?q"));
    assert_eq!(absolute.authority, authority("a.example"));
    let secure = head(b"GET https://a.example/x HTTP/1.0\r\n\r\n");
    assert_eq!((secure.form, secure.path.as_str()), (Form::Absolute(Scheme::Https), "/x"));
    let asterisk = head(b"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!((asterisk.form, asterisk.path.as_str()), (Form::Asterisk, "*"));
    assert_eq!(head(b"OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n").path, "*");
    for host in ["Host: a.example\r\n", "Host: a.example:443\r\n", ""] {
        let connect = head(format!("CONNECT a.example:443 HTTP/1.1\r\n{host}\r\n").as_bytes());
        assert_eq!((connect.form, connect.upgrade.clone()), (Form::Authority, Upgrade::Connect));
        assert_eq!(connect.authority, authority("a.example:443"));
    }
}

#[test]
fn a_target_that_its_method_does_not_have_is_refused() {
    for line in [
        "GET *",
        "GET a.example:80",
        "GET ftp://a.example/",
        "GET http://",
        "GET http://u@a.example/",
        "GET /a#b",
        "GET x",
        "CONNECT a.example",
        "CONNECT /",
        "CONNECT http://a.example:443/",
        "connect a.example:443",
    ] {
        let bytes = format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(error(bytes.as_bytes()), RequestError::Target, "{line}");
    }
    assert_eq!(error("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".as_bytes()), RequestError::Target);
}

#[test]
fn every_request_says_for_whom_it_is_exactly_once() {
    assert_eq!(error(b"GET / HTTP/1.1\r\n\r\n"), RequestError::MissingHost);
    assert_eq!(error(b"GET / HTTP/1.0\r\n\r\n"), RequestError::MissingHost);
    assert_eq!(error(b"GET http://a/ HTTP/1.1\r\n\r\n"), RequestError::MissingHost);
    assert_eq!(error(&get("Host: a.example\r\n")), RequestError::RepeatedHost);
    assert_eq!(error(&get("hOST: b.example\r\n")), RequestError::RepeatedHost);
    for host in ["", "a b", "a,b", "a/b", "u@a", "a:x", "\u{e9}"] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(error(bytes.as_bytes()), RequestError::Host, "{host}");
    }
    for line in [
        "GET http://b.example/",
        "GET http://a.example:81/",
        "CONNECT b.example:443",
        "GET https://a.example:80/",
    ] {
        let bytes = format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(error(bytes.as_bytes()), RequestError::HostMismatch, "{line}");
    }
    assert_eq!(
        error(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n"),
        RequestError::HostMismatch
    );
}

#[test]
fn every_request_on_a_connection_is_seen() {
    let bytes = [
        &b"POST /1 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nGET /"[..],
        b"\r\nGET /2 HTTP/1.1\r\nHost: b.example\r\n\r\n",
        &chunked("4;x=\"y\"\r\nGET \r\n0a\r\n0123456789\r\n0\r\nX: y\r\n\r\n"),
        b"PUT /4 HTTP/1.1\r\nHost: c.example\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"GET /5 HTTP/1.0\r\nHost: d.example\r\n\r\n",
    ]
    .concat();
    let run = whole(&bytes);
    assert_eq!(run.error, None);
    let hosts: Vec<_> = run.heads.iter().map(|head| head.authority.host.as_str()).collect();
    assert_eq!(hosts, ["a.example", "b.example", "a.example", "c.example", "d.example"]);
    let framings: Vec<_> = run.heads.iter().map(|head| head.framing).collect();
    let expected = [Framing::Length(5), Framing::Empty, Framing::Chunked, Framing::Length(0), Framing::Empty];
    assert_eq!(framings, expected);
    // The empty line between two requests belongs to neither.
    assert_eq!(run.passed.len(), bytes.len() - 2);
}

#[test]
fn a_second_request_with_another_error_is_not_passed() {
    let first = get("");
    let run = whole(&[&first[..], b"GET / HTTP/1.1\r\nHost: b\r\nHost: c\r\n\r\n"].concat());
    assert_eq!((run.passed, run.error), (first, Some(RequestError::RepeatedHost)));
}

#[test]
fn lines_that_servers_read_differently_are_refused() {
    for (lines, expected) in [
        ("A: b\rC: d\r\n", RequestError::BareCarriageReturn),
        ("A: b\r\r\n", RequestError::BareCarriageReturn),
        ("A: b\nC: d\r\n", RequestError::BareLineFeed),
        ("\n", RequestError::BareLineFeed),
        ("A: b\0\r\n", RequestError::ControlCharacter),
        ("A: b\x7f\r\n", RequestError::ControlCharacter),
        ("A: b\r\n c\r\n", RequestError::FoldedHeader),
        ("A: b\r\n\tc\r\n", RequestError::FoldedHeader),
        ("Content-Length : 5\r\n", RequestError::SpaceBeforeColon),
        ("A\t: b\r\n", RequestError::SpaceBeforeColon),
        ("A\r\n", RequestError::Header),
        (": b\r\n", RequestError::Header),
        ("A b: c\r\n", RequestError::Header),
        ("A(b): c\r\n", RequestError::Header),
    ] {
        assert_eq!(error(&get(lines)), expected, "{lines:?}");
    }
    assert_eq!(error(b"\rGET / HTTP/1.1\r\n"), RequestError::BareCarriageReturn);
    assert_eq!(error(b"\nGET / HTTP/1.1\r\n"), RequestError::BareLineFeed);
    assert_eq!(error(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"), RequestError::FoldedHeader);
}

#[test]
fn a_request_line_has_three_parts_and_a_known_version() {
    for line in [
        "GET /",
        "GET  / HTTP/1.1",
        "GET / /b HTTP/1.1",
        " GET / HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET",
        "GET / HTTP/1.1 ",
    ] {
        let error = error(format!("{line}\r\nHost: a\r\n\r\n").as_bytes());
        assert!(matches!(error, RequestError::RequestLine | RequestError::Version), "{line:?}: {error:?}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "http/1.1", "HTTP/1.1x"] {
        let error = error(format!("GET / {version}\r\nHost: a\r\n\r\n").as_bytes());
        assert!(matches!(error, RequestError::RequestLine | RequestError::Version), "{version}: {error:?}");
    }
    assert_eq!(error(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), RequestError::Http2);
}

#[test]
fn a_length_that_is_in_doubt_is_refused() {
    for (lines, expected) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", RequestError::TwoLengths),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", RequestError::RepeatedContentLength),
        ("Content-Length: 5\r\ncontent-length: 5\r\n", RequestError::RepeatedContentLength),
        ("Content-Length: 5, 5\r\n", RequestError::ContentLength),
        ("Content-Length: +5\r\n", RequestError::ContentLength),
        ("Content-Length: -5\r\n", RequestError::ContentLength),
        ("Content-Length: 0x5\r\n", RequestError::ContentLength),
        ("Content-Length: 5 5\r\n", RequestError::ContentLength),
        ("Content-Length:\r\n", RequestError::ContentLength),
        ("Content-Length: 9223372036854775808\r\n", RequestError::ContentLength),
        ("Content-Length: 99999999999999999999\r\n", RequestError::ContentLength),
        ("Transfer-Encoding: gzip, chunked\r\n", RequestError::TransferEncoding),
        ("Transfer-Encoding: Chunked\r\n", RequestError::TransferEncoding),
        ("Transfer-Encoding: identity\r\n", RequestError::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", RequestError::TransferEncoding),
        ("Transfer-Encoding: \x0bchunked\r\n", RequestError::ControlCharacter),
        ("Transfer-Encoding:\r\n", RequestError::TransferEncoding),
    ] {
        assert_eq!(error(&get(lines)), expected, "{lines:?}");
    }
    assert_eq!(
        error(b"GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
        RequestError::TransferEncoding
    );
    assert_eq!(error(b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), RequestError::BodyOfConnect);
    assert_eq!(
        error(b"CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        RequestError::BodyOfConnect
    );
    let most = format!("Content-Length: {}\r\n", i64::MAX);
    let post = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{most}\r\n");
    assert_eq!(head(post.as_bytes()).framing, Framing::Length(i64::MAX as u64));
    // Some servers do not read it, and take it for the next request.
    assert_eq!(error(&get(&most)), RequestError::BodyOfGet);
}

#[test]
fn chunks_that_servers_read_differently_are_refused() {
    for (body, expected) in [
        ("\r\n", RequestError::ChunkSize),
        (" 5\r\n", RequestError::ChunkSize),
        ("5 \r\n", RequestError::ChunkSize),
        ("+5\r\n", RequestError::ChunkSize),
        ("0x5\r\n", RequestError::ChunkSize),
        ("5\n", RequestError::ChunkSize),
        ("8000000000000000\r\n", RequestError::ChunkSize),
        ("10000000000000000\r\n", RequestError::ChunkSize),
        ("00000000000000005\r\n", RequestError::ChunkSize),
        (";x\r\n", RequestError::ChunkSize),
        ("5;x\n", RequestError::BareLineFeed),
        ("5;x\0\r\n", RequestError::ControlCharacter),
        ("5;\u{e9}\r\n", RequestError::ControlCharacter),
        ("5\rx", RequestError::BareCarriageReturn),
        ("1\r\nxx", RequestError::ChunkEnd),
        ("1\r\nx\n", RequestError::ChunkEnd),
        ("1\r\nx\rx", RequestError::ChunkEnd),
        ("0\r\nX: y\n", RequestError::BareLineFeed),
        ("0\r\n x\r\n", RequestError::FoldedHeader),
        ("0\r\n\rx", RequestError::BareCarriageReturn),
    ] {
        assert_eq!(error(&chunked(body)), expected, "{body:?}");
    }
    assert_eq!(error(&chunked(&format!("5;{}", "x".repeat(1025)))), RequestError::ChunkExtension);
    let field = format!("0\r\n{}\r\n", "X: y\r\n".repeat(1366));
    assert_eq!(error(&chunked(&field)), RequestError::TrailerTooLong);
}

#[test]
fn what_is_kept_is_bounded() {
    let lines = |count: usize| "A: b\r\n".repeat(count);
    assert_eq!(head(&get(&lines(MAX_HEADERS - 1))).headers().count(), MAX_HEADERS);
    assert_eq!(error(&get(&lines(MAX_HEADERS))), RequestError::TooManyHeaders);
    let fits = get(&format!("A: {}\r\n", "b".repeat(MAX_HEAD - get("A: \r\n").len())));
    assert_eq!(fits.len(), MAX_HEAD);
    assert_eq!(run(&mut Tracker::new(), [&fits[..]]).error, None);
    let over = [b"\r\n", &fits[..]].concat();
    assert_eq!(run(&mut Tracker::new(), [&over[..]]).error, Some(RequestError::HeadTooLong));
    assert_eq!(run(&mut Tracker::new(), over.chunks(7)).error, Some(RequestError::HeadTooLong));
    let empty = b"\r\n".repeat(MAX_HEAD);
    assert_eq!(run(&mut Tracker::new(), [&empty[..]]).error, Some(RequestError::HeadTooLong));
}

const UPGRADE: &[u8] =
    b"GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn nothing_passes_after_an_upgrade_until_the_server_answered() {
    for asks in [UPGRADE, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"] {
        let all = [asks, b"\x81\x00 anything"].concat();
        let held = whole(&all);
        assert_eq!((&held.passed[..], held.held.as_deref()), (asks, Some(&b"\x81\x00 anything"[..])));

        let mut tracker = Tracker::new();
        run(&mut tracker, [&all[..]]);
        assert!(tracker.is_between_requests());
        tracker.upgraded();
        assert_eq!(run(&mut tracker, [&b"\x81\x00 anything"[..]]).passed, b"\x81\x00 anything");
        tracker.not_upgraded();
        assert_eq!(run(&mut tracker, [&b"\n"[..]]).passed, b"\n");

        let mut tracker = Tracker::new();
        run(&mut tracker, [asks]);
        tracker.not_upgraded();
        assert_eq!(run(&mut tracker, [&get("")[..]]).heads.len(), 1);
        tracker.upgraded();
        assert_eq!(run(&mut tracker, [&b"\x81"[..], b"\n"]).error, Some(RequestError::BareLineFeed));
    }
}

#[test]
fn a_server_alone_cannot_end_http() {
    let mut tracker = Tracker::new();
    tracker.upgraded();
    run(&mut tracker, [&get("")[..]]);
    tracker.upgraded();
    assert_eq!(run(&mut tracker, [&b"\0"[..]]).error, Some(RequestError::ControlCharacter));
    tracker.upgraded();
    assert_eq!(tracker.feed(b"x"), Err(RequestError::ControlCharacter));
}

#[test]
fn the_body_of_an_upgrade_passes_before_the_answer() {
    let asks = b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\nabc";
    let run = whole(&[&asks[..], b"d"].concat());
    assert_eq!((&run.passed[..], run.held.as_deref()), (&asks[..], Some(&b"d"[..])));
}

#[test]
fn http2_never_follows_an_upgrade() {
    let asks = get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n");
    assert_eq!(head(&asks).upgrade, Upgrade::Http2);
    let run = whole(&[&asks[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"].concat());
    assert_eq!((run.passed, run.error), (asks, Some(RequestError::Http2)));
    assert_eq!(error(&get("Upgrade: websocket, h2c\r\n")), RequestError::UpgradeToHttp2);
    assert_eq!(error(&get("Upgrade: websocket\r\nUpgrade: H2C\r\n")), RequestError::UpgradeToHttp2);
}

#[test]
fn a_connection_may_end_between_requests_only() {
    let mut tracker = Tracker::new();
    assert!(tracker.is_between_requests());
    run(&mut tracker, [&b"PUT"[..]]);
    assert!(!tracker.is_between_requests());
    run(&mut tracker, [&b" / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"[..]]);
    assert!(!tracker.is_between_requests());
    run(&mut tracker, [&b"x"[..]]);
    assert!(tracker.is_between_requests());
}

fn rewritten(bytes: &[u8]) -> String {
    String::from_utf8(rewrite(&head(bytes))).unwrap()
}

#[test]
fn a_proxy_passes_on_what_is_for_the_server() {
    let bytes = b"POST http://a.example:8080/x?y HTTP/1.1\r\nAccept: */*\r\nHost: A.example:8080\r\n\
        Connection: keep-alive, X-Hop , content-length,host\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\n\
        Proxy-Authorization: Basic x\r\nProxy-Authenticate: y\r\nTE: trailers\r\nx-hop: 1\r\nX-End:  2 \r\n\
        Content-Length: 0\r\n\r\n";
    assert_eq!(
        rewritten(bytes),
        "POST /x?y HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\nX-End:  2 \r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(
        rewritten(b"PUT http://[::1] HTTP/1.0\r\nConnection: close\r\n\r\n"),
        "PUT / HTTP/1.0\r\nHost: [::1]\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        rewritten(&chunked("0\r\n\r\n")),
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
}

#[test]
fn a_proxy_passes_on_an_upgrade_but_not_to_http2() {
    assert_eq!(
        rewritten(UPGRADE),
        "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let asks = get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n");
    assert_eq!(rewritten(&asks), "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
}
