//! Where a symbolic link may lead: nowhere but into its own tree.

use std::path::{Component, Path};

/// Whether a link stays inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Inside,
    Outside,
}

/// Judges a link by its text: `directory` is where it is, below `root`.
///
/// The directories above the link are real ones, since the walk that found it goes through no link; so `..`
/// at the start of the target means what it says. After a name it does not: the name may be a link to a
/// directory further up, and `name/../..` then leaves the tree although the text seems to stay. Such a
/// target is outside, whatever it is.
pub fn reach(root: &Path, directory: &Path, target: &Path) -> Reach {
    let mut depth = directory.components().count();
    let below = if target.is_absolute() {
        match target.strip_prefix(root) {
            Ok(below) => below,
            Err(_) => return Reach::Outside,
        }
    } else {
        target
    };
    if target.is_absolute() {
        depth = 0;
    }
    let mut named = false;
    for component in below.components() {
        match component {
            Component::Normal(_) => named = true,
            Component::CurDir => {}
            Component::ParentDir if !named && depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Reach::Outside,
        }
    }
    Reach::Inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(directory: &str, target: &str) -> Reach {
        reach(Path::new("/base/tree"), Path::new(directory), Path::new(target))
    }

    #[test]
    fn a_link_into_the_tree_is_inside() {
        for (directory, target) in [
            ("", "a"),
            ("", "./a/b"),
            ("a/b", "../../c"),
            ("a", ".."),
            ("", "/base/tree"),
            ("a", "/base/tree/c/d"),
            ("", "a//b/"),
        ] {
            assert_eq!(judge(directory, target), Reach::Inside, "{directory} -> {target}");
        }
    }

    #[test]
    fn a_link_out_of_the_tree_or_through_another_link_is_outside() {
        for (directory, target) in [
            ("", "/etc/passwd"),
            ("", "/base"),
            ("", "/base/treehouse"),
            ("", "/base/tree/../x"),
            ("", "/base/tree/a/../../.."),
            ("", ".."),
            ("a", "../.."),
            ("a/b", "../../../c"),
            ("a/b", "c/../.."),
            ("a/b", "./../c/.."),
            ("", "/proc/self/root/etc"),
        ] {
            assert_eq!(judge(directory, target), Reach::Outside, "{directory} -> {target}");
        }
    }
}
