//! What the new process does, step by step, from its first instruction to `execve`. It runs the [`Plan`] in
//! one loop; at [`Step::StartInit`] it splits: the parent half stays as init, the child half becomes the
//! command.

use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::MountPropagationFlags,
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    broker::{Broker, Network},
    channel::Channel,
    inherited,
    init::{self, Duty},
    landlock,
    launch::Tag,
    network::{self, Listeners, Taps},
    program::{become_program, c_strings, find_program},
    shield::Shield,
    sys::{self, Cloned, Listen},
    view::{Root, Sources, ViewError},
};
use crate::{
    enforcement::{Enforcement, Layer},
    plan::{Plan, Step},
    spec::{Entry, Identity, Limits, Namespaces, Spec, Terminal},
};

/// The number under which the command's process talks to the supervisor until it executes. The system call
/// filter lets messages pass on this number only; it is closed by `execve`.
pub const LAUNCH_DESCRIPTOR: i32 = 63;

/// What the supervisor wants built: everything is computed there, the child only acts.
#[derive(Debug, Serialize)]
pub struct Order<'a> {
    pub spec: &'a Spec,
    pub program: Vec<Instruction>,
    pub listen: bool,
}

/// The same, as it arrives.
#[derive(Debug, Clone, Deserialize)]
pub struct Received {
    spec: Spec,
    program: Vec<Instruction>,
    listen: bool,
    /// What stands already when a command comes: every command runs within it.
    #[serde(skip)]
    standing: Enforcement,
}

/// A BPF instruction that can travel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Instruction(u16, u8, u8, u32);

impl From<&libc::sock_filter> for Instruction {
    fn from(filter: &libc::sock_filter) -> Self {
        Instruction(filter.code, filter.jt, filter.jf, filter.k)
    }
}

impl From<&Instruction> for libc::sock_filter {
    fn from(instruction: &Instruction) -> Self {
        let Instruction(code, jt, jf, k) = *instruction;
        libc::sock_filter { code, jt, jf, k }
    }
}

/// A step that failed.
struct Failure {
    what: String,
    source: io::Error,
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        Failure { what: error.what, source: error.source }
    }
}

fn failed<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> Failure {
    let what = what.to_owned();
    move |error| Failure { what, source: error.into() }
}

/// The state between the steps.
struct Child {
    order: Received,
    control: Option<Channel>,
    launch: Channel,
    received: Vec<OwnedFd>,
    root: Option<Root>,
    enforcement: Enforcement,
    /// For init: a procfs of its own.
    proc: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    /// Where private storage can be measured.
    storage: Option<OwnedFd>,
    /// The written layer of every copy-on-write path, in order.
    written: Vec<OwnedFd>,
    taps: Taps,
    doors: Option<Listeners>,
}

/// Does a report ask for the word to go?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    ForTheWord,
    No,
}

/// A process that init has started to become a command: hears which, and becomes it.
pub fn begin(order: &Received, launch: Channel, streams: &[OwnedFd]) -> ! {
    let Some(command) = hear_order(&launch) else { sys::exit_now(125) };
    let mut order = order.clone();
    let standing = order.standing;
    order.spec.command = Some(command);
    let mut child = Child {
        order,
        control: None,
        launch,
        received: Vec::new(),
        root: None,
        enforcement: standing,
        proc: None,
        listener: None,
        terminal: None,
        storage: None,
        written: Vec::new(),
        taps: Taps::default(),
        doors: None,
    };
    let become_command = |child: &mut Child| -> Result<(), Failure> {
        sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64).map_err(failed("ask to die with init"))?;
        for (number, stream) in streams.iter().enumerate() {
            sys::duplicate_to_stdio(stream.as_fd(), number as i32).map_err(failed("pass on the streams"))?;
        }
        child.terminal(Terminal::Inherit)?;
        sys::close_on_exec_from(3).map_err(failed("close inherited descriptors"))?;
        child.execute()
    };
    match become_command(&mut child) {
        Ok(()) => sys::exit_now(125),
        Err(failure) => child.give_up(0, None, &failure),
    }
}

/// Makes what needs no orders, waits for the order and carries it out; never returns.
pub fn run(namespaces: Namespaces, control: Channel, launch: Channel) -> ! {
    let entered = enter_namespaces(namespaces);
    inherited::forget_callers_words();
    let Some(order) = hear_order::<Received>(&control) else { sys::exit_now(125) };
    let plan = Plan::of(&order.spec);
    let mut child = Child {
        order,
        control: Some(control),
        launch,
        received: Vec::new(),
        root: None,
        enforcement: Enforcement::default(),
        proc: None,
        listener: None,
        terminal: None,
        storage: None,
        written: Vec::new(),
        taps: Taps::default(),
        doors: None,
    };
    match entered {
        Ok((enforcement, taps)) => (child.enforcement, child.taps) = (enforcement, taps),
        Err(failure) => child.give_up(0, plan.steps.first(), &failure),
    }
    for (number, step) in plan.steps.iter().enumerate() {
        if let Err(failure) = child.step(step) {
            child.give_up(number, Some(step), &failure);
        }
    }
    sys::exit_now(125)
}

/// `clone3` made all namespaces but the network, or failed.
fn enter_namespaces(namespaces: Namespaces) -> Result<(Enforcement, Taps), Failure> {
    let (mut enforcement, mut taps) = (Enforcement::default(), Taps::default());
    if namespaces == Namespaces::None {
        return Ok((enforcement, taps));
    }
    let made = [Layer::Userns, Layer::Pidns, Layer::Ipcns, Layer::Utsns, Layer::Cgroupns];
    made.into_iter().for_each(|layer| enforcement.add(layer));
    if namespaces == Namespaces::All {
        sys::unshare(libc::CLONE_NEWNET).map_err(failed("make a network namespace"))?;
        enforcement.add(Layer::Netns);
        taps = network::wire().map_err(failed("set up the loopback interface"))?;
    }
    Ok((enforcement, taps))
}

pub fn hear_order<T: DeserializeOwned>(control: &Channel) -> Option<T> {
    let mut bytes = Vec::new();
    loop {
        let message = control.receive().ok()??;
        let (tag, part) = message.bytes.split_first()?;
        bytes.extend(part);
        if *tag == Tag::OrderComplete as u8 {
            break;
        }
    }
    postcard::from_bytes(&bytes).ok()
}

impl Child {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            // Done before the order came.
            Step::EnterNamespaces(_) | Step::LoopbackUp => {}
            // The supervisor's to do: nothing inside could.
            Step::LimitTogether(_) => {}
            Step::MapIdentity(identity) => self.map_identity(*identity)?,
            Step::DieWithParent => self.die_with_parent()?,
            Step::OpenDoors(doors) => {
                self.doors = Some(network::open_doors(*doors).map_err(failed("open the ways out"))?);
            }
            Step::DetachMounts => {
                rustix::mount::mount_change(
                    c"/",
                    MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
                )
                .map_err(failed("make every mount private"))?;
            }
            Step::NewRoot(scratch) => {
                let sources = Sources::open(&self.order.spec.view, std::mem::take(&mut self.received))?;
                self.root = Some(Root::create(sources, &self.order.spec.view, *scratch)?);
            }
            Step::Place(entry) => self.root()?.place(entry)?,
            Step::ForbidNamespaces => self.root()?.forbid_namespaces()?,
            Step::SealRoot => {
                self.root()?.seal()?;
                self.written = self.root()?.take_written();
                if !self.written.is_empty() {
                    self.enforcement.add(Layer::Overlay);
                }
            }
            Step::PivotRoot => {
                self.proc = Some(open_proc(&self.order.spec.view)?);
                if let Some(root) = self.root.take() {
                    self.storage = Some(root.pivot()?);
                }
                self.enforcement.add(Layer::Mountns);
            }
            Step::Hostname(name) => {
                rustix::system::sethostname(name.as_bytes()).map_err(failed("set the host name"))?;
            }
            Step::Limit(limits) => self.limit(*limits)?,
            Step::Processors(numbers) => {
                let mut set = rustix::thread::CpuSet::new();
                numbers.iter().for_each(|number| set.set(*number as usize));
                rustix::thread::sched_setaffinity(None, &set)
                    .map_err(failed(&format!("use only the processors {numbers:?}")))?;
            }
            Step::DropCapabilities => self.drop_capabilities()?,
            Step::NoNewPrivileges => {
                rustix::thread::set_no_new_privs(true).map_err(failed("set no_new_privs"))?;
            }
            Step::Landlock(rules) => {
                if let landlock::Outcome::InForce(abi) = landlock::restrict(rules)
                    .map_err(|error| failed("apply Landlock")(io::Error::other(error.to_string())))?
                {
                    self.enforcement.add(Layer::Landlock);
                    self.enforcement.landlock_abi = abi;
                }
            }
            // Taken along by init.
            Step::Guard { .. } => {}
            Step::AwaitCommands => self.await_commands()?,
            Step::StartInit => self.start_init()?,
            Step::Terminal(terminal) => self.terminal(*terminal)?,
            Step::CloseDescriptors => {
                sys::close_on_exec_from(3).map_err(failed("close inherited descriptors"))?;
            }
            // The filter goes in last of all: see `execute`.
            Step::Seccomp { .. } | Step::Report => {}
            Step::Execute { .. } => self.execute()?,
        }
        Ok(())
    }

    fn root(&mut self) -> Result<&mut Root, Failure> {
        self.root
            .as_mut()
            .ok_or_else(|| failed("find the new root")(io::Error::from_raw_os_error(libc::EBADF)))
    }

    fn map_identity(&mut self, identity: Identity) -> Result<(), Failure> {
        let what = "map the identity";
        match identity {
            Identity::Same { uid, gid } => {
                write_file("/proc/self/setgroups", "deny").map_err(failed(what))?;
                write_file("/proc/self/uid_map", &format!("{uid} {uid} 1")).map_err(failed(what))?;
                write_file("/proc/self/gid_map", &format!("{gid} {gid} 1")).map_err(failed(what))?;
            }
            Identity::Mapped { inside, .. } => {
                // Only the host's root can map to another host id; it also opens the mounts, because what
                // belongs to root cannot be reached from here any more.
                while let Some(message) = self.receive_from_supervisor()? {
                    self.received.extend(message.1);
                    if message.0 == Tag::MountsComplete as u8 {
                        break;
                    }
                }
                use rustix::process::{Gid, Uid};
                let (uid, gid) = (Uid::from_raw(inside), Gid::from_raw(inside));
                rustix::thread::set_thread_groups(&[]).map_err(failed(what))?;
                rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(failed(what))?;
                rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed(what))?;
            }
        }
        Ok(())
    }

    fn receive_from_supervisor(&self) -> Result<Option<(u8, Vec<OwnedFd>)>, Failure> {
        let Some(control) = &self.control else { return Ok(None) };
        match control.receive().map_err(failed("hear from the supervisor"))? {
            Some(message) => Ok(message.bytes.first().map(|tag| (*tag, message.descriptors))),
            None => sys::exit_now(125),
        }
    }

    fn die_with_parent(&self) -> Result<(), Failure> {
        // A change of identity resets this, so it comes after. If the supervisor is gone already, the next
        // message cannot be sent or received and this process ends.
        let signal = match self.order.spec.namespaces {
            // Nothing but init itself can end what it has started: it must hear of it.
            Namespaces::None => libc::SIGTERM,
            Namespaces::All | Namespaces::AllButNetwork => libc::SIGKILL,
        };
        sys::prctl(libc::PR_SET_PDEATHSIG, signal as u64)
            .map(drop)
            .map_err(failed("ask to die with the supervisor"))
    }

    fn limit(&mut self, limits: Limits) -> Result<(), Failure> {
        // Init is one of the counted processes.
        limit(Resource::Nproc, limits.processes.map(|n| n.saturating_add(1)))?;
        limit(Resource::Fsize, limits.file_size)?;
        limit(Resource::Data, limits.data)?;
        limit_with_warning(Resource::Cpu, limits.cpu_seconds)?;
        // A core file would be written by the host, outside all limits.
        limit(Resource::Core, Some(0))?;
        self.enforcement.add(Layer::Rlimits);
        Ok(())
    }

    fn drop_capabilities(&mut self) -> Result<(), Failure> {
        let what = "drop capabilities";
        // The bounding set first: without it not even uid 0 of this namespace gains anything by execve.
        for number in 0..64 {
            match sys::prctl(libc::PR_CAPBSET_DROP, number) {
                Ok(_) => {}
                // The end of the kernel's list, or a caller without the right to drop (no namespaces).
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => break,
                Err(error) => return Err(failed(what)(error)),
            }
        }
        let _ = rustix::thread::clear_ambient_capability_set();
        let none = CapabilitySet::empty();
        rustix::thread::set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )
        .map_err(failed(what))
    }

    fn start_init(&mut self) -> Result<(), Failure> {
        if self.proc.is_none() {
            self.proc = Some(open_directory("/proc").map_err(failed("open /proc"))?);
        }
        if self.order.spec.namespaces == Namespaces::None {
            // The host's, where everybody can look.
            self.storage = None;
        }
        // Nothing inside may look into init or into this process before it executes.
        let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
        match sys::clone_process(0).map_err(failed("start the command's process"))? {
            Cloned::Child => {
                self.control = None;
                sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64)
                    .map(drop)
                    .map_err(failed("ask to die with init"))
            }
            Cloned::Parent { pid, pidfd } => {
                drop(pidfd);
                self.become_init(Duty::Command(pid))
            }
        }
    }

    fn become_init(&mut self, duty: Duty) -> ! {
        let (Some(control), Some(proc)) = (self.control.take(), self.proc.take()) else { sys::exit_now(125) };
        let spec = &self.order.spec;
        let network = match spec.namespaces {
            Namespaces::All => Network::Own,
            Namespaces::AllButNetwork => Network::Shared,
            Namespaces::None => Network::Unknown,
        };
        let shield = Shield::new(spec.protected.clone(), spec.hidden.clone());
        let (guarded, sockets) = (spec.guarded.clone(), spec.sockets.clone());
        let broker = Broker { guarded, shield, sockets, network, proc, helping: RefCell::default() };
        init::run(control, duty, spec.namespaces, &broker)
    }

    /// Without a command: the walls stand, the rest is done for every command that comes.
    fn await_commands(&mut self) -> Result<(), Failure> {
        let what = "get ready for commands";
        if self.proc.is_none() {
            self.proc = Some(open_directory("/proc").map_err(failed(what))?);
        }
        let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
        self.verify_own_state();
        // The supervisor gets a copy of the procfs, init keeps its own.
        let proc = self.proc.as_ref().map(rustix::io::dup).transpose().map_err(failed(what))?;
        self.report(Wait::No)?;
        self.proc = proc;
        self.order.standing = self.enforcement;
        self.become_init(Duty::Commands(Box::new(self.order.clone())))
    }

    fn terminal(&mut self, terminal: Terminal) -> Result<(), Failure> {
        let what = "open a terminal";
        // A session of its own: the caller's terminal is not ours to control.
        rustix::process::setsid().map_err(failed("start a session"))?;
        let Terminal::Own { rows, columns } = terminal else {
            return inherited::close_doors_among_streams()
                .map_err(failed("close what a standard stream would lead to"));
        };
        let master = rustix::fs::openat(
            CWD,
            c"/dev/ptmx",
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(failed(what))?;
        let slave = sys::open_pty_slave(master.as_fd()).map_err(failed(what))?;
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = rustix::termios::tcsetwinsize(&slave, size);
        rustix::process::ioctl_tiocsctty(&slave).map_err(failed(what))?;
        for number in 0..3 {
            if number == 2 && !rustix::termios::isatty(rustix::stdio::stderr()) {
                continue;
            }
            sys::duplicate_to_stdio(slave.as_fd(), number).map_err(failed(what))?;
        }
        self.terminal = Some(master);
        Ok(())
    }

    /// The last stretch: look the program up, raise the filter, report, wait for the word, go.
    fn execute(&mut self) -> Result<(), Failure> {
        let command = self.order.spec.command.clone();
        let Some(command) = command else { sys::exit_now(125) };
        let argv = c_strings(command.argv.iter().cloned());
        let envp = c_strings(command.environment.iter().map(|(k, v)| [k.as_slice(), b"=", v].concat()));
        rustix::process::chdir(&command.directory)
            .map_err(failed(&format!("enter {}", command.directory.display())))?;
        let program = find_program(&command.argv, &command.environment);
        sys::reset_signals();
        self.verify_own_state();
        sys::duplicate_to(self.launch.as_fd(), LAUNCH_DESCRIPTOR).map_err(failed("keep the line open"))?;
        let line =
            std::mem::replace(&mut self.launch, Channel::from_descriptor(sys::adopt(LAUNCH_DESCRIPTOR)));
        drop(line);
        // Only now: the limit may be lower than the number of that line.
        limit(Resource::Nofile, self.order.spec.limits.open_files)?;
        if !self.order.program.is_empty() {
            self.raise_filter()?;
        }
        self.report(Wait::ForTheWord)?;
        let program = match program {
            Ok(program) => program,
            Err(error) => self.report_no_exec(&error),
        };
        self.report_no_exec(&become_program(&program, &argv, &envp))
    }

    /// Asks the kernel, not the program text, what holds for this process now.
    fn verify_own_state(&mut self) {
        if sys::prctl(libc::PR_GET_NO_NEW_PRIVS, 0).is_ok_and(|value| value == 1) {
            self.enforcement.add(Layer::NoNewPrivs);
        }
        let none = CapabilitySet::empty();
        let bounded = self.order.spec.namespaces == Namespaces::None
            || sys::prctl(libc::PR_CAPBSET_READ, 21).is_ok_and(|value| value == 0);
        if bounded
            && rustix::thread::capabilities(None).is_ok_and(|sets| {
                sets.effective == none && sets.permitted == none && sets.inheritable == none
            })
        {
            self.enforcement.add(Layer::Capabilities);
        }
    }

    fn raise_filter(&mut self) -> Result<(), Failure> {
        let program: Vec<libc::sock_filter> = self.order.program.iter().map(Into::into).collect();
        let listen = if self.order.listen { Listen::YesUnlessKilled } else { Listen::No };
        let installed = match sys::install_filter(&program, listen) {
            Err(error) if listen != Listen::No && error.raw_os_error() == Some(libc::EINVAL) => {
                sys::install_filter(&program, Listen::Yes)
            }
            other => other,
        };
        self.listener = installed.map_err(failed("install the system call filter"))?;
        // The kernel accepted the filter for this thread, the only one.
        self.enforcement.add(Layer::Seccomp);
        if self.listener.is_some() {
            self.enforcement.add(Layer::Notify);
        }
        Ok(())
    }

    fn report(&mut self, wait: Wait) -> Result<(), Failure> {
        let mut bytes = vec![Tag::Ready as u8];
        bytes.extend(self.enforcement.to_bytes());
        // Each in its place, or not there; the written layers come last.
        let taps = std::mem::take(&mut self.taps);
        let (datagrams, streams, proxy) = match self.doors.take() {
            Some(doors) => (Some(doors.datagrams), Some(doors.streams), Some(doors.proxy)),
            None => (None, None, None),
        };
        let single = [
            self.listener.take(),
            self.terminal.take(),
            self.proc.take(),
            self.storage.take(),
            taps.v4,
            taps.v6,
            datagrams,
            streams,
            proxy,
        ];
        bytes.extend(single.iter().map(|descriptor| u8::from(descriptor.is_some())));
        let written = std::mem::take(&mut self.written);
        let descriptors: Vec<BorrowedFd<'_>> =
            single.iter().flatten().chain(&written).map(OwnedFd::as_fd).collect();
        self.launch.send(&bytes, &descriptors).map_err(failed("report to the supervisor"))?;
        drop((single, written));
        if wait == Wait::No {
            return Ok(());
        }
        match self.launch.receive() {
            Ok(Some(message)) if message.bytes.first() == Some(&(Tag::Go as u8)) => Ok(()),
            _ => sys::exit_now(125),
        }
    }

    fn report_no_exec(&self, error: &io::Error) -> ! {
        let mut bytes = vec![Tag::NotExecuted as u8];
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        bytes.extend(errno.to_le_bytes());
        let _ = self.launch.send(&bytes, &[]);
        sys::exit_now(if errno == libc::ENOENT { 127 } else { 126 })
    }

    fn give_up(&self, number: usize, step: Option<&Step>, failure: &Failure) -> ! {
        let kind = match step {
            Some(Step::EnterNamespaces(_) | Step::MapIdentity(_) | Step::DetachMounts | Step::NewRoot(_)) => {
                1
            }
            _ => 0,
        };
        let mut bytes = vec![Tag::Failed as u8, kind];
        bytes.extend(failure.source.raw_os_error().unwrap_or(0).to_le_bytes());
        let text = if failure.source.raw_os_error().is_some() {
            failure.what.clone()
        } else {
            format!("{}: {}", failure.what, failure.source)
        };
        bytes.extend(format!("step {}, {text}", number + 1).bytes().take(1000));
        let _ = self.launch.send(&bytes, &[]);
        sys::exit_now(125)
    }
}

fn limit(resource: Resource, value: Option<u64>) -> Result<(), Failure> {
    limit_between(resource, value, 0)
}

/// With a signal of its own at the limit, and the end one step later: the signal tells that it was the limit.
fn limit_with_warning(resource: Resource, value: Option<u64>) -> Result<(), Failure> {
    limit_between(resource, value, 1)
}

fn limit_between(resource: Resource, value: Option<u64>, room: u64) -> Result<(), Failure> {
    let Some(value) = value else { return Ok(()) };
    let maximum = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit =
        Rlimit { current: Some(value.min(maximum)), maximum: Some(value.saturating_add(room).min(maximum)) };
    rustix::process::setrlimit(resource, limit).map_err(failed("apply resource limits"))
}

fn write_file(path: &str, content: &str) -> io::Result<()> {
    let file = rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content.as_bytes())?;
    Ok(())
}

fn open_directory(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// The procfs of the view, or one that is attached nowhere: init must be able to tell the path of what it
/// has open. The working directory is the new root.
fn open_proc(view: &[Entry]) -> Result<OwnedFd, Failure> {
    let what = "open a /proc for init";
    if view.contains(&Entry::Proc) {
        return open_directory("proc").map_err(failed(what));
    }
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed(what))?;
    fsconfig_create(&context).map_err(failed(what))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(failed(what))
}
