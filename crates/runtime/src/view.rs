//! Which paths the command sees, before they are put into a `Spec`: what the policy lists, what every
//! sandbox has, what is denied.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use lazaret_sandbox::spec::{Access, Entry, Exec, Kind, Owner};

use crate::{
    lower::LowerError,
    paths::{canonical, canonical_as_far_as_it_exists, is_at_or_below},
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
const TOOLCHAIN_VARIABLES: [(&str, &str); 5] =
    [("CARGO_HOME", "bin"), ("RUSTUP_HOME", ""), ("PYENV_ROOT", ""), ("NVM_DIR", ""), ("VIRTUAL_ENV", "")];
/// One path of the view before it is put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Bind { kind: Kind, access: Access, exec: Exec, owner: Owner },
    Private { mode: u32 },
    Symlink(PathBuf),
    Proc,
    Dev,
}

pub struct View<'a> {
    pub request: &'a Request,
    pub home: Option<PathBuf>,
    pub nodes: BTreeMap<PathBuf, Node>,
    pub denied: Vec<PathBuf>,
    pub sockets: Vec<PathBuf>,
    pub notes: Vec<String>,
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

    /// Denied paths, canonical as far as they exist; a link is denied under both its names.
    pub fn denied(&mut self) -> Result<(), LowerError> {
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
        let mut parents = Vec::new();
        for path in denied.into_iter().chain(own) {
            let resolved = canonical_as_far_as_it_exists(&path, &mut parents);
            if fs::symlink_metadata(&resolved).is_ok_and(|metadata| metadata.is_symlink())
                && let Ok(target) = canonical(&resolved)
            {
                self.denied.push(target);
            }
            self.denied.push(resolved);
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

    pub fn bind(&mut self, path: PathBuf, access: Access) {
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

    pub fn toolchains(&mut self) {
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
    pub fn merged_links(&mut self) {
        for name in MERGED {
            let path = Path::new(name);
            if let Ok(target) = fs::read_link(path)
                && canonical(path).is_ok_and(|canonical| self.visible(&canonical))
            {
                self.nodes.entry(path.to_owned()).or_insert(Node::Symlink(target));
            }
        }
    }

    pub fn root_path(&mut self) {
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

    pub fn private_directories(&mut self) {
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

    pub fn kernel_made(&mut self) {
        self.nodes.insert(PathBuf::from("/proc"), Node::Proc);
        self.nodes.insert(PathBuf::from("/dev"), Node::Dev);
    }

    /// Is the path inside something bound?
    pub fn visible(&self, path: &Path) -> bool {
        self.nodes.iter().any(|(at, node)| matches!(node, Node::Bind { .. }) && is_at_or_below(path, at))
    }

    pub fn remove_denied(&mut self) {
        let denied = &self.denied;
        self.nodes.retain(|path, _| !denied.iter().any(|denied| is_at_or_below(path, denied)));
    }

    /// What lies inside a directory that is bound in the same way need not be bound once more.
    pub fn remove_covered(&mut self) {
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
    pub fn restrict_programs(&mut self, programs: &[PathBuf]) -> Result<(), LowerError> {
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
    pub fn masks_and_guards(&self) -> (Vec<Entry>, Vec<PathBuf>) {
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

    pub fn writable_at(&self, path: &Path) -> bool {
        let innermost = self
            .nodes
            .iter()
            .filter(|(at, node)| matches!(node, Node::Bind { .. }) && is_at_or_below(path, at))
            .max_by_key(|(at, _)| at.components().count());
        matches!(innermost, Some((_, Node::Bind { access: Access::ReadWrite, .. })))
    }
}
