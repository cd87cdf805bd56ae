//! What a well-formed policy must also satisfy: paths that mean something, limits that are not zero,
//! fields that do not contradict each other. Every finding stands at the value it is about.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use super::{
    Fault,
    document::{Entry, Node},
};
use crate::{
    Policy,
    host::Cidr,
    network::{self, Entry as HostEntry, EntryFault, List},
    schema::{EnvironmentPolicy, FilesystemPolicy, NetworkPolicy, SyscallMode},
    syscalls,
};

/// Things that are allowed but probably not what was meant, each with its place.
pub(super) type Warnings = Vec<(usize, String)>;

/// The first fault in the order of the document, or the warnings.
pub(super) fn check(policy: &Policy, tree: &Node) -> Result<Warnings, Fault> {
    let mut findings = Findings { tree, faults: Vec::new(), warnings: Vec::new() };
    findings.filesystem(&policy.filesystem);
    findings.limits(policy);
    findings.process(policy);
    findings.network(&policy.network);
    findings.syscalls(policy);
    findings.environment(&policy.environment);
    match findings.faults.into_iter().min_by_key(|fault| fault.offset) {
        Some(first) => Err(first),
        None => {
            findings.warnings.sort();
            Ok(findings.warnings)
        }
    }
}

struct Findings<'a> {
    tree: &'a Node,
    faults: Vec<Fault>,
    warnings: Warnings,
}

impl Findings<'_> {
    fn fault(&mut self, path: &[&str], message: impl std::fmt::Display, hint: &str) {
        let offset = self.tree.offset_of(path);
        let keys: Vec<&str> = path.iter().copied().filter(|key| key.parse::<usize>().is_err()).collect();
        self.faults.push(Fault::at(offset, format!("{}: {message}", keys.join("."))).hint(hint));
    }

    /// Notes a warning, once for every text: a call listed a thousand times is one mistake.
    fn warn(&mut self, path: &[&str], message: String) {
        if !self.warnings.iter().any(|(_, noted)| *noted == message) {
            self.warnings.push((self.tree.offset_of(path), message));
        }
    }

    /// Calls `judge` for every element of a list up to the first fault, with its path in the document.
    fn each<T>(&mut self, section: &str, key: &str, list: &[T], judge: impl Fn(&mut Self, &[&str], &T)) {
        let before = self.faults.len();
        for (number, item) in list.iter().enumerate() {
            judge(self, &[section, key, &number.to_string()], item);
            // The rest of the list comes later in the document, and a hostile list is long.
            if self.faults.len() > before {
                return;
            }
        }
    }

    fn filesystem(&mut self, filesystem: &FilesystemPolicy) {
        if let Some(root) = &filesystem.root_path {
            let at = ["filesystem", "rootPath"];
            if self.path_is_sane(&at, root) && !root.is_absolute() {
                self.fault(
                    &at,
                    format!("`{}` is not absolute", root.display()),
                    "write the root from `/` on, it may not depend on where the command is started",
                );
            }
        }
        for (key, list) in [
            ("readOnlyPaths", &filesystem.read_only_paths),
            ("readWritePaths", &filesystem.read_write_paths),
            ("layeredPaths", &filesystem.layered_paths),
            ("deniedPaths", &filesystem.denied_paths),
            ("hiddenPaths", &filesystem.hidden_paths),
            ("hiddenPatterns", &filesystem.hidden_patterns),
            ("protectedPaths", &filesystem.protected_paths),
            ("honeypotPaths", &filesystem.honeypot_paths),
        ] {
            self.each("filesystem", key, list, |findings, at, path| {
                if findings.path_is_sane(at, path) && !(path.is_absolute() || is_anchored(path)) {
                    findings.fault(
                        at,
                        format!("`{}` hangs in the air", path.display()),
                        "begin a path with `/`, with `~/` (home) or with `./` (where the command starts)",
                    );
                }
            });
        }
        self.each("filesystem", "protectedNames", &filesystem.protected_names, |findings, at, name| {
            if findings.path_is_sane(at, Path::new(name)) && name.starts_with(['/', '~']) {
                findings.fault(
                    at,
                    format!("`{name}` is a path, not a name"),
                    "a name counts wherever it is; for one path use protectedPaths",
                );
            }
        });
        if let (Some(file), Some(total)) = (filesystem.max_file_size, filesystem.max_total_size)
            && file > total
        {
            self.fault(
                &["filesystem", "maxFileSize"],
                format!("{file} is more than maxTotalSize, which is {total}"),
                "a single file cannot be larger than all files together: lower one or raise the other",
            );
        }
    }

    /// Refuses what no path may be; whether it is absolute is judged by the caller.
    fn path_is_sane(&mut self, at: &[&str], path: &Path) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.is_empty() {
            self.fault(at, "a path is empty", "write a path or remove the entry");
        } else if bytes.contains(&0) {
            self.fault(at, "a path contains a NUL byte", "no file has such a name: remove the byte");
        } else if path.components().any(|component| component == Component::ParentDir) {
            self.fault(
                at,
                format!("`{}` contains `..`", path.display()),
                "write the directory that is meant, symbolic links make `..` ambiguous",
            );
        } else {
            return true;
        }
        false
    }

    fn limits(&mut self, policy: &Policy) {
        let zero = |limit: Option<u64>| limit == Some(0);
        let (files, resources) = (&policy.filesystem, &policy.resources);
        let limits: [(&[&str], bool); 13] = [
            (&["filesystem", "maxTotalSize"], zero(files.max_total_size.map(|bytes| bytes.0))),
            (&["filesystem", "maxInodes"], zero(files.max_inodes)),
            (&["process", "maxProcesses"], zero(policy.process.max_processes)),
            (&["network", "maxDNSQueries"], zero(policy.network.max_dns_queries)),
            (&["resources", "maxCPU"], zero(resources.max_cpu.map(|millis| millis.0))),
            (&["resources", "maxCPUPercent"], zero(resources.max_cpu_percent)),
            (&["resources", "maxMemory"], zero(resources.max_memory.map(|bytes| bytes.0))),
            (&["resources", "maxFileDescriptors"], zero(resources.max_file_descriptors)),
            (&["resources", "maxThreads"], zero(resources.max_threads)),
            (&["resources", "maxIOBandwidth"], zero(resources.max_io_bandwidth.map(|bytes| bytes.0))),
            (&["resources", "maxIOPS"], zero(resources.max_iops)),
            (&["timeout"], zero(policy.timeout.map(|millis| millis.0))),
            (&["maxViolations"], zero(policy.max_violations)),
        ];
        for (at, is_zero) in limits {
            if is_zero {
                self.fault(
                    at,
                    "0 leaves nothing to run with",
                    "leave the key out for no limit, or write at least 1",
                );
            }
        }
    }

    fn process(&mut self, policy: &Policy) {
        let process = &policy.process;
        if !process.allow_exec && !process.allowed_executables.is_empty() {
            self.fault(
                &["process", "allowedExecutables"],
                "programs are listed but allowExec is false",
                "set allowExec to true so that only these may be executed, or empty the list",
            );
        }
        self.each("process", "allowedExecutables", &process.allowed_executables, |findings, at, path| {
            if findings.path_is_sane(at, path) && !path.is_absolute() {
                findings.fault(
                    at,
                    format!("`{}` is not absolute", path.display()),
                    "write the full path of the program, a name alone could be any file",
                );
            }
        });
    }

    fn network(&mut self, network: &NetworkPolicy) {
        let domains = network.allowed_domains.as_deref().unwrap_or_default();
        if !network.allow_network {
            for (key, filled) in [
                ("allowedHosts", !network.allowed_hosts.is_empty()),
                ("allowedDomains", !domains.is_empty()),
                ("allowedPorts", !network.allowed_ports.is_empty()),
                ("allowedAddresses", !network.allowed_addresses.is_empty()),
                ("resolve", !network.resolve.is_empty()),
            ] {
                if filled {
                    self.fault(
                        &["network", key],
                        "entries are listed but allowNetwork is false",
                        "set allowNetwork to true so that only these can be reached, or empty the list",
                    );
                }
            }
        } else if network.allowed_hosts.is_empty() && network.allowed_domains.is_none() {
            self.warn(
                &["network", "allowNetwork"],
                "network.allowNetwork: any host can be reached, since neither allowedHosts nor \
                 allowedDomains names any"
                    .to_owned(),
            );
        }
        for (key, list, kind) in [
            ("allowedHosts", network.allowed_hosts.as_slice(), List::Allow),
            ("allowedDomains", domains, List::Allow),
            ("deniedDomains", &network.denied_domains, List::Deny),
        ] {
            self.each("network", key, list, |findings, at, text| {
                findings.entry(at, HostEntry::parse(text, kind));
            });
        }
        self.each("network", "allowedPorts", &network.allowed_ports, |findings, at, port| {
            if *port == 0 {
                findings.entry::<()>(at, Err(EntryFault::PortZero));
            }
        });
        self.each("network", "allowedAddresses", &network.allowed_addresses, |findings, at, text| {
            findings.entry(at, network::allowed_address(text));
        });
        self.each("network", "deniedAddresses", &network.denied_addresses, |findings, at, text| {
            findings.entry(at, Cidr::parse(text).map_err(EntryFault::from));
        });
        if let Err(error) = network::reasons(network) {
            self.entry::<()>(&["network", "deniedReasons"], Err(error.fault));
        }
        if let Err(error) = network::parents(network) {
            let keys: Vec<&str> = ["network"].into_iter().chain(error.field.split('.')).collect();
            self.entry::<()>(&keys, Err(error.fault));
        }
        self.pins(network);
        let mut taken = BTreeSet::new();
        for (number, publish) in network.publish.iter().enumerate() {
            if publish.outside != 0 && !taken.insert(publish.outside) {
                self.fault(
                    &["network", "publish", &number.to_string()],
                    format!("port {} of the host is published twice", publish.outside),
                    "give each a port of its own on the host, or 0 for any free one",
                );
                return;
            }
        }
    }

    fn entry<T>(&mut self, at: &[&str], outcome: Result<T, EntryFault>) {
        if let Err(fault) = outcome {
            self.fault(at, &fault, &fault.hint());
        }
    }

    fn pins(&mut self, network: &NetworkPolicy) {
        let mut seen = BTreeSet::new();
        // By the document and not by the map, for its order.
        for Entry { key, offset, .. } in self.tree.entries(&["network", "resolve"]) {
            let Some(pins) = network.resolve.get(key) else { continue };
            let fault = match network::pinned_name(key, &pins.0) {
                Ok(name) if seen.insert(name.clone()) => continue,
                Ok(name) => EntryFault::Twice { name },
                Err(fault) => fault,
            };
            self.faults.push(Fault::at(*offset, format!("network.resolve: {fault}")).hint(fault.hint()));
            return;
        }
    }

    fn syscalls(&mut self, policy: &Policy) {
        let mode = policy.syscalls.mode;
        self.each("syscalls", "syscalls", &policy.syscalls.syscalls, |findings, at, name| {
            let Some(calls) = syscalls::expand(name) else {
                let hint = match syscalls::nearest(name) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write the name as in section 2 of the manual".to_owned(),
                };
                findings.fault(at, format!("there is no system call {name:?}"), &hint);
                return;
            };
            let blocked: Vec<&str> =
                calls.into_iter().filter(|call| syscalls::ALWAYS_BLOCKED.contains(call)).collect();
            if mode == SyscallMode::Whitelist && !blocked.is_empty() {
                findings.warn(
                    at,
                    format!(
                        "syscalls.syscalls: `{name}` stays blocked at level 2 although it is listed ({})",
                        blocked.join(", ")
                    ),
                );
            }
        });
    }

    fn environment(&mut self, environment: &EnvironmentPolicy) {
        self.each("environment", "allow", &environment.allow, |findings, at, entry| {
            let name = entry.strip_suffix('*').unwrap_or(entry);
            if entry == "*" {
                findings
                    .warn(at, "environment.allow: `*` passes every variable, secrets included".to_owned());
            } else if name.contains('*') {
                findings.fault(
                    at,
                    format!("{entry:?} has a `*` before its end"),
                    "a `*` stands at the end of a name and covers a prefix, as in `LC_*`",
                );
            } else if let Some(problem) = name_problem(name) {
                findings.fault(at, format!("{entry:?} {problem}"), NAME_HINT);
            }
        });
        // By the document and not by the map, for its order.
        for Entry { key: name, offset, node } in self.tree.entries(&["environment", "set"]) {
            let fault = if let Some(problem) = name_problem(name) {
                Fault::at(*offset, format!("environment.set: {name:?} {problem}")).hint(NAME_HINT)
            } else if environment.set.get(name).is_some_and(|value| value.contains('\0')) {
                Fault::at(node.offset, format!("environment.set.{name}: the value contains a NUL byte"))
                    .hint("the environment cannot carry a NUL byte: remove it")
            } else {
                continue;
            };
            self.faults.push(fault);
            return;
        }
    }
}

const NAME_HINT: &str = "write the name of a variable alone, such as `LANG`";

fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.contains('=') {
        Some("contains `=`")
    } else if name.contains('\0') {
        Some("contains a NUL byte")
    } else {
        None
    }
}

/// Does the path begin with the home or the start directory?
fn is_anchored(path: &Path) -> bool {
    matches!(path.components().next(), Some(Component::CurDir))
        || path.components().next().is_some_and(|first| first.as_os_str() == "~")
}
