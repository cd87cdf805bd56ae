//! `config.toml` in `/etc/lazaret` or in the caller's configuration directory: how this program itself
//! behaves. What a sandbox may do is a policy's business.

use std::{
    fs, io,
    num::{NonZeroU32, NonZeroU64},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use lazaret_audit::Rotation;
use lazaret_policy::units::Bytes;
use serde::Deserialize;

use crate::alert::{AlertError, Destinations};

#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error("{file}: {source}", file = file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{file} is not safe to trust: others than its owner can write it", file = file.display())]
    Untrusted { file: PathBuf },
    #[error("{file}: {message}", file = file.display())]
    Malformed { file: PathBuf, message: String },
    #[error(transparent)]
    Alert(#[from] AlertError),
}

/// ```toml
/// [alert]
/// command = ["/usr/local/bin/page-me"]         # gets the alert as JSON on standard input
/// webhook = "http://127.0.0.1:9093/lazaret"    # gets the same as a POST request
///
/// [audit]
/// rotateAt = "64M"                             # 0: never
/// keep = 20                                    # files that were set aside; left out: all
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    #[serde(default)]
    pub alert: Destinations,
    #[serde(default)]
    audit: Audit,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Audit {
    #[serde(default)]
    rotate_at: Option<Bytes>,
    #[serde(default)]
    keep: Option<NonZeroU32>,
}

impl Configuration {
    /// Reads the first of the files that exists, the administrator's first.
    pub fn load(files: &[PathBuf]) -> Result<Configuration, ConfigurationError> {
        for file in files {
            let unreadable = |source| ConfigurationError::Unreadable { file: file.clone(), source };
            let metadata = match fs::metadata(file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(unreadable)?,
            };
            if metadata.mode() & 0o022 != 0 {
                return Err(ConfigurationError::Untrusted { file: file.clone() });
            }
            let text = fs::read_to_string(file).map_err(unreadable)?;
            let configuration: Configuration = toml::from_str(&text).map_err(|error| {
                ConfigurationError::Malformed { file: file.clone(), message: error.to_string() }
            })?;
            configuration.alert.check()?;
            return Ok(configuration);
        }
        Ok(Configuration::default())
    }

    /// When the audit log goes on in a new file, and how many are kept.
    pub fn rotation(&self) -> Rotation {
        let at = match self.audit.rotate_at {
            Some(Bytes(size)) => NonZeroU64::new(size),
            None => Rotation::default().at,
        };
        Rotation { at, keep: self.audit.keep }
    }
}

/// The files that configure this program.
pub fn files(config: Option<&Path>) -> Vec<PathBuf> {
    [Some(Path::new(crate::state::ADMINISTRATOR)), config]
        .into_iter()
        .flatten()
        .map(|directory| directory.join("config.toml"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_is_on_unless_its_size_is_nothing() {
        let rotation = |text: &str| toml::from_str::<Configuration>(text).map(|it| it.rotation());
        assert_eq!(rotation(""), Ok(Rotation::default()));
        assert_eq!(rotation("[audit]\nrotateAt = 0"), Ok(Rotation::NEVER));
        let set = Rotation { at: NonZeroU64::new(5 << 20), keep: NonZeroU32::new(3) };
        assert_eq!(rotation("[audit]\nrotateAt = \"5M\"\nkeep = 3"), Ok(set));
        assert!(rotation("[audit]\nkeep = 0").is_err(), "the newest is always needed");
        assert!(rotation("[audit]\nrotate = 1").is_err());
    }
}
