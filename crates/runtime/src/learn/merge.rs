//! Widens one learnt policy by another run: what either needs is in it.

use std::path::{Path, PathBuf};

use lazaret_policy::{
    Policy,
    schema::{Level, ProcessPolicy, SyscallMode},
};

use super::draft::{Draft, List};

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MergeError {
    #[error("only a policy of level 2 can be merged with what is learnt: this one is of level {0}")]
    Level(u8),
    #[error(
        "its list of system calls says what is blocked (BLACKLIST), and what is learnt says what is allowed: \
         only a WHITELIST can be widened"
    )]
    Blacklist,
    #[error("it has {0}, which is not learnt and would be lost: add the new lines by hand")]
    Unlearnable(&'static str),
}

/// What is not learnt cannot be merged either: nothing of a policy may get lost in silence.
pub fn check(old: &Policy) -> Result<(), MergeError> {
    if old.isolation_level != Level::Full {
        return Err(MergeError::Level(old.isolation_level.number()));
    }
    if old.syscalls.mode != SyscallMode::Whitelist {
        return Err(MergeError::Blacklist);
    }
    let resources = &old.resources;
    let unlearnable = [
        (old.filesystem.root_path.is_some(), "filesystem.rootPath"),
        (!old.filesystem.honeypot_paths.is_empty(), "filesystem.honeypotPaths"),
        (old.filesystem.max_inodes.is_some(), "filesystem.maxInodes"),
        (old.network.allowed_domains.is_some(), "network.allowedDomains"),
        (!old.network.denied_domains.is_empty(), "network.deniedDomains"),
        (!old.network.allowed_ports.is_empty(), "network.allowedPorts"),
        (!old.network.publish.is_empty(), "network.publish"),
        (old.network.verify_server_name.is_some(), "network.verifyServerName"),
        (old.network.proxy_variables.is_some(), "network.proxyVariables"),
        (old.network.max_connections.is_some(), "network.maxConnections"),
        (old.network.max_dns_queries.is_some(), "network.maxDNSQueries"),
        (old.network.allow_network && old.network.allowed_hosts.is_empty(), "a network open to any host"),
        (resources.max_cpu_percent.is_some(), "resources.maxCPUPercent"),
        (!resources.allowed_cpus.is_empty(), "resources.allowedCPUs"),
        (resources.max_file_descriptors.is_some(), "resources.maxFileDescriptors"),
        (old.process.max_processes.is_some(), "process.maxProcesses"),
        (resources.max_io_bandwidth.is_some(), "resources.maxIOBandwidth"),
        (resources.max_iops.is_some(), "resources.maxIOPS"),
        (old.max_violations.is_some(), "maxViolations"),
        (old.on_escape.is_some(), "onEscape"),
        (old.escape_severity.is_some(), "escapeSeverity"),
    ];
    match unlearnable.into_iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(MergeError::Unlearnable(what)),
        None => Ok(()),
    }
}

/// `draft` allows what `old` does as well; `name` says where that comes from.
pub fn merge(draft: &mut Draft, old: &Policy, name: &str) -> Result<(), MergeError> {
    check(old)?;
    let from = format!("from {name}");
    let Draft { policy: new, reasons, suggestions, measured, programs, remarks } = draft;
    let mut note = |list: List, entry: &str| {
        suggestions.remove(&(list, entry.to_owned()));
        reasons.entry((list, entry.to_owned())).or_insert_with(|| from.clone());
    };
    let files = &mut new.filesystem;
    for (list, into, more) in [
        (List::ReadOnly, &mut files.read_only_paths, &old.filesystem.read_only_paths),
        (List::ReadWrite, &mut files.read_write_paths, &old.filesystem.read_write_paths),
    ] {
        for path in more {
            note(list, &path.to_string_lossy());
        }
        union(into, more);
    }
    // What is in a writable path needs no other line, and would be read-only with one.
    let (read_only, read_write) = (files.read_only_paths.clone(), files.read_write_paths.clone());
    files.read_write_paths.retain(|path| !is_below_another(path, &read_write));
    files.read_only_paths.retain(|path| {
        !read_write.iter().any(|above| path.starts_with(above)) && !is_below_another(path, &read_only)
    });
    union(&mut files.denied_paths, &old.filesystem.denied_paths);
    files.toolchains |= old.filesystem.toolchains;
    files.max_file_size = wider(files.max_file_size, old.filesystem.max_file_size);
    files.max_total_size = wider(files.max_total_size, old.filesystem.max_total_size);

    let (process, old_process) = (&mut new.process, &old.process);
    // A list that is not there allows every program, where any other program may be started. What a policy
    // without other programs was made for cannot be read from it.
    let open = |process: &ProcessPolicy| process.allow_exec && process.allowed_executables.is_empty();
    let mut unrestricted = open(process) || open(old_process);
    match (process.allow_exec, old_process.allow_exec) {
        (false, true) => union(&mut process.allowed_executables, programs),
        (true, false) => {
            unrestricted = true;
            remarks.push(format!(
                "programs are not restricted to a list: {name} does not say which program it was made for"
            ));
        }
        _ => {}
    }
    process.allow_fork |= old_process.allow_fork;
    process.allow_exec |= old_process.allow_exec;
    old_process.allowed_executables.iter().for_each(|path| note(List::Executables, &path.to_string_lossy()));
    union(&mut process.allowed_executables, &old_process.allowed_executables);
    if unrestricted {
        process.allowed_executables.clear();
    }

    let network = &mut new.network;
    network.allow_network |= old.network.allow_network;
    old.network.allowed_hosts.iter().for_each(|host| note(List::Hosts, host));
    union(&mut network.allowed_hosts, &old.network.allowed_hosts);
    union(&mut network.allowed_addresses, &old.network.allowed_addresses);
    for (host, pins) in &old.network.resolve {
        network.resolve.entry(host.clone()).or_insert_with(|| pins.clone());
    }
    new.resources.max_cpu = wider(new.resources.max_cpu, old.resources.max_cpu);
    new.resources.max_memory = wider(new.resources.max_memory, old.resources.max_memory);
    new.resources.max_threads = wider(new.resources.max_threads, old.resources.max_threads);
    new.timeout = wider(new.timeout, old.timeout);
    old.syscalls.syscalls.iter().for_each(|call| note(List::Syscalls, call));
    union(&mut new.syscalls.syscalls, &old.syscalls.syscalls);
    union(&mut new.environment.allow, &old.environment.allow);
    for (name, value) in &old.environment.set {
        new.environment.set.entry(name.clone()).or_insert_with(|| value.clone());
    }
    for figure in measured.values_mut() {
        figure.push_str(" in this run");
    }
    Ok(())
}

fn is_below_another(path: &Path, all: &[PathBuf]) -> bool {
    all.iter().any(|above| above != path && path.starts_with(above))
}

fn union<T: Ord + Clone>(into: &mut Vec<T>, more: &[T]) {
    into.extend(more.iter().cloned());
    into.sort();
    into.dedup();
}

/// No limit is the widest.
fn wider<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    Some(one?.max(other?))
}
