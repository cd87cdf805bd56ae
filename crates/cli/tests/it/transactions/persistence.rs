//! What acts on the next run stands apart and is applied only when that is asked for.

use super::{changes, cow, list};
use crate::{
    case::as_everybody,
    host::{names, outside, prepared},
};

const ACTING: &[&str] = &[
    ".git/hooks/pre-commit",
    ".git/config",
    ".github/workflows/ci.yml",
    ".envrc",
    "Makefile",
    "sub/makefile",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    "CLAUDE.md",
    "AGENTS.md",
    ".claude/settings.json",
    ".gitlab-ci.yml",
    ".bashrc",
    "package.json",
    "conftest.py",
    "build.rs",
];

#[test]
fn what_acts_on_the_next_run_stands_apart_and_waits_to_be_asked_for() {
    as_everybody(|case| {
        let mut script = "echo plain > plain.txt; mkdir -p src; echo code > src/main.c\n".to_owned();
        for name in ACTING {
            script += &format!("mkdir -p \"$(dirname {name})\"; echo act > {name}\n");
        }
        cow(case, &[], &script).exits(0);
        let found = changes(case);
        for name in ACTING {
            assert_eq!(found[*name], "persistent", "{name}");
        }
        assert_eq!((found["plain.txt"].as_str(), found["src/main.c"].as_str()), ("created", "created"));
        let shown = case.lazaret(["diff"]).go().exits(0).out();
        let heading = shown.find("acts on the next run:").expect("a heading");
        assert!(shown.find("plain.txt").unwrap() < heading && shown.find("pre-commit").unwrap() > heading);

        let told = format!("{} left out because they act on the next run", ACTING.len());
        case.lazaret(["commit"]).go().exits(0).tells(&told).tells("--include-persistence");
        let there = outside(case, "find . -type f | sort");
        assert_eq!(there, "./plain.txt\n./src/main.c");
        assert_eq!(list(case).len(), 1, "the rest waits");
        assert_eq!(changes(case).len(), ACTING.len());
        case.lazaret(["commit"]).go().exits(0).tells("0 changes are committed");
        case.lazaret(["commit", "--include-persistence"]).go().exits(0);
        for name in ACTING {
            assert!(case.work.join(name).is_file(), "{name}");
        }
        assert_eq!(list(case).len(), 0);
    });
}

#[test]
fn it_is_left_out_by_a_commit_on_success_as_well() {
    as_everybody(|case| {
        let setup = "mkdir -p .git/hooks; echo good > .git/hooks/pre-push; echo all: > Makefile; echo x > x";
        prepared(case, setup);
        let script = "echo bad > .git/hooks/pre-push; rm Makefile; echo y > x; ln -s ../x .git/hooks/post-commit; \
             mv .git/hooks .git/h; mkdir .git/hooks; echo bad > .git/hooks/pre-commit";
        cow(case, &["--on-success", "commit"], script).exits(0).tells("left out");
        assert_eq!(outside(case, "cat .git/hooks/pre-push x; ls .git/hooks"), "good\ny\npre-push");
        assert_eq!(outside(case, "cat Makefile"), "all:");
        case.lazaret(["discard"]).go().exits(0);
        assert!(!names(&case.work).contains(&".git/hooks/pre-commit".to_owned()));
    });
}

#[test]
fn a_link_in_place_of_a_directory_that_acts_is_left_out() {
    as_everybody(|case| {
        prepared(case, "mkdir -p tools .github");
        let script = "mkdir -p .git; echo bad > tools/pre-commit; \
                      ln -s ../tools .git/hooks; ln -s ../tools .github/workflows";
        cow(case, &["--on-success", "commit"], script).exits(0);
        assert!(!case.work.join(".git/hooks").exists() && !case.work.join(".github/workflows").exists());
        assert_eq!(changes(case).len(), 2);
    });
}

#[test]
fn capital_letters_do_not_get_around_it() {
    as_everybody(|case| {
        let script =
            "mkdir -p .GIT/Hooks; echo bad > .GIT/Hooks/Pre-Commit; echo all: > MAKEFILE; echo x > Claude.MD";
        cow(case, &["--on-success", "commit"], script).exits(0);
        assert_eq!(outside(case, "find . -type f"), "");
        assert_eq!(changes(case).len(), 3);
    });
}
