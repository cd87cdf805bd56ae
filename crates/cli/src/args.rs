//! What can be typed. Nothing is resolved here: see each command's own file.

mod audit;
pub mod escalation;
mod mcp;
mod metrics;

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use lazaret_policy::{
    network::Publish,
    units::{Bytes, Millis},
};

pub use audit::{Audit, Export, Filters, Query, Rotate, Show, Stats, Tail, Verify};
pub use escalation::Escalation;
pub use mcp::{Mcp, McpCommon, McpExplain, McpImport, McpServe, McpStatus, McpTrust, McpWrap};
#[cfg(feature = "otlp")]
pub use metrics::Push;
pub use metrics::{Count, Metrics, Print, Serve, Write};

/// A kernel-enforced wall around what AI agents run, call and read.
#[derive(Debug, Parser)]
#[command(name = "lazaret", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes of `run`: the command's own; 128+N when signal N ended it; 124 timeout; \
125 lazaret's own failure or refusal; 126 not executable; 127 not found; 137 ended by a limit or an escape response.")]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command in a sandbox
    Run(Box<Run>),
    /// Run a command under the settings of srt (the same as when this program is called `srt`)
    Srt(Srt),
    /// Run a command, watch it, and write the smallest policy that would have sufficed
    Learn(Box<Learn>),
    /// Show what a run with --cow changed
    Diff(Diff),
    /// Apply what a run with --cow changed to the host
    Commit(Commit),
    /// Forget what a run with --cow changed
    Discard(Discard),
    /// Run registered tools; bar them and let them run again
    #[command(subcommand)]
    Tool(Tool),
    /// See and answer what MCP sessions ask a person
    #[command(subcommand)]
    Escalation(Escalation),
    /// Say what this host can enforce, and how to get the rest
    Doctor(Doctor),
    /// Check policies, print their schema or a built-in one
    #[command(subcommand)]
    Policy(Policy),
    /// List and show the built-in profiles
    #[command(subcommand)]
    Profile(Profile),
    /// Put every MCP server into a sandbox of its own, and every call under a policy
    #[command(subcommand)]
    Mcp(Mcp),
    /// Ask, follow, verify, rotate and export the audit log
    #[command(subcommand)]
    Audit(Audit),
    /// Tell in numbers what sandboxes do, for Prometheus and others
    #[command(subcommand)]
    Metrics(Metrics),
    /// Measure start-up against bubblewrap, interleaved
    Bench(Bench),
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Split off sandboxes for a program that uses lazaret as a library
    #[command(hide = true)]
    Launcher,
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man { directory: PathBuf },
}

/// Level 2, the current directory read-write, no network, a cleaned environment, a private /tmp and a
/// hidden home, unless said otherwise.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = "Examples:
  lazaret run -- make test
  lazaret run --ro ../shared --deny .env -- python3 script.py
  lazaret run --allow example.com:443 --allow '*.example.com:443' -- ./fetch-data
  lazaret run --allow localhost:5432 -- psql -h localhost
  lazaret run --policy tool.json --report report.json -- ./tool
  lazaret run --plan -- true")]
pub struct Run {
    /// Policy file, JSON or TOML
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub policy: Option<PathBuf>,
    /// Built-in profile
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub profile: String,
    /// Isolation level: 0 none (needs the administrator's approval), 1 process, 2 full
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub level: Option<u8>,
    /// Make a path visible, read-only
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<PathBuf>,
    /// Make a path visible and writable
    #[arg(long, value_name = "PATH")]
    pub rw: Vec<PathBuf>,
    /// Deny a path, also below an allowed one, also when it does not exist yet
    #[arg(long, value_name = "PATH")]
    pub deny: Vec<PathBuf>,
    /// Pass a variable through, or set it
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Let the command reach a host: a name, *.domain, an address or a network, each with :PORT if wanted
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow: Vec<String>,
    /// Let allowed names lead to a private, loopback or otherwise guarded address
    #[arg(long, value_name = "CIDR")]
    pub allow_address: Vec<String>,
    /// Pin a name to an address instead of asking the host's resolver
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub resolve: Vec<String>,
    /// Forward a loopback port of the host to a server inside
    #[arg(long, value_name = "HOSTPORT:PORT")]
    pub publish: Vec<Publish>,
    /// Most memory (bytes, or with K, M, G)
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Most CPU time (milliseconds, or with s, m, h)
    #[arg(long, value_name = "TIME")]
    pub cpu_time: Option<Millis>,
    /// Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Millis>,
    /// Most processes and threads
    #[arg(long, value_name = "N")]
    pub max_procs: Option<u64>,
    /// Most that can be written to private storage and to any one file
    #[arg(long, value_name = "SIZE")]
    pub max_write: Option<Bytes>,
    /// Writable paths become copy-on-write: the host's files stay as they are until `commit`
    #[arg(long)]
    pub cow: bool,
    /// With --cow: what becomes of the changes when the command succeeds [default: keep]
    #[arg(long, value_enum, value_name = "WHAT", requires = "cow")]
    pub on_success: Option<OnSuccess>,
    /// The name under which an escape attempt bars this from running again
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Refuse to run when a layer is missing (the default)
    #[arg(long, conflicts_with = "warn")]
    pub enforce: bool,
    /// Run with the layers there are, and say what is weaker
    #[arg(long)]
    pub warn: bool,
    /// What follows an escape attempt (default: kill at level 2)
    #[arg(long, value_enum)]
    pub on_escape: Option<OnEscape>,
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Write a report as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the steps and start nothing
    #[arg(long)]
    pub plan: bool,
    /// With --plan: as JSON
    #[arg(long, requires = "plan")]
    pub json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

/// A drop-in for srt (@anthropic-ai/sandbox-runtime): the same flags, settings and exit codes. Without settings
/// everything can be read, nothing written and no host reached. See docs/from-srt.md for what differs.
#[derive(Debug, ClapArgs)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  srt -c 'npm test && npm run lint'
  srt -s ci.json make check
  srt --print-policy > policy.json     the same as a policy for `lazaret run --policy`

Exit codes: the command's own; 128+N when signal N ended it; 1 when the settings are wrong or nothing could be started."
)]
pub struct Srt {
    /// Say what is done, on standard error
    #[arg(short, long)]
    pub debug: bool,
    /// The settings file [default: ~/.srt-settings.json, if it exists]
    #[arg(short, long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// A command line for the shell, as it is
    #[arg(short = 'c', value_name = "COMMAND")]
    pub line: Option<OsString>,
    /// Read new settings from an inherited descriptor, a line of JSON each; their lists of hosts take effect
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(3..))]
    pub control_fd: Option<i32>,
    /// Pass only harmless variables on, not the whole environment
    #[arg(long)]
    pub clean_env: bool,
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Write a report as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print what the settings come to as a policy, and start nothing
    #[arg(long)]
    pub print_policy: bool,
    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = false, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The command runs in a level-2 sandbox that can read nearly everything you can, secrets excepted, write the
/// current directory, and reach any public host. What it did becomes a policy for `lazaret run --policy`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret learn -- make test
  lazaret learn -o tool.toml --rw ~/.cache/tool -- ./tool --check
  lazaret learn --merge tool.toml -o tool.toml --force -- ./tool --other-part
  lazaret run --policy lazaret-learned.toml -- make test

The exit code is that of `run`. A command that fails leaves a policy, too, which says so.")]
pub struct Learn {
    /// Where the policy is written; - is standard output [default: lazaret-learned.toml]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// What the policy is called in its first line
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Allow what this learnt policy allows as well
    #[arg(long, value_name = "FILE")]
    pub merge: Vec<PathBuf>,
    /// Make a path visible that is not anyway, read-only
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<PathBuf>,
    /// Make a path writable besides the current directory
    #[arg(long, value_name = "PATH")]
    pub rw: Vec<PathBuf>,
    /// Deny a path, also below an allowed one
    #[arg(long, value_name = "PATH")]
    pub deny: Vec<PathBuf>,
    /// Pass a variable through, or set it; the policy does, too
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Let the command reach this host only; can be repeated [default: any public host]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "no_network")]
    pub allow: Vec<String>,
    /// Let names lead to a private, loopback or otherwise guarded address
    #[arg(long, value_name = "CIDR", conflicts_with = "no_network")]
    pub allow_address: Vec<String>,
    /// Pin a name to an address instead of asking the host's resolver
    #[arg(long, value_name = "NAME=ADDRESS", conflicts_with = "no_network")]
    pub resolve: Vec<String>,
    /// Without network
    #[arg(long)]
    pub no_network: bool,
    /// Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Millis>,
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Write a report of the run as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print what was learnt as JSON on standard output, after the command's own
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnEscape {
    Kill,
    Deny,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnSuccess {
    /// Apply them to the host
    Commit,
    /// Keep them for `lazaret diff`, `commit` and `discard`
    Keep,
    /// Throw them away
    Discard,
}

/// Unified diffs for text, a line each for the rest. What acts on the next run (git hooks, CI files, build
/// scripts, settings of editors and agents) stands apart, and so does what is never applied.
#[derive(Debug, ClapArgs)]
pub struct Diff {
    /// The transaction, its sandbox, or the beginning of its id [default: the newest of this directory]
    pub id: Option<String>,
    /// One line for each change
    #[arg(long)]
    pub stat: bool,
    /// List all transactions instead
    #[arg(long, conflicts_with_all = ["id", "stat"])]
    pub list: bool,
    #[arg(long)]
    pub json: bool,
}

/// Each file is applied as a whole or not at all, and a commit that was cut off is finished by the next call.
/// Refuses (exit 1) when a file has changed on the host since the run began.
#[derive(Debug, ClapArgs)]
pub struct Commit {
    /// The transaction, its sandbox, or the beginning of its id [default: the newest of this directory]
    pub id: Option<String>,
    /// Also apply what acts on the next run: git hooks, CI files, build scripts, settings
    #[arg(long)]
    pub include_persistence: bool,
    /// Leave out what has changed on the host meanwhile, and apply the rest
    #[arg(long)]
    pub leave_conflicts: bool,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Discard {
    /// The transaction, its sandbox, or the beginning of its id [default: the newest of this directory]
    pub id: Option<String>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Tool {
    /// List the registered tools, and what is quarantined
    List {
        #[arg(long)]
        json: bool,
    },
    /// Run a registered tool in its sandbox; the result is JSON on standard output
    Run(ToolRun),
    /// Bar a tool from running
    Quarantine {
        name: String,
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let a quarantined tool run again
    Release {
        name: String,
        /// Why it may run again; goes into the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// Tools are declared in tools.toml, in $XDG_CONFIG_HOME/lazaret or /etc/lazaret.
#[derive(Debug, ClapArgs)]
pub struct ToolRun {
    pub name: String,
    /// The input: JSON, or @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// The result is JSON in any case
    #[arg(long, hide = true)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Machine-readable output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Load and check a policy file, or policies for tool calls: a *.cedar file or a directory of them
    Check {
        file: PathBuf,
        /// Check policies for tool calls against these tools as well: a JSON array of what servers list
        #[arg(long, value_name = "FILE")]
        tools: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema, for editors
    Schema,
    /// Print a built-in policy
    Show {
        name: String,
        /// As JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum Profile {
    /// List the built-in profiles
    List {
        #[arg(long)]
        json: bool,
    },
    /// Print a profile
    Show {
        name: String,
        /// As JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// Launches of each
    #[arg(long, default_value_t = 200)]
    pub runs: u32,
    #[arg(long)]
    pub json: bool,
    /// Other lazaret executables to measure beside this one
    #[arg(long, action = ArgAction::Append, value_name = "FILE")]
    pub against: Vec<PathBuf>,
}
