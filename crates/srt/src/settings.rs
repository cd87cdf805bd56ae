//! The settings file: every key of srt 0.0.83, nothing else. What srt drops silently is an error here, since a
//! rule that was mistyped is a rule that does not hold.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

/// More than this is no settings file.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{file} does not exist", file = .0.display())]
    Missing(PathBuf),
    #[error("{file} cannot be read: {source}", file = file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{file} is empty: delete it, or put settings in it", file = .0.display())]
    Empty(PathBuf),
    #[error("{file} is larger than 1 MiB, which no settings file is", file = .0.display())]
    TooLarge(PathBuf),
    #[error("{file}:{line}:{column}: {message}", file = file.display())]
    Invalid { file: PathBuf, line: usize, column: usize, message: String },
}

/// The whole of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    #[serde(rename = "$schema", default)]
    pub schema: Option<String>,
    pub network: Network,
    pub filesystem: Filesystem,
    #[serde(default)]
    pub credentials: Option<Credentials>,
    /// A part of a command, or `*`, and parts of paths whose violations are not shown.
    #[serde(default)]
    pub ignore_violations: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub enable_weaker_nested_sandbox: bool,
    #[serde(default)]
    pub allow_nested_user_namespaces: bool,
    #[serde(default)]
    pub git: Option<Git>,
    // What follows means something elsewhere, or names a tool that is not needed here.
    #[serde(default)]
    pub enable_weaker_network_isolation: bool,
    #[serde(default)]
    pub allow_apple_events: bool,
    #[serde(default)]
    pub allow_pty: bool,
    #[serde(default)]
    pub mandatory_deny_search_depth: Option<u8>,
    #[serde(default)]
    pub ripgrep: Option<Value>,
    #[serde(default)]
    pub seccomp: Option<Value>,
    #[serde(default)]
    pub bwrap_path: Option<String>,
    #[serde(default)]
    pub socat_path: Option<String>,
    #[serde(default)]
    pub java_agent_jar_path: Option<String>,
    #[serde(default)]
    pub windows: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Network {
    pub allowed_domains: Vec<String>,
    pub denied_domains: Vec<String>,
    #[serde(default)]
    pub denied_domain_reasons: BTreeMap<String, String>,
    #[serde(default)]
    pub strict_allowlist: bool,
    #[serde(default)]
    pub denied_resolved_addresses: Vec<String>,
    #[serde(default)]
    pub allow_unix_sockets: Vec<String>,
    #[serde(default)]
    pub allow_all_unix_sockets: bool,
    #[serde(default)]
    pub allow_local_binding: bool,
    #[serde(default)]
    pub allow_mach_lookup: Vec<String>,
    #[serde(default)]
    pub http_proxy_port: Option<u16>,
    #[serde(default)]
    pub socks_proxy_port: Option<u16>,
    #[serde(default)]
    pub mitm_proxy: Option<MitmProxy>,
    #[serde(default)]
    pub parent_proxy: Option<ParentProxy>,
    #[serde(default)]
    pub require_host_match: Option<bool>,
    #[serde(default)]
    pub ambiguous_request_target: Option<String>,
    #[serde(default)]
    pub allow_plaintext_header_set: bool,
    #[serde(default)]
    pub strip_response_headers: Vec<String>,
    #[serde(default)]
    pub refuse_opaque_tunnels: bool,
    #[serde(default)]
    pub tls_terminate: Option<Value>,
    #[serde(default)]
    pub filter_request: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MitmProxy {
    pub socket_path: String,
    pub domains: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParentProxy {
    #[serde(default)]
    pub http: Option<String>,
    #[serde(default)]
    pub https: Option<String>,
    #[serde(default)]
    pub no_proxy: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filesystem {
    #[serde(default)]
    pub disabled: bool,
    pub deny_read: Vec<PathEntry>,
    #[serde(default)]
    pub allow_read: Vec<PathEntry>,
    pub allow_write: Vec<PathEntry>,
    pub deny_write: Vec<PathEntry>,
    #[serde(default)]
    pub allow_git_config: bool,
}

/// A path, in which `*` and its like mean something unless it is said to be literal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawEntry")]
pub struct PathEntry {
    pub path: String,
    pub reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    MayBePattern,
    Literal,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path, or {\"path\": \"…\", \"literal\": true}")]
enum RawEntry {
    Text(String),
    Marked(Marked),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marked {
    path: String,
    literal: bool,
}

impl TryFrom<RawEntry> for PathEntry {
    type Error = &'static str;

    fn try_from(raw: RawEntry) -> Result<Self, Self::Error> {
        let (path, reading) = match raw {
            RawEntry::Text(path) => (path, Reading::MayBePattern),
            RawEntry::Marked(Marked { literal: false, .. }) => {
                return Err("`literal` can only be true: leave it out otherwise");
            }
            RawEntry::Marked(Marked { path, literal: true }) => (path, Reading::Literal),
        };
        match path.as_str() {
            "" => Err("a path is empty"),
            text if text.contains('\0') => Err("a path contains a NUL byte"),
            _ => Ok(PathEntry { path, reading }),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    #[serde(default)]
    pub files: Vec<CredentialFile>,
    #[serde(default)]
    pub env_vars: Vec<CredentialVariable>,
    #[serde(default)]
    pub allow_plaintext_inject: bool,
    #[serde(default)]
    pub aws_pairs: Vec<Value>,
    #[serde(default)]
    pub sigv4: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Deny,
    Mask,
}

/// The keys that belong to `mask` are accepted as srt does: they say nothing about `deny`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialFile {
    pub path: String,
    pub mode: Mode,
    #[serde(default)]
    pub extract: Option<Value>,
    #[serde(default)]
    pub on_extract_no_match: Option<Value>,
    #[serde(default)]
    pub decode: Option<Value>,
    #[serde(default)]
    pub mask_claims: Option<Value>,
    #[serde(default)]
    pub mask_duplicates: Option<Value>,
    #[serde(default)]
    pub inject_hosts: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialVariable {
    pub name: String,
    pub mode: Mode,
    #[serde(default)]
    pub extract: Option<Value>,
    #[serde(default)]
    pub on_extract_no_match: Option<Value>,
    #[serde(default)]
    pub decode: Option<Value>,
    #[serde(default)]
    pub mask_claims: Option<Value>,
    #[serde(default)]
    pub inject_hosts: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Git {
    #[serde(default)]
    pub safe_directories: Vec<String>,
}

/// Reads a settings file.
pub fn load(file: &Path) -> Result<Settings, SettingsError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SettingsError::Missing(file.to_owned()),
        _ => SettingsError::Unreadable { file: file.to_owned(), source },
    };
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        let source = io::Error::other("it is not a regular file");
        return Err(SettingsError::Unreadable { file: file.to_owned(), source });
    }
    if metadata.len() > LARGEST {
        return Err(SettingsError::TooLarge(file.to_owned()));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    parse(&text, file)
}

/// Reads settings; `file` is only the name that errors carry.
pub fn parse(text: &str, file: &Path) -> Result<Settings, SettingsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(SettingsError::Empty(file.to_owned()));
    }
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place stands in front already.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        SettingsError::Invalid {
            file: file.to_owned(),
            line: error.line(),
            column: error.column(),
            message: message.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{"network":{"allowedDomains":[],"deniedDomains":[]},
        "filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}"#;

    fn fault(text: &str) -> String {
        parse(text, Path::new("s.json")).unwrap_err().to_string()
    }

    #[test]
    fn the_least_that_srt_takes_is_taken() {
        parse(LEAST, Path::new("s.json")).unwrap();
    }

    #[test]
    fn a_section_or_list_that_is_left_out_is_an_error() {
        assert!(fault("{}").contains("missing field `network`"));
        let without = LEAST.replace(r#""denyWrite":[]"#, r#""allowGitConfig":true"#);
        assert!(fault(&without).contains("missing field `denyWrite`"), "{}", fault(&without));
    }

    #[test]
    fn an_unknown_key_is_an_error_wherever_it_stands() {
        for (at, with) in [
            (r#"{"network":{"#, r#"{"netwrk":{},"network":{"#),
            (r#""deniedDomains":[]"#, r#""deniedDomains":[],"deniedDomain":[]"#),
            (r#""denyRead":[]"#, r#""denyRead":[],"denyreads":[]"#),
        ] {
            let text = LEAST.replacen(at, with, 1);
            let fault = fault(&text);
            assert!(fault.contains("unknown field") && fault.starts_with("s.json:"), "{fault}");
        }
    }

    #[test]
    fn paths_are_texts_or_marked_as_literal() {
        let text = LEAST.replace(r#""denyRead":[]"#, r#""denyRead":["a*",{"path":"b*","literal":true}]"#);
        let settings = parse(&text, Path::new("s.json")).unwrap();
        let [pattern, literal] = settings.filesystem.deny_read.as_slice() else { panic!() };
        assert_eq!((pattern.reading, literal.reading), (Reading::MayBePattern, Reading::Literal));
        for wrong in [r#"[1]"#, r#"[""]"#, r#"[{"path":"x"}]"#, r#"[{"path":"x","literal":false}]"#] {
            fault(&LEAST.replace(r#""denyRead":[]"#, &format!(r#""denyRead":{wrong}"#)));
        }
    }

    #[test]
    fn what_is_no_json_names_its_place() {
        assert!(fault("{\n  \"network\": }").starts_with("s.json:2:"));
        assert!(fault(" \n").contains("empty"));
    }
}
