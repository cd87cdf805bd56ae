//! The directories of a session: the one that servers may write in, and the one with what is ours: its log, the
//! questions to a person, and what others can read about it. Both are for the owner alone.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use lazaret_gate::escalation::{Presence, Process};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use crate::journal::{self, Journal};

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the session directory {path} cannot be made: {source}")]
    Make { path: PathBuf, source: io::Error },
    #[error("the session directory {path} belongs to another user; choose one of your own")]
    Foreign { path: PathBuf },
    #[error("the session directory {path} is not a directory")]
    NotDirectory { path: PathBuf },
    #[error("the log of the session {path} cannot be opened: {source}")]
    Log { path: PathBuf, source: io::Error },
    #[error("the session directory {path} is in lazaret's own state; choose another one")]
    InState { path: PathBuf },
}

/// Copies are the same session.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: String,
    started: String,
    directory: PathBuf,
    escalations: PathBuf,
    /// Ours.
    internals: PathBuf,
    journal: Arc<Journal>,
    given: Given,
}

/// Who chose the directory?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    ByCaller,
    /// Nobody: it is removed at the end if nothing is in it.
    ByNobody,
}

/// The files in a given directory that are ours.
const ESCALATIONS: &str = "escalations";
const STATUS: &str = "session.json";

impl Session {
    /// `state` is our own directory; `directory` what the caller wants servers to write in.
    pub fn open(
        state: &Path,
        directory: Option<&Path>,
        secrets: impl IntoIterator<Item = String>,
    ) -> Result<Session, SessionError> {
        let id = uuid::Uuid::now_v7().to_string();
        let sessions = state.join("sessions");
        clear(&sessions);
        let internals = sessions.join(&id);
        make(&internals)?;
        let escalations = internals.join(ESCALATIONS);
        let (directory, given) = match directory {
            Some(directory) => {
                // A link that the caller named is followed.
                let directory = &fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
                if directory.starts_with(fs::canonicalize(state).unwrap_or_else(|_| state.to_owned())) {
                    return Err(SessionError::InState { path: directory.clone() });
                }
                make_given(directory)?;
                let directory = fs::canonicalize(directory)
                    .map_err(|source| SessionError::Make { path: directory.to_owned(), source })?;
                // Front ends look for it there. What servers make of the link does not matter here.
                let _ = std::os::unix::fs::symlink(&escalations, directory.join(ESCALATIONS));
                (directory, Given::ByCaller)
            }
            None => {
                let directory = internals.join("sandbox");
                make(&directory)?;
                let real = fs::canonicalize(&directory)
                    .map_err(|source| SessionError::Make { path: directory, source })?;
                (real, Given::ByNobody)
            }
        };
        make(&escalations)?;
        let log = internals.join("session.log");
        let journal =
            Journal::open(&log, secrets).map_err(|source| SessionError::Log { path: log, source })?;
        let started = journal::now();
        let inner =
            Inner { id, started, directory, escalations, internals, journal: Arc::new(journal), given };
        let session = Session { inner: Arc::new(inner) };
        // From the first moment on it can be told whose it was.
        session.write_status(Path::new(""), Vec::new());
        Ok(session)
    }

    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Where servers may write.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    pub fn escalations(&self) -> &Path {
        &self.inner.escalations
    }

    /// Never for servers.
    pub fn internals(&self) -> &Path {
        &self.inner.internals
    }

    pub fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.inner.journal)
    }

    /// For `lazaret mcp status` and `lazaret escalation`.
    pub fn write_status(&self, config: &Path, servers: Vec<Value>) {
        let inner = &self.inner;
        let process = Process::this();
        let status = json!({
            "id": inner.id,
            "pid": process.pid,
            "startTicks": process.start_ticks,
            "pidNamespace": process.pid_namespace,
            "started": inner.started,
            "directory": inner.directory,
            "escalations": inner.escalations,
            "config": config,
            "log": inner.journal.path(),
            "servers": servers,
        });
        let path = inner.internals.join(STATUS);
        let new = inner.internals.join(".session.json.new");
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|file| serde_json::to_writer(file, &status).map_err(io::Error::from))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            inner.journal.note(&format!("{} cannot be written: {error}", path.display()));
        }
    }
}

/// Nothing stays but what servers wrote, and the log when it says anything.
impl Drop for Inner {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.internals.join(STATUS));
        let _ = fs::remove_dir_all(&self.escalations);
        match self.given {
            Given::ByNobody => drop(fs::remove_dir(&self.directory)),
            Given::ByCaller => unlink(&self.directory.join(ESCALATIONS), &self.escalations),
        }
        if fs::metadata(self.journal.path()).is_ok_and(|metadata| metadata.len() == 0) {
            let _ = fs::remove_file(self.journal.path());
        }
        let _ = fs::remove_dir(&self.internals);
    }
}

/// Removes a link of ours, and nothing else.
fn unlink(link: &Path, target: &Path) {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        let _ = fs::remove_file(link);
    }
}

/// A directory for the owner alone.
fn make(path: &Path) -> Result<(), SessionError> {
    let failed = |source| SessionError::Make { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed);
        }
        Err(source) => return Err(failed(source)),
        Ok(_) => {}
    }
    // A link could lead anywhere, and what is changed here must be what was looked at.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let Ok(opened) = opened else { return Err(SessionError::NotDirectory { path: path.to_owned() }) };
    let stat = rustix::fs::fstat(&opened).map_err(|error| failed(error.into()))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(SessionError::Foreign { path: path.to_owned() });
    }
    if stat.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&opened, Mode::RWXU).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

/// A directory that the caller chose. One that is in use keeps its permissions: it may be a project.
fn make_given(path: &Path) -> Result<(), SessionError> {
    let in_use = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    if !in_use {
        return make(path);
    }
    let owner = rustix::process::geteuid().as_raw();
    match fs::metadata(path) {
        Ok(metadata) if metadata.uid() == owner || owner == 0 => Ok(()),
        Ok(_) => Err(SessionError::Foreign { path: path.to_owned() }),
        Err(source) => Err(SessionError::Make { path: path.to_owned(), source }),
    }
}

/// What sessions left whose process was killed: everything but what servers wrote and logs.
fn clear(sessions: &Path) {
    let Ok(entries) = fs::read_dir(sessions) else { return };
    for entry in entries.flatten().take(1000) {
        let internals = entry.path();
        let Ok(text) = fs::read(internals.join(STATUS)) else { continue };
        let status: Value = serde_json::from_slice(&text).unwrap_or_default();
        let process = serde_json::from_value::<Process>(status.clone());
        if !process.is_ok_and(|process| process.presence() == Presence::Gone) {
            continue;
        }
        let escalations = internals.join(ESCALATIONS);
        let _ = fs::remove_dir_all(&escalations);
        if let Some(directory) = status.get("directory").and_then(Value::as_str) {
            unlink(&Path::new(directory).join(ESCALATIONS), &escalations);
        }
        let _ = fs::remove_file(internals.join(STATUS));
        let _ = fs::remove_dir(internals.join("sandbox"));
        let log = internals.join("session.log");
        if fs::metadata(&log).is_ok_and(|metadata| metadata.len() == 0) {
            let _ = fs::remove_file(log);
        }
        let _ = fs::remove_dir(&internals);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            let path = std::env::temp_dir().join(format!("lazaret-session-{}", uuid::Uuid::now_v7()));
            fs::create_dir(&path).unwrap();
            Place(path)
        }

        fn open(&self, directory: Option<&Path>) -> Result<Session, SessionError> {
            Session::open(&self.0.join("state"), directory, [])
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_session_of_its_own_is_for_the_owner_alone_and_leaves_nothing() {
        let place = Place::new();
        let session = place.open(None).unwrap();
        for directory in [session.directory(), session.escalations(), session.internals()] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        let internals = session.internals().to_owned();
        drop(session);
        assert!(!internals.exists());
    }

    #[test]
    fn what_servers_wrote_stays() {
        let place = Place::new();
        let session = place.open(None).unwrap();
        let file = session.directory().join("result");
        fs::write(&file, "x").unwrap();
        drop(session);
        assert!(file.exists());
    }

    #[test]
    fn a_given_directory_keeps_what_is_in_it_and_its_permissions() {
        let place = Place::new();
        let project = place.0.join("project");
        fs::create_dir_all(project.join("escalations")).unwrap();
        fs::write(project.join("escalations/mine"), "x").unwrap();
        fs::set_permissions(&project, fs::Permissions::from_mode(0o755)).unwrap();
        drop(place.open(Some(&project)).unwrap());
        assert!(project.join("escalations/mine").exists());
        assert_eq!(mode(&project), 0o755);
    }

    #[test]
    fn sessions_on_one_directory_do_not_take_each_others_questions() {
        let place = Place::new();
        let project = place.0.join("project");
        let (first, second) = (place.open(Some(&project)).unwrap(), place.open(Some(&project)).unwrap());
        assert_eq!(mode(&project), 0o700);
        let link = project.join("escalations");
        assert_eq!(fs::read_link(&link).unwrap(), first.escalations());
        drop(second);
        assert!(link.exists() && first.escalations().exists());
        drop(first);
        assert!(fs::symlink_metadata(&link).is_err());
    }

    #[test]
    fn our_own_state_is_no_session_directory_and_a_planted_link_is_not_followed() {
        let place = Place::new();
        drop(place.open(None).unwrap());
        let within = place.0.join("state/sessions");
        assert!(matches!(place.open(Some(&within)), Err(SessionError::InState { .. })));
        let (victim, planted) = (place.0.join("victim"), place.0.join("planted"));
        fs::create_dir(&victim).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&victim, &planted).unwrap();
        assert!(matches!(make(&planted), Err(SessionError::NotDirectory { .. })));
        assert_eq!(mode(&victim), 0o755);
    }

    #[test]
    fn what_a_killed_session_left_is_cleared_by_the_next() {
        let place = Place::new();
        let session = place.open(None).unwrap();
        let internals = session.internals().to_owned();
        let mut status: Value = serde_json::from_slice(&fs::read(internals.join(STATUS)).unwrap()).unwrap();
        // As if another process had made it that is gone.
        status["startTicks"] = json!(1);
        fs::write(internals.join(STATUS), status.to_string()).unwrap();
        std::mem::forget(session);
        drop(place.open(None).unwrap());
        assert!(!internals.exists());
    }
}
