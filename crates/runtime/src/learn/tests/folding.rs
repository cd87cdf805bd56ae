//! Which paths become which.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{files, ground, seen};
use crate::{
    learn::{
        findings::{Deed, Findings, Kind},
        fold::{Folded, fold},
    },
    paths::is_at_or_below,
};

fn readable(folded: &Folded) -> Vec<&str> {
    folded.readable.keys().map(|path| path.to_str().unwrap()).collect()
}

fn writable(folded: &Folded) -> Vec<&str> {
    folded.writable.keys().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn single_files_stay_single_files() {
    let paths = ["/etc/passwd", "/home/me/code/project/a", "/home/me/code/other/b", "/usr/bin/cat"];
    let folded = fold(&files(Deed::Read, &paths), &ground());
    let mut expected = paths.to_vec();
    expected.sort_unstable();
    assert_eq!(readable(&folded), expected);
    assert!(folded.writable.is_empty());
}

#[test]
fn many_files_of_a_directory_become_the_directory() {
    let paths: Vec<String> = (0..8).map(|n| format!("/home/me/code/project/src/{n}.c")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(readable(&fold(&files(Deed::Read, &paths), &ground())), ["/home/me/code/project/src"]);
    assert_eq!(readable(&fold(&files(Deed::Read, &paths[..7]), &ground())).len(), 7);
}

#[test]
fn nothing_becomes_home_what_is_above_the_project_or_what_holds_a_secret() {
    for directory in ["/home/me", "/home/me/code", "/home", "/etc", "/", "/home/me/.config", "/tmp"] {
        let paths: Vec<String> =
            (0..50).map(|n| format!("{}/file{n}", directory.trim_end_matches('/'))).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let folded = fold(&files(Deed::Read, &paths), &ground());
        assert_eq!(folded.readable.len(), 50, "{directory}");
        let listed = fold(&seen(&[(directory, Kind::Directory, Deed::List)]), &ground());
        assert!(listed.readable.is_empty(), "{directory}");
        let changed = fold(&seen(&[(directory, Kind::Directory, Deed::Rename)]), &ground());
        assert!(changed.writable.is_empty(), "{directory}");
        assert_eq!(changed.too_wide.len(), 1, "{directory}");
    }
}

#[test]
fn a_denied_path_in_the_project_does_not_close_the_project() {
    let mut ground = ground();
    ground.denied.push(PathBuf::from("/home/me/code/project/.env"));
    let findings = seen(&[("/home/me/code/project", Kind::Directory, Deed::Rename)]);
    assert_eq!(writable(&fold(&findings, &ground)), ["/home/me/code/project"]);
}

#[test]
fn packages_of_the_system_are_taken_as_a_whole() {
    let paths = [
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/share/zoneinfo/Europe/Paris",
        "/usr/include/stdio.h",
        "/usr/local/lib/python3/x.py",
        "/nix/store/abc-glibc/lib/libc.so",
        "/usr/lib/os-release",
    ];
    let expected = [
        "/nix/store/abc-glibc",
        "/usr/include",
        "/usr/lib/os-release",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/local/lib/python3",
        "/usr/share/zoneinfo",
    ];
    assert_eq!(readable(&fold(&files(Deed::Read, &paths), &ground())), expected);
}

#[test]
fn programs_stay_single_for_longer() {
    let paths: Vec<String> = (0..20).map(|n| format!("/usr/bin/tool{n}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(fold(&files(Deed::Execute, &paths), &ground()).readable.len(), 20);
}

#[test]
fn a_listed_directory_is_visible_and_one_that_was_only_asked_about_is_there() {
    let listed = seen(&[("/home/me/code/project/data", Kind::Directory, Deed::List)]);
    assert_eq!(readable(&fold(&listed, &ground())), ["/home/me/code/project/data"]);
    // It is on the way to something else, so nothing more is needed.
    let asked = seen(&[
        ("/home/me/code/project/data", Kind::Directory, Deed::Touch),
        ("/home/me/code/project/data/x", Kind::File, Deed::Read),
    ]);
    assert_eq!(readable(&fold(&asked, &ground())), ["/home/me/code/project/data/x"]);
    let alone = seen(&[("/home/me/code/project/data", Kind::Directory, Deed::Touch)]);
    assert_eq!(readable(&fold(&alone, &ground())), ["/home/me/code/project/data"]);
    // What is in every sandbox needs no line, and what is general is not opened for a look.
    for directory in ["/", "/home/me", "/home/me/code", "/home/me/code/project", "/usr/local", "/tmp"] {
        assert!(fold(&seen(&[(directory, Kind::Directory, Deed::Touch)]), &ground()).readable.is_empty());
    }
}

#[test]
fn a_changed_file_is_writable_alone_and_new_names_need_their_directory() {
    let changed = files(Deed::Write, &["/home/me/code/project/log"]);
    assert_eq!(writable(&fold(&changed, &ground())), ["/home/me/code/project/log"]);
    let mut made = seen(&[
        ("/home/me/code/project", Kind::Directory, Deed::Rename),
        ("/home/me/code/project/build", Kind::Directory, Deed::Rename),
        ("/home/me/code/project/build/out", Kind::File, Deed::Write),
        ("/home/me/code/project/main.c", Kind::File, Deed::Read),
    ]);
    made.made.insert(PathBuf::from("/home/me/code/project/build"));
    let folded = fold(&made, &ground());
    assert_eq!(writable(&folded), ["/home/me/code/project"]);
    assert!(folded.readable.is_empty());
}

#[test]
fn the_directory_is_kept_when_names_lead_out_of_it() {
    let mut findings = files(Deed::Read, &["/home/me/code/other/x"]);
    assert_eq!(readable(&fold(&findings, &ground())), ["/home/me/code/other/x"]);
    findings.relative.insert(PathBuf::from("/home/me/code/other/x"));
    assert_eq!(readable(&fold(&findings, &ground())), ["/home/me/code/other/x", "/home/me/code/project"]);
}

#[test]
fn links_into_usr_that_every_sandbox_has_are_not_listed() {
    let findings =
        seen(&[("/lib64", Kind::Link, Deed::Follow), ("/usr/bin/python3", Kind::Link, Deed::Follow)]);
    assert_eq!(readable(&fold(&findings, &ground())), ["/usr/bin/python3"]);
}

fn any_path() -> impl Strategy<Value = String> {
    let top = prop::sample::select(vec![
        "/usr/lib",
        "/usr/bin",
        "/etc",
        "/home/me",
        "/home/me/code/project",
        "/home/me/code",
        "/opt/tool",
        "/srv",
        "/home/me/.config",
    ]);
    (top, prop::collection::vec("[ab]{1,2}", 1..4))
        .prop_map(|(top, parts)| format!("{top}/{}", parts.join("/")))
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop::sample::select(vec![Deed::Read, Deed::Write, Deed::Execute, Deed::Follow])
}

proptest! {
    #[test]
    fn everything_that_was_used_is_granted_and_nothing_too_wide_is(
        uses in prop::collection::vec((any_path(), any_deed()), 0..60)
    ) {
        let mut findings = Findings::default();
        for (path, deed) in &uses {
            findings.see(Path::new(path), Kind::File, *deed, String::new);
        }
        let ground = ground();
        let folded = fold(&findings, &ground);
        let covered = |path: &Path, grants: &crate::learn::fold::Grants| {
            grants.keys().any(|at| is_at_or_below(path, at))
        };
        for (path, seen) in &findings.paths {
            let writes = covered(path, &folded.writable);
            prop_assert!(writes || covered(path, &folded.readable), "{path:?}");
            prop_assert!(writes || !seen.has(Deed::Write), "{path:?}");
        }
        for (path, why) in folded.readable.iter().chain(&folded.writable) {
            prop_assert!(findings.paths.contains_key(path) || !ground.is_too_wide(path), "{path:?}");
            prop_assert!(why.paths > 0);
        }
        // The innermost entry decides, so nothing readable lies in something writable.
        for path in folded.readable.keys() {
            prop_assert!(!covered(path, &folded.writable), "{path:?}");
        }
    }
}
