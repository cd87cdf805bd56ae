//! Which paths the command sees, before they are put into a `Spec`: what the policy lists, what every
//! sandbox has, what is denied. What else can be asked for is in the files below.

mod layers;
mod shielded;
mod whole;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use lazaret_sandbox::{
    pattern::Pattern,
    spec::{Access, Entry, Exec, Kind, Object, Owner},
};

use crate::{
    lower::LowerError,
    paths::{Found, canonical, canonical_as_far_as_it_exists, is_at_or_below, look},
    request::Request,
};

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
/// The third part is what such a directory always holds.
const TOOLCHAIN_VARIABLES: [(&str, &str, &str); 5] = [
    ("CARGO_HOME", "bin", "bin"),
    ("RUSTUP_HOME", "", "toolchains"),
    ("PYENV_ROOT", "", "versions"),
    ("NVM_DIR", "", "nvm.sh"),
    ("VIRTUAL_ENV", "", "pyvenv.cfg"),
];
/// Files with tokens that may lie in such a directory.
const CREDENTIALS_IN_TOOLCHAINS: [&str; 6] =
    ["credentials", "credentials.toml", ".npmrc", ".condarc", "pip.conf", ".pypirc"];

/// One path of the view before it is put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Bind {
        object: Object,
        kind: Kind,
        access: Access,
        exec: Exec,
        owner: Owner,
    },
    /// Bound onto itself.
    Pin,
    /// Copied, because something is mounted below.
    Hollow {
        exec: Exec,
    },
    Private {
        mode: u32,
    },
    /// An empty directory, or a file that cannot be opened, lies there.
    Hidden(Kind),
    Symlink(PathBuf),
    Proc,
    Dev,
}

pub struct View<'a> {
    pub request: &'a Request,
    pub home: Option<PathBuf>,
    pub nodes: BTreeMap<PathBuf, Node>,
    pub denied: Vec<PathBuf>,
    /// Denied, and watched: see `honeypotPaths`.
    pub bait: Vec<PathBuf>,
    pub sockets: Vec<PathBuf>,
    /// Sockets of the host, or directories of them, by name alone.
    pub reachable: Vec<PathBuf>,
    pub protected: Vec<Pattern>,
    pub hidden: Vec<Pattern>,
    /// Credential files that toolchains keep beside their programs.
    pub credentials: Vec<PathBuf>,
    pub notes: Vec<String>,
}

/// Where something is mounted on the host.
fn mount_points() -> Vec<PathBuf> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|path| PathBuf::from(OsString::from_vec(unescape(path))))
        .collect()
}

/// The kernel writes spaces and line ends in paths as three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Shown as it is on the host, whoever owns it.
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| is_at_or_below(path, Path::new(system)))
}

fn is_kernel_made(path: &Path) -> bool {
    KERNEL.iter().any(|kernel| is_at_or_below(path, Path::new(kernel)))
}

impl View<'_> {
    pub fn expand(&self, path: &Path) -> Result<PathBuf, LowerError> {
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

    /// Denied paths: canonical as far as they exist, as written, and where links lead.
    pub fn denied(&mut self) -> Result<(), LowerError> {
        let own = self.request.own_directories.iter().cloned();
        let filesystem = &self.request.policy.filesystem;
        for path in &filesystem.honeypot_paths {
            match self.expand(path) {
                Ok(path) => self.bait.push(canonical_as_far_as_it_exists(&path, &mut Vec::new()).0),
                Err(LowerError::NoHome { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut denied = Vec::new();
        for path in filesystem.denied_paths.iter().chain(&filesystem.honeypot_paths) {
            match self.expand(path) {
                Ok(path) => denied.push(path),
                // Without a home there is nothing there to protect.
                Err(LowerError::NoHome { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut parents = Vec::new();
        // Where everything is visible they are covered, which costs nothing; to guard their names would take
        // every opening of a file to init.
        let wide = filesystem.shows_everything();
        for path in denied.into_iter().chain(own.filter(|_| !wide)) {
            let (resolved, may_exist) = canonical_as_far_as_it_exists(&path, &mut parents);
            if may_exist && let Ok(link) = fs::read_link(&resolved) {
                // Where it leads, also when nothing is there yet.
                let target = resolved.parent().map(|parent| parent.join(link)).unwrap_or_default();
                let target = canonical(&resolved)
                    .unwrap_or_else(|_| canonical_as_far_as_it_exists(&target, &mut parents).0);
                self.denied.push(target);
            }
            self.denied.push(resolved);
            // The name as it was written: a link on the way can be replaced by a directory.
            self.denied.push(path);
        }
        // By bytes: comparing by components takes ten times as long, and any order will do.
        self.denied.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        self.denied.dedup_by(|a, b| a.as_os_str() == b.as_os_str());
        Ok(())
    }

    pub fn listed(&mut self, paths: &[PathBuf], access: Access) -> Result<(), LowerError> {
        for path in paths {
            let expanded = self.expand(path)?;
            let optional = SYSTEM.iter().any(|system| is_at_or_below(&expanded, Path::new(system)))
                || path.starts_with("~");
            let found = match look(&expanded) {
                Ok(found) => found,
                Err(_) if optional => continue,
                Err(source) => return Err(LowerError::Missing { path: expanded, source }),
            };
            if is_kernel_made(&found.path) {
                return Err(LowerError::Kernel { path: expanded });
            }
            if found.path == Path::new("/") {
                if path == Path::new("/") {
                    self.everything(access)?;
                    continue;
                }
                if path == Path::new(".") {
                    self.notes.push("the current directory is /, which is not made visible: change into a project directory, or name what is needed with --rw".to_owned());
                    continue;
                }
                return Err(LowerError::Root);
            }
            self.link_to(&expanded, &found.path);
            self.bind(found, access);
        }
        Ok(())
    }

    /// What a path is part of.
    fn node_above(&self, path: &Path) -> Option<&Node> {
        self.nodes
            .iter()
            .filter(|(at, node)| !matches!(node, Node::Symlink(_)) && is_at_or_below(path, at))
            .max_by_key(|(at, _)| at.as_os_str().len())
            .map(|(_, node)| node)
    }

    /// A path typed through a link keeps working inside.
    pub fn link_to(&mut self, typed: &Path, canonical: &Path) {
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

    pub fn bind(&mut self, found: Found, access: Access) {
        let Found { path, object, kind, is_socket } = found;
        if is_socket {
            self.sockets.push(path.clone());
        }
        let system = SYSTEM.iter().any(|system| is_at_or_below(&path, Path::new(system)))
            // What lies in a directory for everybody is somebody's own.
            && !PRIVATE.iter().any(|shared| is_at_or_below(&path, Path::new(shared)));
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
            .or_insert(Node::Bind { object, kind, access, exec: Exec::Allowed, owner });
    }

    pub fn toolchains(&mut self) {
        if !self.request.policy.filesystem.toolchains {
            return;
        }
        let mut found = Vec::new();
        if let Some(home) = &self.home {
            found.extend(TOOLCHAINS.iter().map(|name| home.join(name)));
        }
        for (variable, below, marker) in TOOLCHAIN_VARIABLES {
            let value = self.request.environment.iter().find(|(key, _)| key == variable);
            if let Some((_, value)) = value {
                let path = Path::new(value);
                // Only what looks like the thing the variable is for.
                if path.is_absolute() && path.join(marker).exists() {
                    found.push(if below.is_empty() { path.to_owned() } else { path.join(below) });
                    self.credentials.extend(CREDENTIALS_IN_TOOLCHAINS.iter().map(|name| path.join(name)));
                }
            }
        }
        for typed in found {
            let Ok(found) = look(&typed) else { continue };
            // A variable must not open the whole home, or something wider.
            let too_wide = found.path.components().count() < 3
                || self.home.as_ref().is_some_and(|home| is_at_or_below(home, &found.path));
            if found.kind == Kind::Directory
                && !too_wide
                && !is_kernel_made(&found.path)
                && !self.visible(&found.path)
            {
                self.link_to(&typed, &found.path);
                self.credentials.extend(CREDENTIALS_IN_TOOLCHAINS.iter().map(|name| found.path.join(name)));
                self.bind(found, Access::ReadOnly);
            }
        }
    }

    /// `/bin/true` is found when /usr is visible, whether or not /bin was listed.
    pub fn merged_links(&mut self) {
        for name in MERGED {
            let path = Path::new(name);
            if let Ok(target) = fs::read_link(path)
                && canonical(path).is_ok_and(|canonical| {
                    self.visible(&canonical) || self.holds_something_visible(&canonical)
                })
            {
                self.nodes.entry(path.to_owned()).or_insert(Node::Symlink(target));
            }
        }
    }

    pub fn root_path(&mut self) -> Result<(), LowerError> {
        let Some(root) = self.request.policy.root_path() else { return Ok(()) };
        match look(root) {
            Ok(found) if is_kernel_made(&found.path) => {
                return Err(LowerError::Kernel { path: root.to_owned() });
            }
            Ok(found) => {
                if !self.visible(&found.path) && found.path != Path::new("/") {
                    self.link_to(root, &found.path);
                    self.bind(found, Access::ReadOnly);
                }
            }
            Err(_) => {
                self.nodes.entry(root.to_owned()).or_insert(Node::Private { mode: 0o700 });
            }
        }
        Ok(())
    }

    pub fn private_directories(&mut self) {
        for path in PRIVATE {
            self.nodes.entry(PathBuf::from(path)).or_insert(Node::Private { mode: 0o1777 });
        }
        if let Some(home) = &self.home
            && home != Path::new("/")
            && !self.visible(home)
            && !is_kernel_made(home)
        {
            self.nodes.insert(home.clone(), Node::Private { mode: 0o700 });
        }
    }

    pub fn kernel_made(&mut self) {
        self.nodes.insert(PathBuf::from("/proc"), Node::Proc);
        self.nodes.insert(PathBuf::from("/dev"), Node::Dev);
    }

    /// Is the path inside something bound?
    pub fn visible(&self, path: &Path) -> bool {
        let shows = |node: &Node| matches!(node, Node::Bind { .. } | Node::Hollow { .. });
        let deepest = |is: &dyn Fn(&Node) -> bool| {
            let above = self.nodes.iter().filter(|(at, node)| is(node) && is_at_or_below(path, at));
            above.map(|(at, _)| at.as_os_str().len()).max()
        };
        let Some(shown) = deepest(&shows) else { return false };
        // What the host has below a directory of the sandbox's own is not there.
        deepest(&|node| matches!(node, Node::Hidden(_) | Node::Private { .. }))
            .is_none_or(|hidden| hidden < shown)
    }

    /// Is something of the host bound inside this directory?
    pub fn holds_something_visible(&self, directory: &Path) -> bool {
        let shows = |node: &Node| matches!(node, Node::Bind { .. } | Node::Hollow { .. } | Node::Symlink(_));
        directory != Path::new("/")
            && self.nodes.iter().any(|(at, node)| shows(node) && is_at_or_below(at, directory))
    }

    pub fn remove_denied(&mut self) {
        let denied = &self.denied;
        self.nodes.retain(|path, _| !denied.iter().any(|denied| is_at_or_below(path, denied)));
    }

    /// What lies inside a directory that is bound in the same way need not be bound once more.
    pub fn remove_covered(&mut self) {
        let nodes = self.nodes.clone();
        let sockets = &self.sockets;
        self.nodes.retain(|path, node| {
            // A socket keeps a mount of its own, so that nothing can be moved to its name.
            if sockets.contains(path) {
                return true;
            }
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
    pub fn restrict_programs(&mut self, programs: &[PathBuf]) -> Result<(), LowerError> {
        let mut carved = Vec::new();
        for library in ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib64"] {
            carved.extend(look(Path::new(library)).ok());
        }
        for (path, node) in &mut self.nodes {
            // A part of the libraries that is listed by itself is as good as all of them.
            if let Node::Bind { exec, access, .. } = node
                && !(*access == Access::ReadOnly
                    && carved.iter().any(|library| is_at_or_below(path, &library.path)))
            {
                *exec = Exec::Refused;
            }
        }
        for program in programs {
            let found =
                look(program).map_err(|source| LowerError::Missing { path: program.clone(), source })?;
            carved.push(found);
        }
        for Found { path, object, kind, .. } in carved {
            if !self.visible(&path) {
                continue;
            }
            let system = SYSTEM.iter().any(|system| is_at_or_below(&path, Path::new(system)));
            let owner = if system { Owner::Foreign } else { Owner::Caller };
            let node = Node::Bind { object, kind, access: Access::ReadOnly, exec: Exec::Allowed, owner };
            self.nodes.insert(path, node);
        }
        Ok(())
    }

    /// A read-only path inside a writable one must not be moved away together with its directory and made
    /// anew: the directories between are bound onto themselves, and what is a mount point cannot be renamed.
    pub fn pin_ancestors(&mut self) {
        let writable: Vec<(PathBuf, Node)> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::Bind { access: Access::ReadWrite, .. }))
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        let inner: Vec<PathBuf> = self.nodes.keys().cloned().collect();
        for (top, node) in &writable {
            for path in inner.iter().filter(|path| *path != top && is_at_or_below(path, top)) {
                for between in path.ancestors().skip(1).take_while(|between| between != top) {
                    if let Ok(found) = look(between)
                        && found.path == between
                        && let Node::Bind { exec, owner, .. } = node
                    {
                        self.nodes.entry(found.path).or_insert(Node::Bind {
                            object: found.object,
                            kind: found.kind,
                            access: Access::ReadWrite,
                            exec: *exec,
                            owner: *owner,
                        });
                    }
                }
            }
        }
    }

    /// Denied paths in the view: what exists is covered, and every name is guarded, so that it can neither be
    /// made anew nor be reached when the host makes or exchanges it.
    pub fn masks_and_guards(&self) -> (Vec<Entry>, Vec<PathBuf>) {
        let mut masks: Vec<(PathBuf, Kind)> = Vec::new();
        let mut guarded = Vec::new();
        for path in self.denied.iter().filter(|path| self.visible(path)) {
            if masks.iter().any(|(above, kind)| *kind == Kind::Directory && is_at_or_below(path, above)) {
                continue;
            }
            guarded.push(path.clone());
            // By its own name only: what a link leads to is denied under its own.
            if let Ok(found) = look(path)
                && found.path == *path
            {
                masks.push((path.clone(), found.kind));
            }
        }
        (masks.into_iter().map(|(path, kind)| Entry::Mask { path, kind }).collect(), guarded)
    }

    /// Bait that lies in no visible directory is put there as an empty file: nobody could bite otherwise.
    pub fn decoys(&self) -> Vec<Entry> {
        let hidden = self.bait.iter().filter(|path| !self.visible(path) && !is_kernel_made(path));
        hidden.map(|path| Entry::Text { path: path.clone(), content: String::new() }).collect()
    }

    /// Credential files of toolchains are covered where they exist.
    pub fn credential_masks(&self) -> Vec<Entry> {
        let mut paths: Vec<&PathBuf> = self.credentials.iter().filter(|path| self.visible(path)).collect();
        paths.sort();
        paths.dedup();
        paths
            .into_iter()
            .filter(|path| !self.denied.iter().any(|denied| is_at_or_below(path, denied)))
            .filter_map(|path| look(path).ok().filter(|found| found.path == *path))
            .map(|found| Entry::Mask { path: found.path, kind: found.kind })
            .collect()
    }
}
