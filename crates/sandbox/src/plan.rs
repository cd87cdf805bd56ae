//! The ordered steps that build a sandbox, as plain data: what `run --plan` prints, what the golden tests
//! compare and what the child carries out, one loop, top to bottom.

use std::{fmt, path::PathBuf};

use crate::{
    pattern::Pattern,
    spec::{
        Access, Doors, Entry, Exec, Group, Identity, Kind, LandlockAccess, LandlockRule, Limits, Namespaces,
        Owner, Scratch, Sockets, Spec, Terminal, Walls,
    },
};

/// One step. The order of the variants is the order in which they appear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    EnterNamespaces(Namespaces),
    MapIdentity(Identity),
    /// Held by a control group where one can be had, by sampling elsewhere.
    LimitTogether(Group),
    DieWithParent,
    /// Listen where the ways out begin, and hand the listening ends to the supervisor.
    OpenDoors(Doors),
    DetachMounts,
    NewRoot(Scratch),
    Place(Entry),
    ForbidNamespaces,
    SealRoot,
    PivotRoot,
    LoopbackUp,
    Hostname(String),
    Limit(Limits),
    Processors(Vec<u32>),
    DropCapabilities,
    NoNewPrivileges,
    Landlock(Vec<LandlockRule>),
    /// Init asks itself about these names before it acts.
    Guard {
        names: Vec<PathBuf>,
        protected: Vec<Pattern>,
        hidden: Vec<Pattern>,
        sockets: Sockets,
    },
    /// Report, and start the commands that are given.
    AwaitCommands,
    StartInit,
    Terminal(Terminal),
    CloseDescriptors,
    Seccomp {
        rules: usize,
        notified: usize,
    },
    Report,
    Execute {
        program: String,
        directory: PathBuf,
    },
}

/// The steps of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
}

impl Plan {
    pub fn of(spec: &Spec) -> Plan {
        let mut steps = Vec::new();
        if spec.namespaces != Namespaces::None {
            steps.push(Step::EnterNamespaces(spec.namespaces));
            steps.push(Step::MapIdentity(spec.identity));
        }
        if !spec.group.is_empty() {
            steps.push(Step::LimitTogether(spec.group));
        }
        steps.push(Step::DieWithParent);
        if let (Some(doors), Namespaces::All) = (spec.doors, spec.namespaces) {
            steps.push(Step::OpenDoors(doors));
        }
        if spec.namespaces != Namespaces::None {
            steps.push(Step::DetachMounts);
            steps.push(Step::NewRoot(spec.scratch));
            steps.extend(spec.view.iter().cloned().map(Step::Place));
            steps.push(Step::ForbidNamespaces);
            steps.push(Step::SealRoot);
            steps.push(Step::PivotRoot);
            if spec.namespaces == Namespaces::All {
                steps.push(Step::LoopbackUp);
            }
            steps.push(Step::Hostname(spec.hostname.clone()));
        }
        if spec.walls == Walls::Built {
            steps.push(Step::Limit(spec.limits));
            if !spec.processors.is_empty() {
                steps.push(Step::Processors(spec.processors.clone()));
            }
            steps.push(Step::DropCapabilities);
            steps.push(Step::NoNewPrivileges);
            steps.push(Step::Landlock(spec.landlock.rules.clone()));
        }
        let by_name = spec.guarded.is_empty() && spec.protected.is_empty() && spec.hidden.is_empty();
        if !by_name || spec.sockets != Sockets::Listed(Vec::new()) {
            steps.push(Step::Guard {
                names: spec.guarded.clone(),
                protected: spec.protected.clone(),
                hidden: spec.hidden.clone(),
                sockets: spec.sockets.clone(),
            });
        }
        let Some(command) = &spec.command else {
            steps.push(Step::AwaitCommands);
            return Plan { steps };
        };
        steps.push(Step::StartInit);
        steps.push(Step::Terminal(spec.terminal));
        steps.push(Step::CloseDescriptors);
        if let Some(filter) = &spec.filter {
            use crate::linux::bpf::Action;
            let notified = filter.rules.iter().filter(|rule| {
                rule.otherwise == Action::Notify
                    || rule.cases.iter().any(|case| case.action == Action::Notify)
            });
            steps.push(Step::Seccomp { rules: filter.rules.len(), notified: notified.count() });
        }
        steps.push(Step::Report);
        steps.push(Step::Execute {
            program: command
                .argv
                .first()
                .map(|program| String::from_utf8_lossy(program).into_owned())
                .unwrap_or_default(),
            directory: command.directory.clone(),
        });
        Plan { steps }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", number + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::EnterNamespaces(Namespaces::All) => {
                write!(f, "enter new namespaces: user mount pid net ipc uts cgroup")
            }
            Step::EnterNamespaces(_) => write!(f, "enter new namespaces: user mount pid ipc uts cgroup"),
            Step::MapIdentity(Identity::Same { uid, gid }) => {
                write!(f, "map identity: uid {uid} and gid {gid}, the same inside and outside")
            }
            Step::MapIdentity(Identity::Mapped { inside, host }) => {
                write!(f, "map identity: uid and gid {inside} inside are {host} on the host")
            }
            Step::LimitTogether(group) => write!(f, "limits on everything together: {group}"),
            Step::DieWithParent => write!(f, "die with the supervisor"),
            Step::OpenDoors(Doors { resolver, proxy }) => {
                write!(f, "open the ways out, served by the supervisor: names {resolver}, proxy {proxy}")
            }
            Step::DetachMounts => write!(f, "make every mount private"),
            Step::NewRoot(scratch) => write!(
                f,
                "new empty root; private storage of at most {} bytes and {} files",
                scratch.bytes, scratch.inodes
            ),
            Step::Place(entry) => write!(f, "{entry}"),
            Step::ForbidNamespaces => write!(f, "forbid nested user namespaces, make /proc read-only"),
            Step::SealRoot => write!(f, "make the root read-only"),
            Step::PivotRoot => write!(f, "change root, detach the old one"),
            Step::LoopbackUp => write!(f, "the loopback interface, the only one; every address leads to it"),
            Step::Hostname(name) => write!(f, "host name {name}"),
            Step::Limit(limits) => write!(f, "limits: {limits}"),
            Step::Processors(numbers) => write!(f, "use processors {numbers:?} only"),
            Step::DropCapabilities => write!(f, "drop all capabilities"),
            Step::NoNewPrivileges => write!(f, "no new privileges"),
            Step::Landlock(rules) => {
                write!(f, "landlock, {} rules:", rules.len())?;
                rules
                    .iter()
                    .try_for_each(|rule| write!(f, "\n       {} {}", rule.access, rule.path.display()))
            }
            Step::Guard { names, protected, hidden, sockets } => {
                write!(f, "init guards names:")?;
                names
                    .iter()
                    .try_for_each(|name| write!(f, "\n       never opened or made  {}", name.display()))?;
                hidden.iter().try_for_each(|name| write!(f, "\n       never read            {name}"))?;
                protected.iter().try_for_each(|name| write!(f, "\n       never written         {name}"))?;
                match sockets {
                    Sockets::All => write!(f, "\n       every visible socket of the host"),
                    Sockets::Listed(sockets) => sockets
                        .iter()
                        .try_for_each(|path| write!(f, "\n       socket of the host    {}", path.display())),
                }
            }
            Step::AwaitCommands => write!(f, "report what is in force, wait for commands as a small init"),
            Step::StartInit => write!(f, "start the command's process under a small init"),
            Step::Terminal(Terminal::Inherit) => write!(f, "pass on the standard streams"),
            Step::Terminal(Terminal::Own { .. }) => write!(f, "give the command a terminal of its own"),
            Step::CloseDescriptors => write!(f, "close every descriptor from 3 on"),
            Step::Seccomp { rules, notified } => {
                write!(f, "seccomp filter: {rules} calls with a rule, {notified} watched by the supervisor")
            }
            Step::Report => write!(f, "report what is in force, wait for the word to go"),
            Step::Execute { program, directory } => write!(f, "execute {program} in {}", directory.display()),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Bind { path, access, exec, owner, .. } => {
                let access = match access {
                    Access::ReadOnly => "read-only ",
                    Access::ReadWrite => "read-write",
                    Access::CopyOnWrite => "copy-write",
                };
                write!(f, "{access} {}", path.display())?;
                if *exec == Exec::Refused {
                    write!(f, " (no programs)")?;
                }
                if *owner == Owner::Caller {
                    write!(f, " (owner shown as the caller)")?;
                }
                Ok(())
            }
            Entry::Hollow { path, .. } => write!(f, "copied     {}", path.display()),
            Entry::Pin { path } => write!(f, "pinned     {}", path.display()),
            Entry::Private { path, .. } => write!(f, "private    {}", path.display()),
            Entry::Empty { path } => write!(f, "empty      {}", path.display()),
            Entry::Directory { path } => write!(f, "directory  {}", path.display()),
            Entry::Symlink { path, target } => {
                write!(f, "link       {} -> {}", path.display(), target.display())
            }
            Entry::Text { path, .. } => write!(f, "made       {}", path.display()),
            Entry::Mask { path, kind: Kind::Directory } => write!(f, "denied     {}/", path.display()),
            Entry::Mask { path, kind: Kind::File } => write!(f, "denied     {}", path.display()),
            Entry::Proc => write!(f, "fresh      /proc"),
            Entry::Dev => write!(f, "minimal    /dev"),
        }
    }
}

impl fmt::Display for LandlockAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LandlockAccess::List => "list            ",
            LandlockAccess::Read => "read            ",
            LandlockAccess::ReadExecute => "read and execute",
            LandlockAccess::Write => "write           ",
            LandlockAccess::WriteExecute => "write and execute",
            LandlockAccess::Execute => "execute         ",
            LandlockAccess::Device => "device          ",
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(
            f,
            &[
                ("processes", self.processes),
                ("open files", self.open_files),
                ("file size", self.file_size),
                ("data", self.data),
                ("cpu seconds", self.cpu_seconds),
            ],
        )
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(
            f,
            &[
                ("memory", self.memory),
                ("processes and threads", self.tasks),
                ("percent of a processor", self.cpu_percent),
                ("ms of CPU time", self.cpu_time_ms),
                ("disk bytes a second", self.io_bytes),
                ("disk operations a second", self.io_operations),
            ],
        )
    }
}

fn list(f: &mut fmt::Formatter<'_>, limits: &[(&str, Option<u64>)]) -> fmt::Result {
    let mut any = false;
    for (name, value) in limits {
        if let Some(value) = value {
            write!(f, "{}{name} {value}", if any { ", " } else { "" })?;
            any = true;
        }
    }
    if any { Ok(()) } else { f.write_str("none beyond the caller's") }
}
