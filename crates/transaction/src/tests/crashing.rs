//! Kills a process at every single step of keeping, committing and recovering, and looks at what recovery
//! makes of it: the tree is exactly as before or exactly as after, and no name of ours is left.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitStatus;

use super::bed::{Bed, Snapshot, chmod, everything, skip};
use crate::failpoint::VARIABLE;
use crate::{CommitOptions, Recovery, State, Store};

const WHERE: &str = "LAZARET_TEST_CRASH_BED";
const STORE: &str = "LAZARET_TEST_CRASH_STORE";
const WHAT: &str = "LAZARET_TEST_CRASH_WHAT";

fn fill(bed: &Bed) {
    bed.host("changed", "old");
    bed.host("gone", "x");
    bed.host("dir/gone/deep", "x");
    bed.host("was-file", "x");
    bed.host("was-dir/inside", "x");
    bed.host("to-link", "x");
    chmod(&bed.host("mode", "x"), 0o644);
    chmod(&bed.root.join("dir"), 0o700);
    symlink("old", bed.root.join("link")).unwrap();
    fs::hard_link(bed.root.join("changed"), bed.root.join("twin")).unwrap();
    bed.write("changed", "new");
    bed.write("twin", "new twin");
    bed.whiteout("gone");
    bed.whiteout("dir/gone");
    chmod(&bed.upper.join("dir"), 0o711);
    bed.write("was-file/now", "x");
    bed.write("was-dir", "file");
    bed.link("mode", "to-link");
    chmod(&bed.write("mode", "x"), 0o755);
    bed.link("new", "link");
    bed.fifo("fifo");
    bed.write("new/dir/file", "x");
    fs::hard_link(bed.upper.join("new/dir/file"), bed.upper.join("new/other")).unwrap();
    chmod(&bed.upper.join("new/dir"), 0o500);
    bed.write("Makefile", "x");
}

/// Runs in a process of its own; the step at which it dies is counted by `failpoint`.
#[test]
#[ignore = "is started by the tests below"]
fn child() {
    let variable = |name: &str| std::env::var_os(name).unwrap();
    let bed = Bed::at(Path::new(&variable(WHERE)), Path::new(&variable(STORE)));
    let store = Store::open(&bed.store).unwrap();
    match variable(WHAT).to_str().unwrap() {
        "keep" => drop(bed.keep()),
        "commit" => drop(store.list()[0].commit(everything()).unwrap()),
        "commit-some" => drop(store.list()[0].commit(CommitOptions::default()).unwrap()),
        "discard" => store.list().remove(0).discard().unwrap(),
        "recover" => drop(store.recover()),
        other => panic!("{other}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a process that dies must be another one")]
fn run(bed: &Bed, what: &str, step: u64) -> ExitStatus {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crashing::child", "--ignored", "--quiet", "--test-threads=1"])
        .env(WHERE, &bed.path)
        .env(STORE, &bed.store)
        .env(WHAT, what)
        .env(VARIABLE, step.to_string())
        .output()
        .unwrap()
        .status
}

fn assert_clean(snapshot: &Snapshot, step: u64) {
    let ours = |path: &Path| path.to_string_lossy().contains(".lazaret-");
    assert!(!snapshot.keys().any(|path| ours(path)), "step {step}: {snapshot:?}");
}

/// Tries every step of `what` on a fresh bed, until one run ends by itself; says how many steps there were.
fn every_step(make: impl Fn() -> Bed, what: &str, judge: impl Fn(&Bed, u64, bool)) -> u64 {
    for step in 1.. {
        let bed = make();
        let status = run(&bed, what, step);
        let died = !status.success();
        assert_eq!(died, std::os::unix::process::ExitStatusExt::signal(&status) == Some(9), "{status:?}");
        judge(&bed, step, died);
        if !died {
            return step;
        }
    }
    unreachable!()
}

fn commit_everywhere(make: impl Fn() -> Bed) -> u64 {
    let before = make().snapshot();
    let after = {
        let bed = make();
        bed.commit().unwrap();
        bed.snapshot()
    };
    let make_kept = || {
        let bed = make();
        bed.keep();
        bed
    };
    every_step(make_kept, "commit", |bed, step, _| {
        let store = bed.open_store();
        let committing = store.list().first().is_some_and(|kept| kept.state() == State::Committing);
        let recovered = store.recover();
        for one in recovered {
            match one.recovery {
                Recovery::Undone | Recovery::Removed => {}
                Recovery::Finished(done) => assert_eq!(done.skipped, [], "step {step}"),
                Recovery::Failed(error) => panic!("step {step}: {error}"),
            }
        }
        let now = bed.snapshot();
        assert_clean(&now, step);
        match store.list().first() {
            Some(kept) => {
                assert_eq!((kept.state(), committing), (State::Open, false));
                assert_eq!(now, before, "step {step}");
                // And it can still be committed.
                kept.commit(everything()).unwrap();
                assert_eq!(bed.snapshot(), after, "step {step}");
            }
            None => assert_eq!(now, after, "step {step}"),
        }
        assert!(bed.is_store_empty(), "step {step}");
    })
}

#[test]
fn a_commit_that_dies_anywhere_is_undone_or_finished() {
    let steps = commit_everywhere(|| {
        let bed = Bed::new();
        fill(&bed);
        bed
    });
    assert!(steps > 30, "{steps}");
}

#[test]
fn a_commit_across_filesystems_that_dies_anywhere_is_undone_or_finished() {
    let memory = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::dev(&meta)).ok();
    if device(memory).is_none() || device(memory) == device(&std::env::temp_dir()) {
        return skip("no second filesystem");
    }
    let steps = commit_everywhere(|| {
        let bed = Bed::with_store(memory);
        fill(&bed);
        bed
    });
    assert!(steps > 30, "{steps}");
}

#[test]
fn a_commit_of_a_part_that_dies_anywhere_keeps_the_rest() {
    let make = || {
        let bed = Bed::new();
        fill(&bed);
        bed.keep();
        bed
    };
    let untouched = make().snapshot();
    every_step(make, "commit-some", |bed, step, _| {
        let store = bed.open_store();
        store.recover();
        let now = bed.snapshot();
        assert_clean(&now, step);
        assert!(!bed.root.join("Makefile").exists());
        let kept = store.list().remove(0);
        assert_eq!(kept.changes().len() == 1, now != untouched, "step {step}");
        kept.commit(everything()).unwrap();
        assert!(bed.root.join("Makefile").exists());
        assert_eq!(fs::read_to_string(bed.root.join("changed")).unwrap(), "new");
        assert!(bed.is_store_empty());
    });
}

#[test]
fn a_recovery_that_dies_anywhere_is_finished_by_the_next() {
    let make = || {
        let bed = Bed::new();
        fill(&bed);
        bed
    };
    let after = {
        let bed = make();
        bed.commit().unwrap();
        bed.snapshot()
    };
    let before = make().snapshot();
    // Steps in the staging, early and in the middle of applying.
    for first in [16, 20, 26, 32, 38] {
        let dead = || {
            let bed = make();
            bed.keep();
            run(&bed, "commit", first);
            bed
        };
        every_step(dead, "recover", |bed, step, _| {
            bed.open_store().recover();
            let now = bed.snapshot();
            assert_clean(&now, step);
            let open = !bed.open_store().list().is_empty();
            assert_eq!(&now, if open { &before } else { &after }, "{first}, {step}");
        });
    }
}

#[test]
fn a_keep_that_dies_anywhere_leaves_a_whole_transaction_or_none() {
    let make = || {
        let bed = Bed::new();
        fill(&bed);
        bed
    };
    let whole = make().keep().changes().len();
    every_step(make, "keep", |bed, step, _| {
        let store = bed.open_store();
        store.recover();
        let list = store.list();
        assert!(list.iter().all(|kept| kept.changes().len() == whole), "step {step}");
        let directories =
            fs::read_dir(&bed.store).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "lock");
        assert_eq!(directories.count(), list.len(), "step {step}");
    });
}

#[test]
fn a_discard_that_dies_anywhere_leaves_the_transaction_or_nothing() {
    let make = || {
        let bed = Bed::new();
        fill(&bed);
        bed.keep();
        bed
    };
    every_step(make, "discard", |bed, step, died| {
        let store = bed.open_store();
        store.recover();
        match store.list().len() {
            0 => assert!(bed.is_store_empty(), "step {step}"),
            1 => assert!(died),
            _ => unreachable!(),
        }
    });
}
