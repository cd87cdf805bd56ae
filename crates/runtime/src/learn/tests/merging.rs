//! One policy widened by another run.

use std::path::PathBuf;

use lazaret_policy::{
    Policy,
    schema::{EnvironmentPolicy, Level, SyscallMode},
    units::{Bytes, Millis},
};

use super::{files, ground};
use crate::learn::{
    draft::{Draft, draft},
    findings::{Deed, Findings},
    merge::{MergeError, merge},
};

fn learnt(findings: &Findings) -> Draft {
    draft(findings, &ground(), EnvironmentPolicy::default())
}

#[test]
fn either_run_is_allowed_afterwards() {
    let mut first = files(Deed::Read, &["/home/me/a"]);
    first.hosts.insert(("one.example.com".to_owned(), Some(443)), 1);
    first.amounts.memory_bytes = 1 << 30;
    first.call("getcwd", String::new);
    let mut second = files(Deed::Read, &["/home/me/b"]);
    second.forks = 1;
    let old = learnt(&first).policy;
    let mut new = learnt(&second);
    merge(&mut new, &old, "old.toml").unwrap();
    let policy = &new.policy;
    for path in ["~/a", "~/b"] {
        assert!(policy.filesystem.read_only_paths.contains(&PathBuf::from(path)));
    }
    assert!(policy.process.allow_fork && policy.network.allow_network);
    assert_eq!(policy.network.allowed_hosts, ["one.example.com:443"]);
    assert_eq!(policy.resources.max_memory, Some(Bytes(2 << 30)));
    assert!(policy.syscalls.syscalls.contains(&"getcwd".to_owned()) && policy.syscalls.syscalls.is_sorted());
}

#[test]
fn merging_with_itself_changes_nothing() {
    let mut findings = files(Deed::Execute, &["/usr/bin/sh", "/usr/bin/cat"]);
    findings.executions = 2;
    let old = learnt(&findings).policy;
    let mut again = learnt(&findings);
    merge(&mut again, &old, "old.toml").unwrap();
    assert_eq!(again.policy, old);
}

#[test]
fn what_becomes_writable_is_no_longer_read_only() {
    let old = learnt(&files(Deed::Read, &["/home/me/code/project/a"])).policy;
    let mut new = learnt(&files(Deed::Write, &["/home/me/code/project/a"]));
    merge(&mut new, &old, "old.toml").unwrap();
    assert!(new.policy.filesystem.read_only_paths.is_empty());
    assert_eq!(new.policy.filesystem.read_write_paths, [PathBuf::from("./a")]);
}

#[test]
fn no_limit_is_the_widest_limit() {
    let mut old = learnt(&Findings::default()).policy;
    old.timeout = None;
    old.resources.max_cpu = Some(Millis(3_600_000));
    let mut new = learnt(&Findings::default());
    merge(&mut new, &old, "old.toml").unwrap();
    assert_eq!(new.policy.timeout, None);
    assert_eq!(new.policy.resources.max_cpu, Some(Millis(3_600_000)));
}

#[test]
fn a_policy_without_a_list_of_programs_opens_the_other_one() {
    let mut listed = files(Deed::Execute, &["/usr/bin/sh", "/usr/bin/cat"]);
    listed.executions = 2;
    let alone = files(Deed::Execute, &["/usr/bin/true"]);
    // Known from the run.
    let mut new = learnt(&alone);
    merge(&mut new, &learnt(&listed).policy, "old.toml").unwrap();
    assert_eq!(new.policy.process.allowed_executables.len(), 3);
    // Not known from the file.
    let mut new = learnt(&listed);
    merge(&mut new, &learnt(&alone).policy, "old.toml").unwrap();
    assert!(new.policy.process.allow_exec && new.policy.process.allowed_executables.is_empty());
    assert!(new.remarks.iter().any(|remark| remark.contains("old.toml")));
}

#[test]
fn what_is_not_learnt_is_not_lost_in_silence() {
    let learnable = || learnt(&Findings::default()).policy;
    let refused = |change: fn(&mut Policy)| {
        let mut old = learnable();
        change(&mut old);
        merge(&mut learnt(&Findings::default()), &old, "old.toml").unwrap_err()
    };
    assert_eq!(refused(|old| old.isolation_level = Level::Process), MergeError::Level(1));
    assert_eq!(refused(|old| old.syscalls.mode = SyscallMode::Blacklist), MergeError::Blacklist);
    let unlearnable: [fn(&mut Policy); 4] = [
        |old| old.max_violations = Some(1),
        |old| old.filesystem.honeypot_paths = vec!["/bait".into()],
        |old| old.network.denied_domains = vec!["*".into()],
        |old| old.network.allow_network = true,
    ];
    for change in unlearnable {
        assert!(matches!(refused(change), MergeError::Unlearnable(_)));
    }
}
