//! What a server may do, from what the file says of it: TB0's resolution first, then a policy for the sandbox.
//!
//! Nothing here starts anything. What a server is started with (its variables, its program) is in
//! [`environment`] and [`program`], what is said when there can be no sandbox in [`availability`].

pub mod availability;
mod closed;
pub mod environment;
mod lowering;
pub mod program;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    schema::{ParentProxy, ResourcePolicy},
};

pub use availability::Availability;
pub use lowering::{Lowered, Own, Start, lower};

use crate::config::{Custom, Defaults, Domains, Local, Network, Sandbox, SandboxPolicy};

/// Where a server lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The session directory: absolute. The server starts there and may write there.
    pub session: PathBuf,
    pub home: Option<PathBuf>,
    /// Where the caller's programs keep their configuration, when that is not `~/.config`.
    pub config_home: Option<PathBuf>,
    /// The proxy of the host's own network, through which allowed hosts are reached.
    pub parent_proxy: Option<ParentProxy>,
}

impl Place {
    /// The rest as the proxy's own variables tell.
    pub fn new(session: PathBuf, environment: &BTreeMap<OsString, OsString>) -> Place {
        let path = |name: &str| {
            environment.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        Place {
            session,
            home: path("HOME"),
            config_home: path("XDG_CONFIG_HOME"),
            parent_proxy: environment::parent_proxy(environment),
        }
    }
}

/// How a server is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Containment {
    Sandboxed(Box<Params>),
    Open(Reason),
}

/// Why a server runs without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its entry says so.
    OptOut,
    /// There is none to be had, and the file says to go on.
    PlatformUnavailable,
}

impl Reason {
    /// TB0's word for it.
    pub fn code(self) -> &'static str {
        match self {
            Reason::OptOut => "opt-out",
            Reason::PlatformUnavailable => "platform-unavailable",
        }
    }
}

/// What the sandbox allows and closes. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params {
    /// The session directory first.
    pub allow_write: Vec<PathBuf>,
    /// What was listed, then the defaults.
    pub deny_read: Vec<PathBuf>,
    pub deny_write: Vec<PathBuf>,
    pub allow_read: Vec<PathBuf>,
    pub network: Reach,
    pub resources: ResourcePolicy,
    pub max_processes: Option<u64>,
}

/// What can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reach {
    #[default]
    Off,
    Domains(Domains),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainmentError {
    /// TB0's words.
    #[error(
        "[sandbox] Server requires sandboxing but platform is unavailable and sandboxPolicy is \"enforce\"."
    )]
    Unavailable,
    #[error("sandbox.filesystem.{field}: {fault}")]
    Path { field: &'static str, fault: PathFault },
    #[error("sandbox.filesystem.{field}: `{entry}` is a pattern, and {why}", entry = entry.display())]
    Pattern { field: &'static str, entry: PathBuf, why: &'static str },
    #[error(
        "sandbox.filesystem.allowWrite: {path} is too much: list the directories that the server has to write",
        path = .0.display()
    )]
    TooWide(PathBuf),
    #[error(
        "sandbox.filesystem.{field}: {path} is lazaret's own, and no server may have it: take it out",
        path = path.display()
    )]
    Own { field: &'static str, path: PathBuf },
    #[error(
        "the session directory {session} cannot be used: {why}. Give another one with --session",
        session = session.display()
    )]
    Session { session: PathBuf, why: String },
    #[error("sandbox.filesystem.denyRead hides the server's own program {program}: add it, and what it needs, to \
             allowRead", program = .0.display())]
    ProgramHidden(PathBuf),
    #[error(transparent)]
    Rule(#[from] lazaret_policy::network::RuleError),
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("`{0}` is in the home directory, and there is none: set HOME")]
    NoHome(String),
    #[error("`{0}` begins with the name of a user, which is not looked up: write the whole path")]
    User(String),
    #[error("a path is empty")]
    Empty,
    #[error("a path contains a NUL byte")]
    Nul,
}

/// A path as it was written, without `~`, `.` and `..`; relative ones are below `directory`. A `/**` at the end
/// says nothing.
pub fn absolute(text: &str, directory: &Path, home: Option<&Path>) -> Result<PathBuf, PathFault> {
    let mut text = text;
    while let Some(rest) = text.strip_suffix("/**").or_else(|| text.strip_suffix("/**/")) {
        text = if rest.is_empty() { "/" } else { rest };
    }
    let path = match (text.strip_prefix('~'), home) {
        _ if text.trim().is_empty() => return Err(PathFault::Empty),
        _ if text.contains('\0') => return Err(PathFault::Nul),
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        (Some(rest), None) if rest.is_empty() || rest.starts_with('/') => {
            return Err(PathFault::NoHome(text.to_owned()));
        }
        (Some(_), _) => return Err(PathFault::User(text.to_owned())),
        (None, _) => directory.join(text),
    };
    Ok(normal(&path))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            _ => {}
        }
    }
    normal
}

/// What all servers of a session have in common.
#[derive(Debug, Clone)]
pub struct Common {
    pub place: Place,
    pub own: Own,
    pub availability: Availability,
    pub policy: SandboxPolicy,
    /// The proxy's own variables.
    pub environment: BTreeMap<OsString, OsString>,
    /// The directory of the file, where relative paths of commands begin.
    pub base: PathBuf,
}

/// A server, ready to be started.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub boundary: Boundary,
    pub program: program::Program,
    /// Values may be secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What a server runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Boundary {
    Sandbox(Box<Policy>),
    Open(Reason),
}

/// Why a server cannot be started. The others can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Containment(#[from] ContainmentError),
    #[error(transparent)]
    Program(#[from] program::ProgramError),
}

impl Common {
    /// From an entry of the file to what is started.
    pub fn prepare(&self, server: &Local) -> Result<Prepared, PrepareError> {
        let containment = resolve(server, &self.place, &self.availability, self.policy)?;
        let plain = environment::environment(server, &self.environment);
        let program = program::find(server, &self.base, &self.place, &plain)?;
        let mut notes: Vec<String> = environment::note(server).map(str::to_owned).into_iter().collect();
        let params = match containment {
            Containment::Open(reason) => {
                let mut program = program;
                // What sandboxed servers can write is no place to start in without a sandbox.
                if server.directory.is_none() {
                    program.directory.clone_from(&self.base);
                }
                return Ok(Prepared { boundary: Boundary::Open(reason), program, environment: plain, notes });
            }
            Containment::Sandboxed(params) => params,
        };
        let environment = environment::in_sandbox(plain, &params, &self.place, server);
        let start = Start { server, program: &program.program, environment: &environment };
        let lowered = lower(&params, &self.place, &self.own, start)?;
        notes.extend(lowered.notes);
        Ok(Prepared { boundary: Boundary::Sandbox(Box::new(lowered.policy)), program, environment, notes })
    }
}

/// TB0's table: what the entry says, whether there can be a sandbox, and what to do when there can be none.
pub fn resolve(
    server: &Local,
    place: &Place,
    availability: &Availability,
    policy: SandboxPolicy,
) -> Result<Containment, ContainmentError> {
    let custom = match &server.sandbox {
        Sandbox::OptOut => return Ok(Containment::Open(Reason::OptOut)),
        Sandbox::Restrictive => Custom::default(),
        Sandbox::Custom(custom) => (**custom).clone(),
    };
    match (availability, policy) {
        (Availability::Available, _) => {}
        (_, SandboxPolicy::Enforce) => return Err(ContainmentError::Unavailable),
        (_, SandboxPolicy::Warn) => return Ok(Containment::Open(Reason::PlatformUnavailable)),
    }
    params(&custom, place).map(|params| Containment::Sandboxed(Box::new(params)))
}

fn params(custom: &Custom, place: &Place) -> Result<Params, ContainmentError> {
    let filesystem = &custom.filesystem;
    let paths = |field: &'static str, entries: &[String]| -> Result<Vec<PathBuf>, ContainmentError> {
        let mut paths = Vec::with_capacity(entries.len());
        for entry in entries {
            let path = absolute(entry, &place.session, place.home.as_deref())
                .map_err(|fault| ContainmentError::Path { field, fault })?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(paths)
    };
    let mut allow_write = vec![place.session.clone()];
    allow_write.extend(paths("allowWrite", &filesystem.allow_write)?);
    let allow_read = paths("allowRead", &filesystem.allow_read)?;
    let mut deny_read = paths("denyRead", &filesystem.deny_read)?;
    if filesystem.defaults == Defaults::Kept {
        // What is listed by its very name as readable was meant; what was denied by hand stays denied.
        let defaults = closed::defaults(place).into_iter().filter(|path| !allow_read.contains(path));
        deny_read.extend(defaults);
    }
    let mut seen = std::collections::HashSet::new();
    deny_read.retain(|path| seen.insert(path.clone()));
    Ok(Params {
        allow_write,
        deny_read,
        deny_write: paths("denyWrite", &filesystem.deny_write)?,
        allow_read,
        network: match &custom.network {
            Network::Domains(domains) if !domains.allowed.is_empty() => Reach::Domains(domains.clone()),
            _ => Reach::Off,
        },
        resources: custom.resources.clone(),
        max_processes: custom.max_processes,
    })
}
