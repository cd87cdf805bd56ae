//! Answers that are not what they seem deny, whoever wrote them.

use std::os::unix::fs::{chown, symlink};

use lazaret_gate::escalation::{Answer, Denial};

use super::*;
use crate::case::{as_everybody, has_root};

const YES: &str = r#"{"decision":"approved"}"#;

/// What comes of an answer that is made like this, as the user of the case.
fn denied(case: &Case, make: impl Fn(&Proxy<'_>, &Ticket) + Sync) -> Denial {
    let proxy = Proxy::start(case);
    let ticket = proxy.ask(&question());
    let ((), answer) = proxy.answered(&ticket, || as_user(case.who, || make(&proxy, &ticket)));
    assert_eq!(proxy.left(), Vec::<String>::new());
    match answer {
        Answer::Denied(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_honest_answer_by_hand_approves() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&question());
        let write = || {
            as_user(case.who, || {
                let temporary = proxy.response(&ticket).with_extension("json.tmp");
                fs::write(&temporary, YES).unwrap();
                fs::rename(temporary, proxy.response(&ticket)).unwrap();
            });
        };
        let ((), answer) = proxy.answered(&ticket, write);
        assert!(matches!(answer, Answer::Approved(_)), "{answer:?}");
    });
}

#[test]
fn links_deny() {
    as_everybody(|case| {
        let outside = case.file("yes.json", YES);
        let why = denied(case, |proxy, ticket| symlink(&outside, proxy.response(ticket)).unwrap());
        assert!(matches!(why, Denial::Untrusted(_)) && why.to_string().contains("link"), "{why}");
        let why = denied(case, |proxy, ticket| fs::hard_link(&outside, proxy.response(ticket)).unwrap());
        assert!(why.to_string().contains("more than one name"), "{why}");
        assert!(outside.exists());
    });
}

#[test]
fn garbage_denies() {
    as_everybody(|case| {
        for text in [
            "approved",
            "[]",
            r#"{"decision":"yes"}"#,
            r#"{"decision":"denied","decision":"approved"}"#,
            r#"{"decision":"approved","whitelistSelection":7}"#,
            "\0\0\0\0",
        ] {
            denied(case, |proxy, ticket| fs::write(proxy.response(ticket), text).unwrap());
        }
        // Cut off: it may still be being written, but not for ever.
        denied(case, |proxy, ticket| fs::write(proxy.response(ticket), r#"{"decision":"approved""#).unwrap());
    });
}

#[test]
fn an_answer_to_another_question_denies_and_says_so() {
    as_everybody(|case| {
        let text = json!({ "decision": "approved", "digest": "0".repeat(64) }).to_string();
        let why = denied(case, |proxy, ticket| fs::write(proxy.response(ticket), &text).unwrap());
        assert_eq!(why, Denial::OtherQuestion);
    });
}

#[test]
fn a_huge_answer_denies_without_being_read() {
    as_everybody(|case| {
        let why = denied(case, |proxy, ticket| {
            // A hole: it takes no space.
            let file = fs::File::create(proxy.response(ticket)).unwrap();
            file.set_len(1 << 40).unwrap();
        });
        assert!(why.to_string().contains("larger than"), "{why}");
    });
}

#[test]
fn pipes_and_directories_deny_without_being_waited_for() {
    as_everybody(|case| {
        let why = denied(case, |proxy, ticket| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, proxy.response(ticket), kind, 0o600.into(), 0).unwrap();
        });
        assert!(why.to_string().contains("regular file"), "{why}");
        denied(case, |proxy, ticket| fs::create_dir(proxy.response(ticket)).unwrap());
    });
}

#[test]
fn a_strangers_file_denies() {
    if !has_root() {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&question());
        // Made by root, as the directory keeps strangers out.
        let forge = || {
            let made = case.root.join("forged");
            fs::write(&made, YES).unwrap();
            chown(&made, Some(54322), Some(54322)).unwrap();
            fs::rename(made, proxy.response(&ticket)).unwrap();
        };
        let ((), answer) = proxy.answered(&ticket, forge);
        let Answer::Denied(why) = answer else { panic!("{answer:?}") };
        assert!(why.to_string().contains("belongs to uid 54322"), "{why}");
    });
}

#[test]
fn a_question_that_was_changed_on_its_way_is_neither_shown_nor_answered() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&question());
        let file = proxy.directory().join(format!("request-{}.json", ticket.id()));
        let text = fs::read_to_string(&file).unwrap().replace("/srv/data/a.txt", "/srv/data/b.txt");
        fs::write(&file, text).unwrap();
        let outcome = case.lazaret(["escalation", "approve", ticket.id().as_str()]).go();
        outcome.exits(1).tells("changed after it was asked");
        assert_eq!(proxy.desk.look(&ticket), None);
    });
}

#[test]
fn a_desk_does_not_open_where_others_could_answer() {
    if !has_root() {
        return;
    }
    let case = Case::new(Who::Other);
    let make = |name: &str, act: &dyn Fn(&std::path::Path)| {
        let path = case.work.join(name);
        act(&path);
        path
    };
    let foreign = make("foreign", &|path| fs::create_dir(path).unwrap());
    fs::set_permissions(&foreign, Permissions::from_mode(0o700)).unwrap();
    let own = make("own", &|path| case.directory(path));
    let link = make("link", &|path| symlink(&own, path).unwrap());
    fs::set_permissions(&own, Permissions::from_mode(0o770)).unwrap();
    let refused = |path: &std::path::Path| {
        as_user(Who::Other, || Desk::open(path).map(|_| ()).unwrap_err().to_string())
    };
    assert!(refused(&own).contains("770"));
    assert!(refused(&link).contains("symbolic link"));
    refused(&foreign);
    // Root could open it, and is told all the same.
    assert!(Desk::open(&own).unwrap_err().to_string().contains("770"));
    fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    assert!(Desk::open(&own).unwrap_err().to_string().contains("belongs to uid 54321"));
}
