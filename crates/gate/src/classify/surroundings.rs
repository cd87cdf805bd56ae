//! Where a call happens: what paths are relative to, what belongs to the session, what is protected. Made once for a
//! server, asked for every call.

use std::path::{Path, PathBuf};

use super::{
    protected::Protected,
    resolve::{PathFault, resolve},
};

/// May the files of repositories be read, to find out where a remote leads?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookups {
    Files,
    /// A remote that is given by its name is then undecidable.
    Nothing,
}

#[derive(Debug, Clone)]
pub struct Surroundings {
    pub(super) session: PathBuf,
    pub(super) working_directory: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) protected: Vec<Protected>,
    pub(super) git_configs: Vec<PathBuf>,
    pub(super) lookups: Lookups,
}

/// A place that cannot be given as surroundings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurroundingsError {
    #[error("`{path}` is not absolute: give the session's places by their whole paths", path = path.display())]
    Relative { path: PathBuf },
    #[error("`{path}` cannot be resolved", path = path.display())]
    Unresolvable {
        path: PathBuf,
        #[source]
        source: PathFault,
    },
}

impl Surroundings {
    /// `session` is the directory that servers may write to, `working_directory` the server's own, where its
    /// relative paths begin.
    pub fn new(session: &Path, working_directory: &Path) -> Result<Self, SurroundingsError> {
        Ok(Surroundings {
            session: real(session)?,
            working_directory: real(working_directory)?,
            home: None,
            protected: Vec::new(),
            git_configs: Vec::new(),
            lookups: Lookups::Files,
        })
    }

    /// What `~` means for the server.
    pub fn with_home(mut self, home: &Path) -> Result<Self, SurroundingsError> {
        self.home = Some(real(home)?);
        Ok(self)
    }

    /// Denies everything at and below `path`, wherever it lies. `what` says in words what is there, as in "the
    /// audit log".
    ///
    /// The session directory stays usable where it lies below a protected place: it is the more particular one.
    pub fn protect(mut self, path: &Path, what: impl Into<String>) -> Result<Self, SurroundingsError> {
        if !path.is_absolute() {
            return Err(SurroundingsError::Relative { path: path.to_owned() });
        }
        let place = Protected::new(path, what.into()).map_err(|source| unresolvable(path, source))?;
        self.protected.push(place);
        Ok(self)
    }

    /// Files of git's configuration that hold besides a repository's own, in git's order: the system's, the user's.
    /// A missing one counts as empty.
    pub fn with_git_configs(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.git_configs = files.into_iter().collect();
        self
    }

    pub fn with_lookups(mut self, lookups: Lookups) -> Self {
        self.lookups = lookups;
        self
    }

    pub fn session(&self) -> &Path {
        &self.session
    }

    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

fn real(path: &Path) -> Result<PathBuf, SurroundingsError> {
    if !path.is_absolute() {
        return Err(SurroundingsError::Relative { path: path.to_owned() });
    }
    resolve(Path::new("/"), path).map(|resolved| resolved.path).map_err(|source| unresolvable(path, source))
}

fn unresolvable(path: &Path, source: PathFault) -> SurroundingsError {
    SurroundingsError::Unresolvable { path: path.to_owned(), source }
}
