//! TB0's table of tests, and that of the program it comes from, row by row. What differs on purpose says so. Rows
//! about files that we do not write (settings of srt, their removal) hold for the policy that stands in their
//! place, those about `[SANDBOX BLOCKED]` are tested where results are passed on, and those that start something
//! are among the tests of the program.

use std::fs;

use lazaret_policy::{
    host::Host,
    load,
    network::Rules,
    schema::{Level, UnixSockets},
};
use proptest::prelude::*;

use super::*;
use crate::config::{self, Definition, InheritEnv, Surroundings, Variables};

const SESSION: &str = "/sessions/abc/sandbox";

fn place() -> Place {
    Place { session: SESSION.into(), home: Some("/home/u".into()), ..Place::default() }
}

/// A server whose entry has this for `sandbox`.
fn server(sandbox: &str) -> Local {
    let sandbox = if sandbox.is_empty() { String::new() } else { format!(r#", "sandbox": {sandbox}"#) };
    let text = format!(r#"{{"s": {{"command": "node", "args": ["server.js"]{sandbox}}}}}"#);
    let config = config::parse(&text, Path::new("/etc/s.json"), &Surroundings::default())
        .unwrap_or_else(|error| panic!("{error}"));
    match config.servers.into_iter().next().map(|server| server.definition) {
        Some(Definition::Local(local)) => *local,
        other => panic!("{other:?}"),
    }
}

fn unavailable() -> Availability {
    Availability::Incomplete { missing: vec!["userns".to_owned()], fixes: Vec::new() }
}

fn resolved(sandbox: &str) -> Params {
    match resolve(&server(sandbox), &place(), &Availability::Available, SandboxPolicy::Warn).unwrap() {
        Containment::Sandboxed(params) => *params,
        Containment::Open(reason) => panic!("{reason:?}"),
    }
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

mod tb0 {
    use super::*;

    #[test]
    fn row_1_returns_opt_out_for_sandbox_false() {
        let result = resolve(&server("false"), &place(), &Availability::Available, SandboxPolicy::Warn);
        assert_eq!(result, Ok(Containment::Open(Reason::OptOut)));
        assert_eq!(Reason::OptOut.code(), "opt-out");
    }

    #[test]
    fn row_2_applies_restrictive_defaults_when_sandbox_is_omitted() {
        let params = resolved("");
        assert!(params.allow_write.contains(&SESSION.into()));
        assert_eq!(params.network, Reach::Off);
    }

    #[test]
    fn row_3_resolves_relative_allow_write_paths_against_the_session_directory() {
        let params = resolved(r#"{"filesystem": {"allowWrite": [".git"]}}"#);
        assert!(params.allow_write.contains(&Path::new(SESSION).join(".git")));
    }

    #[test]
    fn row_4_degrades_gracefully_when_the_platform_is_unavailable_and_the_policy_is_warn() {
        let result = resolve(&server(""), &place(), &unavailable(), SandboxPolicy::Warn);
        assert_eq!(result, Ok(Containment::Open(Reason::PlatformUnavailable)));
        assert_eq!(Reason::PlatformUnavailable.code(), "platform-unavailable");
    }

    #[test]
    fn row_5_throws_when_the_platform_is_unavailable_and_the_policy_is_enforce() {
        let error = resolve(&server(""), &place(), &unavailable(), SandboxPolicy::Enforce).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[sandbox] Server requires sandboxing but platform is unavailable and sandboxPolicy is \"enforce\"."
        );
    }
}

mod resolving {
    use super::*;

    #[test]
    fn an_empty_object_is_the_same_as_nothing() {
        assert_eq!(resolved("{}"), resolved(""));
        assert_eq!(resolved("true"), resolved(""));
    }

    #[test]
    fn omitted_means_the_session_directory_no_network_and_the_three_directories_of_keys() {
        let params = resolved("");
        assert_eq!(params.allow_write, paths(&[SESSION]));
        assert_eq!(params.network, Reach::Off);
        for closed in ["/home/u/.ssh", "/home/u/.gnupg", "/home/u/.aws"] {
            assert!(params.deny_read.contains(&closed.into()), "{closed}");
        }
        assert!(params.deny_write.is_empty() && params.allow_read.is_empty());
    }

    /// TB0 promises it, and the program it comes from does not do it.
    #[test]
    fn our_own_directories_and_tokens_of_toolchains_and_agents_are_closed_too() {
        let params = resolved("");
        for closed in [
            ".config/lazaret",
            ".local/state/lazaret",
            ".npmrc",
            ".pypirc",
            ".netrc",
            ".git-credentials",
            ".docker/config.json",
            ".kube",
            ".config/gh",
            ".claude.json",
            ".codex/auth.json",
            ".cursor/mcp.json",
        ] {
            assert!(params.deny_read.contains(&Path::new("/home/u").join(closed)), "{closed}");
        }
    }

    #[test]
    fn a_configuration_directory_elsewhere_is_closed_in_the_same_way() {
        let place = Place { config_home: Some("/cfg".into()), ..place() };
        let Ok(Containment::Sandboxed(params)) =
            resolve(&server(""), &place, &Availability::Available, SandboxPolicy::Warn)
        else {
            panic!()
        };
        assert!(
            params.deny_read.contains(&"/cfg/gh".into())
                && params.deny_read.contains(&"/home/u/.config/gh".into())
        );
    }

    #[test]
    fn relative_write_paths_are_resolved_and_absolute_ones_kept() {
        let params = resolved(r#"{"filesystem": {"allowWrite": [".git", "/tmp/extra", "~/x", "../y"]}}"#);
        assert_eq!(
            params.allow_write,
            paths(&[SESSION, "/sessions/abc/sandbox/.git", "/tmp/extra", "/home/u/x", "/sessions/abc/y"])
        );
    }

    /// There a given list replaces the default, so that a list that forgets `~/.ssh` opens it.
    #[test]
    fn a_given_deny_read_adds_to_the_defaults_where_theirs_replaces_them() {
        let params = resolved(r#"{"filesystem": {"denyRead": ["~/.gnupg", "~/.aws", "/srv/x"]}}"#);
        for closed in ["/home/u/.ssh", "/home/u/.gnupg", "/home/u/.aws", "/srv/x", "/home/u/.netrc"] {
            assert_eq!(
                params.deny_read.iter().filter(|path| **path == Path::new(closed)).count(),
                1,
                "{closed}"
            );
        }
    }

    #[test]
    fn replace_defaults_makes_a_given_deny_read_all_there_is_as_theirs_always_is() {
        let params =
            resolved(r#"{"filesystem": {"denyRead": ["~/.gnupg", "~/.aws"], "replaceDefaults": true}}"#);
        assert_eq!(params.deny_read, paths(&["/home/u/.gnupg", "/home/u/.aws"]));
    }

    #[test]
    fn a_given_deny_write_is_taken_over() {
        let params = resolved(r#"{"filesystem": {"denyWrite": ["a", "/b"]}}"#);
        assert_eq!(params.deny_write, paths(&["/sessions/abc/sandbox/a", "/b"]));
    }

    #[test]
    fn domains_are_passed_on_and_denied_ones_are_empty_unless_given() {
        let params = resolved(r#"{"network": {"allowedDomains": ["github.com", "*.github.com"]}}"#);
        let Reach::Domains(domains) = params.network else { panic!() };
        assert_eq!(domains.allowed, ["github.com", "*.github.com"]);
        assert!(domains.denied.is_empty());
        let params =
            resolved(r#"{"network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.a.example"]}}"#);
        let Reach::Domains(domains) = params.network else { panic!() };
        assert_eq!(domains.denied, ["b.a.example"]);
    }

    #[test]
    fn no_network_and_no_domains_are_the_same() {
        assert_eq!(resolved(r#"{"network": false}"#).network, Reach::Off);
        assert_eq!(resolved(r#"{"network": {"allowedDomains": []}}"#).network, Reach::Off);
        let denied = r#"{"network": {"allowedDomains": [], "deniedDomains": ["x.example"]}}"#;
        assert_eq!(resolved(denied).network, Reach::Off);
    }

    #[test]
    fn opting_out_wins_over_a_platform_that_is_unavailable() {
        for policy in [SandboxPolicy::Warn, SandboxPolicy::Enforce] {
            let result = resolve(&server("false"), &place(), &unavailable(), policy);
            assert_eq!(result, Ok(Containment::Open(Reason::OptOut)), "{policy}");
        }
    }

    #[test]
    fn enforce_where_there_is_a_sandbox_is_a_sandbox() {
        let result = resolve(&server(""), &place(), &Availability::Available, SandboxPolicy::Enforce);
        assert!(matches!(result, Ok(Containment::Sandboxed(_))));
    }

    #[test]
    fn allow_read_is_empty_unless_given_and_knows_the_home() {
        assert!(resolved("{}").allow_read.is_empty());
        let params = resolved(r#"{"filesystem": {"allowRead": ["~/.nvm", "x"]}}"#);
        assert_eq!(params.allow_read, paths(&["/home/u/.nvm", "/sessions/abc/sandbox/x"]));
    }

    /// A server for git over ssh: the one directory, without listing the others anew.
    #[test]
    fn a_default_that_is_listed_as_readable_is_open_and_the_others_stay_closed() {
        let params = resolved(r#"{"filesystem": {"allowRead": ["~/.ssh"]}}"#);
        assert!(!params.deny_read.contains(&"/home/u/.ssh".into()));
        assert!(params.deny_read.contains(&"/home/u/.gnupg".into()));
        let both = resolved(r#"{"filesystem": {"allowRead": ["~/.ssh"], "denyRead": ["~/.ssh"]}}"#);
        assert!(both.deny_read.contains(&"/home/u/.ssh".into()), "denied by hand wins");
    }

    #[test]
    fn a_path_that_means_nothing_is_an_error_with_its_field() {
        let fails = |sandbox: &str, place: &Place| {
            resolve(&server(sandbox), place, &Availability::Available, SandboxPolicy::Warn)
                .unwrap_err()
                .to_string()
        };
        let homeless = Place { home: None, ..place() };
        assert!(fails(r#"{"filesystem": {"denyRead": ["~/x"]}}"#, &homeless).contains("denyRead: `~/x`"));
        assert!(fails(r#"{"filesystem": {"allowWrite": ["~root/x"]}}"#, &place()).contains("name of a user"));
    }

    proptest! {
        /// Whatever is listed: the session directory can be written, and what was denied is among the denied.
        #[test]
        fn the_session_is_always_writable_and_a_denied_path_is_never_lost(
            write in proptest::collection::vec("[a-z/~.]{1,12}", 0..4),
            deny in proptest::collection::vec("[a-z/.]{1,12}", 0..4),
            read in proptest::collection::vec("[a-z/.]{1,12}", 0..4),
        ) {
            let list = |entries: &[String]| serde_json::to_string(entries).unwrap();
            let sandbox = format!(
                r#"{{"filesystem": {{"allowWrite": {}, "denyRead": {}, "allowRead": {}}}}}"#,
                list(&write), list(&deny), list(&read)
            );
            if let Ok(Containment::Sandboxed(params)) =
                resolve(&server(&sandbox), &place(), &Availability::Available, SandboxPolicy::Warn)
            {
                prop_assert_eq!(&params.allow_write[0], Path::new(SESSION));
                for entry in &deny {
                    let path = absolute(entry, Path::new(SESSION), None).unwrap();
                    prop_assert!(params.deny_read.contains(&path));
                }
            }
        }
    }
}

/// A home and a session on disk, removed at the end.
struct Bed {
    top: PathBuf,
    place: Place,
    own: Own,
}

impl Bed {
    fn new(name: &str) -> Bed {
        let top = std::env::temp_dir().join(format!("lazaret-mcp-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let top = {
            fs::create_dir_all(&top).unwrap();
            top.canonicalize().unwrap()
        };
        let state = top.join("home/.local/state/lazaret");
        let session = state.join("sessions/abc/sandbox");
        for directory in [".ssh", ".config/lazaret", ".npm", "work", ".nvm/bin"] {
            fs::create_dir_all(top.join("home").join(directory)).unwrap();
        }
        fs::create_dir_all(&session).unwrap();
        let place = Place { session, home: Some(top.join("home")), ..Place::default() };
        let own = Own {
            directories: vec![state.clone(), top.join("home/.config/lazaret")],
            paths: vec![state.join("sessions/abc/escalations"), top.join("servers.json")],
            programs: Vec::new(),
        };
        Bed { top, place, own }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.top.join("home").join(name)
    }

    fn session(&self) -> &Path {
        &self.place.session
    }

    fn try_with(&self, local: &Local, variables: &[(&str, &str)]) -> Result<Lowered, ContainmentError> {
        let containment = resolve(local, &self.place, &Availability::Available, SandboxPolicy::Warn)?;
        let Containment::Sandboxed(params) = containment else { panic!() };
        let parent = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let environment = environment::environment(local, &parent);
        let environment = environment::in_sandbox(environment, &params, &self.place, local);
        let start = Start { server: local, program: Path::new("/bin/sh"), environment: &environment };
        lower(&params, &self.place, &self.own, start)
    }

    fn lowered(&self, sandbox: &str) -> Lowered {
        self.try_with(&server(sandbox), &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn policy(&self, sandbox: &str) -> Policy {
        self.lowered(sandbox).policy
    }

    fn fault(&self, sandbox: &str) -> String {
        self.try_with(&server(sandbox), &[]).unwrap_err().to_string()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

mod lowering {
    use super::*;

    #[test]
    fn a_plain_server_reads_everything_but_what_is_closed_and_writes_the_session_directory() {
        let bed = Bed::new("plain");
        let Lowered { policy, notes } = bed.lowered("");
        assert_eq!(policy.isolation_level, Level::Full);
        assert_eq!(policy.filesystem.read_only_paths, paths(&["/"]));
        assert_eq!(policy.filesystem.read_write_paths, [bed.session().to_owned()]);
        assert!(!policy.network.allow_network);
        assert_eq!(policy.network.unix_sockets, Some(UnixSockets::Own));
        assert!(policy.filesystem.denied_paths.contains(&bed.home(".ssh")));
        assert!(policy.filesystem.denied_paths.contains(&bed.home(".aws")), "there or not");
        assert_eq!(policy.filesystem.layered_paths, [bed.home(".npm")]);
        assert_eq!(policy.process.max_processes, Some(256));
        assert_eq!(notes, Vec::<String>::new());
        // What is made here is what our own loader takes.
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(load::parse(&json, load::Format::Json, Path::new("p.json")).unwrap().policy, policy);
    }

    /// Row `write: network false => empty lists`.
    #[test]
    fn without_network_nothing_can_be_reached_and_with_domains_these_alone() {
        let bed = Bed::new("network");
        for off in ["", r#"{"network": false}"#, r#"{"network": {"allowedDomains": []}}"#] {
            assert!(!bed.policy(off).network.allow_network, "{off}");
        }
        let git = bed
            .policy(r#"{"network": {"allowedDomains": ["github.com"], "deniedDomains": ["x.github.com"]}}"#);
        let rules = Rules::compile(&git.network).unwrap();
        let allowed = |host: &str| rules.judge(&Host::parse(host).unwrap(), 443).is_allowed();
        assert!(allowed("github.com") && !allowed("x.github.com") && !allowed("example.com"));
    }

    #[test]
    fn a_proxy_of_the_hosts_network_is_passed_on_only_where_there_is_network() {
        let mut bed = Bed::new("proxy");
        let proxy = ParentProxy { https: Some("http://p.example:1".to_owned()), ..ParentProxy::default() };
        bed.place.parent_proxy = Some(proxy.clone());
        assert_eq!(bed.policy("").network.parent_proxy, None);
        let on = r#"{"network": {"allowedDomains": ["x.example"]}}"#;
        assert_eq!(bed.policy(on).network.parent_proxy, Some(proxy));
    }

    /// The session directory is in our state directory: that is covered, and so is what else is in it.
    #[test]
    fn our_own_directories_are_closed_and_the_session_directory_in_them_is_not() {
        let bed = Bed::new("own");
        let filesystem = bed.policy("").filesystem;
        assert!(filesystem.hidden_paths.contains(&bed.home(".local/state/lazaret")));
        assert!(filesystem.denied_paths.contains(&bed.home(".config/lazaret")));
        for own in &bed.own.paths {
            assert!(filesystem.denied_paths.contains(own), "{}", own.display());
        }
        assert!(!filesystem.denied_paths.iter().any(|path| bed.session().starts_with(path)));
    }

    #[test]
    fn nothing_that_an_entry_says_opens_what_is_our_own() {
        let bed = Bed::new("never");
        let servers = bed.top.join("servers.json").display().to_string();
        for entry in [
            "~/.config/lazaret",
            "~/.local/state/lazaret/audit.jsonl",
            "../escalations",
            "../other",
            servers.as_str(),
        ] {
            for field in ["allowWrite", "allowRead"] {
                let fault = bed.fault(&format!(r#"{{"filesystem": {{"{field}": ["{entry}"]}}}}"#));
                assert!(fault.contains("lazaret's own"), "{entry}: {fault}");
            }
        }
        let replaced = bed.policy(r#"{"filesystem": {"denyRead": [], "replaceDefaults": true}}"#).filesystem;
        assert!(replaced.denied_paths.contains(&bed.home(".config/lazaret")));
        assert!(!replaced.denied_paths.contains(&bed.home(".ssh")));
    }

    #[test]
    fn a_link_in_the_session_directory_opens_nothing() {
        let bed = Bed::new("link");
        std::os::unix::fs::symlink(bed.home(".ssh"), bed.session().join("inner")).unwrap();
        std::os::unix::fs::symlink(bed.home("work"), bed.session().join("out")).unwrap();
        for name in ["inner", "out", "out/deeper"] {
            let lowered = bed.lowered(&format!(r#"{{"filesystem": {{"allowWrite": ["{name}"]}}}}"#));
            assert_eq!(lowered.policy.filesystem.read_write_paths, [bed.session().to_owned()], "{name}");
            assert!(lowered.notes.join("").contains("leads out"), "{name}: {:?}", lowered.notes);
        }
    }

    #[test]
    fn the_root_and_the_home_are_too_much_to_write() {
        let bed = Bed::new("wide");
        for wide in ["/", "~", "~/..", "/**"] {
            let fault = bed.fault(&format!(r#"{{"filesystem": {{"allowWrite": ["{wide}"]}}}}"#));
            assert!(fault.contains("too much"), "{wide}: {fault}");
        }
    }

    #[test]
    fn what_is_not_there_is_left_out_with_a_note_and_in_the_session_directory_it_is_writable_anyway() {
        let bed = Bed::new("missing");
        let lowered =
            bed.lowered(r#"{"filesystem": {"allowWrite": [".git", "/no/such/place", "~/work", "/proc/x"]}}"#);
        assert_eq!(lowered.policy.filesystem.read_write_paths, [bed.session().to_owned(), bed.home("work")]);
        let notes = lowered.notes.join("\n");
        assert!(
            notes.contains("/no/such/place does not exist") && notes.contains("/proc/x is the sandbox's own"),
            "{notes}"
        );
        // An empty `.git` would keep `git clone` from using the directory.
        assert!(!bed.session().join(".git").exists() && !notes.contains(".git"));
    }

    #[test]
    fn deny_write_protects_in_the_session_directory_too_there_or_not() {
        let bed = Bed::new("protect");
        fs::write(bed.session().join("there"), "").unwrap();
        let policy =
            bed.policy(r#"{"filesystem": {"denyWrite": ["there", "not-yet", "*.lock", "we[i]rd"]}}"#);
        let protected = policy.filesystem.protected_paths;
        assert_eq!(protected, ["there", "not-yet", "*.lock", "we[i]rd"].map(|name| bed.session().join(name)));
        let names = policy.filesystem.protected_names;
        assert!(names.contains(&".git/hooks".to_owned()) && names.contains(&".git/config".to_owned()));
    }

    #[test]
    fn a_server_that_was_given_the_repository_may_configure_it_and_never_its_hooks() {
        let bed = Bed::new("git");
        let names = bed.policy(r#"{"filesystem": {"allowWrite": [".git"]}}"#).filesystem.protected_names;
        assert!(!names.contains(&".git/config".to_owned()) && names.contains(&".git/hooks".to_owned()));
    }

    #[test]
    fn a_path_in_the_session_directory_can_be_closed_and_patterns_are_patterns() {
        let bed = Bed::new("inside");
        let filesystem = bed.policy(r#"{"filesystem": {"denyRead": ["secret", "**/.env"]}}"#).filesystem;
        assert!(filesystem.denied_paths.contains(&bed.session().join("secret")));
        assert_eq!(filesystem.hidden_patterns, [bed.session().join("**/.env")]);
        for field in ["allowRead", "allowWrite"] {
            assert!(bed.fault(&format!(r#"{{"filesystem": {{"{field}": ["*.x"]}}}}"#)).contains("pattern"));
        }
    }

    /// Row `discoverNodePaths`: a hidden home with what is needed of it.
    #[test]
    fn below_a_closed_directory_the_longer_path_counts() {
        let bed = Bed::new("below");
        let sandbox = r#"{"filesystem": {"denyRead": ["~"], "allowRead": ["~/.nvm", "~/no-such"], "allowWrite": ["~/work"]}}"#;
        let Lowered { policy, notes } = bed.lowered(sandbox);
        let filesystem = policy.filesystem;
        assert!(filesystem.hidden_paths.contains(&bed.top.join("home")));
        assert_eq!(filesystem.read_only_paths, ["/".into(), bed.home(".nvm")]);
        assert_eq!(filesystem.read_write_paths, [bed.session().to_owned(), bed.home("work")]);
        assert!(filesystem.denied_paths.contains(&bed.home(".ssh")));
        assert!(filesystem.layered_paths.is_empty(), "a hidden cache stays hidden");
        assert!(notes.join("").contains("no-such does not exist"), "{notes:?}");
    }

    #[test]
    fn a_program_that_its_own_sandbox_hides_is_told_before_it_starts() {
        let bed = Bed::new("program");
        assert!(bed.fault(r#"{"filesystem": {"denyRead": ["/"]}}"#).contains("own program"));
        let fault = bed.fault(r#"{"filesystem": {"denyRead": ["/usr", "/bin"]}}"#);
        assert!(fault.contains("allowRead"), "{fault}");
        bed.policy(r#"{"filesystem": {"denyRead": ["/"], "allowRead": ["/usr", "/bin", "/lib", "/lib64"]}}"#);
    }

    #[test]
    fn a_session_directory_that_would_open_too_much_is_refused() {
        let mut bed = Bed::new("session");
        for (session, why) in [
            (bed.top.join("home"), "home directory"),
            (bed.top.clone(), "home directory"),
            ("/".into(), "home directory"),
            (bed.home(".local"), "lazaret's own"),
            (bed.home(".local/state/lazaret"), "lazaret's own"),
            (bed.home("no-such"), "No such file"),
            ("/proc".into(), "kernel"),
            ("relative".into(), "not absolute"),
        ] {
            bed.place.session.clone_from(&session);
            let fault = bed.fault("");
            assert!(fault.contains(why), "{}: {fault}", session.display());
        }
        bed.place.session = bed.home("work");
        bed.policy("");
        assert!(bed.fault(r#"{"filesystem": {"denyRead": ["."]}}"#).contains("denyRead closes it"));
        // A link to something that would be refused is refused.
        let link = bed.top.join("link");
        std::os::unix::fs::symlink(bed.top.join("home"), &link).unwrap();
        bed.place.session = link;
        assert!(bed.fault("").contains("home directory"));
    }

    /// Rows `SSH socket: set / unset / network off`. Theirs gives it to every server with network.
    #[test]
    fn the_agent_with_keys_is_reached_only_with_network_and_where_it_was_asked_for_by_name() {
        let bed = Bed::new("agent");
        let sockets = |sandbox: &str, inherit_env: InheritEnv, variables: &[(&str, &str)]| {
            let local = Local { inherit_env, ..server(sandbox) };
            bed.try_with(&local, variables).unwrap().policy.network.unix_socket_paths
        };
        let on = r#"{"network": {"allowedDomains": ["x.example"]}}"#;
        let listed = || InheritEnv::Listed(vec!["SSH_AUTH_SOCK".to_owned()]);
        let agent = [("SSH_AUTH_SOCK", "/run/agent.sock")];
        assert_eq!(sockets(on, listed(), &agent), paths(&["/run/agent.sock"]));
        assert!(sockets(on, listed(), &[]).is_empty());
        assert!(sockets("", listed(), &agent).is_empty());
        assert!(sockets(on, InheritEnv::Usual, &agent).is_empty());
        assert!(sockets(on, InheritEnv::Everything, &agent).is_empty());
    }

    #[test]
    fn variables_are_passed_by_name_and_no_value_is_in_the_policy() {
        let bed = Bed::new("variables");
        let env = Variables([("TOKEN".to_owned(), "hunter2".to_owned())].into());
        let local = Local { env, ..server("") };
        let policy = bed.try_with(&local, &[("PATH", "/bin")]).unwrap().policy;
        assert!(
            ["PATH", "TOKEN", "TMPDIR"]
                .iter()
                .all(|name| policy.environment.allow.contains(&(*name).to_owned()))
        );
        assert!(!serde_json::to_string(&policy).unwrap().contains("hunter2"));
    }

    #[test]
    fn installers_are_told_to_stay_offline_unless_their_registry_can_be_reached() {
        let bed = Bed::new("installers");
        let variables = |sandbox: &str, env: &[(&str, &str)]| -> BTreeMap<String, String> {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let local = Local { env: Variables(env), ..server(sandbox) };
            let Ok(Containment::Sandboxed(params)) =
                resolve(&local, &bed.place, &Availability::Available, SandboxPolicy::Warn)
            else {
                panic!()
            };
            let plain = environment::environment(&local, &BTreeMap::new());
            let all = environment::in_sandbox(plain, &params, &bed.place, &local);
            all.into_iter().map(|(k, v)| (k.into_string().unwrap(), v.into_string().unwrap())).collect()
        };
        let off = variables("", &[]);
        assert_eq!(off.get("npm_config_offline").map(String::as_str), Some("true"));
        assert_eq!(off.get("UV_OFFLINE").map(String::as_str), Some("1"));
        // This home has `.npm`, which is a layer, and no `.cache`.
        assert_eq!(off.get("npm_config_cache"), None);
        assert_eq!(off.get("XDG_CACHE_HOME").map(String::as_str), Some("/tmp/.cache"));
        let npm = variables(r#"{"network": {"allowedDomains": ["npm.example"]}}"#, &[]);
        assert!(!npm.contains_key("npm_config_offline") && npm.contains_key("UV_OFFLINE"));
        let own = variables("", &[("NPM_CONFIG_OFFLINE", "false"), ("TMPDIR", "/x")]);
        assert_eq!(own.get("TMPDIR").map(String::as_str), Some("/x"));
        let another = [("npm_config_registry", "https://r.example")];
        let another = variables(r#"{"network": {"allowedDomains": ["r.example"]}}"#, &another);
        assert!(!another.contains_key("npm_config_offline"));
    }
}

mod preparing {
    use super::*;

    fn common(bed: &Bed, availability: Availability, policy: SandboxPolicy) -> Common {
        Common {
            place: bed.place.clone(),
            own: bed.own.clone(),
            availability,
            policy,
            environment: [("PATH".into(), "/usr/bin:/bin".into()), ("TOKEN".into(), "t".into())].into(),
            base: bed.top.clone(),
        }
    }

    fn shell(sandbox: &str) -> Local {
        Local { command: "sh".to_owned(), args: vec!["./run.sh".to_owned()], ..server(sandbox) }
    }

    /// Rows `wrap`: argv as it is. There is no shell between, so there is nothing to quote.
    #[test]
    fn arguments_with_spaces_and_signs_of_the_shell_stay_single_arguments() {
        let bed = Bed::new("argv");
        let args = ["./servers/exec server.js", "--flag=value with spaces", "$HOME", "*", "`x`"];
        let local = Local { args: args.map(str::to_owned).to_vec(), ..shell("") };
        let prepared = common(&bed, Availability::Available, SandboxPolicy::Warn).prepare(&local).unwrap();
        let command = prepared.program.command();
        assert_eq!(command.len(), 6);
        assert_eq!(command[1], bed.top.join("servers/exec server.js").into_os_string());
        assert_eq!(command[3..], ["$HOME", "*", "`x`"].map(OsString::from));
    }

    #[test]
    fn a_server_without_a_sandbox_gets_the_same_clean_variables() {
        let bed = Bed::new("open");
        for (sandbox, availability, reason) in [
            ("false", Availability::Available, Reason::OptOut),
            ("", unavailable(), Reason::PlatformUnavailable),
        ] {
            let prepared = common(&bed, availability, SandboxPolicy::Warn).prepare(&shell(sandbox)).unwrap();
            assert_eq!(prepared.boundary, Boundary::Open(reason));
            assert_eq!(prepared.environment, [("PATH".into(), "/usr/bin:/bin".into())]);
        }
    }

    #[test]
    fn enforce_without_a_sandbox_prepares_nothing() {
        let bed = Bed::new("enforce");
        let result = common(&bed, unavailable(), SandboxPolicy::Enforce).prepare(&shell(""));
        assert!(matches!(result, Err(PrepareError::Containment(ContainmentError::Unavailable))));
    }

    #[test]
    fn a_command_that_is_missing_fails_its_server_by_name() {
        let bed = Bed::new("command");
        let local = Local { command: "no-such-server".to_owned(), ..server("") };
        let error = common(&bed, Availability::Available, SandboxPolicy::Warn).prepare(&local).unwrap_err();
        assert!(error.to_string().contains("no-such-server"), "{error}");
    }

    /// Rows `write: file name`, `per-server path`: there is no file. What one server may do is in its own policy.
    #[test]
    fn two_servers_have_two_policies_and_neither_has_the_others_hosts() {
        let bed = Bed::new("two");
        let common = common(&bed, Availability::Available, SandboxPolicy::Warn);
        let network = |sandbox: &str| match common.prepare(&shell(sandbox)).unwrap().boundary {
            Boundary::Sandbox(policy) => policy.network,
            Boundary::Open(reason) => panic!("{reason:?}"),
        };
        let (git, exec) = (network(r#"{"network": {"allowedDomains": ["github.com"]}}"#), network(""));
        assert_eq!(git.allowed_domains.as_deref(), Some(["github.com".to_owned()].as_slice()));
        assert!(!exec.allow_network);
    }
}
