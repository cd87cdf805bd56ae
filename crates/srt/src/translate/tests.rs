use super::*;
use crate::settings::parse;

fn settings(network: &str, filesystem: &str, more: &str) -> Settings {
    let text = format!(
        r#"{{"network":{{"allowedDomains":[],"deniedDomains":[]{network}}},
        "filesystem":{{"denyRead":[],"allowWrite":[],"denyWrite":[]{filesystem}}}{more}}}"#
    );
    parse(&text, Path::new("s.json")).unwrap()
}

fn surroundings(environment: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        directory: "/usr".into(),
        home: Some("/no/home".into()),
        uid: 0,
        environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        passing: Passing::All,
    }
}

fn policy(network: &str, filesystem: &str, more: &str) -> Policy {
    translate(&settings(network, filesystem, more), &surroundings(&[])).unwrap().policy
}

fn fault(network: &str, filesystem: &str, more: &str) -> String {
    translate(&settings(network, filesystem, more), &surroundings(&[])).unwrap_err().to_string()
}

#[test]
fn everything_is_readable_and_nothing_writable_by_default() {
    let policy = policy("", "", "");
    assert_eq!(policy.filesystem.read_only_paths, [PathBuf::from("/")]);
    assert!(policy.filesystem.read_write_paths.iter().all(|path| path == Path::new(OWN_TEMPORARY)));
    assert!(policy.filesystem.protected_names.contains(&".git/config".to_owned()));
    assert_eq!(policy.network.allowed_domains.as_deref(), Some([].as_slice()));
    assert_eq!(policy.network.unix_sockets, Some(UnixSockets::None));
}

#[test]
fn what_cannot_be_held_is_refused() {
    assert!(fault(r#","tlsTerminate":{}"#, "", "").contains("tlsTerminate"));
    assert!(fault("", r#","allowRead":["*.x"]"#, "").contains("allowRead"));
    let masked = r#","credentials":{"envVars":[{"name":"T","mode":"mask"}]}"#;
    assert!(fault("", "", masked).contains("mask of T"));
}

#[test]
fn too_wide_hosts_and_urls_are_refused() {
    for domain in ["*", "*.com", "https://x"] {
        let mut wide = settings("", "", "");
        wide.network.allowed_domains = vec![domain.to_owned()];
        assert!(translate(&wide, &surroundings(&[])).is_err(), "{domain}");
    }
}

#[test]
fn sockets_are_named_by_path_or_all_allowed() {
    let listed = policy(r#","allowUnixSockets":["/run/x.sock","y.sock"]"#, "", "");
    assert_eq!(listed.network.unix_sockets, Some(UnixSockets::Own));
    assert_eq!(listed.network.unix_socket_paths, [PathBuf::from("/run/x.sock"), "/usr/y.sock".into()]);
    assert_eq!(policy(r#","allowAllUnixSockets":true"#, "", "").network.unix_sockets, Some(UnixSockets::All));
}

#[test]
fn a_parent_proxy_comes_from_the_settings_or_from_the_callers_variables() {
    let from_settings = policy(r#","parentProxy":{"http":"http://p.example:8080"}"#, "", "");
    let parent = from_settings.network.parent_proxy.unwrap();
    assert_eq!(parent.https.as_deref(), Some("http://p.example:8080"));
    let caller = surroundings(&[("HTTPS_PROXY", "http://q.example:1"), ("NO_PROXY", "x.example")]);
    let parent = translate(&settings("", "", ""), &caller).unwrap().policy.network.parent_proxy.unwrap();
    assert_eq!((parent.http, parent.https.as_deref()), (None, Some("http://q.example:1")));
    assert_eq!(parent.no_proxy.as_deref(), Some("x.example"));
    assert!(policy("", "", "").network.parent_proxy.is_none());
}

#[test]
fn denied_variables_are_not_passed_on() {
    let more = r#","credentials":{"envVars":[{"name":"TOKEN","mode":"deny"}]}"#;
    let caller = surroundings(&[("TOKEN", "t"), ("LD_PRELOAD", "x"), ("A", "b")]);
    let policy = translate(&settings("", "", more), &caller).unwrap().policy;
    assert_eq!(policy.environment.allow, ["A", "LD_PRELOAD"]);
}

#[test]
fn hiding_the_root_leaves_only_what_is_listed() {
    let mut hidden = settings("", r#","allowRead":["/etc"]"#, "");
    hidden.filesystem.deny_read =
        vec![PathEntry { path: "/".into(), reading: crate::settings::Reading::MayBePattern }];
    let policy = translate(&hidden, &surroundings(&[])).unwrap().policy;
    assert_eq!(policy.filesystem.read_only_paths, [PathBuf::from("/etc")]);
    assert!(policy.filesystem.hidden_paths.is_empty());
}

#[test]
fn ignored_violations_are_told_by_command_and_path() {
    let more = r#","ignoreViolations":{"*":["/usr/share"],"npm":["/etc/npmrc"]}"#;
    let ignored = translate(&settings("", "", more), &surroundings(&[])).unwrap().ignored;
    assert!(ignored.covers("ls", "/usr/share/x") && ignored.covers("npm i", "/etc/npmrc"));
    assert!(!ignored.covers("ls", "/etc/npmrc"));
}

#[test]
fn reading_is_listed_only_where_it_is_denied_and_not_writable() {
    let entry = |path: &str| PathEntry { path: path.into(), reading: crate::settings::Reading::MayBePattern };
    let mut both = settings("", "", "");
    both.filesystem.deny_read = vec![entry("/"), entry("/usr/share/doc")];
    both.filesystem.allow_read = vec![entry("."), entry("lib"), entry("/usr/share/doc/bash"), entry("/etc")];
    both.filesystem.allow_write = vec![entry(".")];
    let policy = translate(&both, &surroundings(&[])).unwrap().policy;
    let wanted: Vec<PathBuf> = ["/usr/share/doc/bash", "/etc"].iter().map(PathBuf::from).collect();
    let there = |path: &PathBuf| path.exists();
    assert_eq!(policy.filesystem.read_only_paths, wanted.into_iter().filter(there).collect::<Vec<_>>());
}

#[test]
fn a_literal_name_that_does_not_exist_stays_literal() {
    let entry = PathEntry { path: "no*[file".into(), reading: crate::settings::Reading::Literal };
    let mut one = settings("", "", "");
    one.filesystem.deny_write = vec![entry];
    let policy = translate(&one, &surroundings(&[])).unwrap().policy;
    assert_eq!(policy.filesystem.protected_paths, [PathBuf::from("/usr/no[*][[]file")]);
}
