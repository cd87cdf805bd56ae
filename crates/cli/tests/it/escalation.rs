//! Questions and answers: a desk in this process asks as a proxy does, the program answers.

mod answers;
mod forgery;
mod watching;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    thread,
    time::Duration,
};

use lazaret_gate::{
    Access, Facts, PathFact, Place, Rule,
    escalation::{Answer, Candidate, Desk, Process, Question, Ticket, Timeout},
};
use rustix::process::{Gid, Uid};
use serde_json::{Value, json};

use crate::case::{Case, OTHER, Who};

/// Does something as the user of the case: identities belong to threads, as far as the kernel is concerned.
fn as_user<T: Send>(who: Who, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            if who == Who::Other {
                let (gid, uid) = (Gid::from_raw(OTHER), Uid::from_raw(OTHER));
                rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            }
            act()
        });
        done.join().unwrap()
    })
}

/// A session that asks.
struct Proxy<'a> {
    case: &'a Case,
    id: String,
    desk: Desk,
}

impl<'a> Proxy<'a> {
    fn start(case: &'a Case) -> Proxy<'a> {
        Proxy::named(case, "01a1df50-caee-757e-88f8-a8e0a279a0a7")
    }

    fn named(case: &'a Case, id: &str) -> Proxy<'a> {
        let internals = case.state.join("lazaret/sessions").join(id);
        let desk = as_user(case.who, || {
            fs::create_dir_all(internals.join("sandbox")).unwrap();
            for private in [case.state.join("lazaret"), internals.clone()] {
                fs::set_permissions(private, Permissions::from_mode(0o700)).unwrap();
            }
            let escalations = internals.join("escalations");
            let process = Process::this();
            let session = json!({ "id": id, "pid": process.pid, "startTicks": process.start_ticks,
                "started": "2026-01-01T00:00:00Z", "directory": internals.join("sandbox"),
                "escalations": escalations, "config": "/c.json", "log": "/l", "servers": [] });
            fs::write(internals.join("session.json"), session.to_string()).unwrap();
            Desk::open(&escalations).unwrap().for_session(id)
        });
        Proxy { case, id: id.to_owned(), desk }
    }

    fn waiting(self, seconds: u64) -> Proxy<'a> {
        let timeout = Timeout::new(Duration::from_secs(seconds)).unwrap();
        Proxy { desk: self.desk.waiting(timeout), ..self }
    }

    fn directory(&self) -> PathBuf {
        self.case.state.join("lazaret/sessions").join(&self.id).join("escalations")
    }

    fn ask(&self, question: &Question) -> Ticket {
        as_user(self.case.who, || self.desk.ask(question).unwrap())
    }

    /// What comes of a question while something is done about it.
    fn answered<T>(&self, ticket: &Ticket, act: impl FnOnce() -> T) -> (T, Answer) {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| as_user(self.case.who, || self.desk.wait(ticket)));
            (act(), waiting.join().unwrap())
        })
    }

    fn response(&self, ticket: &Ticket) -> PathBuf {
        self.directory().join(format!("response-{}.json", ticket.id()))
    }

    /// The names that lie in its directory.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn question() -> Question {
    Question {
        server: "files".into(),
        tool: "write_file".into(),
        shown_arguments: json!({ "path": "../data/a.txt", "content": "hello" }),
        reason: "writing outside of the session directory".into(),
        rule: Rule("escalate-outside".into()),
        facts: Facts {
            paths: vec![PathFact {
                argument: "/path".into(),
                given: "../data/a.txt".into(),
                resolved: "/srv/data/a.txt".into(),
                place: Place::Outside,
                protected: None,
                access: Access::Write,
            }],
            hosts: vec![],
        },
        candidates: vec![Candidate {
            description: "files/write_file: writing in /srv/data and below".into(),
        }],
    }
}

/// A call that was written to fool whoever looks at it.
fn trick() -> Question {
    let hostile = "/srv/\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}txt.exe\u{200b}\r\nApproved";
    Question {
        server: "fi\u{1b}[31mles".into(),
        tool: "re\u{202e}ad".into(),
        shown_arguments: json!({ "path": hostile, "k\u{2066}ey": [hostile, " ".repeat(500)] }),
        reason: hostile.into(),
        rule: Rule(hostile.into()),
        candidates: vec![Candidate { description: hostile.into() }],
        facts: Facts {
            paths: vec![PathFact {
                argument: hostile.into(),
                given: hostile.into(),
                resolved: hostile.into(),
                place: Place::Outside,
                protected: None,
                access: Access::Read,
            }],
            hosts: vec![],
        },
    }
}

/// Nothing that a terminal would obey, or that a person would not see.
#[track_caller]
fn assert_harmless(text: &str) {
    let hidden: Vec<char> =
        text.chars().filter(|c| *c != '\n' && lazaret_gate::escalation::is_hidden(*c)).collect();
    assert!(hidden.is_empty(), "{hidden:?} in {text:?}");
}

fn ids(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|one| one["escalationId"].as_str().unwrap().to_owned()).collect()
}
