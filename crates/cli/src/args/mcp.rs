//! `lazaret mcp`.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// Be one MCP server for the client: each real server in a sandbox of its own, each call under a policy
    Serve(McpServe),
    /// The same for a single server, without a file
    Wrap(McpWrap),
    /// Make our list of servers from another client's configuration
    Import(McpImport),
    /// Say what would be decided about a call, and by which rule
    Explain(McpExplain),
    /// Show open sessions and their servers
    Status(McpStatus),
    /// Accept the tools of a server as they are now
    Trust(McpTrust),
}

/// What all that judge calls have in common.
#[derive(Debug, ClapArgs)]
pub struct McpCommon {
    /// The directory that servers may write in [default: a new one for each session]
    #[arg(long, value_name = "DIR")]
    pub session: Option<PathBuf>,
    /// A directory of *.cedar files that decide on calls [default: $XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy]
    #[arg(long, value_name = "DIR")]
    pub policy: Option<PathBuf>,
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

/// Reads a list of MCP servers, starts each in a sandbox of its own and is one MCP server for the client, on
/// standard input and output. See docs/mcp.md.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret mcp serve --config mcp-servers.json
  lazaret mcp serve --config .mcp.json --session ./work --policy ./policies
  lazaret mcp serve --config mcp-servers.json --http 127.0.0.1:8931 --token-file token
  claude mcp add lazaret -- lazaret mcp serve --config ~/.config/lazaret/mcp-servers.json")]
pub struct McpServe {
    /// The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub common: McpCommon,
    /// Serve streamable HTTP on a loopback address instead; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// With --http: the file with the bearer token; made if it is missing [default: in the state directory]
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// With --http: also accept requests of pages from this origin
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<lazaret_mcp::http::Origin>,
}

/// Puts one MCP server into a sandbox: it can write in the session directory and reach nobody, unless said
/// otherwise.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret mcp wrap -- npx -y @modelcontextprotocol/server-memory
  lazaret mcp wrap --session . --allow github.com -- mcp-server-git")]
pub struct McpWrap {
    /// The name under which policies and the log know it [default: the command's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Let it write here as well
    #[arg(long, value_name = "PATH")]
    pub allow_write: Vec<PathBuf>,
    /// Hide this from it as well
    #[arg(long, value_name = "PATH")]
    pub deny_read: Vec<PathBuf>,
    /// Let it reach a host: a name or *.domain
    #[arg(long, value_name = "HOST")]
    pub allow: Vec<String>,
    /// Pass a variable through, or set it
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Where no sandbox can be had, run without one and say so
    #[arg(long)]
    pub warn: bool,
    #[command(flatten)]
    pub common: McpCommon,
    /// The server's command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

/// Finds out what a call is about and asks the policies, without making it. The tools are those that were pinned; a
/// server that was never used is started once.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:
  lazaret mcp explain files read_file '{\"path\": \"/etc/hosts\"}'")]
pub struct McpExplain {
    pub server: String,
    pub tool: String,
    /// The arguments of the call, a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub common: McpCommon,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct McpStatus {
    #[arg(long)]
    pub json: bool,
}

/// A server's tools are pinned when it is first used. When they change, calls of changed tools are asked about until
/// they are accepted here.
#[derive(Debug, ClapArgs)]
pub struct McpTrust {
    pub server: String,
    /// The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Reads the MCP servers of Claude Code, Claude Desktop, Cursor, VS Code, Codex and others, writes them as a list for
/// `lazaret mcp serve`, and says what each will be able to do and what to put into the client instead.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret mcp import .mcp.json
  lazaret mcp import ~/.claude.json
  lazaret mcp import ~/.codex/config.toml --output servers.json
  lazaret mcp import ~/.cursor/mcp.json --output - > servers.json")]
pub struct McpImport {
    /// The client's configuration
    pub file: PathBuf,
    /// Where the list is written; - is standard output [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the list if it is there
    #[arg(long)]
    pub force: bool,
    /// What the client is to call the proxy
    #[arg(long, value_name = "NAME", default_value = "lazaret")]
    pub name: String,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}
