//! Arbitrary bytes as what a client sends over HTTP/1, in pieces as the first byte says: following them never
//! panics, comes to the same whatever the pieces are, and a head that was rewritten reads as before.
#![no_main]

use lazaret_egress::request::{
    Head, Likeness, RequestError, Status, Step, Tracker, looks_like_http, rewrite, status_of,
};
use libfuzzer_sys::fuzz_target;

/// The heads, the bytes passed on, and how it ended.
type Run = (Vec<Head>, Vec<u8>, Result<(), RequestError>);

fn run(data: &[u8], size: usize) -> Run {
    let (mut tracker, mut heads, mut passed) = (Tracker::new(), Vec::new(), Vec::new());
    for piece in data.chunks(size) {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = match tracker.feed(rest) {
                Ok(Step::Kept { taken }) => taken,
                Ok(Step::Head { taken, head }) => {
                    passed.extend_from_slice(head.bytes());
                    heads.push(*head);
                    taken
                }
                Ok(Step::Pass { taken }) => {
                    passed.extend_from_slice(&rest[..taken]);
                    taken
                }
                // Every other server agrees.
                Ok(Step::Wait) if heads.len() % 2 == 0 => {
                    tracker.upgraded();
                    continue;
                }
                Ok(Step::Wait) => {
                    tracker.not_upgraded();
                    continue;
                }
                Err(error) => return (heads, passed, Err(error)),
            };
            assert!(taken > 0);
            rest = &rest[taken..];
        }
    }
    (heads, passed, Ok(()))
}

fuzz_target!(|data: &[u8]| {
    let Some((size, data)) = data.split_first() else { return };
    let whole = run(data, data.len().max(1));
    assert_eq!(run(data, usize::from(*size).max(1)), whole);
    assert_eq!(run(data, 1), whole);
    assert!(whole.1.len() <= data.len());
    for head in &whole.0 {
        let bytes = rewrite(head);
        // With a Host added it may be longer than a head may be.
        if let Ok(Step::Head { taken, head: again }) = Tracker::new().feed(&bytes) {
            assert_eq!(taken, bytes.len());
            assert_eq!((&again.method, &again.path, again.framing), (&head.method, &head.path, head.framing));
            assert!(again.authority.agrees(&head.authority, 0));
        }
    }
    let (likeness, status) = (looks_like_http(data), status_of(data));
    for end in 0..data.len().min(300) {
        let part = &data[..end];
        assert!([Likeness::Undecided, likeness].contains(&looks_like_http(part)));
        assert!([Status::Incomplete, status].contains(&status_of(part)));
    }
});
