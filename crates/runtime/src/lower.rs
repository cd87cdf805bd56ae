//! Lowers a policy and a request to a `Spec`: every path resolved, every rule of precedence applied. Denied
//! wins over read-only, read-only wins over read-write; the order in the policy does not matter.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::FileTypeExt},
    },
    path::{Path, PathBuf},
};

use lazaret_policy::{
    Policy,
    schema::{Level, OnEscape},
};
use lazaret_sandbox::{
    Layer, Spec,
    spec::{
        Access, Command, Entry, Exec, Identity, Kind, Landlock, LandlockAccess, LandlockRule, Limits,
        Namespaces, Owner, Scratch, Terminal, Walls,
    },
};

use crate::{environment, filter, request::Request, terminal};

/// Directories of the system: optional (not every host has them all), and never shown with their owners
/// mapped, so that what only the host's root may read stays closed.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/var"];
/// Names in the root that lead into /usr on a merged system.
const MERGED: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What is made by the kernel and never taken from the host as it is.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Private directories that every sandbox has unless the policy lists or denies them.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Toolchains as people install them below their home.
const TOOLCHAINS: [&str; 30] = [
    ".cargo/bin",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/pipx",
    ".local/share/uv",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/pnpm",
    ".volta",
    ".fnm",
    ".asdf",
    ".sdkman/candidates",
    ".rbenv",
    ".deno/bin",
    ".bun/bin",
    "go/bin",
    ".goenv",
    ".ghcup/bin",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    ".juliaup",
    ".julia/juliaup",
    ".dotnet",
    ".jenv",
    ".nodenv",
];
/// Variables that say where a toolchain is, and what below it holds programs.
const TOOLCHAIN_VARIABLES: [(&str, &str); 5] =
    [("CARGO_HOME", "bin"), ("RUSTUP_HOME", ""), ("PYENV_ROOT", ""), ("NVM_DIR", ""), ("VIRTUAL_ENV", "")];
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
    pub on_escape: OnEscape,
    /// Things a person should know, which do not stop the run.
    pub notes: Vec<String>,
}

/// One path of the view before it is put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Bind { kind: Kind, access: Access, exec: Exec, owner: Owner },
    Private { mode: u32 },
    Symlink(PathBuf),
    Proc,
    Dev,
}

struct View<'a> {
    request: &'a Request,
    home: Option<PathBuf>,
    nodes: BTreeMap<PathBuf, Node>,
    denied: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    notes: Vec<String>,
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
        sockets: Vec::new(),
        notes: Vec::new(),
    };
    view.denied()?;
    view.listed(&policy.filesystem.read_write_paths, Access::ReadWrite)?;
    view.listed(&policy.filesystem.read_only_paths, Access::ReadOnly)?;
    view.toolchains();
    view.merged_links();
    view.root_path();
    view.private_directories();
    view.kernel_made();
    view.remove_denied();
    view.remove_covered();
    if !policy.process.allowed_executables.is_empty() {
        view.restrict_programs(&policy.process.allowed_executables)?;
    }
    let (masks, guarded) = view.masks_and_guards();
    view.into_spec(masks, guarded)
}

impl View<'_> {
    fn expand(&self, path: &Path) -> Result<PathBuf, LowerError> {
        if let Ok(rest) = path.strip_prefix("~") {
            let home = self.home.as_ref().ok_or_else(|| LowerError::NoHome { path: path.to_owned() })?;
            return Ok(if rest.as_os_str().is_empty() { home.clone() } else { home.join(rest) });
        }
        Ok(match path.strip_prefix(".") {
            Ok(rest) if rest.as_os_str().is_empty() => self.request.directory.clone(),
            Ok(rest) => self.request.directory.join(rest),
            Err(_) if path.is_absolute() => path.components().collect(),
            Err(_) => self.request.directory.join(path),
        })
    }

    /// Denied paths, canonical as far as they exist; a link is denied under both its names.
    fn denied(&mut self) -> Result<(), LowerError> {
        let own = self.request.own_directories.iter().cloned();
        let listed = &self.request.policy.filesystem.denied_paths;
        let mut denied = Vec::new();
        for path in listed {
            match self.expand(path) {
                Ok(path) => denied.push(path),
                // Without a home there is nothing there to protect.
                Err(LowerError::NoHome { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut parents = BTreeMap::new();
        for path in denied.into_iter().chain(own) {
            let resolved = canonical_as_far_as_it_exists(&path, &mut parents);
            if fs::symlink_metadata(&resolved).is_ok_and(|metadata| metadata.is_symlink())
                && let Ok(target) = canonical(&resolved)
            {
                self.denied.push(target);
            }
            self.denied.push(resolved);
        }
        self.denied.sort();
        self.denied.dedup();
        Ok(())
    }

    fn listed(&mut self, paths: &[PathBuf], access: Access) -> Result<(), LowerError> {
        for path in paths {
            let expanded = self.expand(path)?;
            let optional = SYSTEM.iter().any(|system| is_at_or_below(&expanded, Path::new(system)))
                || path.starts_with("~");
            let canonical = match canonical(&expanded) {
                Ok(canonical) => canonical,
                Err(_) if optional => continue,
                Err(source) => return Err(LowerError::Missing { path: expanded, source }),
            };
            if KERNEL.iter().any(|kernel| is_at_or_below(&canonical, Path::new(kernel))) {
                return Err(LowerError::Kernel { path: expanded });
            }
            if canonical == Path::new("/") {
                if path == Path::new(".") {
                    self.notes.push("the current directory is /, which is not made visible: change into a project directory, or name what is needed with --rw".to_owned());
                    continue;
                }
                return Err(LowerError::Root);
            }
            self.link_to(&expanded, &canonical);
            self.bind(canonical, access);
        }
        Ok(())
    }

    /// A path typed through a link keeps working inside.
    fn link_to(&mut self, typed: &Path, canonical: &Path) {
        if typed == canonical {
            return;
        }
        let mut sofar = PathBuf::new();
        for component in typed.components() {
            sofar.push(component);
            if fs::symlink_metadata(&sofar).is_ok_and(|metadata| metadata.is_symlink()) {
                if let Ok(target) = fs::read_link(&sofar) {
                    self.nodes.entry(sofar).or_insert(Node::Symlink(target));
                }
                return;
            }
        }
    }

    fn bind(&mut self, path: PathBuf, access: Access) {
        let Ok(metadata) = fs::metadata(&path) else { return };
        if metadata.file_type().is_socket() {
            self.sockets.push(path.clone());
        }
        let kind = if metadata.is_dir() { Kind::Directory } else { Kind::File };
        let system = SYSTEM.iter().any(|system| is_at_or_below(&path, Path::new(system)));
        let owner = if system && access == Access::ReadOnly { Owner::Foreign } else { Owner::Caller };
        self.nodes
            .entry(path)
            .and_modify(|node| {
                // Listed twice: the stricter of the two.
                if let Node::Bind { access: old, owner: old_owner, .. } = node
                    && access == Access::ReadOnly
                {
                    (*old, *old_owner) = (access, owner);
                }
            })
            .or_insert(Node::Bind { kind, access, exec: Exec::Allowed, owner });
    }

    fn toolchains(&mut self) {
        if !self.request.policy.filesystem.toolchains {
            return;
        }
        let mut found = Vec::new();
        if let Some(home) = &self.home {
            found.extend(TOOLCHAINS.iter().map(|name| home.join(name)));
        }
        for (variable, below) in TOOLCHAIN_VARIABLES {
            let value = self.request.environment.iter().find(|(key, _)| key == variable);
            if let Some((_, value)) = value {
                let path = Path::new(value);
                found.push(if below.is_empty() { path.to_owned() } else { path.join(below) });
            }
        }
        for path in found {
            let Ok(canonical) = canonical(&path) else { continue };
            // A variable must not open the whole home, or something wider.
            let too_wide = canonical.components().count() < 3
                || self.home.as_ref().is_some_and(|home| is_at_or_below(home, &canonical));
            if canonical.is_dir() && !too_wide && !self.visible(&canonical) {
                self.link_to(&path, &canonical);
                self.bind(canonical, Access::ReadOnly);
            }
        }
    }

    /// `/bin/true` is found when /usr is visible, whether or not /bin was listed.
    fn merged_links(&mut self) {
        for name in MERGED {
            let path = Path::new(name);
            if let Ok(target) = fs::read_link(path)
                && canonical(path).is_ok_and(|canonical| self.visible(&canonical))
            {
                self.nodes.entry(path.to_owned()).or_insert(Node::Symlink(target));
            }
        }
    }

    fn root_path(&mut self) {
        let Some(root) = self.request.policy.root_path() else { return };
        match canonical(root) {
            Ok(canonical) => {
                if !self.visible(&canonical) && canonical != Path::new("/") {
                    self.link_to(root, &canonical);
                    self.bind(canonical, Access::ReadOnly);
                }
            }
            Err(_) => {
                self.nodes.entry(root.to_owned()).or_insert(Node::Private { mode: 0o700 });
            }
        }
    }

    fn private_directories(&mut self) {
        for path in PRIVATE {
            self.nodes.entry(PathBuf::from(path)).or_insert(Node::Private { mode: 0o1777 });
        }
        if let Some(home) = &self.home
            && home != Path::new("/")
            && !self.visible(home)
            && !KERNEL.iter().any(|kernel| is_at_or_below(home, Path::new(kernel)))
        {
            self.nodes.insert(home.clone(), Node::Private { mode: 0o700 });
        }
    }

    fn kernel_made(&mut self) {
        self.nodes.insert(PathBuf::from("/proc"), Node::Proc);
        self.nodes.insert(PathBuf::from("/dev"), Node::Dev);
    }

    /// Is the path inside something bound?
    fn visible(&self, path: &Path) -> bool {
        self.nodes.iter().any(|(at, node)| matches!(node, Node::Bind { .. }) && is_at_or_below(path, at))
    }

    fn remove_denied(&mut self) {
        let denied = &self.denied;
        self.nodes.retain(|path, _| !denied.iter().any(|denied| is_at_or_below(path, denied)));
    }

    /// What lies inside a directory that is bound in the same way need not be bound once more.
    fn remove_covered(&mut self) {
        let nodes = self.nodes.clone();
        self.nodes.retain(|path, node| {
            let (Node::Bind { access, exec, owner, .. }, Some(parent)) = (&*node, path.parent()) else {
                return true;
            };
            let above = nodes
                .iter()
                .filter(|(at, node)| !matches!(node, Node::Symlink(_)) && is_at_or_below(parent, at))
                .max_by_key(|(at, _)| at.as_os_str().len());
            !matches!(above, Some((_, Node::Bind { access: a, exec: e, owner: o, .. }))
                if (a, e, o) == (access, exec, owner))
        });
    }

    /// Only the listed programs execute: everything else lies on mounts without execution, libraries
    /// excepted, so that neither `execve` nor the dynamic loader can run what is not listed.
    fn restrict_programs(&mut self, programs: &[PathBuf]) -> Result<(), LowerError> {
        for node in self.nodes.values_mut() {
            if let Node::Bind { exec, .. } = node {
                *exec = Exec::Refused;
            }
        }
        let mut carved = Vec::new();
        for library in ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib64"] {
            carved.extend(Path::new(library).canonicalize().ok());
        }
        for program in programs {
            let canonical = program
                .canonicalize()
                .map_err(|source| LowerError::Missing { path: program.clone(), source })?;
            carved.push(canonical);
        }
        for path in carved {
            if !self.visible(&path) {
                continue;
            }
            let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
            let system = SYSTEM.iter().any(|system| is_at_or_below(&path, Path::new(system)));
            let owner = if system { Owner::Foreign } else { Owner::Caller };
            self.nodes
                .insert(path, Node::Bind { kind, access: Access::ReadOnly, exec: Exec::Allowed, owner });
        }
        Ok(())
    }

    /// Denied paths that exist in the view are covered; below a writable directory their names are guarded
    /// as well, so that they cannot be made anew.
    fn masks_and_guards(&self) -> (Vec<Entry>, Vec<PathBuf>) {
        let mut masks: Vec<(PathBuf, Kind)> = Vec::new();
        let mut guarded = Vec::new();
        for path in self.denied.iter().filter(|path| self.visible(path)) {
            if masks.iter().any(|(above, kind)| *kind == Kind::Directory && is_at_or_below(path, above)) {
                continue;
            }
            if self.writable_at(path) {
                guarded.push(path.clone());
            }
            if let Ok(metadata) = fs::symlink_metadata(path)
                && !metadata.is_symlink()
            {
                masks.push((path.clone(), if metadata.is_dir() { Kind::Directory } else { Kind::File }));
            }
        }
        let masks = masks.into_iter().map(|(path, kind)| Entry::Mask { path, kind }).collect();
        (masks, guarded)
    }

    fn writable_at(&self, path: &Path) -> bool {
        let innermost = self
            .nodes
            .iter()
            .filter(|(at, node)| matches!(node, Node::Bind { .. }) && is_at_or_below(path, at))
            .max_by_key(|(at, _)| at.components().count());
        matches!(innermost, Some((_, Node::Bind { access: Access::ReadWrite, .. })))
    }

    fn into_spec(self, masks: Vec<Entry>, guarded: Vec<PathBuf>) -> Result<Lowered, LowerError> {
        let policy = &self.request.policy;
        let restricted = !policy.process.allowed_executables.is_empty();
        let private_exec = if restricted { Exec::Refused } else { Exec::Allowed };
        let mut entries = Vec::new();
        let mut writable = vec![PathBuf::from("/dev"), PathBuf::from("/proc/self")];
        let mut rules = vec![LandlockRule { path: "/".into(), access: LandlockAccess::List }];
        let mut rule = |path: &Path, access| rules.push(LandlockRule { path: path.to_owned(), access });
        for (path, node) in &self.nodes {
            match node {
                Node::Bind { kind, access, exec, owner } => {
                    entries.push(Entry::Bind {
                        path: path.clone(),
                        kind: *kind,
                        access: *access,
                        exec: *exec,
                        owner: *owner,
                    });
                    if *access == Access::ReadWrite {
                        writable.push(path.clone());
                    }
                    rule(path, landlock_access(*access, if restricted { Exec::Refused } else { *exec }));
                }
                Node::Private { mode } => {
                    entries.push(Entry::Private { path: path.clone(), mode: *mode, exec: private_exec });
                    writable.push(path.clone());
                    rule(path, landlock_access(Access::ReadWrite, private_exec));
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
            own_network: true,
            guards: !guarded.is_empty(),
            masks: !masks.is_empty(),
            callers_terminal: terminal::passed_on(self.request.terminal),
        };
        entries.extend(masks);
        let spec = Spec {
            walls: Walls::Built,
            namespaces: if own_network { Namespaces::All } else { Namespaces::AllButNetwork },
            identity: identity()?,
            hostname: "lazaret".to_owned(),
            view: entries,
            scratch: Scratch {
                bytes: policy.filesystem.max_total_size.map_or(SCRATCH_BYTES, |bytes| bytes.0),
                inodes: policy.filesystem.max_inodes.unwrap_or(SCRATCH_INODES),
            },
            command: self.command(),
            filter: Some(filter::build(policy, circumstances)),
            guarded,
            sockets: self.sockets.clone(),
            landlock: Landlock { rules },
            limits: limits(policy),
            terminal: Terminal::Inherit,
        };
        Ok(Lowered {
            spec,
            needed: needed_layers(policy.isolation_level),
            writable,
            denied: self.denied,
            on_escape: policy.on_escape.unwrap_or(if own_network { OnEscape::Kill } else { OnEscape::Deny }),
            notes: self.notes,
        })
    }

    fn command(&self) -> Command {
        let request = self.request;
        let inside = |path: &Path| {
            let canonical = canonical(path).unwrap_or_else(|_| path.to_owned());
            self.visible(&canonical).then_some(canonical)
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
        Command {
            argv: request.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: environment::clean(
                &request.environment,
                &request.policy.environment,
                self.home.as_deref(),
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
        command: Command {
            argv: request.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: request
                .environment
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            directory: request.directory.clone(),
        },
        filter: None,
        guarded: Vec::new(),
        sockets: Vec::new(),
        landlock: Landlock { rules: Vec::new() },
        limits: Limits::default(),
        terminal: Terminal::Inherit,
    };
    Lowered {
        spec,
        needed: Vec::new(),
        writable: Vec::new(),
        denied: Vec::new(),
        on_escape: OnEscape::Deny,
        notes: Vec::new(),
    }
}

/// The same policy where no namespaces can be had: Landlock and seccomp stand alone.
pub fn without_namespaces(lowered: &Lowered, policy: &Policy) -> Lowered {
    let mut weaker = lowered.clone();
    let spec = &mut weaker.spec;
    spec.namespaces = Namespaces::None;
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
    // There are no private directories here, and the host's own are not to be written.
    spec.landlock.rules.retain(|rule| !private.contains(&rule.path.as_path()));
    // What is denied below a visible directory cannot be taken out of it again; whoever grants the directory
    // grants the name. So directories with a denied name in them are not granted at all.
    let denied = &lowered.denied;
    spec.landlock.rules.retain(|rule| {
        rule.access == LandlockAccess::List || !denied.iter().any(|denied| is_at_or_below(denied, &rule.path))
    });
    // Counted per user on the whole host, not per sandbox.
    spec.limits.processes = None;
    let allow_host_network = policy.isolation_level == Level::Process;
    let circumstances = filter::Circumstances {
        own_network: allow_host_network,
        guards: !spec.guarded.is_empty(),
        masks: spec.view.iter().any(|entry| matches!(entry, Entry::Mask { .. })),
        callers_terminal: spec.terminal == Terminal::Inherit,
    };
    spec.filter = Some(filter::build(policy, circumstances));
    weaker
}

fn needed_layers(level: Level) -> Vec<Layer> {
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
        (Access::ReadWrite, Exec::Allowed) => LandlockAccess::WriteExecute,
        (Access::ReadWrite, Exec::Refused) => LandlockAccess::Write,
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
        processes: policy.process.max_processes.or(policy.resources.max_threads),
        open_files: policy.resources.max_file_descriptors,
        file_size: policy.filesystem.max_file_size.map(|bytes| bytes.0),
        data: policy.resources.max_memory.map(|bytes| bytes.0),
        cpu_seconds: policy.resources.max_cpu.map(|millis| millis.0.div_ceil(1000)),
    }
}

/// Who the command is on the host.
fn identity() -> Result<Identity, LowerError> {
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

/// Is `path` the same as `above`, or below it? Both are absolute and normal, so bytes tell; this runs some
/// thousand times per launch, and walking components would take most of a millisecond.
fn is_at_or_below(path: &Path, above: &Path) -> bool {
    let (path, above) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || above == b"/")
}

/// The path without links, in three system calls where the C library takes one per component.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    match fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())) {
        Ok(canonical) if canonical.is_absolute() => Ok(canonical),
        _ => path.canonicalize(),
    }
}

/// Resolves links in the part of a path that exists; the rest stays as it is. Many denied paths share their
/// parents, so those are remembered.
fn canonical_as_far_as_it_exists(path: &Path, parents: &mut BTreeMap<PathBuf, PathBuf>) -> PathBuf {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    if let Some(known) = parents.get(parent) {
        return known.join(name);
    }
    let resolved = canonical(parent).unwrap_or_else(|_| canonical_as_far_as_it_exists(parent, parents));
    parents.insert(parent.to_owned(), resolved.clone());
    resolved.join(name)
}
