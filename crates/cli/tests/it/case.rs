//! One case: a directory of its own with a working directory, a home and a state directory, an identity to
//! run as, and a way to run the program there with a deadline. Everything is removed at the end, also after
//! a failed or killed test run.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, Permissions},
    io::Write,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use serde_json::Value;

pub use crate::outcome::{Outcome, Running, eventually, marker, processes_with, wait_within};

/// The ordinary user that tests run as when they are started by root.
pub const OTHER: u32 = 54321;
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Who starts `lazaret`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Whoever runs the tests.
    Caller,
    /// An ordinary user, where the tests run as root.
    Other,
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// CI sets this: what cannot be tried is then a failure.
fn must_enforce() -> bool {
    env::var_os("LAZARET_MUST_ENFORCE").is_some_and(|value| value == "1")
}

/// Says that something is not tried, and why.
pub fn not_run(why: &str) {
    assert!(!must_enforce(), "not run: {why}");
    eprintln!("not run: {why}");
}

/// Is there root to try this as?
pub fn has_root() -> bool {
    if !is_root() {
        not_run("needs root");
    }
    is_root()
}

/// Is there such a program?
pub fn has_tool(name: &str) -> bool {
    let found = env::split_paths(PATH).any(|directory| directory.join(name).is_file());
    if !found {
        not_run(&format!("needs {name}"));
    }
    found
}

impl Who {
    pub fn uid(self) -> u32 {
        match self {
            Who::Caller => rustix::process::getuid().as_raw(),
            Who::Other => OTHER,
        }
    }
}

/// An ordinary user: the caller, unless that is root.
pub fn ordinary() -> Case {
    Case::new(if is_root() { Who::Other } else { Who::Caller })
}

/// Tries the same as everybody that there is.
pub fn as_everybody(test: impl Fn(&Case)) {
    let everybody: &[Who] = if is_root() { &[Who::Caller, Who::Other] } else { &[Who::Caller] };
    for who in everybody {
        eprintln!("as {who:?}, uid {}", who.uid());
        test(&Case::new(*who));
    }
}

/// The directory of this test run. A small process outside removes it when this one ends, however it ends.
fn base() -> &'static Path {
    static BASE: OnceLock<(PathBuf, ChildStdin)> = OnceLock::new();
    let (path, _) = BASE.get_or_init(|| {
        let path = env::temp_dir().canonicalize().unwrap().join(format!("lazaret-it-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        #[expect(clippy::zombie_processes, reason = "it outlives this process")]
        let mut janitor = Command::new("sh")
            .args(["-c", r#"trap "" INT TERM HUP; read nothing; chmod -R u+rwx "$0"; rm -rf "$0""#])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = janitor.stdin.take().unwrap();
        let program = path.join("lazaret");
        // Tests that are run once more by another user are told where it is.
        let built = env::var_os("LAZARET_TEST_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_lazaret").into());
        fs::copy(built, &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        (path, line)
    });
    path
}

/// The program under test, where everybody can execute it.
pub fn program() -> PathBuf {
    base().join("lazaret")
}

#[derive(Debug)]
pub struct Case {
    pub who: Who,
    /// Holds the other three; nothing inside a sandbox should see it.
    pub root: PathBuf,
    pub work: PathBuf,
    pub home: PathBuf,
    pub state: PathBuf,
}

impl Case {
    pub fn new(who: Who) -> Case {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = base().join(format!("case-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let [work, home, state] = ["project", "home", "state"].map(|name| root.join(name));
        let case = Case { who, root, work, home, state };
        for directory in [&case.root, &case.work, &case.home, &case.state] {
            case.directory(directory);
        }
        case
    }

    /// Hands a path to whoever runs the case.
    pub fn own(&self, path: &Path) {
        if self.who == Who::Other {
            chown(path, Some(OTHER), Some(OTHER)).unwrap();
        }
    }

    pub fn directory(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        let mut above = path;
        while above.starts_with(&self.root) {
            self.own(above);
            above = above.parent().unwrap();
        }
    }

    /// Writes a file, and the directories above it; a relative name is one in the working directory.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work.join(name);
        self.directory(path.parent().unwrap());
        fs::write(&path, content).unwrap();
        self.own(&path);
        path
    }

    /// `lazaret` with these arguments.
    pub fn lazaret<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Lazaret<'_> {
        Lazaret {
            case: self,
            wrapper: Vec::new(),
            args: args.into_iter().map(|arg| arg.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            directory: self.work.clone(),
            input: Vec::new(),
        }
    }

    /// `lazaret run` with these arguments.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Outcome {
        self.running(args).go()
    }

    /// `lazaret run`, not yet run.
    pub fn running<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Lazaret<'_> {
        let mut all = vec![OsString::from("run")];
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self.lazaret(all)
    }

    /// A shell script in the default profile.
    pub fn sh(&self, script: &str) -> Outcome {
        self.run(["--", "sh", "-c", script])
    }

    /// A shell script with flags.
    pub fn sh_with(&self, flags: &[&str], script: &str) -> Outcome {
        self.run(flags.iter().copied().chain(["--", "sh", "-c", script]))
    }

    /// A Python script with flags.
    pub fn python(&self, flags: &[&str], script: &str) -> Outcome {
        self.run(flags.iter().copied().chain(["--", "/usr/bin/python3", "-c", script]))
    }

    pub fn log(&self) -> PathBuf {
        self.state.join("lazaret/audit.jsonl")
    }

    /// The events of the audit log.
    pub fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Nothing has been started, as far as the log knows.
    pub fn assert_nothing_started(&self) {
        assert_eq!(self.events(), Vec::<Value>::new());
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The program, about to be run.
#[derive(Debug, Clone)]
pub struct Lazaret<'a> {
    case: &'a Case,
    wrapper: Vec<OsString>,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    input: Vec<u8>,
}

impl Lazaret<'_> {
    /// Puts a command in front, which is to execute the rest of its arguments.
    pub fn under<S: AsRef<OsStr>>(mut self, wrapper: impl IntoIterator<Item = S>) -> Self {
        self.wrapper = wrapper.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = directory.to_owned();
        self
    }

    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// As a command of the standard library, with streams still to be set.
    pub fn command(&self) -> Command {
        let mut words = self.wrapper.iter().cloned().chain([program().into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(&self.args).current_dir(&self.directory).env_clear();
        command.env("PATH", PATH).env("HOME", &self.case.home).env("XDG_STATE_HOME", &self.case.state);
        command.envs(self.environment.iter().cloned());
        if self.case.who == Who::Other {
            command.uid(OTHER).gid(OTHER);
        }
        command
    }

    /// Starts it with its streams in pipes.
    pub fn start(&self) -> Running {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// Runs it to its end.
    pub fn go(&self) -> Outcome {
        let mut running = self.start();
        let mut stdin = running.child.stdin.take().unwrap();
        let input = self.input.clone();
        thread::spawn(move || drop(stdin.write_all(&input)));
        running.finish()
    }
}
