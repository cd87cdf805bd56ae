//! Names whose content acts on later: what a shell, an editor, an agent or git executes when it next runs, outside
//! of any sandbox. For `protectedNames`.

/// Files and directories that are never written, as in srt; those of a repository only in one that was there
/// before the command.
pub const PROTECTED: [&str; 20] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".ripgreprc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude/commands",
    ".claude/agents",
    ".git/hooks",
    ".git/modules/**/hooks",
    // These say where the hooks and the config are; so does a `.git` that is a file.
    ".git",
    ".git/commondir",
    ".git/modules/**/commondir",
    ".git/worktrees/*/commondir",
    ".git/worktrees/*/gitdir",
];
/// The configuration of a repository, which can name programs to run.
pub const GIT_CONFIG: [&str; 5] = [
    ".git/config",
    ".git/config.worktree",
    ".git/modules/**/config",
    ".git/modules/**/config.worktree",
    ".git/worktrees/*/config.worktree",
];
/// What agents, shells and tools for projects read when they next run: settings with hooks, other lists of servers.
pub const OF_AGENTS: [&str; 24] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".claude/skills",
    ".cursor/mcp.json",
    ".cursor/hooks.json",
    ".codex",
    ".gemini",
    ".copilot",
    ".kiro/settings",
    ".zed",
    "opencode.json",
    ".envrc",
    ".husky",
    ".devcontainer",
    ".zshenv",
    ".zlogin",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".exrc",
    ".nvim.lua",
    ".gdbinit",
    ".mise.toml",
];
