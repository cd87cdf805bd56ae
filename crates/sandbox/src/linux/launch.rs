//! The outside half of a launch: split off the child, give it its identity and mounts where only the host's
//! root can, hear what it reports, give the word to go, and hold the handles to steer and end it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use super::{
    bpf::{self, Action, Filter},
    cgroup::{Cgroup, CgroupError},
    channel::{Channel, MAX_DESCRIPTORS},
    child::{self, Instruction, Order},
    errand::{Reply, Request},
    launcher::{Launcher, LauncherError},
    network::{Listeners, Taps},
    notify::Listener,
    offspring::descendants,
    owners::{Carriers, owned_mount, plain_mount, write_maps},
    sys::{self, Block, Cloned, Ended},
    traffic::{self, Calls},
    view,
};
use crate::{
    enforcement::{Enforcement, Layer},
    spec::{Command, Entry, Identity, Namespaces, Owner, Spec},
};

/// The first byte of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    // to the child
    Order = 1,
    OrderComplete,
    Mounts,
    MountsComplete,
    Go,
    Signal,
    Act,
    Execute,
    // from the child
    Ready,
    Failed,
    NotExecuted,
    Exited,
    Acted,
    Died,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("there is no command to run")]
    NoCommand,
    #[error("argument or variable {0:?} contains a NUL byte")]
    Nul(String),
    #[error("the order for the new process cannot be written down")]
    Encode,
    #[error("user namespaces are refused here ({source})")]
    NamespacesRefused { source: io::Error },
    #[error("cannot talk to the new process: {0}")]
    Channel(#[source] io::Error),
    #[error("cannot map the sandbox's identity: {0}")]
    Map(#[source] io::Error),
    #[error("{path}: {source}", path = path.display())]
    Source { path: PathBuf, source: io::Error },
    #[error(
        "{path}: this filesystem cannot show its files to an unprivileged identity (idmapped mounts: {source}), and \
         nothing in a sandbox runs as the host's root. Run lazaret as an ordinary user, or use a directory on ext4, xfs, btrfs or tmpfs",
        path = path.display()
    )]
    Idmap { path: PathBuf, source: io::Error },
    #[error("cannot {what}{}", source.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Step { what: String, source: Option<io::Error> },
    #[error(transparent)]
    Group(CgroupError),
    #[error(transparent)]
    Launcher(LauncherError),
    #[error("the new process ended before it could report ({0})")]
    Died(String),
}

/// A sandbox that has been built and waits for the word to go, or runs.
#[derive(Debug)]
pub struct Sandbox {
    pid: i32,
    identity: Identity,
    namespaces: Namespaces,
    pidfd: OwnedFd,
    control: Channel,
    launch: Channel,
    enforcement: Enforcement,
    listener: Option<Listener>,
    terminal: Option<OwnedFd>,
    /// The sandbox's own procfs: everything in it is a process of the sandbox.
    proc: Option<OwnedFd>,
    storage: Option<OwnedFd>,
    written: Vec<OwnedFd>,
    taps: Taps,
    doors: Option<Listeners>,
    reaped: Option<Ended>,
    /// What went through calls, once everything has ended.
    calls: Option<Calls>,
    /// It has reported once: from then on a failure is that of a command.
    stands: bool,
    parentage: Parentage,
    /// Last: removed when everything in it has ended.
    group: Option<Cgroup>,
}

/// Who splits off a new sandbox.
#[derive(Debug, Clone, Copy)]
pub enum Birth<'a> {
    /// This process, which must have no other threads.
    Here,
    By(&'a Launcher),
}

/// Whose child init is: only its parent can reap it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parentage {
    Own,
    Launcher,
}

/// The most bytes of an order in one message.
const ORDER_PART: usize = 12 * 1024;

/// What init says.
#[derive(Debug)]
pub enum FromInit {
    /// The command ended.
    Exited(Departure),
    Acted(Reply),
    /// A process that nobody else waited for was ended by this signal.
    Died {
        pid: i32,
        signal: i32,
    },
    /// Init is gone.
    Gone,
}

/// How a command ended, and what it and all that it started used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Departure {
    /// As `wait` tells it.
    pub status: i32,
    pub cpu_ms: u64,
    pub max_rss_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Departure {
    /// One more process has ended.
    pub(super) fn add(&mut self, ended: &Ended) {
        self.cpu_ms += ended.cpu_ms;
        self.max_rss_bytes = self.max_rss_bytes.max(ended.max_rss_bytes);
        self.read_bytes += ended.read_bytes;
        self.written_bytes += ended.written_bytes;
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let numbers = [self.cpu_ms, self.max_rss_bytes, self.read_bytes, self.written_bytes];
        let mut bytes = self.status.to_le_bytes().to_vec();
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Departure> {
        let (status, mut rest) = bytes.split_first_chunk()?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        Some(Departure {
            status: i32::from_le_bytes(*status),
            cpu_ms: number()?,
            max_rss_bytes: number()?,
            read_bytes: number()?,
            written_bytes: number()?,
        })
    }
}

/// Whom a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Command,
    /// The command's process group, as a terminal would signal it.
    Group,
}

/// A process that sits in its namespaces already and waits to hear what to build there. Making namespaces
/// takes as long as everything else together and needs to know nothing, so it is begun first and goes on
/// while the caller reads its policy.
#[derive(Debug)]
pub struct Stem {
    namespaces: Namespaces,
    identity: Identity,
    /// Taken when it grows; what is left over is ended.
    sandbox: Sandbox,
}

impl Stem {
    /// Starts the process. Errors of the child itself are heard when it is to grow.
    pub fn start(namespaces: Namespaces, identity: Identity) -> Result<Stem, LaunchError> {
        Stem::start_in(Birth::Here, namespaces, identity, None)
    }

    /// As [`Stem::start`], in a control group from its first moment on where the kernel can do that.
    pub fn start_in(
        birth: Birth<'_>,
        namespaces: Namespaces,
        identity: Identity,
        group: Option<Cgroup>,
    ) -> Result<Stem, LaunchError> {
        let (control, child_control) = Channel::pair().map_err(LaunchError::Channel)?;
        let (launch, child_launch) = Channel::pair().map_err(LaunchError::Channel)?;
        let target = group.as_ref().and_then(Cgroup::clone_target);
        let (pid, pidfd) = match birth {
            Birth::Here => {
                let cloned = match target {
                    Some(target) => sys::clone_into_group(flags(namespaces), target),
                    None => sys::clone_process(flags(namespaces)),
                };
                let Cloned::Parent { pid, pidfd } = cloned.map_err(refused)? else {
                    drop((control, launch));
                    child::run(namespaces, child_control, child_launch)
                };
                drop((child_control, child_launch));
                (pid, pidfd)
            }
            Birth::By(launcher) => {
                let group = target.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3)).transpose();
                let group = group.map_err(|error| LaunchError::Channel(error.into()))?;
                launcher.start_sandbox(namespaces, group, child_control, child_launch).map_err(|error| {
                    match error {
                        LauncherError::Refused(source) => refused(source),
                        other => LaunchError::Launcher(other),
                    }
                })?
            }
        };
        let sandbox = Sandbox {
            pid,
            identity,
            namespaces,
            pidfd,
            control,
            launch,
            enforcement: Enforcement::default(),
            listener: None,
            terminal: None,
            proc: None,
            storage: None,
            written: Vec::new(),
            taps: Taps::default(),
            doors: None,
            reaped: None,
            calls: None,
            stands: false,
            parentage: if matches!(birth, Birth::Here) { Parentage::Own } else { Parentage::Launcher },
            group: None,
        };
        if let (Identity::Mapped { inside, host }, true) = (identity, namespaces != Namespaces::None) {
            write_maps(pid, inside, inside, host).map_err(LaunchError::Map)?;
            if matches!(birth, Birth::Here) {
                let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
                give_pipes_to(host, streams);
            }
        }
        let mut stem = Stem { namespaces, identity, sandbox };
        if let Some(group) = group {
            stem.join(group)?;
        }
        Ok(stem)
    }

    /// Puts the process into a control group, before it has heard what to build.
    pub fn join(&mut self, group: Cgroup) -> Result<(), LaunchError> {
        if group.clone_target().is_none() || !group.holds(self.sandbox.pid) {
            group.join(self.sandbox.pid).map_err(LaunchError::Group)?;
        }
        self.sandbox.group = Some(group);
        Ok(())
    }

    /// Can this spec be built here?
    pub fn fits(&self, spec: &Spec) -> bool {
        self.namespaces == spec.namespaces && self.identity == spec.identity
    }

    /// Builds the sandbox; on return nothing of the command has run yet. While it builds itself, `meanwhile`
    /// is done here; should that fail, the sandbox is gone again.
    pub fn grow<E: From<LaunchError>>(
        self,
        birth: Birth<'_>,
        spec: &Spec,
        meanwhile: impl FnOnce() -> Result<(), E>,
    ) -> Result<Sandbox, E> {
        let mut sandbox = self.sandbox;
        sandbox.send_order(spec)?;
        if let (Identity::Mapped { inside, host }, true) =
            (spec.identity, spec.namespaces != Namespaces::None)
        {
            sandbox.send_mounts(birth, &spec.view, inside, host)?;
        }
        meanwhile()?;
        sandbox.hear_report()?;
        Ok(sandbox)
    }
}

/// Builds a sandbox from nothing; see [`Stem::grow`].
pub fn launch<E: From<LaunchError>>(
    spec: &Spec,
    meanwhile: impl FnOnce() -> Result<(), E>,
) -> Result<Sandbox, E> {
    Stem::start(spec.namespaces, spec.identity)?.grow(Birth::Here, spec, meanwhile)
}

fn notifies(filter: &Filter) -> bool {
    filter.foreign == Action::Notify
        || filter.unlisted == Action::Notify
        || filter.rules.iter().any(|rule| {
            rule.otherwise == Action::Notify || rule.cases.iter().any(|case| case.action == Action::Notify)
        })
}

pub(super) fn flags(namespaces: Namespaces) -> u64 {
    let all_but_network = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // The child makes the network namespace itself, the one that takes longest, while we go on here.
    (match namespaces {
        Namespaces::All | Namespaces::AllButNetwork => all_but_network,
        Namespaces::None => 0,
    }) as u64
}

pub(super) fn check(command: &Command) -> Result<(), LaunchError> {
    if command.argv.is_empty() {
        return Err(LaunchError::NoCommand);
    }
    let variables = command.environment.iter().flat_map(|(key, value)| [key, value]);
    match command.argv.iter().chain(variables).find(|text| text.contains(&0)) {
        Some(text) => Err(LaunchError::Nul(String::from_utf8_lossy(text).into_owned())),
        None => Ok(()),
    }
}

pub(super) fn send_in_parts(channel: &Channel, order: &impl Serialize) -> Result<(), LaunchError> {
    let bytes = postcard::to_allocvec(order).map_err(|_| LaunchError::Encode)?;
    let mut parts = bytes.chunks(ORDER_PART).peekable();
    while let Some(part) = parts.next() {
        let tag = if parts.peek().is_some() { Tag::Order } else { Tag::OrderComplete };
        channel.send(&[&[tag as u8], part].concat(), &[]).map_err(LaunchError::Channel)?;
    }
    Ok(())
}

/// EPERM: AppArmor, seccomp or a setting; ENOSPC: the limit is 0; EINVAL/ENOSYS: not built in.
fn refused(source: io::Error) -> LaunchError {
    match source.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM) => {
            LaunchError::Step { what: "start another process".to_owned(), source: Some(source) }
        }
        _ => LaunchError::NamespacesRefused { source },
    }
}

impl Sandbox {
    /// Tells the child what to build. The order can be large (arguments, environment), a message cannot: it
    /// travels in parts.
    fn send_order(&self, spec: &Spec) -> Result<(), LaunchError> {
        if let Some(command) = &spec.command {
            check(command)?;
        }
        let order = Order {
            spec,
            program: spec
                .filter
                .as_ref()
                .map(bpf::compile)
                .unwrap_or_default()
                .iter()
                .map(Instruction::from)
                .collect(),
            listen: spec.filter.as_ref().is_some_and(notifies),
        };
        send_in_parts(&self.control, &order)
    }

    /// Starts another command in a sandbox that was made without one; its process has reported and waits for
    /// the word to go. What is left of an earlier one is gone by then.
    pub fn execute(&mut self, command: &Command, streams: [BorrowedFd<'_>; 3]) -> Result<(), LaunchError> {
        check(command)?;
        if let Identity::Mapped { host, .. } = self.identity {
            give_pipes_to(host, streams);
        }
        let (launch, theirs) = Channel::pair().map_err(LaunchError::Channel)?;
        let [input, output, errors] = streams;
        self.control
            .send(&[Tag::Execute as u8], &[theirs.as_fd(), input, output, errors])
            .map_err(LaunchError::Channel)?;
        drop(theirs);
        send_in_parts(&launch, command)?;
        self.launch = launch;
        self.listener = None;
        let heard = self.hear_report();
        if heard.is_err() {
            // Its process has ended, or will: what init says of that is not about the next command.
            while !matches!(self.hear_init(), Ok(FromInit::Exited(_) | FromInit::Gone) | Err(_)) {}
        }
        heard
    }

    /// Root's files cannot be reached from the new user namespace, so the mounts are opened here, with
    /// their owners mapped, and handed over.
    fn send_mounts(
        &self,
        birth: Birth<'_>,
        view: &[Entry],
        inside: u32,
        host: u32,
    ) -> Result<(), LaunchError> {
        let mut carriers = Carriers::with_own(birth, self.pid, inside, host)?;
        let mut mounts = Vec::new();
        for entry in view {
            if let Entry::Bind { path, object, access, exec, owner, .. } = entry {
                let attributes = view::attributes_of(*access, *exec);
                let bind = (path.as_path(), *object);
                mounts.push(match owner {
                    Owner::Foreign => plain_mount(bind, attributes)?,
                    Owner::Caller => owned_mount(bind, *access, attributes, &mut carriers)?,
                });
            }
        }
        let mut chunks = mounts.chunks(MAX_DESCRIPTORS).peekable();
        while let Some(chunk) = chunks.next() {
            let tag = if chunks.peek().is_some() { Tag::Mounts } else { Tag::MountsComplete };
            let descriptors: Vec<BorrowedFd<'_>> = chunk.iter().map(OwnedFd::as_fd).collect();
            self.control.send(&[tag as u8], &descriptors).map_err(LaunchError::Channel)?;
        }
        if mounts.is_empty() {
            self.control.send(&[Tag::MountsComplete as u8], &[]).map_err(LaunchError::Channel)?;
        }
        Ok(())
    }

    fn hear_report(&mut self) -> Result<(), LaunchError> {
        let message = self.launch.receive().map_err(LaunchError::Channel)?;
        let Some(message) = message else {
            if self.stands {
                return Err(LaunchError::Died("a command's process".to_owned()));
            }
            self.kill();
            return Err(LaunchError::Died(describe_status(self.wait().status)));
        };
        match message.bytes.as_slice() {
            [tag, report @ .., listener, terminal, proc, storage, v4, v6, datagrams, streams, proxy]
                if *tag == Tag::Ready as u8 =>
            {
                self.enforcement = report.try_into().map(Enforcement::from_bytes).unwrap_or_default();
                if self.group.as_ref().is_some_and(|group| group.holds(self.pid)) {
                    self.enforcement.add(Layer::Cgroup);
                }
                let mut descriptors = message.descriptors.into_iter();
                let mut next = |there: u8| if there == 1 { descriptors.next() } else { None };
                self.listener = next(*listener).map(Listener::new);
                self.terminal = next(*terminal);
                let (proc, storage) = (next(*proc), next(*storage));
                self.proc = proc.or(self.proc.take());
                self.storage = storage.or(self.storage.take());
                let taps = Taps { v4: next(*v4), v6: next(*v6) };
                if taps.v4.is_some() {
                    self.taps = taps;
                }
                if let (Some(datagrams), Some(streams), Some(proxy)) =
                    (next(*datagrams), next(*streams), next(*proxy))
                {
                    self.doors = Some(Listeners { datagrams, streams, proxy });
                }
                self.written.extend(descriptors);
                self.stands = true;
                Ok(())
            }
            [tag, kind, a, b, c, d, what @ ..] if *tag == Tag::Failed as u8 => {
                let errno = i32::from_le_bytes([*a, *b, *c, *d]);
                let source = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
                let what = String::from_utf8_lossy(what).into_owned();
                if !self.stands {
                    self.wait();
                }
                match source {
                    // Made, but without the rights that go with it: AppArmor's rule on Ubuntu.
                    Some(source) if *kind == 1 && matches!(errno, libc::EPERM | libc::EACCES) => {
                        Err(LaunchError::NamespacesRefused { source })
                    }
                    source => Err(LaunchError::Step { what, source }),
                }
            }
            _ => Err(LaunchError::Died("it sent a message that cannot be read".to_owned())),
        }
    }

    pub fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    pub fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    /// The supervisor's side of the command's own terminal.
    pub fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.terminal.as_ref().map(OwnedFd::as_fd)
    }

    /// The control group that holds the limits, where there is one.
    pub fn group(&self) -> Option<&Cgroup> {
        self.group.as_ref()
    }

    /// The sandbox's own procfs, as the host sees it.
    pub fn proc(&self) -> Option<BorrowedFd<'_>> {
        self.proc.as_ref().map(OwnedFd::as_fd)
    }

    /// A handle on private storage: what is used of it can be asked of the filesystem.
    pub fn storage(&self) -> Option<BorrowedFd<'_>> {
        self.storage.as_ref().map(OwnedFd::as_fd)
    }

    /// The written layer of every copy-on-write path, in the order of the view. Nothing of it outlives these.
    pub fn take_written(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.written)
    }

    /// Where datagrams that were meant for outside can be seen.
    pub fn taps(&self) -> &Taps {
        &self.taps
    }

    /// The listening ends of the ways out, for whoever serves them; once.
    pub fn take_doors(&mut self) -> Option<Listeners> {
        self.doors.take()
    }

    /// Readable when init has ended.
    pub fn process(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Init's process number on the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    pub fn launch_line(&self) -> BorrowedFd<'_> {
        self.launch.as_fd()
    }

    /// The command may execute.
    pub fn go(&self) -> io::Result<()> {
        self.launch.send(&[Tag::Go as u8], &[])
    }

    /// After [`Sandbox::go`]: the errno of a failed `execve`, or `None` once it succeeded.
    pub fn execution_failed(&self) -> io::Result<Option<i32>> {
        let message = self.launch.receive()?;
        Ok(message.and_then(|message| match message.bytes.as_slice() {
            [tag, a, b, c, d] if *tag == Tag::NotExecuted as u8 => Some(i32::from_le_bytes([*a, *b, *c, *d])),
            _ => None,
        }))
    }

    pub fn hear_init(&self) -> io::Result<FromInit> {
        let Some(message) = self.control.receive()? else { return Ok(FromInit::Gone) };
        Ok(match message.bytes.as_slice() {
            [tag, rest @ ..] if *tag == Tag::Exited as u8 => {
                Departure::from_bytes(rest).map_or(FromInit::Gone, FromInit::Exited)
            }
            [tag, a, b, c, d, signal] if *tag == Tag::Died as u8 => {
                FromInit::Died { pid: i32::from_le_bytes([*a, *b, *c, *d]), signal: i32::from(*signal) }
            }
            [tag, ..] if *tag == Tag::Acted as u8 => {
                Reply::decode(&message.bytes, message.descriptors).map_or(FromInit::Gone, FromInit::Acted)
            }
            _ => FromInit::Gone,
        })
    }

    pub fn signal(&self, signal: i32, target: Target) -> io::Result<()> {
        send_signal(&self.control, signal, target)
    }

    /// A second handle, to signal the command while another thread watches over it.
    pub fn remote(&self) -> io::Result<Remote> {
        Ok(Remote(Channel::from_descriptor(rustix::io::fcntl_dupfd_cloexec(&self.control, 3)?)))
    }

    /// Asks init to act for the command; the answer comes through [`Sandbox::hear_init`].
    pub fn act(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send_at_once(&request.encode(), descriptors)
    }

    /// Ends everything inside at once: the kernel kills a pid namespace with its first process. Without one,
    /// whoever comes from init is looked for; orphans come back to init as long as it lives, so it goes last.
    pub fn kill(&self) {
        if self.namespaces == Namespaces::None {
            for _ in 0..1000 {
                let below = descendants(self.pid);
                if below.is_empty() {
                    break;
                }
                below.into_iter().for_each(|pid| drop(sys::kill(pid, libc::SIGKILL)));
                // They have to run once more to end, and what they started comes to init only then.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
    }

    /// Waits until init, and with it everything inside, is gone.
    pub fn wait(&mut self) -> Ended {
        if let Some(ended) = self.reaped {
            return ended;
        }
        let gone =
            Ended { pid: self.pid, status: 0, cpu_ms: 0, max_rss_bytes: 0, read_bytes: 0, written_bytes: 0 };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
        if self.parentage == Parentage::Launcher {
            self.reaped = Some(gone);
            return gone;
        }
        // What ended keeps its counts until it is reaped, and only then may they be read: while init lives it
        // is closed to everybody.
        self.calls = traffic::of_calls(self.pid);
        let ended = sys::reap(self.pid, Block::Yes).ok().flatten().unwrap_or(gone);
        self.reaped = Some(ended);
        ended
    }

    /// What was read and written by calls, after [`Sandbox::wait`], where the kernel tells.
    pub fn calls(&self) -> Option<Calls> {
        self.calls
    }
}

/// Can signal a command, and nothing else.
#[derive(Debug)]
pub struct Remote(Channel);

impl Remote {
    pub fn signal(&self, signal: i32, target: Target) -> io::Result<()> {
        send_signal(&self.0, signal, target)
    }
}

pub(super) fn send_signal(control: &Channel, signal: i32, target: Target) -> io::Result<()> {
    let number = u8::try_from(signal).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    control.send_at_once(&[Tag::Signal as u8, number, u8::from(target == Target::Group)], &[])
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.reaped.is_none() {
            self.kill();
            self.wait();
        }
    }
}

/// `/dev/stdout` and its like open a stream again by name, which asks who owns it. A nameless pipe has no
/// other use for its owner.
fn give_pipes_to(host: u32, streams: [BorrowedFd<'_>; 3]) {
    const PIPEFS: i64 = 0x5049_5045;
    for stream in streams {
        if rustix::fs::fstatfs(stream).is_ok_and(|fs| fs.f_type == PIPEFS) {
            let _ = rustix::fs::fchown(stream, Some(rustix::fs::Uid::from_raw(host)), None);
        }
    }
}

fn describe_status(status: i32) -> String {
    match status & 0x7f {
        0 => format!("exit code {}", (status >> 8) & 0xff),
        signal => format!("signal {signal}"),
    }
}
