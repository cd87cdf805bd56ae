//! What an entry of the list comes to in a real sandbox: judged from inside by a shell, and from outside.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use lazaret_mcp::{
    config::{self, Definition, Surroundings},
    containment::{Availability, Boundary, Common, Own, Place, Prepared},
};
use lazaret_runtime::{Launcher, Request, Sandbox};

use crate::case::{Case, Who, program};

/// A session as the proxy makes it: its directory lies in our own state directory.
struct Session {
    case: Case,
    common: Common,
}

impl Session {
    fn new() -> Session {
        // A library has its program's identity.
        let case = Case::new(Who::Caller);
        let (state, config) = (case.state.join("lazaret"), case.home.join(".config/lazaret"));
        let session = state.join("sessions/abc/sandbox");
        for directory in [&session, &config, &state.join("sessions/abc/escalations"), &case.home.join(".ssh")]
        {
            case.directory(directory);
        }
        fs::write(case.home.join(".ssh/id"), "a key").unwrap();
        fs::write(case.home.join("letter"), "a letter").unwrap();
        fs::write(config.join("config.toml"), "ours").unwrap();
        fs::write(state.join("sessions/abc/session.json"), "ours").unwrap();
        let list = case.root.join("servers.json");
        fs::write(&list, "ours").unwrap();
        let environment: BTreeMap<OsString, OsString> = [
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), case.home.clone().into()),
            ("SECRET_TOKEN".into(), "hunter2".into()),
        ]
        .into();
        let common = Common {
            place: Place::new(session, &environment),
            own: Own {
                directories: vec![state.clone(), config],
                paths: vec![list, state.join("sessions/abc/escalations")],
                programs: Vec::new(),
            },
            availability: Availability::Available,
            policy: config::SandboxPolicy::Enforce,
            environment,
            base: case.root.clone(),
        };
        Session { case, common }
    }

    fn directory(&self) -> &Path {
        &self.common.place.session
    }

    fn prepared(&self, more: &str) -> Prepared {
        let text = format!(r#"{{"s": {{"command": "sh"{more}}}}}"#);
        let surroundings = Surroundings::default();
        let config = config::parse(&text, &self.case.root.join("servers.json"), &surroundings).unwrap();
        let Definition::Local(local) = &config.servers[0].definition else { panic!() };
        self.common.prepare(local).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a script prints as this server, both of its streams.
    fn sh(&self, more: &str, script: &str) -> String {
        let (launcher, mut sandbox) = self.sandbox(more);
        let output = sandbox.command("sh").arg("-c").arg(script).output().unwrap();
        drop(launcher);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
    }

    fn sandbox(&self, more: &str) -> (Launcher, Sandbox) {
        let prepared = self.prepared(more);
        let Boundary::Sandbox(policy) = prepared.boundary else { panic!() };
        let mut request = Request::new(*policy, &prepared.program.directory, self.case.log());
        request.environment = prepared.environment;
        request.home.clone_from(&self.common.place.home);
        let launcher = Launcher::start(&program()).unwrap();
        let sandbox = Sandbox::create(&launcher, request).unwrap_or_else(|error| panic!("{error}"));
        (launcher, sandbox)
    }

    fn home(&self, name: &str) -> PathBuf {
        self.case.home.join(name)
    }
}

#[test]
fn a_plain_server_writes_its_session_directory_and_nothing_else() {
    let session = Session::new();
    let script = format!(
        "pwd; echo made > here; mkdir -p .git/hooks && echo made > deep; touch {home}/there 2>&1; touch /etc/there 2>&1; \
         echo private > /tmp/lazaret-mcp-private && cat /tmp/lazaret-mcp-private",
        home = session.case.home.display()
    );
    let told = session.sh("", &script);
    assert!(told.starts_with(session.directory().to_str().unwrap()), "{told}");
    assert_eq!(told.matches("Read-only file system").count(), 2, "{told}");
    assert!(told.contains("private"), "{told}");
    assert_eq!(fs::read_to_string(session.directory().join("here")).unwrap(), "made\n");
    assert!(!session.home("there").exists() && !Path::new("/tmp/lazaret-mcp-private").exists());
}

#[test]
fn files_can_be_read_but_keys_and_what_is_our_own() {
    let session = Session::new();
    let state = session.case.state.join("lazaret");
    let closed = [
        session.home(".ssh/id"),
        session.home(".config/lazaret/config.toml"),
        session.case.root.join("servers.json"),
        state.join("sessions/abc/session.json"),
        session.case.log(),
    ];
    let script: String = closed.iter().map(|path| format!("cat {} 2>&1;", path.display())).collect();
    let told = session.sh("", &format!("cat {}/letter; {script}", session.case.home.display()));
    assert!(told.contains("a letter"), "{told}");
    assert!(!told.contains("a key") && !told.contains("ours"), "{told}");
    assert!(!told.contains("sandbox.created") && !told.contains("\"event\""), "the log: {told}");
    let told = session.sh("", &format!("ls {}; ls {}/sessions", state.display(), state.display()));
    assert_eq!(told, "sessions\nabc", "of our state only the way to the session directory is there");
}

#[test]
fn a_key_that_is_made_or_exchanged_while_the_server_runs_stays_closed() {
    let session = Session::new();
    let (_launcher, mut sandbox) = session.sandbox("");
    let mut read = |name: &str| {
        let output = sandbox.command("cat").arg(session.home(name)).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(read(".netrc").contains("denied") || read(".netrc").contains("No such file"));
    fs::write(session.home(".netrc"), "a password").unwrap();
    fs::rename(session.home(".ssh"), session.home("moved")).unwrap();
    fs::create_dir(session.home(".ssh")).unwrap();
    fs::write(session.home(".ssh/id"), "a new key").unwrap();
    for (name, secret) in [(".netrc", "a password"), (".ssh/id", "a new key")] {
        let told = read(name);
        assert!(!told.contains(secret) && told.contains("denied"), "{name}: {told}");
    }
}

#[test]
fn the_environment_is_the_usual_one_and_the_servers_own() {
    let session = Session::new();
    let told = session.sh(r#", "env": {"OWN": "value"}"#, "env | sort");
    assert!(told.contains("OWN=value") && told.contains("TMPDIR=/tmp"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    let told = session.sh(r#", "inheritEnv": ["SECRET_TOKEN"]"#, "env");
    assert!(told.contains("SECRET_TOKEN=hunter2"), "{told}");
}

#[test]
fn an_entry_opens_what_it_lists_and_no_more() {
    let session = Session::new();
    fs::create_dir(session.home("papers")).unwrap();
    fs::create_dir(session.home("papers/kept")).unwrap();
    let sandbox = r#", "sandbox": {"filesystem": {"allowWrite": ["~/papers"], "denyWrite": ["~/papers/kept"],
        "denyRead": ["~/letter"]}}"#;
    let home = session.case.home.display();
    let told = session.sh(
        sandbox,
        &format!("cd {home}; echo made > papers/new; touch papers/kept/new 2>&1; cat letter 2>&1; cat .ssh/id 2>&1; touch x 2>&1"),
    );
    assert_eq!(fs::read_to_string(session.home("papers/new")).unwrap(), "made\n");
    assert!(!session.home("papers/kept/new").exists() && !session.home("x").exists());
    assert!(!told.contains("a letter") && !told.contains("a key"), "{told}");
}

#[test]
fn a_hidden_home_shows_what_is_listed_and_the_session_directory_works() {
    let session = Session::new();
    fs::create_dir(session.home("tools")).unwrap();
    fs::write(session.home("tools/t"), "a tool").unwrap();
    let sandbox = r#", "sandbox": {"filesystem": {"denyRead": ["~"], "allowRead": ["~/tools"]}}"#;
    let home = session.case.home.display();
    let told = session
        .sh(sandbox, &format!("ls -A {home}; cat {home}/tools/t; echo made > here; cat {home}/letter 2>&1"));
    assert!(told.starts_with("tools\na tool") && !told.contains("a letter"), "{told}");
    assert!(session.directory().join("here").exists());
}

#[test]
fn caches_of_installers_can_be_written_and_the_hosts_stay_as_they_are() {
    let session = Session::new();
    fs::create_dir_all(session.home(".npm/_cacache")).unwrap();
    fs::write(session.home(".npm/_cacache/index"), "warm").unwrap();
    let npm = session.home(".npm");
    let npm = npm.display();
    let told = session.sh(
        "",
        &format!(
            "cat {npm}/_cacache/index; echo poison > {npm}/_cacache/index; mkdir {npm}/_npx && echo made; \
             cat {npm}/_cacache/index; echo $npm_config_offline $npm_config_cache $XDG_CACHE_HOME; mkdir $XDG_CACHE_HOME && echo cache"
        ),
    );
    assert_eq!(told, "warmmade\npoison\ntrue /tmp/.cache\ncache", "{told}");
    assert_eq!(fs::read_to_string(session.home(".npm/_cacache/index")).unwrap(), "warm");
    assert!(!session.home(".npm/_npx").exists() && !session.home(".cache").exists());
}
