//! Arbitrary bytes as a git configuration file: reading never panics, and names come out in their normal form.
#![no_main]

use lazaret_gate::classify::git::config::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(entries) = parse(data) else { return };
    for entry in &entries {
        assert!(
            !entry.key.is_empty()
                && !entry.key.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace())
        );
        assert!(!entry.section.contains(|c: char| c.is_ascii_uppercase() || c == '.'));
        assert!(entry.value.as_ref().is_none_or(|value| !value.contains('\0')));
    }
    // A comment behind it changes nothing.
    let longer = [data, b"\n# comment\n"].concat();
    assert_eq!(parse(&longer).map(|entries| entries.len()), Ok(entries.len()));
});
