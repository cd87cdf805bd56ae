//! From what a server may do to a policy for its sandbox: the host's files read-only as srt shows them, the session
//! directory writable, what is closed denied by name, the network by its list.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    lasting::{GIT_CONFIG, OF_AGENTS, PROTECTED},
    network::Rules,
    profile,
    schema::{Level, UnixSockets},
};

use super::{ContainmentError, Params, Place, Reach, environment};
use crate::config::{InheritEnv, Local};

/// What the kernel makes is the sandbox's own.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What is ours, and no server's to see, whatever its entry says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// Our state and our configuration: the session directory may be in there, and never the other way round.
    pub directories: Vec<PathBuf>,
    /// The list of servers, policies, the audit log, escalations, `protectedPaths`: these may be anywhere, also in
    /// the session directory.
    pub paths: Vec<PathBuf>,
    /// Of all servers: can be read, and not be written wherever they lie.
    pub programs: Vec<PathBuf>,
}

/// A policy, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    pub policy: Policy,
    pub notes: Vec<String>,
}

/// What a server is started with, as far as its sandbox has to know.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub server: &'a Local,
    pub program: &'a Path,
    pub environment: &'a [(OsString, OsString)],
}

/// Makes the policy.
pub fn lower(
    params: &Params,
    place: &Place,
    own: &Own,
    start: Start<'_>,
) -> Result<Lowered, ContainmentError> {
    let session = check_session(place, own)?;
    let mut lowering = Lowering { policy: Policy::default(), place, session, own, notes: Vec::new() };
    lowering.policy.isolation_level = Level::Full;
    let writable = lowering.writable(params)?;
    let readable = lowering.readable(params)?;
    lowering.close(params, &writable, &readable)?;
    lowering.protect(params);
    lowering.layer_caches();
    lowering.network(params, start)?;
    lowering.limits(params);
    lowering.environment(start.environment);
    lowering.finds(start.program, &readable, &writable)?;
    Ok(Lowered { policy: lowering.policy, notes: lowering.notes })
}

/// As the operating system would find it, with what does not exist yet as it is.
fn real(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            let real = above.canonicalize().ok()?;
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        })
        .unwrap_or_else(|| path.to_owned())
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[']) && path.symlink_metadata().is_err()
}

/// As a pattern that matches nothing else.
fn escaped(path: &Path) -> PathBuf {
    let mut text = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            '*' | '?' | '[' => text.extend(['[', c, ']']),
            _ => text.push(c),
        }
    }
    text.into()
}

fn check_session(place: &Place, own: &Own) -> Result<PathBuf, ContainmentError> {
    let fault = |why: String| ContainmentError::Session { session: place.session.clone(), why };
    if !place.session.is_absolute() {
        return Err(fault("it is not absolute".to_owned()));
    }
    let session = place.session.canonicalize().map_err(|error| fault(error.to_string()))?;
    if !session.is_dir() {
        return Err(fault("it is no directory".to_owned()));
    }
    if KERNEL.iter().any(|kernel| session.starts_with(kernel)) {
        return Err(fault("it is made by the kernel".to_owned()));
    }
    if let Some(home) = &place.home
        && real(home).starts_with(&session)
    {
        return Err(fault(
            "it is the home directory, or above it, and would be writable as a whole".to_owned(),
        ));
    }
    let inside = own.directories.iter().find(|directory| real(directory).starts_with(&session));
    if let Some(inside) = inside {
        return Err(fault(format!("{}, which is lazaret's own, is in it", inside.display())));
    }
    if own.paths.iter().any(|path| real(path) == session) {
        return Err(fault("it is one of lazaret's own files".to_owned()));
    }
    Ok(session)
}

struct Lowering<'a> {
    policy: Policy,
    place: &'a Place,
    /// Canonical.
    session: PathBuf,
    own: &'a Own,
    notes: Vec<String>,
}

impl Lowering<'_> {
    /// Is it one of our own, or below one? The session directory, and what is in it, is not.
    fn is_own(&self, path: &Path) -> bool {
        let real = real(path);
        let below = |own: &PathBuf| real.starts_with(self::real(own));
        self.own.paths.iter().any(below)
            || (!real.starts_with(&self.session) && self.own.directories.iter().any(below))
    }

    fn refuse(&self, field: &'static str, path: &Path) -> Result<(), ContainmentError> {
        if self.is_own(path) {
            return Err(ContainmentError::Own { field, path: path.to_owned() });
        }
        if is_pattern(path) {
            let why = "what it will match later cannot be opened now: list the directory";
            return Err(ContainmentError::Pattern { field, entry: path.to_owned(), why });
        }
        Ok(())
    }

    fn left_out(&mut self, field: &str, path: &Path, why: &str) {
        self.notes.push(format!("sandbox.filesystem.{field}: {} {why}, so it is left out", path.display()));
    }

    /// The session directory, and what else is listed and exists.
    fn writable(&mut self, params: &Params) -> Result<Vec<PathBuf>, ContainmentError> {
        let mut writable = vec![self.place.session.clone()];
        for path in params.allow_write.iter().filter(|path| **path != self.place.session) {
            self.refuse("allowWrite", path)?;
            let real = real(path);
            let home = self.place.home.as_deref().map(self::real);
            if real == Path::new("/") || home.is_some_and(|home| home.starts_with(&real)) {
                return Err(ContainmentError::TooWide(path.clone()));
            }
            // Whoever could write in the session directory could have put a link there, to anywhere.
            if path.starts_with(&self.place.session) && !real.starts_with(&self.session) {
                self.left_out(
                    "allowWrite",
                    path,
                    "is a link, or behind one, that leads out of the session directory",
                );
            } else if real.starts_with(&self.session) {
                // Writable with the session directory, there or not.
            } else if KERNEL.iter().any(|kernel| real.starts_with(kernel)) {
                self.left_out("allowWrite", path, "is the sandbox's own");
            } else if !path.exists() {
                self.left_out("allowWrite", path, "does not exist");
            } else {
                writable.push(path.clone());
            }
        }
        self.policy.filesystem.read_write_paths.clone_from(&writable);
        Ok(writable)
    }

    /// What is listed although it lies in something that is closed.
    fn readable(&mut self, params: &Params) -> Result<Vec<PathBuf>, ContainmentError> {
        let mut readable = Vec::new();
        for path in &params.allow_read {
            self.refuse("allowRead", path)?;
            let below_closed =
                params.deny_read.iter().any(|closed| path.starts_with(closed) && path != closed);
            if !below_closed {
                // Readable anyway, or denied by the very same name, which wins.
                continue;
            }
            if path.exists() {
                readable.push(path.clone());
            } else {
                self.left_out("allowRead", path, "does not exist");
            }
        }
        Ok(readable)
    }

    /// Everything can be read but what is closed. A name that is denied stays denied when the host makes or
    /// exchanges what it stands for; only where something below it is to be seen it is covered instead.
    fn close(
        &mut self,
        params: &Params,
        writable: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<(), ContainmentError> {
        let everything = !params.deny_read.iter().any(|path| path == Path::new("/"));
        let filesystem = &mut self.policy.filesystem;
        if everything {
            filesystem.read_only_paths.push("/".into());
        }
        filesystem.read_only_paths.extend(readable.iter().cloned());
        let seen: Vec<PathBuf> = writable.iter().chain(readable).map(|path| real(path)).collect();
        let own = self.own.directories.iter().chain(&self.own.paths);
        for path in params.deny_read.iter().filter(|path| *path != Path::new("/")) {
            if real(path) == self.session {
                let why = "sandbox.filesystem.denyRead closes it".to_owned();
                return Err(ContainmentError::Session { session: self.place.session.clone(), why });
            }
            let list = if is_pattern(path) {
                &mut filesystem.hidden_patterns
            } else if opens_below(path, &seen) {
                &mut filesystem.hidden_paths
            } else {
                &mut filesystem.denied_paths
            };
            list.push(path.clone());
        }
        for path in own {
            let open = opens_below(path, &seen);
            let list = if open { &mut filesystem.hidden_paths } else { &mut filesystem.denied_paths };
            if !list.contains(path) {
                list.push(path.clone());
            }
        }
        Ok(())
    }

    /// What can be read and not be written: by the entry, and what acts outside of the sandbox later on.
    fn protect(&mut self, params: &Params) {
        let filesystem = &mut self.policy.filesystem;
        for path in &params.deny_write {
            let literal = !is_pattern(path) && path.symlink_metadata().is_err();
            filesystem.protected_paths.push(if literal { escaped(path) } else { path.clone() });
        }
        // A server for git that was given the repository has to change its configuration.
        let is_git = |path: &PathBuf| path.components().any(|part| part.as_os_str() == OsStr::new(".git"));
        let git = params.allow_write.iter().any(is_git);
        let names = PROTECTED.iter().chain(&OF_AGENTS).chain(GIT_CONFIG.iter().filter(|_| !git));
        filesystem.protected_names.extend(names.map(|name| (*name).to_owned()));
        // What servers are made of: one that could change another's program would run in its place.
        let among = |path: &&PathBuf| {
            filesystem.read_write_paths.iter().any(|directory| real(path).starts_with(real(directory)))
        };
        let programs: Vec<PathBuf> = self.own.programs.iter().filter(among).cloned().collect();
        filesystem.protected_paths.extend(programs);
    }

    /// Installers cannot do without writing there, and what is there already saves them the network.
    fn layer_caches(&mut self) {
        let filesystem = &mut self.policy.filesystem;
        let taken = filesystem.denied_paths.iter().chain(&filesystem.hidden_paths);
        let taken: Vec<PathBuf> = taken.chain(&filesystem.read_write_paths).map(|path| real(path)).collect();
        let caches = environment::caches(self.place).into_iter().filter(|cache| cache.is_dir());
        filesystem.layered_paths =
            caches.filter(|cache| !taken.iter().any(|path| real(cache).starts_with(path))).collect();
    }

    fn network(&mut self, params: &Params, start: Start<'_>) -> Result<(), ContainmentError> {
        if let Reach::Domains(domains) = &params.network {
            self.policy.network = domains.to_policy();
            self.policy.network.parent_proxy.clone_from(&self.place.parent_proxy);
            // An agent with keys is reached only where its variable was asked for by name.
            const AGENT: &str = "SSH_AUTH_SOCK";
            let listed = match &start.server.inherit_env {
                InheritEnv::Listed(names) => names.iter().any(|name| name == AGENT),
                _ => false,
            };
            if listed || start.server.env.0.contains_key(AGENT) {
                let agent = start.environment.iter().find(|(name, _)| name == AGENT).map(|(_, path)| path);
                let agent = agent.map(PathBuf::from).filter(|path| path.is_absolute());
                self.policy.network.unix_socket_paths.extend(agent.map(|path| super::normal(&path)));
            }
        }
        self.policy.network.unix_sockets = Some(UnixSockets::Own);
        Rules::compile(&self.policy.network)?;
        Ok(())
    }

    /// Those of the profile for servers, where the entry does not say otherwise.
    fn limits(&mut self, params: &Params) {
        let usual = profile::find("mcp-server").and_then(|profile| profile.load().ok());
        let usual = usual.map(|loaded| loaded.policy).unwrap_or_default();
        let (mut resources, usual_resources) = (params.resources.clone(), usual.resources);
        resources.max_memory = resources.max_memory.or(usual_resources.max_memory);
        resources.max_file_descriptors =
            resources.max_file_descriptors.or(usual_resources.max_file_descriptors);
        self.policy.resources = resources;
        self.policy.process.max_processes = params.max_processes.or(usual.process.max_processes);
    }

    /// By name, so that no value gets into a policy that is shown or recorded.
    fn environment(&mut self, environment: &[(OsString, OsString)]) {
        let names = environment.iter().filter_map(|(name, _)| name.to_str().map(str::to_owned));
        self.policy.environment.allow = names.collect();
    }

    /// A program that its own sandbox hides would only fail later, and less clearly.
    fn finds(
        &self,
        program: &Path,
        readable: &[PathBuf],
        writable: &[PathBuf],
    ) -> Result<(), ContainmentError> {
        let filesystem = &self.policy.filesystem;
        let program = real(program);
        let closed = filesystem.denied_paths.iter().chain(&filesystem.hidden_paths);
        let root = (!filesystem.shows_everything()).then(|| PathBuf::from("/"));
        let deepest = |paths: &mut dyn Iterator<Item = PathBuf>| {
            paths.filter(|path| program.starts_with(path)).map(|path| path.as_os_str().len()).max()
        };
        let closed = deepest(&mut closed.map(|path| real(path)).chain(root));
        let open = deepest(&mut readable.iter().chain(writable).map(|path| real(path)));
        match closed {
            Some(closed) if open.is_none_or(|open| open < closed) => {
                Err(ContainmentError::ProgramHidden(program))
            }
            _ => Ok(()),
        }
    }
}

/// Is something below it to be seen?
fn opens_below(path: &Path, seen: &[PathBuf]) -> bool {
    let real = real(path);
    seen.iter().any(|seen| *seen != real && seen.starts_with(&real))
}
