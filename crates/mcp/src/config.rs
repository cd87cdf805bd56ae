//! `mcp-servers.json`: which servers there are, how each is started, and what each may do. What a server's sandbox
//! comes to is [`crate::containment`]'s business.
//!
//! A key of ours that is mistyped is an error, never ignored: a rule that was mistyped is a rule that does not
//! hold. Keys of other clients beside ours are passed over, with a note.

mod decode;
mod read;
mod server;
mod variables;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use lazaret_policy::{
    load::{self, LoadError, Sort},
    schema::{NetworkPolicy, ResourcePolicy},
};

pub use decode::Shape;
pub use server::{NameFault, ServerName};

/// More than this is no list of servers.
pub(crate) const LARGEST: u64 = 1 << 20;
/// The variable of TB0 that says what happens without a sandbox.
pub const SANDBOX_POLICY: &str = "SANDBOX_POLICY";

/// What the file is read in.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// For `~`.
    pub home: Option<PathBuf>,
    /// The proxy's own variables, for `${NAME}`.
    pub environment: BTreeMap<OsString, OsString>,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Absolute.
    pub file: PathBuf,
    pub options: Options,
    /// In the order of the file.
    pub servers: Vec<Server>,
    /// What a person should know; each begins with `file:line:column: `.
    pub notes: Vec<String>,
}

/// What holds for all servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub sandbox_policy: SandboxPolicy,
    /// How long a person has to answer an escalation.
    pub escalation_timeout: Duration,
    /// Besides our own files; absolute.
    pub protected_paths: Vec<PathBuf>,
    pub audit_log: Option<PathBuf>,
    pub tool_names: ToolNames,
    pub on_tool_change: OnToolChange,
    /// Those of a server are in [`Server::limits`].
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sandbox_policy: SandboxPolicy::default(),
            escalation_timeout: Duration::from_secs(300),
            protected_paths: Vec::new(),
            audit_log: None,
            tool_names: ToolNames::default(),
            on_tool_change: OnToolChange::default(),
            limits: Limits::default(),
        }
    }
}

/// What happens to servers that need a sandbox where there can be none. The stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SandboxPolicy {
    /// They run without, and it is said loudly.
    #[default]
    Warn,
    /// Nothing starts.
    Enforce,
}

impl fmt::Display for SandboxPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SandboxPolicy::Warn => "warn",
            SandboxPolicy::Enforce => "enforce",
        })
    }
}

/// How tools are named for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNames {
    /// As their server names them, and with the server's name where two servers have the same.
    #[default]
    Auto,
    /// Always with the server's name.
    Prefixed,
}

/// What a change of a server's tools leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum OnToolChange {
    Allow,
    #[default]
    Escalate,
    Deny,
}

/// How much a server may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub calls_per_minute: Option<u32>,
    /// Of the result of one call.
    pub max_output_bytes: u64,
    /// Of one message in either direction.
    pub max_message_bytes: u64,
    pub call_timeout: Duration,
    /// Until it has answered for the first time.
    pub startup_timeout: Duration,
    /// The same call with the same arguments, within [`Limits::identical_calls_within`].
    pub identical_calls: u32,
    pub identical_calls_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            calls_per_minute: None,
            max_output_bytes: 16 << 20,
            max_message_bytes: 64 << 20,
            call_timeout: Duration::from_secs(600),
            startup_timeout: Duration::from_secs(60),
            identical_calls: 20,
            identical_calls_within: Duration::from_secs(60),
        }
    }
}

/// One entry of the file. A server that was disabled is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub name: ServerName,
    pub limits: Limits,
    pub definition: Definition,
}

/// Can it be started at all? One that cannot be is listed as failed, and the rest serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definition {
    Local(Box<Local>),
    Unusable(Unusable),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error(
        "it is reached over the network ({transport}), and only servers that are started as a command are put into a \
         sandbox: use the server's own command, or a bridge such as mcp-remote as `command`"
    )]
    Remote { transport: String },
    #[error(
        "{key}: the variable {variable} is not set and has no default: set it where the proxy is started, or write \
         ${{{variable}:-DEFAULT}}"
    )]
    Variable { key: String, variable: String },
    #[error("{key}: the variable {variable} is not UTF-8")]
    NotText { key: String, variable: String },
    #[error("{key}: `${{{placeholder}}}` is filled in by another client ({client}): write the value itself")]
    Placeholder { key: String, placeholder: String, client: &'static str },
}

/// A server that is started as a command and spoken to over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Variables are filled in here and below; paths are as they were written.
    pub command: String,
    pub args: Vec<String>,
    pub env: Variables,
    pub directory: Option<String>,
    pub inherit_env: InheritEnv,
    pub sandbox: Sandbox,
}

/// Variables for a server. Their values may be secrets, so they are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Which of the proxy's variables a server gets besides the usual harmless ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InheritEnv {
    #[default]
    Usual,
    Listed(Vec<String>),
    /// With every key that is in there.
    Everything,
}

/// TB0's `sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// Left out: the session directory is writable, there is no network.
    #[default]
    Restrictive,
    /// `false`.
    OptOut,
    Custom(Box<Custom>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Custom {
    pub filesystem: Filesystem,
    pub network: Network,
    pub resources: ResourcePolicy,
    pub max_processes: Option<u64>,
}

/// Paths as they were written: absolute, below `~`, or relative to the session directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filesystem {
    pub allow_write: Vec<String>,
    pub deny_read: Vec<String>,
    pub deny_write: Vec<String>,
    pub allow_read: Vec<String>,
    pub defaults: Defaults,
}

/// What becomes of the paths that are closed without being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Defaults {
    /// `denyRead` adds to them.
    #[default]
    Kept,
    /// `denyRead` is all there is, but for our own files.
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    #[default]
    Off,
    Domains(Domains),
}

/// Checked: what is in there compiles to rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domains {
    /// Empty: none. `*` alone: every public host.
    pub allowed: Vec<String>,
    pub denied: Vec<String>,
    /// Private and loopback addresses that may be reached all the same.
    pub addresses: Vec<String>,
    pub resolve: BTreeMap<String, lazaret_policy::network::Pins>,
}

impl Domains {
    /// In a policy's own words.
    pub fn to_policy(&self) -> NetworkPolicy {
        let everything = self.allowed.iter().any(|entry| entry == "*");
        if self.allowed.is_empty() {
            return NetworkPolicy::default();
        }
        NetworkPolicy {
            allow_network: true,
            allowed_domains: (!everything).then(|| self.allowed.clone()),
            denied_domains: self.denied.clone(),
            allowed_addresses: self.addresses.clone(),
            resolve: self.resolve.clone(),
            ..NetworkPolicy::default()
        }
    }
}

/// Reads the file.
pub fn load(file: &Path, surroundings: &Surroundings) -> Result<Config, LoadError> {
    let sort = Sort {
        noun: "a list of servers",
        largest: LARGEST,
        if_missing: "check the path, or make one from a client's configuration with `lazaret mcp import FILE`",
    };
    let text = load::read(file, sort)?;
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.mode());
    if mode & 0o002 != 0 {
        let message = "everybody can write this file, and it says what runs without a sandbox";
        return Err(LoadError::unplaced(file, message, "chmod o-w it"));
    }
    let mut config = parse(&text, file, surroundings)?;
    if mode & 0o020 != 0 {
        let note = "its group can write this file, which says what runs without a sandbox";
        config.notes.push(format!("{}: {note}", file.display()));
    }
    Ok(config)
}

/// Reads a text; `file` is the name that errors carry, and where relative paths begin.
pub fn parse(text: &str, file: &Path, surroundings: &Surroundings) -> Result<Config, LoadError> {
    decode::config(text, file, surroundings)
}
