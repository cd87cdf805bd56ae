//! First lines: whether a connection speaks HTTP at all, and what a server answered.
//!
//! Generous where [`super::Tracker`] is strict: what any server could take for a request counts as HTTP, and
//! is then refused, rather than passed on as something else.

/// How much of a first line without an end is looked at.
const MAX_LINE: usize = 8 * 1024;

/// Whether bytes are the start of a request. Once decided, more bytes do not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    Yes(Protocol),
    No,
    Undecided,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// The client begins with HTTP/2 (RFC 9113, 3.3), which [`super::Tracker`] does not follow.
    Http2,
}

/// What a server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Incomplete,
    Code(u16),
    NotHttp,
}

/// Whether `bytes`, all that a client sent so far, begin with what some server takes for a request line: a
/// method of any name, blanks of any kind, and somewhere a version; or a method that is known, without one. A
/// first line that begins like one and goes on for more than 8 KiB counts as one.
pub fn looks_like_http(bytes: &[u8]) -> Likeness {
    let seen = bytes.get(..MAX_LINE).unwrap_or(bytes);
    let start = seen.iter().position(|byte| !is_blank(*byte)).unwrap_or(seen.len());
    let line = seen.get(start..).unwrap_or_default();
    let length = line.iter().position(|byte| *byte == b'\n');
    let line = length.and_then(|length| line.get(..length)).unwrap_or(line);

    let method = line.iter().position(|byte| !is_token(*byte)).unwrap_or(line.len());
    let (method, rest) = line.split_at_checked(method).unwrap_or((line, &[]));
    if rest.first().is_some_and(|byte| method.is_empty() || !is_blank(*byte)) {
        return Likeness::No;
    }
    match length {
        Some(_) if line.trim_ascii_end() == b"PRI * HTTP/2.0" => Likeness::Yes(Protocol::Http2),
        Some(_) if has_version(rest) || METHODS.contains(&method) => Likeness::Yes(Protocol::Http1),
        Some(_) => Likeness::No,
        None if bytes.len() < MAX_LINE => Likeness::Undecided,
        // No server has a method as long as that.
        None if rest.is_empty() && !method.is_empty() => Likeness::No,
        None => Likeness::Yes(Protocol::Http1),
    }
}

/// Servers take these without a version, too (HTTP/0.9), and then read header fields all the same.
const METHODS: [&[u8]; 14] = [
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"SEARCH",
    b"QUERY",
    b"PURGE",
    b"LINK",
];

/// What any server splits a line at: blanks of ASCII, separators, and those of Latin-1.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ' | 0x85 | 0xa0)
}

/// Whether a word that follows the method is `HTTP/` with something.
fn has_version(rest: &[u8]) -> bool {
    rest.split(|byte| is_blank(*byte))
        .any(|word| word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/")))
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads the status at the start of `bytes`, all that a server sent of one response so far.
pub fn status_of(bytes: &[u8]) -> Status {
    // A digit for each `d`. The reason may be missing, and the space before it too.
    const FORM: &[u8; 13] = b"HTTP/1.d ddde";
    for (byte, form) in bytes.iter().zip(FORM) {
        let fits = match form {
            b'd' => byte.is_ascii_digit(),
            b'e' => matches!(byte, b' ' | b'\r' | b'\n'),
            _ => byte == form,
        };
        if !fits {
            return Status::NotHttp;
        }
    }
    let Some([digits @ .., _end]) = bytes.get(9..FORM.len()) else {
        return Status::Incomplete;
    };
    match digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit & 0xf)) {
        code @ 100.. => Status::Code(code),
        _ => Status::NotHttp,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same_for_every_part<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        read: fn(&[u8]) -> T,
        undecided: T,
    ) -> T {
        let whole = read(bytes);
        for end in 0..bytes.len() {
            let part = read(&bytes[..end]);
            assert!(part == undecided || part == whole, "{end} of {bytes:?}: {part:?}, {whole:?}");
        }
        whole
    }

    fn likeness(bytes: &[u8]) -> Likeness {
        same_for_every_part(bytes, looks_like_http, Likeness::Undecided)
    }

    const HTTP1: Likeness = Likeness::Yes(Protocol::Http1);

    #[test]
    fn a_request_line_of_any_method_is_http() {
        for line in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\r\n\r\nGET / HTTP/1.0\r\nHost: a\r\n",
            b"get /x HTTP/1.1\n",
            b"M-SEARCH * HTTP/1.1\r\n",
            b"FOO!bar http://a/b HTTP/1.9\r\n",
            b"CONNECT a:443 HTTP/1.1\r\n",
        ] {
            assert_eq!(likeness(line), HTTP1, "{line:?}");
        }
    }

    #[test]
    fn a_line_that_a_lenient_server_takes_is_http() {
        for line in [
            &b"GET /a b HTTP/1.1\r\n"[..],
            b"GET  /  HTTP/1.1  \r\n",
            b"GET\t/\tHTTP/1.1\r\n",
            b"GET /\xc3\xa9 HTTP/1.1\r\n",
            b"GET / http/1.1\r\n",
            b"GET / HTTP/3\r\n",
            b" GET / HTTP/1.1\n",
            b"GET /\r\n",
            b"GET /\x01 HTTP/1.1\r\n",
            b"GET /\x7f HTTP/1.1\r\n",
            b"GET\x0b/\x0cHTTP/1.1\r\n",
            b"GET\r/\rHTTP/1.1\n",
            b"GET\x1c/\x1cHTTP/1.1\r\n",
            b"GET\xa0/\x85HTTP/1.1\r\n",
            b"GET HTTP/1.1\r\n",
        ] {
            assert_eq!(likeness(line), HTTP1, "{line:?}");
        }
    }

    #[test]
    fn prior_knowledge_of_http2_is_told_apart() {
        assert_eq!(likeness(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Likeness::Yes(Protocol::Http2));
    }

    #[test]
    fn what_cannot_be_a_request_line_is_known_at_once() {
        for bytes in [
            &b"\x16\x03\x01"[..],
            b"\0",
            b"{\"",
            b"\xff",
            b"GET\0",
            b"GET/\x7f",
            b"GET(",
            b"*1\r\n",
            b"get key\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"EHLO mail.example.com\r\n",
            b"HTTP/1.1\r\n",
        ] {
            assert_eq!(likeness(bytes), Likeness::No, "{bytes:?}");
        }
    }

    #[test]
    fn what_may_still_become_one_is_undecided() {
        for bytes in [&b""[..], b"\r", b"\r\n\r\n", b"G", b"GET", b"GET ", b"GET / HTTP/1.1", b"SSH-2.0-x y"]
        {
            assert_eq!(likeness(bytes), Likeness::Undecided, "{bytes:?}");
        }
    }

    #[test]
    fn a_first_line_without_end_is_decided_after_8_kib() {
        let line = [b"GET /".to_vec(), vec![b'a'; MAX_LINE]].concat();
        assert_eq!(looks_like_http(&line[..MAX_LINE - 1]), Likeness::Undecided);
        assert_eq!(likeness(&line), HTTP1);
        assert_eq!(likeness(&vec![b'a'; MAX_LINE]), Likeness::No);
        assert_eq!(likeness(&vec![b'\n'; MAX_LINE]), HTTP1);
    }

    fn status(bytes: &[u8]) -> Status {
        same_for_every_part(bytes, status_of, Status::Incomplete)
    }

    #[test]
    fn the_status_of_a_response_is_read() {
        assert_eq!(status(b"HTTP/1.1 101 Switching Protocols\r\n"), Status::Code(101));
        assert_eq!(status(b"HTTP/1.0 200 OK\r\n"), Status::Code(200));
        assert_eq!(status(b"HTTP/1.1 204\r\n"), Status::Code(204));
        for part in [&b""[..], b"HT", b"HTTP/1.1 ", b"HTTP/1.1 10", b"HTTP/1.1 101"] {
            assert_eq!(status(part), Status::Incomplete);
        }
        for other in [&b"x"[..], b"HTTP/2", b"HTTP/1.1\r", b"HTTP/1.1 1x", b"HTTP/1.1 1011", b"HTTP/1.1 099 "]
        {
            assert_eq!(status(other), Status::NotHttp, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_the_same_in_any_pieces(
            start in proptest::sample::select(vec![&b""[..], b"GET ", b"\r\nPUT / HTTP/1.", b"HTTP/1.1 20"]),
            rest in proptest::collection::vec(prop_oneof![any::<u8>(), b' '..=b'~', Just(b'\n')], 0..60),
        ) {
            let bytes = [start, &rest].concat();
            likeness(&bytes);
            status(&bytes);
        }
    }
}
