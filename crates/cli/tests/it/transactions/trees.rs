//! Several writable paths, single files, closed paths inside a copy-on-write tree, and mounts below it.

use std::fs;

use super::{changes, cow, expected, list};
use crate::{
    case::{Case, Who, as_everybody, has_root, has_tool, ordinary},
    host::{let_time_pass, names, outside, prepared},
};

#[test]
fn a_single_file_is_copy_on_write_too() {
    as_everybody(|case| {
        prepared(
            case,
            "cd ..; mkdir side; echo one > side/file; echo beside > side/beside; chmod 640 side/file",
        );
        let file = case.root.join("side/file");
        let path = file.to_str().unwrap();
        let read = || fs::read_to_string(&file).unwrap();
        let script = format!("echo two >> {path}; cat {path}; ls ../side");
        cow(case, &["--rw", path], &script).exits(0).prints("one\ntwo\nfile");
        assert_eq!(read(), "one\n");
        assert_eq!(changes(case), expected(&[(path, "modified")]));
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(read(), "one\ntwo\n");
        assert_eq!(outside(case, "stat -c %a ../side/file; ls ../side"), "640\nbeside\nfile");
        // Unchanged, it is no change.
        cow(case, &["--rw", path], &format!("cat {path} > /dev/null")).exits(0);
        assert_eq!(list(case).len(), 0);
    });
}

#[test]
fn every_writable_path_is_a_layer_and_they_are_committed_together() {
    as_everybody(|case| {
        prepared(case, "cd ..; mkdir -p one two/sub; echo 1 > one/f; echo 2 > two/sub/f; echo s > single");
        let paths = ["one", "two", "single"].map(|name| case.root.join(name).to_str().unwrap().to_owned());
        let flags: Vec<&str> = paths.iter().flat_map(|path| ["--rw", path]).collect();
        let script =
            "echo in >> ../one/f; mv ../one/f ../two/g; rm -r ../two/sub; echo in >> ../single; echo w > w";
        cow(case, &flags, script).exits(0);
        assert_eq!(outside(case, "cat ../one/f ../two/sub/f ../single; ls"), "1\n2\ns");
        assert_eq!(changes(case).len(), 6, "{:?}", changes(case));
        case.lazaret(["commit"]).go().exits(0).tells("6 changes are committed");
        assert_eq!(
            outside(case, "cat ../two/g ../single w; ls ../one ../two"),
            "1\nin\ns\nin\nw\n../one:\n\n../two:\ng"
        );
        // A conflict in one of them holds back all.
        prepared(case, "echo 1 > ../one/f");
        cow(case, &flags, "echo in >> ../one/f; echo in >> w").exits(0);
        prepared(case, "echo out >> ../one/f");
        case.lazaret(["commit"]).go().exits(1).tells("/one/f: ");
        assert_eq!(outside(case, "cat w"), "w");
    });
}

#[test]
fn closed_paths_inside_the_tree_stay_closed_and_are_no_part_of_the_diff() {
    as_everybody(|case| {
        prepared(
            case,
            "mkdir -p ro/sub open denied.d; echo a > ro/a; echo s > .env; echo q > denied.d/q; echo x > open/x",
        );
        let script = "echo x > ro/a; echo x > ro/b; rm -f ro/a; mv ro gone; rm -rf ro; cat .env; echo x > .env; \
                      rm -f .env; mv .env e; ls denied.d; echo x > denied.d/n; mv denied.d g; echo y > later; \
                      mv open moved; echo done > ok";
        let flags = [
            "--cow",
            "--ro",
            "ro",
            "--deny",
            ".env",
            "--deny",
            "denied.d",
            "--deny",
            "later",
            "--on-escape",
            "deny",
        ];
        let outcome = case.run(flags.into_iter().chain(["--", "sh", "-c", script])).exits(0);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        let all = changes(case);
        assert_eq!(
            all,
            expected(&[
                ("moved", "created"),
                ("moved/x", "created"),
                ("ok", "created"),
                ("open", "deleted"),
                ("open/x", "deleted")
            ])
        );
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(outside(case, "cat ro/a .env denied.d/q"), "a\ns\nq");
        let left = [".env", "denied.d", "denied.d/q", "moved", "moved/x", "ok", "ro", "ro/a", "ro/sub"];
        assert_eq!(names(&case.work), left);
    });
}

#[test]
fn a_writable_path_below_a_read_only_one_is_copy_on_write() {
    as_everybody(|case| {
        prepared(case, "mkdir -p tree/in/deep; echo 1 > tree/in/f; echo 2 > tree/g");
        let text = "[filesystem]\nreadOnlyPaths = [\"/usr\", \"/bin\", \"/lib\", \"/lib64\", \"/etc\", \".\"]\n\
                    readWritePaths = [\"./tree/in\"]\n[environment]\nallow = [\"PATH\"]\n";
        let policy = case.root.join("policy.toml");
        case.file(&policy, text);
        let script = "echo in >> tree/in/f; echo in >> tree/g; echo n > tree/in/deep/n; echo n > tree/n";
        let run = ["--cow", "--policy", policy.to_str().unwrap(), "--", "sh", "-c", script];
        let outcome = case.run(run);
        assert!(outcome.stderr.contains("Read-only file system"), "{outcome:?}");
        assert_eq!(changes(case), expected(&[("tree/in/deep/n", "created"), ("tree/in/f", "modified")]));
        case.lazaret(["commit"]).go().exits(0);
        assert_eq!(outside(case, "cat tree/in/f tree/g tree/in/deep/n"), "1\nin\n2\nn");
    });
}

/// Runs `script` with `$L` and a tmpfs at `project/mounted` in a mount namespace that ends with it.
fn below_a_mount(case: &Case, script: &str) -> String {
    fs::create_dir_all(case.work.join("mounted")).unwrap();
    case.own(&case.work.join("mounted"));
    let (uid, program) = (case.who.uid(), crate::case::program());
    let user = if case.who == Who::Other {
        format!("setpriv --reuid {uid} --regid {uid} --clear-groups")
    } else {
        String::new()
    };
    let script = format!(
        "mount -t tmpfs -o mode=0777 none mounted; cd . ; echo host > mounted/host; chown {uid}:{uid} mounted/host; sleep 0.05; \
         export L={}; {user} sh -c '{script}' 2>&1 || echo code $?",
        program.display()
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-ec", &script]).current_dir(&case.work).env_clear();
    command.env("PATH", crate::case::PATH).env("HOME", &case.home).env("XDG_STATE_HOME", &case.state);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn changes_below_a_mount_are_committed_to_it() {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    as_everybody(|case| {
        prepared(case, "echo top > top; mkdir other; echo o > other/o; ln -s top link");
        let seen = below_a_mount(
            case,
            "$L run --cow -- sh -c \"cat link; echo in >> mounted/host; echo n > mounted/n; echo in >> top; mkdir mounted/d; rm other/o\"; \
             echo ---; cat mounted/host; $L diff --stat | tail -1; $L commit; cat mounted/host mounted/n; ls mounted",
        );
        let (before, after) = seen.split_once("---\n").unwrap();
        assert!(before.starts_with("top\n") && before.contains("5 changes are kept"), "{seen}");
        let expected = "host\n5 changes, 3 lines added, 1 removed\nlazaret: 5 changes are committed\nhost\nin\nn\nd\nhost\nn";
        assert_eq!(after, expected, "{seen}");
        assert_eq!(
            outside(case, "cat top; ls mounted other"),
            "top\nin\nmounted:\n\nother:",
            "nothing went underneath"
        );
    });
}

#[test]
fn a_tree_that_is_a_mount_itself_is_layered() {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    as_everybody(|case| {
        let seen = below_a_mount(
            case,
            "cd mounted; $L run --cow --on-success commit -- sh -c \"echo in >> host; echo n > n\"; cat host n",
        );
        assert!(seen.ends_with("2 changes are committed\nhost\nin\nn"), "{seen}");
    });
}

#[test]
fn a_file_of_the_user_with_another_group_cannot_be_changed_and_stays_as_it_is() {
    if !has_root() {
        return;
    }
    let case = ordinary();
    prepared(&case, "echo one > file; chmod 660 file");
    std::os::unix::fs::chown(case.work.join("file"), None, Some(54_322)).unwrap();
    let_time_pass();
    case.sh("echo through >> file").exits(0);
    let_time_pass();
    // The group does not exist inside, so that the copy could not have it: see docs/transactions.md.
    let outcome = cow(&case, &[], "echo two >> file || echo refused; echo new > other").exits(0);
    assert_eq!(outcome.out(), "refused", "{outcome:?}");
    assert_eq!(changes(&case), expected(&[("other", "created")]));
    assert_eq!(outside(&case, "cat file"), "one\nthrough");
}

#[test]
fn a_hundred_thousand_files_cost_nothing_that_are_not_touched() {
    as_everybody(|case| {
        prepared(
            case,
            "mkdir t; cd t; for d in $(seq 100); do mkdir $d; (cd $d; seq 1000 | xargs touch); done",
        );
        let script = "echo x > t/1/1; rm t/50/500; echo n > t/100/new";
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            took[0].push(case.run(["--", "sh", "-c", "true"]).exits(0).took);
            took[1].push(cow(case, &[], script).exits(0).took);
            let three = [("t/1/1", "modified"), ("t/50/500", "deleted"), ("t/100/new", "created")];
            assert_eq!(changes(case), expected(&three));
            if took[1].len() < 3 {
                case.lazaret(["discard"]).go().exits(0);
            }
        }
        let [without, with] = took.map(|times| *times.iter().min().unwrap());
        eprintln!("100,000 files: {without:?} without, {with:?} with copy-on-write and three changes");
        assert!(with < without + std::time::Duration::from_secs(2), "{without:?} without, {with:?} with");
        let commit = case.lazaret(["commit"]).go().exits(0).tells("3 changes are committed");
        eprintln!("commit of three changes: {:?}", commit.took);
        assert_eq!(outside(case, "cat t/1/1 t/100/new; find t -type f | wc -l"), "x\nn\n100000");
    });
}
