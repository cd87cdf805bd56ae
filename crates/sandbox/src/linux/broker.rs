//! Acts on behalf of the command where a decision hangs on memory that the command could change between
//! check and use: names that must never come into being ([`Spec::guarded`](crate::Spec)) and sockets of
//! the host.
//!
//! Runs inside init: same identity, same view, same Landlock domain, so that an act can do no more here
//! than it could there. One request at a time, therefore no two acts can race with each other.

use std::{
    cell::RefCell,
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
    net::AddressFamily,
};

mod objects;

use objects::Target;

use super::{
    capture::{Captured, WhenTaken, capture, dial_inside, is_foreign, new_sockets},
    channel::Channel,
    errand::{CAPTURE, CAPTURE_UNLESS_TAKEN, Operation, Reply, Request},
    shield::Shield,
    socket_owner,
    sys::{self, Cloned},
    walk::{Place, canonical},
};
use crate::spec::Sockets;

/// Why an act did not happen.
enum Stop {
    Errno(Errno),
    /// Refused by rule: the canonical path.
    Refused(PathBuf),
    /// It may take long: for a child of init.
    MayBlock,
    /// It may take long to open this, which has been judged.
    WaitFor(OwnedFd, OFlags),
    /// Connecting goes on; this is the other end.
    InProgress(OwnedFd),
    /// A child of init goes on with it and will answer.
    Delegated,
}

/// May an act wait?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    AtOnce,
    Waits,
}

/// What something is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Change,
}

/// The device number of /dev/tty.
const DEV_TTY: u64 = 5 << 8;

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::Errno(errno)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Errno(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

/// The acting half.
#[derive(Debug)]
pub struct Broker {
    /// Absolute paths, as seen inside, that must never come into being.
    pub guarded: Vec<PathBuf>,
    pub shield: Shield,
    pub sockets: Sockets,
    pub network: Network,
    /// A procfs of our own: the view need not have one.
    pub proc: OwnedFd,
    /// Children of init that wait for something.
    pub helping: RefCell<Vec<u32>>,
}

/// How a socket of the sandbox is told from one of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// By the network namespace, which is our own.
    Own,
    /// The namespace is shared: only what lies in a private directory is surely ours.
    Shared,
    /// Nothing can be told apart: only listed sockets.
    Unknown,
}

/// So often an act is tried again that was interrupted, some seconds in all.
const RETRIES: usize = 100;
/// The most acts that may be under way in children of init.
const MAX_HELPERS: usize = 64;

/// Children of init that do what may take long, and which request each is at.
pub type Helpers = Vec<(i32, u64)>;

impl Broker {
    /// Does what was asked and answers on `control`.
    pub fn act(&self, control: &Channel, bytes: &[u8], descriptors: Vec<OwnedFd>, helpers: &mut Helpers) {
        let Some(request) = Request::decode(bytes) else { return };
        *self.helping.borrow_mut() = helpers.iter().map(|(pid, _)| pid.unsigned_abs()).collect();
        let mut reply =
            Reply { id: request.id, errno: 0, refused: None, descriptor: None, sockets: Vec::new() };
        if request.operation == Operation::Sockets {
            reply.sockets = new_sockets(request.device, u64::from(request.mode));
            // The first place is for what an act opened.
            reply.descriptor = reply.sockets.pop();
            return answer(control, &reply);
        }
        // Whatever the command prepared to make an act wait (a FIFO, a lease, a flag flipped at the right
        // moment), init is back after a moment; a child of init goes on with it.
        sys::interrupt_blocking_calls();
        let mut result = self.perform(&request, &descriptors);
        for _ in 0..RETRIES {
            // Names are walked and judged here and nowhere else: what was interrupted is done again by init
            // itself, since a child beside it would race with the next act.
            if !matches!(result, Err(Stop::Errno(Errno::INTR))) || request.operation == Operation::Connect {
                break;
            }
            result = self.perform(&request, &descriptors);
        }
        match result {
            // The object is in hand, and only to be waited for.
            Err(Stop::WaitFor(object, flags)) => {
                sys::stop_interrupting();
                result = delegate(control, &request, helpers, || {
                    until_uninterrupted(|| Ok(Some(self.reopen(object.as_fd(), flags)?)))
                });
                sys::interrupt_blocking_calls();
            }
            Err(Stop::Errno(Errno::INTR) | Stop::MayBlock) if request.operation == Operation::Connect => {
                sys::stop_interrupting();
                result = delegate(control, &request, helpers, || {
                    until_uninterrupted(|| self.perform_mode(&request, &descriptors, Patience::Waits))
                });
                sys::interrupt_blocking_calls();
            }
            _ => {}
        }
        // Closing can wait, too (SO_LINGER).
        drop(descriptors);
        sys::stop_interrupting();
        match result {
            Ok(descriptor) => reply.descriptor = descriptor,
            Err(Stop::Errno(errno)) => reply.errno = errno.raw_os_error(),
            Err(Stop::Refused(path)) => {
                reply.errno = libc::EACCES;
                reply.refused = Some(path);
            }
            Err(Stop::InProgress(end)) => {
                reply.errno = libc::EINPROGRESS;
                reply.descriptor = Some(end);
            }
            Err(Stop::MayBlock | Stop::WaitFor(..)) => reply.errno = libc::EAGAIN,
            Err(Stop::Delegated) => return,
        }
        answer(control, &reply);
    }

    fn perform(&self, request: &Request, descriptors: &[OwnedFd]) -> Result<Option<OwnedFd>, Stop> {
        self.perform_mode(request, descriptors, Patience::AtOnce)
    }

    fn perform_mode(
        &self,
        request: &Request,
        descriptors: &[OwnedFd],
        patience: Patience,
    ) -> Result<Option<OwnedFd>, Stop> {
        let base = descriptors.first().map(OwnedFd::as_fd);
        let second = descriptors.get(1).map(OwnedFd::as_fd);
        let mode = request.mode & !request.umask;
        match request.operation {
            Operation::Open => self.open(request, base, mode),
            Operation::Mkdir => {
                let place = self.unguarded_name(request, base, &request.path)?;
                rustix::fs::mkdirat(&place.parent, &place.name, Mode::from_raw_mode(mode & 0o1777))?;
                self.shield.remember(&place);
                Ok(None)
            }
            Operation::Mknod => {
                let place = self.unguarded_name(request, base, &request.path)?;
                let kind = match FileType::from_raw_mode(request.mode) {
                    FileType::Unknown => FileType::RegularFile,
                    kind => kind,
                };
                if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
                    return Err(Errno::PERM.into());
                }
                rustix::fs::mknodat(
                    &place.parent,
                    &place.name,
                    kind,
                    Mode::from_raw_mode(mode & 0o1777),
                    request.device,
                )?;
                self.shield.remember(&place);
                Ok(None)
            }
            Operation::Symlink => {
                let place = self.unguarded_name(request, base, &request.path)?;
                self.refuse_ancestors(&place)?;
                let full = canonical(self.proc.as_fd(), &place)?;
                if self.shield.forbids_link(&full) {
                    return Err(Stop::Refused(full));
                }
                rustix::fs::symlinkat(OsStr::from_bytes(&request.other), &place.parent, &place.name)?;
                Ok(None)
            }
            Operation::Link => self.link(request, base, second),
            Operation::Rename => {
                // Neither end may be a guarded name, nor carry one along to where nobody guards it.
                let from = self.unguarded_name(request, base, &request.path)?;
                self.refuse_ancestors(&from)?;
                let to = self.unguarded_name(request, second, &request.other)?;
                self.refuse_ancestors(&to)?;
                let flags = rustix::fs::RenameFlags::from_bits_retain(request.flags);
                self.refuse_moving(&from, &to)?;
                self.refuse_socket(&from, &to)?;
                let exchange = flags.contains(rustix::fs::RenameFlags::EXCHANGE);
                if exchange {
                    self.refuse_moving(&to, &from)?;
                    self.refuse_socket(&to, &from)?;
                }
                let replaced = self.shield.identity(&to).filter(|_| !exchange);
                rustix::fs::renameat_with(&from.parent, &from.name, &to.parent, &to.name, flags)?;
                self.shield.forget(replaced);
                Ok(None)
            }
            Operation::Unlink => {
                let place = self.unguarded_name(request, base, &request.path)?;
                let flags = AtFlags::from_bits_retain(request.flags);
                let removed = self.shield.identity(&place);
                rustix::fs::unlinkat(&place.parent, &place.name, flags)?;
                self.shield.forget(removed);
                Ok(None)
            }
            Operation::Truncate => {
                let place = self.unguarded(request, base, &request.path, true)?;
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())?;
                rustix::fs::ftruncate(&file, request.device)?;
                Ok(None)
            }
            Operation::Bind => {
                let socket = second.ok_or(Errno::BADF)?;
                self.bind(request, base, socket)
            }
            Operation::Connect => {
                let socket = second.ok_or(Errno::BADF)?;
                self.connect(request, base, socket, patience)
            }
            Operation::Sockets => Err(Errno::INVAL.into()),
            Operation::Dial => {
                let port = u16::try_from(request.device).map_err(|_| Errno::INVAL)?;
                Ok(Some(dial_inside(port)?))
            }
        }
    }

    fn open(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        mode: u32,
    ) -> Result<Option<OwnedFd>, Stop> {
        let flags = OFlags::from_bits_retain(request.flags) | OFlags::NOCTTY | OFlags::CLOEXEC;
        let follow = !flags.contains(OFlags::NOFOLLOW) && !flags.contains(OFlags::CREATE | OFlags::EXCL);
        let changes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC);
        let purpose = if changes { Purpose::Change } else { Purpose::Read };
        // What is there already is opened by the object that was judged.
        let existing = flags.difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW);
        let place = match self.find(request, base, &request.path, follow, purpose)? {
            // A descriptor of the command by its name in /proc: exists, cannot be created.
            Target::Object(object) => return self.open_object(object, existing),
            Target::Place(place) => place,
        };
        self.refuse_guarded(&place)?;
        let stat = rustix::fs::statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        if !self.shield.is_empty() {
            let full = canonical(self.proc.as_fd(), &place)?;
            let comes_to_be = stat.is_none() && flags.contains(OFlags::CREATE);
            if self.shield.hides(&full, self.shield.identity(&place))
                || ((changes || comes_to_be) && self.shield.protects(&full))
            {
                return Err(Stop::Refused(full));
            }
        }
        let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind == Some(FileType::CharacterDevice) && stat.is_some_and(|stat| stat.st_rdev == DEV_TTY) {
            // "My terminal" means another one here than there.
            let terminal = self.terminal_of(request.pid).ok_or(Errno::NXIO)?;
            return Ok(Some(rustix::fs::openat(CWD, terminal, flags, Mode::empty())?));
        }
        if kind.is_some() && flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Err(Errno::EXIST.into());
        }
        let pin = || -> Result<OwnedFd, Errno> {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())
        };
        if kind == Some(FileType::Fifo) && !flags.contains(OFlags::NONBLOCK) {
            return Err(Stop::WaitFor(pin()?, existing));
        }
        let mode = Mode::from_raw_mode(mode & 0o1777);
        let opened = match rustix::fs::openat(&place.parent, &place.name, flags | OFlags::NOFOLLOW, mode) {
            // Somebody has a lease on it.
            Err(Errno::INTR) if kind.is_some() => return Err(Stop::WaitFor(pin()?, existing)),
            other => other?,
        };
        if stat.is_none() {
            self.shield.remember_object(opened.as_fd());
        }
        Ok(Some(opened))
    }

    /// The controlling terminal of a process, if it is one of this view.
    fn terminal_of(&self, pid: u32) -> Option<PathBuf> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let stat = rustix::fs::openat(&self.proc, format!("{pid}/stat"), flags, Mode::empty()).ok()?;
        let mut text = [0; 1024];
        let length = rustix::io::read(&stat, &mut text).ok()?;
        let text = String::from_utf8_lossy(text.get(..length)?).into_owned();
        // The name in parentheses may hold anything; after it come state, parent, group, session, terminal.
        let device: u64 = text.rsplit_once(')')?.1.split_whitespace().nth(4)?.parse().ok()?;
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
        (major == 136).then(|| PathBuf::from(format!("/dev/pts/{minor}")))
    }

    fn bind(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        socket: BorrowedFd<'_>,
    ) -> Result<Option<OwnedFd>, Stop> {
        let Some(path) = pathname(&request.other) else {
            sys::bind_raw(socket, &request.other)?;
            return Ok(None);
        };
        let place = self.unguarded_name(request, base, path)?;
        // bind() knows no directory descriptor: go there for the moment.
        rustix::process::fchdir(&place.parent)?;
        let umask = rustix::process::umask(Mode::from_raw_mode(request.umask));
        let bound = sys::bind_raw(socket, &unix_address(place.name.as_bytes())?);
        rustix::process::umask(umask);
        let _ = rustix::process::chdir(c"/");
        bound?;
        Ok(None)
    }

    fn connect(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        socket: BorrowedFd<'_>,
        patience: Patience,
    ) -> Result<Option<OwnedFd>, Stop> {
        let domain = rustix::net::sockopt::socket_domain(socket)?;
        let pinned;
        let address = match pathname(&request.other) {
            Some(path) if domain == AddressFamily::UNIX => {
                let Target::Place(place) = self.find(request, base, path, true, Purpose::Read)? else {
                    return Err(Errno::ACCESS.into());
                };
                let target = rustix::fs::openat(
                    &place.parent,
                    &place.name,
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                let full = canonical(self.proc.as_fd(), &place)?;
                let listed = match &self.sockets {
                    Sockets::Listed(listed) => listed.iter().any(|listed| full.starts_with(listed)),
                    Sockets::All => true,
                };
                if !listed && !self.is_ours(target.as_fd())? {
                    return Err(Stop::Refused(full));
                }
                // The very object that was looked at, whatever its name leads to by now.
                pinned = target;
                unix_address(format!("/proc/self/fd/{}", pinned.as_raw_fd()).as_bytes())?
            }
            _ => request.other.clone(),
        };
        let of_ip = matches!(domain, AddressFamily::INET | AddressFamily::INET6);
        if of_ip && self.network == Network::Own && is_foreign(socket)? {
            return Err(Stop::Refused(PathBuf::from("(of the network outside)")));
        }
        let when_taken = match request.flags {
            CAPTURE => Some(WhenTaken::CaptureElsewhere),
            CAPTURE_UNLESS_TAKEN => Some(WhenTaken::LeaveIt),
            _ => None,
        };
        if let Some(when_taken) = when_taken.filter(|_| of_ip) {
            match capture(socket, &request.other, when_taken)? {
                Captured::Yes { end, connected: Ok(()) } => return Ok(Some(end)),
                Captured::Yes { end, connected: Err(_) } => return Err(Stop::InProgress(end)),
                Captured::Taken => {}
            }
        }
        let may_block = !rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK)
            && rustix::net::sockopt::socket_type(socket)? != rustix::net::SocketType::DGRAM;
        // Within the network of the sandbox a connection is there, or refused, at once; should it not be, the
        // call is interrupted, and a child of init goes on waiting for it.
        let prompt = of_ip && self.network == Network::Own;
        if may_block && !prompt && patience == Patience::AtOnce {
            return Err(Stop::MayBlock);
        }
        sys::connect_raw(socket, &address)?;
        Ok(None)
    }

    fn is_ours(&self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        match self.network {
            Network::Unknown => Ok(false),
            Network::Own => socket_owner::bound_inside(socket),
            Network::Shared => {
                let root = rustix::fs::stat("/")?;
                Ok(rustix::fs::fstat(socket)?.st_dev == root.st_dev)
            }
        }
    }

    fn unguarded_name(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        path: &[u8],
    ) -> Result<Place, Stop> {
        self.unguarded(request, base, path, false)
    }

    fn unguarded(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        path: &[u8],
        follow: bool,
    ) -> Result<Place, Stop> {
        let place = match self.find(request, base, path, follow, Purpose::Change)? {
            Target::Place(place) => place,
            Target::Object(_) => return Err(Errno::ACCESS.into()),
        };
        self.refuse_closed(&place)?;
        Ok(place)
    }

    /// Neither guarded nor shielded.
    fn refuse_closed(&self, place: &Place) -> Result<(), Stop> {
        self.refuse_guarded(place)?;
        if !self.shield.is_empty() {
            let full = canonical(self.proc.as_fd(), place)?;
            if self.shield.protects(&full) || self.shield.hides(&full, self.shield.identity(place)) {
                return Err(Stop::Refused(full));
            }
        }
        Ok(())
    }

    /// The socket of another server must not come to bear a name that may be connected to; nor a directory that
    /// may hold one.
    fn refuse_socket(&self, from: &Place, to: &Place) -> Result<(), Stop> {
        let stat = rustix::fs::statat(&from.parent, &from.name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode));
        self.refuse_listed_name(kind, to)
    }

    fn refuse_socket_object(&self, object: BorrowedFd<'_>, to: &Place) -> Result<(), Stop> {
        self.refuse_listed_name(FileType::from_raw_mode(rustix::fs::fstat(object)?.st_mode), to)
    }

    fn refuse_listed_name(&self, kind: FileType, to: &Place) -> Result<(), Stop> {
        let Sockets::Listed(listed) = &self.sockets else { return Ok(()) };
        if listed.is_empty() {
            return Ok(());
        }
        let target = canonical(self.proc.as_fd(), to)?;
        let becomes_listed = |listed: &PathBuf| match kind {
            FileType::Socket => target.starts_with(listed),
            FileType::Directory => target.starts_with(listed) || listed.starts_with(&target),
            _ => false,
        };
        match listed.iter().any(becomes_listed) {
            true => Err(Stop::Refused(target)),
            false => Ok(()),
        }
    }

    fn refuse_moving(&self, from: &Place, to: &Place) -> Result<(), Stop> {
        if self.shield.is_empty() {
            return Ok(());
        }
        let proc = self.proc.as_fd();
        let (source, target) = (canonical(proc, from)?, canonical(proc, to)?);
        if self.shield.forbids_move(from, &source, &target)? {
            return Err(Stop::Refused(target));
        }
        Ok(())
    }

    fn refuse_guarded(&self, place: &Place) -> Result<(), Stop> {
        let full = canonical(self.proc.as_fd(), place)?;
        if self.guarded.iter().any(|guarded| full.starts_with(guarded)) {
            return Err(Stop::Refused(full));
        }
        Ok(())
    }

    /// A directory or link that comes to lie above a guarded name could bring that name with it.
    fn refuse_ancestors(&self, place: &Place) -> Result<(), Stop> {
        let full = canonical(self.proc.as_fd(), place)?;
        if self.guarded.iter().any(|guarded| guarded.starts_with(&full)) {
            return Err(Stop::Refused(full));
        }
        Ok(())
    }
}

/// The path of a unix socket address, if it has one (not abstract, not unnamed).
fn pathname(address: &[u8]) -> Option<&[u8]> {
    let (family, path) = address.split_first_chunk()?;
    if u16::from_ne_bytes(*family) != libc::AF_UNIX as u16 {
        return None;
    }
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    path.get(..end).filter(|path| !path.is_empty())
}

fn unix_address(path: &[u8]) -> Result<Vec<u8>, Errno> {
    if path.len() > 107 {
        return Err(Errno::NAMETOOLONG);
    }
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend(path);
    address.push(0);
    Ok(address)
}

fn answer(control: &Channel, reply: &Reply) {
    let descriptors: Vec<_> = reply.descriptor.iter().chain(&reply.sockets).map(OwnedFd::as_fd).collect();
    let _ = control.send(&reply.encode(), &descriptors);
}

/// Answers for a helper that ended without having done so.
pub fn answer_for_lost(control: &Channel, id: u64) {
    answer(control, &Reply { id, errno: libc::EINTR, refused: None, descriptor: None, sockets: Vec::new() });
}

/// In a child of init: waits as long as it takes.
fn until_uninterrupted<T>(mut act: impl FnMut() -> Result<T, Stop>) -> Result<T, Stop> {
    loop {
        match act() {
            Err(Stop::Errno(Errno::INTR)) => {}
            other => return other,
        }
    }
}

/// Lets a child of init do what may take long.
fn delegate(
    control: &Channel,
    request: &Request,
    helpers: &mut Helpers,
    act: impl FnOnce() -> Result<Option<OwnedFd>, Stop>,
) -> Result<Option<OwnedFd>, Stop> {
    if helpers.len() >= MAX_HELPERS {
        // The oldest has waited longest, most likely for an asker that is gone.
        if let Some((pid, _)) = helpers.first() {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
        return Err(Errno::AGAIN.into());
    }
    match sys::clone_process(0)? {
        Cloned::Parent { pid, .. } => {
            helpers.push((pid, request.id));
            Err(Stop::Delegated)
        }
        Cloned::Child => {
            let mut reply =
                Reply { id: request.id, errno: 0, refused: None, descriptor: None, sockets: Vec::new() };
            match act() {
                Ok(descriptor) => reply.descriptor = descriptor,
                Err(Stop::Errno(errno)) => reply.errno = errno.raw_os_error(),
                Err(Stop::Refused(path)) => {
                    reply.errno = libc::EACCES;
                    reply.refused = Some(path);
                }
                Err(Stop::MayBlock | Stop::WaitFor(..) | Stop::InProgress(_) | Stop::Delegated) => {
                    reply.errno = libc::EACCES;
                }
            }
            answer(control, &reply);
            sys::exit_now(0)
        }
    }
}
