use std::time::Instant;

use lazaret_gate::escalation::{Breadth, Candidate, Open, Process, QuestionId, Reply, Request, Session};
use serde_json::{Value, json};

use super::*;
use crate::commands::escalation::{
    keys::Key,
    view::{News, Now, QUIET, Wish},
};

const SIZE: Size = Size { rows: 30, columns: 80 };

fn now() -> Now {
    Now { steady: Instant::now(), clock: "2026-01-01T00:01:00Z".parse().unwrap() }
}

fn later(now: Now) -> Now {
    Now { steady: now.steady + QUIET, ..now }
}

fn question(number: u8, arguments: Value) -> Open {
    let process = Process { pid: 1, start_ticks: None, pid_namespace: None };
    Open {
        session: Session {
            id: "s1".into(),
            process,
            started: None,
            directory: "/proj/session".into(),
            escalations: "/proj/escalations".into(),
            owner: 1000,
        },
        request: Request {
            escalation_id: QuestionId::parse(&format!("{number:08x}-7a77-4b0c-8a55-6f9ff2b0f1ab")).unwrap(),
            server_name: "files".into(),
            tool_name: format!("tool{number}"),
            arguments,
            reason: "outside of the session directory".into(),
            context: None,
            whitelist_candidates: vec![Candidate { description: "files/tool: writing in /srv".into() }],
            created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            expires_at: "2026-01-01T00:05:00Z".parse().unwrap(),
            session_id: "s1".into(),
            asked_by: process,
            rule: "ask".into(),
            facts: json!({ "paths": [{ "argument": "/path", "given": "../x", "resolved": "/srv/x",
                "place": "outside", "access": "write" }], "hosts": [] }),
        },
        digest: "0".repeat(64),
    }
}

fn some(numbers: &[u8]) -> Vec<Open> {
    numbers.iter().map(|number| question(*number, json!({ "path": "../x" }))).collect()
}

fn shown(view: &View, size: Size) -> String {
    let lines = draw(view, size, now().clock);
    lines.iter().map(|line| format!("{}\n", line.text.trim_end())).collect()
}

fn is_approval(wish: &Wish, tool: &str) -> bool {
    matches!(wish, Wish::Answer(open, Reply::Approve { breadth: Breadth::Once, .. }) if open.request.tool_name == tool)
}

#[test]
fn the_list_and_the_selected_question_are_shown() {
    let view = View::new(some(&[1, 2]), now());
    let text = shown(&view, Size { rows: 26, columns: 70 });
    assert_eq!(
        text,
        "\
lazaret: 2 questions wait for an answer
> 00000001    4 min 0 s  files/tool1  outside of the session directory
  00000002    4 min 0 s  files/tool2  outside of the session directory
──────────────────────────────────────────────────────────────────────
Call       files/tool1
Reason     outside of the session directory
Rule       ask
Asked      1 min 0 s ago, 4 min 0 s left
Session    s1 in /proj/session
Question   00000001-7a77-4b0c-8a55-6f9ff2b0f1ab

Arguments
  {
    \"path\": \"../x\"
  }

What the call is about
  write   /srv/x  (outside of the session directory; given as \"../x\" i
    n /path)

Approving for the session would cover
  1  files/tool: writing in /srv



j/k select  enter all of it  a approve once  s for the session  d den…
"
    );
}

#[test]
fn every_screen_is_filled_exactly_and_nothing_is_wider() {
    let wide = question(3, json!({ "text": "漢字🦀".repeat(60), "\u{202e}key": "\u{1b}[2J\n".repeat(20) }));
    let mut view = View::new([some(&[1, 2]), vec![wide]].concat(), now());
    for page in [Page::List, Page::Details { top: 0 }, Page::Details { top: 9 }] {
        view.page = page;
        for key in [Key::Last, Key::First] {
            view.press(key, SIZE, now());
            for rows in 1..40 {
                for columns in [1, 2, 10, 79, 200] {
                    let lines = draw(&view, Size { rows, columns }, now().clock);
                    assert_eq!(lines.len(), rows, "{page:?} {rows}x{columns}");
                    for line in lines {
                        assert!(visible::width(&line.text) <= columns.max(1), "{columns}: {:?}", line.text);
                        assert!(line.text.chars().all(|c| !lazaret_gate::escalation::is_hidden(c)));
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_waits_and_that_is_said() {
    let mut view = View::new(Vec::new(), now());
    assert!(shown(&view, SIZE).starts_with("lazaret: no question waits"));
    for key in [Key::Approve, Key::Deny, Key::Enter, Key::Down, Key::Last] {
        assert!(matches!(view.press(key, SIZE, later(now())), Wish::Nothing));
    }
    assert_eq!(view.page, Page::List);
    assert!(matches!(view.press(Key::Quit, SIZE, now()), Wish::Quit));
}

#[test]
fn keys_select_and_answer() {
    let start = now();
    let mut view = View::new(some(&[1, 2, 3]), start);
    view.press(Key::Down, SIZE, start);
    let size = Size { rows: 60, ..SIZE };
    assert!(is_approval(&view.press(Key::Approve, size, later(start)), "tool2"));
    view.press(Key::Last, size, start);
    assert!(matches!(view.press(Key::Deny, size, start),
        Wish::Answer(open, Reply::Deny { .. }) if open.request.tool_name == "tool3"));
    view.press(Key::First, size, start);
    let session = view.press(Key::ApproveForSession, size, later(start));
    assert!(matches!(
        session,
        Wish::Answer(_, Reply::Approve { breadth: Breadth::Session { candidate: 0 }, .. })
    ));
}

#[test]
fn the_selection_follows_its_question_and_not_its_line() {
    let start = now();
    let mut view = View::new(some(&[2, 3]), start);
    view.press(Key::Down, SIZE, start);
    assert_eq!(view.update(some(&[1, 2, 3]), start), News::Some);
    assert_eq!(view.update(some(&[1, 2, 3]), start), News::None);
    assert!(is_approval(&view.press(Key::Approve, Size { rows: 60, ..SIZE }, later(start)), "tool3"));
}

#[test]
fn a_question_that_comes_up_by_itself_is_not_approved_by_a_key_for_another() {
    let start = now();
    let size = Size { rows: 60, ..SIZE };
    let mut view = View::new(some(&[1]), start);
    assert!(matches!(view.press(Key::Approve, size, start), Wish::Nothing));
    assert!(view.message.contains("just come up"), "{}", view.message);
    assert!(is_approval(&view.press(Key::Approve, size, later(start)), "tool1"));
    // The first is gone at that moment, and the second takes its place.
    let later = later(start);
    view.update(some(&[2]), later);
    assert!(matches!(view.press(Key::Approve, size, later), Wish::Nothing));
    assert!(is_approval(&view.press(Key::Approve, size, self::later(later)), "tool2"));
}

#[test]
fn what_was_not_shown_to_its_end_is_not_approved() {
    let start = now();
    let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    let mut view = View::new(vec![question(1, json!(lines))], start);
    let late = later(start);
    assert!(shown(&view, SIZE).contains("more lines: press enter"));
    assert!(matches!(view.press(Key::Approve, SIZE, late), Wish::Nothing));
    assert!(view.message.contains("more to it"), "{}", view.message);
    view.press(Key::Enter, SIZE, late);
    assert!(matches!(view.press(Key::Approve, SIZE, late), Wish::Nothing), "only its beginning was shown");
    for _ in 0..5 {
        view.press(Key::PageDown, SIZE, late);
    }
    assert!(shown(&view, SIZE).contains("writing in /srv"));
    view.press(Key::First, SIZE, late);
    assert!(is_approval(&view.press(Key::Approve, SIZE, late), "tool1"), "it was read");
    assert!(matches!(view.press(Key::Deny, SIZE, start), Wish::Answer(_, Reply::Deny { .. })));
}

#[test]
fn what_cannot_be_approved_for_the_session_is_told_so() {
    let mut only_once = question(1, json!({}));
    only_once.request.whitelist_candidates.clear();
    let start = now();
    let mut view = View::new(vec![only_once], start);
    assert!(shown(&view, SIZE).contains("It can be approved once, not for the session."));
    assert!(matches!(view.press(Key::ApproveForSession, SIZE, later(start)), Wish::Nothing));
    assert!(view.message.contains("once (a)"), "{}", view.message);
}

#[test]
fn a_question_that_goes_while_it_is_read_takes_its_page_along() {
    let start = now();
    let mut view = View::new(some(&[1, 2]), start);
    view.press(Key::Enter, SIZE, start);
    assert!(matches!(view.page, Page::Details { .. }));
    view.update(some(&[2]), start);
    assert_eq!(view.page, Page::List);
    assert!(view.message.contains("not open any more"));
    assert!(matches!(view.press(Key::Approve, SIZE, start), Wish::Nothing));
}

#[test]
fn tricks_in_the_arguments_are_pointed_out() {
    let trick = question(1, json!({ "path": "/srv/\u{202e}gpj.exe", "x": "\u{1b}]0;t\u{7}" }));
    let view = View::new(vec![trick], now());
    let text = shown(&view, SIZE);
    assert!(text.contains("BEWARE"), "{text}");
    assert!(text.contains(r#""path": "/srv/\u202egpj.exe""#), "{text}");
    let mut strange = question(1, json!({}));
    strange.request.facts = json!({ "paths": [], "hosts": [{ "argument": "/u", "given": "x", "host": "ex\u{430}mple.com", "kind": "url" }] });
    assert!(shown(&View::new(vec![strange], now()), SIZE).contains("not ASCII"));
}
