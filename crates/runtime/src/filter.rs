//! Turns the policy's system call names into filter rules: what is dangerous is blocked and watched, a few
//! calls are judged by their arguments, the rest passes.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_policy::{
    Policy,
    schema::{Level, SyscallMode, UnixSockets},
    syscalls::{ALWAYS_BLOCKED, STARTUP, expand},
};
use lazaret_sandbox::linux::{
    bpf::{Action, Case, Filter, Rule, Test},
    syscalls::{self, TABLE, number},
};

/// What the filter has to know beyond the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// Network sockets can be made: the sandbox has a network namespace of its own, or may use the host's.
    pub network_sockets: bool,
    /// They are those of a namespace of its own.
    pub own_network: bool,
    /// Names are guarded: every call that can create, open, move or remove a name is watched.
    pub guards: bool,
    /// Names are protected: every call that can write, create, move or remove is watched.
    pub protects: bool,
    /// Which unix sockets can be made.
    pub unix_sockets: UnixSockets,
    /// Denied paths lie inside the view: opening to read and removing are watched too, so that it can be
    /// told when something tries them.
    pub masks: bool,
    /// The caller's own terminal is passed on: it must not become the command's controlling terminal.
    pub callers_terminal: bool,
}

const CLONE_NAMESPACE_FLAGS: [u32; 7] = [
    0x0002_0000, // CLONE_NEWNS
    0x0200_0000, // CLONE_NEWCGROUP
    0x0400_0000, // CLONE_NEWUTS
    0x0800_0000, // CLONE_NEWIPC
    0x1000_0000, // CLONE_NEWUSER
    0x2000_0000, // CLONE_NEWPID
    0x4000_0000, // CLONE_NEWNET
];
const CLONE_THREAD: u32 = 0x0001_0000;
const PROT_EXEC: u32 = 4;
const O_CREAT: u32 = 0o100;
const O_TRUNC: u32 = 0o1000;
const O_TMPFILE: u32 = 0o20_000_000;
const EPERM: u16 = 1;
const ENOSYS: u16 = 38;
const EOPNOTSUPP: u16 = 95;
/// Terminal requests that type, or rewire the terminal, for somebody else.
const TERMINAL_REQUESTS: [u32; 4] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x541d, // TIOCCONS
    0x5423, // TIOCSETD
];
const TIOCSCTTY: u32 = 0x540e;
/// setuid and setgid. (Group execution can be added later by an access list, so setgid alone counts.)
const PRIVILEGED_MODES: [u32; 2] = [0o4000, 0o2000];
/// Calls that can bring a name into being, apart from `open`.
const CREATING: [&str; 11] = [
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
];
/// Calls that take a name or its content away.
const REMOVING: [&str; 4] = ["unlink", "unlinkat", "rmdir", "truncate"];
/// Calls that make memory which outlives its mappings.
const UNCOUNTED_MEMORY: [&str; 3] = ["memfd_create", "shmget", "msgget"];
const SOL_SOCKET: u32 = 1;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
const SOCK_RAW: u32 = 3;
const IPPROTO_ICMP: u32 = 1;
const IPPROTO_ICMPV6: u32 = 58;
const MSG_FASTOPEN: u32 = 0x2000_0000;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

/// The calls that are blocked whatever their arguments: dangerous, or by the policy's own list.
pub fn blocked(policy: &Policy) -> BTreeSet<u32> {
    let listed: BTreeSet<&str> =
        policy.syscalls.syscalls.iter().filter_map(|name| expand(name)).flatten().collect();
    let always = ALWAYS_BLOCKED.iter().copied().filter(|_| policy.isolation_level >= Level::Process);
    let by_list: Vec<&str> = match policy.syscalls.mode {
        SyscallMode::Blacklist => listed.into_iter().collect(),
        SyscallMode::Whitelist => TABLE
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !listed.contains(name) && !STARTUP.contains(name))
            .collect(),
    };
    always.chain(by_list).filter_map(number).collect()
}

/// The kernel counts tasks; processes alone are counted by the supervisor, where they are limited tighter.
pub fn counts_processes(policy: &Policy) -> bool {
    matches!((policy.process.max_processes, policy.resources.max_threads), (Some(p), Some(t)) if p < t)
}

/// Compiles the rules of one policy.
pub fn build(policy: &Policy, circumstances: Circumstances) -> Filter {
    let mut rules: BTreeMap<u32, Rule> =
        TABLE.iter().map(|(_, nr)| (*nr, Rule::plain(*nr, Action::Allow))).collect();
    for nr in blocked(policy) {
        rules.insert(nr, Rule::plain(nr, Action::Notify));
    }
    let mut set = |name: &str, action: Action| {
        if let Some(nr) = number(name) {
            rules.insert(nr, Rule::plain(nr, action));
        }
    };
    // Their arguments lie in memory, where a filter cannot look; every caller has a way without them.
    set("clone3", Action::Errno(ENOSYS));
    set("openat2", Action::Errno(ENOSYS));
    if !policy.process.allow_fork {
        ["fork", "vfork"].iter().for_each(|name| set(name, Action::Notify));
    }
    if !policy.process.allow_exec {
        ["execve", "execveat"].iter().for_each(|name| set(name, Action::Notify));
    } else if !policy.process.allowed_executables.is_empty() {
        set("memfd_create", Action::Notify);
    }
    for (name, cases) in conditions(policy, circumstances) {
        if let Some(rule) = number(name).and_then(|nr| rules.get_mut(&nr))
            && rule.otherwise == Action::Allow
        {
            let deciding_default = cases.iter().position(|case| case.tests.is_empty());
            let mut cases = cases;
            if let Some(at) = deciding_default {
                rule.otherwise = cases.remove(at).action;
            }
            rule.cases = cases;
        }
    }
    for (name, own_line) in own_lines() {
        if let Some(rule) = number(name).and_then(|nr| rules.get_mut(&nr))
            && rule.otherwise != Action::Allow
        {
            rule.cases.push(own_line);
        }
    }
    let mut filter = Filter {
        rules: rules.into_values().collect(),
        unlisted: Action::Errno(ENOSYS),
        foreign: Action::Notify,
    };
    if counts_processes(policy) {
        count_processes(&mut filter);
    }
    filter
}

/// Until it executes, the command's process talks to the supervisor over this one descriptor.
fn own_lines() -> [(&'static str, Case); 2] {
    [("sendmsg", MSG_NOSIGNAL), ("recvmsg", MSG_CMSG_CLOEXEC)]
        .map(|(name, flags)| (name, case([Test::equals(0, 63), Test::equals(2, flags)], Action::Allow)))
}

/// What passes is seen by the supervisor as well, except for `unseen` calls. Nothing more passes than before:
/// who answers has to ask the filter as it was.
pub fn see_everything(filter: &mut Filter, unseen: impl Fn(&str) -> bool) {
    let seen = |action: &mut Action| {
        if *action == Action::Allow {
            *action = Action::Notify;
        }
    };
    for rule in &mut filter.rules {
        let name = syscalls::name(rule.number).unwrap_or_default();
        if name == "mmap" && rule.otherwise == Action::Allow {
            // Anonymous memory is none of anybody's business; code that is loaded from a file is.
            rule.cases.push(case([bits(2, PROT_EXEC)], Action::Notify));
        }
        if unseen(name) {
            continue;
        }
        rule.cases.iter_mut().for_each(|case| seen(&mut case.action));
        seen(&mut rule.otherwise);
        if let Some((_, own_line)) = own_lines().into_iter().find(|(call, _)| *call == name) {
            // Nobody answers yet when it is used.
            rule.cases.insert(0, own_line);
        }
    }
}

/// Where memory is only sampled: what belongs to no process could not be counted.
pub fn close_uncounted_memory(filter: &mut Filter) {
    for rule in &mut filter.rules {
        if UNCOUNTED_MEMORY.iter().any(|name| number(name) == Some(rule.number)) {
            *rule = Rule::plain(rule.number, Action::Notify);
        }
        if number("setsockopt") == Some(rule.number) && rule.otherwise == Action::Allow {
            // Buffers are nobody's memory: they keep their usual size. Nobody is told, as the kernel does it.
            for option in [SO_SNDBUF, SO_RCVBUF] {
                rule.cases
                    .push(case([Test::equals(1, SOL_SOCKET), Test::equals(2, option)], Action::Errno(0)));
            }
        }
    }
}

/// Every new process waits for the supervisor, who counts.
pub fn count_processes(filter: &mut Filter) {
    let not_a_thread = Test { argument: 0, mask: CLONE_THREAD, value: 0 };
    for rule in filter.rules.iter_mut().filter(|rule| rule.otherwise == Action::Allow) {
        if number("clone") == Some(rule.number) {
            rule.cases.push(case([not_a_thread], Action::Notify));
        } else if ["fork", "vfork"].iter().any(|name| number(name) == Some(rule.number)) {
            rule.otherwise = Action::Notify;
        }
    }
}

/// Where the size of host paths is only measured: space that is taken without writing could not be followed.
/// C libraries write zeros instead.
pub fn close_unwritten_space(filter: &mut Filter) {
    for rule in filter.rules.iter_mut().filter(|rule| rule.otherwise == Action::Allow) {
        if number("fallocate") == Some(rule.number) {
            rule.otherwise = Action::Errno(EOPNOTSUPP);
        }
    }
}

fn case<const N: usize>(tests: [Test; N], action: Action) -> Case {
    Case { tests: tests.to_vec(), action }
}

fn bits(argument: u8, bits: u32) -> Test {
    Test { argument, mask: bits, value: bits }
}

/// What everything else comes to: a case without tests.
fn otherwise(action: Action) -> Case {
    Case { tests: Vec::new(), action }
}

/// Calls that are judged by their arguments.
fn conditions(policy: &Policy, circumstances: Circumstances) -> Vec<(&'static str, Vec<Case>)> {
    let mut conditions = Vec::new();
    let mut clone: Vec<Case> =
        CLONE_NAMESPACE_FLAGS.iter().map(|flag| case([bits(0, *flag)], Action::Notify)).collect();
    if !policy.process.allow_fork {
        let not_a_thread = Test { argument: 0, mask: CLONE_THREAD, value: 0 };
        clone.push(case([not_a_thread], Action::Notify));
    }
    conditions.push(("clone", clone));
    if !policy.resources.allowed_cpus.is_empty() {
        conditions.push(("sched_setaffinity", vec![otherwise(Action::Errno(EPERM))]));
    }
    let requests =
        TERMINAL_REQUESTS.iter().copied().chain(circumstances.callers_terminal.then_some(TIOCSCTTY));
    conditions
        .push(("ioctl", requests.map(|request| case([Test::equals(1, request)], Action::Notify)).collect()));
    conditions.push(("socket", sockets(circumstances)));
    let pairs = unix_sockets(UnixSockets::Own.max(circumstances.unix_sockets));
    conditions.push(("socketpair", pairs.into_iter().chain([otherwise(Action::Notify)]).collect()));
    let modes = |argument: u8| -> Vec<Case> {
        PRIVILEGED_MODES.iter().map(|mode| case([bits(argument, *mode)], Action::Notify)).collect()
    };
    for (name, argument) in [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)] {
        conditions.push((name, modes(argument)));
    }
    for (name, argument) in [("creat", 1), ("mknod", 1), ("mknodat", 2)] {
        let mut cases = modes(argument);
        cases.push(otherwise(Action::Notify));
        conditions.push((name, cases));
    }
    conditions.push(("open", opening(1, 2, circumstances)));
    conditions.push(("openat", opening(2, 3, circumstances)));
    // Rare enough to be looked at: what a read-only place refuses can then be told.
    for name in REMOVING.iter().chain(CREATING.iter().filter(|name| !name.starts_with("mknod"))) {
        conditions.push((name, vec![otherwise(Action::Notify)]));
    }
    // Not READ_IMPLIES_EXEC and its kin.
    let personalities = [0, 8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX];
    let mut personality: Vec<Case> =
        personalities.iter().map(|value| case([Test::equals(0, *value)], Action::Allow)).collect();
    personality.push(otherwise(Action::Notify));
    conditions.push(("personality", personality));
    // A connection that begins with its first data would pass by `connect`.
    for (name, argument) in [("sendmsg", 2), ("sendmmsg", 3)] {
        conditions.push((name, vec![case([bits(argument, MSG_FASTOPEN)], Action::Notify)]));
    }
    let mut sendto = vec![case([bits(3, MSG_FASTOPEN)], Action::Notify)];
    if circumstances.own_network {
        // A datagram to somebody who was not connected to: it shall fail at once if it would lead out. (What
        // gets by, in memory where a filter cannot look, leads nowhere all the same.)
        sendto.extend([case([Test::equals(4, 0)], Action::Allow), otherwise(Action::Notify)]);
    }
    conditions.push(("sendto", sendto));
    // Sockets of the host may lie in visible directories.
    conditions.push(("connect", vec![otherwise(Action::Notify)]));
    if !policy.process.allowed_executables.is_empty() {
        conditions.push(("execve", vec![otherwise(Action::Notify)]));
        conditions.push(("execveat", vec![otherwise(Action::Notify)]));
    }
    if circumstances.own_network && policy.network.publish_listening {
        conditions.push(("listen", vec![otherwise(Action::Notify)]));
    }
    if circumstances.guards || circumstances.protects {
        conditions.push(("bind", vec![otherwise(Action::Notify)]));
    }
    conditions
}

/// Opening for writing is watched: what a read-only or hidden place refuses can then be told. The kernel,
/// not the supervisor, refuses it.
fn opening(flags: u8, mode: u8, circumstances: Circumstances) -> Vec<Case> {
    if circumstances.masks || circumstances.guards {
        return vec![otherwise(Action::Notify)];
    }
    let mut cases = Vec::new();
    for creating in [O_CREAT, O_TMPFILE] {
        for privileged in PRIVILEGED_MODES {
            cases.push(case([bits(flags, creating), bits(mode, privileged)], Action::Notify));
        }
    }
    cases.push(case([bits(flags, O_CREAT)], Action::Notify));
    cases.push(case([bits(flags, O_TRUNC)], Action::Notify));
    for access in [1, 2] {
        cases.push(case([Test { argument: flags, mask: 3, value: access }], Action::Notify));
    }
    cases
}

/// Streams only: from a datagram socket (which a raw one becomes) anything can be sent to any address without
/// connecting.
fn unix_sockets(which: UnixSockets) -> Vec<Case> {
    let kinds: &[u32] = match which {
        UnixSockets::None => &[],
        UnixSockets::Own => &[SOCK_STREAM, SOCK_SEQPACKET],
        // Who may connect to any may send to any.
        UnixSockets::All => &[SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM],
    };
    kinds
        .iter()
        .map(|kind| {
            case([Test::equals(0, AF_UNIX), Test { argument: 1, mask: 0xf, value: *kind }], Action::Allow)
        })
        .collect()
}

fn sockets(circumstances: Circumstances) -> Vec<Case> {
    let type_is = |kind| Test { argument: 1, mask: 0xf, value: kind };
    let mut cases = unix_sockets(circumstances.unix_sockets);
    if circumstances.network_sockets {
        for domain in [AF_INET, AF_INET6] {
            cases.push(case([Test::equals(0, domain), type_is(SOCK_RAW)], Action::Notify));
            for protocol in [IPPROTO_ICMP, IPPROTO_ICMPV6] {
                cases.push(case([Test::equals(0, domain), Test::equals(2, protocol)], Action::Notify));
            }
            cases.push(case([Test::equals(0, domain)], Action::Allow));
        }
    }
    cases.push(otherwise(Action::Notify));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Circumstances = Circumstances {
        network_sockets: true,
        own_network: true,
        guards: false,
        protects: false,
        unix_sockets: UnixSockets::Own,
        masks: false,
        callers_terminal: false,
    };

    fn rule(filter: &Filter, name: &str) -> Rule {
        filter.rules.iter().find(|rule| Some(rule.number) == number(name)).unwrap().clone()
    }

    #[test]
    fn the_rfcs_dangerous_calls_are_blocked_whatever_the_policy_lists() {
        let mut policy = Policy::default();
        policy.syscalls.mode = SyscallMode::Whitelist;
        policy.syscalls.syscalls = ALWAYS_BLOCKED.iter().map(|s| (*s).to_owned()).collect();
        for policy in [Policy::default(), policy] {
            let filter = build(&policy, PLAIN);
            for name in ALWAYS_BLOCKED.iter().filter(|name| number(name).is_some()) {
                assert_eq!(rule(&filter, name).otherwise, Action::Notify, "{name}");
            }
        }
    }

    #[test]
    fn a_whitelist_blocks_what_it_does_not_name() {
        let mut policy = Policy::default();
        policy.syscalls.mode = SyscallMode::Whitelist;
        policy.syscalls.syscalls = vec!["read".to_owned(), "write".to_owned()];
        let filter = build(&policy, PLAIN);
        assert_eq!(rule(&filter, "socket").otherwise, Action::Notify);
        assert!(rule(&filter, "socket").cases.is_empty());
        assert_eq!(rule(&filter, "writev").otherwise, Action::Allow);
        assert_eq!(rule(&filter, "sendmsg").cases.len(), 1);
    }

    #[test]
    fn who_sees_everything_lets_nothing_more_pass() {
        for guards in [false, true] {
            let plain = build(&Policy::default(), Circumstances { guards, ..PLAIN });
            let mut watched = plain.clone();
            see_everything(&mut watched, |name| name == "read");
            assert_eq!((watched.unlisted, watched.foreign), (plain.unlisted, plain.foreign));
            let (own_line, flags) = (63, u64::from(MSG_NOSIGNAL));
            for (before, after) in plain.rules.iter().zip(&watched.rules) {
                for args in [[0; 6], [1; 6], [u64::MAX; 6], [0, 0, 4, 0, 0, 0], [own_line, 0, flags, 0, 0, 0]]
                {
                    let (before, after) = (before.action(&args), after.action(&args));
                    let stricter = before == Action::Allow && after == Action::Notify;
                    assert!(before == after || stricter, "{before:?} became {after:?}");
                }
            }
            assert_eq!(rule(&watched, "read").otherwise, Action::Allow);
            assert_eq!(rule(&watched, "getcwd").otherwise, Action::Notify);
            // The command's process reports before anybody answers.
            assert_eq!(rule(&watched, "sendmsg").action(&[own_line, 0, flags, 0, 0, 0]), Action::Allow);
        }
    }

    #[test]
    fn guards_watch_every_call_that_creates_a_name() {
        let filter = build(&Policy::default(), Circumstances { guards: true, ..PLAIN });
        for name in CREATING.iter().chain(&["bind", "creat"]).filter(|name| number(name).is_some()) {
            assert_eq!(rule(&filter, name).otherwise, Action::Notify, "{name}");
        }
        assert_eq!(rule(&build(&Policy::default(), PLAIN), "bind").otherwise, Action::Allow);
    }
}
