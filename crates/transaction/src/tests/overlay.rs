//! The same against a real overlay, mounted as a sandbox mounts it: in a user namespace, with `userxattr`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::MountFlags;

use super::bed::{Bed, Snapshot, chmod, everything, skip};

const WHERE: &str = "LAZARET_TEST_OVERLAY_BED";

/// What a program does to its tree.
fn act(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::write(at("changed"), "new").unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::remove_dir_all(at("tree")).unwrap();
    fs::remove_dir_all(at("again")).unwrap();
    fs::create_dir(at("again")).unwrap();
    fs::write(at("again/new"), "x").unwrap();
    fs::rename(at("moved"), at("sub/moved")).unwrap();
    fs::remove_file(at("to-directory")).unwrap();
    fs::create_dir(at("to-directory")).unwrap();
    fs::write(at("to-directory/x"), "x").unwrap();
    fs::remove_dir_all(at("to-file")).unwrap();
    fs::write(at("to-file"), "x").unwrap();
    chmod(&at("mode"), 0o700);
    chmod(&at("mode-of-directory"), 0o700);
    symlink("changed", at("link")).unwrap();
    // Touched and written back: no change.
    fs::write(at("same"), "same").unwrap();
    fs::create_dir(at("brief")).unwrap();
    fs::remove_dir(at("brief")).unwrap();
}

fn fill(bed: &Bed) {
    for name in
        ["changed", "gone", "tree/a/b", "tree/c", "again/old", "again/sub/old", "moved", "to-directory"]
    {
        bed.host(name, "x");
    }
    for name in ["to-file/x", "mode", "mode-of-directory/x", "sub/x", "kept/x"] {
        bed.host(name, "x");
    }
    bed.host("same", "same");
}

#[test]
#[ignore = "is started by the test below, in namespaces of its own"]
fn child() {
    let path = std::path::PathBuf::from(std::env::var_os(WHERE).unwrap());
    let bed = std::mem::ManuallyDrop::new(Bed::at(&path, &path.join("store")));
    let memory = path.join("memory");
    fs::create_dir(&memory).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"tmpfs", &memory, c"tmpfs", flags, None).unwrap();
    let (upper, work, merged) = (memory.join("upper"), memory.join("work"), memory.join("merged"));
    for directory in [&upper, &work, &merged] {
        fs::create_dir(directory).unwrap();
    }
    let (lower, shown) = (bed.root.display(), upper.display());
    let options = format!("lowerdir={lower},upperdir={shown},workdir={},userxattr", work.display());
    let options = std::ffi::CString::new(options).unwrap();
    rustix::mount::mount(c"overlay", &merged, c"overlay", flags, Some(options.as_c_str())).unwrap();
    let started = std::time::SystemTime::now();
    act(&merged);
    let wanted = snapshot_of(&merged);
    let trees = [crate::Tree {
        root: bed.root.clone(),
        upper: fs::File::open(&upper).unwrap().into(),
        kind: crate::TreeKind::Directory,
        owner: None,
    }];
    let changes = crate::collect(&trees, started).unwrap();
    assert!(
        changes.iter().all(|change| change.refused.is_none() && change.conflict.is_none()),
        "{changes:?}"
    );
    assert!(!changes.iter().any(|change| change.path.ends_with("same") || change.path.ends_with("kept")));
    let transaction = bed.open_store().keep(bed.origin(), &trees, changes).unwrap();
    assert_eq!(transaction.commit(everything()).unwrap().skipped, []);
    assert_eq!(bed.snapshot(), wanted);
}

fn snapshot_of(directory: &Path) -> Snapshot {
    let bed = Bed {
        path: directory.to_owned(),
        root: directory.to_owned(),
        upper: directory.to_owned(),
        store: directory.to_owned(),
    };
    std::mem::ManuallyDrop::new(bed).snapshot()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "mounts are made in another process's namespace")]
fn what_a_real_overlay_holds_becomes_the_same_tree_on_the_host() {
    let bed = Bed::new();
    fill(&bed);
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tests::overlay::child", "--ignored", "--test-threads=1"])
        .env(WHERE, &bed.path)
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("unshare failed") => {
            skip("no user namespaces here");
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => skip("no program to make namespaces"),
    }
}
