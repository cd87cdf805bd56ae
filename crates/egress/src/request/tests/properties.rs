//! What holds for any requests in any pieces.

use proptest::prelude::*;

use super::*;

/// Requests as clients send them, and what is almost one.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![
        "GET / HTTP/1.1",
        "POST http://a.example/b?c HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT a.example:443 HTTP/1.1",
        "PUT /x HTTP/1.0",
    ]);
    let field = proptest::sample::select(vec![
        "Accept: */*",
        "Connection: close, X",
        "X: \u{e9}",
        "Expect: 100-continue",
        "Upgrade: websocket",
        "TE: trailers",
    ]);
    let body = prop_oneof![
        Just("\r\n".to_owned()),
        "[a-z]{0,40}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len())),
        proptest::collection::vec("[A-Z]{1,20}", 0..4).prop_map(|chunks| {
            let chunks: String =
                chunks.iter().map(|chunk| format!("{:x};e\r\n{chunk}\r\n", chunk.len())).collect();
            format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\nT: u\r\n\r\n")
        }),
    ];
    (line, proptest::collection::vec(field, 0..4), body).prop_map(|(line, fields, body)| {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        format!("{line}\r\nHost: a.example\r\n{fields}{body}").into_bytes()
    })
}

/// A head that a proxy rewrote says the same as before, once it is read again.
fn check_rewritten(head: &Head) {
    let bytes = rewrite(head);
    let mut tracker = Tracker::new();
    match tracker.feed(&bytes) {
        Ok(Step::Head { taken, head: again }) => {
            assert_eq!(taken, bytes.len());
            assert_eq!((&again.method, &again.path, again.framing), (&head.method, &head.path, head.framing));
            assert!(again.authority.agrees(&head.authority, 0));
            assert_eq!(rewrite(&again), bytes);
        }
        other => panic!("{other:?} of {}", bytes.escape_ascii()),
    }
}

/// Runs bytes in pieces of these sizes, over and over.
fn in_pieces(bytes: &[u8], sizes: &[usize]) -> Run {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    run(&mut Tracker::new(), pieces)
}

proptest! {
    #[test]
    fn requests_are_followed_the_same_in_any_pieces(
        requests in proptest::collection::vec(any_request(), 1..4),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
        sizes in proptest::collection::vec(1usize..50, 1..8),
    ) {
        let mut bytes = requests.concat();
        for (at, byte) in &changes {
            *at.get_mut(&mut bytes) = *byte;
        }
        let whole = run(&mut Tracker::new(), [&bytes[..]]);
        prop_assert_eq!(&in_pieces(&bytes, &sizes), &whole);
        prop_assert_eq!(&in_pieces(&bytes, &[1]), &whole);
        prop_assert!(whole.passed.len() <= bytes.len());
        for head in &whole.heads {
            check_rewritten(head);
        }
    }

    #[test]
    fn any_bytes_are_followed_the_same_in_any_pieces(
        start in any_request(),
        rest in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), b'0'..=b'9'], 0..300),
        sizes in proptest::collection::vec(1usize..50, 1..8),
    ) {
        for bytes in [rest.clone(), [&start[..], &rest].concat()] {
            prop_assert_eq!(in_pieces(&bytes, &sizes), run(&mut Tracker::new(), [&bytes[..]]));
        }
    }
}
