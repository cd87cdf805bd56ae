//! Which system calls name paths, where in their arguments, and what they do there.

use super::findings::Deed;
use crate::watch::links::Last;

const O_ACCMODE: u64 = 3;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_NOFOLLOW: u64 = 0o400_000;
const O_TMPFILE: u64 = 0o20_000_000;
const O_PATH: u64 = 0o10_000_000;
const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_SYMLINK_FOLLOW: u64 = 0x400;

/// What a call does to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Only to what exists.
    Do(Deed),
    /// Opens to read: a file is read, a directory only touched.
    Open,
    /// The name is made unless it is there, and written if it is.
    MakeOrWrite,
    /// The name is made if it is not there.
    Make,
    /// The name vanishes, or comes to mean something else.
    Change,
}

/// One name in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act {
    pub directory: i32,
    /// Where the name is in the caller's memory.
    pub name: u64,
    pub effect: Effect,
    pub last: Last,
}

fn act(directory: i32, name: u64, effect: Effect, last: Last) -> Option<Act> {
    Some(Act { directory, name, effect, last })
}

fn opening(directory: i32, name: u64, flags: u64) -> Option<Act> {
    let last = if flags & O_NOFOLLOW != 0 { Last::Keep } else { Last::Follow };
    let effect = if flags & O_PATH != 0 {
        Effect::Do(Deed::Touch)
    } else if flags & O_TMPFILE == O_TMPFILE {
        Effect::Do(Deed::Rename)
    } else if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
        Effect::Make
    } else if flags & O_CREAT != 0 {
        Effect::MakeOrWrite
    } else if flags & (O_ACCMODE | O_TRUNC) != 0 {
        Effect::Do(Deed::Write)
    } else {
        Effect::Open
    };
    act(directory, name, effect, last)
}

/// The names in a call, at most two.
pub fn of(call: &str, args: &[u64; 6]) -> [Option<Act>; 2] {
    use Deed::{Execute, Touch, Write};
    use Effect::{Change, Do, Make};
    use Last::{Follow, Keep};
    let [a, b, c, d, e, _] = *args;
    let (at, second_at) = (a as i32, c as i32);
    let unless = |flags: u64, bit: u64| if flags & bit != 0 { Keep } else { Follow };
    let one = match call {
        "open" => opening(AT_FDCWD, a, b),
        "openat" => opening(at, b, c),
        "creat" => act(AT_FDCWD, a, Effect::MakeOrWrite, Follow),
        "stat" | "access" | "chdir" | "statfs" | "getxattr" | "listxattr" => {
            act(AT_FDCWD, a, Do(Touch), Follow)
        }
        "inotify_add_watch" => act(AT_FDCWD, b, Do(Touch), Follow),
        "lstat" | "lgetxattr" | "llistxattr" => act(AT_FDCWD, a, Do(Touch), Keep),
        "readlink" => act(AT_FDCWD, a, Do(Deed::Follow), Keep),
        "readlinkat" => act(at, b, Do(Deed::Follow), Keep),
        "newfstatat" | "faccessat2" => act(at, b, Do(Touch), unless(d, AT_SYMLINK_NOFOLLOW)),
        "faccessat" => act(at, b, Do(Touch), Follow),
        "statx" => act(at, b, Do(Touch), unless(c, AT_SYMLINK_NOFOLLOW)),
        "execve" => act(AT_FDCWD, a, Do(Execute), Follow),
        "execveat" => act(at, b, Do(Execute), unless(e, AT_SYMLINK_NOFOLLOW)),
        "truncate" | "chmod" | "chown" | "utime" | "utimes" | "setxattr" | "removexattr" => {
            act(AT_FDCWD, a, Do(Write), Follow)
        }
        "lchown" | "lsetxattr" | "lremovexattr" => act(AT_FDCWD, a, Do(Write), Keep),
        "fchmodat" => act(at, b, Do(Write), Follow),
        "fchmodat2" | "utimensat" => act(at, b, Do(Write), unless(d, AT_SYMLINK_NOFOLLOW)),
        "fchownat" => act(at, b, Do(Write), unless(e, AT_SYMLINK_NOFOLLOW)),
        "futimesat" => act(at, b, Do(Write), Follow),
        "mkdir" | "mknod" => act(AT_FDCWD, a, Make, Keep),
        "mkdirat" | "mknodat" => act(at, b, Make, Keep),
        "symlink" => act(AT_FDCWD, b, Make, Keep),
        "symlinkat" => act(b as i32, c, Make, Keep),
        "unlink" | "rmdir" => act(AT_FDCWD, a, Change, Keep),
        "unlinkat" => act(at, b, Change, Keep),
        "link" => {
            return [act(AT_FDCWD, a, Do(Write), Keep), act(AT_FDCWD, b, Make, Keep)];
        }
        "linkat" => {
            let last = if e & AT_SYMLINK_FOLLOW != 0 { Follow } else { Keep };
            return [act(at, b, Do(Write), last), act(second_at, d, Make, Keep)];
        }
        "rename" => {
            return [act(AT_FDCWD, a, Change, Keep), act(AT_FDCWD, b, Change, Keep)];
        }
        "renameat" | "renameat2" => {
            return [act(at, b, Change, Keep), act(second_at, d, Change, Keep)];
        }
        _ => None,
    };
    [one, None]
}

/// What a call does to an open file: the descriptor.
pub fn of_descriptor(call: &str, args: &[u64; 6]) -> Option<(i32, Deed)> {
    let [a, b, ..] = *args;
    let deed = match call {
        "getdents" | "getdents64" => Deed::List,
        "fchmod" | "fchown" | "fsetxattr" | "fremovexattr" => Deed::Write,
        // Without a name: the open file itself.
        "utimensat" if b == 0 => Deed::Write,
        "fchdir" => Deed::Touch,
        _ => return None,
    };
    Some((a as i32, deed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_is_told_apart_by_its_flags() {
        let effect = |flags| of("openat", &[0, 0, flags, 0, 0, 0])[0].unwrap().effect;
        assert_eq!(effect(0), Effect::Open);
        assert_eq!(effect(O_PATH | 2), Effect::Do(Deed::Touch));
        assert_eq!(effect(1), Effect::Do(Deed::Write));
        assert_eq!(effect(O_TRUNC), Effect::Do(Deed::Write));
        assert_eq!(effect(O_CREAT | 1), Effect::MakeOrWrite);
        assert_eq!(effect(O_CREAT | O_EXCL | 1), Effect::Make);
        assert_eq!(effect(O_TMPFILE | 1), Effect::Do(Deed::Rename));
    }

    #[test]
    fn a_rename_changes_both_names() {
        let [from, to] = of("renameat2", &[5, 100, 6, 200, 0, 0]);
        assert_eq!(from, act(5, 100, Effect::Change, Last::Keep));
        assert_eq!(to, act(6, 200, Effect::Change, Last::Keep));
    }

    #[test]
    fn a_link_at_the_end_is_followed_unless_it_is_asked_for_itself() {
        let last = |call: &str, args| of(call, &args)[0].unwrap().last;
        assert_eq!(last("stat", [0; 6]), Last::Follow);
        assert_eq!(last("lstat", [0; 6]), Last::Keep);
        assert_eq!(last("statx", [0, 0, 0x100, 0, 0, 0]), Last::Keep);
        assert_eq!(last("newfstatat", [0, 0, 0, 0x100, 0, 0]), Last::Keep);
        assert_eq!(last("open", [0, O_NOFOLLOW, 0, 0, 0, 0]), Last::Keep);
    }

    #[test]
    fn every_call_with_a_name_is_known_to_the_policy() {
        for call in ["openat", "statx", "execveat", "renameat2", "fchmodat2", "inotify_add_watch"] {
            assert!(lazaret_policy::syscalls::family(call).is_some(), "{call}");
            assert!(of(call, &[0; 6])[0].is_some(), "{call}");
        }
    }
}
