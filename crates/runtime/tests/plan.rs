//! Plans are compared word for word: a change to the sandbox is a readable difference here.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::{fs, path::Path};

use lazaret_policy::{Policy, load};
use lazaret_runtime::{
    Request, prepare,
    request::{OnSuccess, Writing},
};

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
  3. limits on everything together: processes and threads 10
  4. die with the supervisor
  5. make every mount private
  6. new empty root; private storage of at most 104857600 bytes and 1048576 files
  7. minimal    /dev
  8. private    /dev/shm
  9. fresh      /proc
 10. private    /tmp
 11. private    BASE/home
 12. read-only  BASE/library
 13. read-write BASE/project
 14. read-only  BASE/project/vendor
 15. private    /var/tmp
 16. denied     BASE/project/.env
 17. forbid nested user namespaces, make /proc read-only
 18. make the root read-only
 19. change root, detach the old one
 20. the loopback interface, the only one; every address leads to it
 21. host name lazaret
 22. limits: processes 10, file size 10485760
 23. drop all capabilities
 24. no new privileges
 25. landlock, 11 rules:
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
 26. init guards names:
       never opened or made  BASE/project/.env
       never opened or made  BASE/project/not-there-yet
 27. start the command's process under a small init
 28. pass on the standard streams
 29. close every descriptor from 3 on
 30. seccomp filter: CALLS
 31. report what is in force, wait for the word to go
 32. execute true in BASE/project
";

fn request(base: &Path, policy: Policy, writing: Writing) -> Request {
    Request {
        command: vec!["true".into()],
        home: Some(base.join("home")),
        environment: vec![("LANG".into(), "C".into()), ("SECRET".into(), "x".into())],
        own_directories: Vec::new(),
        writing,
        state: Some(base.join("state")),
        ..Request::new(policy, base.join("project"), base.join("audit.jsonl"))
    }
}

#[test]
fn the_plan_of_a_policy_is_as_written_here() {
    let plain = plan("through", Writing::Through);
    assert_eq!(plain, PLAN, "\n{plain}");
}

#[test]
fn with_copy_on_write_nothing_but_the_writable_paths_is_placed_otherwise() {
    let plain = plan("cow", Writing::CopyOnWrite { on_success: OnSuccess::Keep });
    assert_eq!(plain, PLAN.replace("read-write BASE/project", "copy-write BASE/project"), "\n{plain}");
}

fn plan(name: &str, writing: Writing) -> String {
    // Below /tmp, so that the private /tmp has something bound on top of it.
    let base = Path::new("/tmp").join(format!("lazaret-plan-{name}-{}", std::process::id()));
    for directory in ["library", "project/vendor", "home", "elsewhere"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    fs::write(base.join("project/.env"), "secret").unwrap();
    let text = POLICY.replace("BASE", base.to_str().unwrap());
    let policy = load::parse(&text, load::Format::Toml, Path::new("plan.toml")).unwrap().policy;
    let plan = prepare(request(&base, policy, writing)).unwrap().plan().to_string();
    fs::remove_dir_all(&base).unwrap();
    plan.replace(base.to_str().unwrap(), "BASE")
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
        .collect()
}
