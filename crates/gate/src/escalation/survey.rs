//! What is being asked at this moment, by all sessions of a user: for those who answer.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;

use super::{
    directory::{DirectoryError, FileTrouble, PrivateDirectory},
    presence::{Presence, Process},
    request::{self, QuestionId, ReadError, Request},
    strict,
};

const MOST_OF_A_SESSION: u64 = 1 << 20;

/// A session that runs, as its `session.json` tells.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub id: String,
    #[serde(flatten)]
    pub process: Process,
    #[serde(default)]
    pub started: Option<String>,
    /// The session directory: where its servers work.
    pub directory: PathBuf,
    /// Where its questions lie.
    pub escalations: PathBuf,
    /// The user that it belongs to.
    #[serde(skip)]
    pub owner: u32,
}

/// A question that waits for an answer.
#[derive(Debug, Clone)]
pub struct Open {
    pub session: Session,
    pub request: Request,
    /// What an answer is bound to.
    pub digest: String,
}

/// Everything that was found, and what could not be looked at.
#[derive(Debug, Default)]
pub struct Survey {
    pub sessions: Vec<Session>,
    /// The oldest first.
    pub questions: Vec<Open>,
    pub troubles: Vec<Trouble>,
}

/// Something that is left out, and why.
#[derive(Debug, Error)]
pub enum Trouble {
    #[error("{path} is left out: {source}")]
    Directory { path: PathBuf, source: DirectoryError },
    #[error("{path} is left out: {source}")]
    File { path: PathBuf, source: FileTrouble },
    #[error("{path} is left out: it does not describe a session: {source}")]
    Session { path: PathBuf, source: serde_json::Error },
    #[error("the question {path} is left out: {source}")]
    Question { path: PathBuf, source: ReadError },
}

#[derive(Debug, Error)]
pub enum SurveyError {
    #[error(
        "the sessions in {path} belong to uid {owner}: only that user can see and answer their questions"
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error("the sessions in {path} cannot be read: {source}")]
    Read { path: PathBuf, source: io::Error },
}

/// Looks at every session below `$XDG_STATE_HOME/lazaret/sessions`.
pub fn open_questions(sessions: &Path) -> Result<Survey, SurveyError> {
    let mut survey = Survey::default();
    let entries = match fs::read_dir(sessions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(survey),
        Err(error) => return Err(unreadable(sessions, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(sessions, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            survey.visit(&entry.path());
        }
    }
    survey.sessions.sort_by(|a, b| a.id.cmp(&b.id));
    survey.questions.sort_by(|a, b| {
        let key = |open: &Open| (open.request.created_at, open.request.escalation_id.clone());
        key(a).cmp(&key(b))
    });
    Ok(survey)
}

fn unreadable(path: &Path, source: io::Error) -> SurveyError {
    let us = rustix::process::geteuid().as_raw();
    if source.kind() == io::ErrorKind::PermissionDenied {
        // The highest directory that is somebody else's own, if it is that which keeps us out.
        for above in path.ancestors() {
            if let Ok(found) = fs::metadata(above)
                && found.uid() != us
                && found.mode() & 0o005 != 0o005
            {
                return SurveyError::Foreign { path: path.to_owned(), owner: found.uid() };
            }
        }
    }
    SurveyError::Read { path: path.to_owned(), source }
}

impl Survey {
    fn visit(&mut self, path: &Path) {
        match read_session(path) {
            Ok(Some(session)) => {
                self.read_questions(&session);
                self.sessions.push(session);
            }
            // It ended, or has not quite begun.
            Ok(None) => {}
            Err(trouble) => self.troubles.push(trouble),
        }
    }

    fn read_questions(&mut self, session: &Session) {
        let path = &session.escalations;
        let listed = PrivateDirectory::open(path).and_then(|directory| Ok((directory.names()?, directory)));
        let (names, directory) = match listed {
            Ok(listed) => listed,
            // The session made it, and removes it at its end.
            Err(DirectoryError::Open { source: rustix::io::Errno::NOENT, .. }) => return,
            Err(source) => return self.troubles.push(Trouble::Directory { path: path.clone(), source }),
        };
        if directory.owner() != session.owner {
            let source = DirectoryError::Foreign { path: path.clone(), owner: directory.owner() };
            return self.troubles.push(Trouble::Directory { path: path.clone(), source });
        }
        for id in names.iter().filter_map(|name| QuestionId::of_file(name, "request-")) {
            match read_question(&directory, &id) {
                // The directory may be shared with another session, which is found by itself.
                Ok(Some((request, _)))
                    if !request.session_id.is_empty() && request.session_id != session.id => {}
                Ok(Some((request, digest))) => {
                    self.questions.push(Open { session: session.clone(), request, digest });
                }
                Ok(None) => {}
                Err(trouble) => self.troubles.push(trouble),
            }
        }
    }
}

/// `None` for one that does not run any more.
fn read_session(path: &Path) -> Result<Option<Session>, Trouble> {
    let directory = PrivateDirectory::open(path)
        .map_err(|source| Trouble::Directory { path: path.to_owned(), source })?;
    let file = path.join("session.json");
    let read = match directory.read("session.json", MOST_OF_A_SESSION) {
        Ok(read) => read,
        Err(FileTrouble::Missing) => return Ok(None),
        Err(source) => return Err(Trouble::File { path: file, source }),
    };
    let session = strict::read(&read.bytes).and_then(serde_json::from_value::<Session>);
    let session = session.map_err(|source| Trouble::Session { path: file, source })?;
    if session.process.presence() == Presence::Gone {
        return Ok(None);
    }
    Ok(Some(Session { owner: directory.owner(), ..session }))
}

/// `None` when nobody waits for its answer any more.
pub fn read_question(
    directory: &PrivateDirectory,
    id: &QuestionId,
) -> Result<Option<(Request, String)>, Trouble> {
    let path = || directory.path().join(id.request_file());
    let read = match directory.read(&id.request_file(), request::MOST) {
        Ok(read) => read,
        Err(FileTrouble::Missing) => return Ok(None),
        Err(source) => return Err(Trouble::File { path: path(), source }),
    };
    let (request, digest) =
        Request::read(&read.bytes, id).map_err(|source| Trouble::Question { path: path(), source })?;
    let waits = !request.is_expired()
        && request.asked_by.presence() != Presence::Gone
        && !directory.has(&id.response_file());
    Ok(waits.then_some((request, digest)))
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FindError {
    #[error(
        "no question with the id {0} waits for an answer: it was answered, withdrawn or has expired, or it is in another user's session"
    )]
    None(String),
    #[error("several questions have an id that begins with {0}: give more of it")]
    Several(String),
}

/// The question that is meant by an id or the beginning of one.
pub fn find<'a>(questions: &'a [Open], id: &str) -> Result<&'a Open, FindError> {
    let wanted = id.to_ascii_lowercase();
    let mut found = questions
        .iter()
        .filter(|open| !wanted.is_empty() && open.request.escalation_id.as_str().starts_with(&wanted));
    match (found.next(), found.next()) {
        (Some(open), None) => Ok(open),
        (None, _) => Err(FindError::None(id.to_owned())),
        (Some(_), Some(_)) => Err(FindError::Several(id.to_owned())),
    }
}
