//! The rules one by one, a race, and properties that hold for every path.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use proptest::prelude::*;
use rustix::fs::RenameFlags;

use super::*;

/// A tree with a root, something outside it, and links of every kind between them.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("lazaret-path-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        for directory in ["root/a/b", "root/secret/deep", "root/secretary", "outside"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        for file in ["root/a/file", "root/a/b/file", "root/secret/key", "root/secretary/key", "outside/key"] {
            fs::write(base.join(file), file).unwrap();
        }
        let base = base.canonicalize().unwrap();
        let root = base.join("root");
        symlink("../outside", root.join("out")).unwrap();
        symlink(base.join("outside"), root.join("absolute-out")).unwrap();
        symlink(root.join("a"), root.join("absolute-in")).unwrap();
        symlink("a/b", root.join("in")).unwrap();
        symlink("secret", root.join("to-secret")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("root", base.join("root-link")).unwrap();
        Tree(base)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn policy(&self, denied: &[&str]) -> FilesystemPolicy {
        FilesystemPolicy {
            root_path: Some(self.root()),
            denied_paths: denied.iter().map(|path| self.root().join(path)).collect(),
            ..FilesystemPolicy::default()
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn same_object(handle: &OwnedFd, path: &Path) -> bool {
    let (first, second) = (rustix::fs::fstat(handle).unwrap(), rustix::fs::stat(path).unwrap());
    (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
}

#[test]
fn a_path_inside_is_accepted_relative_absolute_and_untidy() {
    let tree = Tree::new("inside");
    let policy = tree.policy(&[]);
    let file = tree.root().join("a/file");
    for path in [Path::new("a/file"), Path::new("./a//./file"), &file] {
        let valid = validate(path, &policy).unwrap();
        assert_eq!((&valid.canonical, &valid.object), (&file, &Object::Existing));
        assert!(same_object(&valid.handle, &file));
    }
    for path in [Path::new("."), &tree.root()] {
        assert_eq!(validate(path, &policy).unwrap().canonical, tree.root());
    }
}

#[test]
fn a_root_that_is_a_link_accepts_paths_by_both_its_names() {
    let tree = Tree::new("rootlink");
    let link = tree.0.join("root-link");
    let policy = FilesystemPolicy {
        root_path: Some(link.clone()),
        denied_paths: vec![link.join("secret")],
        ..FilesystemPolicy::default()
    };
    for path in [link.join("a/file"), tree.root().join("a/file")] {
        assert_eq!(validate(&path, &policy).unwrap().canonical, tree.root().join("a/file"));
    }
    for path in [link.join("secret/key"), tree.root().join("secret/key")] {
        assert!(matches!(validate(&path, &policy), Err(PathRefusal::Denied { .. })));
    }
}

#[test]
fn what_cannot_be_a_path_is_refused() {
    let tree = Tree::new("nopath");
    let policy = tree.policy(&[]);
    assert!(matches!(validate(Path::new(""), &policy), Err(PathRefusal::Empty)));
    assert!(matches!(validate(Path::new("a\0b"), &policy), Err(PathRefusal::Nul)));
    for path in ["n".repeat(256), "d/".repeat(2048)] {
        assert!(matches!(validate(Path::new(&path), &policy), Err(PathRefusal::TooLong)));
    }
}

#[test]
fn any_parent_component_is_refused_as_traversal() {
    let tree = Tree::new("traversal");
    let policy = tree.policy(&[]);
    for path in ["..", "../outside/key", "a/../a/file", "a/..", "/../etc/passwd"] {
        assert!(matches!(validate(Path::new(path), &policy), Err(PathRefusal::Traversal { .. })), "{path}");
    }
    assert!(matches!(
        validate(&tree.root().join("../outside/key"), &policy),
        Err(PathRefusal::Traversal { .. })
    ));
}

#[test]
fn an_absolute_path_outside_is_refused_also_when_only_its_text_begins_like_the_root() {
    let tree = Tree::new("outside");
    let policy = tree.policy(&[]);
    for path in
        [PathBuf::from("/etc/passwd"), tree.0.join("outside/key"), tree.0.join("rootling"), "/".into()]
    {
        assert!(matches!(validate(&path, &policy), Err(PathRefusal::OutsideRoot { .. })), "{path:?}");
    }
}

#[test]
fn a_denied_path_covers_what_is_below_it_and_not_its_neighbours() {
    let tree = Tree::new("denied");
    let policy = tree.policy(&["secret"]);
    for path in ["secret", "secret/", "./secret//key", "secret/not-yet", "to-secret", "to-secret/key"] {
        let refusal = validate(Path::new(path), &policy).unwrap_err();
        assert!(matches!(refusal, PathRefusal::Denied { .. }), "{path}: {refusal}");
    }
    assert!(validate(Path::new("secretary/key"), &policy).is_ok());
    assert!(validate(Path::new("a/file"), &policy).is_ok());
}

#[test]
fn denying_a_link_denies_what_it_leads_to() {
    let tree = Tree::new("deniedlink");
    let policy = tree.policy(&["to-secret/deep", "not/yet/there"]);
    assert!(matches!(validate(Path::new("secret/deep"), &policy), Err(PathRefusal::Denied { .. })));
    assert!(validate(Path::new("secret/key"), &policy).is_ok());
    assert!(matches!(validate(Path::new("not/yet/there/x"), &policy), Err(PathRefusal::Denied { .. })));
}

#[test]
fn a_denied_path_that_is_not_absolute_refuses_everything() {
    let tree = Tree::new("relativerule");
    for rule in ["~/.ssh", "./x", "/a/../b"] {
        let policy = FilesystemPolicy { denied_paths: vec![rule.into()], ..tree.policy(&[]) };
        assert!(matches!(validate(Path::new("a"), &policy), Err(PathRefusal::RelativeRule { .. })), "{rule}");
    }
}

#[test]
fn links_are_followed_inside_and_refused_when_they_leave() {
    let tree = Tree::new("links");
    let policy = tree.policy(&[]);
    assert_eq!(validate(Path::new("in/file"), &policy).unwrap().canonical, tree.root().join("a/b/file"));
    for path in ["out", "out/key", "out/new", "absolute-out/key", "absolute-in/file", "magic/etc/passwd"] {
        let refusal = validate(Path::new(path), &policy).unwrap_err();
        assert!(matches!(refusal, PathRefusal::LeavesRoot { .. }), "{path}: {refusal}");
    }
    assert!(matches!(validate(Path::new("loop"), &policy), Err(PathRefusal::Loop { .. })));
}

#[test]
fn magic_links_of_proc_are_refused() {
    let policy = FilesystemPolicy { root_path: Some("/proc".into()), ..FilesystemPolicy::default() };
    let own = format!("{}/root", std::process::id());
    assert!(matches!(validate(Path::new(&own), &policy), Err(PathRefusal::Loop { .. })));
}

#[test]
fn a_file_that_does_not_exist_yet_is_answered_with_its_directory() {
    let tree = Tree::new("notyet");
    let policy = tree.policy(&[]);
    let valid = validate(Path::new("in/new"), &policy).unwrap();
    assert_eq!(valid.canonical, tree.root().join("a/b/new"));
    assert_eq!(valid.object, Object::NotYet("new".into()));
    assert!(same_object(&valid.handle, &tree.root().join("a/b")));
    assert!(matches!(validate(Path::new("no/such/dir"), &policy), Err(PathRefusal::NoParent { .. })));
    assert!(matches!(validate(Path::new("dangling"), &policy), Err(PathRefusal::DanglingLink { .. })));
    assert!(matches!(validate(Path::new("a/file/x"), &policy), Err(PathRefusal::Unresolvable { .. })));
}

#[test]
fn without_a_usable_root_everything_is_refused() {
    let tree = Tree::new("noroot");
    let with = |root: Option<PathBuf>| FilesystemPolicy { root_path: root, ..FilesystemPolicy::default() };
    for root in [None, Some("relative".into()), Some("".into())] {
        assert!(matches!(validate(Path::new("a"), &with(root)), Err(PathRefusal::NoRoot)));
    }
    for root in [tree.0.join("missing"), tree.root().join("a/file")] {
        let refusal = validate(Path::new("a"), &with(Some(root))).unwrap_err();
        assert!(matches!(refusal, PathRefusal::RootUnavailable { .. }), "{refusal}");
    }
}

#[test]
fn swapping_a_directory_and_a_link_to_outside_never_yields_a_handle_outside() {
    let tree = Tree::new("race");
    let policy = tree.policy(&[]);
    let root = tree.root();
    fs::create_dir(root.join("swap")).unwrap();
    fs::write(root.join("swap/key"), "inside").unwrap();
    symlink("../outside", root.join("other")).unwrap();
    let outside = tree.0.join("outside/key");
    let done = AtomicBool::new(false);
    let (mut accepted, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut swaps = 0;
            while swaps < 2000 || !done.load(Ordering::Relaxed) {
                let (one, two) = (root.join("swap"), root.join("other"));
                rustix::fs::renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
        });
        for _ in 0..2000 {
            match validate(Path::new("swap/key"), &policy) {
                Ok(valid) => {
                    assert!(!same_object(&valid.handle, &outside));
                    assert!(valid.canonical.starts_with(&root), "{:?}", valid.canonical);
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(accepted > 0 && refused > 0, "no race took place: {accepted} accepted, {refused} refused");
}

/// Paths over the names of the tree, relative or below its root.
fn any_path(root: &Path) -> impl Strategy<Value = PathBuf> + use<> {
    let names =
        "a b file in out secret to-secret secretary key deep . .. new absolute-in dangling loop magic";
    let names = proptest::sample::select(names.split(' ').chain([""]).collect::<Vec<_>>());
    let root = root.to_owned();
    (proptest::collection::vec(names, 0..5), any::<bool>()).prop_map(move |(names, absolute)| {
        let text = names.join("/");
        if absolute { root.join(text) } else { PathBuf::from(text) }
    })
}

/// Policies that deny some places of the tree, in any order.
fn any_policy(tree: &Tree) -> impl Strategy<Value = FilesystemPolicy> + use<> {
    let rules = ["a", "a/b", "secret", "to-secret", "in", "secretary/key", "new", "a/new", "out"];
    let rules: Vec<PathBuf> = rules.iter().map(|rule| tree.root().join(rule)).collect();
    let policy = tree.policy(&[]);
    proptest::sample::subsequence(rules.clone(), 0..=rules.len())
        .prop_shuffle()
        .prop_map(move |denied_paths| FilesystemPolicy { denied_paths, ..policy.clone() })
}

fn outcome(path: &Path, policy: &FilesystemPolicy) -> Result<(PathBuf, Object), String> {
    validate(path, policy).map(|valid| (valid.canonical, valid.object)).map_err(|refusal| refusal.to_string())
}

#[test]
fn an_accepted_path_is_canonical_below_the_root_and_not_denied() {
    let tree = Tree::new("below");
    proptest!(|(path in any_path(&tree.root()), policy in any_policy(&tree))| {
        if let Ok(valid) = validate(&path, &policy) {
            prop_assert!(valid.canonical.starts_with(tree.root()));
            prop_assert!(!policy.denied_paths.iter().any(|rule| valid.canonical.starts_with(rule)));
            if valid.object == Object::Existing {
                prop_assert_eq!(valid.canonical.canonicalize().unwrap(), valid.canonical);
            }
        }
    });
}

#[test]
fn deny_wins_whatever_else_is_listed() {
    let tree = Tree::new("denywins");
    proptest!(|(path in any_path(&tree.root()), mut policy in any_policy(&tree))| {
        if let Ok(valid) = validate(&path, &policy) {
            policy.read_write_paths = vec![valid.canonical.clone(), tree.root()];
            policy.denied_paths.push(valid.canonical);
            let refused = matches!(validate(&path, &policy), Err(PathRefusal::Denied { .. }));
            prop_assert!(refused);
        }
    });
}

#[test]
fn the_order_of_the_rules_is_irrelevant() {
    let tree = Tree::new("order");
    proptest!(|(path in any_path(&tree.root()), mut policy in any_policy(&tree))| {
        let shuffled = outcome(&path, &policy);
        policy.denied_paths.sort();
        prop_assert_eq!(&outcome(&path, &policy), &shuffled);
        policy.denied_paths.reverse();
        prop_assert_eq!(&outcome(&path, &policy), &shuffled);
    });
}

#[test]
fn an_accepted_path_is_accepted_again_by_its_canonical_name() {
    let tree = Tree::new("again");
    let policy = tree.policy(&[]);
    proptest!(|(path in any_path(&tree.root()))| {
        if let Ok(valid) = validate(&path, &policy) {
            prop_assert_eq!(validate(&valid.canonical, &policy).unwrap().canonical, valid.canonical);
        }
    });
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(text in "[a-c./~ ]{0,24}") {
        if let Ok(once) = normalize(Path::new(&text)) {
            prop_assert_eq!(normalize(&once).unwrap(), once);
        }
    }
}
