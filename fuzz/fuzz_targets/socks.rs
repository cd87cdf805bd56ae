//! Arbitrary bytes as messages of SOCKS: reading never panics, a part of a message is incomplete or already
//! wrong, and a message takes exactly the bytes it says.
#![no_main]

use std::fmt::Debug;

use lazaret_egress::socks::{Parsed, SocksError, greeting, request};
use libfuzzer_sys::fuzz_target;

fn check<T: PartialEq + Debug>(data: &[u8], read: fn(&[u8]) -> Result<Parsed<T>, SocksError>) -> usize {
    let whole = read(data);
    for end in 0..data.len().min(300) {
        let part = read(&data[..end]);
        assert!(part == Ok(Parsed::Incomplete) || part == whole);
    }
    let Ok(Parsed::Complete { taken, .. }) = &whole else { return 0 };
    assert_eq!(read(&data[..taken - 1]), Ok(Parsed::Incomplete));
    assert_eq!(read(&data[..*taken]), whole);
    *taken
}

fuzz_target!(|data: &[u8]| {
    let taken = check(data, greeting);
    check(&data[taken..], request);
});
