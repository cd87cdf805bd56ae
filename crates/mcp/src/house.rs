//! What all sessions of one program share: the configuration, the way servers are started, the log.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lazaret_audit::Log;
use lazaret_gate::{
    classify::{Surroundings, SurroundingsError},
    escalation::{DeskError, Timeout},
    judge::{Origin, diagnostic::Refused},
};
use lazaret_policy::Policy;
use lazaret_runtime::{
    Launcher, Request, Requirement, ViolationTap, quarantine::Quarantine, serve, state::Directories,
};
use tokio::sync::oneshot;

use crate::{
    blocked::Evidence,
    config::{self, Config, Definition, Limits, Local, OnToolChange, SandboxPolicy, Server, ToolNames},
    containment::{Availability, Boundary, Common, Own, Place, Prepared, environment, program},
    names::{Naming, ServerIndex},
    pins::Cabinet,
    proxy::process::{self, Process},
    screen::Screen,
    session::{Session, SessionError},
};

/// Why no session can begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error(transparent)]
    Policies(#[from] Refused),
    #[error(transparent)]
    Surroundings(#[from] SurroundingsError),
    #[error("the audit log cannot be opened: {0}")]
    Audit(#[from] lazaret_audit::AuditError),
    #[error("{0}")]
    Refused(String),
    #[error("the escalation timeout is out of range: {0}")]
    Timeout(#[from] lazaret_gate::escalation::BadTimeout),
    #[error("no sandbox can be started: {0}")]
    Launcher(#[from] lazaret_runtime::LauncherError),
    #[error("the path of this program is unknown: {0}")]
    Program(#[source] io::Error),
    #[error("there is no place for our own files: neither XDG_STATE_HOME nor HOME is set")]
    NoState,
}

/// A server of the configuration.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub limits: Limits,
    pub definition: Definition,
}

#[derive(Debug)]
pub struct House {
    pub config_path: PathBuf,
    pub servers: Vec<Entry>,
    pub policies: Origin,
    pub naming: Naming,
    pub on_tool_change: OnToolChange,
    pub escalation_timeout: Timeout,
    pub cabinet: Cabinet,
    pub log: Log,
    pub screen: Arc<dyn Screen>,
    /// What a person should know from the start.
    pub notes: Vec<String>,
    /// Never given away as a whole.
    pub never_whole: Vec<PathBuf>,
    audit_log: PathBuf,
    rotation: lazaret_audit::Rotation,
    requirement: SandboxPolicy,
    availability: Availability,
    environment: BTreeMap<OsString, OsString>,
    directories: Directories,
    state: PathBuf,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
    kept: Vec<PathBuf>,
    /// Ends every server when dropped.
    launcher: Launcher,
}

/// What the caller decides.
#[derive(Debug)]
pub struct Plan {
    pub config: Config,
    pub policies: Option<PathBuf>,
    pub audit_log: Option<PathBuf>,
    pub rotation: lazaret_audit::Rotation,
    pub directories: Directories,
    pub environment: BTreeMap<OsString, OsString>,
    pub screen: Arc<dyn Screen>,
    /// Files with tokens of our own.
    pub kept: Vec<PathBuf>,
}

impl House {
    /// Checks everything that can be checked before a server is started.
    pub fn open(plan: Plan) -> Result<House, OpenError> {
        let Plan { config, policies, audit_log, rotation, directories, environment, screen, kept } = plan;
        let Config { file, options, servers, mut notes } = config;
        let state = directories.state.clone().ok_or(OpenError::NoState)?;
        let availability = Availability::of(&lazaret_runtime::doctor::examine());
        if let Some(text) = availability.refusal(options.sandbox_policy) {
            return Err(OpenError::Refused(text));
        }
        notes.extend(availability.warning());
        let audit_log =
            audit_log.or_else(|| options.audit_log.clone()).unwrap_or_else(|| state.join("audit.jsonl"));
        // They are looked up again later, and compared with what calls name.
        let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let (audit_log, policies) = (whole(audit_log), policies.map(whole));
        let log = Log::open(&audit_log)?.rotating(rotation);
        let program = std::env::current_exe().map_err(OpenError::Program)?;
        let launcher = Launcher::start(&program)?;
        let home = environment
            .get(std::ffi::OsStr::new("HOME"))
            .map(PathBuf::from)
            .filter(|home| home.is_absolute());
        let never_whole =
            home.iter().cloned().chain([state.clone()]).chain(directories.config.clone()).collect();
        Ok(House {
            config_path: file,
            servers: servers
                .into_iter()
                .map(|Server { name, limits, definition }| Entry {
                    name: name.as_str().to_owned(),
                    limits,
                    definition,
                })
                .collect(),
            policies: crate::decide::origin(policies.as_deref(), directories.config.as_deref()),
            naming: match options.tool_names {
                ToolNames::Auto => Naming::Auto,
                ToolNames::Prefixed => Naming::Always,
            },
            on_tool_change: options.on_tool_change,
            escalation_timeout: Timeout::new(options.escalation_timeout)?,
            cabinet: Cabinet::new(&state),
            log,
            screen,
            notes,
            never_whole,
            audit_log,
            rotation,
            requirement: options.sandbox_policy,
            availability,
            environment,
            directories,
            state,
            home,
            protected: options.protected_paths,
            kept: kept.into_iter().map(whole).collect(),
            launcher,
        })
    }

    pub fn requirement_word(&self) -> String {
        self.requirement.to_string()
    }

    pub fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    /// A session, in the caller's directory or one of its own.
    pub fn session(&self, directory: Option<&Path>) -> Result<Session, OpenError> {
        Ok(Session::open(&self.state, directory, self.secrets())?)
    }

    /// Values that must not get into a log.
    fn secrets(&self) -> Vec<String> {
        let local = |entry: &Entry| match &entry.definition {
            Definition::Local(local) => Some(local.env.0.values().cloned().collect::<Vec<_>>()),
            Definition::Unusable(_) => None,
        };
        let configured = self.servers.iter().filter_map(local).flatten();
        let inherited = self
            .environment
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(lazaret_audit::redact::is_secret_name))
            .filter_map(|(_, value)| value.to_str().map(str::to_owned));
        // A path or a flag is no secret, and masking it would make the log unreadable.
        configured
            .filter(|value| !value.starts_with('/') && !value.contains("://"))
            .chain(inherited)
            .collect()
    }

    /// What no server may see or change, and no call may touch, with a word for each.
    fn own_paths(&self, session: &Session) -> Vec<(PathBuf, &'static str)> {
        let mut paths = vec![
            (self.config_path.clone(), "the list of MCP servers"),
            (session.escalations().to_owned(), "questions to a person"),
            (session.internals().join("session.json"), "the session's own files"),
            (session.internals().join("session.log"), "the session's own files"),
        ];
        if let Origin::Files(path) = &self.policies {
            paths.push((path.clone(), "the policies"));
        }
        paths
            .extend(lazaret_audit::files_of(&self.audit_log).into_iter().map(|path| (path, "the audit log")));
        paths.extend(self.kept.iter().map(|path| (path.clone(), "a token of lazaret")));
        paths.extend(self.protected.iter().map(|path| (path.clone(), "listed in protectedPaths")));
        paths
    }

    fn own_directories(&self) -> Vec<(PathBuf, &'static str)> {
        let mut directories = vec![(self.state.clone(), "lazaret's own state")];
        directories
            .extend(self.directories.config.iter().map(|path| (path.clone(), "lazaret's own configuration")));
        directories.push((
            PathBuf::from(lazaret_runtime::state::ADMINISTRATOR),
            "the administrator's configuration",
        ));
        directories
    }

    pub fn surroundings(&self, server: &Entry, session: &Session) -> Result<Surroundings, SurroundingsError> {
        let place = self.place(session);
        let bare = |local: &Local| {
            local.directory.is_none()
                && (local.sandbox == config::Sandbox::OptOut || self.availability != Availability::Available)
        };
        let directory = match &server.definition {
            Definition::Local(local) if bare(local) => self.base(),
            Definition::Local(local) => self
                .program(local, &place)
                .map_or_else(|_| session.directory().to_owned(), |program| program.directory),
            Definition::Unusable(_) => session.directory().to_owned(),
        };
        let mut surroundings = Surroundings::new(session.directory(), &directory)?;
        if let Some(home) = &self.home {
            surroundings = surroundings.with_home(home)?;
            surroundings = surroundings.with_git_configs([
                PathBuf::from("/etc/gitconfig"),
                home.join(".config/git/config"),
                home.join(".gitconfig"),
            ]);
        }
        for (path, what) in self.own_paths(session).into_iter().chain(self.own_directories()) {
            surroundings = surroundings.protect(&path, what)?;
        }
        Ok(surroundings)
    }

    /// Under which name an escape attempt bars a server.
    fn tool_name(&self, entry: &Entry) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(self.config_path.as_os_str().as_encoded_bytes());
        let list: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("mcp:{}:{list}", entry.name)
    }

    /// Where relative paths of commands begin.
    fn base(&self) -> PathBuf {
        self.config_path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    /// What servers are made of: their programs, the files that they are given, and what both load.
    fn programs(&self, place: &Place) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for entry in &self.servers {
            let Definition::Local(local) = &entry.definition else { continue };
            let Ok(program) = self.program(local, place) else { continue };
            let files =
                program.args.iter().map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
            for path in files.chain([program.program.clone()]) {
                let modules = path.ancestors().find(|above| {
                    above.file_name().is_some_and(|name| {
                        ["node_modules", ".venv", "venv"].iter().any(|known| name == *known)
                    })
                });
                all.extend(modules.map(Path::to_owned));
                all.push(path);
            }
        }
        all.sort();
        all.dedup();
        all
    }

    fn place(&self, session: &Session) -> Place {
        Place::new(session.directory().to_owned(), &self.environment)
    }

    fn program(&self, local: &Local, place: &Place) -> Result<program::Program, program::ProgramError> {
        program::find(local, &self.base(), place, &environment::environment(local, &self.environment))
    }

    /// Starts a server; blocks for some milliseconds. The error is for people.
    pub fn start(&self, server: ServerIndex, session: &Session) -> Result<Process, String> {
        let entry = self.servers.get(server.0).ok_or("there is no such server")?;
        let local = match &entry.definition {
            Definition::Local(local) => local,
            Definition::Unusable(why) => return Err(why.to_string()),
        };
        let prepared = self.common(session).prepare(local).map_err(|error| error.to_string())?;
        for note in &prepared.notes {
            session.journal().line(&entry.name, note);
        }
        let Prepared { boundary, program, environment, .. } = prepared;
        match boundary {
            Boundary::Open(reason) => self.start_open(entry, program, environment, reason.code(), session),
            Boundary::Sandbox(policy) => self.start_sandboxed(entry, *policy, program, environment, session),
        }
    }

    fn common(&self, session: &Session) -> Common {
        Common {
            place: self.place(session),
            own: Own {
                programs: self.programs(&self.place(session)),
                directories: self.own_directories().into_iter().map(|(path, _)| path).collect(),
                paths: self.own_paths(session).into_iter().map(|(path, _)| path).collect(),
            },
            availability: self.availability.clone(),
            policy: self.requirement,
            environment: self.environment.clone(),
            base: self.base(),
        }
    }

    fn start_open(
        &self,
        entry: &Entry,
        program: program::Program,
        environment: Vec<(OsString, OsString)>,
        reason: &'static str,
        session: &Session,
    ) -> Result<Process, String> {
        // One that was barred after an attempt to escape does not come back without any walls.
        match Quarantine::open(&self.state).check(&self.tool_name(entry)) {
            Ok(None) => {}
            Ok(Some(_)) => {
                return Err(format!("it is in quarantine: `lazaret tool release {}`", self.tool_name(entry)));
            }
            Err(error) => return Err(error.to_string()),
        }
        session.journal().line(&entry.name, &format!("runs without a sandbox ({reason})"));
        let (told, ended) = oneshot::channel();
        let unconfined = serve::Unconfined {
            server: entry.name.clone(),
            reason: reason.to_owned(),
            command: program.command(),
            directory: program.directory.clone(),
            environment,
            audit_log: self.audit_log.clone(),
            rotation: self.rotation,
        };
        let running = serve::start_unconfined(&self.launcher, unconfined, move |end| {
            let _ = told.send(outcome(&end));
        })
        .map_err(|error| chain(&error))?;
        let facts = process::Facts {
            sandbox_id: running.id().to_owned(),
            evidence: Evidence::None,
            network: true,
            closed: Vec::new(),
            reason: Some(reason),
        };
        Ok(Process::new(running, None, facts, ended))
    }

    fn start_sandboxed(
        &self,
        entry: &Entry,
        policy: Policy,
        program: program::Program,
        environment: Vec<(OsString, OsString)>,
        session: &Session,
    ) -> Result<Process, String> {
        let network = policy.network.allow_network;
        let filesystem = &policy.filesystem;
        let closed = filesystem.denied_paths.iter().chain(&filesystem.hidden_paths);
        // The session directory may lie in something that is closed around it.
        let closed =
            closed.filter(|path| !session.directory().starts_with(path)).map(|path| real(path)).collect();
        let tap = ViolationTap::new();
        let mut request = Request::new(policy, &program.directory, &self.audit_log);
        request.command = program.command();
        request.environment = environment;
        request.home = self.home.clone();
        // Half a sandbox is none, whatever the configuration says of hosts that have none at all.
        request.requirement = Requirement::Enforce;
        request.rotation = self.rotation;
        request.tool = Some(self.tool_name(entry));
        request.state = Some(self.state.clone());
        request.violations = Some(tap.clone());
        let (told, ended) = oneshot::channel();
        let running = serve::start(&self.launcher, request, move |end| {
            let _ = told.send(outcome(&end));
        })
        .map_err(|error| chain(&error))?;
        for note in running.notes() {
            session.journal().line(&entry.name, note);
        }
        let evidence = if running.containment().is_whole() { Evidence::Recorded } else { Evidence::TextOnly };
        let facts =
            process::Facts { sandbox_id: running.id().to_owned(), evidence, network, closed, reason: None };
        Ok(Process::new(running, Some(tap), facts, ended))
    }
}

/// As the operating system would find it, if it is there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn outcome(end: &serve::End) -> process::Ended {
    let outcome = match end {
        Ok(departed) => {
            let how = match (departed.signal, departed.exit_code) {
                (Some(signal), _) => format!("it was ended by signal {signal}"),
                (None, code) => format!("it ended with exit code {code}"),
            };
            match &departed.reason {
                Some(reason) => format!("{how}: {reason}"),
                None => how,
            }
        }
        Err(error) => format!("it could not be watched over: {}", chain(error)),
    };
    process::Ended { outcome }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
