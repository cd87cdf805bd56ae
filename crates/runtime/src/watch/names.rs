//! Calls that name a path: what they lead to, whether that is denied, bait or read-only, and who carries them
//! out.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use lazaret_policy::violation::{Indicator, Severity};
use lazaret_sandbox::linux::{
    errand::Operation,
    launch::Sandbox,
    notify::{Notification, Task},
};

use super::{
    AT_FDCWD, DENIED_WINS, EINVAL, HIDDEN, O_ACCMODE, O_CREAT, O_PATH, O_TMPFILE, O_TRUNC, Verdict, Watch,
    links, privileged,
};
use crate::{lower::Sight, record::Violation, report::printable};

impl Watch<'_> {
    #[expect(clippy::too_many_arguments, reason = "the arguments of openat, and whose they are")]
    pub(super) fn opening(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        directory: i32,
        path: u64,
        flags: u64,
        mode: u64,
    ) -> io::Result<Verdict> {
        let creates = flags & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE;
        if creates && privileged(mode) {
            return Ok(self.privileged_mode(call, task, &call.name()));
        }
        // A guarded name may come into being on the host's side, too: whether it can be opened is then init's
        // to say. (What exists is also masked, so for the rest a look is enough.)
        // A bare handle (O_PATH) cannot be handed over, and gives nothing away: what is opened through it is
        // looked at again.
        let changes = creates || flags & O_ACCMODE != 0 || flags & O_TRUNC != 0;
        if (self.guards || (self.protects && changes)) && flags & O_PATH == 0 {
            return self.let_init(sandbox, call, task, Operation::Open, directory, |request, task| {
                request.path = task.string(path)?;
                request.flags = flags as u32;
                request.mode = mode as u32 & 0o7777;
                Ok(None)
            });
        }
        let text = task.string(path)?;
        let Some(full) = self.absolute(task, directory, &text) else { return Ok(Verdict::Proceed) };
        if !changes {
            return Ok(self.note_denied(call, task, &full, "read"));
        }
        if self.is_writable(&full) {
            return Ok(Verdict::Proceed);
        }
        Ok(Verdict::Note { violation: Box::new(self.write_denied(call, task, &full)) })
    }

    pub(super) fn removing(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        (operation, directory, path, argument): (Operation, i32, u64, u64),
    ) -> io::Result<Verdict> {
        if self.guards || self.protects {
            return self.let_init(sandbox, call, task, operation, directory, |request, task| {
                request.path = task.string(path)?;
                request.flags = argument as u32;
                request.device = argument;
                Ok(None)
            });
        }
        let text = task.string(path)?;
        let Some(full) = self.absolute(task, directory, &text) else { return Ok(Verdict::Proceed) };
        if self.is_writable(&full) {
            return Ok(Verdict::Proceed);
        }
        Ok(Verdict::Note { violation: Box::new(self.write_denied(call, task, &full)) })
    }

    pub(super) fn executing(
        &self,
        call: &Notification,
        task: &Task,
        directory: i32,
        path: u64,
    ) -> io::Result<Verdict> {
        // Our own process, on its second try with a shell, lets an ordinary caller not look into its memory.
        let Ok(text) = task.string(path) else { return Ok(Verdict::Proceed) };
        let Some(full) = self.absolute(task, directory, &text) else { return Ok(Verdict::Proceed) };
        // By name inside the view, or by what the name leads to on the host, which is the same object.
        let listed = &self.policy.process.allowed_executables;
        let resolved = full.canonicalize().unwrap_or_else(|_| full.clone());
        let allowed = listed.iter().any(|program| {
            *program == full || program.canonicalize().is_ok_and(|program| program == resolved)
        });
        if allowed || !full.exists() {
            return Ok(Verdict::Proceed);
        }
        let shown = printable(&full.to_string_lossy());
        let remedy = format!("to allow: add \"{shown}\" to process.allowedExecutables");
        let description = format!("execution of {shown}");
        let violation = Violation {
            path: Some(full.to_string_lossy().into_owned()),
            ..self.violation(call, task, Indicator::Process, Severity::High, description, "landlock", remedy)
        };
        Ok(Verdict::Note { violation: Box::new(violation) })
    }

    /// The kernel refuses what is masked; here it is only told.
    pub(super) fn note_denied(&self, call: &Notification, task: &Task, path: &Path, what: &str) -> Verdict {
        if !self.is_denied(path) {
            return Verdict::Proceed;
        }
        let description = format!("{what} of {}", printable(&path.to_string_lossy()));
        let violation = Violation {
            path: Some(path.to_string_lossy().into_owned()),
            ..self.violation(
                call,
                task,
                Indicator::Filesystem,
                if self.is_bait(path) { Severity::Critical } else { Severity::High },
                description,
                "view",
                self.why_denied(path),
            )
        };
        Verdict::Note { violation: Box::new(violation) }
    }

    /// Nothing honest touches it.
    pub(super) fn is_bait(&self, path: &Path) -> bool {
        self.lowered.bait.iter().any(|bait| path.starts_with(bait))
    }

    pub(super) fn is_denied(&self, path: &Path) -> bool {
        self.lowered.denied.iter().any(|denied| path.starts_with(denied)) || self.is_hidden(path)
    }

    /// The longest of what is hidden and what is visible again decides.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        let sights = self.lowered.hidden.iter().filter(|(at, _)| path.starts_with(at));
        sights.max_by_key(|(at, _)| at.as_os_str().len()).is_some_and(|(_, sight)| *sight == Sight::Hidden)
            || self.lowered.spec.hidden.iter().any(|pattern| pattern.covers(path).is_some())
    }

    /// Is it the name that is protected, where writing is meant to work otherwise?
    pub(super) fn is_protected(&self, path: &Path) -> bool {
        self.lowered.spec.protected.iter().any(|pattern| pattern.covers(path).is_some())
    }

    /// Which line of the policy it is, and what to do about it.
    pub(super) fn why_denied(&self, path: &Path) -> String {
        if !self.lowered.denied.iter().any(|denied| path.starts_with(denied)) && self.is_hidden(path) {
            return HIDDEN.to_owned();
        }
        DENIED_WINS.to_owned()
    }

    pub(super) fn creating(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        name: &str,
    ) -> io::Result<Verdict> {
        let [a, b, c, d, e, _] = call.args;
        // Where the parts of each call are: first directory and path, second directory and path, flags.
        let (operation, base, first, second, rest): (_, i32, u64, Option<(i32, u64)>, [u64; 3]) = match name {
            "mkdir" => (Operation::Mkdir, AT_FDCWD, a, None, [0, b, 0]),
            "mkdirat" => (Operation::Mkdir, a as i32, b, None, [0, c, 0]),
            "mknod" => (Operation::Mknod, AT_FDCWD, a, None, [0, b, c]),
            "mknodat" => (Operation::Mknod, a as i32, b, None, [0, c, d]),
            // The target of a link is only text; the new name comes second.
            "symlink" => (Operation::Symlink, AT_FDCWD, b, Some((AT_FDCWD, a)), [0, 0, 0]),
            "symlinkat" => (Operation::Symlink, b as i32, c, Some((AT_FDCWD, a)), [0, 0, 0]),
            "link" => (Operation::Link, AT_FDCWD, a, Some((AT_FDCWD, b)), [0, 0, 0]),
            "linkat" => (Operation::Link, a as i32, b, Some((c as i32, d)), [e, 0, 0]),
            "rename" => (Operation::Rename, AT_FDCWD, a, Some((AT_FDCWD, b)), [0, 0, 0]),
            "renameat" => (Operation::Rename, a as i32, b, Some((c as i32, d)), [0, 0, 0]),
            _ => (Operation::Rename, a as i32, b, Some((c as i32, d)), [e, 0, 0]),
        };
        let [flags, mode, device] = rest;
        if !self.guards && !self.protects {
            // The name that is to appear, and for a rename the one that is to go.
            let mut names = match second {
                Some((directory, path)) if operation != Operation::Symlink => vec![(directory, path)],
                _ => vec![(base, first)],
            };
            if operation == Operation::Rename {
                names.push((base, first));
            }
            for (directory, path) in names {
                let text = task.string(path)?;
                if let Some(full) = self.absolute(task, directory, &text)
                    && !self.is_writable(&full)
                {
                    return Ok(Verdict::Note { violation: Box::new(self.write_denied(call, task, &full)) });
                }
            }
            return Ok(Verdict::Proceed);
        }
        self.let_init(sandbox, call, task, operation, base, |request, task| {
            request.path = task.string(first)?;
            request.flags = flags as u32;
            request.mode = mode as u32;
            request.device = device;
            let Some((directory, second)) = second else { return Ok(None) };
            request.other = task.string(second)?;
            if request.path.len() + request.other.len() > 8192 {
                return Err(io::Error::from_raw_os_error(EINVAL));
            }
            Ok((operation != Operation::Symlink).then_some(directory))
        })
    }

    pub(super) fn absolute(&self, task: &Task, directory: i32, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        let full =
            if path.is_absolute() { path.to_owned() } else { task.path_of(directory).ok()?.join(path) };
        let mut normal = PathBuf::from("/");
        for component in full.components() {
            match component {
                Component::Normal(name) => normal.push(name),
                Component::ParentDir => drop(normal.pop()),
                _ => {}
            }
        }
        Some(self.resolved(task, &normal).or_else(|| links::followed(task, &normal)).unwrap_or(normal))
    }

    /// Where a path leads in the view of the process, as far as it exists. For telling only: the process can
    /// change it the next moment.
    fn resolved(&self, task: &Task, path: &Path) -> Option<PathBuf> {
        let root = task.root().ok()?;
        let open = |path: &Path| {
            let relative = path.strip_prefix("/").unwrap_or(path);
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            let resolve = rustix::fs::ResolveFlags::IN_ROOT;
            let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
            rustix::fs::openat2(&root, relative, flags, rustix::fs::Mode::empty(), resolve)
        };
        let told = |fd: std::os::fd::OwnedFd| {
            std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd))).ok()
        };
        match open(path) {
            Ok(whole) => told(whole),
            // A link of /proc is on the way, or at the end of one.
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::XDEV) => None,
            Err(_) => {
                let parent = open(path.parent()?).ok()?;
                // A link that leads nowhere from here may lead somewhere for the process: through its own /proc.
                if rustix::fs::readlinkat(&parent, path.file_name()?, Vec::new()).is_ok() {
                    return None;
                }
                Some(told(parent)?.join(path.file_name()?))
            }
        }
    }

    pub(super) fn is_writable(&self, path: &Path) -> bool {
        let innermost = |paths: &[PathBuf]| {
            paths.iter().filter(|at| path.starts_with(at)).map(|at| at.components().count()).max()
        };
        let read_only: Vec<PathBuf> = self
            .lowered
            .spec
            .view
            .iter()
            .filter_map(|entry| match entry {
                lazaret_sandbox::spec::Entry::Bind {
                    path,
                    access: lazaret_sandbox::spec::Access::ReadOnly,
                    ..
                }
                | lazaret_sandbox::spec::Entry::Mask { path, .. } => Some(path.clone()),
                _ => None,
            })
            .collect();
        innermost(&self.lowered.writable) > innermost(&read_only)
    }
}
