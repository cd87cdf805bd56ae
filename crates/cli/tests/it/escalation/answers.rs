//! list, show, approve, deny.

use std::{fs, time::Duration};

use lazaret_gate::escalation::{Answer, Breadth, Question};

use super::*;
use crate::case::{as_everybody, has_root};

#[test]
fn a_question_is_listed_shown_and_approved() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        case.lazaret(["escalation", "list"]).go().exits(0).prints("").tells("no question waits");
        let ticket = proxy.ask(&question());
        let id = ticket.id().as_str();
        let short = &id[..8];

        let list = case.lazaret(["escalation", "list"]).go().exits(0).tells_nothing().out();
        for part in [short, "01a1df50-caee", "files", "write_file", "writing outside", "min"] {
            assert!(list.contains(part), "{part}: {list}");
        }
        let json = case.lazaret(["escalation", "list", "--json"]).go().exits(0).json();
        assert_eq!(ids(&json), [id]);
        assert_eq!(json[0]["toolName"], "write_file");
        assert_eq!(json[0]["digest"], ticket.digest());
        assert!(json[0]["secondsLeft"].as_u64().unwrap() > 250);

        let shown = case.lazaret(["escalation", "show", short]).go().exits(0).out();
        for part in [
            id,
            r#""path": "../data/a.txt""#,
            "/srv/data/a.txt",
            "escalate-outside",
            "writing in /srv/data and below",
            &proxy.id,
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let json = case.lazaret(["escalation", "show", id, "--json"]).go().exits(0).json();
        assert_eq!(json["facts"]["paths"][0]["resolved"], "/srv/data/a.txt");

        let approve = || case.lazaret(["escalation", "approve", short, "--note", "fine"]).go();
        let (outcome, answer) = proxy.answered(&ticket, approve);
        outcome.exits(0).tells("files/write_file is approved once");
        let Answer::Approved(approval) = answer else { panic!("{answer:?}") };
        assert_eq!(approval.breadth, Breadth::Once);
        assert_eq!(approval.by, Some(format!("uid {}", case.who.uid())));
        assert_eq!(approval.note.as_deref(), Some("fine"));
        assert_eq!(proxy.left(), Vec::<String>::new());
        approve().exits(1).tells("no question with the id");
    });
}

#[test]
fn a_call_is_approved_for_the_session_only_as_it_was_offered() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ways = [&["--session"][..], &["--scope", "session"], &["--session", "--candidate", "1"]];
        for flags in ways {
            let ticket = proxy.ask(&question());
            let args = [&["escalation", "approve", ticket.id().as_str(), "--json"][..], flags].concat();
            let (outcome, answer) = proxy.answered(&ticket, || case.lazaret(&args).go());
            let json = outcome.exits(0).json();
            assert_eq!((&json["scope"], &json["taken"]), (&json!("session"), &json!(true)));
            let session = Breadth::Session { candidate: 0 };
            assert!(matches!(&answer, Answer::Approved(it) if it.breadth == session), "{answer:?}");
        }
        let ticket = proxy.ask(&Question { candidates: vec![], ..question() });
        let id = ticket.id().as_str();
        let approve = |flags: &[&str]| case.lazaret([&["escalation", "approve", id], flags].concat()).go();
        approve(&["--session"]).exits(125).tells("once, not for the session");
        approve(&["--candidate", "1"]).exits(125).tells("--session");
        approve(&["--session", "--scope", "once"]).exits(125);
        let ticket_with_one = proxy.ask(&question());
        let args = ["escalation", "approve", ticket_with_one.id().as_str(), "--session", "--candidate", "2"];
        case.lazaret(args).go().exits(125).tells("only 1 ways");
        assert_eq!(proxy.desk.look(&ticket), None, "nothing was answered");
        assert_eq!(proxy.desk.look(&ticket_with_one), None);
    });
}

#[test]
fn a_denial_carries_its_reason_to_the_agent() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&question());
        let args = ["escalation", "deny", ticket.id().as_str(), "--reason", "use the copy"];
        let (outcome, answer) = proxy.answered(&ticket, || case.lazaret(args).go());
        outcome.exits(0).tells("files/write_file is denied");
        let Answer::Denied(why) = answer else { panic!("{answer:?}") };
        assert_eq!(why.to_string(), "a person denied it: use the copy");
    });
}

#[test]
fn an_id_that_means_nothing_or_several_things_changes_nothing() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let tickets: Vec<_> = (0..17).map(|_| proxy.ask(&question())).collect();
        let first = |id: &str| id[..1].to_owned();
        let firsts: Vec<_> = tickets.iter().map(|ticket| first(ticket.id().as_str())).collect();
        let shared =
            firsts.iter().find(|one| firsts.iter().filter(|other| other == one).count() > 1).unwrap();
        case.lazaret(["escalation", "approve", shared]).go().exits(1).tells("several questions");
        for nothing in ["", "zzz", "../../x", "00000000-0000-0000-0000-000000000000"] {
            case.lazaret(["escalation", "approve", nothing]).go().exits(1).tells("no question");
            case.lazaret(["escalation", "show", nothing]).go().exits(1).prints("");
        }
        assert!(tickets.iter().all(|ticket| proxy.desk.look(ticket).is_none()));
        let listed = case.lazaret(["escalation", "list", "--json"]).go().json();
        assert_eq!(listed.as_array().unwrap().len(), 17);
    });
}

#[test]
fn a_question_that_nobody_answers_is_denied_and_cannot_be_answered_later() {
    as_everybody(|case| {
        let proxy = Proxy::start(case).waiting(1);
        let ticket = proxy.ask(&question());
        let ((), answer) = proxy.answered(&ticket, || ());
        assert_eq!(answer, Answer::TimedOut);
        assert_eq!(proxy.left(), Vec::<String>::new());
        case.lazaret(["escalation", "approve", ticket.id().as_str()]).go().exits(1).tells("expired");
        // One whose proxy does not even clean up.
        let ticket = proxy.ask(&question());
        std::thread::sleep(Duration::from_millis(1100));
        case.lazaret(["escalation", "approve", ticket.id().as_str()]).go().exits(1);
        assert_eq!(proxy.desk.look(&ticket), Some(Answer::TimedOut));
    });
}

#[test]
fn an_answer_that_nobody_takes_is_told_as_such_and_stands() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&question());
        let id = ticket.id().as_str();
        case.lazaret(["escalation", "deny", id]).go().exits(0).tells("has not taken the answer yet");
        case.lazaret(["escalation", "approve", id]).go().exits(1);
        assert!(matches!(proxy.desk.look(&ticket), Some(Answer::Denied(_))));
    });
}

#[test]
fn the_questions_of_one_session_can_be_listed() {
    as_everybody(|case| {
        let one = Proxy::named(case, "01a1df50-0000-757e-88f8-a8e0a279a0a7");
        let two = Proxy::named(case, "01a1df51-0000-757e-88f8-a8e0a279a0a7");
        let (first, _second) = (one.ask(&question()), two.ask(&question()));
        let listed = |session: &str| {
            let args = ["escalation", "list", "--json", "--session", session];
            ids(&case.lazaret(args).go().exits(0).json())
        };
        assert_eq!(listed("01a1df50"), [first.id().as_str()]);
        assert_eq!(listed(&one.id), [first.id().as_str()]);
        let directory = one.directory().with_file_name("sandbox");
        assert_eq!(listed(directory.to_str().unwrap()), [first.id().as_str()]);
        let list = |session: &str| case.lazaret(["escalation", "list", "--session", session]).go();
        list("01a1df5").exits(125).tells("several sessions");
        list("nonesuch").exits(125).tells("no session nonesuch runs");
    });
}

#[test]
fn sessions_that_ended_ask_nothing_and_odd_files_are_told() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let _ticket = proxy.ask(&question());
        let file = proxy.directory().with_file_name("session.json");
        let text = fs::read_to_string(&file).unwrap();
        let mut session: Value = serde_json::from_str(&text).unwrap();
        session["startTicks"] = json!(1);
        fs::write(&file, session.to_string()).unwrap();
        case.lazaret(["escalation", "list"]).go().exits(0).tells("no question waits");
        fs::write(&file, "{}").unwrap();
        case.lazaret(["escalation", "list"]).go().exits(0).tells("warning").tells("session.json");
    });
}

#[test]
fn only_the_owner_can_see_and_answer() {
    if !has_root() {
        return;
    }
    let (owner, stranger) = (Case::new(Who::Caller), Case::new(Who::Other));
    let proxy = Proxy::start(&owner);
    let ticket = proxy.ask(&question());
    let id = ticket.id().as_str();
    let tried = |args: &[&str]| stranger.lazaret(args).env("XDG_STATE_HOME", &owner.state).go();
    for args in [&["escalation", "list"][..], &["escalation", "approve", id], &["escalation", "watch"]] {
        tried(args).exits(125).prints("").tells("belong to uid 0").tells("only that user");
    }
    // Where the directories above can be entered, the session's own still cannot.
    for directory in ["lazaret", "lazaret/sessions"] {
        fs::set_permissions(owner.state.join(directory), Permissions::from_mode(0o755)).unwrap();
    }
    tried(&["escalation", "approve", id]).exits(1).tells("left out").tells("no question");
    assert_eq!(proxy.desk.look(&ticket), None);
    // Root can do as every user does, and is told apart.
    let theirs = Proxy::start(&stranger);
    let ticket = theirs.ask(&question());
    let args = ["escalation", "approve", ticket.id().as_str()];
    let by_root = || owner.lazaret(args).env("XDG_STATE_HOME", &stranger.state).go();
    let (outcome, answer) = theirs.answered(&ticket, by_root);
    outcome.exits(0);
    assert!(matches!(&answer, Answer::Approved(it) if it.by.as_deref() == Some("uid 0")), "{answer:?}");
}

#[test]
fn nothing_in_a_question_reaches_the_terminal_as_more_than_text() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let ticket = proxy.ask(&trick());
        let id = ticket.id().as_str();
        for args in [
            &["escalation", "list"][..],
            &["escalation", "list", "--json"],
            &["escalation", "show", id],
            &["escalation", "show", id, "--json"],
        ] {
            let outcome = case.lazaret(args).go().exits(0);
            assert_harmless(&outcome.out());
            assert_harmless(&outcome.stderr);
        }
        let shown = case.lazaret(["escalation", "show", id]).go().out();
        assert!(shown.contains("BEWARE") && shown.contains("⟨500 spaces⟩"), "{shown}");
        assert!(shown.contains(r"\u202etxt.exe\u200b\r\nApproved"), "{shown}");
        let json = case.lazaret(["escalation", "show", id, "--json"]).go().json();
        assert_eq!(json["reason"], trick().reason, "the value is still the same");
        let args = ["escalation", "approve", id, "--session"];
        let (outcome, _) = proxy.answered(&ticket, || case.lazaret(args).go());
        assert_harmless(&outcome.exits(0).stderr);
    });
}

#[test]
fn long_arguments_are_shown_by_their_beginning_and_hash() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let long = Question { shown_arguments: json!({ "content": "x".repeat(3 << 20) }), ..question() };
        let ticket = proxy.ask(&long);
        let shown = case.lazaret(["escalation", "show", ticket.id().as_str()]).go().exits(0).out();
        assert!(shown.contains("3145728 bytes in all") && shown.len() < 100_000, "{}", shown.len());
    });
}

#[test]
fn without_a_place_for_sessions_that_is_the_error() {
    as_everybody(|case| {
        let outcome = case.lazaret(["escalation", "list"]).env("HOME", "x").env("XDG_STATE_HOME", "y").go();
        outcome.exits(125).tells("XDG_STATE_HOME");
        // No session has ever run.
        case.lazaret(["escalation", "list"]).go().exits(0);
        case.lazaret(["escalation", "list", "--json"]).go().exits(0).prints("[]");
    });
}
