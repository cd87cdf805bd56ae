use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::symlink},
};

use proptest::prelude::*;
use rustix::fs::{Mode, OFlags, open};

use super::*;

/// A small tree with every kind of link.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let root = std::env::temp_dir().join(format!("lazaret-gate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a/b/c")).expect("a directory can be made");
        fs::create_dir_all(root.join("d")).expect("a directory can be made");
        let root = root.canonicalize().expect("it exists");
        fs::write(root.join("a/f"), "").expect("a file can be written");
        let absolute = root.join("a/b");
        for (target, link) in [
            ("a/b", "l"),
            (absolute.to_str().expect("is text"), "m"),
            ("..", "a/up"),
            ("../d", "a/d"),
            ("l/c", "n"),
            ("x", "x"),
            ("z", "y"),
            ("y", "z"),
            ("none", "gone"),
            ("d/new", "a/gone"),
            ("a/f", "g"),
            ("./a/./b/../b/", "s"),
            ("l/../f", "t"),
        ] {
            symlink(target, root.join(link)).expect("a link can be made");
        }
        Tree(root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kernel(path: &Path) -> Result<PathBuf, Errno> {
    let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let name = readlink(format!("/proc/self/fd/{}", opened.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "c", "d", "f", "g", "l", "m", "n", "s", "t", "up", "gone", "new", "x", "y", ".", "..", "",
        "a/b",
    ])
}

/// What the kernel finds is what we find; what it does not find we say is missing, or why it cannot be had.
#[test]
fn the_kernel_agrees() {
    let tree = Tree::new("kernel");
    proptest!(ProptestConfig::with_cases(4000), |(names in prop::collection::vec(name(), 1..8))| {
        let text = names.join("/");
        prop_assume!(!text.starts_with('/'));
        let path = tree.0.join(&text);
        let ours = resolve(&tree.0, Path::new(&text));
        match kernel(&path) {
            Ok(found) => {
                let ours = ours.expect("the kernel resolves it");
                prop_assert_eq!(&ours.path, &found);
                prop_assert!(ours.exists());
                if found != Path::new("/") {
                    let last = rustix::fs::stat(&path).expect("exists");
                    prop_assert_eq!(ours.trail.last(), Some(&Identity::of(&last)));
                }
                prop_assert_eq!(ours.trail.len(), found.components().count() - 1);
            }
            Err(Errno::LOOP) => prop_assert_eq!(ours, Err(PathFault::Loop)),
            // Ours may go on where the kernel stops, at `..` behind a file or behind nothing.
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let climbs = text.split('/').any(|name| matches!(name, ".." | "t" | "s" | "up"));
                let on_file = text.ends_with('/') || text.ends_with("/.");
                if let Ok(ours) = ours {
                    prop_assert!(!ours.exists() || climbs || on_file, "{} {:?}", text, ours);
                }
            }
            Err(other) => prop_assert!(false, "{} {}", text, other),
        }
    });
}

#[test]
fn a_resolved_path_resolves_to_itself() {
    let tree = Tree::new("itself");
    proptest!(|(names in prop::collection::vec(name(), 1..8))| {
        if let Ok(once) = resolve(&tree.0, Path::new(&names.join("/"))) {
            let twice = resolve(Path::new("/"), &once.path).expect("resolves again");
            prop_assert_eq!(twice.path, once.path);
        }
    });
}

#[test]
fn any_text_ends() {
    let tree = Tree::new("ends");
    proptest!(|(text in ".{0,80}")| {
        if let Ok(resolved) = resolve(&tree.0, Path::new(&text)) {
            prop_assert!(resolved.path.is_absolute());
            prop_assert!(resolved.path.components().all(|it| it != Component::ParentDir));
        }
    });
}

#[test]
fn a_link_to_nothing_leads_to_where_it_would_be_created() {
    let tree = Tree::new("nothing");
    let resolved = resolve(&tree.0, Path::new("a/gone/x")).expect("resolves");
    assert_eq!(resolved.path, tree.0.join("d/new/x"));
    assert_eq!(resolved.missing, 2);
}

#[test]
fn links_at_the_end_are_remembered() {
    let tree = Tree::new("end");
    let resolved = resolve(&tree.0, Path::new("n")).expect("resolves");
    assert_eq!(resolved.links, [tree.0.join("n")]);
    assert!(resolve(&tree.0, Path::new("l/c")).expect("resolves").links.is_empty());
}

#[test]
fn tidying_takes_back_names_and_nothing_else() {
    for (path, tidy) in [
        ("a/../b", Some("b")),
        ("/a/../../b", Some("/b")),
        ("../a/../..", Some("../..")),
        ("a/..", Some(".")),
        ("a/b", None),
    ] {
        assert_eq!(tidied(Path::new(path)), tidy.map(PathBuf::from), "{path}");
    }
}
