//! What can be typed after `lazaret audit`.

use std::{num::NonZeroU32, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use lazaret_audit::{EventKind, Severity};

use crate::commands::Moment;

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check the hash chain over all files; names the first broken line
    Verify(Verify),
    /// Print the events that are asked for
    Query(Query),
    /// Print the last events, and those that arrive
    Tail(Tail),
    /// Count events, hosts, paths, system calls, tools and outcomes
    Stats(Stats),
    /// Tell what happened in one sandbox, from its beginning to its end
    Show(Show),
    /// Write events into a database of SQLite, or as CSV
    Export(Export),
    /// Set the log aside and go on in a new file, with the same chain
    Rotate(Rotate),
}

/// Ends with 0, with 1 when the log is broken, with 125 when it cannot be read.
#[derive(Debug, ClapArgs)]
pub struct Verify {
    /// [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    pub file: Option<PathBuf>,
    #[arg(long)]
    pub json: bool,
}

/// Which events are meant; several conditions hold together.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Filters {
    /// From this moment on: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<Moment>,
    /// Before this moment
    #[arg(long, value_name = "WHEN")]
    pub until: Option<Moment>,
    /// Of a sandbox, by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    pub sandbox: Option<String>,
    /// Of this kind; more than once for several: policy-violation and POLICY_VIOLATION are the same
    #[arg(long, value_name = "KIND")]
    pub event: Vec<EventKind>,
    /// At least so grave: low, medium, high, critical
    #[arg(long, value_name = "LEVEL")]
    pub severity: Option<Severity>,
    /// About this host, or *.domain for all below a domain
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// About this path, or anything below it
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Of a tool (behind the proxy also SERVER/TOOL): events that name it, and all of its sandboxes
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Reads all files of the log. A line that is no event is told on standard error, the others are read all the
/// same, and the exit code is 1 then.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret audit query --since 2h --severity high
  lazaret audit query --event policy-violation --path ~/.ssh
  lazaret audit query --host '*.example.com' --json | jq .details.host
  lazaret audit query --event escape-attempt --reverse --limit 10")]
pub struct Query {
    #[command(flatten)]
    pub filters: Filters,
    /// So many at most
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The newest first
    #[arg(long)]
    pub reverse: bool,
    /// One event in a line, exactly as in the log
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Tail {
    #[command(flatten)]
    pub filters: Filters,
    /// Go on with what arrives, also when the log is rotated
    #[arg(short, long)]
    pub follow: bool,
    /// So many of the last events that are asked for
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10)]
    pub lines: usize,
    /// One event in a line, exactly as in the log
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Stats {
    #[command(flatten)]
    pub filters: Filters,
    /// So many hosts, paths, calls and tools at most
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Show {
    /// A sandbox id, or the beginning of one [default: the newest]
    pub sandbox: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// One event in a line, exactly as in the log
    #[arg(long)]
    pub json: bool,
}

/// The database has a table `events` and the views `sandboxes`, `violations` and `connections`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret audit export --sqlite audit.db --since 30d
  sqlite3 audit.db 'SELECT host, count(*) FROM connections GROUP BY host ORDER BY 2 DESC'
  lazaret audit export --csv - --event network-connection")]
pub struct Export {
    #[command(flatten)]
    pub filters: Filters,
    /// Write a database of SQLite
    #[arg(long, value_name = "FILE", required_unless_present = "csv", conflicts_with = "csv")]
    pub sqlite: Option<PathBuf>,
    /// Write comma-separated values; - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
}

/// The log goes on by itself in a new file at 64 MiB, unless `[audit] rotateAt` in config.toml says otherwise.
#[derive(Debug, ClapArgs)]
pub struct Rotate {
    /// Keep so many files that were set aside, and remove older ones [default: as config.toml says, else all]
    #[arg(long, value_name = "N")]
    pub keep: Option<NonZeroU32>,
    /// The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[arg(long)]
    pub json: bool,
}
