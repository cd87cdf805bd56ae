use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    thread,
};

use serde_json::json;

use super::*;
use crate::{
    Facts, Rule,
    escalation::{Approval, Breadth, Candidate, place::Place},
};

fn question() -> Question {
    Question {
        server: "files".into(),
        tool: "write_file".into(),
        shown_arguments: json!({ "path": "/srv/a" }),
        reason: "outside".into(),
        rule: Rule("ask".into()),
        facts: Facts::default(),
        candidates: vec![Candidate { description: "writing in /srv".into() }],
    }
}

struct Room {
    place: Place,
    desk: Desk,
}

impl Room {
    fn new() -> Room {
        let place = Place::new();
        let desk = Desk::open(&place.join("e")).unwrap().for_session("s1");
        Room { place, desk }
    }

    fn directory(&self) -> PathBuf {
        self.place.join("e")
    }

    fn names(&self) -> Vec<String> {
        self.desk
            .counter
            .directory
            .names()
            .unwrap()
            .into_iter()
            .filter(|n| !n.starts_with("..") && n != ".")
            .collect()
    }

    fn response(&self, ticket: &Ticket) -> PathBuf {
        self.directory().join(ticket.id().response_file())
    }

    fn answered(&self, text: &str) -> Answer {
        let ticket = self.desk.ask(&question()).unwrap();
        fs::write(self.response(&ticket), text).unwrap();
        let answer = self.desk.look(&ticket).unwrap();
        assert_eq!(self.names(), Vec::<String>::new());
        answer
    }
}

#[test]
fn a_question_lies_there_until_it_is_answered() {
    let room = Room::new();
    let ticket = room.desk.ask(&question()).unwrap();
    assert_eq!(room.names(), [ticket.id().request_file()]);
    assert_eq!(room.desk.look(&ticket), None);
    fs::write(room.response(&ticket), r#"{"decision":"approved"}"#).unwrap();
    let approved = Answer::Approved(Approval { breadth: Breadth::Once, by: None, note: None });
    assert_eq!(room.desk.look(&ticket), Some(approved.clone()));
    assert_eq!(room.names(), Vec::<String>::new());
    // A later answer changes nothing.
    fs::write(room.response(&ticket), r#"{"decision":"denied"}"#).unwrap();
    assert_eq!(room.desk.look(&ticket), Some(approved));
    drop(ticket);
    assert_eq!(room.names(), Vec::<String>::new());
}

#[test]
fn a_digest_binds_the_answer_to_what_was_shown() {
    let room = Room::new();
    let ticket = room.desk.ask(&question()).unwrap();
    let text = json!({ "decision": "approved", "digest": ticket.digest() }).to_string();
    fs::write(room.response(&ticket), &text).unwrap();
    assert!(matches!(room.desk.look(&ticket), Some(Answer::Approved(_))));
    // The same answer for the next question, which differs by its id alone.
    assert_eq!(room.answered(&text), Answer::Denied(Denial::OtherQuestion));
}

#[test]
fn forged_answers_deny() {
    let room = Room::new();
    let yes = r#"{"decision":"approved"}"#;
    let outside = room.place.join("yes");
    fs::write(&outside, yes).unwrap();
    let denied = |make: &dyn Fn(&Path)| {
        let ticket = room.desk.ask(&question()).unwrap();
        make(&room.response(&ticket));
        let answer = room.desk.look(&ticket);
        assert_eq!(room.names(), Vec::<String>::new());
        answer.unwrap()
    };
    let untrusted = |trouble| Answer::Denied(Denial::Untrusted(trouble));
    assert_eq!(denied(&|path| symlink(&outside, path).unwrap()), untrusted(FileTrouble::Link));
    assert_eq!(denied(&|path| symlink("/nowhere", path).unwrap()), untrusted(FileTrouble::Link));
    assert_eq!(denied(&|path| fs::hard_link(&outside, path).unwrap()), untrusted(FileTrouble::Shared));
    assert_eq!(denied(&|path| fs::create_dir(path).unwrap()), untrusted(FileTrouble::NotAFile));
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    assert_eq!(denied(&fifo), untrusted(FileTrouble::NotAFile));
    let huge = format!("{}{yes}", " ".repeat(64 << 10));
    assert_eq!(denied(&|path| fs::write(path, &huge).unwrap()), untrusted(FileTrouble::TooLarge(64 << 10)));
    for text in ["garbage", "{\"decision\":\"approved\",\"decision\":\"approved\"}", "{\"decision\":\"yes\"}"]
    {
        assert!(matches!(room.answered(text), Answer::Denied(_)), "{text}");
    }
    assert!(outside.exists());
}

#[test]
fn an_answer_in_a_directory_that_was_opened_to_others_denies() {
    let room = Room::new();
    let ticket = room.desk.ask(&question()).unwrap();
    fs::write(room.response(&ticket), r#"{"decision":"approved"}"#).unwrap();
    fs::set_permissions(room.directory(), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(room.desk.look(&ticket), Some(Answer::Denied(Denial::Exposed)));
    assert!(matches!(room.desk.ask(&question()), Err(AskError::Directory(_))));
}

#[test]
fn a_file_that_is_still_being_written_is_waited_for_a_moment() {
    let room = Room::new();
    let ticket = room.desk.ask(&question()).unwrap();
    fs::write(room.response(&ticket), "").unwrap();
    assert_eq!(room.desk.look(&ticket), None);
    fs::write(room.response(&ticket), r#"{"decision":"#).unwrap();
    assert_eq!(room.desk.look(&ticket), None);
    let answer = room.desk.wait(&ticket);
    assert!(matches!(answer, Answer::Denied(Denial::Malformed(_))), "{answer:?}");
}

#[test]
fn nobody_answering_in_time_denies() {
    let room = Room::new();
    let desk = Desk::open(&room.directory()).unwrap().waiting(Timeout::new(Duration::from_secs(1)).unwrap());
    let ticket = desk.ask(&question()).unwrap();
    let began = Instant::now();
    assert_eq!(desk.wait(&ticket), Answer::TimedOut);
    assert!(began.elapsed() >= Duration::from_millis(900) && began.elapsed() < Duration::from_secs(5));
    assert_eq!(room.names(), Vec::<String>::new());
    // Too late.
    fs::write(room.response(&ticket), r#"{"decision":"approved"}"#).unwrap();
    assert_eq!(desk.look(&ticket), Some(Answer::TimedOut));
}

#[test]
fn an_answer_wakes_whoever_waits() {
    let room = Room::new();
    assert!(room.desk.wake_fd().is_some());
    let ticket = room.desk.ask(&question()).unwrap();
    room.desk.clear_wake();
    let woken = |patience: i64| {
        let patience = Timespec { tv_sec: patience, tv_nsec: 0 };
        let fd = room.desk.wake_fd().unwrap();
        rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).unwrap() == 1
    };
    assert!(!woken(0));
    let path = room.response(&ticket);
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, r#"{"decision":"denied"}"#).unwrap();
        fs::rename(temporary, path).unwrap();
    });
    assert!(woken(10));
    writer.join().unwrap();
    room.desk.clear_wake();
    assert!(!woken(0));
    assert!(matches!(room.desk.look(&ticket), Some(Answer::Denied(Denial::Person { .. }))));
}

#[test]
fn a_withdrawn_question_leaves_nothing() {
    let room = Room::new();
    let ticket = room.desk.ask(&question()).unwrap();
    fs::write(room.response(&ticket), r#"{"decision":"approved"}"#).unwrap();
    room.desk.withdraw(ticket);
    assert_eq!(room.names(), Vec::<String>::new());
}

#[test]
fn a_flood_of_questions_is_denied_and_its_end_is_forgotten() {
    let room = Room::new();
    let tickets: Vec<_> = (0..MOST_OPEN).map(|_| room.desk.ask(&question()).unwrap()).collect();
    assert!(matches!(room.desk.ask(&question()), Err(AskError::TooMany)));
    drop(tickets);
    assert!(room.desk.ask(&question()).is_ok());
}

#[test]
fn what_a_killed_proxy_left_is_cleared_and_what_a_live_one_asks_stays() {
    let room = Room::new();
    let alive = room.desk.ask(&question()).unwrap();
    let directory = room.directory();
    let mut dead = Request::new(&question(), None, "s0", Duration::from_secs(300)).unwrap();
    dead.asked_by.start_ticks = dead.asked_by.start_ticks.map(|ticks| ticks + 1);
    let id = &dead.escalation_id;
    fs::write(directory.join(id.request_file()), dead.write().unwrap().0).unwrap();
    fs::write(directory.join(id.response_file()), r#"{"decision":"approved"}"#).unwrap();
    let orphan = QuestionId::new();
    fs::write(directory.join(orphan.response_file()), r#"{"decision":"approved"}"#).unwrap();
    fs::write(directory.join(QuestionId::new().request_file()), "garbage").unwrap();
    fs::write(directory.join("user-context.json"), "{}").unwrap();
    Desk::open(&directory).unwrap();
    let mut names = room.names();
    names.sort();
    assert_eq!(names, [alive.id().request_file(), "user-context.json".to_owned()]);
}

#[test]
fn the_words_of_the_person_go_along_when_they_are_fresh() {
    let room = Room::new();
    let context = json!({ "userMessage": "put it into /srv", "timestamp": Timestamp::now().to_string(),
                          "source": "mux-trusted-input" });
    fs::write(room.directory().join("user-context.json"), context.to_string()).unwrap();
    let ticket = room.desk.ask(&question()).unwrap();
    let text = fs::read_to_string(room.directory().join(ticket.id().request_file())).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["context"]["userMessage"], "put it into /srv");
    assert_eq!(value["sessionId"], "s1");
}

#[test]
fn the_time_to_wait_has_bounds() {
    assert!(Timeout::new(Duration::from_millis(999)).is_err());
    assert!(Timeout::new(Duration::from_secs(3601)).is_err());
    assert_eq!(Timeout::new(Duration::from_secs(30)).unwrap().duration(), Duration::from_secs(30));
    assert_eq!(Timeout::default().duration(), Duration::from_secs(300));
}
