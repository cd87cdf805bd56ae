//! Arbitrary patterns and paths: no pattern takes long, what is covered stays covered further down, and what has
//! no wildcard covers what it names.
#![no_main]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use lazaret_sandbox::Pattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&[u8], &[u8])| {
    let (pattern, path) = data;
    let (pattern, path) = (Path::new(OsStr::from_bytes(pattern)), Path::new(OsStr::from_bytes(path)));
    let Ok(parsed) = Pattern::parse(pattern) else { return };
    if let Some(matched) = parsed.covers(path) {
        assert!(parsed.covers(&path.join("below")).is_some());
        assert_eq!(parsed.covers(&matched), Some(matched));
    }
    if path.is_absolute() {
        assert!(Pattern::literal(path).covers(path).is_some());
    }
});
