//! `lazaret metrics write`: a file for others to collect.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::Duration,
};

use rustix::process::Signal;

use super::{sum, value};
use crate::case::{as_everybody, eventually, ordinary};

#[test]
fn a_file_is_replaced_as_a_whole_and_everybody_can_read_it() {
    as_everybody(|case| {
        case.sh("exit 0").exits(0);
        let file = case.file("collect/lazaret.prom", "old");
        let old = fs::metadata(&file).unwrap().ino();
        let write = ["metrics", "write", "--textfile", file.to_str().unwrap()];
        let strict = ["sh", "-c", "umask 077; exec \"$@\"", "sh"];
        case.lazaret(write).under(strict).go().exits(0).tells_nothing();
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o644);
        assert_ne!(metadata.ino(), old);
        assert_eq!(sum(&fs::read_to_string(&file).unwrap(), "lazaret_sandboxes_created_total"), 1.0);
        // A link in its place is replaced and not followed.
        let elsewhere = case.file("elsewhere", "untouched");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        case.lazaret(write).go().exits(0);
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "untouched");
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    });
}

#[test]
fn where_it_cannot_be_written_that_is_told() {
    let case = ordinary();
    let nowhere = case.work.join("nowhere/lazaret.prom");
    let failed = case.lazaret(["metrics", "write", "--textfile", nowhere.to_str().unwrap()]).go();
    failed.exits(125).tells("its directory must exist and be writable");
    let other = case.work.join("metrics.txt");
    let named = case.lazaret(["metrics", "write", "--textfile", other.to_str().unwrap()]).go();
    named.exits(0).tells("node_exporter reads files that end in .prom");
    let often = ["metrics", "write", "--textfile", "a.prom", "--every", "5ms"];
    case.lazaret(often).go().exits(125).tells("too often");
}

#[test]
fn again_and_again_until_it_is_told_to_end() {
    as_everybody(|case| {
        let file = case.work.join("lazaret.prom");
        let running =
            case.lazaret(["metrics", "write", "--textfile", "lazaret.prom", "--every", "100ms"]).start();
        eventually("it is there", || file.exists());
        case.sh("exit 0").exits(0);
        let created = || sum(&fs::read_to_string(&file).unwrap(), "lazaret_sandboxes_created_total");
        eventually("it is written again", || created() == 1.0);
        // Whoever looks sees a whole file at every moment.
        for _ in 0..200 {
            assert_eq!(value(&fs::read_to_string(&file).unwrap(), "lazaret_audit_readable"), 1.0);
            std::thread::sleep(Duration::from_millis(2));
        }
        running.signal(Signal::TERM);
        running.finish().exits(0).tells_nothing();
    });
}
