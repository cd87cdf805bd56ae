//! Every way of changing a finished log is noticed, at the line where it was done.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use common::{Dir, broken, event, filled, lines};
use lazaret_audit::{Log, Reason, VerifyError, verify};

fn edited(n: u64, edit: impl FnOnce(&mut Vec<Vec<u8>>)) -> (Dir, std::path::PathBuf) {
    let dir = Dir::new();
    let path = filled(&dir, n);
    let mut all = lines(&path);
    edit(&mut all);
    std::fs::write(&path, all.concat()).unwrap();
    (dir, path)
}

#[test]
fn an_untouched_log_verifies() {
    let dir = Dir::new();
    let path = filled(&dir, 6);
    let verified = verify(&path).unwrap();
    let events = common::events(&path);
    assert_eq!((verified.lines, verified.last_seq), (6, 6));
    assert_eq!(verified.last_hash, events[5].hash);
    assert_eq!(verified.first_time.as_ref(), Some(&events[0].time));
    assert_eq!(verified.last_time.as_ref(), Some(&events[5].time));
    assert_eq!(verified.notes, [""; 0]);
    assert_eq!(events[0].prev, "0".repeat(64));
    for pair in events.windows(2) {
        assert_eq!(pair[1].prev, pair[0].hash);
    }
}

#[test]
fn every_change_of_one_byte_is_found_in_its_line() {
    let dir = Dir::new();
    let path = filled(&dir, 6);
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        let line = 1 + good[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        for flip in [0x01, 0x20, 0x80, good[at] ^ b'\n', good[at] ^ b'0'] {
            if flip == 0 {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= flip;
            std::fs::write(&path, bad).unwrap();
            let (found, reason) = broken(&path);
            assert_eq!(found, line, "byte {at} of line {line} ^ {flip:#x}: {reason}");
        }
    }
}

#[test]
fn a_byte_added_or_removed_anywhere_is_found_in_its_line() {
    let dir = Dir::new();
    let path = filled(&dir, 4);
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        let line = 1 + good[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut fewer = good.clone();
        fewer.remove(at);
        std::fs::write(&path, fewer).unwrap();
        assert_eq!(broken(&path).0, line, "without byte {at}");
        for added in [b' ', b'\n', b'x'] {
            let mut more = good.clone();
            more.insert(at, added);
            std::fs::write(&path, more).unwrap();
            // A newline before a newline is an empty line of its own.
            let line = line + u64::from(added == b'\n' && good[at] == b'\n');
            assert_eq!(broken(&path).0, line, "{added:?} before byte {at}");
        }
    }
}

#[test]
fn a_line_deleted_from_the_middle_is_missed() {
    for at in 0..5 {
        let (_dir, path) = edited(6, |all| drop(all.remove(at)));
        assert_eq!(broken(&path), (at as u64 + 1, Reason::LinesMissing(1)));
    }
    let (_dir, path) = edited(6, |all| drop(all.drain(1..4)));
    assert_eq!(broken(&path), (2, Reason::LinesMissing(3)));
    assert_eq!(verify(&path).unwrap_err().to_string(), "line 2: 3 lines are missing before it");
}

#[test]
fn lines_in_another_order_are_named_as_such() {
    let (_dir, path) = edited(6, |all| all.swap(2, 3));
    assert_eq!(broken(&path), (3, Reason::OutOfOrder { expected: 3, found: 4 }));
    let (_dir, path) = edited(6, |all| all[1..].rotate_left(1));
    assert_eq!(broken(&path), (2, Reason::OutOfOrder { expected: 2, found: 3 }));
    let (_dir, path) = edited(6, |all| all[1..].rotate_right(1));
    assert_eq!(broken(&path), (2, Reason::OutOfOrder { expected: 2, found: 6 }));
}

#[test]
fn a_line_that_stands_twice_is_out_of_order() {
    for at in 0..6 {
        let (_dir, path) = edited(6, |all| all.insert(at + 1, all[at].clone()));
        let found = at as u64 + 1;
        assert_eq!(broken(&path), (found + 1, Reason::OutOfOrder { expected: found + 1, found }));
    }
}

#[test]
fn a_line_from_another_log_does_not_fit_in() {
    let other = Dir::new();
    let foreign = lines(&filled(&other, 6));
    for at in 1..6 {
        let (_dir, path) = edited(6, |all| all[at].clone_from(&foreign[at]));
        assert_eq!(broken(&path), (at as u64 + 1, Reason::Unlinked));
        let (_dir, path) = edited(6, |all| all.insert(at, foreign[at].clone()));
        assert_eq!(broken(&path), (at as u64 + 1, Reason::Unlinked));
    }
    let (_dir, path) = edited(6, |all| all.insert(3, b"{\"seq\":4}\n".to_vec()));
    assert_eq!(broken(&path), (4, Reason::NotALogLine));
    let (_dir, path) = edited(6, |all| all.insert(3, vec![b'x'; 1 << 20]));
    assert_eq!(broken(&path).0, 4);
}

#[test]
fn a_whole_log_put_in_place_of_another_is_not_the_recorded_one() {
    let other = Dir::new();
    let foreign = lines(&filled(&other, 6));
    let (_dir, path) = edited(6, |all| *all = foreign);
    assert_eq!(broken(&path), (6, Reason::NotTheRecorded));
}

#[test]
fn a_log_cut_at_any_line_is_shorter_than_its_head_says() {
    for keep in 0..6 {
        let (_dir, path) = edited(6, |all| all.truncate(keep));
        assert_eq!(broken(&path), (keep as u64 + 1, Reason::EndsBefore(6)));
    }
}

#[test]
fn a_log_cut_within_a_line_is_torn() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    let good = std::fs::read(&path).unwrap();
    let last = good.len() - lines(&path)[2].len();
    for end in last + 1..good.len() {
        std::fs::write(&path, &good[..end]).unwrap();
        assert_eq!(broken(&path), (3, Reason::Torn));
    }
}

#[test]
fn without_a_head_file_a_cut_log_verifies_with_a_note() {
    let (dir, path) = edited(6, |all| all.truncate(4));
    std::fs::remove_file(dir.path().join("audit.log.head")).unwrap();
    let verified = verify(&path).unwrap();
    assert_eq!(verified.lines, 4);
    assert!(verified.notes[0].contains("no head file"));
}

#[test]
fn a_head_older_than_the_log_is_fine_and_a_damaged_one_is_not() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    let head = dir.path().join("audit.log.head");
    let old = std::fs::read(&head).unwrap();
    filled(&dir, 3);
    std::fs::write(&head, &old).unwrap();
    assert_eq!(verify(&path).unwrap().lines, 6);
    std::fs::write(&head, &old[1..]).unwrap();
    assert!(matches!(verify(&path), Err(VerifyError::HeadDamaged { .. })));
}

#[test]
fn a_cut_log_that_is_continued_says_that_it_was_cut() {
    let (_dir, path) = edited(6, |all| all.truncate(4));
    Log::open(&path).unwrap().append(&event(7)).unwrap();
    let events = common::events(&path);
    assert_eq!(events.len(), 6);
    assert_eq!(events[4].details["found"], "lines missing at the end");
    assert_eq!(events[4].details["recordedLine"], 6);
    assert_eq!(verify(&path).unwrap().lines, 6);
}

#[test]
fn a_log_with_a_damaged_last_line_is_not_extended() {
    for damage in [&b"garbage\n"[..], b"\n", b"{}\n"] {
        let (_dir, path) = edited(2, |all| all.push(damage.to_vec()));
        let before = std::fs::read(&path).unwrap();
        let error = Log::open(&path).unwrap().append(&event(3)).unwrap_err();
        assert!(error.to_string().contains("not extended"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    let (_dir, path) = edited(2, |all| all[1][60] ^= 1);
    let error = Log::open(&path).unwrap().append(&event(3)).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
}
