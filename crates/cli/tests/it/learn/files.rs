//! Where the policy goes, what is said besides, and how policies are merged.

use std::{fs, os::unix::fs::symlink};

use super::{again, learn, learn_with, learned, policy_file, text, texts};
use crate::case::{as_everybody, ordinary};

#[test]
fn a_file_that_is_there_is_not_replaced_unless_asked() {
    as_everybody(|case| {
        let file = case.file("lazaret-learned.toml", "mine");
        case.lazaret(["learn", "--", "true"]).go().exits(125).tells("--force");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        case.assert_nothing_started();
        case.lazaret(["learn", "--force", "--", "true"]).go().exits(0);
        assert!(fs::read_to_string(&file).unwrap().contains("isolationLevel"));
        fs::remove_file(&file).unwrap();
        case.lazaret(["learn", "--", "true"])
            .go()
            .exits(0)
            .tells("lazaret run --policy lazaret-learned.toml");
        assert!(file.exists());
    });
}

#[test]
fn a_command_cannot_lead_the_policy_astray() {
    as_everybody(|case| {
        let victim = case.file(case.home.join("victim"), "mine");
        // A link where the policy will be.
        let script = format!("ln -s {} lazaret-learned.toml", victim.display());
        let outcome = case.lazaret(["learn", "--", "sh", "-c", &script]).go();
        assert_eq!(outcome.code(), 125, "{outcome:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let names: Vec<_> =
            fs::read_dir(&case.work).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["lazaret-learned.toml"], "nothing half-made is left");
        // One that was there is replaced itself, not what it leads to.
        symlink(&victim, case.work.join("link")).unwrap();
        case.lazaret(["learn", "--force", "-o", "link", "--", "true"]).go().exits(0);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(fs::read_to_string(case.work.join("link")).unwrap().contains("isolationLevel"));
    });
}

#[test]
fn the_policy_can_go_to_standard_output_after_the_commands_own() {
    as_everybody(|case| {
        let outcome = case.lazaret(["learn", "-o", "-", "--", "echo", "own"]).go().exits(0);
        let text = outcome.out();
        assert!(text.starts_with("own\n#") && text.contains("isolationLevel"), "{outcome:?}");
        assert_eq!(fs::read_dir(&case.work).unwrap().count(), 0);
    });
}

#[test]
fn json_tells_what_was_learnt() {
    as_everybody(|case| {
        let outcome = learn_with(case, &["--json"], &["sh", "-c", "cat ~/.ssh/x; exit 0"]).exits(0);
        let told = outcome.json();
        assert_eq!(told["exitCode"], 0);
        assert_eq!(told["policy"]["isolationLevel"], "LEVEL_2");
        assert_eq!(told["refused"][0]["kind"], "protected");
        assert_eq!(
            serde_json::from_value::<lazaret_policy::Policy>(told["policy"].clone()).unwrap(),
            learned(case)
        );
    });
}

#[test]
fn the_log_tells_that_it_was_learnt_from() {
    as_everybody(|case| {
        learn(case, &["true"]).exits(0);
        let created = case.events_of("SANDBOX_CREATED");
        assert_eq!(created.len(), 1);
        assert_eq!(created[0]["details"]["learning"], true);
        assert_eq!(case.events_of("SANDBOX_DESTROYED").len(), 1);
        let id = created[0]["sandboxId"].as_str().unwrap();
        assert!(text(case).contains(id));
        again(case, &["true"]).exits(0);
        assert!(case.events_of("SANDBOX_CREATED")[1]["details"]["learning"].is_null());
    });
}

#[test]
fn the_same_run_gives_the_same_policy() {
    as_everybody(|case| {
        case.file("a", "x");
        let command = ["sh", "-c", "cat a | sort > b; ls | wc -l; rm b"];
        learn(case, &command).exits(0);
        let first = learned(case);
        learn(case, &command).exits(0);
        let second = learned(case);
        assert_eq!(first, second);
        let lists = |policy: &lazaret_policy::Policy| {
            let sorted = |paths: &[std::path::PathBuf]| paths.is_sorted();
            sorted(&policy.filesystem.read_only_paths) && policy.syscalls.syscalls.is_sorted()
        };
        assert!(lists(&first), "{}", text(case));
    });
}

#[test]
fn a_second_run_widens_what_the_first_one_taught() {
    as_everybody(|case| {
        case.file("a", "one");
        case.file("b", "two");
        let file = policy_file(case);
        learn(case, &["sh", "-c", "cat a; true"]).exits(0);
        assert_ne!(again(case, &["sh", "-c", "sort b; true; cat b"]).code(), 0);
        learn_with(case, &["--merge", file.to_str().unwrap()], &["sh", "-c", "sort b; true"]).exits(0);
        let policy = learned(case);
        let readable = texts(&policy.filesystem.read_only_paths);
        assert!(readable.contains(&"./a") && readable.contains(&"./b"), "{}", text(case));
        again(case, &["sh", "-c", "cat a; sort b; true"]).exits(0).prints("onetwo");
        // A policy that starts nothing does not say which program it is for.
        learn(case, &["cat", "a"]).exits(0);
        learn_with(case, &["--merge", file.to_str().unwrap()], &["sh", "-c", "cat b; true"]).exits(0);
        again(case, &["cat", "a"]).exits(0);
        again(case, &["sh", "-c", "cat b; true"]).exits(0);
    });
}

#[test]
fn what_cannot_be_merged_is_refused_before_anything_runs() {
    let case = ordinary();
    for (content, why) in [
        ("isolationLevel = \"LEVEL_1\"\n", "level 2"),
        ("isolationLevel = \"LEVEL_2\"\n", "WHITELIST"),
        ("maxViolations = 3\n[syscalls]\nmode = \"WHITELIST\"\n", "maxViolations"),
    ] {
        let file = case.file("old.toml", content);
        learn_with(&case, &["--merge", file.to_str().unwrap()], &["true"]).exits(125).tells(why);
    }
    learn_with(&case, &["--merge", "no-such-file.toml"], &["true"]).exits(125).tells("no-such-file");
    case.assert_nothing_started();
}

#[test]
fn a_walk_through_links_is_learnt_with_the_links() {
    as_everybody(|case| {
        let real = case.file(case.root.join("elsewhere/deep/file"), "found");
        for (target, link) in [("../elsewhere", "out"), ("out/deep/file", "alias")] {
            symlink(target, case.work.join(link)).unwrap();
        }
        for name in ["alias", "out/deep/file", "out/../elsewhere/deep/../deep/file"] {
            learn(case, &["cat", name]).exits(0).prints("found");
            let policy = learned(case);
            assert!(policy.filesystem.read_only_paths.contains(&real), "{name}: {}", text(case));
            again(case, &["cat", name]).exits(0).prints("found");
        }
    });
}
