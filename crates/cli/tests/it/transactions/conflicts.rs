//! The host's files change meanwhile: nothing of anybody is overwritten unseen.

use std::{fs, process::Stdio};

use super::{changes, committed, cow, list};
use crate::{
    case::{Case, Running, as_everybody, eventually},
    host::{let_time_pass, names, outside, prepared, tree},
};

const SETUP: &str =
    "echo a > a; echo b > b; echo c > c; mkdir -p d/e; echo x > d/e/x; echo t > t; echo m > m";
const INSIDE: &str = "echo in >> a; rm b; echo in > new; rm -r d; rm t; mkdir t; chmod 700 m; echo in >> c";

/// What the host does, which path is named, and what is told of it.
const MEANWHILE: &[(&str, &str, &str)] = &[
    ("echo out >> a", "/a", "changed on the host since"),
    ("echo a > a2; mv a2 a", "/a", "replaced on the host since"),
    ("rm a", "/a", "deleted on the host since"),
    ("chmod 600 a", "/a", "changed on the host since"),
    ("echo out >> b", "/b", "changed on the host since"),
    ("rm b", "/b", "deleted on the host since"),
    ("echo out > new", "/new", "appeared on the host since"),
    ("mkdir new", "/new", "appeared on the host since"),
    ("ln -s /etc/passwd new", "/new", "appeared on the host since"),
    ("echo out > d/e/y", "/d/e", "that the sandbox never saw"),
    ("echo out >> d/e/x", "/d/e/x", "changed on the host since"),
    ("rm t; mkdir t", "/t", "replaced on the host since"),
    ("chmod 755 m", "/m", "changed on the host since"),
];

#[test]
fn a_conflict_names_the_path_and_applies_nothing() {
    as_everybody(|outer| {
        for (meanwhile, path, told) in MEANWHILE {
            let case = Case::new(outer.who);
            prepared(&case, SETUP);
            cow(&case, &[], INSIDE).exits(0);
            prepared(&case, meanwhile);
            let before = tree(&case.work);
            let outcome = case.lazaret(["commit"]).go().exits(1).tells("nothing was committed");
            let line = format!("{}{path}: ", case.work.display());
            let named = outcome.stderr.lines().find(|has| has.contains(&line));
            assert!(named.is_some_and(|has| has.contains(told)), "{meanwhile}: {path} {told}: {outcome:?}");
            assert_eq!(tree(&case.work), before, "{meanwhile}: something was applied");
            let shown = case.lazaret(["diff"]).go().exits(0).out();
            assert!(shown.contains("changed on the host meanwhile:"), "{meanwhile}: {shown}");
            let json = case.lazaret(["commit", "--json"]).go().exits(1).json();
            assert!(json["ok"] == false && json["conflicts"][0]["path"].is_string(), "{json}");
            assert_eq!(list(&case).len(), 1);

            // The rest can be applied, and the host's own stays.
            case.lazaret(["commit", "--leave-conflicts"]).go().exits(0).tells("skipped");
            assert_eq!(outside(&case, "cat c"), "c\nin", "{meanwhile}");
            let after = tree(&case.work);
            let contested = std::path::Path::new(&path[1..]);
            assert_eq!(after.get(contested), before.get(contested), "{meanwhile}");
            assert!(!changes(&case).contains_key("c"), "{:?}", changes(&case));
            case.lazaret(["discard"]).go().exits(0);
        }
    });
}

#[test]
fn what_changes_on_the_host_while_the_command_runs_is_a_conflict() {
    as_everybody(|case| {
        prepared(case, "echo a > a; echo b > b; mkdir d; echo x > d/x");
        let script = "echo in >> a; echo in > new; rm -r d; echo ready; read go; echo more > after";
        let running = case.running(["--cow", "--on-success", "commit", "--", "sh", "-c", script]);
        let out = case.root.join("out");
        let mut command = running.command();
        command.stdin(Stdio::piped()).stdout(fs::File::create(&out).unwrap()).stderr(Stdio::piped());
        let mut running = Running::new(command.spawn().unwrap());
        eventually("the command is ready", || fs::read_to_string(&out).unwrap().contains("ready"));
        let_time_pass();
        prepared(case, "echo out >> a; echo out > new; echo out > d/y; echo free > free");
        let before = tree(&case.work);
        drop(running.child.stdin.take());
        let outcome = running.finish().exits(0).tells("NOT committed");
        assert!(outcome.stderr.contains("/a: changed on the host while the sandbox ran"), "{outcome:?}");
        assert_eq!(tree(&case.work), before);
        case.lazaret(["commit"]).go().exits(1);
        case.lazaret(["commit", "--leave-conflicts"]).go().exits(0);
        assert_eq!(outside(case, "cat a new d/y after"), "a\nout\nout\nout\nmore");
        assert!(names(&case.work).contains(&"free".to_owned()));
    });
}

#[test]
fn what_others_do_beside_the_changes_is_no_conflict() {
    as_everybody(|case| {
        prepared(case, "mkdir -p d/e; echo a > d/a; echo b > d/b; echo c > d/e/c");
        cow(case, &[], "echo in >> d/a; echo n > d/n; rm d/e/c; mkdir d/m; echo q > d/m/q").exits(0);
        prepared(
            case,
            "echo out >> d/b; echo o > d/o; mkdir d/p; echo o > d/e/o; touch d; cat d/a > /dev/null",
        );
        case.lazaret(["commit"]).go().exits(0);
        let all = ["d", "d/a", "d/b", "d/e", "d/e/o", "d/m", "d/m/q", "d/n", "d/o", "d/p"];
        assert_eq!(names(&case.work), all);
    });
}

#[test]
fn a_directory_that_is_another_now_is_not_written_to() {
    as_everybody(|case| {
        let elsewhere = case.root.join("elsewhere");
        case.directory(&elsewhere);
        for exchange in ["mv d old; mkdir d; echo a > d/a", "mv d old; ln -s ../elsewhere d", "mv d old"] {
            prepared(case, "rm -rf d old; mkdir d; echo a > d/a");
            cow(case, &[], "echo in >> d/a; echo in > d/n").exits(0);
            prepared(case, exchange);
            let before = tree(&case.work);
            case.lazaret(["commit"]).go().exits(1);
            assert_eq!(tree(&case.work), before, "{exchange}");
            case.lazaret(["commit", "--leave-conflicts"]).go().exits(0);
            assert_eq!(outside(case, "cat old/a; ls old"), "a\na", "{exchange}");
            assert_eq!(names(&elsewhere), Vec::<String>::new(), "{exchange}: written through a link");
            case.lazaret(["discard"]).go().exits(0);
        }
    });
}

#[test]
fn the_working_directory_itself_may_be_exchanged() {
    as_everybody(|case| {
        prepared(case, "echo a > a");
        cow(case, &[], "echo in >> a; echo n > n").exits(0);
        let id = list(case)[0]["id"].as_str().unwrap().to_owned();
        prepared(case, "cd ..; mv project away; mkdir project; cp -p away/a project/a");
        let outcome = case.lazaret(["commit", &id]).directory(&case.home).go().exits(1);
        assert!(outcome.stderr.contains("its directory on the host is not the one it was"), "{outcome:?}");
        assert_eq!(outside(case, "cat a ../away/a; ls . ../away"), "a\na\n.:\na\n\n../away:\na");
        prepared(case, "cd ..; rm -r project; mv away project");
        case.lazaret(["commit", &id]).go().exits(0);
        assert_eq!(outside(case, "cat a n"), "a\nin\nn");
    });
}

#[test]
fn a_commit_after_another_is_no_conflict_with_it() {
    as_everybody(|case| {
        prepared(case, "echo a > a");
        for round in 0..5 {
            let script = format!("echo {round} >> a; echo {round} > n{round}");
            committed(case, &script).tells("2 changes are committed");
            let_time_pass();
        }
        assert_eq!(outside(case, "cat a"), "a\n0\n1\n2\n3\n4");
    });
}
