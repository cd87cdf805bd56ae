//! Plans are compared word for word: a change to the sandbox is a readable difference here.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::{fs, path::Path};

use lazaret_policy::{Policy, load};
use lazaret_runtime::{Request, Requirement, prepare, request::TerminalUse};

const POLICY: &str = r#"
isolationLevel = "LEVEL_2"
timeout = "30s"

[filesystem]
readOnlyPaths = ["BASE/library", "BASE/project/vendor"]
readWritePaths = ["BASE/project"]
deniedPaths = ["BASE/project/.env", "BASE/project/not-there-yet", "BASE/elsewhere"]
maxFileSize = "10M"
maxTotalSize = "100M"

[process]
maxProcesses = 10

[environment]
allow = ["LANG"]
"#;

const PLAN: &str = "  1. enter new namespaces: user mount pid net ipc uts cgroup
  2. map identity: IDENTITY
  3. die with the supervisor
  4. make every mount private
  5. new empty root; private storage of at most 104857600 bytes and 1048576 files
  6. minimal    /dev
  7. private    /dev/shm
  8. fresh      /proc
  9. private    /tmp
 10. private    BASE/home
 11. read-only  BASE/library
 12. read-write BASE/project
 13. read-only  BASE/project/vendor
 14. private    /var/tmp
 15. denied     BASE/project/.env
 16. forbid nested user namespaces, make /proc read-only
 17. make the root read-only
 18. change root, detach the old one
 19. bring up the loopback interface, the only one
 20. host name lazaret
 21. limits: processes 10, file size 10485760
 22. drop all capabilities
 23. no new privileges
 24. landlock, 11 rules:
       list             /
       device           /dev
       list             /dev
       write and execute /dev/shm
       read             /proc
       write and execute /tmp
       write and execute BASE/home
       read and execute BASE/library
       write and execute BASE/project
       read and execute BASE/project/vendor
       write and execute /var/tmp
 25. init guards names:
       never opened or made  BASE/project/.env
       never opened or made  BASE/project/not-there-yet
 26. start the command's process under a small init
 27. pass on the standard streams
 28. close every descriptor from 3 on
 29. seccomp filter: CALLS
 30. report what is in force, wait for the word to go
 31. execute true in BASE/project
";

fn request(base: &Path, policy: Policy) -> Request {
    Request {
        policy,
        command: vec!["true".into()],
        directory: base.join("project"),
        home: Some(base.join("home")),
        environment: vec![("LANG".into(), "C".into()), ("SECRET".into(), "x".into())],
        requirement: Requirement::Enforce,
        audit_log: base.join("audit.jsonl"),
        terminal: TerminalUse::Never,
        own_directories: Vec::new(),
    }
}

#[test]
fn the_plan_of_a_policy_is_as_written_here() {
    // Below /tmp, so that the private /tmp has something bound on top of it.
    let base = Path::new("/tmp").join(format!("lazaret-plan-{}", std::process::id()));
    for directory in ["library", "project/vendor", "home", "elsewhere"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    fs::write(base.join("project/.env"), "secret").unwrap();
    let text = POLICY.replace("BASE", base.to_str().unwrap());
    let policy = load::parse(&text, load::Format::Toml, Path::new("plan.toml")).unwrap().policy;
    let plan = prepare(request(&base, policy)).unwrap().plan().to_string();
    fs::remove_dir_all(&base).unwrap();
    let plain: String = plan
        .replace(base.to_str().unwrap(), "BASE")
        .replace(" (owner shown as the caller)", "")
        .lines()
        .map(|line| {
            // Who runs the test, and how many calls its architecture has, is not the plan's doing.
            let line = match line.split_once("map identity: ") {
                Some((head, _)) => format!("{head}map identity: IDENTITY"),
                None => line.to_owned(),
            };
            match line.split_once("seccomp filter: ") {
                Some((head, _)) => format!("{head}seccomp filter: CALLS\n"),
                None => format!("{line}\n"),
            }
        })
        .collect();
    assert_eq!(plain, PLAN, "\n{plain}");
}
