use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

use super::*;
use crate::{
    Facts, Rule,
    escalation::{
        Answer, Candidate, Desk, Process, Question, Survey, Ticket, find, open_questions, place::Place,
    },
};

/// A session with a desk, as a proxy makes it.
struct Room {
    place: Place,
    desk: Desk,
}

impl Room {
    fn new() -> Room {
        let place = Place::new();
        let internals = place.join("sessions/s1");
        fs::create_dir_all(&internals).unwrap();
        fs::set_permissions(&internals, Permissions::from_mode(0o700)).unwrap();
        let desk = Desk::open(&internals.join("escalations")).unwrap().for_session("s1");
        let room = Room { place, desk };
        room.describe(Process::this());
        room
    }

    fn internals(&self) -> PathBuf {
        self.place.join("sessions/s1")
    }

    fn describe(&self, process: Process) {
        let session = json!({ "id": "s1", "pid": process.pid, "startTicks": process.start_ticks,
            "directory": self.internals().join("sandbox"), "escalations": self.internals().join("escalations"),
            "servers": [] });
        fs::write(self.internals().join("session.json"), session.to_string()).unwrap();
    }

    fn ask(&self, candidates: usize) -> Ticket {
        let question = Question {
            server: "files".into(),
            tool: "write_file".into(),
            shown_arguments: json!({}),
            reason: "outside".into(),
            rule: Rule("ask".into()),
            facts: Facts::default(),
            candidates: vec![Candidate { description: "writing".into() }; candidates],
        };
        self.desk.ask(&question).unwrap()
    }

    fn survey(&self) -> Survey {
        open_questions(&self.place.join("sessions")).unwrap()
    }

    fn open(&self, ticket: &Ticket) -> Open {
        find(&self.survey().questions, ticket.id().as_str()).unwrap().clone()
    }
}

fn once() -> Reply {
    Reply::Approve { breadth: Breadth::Once, note: None }
}

/// Answers while the desk waits.
fn exchange(room: &Room, ticket: &Ticket, reply: Reply) -> (Result<Delivery, ReplyError>, Answer) {
    let open = room.open(ticket);
    let person = thread::spawn(move || answer(&open, &reply));
    let answer = room.desk.wait(ticket);
    (person.join().unwrap(), answer)
}

#[test]
fn an_answer_reaches_the_desk() {
    let room = Room::new();
    let ticket = room.ask(1);
    let (delivery, answer) = exchange(&room, &ticket, once());
    assert_eq!(delivery.unwrap(), Delivery::Taken);
    let Answer::Approved(approval) = answer else { panic!("{answer:?}") };
    assert_eq!(approval.breadth, Breadth::Once);
    assert_eq!(approval.by, Some(format!("uid {}", rustix::process::geteuid().as_raw())));

    let ticket = room.ask(2);
    let breadth = Breadth::Session { candidate: 1 };
    let (_, answer) = exchange(&room, &ticket, Reply::Approve { breadth, note: Some("fine".into()) });
    assert!(matches!(answer, Answer::Approved(approval) if approval.breadth == breadth));

    let ticket = room.ask(1);
    let (_, answer) = exchange(&room, &ticket, Reply::Deny { note: Some("not there".into()) });
    let Answer::Denied(why) = answer else { panic!("{answer:?}") };
    assert_eq!(why.to_string(), "a person denied it: not there");
}

#[test]
fn nothing_is_answered_twice_or_when_it_is_gone() {
    let room = Room::new();
    let ticket = room.ask(1);
    let open = room.open(&ticket);
    assert_eq!(answer(&open, &once()).unwrap(), Delivery::NotYetTaken);
    let again = answer(&open, &Reply::Deny { note: None }).unwrap_err();
    assert!(matches!(again, ReplyError::AnsweredAlready) && again.is_too_late(), "{again}");
    assert!(room.survey().questions.is_empty(), "what is answered does not wait");
    assert!(matches!(room.desk.look(&ticket), Some(Answer::Approved(_))));
    assert!(matches!(answer(&open, &once()), Err(ReplyError::Gone)));

    let ticket = room.ask(1);
    let open = room.open(&ticket);
    room.desk.withdraw(ticket);
    assert!(matches!(answer(&open, &once()), Err(ReplyError::Gone)));
    fs::remove_dir_all(room.internals().join("escalations")).unwrap();
    assert!(matches!(answer(&open, &once()), Err(ReplyError::Gone)));
}

#[test]
fn what_was_not_offered_cannot_be_approved() {
    let room = Room::new();
    let (none, one) = (room.ask(0), room.ask(1));
    let session = |candidate| Reply::Approve { breadth: Breadth::Session { candidate }, note: None };
    assert!(matches!(answer(&room.open(&none), &session(0)), Err(ReplyError::NotForTheSession)));
    assert!(matches!(answer(&room.open(&one), &session(1)), Err(ReplyError::NoSuchCandidate(1))));
    assert_eq!(room.survey().questions.len(), 2);
}

#[test]
fn somebody_elses_session_is_not_answered() {
    let room = Room::new();
    let ticket = room.ask(1);
    let mut open = room.open(&ticket);
    open.session.owner += 1;
    assert!(matches!(answer(&open, &once()), Err(ReplyError::NotYours { .. })));
    assert_eq!(room.desk.look(&ticket), None);
}

#[test]
fn a_question_that_was_changed_is_left_out_and_told() {
    let room = Room::new();
    let ticket = room.ask(1);
    let open = room.open(&ticket);
    let path = room.internals().join("escalations").join(format!("request-{}.json", ticket.id()));
    let text = fs::read_to_string(&path).unwrap().replace("write_file", "read_file");
    fs::write(&path, text).unwrap();
    let survey = room.survey();
    assert!(survey.questions.is_empty());
    assert!(survey.troubles[0].to_string().contains("changed after it was asked"), "{:?}", survey.troubles);
    assert!(answer(&open, &once()).is_err());
}

#[test]
fn sessions_that_ended_are_passed_over_and_odd_ones_are_told() {
    let room = Room::new();
    let ticket = room.ask(1);
    assert_eq!(room.survey().questions.len(), 1);
    let this = Process::this();
    room.describe(Process { start_ticks: this.start_ticks.map(|ticks| ticks + 1), ..this });
    let survey = room.survey();
    assert!(survey.questions.is_empty() && survey.troubles.is_empty(), "{survey:?}");
    fs::write(room.internals().join("session.json"), "{\"id\":").unwrap();
    assert!(matches!(room.survey().troubles[0], Trouble::Session { .. }));
    room.describe(this);
    fs::set_permissions(room.internals(), Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(room.survey().troubles[0], Trouble::Directory { .. }));
    assert!(open_questions(&room.place.join("nothing")).unwrap().questions.is_empty());
    drop(ticket);
}

#[test]
fn the_beginning_of_an_id_is_enough_when_it_is_the_only_one() {
    let room = Room::new();
    let tickets: Vec<_> = (0..20).map(|_| room.ask(0)).collect();
    let questions = room.survey().questions;
    assert_eq!(questions.len(), 20);
    for ticket in &tickets {
        let short = ticket.id().as_str().get(..13).unwrap().to_uppercase();
        assert_eq!(find(&questions, &short).unwrap().request.escalation_id, *ticket.id());
    }
    assert!(find(&questions, "").is_err());
    // Twenty ids cannot have twenty different first digits.
    let first = |id: &str| id.chars().next().unwrap();
    let shared = questions.iter().map(|open| first(open.request.escalation_id.as_str())).find(|digit| {
        questions.iter().filter(|open| first(open.request.escalation_id.as_str()) == *digit).count() > 1
    });
    let shared = shared.unwrap().to_string();
    assert_eq!(find(&questions, &shared).unwrap_err(), super::super::FindError::Several(shared));
}
