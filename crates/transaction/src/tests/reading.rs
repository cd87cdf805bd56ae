//! How a transaction is found and shown.

use std::fs;

use super::bed::{Bed, bytes, chmod};
use crate::{DiffOptions, Section, StoreError};

#[test]
fn the_diff_shows_lines_modes_links_and_sizes_in_their_sections() {
    let bed = Bed::new();
    bed.host("text", "one\ntwo\nthree\n");
    bed.host("binary", "a\0b");
    bed.host("gone", "bye\n");
    chmod(&bed.host("mode", "x"), 0o644);
    bed.host("contested", "x");
    bed.write("text", "one\n2\x1b[31m\nthree\n");
    bed.write("binary", "a\0bc");
    bed.whiteout("gone");
    chmod(&bed.write("mode", "x"), 0o755);
    bed.write("contested", "y");
    bed.write("Makefile", "all:\n");
    bed.link("/etc", "out");
    bed.link("text", "in");
    fs::write(bed.upper.join(bytes(b"odd\nname")), "x\n").unwrap();
    let transaction = bed.keep();
    bed.host("contested", "z");
    let text = transaction.diff(DiffOptions::default()).to_string();
    for expected in [
        "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\\x1b[31m\n three\n",
        "Binary file b/binary changed (3 bytes → 4 bytes)\n",
        "deleted file mode ",
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
        "old mode 0644\nnew mode 0755\n",
        "link to text\n",
        "diff --git \"a/odd\\nname\" \"b/odd\\nname\"\n",
        "acts on the next run:\ndiff --git a/Makefile b/Makefile\n",
        "changed on the host meanwhile:\ndiff --git a/contested b/contested\n",
        "never applied:\ndiff --git a/out b/out\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    let summary = transaction.summary(DiffOptions::default());
    let section = |name: &str| {
        summary.entries.iter().find(|entry| entry.change.path == bed.root.join(name)).unwrap().section
    };
    assert_eq!(section("text"), Section::Plain);
    assert_eq!(section("Makefile"), Section::Persistent);
    assert_eq!(section("contested"), Section::Conflict);
    assert_eq!(section("out"), Section::Refused);
    assert!(summary.to_string().contains("M "), "{summary}");
    assert!(summary.to_string().ends_with("4 lines added, 3 removed\n"), "{summary}");
    assert!(serde_json::to_string(&summary).unwrap().contains("\"section\":\"persistent\""));
}

#[test]
fn a_transaction_is_found_by_its_id_a_unique_start_or_its_directory() {
    let bed = Bed::new();
    bed.write("a", "x");
    let first = bed.keep();
    let second = bed.keep();
    let store = bed.open_store();
    assert_eq!(
        store.list().iter().map(crate::Transaction::id).collect::<Vec<_>>(),
        [second.id(), first.id()]
    );
    assert_eq!(store.find(&first.id().to_string()).unwrap().id(), first.id());
    let id = second.id().to_string();
    let unique = (1..=id.len()).find(|n| !first.id().to_string().starts_with(&id[..*n])).unwrap();
    assert_eq!(store.find(&id[..unique]).unwrap().id(), second.id());
    assert!(matches!(store.find(&id[..4]), Err(StoreError::Ambiguous { count: 2, .. })));
    for nothing in ["", "zzz", "../x", "."] {
        assert!(matches!(store.find(nothing), Err(StoreError::NotFound { .. })), "{nothing}");
    }
    assert_eq!(store.newest_for(&bed.root).unwrap().id(), second.id());
    assert!(store.newest_for(&bed.upper).is_none());
}

#[test]
fn a_broken_transaction_hides_no_other() {
    let bed = Bed::new();
    bed.write("a", "x");
    let (good, bad) = (bed.keep(), bed.keep());
    fs::write(bed.store.join(bad.id().to_string()).join("transaction.json"), "{").unwrap();
    fs::write(bed.store.join("stray"), "x").unwrap();
    let store = bed.open_store();
    assert_eq!(store.list().iter().map(crate::Transaction::id).collect::<Vec<_>>(), [good.id()]);
    assert!(matches!(store.find(&bad.id().to_string()), Err(StoreError::Damaged { .. })));
    assert!(store.recover().is_empty());
}

#[test]
fn the_store_is_for_its_owner_alone() {
    use std::os::unix::fs::MetadataExt;
    let bed = Bed::new();
    fs::create_dir_all(&bed.store).unwrap();
    chmod(&bed.store, 0o755);
    bed.open_store();
    assert_eq!(fs::metadata(&bed.store).unwrap().mode() & 0o777, 0o700);
}
