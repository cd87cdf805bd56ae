//! Policies that load: the RFC's own example, as JSON and as TOML, and what they come to.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::case::{Case, as_everybody, ordinary};

/// RFC-0002, appendix A, as it stands there.
const APPENDIX_A: &str = r#"{
  "isolationLevel": "LEVEL_2",
  "filesystem": {
    "rootPath": "/var/sandbox/tool-12345",
    "readOnlyPaths": ["/usr", "/lib", "/lib64"],
    "readWritePaths": ["/tmp", "/var/tmp"],
    "deniedPaths": ["/proc", "/sys", "/dev"],
    "maxFileSize": 10485760,
    "maxTotalSize": 104857600
  },
  "process": {
    "maxProcesses": 10,
    "allowFork": true,
    "allowExec": false,
    "allowedExecutables": []
  },
  "network": {
    "allowNetwork": false,
    "allowedHosts": [],
    "allowedPorts": [],
    "maxConnections": 0
  },
  "resources": {
    "maxCPU": 5000,
    "maxMemory": 52428800,
    "maxFileDescriptors": 100,
    "maxThreads": 10
  },
  "syscalls": {
    "mode": "WHITELIST",
    "syscalls": [
      "read", "write", "open", "close",
      "stat", "fstat", "lstat",
      "mmap", "munmap", "brk",
      "exit", "exit_group"
    ]
  }
}
"#;

const APPENDIX_A_TOML: &str = r#"
isolationLevel = "LEVEL_2"

[filesystem]
rootPath = "/var/sandbox/tool-12345"
readOnlyPaths = ["/usr", "/lib", "/lib64"]
readWritePaths = ["/tmp", "/var/tmp"]
deniedPaths = ["/proc", "/sys", "/dev"]
maxFileSize = "10M"
maxTotalSize = "100M"

[process]
maxProcesses = 10
allowFork = true
allowExec = false
allowedExecutables = []

[network]
allowNetwork = false
allowedHosts = []
allowedPorts = []
maxConnections = 0

[resources]
maxCPU = "5s"
maxMemory = "50M"
maxFileDescriptors = 100
maxThreads = 10

[syscalls]
mode = "WHITELIST"
syscalls = ["read", "write", "open", "close", "stat", "fstat", "lstat", "mmap", "munmap", "brk", "exit", "exit_group"]
"#;

fn both(case: &Case) -> [String; 2] {
    [case.file("a.json", APPENDIX_A), case.file("a.toml", APPENDIX_A_TOML)]
        .map(|path| path.to_str().unwrap().to_owned())
}

/// A file of the host below /tmp, gone when dropped.
struct InTmp(PathBuf);

impl InTmp {
    fn new(case: &Case, content: &str) -> InTmp {
        let path = PathBuf::from(format!("/tmp/{}", crate::case::marker()));
        fs::write(&path, content).unwrap();
        case.own(&path);
        InTmp(path)
    }
}

impl Drop for InTmp {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn the_rfcs_example_runs_true_and_cat() {
    as_everybody(|case| {
        let in_tmp = InTmp::new(case, "below /tmp\n");
        for policy in both(case) {
            case.run(["--policy", &policy, "--", "/bin/true"]).exits(0).tells_nothing();
            case.run(["--policy", &policy, "--", "/bin/false"]).exits(1).tells_nothing();
            case.run(["--policy", &policy, "--", "/bin/cat", in_tmp.0.to_str().unwrap()])
                .exits(0)
                .prints("below /tmp");
            let expected = fs::read_to_string("/usr/lib/os-release").unwrap();
            case.run(["--policy", &policy, "--", "/bin/cat", "/usr/lib/os-release"])
                .exits(0)
                .prints(expected.trim());
        }
    });
}

#[test]
fn the_rfcs_example_starts_in_its_private_root() {
    as_everybody(|case| {
        for policy in both(case) {
            let plan = case.run(["--policy", &policy, "--plan", "--", "/bin/true"]).exits(0).out();
            assert!(plan.ends_with("execute /bin/true in /var/sandbox/tool-12345"), "{plan}");
            // A relative name is one in there: nothing of the caller's directory.
            case.run(["--policy", &policy, "--", "/bin/cat", "a.json"]).exits(1).prints("");
        }
    });
}

#[test]
fn under_the_rfcs_example_other_system_calls_are_refused_and_told() {
    as_everybody(|case| {
        for policy in both(case) {
            let made = format!("/tmp/{}", crate::case::marker());
            let outcome = case.run(["--policy", &policy, "--", "/bin/mkdir", &made]);
            outcome.exits(1).tells("system call mkdir").tells("to allow: add \"mkdir\" to syscalls.syscalls");
            assert!(!PathBuf::from(made).exists());
            let blocked = case.events_of("SYSCALL_BLOCKED");
            assert!(
                blocked.iter().any(|event| event["details"]["syscall"]["name"] == "mkdir"),
                "{blocked:?}"
            );
        }
    });
}

#[test]
fn under_the_rfcs_example_nothing_is_executed_after_the_start_and_the_denied_is_not_there() {
    as_everybody(|case| {
        for policy in both(case) {
            let outcome = case.run(["--policy", &policy, "--", "/bin/sh", "-c", "exec /bin/true"]);
            assert!([1, 2, 126].contains(&outcome.code()), "{outcome:?}");
            outcome.tells("system call execve").tells("process.allowExec = true");
            for path in ["/proc/self/status", "/dev/null", "/sys/kernel/version", "/etc/passwd"] {
                case.run(["--policy", &policy, "--", "/bin/cat", path]).exits(1).prints("");
            }
        }
    });
}

#[test]
fn json_and_toml_of_the_same_policy_give_the_same_plan() {
    as_everybody(|case| {
        let plans = both(case).map(|policy| {
            case.run(["--policy", &policy, "--plan", "--json", "--", "/bin/true"]).exits(0).json()
        });
        assert_eq!(plans[0], plans[1]);
    });
}

#[test]
fn a_policy_without_a_telling_name_is_known_by_its_first_character() {
    let case = ordinary();
    for (name, text) in [("policy", APPENDIX_A), ("policy.conf", APPENDIX_A_TOML)] {
        let path = case.file(name, text);
        case.run(["--policy", path.to_str().unwrap(), "--", "/bin/true"]).exits(0);
    }
}

#[test]
fn flags_add_to_a_policy_and_override_its_limits() {
    as_everybody(|case| {
        let policy = case.file(
            "p.toml",
            "timeout = \"10s\"\n[filesystem]\nreadOnlyPaths=[\"/usr\",\"/bin\",\"/lib\",\"/lib64\"]\n",
        );
        let policy = policy.to_str().unwrap();
        case.run(["--policy", policy, "--rw", ".", "--", "/bin/sh", "-c", "pwd; echo x > made"])
            .exits(0)
            .prints(case.work.to_str().unwrap());
        assert!(case.work.join("made").exists());
        case.run(["--policy", policy, "--timeout", "200ms", "--", "/bin/sleep", "5"]).exits(124);
    });
}

#[test]
fn check_says_ok_or_names_the_mistake() {
    let case = ordinary();
    let [json_file, toml_file] = both(&case);
    for file in [&json_file, &toml_file] {
        case.lazaret(["policy", "check", file]).go().exits(0).prints(&format!("{file}: ok")).tells_nothing();
        assert_eq!(
            case.lazaret(["policy", "check", file, "--json"]).go().exits(0).json(),
            json!({"ok": true, "warnings": []})
        );
    }
    let wrong = case.file("wrong.toml", "[filesystem]\nreadOnlyPath = [\"/usr\"]\n");
    let wrong = wrong.to_str().unwrap();
    let outcome = case.lazaret(["policy", "check", wrong]).go().exits(125);
    outcome.tells(&format!("{wrong}:2:1")).tells("readOnlyPaths");
    let report = case.lazaret(["policy", "check", wrong, "--json"]).go().exits(125).json();
    assert_eq!(
        (&report["ok"], &report["error"]["line"], &report["error"]["column"]),
        (&json!(false), &json!(2), &json!(1))
    );
    assert!(report["error"]["hint"].as_str().unwrap().contains("readOnlyPaths"), "{report}");
    case.lazaret(["policy", "check", "/no/such/file"]).go().exits(125).tells("/no/such/file");
}

#[test]
fn policies_for_tool_calls_are_checked_with_and_without_tools() {
    let case = ordinary();
    let file = case.file("calls/git.cedar", "permit(principal, action == Action::\"git/psuh\", resource);\n");
    let directory = file.parent().unwrap().to_str().unwrap().to_owned();
    case.lazaret(["policy", "check", &directory]).go().exits(0).tells_nothing();

    let tools =
        case.file("tools.json", r#"[{"server": "git", "name": "push", "inputSchema": {"type": "object"}}]"#);
    let tools = tools.to_str().unwrap();
    let outcome = case.lazaret(["policy", "check", &directory, "--tools", tools]).go().exits(125);
    outcome.tells("git.cedar:1:37").tells("did you mean Action::\"git/push\"?");
    let report =
        case.lazaret(["policy", "check", &directory, "--tools", tools, "--json"]).go().exits(125).json();
    assert_eq!((&report["ok"], &report["errors"][0]["line"]), (&json!(false), &json!(1)));

    case.file("calls/git.cedar", "permit(principal, action == Action::\"git/push\", resource);\n");
    assert_eq!(
        case.lazaret(["policy", "check", &directory, "--tools", tools, "--json"]).go().exits(0).json(),
        json!({"ok": true, "errors": [], "warnings": []})
    );
    case.file("calls/more.cedar", "permit(principal, action resource);\n");
    case.lazaret(["policy", "check", &directory]).go().exits(125).tells("more.cedar:1:");
    case.lazaret(["policy", "check", &directory, "--tools", "/no/such/file"])
        .go()
        .exits(125)
        .tells("/no/such/file");
}

#[test]
fn a_listed_call_that_stays_blocked_is_a_warning() {
    let case = ordinary();
    let policy = APPENDIX_A.replace("\"read\",", "\"read\", \"mount\",");
    let policy = case.file("p.json", policy);
    case.lazaret(["policy", "check", policy.to_str().unwrap()]).go().exits(0).tells("`mount` stays blocked");
}

#[test]
fn the_schema_is_json_and_knows_every_key_of_the_rfc() {
    let case = ordinary();
    let schema = case.lazaret(["policy", "schema"]).go().exits(0).tells_nothing().json();
    let text = schema.to_string();
    let example: Value = serde_json::from_str(APPENDIX_A).unwrap();
    for (section, content) in example.as_object().unwrap() {
        assert!(schema["properties"][section].is_object(), "{section}");
        for key in content.as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(text.contains(&format!("\"{key}\"")), "{section}.{key}");
        }
    }
}

#[test]
fn every_built_in_profile_is_listed_shown_loads_and_runs() {
    as_everybody(|case| {
        let list = case.lazaret(["profile", "list", "--json"]).go().exits(0).json();
        let names: Vec<&str> =
            list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"default") && names.len() >= 3, "{list}");
        let listed = case.lazaret(["profile", "list"]).go().exits(0).out();
        for name in names {
            assert!(listed.contains(name));
            for command in ["profile", "policy"] {
                let toml = case.lazaret([command, "show", name]).go().exits(0).tells_nothing();
                let shown = case.file(format!("{name}.toml"), &toml.stdout);
                case.lazaret(["policy", "check", shown.to_str().unwrap()]).go().exits(0);
                let json = case.lazaret([command, "show", name, "--json"]).go().exits(0);
                let shown = case.file(format!("{name}.json"), &json.stdout);
                case.lazaret(["policy", "check", shown.to_str().unwrap()]).go().exits(0);
            }
            case.run(["--profile", name, "--", "/bin/true"]).exits(0);
        }
        case.lazaret(["profile", "show", "nonesuch"])
            .go()
            .exits(125)
            .tells("there is no profile `nonesuch`")
            .tells("default");
    });
}

#[test]
fn the_strict_profile_does_not_write_the_current_directory() {
    as_everybody(|case| {
        case.file("file", "x");
        let outcome = case.run(["--profile", "strict", "--", "sh", "-c", "cat file; echo x > made"]);
        assert_ne!(outcome.code(), 0, "{outcome:?}");
        assert_eq!(outcome.out(), "x");
        assert!(!case.work.join("made").exists());
    });
}
