//! Appending: many writers, torn lines, full disks, and files that cannot be a log.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod common;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use common::{Dir, again, event, events, filled, inherited};
use lazaret_audit::{AuditError, EventKind, Log, Reader, verify};

#[test]
fn a_new_log_and_its_directories_belong_to_the_owner_alone() {
    let dir = Dir::new();
    let path = dir.path().join("a/b/audit.log");
    let log = Log::open(&path).unwrap();
    log.append(&event(1)).unwrap();
    assert_eq!(log.path(), path);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&dir.path().join("a/b/audit.log.head")), 0o600);
    assert_eq!(mode(&dir.path().join("a/b")), 0o700);
    assert_eq!(mode(&dir.path().join("a")), 0o700);
}

#[test]
fn an_appended_event_is_returned_as_it_is_read_back() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    let one = log.append(&event(1)).unwrap();
    let more = log.append_all(&[event(2), event(3)]).unwrap();
    assert!(log.append_all(&[]).unwrap().is_empty());
    assert_eq!(events(&dir.log()), [vec![one.clone()], more].concat());
    assert_eq!(one.seq, 1);
    assert_eq!(one.event_id.parse::<uuid::Uuid>().unwrap().get_version_num(), 7);
    assert_eq!(one.time.parse::<jiff::Timestamp>().unwrap().as_millisecond() as u64, one.timestamp);
    assert_eq!(one.time.len(), "2025-01-01T00:00:00.000Z".len());
    assert_eq!(verify(&dir.log()).unwrap().lines, 3);
}

#[test]
fn threads_with_a_log_each_make_one_chain() {
    let dir = Dir::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let log = Log::open(&dir.log()).unwrap();
                (0..100).for_each(|n| drop(log.append(&event(n)).unwrap()));
            });
        }
    });
    assert_eq!(verify(&dir.log()).unwrap().last_seq, 800);
}

#[test]
fn threads_that_share_a_log_make_one_chain() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|n| drop(log.append(&event(n)).unwrap())));
        }
    });
    assert_eq!(verify(&dir.log()).unwrap().last_seq, 800);
}

#[test]
fn processes_make_one_chain_that_can_be_read_meanwhile() {
    if let Some(path) = inherited() {
        let log = Log::open(&path).unwrap();
        (0..100).for_each(|n| drop(log.append(&event(n)).unwrap()));
        return;
    }
    let dir = Dir::new();
    let path = filled(&dir, 1);
    let name = "processes_make_one_chain_that_can_be_read_meanwhile";
    let mut children: Vec<_> =
        (0..4).map(|_| again(name, &path).stdout(std::process::Stdio::null()).spawn().unwrap()).collect();
    let mut reader = Reader::open(&path).unwrap();
    let mut seen = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        verify(&path).unwrap();
        for event in reader.by_ref() {
            seen += 1;
            assert_eq!(event.unwrap().seq, seen);
        }
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(verify(&path).unwrap().last_seq, 401);
    assert_eq!(seen + reader.count() as u64, 401);
}

#[test]
fn a_torn_line_is_removed_and_reported_before_the_next_event() {
    for torn in ["{\"seq\":3,\"ev".to_owned(), "x".repeat(10_000), "y".repeat(200_000)] {
        let dir = Dir::new();
        let path = filled(&dir, 2);
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(torn.as_bytes()).unwrap();
        assert_eq!(events(&path).len(), 2);
        assert_eq!(Log::open(&path).unwrap().append(&event(3)).unwrap().seq, 4);
        let all = events(&path);
        assert_eq!(all[2].event, EventKind::SecurityAlert);
        assert_eq!(all[2].details["recovered"], "torn line");
        assert_eq!(all[2].details["bytes"], torn.len());
        assert_eq!(verify(&path).unwrap().lines, 4);
    }
}

#[test]
fn a_torn_first_line_is_removed_as_well() {
    let dir = Dir::new();
    std::fs::write(dir.log(), "{\"seq\":1,").unwrap();
    Log::open(&dir.log()).unwrap().append(&event(1)).unwrap();
    assert_eq!(verify(&dir.log()).unwrap().lines, 2);
}

#[test]
fn a_reader_goes_on_after_a_torn_line_was_removed_under_it() {
    let dir = Dir::new();
    let path = filled(&dir, 2);
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":3").unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.by_ref().count(), 2);
    Log::open(&path).unwrap().append(&event(3)).unwrap();
    let rest: Vec<u64> = reader.map(|event| event.unwrap().seq).collect();
    assert_eq!(rest, [3, 4]);
}

#[test]
fn a_reader_names_the_line_that_is_no_event_and_reads_on() {
    let dir = Dir::new();
    let path = filled(&dir, 3);
    let mut all = common::lines(&path);
    all[1] = b"nonsense\n".to_vec();
    all.insert(2, [vec![b'z'; 300_000], vec![b'\n']].concat());
    std::fs::write(&path, all.concat()).unwrap();
    let found: Vec<_> =
        Reader::open(&path).unwrap().map(|event| event.map(|e| e.seq).map_err(|e| e.line())).collect();
    assert_eq!(found, [Ok(1), Err(2), Err(3), Ok(3)]);
}

#[test]
fn a_full_disk_leaves_the_log_as_it_was() {
    let name = "a_full_disk_leaves_the_log_as_it_was";
    if let Some(path) = inherited() {
        let log = Log::open(&path).unwrap();
        let mut good = 0;
        let error = loop {
            match log.append(&event(good)) {
                Ok(_) => good += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AuditError::Short { .. } | AuditError::Write { .. }), "{error}");
        assert_eq!(verify(&path).unwrap().lines, good);
        assert!(good > 3);
        assert!(log.append(&event(good)).is_err());
        assert_eq!(verify(&path).unwrap().lines, good);
        return;
    }
    // A limit on file size stands in for the disk; it fails a write only where the signal is ignored.
    let dir = Dir::new();
    let program = again(name, &dir.log());
    #[expect(
        clippy::disallowed_methods,
        reason = "only a shell can ignore a signal here without unsafe code"
    )]
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]).arg(program.get_program());
    let output = shell.args(program.get_args()).env(common::LOG, dir.log()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let before = verify(&dir.log()).unwrap().lines;
    Log::open(&dir.log()).unwrap().append(&event(0)).unwrap();
    assert_eq!(verify(&dir.log()).unwrap().lines, before + 1);
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_waiting() {
    let dir = Dir::new();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(matches!(Log::open(&fifo), Err(AuditError::NotRegular { .. })));
    assert!(verify(&fifo).is_err());
    assert!(Reader::open(&fifo).is_err());
    assert!(matches!(Log::open(dir.path()), Err(AuditError::Open { .. })));
    let link = dir.path().join("link");
    symlink(filled(&dir, 1), &link).unwrap();
    assert!(matches!(Log::open(&link), Err(AuditError::Open { .. })));
    let other = dir.path().join("other.log");
    std::fs::rename(&fifo, dir.path().join("other.log.head")).unwrap();
    assert!(matches!(Log::open(&other).unwrap().append(&event(1)), Err(AuditError::NotRegular { .. })));
    assert!(events(&other).is_empty());
}

#[test]
fn a_log_one_may_not_open_is_an_error() {
    let name = "a_log_one_may_not_open_is_an_error";
    if let Some(path) = inherited() {
        let denied = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        match Log::open(&path) {
            Err(AuditError::Open { source, .. } | AuditError::Directory { source, .. }) => denied(source),
            other => unreachable!("{other:?}"),
        }
        return;
    }
    let dir = Dir::new();
    let path = filled(&dir, 1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let mut child = again(name, &path);
    child.current_dir("/").stdout(std::process::Stdio::null());
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        child.uid(65534).gid(65534);
    }
    match child.status() {
        Ok(status) => assert!(status.success()),
        // The test itself may be where another user cannot reach it.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
fn a_deleted_log_is_not_written_into_the_void() {
    let dir = Dir::new();
    let log = Log::open(&dir.log()).unwrap();
    log.append(&event(1)).unwrap();
    std::fs::remove_file(dir.log()).unwrap();
    assert!(matches!(log.append(&event(2)), Err(AuditError::Gone { .. })));
}
