//! Arbitrary text as a policy: loading never panics, and what is accepted survives being written out and
//! loaded again.
#![no_main]

use std::path::Path;

use lazaret_policy::load::{Format, LoadError, Loaded, parse};
use libfuzzer_sys::fuzz_target;

fn load(text: &str, format: Format) -> Result<Loaded, LoadError> {
    let outcome = parse(text, format, Path::new("policy"));
    if let Err(error) = &outcome {
        assert!(!error.to_string().is_empty());
    }
    outcome
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [Format::Json, Format::Toml] {
        let Ok(Loaded { policy, .. }) = load(text, format) else { continue };
        let json = serde_json::to_string(&policy).expect("a policy can be written as JSON");
        assert_eq!(load(&json, Format::Json).expect("its own JSON loads").policy, policy);
        // TOML has no whole numbers beyond 63 bits, so writing it may fail; reading it back may not.
        if let Ok(toml) = toml::to_string(&policy) {
            assert_eq!(load(&toml, Format::Toml).expect("its own TOML loads").policy, policy);
        }
    }
});
