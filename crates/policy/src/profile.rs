//! The profiles that come with the program: policies as files, embedded at compile time.

use std::path::PathBuf;

use crate::load::{self, Format, LoadError, Loaded};

/// A built-in policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    /// The first comment line of the file.
    pub summary: &'static str,
    /// The TOML text.
    pub source: &'static str,
}

impl Profile {
    /// Reads and checks the profile as any other policy.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        load::parse(self.source, Format::Toml, &PathBuf::from(format!("<profile {}>", self.name)))
    }
}

macro_rules! profiles {
    ($($name:literal: $summary:literal),+ $(,)?) => {
        &[$(Profile {
            name: $name,
            summary: $summary,
            source: include_str!(concat!("../profiles/", $name, ".toml")),
        }),+]
    };
}

const BUILTIN: &[Profile] = profiles! {
    "default": "For everyday commands: the current directory is writable, credentials and network are closed.",
    "strict": "For programs you have not read: the current directory is read-only and every limit is tight.",
    "build": "For compiling and testing: like default, with downloaded packages visible and room to work.",
    "mcp-server": "For local MCP servers: long-running, without network, within limits.",
    "quarantine": "For looking at something hostile: no files of yours, no other programs, small limits.",
};

/// All built-in profiles, the default first.
pub fn builtin() -> &'static [Profile] {
    BUILTIN
}

/// The built-in profile of this name.
pub fn find(name: &str) -> Option<&'static Profile> {
    BUILTIN.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::schema::Level;

    #[test]
    fn every_profile_loads_without_warnings_at_level_two() {
        for profile in builtin() {
            let loaded = profile.load().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(loaded.warnings, Vec::<String>::new(), "{}", profile.name);
            assert_eq!(loaded.policy.isolation_level, Level::Full, "{}", profile.name);
            assert!(!loaded.policy.network.allow_network, "{}", profile.name);
        }
    }

    #[test]
    fn the_summary_is_the_first_comment_line_of_the_file() {
        for profile in builtin() {
            let first = profile.source.lines().next().and_then(|line| line.strip_prefix("# "));
            assert_eq!(first, Some(profile.summary), "{}", profile.name);
        }
    }

    #[test]
    fn every_profile_denies_the_credentials_that_default_denies() {
        let expected = find("default").unwrap().load().unwrap().policy.filesystem.denied_paths;
        assert!(expected.contains(&PathBuf::from("~/.ssh")));
        for profile in builtin() {
            let denied = profile.load().unwrap().policy.filesystem.denied_paths;
            assert!(expected.iter().all(|path| denied.contains(path)), "{}", profile.name);
        }
    }

    #[test]
    fn no_profile_passes_variables_that_carry_secrets_or_code() {
        let forbidden = "LD_PRELOAD LD_LIBRARY_PATH NODE_OPTIONS BASH_ENV ENV GIT_SSH_COMMAND SSH_AUTH_SOCK \
                         DBUS_SESSION_BUS_ADDRESS GITHUB_TOKEN AWS_SECRET_ACCESS_KEY PYTHONPATH PERL5OPT \
                         RUSTFLAGS RUSTC_WRAPPER JAVA_TOOL_OPTIONS XDG_RUNTIME_DIR DISPLAY";
        for profile in builtin() {
            for entry in profile.load().unwrap().policy.environment.allow {
                for name in forbidden.split_whitespace() {
                    let passes = match entry.strip_suffix('*') {
                        Some(prefix) => name.starts_with(prefix),
                        None => name == entry,
                    };
                    assert!(!passes, "{} passes {name} by {entry}", profile.name);
                }
            }
        }
    }

    #[test]
    fn quarantine_shows_nothing_of_the_caller() {
        let policy = find("quarantine").unwrap().load().unwrap().policy;
        assert!(policy.filesystem.read_write_paths.is_empty());
        assert!(policy.filesystem.read_only_paths.iter().all(|path| path.is_absolute()));
        assert!(!policy.filesystem.toolchains && !policy.process.allow_exec && !policy.process.allow_fork);
    }

    #[test]
    fn only_strict_and_quarantine_keep_the_current_directory_from_being_written() {
        for profile in builtin() {
            let writable = profile.load().unwrap().policy.filesystem.read_write_paths;
            let expected = !["strict", "quarantine"].contains(&profile.name);
            assert_eq!(writable.iter().any(|path| path == Path::new(".")), expected, "{}", profile.name);
        }
    }

    #[test]
    fn an_unknown_profile_is_not_found() {
        assert_eq!(find("nonesuch"), None);
    }
}
