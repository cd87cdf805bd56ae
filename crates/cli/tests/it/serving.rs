//! Servers that run for long in a program with threads: what the sandbox refused is heard while they run, they
//! end from any thread, and nothing of them outlives the program. Everything here is also tried by a program of
//! an ordinary user.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use lazaret_policy::{Policy, schema::Level};
use lazaret_runtime::{
    Launcher, Request, RunError, ViolationTap,
    report::Ending,
    serve::{self, Containment, End, Running, Unconfined},
};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::{
    case::{self, Case, OTHER, Who, eventually, has_tool, is_root, marker, processes_with, program},
    host::prepared,
};

/// Obeys lines of shell on its standard input, one after the other.
const OBEDIENT: &str = "while read -r line; do eval \"$line\" 2>/dev/null; echo \"done $?\"; done";

fn case() -> Case {
    Case::new(Who::Caller)
}

fn launcher() -> Launcher {
    Launcher::start(&program()).unwrap()
}

fn request(case: &Case, command: &[&str]) -> Request {
    let mut policy = Policy { isolation_level: Level::Full, ..Policy::default() };
    policy.filesystem.read_only_paths = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into).to_vec();
    policy.filesystem.read_write_paths = vec![case.work.clone()];
    case.directory(case.log().parent().unwrap());
    let mut request = Request::new(policy, &case.work, case.log());
    request.command = command.iter().map(OsString::from).collect();
    request.state = Some(case.state.join("lazaret"));
    request
}

fn unconfined(case: &Case, command: &[&str]) -> Unconfined {
    case.directory(case.log().parent().unwrap());
    Unconfined {
        server: "files".to_owned(),
        reason: "the configuration says so".to_owned(),
        command: command.iter().map(OsString::from).collect(),
        directory: case.work.clone(),
        environment: vec![("PATH".into(), case::PATH.into()), ("ONLY".into(), "this one".into())],
        audit_log: case.log(),
        rotation: lazaret_audit::Rotation::NEVER,
    }
}

/// A server with somebody to talk to it.
struct Talk {
    running: Running,
    input: Option<File>,
    output: BufReader<File>,
    end: Receiver<End>,
}

impl Talk {
    fn new(start: impl FnOnce(Box<dyn FnOnce(End) + Send>) -> Result<Running, RunError>) -> Talk {
        let (sender, end) = mpsc::channel();
        let mut running =
            start(Box::new(move |end| sender.send(end).unwrap())).unwrap_or_else(|error| panic!("{error}"));
        let input = running.stdin.take().map(File::from);
        let output = BufReader::new(running.stdout.take().unwrap().into());
        Talk { running, input, output, end }
    }

    fn sandboxed(launcher: &Launcher, request: Request) -> Talk {
        Talk::new(|on_end| serve::start(launcher, request, on_end))
    }

    fn unconfined(launcher: &Launcher, plain: Unconfined) -> Talk {
        Talk::new(|on_end| serve::start_unconfined(launcher, plain, on_end))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Has a line of shell obeyed; the exit code.
    fn obey(&mut self, script: &str) -> i32 {
        writeln!(self.input.as_mut().unwrap(), "{script}").unwrap();
        loop {
            let line = self.line();
            if let Some(code) = line.strip_prefix("done ") {
                return code.parse().unwrap();
            }
            assert!(!line.is_empty(), "it has ended");
        }
    }

    fn end(&self) -> serve::Departed {
        self.end.recv_timeout(Duration::from_secs(10)).unwrap().unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn what_is_refused_is_heard_while_the_server_lives() {
    let (case, launcher) = (case(), launcher());
    prepared(&case, "echo s > secret; mkdir open");
    let tap = ViolationTap::new();
    let mut request = request(&case, &["sh", "-c", OBEDIENT]);
    request.policy.filesystem.denied_paths = vec![case.work.join("secret")];
    request.violations = Some(tap.clone());
    let mut talk = Talk::sandboxed(&launcher, request);
    let before = tap.mark();
    assert_eq!(talk.obey("echo x > open/file; cat open/file > /dev/null"), 0);
    assert!(tap.since(before).is_empty(), "{:?}", tap.since(before));

    let mark = tap.mark();
    assert_ne!(talk.obey("cat secret"), 0);
    let heard = tap.since(mark);
    let [one] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(one.path.as_deref().map(Path::new), Some(case.work.join("secret").as_path()), "{one:?}");
    assert!(one.event == "POLICY_VIOLATION" && !one.remedy.is_empty() && one.count == 1, "{one:?}");

    let mark = tap.mark();
    assert_ne!(talk.obey("echo x > /usr/new"), 0);
    let heard = tap.since(mark);
    assert!(heard.len() == 1 && heard[0].path.as_deref() == Some("/usr/new"), "{heard:?}");

    // Each time, not only those that the log is told of.
    let mark = tap.mark();
    for _ in 0..25 {
        assert_ne!(talk.obey("cat secret"), 0);
    }
    assert_eq!(tap.count_since(mark), 25);
    let heard = tap.since(mark);
    assert!(heard.len() == 1 && heard[0].count == 26, "{heard:?}");
    assert!(tap.since(tap.mark()).is_empty());

    talk.input = None;
    let departed = talk.end();
    assert_eq!((departed.exit_code, departed.outcome), (0, Ending::Exited));
    assert_eq!(departed.report.unwrap().violations.len(), 2);
}

#[test]
fn a_refused_connection_is_heard_while_the_server_lives() {
    if !has_tool("python3") {
        return;
    }
    let (case, launcher) = (case(), launcher());
    let connect = "python3 -c 'import socket; socket.create_connection((\"192.0.2.7\", 80), 3)'";
    let look_up = "python3 -c 'import socket; socket.getaddrinfo(\"unlisted.example\", 80)'";
    let datagram =
        "python3 -c 'import socket; socket.socket(2, 2).sendto(b\"x\", (\"192.0.2.9\", 9))' || true";
    for network in [false, true] {
        let tap = ViolationTap::new();
        let mut request = request(&case, &["sh", "-c", OBEDIENT]);
        if network {
            request.policy.network.allow_network = true;
            request.policy.network.allowed_hosts = vec!["listed.example".into()];
        }
        request.violations = Some(tap.clone());
        let mut talk = Talk::sandboxed(&launcher, request);
        let attempts = [(connect, "192.0.2.7"), (look_up, "unlisted.example"), (datagram, "192.0.2.9")];
        for (script, host) in attempts {
            let mark = tap.mark();
            let code = talk.obey(script);
            assert!((code != 0) || script == datagram);
            assert!(talk.running.handle().settle(Duration::from_secs(5)));
            let heard = tap.since(mark);
            assert!(
                heard.iter().any(|one| one.peer.as_ref().is_some_and(|peer| peer.host == host)),
                "network {network}, {script}: {heard:?}"
            );
        }
    }
}

#[test]
fn a_server_says_what_holds_it_and_ends_by_itself() {
    let (case, launcher) = (case(), launcher());
    let mut talk = Talk::sandboxed(&launcher, request(&case, &["sh", "-c", "echo hello; read x; exit 7"]));
    assert!(talk.running.containment().is_whole());
    let Containment::Sandbox(enforcement) = talk.running.containment() else { panic!() };
    for layer in ["userns", "netns", "mountns", "pidns", "landlock", "seccomp", "notify"] {
        assert!(enforcement.layers.contains(&layer), "{enforcement:?}");
    }
    let id = talk.running.id().to_owned();
    assert_eq!(talk.line(), "hello");
    assert!(!talk.running.handle().has_ended());
    assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 0);
    talk.input = None;
    let departed = talk.end();
    assert_eq!((departed.exit_code, departed.signal, departed.outcome), (7, None, Ending::Exited));
    assert_eq!(departed.report.unwrap().sandbox_id, id);
    let destroyed = case.events_of("SANDBOX_DESTROYED");
    assert!(destroyed.len() == 1 && destroyed[0]["sandboxId"] == id.as_str(), "{destroyed:?}");
    assert!(talk.running.handle().has_ended());
    assert!(talk.running.handle().settle(Duration::ZERO), "nothing is on its way any more");
    talk.running.handle().kill();
    let started = Instant::now();
    drop(talk);
    assert!(started.elapsed() < Duration::from_millis(500));
    case.lazaret(["audit", "verify"]).go().exits(0);
}

/// A shell script that leaves behind whatever a server could, and then says that it is ready. What it says is
/// `ready` and, where nobody hides it, its number.
fn leaving_all_behind(marker: &str) -> String {
    format!(
        "(setsid sh -c '(trap \"\" TERM HUP INT; sleep 600; :) & sleep 600; :' {marker} >/dev/null 2>&1 &); \
         sh -c 'trap \"\" TERM; sleep 600; :' {marker} & \
         (setsid setsid sh -c 'exec </dev/null >/dev/null 2>&1; sleep 600; :' {marker} &); \
         trap '' TERM; sleep 0.2; echo ready $$; while :; do sleep 600; done; : {marker}"
    )
}

/// In a sandbox and without one, each started when it comes to it.
fn both_kinds(case: &Case, launcher: &Launcher, script: &str) -> impl Iterator<Item = Talk> {
    (0..2).map(move |kind| match kind {
        0 => Talk::sandboxed(launcher, request(case, &["sh", "-c", script])),
        _ => Talk::unconfined(launcher, unconfined(case, &["sh", "-c", script])),
    })
}

#[test]
fn killed_from_another_thread_everything_ends() {
    let (case, launcher, marker) = (case(), launcher(), marker());
    for mut talk in both_kinds(&case, &launcher, &leaving_all_behind(&marker)) {
        assert!(talk.line().starts_with("ready"));
        assert!(processes_with(&marker).len() >= 3);
        let handle = talk.running.handle();
        let started = Instant::now();
        thread::spawn(move || handle.kill()).join().unwrap();
        let departed = talk.end();
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!((departed.signal, departed.exit_code), (Some(9), 137));
        assert_eq!(processes_with(&marker), Vec::<u32>::new(), "told before everything had ended");
        // Nobody holds the other ends of the pipes.
        let mut rest = Vec::new();
        talk.output.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn dropped_everything_ends() {
    let (case, launcher, marker) = (case(), launcher(), marker());
    for mut talk in both_kinds(&case, &launcher, &leaving_all_behind(&marker)) {
        assert!(talk.line().starts_with("ready"));
        drop(talk.running);
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert!(talk.end.try_recv().unwrap().is_ok(), "told all the same");
    }
    assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 1);
}

#[test]
fn who_is_told_of_the_end_may_let_go_of_the_server() {
    let (case, launcher) = (case(), launcher());
    let kept: Arc<Mutex<Option<Running>>> = Arc::default();
    let (sender, ended) = mpsc::channel();
    let to_drop = Arc::clone(&kept);
    let running = serve::start(&launcher, request(&case, &["sh", "-c", "read x"]), move |end| {
        // Not before it is there.
        eventually("it is kept", || to_drop.lock().unwrap().is_some());
        drop(to_drop.lock().unwrap().take());
        sender.send(end).unwrap();
    });
    let mut running = running.unwrap();
    drop(running.stdin.take());
    *kept.lock().unwrap() = Some(running);
    assert!(ended.recv_timeout(Duration::from_secs(15)).unwrap().is_ok());
}

#[test]
fn asked_to_end_a_server_may_clear_up_and_is_made_to_end_when_it_does_not() {
    let (case, launcher, marker) = (case(), launcher(), marker());
    let polite = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    for mut talk in both_kinds(&case, &launcher, polite) {
        assert_eq!(talk.line(), "ready");
        talk.running.handle().terminate(Duration::from_secs(20));
        assert_eq!(talk.line(), "bye");
        assert_eq!(talk.end().exit_code, 3);
    }
    for mut talk in both_kinds(&case, &launcher, &leaving_all_behind(&marker)) {
        assert!(talk.line().starts_with("ready"));
        let started = Instant::now();
        talk.running.handle().terminate(Duration::from_millis(300));
        assert_eq!(talk.end().signal, Some(9));
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
    }
}

#[test]
fn a_server_that_ends_takes_along_what_it_left_behind() {
    let (case, launcher, marker) = (case(), launcher(), marker());
    let script = format!("{} ", leaving_all_behind(&marker).replace("while :", "exit 4; while :"));
    for talk in both_kinds(&case, &launcher, &script) {
        let departed = talk.end();
        assert_eq!((departed.exit_code, departed.outcome), (4, Ending::Exited));
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
    }
}

#[test]
fn what_cannot_be_started_is_an_error_and_nothing_is_left() {
    let (case, launcher) = (case(), launcher());
    let never = |_: End| panic!("it never began");
    let error = serve::start(&launcher, request(&case, &["nonesuch-program"]), never).unwrap_err();
    assert!(error.to_string().contains("nonesuch-program: command not found"), "{error}");
    let error = serve::start(&launcher, request(&case, &["/etc/passwd"]), never).unwrap_err();
    assert!(error.to_string().contains("cannot execute /etc/passwd"), "{error}");
    assert!(serve::start(&launcher, request(&case, &[]), never).is_err());
    assert_eq!(case.events_of("SANDBOX_CREATED").len(), case.events_of("SANDBOX_DESTROYED").len());

    let error = serve::start_unconfined(&launcher, unconfined(&case, &["nonesuch-program"]), never);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("nonesuch-program: command not found"), "{error}");
    let error = serve::start_unconfined(&launcher, unconfined(&case, &["/etc/passwd"]), never).unwrap_err();
    assert!(error.to_string().contains("cannot execute /etc/passwd: Permission denied"), "{error}");
    assert!(serve::start_unconfined(&launcher, unconfined(&case, &[]), never).is_err());
    let mut absent = unconfined(&case, &["pwd"]);
    absent.directory = PathBuf::from("/nonesuch");
    let error = serve::start_unconfined(&launcher, absent, never).unwrap_err();
    assert!(error.to_string().contains("enter /nonesuch"), "{error}");
    let mut no_log = unconfined(&case, &["touch", "ran"]);
    no_log.audit_log = case.work.join("a\0b");
    assert!(matches!(serve::start_unconfined(&launcher, no_log, never), Err(RunError::Audit(_))));
    assert!(!case.work.join("ran").exists());
    // The launcher is none the worse for it.
    assert_eq!(Talk::unconfined(&launcher, unconfined(&case, &["echo", "fine"])).line(), "fine");
}

#[test]
fn without_a_sandbox_a_server_has_what_it_was_given_and_the_log_says_so() {
    let (case, launcher) = (case(), launcher());
    let script = "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=; pwd; ls /proc/self/fd; ps -o sid= -p $$; echo $$; cat";
    let mut talk = Talk::unconfined(&launcher, unconfined(&case, &["sh", "-c", script]));
    assert!(!talk.running.containment().is_whole());
    assert!(matches!(talk.running.containment(), Containment::Nothing));
    let mut variables = [talk.line(), talk.line()];
    variables.sort();
    assert_eq!(variables, ["ONLY=this one".to_owned(), format!("PATH={}", case::PATH)]);
    assert_eq!(Path::new(&talk.line()), case.work);
    // The fourth is the directory that is being listed.
    assert_eq!([talk.line(), talk.line(), talk.line(), talk.line()], ["0", "1", "2", "3"]);
    assert_eq!(talk.line().trim(), talk.line(), "a session of its own");
    writeln!(talk.input.as_mut().unwrap(), "back and forth").unwrap();
    assert_eq!(talk.line(), "back and forth");
    talk.input = None;
    assert_eq!(talk.end().exit_code, 0);
    let used = case.events_of("LEVEL0_USED");
    assert_eq!(used.len(), 1);
    assert_eq!(used[0]["sandboxId"], talk.running.id());
    assert_eq!(used[0]["details"]["server"], "files");
    assert_eq!(used[0]["details"]["reason"], "the configuration says so");
    case.lazaret(["audit", "verify"]).go().exits(0);
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Its parent, as long as it is of ours.
fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn when_the_guardian_or_the_launcher_is_killed_what_it_watched_over_ends() {
    let (case, marker) = (case(), marker());
    for generation in 1..=2 {
        let launcher = launcher();
        let mut talk =
            Talk::unconfined(&launcher, unconfined(&case, &["sh", "-c", &leaving_all_behind(&marker)]));
        let line = talk.line();
        let mut pid: i32 = line.strip_prefix("ready ").unwrap().parse().unwrap();
        for _ in 0..generation {
            pid = parent_of(pid);
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_eq!(name.trim(), if generation == 1 { "lazaret-guard" } else { "lazaret-launch" });
        kill(pid);
        assert!(talk.end.recv_timeout(Duration::from_secs(10)).unwrap().is_err());
        eventually(&format!("generation {generation}: all gone"), || processes_with(&marker).is_empty());
    }
}

/// Where everybody can execute it.
fn own_copy() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let copy = program().parent().unwrap().join("tests-of-lazaret");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        copy
    })
}

/// These tests once more, in a process of their own.
fn again(arguments: &[&str]) -> Command {
    let mut command = Command::new(own_copy());
    command.args(arguments).current_dir("/").env("LAZARET_TEST_PROGRAM", program());
    command
}

#[test]
fn when_the_program_is_killed_nothing_survives() {
    let marker = marker();
    for round in 0..4 {
        let mut program: Child =
            again(&["--exact", "serving::a_program_that_waits_to_be_killed", "--ignored", "--nocapture"])
                .env("LAZARET_TEST_MARKER", &marker)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        while lines.next().unwrap().unwrap() != "all of them are ready" {}
        assert!(processes_with(&marker).len() >= 6, "round {round}");
        program.kill().unwrap();
        program.wait().unwrap();
        eventually(&format!("round {round}: all gone"), || processes_with(&marker).is_empty());
    }
}

#[test]
#[ignore = "started by another test, and killed by it"]
fn a_program_that_waits_to_be_killed() {
    let Ok(marker) = std::env::var("LAZARET_TEST_MARKER") else { panic!("not to be started alone") };
    let (case, launcher) = (case(), launcher());
    let mut talks: Vec<Talk> = both_kinds(&case, &launcher, &leaving_all_behind(&marker)).collect();
    for talk in &mut talks {
        assert!(talk.line().starts_with("ready"));
    }
    println!("\nall of them are ready");
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "started by another test, where there is less than usual"]
fn a_program_that_says_what_can_be_had() {
    let by_launcher = lazaret_runtime::availability(&launcher());
    println!("\navailability {}", serde_json::to_string(&by_launcher).unwrap());
}

fn what_can_be_had(mut command: Command) -> Value {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("availability "));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{output:?}"))).unwrap()
}

#[test]
fn whether_a_sandbox_can_be_made_is_known_before_anything_is_started() {
    let launcher = launcher();
    let started = Instant::now();
    let here = lazaret_runtime::availability(&launcher);
    eprintln!("known after {:?}: {here:?}", started.elapsed());
    assert!(here.supported && here.errors.is_empty(), "{here:?}");

    let asks = ["--exact", "serving::a_program_that_says_what_can_be_had", "--ignored", "--nocapture"];
    assert_eq!(what_can_be_had(again(&asks))["supported"], json!(true));
    if !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    // Every user namespace is taken.
    let inner = again(&asks);
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all \"$@\"";
    let user = format!("--map-user={OTHER}");
    let mut command = Command::new("unshare");
    command.args(["-U", &user, &format!("--map-group={OTHER}"), "--keep-caps", "sh", "-c", script, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir("/");
    command.env("LAZARET_TEST_PROGRAM", program());
    if is_root() {
        command.uid(OTHER).gid(OTHER);
    }
    let less = what_can_be_had(command);
    assert_eq!(less["supported"], json!(false), "{less}");
    let errors = less["errors"].as_array().unwrap();
    assert!(errors.len() == 1, "one cause is told once: {less}");
    let told = errors[0].as_str().unwrap();
    assert!(told.contains("user.max_user_namespaces is 0") && told.contains("sysctl"), "{told}");
}

#[test]
fn all_of_this_holds_for_a_program_of_an_ordinary_user_too() {
    if !is_root() {
        return;
    }
    let output =
        again(&["serving::", "--skip", "ordinary_user_too"]).env("HOME", "/").uid(OTHER).gid(OTHER).output();
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{text}");
}
