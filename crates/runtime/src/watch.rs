//! Judges the system calls that wait for the supervisor: denies and records what is blocked, lets init act
//! where a check must not race, and notes writes that the kernel will refuse.

mod connecting;
pub mod links;
mod names;
mod refusal;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use lazaret_audit::{AuditError, EventKind};
use lazaret_egress::gate::{Slot, Target};
use lazaret_policy::{
    Policy,
    schema::OnEscape,
    violation::{Severity, severity_of_syscall},
};
use lazaret_sandbox::linux::{
    errand::{Operation, Reply, Request},
    launch::Sandbox,
    notify::{Listener, Notification, Task},
    sys,
};

use crate::{
    filter,
    learn::Observer,
    lower::Lowered,
    meter::{Consequence, Exceeded},
    network::Network,
    processes,
    record::{Record, Violation},
    report::{Ending, printable},
};

const O_ACCMODE: u64 = 3;
const O_CREAT: u64 = 0o100;
const O_TRUNC: u64 = 0o1000;
const O_TMPFILE: u64 = 0o20_000_000;
const O_PATH: u64 = 0o10_000_000;
const O_CLOEXEC: u64 = 0o2_000_000;
const AT_FDCWD: i32 = -100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_EMPTY_PATH: u64 = 0x1000;
const MSG_FASTOPEN: u64 = 0x2000_0000;
const EPERM: i32 = 1;
const EAGAIN: i32 = 11;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EAFNOSUPPORT: i32 = 97;
const ECONNREFUSED: i32 = 111;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// Writing these takes over the host; nothing honest tries.
const CRITICAL_FILES: [&str; 4] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/panic_on_oom",
];

/// The most calls that init may be at for the command.
const MAX_PENDING: usize = 256;
const DENIED_WINS: &str =
    "the path is denied, and denied wins: take it out of deniedPaths (or drop --deny) to allow it";

const HIDDEN: &str = "the path is hidden: take it out of hiddenPaths, hiddenPatterns (denyRead), or list it or what is needed below it as readable";
const PROTECTED: &str = "the name is protected against writing, also where writing is allowed (protectedPaths, protectedNames; in srt settings denyWrite, and names that are always protected)";

/// What the supervisor does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    GoOn,
    End(Ending, String),
}

/// A call that init is carrying out.
#[derive(Debug)]
struct Pending {
    notification: Notification,
    operation: Operation,
    /// The path that was asked for, by name only: for telling.
    path: Option<PathBuf>,
    /// Something was to be written or changed there.
    writes: bool,
    /// What becomes of a connection that was captured.
    passage: Option<Passage>,
    close_on_exec: bool,
}

/// Where the other end of a captured connection goes.
#[derive(Debug)]
enum Passage {
    /// It is dialled now, unless it has been.
    Dial(Target, Slot, Option<OwnedFd>),
    /// Somebody inside may have the port; if nobody does, it is dialled before its caller goes on.
    DialIfRefused { target: Target, slot: Slot, address: Vec<u8>, socket: OwnedFd },
    /// It has been dialled.
    Dialled(u64),
}

/// A connection whose caller waits until it has been dialled.
#[derive(Debug)]
struct Dialling {
    notification: Notification,
    /// The address that was judged: what is in memory may be another by now.
    address: Vec<u8>,
    socket: OwnedFd,
    /// How it is captured then.
    flags: u32,
}

#[derive(Debug)]
pub struct Watch<'a> {
    policy: &'a Policy,
    lowered: &'a Lowered,
    blocked: BTreeSet<u32>,
    /// Every opening is init's.
    guards: bool,
    /// Everything that changes a name is init's.
    protects: bool,
    counts_processes: bool,
    /// No more processes than this can be there: the last count and what was let through since.
    at_most: u64,
    /// When processes were let through lately: they may not be there yet.
    forked: VecDeque<Instant>,
    /// The launcher's own `execve` has gone through.
    executed: bool,
    pending: HashMap<u64, Pending>,
    /// By ticket.
    dialling: HashMap<u64, Dialling>,
    pub network: &'a mut Network,
    /// Sees every call, when the command is learnt from.
    pub observer: Option<Observer>,
    /// The last call that was blocked, and with what: a flood of the same is answered without a second look.
    flood: Option<Flood>,
}

/// A call that was blocked by its number alone.
#[derive(Debug)]
struct Flood {
    call: Notification,
    process: String,
    errno: i32,
    /// Where it is counted.
    index: usize,
}

impl Flood {
    fn is_the_same(&self, call: &Notification, task: &Task) -> bool {
        let what = |call: &Notification| (call.pid, call.arch, call.number, call.args);
        what(&self.call) == what(call) && task.name() == self.process
    }
}

/// The outcome of looking at one call.
enum Verdict {
    Deny {
        errno: i32,
        violation: Box<Violation>,
        kind: EventKind,
    },
    /// Noted; the kernel itself refuses.
    Note {
        violation: Box<Violation>,
    },
    /// A limit that the supervisor counts.
    Limit(Exceeded),
    TooManyConnections(Exceeded),
    Proceed,
    Handled,
}

impl<'a> Watch<'a> {
    pub fn new(policy: &'a Policy, lowered: &'a Lowered, network: &'a mut Network) -> Self {
        Watch {
            policy,
            lowered,
            blocked: filter::blocked(policy),
            guards: !lowered.spec.guarded.is_empty() || !lowered.spec.hidden.is_empty(),
            protects: lowered.protects,
            counts_processes: lowered.counts_processes,
            at_most: u64::MAX,
            forked: VecDeque::new(),
            executed: false,
            pending: HashMap::new(),
            dialling: HashMap::new(),
            network,
            observer: None,
            flood: None,
        }
    }

    /// One waiting call.
    pub fn call(
        &mut self,
        sandbox: &Sandbox,
        listener: &Listener,
        notification: Notification,
        record: &mut Record<'_>,
    ) -> Result<After, AuditError> {
        let task = Task::of(&notification);
        if let Some(observer) = &mut self.observer {
            observer.see(sandbox, &notification, &task);
            if observer.would_pass(&notification) {
                // Nobody would have been asked: the kernel and the walls decide, as they would have.
                listener.proceed(notification.id);
                return Ok(After::GoOn);
            }
        }
        if let Some(flood) = &self.flood
            && flood.is_the_same(&notification, &task)
        {
            record.again(flood.index, EventKind::SyscallBlocked)?;
            let after = self.enough(record, &notification.name());
            if after == After::GoOn {
                listener.deny(notification.id, flood.errno);
            }
            return Ok(after);
        }
        self.flood = None;
        let verdict = match self.judge(sandbox, &notification, &task) {
            Ok(verdict) => verdict,
            Err(error) => {
                // Its memory or descriptors could not be read: the call fails as the kernel would fail it.
                // What failed for another reason could not be judged, and that is told.
                let Some(errno) = error.raw_os_error() else {
                    let violation = self.unjudged(&notification, &task, &error);
                    let after = self.account(EventKind::PolicyViolation, violation, record)?;
                    if after == After::GoOn {
                        listener.deny(notification.id, EACCES);
                    }
                    return Ok(after);
                };
                listener.deny(notification.id, errno);
                return Ok(After::GoOn);
            }
        };
        match verdict {
            Verdict::Proceed => listener.proceed(notification.id),
            Verdict::Handled => {}
            Verdict::Limit(exceeded) => {
                record.limit(exceeded)?;
                listener.deny(notification.id, EAGAIN);
            }
            Verdict::TooManyConnections(exceeded) => {
                record.limit(exceeded)?;
                listener.deny(notification.id, ECONNREFUSED);
            }
            Verdict::Note { violation } => {
                let after = self.account(EventKind::PolicyViolation, *violation, record);
                if !matches!(after, Ok(After::End(..))) {
                    listener.proceed(notification.id);
                }
                return after;
            }
            Verdict::Deny { errno, violation, kind } => {
                let after = self.account(kind, *violation, record);
                // Killed before it is answered: the process never runs on.
                if matches!(after, Ok(After::GoOn)) {
                    listener.deny(notification.id, errno);
                    // What is blocked by name is blocked whatever memory says.
                    if kind == EventKind::SyscallBlocked
                        && let Some(index) = record.last()
                    {
                        self.flood = Some(Flood { call: notification, process: task.name(), errno, index });
                    }
                }
                return after;
            }
        }
        Ok(After::GoOn)
    }

    /// Init has acted.
    pub fn acted(
        &mut self,
        listener: &Listener,
        reply: Reply,
        record: &mut Record<'_>,
    ) -> Result<After, AuditError> {
        let Some(pending) = self.pending.remove(&reply.id) else {
            if self.network.pool.is_mine(reply.id) {
                self.network.pool.fill(reply.descriptor.into_iter().chain(reply.sockets));
                return Ok(After::GoOn);
            }
            let end = match (reply.errno, reply.descriptor) {
                (0, Some(end)) => Ok(end),
                (errno, _) => Err(errno),
            };
            // Of nobody who waits: dropped.
            drop(self.network.answer_inbound(reply.id, end));
            return Ok(After::GoOn);
        };
        if let Some(passage) = pending.passage {
            self.pass(listener, &pending.notification, reply.errno, reply.descriptor, passage);
            return Ok(After::GoOn);
        }
        match (reply.errno, &reply.descriptor) {
            (0, Some(descriptor)) => {
                listener.done_with_descriptor(reply.id, descriptor.as_fd(), pending.close_on_exec);
            }
            (0, None) => listener.done(reply.id, 0),
            (errno, _) => {
                // Refused by rule, by the mask that lies on a denied path, or by a read-only place.
                let masked = pending.path.as_ref().filter(|path| self.is_denied(path));
                let read_only = pending.path.as_ref().filter(|path| {
                    pending.writes && matches!(errno, EROFS | EACCES | EPERM) && !self.is_writable(path)
                });
                let violation = match (reply.refused.as_ref().or(masked), read_only) {
                    (Some(path), _) => Some(self.refused_by_init(&pending, path)),
                    (None, Some(path)) => {
                        let call = &pending.notification;
                        Some(self.write_denied(call, &Task::of(call), path))
                    }
                    (None, None) => None,
                };
                let after = match violation {
                    Some(violation) => self.account(EventKind::PolicyViolation, violation, record)?,
                    None => After::GoOn,
                };
                if after == After::GoOn {
                    listener.deny(reply.id, errno);
                }
                return Ok(after);
            }
        }
        Ok(After::GoOn)
    }

    fn account(
        &self,
        kind: EventKind,
        violation: Violation,
        record: &mut Record<'_>,
    ) -> Result<After, AuditError> {
        let violation = Violation { event: kind.to_string(), ..violation };
        let threshold = self.policy.escape_severity.unwrap_or(Severity::Critical);
        let escape = violation.severity >= threshold && self.lowered.on_escape == OnEscape::Kill;
        let description = format!("{} by {}", violation.description, printable(&violation.process));
        record.violation(kind, violation.clone())?;
        if escape {
            let details = serde_json::to_value(&violation).unwrap_or_default();
            record.event(
                EventKind::EscapeAttempt,
                &[
                    ("description", description.clone().into()),
                    ("indicator", details),
                    ("response", "kill".into()),
                ],
            )?;
            return Ok(After::End(
                Ending::Escape,
                format!(
                    "escape attempt ended the sandbox: {description} (--on-escape deny would only refuse it)"
                ),
            ));
        }
        Ok(self.enough(record, &description))
    }

    /// Have there been too many?
    fn enough(&self, record: &Record<'_>, last: &str) -> After {
        match self.policy.max_violations {
            Some(limit) if record.total() >= limit => After::End(
                Ending::Violations,
                format!("{limit} violations ended the sandbox, the last: {last} (maxViolations)"),
            ),
            _ => After::GoOn,
        }
    }

    fn judge(&mut self, sandbox: &Sandbox, call: &Notification, task: &Task) -> io::Result<Verdict> {
        let name = call.name();
        if !call.is_native() {
            return Ok(self.blocked_call(call, task, &name, ENOSYS, severity_of_foreign(call)));
        }
        if self.blocked.contains(&call.number) {
            return Ok(self.blocked_call(call, task, &name, EPERM, severity_of_syscall(&name)));
        }
        let [a, b, c, d, ..] = call.args;
        match name.as_str() {
            "execve" | "execveat" if !self.executed => {
                // The launcher's own, before any code of the command has run: nobody else to race with.
                self.executed = true;
                Ok(Verdict::Proceed)
            }
            // Only told: what is not on the list is refused by Landlock and the mounts.
            "execve" if self.policy.process.allow_exec => self.executing(call, task, AT_FDCWD, a),
            "execveat" if self.policy.process.allow_exec && call.args[4] & AT_EMPTY_PATH == 0 => {
                self.executing(call, task, a as i32, b)
            }
            "clone" | "fork" | "vfork"
                if self.policy.process.allow_fork && self.counts_processes && is_plain_fork(&name, a) =>
            {
                Ok(self.forking(sandbox))
            }
            "execve" | "execveat" | "memfd_create" | "fork" | "vfork" => {
                Ok(self.blocked_call(call, task, &name, EPERM, Severity::High))
            }
            "clone" => Ok(self.blocked_call(call, task, &name, EPERM, severity_of_syscall(&name))),
            "connect" => {
                let address = task.bytes(b, usize::try_from(c).unwrap_or(0).min(128))?;
                self.connecting(sandbox, call, task, a as i32, address)
            }
            "sendto" if d & MSG_FASTOPEN == 0 => self.sending(call, task),
            "sendto" | "sendmsg" | "sendmmsg" => Ok(self.fast_open(call, task, &name)),
            "bind" => self.let_init(sandbox, call, task, Operation::Bind, AT_FDCWD, |request, task| {
                request.other = task.bytes(b, usize::try_from(c).unwrap_or(0).min(128))?;
                Ok(Some(a as i32))
            }),
            "listen" => {
                self.listening(task, a as i32);
                Ok(Verdict::Proceed)
            }
            "open" => self.opening(sandbox, call, task, AT_FDCWD, a, b, c),
            "openat" => self.opening(sandbox, call, task, a as i32, b, c, d),
            "creat" => self.opening(sandbox, call, task, AT_FDCWD, a, O_CREAT | 0o1 | 0o1000, b),
            "chmod" | "fchmod" | "fchmodat" | "fchmodat2" => Ok(self.privileged_mode(call, task, &name)),
            "mknod" if privileged(b) => Ok(self.privileged_mode(call, task, &name)),
            "mknodat" if privileged(c) => Ok(self.privileged_mode(call, task, &name)),
            "socket" | "socketpair" => Ok(self.socket(call, task, &name)),
            "unlink" => self.removing(sandbox, call, task, (Operation::Unlink, AT_FDCWD, a, 0)),
            "rmdir" => self.removing(sandbox, call, task, (Operation::Unlink, AT_FDCWD, a, AT_REMOVEDIR)),
            "unlinkat" => self.removing(sandbox, call, task, (Operation::Unlink, a as i32, b, c)),
            "truncate" => self.removing(sandbox, call, task, (Operation::Truncate, AT_FDCWD, a, b)),
            "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink" | "symlinkat" | "link" | "linkat"
            | "rename" | "renameat" | "renameat2" => self.creating(sandbox, call, task, &name),
            _ => Ok(self.blocked_call(call, task, &name, EPERM, severity_of_syscall(&name))),
        }
    }

    /// Hands the call to init, without ever waiting here: the copy of a socket that is taken along may be the
    /// last one when it is closed, and SO_LINGER would then hold up the supervisor, its clock included.
    fn let_init(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        operation: Operation,
        base: i32,
        fill: impl FnOnce(&mut Request, &Task) -> io::Result<Option<i32>>,
    ) -> io::Result<Verdict> {
        if !matches!(operation, Operation::Connect | Operation::Bind) {
            return self.hand_over(sandbox, call, task, operation, base, fill);
        }
        sys::interrupt_blocking_calls();
        let verdict = self.hand_over(sandbox, call, task, operation, base, fill);
        sys::stop_interrupting();
        verdict
    }

    /// `fill` reads the rest of the arguments and names a socket, if there is one.
    fn hand_over(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        operation: Operation,
        base: i32,
        fill: impl FnOnce(&mut Request, &Task) -> io::Result<Option<i32>>,
    ) -> io::Result<Verdict> {
        if self.pending.len() >= MAX_PENDING {
            return Err(io::Error::from_raw_os_error(EAGAIN));
        }
        let numbers = task.numbers()?;
        let mut request = Request {
            id: call.id,
            operation,
            pid: numbers.process,
            tid: numbers.thread,
            umask: numbers.umask,
            flags: 0,
            mode: 0,
            device: 0,
            path: Vec::new(),
            other: Vec::new(),
        };
        let second = fill(&mut request, task)?;
        let named = match operation {
            Operation::Connect | Operation::Bind => None,
            Operation::Link | Operation::Rename => {
                self.absolute(task, second.unwrap_or(AT_FDCWD), &request.other)
            }
            _ => self.absolute(task, base, &request.path),
        };
        if let Some(path) = named.as_ref().filter(|path| self.is_bait(path)) {
            // Bait that init would find: it is looked at by name, which is enough to bite.
            let violation = Box::new(self.write_denied(call, task, path));
            return Ok(Verdict::Deny { errno: EACCES, violation, kind: EventKind::PolicyViolation });
        }
        // An absolute path needs no base, and then any number is right.
        let base = match task.directory(base) {
            Err(_) if request.path.starts_with(b"/") => task.directory(AT_FDCWD)?,
            other => other?,
        };
        let second = match (operation, second) {
            (Operation::Connect | Operation::Bind, Some(number)) => Some(task.descriptor(number)?),
            (_, Some(number)) if request.other.starts_with(b"/") => {
                Some(task.directory(number).or_else(|_| task.directory(AT_FDCWD))?)
            }
            (_, Some(number)) => Some(task.directory(number)?),
            (_, None) => None,
        };
        let Some(listener) = sandbox.listener().filter(|listener| listener.is_waiting(call.id)) else {
            return Ok(Verdict::Handled);
        };
        let descriptors: Vec<_> = std::iter::once(&base).chain(second.iter()).map(AsFd::as_fd).collect();
        if sandbox.act(&request, &descriptors).is_err() {
            listener.deny(call.id, EAGAIN);
            return Ok(Verdict::Handled);
        }
        self.pending.insert(
            call.id,
            Pending {
                notification: *call,
                operation,
                path: named,
                writes: operation != Operation::Open
                    || u64::from(request.flags) & (O_ACCMODE | O_CREAT | O_TRUNC) != 0,
                close_on_exec: u64::from(request.flags) & O_CLOEXEC != 0,
                passage: None,
            },
        );
        Ok(Verdict::Handled)
    }

    /// May another process be started? The processes are counted only when there could be too many.
    fn forking(&mut self, sandbox: &Sandbox) -> Verdict {
        const ON_ITS_WAY: Duration = Duration::from_millis(2);
        let limit = self.policy.process.max_processes.unwrap_or(u64::MAX);
        for _ in 0..5 {
            if self.at_most < limit {
                break;
            }
            let Some(proc) = sandbox.proc() else { break };
            let there = processes::count(proc);
            while self.forked.front().is_some_and(|moment| moment.elapsed() > ON_ITS_WAY) {
                self.forked.pop_front();
            }
            if there >= limit {
                let description = format!(
                    "no more than {limit} processes may run at once (--max-procs, process.maxProcesses)"
                );
                return Verdict::Limit(Exceeded {
                    limit: "maxProcesses",
                    value: limit,
                    usage: there,
                    description,
                    consequence: Consequence::Refused,
                });
            }
            self.at_most = there + self.forked.len() as u64;
            if self.at_most >= limit {
                // Some of them may have been counted already: a moment later that is known.
                std::thread::sleep(ON_ITS_WAY);
            }
        }
        self.at_most = self.at_most.saturating_add(1);
        self.forked.push_back(Instant::now());
        Verdict::Proceed
    }
}

/// Neither a thread nor a namespace.
fn is_plain_fork(name: &str, flags: u64) -> bool {
    const CLONE_THREAD: u64 = 0x1_0000;
    const CLONE_NAMESPACES: u64 = 0x7e02_0000;
    name != "clone" || flags & (CLONE_THREAD | CLONE_NAMESPACES) == 0
}

/// The same acts by their numbers on another architecture: these are 32-bit x86 and x32.
fn severity_of_foreign(call: &Notification) -> Severity {
    const X32_BIT: u32 = 0x4000_0000;
    // mount, umount, umount2, pivot_root, setns, open_by_handle_at, bpf, kexec_load, init_module, finit_module,
    // delete_module, reboot, swapon, swapoff, move_mount, fsmount, mount_setattr
    const CRITICAL: [u32; 17] =
        [21, 22, 52, 217, 346, 342, 357, 283, 128, 350, 129, 88, 87, 115, 429, 432, 442];
    let critical = if call.number & X32_BIT == 0 {
        CRITICAL.contains(&call.number)
    } else {
        let native = Notification { number: call.number & !X32_BIT, ..*call };
        severity_of_syscall(&native.name()) == Severity::Critical
    };
    if critical { Severity::Critical } else { Severity::High }
}

fn privileged(mode: u64) -> bool {
    mode & 0o6000 != 0
}
