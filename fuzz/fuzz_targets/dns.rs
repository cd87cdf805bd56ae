//! Arbitrary bytes as a DNS query: reading never panics, an answer repeats the identifier and the question, fits,
//! and is never answered itself.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use lazaret_egress::entropy::suspicion;
use lazaret_egress::wire::{QueryError, read_query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let answers = match read_query(data) {
        Ok(query) => {
            if let Some(host) = query.host() {
                let _ = suspicion(&host);
            }
            let _ = (suspicion(&query.text()), query.reverse_address());
            let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let answers = vec![
                query.addresses(&addresses, 60),
                query.pointer("host.example", 60),
                query.no_data(5),
                query.no_such_name(5),
                query.refused(),
                query.server_failure(),
                query.format_error(),
                query.not_implemented(),
            ];
            let question = 12..12 + query.name.iter().map(|label| label.len() + 1).sum::<usize>() + 5;
            for answer in &answers {
                assert!(answer.len() <= usize::from(query.udp_size));
                assert_eq!(answer[question.clone()], data[question.clone()]);
            }
            answers
        }
        Err(error) => error.answer().into_iter().collect(),
    };
    for answer in answers {
        assert_eq!(answer[..2], data[..2]);
        assert_eq!(read_query(&answer), Err(QueryError::Response));
    }
});
