//! Following: every event once and in order, over rotation, over a restart of the reader, over what is gone.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::io::Write;

use common::{Dir, event, filled, lines};
use lazaret_audit::{Follow, Log, Position, ReadError};

fn numbers(follow: &mut Follow) -> Vec<u64> {
    follow.map(|event| event.unwrap().seq).collect()
}

#[test]
fn asked_again_it_yields_what_has_arrived_since() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let mut follow = Follow::open(&dir.log()).unwrap();
    assert_eq!(numbers(&mut follow), [0; 0]);
    log.append(&event(1)).unwrap();
    assert_eq!(numbers(&mut follow), [1]);
    assert_eq!(numbers(&mut follow), [0; 0]);
    log.append(&event(2)).unwrap();
    log.rotate().unwrap();
    log.append(&event(3)).unwrap();
    log.rotate().unwrap();
    assert_eq!(numbers(&mut follow), [2, 3, 4, 5]);
    log.append(&event(4)).unwrap();
    assert_eq!(numbers(&mut follow), [6]);
}

#[test]
fn a_position_is_gone_on_from_wherever_it_was_taken() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    for n in 0..4 {
        (0..3).for_each(|m| drop(log.append(&event(n * 3 + m)).unwrap()));
        log.rotate().unwrap();
    }
    let all = numbers(&mut Follow::open(&dir.log()).unwrap());
    assert_eq!(all, (1..=16).collect::<Vec<_>>());
    let mut follow = Follow::open(&dir.log()).unwrap();
    let mut positions = vec![follow.position()];
    while follow.next().is_some() {
        positions.push(follow.position());
    }
    for (read, position) in positions.into_iter().enumerate() {
        let kept = serde_json::to_string(&position).unwrap();
        let position: Position = serde_json::from_str(&kept).unwrap();
        let mut resumed = Follow::resume(&dir.log(), position).unwrap();
        assert_eq!(numbers(&mut resumed), all[read..], "{kept}");
    }
}

#[test]
fn a_position_in_the_file_being_written_survives_its_rotation() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    log.append(&event(1)).unwrap();
    let mut follow = Follow::open(&dir.log()).unwrap();
    assert_eq!(numbers(&mut follow), [1]);
    let position = follow.position();
    log.append(&event(2)).unwrap();
    log.rotate().unwrap();
    log.append(&event(3)).unwrap();
    assert_eq!(numbers(&mut Follow::resume(&dir.log(), position).unwrap()), [2, 3, 4]);
    assert_eq!(numbers(&mut follow), [2, 3, 4]);
}

#[test]
fn a_position_in_a_file_that_is_gone_says_so_and_goes_on_after_it() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    for n in 0..3 {
        log.append(&event(n)).unwrap();
        log.rotate().unwrap();
    }
    let mut follow = Follow::open(&dir.log()).unwrap();
    follow.next().unwrap().unwrap();
    let position = follow.position();
    std::fs::remove_file(dir.path().join("audit.log.000000000001")).unwrap();
    let mut resumed = Follow::resume(&dir.log(), position).unwrap();
    assert!(matches!(resumed.next(), Some(Err(ReadError::Gone { after: 1, .. }))));
    assert_eq!(numbers(&mut resumed), [2, 3, 4, 5, 6]);
}

#[test]
fn from_now_on_means_nothing_that_is_there_already() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    log.append(&event(1)).unwrap();
    log.rotate().unwrap();
    log.append(&event(2)).unwrap();
    let mut follow = Follow::from_now(&dir.log()).unwrap();
    assert_eq!(numbers(&mut follow), [0; 0]);
    log.rotate().unwrap();
    log.append(&event(3)).unwrap();
    assert_eq!(numbers(&mut follow), [4, 5]);
}

#[test]
fn a_line_half_written_is_not_there_yet() {
    let dir = Dir::new();
    let path = filled(&dir, 2);
    let whole = lines(&path);
    std::fs::write(&path, [&whole[0][..], &whole[1][..50]].concat()).unwrap();
    let mut follow = Follow::open(&path).unwrap();
    assert_eq!(numbers(&mut follow), [1]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&whole[1][50..]).unwrap();
    assert_eq!(numbers(&mut follow), [2]);
}

#[test]
fn a_broken_line_is_named_with_its_file_and_the_rest_follows() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    Log::open(&path).unwrap().rotate().unwrap();
    let segment = dir.path().join("audit.log.000000000001");
    let mut all = lines(&segment);
    all[1] = b"nonsense\n".to_vec();
    all.push(b"{\"torn".to_vec());
    std::fs::write(&segment, all.concat()).unwrap();
    let found: Vec<_> = Follow::open(&path).unwrap().collect();
    assert_eq!(found.len(), 5);
    let told = found[1].as_ref().unwrap_err().to_string();
    assert!(told.contains("audit.log.000000000001:2: this line is not an event"), "{told}");
    assert!(matches!(found[3], Err(ReadError::Torn { line: 4, .. })), "{found:?}");
    assert_eq!(found[4].as_ref().unwrap().seq, 4);
}

#[test]
fn a_log_that_does_not_exist_is_an_error() {
    let dir = Dir::new();
    assert!(matches!(Follow::open(&dir.log()), Err(ReadError::Open { .. })));
}
