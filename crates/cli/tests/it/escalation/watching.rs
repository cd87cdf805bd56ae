//! `watch`, at a terminal and without one.

use lazaret_gate::escalation::{Answer, Breadth};
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::{
    case::{as_everybody, has_tool, wait_within},
    terminal::{On, Terminal},
};

/// A selection that came by itself cannot be approved at once.
const QUIET: Duration = Duration::from_millis(1500);

fn watch(case: &Case) -> Terminal {
    Terminal::start_as("xterm", case.lazaret(["escalation", "watch"]), On::All)
}

fn press(terminal: &mut Terminal, key: &str) {
    terminal.types(key);
}

#[test]
fn questions_come_up_by_themselves_and_are_answered_by_single_keys() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let mut terminal = watch(case);
        let before = terminal.modes();
        terminal.shows("\x1b[?1049h").shows("no question waits");
        let ticket = proxy.ask(&question());
        terminal.shows("\x07").shows("1 question waits").shows("files/write_file").shows("../data/a.txt");
        assert_ne!(terminal.modes(), before);
        thread::sleep(QUIET);
        let ((), answer) = proxy.answered(&ticket, || press(&mut terminal, "a"));
        assert!(matches!(&answer, Answer::Approved(it) if it.breadth == Breadth::Once), "{answer:?}");
        terminal.shows("no question waits").shows("files/write_file is approved once");

        let ticket = proxy.ask(&question());
        terminal.shows("1 question waits");
        thread::sleep(QUIET);
        let ((), answer) = proxy.answered(&ticket, || press(&mut terminal, "s"));
        let session = Breadth::Session { candidate: 0 };
        assert!(matches!(&answer, Answer::Approved(it) if it.breadth == session), "{answer:?}");
        terminal.shows("approved for the session");

        let ticket = proxy.ask(&question());
        terminal.shows("1 question waits");
        let ((), answer) = proxy.answered(&ticket, || press(&mut terminal, "d"));
        assert!(matches!(answer, Answer::Denied(_)), "{answer:?}");
        terminal.shows("is denied").types("q").shows("\x1b[?1049l");
        assert_eq!(terminal.ends(), 0);
        assert_eq!(terminal.modes(), before);
    });
}

#[test]
fn a_key_that_was_meant_for_another_question_approves_nothing() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let mut terminal = watch(case);
        terminal.shows("no question waits");
        // Typed before anything is there.
        terminal.types("aaa");
        let ticket = proxy.ask(&question());
        terminal.shows("1 question waits").types("a").shows("just come up");
        assert_eq!(proxy.desk.look(&ticket), None);
        terminal.types("q");
        assert_eq!(terminal.ends(), 0);
        assert_eq!(proxy.desk.look(&ticket), None);
    });
}

#[test]
fn a_long_question_has_to_be_read_before_it_is_approved() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let lines: Vec<_> = (0..80).map(|number| format!("line {number}")).collect();
        let ticket = proxy.ask(&Question { shown_arguments: json!({ "lines": lines }), ..question() });
        let mut terminal = watch(case);
        terminal.shows("more lines: press enter");
        thread::sleep(QUIET);
        terminal.types("a").shows("there is more to it");
        terminal.types("\r").shows("line 15").types("a").shows("there is more to it");
        terminal.types("G").shows("writing in /srv/data");
        let ((), answer) = proxy.answered(&ticket, || press(&mut terminal, "a"));
        assert!(matches!(answer, Answer::Approved(_)), "{answer:?}");
        terminal.shows("is approved once").types("\x03");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn the_screen_follows_the_window_and_other_peoples_answers() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let mut terminal = watch(case);
        terminal.shows("q quit");
        terminal.resize(10, 40);
        // Cut to the new width.
        terminal.shows("a approve …");
        let ticket = proxy.ask(&question());
        terminal.shows("1 question waits");
        let args = ["escalation", "deny", ticket.id().as_str()];
        let (outcome, _) = proxy.answered(&ticket, || case.lazaret(args).go());
        outcome.exits(0);
        terminal.shows("no question waits").types("q");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn the_terminal_is_as_before_after_every_signal() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
            let mut terminal = watch(case);
            let before = terminal.modes();
            terminal.shows("no question waits");
            assert_ne!(terminal.modes(), before, "the terminal is raw in between");
            kill_process(Pid::from_raw(terminal.child().id().cast_signed()).unwrap(), signal).unwrap();
            assert_eq!(terminal.ends(), 128 + signal.as_raw(), "{signal:?}");
            assert_eq!(terminal.modes(), before, "{signal:?}");
            assert!(terminal.shown().contains("\x1b[?1049l"), "{signal:?}");
        }
    });
}

#[test]
fn a_question_that_draws_on_the_terminal_is_only_text_there() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let _ticket = proxy.ask(&trick());
        let mut terminal = watch(case);
        terminal.shows("BEWARE").types("\rG").shows("Approving for the session").types("q");
        assert_eq!(terminal.ends(), 0);
        // What is left without our own sequences.
        let mut text = terminal.shown().to_owned();
        for own in ["[?1049h", "[?25l", "[2J", "[H", "[K", "[J", "[0m", "[1m", "[7m", "[?25h", "[?1049l"] {
            text = text.replace(&format!("\x1b{own}"), "");
        }
        assert_harmless(&text.replace(['\r', '\x07'], ""));
        assert!(!terminal.shown().contains("owned\x07"));
    });
}

#[test]
fn without_a_terminal_there_is_a_line_for_each_question() {
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let first = proxy.ask(&question());
        let words = case.lazaret(["escalation", "watch"]).start();
        let json = case.lazaret(["escalation", "watch", "--json"]).start();
        thread::sleep(Duration::from_millis(700));
        let second = proxy.ask(&trick());
        thread::sleep(Duration::from_millis(1000));
        words.signal(Signal::TERM);
        json.signal(Signal::TERM);
        let text = words.finish().exits(143).tells_nothing().out();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with(first.id().as_str()) && lines[0].contains("files/write_file"), "{text}");
        assert!(lines[1].starts_with(second.id().as_str()), "{text}");
        assert_harmless(&text);
        let text = json.finish().exits(143).out();
        let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(ids(&json!(values)), [first.id().as_str(), second.id().as_str()]);
        assert_harmless(&text);
    });
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_gets_lines() {
    if !has_tool("setsid") {
        return;
    }
    as_everybody(|case| {
        let proxy = Proxy::start(case);
        let mut terminal = Terminal::start(case.lazaret(["escalation", "watch"]), On::All);
        let ticket = proxy.ask(&question());
        terminal.shows(ticket.id().as_str()).shows("left)").types("\x03");
        assert_eq!(terminal.ends(), 130);
        assert!(!terminal.shown().contains('\x1b'));
    });
}

#[test]
fn watching_ends_when_nobody_reads() {
    as_everybody(|case| {
        let mut command = case.lazaret(["escalation", "watch"]).command();
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = wait_within(&mut child, Duration::from_secs(10));
        assert_eq!(ended.and_then(|status| status.code()), Some(0));
    });
}
