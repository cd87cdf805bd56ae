//! Giving an answer: the file that the desk looks for, bound to what was shown.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use serde_json::json;
use thiserror::Error;

use super::{
    directory::{DirectoryError, PrivateDirectory},
    response::Breadth,
    survey::{Open, Trouble, read_question},
};

/// How long the desk has to take an answer, before that is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Approve { breadth: Breadth, note: Option<String> },
    Deny { note: Option<String> },
}

/// What is known of an answer that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was taken.
    Taken,
    /// It lies there. The session does not seem to look.
    NotYetTaken,
}

#[derive(Debug, Error)]
pub enum ReplyError {
    #[error("the session belongs to uid {owner}: only that user can answer its questions")]
    NotYours { owner: u32 },
    #[error("the question is gone: it was withdrawn, or its session ended")]
    Gone,
    #[error("the question has expired: its call was denied")]
    Expired,
    #[error("the question was answered already")]
    AnsweredAlready,
    #[error("the question is not the one that was shown: look at it again")]
    Changed,
    #[error("this call can be approved once, not for the session")]
    NotForTheSession,
    #[error("there are only {0} ways to approve this call for the session")]
    NoSuchCandidate(usize),
    #[error(transparent)]
    Directory(DirectoryError),
    #[error(transparent)]
    Unreadable(Trouble),
    #[error("the answer cannot be written to {directory}: {source}")]
    Write { directory: String, source: Errno },
}

impl ReplyError {
    /// The question is not there to be answered, and everything else is in order.
    pub fn is_too_late(&self) -> bool {
        matches!(
            self,
            ReplyError::Gone | ReplyError::Expired | ReplyError::AnsweredAlready | ReplyError::Changed
        )
    }
}

/// Answers a question, and waits a moment for the answer to be taken.
pub fn answer(open: &Open, reply: &Reply) -> Result<Delivery, ReplyError> {
    let us = rustix::process::geteuid();
    if us.as_raw() != open.session.owner && !us.is_root() {
        return Err(ReplyError::NotYours { owner: open.session.owner });
    }
    let text = write(open, reply, us.as_raw())?;
    let directory = PrivateDirectory::open(&open.session.escalations).map_err(|error| match error {
        DirectoryError::Open { source: Errno::NOENT, .. } => ReplyError::Gone,
        other => ReplyError::Directory(other),
    })?;
    if directory.owner() != open.session.owner {
        return Err(ReplyError::NotYours { owner: directory.owner() });
    }
    let id = &open.request.escalation_id;
    if open.request.is_expired() {
        return Err(ReplyError::Expired);
    }
    match read_question(&directory, id).map_err(ReplyError::Unreadable)? {
        Some((_, digest)) if digest == open.digest => {}
        Some(_) => return Err(ReplyError::Changed),
        None if directory.has(&id.response_file()) => return Err(ReplyError::AnsweredAlready),
        None => return Err(ReplyError::Gone),
    }
    directory.put_new(&id.response_file(), text.as_bytes()).map_err(|source| match source {
        Errno::EXIST => ReplyError::AnsweredAlready,
        source => ReplyError::Write { directory: directory.path().display().to_string(), source },
    })?;
    delivered(open, &directory)
}

/// The desk removes the question, then the answer. An answer that stays behind without its question came too late.
fn delivered(open: &Open, directory: &PrivateDirectory) -> Result<Delivery, ReplyError> {
    let id = &open.request.escalation_id;
    let end = Instant::now() + PATIENCE;
    loop {
        let (asked, answered) = (directory.has(&id.request_file()), directory.has(&id.response_file()));
        match (asked, answered) {
            (_, false) => return Ok(Delivery::Taken),
            _ if Instant::now() < end => thread::sleep(Duration::from_millis(2)),
            (true, true) => return Ok(Delivery::NotYetTaken),
            (false, true) => {
                directory.remove(&id.response_file());
                return Err(ReplyError::Gone);
            }
        }
    }
}

fn write(open: &Open, reply: &Reply, uid: u32) -> Result<String, ReplyError> {
    let candidates = open.request.whitelist_candidates.len();
    let mut response = match reply {
        Reply::Deny { .. } => json!({ "decision": "denied" }),
        Reply::Approve { breadth: Breadth::Once, .. } => json!({ "decision": "approved", "scope": "once" }),
        Reply::Approve { breadth: Breadth::Session { .. }, .. } if candidates == 0 => {
            return Err(ReplyError::NotForTheSession);
        }
        Reply::Approve { breadth: Breadth::Session { candidate }, .. } if *candidate >= candidates => {
            return Err(ReplyError::NoSuchCandidate(candidates));
        }
        Reply::Approve { breadth: Breadth::Session { candidate }, .. } => {
            json!({ "decision": "approved", "scope": "session", "whitelistSelection": candidate })
        }
    };
    let (Reply::Approve { note, .. } | Reply::Deny { note }) = reply;
    if let Some(members) = response.as_object_mut() {
        members.insert("digest".to_owned(), json!(open.digest));
        members.insert("answeredBy".to_owned(), json!(format!("uid {uid}")));
        if let Some(note) = note {
            members.insert("note".to_owned(), json!(note));
        }
    }
    Ok(format!("{response}\n"))
}

#[cfg(test)]
mod tests;
