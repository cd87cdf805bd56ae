//! Arbitrary bytes as a path and a denied path, against a small tree full of links: validation never
//! panics, and what it accepts is below the root and not denied.
#![no_main]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use lazaret_policy::{
    path::{normalize, validate},
    schema::FilesystemPolicy,
};
use libfuzzer_sys::fuzz_target;

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let base = std::env::temp_dir().join(format!("lazaret-fuzz-path-{}", std::process::id()));
    let root = base.join("r");
    fs::create_dir_all(root.join("a/b")).expect("the tree can be made");
    fs::create_dir_all(base.join("o")).expect("the tree can be made");
    fs::write(root.join("a/f"), "").expect("the tree can be made");
    for (target, link) in [("../o", "l"), ("a/b", "i"), ("/", "s"), ("x", "x"), ("none", "d")] {
        symlink(target, root.join(link)).expect("the tree can be made");
    }
    root.canonicalize().expect("the tree exists")
});

fuzz_target!(|data: &[u8]| {
    // The first newline separates the path from the denied path.
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let path = Path::new(OsStr::from_bytes(parts.next().unwrap_or_default()));
    let denied = parts.next().map(|bytes| ROOT.join(OsStr::from_bytes(bytes)));
    if let Ok(once) = normalize(path) {
        assert_eq!(normalize(&once).expect("the normal form is normal"), once);
    }
    let policy = FilesystemPolicy {
        root_path: Some(ROOT.clone()),
        denied_paths: denied.into_iter().collect(),
        ..FilesystemPolicy::default()
    };
    for path in [path.to_owned(), ROOT.join(path)] {
        if let Ok(valid) = validate(&path, &policy) {
            assert!(valid.canonical.starts_with(&*ROOT));
            assert!(!policy.denied_paths.iter().any(|rule| valid.canonical.starts_with(rule)));
        }
    }
});
