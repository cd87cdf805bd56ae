//! What no server reads unless its entry says so: keys and tokens, as every built-in profile closes them, and what
//! the agents themselves keep, which matters more here, since a server sees the rest of the home.

use std::path::{Path, PathBuf};

use lazaret_policy::profile;

use super::Place;

/// Tokens of agents, and their own lists of servers, in which there are more tokens.
const AGENTS: [&str; 30] = [
    "~/.claude.json",
    "~/.claude/.credentials.json",
    "~/.config/Claude",
    "~/.codex/auth.json",
    "~/.codex/config.toml",
    "~/.gemini/oauth_creds.json",
    "~/.gemini/settings.json",
    "~/.cursor/mcp.json",
    "~/.codeium/windsurf/mcp_config.json",
    "~/.config/Code/User/mcp.json",
    "~/.config/github-copilot",
    "~/.copilot",
    "~/.config/goose",
    "~/.continue/config.yaml",
    "~/.cache/huggingface/token",
    "~/.huggingface",
    "~/.oci",
    "~/.boto",
    "~/.s3cfg",
    "~/.terraformrc",
    "~/.fly",
    "~/.config/stripe",
    "~/.config/netlify",
    "~/.config/heroku",
    "~/.config/solana",
    "~/.local/share/kwalletd",
    "~/.bitcoin",
    "~/.ethereum",
    "~/.electrum",
    "~/.env",
];
/// TB0's own, in case a profile ever loses one.
const ALWAYS: [&str; 3] = ["~/.ssh", "~/.gnupg", "~/.aws"];

/// Absolute. Nothing, where there is no home.
pub fn defaults(place: &Place) -> Vec<PathBuf> {
    let Some(home) = &place.home else { return Vec::new() };
    let of_profile = profile::find("default")
        .and_then(|profile| profile.load().ok())
        .map(|loaded| loaded.policy.filesystem.denied_paths)
        .unwrap_or_default();
    let listed = ALWAYS.iter().map(PathBuf::from).chain(of_profile).chain(AGENTS.iter().map(PathBuf::from));
    let mut paths = Vec::new();
    for path in listed {
        let Ok(below) = path.strip_prefix("~") else { continue };
        let mut add = |path: PathBuf| {
            if !paths.contains(&path) {
                paths.push(path);
            }
        };
        add(home.join(below));
        if let (Some(config), Ok(name)) = (&place.config_home, below.strip_prefix(Path::new(".config"))) {
            add(config.join(name));
        }
    }
    paths
}
