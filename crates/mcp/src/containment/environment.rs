//! The variables of a server: the usual harmless ones, those its entry sets, and no others. TB0 passes everything
//! on, and with it every token that the agent was started with. In a sandbox a few are added, so that `npx` and
//! `uvx` find a cache they can write and do not ask for a network that is not there.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use lazaret_policy::schema::ParentProxy;

use super::{Params, Place, Reach};
use crate::config::{InheritEnv, Local};

/// Names and places: nothing that carries a secret or makes a program run other code.
const USUAL: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    // Where toolchains are and which of them is meant: what is found by PATH may be a shim that asks.
    "PYENV_ROOT",
    "PYENV_VERSION",
    "NVM_DIR",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];
/// Every variable that begins so.
const USUAL_PREFIX: &str = "LC_";
/// Where programs look for a proxy of the host's network.
const PROXIES: [(&str, &str); 2] = [("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy")];

/// For a sandboxed server and for an open one alike.
pub fn environment(server: &Local, parent: &BTreeMap<OsString, OsString>) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| {
        let usual =
            || name.to_str().is_some_and(|name| USUAL.contains(&name) || name.starts_with(USUAL_PREFIX));
        match &server.inherit_env {
            InheritEnv::Everything => true,
            InheritEnv::Usual => usual(),
            InheritEnv::Listed(names) => usual() || names.iter().any(|listed| name == listed.as_str()),
        }
    };
    let mut variables: BTreeMap<OsString, OsString> = parent
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in &server.env.0 {
        variables.insert(name.into(), value.into());
    }
    variables.into_iter().collect()
}

/// Below the home: what installers keep, and write whenever they start something.
const CACHES: [&str; 4] = [".npm", ".cache", ".local/share/uv", ".bun/install/cache"];
/// Variables that move such a directory, for homes that have none yet: there, nothing new can be made.
const ELSEWHERE: [(&str, &str, &str); 4] = [
    (".npm", "npm_config_cache", "/tmp/.npm"),
    (".cache", "XDG_CACHE_HOME", "/tmp/.cache"),
    (".local/share/uv", "UV_TOOL_DIR", "/tmp/.uv/tools"),
    (".local/share/uv", "UV_PYTHON_INSTALL_DIR", "/tmp/.uv/python"),
];
/// What the names of their registries have in common, and how installers are told not to ask: what was fetched
/// before then starts without.
const OFFLINE: [(&str, &str, &str, &str); 2] = [
    ("npm", "npm_config_registry", "npm_config_offline", "true"),
    ("pypi", "UV_INDEX_URL", "UV_OFFLINE", "1"),
];

/// Directories that are private layers in a sandbox, there or not.
pub fn caches(place: &Place) -> Vec<PathBuf> {
    place.home.iter().flat_map(|home| CACHES.iter().map(|name| home.join(name))).collect()
}

/// With what a sandbox needs in addition; what is there already stays.
pub fn in_sandbox(
    plain: Vec<(OsString, OsString)>,
    params: &Params,
    place: &Place,
    server: &Local,
) -> Vec<(OsString, OsString)> {
    let python = Path::new(&server.command)
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with("python") || name.starts_with("pypy"));
    // A script has its own directory in front of the path; a module has the working directory.
    let options = server.args.iter().take_while(|arg| arg.starts_with('-'));
    let start_of_module = python && options.into_iter().any(|arg| arg == "-m" || arg == "-c");
    let mut variables: BTreeMap<OsString, OsString> = plain.into_iter().collect();
    // npm reads its variables in any case.
    let has = |variables: &BTreeMap<OsString, OsString>, name: &str| {
        variables.keys().any(|known| known.to_str().is_some_and(|known| known.eq_ignore_ascii_case(name)))
    };
    let mut add = |name: &str, value: &str| {
        if !has(&variables, name) {
            variables.insert(name.into(), value.into());
        }
    };
    add("TMPDIR", "/tmp");
    // It would ask the registry for itself, whatever it starts.
    add("npm_config_update_notifier", "false");
    // Other servers can write where it starts: modules are not looked for there.
    if start_of_module {
        add("PYTHONSAFEPATH", "1");
    }
    for (directory, name, value) in ELSEWHERE {
        if !place.home.as_ref().is_some_and(|home| home.join(directory).is_dir()) {
            add(name, value);
        }
    }
    let allowed: &[String] = match &params.network {
        Reach::Off => &[],
        Reach::Domains(domains) => &domains.allowed,
    };
    for (registry, another, name, value) in OFFLINE {
        let reached = allowed.iter().any(|domain| domain == "*" || domain.contains(registry));
        // With network and a registry of its own, nothing is known about it here.
        let elsewhere = !allowed.is_empty() && has(&variables, another);
        if !reached && !elsewhere {
            let _ = variables.entry(name.into()).or_insert_with(|| value.into());
        }
    }
    variables.into_iter().collect()
}

/// What is said of a server that gets everything.
pub fn note(server: &Local) -> Option<&'static str> {
    (server.inherit_env == InheritEnv::Everything)
        .then_some("inheritEnv: every variable of the proxy is passed on, with every token that is in there")
}

/// As the proxy's own variables tell.
pub fn parent_proxy(environment: &BTreeMap<OsString, OsString>) -> Option<ParentProxy> {
    let variable = |names: (&str, &str)| {
        let value = environment.get(OsStr::new(names.0)).or_else(|| environment.get(OsStr::new(names.1)))?;
        value.to_str().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let [http, https] = PROXIES.map(variable);
    let no_proxy = variable(("NO_PROXY", "no_proxy"));
    (http.is_some() || https.is_some()).then_some(ParentProxy { http, https, no_proxy, routes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sandbox, Variables};

    fn parent() -> BTreeMap<OsString, OsString> {
        [
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("NODE_OPTIONS", "--require /evil.js"),
            ("GITHUB_TOKEN", "t"),
            ("TMPDIR", "/host/tmp"),
        ]
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
    }

    fn names(inherit_env: InheritEnv, env: &[(&str, &str)]) -> Vec<String> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let server = Local {
            command: "x".to_owned(),
            args: Vec::new(),
            env: Variables(env),
            directory: None,
            inherit_env,
            sandbox: Sandbox::default(),
        };
        let all = environment(&server, &parent());
        all.into_iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn only_the_usual_ones_and_the_servers_own_are_passed_on() {
        assert_eq!(
            names(InheritEnv::Usual, &[("TOKEN", "own")]),
            ["HOME=/h", "LC_ALL=C", "PATH=/bin", "TOKEN=own"]
        );
    }

    #[test]
    fn listed_names_are_passed_on_and_no_others() {
        let passed = names(InheritEnv::Listed(vec!["GITHUB_TOKEN".to_owned()]), &[]);
        assert_eq!(passed, ["GITHUB_TOKEN=t", "HOME=/h", "LC_ALL=C", "PATH=/bin"]);
    }

    #[test]
    fn everything_is_everything_and_the_servers_own_win() {
        let passed = names(InheritEnv::Everything, &[("HOME", "/other"), ("LD_PRELOAD", "/mine.so")]);
        assert!(passed.contains(&"ANTHROPIC_API_KEY=secret".to_owned()));
        assert!(
            passed.contains(&"HOME=/other".to_owned()) && passed.contains(&"LD_PRELOAD=/mine.so".to_owned())
        );
    }

    #[test]
    fn a_proxy_of_the_hosts_network_is_found_in_either_spelling() {
        let environment: BTreeMap<OsString, OsString> =
            [("https_proxy".into(), "http://p:1".into()), ("NO_PROXY".into(), "x".into())].into();
        let proxy = parent_proxy(&environment).unwrap();
        assert_eq!(
            (proxy.http, proxy.https.as_deref(), proxy.no_proxy.as_deref()),
            (None, Some("http://p:1"), Some("x"))
        );
        assert_eq!(parent_proxy(&parent()), None);
    }
}
