//! What a commit does to the host, and what it refuses to do.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::process::CommandExt;

use super::bed::{Bed, chmod, everything, skip};
use crate::{
    CommitError, CommitOptions, Conflict, Contested, Persistent, Remainder, State, Store, StoreError,
    Transaction, Tree, TreeKind, collect,
};

fn conflicts(result: Result<crate::Committed, CommitError>) -> Vec<Conflict> {
    match result {
        Err(CommitError::Conflicts { conflicts }) => {
            conflicts.into_iter().map(|clash| clash.conflict).collect()
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// A little of everything.
fn mixed(bed: &Bed) {
    bed.host("changed", "old");
    bed.host("gone", "x");
    bed.host("dir/gone/deep", "x");
    bed.host("was-file", "x");
    bed.host("was-dir/inside", "x");
    chmod(&bed.host("mode", "x"), 0o644);
    symlink("old", bed.root.join("link")).unwrap();
    bed.write("changed", "new");
    bed.whiteout("gone");
    bed.whiteout("dir/gone");
    bed.write("was-file/now", "x");
    bed.write("was-dir", "file");
    chmod(&bed.write("mode", "x"), 0o755);
    bed.link("new", "link");
    bed.fifo("fifo");
    chmod(&bed.write("new/dir/file", "x"), 0o640);
    chmod(&bed.upper.join("new/dir"), 0o555);
}

#[test]
fn everything_arrives_and_nothing_is_left_behind() {
    let bed = Bed::new();
    mixed(&bed);
    let committed = bed.commit().unwrap();
    assert_eq!((committed.skipped.len(), committed.remainder), (0, Remainder::None));
    let after = bed.snapshot();
    let names: Vec<_> = after.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "changed",
            "dir",
            "fifo",
            "link",
            "mode",
            "new",
            "new/dir",
            "new/dir/file",
            "was-dir",
            "was-file",
            "was-file/now"
        ]
    );
    assert_eq!(after[std::path::Path::new("changed")].1, b"new");
    assert_eq!(after[std::path::Path::new("mode")].0, 0o755);
    assert_eq!(after[std::path::Path::new("new/dir")].0, 0o555);
    assert_eq!(after[std::path::Path::new("new/dir/file")].0, 0o640);
    assert_eq!(after[std::path::Path::new("link")].1, b"new");
    assert!(fs::symlink_metadata(bed.root.join("fifo")).unwrap().file_type().is_fifo());
    assert!(bed.is_store_empty());
}

#[test]
fn every_kind_of_conflict_stops_everything() {
    type Act = fn(&Bed);
    let cases: [(&str, Act, Conflict); 7] = [
        ("changed", |bed| drop(bed.host("changed", "other")), Conflict::Changed),
        ("gone on the host", |bed| fs::remove_file(bed.root.join("changed")).unwrap(), Conflict::Gone),
        ("appeared", |bed| drop(bed.host("fifo", "x")), Conflict::Appeared),
        (
            "replaced",
            |bed| {
                fs::rename(bed.root.join("changed"), bed.root.join("aside")).unwrap();
                bed.host("changed", "old");
            },
            Conflict::Replaced,
        ),
        ("touched before deletion", |bed| drop(bed.host("gone", "edited")), Conflict::Changed),
        ("mode", |bed| chmod(&bed.root.join("mode"), 0o600), Conflict::Changed),
        (
            "parent",
            |bed| {
                fs::rename(bed.root.join("dir"), bed.root.join("moved")).unwrap();
                symlink("moved", bed.root.join("dir")).unwrap();
            },
            Conflict::Parent,
        ),
    ];
    for (name, act, expected) in cases {
        let bed = Bed::new();
        mixed(&bed);
        let transaction = bed.keep();
        act(&bed);
        let before = bed.snapshot();
        let found = conflicts(transaction.commit(everything()));
        assert!(found.contains(&expected), "{name}: {found:?}");
        assert_eq!(bed.snapshot(), before, "{name}");
        assert_eq!(bed.open_store().list()[0].state(), State::Open);
    }
}

#[test]
fn what_appeared_in_a_deleted_directory_is_never_deleted() {
    let bed = Bed::new();
    bed.host("d/old", "x");
    bed.whiteout("d");
    bed.write("new", "x");
    let transaction = bed.keep();
    bed.host("d/appeared", "precious");
    assert_eq!(conflicts(transaction.commit(everything())), [Conflict::NotEmpty]);
    assert!(bed.root.join("d/old").exists() && !bed.root.join("new").exists());
    let options = CommitOptions { contested: Contested::LeaveOut, ..everything() };
    let committed = transaction.commit(options).unwrap();
    assert_eq!((committed.skipped.len(), committed.applied), (1, 2));
    assert_eq!(fs::read_to_string(bed.root.join("d/appeared")).unwrap(), "precious");
    assert!(bed.root.join("new").exists() && !bed.root.join("d/old").exists());
    // Once it is out of the way, the rest can follow.
    fs::remove_file(bed.root.join("d/appeared")).unwrap();
    bed.open_store().list().remove(0).commit(everything()).unwrap();
    assert!(!bed.root.join("d").exists() && bed.is_store_empty());
}

#[test]
fn contested_changes_can_be_left_out() {
    let bed = Bed::new();
    mixed(&bed);
    let transaction = bed.keep();
    bed.host("changed", "other");
    bed.host("was-dir/appeared", "x");
    let options = CommitOptions { contested: Contested::LeaveOut, ..everything() };
    let committed = transaction.commit(options).unwrap();
    assert_eq!(committed.remainder, Remainder::Open);
    assert_eq!(fs::read_to_string(bed.root.join("changed")).unwrap(), "other");
    assert!(bed.root.join("was-dir/appeared").exists() && bed.root.join("was-dir/inside").exists());
    assert!(bed.root.join("new/dir/file").exists());
    assert_eq!(bed.open_store().list()[0].changes().len(), 3);
}

#[test]
fn what_acts_on_the_next_run_waits_until_it_is_asked_for() {
    let bed = Bed::new();
    bed.write("src/main.rs", "x");
    bed.write(".git/hooks/pre-commit", "x");
    bed.write("Makefile", "x");
    bed.link("/etc", "out");
    let committed = bed.keep().commit(CommitOptions::default()).unwrap();
    assert_eq!((committed.left_out, committed.refused, committed.remainder), (2, 1, Remainder::Open));
    assert!(bed.root.join("src/main.rs").exists() && !bed.root.join("Makefile").exists());
    let again = bed.open_store().newest_for(&bed.root).unwrap();
    assert_eq!(again.changes().len(), 3);
    let committed =
        again.commit(CommitOptions { persistent: Persistent::Include, ..CommitOptions::default() }).unwrap();
    assert_eq!((committed.applied, committed.remainder), (2, Remainder::None));
    assert!(bed.root.join(".git/hooks/pre-commit").exists() && bed.root.join("Makefile").exists());
    assert!(fs::symlink_metadata(bed.root.join("out")).is_err());
    assert!(bed.is_store_empty());
}

#[test]
fn a_directory_stays_while_something_in_it_waits() {
    let bed = Bed::new();
    bed.host("d/Makefile", "x");
    bed.host("d/other", "x");
    bed.host("e/Makefile", "x");
    bed.whiteout("d");
    bed.write("e/Makefile/now-a-directory", "x");
    bed.whiteout("e/Makefile.old");
    let transaction = bed.keep();
    let committed = transaction.commit(CommitOptions::default()).unwrap();
    assert_eq!((committed.skipped.len(), committed.left_out), (0, 4));
    assert!(bed.root.join("d/Makefile").exists() && !bed.root.join("d/other").exists());
    assert!(bed.root.join("e/Makefile").is_file());
    bed.open_store().newest_for(&bed.root).unwrap().commit(everything()).unwrap();
    assert!(!bed.root.join("d").exists() && bed.root.join("e/Makefile").is_dir());
}

#[test]
fn hard_links_stay_hard_links() {
    let bed = Bed::new();
    bed.write("a", "x");
    fs::hard_link(bed.upper.join("a"), bed.upper.join("b")).unwrap();
    bed.commit().unwrap();
    let inode = |name| fs::metadata(bed.root.join(name)).unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
}

#[test]
fn two_names_of_one_host_file_can_both_be_replaced() {
    let bed = Bed::new();
    bed.host("a", "old");
    fs::hard_link(bed.root.join("a"), bed.root.join("b")).unwrap();
    bed.write("a", "new a");
    bed.write("b", "new b");
    assert_eq!(bed.commit().unwrap().skipped, []);
    assert_eq!(fs::read_to_string(bed.root.join("b")).unwrap(), "new b");
}

#[test]
fn a_sparse_file_of_a_terabyte_stays_sparse() {
    let bed = Bed::new();
    let file = fs::File::create(bed.upper.join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"middle", 1 << 39).unwrap();
    let start = std::time::Instant::now();
    bed.commit().unwrap();
    assert!(start.elapsed().as_secs() < 5);
    let meta = fs::metadata(bed.root.join("huge")).unwrap();
    assert_eq!(meta.len(), 1 << 40);
    assert!(meta.blocks() < 1000);
    let mut read = [0; 6];
    let file = fs::File::open(bed.root.join("huge")).unwrap();
    std::os::unix::fs::FileExt::read_at(&file, &mut read, 1 << 39).unwrap();
    assert_eq!(&read, b"middle");
    // The same on both sides is no change, and is found out without reading holes.
    assert!(bed.collect().is_empty());
}

#[test]
fn times_and_user_attributes_come_along_but_not_those_of_the_overlay() {
    let bed = Bed::new();
    let path = bed.write("a", "x");
    for name in ["user.note", "user.overlay.origin"] {
        rustix::fs::setxattr(&path, name, b"v", rustix::fs::XattrFlags::empty()).unwrap();
    }
    let time = fs::metadata(&path).unwrap().modified().unwrap() - std::time::Duration::from_secs(1000);
    fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    bed.commit().unwrap();
    let host = bed.root.join("a");
    assert_eq!(fs::metadata(&host).unwrap().modified().unwrap(), time);
    let mut value = [0_u8; 8];
    assert_eq!(rustix::fs::getxattr(&host, "user.note", &mut value[..]), Ok(1));
    assert!(rustix::fs::getxattr(&host, "user.overlay.origin", &mut value[..]).is_err());
}

#[test]
fn new_files_go_into_a_directory_that_the_sandbox_made_writable() {
    let bed = Bed::new();
    bed.host("d/x", "x");
    chmod(&bed.root.join("d"), 0o555);
    bed.write("d/new", "x");
    chmod(&bed.upper.join("d"), 0o755);
    assert_eq!(bed.commit().unwrap().skipped, []);
    assert!(bed.root.join("d/new").exists());
}

#[test]
fn of_two_commits_at_once_one_happens() {
    let bed = Bed::new();
    for number in 0..200 {
        bed.write(&format!("f{number}"), "x");
    }
    let id = bed.keep().id().to_string();
    let run =
        |store: Store| -> Result<crate::Committed, CommitError> { store.find(&id)?.commit(everything()) };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(bed.open_store()));
        (run(bed.open_store()), other.join().unwrap())
    });
    assert_eq!([&one, &other].iter().filter(|result| result.is_ok()).count(), 1, "{one:?} {other:?}");
    let refused = |error: &CommitError| {
        matches!(error, CommitError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. }))
    };
    assert!([one, other].iter().all(|result| result.as_ref().err().is_none_or(refused)));
    assert_eq!(bed.snapshot().len(), 200);
}

#[test]
fn a_transaction_that_is_in_use_is_neither_recovered_nor_discarded() {
    let bed = Bed::new();
    bed.write("a", "x");
    let transaction = bed.keep();
    let held = bed.open_store().hold(transaction.id()).unwrap();
    assert!(bed.open_store().recover().is_empty());
    assert!(matches!(transaction.discard(), Err(StoreError::Busy { .. })));
    drop(held);
    bed.open_store().list().into_iter().for_each(|transaction: Transaction| transaction.discard().unwrap());
    assert!(bed.is_store_empty() && !bed.root.join("a").exists());
}

#[test]
fn what_root_applies_belongs_to_the_user_or_to_whom_it_belonged() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    let bed = Bed::new();
    std::os::unix::fs::chown(bed.host("theirs", "old"), Some(1234), Some(1235)).unwrap();
    bed.write("theirs", "new");
    bed.write("new/file", "x");
    bed.link("new", "link");
    bed.fifo("fifo");
    let upper = fs::File::open(&bed.upper).unwrap().into();
    let trees =
        [Tree { root: bed.root.clone(), upper, kind: TreeKind::Directory, owner: Some((54321, 54322)) }];
    let changes = collect(&trees, std::time::SystemTime::now()).unwrap();
    bed.open_store().keep(bed.origin(), &trees, changes).unwrap().commit(everything()).unwrap();
    let owner = |name| {
        let meta = fs::symlink_metadata(bed.root.join(name)).unwrap();
        (meta.uid(), meta.gid())
    };
    assert_eq!(owner("theirs"), (1234, 1235));
    for name in ["new", "new/file", "link", "fifo"] {
        assert_eq!(owner(name), (54321, 54322), "{name}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the tests are run again as another user")]
fn everything_holds_for_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bed = Bed::new();
    chmod(&bed.path, 0o755);
    let program = bed.path.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chmod(&program, 0o755);
    let output = std::process::Command::new(&program)
        .args(["tests::", "--skip", "everything_holds_for_an_ordinary_user_too"])
        .current_dir("/")
        .env_remove("LAZARET_MUST_ENFORCE")
        .uid(54321)
        .gid(54321)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("running 0 tests"));
}
