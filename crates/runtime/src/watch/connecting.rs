//! Connections: which course each takes, and the end of it that goes to whoever carries it.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use lazaret_audit::{AuditError, EventKind};
use lazaret_egress::{
    event::Origin,
    gate::{Slot, Target},
};
use lazaret_policy::{
    network::{Denial, Reason},
    violation::{Indicator, Severity},
};
use lazaret_sandbox::linux::{
    capture::{Captured, WhenTaken, capture_by, is_in_the_way, of_one_network},
    errand::{CAPTURE, CAPTURE_UNLESS_TAKEN, Operation, Request},
    launch::Sandbox,
    network::address_of,
    notify::{Listener, Notification, Task},
    sys,
};
use rustix::{fs::OFlags, net::SocketType};

use super::{
    AT_FDCWD, After, Dialling, EACCES, EAGAIN, MAX_PENDING, Passage, Pending, Verdict, Watch,
    refusal::describe,
};
use crate::{
    network::{Course, News, Owner, connection_limit, violation},
    record::{Peer, Record},
};

const EINPROGRESS: i32 = 115;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;
const ENETUNREACH: i32 = 101;
const EOPNOTSUPP: i32 = 95;

/// What a socket is like.
struct Socket {
    is_stream: bool,
    waits: bool,
    /// It has a peer already: whoever connects it again asks how the first time went.
    has_peer: bool,
}

impl Watch<'_> {
    /// A port that is to be offered on the host.
    pub(super) fn listening(&mut self, task: &Task, socket: i32) {
        let Ok(socket) = task.descriptor(socket) else { return };
        let is_stream = rustix::net::sockopt::socket_type(&socket)
            .is_ok_and(|kind| kind == rustix::net::SocketType::STREAM);
        let Some(name) = is_stream.then(|| rustix::net::getsockname(&socket).ok()).flatten() else { return };
        if let Ok(address) = SocketAddr::try_from(name)
            && address.port() != 0
        {
            self.network.offer(address.port());
        }
    }

    /// A program connects a socket.
    pub(super) fn connecting(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        socket: i32,
        address: Vec<u8>,
    ) -> io::Result<Verdict> {
        let Some(to) = address_of(&address) else {
            // By a path, which init has to walk.
            return self.let_init(sandbox, call, task, Operation::Connect, AT_FDCWD, |request, _| {
                request.other = address;
                Ok(Some(socket))
            });
        };
        // The copy of the socket may be the last one when it is closed, and closing can wait (SO_LINGER).
        sys::interrupt_blocking_calls();
        let verdict = self.connecting_to(sandbox, call, task, to, address, socket);
        sys::stop_interrupting();
        verdict
    }

    fn connecting_to(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        to: SocketAddr,
        address: Vec<u8>,
        number: i32,
    ) -> io::Result<Verdict> {
        let socket = task.descriptor(number)?;
        let looked = look_at(&socket)?;
        self.forget_the_dead(sandbox);
        // Datagrams go nowhere; connecting their sockets is how a program learns its own address.
        let begins = looked.is_stream && !looked.has_peer;
        match if begins { self.network.course(to) } else { Course::Plain } {
            Course::Plain => self.hand_socket(sandbox, call, &socket, address, 0, None),
            Course::Deny(denial) => Ok(self.refuse_connection(call, task, to, &denial)),
            Course::Capture { target, slot, unless_taken: false, server: None } if looked.waits => {
                // Its caller waits in any case, and so it can be told how dialling went.
                let dialling = Dialling { notification: *call, address, socket, flags: CAPTURE };
                if !self.dial(target, slot, dialling) {
                    return Err(io::Error::from_raw_os_error(ENETUNREACH));
                }
                Ok(Verdict::Handled)
            }
            Course::Capture { target, slot, unless_taken: true, .. } if looked.waits => {
                let copy = socket.try_clone()?;
                let passage = Passage::DialIfRefused { target, slot, address: address.clone(), socket: copy };
                self.hand_socket(sandbox, call, &socket, address, 0, Some(passage))
            }
            Course::Capture { target, slot, unless_taken, server } => {
                let flags = if unless_taken { CAPTURE_UNLESS_TAKEN } else { CAPTURE };
                let passage = Passage::Dial(target, slot, server);
                self.hand_socket(sandbox, call, &socket, address, flags, Some(passage))
            }
        }
    }

    /// Callers that were killed while they waited leave their place to others.
    fn forget_the_dead(&mut self, sandbox: &Sandbox) {
        const FEW: usize = 16;
        if self.dialling.len() < FEW {
            return;
        }
        let Some(listener) = sandbox.listener() else { return };
        let dead: Vec<u64> = self
            .dialling
            .iter()
            .filter(|(_, dialling)| !listener.is_waiting(dialling.notification.id))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in dead {
            self.dialling.remove(&ticket);
            self.network.abandon(ticket);
        }
    }

    /// Its caller waits; `false` when nobody can dial.
    fn dial(&mut self, target: Target, slot: Slot, dialling: Dialling) -> bool {
        let ticket = self.network.dial(target, slot, origin_of(&dialling.notification));
        if let Some(ticket) = ticket {
            self.dialling.insert(ticket, dialling);
        }
        ticket.is_some()
    }

    /// Lets init connect a socket to an address that is no path: nothing of its caller is needed but the socket.
    fn hand_socket(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        socket: &OwnedFd,
        address: Vec<u8>,
        flags: u32,
        passage: Option<Passage>,
    ) -> io::Result<Verdict> {
        if self.pending.len() >= MAX_PENDING {
            return Err(io::Error::from_raw_os_error(EAGAIN));
        }
        let Some(listener) = sandbox.listener().filter(|listener| listener.is_waiting(call.id)) else {
            return Ok(Verdict::Handled);
        };
        let passage = match passage {
            None => None,
            Some(passage) if flags != CAPTURE => Some(passage),
            Some(passage) => match self.capture_here(sandbox, listener, call, socket, &address, passage) {
                Some(passage) => Some(passage),
                None => return Ok(Verdict::Handled),
            },
        };
        let request = Request { flags, other: address, ..errand(call.id, Operation::Connect) };
        if sandbox.act(&request, &[socket.as_fd(), socket.as_fd()]).is_err() {
            listener.deny(call.id, EAGAIN);
            return Ok(Verdict::Handled);
        }
        let pending = Pending {
            notification: *call,
            operation: Operation::Connect,
            path: None,
            writes: false,
            passage,
            close_on_exec: false,
        };
        self.pending.insert(call.id, pending);
        Ok(Verdict::Handled)
    }

    /// Captures a connection without init, by a socket from the pool. Returns the passage when that cannot be.
    fn capture_here(
        &mut self,
        sandbox: &Sandbox,
        listener: &Listener,
        call: &Notification,
        socket: &OwnedFd,
        address: &[u8],
        passage: Passage,
    ) -> Option<Passage> {
        let Ok(family) = rustix::net::sockopt::socket_domain(socket) else { return Some(passage) };
        let spare = self.network.pool.take(family);
        if let Some(wanted) = self.network.pool.wants(family) {
            let number = self.network.new_errand();
            let request =
                Request { device: wanted.v4, mode: wanted.v6 as u32, ..errand(number, Operation::Sockets) };
            if sandbox.act(&request, &[]).is_ok() {
                self.network.pool.asked(number);
            }
        }
        let spare = spare.filter(|spare| of_one_network(spare.as_fd(), socket.as_fd()).unwrap_or(false));
        let Some(spare) = spare else { return Some(passage) };
        match capture_by(&spare, socket.as_fd(), address, WhenTaken::CaptureElsewhere) {
            Ok(Captured::Yes { end, connected }) => {
                let errno = connected.err().map_or(0, |_| EINPROGRESS);
                self.pass(listener, call, errno, Some(end), passage);
            }
            Ok(Captured::Taken) => return Some(passage),
            Err(error) if is_in_the_way(&error) => return Some(passage),
            Err(error) => {
                if error.raw_os_error() == Some(ETIMEDOUT) {
                    self.network.pool.distrust();
                }
                self.pass(listener, call, error.raw_os_error().unwrap_or(EACCES), None, passage);
            }
        }
        None
    }

    /// Init has captured a connection, or not: its caller goes on, and the other end is carried.
    pub(super) fn pass(
        &mut self,
        listener: &Listener,
        call: &Notification,
        errno: i32,
        end: Option<OwnedFd>,
        passage: Passage,
    ) {
        let passage = match passage {
            Passage::DialIfRefused { target, slot, address, socket } if errno == ECONNREFUSED => {
                let flags = CAPTURE_UNLESS_TAKEN;
                if self.dial(target, slot, Dialling { notification: *call, address, socket, flags }) {
                    return;
                }
                None
            }
            other => Some(other),
        };
        // Its caller goes on before anything else is done.
        if errno == 0 {
            listener.done(call.id, 0);
        } else {
            listener.deny(call.id, errno);
        }
        match (end, passage) {
            (Some(end), Some(Passage::Dial(target, slot, server))) => {
                self.network.carry(end, server, target, slot, origin_of(call));
            }
            (Some(end), Some(Passage::Dialled(ticket))) => self.network.attach(ticket, end),
            // Somebody inside had the port, or it failed.
            (None, Some(Passage::Dialled(ticket))) => self.network.abandon(ticket),
            _ => {}
        }
    }

    /// What the carrying thread and the taps have told.
    pub fn news(
        &mut self,
        sandbox: &Sandbox,
        news: Vec<News>,
        record: &mut Record<'_>,
    ) -> Result<After, AuditError> {
        for one in news {
            match one {
                News::Violation(violation) => {
                    let after = self.account(EventKind::PolicyViolation, *violation, record)?;
                    if after != After::GoOn {
                        return Ok(after);
                    }
                }
                News::Dialled { ticket, errno } => self.dialled(sandbox, ticket, errno),
                News::Inbound { id, port } => self.dial_inside(sandbox, id, port),
                News::Lost => self.give_up_dialling(sandbox),
            }
        }
        Ok(After::GoOn)
    }

    fn dialled(&mut self, sandbox: &Sandbox, ticket: u64, errno: i32) {
        let Some(dialling) = self.dialling.remove(&ticket) else { return };
        let Dialling { notification, address, socket, flags } = dialling;
        let Some(listener) = sandbox.listener() else { return };
        if errno != 0 {
            listener.deny(notification.id, errno);
            return self.network.abandon(ticket);
        }
        let passage = Some(Passage::Dialled(ticket));
        sys::interrupt_blocking_calls();
        let handed = self.hand_socket(sandbox, &notification, &socket, address, flags, passage);
        drop(socket);
        sys::stop_interrupting();
        match handed {
            Ok(_) if self.pending.contains_key(&notification.id) => {}
            Ok(_) => self.network.abandon(ticket),
            Err(error) => {
                listener.deny(notification.id, error.raw_os_error().unwrap_or(EACCES));
                self.network.abandon(ticket);
            }
        }
    }

    /// Nobody will dial any more for those who wait.
    fn give_up_dialling(&mut self, sandbox: &Sandbox) {
        for (_, dialling) in self.dialling.drain() {
            if let Some(listener) = sandbox.listener() {
                listener.deny(dialling.notification.id, ENETUNREACH);
            }
        }
    }

    fn dial_inside(&mut self, sandbox: &Sandbox, id: u64, port: u16) {
        let request = Request { device: port.into(), ..errand(id, Operation::Dial) };
        if let Err(error) = sandbox.act(&request, &[]) {
            drop(self.network.answer_inbound(id, Err(error.raw_os_error().unwrap_or(EACCES))));
        }
    }

    fn refuse_connection(
        &mut self,
        call: &Notification,
        task: &Task,
        to: SocketAddr,
        denial: &Denial,
    ) -> Verdict {
        if denial.reason == Reason::ConnectionLimit {
            return Verdict::TooManyConnections(connection_limit(self.network.limit(), denial));
        }
        let peer = Peer {
            protocol: "tcp",
            host: self.network.name_of(to),
            port: to.port(),
            address: Some(to.ip().to_canonical()),
            reason: denial.reason.code(),
            rule: denial.rule.clone(),
        };
        self.network.count_denied(&peer);
        let owner = Owner { pid: call.pid, name: task.name() };
        let mut violation = violation(owner, peer, denial);
        violation.syscall = Some(describe(call));
        let errno = match denial.reason {
            Reason::NetworkOff | Reason::Unreachable => ENETUNREACH,
            _ => EACCES,
        };
        Verdict::Deny { errno, violation: Box::new(violation), kind: EventKind::PolicyViolation }
    }

    /// A datagram to an address that was not connected to.
    pub(super) fn sending(&mut self, call: &Notification, task: &Task) -> io::Result<Verdict> {
        let [socket, _, _, _, address, length] = call.args;
        let address = task.bytes(address, usize::try_from(length).unwrap_or(0).min(128))?;
        let Some(to) = address_of(&address) else { return Ok(Verdict::Proceed) };
        // The address may be another by the time the kernel reads it, and still the datagram stays here.
        if self.network.leads_nowhere(to) && !look_at(&task.descriptor(socket as i32)?)?.is_stream {
            let (violation, reason) = self.network.stray(to, Owner { pid: call.pid, name: task.name() });
            let errno = if reason == Reason::NetworkOff { ENETUNREACH } else { EACCES };
            let violation = Box::new(violation);
            return Ok(Verdict::Deny { errno, violation, kind: EventKind::PolicyViolation });
        }
        Ok(Verdict::Proceed)
    }

    /// Data with the first packet of a connection, around `connect`.
    pub(super) fn fast_open(&self, call: &Notification, task: &Task, name: &str) -> Verdict {
        let violation = self.violation(
            call,
            task,
            Indicator::Network,
            Severity::Medium,
            format!("connecting by {name} (MSG_FASTOPEN)"),
            "seccomp",
            "nothing allows this: programs connect first".to_owned(),
        );
        Verdict::Deny { errno: EOPNOTSUPP, violation: Box::new(violation), kind: EventKind::SyscallBlocked }
    }
}

fn origin_of(call: &Notification) -> Origin {
    Origin::Process { pid: call.pid, name: Task::of(call).name() }
}

fn look_at(socket: &OwnedFd) -> io::Result<Socket> {
    Ok(Socket {
        is_stream: rustix::net::sockopt::socket_type(socket)? == SocketType::STREAM,
        waits: !rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK),
        has_peer: rustix::net::getpeername(socket).is_ok_and(|peer| peer.is_some()),
    })
}

/// A request that is about no path.
fn errand(id: u64, operation: Operation) -> Request {
    Request {
        id,
        operation,
        pid: 0,
        tid: 0,
        umask: 0,
        flags: 0,
        mode: 0,
        device: 0,
        path: Vec::new(),
        other: Vec::new(),
    }
}
