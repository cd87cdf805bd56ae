//! Rotation: one chain over many files, whoever writes and whoever is killed; what verification says when a
//! file is changed, swapped or gone.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{Dir, again, event, events, filled, inherited, lines};
use lazaret_audit::{
    AuditError, Event, EventKind, Follow, Log, Reason, Rotated, Rotation, VerifyError, verify,
};

fn small() -> Rotation {
    Rotation { at: NonZeroU64::new(2000), keep: None }
}

fn segments(log: &Path) -> Vec<PathBuf> {
    lazaret_audit::files_of(log).into_iter().skip(2).collect()
}

fn everything(log: &Path) -> Vec<Event> {
    Follow::open(log).unwrap().collect::<Result<_, _>>().unwrap()
}

/// A log of several files, each with `LOG_ROTATED` at its beginning but the first.
fn rotated(dir: &Dir, n: u64) -> PathBuf {
    let log = Log::open(&dir.log()).unwrap().rotating(small());
    (1..=n).for_each(|n| drop(log.append(&event(n)).unwrap()));
    assert!(segments(&dir.log()).len() > 3);
    dir.log()
}

fn broken(log: &Path) -> (PathBuf, u64, Reason) {
    match verify(log) {
        Err(VerifyError::Broken { file, line, reason }) => (file, line, reason),
        other => unreachable!("expected a broken log, got {other:?}"),
    }
}

#[test]
fn a_large_log_goes_on_in_a_new_file_with_the_same_chain() {
    let dir = Dir::new();
    let path = rotated(&dir, 40);
    let all = everything(&path);
    assert!(all.iter().map(|event| event.seq).eq(1..=all.len() as u64));
    assert_eq!(all.iter().filter(|event| event.event == EventKind::SyscallBlocked).count(), 40);
    let files = segments(&path);
    let verified = verify(&path).unwrap();
    assert_eq!((verified.lines, verified.first_seq), (all.len() as u64, 1));
    assert_eq!(verified.files, files.len() as u64 + 1);
    assert_eq!(verified.notes, [""; 0]);
    for (file, next) in files.iter().zip(files.iter().skip(1).chain([&path])) {
        let (old, new) = (events(file), events(next));
        let name = format!("audit.log.{:012}", old[0].seq);
        assert_eq!(file.file_name().unwrap(), name.as_str());
        assert_eq!(new[0].event, EventKind::LogRotated);
        assert_eq!(new[0].prev, old.last().unwrap().hash);
        assert_eq!(new[0].details["previous"], name);
        assert_eq!(new[0].details["previousLast"], old.last().unwrap().seq);
        assert!(std::fs::metadata(file).unwrap().len() >= 2000);
    }
}

#[test]
fn without_a_size_nothing_is_set_aside() {
    let dir = Dir::new();
    let path = filled(&dir, 40);
    assert!(segments(&path).is_empty());
    assert_eq!(Rotation::default().at.unwrap().get(), 64 << 20);
}

#[test]
fn rotation_by_hand_sets_aside_whatever_there_is() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    assert_eq!(log.rotate().unwrap(), Rotated::NothingToDo);
    log.append(&event(1)).unwrap();
    let first = dir.path().join("audit.log.000000000001");
    assert_eq!(log.rotate().unwrap(), Rotated::To(first.clone()));
    assert_eq!(events(&first).len(), 1);
    // The new file says at once where it goes on from, and there is nothing more to set aside.
    assert_eq!(events(&dir.log())[0].event, EventKind::LogRotated);
    assert_eq!(log.rotate().unwrap(), Rotated::NothingToDo);
    log.append(&event(2)).unwrap();
    assert_eq!(log.rotate().unwrap(), Rotated::To(dir.path().join("audit.log.000000000002")));
    assert_eq!(verify(&dir.log()).unwrap().last_seq, 4);
}

#[test]
fn whoever_has_the_old_file_open_goes_on_in_the_new_one() {
    let dir = Dir::new();
    let held = Log::open(&dir.log()).unwrap();
    held.append(&event(1)).unwrap();
    let other = Log::open(&dir.log()).unwrap();
    for n in 0..5 {
        other.rotate().unwrap();
        assert_eq!(held.append(&event(n)).unwrap().seq, 3 + 2 * n);
    }
    assert_eq!(segments(&dir.log()).len(), 5);
    assert_eq!(verify(&dir.log()).unwrap().last_seq, 11);
}

#[test]
fn killed_between_setting_aside_and_the_new_file_the_next_one_goes_on() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    let held = Log::open(&path).unwrap();
    held.append(&event(4)).unwrap();
    std::fs::rename(&path, dir.path().join("audit.log.000000000001")).unwrap();
    assert_eq!(verify(&path).unwrap().lines, 4);
    assert_eq!(everything(&path).len(), 4);
    assert_eq!(held.append(&event(5)).unwrap().seq, 6);
    // And empty, as it is when the process was killed before its first line.
    held.rotate().unwrap();
    std::fs::write(&path, "").unwrap();
    let last = Log::open(&path).unwrap().append(&event(6)).unwrap();
    assert_eq!(last.seq, 9, "the line of the rotation, what was found, and the event");
    let found = &events(&path)[1];
    assert_eq!(
        (found.event, &found.details["found"]),
        (EventKind::SecurityAlert, &"lines missing at the end".into())
    );
}

#[test]
fn many_threads_and_processes_rotate_and_lose_nothing() {
    let name = "many_threads_and_processes_rotate_and_lose_nothing";
    if let Some(path) = inherited() {
        let log = Log::open(&path).unwrap().rotating(small());
        (0..200).for_each(|n| drop(log.append(&event(n)).unwrap()));
        return;
    }
    let dir = Dir::new();
    let path = filled(&dir, 1);
    let mut children: Vec<_> =
        (0..4).map(|_| again(name, &path).stdout(Stdio::null()).spawn().unwrap()).collect();
    let mut follow = Follow::open(&path).unwrap();
    let mut seen = 0;
    let mut read = |follow: &mut Follow| {
        for event in follow.by_ref() {
            seen += 1;
            assert_eq!(event.unwrap().seq, seen);
        }
        seen
    };
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        verify(&path).unwrap();
        read(&mut follow);
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let verified = verify(&path).unwrap();
    assert!(verified.files > 100, "{verified:?}");
    assert_eq!(read(&mut follow), verified.last_seq);
    let own = everything(&path).iter().filter(|event| event.event == EventKind::SyscallBlocked).count();
    assert_eq!(own, 801);
}

#[test]
fn killed_at_any_moment_the_chain_holds() {
    let name = "killed_at_any_moment_the_chain_holds";
    if let Some(path) = inherited() {
        let log = Log::open(&path).unwrap().rotating(Rotation { at: NonZeroU64::new(700), keep: None });
        loop {
            log.append(&event(0)).unwrap();
        }
    }
    let dir = Dir::new();
    let path = filled(&dir, 1);
    for round in 0..40u64 {
        let mut children: Vec<_> =
            (0..2).map(|_| again(name, &path).stdout(Stdio::null()).spawn().unwrap()).collect();
        std::thread::sleep(Duration::from_micros(15_000 + round * 777));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        match verify(&path) {
            // A line that was being written is mended by the next one.
            Ok(_) | Err(VerifyError::Broken { reason: Reason::Torn, .. }) => {}
            other => unreachable!("{other:?}"),
        }
    }
    Log::open(&path).unwrap().append(&event(1)).unwrap();
    let verified = verify(&path).unwrap();
    assert_eq!(verified.first_seq, 1);
    assert!(verified.files > 10, "{verified:?}");
    assert_eq!(everything(&path).len() as u64, verified.lines);
}

#[test]
fn a_file_changed_swapped_cut_or_gone_in_the_middle_is_found() {
    let dir = Dir::new();
    let path = rotated(&dir, 40);
    let files = segments(&path);
    let untouched: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let restore =
        || files.iter().zip(&untouched).for_each(|(file, bytes)| std::fs::write(file, bytes).unwrap());

    let mut changed = untouched[1].clone();
    changed[300] ^= 1;
    std::fs::write(&files[1], changed).unwrap();
    assert_eq!(broken(&path), (files[1].clone(), 1, Reason::ContentChanged));
    restore();

    std::fs::remove_file(&files[1]).unwrap();
    let (file, line, reason) = broken(&path);
    assert_eq!((file, line), (files[2].clone(), 1));
    assert!(matches!(reason, Reason::LinesMissing(_)), "{reason}");
    restore();

    std::fs::write(&files[1], &untouched[2]).unwrap();
    std::fs::write(&files[2], &untouched[1]).unwrap();
    let (file, line, reason) = broken(&path);
    assert_eq!((file, line), (files[1].clone(), 1));
    assert!(matches!(reason, Reason::OutOfOrder { .. }), "{reason}");
    restore();

    let mut cut = lines(&files[1]);
    cut.pop();
    std::fs::write(&files[1], cut.concat()).unwrap();
    assert_eq!(broken(&path), (files[2].clone(), 1, Reason::LinesMissing(1)));
    restore();

    std::fs::write(&files[1], &untouched[1][..untouched[1].len() - 9]).unwrap();
    assert_eq!(broken(&path).2, Reason::Torn);
    restore();

    // The newest one of all: the head file knows.
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(broken(&path).2, Reason::EndsBefore(_)));
}

#[test]
fn the_oldest_files_may_go_and_it_is_told() {
    let dir = Dir::new();
    let path = rotated(&dir, 40);
    let files = segments(&path);
    let second = events(&files[1])[0].seq;
    std::fs::remove_file(&files[0]).unwrap();
    let verified = verify(&path).unwrap();
    assert_eq!(verified.first_seq, second);
    assert!(verified.notes[0].contains(&format!("begins at line {second}")), "{:?}", verified.notes);
    assert!(verified.notes[0].contains("nothing in the log says"), "{:?}", verified.notes);
    // But not a part of the oldest that is left.
    let rest = lines(&files[1]);
    std::fs::write(&files[1], rest[1..].concat()).unwrap();
    assert_eq!(broken(&path), (files[1].clone(), 1, Reason::LinesMissing(second)));
    std::fs::write(&files[1], rest.concat()).unwrap();
    // All of them.
    for file in &files[1..] {
        std::fs::remove_file(file).unwrap();
    }
    assert!(verify(&path).unwrap().first_seq > second);
}

#[test]
fn retention_keeps_the_newest_and_says_so_in_the_log() {
    let dir = Dir::new();
    let rotation = Rotation { keep: NonZeroU32::new(2), ..small() };
    let log = Log::open(&dir.log()).unwrap().rotating(rotation);
    (0..60).for_each(|n| drop(log.append(&event(n)).unwrap()));
    let files = segments(&dir.log());
    assert_eq!(files.len(), 2, "{files:?}");
    let first = &events(&dir.log())[0];
    assert_eq!(first.details["oldestKept"], events(&files[0])[0].seq);
    assert_eq!(first.details["removed"], 1);
    let verified = verify(&dir.log()).unwrap();
    assert_eq!(verified.first_seq, events(&files[0])[0].seq);
    assert!(verified.notes[0].contains("retention removed them"), "{:?}", verified.notes);
    // One more than retention wanted.
    std::fs::remove_file(&files[0]).unwrap();
    assert!(verify(&dir.log()).unwrap().notes[0].contains("nothing in the log says"));
}

#[test]
fn a_log_that_cannot_be_set_aside_goes_on_and_says_so_once() {
    let dir = Dir::new();
    // The name is taken, by something that nobody of this program made.
    std::fs::create_dir(dir.path().join("audit.log.000000000001")).unwrap();
    let log = Log::open(&dir.log()).unwrap();
    assert!(matches!(log.append(&event(1)), Err(AuditError::NotRegular { .. })));
    std::fs::remove_dir(dir.path().join("audit.log.000000000001")).unwrap();
    log.append(&event(1)).unwrap();
    std::fs::write(dir.path().join("audit.log.000000000001"), "in the way").unwrap();
    assert!(matches!(log.rotate(), Err(AuditError::SetAside { .. })));
    let log = Log::open(&dir.log()).unwrap().rotating(small());
    (0..20).for_each(|n| drop(log.append(&event(n)).unwrap()));
    let alerts = events(&dir.log()).into_iter().filter(|event| event.event == EventKind::SecurityAlert);
    assert_eq!(alerts.count(), 1);
    assert_eq!(events(&dir.log()).len(), 22);
}

#[test]
fn a_segment_with_a_damaged_end_is_not_gone_on_from() {
    let dir = Dir::new();
    let path = filled(&dir, 2);
    let segment = dir.path().join("audit.log.000000000001");
    std::fs::rename(&path, &segment).unwrap();
    let good = std::fs::read(&segment).unwrap();
    for bad in [&good[..good.len() - 4], b"garbage\n"] {
        std::fs::write(&segment, bad).unwrap();
        assert!(matches!(Log::open(&path).unwrap().append(&event(3)), Err(AuditError::Broken { .. })));
    }
    std::fs::write(&segment, good).unwrap();
    assert_eq!(Log::open(&path).unwrap().append(&event(3)).unwrap().seq, 4);
}
