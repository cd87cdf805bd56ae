//! Variables and descriptors are allow-lists.

use crate::case::{as_everybody, has_tool};

fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect()
}

#[test]
fn only_listed_variables_reach_the_command() {
    as_everybody(|case| {
        let outcome = case
            .running(["--", "env"])
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C")
            .env("TERM", "xterm")
            .env("GITHUB_TOKEN", "ghp_secret")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("SSH_AUTH_SOCK", "/run/agent")
            .env("LD_PRELOAD", "/nonexistent.so")
            .env("LD_LIBRARY_PATH", "/tmp")
            .env("BASH_ENV", "/tmp/x")
            .env("NODE_OPTIONS", "--require /tmp/x")
            .env("PYTHONPATH", "/tmp")
            .env("GIT_SSH_COMMAND", "x")
            .env("MY_OWN", "x")
            .go()
            .exits(0);
        let mut found = names(std::str::from_utf8(&outcome.stdout).unwrap());
        found.sort_unstable();
        assert_eq!(found, ["HOME", "LANG", "LAZARET", "LC_ALL", "PATH", "TERM", "TMPDIR"]);
    });
}

#[test]
fn variables_can_be_passed_and_set() {
    as_everybody(|case| {
        let run = |flags: &[&str]| {
            let args =
                flags.iter().copied().chain(["--", "sh", "-c", "echo \"$PASSED/$SET/$EMPTY/$EQUALS/$LANG\""]);
            case.running(args)
                .env("PASSED", "from outside")
                .env("LANG", "C")
                .env("SET", "outside")
                .go()
                .exits(0)
                .out()
        };
        assert_eq!(run(&[]), "////C");
        assert_eq!(run(&["--env", "PASSED"]), "from outside////C");
        assert_eq!(run(&["--env", "SET=inside", "--env", "EQUALS=a=b"]), "/inside//a=b/C");
        assert_eq!(run(&["--env", "LANG=tlh", "--env", "EMPTY="]), "////tlh");
        assert_eq!(run(&["--env", "NOT_THERE", "--env", "PASSED"]), "from outside////C");
    });
}

#[test]
fn a_variable_that_loads_code_passes_only_by_its_full_name() {
    as_everybody(|case| {
        let run = |flag: &str| {
            let args = ["--env", flag, "--", "sh", "-c", "echo \"[$NODE_OPTIONS]\""];
            case.running(args).env("NODE_OPTIONS", "x").go().exits(0).out()
        };
        assert_eq!(run("NODE_*"), "[]");
        assert_eq!(run("NODE_OPTIONS"), "[x]");
    });
}

#[test]
fn the_directory_for_temporary_files_exists_and_is_writable() {
    as_everybody(|case| {
        case.sh("test -d \"$TMPDIR\" && echo x > \"$TMPDIR/x\" && mktemp > /dev/null").exits(0);
        let outside = case.running(["--", "sh", "-c", "test -d \"$TMPDIR\" && mktemp >/dev/null"]);
        outside.env("TMPDIR", &case.root).go().exits(0);
    });
}

#[test]
fn a_home_that_is_not_set_is_no_reason_to_fail() {
    as_everybody(|case| {
        case.running(["--", "true"]).env("HOME", "").go().exits(0);
        case.running(["--", "true"]).env("HOME", "relative").go().exits(0);
        case.running(["--", "true"]).env("HOME", "/nonexistent/home").go().exits(0);
        case.running(["--", "true"]).under(["env", "-u", "HOME"]).go().exits(0);
    });
}

#[test]
fn without_a_place_for_the_log_nothing_runs() {
    as_everybody(|case| {
        case.running(["--", "touch", "ran"])
            .under(["env", "-u", "HOME", "-u", "XDG_STATE_HOME"])
            .go()
            .exits(125)
            .tells("no place for the audit log");
        assert!(!case.work.join("ran").exists());
    });
}

#[test]
fn descriptors_of_the_caller_are_closed() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let secret = case.file(case.root.join("secret"), "s");
        let opener = "import os,sys\n\
                      f=os.open(sys.argv[1],os.O_RDONLY)\n\
                      for n in range(3,1001):\n  os.dup2(f,n,True)\n\
                      os.execv(sys.argv[2],sys.argv[2:])";
        case.running(["--", "/usr/bin/python3", "-c", "import os\nprint(sorted(map(int,os.listdir('/proc/self/fd'))))\nfor n in range(3,1001):\n  try: os.fstat(n)\n  except OSError: continue\n  print('open',n)"])
            .under(["python3", "-c", opener, secret.to_str().unwrap()])
            .go()
            .exits(0)
            // The fourth is the directory being listed.
            .prints("[0, 1, 2, 3]");
    });
}
