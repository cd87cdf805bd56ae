//! System calls by name: which names exist, which calls a name in a policy stands for, and the sets that
//! no policy changes. Numbers and filters are the business of the sandbox.

mod known;
mod sets;

pub use known::KNOWN;
pub use sets::{ALWAYS_BLOCKED, STARTUP};

use crate::spelling;

/// A name in a policy stands for every way the kernel offers to do the same thing: C libraries choose
/// between them by version, and aarch64 never had the old ones. Names that are no calls at all (`wait`,
/// `send`) are here because people write them.
const FAMILIES: &[(&[&str], &[&str])] = &[
    // Files. `openat2` is not in the family: its flags are behind a pointer the filter cannot follow.
    (&["open"], &["open", "openat", "creat"]),
    (&["stat", "fstat", "lstat"], &["stat", "fstat", "lstat", "newfstatat", "statx"]),
    (&["fstatat"], &["newfstatat", "statx"]),
    (&["statfs"], &["statfs", "fstatfs"]),
    // Reading comes with the hint that one will; writing with the kernel's own copy from one file to another.
    (&["read"], &["read", "pread64", "readv", "preadv", "preadv2", "fadvise64"]),
    (&["write"], &["write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range"]),
    (&["pread"], &["pread64"]),
    (&["pwrite"], &["pwrite64"]),
    (&["preadv"], &["preadv", "preadv2"]),
    (&["pwritev"], &["pwritev", "pwritev2"]),
    (&["fadvise", "posix_fadvise"], &["fadvise64"]),
    (&["truncate"], &["truncate", "ftruncate"]),
    (&["access"], &["access", "faccessat", "faccessat2"]),
    (&["faccessat"], &["faccessat", "faccessat2"]),
    (&["rename"], &["rename", "renameat", "renameat2"]),
    (&["renameat"], &["renameat", "renameat2"]),
    (&["mkdir"], &["mkdir", "mkdirat"]),
    (&["rmdir"], &["rmdir", "unlinkat"]),
    (&["unlink"], &["unlink", "unlinkat"]),
    (&["link"], &["link", "linkat"]),
    (&["symlink"], &["symlink", "symlinkat"]),
    (&["readlink"], &["readlink", "readlinkat"]),
    (&["chmod"], &["chmod", "fchmod", "fchmodat", "fchmodat2"]),
    (&["fchmodat"], &["fchmodat", "fchmodat2"]),
    (&["chown"], &["chown", "fchown", "lchown", "fchownat"]),
    (&["lchown"], &["lchown", "fchownat"]),
    (&["mknod"], &["mknod", "mknodat"]),
    (&["getdents", "readdir"], &["getdents", "getdents64"]),
    (&["utime", "utimes"], &["utime", "utimes", "futimesat", "utimensat"]),
    (&["futimesat"], &["futimesat", "utimensat"]),
    (&["getxattr"], &["getxattr", "lgetxattr", "fgetxattr", "getxattrat"]),
    (&["setxattr"], &["setxattr", "lsetxattr", "fsetxattr", "setxattrat"]),
    (&["listxattr"], &["listxattr", "llistxattr", "flistxattr", "listxattrat"]),
    (&["removexattr"], &["removexattr", "lremovexattr", "fremovexattr", "removexattrat"]),
    (&["umount"], &["umount2"]),
    (&["quotactl"], &["quotactl", "quotactl_fd"]),
    (&["sysctl"], &["_sysctl"]),
    // Descriptors and waiting for them.
    (&["dup"], &["dup", "dup2", "dup3"]),
    (&["dup2"], &["dup2", "dup3"]),
    (&["pipe"], &["pipe", "pipe2"]),
    (&["poll"], &["poll", "ppoll"]),
    (&["select"], &["select", "pselect6"]),
    (&["pselect"], &["pselect6"]),
    (&["epoll_create"], &["epoll_create", "epoll_create1"]),
    (&["epoll_wait"], &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    (&["epoll_pwait"], &["epoll_pwait", "epoll_pwait2"]),
    (&["inotify_init"], &["inotify_init", "inotify_init1"]),
    (&["eventfd"], &["eventfd", "eventfd2"]),
    (&["signalfd"], &["signalfd", "signalfd4"]),
    (&["io_getevents"], &["io_getevents", "io_pgetevents"]),
    // Processes and signals.
    (&["fork"], &["fork", "vfork", "clone", "clone3"]),
    (&["vfork"], &["vfork", "clone", "clone3"]),
    (&["clone"], &["clone", "clone3"]),
    (&["execve", "exec"], &["execve", "execveat"]),
    (&["exit"], &["exit", "exit_group"]),
    (&["wait", "waitpid"], &["wait4", "waitid"]),
    (&["kill"], &["kill", "tkill", "tgkill"]),
    (&["getpgrp"], &["getpgrp", "getpgid"]),
    (&["signal"], &["rt_sigaction", "rt_sigprocmask", "rt_sigreturn"]),
    (&["sigaction"], &["rt_sigaction", "rt_sigreturn"]),
    (&["sigprocmask"], &["rt_sigprocmask"]),
    (&["sigreturn"], &["rt_sigreturn"]),
    (&["sigsuspend"], &["rt_sigsuspend"]),
    (&["sigpending"], &["rt_sigpending"]),
    (&["sigwait", "sigtimedwait"], &["rt_sigtimedwait"]),
    (&["sigqueue"], &["rt_sigqueueinfo", "rt_tgsigqueueinfo"]),
    (&["pause"], &["pause", "ppoll"]),
    (&["getrlimit"], &["getrlimit", "prlimit64"]),
    (&["setrlimit"], &["setrlimit", "prlimit64"]),
    (&["prlimit"], &["prlimit64"]),
    (&["futex"], &["futex", "futex_wait", "futex_wake", "futex_requeue", "futex_waitv"]),
    (&["mmap"], &["mmap", "mremap"]),
    // Time.
    (&["time"], &["time", "gettimeofday", "clock_gettime"]),
    (&["gettimeofday"], &["gettimeofday", "clock_gettime"]),
    (&["settimeofday"], &["settimeofday", "clock_settime"]),
    (&["nanosleep", "sleep"], &["nanosleep", "clock_nanosleep"]),
    (&["alarm"], &["alarm", "setitimer"]),
    // Sockets.
    (&["accept"], &["accept", "accept4"]),
    (&["send"], &["sendto", "sendmsg", "sendmmsg"]),
    (&["recv"], &["recvfrom", "recvmsg", "recvmmsg"]),
];

/// The calls that a name in a policy stands for; none when there is no such name. What is in no family
/// stands for itself.
pub fn expand(name: &str) -> Option<Vec<&'static str>> {
    if let Some((_, members)) = FAMILIES.iter().find(|(heads, _)| heads.contains(&name)) {
        return Some(members.to_vec());
    }
    let at = KNOWN.binary_search(&name).ok()?;
    KNOWN.get(at).map(|known| vec![*known])
}

/// The name that stands for a call together with the other ways to do the same: that of its largest family, or
/// its own. None when there is no such call.
pub fn family(call: &str) -> Option<&'static str> {
    let own = KNOWN.binary_search(&call).ok().and_then(|at| KNOWN.get(at)).copied()?;
    let families = FAMILIES.iter().filter(|(_, members)| members.contains(&own));
    // Of families of the same size the one whose name is in the call's own, else the first.
    let rank = |(heads, members): &&(&[&str], &[&str])| {
        (members.len(), heads.iter().any(|head| own.starts_with(head)))
    };
    let largest =
        families.fold(None, |best: Option<&(&'static [&'static str], &'static [&'static str])>, next| {
            match best {
                Some(best) if rank(&best) >= rank(&next) => Some(best),
                _ => Some(next),
            }
        });
    let heads = largest.map(|(heads, _)| *heads).unwrap_or_default();
    heads.iter().find(|head| own == **head).or(heads.first()).copied().or(Some(own))
}

/// The valid name that somebody who wrote `name` probably meant.
pub fn nearest(name: &str) -> Option<&'static str> {
    let heads = FAMILIES.iter().flat_map(|(heads, _)| heads.iter().copied());
    spelling::nearest(name, KNOWN.iter().copied().chain(heads))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_known_names_are_sorted_and_unique() {
        assert!(KNOWN.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_name_in_every_table_is_known() {
        let members = FAMILIES.iter().flat_map(|(_, members)| members.iter());
        for name in members.chain(STARTUP).chain(ALWAYS_BLOCKED) {
            assert!(KNOWN.contains(name), "{name}");
        }
    }

    #[test]
    fn no_family_name_and_no_set_entry_occurs_twice() {
        let heads: Vec<_> = FAMILIES.iter().flat_map(|(heads, _)| heads.iter()).collect();
        for list in [heads, STARTUP.iter().collect(), ALWAYS_BLOCKED.iter().collect()] {
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len());
        }
    }

    #[test]
    fn a_family_name_that_is_a_call_covers_itself() {
        for (heads, members) in FAMILIES {
            for head in heads.iter().filter(|head| KNOWN.contains(head)) {
                assert!(members.contains(head), "{head}");
            }
        }
    }

    #[test]
    fn a_name_stands_for_its_family() {
        assert_eq!(expand("open"), Some(vec!["open", "openat", "creat"]));
        assert_eq!(expand("umount"), Some(vec!["umount2"]));
        assert_eq!(expand("lstat"), expand("stat"));
        for name in ["wait", "send", "recv", "signal"] {
            assert!(expand(name).is_some_and(|calls| !calls.contains(&name)), "{name}");
        }
    }

    #[test]
    fn a_name_without_family_stands_for_itself_and_an_unknown_one_for_nothing() {
        assert_eq!(expand("openat2"), Some(vec!["openat2"]));
        assert_eq!(expand("getcwd"), Some(vec!["getcwd"]));
        assert_eq!(expand("opne"), None);
        assert_eq!(expand(""), None);
    }

    #[test]
    fn a_call_is_found_in_its_largest_family_and_its_name_covers_it() {
        for (call, name) in [
            ("pread64", "read"),
            ("unlinkat", "unlink"),
            ("vfork", "fork"),
            ("newfstatat", "stat"),
            ("lstat", "lstat"),
            ("wait4", "wait"),
            ("getcwd", "getcwd"),
        ] {
            assert_eq!(family(call), Some(name));
        }
        assert_eq!(family("opne"), None);
        for call in KNOWN {
            assert!(expand(family(call).unwrap()).unwrap().contains(call), "{call}");
        }
    }

    #[test]
    fn a_misspelt_call_finds_the_right_one() {
        assert_eq!(nearest("getpidd"), Some("getpid"));
        assert_eq!(nearest("exitgroup"), Some("exit_group"));
        assert_eq!(nearest("entirely_something_else"), None);
    }

    #[test]
    fn the_start_up_set_lets_nothing_through_that_is_always_blocked() {
        assert!(STARTUP.iter().all(|name| !ALWAYS_BLOCKED.contains(name)));
    }

    #[test]
    fn the_dangerous_calls_of_the_rfc_are_always_blocked() {
        let rfc = "ptrace kexec_load open_by_handle_at perf_event_open bpf userfaultfd io_uring_setup mount \
                   umount pivot_root chroot unshare setns";
        for name in rfc.split_whitespace() {
            for call in expand(name).unwrap() {
                assert!(ALWAYS_BLOCKED.contains(&call), "{call}");
            }
        }
    }
}
