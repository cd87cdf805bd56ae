//! From settings to a policy: what each field comes to here, and what cannot be held and is therefore refused.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    lasting::{GIT_CONFIG, PROTECTED},
    network::Rules,
    schema::{self, Level, OnEscape, ProxyRoute, UnixSockets},
};

use crate::{
    paths::{Meaning, PathFault, absolute, is_pattern, meaning},
    settings::{Credentials, Filesystem, Mode, Network, PathEntry, Settings},
};

/// Writable without being listed, where they exist.
const OWN_TEMPORARY: &str = "/tmp/claude";
const CONVENIENT: [&str; 2] = [".npm/_logs", ".claude/debug"];

/// What the settings are read in.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    pub uid: u32,
    /// Variables with a name in UTF-8; the rest is not passed on.
    pub environment: BTreeMap<String, String>,
    pub passing: Passing,
}

/// Which variables of the caller the command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// All but those that the settings deny, as srt does.
    All,
    /// The usual harmless ones.
    Cleaned,
}

/// What comes of it.
#[derive(Debug, Clone)]
pub struct Translated {
    pub policy: Policy,
    /// In a container: run with what there is.
    pub weaker: bool,
    pub ignored: Ignored,
    /// What a person may want to know.
    pub notes: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// Violations that are not shown: parts of commands, and parts of paths.
#[derive(Debug, Clone, Default)]
pub struct Ignored(BTreeMap<String, Vec<String>>);

impl Ignored {
    /// Is a violation of this command about this path one of them?
    pub fn covers(&self, command: &str, path: &str) -> bool {
        self.0.iter().any(|(part, paths)| {
            (part == "*" || command.contains(part.as_str())) && paths.iter().any(|part| path.contains(part))
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TranslateError {
    #[error("{field}: {what} cannot be held here: {instead}")]
    Unsupported { field: &'static str, what: String, instead: &'static str },
    #[error("{field}: {fault}")]
    Path { field: &'static str, fault: PathFault },
    #[error("{field}: `{entry}` is a pattern, and {why}")]
    Pattern { field: &'static str, entry: String, why: &'static str },
    #[error(transparent)]
    Rule(#[from] lazaret_policy::network::RuleError),
}

/// Puts settings into a policy. Everything that they say holds, or nothing is run.
pub fn translate(settings: &Settings, surroundings: &Surroundings) -> Result<Translated, TranslateError> {
    let mut policy = Policy { isolation_level: Level::Full, ..Policy::default() };
    // srt refuses a mount and lets the command go on.
    policy.on_escape = Some(OnEscape::Deny);
    let mut translation = Translation { policy, surroundings, notes: Vec::new(), warnings: Vec::new() };
    if settings.mandatory_deny_search_depth.is_some_and(|depth| !(1..=10).contains(&depth)) {
        let (field, what) = ("mandatoryDenySearchDepth", "this number".to_owned());
        return Err(TranslateError::Unsupported { field, what, instead: "it is one from 1 to 10" });
    }
    translation.filesystem(&settings.filesystem)?;
    translation.credentials(settings.credentials.as_ref())?;
    translation.network(&settings.network)?;
    translation.environment(settings);
    if settings.allow_nested_user_namespaces {
        translation.notes.push(
            "allowNestedUserNamespaces is not granted: nothing inside can make namespaces of its own"
                .to_owned(),
        );
    }
    let Translation { policy, notes, warnings, .. } = translation;
    Rules::compile(&policy.network)?;
    Ok(Translated {
        policy,
        weaker: settings.enable_weaker_nested_sandbox,
        ignored: Ignored(settings.ignore_violations.clone()),
        notes,
        warnings,
    })
}

struct Translation<'a> {
    policy: Policy,
    surroundings: &'a Surroundings,
    notes: Vec<String>,
    warnings: Vec<String>,
}

impl Translation<'_> {
    fn meaning(&self, field: &'static str, entry: &PathEntry) -> Result<Meaning, TranslateError> {
        meaning(entry, &self.surroundings.directory, self.surroundings.home.as_deref())
            .map_err(|fault| TranslateError::Path { field, fault })
    }

    fn absolute(&self, field: &'static str, text: &str) -> Result<PathBuf, TranslateError> {
        absolute(text, &self.surroundings.directory, self.surroundings.home.as_deref())
            .map_err(|fault| TranslateError::Path { field, fault })
    }

    fn filesystem(&mut self, settings: &Filesystem) -> Result<(), TranslateError> {
        if settings.disabled {
            self.policy.filesystem.read_write_paths.push("/".into());
            self.notes.push("filesystem.disabled: every file of the host can be written".to_owned());
            return Ok(());
        }
        self.policy.filesystem.read_only_paths.push("/".into());
        for entry in &settings.deny_read {
            if entry.path.ends_with('/') && is_pattern(&entry.path) {
                let (field, why) =
                    ("filesystem.denyRead", "it ends in `/`, so it matches nothing: leave the `/` out");
                return Err(TranslateError::Pattern { field, entry: entry.path.clone(), why });
            }
            match self.meaning("filesystem.denyRead", entry)? {
                Meaning::Path(path) if path == Path::new("/") => {
                    self.policy.filesystem.read_only_paths.retain(|path| path != Path::new("/"));
                }
                Meaning::Path(path) => self.policy.filesystem.hidden_paths.push(path),
                Meaning::Pattern(path) => self.policy.filesystem.hidden_patterns.push(path),
            }
        }
        let denied = self.plain("filesystem.denyRead", &settings.deny_read)?;
        let writable = self.plain("filesystem.allowWrite", &settings.allow_write)?;
        for entry in &settings.allow_read {
            match self.meaning("filesystem.allowRead", entry)? {
                // It says something only where reading is denied, and writing allows reading.
                Meaning::Path(path) if deepest(&denied, &path) <= deepest(&writable, &path) => {}
                Meaning::Path(path) => self.exists_then(path, "allowRead", Access::Read),
                Meaning::Pattern(_) => {
                    let why = "what it will match later cannot be made visible now: list the directory";
                    let field = "filesystem.allowRead";
                    return Err(TranslateError::Pattern { field, entry: entry.path.clone(), why });
                }
            }
        }
        for entry in &settings.allow_write {
            match self.meaning("filesystem.allowWrite", entry)? {
                // Whoever could write there could have put a link there, to anywhere.
                Meaning::Path(path) if leads_astray(&path, &writable) => self.warnings.push(format!(
                    "filesystem.allowWrite: {} is a link, or behind one, that leads out of a writable directory: it is left out",
                    path.display()
                )),
                Meaning::Path(path) => self.exists_then(path, "allowWrite", Access::Write),
                Meaning::Pattern(_) => {
                    let why = "names that do not exist yet cannot be made writable in a directory that is not: list \
                               the directory, and what must not be written in it in denyWrite";
                    let field = "filesystem.allowWrite";
                    return Err(TranslateError::Pattern { field, entry: entry.path.clone(), why });
                }
            }
        }
        for entry in &settings.deny_write {
            let path = match self.meaning("filesystem.denyWrite", entry)? {
                Meaning::Pattern(path) => path,
                Meaning::Path(path) if path.exists() => path,
                // What is not there is judged by its name, in which no character shall mean anything.
                Meaning::Path(path) => escaped(&path),
            };
            self.policy.filesystem.protected_paths.push(path);
        }
        self.default_writes(&denied);
        let names = PROTECTED.iter().chain(GIT_CONFIG.iter().filter(|_| !settings.allow_git_config));
        self.policy.filesystem.protected_names.extend(names.map(|name| (*name).to_owned()));
        Ok(())
    }

    /// The entries that are no patterns.
    fn plain(&self, field: &'static str, entries: &[PathEntry]) -> Result<Vec<PathBuf>, TranslateError> {
        let path = |entry| match self.meaning(field, entry) {
            Ok(Meaning::Path(path)) => Some(Ok(path)),
            Ok(Meaning::Pattern(_)) => None,
            Err(error) => Some(Err(error)),
        };
        entries.iter().filter_map(path).collect()
    }

    /// What does not exist is not there to be seen or written; srt leaves it out, too.
    fn exists_then(&mut self, path: PathBuf, field: &str, access: Access) {
        // The sandbox has its own, in which the usual devices can be written.
        if ["/dev", "/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel)) {
            self.notes.push(format!("filesystem.{field}: {} is the sandbox's own", path.display()));
        } else if !path.exists() {
            self.notes
                .push(format!("filesystem.{field}: {} does not exist, so it is left out", path.display()));
        } else {
            match access {
                Access::Read => self.policy.filesystem.read_only_paths.push(path),
                Access::Write => self.policy.filesystem.read_write_paths.push(path),
            }
        }
    }

    fn default_writes(&mut self, denied: &[PathBuf]) {
        let home = self.surroundings.home.clone();
        let convenient = home.iter().flat_map(|home| CONVENIENT.iter().map(|name| home.join(name)));
        // What is hidden stays hidden.
        let convenient = convenient.filter(|path| !denied.iter().any(|denied| path.starts_with(denied)));
        let paths: Vec<PathBuf> = [PathBuf::from(OWN_TEMPORARY)]
            .into_iter()
            .chain(convenient)
            .filter(|path| is_own_directory(path, self.surroundings.uid))
            .collect();
        self.policy.filesystem.read_write_paths.extend(paths);
    }

    fn credentials(&mut self, settings: Option<&Credentials>) -> Result<(), TranslateError> {
        const INSTEAD: &str = "that needs TLS to be opened on the way, which is not done here. Use \"deny\", or keep srt for it";
        let Some(settings) = settings else { return Ok(()) };
        let unsupported = |field, what: String| TranslateError::Unsupported { field, what, instead: INSTEAD };
        for file in &settings.files {
            if file.mode == Mode::Mask {
                return Err(unsupported("credentials.files", format!("the mask of {}", file.path)));
            }
            let entry =
                PathEntry { path: file.path.clone(), reading: crate::settings::Reading::MayBePattern };
            let meaning = self.meaning("credentials.files", &entry)?;
            let filesystem = &mut self.policy.filesystem;
            match meaning {
                Meaning::Pattern(path) => filesystem.hidden_patterns.push(path),
                Meaning::Path(path) => {
                    // Nothing that is listed opens it again.
                    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                    let closed = real(&path);
                    filesystem.read_only_paths.retain(|listed| !real(listed).starts_with(&closed));
                    filesystem.read_write_paths.retain(|listed| !real(listed).starts_with(&closed));
                    filesystem.hidden_paths.push(path);
                }
            }
        }
        if let Some(variable) = settings.env_vars.iter().find(|variable| variable.mode == Mode::Mask) {
            return Err(unsupported("credentials.envVars", format!("the mask of {}", variable.name)));
        }
        if !settings.aws_pairs.is_empty() || settings.sigv4.is_some() {
            return Err(unsupported("credentials.awsPairs, credentials.sigv4", "signing anew".to_owned()));
        }
        Ok(())
    }

    fn network(&mut self, settings: &Network) -> Result<(), TranslateError> {
        refuse_interception(settings)?;
        let network = &mut self.policy.network;
        network.allow_network = true;
        network.allowed_domains = Some(settings.allowed_domains.clone());
        network.denied_domains = settings.denied_domains.clone();
        // A reason without its entry is never told.
        let reasons = settings.denied_domain_reasons.iter();
        network.denied_reasons = reasons
            .filter(|(entry, _)| settings.denied_domains.contains(entry))
            .map(|(entry, reason)| (entry.clone(), reason.clone()))
            .collect();
        network.denied_addresses = settings.denied_resolved_addresses.clone();
        network.verify_server_name = settings.require_host_match;
        network.publish_listening = settings.allow_local_binding;
        network.unix_sockets = Some(if settings.allow_all_unix_sockets {
            UnixSockets::All
        } else if settings.allow_unix_sockets.is_empty() {
            UnixSockets::None
        } else {
            UnixSockets::Own
        });
        const SOCKETS: &str = "network.allowUnixSockets";
        for entry in &settings.allow_unix_sockets {
            if is_pattern(entry) {
                let why = "a socket is named by its path: list it, or its directory";
                return Err(TranslateError::Pattern { field: SOCKETS, entry: entry.clone(), why });
            }
            let path = self.absolute(SOCKETS, entry)?;
            if path == Path::new("/") {
                let (what, instead) = ("every socket".to_owned(), "allowAllUnixSockets says that");
                return Err(TranslateError::Unsupported { field: SOCKETS, what, instead });
            }
            self.policy.network.unix_socket_paths.push(path);
        }
        self.policy.network.parent_proxy = self.parent_proxy(settings)?;
        Ok(())
    }

    /// The settings, or the caller's own variables; an external proxy in place of srt's is a parent of ours.
    fn parent_proxy(&self, settings: &Network) -> Result<Option<schema::ParentProxy>, TranslateError> {
        let variable = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| self.surroundings.environment.get(*name))
                .filter(|value| !value.is_empty())
                .cloned()
        };
        let written = settings.parent_proxy.clone().unwrap_or_default();
        let external = match (settings.http_proxy_port, settings.socks_proxy_port) {
            (Some(port), _) => Some(format!("http://127.0.0.1:{port}")),
            (None, Some(port)) => Some(format!("socks5h://127.0.0.1:{port}")),
            (None, None) => None,
        };
        let http = external.clone().or(written.http).or_else(|| variable(["HTTP_PROXY", "http_proxy"]));
        let https = external
            .or(written.https)
            .or_else(|| variable(["HTTPS_PROXY", "https_proxy"]))
            .or_else(|| http.clone());
        let no_proxy = written.no_proxy.or_else(|| variable(["NO_PROXY", "no_proxy"]));
        let mut routes = Vec::new();
        if let Some(mitm) = &settings.mitm_proxy {
            let socket = self.absolute("network.mitmProxy.socketPath", &mitm.socket_path)?;
            let proxy = format!("unix:{}", socket.display());
            routes.push(ProxyRoute { hosts: mitm.domains.clone(), proxy });
        }
        let any = http.is_some() || https.is_some() || !routes.is_empty();
        Ok(any.then_some(schema::ParentProxy { http, https, no_proxy, routes }))
    }

    fn environment(&mut self, settings: &Settings) {
        let surroundings = self.surroundings;
        let denied: Vec<&str> = settings
            .credentials
            .iter()
            .flat_map(|credentials| credentials.env_vars.iter().map(|variable| variable.name.as_str()))
            .collect();
        let environment = &mut self.policy.environment;
        environment.allow = match surroundings.passing {
            Passing::All => surroundings.environment.keys().cloned().collect(),
            Passing::Cleaned => {
                let usual =
                    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "TZ", "PWD"];
                usual.iter().map(|name| (*name).to_owned()).chain(["LC_*".to_owned()]).collect()
            }
        };
        environment.allow.retain(|name| !denied.contains(&name.as_str()));
        let asked = ["CLAUDE_CODE_TMPDIR", "CLAUDE_TMPDIR"];
        let asked = asked.iter().find_map(|name| surroundings.environment.get(*name)).cloned();
        let own =
            || is_own_directory(Path::new(OWN_TEMPORARY), surroundings.uid).then(|| OWN_TEMPORARY.to_owned());
        let temporary = asked.or_else(own).unwrap_or_else(|| "/tmp".to_owned());
        let mut set =
            |name: &str, value: &str| drop(environment.set.insert(name.to_owned(), value.to_owned()));
        set("TMPDIR", &temporary);
        set("SANDBOX_RUNTIME", "1");
        let safe = settings.git.as_ref().map(|git| git.safe_directories.as_slice()).unwrap_or_default();
        if !safe.is_empty() {
            set("GIT_CONFIG_COUNT", &safe.len().to_string());
            for (number, directory) in safe.iter().enumerate() {
                set(&format!("GIT_CONFIG_KEY_{number}"), "safe.directory");
                set(&format!("GIT_CONFIG_VALUE_{number}"), directory);
            }
        }
    }
}

/// A directory of the caller's, by its own name: nobody else has put it there.
fn is_own_directory(path: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let real = path.canonicalize().is_ok_and(|real| real == path);
    real && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == uid)
}

/// Does a path that lies in a writable directory by its name lie elsewhere in truth?
fn leads_astray(path: &Path, writable: &[PathBuf]) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let above = writable.iter().filter(|above| path.starts_with(above) && *above != path);
    above.filter_map(|above| above.canonicalize().ok()).any(|above| !real.starts_with(above))
}

/// How long the longest of `paths` at or above `path` is; 0 without one.
fn deepest(paths: &[PathBuf], path: &Path) -> usize {
    paths
        .iter()
        .filter(|above| path.starts_with(above))
        .map(|above| above.as_os_str().len())
        .max()
        .unwrap_or(0)
}

/// As a pattern that matches nothing else.
fn escaped(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    text.chars()
        .fold(String::new(), |mut text, c| {
            match c {
                '*' | '?' | '[' => text.extend(['[', c, ']']),
                _ => text.push(c),
            }
            text
        })
        .into()
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// What needs the content of TLS, or a program of the caller's.
fn refuse_interception(settings: &Network) -> Result<(), TranslateError> {
    const TLS: &str = "TLS is passed through unopened. Leave it out, or keep srt for it";
    let target = settings.ambiguous_request_target.as_deref();
    let asked = [
        ("network.tlsTerminate", settings.tls_terminate.is_some(), TLS),
        (
            "network.filterRequest",
            settings.filter_request.is_some(),
            "it is a function of a program. Leave it out",
        ),
        ("network.stripResponseHeaders", !settings.strip_response_headers.is_empty(), TLS),
        ("network.allowPlaintextHeaderSet", settings.allow_plaintext_header_set, TLS),
        ("network.refuseOpaqueTunnels", settings.refuse_opaque_tunnels, TLS),
        (
            "network.ambiguousRequestTarget",
            !matches!(target, None | Some("refuse" | "asSpelled")),
            "requests are passed on as they are. Leave it out",
        ),
    ];
    match asked.into_iter().find(|(_, asked, _)| *asked) {
        Some((field, _, instead)) => {
            Err(TranslateError::Unsupported { field, what: "this setting".to_owned(), instead })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
