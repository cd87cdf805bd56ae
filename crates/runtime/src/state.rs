//! Where our own files live: `$XDG_STATE_HOME/lazaret`, `$XDG_CONFIG_HOME/lazaret`, `/etc/lazaret`.

use std::{ffi::OsString, path::PathBuf};

/// The administrator's directory.
pub const ADMINISTRATOR: &str = "/etc/lazaret";

/// The caller's own directories, as the environment tells them.
#[derive(Debug, Clone, Default)]
pub struct Directories {
    pub state: Option<PathBuf>,
    pub config: Option<PathBuf>,
}

impl Directories {
    /// `variable` looks a name up in the environment. A relative value counts as unset (XDG base directory
    /// specification).
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Directories {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        Directories {
            state: absolute("XDG_STATE_HOME")
                .or_else(|| below_home(".local/state"))
                .map(|p| p.join("lazaret")),
            config: absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config")).map(|p| p.join("lazaret")),
        }
    }

    pub fn audit_log(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("audit.jsonl"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(pairs: &[(&str, &str)]) -> Directories {
        Directories::from_environment(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn xdg_variables_win_over_home_and_relative_ones_are_ignored() {
        let found = directories(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "c")]);
        assert_eq!(found.state, Some("/s/lazaret".into()));
        assert_eq!(found.config, Some("/h/.config/lazaret".into()));
        assert_eq!(directories(&[]).audit_log(), None);
    }
}
