//! Connections: which course each takes, and the end of it that goes to whoever carries it.

use std::{io, net::SocketAddr};

use lazaret_audit::{AuditError, EventKind};
use lazaret_egress::event::Origin;
use lazaret_policy::{
    network::{Denial, Reason},
    violation::{Indicator, Severity},
};
use lazaret_sandbox::linux::{
    errand::{CAPTURE, CAPTURE_UNLESS_TAKEN, Operation, Reply, Request},
    launch::Sandbox,
    network::address_of,
    notify::{Listener, Notification, Task},
    sys,
};
use rustix::{fs::OFlags, net::SocketType};

use super::{AT_FDCWD, After, Dialling, EACCES, Passage, Verdict, Watch, refusal::describe};
use crate::{
    network::{Course, News, Owner, connection_limit, violation},
    record::{Peer, Record},
};

const ENETUNREACH: i32 = 101;
const EOPNOTSUPP: i32 = 95;

/// What a socket is like.
struct Socket {
    is_stream: bool,
    waits: bool,
}

impl Watch<'_> {
    /// A program connects a socket.
    pub(super) fn connecting(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        socket: i32,
        address: Vec<u8>,
    ) -> io::Result<Verdict> {
        let course = match address_of(&address) {
            Some(to) => {
                let looked = look_at(task, socket)?;
                // Datagrams go nowhere; connecting their sockets is how a program learns its own address.
                if looked.is_stream { Some((to, looked.waits, self.network.course(to))) } else { None }
            }
            None => None,
        };
        match course {
            None | Some((_, _, Course::Plain)) => {
                self.hand_connection(sandbox, call, task, (socket, address), 0, None)
            }
            Some((to, _, Course::Deny(denial))) => Ok(self.refuse_connection(call, task, to, &denial)),
            Some((_, waits, Course::Capture { target, slot, unless_taken })) => {
                if waits && !unless_taken {
                    // Its caller waits in any case, and so it can be told how dialling went.
                    let origin = origin_of(call, task);
                    if let Some(ticket) = self.network.dial(target, slot, origin) {
                        self.dialling.insert(ticket, Dialling { notification: *call, address });
                    }
                    return Ok(Verdict::Handled);
                }
                let flags = if unless_taken { CAPTURE_UNLESS_TAKEN } else { CAPTURE };
                let passage = Passage::Dial(target, slot);
                self.hand_connection(sandbox, call, task, (socket, address), flags, Some(passage))
            }
        }
    }

    fn hand_connection(
        &mut self,
        sandbox: &Sandbox,
        call: &Notification,
        task: &Task,
        (socket, address): (i32, Vec<u8>),
        flags: u32,
        passage: Option<Passage>,
    ) -> io::Result<Verdict> {
        let fill = |request: &mut Request, _: &Task| {
            request.flags = flags;
            request.other = address;
            Ok(Some(socket))
        };
        let verdict = self.let_init(sandbox, call, task, Operation::Connect, AT_FDCWD, fill)?;
        if let (Some(passage), Some(pending)) = (passage, self.pending.get_mut(&call.id)) {
            pending.passage = Some(passage);
        }
        Ok(verdict)
    }

    /// Init has captured a connection, or not: its caller goes on, and the other end is carried.
    pub(super) fn pass(&mut self, listener: &Listener, reply: Reply, call: &Notification, passage: Passage) {
        let Reply { id, errno, descriptor, .. } = reply;
        match (descriptor, passage) {
            (Some(end), Passage::Dial(target, slot)) => {
                self.network.carry(end, target, slot, origin_of(call, &Task::of(call)));
            }
            (Some(end), Passage::Dialled(ticket)) => self.network.attach(ticket, end),
            // Somebody inside had the port, or it failed.
            (None, Passage::Dialled(ticket)) => self.network.abandon(ticket),
            (None, Passage::Dial(..)) => {}
        }
        if errno == 0 {
            listener.done(id, 0);
        } else {
            listener.deny(id, errno);
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
            }
        }
        Ok(After::GoOn)
    }

    fn dialled(&mut self, sandbox: &Sandbox, ticket: u64, errno: i32) {
        let Some(Dialling { notification, address }) = self.dialling.remove(&ticket) else { return };
        let Some(listener) = sandbox.listener() else { return };
        if errno != 0 {
            listener.deny(notification.id, errno);
            return self.network.abandon(ticket);
        }
        let socket = notification.args.first().map_or(-1, |argument| *argument as i32);
        let task = Task::of(&notification);
        let passage = Some(Passage::Dialled(ticket));
        match self.hand_connection(sandbox, &notification, &task, (socket, address), CAPTURE, passage) {
            Ok(_) if self.pending.contains_key(&notification.id) => {}
            Ok(_) => self.network.abandon(ticket),
            Err(error) => {
                listener.deny(notification.id, error.raw_os_error().unwrap_or(EACCES));
                self.network.abandon(ticket);
            }
        }
    }

    fn dial_inside(&mut self, sandbox: &Sandbox, id: u64, port: u16) {
        let request = Request {
            id,
            operation: Operation::Dial,
            pid: 0,
            tid: 0,
            umask: 0,
            flags: 0,
            mode: 0,
            device: port.into(),
            path: Vec::new(),
            other: Vec::new(),
        };
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
        if self.network.leads_nowhere(to) && !look_at(task, socket as i32)?.is_stream {
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

fn origin_of(call: &Notification, task: &Task) -> Origin {
    Origin::Process { pid: call.pid, name: task.name() }
}

/// The copy that is looked at may be the last one when it is closed, and closing can wait (SO_LINGER).
fn look_at(task: &Task, number: i32) -> io::Result<Socket> {
    sys::interrupt_blocking_calls();
    let looked = task.descriptor(number).and_then(|socket| {
        Ok(Socket {
            is_stream: rustix::net::sockopt::socket_type(&socket)? == SocketType::STREAM,
            waits: !rustix::fs::fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK),
        })
    });
    sys::stop_interrupting();
    looked
}
