//! The policy as data: every type and field of RFC-0002 §3.2 in its own camelCase, plus the optional
//! fields that the RFC uses without declaring. Checks across fields live in [`crate::load`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    network::{Pins, Publish},
    units::{Bytes, Millis},
    violation::Severity,
};

/// How much of the wall is built (RFC-0002 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// No isolation. Only for a tool that the administrator's approvals file names.
    #[serde(rename = "LEVEL_0")]
    None,
    /// Own process tree, resource limits, restricted filesystem; the host's network.
    #[serde(rename = "LEVEL_1")]
    Process,
    /// Everything: all namespaces, new root, no network but the egress gate, system call filter.
    #[default]
    #[serde(rename = "LEVEL_2")]
    Full,
}

impl Level {
    pub fn number(self) -> u8 {
        match self {
            Level::None => 0,
            Level::Process => 1,
            Level::Full => 2,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Level::None),
            1 => Some(Level::Process),
            2 => Some(Level::Full),
            _ => None,
        }
    }
}

/// What a tool may do. Whatever is left out is closed, or unlimited where it is a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// For editors: the address of this schema.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    pub isolation_level: Level,
    pub filesystem: FilesystemPolicy,
    pub process: ProcessPolicy,
    pub network: NetworkPolicy,
    pub resources: ResourcePolicy,
    pub syscalls: SyscallPolicy,
    pub environment: EnvironmentPolicy,
    /// Wall-clock limit of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// How many violations end the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_violations: Option<u64>,
    /// What an escape attempt leads to; `kill` at level 2 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_escape: Option<OnEscape>,
    /// From this severity on a violation counts as an escape attempt; `CRITICAL` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escape_severity: Option<Severity>,
}

/// What follows an act that no honest program goes on from (mount, setns, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnEscape {
    /// The whole sandbox is killed at once.
    Kill,
    /// The act is denied and logged, the command goes on.
    Deny,
}

/// What is visible and writable. Paths are absolute, or begin with `~/` (the caller's home) or `./`
/// (the directory the command is started in).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FilesystemPolicy {
    /// The tool's own directory: paths are validated against it, the command starts in it. When it does
    /// not exist on the host it is a private, writable directory that vanishes at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_path: Option<PathBuf>,
    /// Visible read-only, at the same path as on the host.
    pub read_only_paths: Vec<PathBuf>,
    /// Visible and writable, at the same path as on the host.
    pub read_write_paths: Vec<PathBuf>,
    /// Visible directories whose changes are private: what is written goes to private storage and vanishes at the
    /// end, the host's files stay as they are. For caches. What is not there is passed over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layered_paths: Vec<PathBuf>,
    /// Neither readable nor writable, also below an allowed path, also when created later. Denied wins.
    pub denied_paths: Vec<PathBuf>,
    /// Not to be seen: an empty directory, or a file without content, lies there. What is listed below such a
    /// path is visible all the same; of two paths the longer one counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_paths: Vec<PathBuf>,
    /// Patterns of files that cannot be read, unless the command has made them itself: `*`, `?`, `[…]`, and `**`
    /// for any number of directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_patterns: Vec<PathBuf>,
    /// Can be read, and neither be written, made, moved nor removed, also below a writable path. May be a
    /// pattern.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected_paths: Vec<PathBuf>,
    /// Names that are protected in this way wherever they are below a writable path: `.bashrc`, `.vscode`,
    /// `.claude/commands`. What is in a `.git` directory counts only when that was there before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected_names: Vec<String>,
    /// Bait: nothing honest touches these. They are denied, and whoever tries is ended at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub honeypot_paths: Vec<PathBuf>,
    /// Largest single file the tool may write (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_size: Option<Bytes>,
    /// Largest total the tool may write to private storage (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_size: Option<Bytes>,
    /// Most files the tool may create in private storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_inodes: Option<u64>,
    /// Toolchains found in the caller's home (~/.cargo/bin, ~/.rustup, ~/.pyenv, …) are visible read-only.
    pub toolchains: bool,
}

/// Processes and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProcessPolicy {
    /// Most processes and threads alive at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// May the command start other processes?
    pub allow_fork: bool,
    /// May the command, once started, execute other programs?
    pub allow_exec: bool,
    /// When not empty, the only programs that may be executed.
    pub allowed_executables: Vec<PathBuf>,
}

impl Default for ProcessPolicy {
    fn default() -> Self {
        ProcessPolicy {
            max_processes: None,
            allow_fork: true,
            allow_exec: true,
            allowed_executables: Vec::new(),
        }
    }
}

/// What may be reached outside. An entry of a list of hosts is a name, `*.` and a domain (every name below it,
/// not itself), an address or a network (`10.0.0.0/8`), each perhaps with a port (`example.com:443`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// Without this nothing outside the sandbox can be reached.
    pub allow_network: bool,
    /// Hosts that may be reached. When it is empty and `allowedDomains` is left out, that is any host.
    pub allowed_hosts: Vec<String>,
    /// Hosts that may be reached, too. An empty list allows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Hosts that may not be reached, whatever allows them. `*` is every host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_domains: Vec<String>,
    /// Entries of `deniedDomains` with the reason that is told when they refuse something.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub denied_reasons: BTreeMap<String, String>,
    /// TCP ports that may be reached; any when it is empty.
    pub allowed_ports: Vec<u16>,
    /// Private, loopback and other guarded addresses and networks that may be reached all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_addresses: Vec<String>,
    /// Addresses and networks that no name may lead to, besides those that are guarded anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_addresses: Vec<String>,
    /// A proxy outside, through which connections are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_proxy: Option<ParentProxy>,
    /// Unix sockets: `none`, `own` (those made inside, and those of the host that are listed as paths) or `all`
    /// that are visible. `own` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_sockets: Option<UnixSockets>,
    /// Unix sockets of the host, or directories of them, that may be connected to. They need not exist yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unix_socket_paths: Vec<PathBuf>,
    /// Is every TCP port that something inside listens on offered on the host's loopback, under its own number?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub publish_listening: bool,
    /// Names with the addresses they have, in place of asking a server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resolve: BTreeMap<String, Pins>,
    /// Must the server name of TLS and the host of HTTP agree with the name? Yes when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_server_name: Option<bool>,
    /// Are `HTTPS_PROXY` and its kin set inside? Yes when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_variables: Option<bool>,
    /// Ports inside that the host may connect to, as `PORT` or `HOSTPORT:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<Publish>,
    /// Most connections open at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u64>,
    /// Most questions to the name server in a second.
    #[serde(rename = "maxDNSQueries", skip_serializing_if = "Option::is_none")]
    pub max_dns_queries: Option<u64>,
}

/// Proxies of the host's own network. A URL is `http://[USER:PASSWORD@]HOST[:PORT]`, `socks5h://…`, or
/// `unix:/PATH` for an HTTP proxy that listens on a socket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ParentProxy {
    /// For connections to port 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// For connections to every other port; `http` is taken when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
    /// Hosts with a proxy of their own, which comes before the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<ProxyRoute>,
    /// Hosts that are reached without: names (and what is below them), addresses, networks, `*`; separated by
    /// commas. This host itself is always one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

/// Some hosts and their proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxyRoute {
    /// As in `allowedHosts`.
    pub hosts: Vec<String>,
    pub proxy: String,
}

/// Which unix sockets can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnixSockets {
    /// None can be made, apart from pairs.
    None,
    /// Those made inside, and those of the host that are listed as paths.
    Own,
    /// Every one that is visible.
    All,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourcePolicy {
    /// CPU time (ms) of everything inside together.
    #[serde(rename = "maxCPU", skip_serializing_if = "Option::is_none")]
    pub max_cpu: Option<Millis>,
    /// Share of the processors, in percent of one: 50 is half of one, 200 is two.
    #[serde(rename = "maxCPUPercent", skip_serializing_if = "Option::is_none")]
    pub max_cpu_percent: Option<u64>,
    /// The processors that may be used, by number; all when left out.
    #[serde(rename = "allowedCPUs", skip_serializing_if = "Vec::is_empty")]
    pub allowed_cpus: Vec<u32>,
    /// Memory (bytes), of everything inside together: what processes hold, private storage, shared memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Bytes>,
    /// Open file descriptors per process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_descriptors: Option<u64>,
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u64>,
    /// Bytes per second to and from disk.
    #[serde(rename = "maxIOBandwidth", skip_serializing_if = "Option::is_none")]
    pub max_io_bandwidth: Option<Bytes>,
    /// Disk operations per second.
    #[serde(rename = "maxIOPS", skip_serializing_if = "Option::is_none")]
    pub max_iops: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SyscallMode {
    /// Only the calls listed (and the documented start-up set) are allowed.
    #[serde(rename = "WHITELIST")]
    Whitelist,
    /// The calls listed are blocked in addition to the dangerous ones.
    #[default]
    #[serde(rename = "BLACKLIST")]
    Blacklist,
}

/// System calls by name; a name stands for its family (`open` covers `openat`, …).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SyscallPolicy {
    pub mode: SyscallMode,
    pub syscalls: Vec<String>,
}

/// The environment is an allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvironmentPolicy {
    /// Variables passed through from the caller; a trailing `*` covers a prefix.
    pub allow: Vec<String>,
    /// Variables set to a value.
    pub set: BTreeMap<String, String>,
}

impl FilesystemPolicy {
    /// Is the whole of the host's root listed?
    pub fn shows_everything(&self) -> bool {
        self.read_only_paths.iter().chain(&self.read_write_paths).any(|path| path == Path::new("/"))
    }
}

impl Policy {
    /// Where file arguments of the tool are validated against.
    pub fn root_path(&self) -> Option<&Path> {
        self.filesystem.root_path.as_deref()
    }
}
