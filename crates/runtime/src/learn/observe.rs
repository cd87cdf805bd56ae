//! Sees every call that goes to the supervisor, and notes what it shows. It decides nothing: whether a call
//! passes is for the filter to say, as it would have been without an observer.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use lazaret_policy::syscalls::{ALWAYS_BLOCKED, STARTUP};
use lazaret_sandbox::linux::{
    bpf::{Action, Filter, Rule},
    launch::Sandbox,
    notify::{Notification, Task},
    syscalls,
};
use lazaret_sandbox::spec::Command;

use super::{
    acts::{self, Act, Effect},
    findings::{Deed, Findings, Kind, Refused},
    headroom::ALWAYS,
    interpreter::{self, Interpreter},
    places::{Place, Places},
    walk::{Arrival, Walker, absolute},
};
use crate::{filter, lower::Lowered, report::printable, watch::links::Last};

const EPERM: i32 = 1;
const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: u64 = 0x1000;
const AF_UNIX: [u8; 2] = [1, 0];
/// Calls that every learnt policy allows, and that say something about files.
const TELLING: [&str; 13] = [
    "access",
    "execve",
    "faccessat",
    "faccessat2",
    "fstat",
    "newfstatat",
    "open",
    "openat",
    "readlink",
    "readlinkat",
    "stat",
    "lstat",
    "statx",
];

#[derive(Debug)]
pub struct Observer {
    /// The filter as it would have been, by number.
    plain: BTreeMap<u32, Rule>,
    places: Places,
    walker: Walker,
    pub(super) findings: Findings,
    /// Threads that have made a call.
    callers: HashSet<i32>,
    /// Where names that were used led to.
    known: HashMap<(PathBuf, Effect, Last), PathBuf>,
    pub(super) next_look: Instant,
    /// Something of the command could be looked at.
    has_looked: bool,
    /// The command, until it is executed.
    command: Option<Command>,
}

/// A call that says nothing and is allowed by every learnt policy need not be seen.
fn is_unseen(name: &str) -> bool {
    // Of the descriptor-only form of `stat` there is nothing to learn.
    // A process that is started must not wait for anybody: a signal would break that off, and to be told so
    // (EINTR) by `fork` is more than most programs can bear.
    let starts = ["fork", "vfork", "clone"].contains(&name);
    name == "fstat"
        || starts
        || ((STARTUP.contains(&name) || ALWAYS.contains(&name)) && !TELLING.contains(&name))
}

impl Observer {
    /// Widens what the supervisor sees, not what passes.
    pub fn new(lowered: &mut Lowered) -> Observer {
        let mut plain = BTreeMap::new();
        if let Some(filter) = &mut lowered.spec.filter {
            let Filter { rules, .. } = filter;
            plain = rules.iter().map(|rule| (rule.number, rule.clone())).collect();
            filter::see_everything(filter, is_unseen);
        }
        Observer {
            plain,
            places: Places::of(lowered),
            walker: Walker::default(),
            findings: Findings::default(),
            callers: HashSet::new(),
            known: HashMap::new(),
            next_look: Instant::now(),
            has_looked: false,
            command: lowered.spec.command.clone(),
        }
    }

    /// Would the call have passed without anybody looking?
    pub fn would_pass(&self, call: &Notification) -> bool {
        call.is_native()
            && self.plain.get(&call.number).is_some_and(|rule| rule.action(&call.args) == Action::Allow)
    }

    /// Names that were looked up.
    pub fn names<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        self.findings.names.extend(names.map(str::to_owned));
    }

    pub fn finish(self) -> Findings {
        self.findings
    }

    /// One call, before it is answered.
    pub fn see(&mut self, sandbox: &Sandbox, call: &Notification, task: &Task) {
        let Some(name) = syscalls::name(call.number).filter(|_| call.is_native()) else { return };
        if ALWAYS_BLOCKED.contains(&name) {
            // Nothing allows it, and the report tells of it.
            return;
        }
        self.findings.call(name, || printable(&task.name()));
        if self.callers.insert(call.pid) && self.callers.len() > 1 {
            self.newcomer(sandbox, call, task);
        }
        if name == "execve"
            && let Some(command) = self.command.take()
        {
            // Our own process, about to become the command: nobody may look into it.
            self.started(task, &command);
            return;
        }
        for act in acts::of(name, &call.args).into_iter().flatten() {
            self.act(task, act);
        }
        if let Some((descriptor, deed)) = acts::of_descriptor(name, &call.args) {
            self.descriptor(task, descriptor, deed);
        }
        let [a, b, c, _, e, _] = call.args;
        match name {
            // Only who has started a process waits for one.
            "wait4" | "waitid" => self.findings.forks = self.findings.forks.max(1),
            "mmap" => self.descriptor(task, e as i32, Deed::Map),
            "execveat" if e & AT_EMPTY_PATH != 0 => {
                self.findings.unlistable_code.extend(task.path_of(a as i32).ok());
            }
            "memfd_create" => drop(self.findings.unlistable_code.insert(PathBuf::from("memfd_create"))),
            "connect" | "bind" => self.socket(task, name, b, usize::try_from(c).unwrap_or(0)),
            _ => {}
        }
        self.look(sandbox);
    }

    fn act(&mut self, task: &Task, act: Act) {
        let name = match task.string(act.name) {
            Ok(name) => {
                self.has_looked = true;
                name
            }
            Err(error) => {
                // An address that leads nowhere is the caller's own mistake, but some do not let anybody look.
                // (So does our own process, before it becomes the command.)
                if self.has_looked && error.raw_os_error() == Some(EPERM) {
                    self.findings.blind(|| printable(&task.name()));
                }
                return;
            }
        };
        let Some(full) = absolute(task, act.directory, &name) else { return };
        // Programs ask for the same again and again; what was there once and is only used tells nothing new.
        let repeatable =
            matches!(act.effect, Effect::Do(_) | Effect::Open) && act.effect != Effect::Do(Deed::Execute);
        let key = (full, act.effect, act.last);
        if let Some(end) = self.known.get(&key).filter(|_| repeatable) {
            if let Some(seen) = self.findings.paths.get_mut(end) {
                seen.times += 1;
            }
            return;
        }
        let Some(arrival) = self.walker.arrive(task, &key.0, act.last) else { return };
        self.effect(task, &arrival, act.effect);
        const FEW: usize = 10_000;
        if act.directory == AT_FDCWD && !name.starts_with(b"/") && self.findings.relative.len() < FEW {
            self.findings.relative.insert(arrival.end.clone());
        }
        const MOST: usize = 100_000;
        if repeatable && arrival.kind.is_some() && self.known.len() < MOST {
            self.known.insert(key, arrival.end);
        }
    }

    /// From the working directory of the process.
    fn walk(&mut self, task: &Task, name: &[u8]) -> Option<Arrival> {
        self.walker.arrive(task, &absolute(task, AT_FDCWD, name)?, Last::Follow)
    }

    fn effect(&mut self, task: &Task, arrival: &Arrival, effect: Effect) {
        let Arrival { end, links, kind } = arrival;
        let exists = *kind;
        match (effect, exists) {
            (Effect::Do(deed), Some(kind)) => self.done(task, end, kind, deed),
            (Effect::Open, Some(Kind::Directory)) => self.done(task, end, Kind::Directory, Deed::Touch),
            (Effect::Open, Some(kind)) => self.done(task, end, kind, Deed::Read),
            (Effect::MakeOrWrite, Some(Kind::Directory)) | (Effect::Make, Some(_)) => {
                self.done(task, end, exists.unwrap_or_default(), Deed::Touch);
            }
            (Effect::MakeOrWrite, Some(kind)) => self.done(task, end, kind, Deed::Write),
            (Effect::MakeOrWrite | Effect::Make, None) => self.renamed(task, end),
            (Effect::Change, _) => self.renamed(task, end),
            // What is not there is not needed, but whoever asks for a secret is told of.
            (Effect::Do(_) | Effect::Open, None) => self.missed(task, end),
        }
        if exists.is_some() || matches!(effect, Effect::MakeOrWrite | Effect::Make | Effect::Change) {
            for link in links {
                self.done(task, link, Kind::Link, Deed::Follow);
            }
        }
    }

    /// Something that exists.
    fn done(&mut self, task: &Task, path: &Path, kind: Kind, deed: Deed) {
        let program = || printable(&task.name());
        // Asked whether it is a link, and it is none.
        let deed = if deed == Deed::Follow && kind != Kind::Link { Deed::Touch } else { deed };
        match self.places.at(path) {
            Place::Protected => self.findings.refuse(Refused::Secret(path.to_owned()), program),
            Place::Own => {
                if matches!(deed, Deed::Execute | Deed::Map) {
                    self.findings.unlistable_code.insert(path.to_owned());
                }
            }
            Place::ReadOnly if matches!(deed, Deed::Write | Deed::Rename) => {
                self.findings.refuse(Refused::Write(path.to_owned()), program);
                // Whether it was to be read as well cannot be told; that it is there was seen.
                self.findings.see(path, kind, Deed::Touch, program);
            }
            Place::ReadOnly | Place::Writable | Place::Link => {
                if deed == Deed::Execute && kind == Kind::File {
                    self.executed(task, path);
                }
                if matches!(deed, Deed::Execute | Deed::Map) && self.findings.is_made(path) {
                    self.findings.unlistable_code.insert(path.to_owned());
                }
                if deed == Deed::Write
                    && self.findings.paths.get(path).is_some_and(|seen| seen.has(Deed::Execute))
                {
                    self.findings.unlistable_code.insert(path.to_owned());
                }
                self.findings.see(path, kind, deed, program);
            }
        }
    }

    /// A name appears, vanishes or comes to mean something else.
    fn renamed(&mut self, task: &Task, path: &Path) {
        let program = || printable(&task.name());
        let Some(directory) = path.parent() else { return };
        match self.places.at(path) {
            Place::Protected => self.findings.refuse(Refused::Secret(path.to_owned()), program),
            Place::Own => {}
            Place::Link | Place::ReadOnly => {
                self.findings.refuse(Refused::Write(directory.to_owned()), program);
            }
            Place::Writable => {
                const MOST: usize = 200_000;
                if self.findings.paths.get(path).is_some_and(|seen| seen.has(Deed::Execute)) {
                    self.findings.unlistable_code.insert(path.to_owned());
                }
                // The topmost that was made stands for everything in it.
                if self.findings.made.len() < MOST && !self.findings.is_made(path) {
                    self.findings.made.insert(path.to_owned());
                }
                self.findings.see(directory, Kind::Directory, Deed::Rename, program);
            }
        }
    }

    fn missed(&mut self, task: &Task, path: &Path) {
        if self.places.at(path) == Place::Protected {
            self.findings.refuse(Refused::Secret(path.to_owned()), || printable(&task.name()));
        }
    }

    fn descriptor(&mut self, task: &Task, number: i32, deed: Deed) {
        // What has no name (a pipe, a socket, a deleted file) leads nowhere.
        let Some(path) = task.path_of(number).ok().filter(|path| path.is_absolute()) else { return };
        let Some(arrival) = self.walker.arrive(task, &path, Last::Keep) else { return };
        if let Some(kind) = arrival.kind {
            self.done(task, &arrival.end, kind, deed);
        }
    }

    /// The files that the kernel loads along with an executed one.
    fn executed(&mut self, task: &Task, path: &Path) {
        self.findings.executions += 1;
        let mut next = path.to_owned();
        // As deep as the kernel goes.
        for _ in 0..5 {
            let found = self.walker.head(&next, interpreter::HEAD).and_then(|head| interpreter::of(&head));
            let (name, deed) = match found {
                Some(Interpreter::Script(name)) => (name, Deed::Execute),
                Some(Interpreter::Loader(name)) => (name, Deed::Load),
                None => return,
            };
            let Some(arrival) = self.walk(task, &name) else { return };
            let (Some(kind), end) = (arrival.kind, arrival.end.clone()) else { return };
            let known = self.findings.paths.get(&end).is_some_and(|seen| seen.has(deed));
            if self.places.at(&end) == Place::Own || known && deed == Deed::Load {
                return;
            }
            self.findings.see(&end, kind, deed, || printable(&task.name()));
            for link in &arrival.links {
                self.done(task, link, Kind::Link, Deed::Follow);
            }
            next = end;
        }
    }

    /// The command itself. Nothing has run inside yet, so what is visible there is as it is on the host.
    fn started(&mut self, task: &Task, command: &Command) {
        let Some(program) = command.argv.first() else { return };
        let program = Path::new(OsStr::from_bytes(program));
        let path = command.environment.iter().find(|(name, _)| name == b"PATH").map(|(_, value)| value);
        let candidates: Vec<PathBuf> = if program.as_os_str().as_bytes().contains(&b'/') {
            vec![command.directory.join(program)]
        } else {
            let directories = path.map(|path| std::env::split_paths(OsStr::from_bytes(path)));
            directories.into_iter().flatten().map(|at| command.directory.join(at).join(program)).collect()
        };
        let mut walker = Walker::of_host();
        std::mem::swap(&mut self.walker, &mut walker);
        for candidate in candidates {
            let Some(arrival) = self.walker.arrive(task, &candidate, Last::Follow) else { continue };
            let visible = matches!(self.places.at(&arrival.end), Place::ReadOnly | Place::Writable);
            if visible && arrival.kind == Some(Kind::File) && self.walker.is_executable(&arrival.end) {
                self.effect(task, &arrival, Effect::Do(Deed::Execute));
                if self.walker.head(&arrival.end, 256).is_some_and(|head| interpreter::is_plain_text(&head))
                    && let Some(shell) = self.walker.arrive(task, Path::new("/bin/sh"), Last::Follow)
                {
                    // A script that does not say what it is for is executed once more, with a shell.
                    self.effect(task, &shell, Effect::Do(Deed::Execute));
                }
                break;
            }
        }
        self.walker = walker;
    }

    /// A socket that has a name in the file system.
    fn socket(&mut self, task: &Task, call: &str, address: u64, length: usize) {
        let Ok(bytes) = task.bytes(address, length.min(128)) else { return };
        let Some(name) = bytes.strip_prefix(&AF_UNIX) else { return };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if name.is_empty() {
            return;
        }
        let Some(arrival) = self.walk(task, name) else { return };
        if call == "bind" {
            self.renamed(task, &arrival.end);
        } else if self.places.is_open_socket(&arrival.end) {
            self.findings.see(&arrival.end, Kind::File, Deed::Connect, || printable(&task.name()));
        } else if arrival.kind.is_some() && self.places.at(&arrival.end) != Place::Own {
            let shown = OsStr::from_bytes(name).to_string_lossy();
            let what = format!("connection to the host's socket {}", printable(&shown));
            self.findings.refuse(Refused::Other(what), || printable(&task.name()));
        }
    }
}
