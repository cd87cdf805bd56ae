//! The environment of the command: an allow-list, never the caller's environment as it is.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    net::SocketAddrV4,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use lazaret_policy::schema::EnvironmentPolicy;

/// Variables that make a program load code or act for somebody else: a prefix wildcard never covers them,
/// only their full name does.
const NEVER_BY_WILDCARD: [&str; 12] = [
    "LD_",
    "BASH_ENV",
    "ENV",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
    "SSH_",
    "DBUS_",
    "GIT_",
    "JAVA_TOOL_OPTIONS",
    "SUDO_",
];

/// Picks what is allowed, sets what is set, and gives the private directory for temporary files.
pub fn clean(
    caller: &[(OsString, OsString)],
    policy: &EnvironmentPolicy,
    home: Option<&Path>,
    proxy: Option<SocketAddrV4>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (key, value) in caller {
        if policy.allow.iter().any(|pattern| allows(pattern, key)) {
            variables.insert(key.as_bytes().to_vec(), value.as_bytes().to_vec());
        }
    }
    let path = || OsString::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").into_vec();
    variables.entry(b"PATH".to_vec()).or_insert_with(path);
    if let Some(home) = home {
        variables.entry(b"HOME".to_vec()).or_insert_with(|| home.as_os_str().as_bytes().to_vec());
    }
    variables.entry(b"TMPDIR".to_vec()).or_insert_with(|| b"/tmp".to_vec());
    variables.insert(b"LAZARET".to_vec(), b"1".to_vec());
    if let Some(proxy) = proxy {
        // A proxy of the caller's could not be reached from inside.
        for (names, value) in proxy_variables(proxy) {
            for name in names {
                variables.insert(name.as_bytes().to_vec(), value.clone().into_bytes());
            }
        }
    }
    for (key, value) in &policy.set {
        variables.insert(key.clone().into_bytes(), value.clone().into_bytes());
    }
    variables.into_iter().collect()
}

/// The way out for programs that look for one in their environment. Others need nothing.
fn proxy_variables(proxy: SocketAddrV4) -> [(&'static [&'static str], String); 3] {
    [
        (&["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"], format!("http://{proxy}")),
        (&["ALL_PROXY", "all_proxy"], format!("socks5h://{proxy}")),
        (&["NO_PROXY", "no_proxy"], "localhost,127.0.0.1,::1".to_owned()),
    ]
}

fn allows(pattern: &str, key: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        None => pattern.as_bytes() == key.as_bytes(),
        Some(prefix) => {
            key.as_bytes().starts_with(prefix.as_bytes())
                && !NEVER_BY_WILDCARD.iter().any(|name| {
                    if name.ends_with('_') {
                        key.as_bytes().starts_with(name.as_bytes())
                    } else {
                        key.as_bytes() == name.as_bytes()
                    }
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(allow: &[&str], caller: &[(&str, &str)]) -> Vec<String> {
        let policy = EnvironmentPolicy {
            allow: allow.iter().map(|s| (*s).to_owned()).collect(),
            ..Default::default()
        };
        let caller: Vec<_> = caller.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect();
        clean(&caller, &policy, None, None)
            .into_iter()
            .map(|(k, v)| format!("{}={}", String::from_utf8(k).unwrap(), String::from_utf8(v).unwrap()))
            .collect()
    }

    #[test]
    fn only_listed_variables_pass() {
        let passed = cleaned(&["LANG", "LC_*"], &[("LANG", "C"), ("LC_ALL", "C"), ("SECRET_TOKEN", "x")]);
        assert!(passed.contains(&"LANG=C".to_owned()) && passed.contains(&"LC_ALL=C".to_owned()));
        assert!(!passed.iter().any(|v| v.starts_with("SECRET")));
    }

    #[test]
    fn a_wildcard_never_covers_variables_that_load_code() {
        let passed = cleaned(&["*"], &[("LD_PRELOAD", "x"), ("NODE_OPTIONS", "x"), ("FOO", "y")]);
        assert!(passed.contains(&"FOO=y".to_owned()));
        assert!(!passed.iter().any(|v| v.starts_with("LD_") || v.starts_with("NODE_")));
        assert!(cleaned(&["LD_PRELOAD"], &[("LD_PRELOAD", "x")]).contains(&"LD_PRELOAD=x".to_owned()));
    }
}
