//! Copy-on-write runs: what they wrote is shown, committed or discarded, and until then the host's files are
//! as they were.

mod changes;
mod conflicts;
mod persistence;
mod trees;
mod workloads;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    case::{Case, OTHER, Who, as_everybody, has_root, is_root},
    host::{let_time_pass, names, outside, prepared, tree},
    outcome::Outcome,
};

/// A script in a copy-on-write sandbox.
pub fn cow(case: &Case, flags: &[&str], script: &str) -> Outcome {
    let flags = ["--cow"].into_iter().chain(flags.iter().copied());
    case.run(flags.chain(["--", "sh", "-ec", script]))
}

/// A script in a copy-on-write sandbox, committed when it succeeds.
pub fn committed(case: &Case, script: &str) -> Outcome {
    cow(case, &["--on-success", "commit"], script).exits(0)
}

/// All open transactions.
pub fn list(case: &Case) -> Vec<Value> {
    let listed = case.lazaret(["diff", "--list", "--json"]).go().exits(0).json();
    listed.as_array().unwrap().clone()
}

/// What the newest transaction of the working directory would do: names below it, and `what` or the section
/// that it stands apart in.
pub fn changes(case: &Case) -> BTreeMap<String, String> {
    let summary = case.lazaret(["diff", "--json"]).go().exits(0).json();
    let below = |path: &Value| {
        let path = path.as_str().unwrap_or_else(|| path["text"].as_str().unwrap());
        Path::new(path).strip_prefix(&case.work).unwrap_or(Path::new(path)).to_string_lossy().into_owned()
    };
    let entries = summary["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| {
            let word = if entry["section"] == "plain" { &entry["what"] } else { &entry["section"] };
            (below(&entry["path"]), word.as_str().unwrap().to_owned())
        })
        .collect()
}

/// Pairs as a map, to compare with [`changes`].
pub fn expected(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
}

#[test]
fn what_a_command_writes_is_not_on_the_host_until_it_is_committed() {
    as_everybody(|case| {
        prepared(case, "echo one > a; echo two > b; mkdir d; echo x > d/x; ln -s a link");
        let inode = |name: &str| fs::symlink_metadata(case.work.join(name)).unwrap();
        let stamps = || ["a", "b", "d", "d/x", "link"].map(|n| (inode(n).ino(), inode(n).ctime_nsec()));
        let (before, stamped) = (tree(&case.work), stamps());
        let script = "echo more >> a; rm b; rm -r d; ln -sfn b link; echo new > n; cat a n; ls";
        let seen = cow(case, &[], script).exits(0).tells("kept as transaction").out();
        assert_eq!(seen, "one\nmore\nnew\na\nlink\nn");
        assert_eq!((tree(&case.work), stamps()), (before, stamped), "the host has been touched");
        let all = [
            ("a", "modified"),
            ("b", "deleted"),
            ("d", "deleted"),
            ("d/x", "deleted"),
            ("link", "modified"),
            ("n", "created"),
        ];
        assert_eq!(changes(case), expected(&all));
        case.lazaret(["commit"]).go().exits(0).tells("6 changes are committed").prints("");
        assert_eq!(outside(case, "cat a n; readlink link; ls"), "one\nmore\nnew\nb\na\nlink\nn");
        assert_eq!(list(case), Vec::<Value>::new());
    });
}

#[test]
fn the_diff_is_told_in_full_in_short_and_as_json() {
    as_everybody(|case| {
        prepared(case, "printf 'one\\ntwo\\nthree\\n' > text; echo gone > old; printf 'a\\0b' > binary");
        let script = "printf 'one\\n2\\nthree\\n' > text; rm old; echo hi > new; printf 'a\\0c' > binary; chmod 700 new";
        cow(case, &[], script).exits(0);
        let diff = case.lazaret(["diff"]).go().exits(0).tells_nothing().out();
        for part in [
            "diff --git a/text b/text\n--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
            "diff --git a/old b/old\ndeleted file mode 0644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone",
            "diff --git a/new b/new\nnew file mode 0700\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hi",
            "Binary file b/binary changed (3 bytes → 3 bytes)",
        ] {
            assert!(diff.contains(part), "{part}\n--- is not in ---\n{diff}");
        }
        let short = case.lazaret(["diff", "--stat"]).go().exits(0).out();
        let place = case.work.display();
        for line in [
            format!("M {place}/text | +1 -1"),
            format!("D {place}/old | +0 -1"),
            format!("A {place}/new | +1 -0"),
            format!("M {place}/binary | 3 bytes"),
            "4 changes, 2 lines added, 2 removed".to_owned(),
        ] {
            assert!(short.lines().any(|has| has.trim() == line), "{line} is not in\n{short}");
        }
        let json = case.lazaret(["diff", "--json"]).go().exits(0).json();
        assert_eq!(json["entries"].as_array().unwrap().len(), 4);
        assert_eq!(json["conflicts"], serde_json::json!([]));
        assert_eq!(json["id"], list(case)[0]["id"]);
        let lines = case.lazaret(["diff", "--list"]).go().exits(0).out();
        assert!(lines.contains(json["id"].as_str().unwrap()) && lines.contains("4 changes"), "{lines}");
        // The unified text is one that `patch` understands.
        let patch = case.root.join("patch");
        fs::write(&patch, case.lazaret(["diff", "text"]).go().stdout).unwrap();
        case.lazaret(["diff", "text"]).go().exits(125).tells("no transaction is called text");
    });
}

#[test]
fn a_transaction_is_found_by_its_id_a_prefix_its_sandbox_or_its_directory() {
    as_everybody(|case| {
        let other = case.root.join("other");
        case.directory(&other);
        let make = |directory: &Path, name: &str| {
            let command = ["--cow", "--", "touch", name];
            case.running(command).directory(directory).go().exits(0);
        };
        make(&case.work, "first");
        make(&case.work, "second");
        make(&other, "elsewhere");
        let all = list(case);
        assert_eq!(all.len(), 3);
        let find = |name: &str| all.iter().find(|it| it["command"][1] == name).unwrap();
        let stat = |id: &str| case.lazaret(["diff", "--stat", id]).go();
        for name in ["first", "second", "elsewhere"] {
            let (id, sandbox) =
                (find(name)["id"].as_str().unwrap(), find(name)["sandboxId"].as_str().unwrap());
            // Ids begin with the time; the last prefix is the shortest that is still one of them.
            for handle in [id, &id[..35], &id[..26], sandbox, &sandbox[..38]] {
                let outcome = stat(handle).exits(0);
                assert!(outcome.out().contains(&format!("/{name} |")), "{handle}: {outcome:?}");
            }
        }
        stat(&find("first")["id"].as_str().unwrap()[..4]).exits(125).tells("give more of the name");
        stat("sb-0000").exits(125).tells("has left no transaction");
        stat("0000").exits(125).tells("no transaction is called 0000");
        stat("../..").exits(125);
        // Without a name it is the newest of the directory one is in.
        let newest = case.lazaret(["diff", "--stat"]).go().exits(0).out();
        assert!(newest.contains("/second |") && !newest.contains("first"), "{newest}");
        case.lazaret(["commit"]).directory(&other).go().exits(0);
        assert_eq!((names(&other), names(&case.work)), (vec!["elsewhere".to_owned()], vec![]));
        case.lazaret(["commit"]).directory(&other).go().exits(125).tells("there is no transaction of");
        case.lazaret(["discard"]).go().exits(0).tells("is forgotten");
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(names(&case.work), ["first"]);
        for command in ["diff", "commit", "discard"] {
            case.lazaret([command]).go().exits(125).tells("lazaret run --cow");
        }
    });
}

#[test]
fn the_end_of_the_command_decides_as_it_was_asked() {
    as_everybody(|case| {
        for (flags, script, on_host, kept) in [
            (&["--on-success", "commit"][..], "echo x > f", true, 0),
            (&["--on-success", "keep"], "echo x > f", false, 1),
            (&["--on-success", "discard"], "echo x > f", false, 0),
            (&[], "echo x > f", false, 1),
            (&["--on-success", "commit"], "echo x > f; exit 3", false, 1),
            (&["--on-success", "keep"], "echo x > f; exit 3", false, 1),
            (&["--on-success", "discard"], "echo x > f; exit 3", false, 0),
            (&["--on-success", "commit"], "echo x > f; kill -9 $$", false, 1),
            (&["--on-success", "commit", "--timeout", "300ms"], "echo x > f; sleep 20", false, 1),
            (&["--on-success", "commit"], "exit 0", false, 0),
        ] {
            let outcome = cow(case, flags, script);
            let open = list(case);
            let there = case.work.join("f").exists();
            assert_eq!((there, open.len()), (on_host, kept), "{flags:?} {script}: {outcome:?}");
            if kept > 0 {
                case.lazaret(["discard"]).go().exits(0);
            }
            let _ = fs::remove_file(case.work.join("f"));
            let_time_pass();
        }
        case.run(["--on-success", "commit", "--", "true"]).exits(125).tells("--cow");
    });
}

#[test]
fn what_an_escape_attempt_wrote_is_thrown_away() {
    as_everybody(|case| {
        let script = "echo x > f; mount -t tmpfs none /tmp";
        for what in ["commit", "keep"] {
            cow(case, &["--on-success", what], script).exits(137).tells("thrown away (escape attempt)");
        }
        assert_eq!((names(&case.work), list(case)), (vec![], vec![]));
        let events = case.events_of("TRANSACTION_DISCARDED");
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|event| event["details"]["reason"] == "escape attempt"), "{events:?}");
    });
}

#[test]
fn the_report_and_the_log_tell_what_became_of_it() {
    as_everybody(|case| {
        let file = case.root.join("report.json");
        let report = |flags: &[&str], script: &str| -> Value {
            let flags: Vec<&str> =
                flags.iter().copied().chain(["--report", file.to_str().unwrap()]).collect();
            cow(case, &flags, script).exits(0);
            serde_json::from_slice(&fs::read(&file).unwrap()).unwrap()
        };
        let kept = report(&[], "echo x > a; echo y > b");
        assert_eq!(kept["transaction"]["state"], "kept");
        assert_eq!(kept["transaction"]["changes"], 2);
        let id = kept["transaction"]["id"].as_str().unwrap().to_owned();
        assert_eq!(list(case)[0]["id"], id.as_str());
        assert_eq!(list(case)[0]["sandboxId"], kept["sandboxId"]);
        assert_eq!(case.events_of("TRANSACTION_COMMITTED"), Vec::<Value>::new());
        case.lazaret(["commit", &id, "--json"]).go().exits(0);
        let event = case.events_of("TRANSACTION_COMMITTED").pop().unwrap();
        assert_eq!(event["details"]["transaction"], id.as_str());
        assert_eq!(event["details"]["applied"], 2);
        assert_eq!(event["sandboxId"], kept["sandboxId"]);

        let now = report(&["--on-success", "commit"], "echo x > c");
        assert_eq!(now["transaction"]["state"], "committed");
        assert_eq!(now["transaction"]["changes"], 1);
        assert_eq!(case.events_of("TRANSACTION_COMMITTED").len(), 2);
        let thrown = report(&["--on-success", "discard"], "echo x > d");
        assert_eq!(thrown["transaction"]["state"], "discarded");
        let empty = report(&[], "true");
        assert_eq!(
            (&empty["transaction"]["state"], &empty["transaction"]["changes"]),
            (&"empty".into(), &0.into())
        );
        report(&[], "echo x > e");
        case.lazaret(["discard"]).go().exits(0);
        let discarded = case.events_of("TRANSACTION_DISCARDED");
        assert_eq!(discarded.len(), 2, "{discarded:?}");
        assert_eq!(names(&case.work), ["a", "b", "c"]);
        case.sh("true").exits(0);
        let plain = report_without_cow(case, &file);
        assert_eq!(plain.get("transaction"), None, "a run without --cow has no transaction");
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

fn report_without_cow(case: &Case, file: &Path) -> Value {
    case.run(["--report", file.to_str().unwrap(), "--", "true"]).exits(0);
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_file_changed_just_before_the_run_is_no_conflict() {
    as_everybody(|case| {
        // A script that writes and then runs: nothing happens on the host after the start.
        for round in 0..40 {
            let file = case.file("f", format!("round {round}\n"));
            fs::metadata(&file).unwrap();
            case.file("f", format!("Round {round}\n"));
            committed(case, "echo inside >> f").tells("1 change is committed");
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("Round {round}\ninside\n"));
        }
    });
}

#[test]
fn two_transactions_of_one_directory_are_apart() {
    as_everybody(|case| {
        prepared(case, "echo base > shared");
        cow(case, &[], "echo one > one; echo 1 >> shared").exits(0);
        // The second begins from the host, not from the first.
        cow(case, &[], "cat shared; ls; echo two > two; echo 2 >> shared").exits(0).prints("base\nshared");
        let ids: Vec<String> = list(case).iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
        let [second, first] = ids.as_slice() else { panic!("{ids:?}") };
        case.lazaret(["commit", first]).go().exits(0);
        assert_eq!(outside(case, "cat shared one"), "base\n1\none");
        let outcome = case.lazaret(["commit", second]).go().exits(1).tells("shared: ");
        assert!(!outcome.stderr.contains("/two"), "{outcome:?}");
        assert_eq!(names(&case.work), ["one", "shared"]);
        case.lazaret(["commit", second, "--leave-conflicts"]).go().exits(0);
        assert_eq!(outside(case, "cat shared two"), "base\n1\ntwo");
        assert_eq!(changes(case), expected(&[("shared", "conflict")]));
    });
}

#[test]
fn our_own_files_inside_the_tree_are_hidden_and_no_part_of_it() {
    as_everybody(|case| {
        prepared(case, "mkdir logs state; echo a > a");
        let state = case.work.join("state");
        let flags = ["--cow", "--audit", "logs/audit.jsonl", "--report", "report.json"];
        let script = "echo b >> a; cat logs/audit.jsonl report.json state/lazaret/audit.jsonl; \
                      rm -rf logs report.json state/lazaret; mkdir -p state/lazaret/transactions; echo z > report.json; echo done";
        let run = case.running(flags.into_iter().chain(["--", "sh", "-c", script]));
        let outcome = run.env("XDG_STATE_HOME", &state).go();
        assert_eq!(outcome.out(), "done", "{outcome:?}");
        let report: Value =
            serde_json::from_slice(&fs::read(case.work.join("report.json")).unwrap()).unwrap();
        assert_eq!(report["transaction"]["state"], "kept", "{report}");
        let diff = case.lazaret(["diff", "--stat"]).env("XDG_STATE_HOME", &state).go().exits(0).out();
        assert!(diff.contains("/a | +1 -0"), "{diff}");
        for own in ["audit.jsonl", "report.json", "state/lazaret"] {
            assert!(!diff.contains(own), "{own} is in\n{diff}");
        }
        case.lazaret(["commit"]).env("XDG_STATE_HOME", &state).go().exits(0);
        assert_eq!(outside(case, "cat a"), "a\nb");
        let log = case.work.join("logs/audit.jsonl");
        case.lazaret(["audit".as_ref(), "verify".as_ref(), log.as_os_str()]).go().exits(0);
        assert!(state.join("lazaret").is_dir());
    });
}

#[test]
fn files_of_a_commit_belong_to_the_owner_of_the_directory() {
    if !has_root() {
        return;
    }
    let case = Case::new(Who::Caller);
    prepared(&case, "mkdir d; echo mine > d/mine");
    for name in ["", "d", "d/mine"] {
        chown(case.work.join(name), Some(OTHER), Some(OTHER)).unwrap();
    }
    let_time_pass();
    let script = "echo x > new; mkdir -p e/f; echo y > e/f/g; ln -s new l; mkfifo p; echo more >> d/mine; \
                  ln new hard";
    committed(&case, script);
    let owner = |path: &Path| {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    };
    let all: Vec<PathBuf> = tree(&case.work).into_keys().collect();
    assert_eq!(all.len(), 9, "{all:?}");
    for path in all {
        assert_eq!(owner(&case.work.join(&path)), (OTHER, OTHER), "{}", path.display());
    }
}

#[test]
fn only_the_owner_sees_a_kept_transaction() {
    as_everybody(|case| {
        cow(case, &[], "echo secret > f").exits(0);
        let store = case.state.join("lazaret/transactions");
        assert_eq!(fs::metadata(&store).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&store).unwrap().uid(), case.who.uid());
        // Nor does a later sandbox, which has the same user.
        let script = format!("ls {0}; cat {0}/*/files/*", store.display());
        let outcome = case.sh(&script);
        assert!(outcome.code() != 0 && outcome.out().is_empty(), "{outcome:?}");
        if is_root() && case.who == Who::Other {
            // Another user's store is not used by root by mistake.
            let root = Case::new(Who::Caller);
            root.lazaret(["diff", "--list"])
                .env("XDG_STATE_HOME", &case.state)
                .go()
                .exits(125)
                .tells("another user");
        }
    });
}

#[test]
fn what_a_sandbox_wrote_plays_no_tricks_on_the_terminal() {
    as_everybody(|case| {
        let script = "printf 'a\\033[2Jb\\n' > text; printf x > \"$(printf 'n\\033[31mame')\"; printf '\\342\\200\\256x\\n' > bidi";
        cow(case, &[], script).exits(0);
        for flags in [&["diff"][..], &["diff", "--stat"], &["diff", "--list"], &["commit"]] {
            let outcome = case.lazaret(flags).go().exits(0);
            let both = [outcome.stdout.as_slice(), outcome.stderr.as_bytes()].concat();
            assert!(!both.contains(&0x1b), "{flags:?}: {outcome:?}");
            assert!(!both.windows(3).any(|w| w == [0xe2, 0x80, 0xae]), "{flags:?}: {outcome:?}");
        }
    });
}
