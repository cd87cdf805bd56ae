//! Lowers a policy and a request to a `Spec`: every path resolved, every rule of precedence applied. Denied
//! wins over read-only, read-only wins over read-write; the order in the policy does not matter.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddrV4},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    schema::{Level, OnEscape, UnixSockets},
};
use lazaret_sandbox::{
    Layer, Spec,
    linux::{bpf::Filter, network::RESOLVER},
    pattern::{Pattern, PatternError},
    spec::{
        Access, Command, Doors, Entry, Exec, Group, Identity, Kind, Landlock, LandlockAccess, LandlockRule,
        Limits, Namespaces, Owner, Scratch, Sockets, Terminal, Walls,
    },
};

use crate::{
    environment, filter,
    paths::{canonical, is_at_or_below},
    request::{Request, Writing},
    resolver, terminal,
    view::{Node, View},
};

/// Where the ways out begin inside. The proxy's port is none that the kernel gives out by itself.
pub const DOORS: Doors = Doors {
    resolver: SocketAddrV4::new(RESOLVER, 53),
    proxy: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 61_080),
};
/// When nothing else is said.
const SCRATCH_BYTES: u64 = 4 << 30;
const SCRATCH_INODES: u64 = 1 << 20;
/// The host identity of a sandbox that root started, by preference; the first that the caller's own user
/// namespace knows is taken.
const HOST_IDS: [u32; 3] = [1_869_000_000, 64_999, 65_534];

#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    #[error("{path}: {source}", path = path.display())]
    Missing { path: PathBuf, source: io::Error },
    #[error(
        "{path} cannot be taken from the host: the sandbox has its own /proc and /dev, and no /sys. \
         Leave it out of the policy", path = path.display()
    )]
    Kernel { path: PathBuf },
    #[error("the whole root directory cannot be made visible: name the directories that are needed")]
    Root,
    #[error("`{path}` begins with ~, but the caller has no home directory: set HOME", path = path.display())]
    NoHome { path: PathBuf },
    #[error(
        "{path} cannot be made copy-on-write: {below} is mounted below it, and there are too many directories to take the two apart. \
         Name the directories that are to be writable with --rw, or leave --cow out",
        path = path.display(), below = below.display()
    )]
    Submount { path: PathBuf, below: PathBuf },
    #[error("`{path}` cannot be used as a pattern: {source}", path = path.display())]
    Pattern { path: PathBuf, source: PatternError },
    #[error("no unprivileged host identity can be used: {0}")]
    NoHostIdentity(String),
}

/// The spec and what goes with it.
#[derive(Debug, Clone)]
pub struct Lowered {
    pub spec: Spec,
    /// Layers that the level needs.
    pub needed: Vec<Layer>,
    /// Where writing is meant to work, as seen inside.
    pub writable: Vec<PathBuf>,
    /// Denied paths, resolved, for telling.
    pub denied: Vec<PathBuf>,
    /// What is hidden, and what is visible again below it: of two paths the longer one counts.
    pub hidden: Vec<(PathBuf, Sight)>,
    /// Everything that changes a name is init's.
    pub protects: bool,
    /// Those of them that nothing honest touches.
    pub bait: Vec<PathBuf>,
    pub on_escape: OnEscape,
    /// The filter sends every new process to the supervisor, who counts them.
    pub counts_processes: bool,
    /// Things a person should know, which do not stop the run.
    pub notes: Vec<String>,
}

/// Whether a path can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Hidden,
    Visible,
}

/// Lowers for full namespaces.
pub fn lower(request: &Request) -> Result<Lowered, LowerError> {
    let policy = &request.policy;
    if policy.isolation_level == Level::None {
        return Ok(without_walls(request));
    }
    let home = request.home.as_ref().map(|home| canonical(home).unwrap_or_else(|_| home.clone()));
    let mut view = View {
        request,
        home,
        nodes: BTreeMap::new(),
        denied: Vec::new(),
        bait: Vec::new(),
        sockets: Vec::new(),
        reachable: Vec::new(),
        protected: Vec::new(),
        hidden: Vec::new(),
        credentials: Vec::new(),
        notes: Vec::new(),
    };
    view.denied()?;
    view.listed(&policy.filesystem.read_write_paths, Access::ReadWrite)?;
    view.listed(&policy.filesystem.read_only_paths, Access::ReadOnly)?;
    view.layered(&policy.filesystem.layered_paths)?;
    view.toolchains();
    view.merged_links();
    view.root_path()?;
    view.private_directories();
    view.hidden()?;
    view.listed_sockets()?;
    view.protected()?;
    view.kernel_made();
    view.remove_denied();
    view.remove_covered();
    if !policy.process.allowed_executables.is_empty() {
        view.restrict_programs(&policy.process.allowed_executables)?;
    }
    view.pin_ancestors();
    if request.writing != Writing::Through {
        view.copy_on_write()?;
    }
    let (masks, guarded) = view.masks_and_guards();
    view.into_spec(masks, guarded)
}

impl View<'_> {
    fn into_spec(self, masks: Vec<Entry>, guarded: Vec<PathBuf>) -> Result<Lowered, LowerError> {
        let policy = &self.request.policy;
        let restricted = !policy.process.allowed_executables.is_empty();
        let private_exec = if restricted { Exec::Refused } else { Exec::Allowed };
        let identity = identity()?;
        let mut entries = Vec::new();
        let mut writable = vec![PathBuf::from("/dev")];
        let mut rules = vec![LandlockRule { path: "/".into(), access: LandlockAccess::List }];
        let mut rule = |path: &Path, access| rules.push(LandlockRule { path: path.to_owned(), access });
        for (path, node) in &self.nodes {
            match node {
                Node::Bind { object, kind, access, exec, owner } => {
                    entries.push(Entry::Bind {
                        path: path.clone(),
                        object: *object,
                        kind: *kind,
                        access: *access,
                        exec: *exec,
                        // Owners need showing otherwise only when the identity is another one.
                        owner: match identity {
                            Identity::Same { .. } => Owner::Foreign,
                            Identity::Mapped { .. } => *owner,
                        },
                    });
                    if *access != Access::ReadOnly {
                        writable.push(path.clone());
                    }
                    rule(path, landlock_access(*access, if restricted { Exec::Refused } else { *exec }));
                }
                Node::Pin => entries.push(Entry::Pin { path: path.clone() }),
                Node::Hollow { exec } => {
                    entries.push(Entry::Hollow { path: path.clone(), exec: *exec });
                    writable.push(path.clone());
                    let exec = if restricted { Exec::Refused } else { *exec };
                    rule(path, landlock_access(Access::CopyOnWrite, exec));
                }
                Node::Private { mode } => {
                    entries.push(Entry::Private { path: path.clone(), mode: *mode, exec: private_exec });
                    writable.push(path.clone());
                    rule(path, landlock_access(Access::ReadWrite, private_exec));
                }
                Node::Hidden(Kind::Directory) => {
                    entries.push(Entry::Empty { path: path.clone() });
                    rule(path, LandlockAccess::List);
                }
                Node::Hidden(Kind::File) => {
                    entries.push(Entry::Mask { path: path.clone(), kind: Kind::File });
                }
                Node::Symlink(target) => {
                    // Inside a bound directory the link is there already.
                    if !self.visible(path) {
                        entries.push(Entry::Symlink { path: path.clone(), target: target.clone() });
                    }
                }
                Node::Proc => {
                    entries.push(Entry::Proc);
                    rule(path, LandlockAccess::Read);
                }
                Node::Dev => {
                    entries.push(Entry::Dev);
                    rule(path, LandlockAccess::Device);
                    rule(path, LandlockAccess::List);
                }
            }
        }
        if restricted {
            let programs = policy.process.allowed_executables.iter().cloned().chain(loaders());
            for program in programs {
                if let Ok(canonical) = canonical(&program) {
                    rule(&canonical, LandlockAccess::Execute);
                }
            }
        }
        let own_network = policy.isolation_level == Level::Full;
        let circumstances = filter::Circumstances {
            network_sockets: own_network || policy.network.allow_network,
            own_network,
            guards: !guarded.is_empty() || !self.hidden.is_empty(),
            protects: !self.protected.is_empty() || !self.reachable.is_empty(),
            masks: !masks.is_empty() || !self.bait.is_empty() || self.tells_hidden(),
            unix_sockets: policy.network.unix_sockets.unwrap_or(UnixSockets::Own),
            callers_terminal: terminal::passed_on(self.request.terminal),
        };
        let names = own_network && policy.network.allow_network;
        if names {
            entries.extend(resolver::texts(&self));
        }
        entries.extend(masks);
        entries.extend(self.decoys());
        entries.extend(self.credential_masks());
        let spec = Spec {
            walls: Walls::Built,
            namespaces: if own_network { Namespaces::All } else { Namespaces::AllButNetwork },
            identity,
            hostname: "lazaret".to_owned(),
            view: entries,
            scratch: Scratch {
                bytes: policy.filesystem.max_total_size.map_or(SCRATCH_BYTES, |bytes| bytes.0),
                inodes: policy.filesystem.max_inodes.unwrap_or(SCRATCH_INODES),
            },
            command: Some(self.command()),
            filter: Some(self.filter(circumstances)),
            guarded,
            protected: self.protected.clone(),
            hidden: self.hidden.clone(),
            sockets: match policy.network.unix_sockets {
                Some(UnixSockets::All) => Sockets::All,
                _ => Sockets::Listed(self.sockets.iter().chain(&self.reachable).cloned().collect()),
            },
            landlock: Landlock { rules },
            limits: limits(policy),
            group: group(policy),
            processors: policy.resources.allowed_cpus.clone(),
            terminal: Terminal::Inherit,
            doors: names.then_some(DOORS),
        };
        Ok(Lowered {
            spec,
            needed: needed_layers(policy.isolation_level),
            writable,
            hidden: self.sights(),
            protects: circumstances.protects,
            denied: self.denied,
            bait: self.bait,
            on_escape: policy.on_escape.unwrap_or(if own_network { OnEscape::Kill } else { OnEscape::Deny }),
            counts_processes: filter::counts_processes(policy),
            notes: self.notes,
        })
    }

    fn filter(&self, circumstances: filter::Circumstances) -> Filter {
        let policy = &self.request.policy;
        let mut filter = filter::build(policy, circumstances);
        if policy.filesystem.max_total_size.is_some() && self.request.writing == Writing::Through {
            filter::close_unwritten_space(&mut filter);
        }
        filter
    }

    fn command(&self) -> Command {
        let request = self.request;
        let inside = |path: &Path| {
            let canonical = canonical(path).unwrap_or_else(|_| path.to_owned());
            // A directory on the way to something visible is there as well, if only with that in it.
            let there = self.visible(&canonical) || self.holds_something_visible(&canonical);
            there.then_some(canonical)
        };
        let root = request.policy.root_path();
        let directory = match root {
            Some(root) if self.nodes.contains_key(root) || inside(root).is_some() => root.to_owned(),
            _ => inside(&request.directory).map_or_else(|| PathBuf::from("/"), |_| request.directory.clone()),
        };
        // The working directory is visible under its own name, unless it was reached through a link that is
        // not: then under its canonical one.
        let reachable = self.nodes.keys().any(|at| is_at_or_below(&directory, at));
        let directory = if reachable { directory } else { inside(&directory).unwrap_or_else(|| "/".into()) };
        let network = &request.policy.network;
        let doors = request.policy.isolation_level == Level::Full && network.allow_network;
        let proxy = (doors && network.proxy_variables.unwrap_or(true)).then_some(DOORS.proxy);
        Command {
            argv: request.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: environment::clean(
                &request.environment,
                &request.policy.environment,
                self.home.as_deref(),
                proxy,
            ),
            directory,
        }
    }
}

/// Level 0: nothing is built, the command runs as the caller.
fn without_walls(request: &Request) -> Lowered {
    let spec = Spec {
        walls: Walls::None,
        namespaces: Namespaces::None,
        identity: Identity::Same {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        },
        hostname: String::new(),
        view: Vec::new(),
        scratch: Scratch { bytes: 0, inodes: 0 },
        command: Some(Command {
            argv: request.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: request
                .environment
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            directory: request.directory.clone(),
        }),
        filter: None,
        guarded: Vec::new(),
        protected: Vec::new(),
        hidden: Vec::new(),
        sockets: Sockets::Listed(Vec::new()),
        landlock: Landlock { rules: Vec::new() },
        limits: Limits::default(),
        group: Group::default(),
        processors: Vec::new(),
        terminal: Terminal::Inherit,
        doors: None,
    };
    Lowered {
        spec,
        needed: Vec::new(),
        writable: Vec::new(),
        hidden: Vec::new(),
        protects: false,
        denied: Vec::new(),
        bait: Vec::new(),
        on_escape: OnEscape::Deny,
        counts_processes: false,
        notes: Vec::new(),
    }
}

/// The same policy where no namespaces can be had: Landlock and seccomp stand alone.
pub fn without_namespaces(lowered: &Lowered, policy: &Policy) -> Lowered {
    let mut weaker = lowered.clone();
    let spec = &mut weaker.spec;
    spec.namespaces = Namespaces::None;
    spec.doors = None;
    if policy.network.allow_network && policy.isolation_level == Level::Full {
        weaker.notes.push("no network: hosts by name need a network namespace".to_owned());
    }
    let spec = &mut weaker.spec;
    // The host's own /dev and /proc are in view now: only what a program needs of them.
    spec.landlock.rules.retain(|rule| rule.path != Path::new("/dev"));
    for name in ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"] {
        let path = Path::new("/dev").join(name);
        spec.landlock.rules.push(LandlockRule { path, access: LandlockAccess::Device });
    }
    let private: Vec<&Path> = spec
        .view
        .iter()
        .filter_map(|entry| match entry {
            Entry::Private { path, .. } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    // There are no private directories here, and the host's own are not to be written or listed.
    weaker.writable.retain(|path| !private.contains(&path.as_path()));
    spec.landlock
        .rules
        .retain(|rule| !private.contains(&rule.path.as_path()) && rule.access != LandlockAccess::List);
    // There are no layers, either: what would have been written to one is the host's own.
    let layered: Vec<&Path> = spec
        .view
        .iter()
        .filter_map(|entry| match entry {
            Entry::Bind { path, access: Access::CopyOnWrite, .. } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    weaker.writable.retain(|path| !layered.contains(&path.as_path()));
    for rule in spec.landlock.rules.iter_mut().filter(|rule| layered.contains(&rule.path.as_path())) {
        rule.access = LandlockAccess::ReadExecute;
    }
    // Without mounts what is hidden is judged by its name, like a pattern.
    let hidden: Vec<PathBuf> = lowered
        .hidden
        .iter()
        .filter(|(_, sight)| *sight == Sight::Hidden)
        .map(|(path, _)| path.clone())
        .collect();
    let reopened = |path: &Path| {
        lowered
            .hidden
            .iter()
            .any(|(at, sight)| *sight == Sight::Visible && is_at_or_below(at, path) && at != path)
    };
    // What is visible again below it could not be told apart by one name: there Landlock stands alone.
    spec.hidden.extend(hidden.iter().filter(|path| !reopened(path)).map(|path| Pattern::literal(path)));
    // What is denied below a visible directory cannot be taken out of it again; whoever grants the directory
    // grants the name. So of directories with a denied name in them only the rest is granted.
    let only_landlock = hidden.iter().filter(|path| reopened(path));
    let closed: Vec<&PathBuf> = lowered.denied.iter().chain(only_landlock).collect();
    spec.landlock.rules =
        std::mem::take(&mut spec.landlock.rules).into_iter().flat_map(|rule| carved(rule, &closed)).collect();
    // Counted per user on the whole host, not per sandbox.
    spec.limits.processes = None;
    // Without a network of its own: the host's, or none.
    let circumstances = filter::Circumstances {
        network_sockets: policy.isolation_level == Level::Process && policy.network.allow_network,
        own_network: false,
        guards: !spec.guarded.is_empty() || !spec.hidden.is_empty(),
        protects: lowered.protects,
        unix_sockets: policy.network.unix_sockets.unwrap_or(UnixSockets::Own),
        masks: spec.view.iter().any(|entry| matches!(entry, Entry::Mask { .. })),
        callers_terminal: spec.terminal == Terminal::Inherit,
    };
    spec.filter = Some(filter::build(policy, circumstances));
    weaker
}

/// A rule without what is closed below its path: the same for everything else in the directory, as it is now.
fn carved(rule: LandlockRule, closed: &[&PathBuf]) -> Vec<LandlockRule> {
    const MOST: usize = 10_000;
    let holds_closed = |path: &Path| closed.iter().any(|closed| is_at_or_below(closed, path));
    let access = rule.access;
    let mut waiting = vec![rule.path];
    let mut rules = Vec::new();
    while let Some(path) = waiting.pop() {
        if !holds_closed(&path) {
            rules.push(LandlockRule { path, access });
        } else if !closed.contains(&&path) {
            let entries = fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
            waiting.extend(
                entries
                    .filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_symlink()))
                    .map(|entry| entry.path()),
            );
        }
        if rules.len() + waiting.len() > MOST {
            return Vec::new();
        }
    }
    rules
}

/// What a level cannot do without.
pub fn needed_layers(level: Level) -> Vec<Layer> {
    let mut needed = vec![
        Layer::Userns,
        Layer::Mountns,
        Layer::Pidns,
        Layer::Capabilities,
        Layer::NoNewPrivs,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Notify,
        Layer::Rlimits,
    ];
    if level == Level::Full {
        needed.extend([Layer::Netns, Layer::Ipcns, Layer::Utsns, Layer::Cgroupns]);
    }
    needed
}

fn landlock_access(access: Access, exec: Exec) -> LandlockAccess {
    match (access, exec) {
        (Access::ReadOnly, Exec::Allowed) => LandlockAccess::ReadExecute,
        (Access::ReadOnly, Exec::Refused) => LandlockAccess::Read,
        (_, Exec::Allowed) => LandlockAccess::WriteExecute,
        (_, Exec::Refused) => LandlockAccess::Write,
    }
}

/// The dynamic loaders: every dynamically linked program needs the right to execute its own.
fn loaders() -> impl Iterator<Item = PathBuf> {
    [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-musl-x86_64.so.1",
        "/lib/ld-musl-aarch64.so.1",
    ]
    .into_iter()
    .map(PathBuf::from)
}

fn limits(policy: &Policy) -> Limits {
    Limits {
        processes: tasks(policy),
        open_files: policy.resources.max_file_descriptors,
        file_size: policy.filesystem.max_file_size.map(|bytes| bytes.0),
        // Per process, and only a second line: what everything together may use is measured elsewhere.
        data: policy.resources.max_memory.map(|bytes| bytes.0.saturating_mul(4).saturating_add(1 << 30)),
        cpu_seconds: policy.resources.max_cpu.map(|millis| millis.0.div_ceil(1000)),
    }
}

/// The kernel counts processes and threads alike. Where both are limited, fewer processes than threads are
/// counted by the supervisor.
fn tasks(policy: &Policy) -> Option<u64> {
    policy.resources.max_threads.or(policy.process.max_processes)
}

fn group(policy: &Policy) -> Group {
    let resources = &policy.resources;
    Group {
        memory: resources.max_memory.map(|bytes| bytes.0),
        tasks: tasks(policy),
        cpu_percent: resources.max_cpu_percent,
        cpu_time_ms: resources.max_cpu.map(|millis| millis.0),
        io_bytes: resources.max_io_bandwidth.map(|bytes| bytes.0),
        io_operations: resources.max_iops,
    }
}

/// Who the command is on the host.
pub fn identity() -> Result<Identity, LowerError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid != 0 {
        return Ok(Identity::Same { uid, gid });
    }
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let ranges: Vec<Vec<u32>> = map
        .lines()
        .map(|line| line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        .collect();
    // "Root" of a namespace that maps to an ordinary user outside.
    if let [only] = ranges.as_slice()
        && let [0, outside, 1] = only.as_slice()
        && *outside != 0
    {
        return Ok(Identity::Same { uid, gid });
    }
    let known = |id: u32| {
        ranges.iter().any(|range| match range.as_slice() {
            [inside, _, count] => id >= *inside && u64::from(id) < u64::from(*inside) + u64::from(*count),
            _ => false,
        })
    };
    HOST_IDS
        .into_iter()
        .find(|id| known(*id))
        .map(|host| Identity::Mapped { inside: 0, host })
        .ok_or_else(|| LowerError::NoHostIdentity(format!("this user namespace maps only {}", map.trim())))
}
