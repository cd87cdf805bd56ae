//! What is denied to be read is not read by another name, and what is allowed below it is.

use std::fs;

use serde_json::json;

use super::{srt, with};
use crate::case::as_everybody;

#[test]
fn no_other_name_gives_a_hidden_file_away() {
    as_everybody(|case| {
        case.file("sec/key", "topsecret");
        case.file("a.pem", "topsecret");
        case.file("d/b.pem", "topsecret");
        let settings = with(&json!({}), &json!({ "denyRead": ["sec", "**/*.pem"], "allowWrite": ["."] }));
        let script = "cat sec/key a.pem d/b.pem; ln a.pem x && cat x; mv a.pem y && cat y; ln -s a.pem z; cat z; \
                      cat /proc/self/cwd/a.pem; cp a.pem w; cd d; cat ./b.pem ../d/b.pem; exec 5<b.pem; cat <&5; \
                      mv ../d ../e; cat ../e/b.pem; mv ../sec ../s; cat ../s/key; true";
        let outcome = srt(case, &settings, ["-c", script]).go().exits(0);
        assert!(!outcome.out().contains("topsecret"), "{outcome:?}");
        assert_eq!(fs::read_to_string(case.work.join("sec/key")).unwrap(), "topsecret");
        assert!(outcome.stderr.contains("denyRead"), "{outcome:?}");
    });
}

#[test]
fn what_a_command_makes_itself_it_can_read_again() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({ "denyRead": ["**/*.pem"], "allowWrite": ["."] }));
        let script = "echo own > new.pem && cat new.pem && mv new.pem newer.pem && cat newer.pem";
        srt(case, &settings, ["-c", script]).go().exits(0).prints("own\nown");
    });
}

#[test]
fn our_own_log_and_state_are_out_of_sight_and_out_of_reach() {
    as_everybody(|case| {
        let settings = with(&json!({}), &json!({ "allowWrite": ["/"] }));
        let state = case.state.join("lazaret");
        let script = format!(
            "ls -A {0}; cat {0}/audit.jsonl; rm -rf {0}; echo x > {0}/audit.jsonl; true",
            state.display()
        );
        let outcome = srt(case, &settings, ["-c", &script]).go().exits(0);
        assert_eq!(outcome.out(), "", "{outcome:?}");
        case.lazaret(["audit", "verify"]).go().exits(0);
    });
}

#[test]
fn what_is_written_to_tmp_stays_inside_and_what_is_there_can_be_read() {
    as_everybody(|case| {
        let name = crate::case::marker();
        let there = format!("/tmp/{name}-there");
        fs::write(&there, "from the host").unwrap();
        case.own(std::path::Path::new(&there));
        let script = format!(
            "cat {there}; echo changed > {there}; cat {there}; echo x > /tmp/{name}-new; cat /tmp/{name}-new"
        );
        let outcome = srt(case, &with(&json!({}), &json!({})), ["-c", &script]).go();
        let after = fs::read_to_string(&there).unwrap();
        fs::remove_file(&there).unwrap();
        outcome.exits(0).prints("from the hostchanged\nx");
        assert_eq!(after, "from the host");
        assert!(!std::path::Path::new(&format!("/tmp/{name}-new")).exists());
    });
}

#[test]
fn hiding_the_root_leaves_what_is_listed() {
    as_everybody(|case| {
        case.file("file", "mine");
        let beside = case.file(case.root.join("beside/file"), "beside");
        let filesystem =
            json!({ "denyRead": ["/"], "allowRead": [".", "/usr", "/bin", "/lib", "/lib64", "/etc"] });
        let script = format!("cat file; cat {}; ls /home; true", beside.display());
        srt(case, &with(&json!({}), &filesystem), ["-c", &script]).go().exits(0).prints("mine");
    });
}
