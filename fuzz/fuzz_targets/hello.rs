//! Arbitrary bytes as a TLS hello: reading never panics, a part of them is incomplete or what the whole is, and
//! a name that was found is visible ASCII.
#![no_main]

use lazaret_egress::hello::{Hello, server_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = server_name(data);
    // Every part of the start, where most decisions fall, then some of the rest.
    for end in (0..data.len().min(600)).chain((600..data.len()).step_by(997)) {
        let part = server_name(&data[..end]);
        assert!(part == Hello::Incomplete || part == whole);
    }
    if let Hello::ClientHello { server_name: Some(name), .. } = &whole {
        assert!((1..=255).contains(&name.len()));
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()));
    }
});
