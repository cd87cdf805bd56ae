//! What is found in an upper directory, and what is thought of it.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use super::bed::{Bed, bytes, chmod, skip};
use crate::{Base, Conflict, Node, Refusal, Tree, TreeKind, What, collect};

fn whats(bed: &Bed) -> Vec<(String, What)> {
    bed.found().into_iter().map(|(path, change)| (path.to_string_lossy().into_owned(), change.what)).collect()
}

#[test]
fn created_modified_and_deleted_names_are_found_and_equal_ones_are_not() {
    let bed = Bed::new();
    bed.host("same", "x");
    bed.host("changed", "old");
    bed.host("longer", "1");
    bed.host("gone", "x");
    bed.host("sub/kept", "x");
    bed.write("same", "x");
    bed.write("changed", "new");
    bed.write("longer", "12");
    bed.whiteout("gone");
    bed.whiteout("never-was");
    bed.write("sub/new", "x");
    bed.directory("empty");
    let expected = [
        ("changed", What::Modified),
        ("empty", What::Created),
        ("gone", What::Deleted),
        ("longer", What::Modified),
        ("sub/new", What::Created),
    ];
    assert_eq!(whats(&bed), expected.map(|(path, what)| (path.to_owned(), what)));
}

#[test]
fn a_changed_mode_alone_is_a_mode_change_for_files_and_directories() {
    let bed = Bed::new();
    for (name, mode) in [("file", 0o755), ("dir/x", 0o644)] {
        bed.host(name, "x");
        chmod(&bed.write(name, "x"), mode);
    }
    chmod(&bed.upper.join("dir"), 0o711);
    chmod(&bed.root.join("dir"), 0o755);
    let expected = [("dir", What::ModeChanged), ("file", What::ModeChanged)];
    assert_eq!(whats(&bed), expected.map(|(path, what)| (path.to_owned(), what)));
}

#[test]
fn a_deleted_directory_is_one_deletion_for_each_object_parents_first() {
    let bed = Bed::new();
    bed.host("d/e/f", "x");
    bed.host("d/g", "x");
    bed.whiteout("d");
    let paths: Vec<_> = bed.collect().iter().map(|change| change.path.clone()).collect();
    assert_eq!(paths.len(), 4);
    for (at, path) in paths.iter().enumerate() {
        assert!(!paths[..at].iter().any(|earlier| earlier.starts_with(path)), "{paths:?}");
    }
}

#[test]
fn an_opaque_directory_deletes_what_it_does_not_name() {
    let bed = Bed::new();
    bed.host("d/old", "x");
    bed.host("d/sub/old", "x");
    bed.host("d/same", "x");
    bed.opaque("d");
    bed.write("d/same", "x");
    bed.write("d/new", "x");
    let expected = [
        ("d/new", What::Created),
        ("d/old", What::Deleted),
        ("d/sub", What::Deleted),
        ("d/sub/old", What::Deleted),
    ];
    assert_eq!(whats(&bed), expected.map(|(path, what)| (path.to_owned(), what)));
}

#[test]
fn what_changed_on_the_host_while_the_sandbox_ran_is_a_conflict() {
    let bed = Bed::new();
    bed.host("a", "old");
    bed.write("a", "new");
    let before = SystemTime::now() - Duration::from_secs(60);
    let changes = collect(&bed.trees(), before).unwrap();
    assert_eq!(changes.0[0].conflict, Some(Conflict::ChangedDuringRun));
    assert_eq!(bed.collect().0[0].conflict, None);
}

#[test]
fn links_out_of_the_tree_sockets_and_devices_are_refused() {
    let bed = Bed::new();
    bed.link("/etc/passwd", "out");
    bed.link("../../x", "sub/up");
    bed.link("sub/x", "in");
    let _socket = UnixListener::bind(bed.upper.join("socket")).unwrap();
    let found = bed.found();
    assert_eq!(found[bytes(b"out")].refused, Some(Refusal::LinkLeavesTree));
    assert_eq!(found[bytes(b"sub/up")].refused, Some(Refusal::LinkLeavesTree));
    assert_eq!(found[bytes(b"in")].refused, None);
    assert_eq!(found[bytes(b"socket")].refused, Some(Refusal::Socket));
    if !rustix::process::geteuid().is_root() {
        return skip("only root makes device nodes");
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let device = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bed.upper.join("null"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        device,
    )
    .unwrap();
    assert_eq!(bed.found()[bytes(b"null")].refused, Some(Refusal::Device));
}

#[test]
fn a_name_that_commits_use_is_refused_with_all_that_is_in_it() {
    let bed = Bed::new();
    let name = format!(".lazaret-{}.0", crate::TransactionId::new());
    bed.write(&format!("{name}/0"), "x");
    bed.write("sub/.lazaret-notes", "x");
    let found = bed.found();
    assert_eq!(found.len(), 3);
    assert_eq!(found[bytes(name.as_bytes())].refused, Some(Refusal::Reserved));
    assert_eq!(found[bytes(b"sub/.lazaret-notes")].refused, None);
}

#[test]
fn privileged_bits_are_taken_off_and_alone_are_no_change() {
    let bed = Bed::new();
    bed.host("tool", "x");
    chmod(&bed.root.join("tool"), 0o755);
    chmod(&bed.write("tool", "x"), 0o4755);
    chmod(&bed.write("new", "x"), 0o6755);
    let found = bed.found();
    assert_eq!(found[bytes(b"tool")].refused, Some(Refusal::OnlyPrivilege));
    assert_eq!((found[bytes(b"new")].mode, found[bytes(b"new")].stripped), (0o755, 0o6000));
}

#[test]
fn hostile_names_and_deep_trees_are_followed_without_a_path() {
    let bed = Bed::new();
    let strange = bytes(b"new\nline\xff\x1b[31m");
    fs::write(bed.upper.join(strange), "x").unwrap();
    let mut deep = rustix::fs::open(&bed.upper, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for _ in 0..300 {
        rustix::fs::mkdirat(&deep, &name, rustix::fs::Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    let changes = bed.collect();
    assert_eq!(changes.len(), 301);
    assert!(changes.iter().any(|change| change.path == bed.root.join(strange)));
    assert!(changes.iter().map(|change| change.path.as_os_str().len()).max() > Some(60_000));
    assert_eq!(bed.commit().unwrap().applied, 301);
    assert_eq!(fs::read(bed.root.join(strange)).unwrap(), b"x");
    // Paths this long are beyond what the standard library removes by name.
    for top in [&bed.upper, &bed.root] {
        remove_chain(top, &name);
    }
}

fn remove_chain(top: &std::path::Path, name: &str) {
    use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
    let top = rustix::fs::open(top, OFlags::PATH, Mode::empty()).unwrap();
    // Brings the second level up beside the first, and removes the empty first, again and again.
    loop {
        let Ok(first) = openat(&top, name, OFlags::PATH, Mode::empty()) else { return };
        let more = renameat(&first, name, &top, "next").is_ok();
        unlinkat(&top, name, AtFlags::REMOVEDIR).unwrap();
        if !more {
            return;
        }
        renameat(&top, "next", &top, name).unwrap();
    }
}

#[test]
fn directories_nested_beyond_reason_are_refused() {
    let bed = Bed::new();
    let mut deep = rustix::fs::open(&bed.upper, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..1100 {
        rustix::fs::mkdirat(&deep, "d", rustix::fs::Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    let changes = bed.collect();
    assert_eq!(changes.len(), 1024);
    assert_eq!(changes.0.last().unwrap().refused, Some(Refusal::TooDeep));
    remove_chain(&bed.upper, "d");
}

#[test]
fn a_single_file_is_compared_with_its_private_copy() {
    let bed = Bed::new();
    let host = bed.host("file.txt", "old");
    let upper = || fs::File::open(&bed.upper).unwrap().into();
    let tree = || [Tree { root: host.clone(), upper: upper(), kind: TreeKind::File, owner: None }];
    bed.write("file", "old");
    assert!(collect(&tree(), SystemTime::now()).unwrap().is_empty());
    bed.write("file", "new");
    let changes = collect(&tree(), SystemTime::now()).unwrap();
    assert_eq!((changes.len(), &changes.0[0].path, changes.0[0].what), (1, &host, What::Modified));
    let transaction = bed.open_store().keep(bed.origin(), &tree(), changes).unwrap();
    transaction.commit(super::bed::everything()).unwrap();
    assert_eq!(fs::read_to_string(&host).unwrap(), "new");
}

#[test]
fn a_file_that_shuts_its_owner_out_is_read_all_the_same() {
    let bed = Bed::new();
    bed.host("a", "old");
    chmod(&bed.write("a", "new"), 0o000);
    bed.write("dir/b", "x");
    chmod(&bed.upper.join("dir"), 0o000);
    let found = bed.found();
    assert_eq!((found[bytes(b"a")].what, found[bytes(b"a")].mode), (What::Modified, 0));
    assert_eq!(found[bytes(b"dir")].mode, 0);
    assert_eq!(found[bytes(b"dir/b")].what, What::Created);
}

#[test]
fn a_change_survives_being_written_as_json() {
    let bed = Bed::new();
    bed.host("a", "old");
    bed.write("a", "new");
    bed.write(".git/hooks/pre-commit", "x");
    bed.link("/etc", "out");
    fs::write(bed.upper.join(bytes(b"\xff")), "x").unwrap();
    let changes = bed.collect();
    let json = serde_json::to_string(&changes).unwrap();
    assert_eq!(serde_json::from_str::<crate::Changes>(&json).unwrap(), changes);
    assert!(json.contains("\"what\":\"created\"") && json.contains("\"linkLeavesTree\""), "{json}");
    assert!(changes.iter().any(|change| change.persistence.is_some()));
    assert!(matches!(changes.0[0].base, Base::Absent | Base::Present(_)));
    assert!(changes.iter().any(|change| matches!(change.node, Some(Node::Symlink { .. }))));
}

#[test]
fn a_repository_by_any_name_acts() {
    let bed = Bed::new();
    bed.write("docs/HEAD", "ref: refs/heads/main\n");
    bed.write("docs/objects/x", "");
    bed.write("docs/config", "[core]\n\tfsmonitor = evil\n");
    bed.write("docs/hooks/post-checkout", "evil");
    bed.write("other/config", "harmless");
    let found = bed.found();
    let acts = |name: &str| {
        let change = found.iter().find(|(path, _)| path.as_os_str() == name).unwrap().1;
        change.persistence.is_some()
    };
    assert!(acts("docs/config") && acts("docs/hooks/post-checkout") && acts("docs/HEAD"));
    assert!(!acts("other/config") && !acts("docs/objects/x"));
}
