//! The system calls that have no safe wrapper: one call per function, owned descriptors in and out, and
//! the only `unsafe` of the project. Decisions live elsewhere.
#![expect(unsafe_code, reason = "this file is the project's one door to raw system calls")]

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_int, c_long},
    io, mem,
    net::Ipv6Addr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

/// Who returned from a clone.
pub enum Cloned {
    Parent { pid: i32, pidfd: OwnedFd },
    Child,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `clone3` in the manner of `fork`: the child gets a copy of the memory.
///
/// The child of a multi-threaded process must not take locks that another thread may hold; the launcher is
/// single-threaded until here.
pub fn clone_process(flags: u64) -> io::Result<Cloned> {
    clone(flags, None)
}

/// As [`clone_process`]; the child is in this control group (version 2) from its first moment on.
pub fn clone_into_group(flags: u64, group: BorrowedFd<'_>) -> io::Result<Cloned> {
    clone(flags, Some(group))
}

/// Since Linux 5.7; not every C library has it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn clone(flags: u64, group: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain data for which all-zero is valid.
    let mut args: libc::clone_args = unsafe { mem::zeroed() };
    args.flags = flags | libc::CLONE_PIDFD as u64;
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: args points to a live clone_args of the size given; without CLONE_VM the child runs on its own
    // copy of this stack, so returning twice is sound; pidfd outlives the call.
    let mut made = check(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, mem::size_of_val(&args)) });
    if made.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOSYS)) && group.is_none() {
        // Container engines pretend that it does not exist, since a filter cannot look into its arguments.
        made = old_clone(args.flags, &mut pidfd);
    }
    let pid = made?;
    if pid == 0 {
        return Ok(Cloned::Child);
    }
    // SAFETY: the kernel stored a fresh descriptor that nothing else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned::Parent { pid: pid as i32, pidfd })
}

fn old_clone(flags: u64, pidfd: &mut RawFd) -> io::Result<c_long> {
    let flags = flags | libc::SIGCHLD as u64;
    let pidfd = ptr::from_mut(pidfd);
    // SAFETY: without CLONE_VM and with no stack given the child runs on its own copy of this one; CLONE_PIDFD
    // stores into `pidfd`, which outlives the call. The order of the last two arguments differs between
    // architectures, and both are null.
    check(unsafe { libc::syscall(libc::SYS_clone, flags, ptr::null_mut::<u8>(), pidfd, 0usize, 0usize) })
}

/// Moves this process into new namespaces.
pub fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number only.
    check(c_long::from(unsafe { libc::unshare(flags) }))?;
    Ok(())
}

/// `_exit`: no destructors, no buffers of the parent flushed twice.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: never returns and touches no memory.
    unsafe { libc::_exit(code) }
}

/// `execve`; returns only on failure.
pub fn execve(program: &CStr, argv: &[CString], envp: &[CString]) -> io::Error {
    let argv: Vec<_> = argv.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
    let envp: Vec<_> = envp.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
    // SAFETY: both arrays are null-terminated and point to live C strings.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Mount attributes to set and clear; see mount_setattr(2).
#[derive(Debug, Clone, Copy, Default)]
pub struct MountAttributes<'fd> {
    pub set: u64,
    pub recursive: bool,
    pub make_private: bool,
    /// Ownership on disk is shown through the mapping of this user namespace.
    pub idmap: Option<BorrowedFd<'fd>>,
}

/// `mount_setattr` on the mount that a descriptor refers to.
pub fn mount_setattr(mount: BorrowedFd<'_>, attributes: MountAttributes<'_>) -> io::Result<()> {
    // SAFETY: mount_attr is plain data for which all-zero is valid.
    let mut attr: libc::mount_attr = unsafe { mem::zeroed() };
    attr.attr_set = attributes.set;
    if attributes.make_private {
        attr.propagation = libc::MS_PRIVATE;
    }
    if let Some(namespace) = attributes.idmap {
        attr.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attr.userns_fd = namespace.as_raw_fd() as u64;
    }
    let mut flags = libc::AT_EMPTY_PATH;
    if attributes.recursive {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: the path is a static C string, attr is live and its size is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            mem::size_of_val(&attr),
        )
    })?;
    Ok(())
}

/// Marks every descriptor from `first` on close-on-exec.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: takes numbers only; flags descriptors, closes none now.
    check(unsafe {
        libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as c_int)
    })?;
    Ok(())
}

/// Closes every descriptor in the range, at once.
///
/// The caller must own nothing in that range any more (a forked child that is about to go its own way).
pub fn close_descriptors(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: takes numbers only; the caller owns no descriptor in the range, see above.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    Ok(())
}

/// Installs a seccomp filter; with a listener when `listen` says so.
pub fn install_filter(program: &[libc::sock_filter], listen: Listen) -> io::Result<Option<OwnedFd>> {
    let prog = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let flags = match listen {
        Listen::No => 0,
        Listen::Yes => libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
        // Since Linux 5.19: a signal does not make a notified call restart half-way.
        Listen::YesUnlessKilled => libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | (1 << 5),
    };
    // SAFETY: prog points to a live array whose length is given; the kernel copies it.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const prog)
    })?;
    // SAFETY: with NEW_LISTENER the result is a fresh descriptor.
    Ok((!matches!(listen, Listen::No)).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    No,
    Yes,
    YesUnlessKilled,
}

/// Waits for nothing: takes one notification off the listener.
pub fn notify_receive(listener: BorrowedFd<'_>) -> io::Result<libc::seccomp_notif> {
    // SAFETY: seccomp_notif is plain data; the kernel demands that it be zeroed.
    let mut notification: libc::seccomp_notif = unsafe { mem::zeroed() };
    // SAFETY: the ioctl writes one seccomp_notif into live memory.
    check(c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification)
    }))?;
    Ok(notification)
}

/// Answers a notification.
pub fn notify_send(listener: BorrowedFd<'_>, response: &libc::seccomp_notif_resp) -> io::Result<()> {
    // SAFETY: the ioctl reads one seccomp_notif_resp from live memory.
    check(c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, ptr::from_ref(response))
    }))?;
    Ok(())
}

/// Caller and supervisor take turns, so the kernel need not wake another processor (since Linux 6.6; before,
/// it only takes longer).
pub fn notify_on_one_processor(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the ioctl takes a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// Is the notification still waiting (its process alive and not interrupted)?
pub fn notify_id_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the ioctl reads one u64.
    unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Puts a descriptor into the process that waits, and makes it the result of its call.
pub fn notify_add_descriptor_and_send(
    listener: BorrowedFd<'_>,
    id: u64,
    descriptor: BorrowedFd<'_>,
    close_on_exec: bool,
) -> io::Result<()> {
    // SAFETY: seccomp_notif_addfd is plain data.
    let mut add: libc::seccomp_notif_addfd = unsafe { mem::zeroed() };
    add.id = id;
    add.flags = libc::SECCOMP_ADDFD_FLAG_SEND as u32;
    add.srcfd = descriptor.as_raw_fd() as u32;
    add.newfd_flags = if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 };
    // SAFETY: the ioctl reads one seccomp_notif_addfd from live memory.
    check(c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &raw const add)
    }))?;
    Ok(())
}

// _IOWR('!', 0, struct seccomp_notif) and friends; libc has no constants for them on musl. The request type
// differs between C libraries, hence the casts.
const SECCOMP_IOCTL_NOTIF_RECV: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const SECCOMP_IOCTL_NOTIF_SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
const SECCOMP_IOCTL_NOTIF_ID_VALID: libc::Ioctl = 0x4008_2102_u32 as libc::Ioctl;
const SECCOMP_IOCTL_NOTIF_SET_FLAGS: libc::Ioctl = 0x4008_2104_u32 as libc::Ioctl;
const SECCOMP_IOCTL_NOTIF_ADDFD: libc::Ioctl = 0x4018_2103_u32 as libc::Ioctl;

/// Reads memory of another process; returns how many bytes could be read.
pub fn read_process_memory(pid: i32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: local describes live, writable memory; remote is only interpreted in the other process.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    check(read as c_long).map(|n| n as usize)
}

/// Blocks every signal and returns a descriptor that reports them.
pub fn signals_as_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: set is an initialised signal set.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    // SAFETY: set is an initialised signal set; -1 asks for a new descriptor.
    let fd = check(c_long::from(unsafe {
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    }))?;
    // SAFETY: a fresh descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Keeps every signal away from the calling thread, so that they go to the one that handles them.
pub fn block_signals() {
    // SAFETY: sigset_t is plain data, filled before use.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: set is live.
    unsafe { libc::sigfillset(&raw mut set) };
    // SAFETY: set is an initialised signal set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
}

/// One signal read from [`signals_as_descriptor`].
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    pub number: i32,
    pub sender_pid: u32,
    pub sender_uid: u32,
}

/// Reads one pending signal, if there is one.
pub fn read_signal(signals: BorrowedFd<'_>) -> Option<Signal> {
    // SAFETY: signalfd_siginfo is plain data.
    let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&info);
    // SAFETY: reads at most `size` bytes into live memory.
    let read = unsafe { libc::read(signals.as_raw_fd(), (&raw mut info).cast(), size) };
    (read == size as isize).then_some(Signal {
        number: info.ssi_signo as i32,
        sender_pid: info.ssi_pid,
        sender_uid: info.ssi_uid,
    })
}

/// A file size limit of the caller's makes writing fail instead of ending this process.
pub fn ignore_file_size_signal() {
    // SAFETY: sigaction is plain data; to ignore involves no handler code.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = libc::SIG_IGN;
    // SAFETY: action is initialised.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) };
}

/// Gives a new program the signal state that a shell would: nothing blocked, everything default.
pub fn reset_signals() {
    // SAFETY: sigaction and sigset_t are plain data.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    // SIGPIPE is ignored by the Rust run-time, SIGXFSZ by us; others were only ever blocked.
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: installs the default action, no handler code involved.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    let empty = signal_set(&[]);
    // SAFETY: empty is an initialised signal set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut()) };
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, initialised by sigemptyset before use.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: set is live.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: set is initialised; an invalid number only makes the call fail.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

extern "C" fn woken(_: c_int) {}

/// From now until [`stop_interrupting`] every blocking call of this thread returns EINTR after a moment.
pub fn interrupt_blocking_calls() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if !INSTALLED.swap(true, Ordering::Relaxed) {
        // SAFETY: sigaction is plain data; the handler does nothing at all, so it is safe at any moment.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = woken as *const () as usize;
        // SAFETY: action is initialised; no SA_RESTART, so calls do return.
        unsafe { libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) };
    }
    set_interval(20_000);
}

pub fn stop_interrupting() {
    set_interval(0);
}

/// A timer whose signal is for one thread only: others of the same program have their own.
struct Interrupter(c_int);

thread_local! {
    static INTERRUPTER: RefCell<Option<Interrupter>> = const { RefCell::new(None) };
}

impl Interrupter {
    fn for_this_thread() -> io::Result<Interrupter> {
        // SAFETY: sigevent is plain data.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut number: c_int = 0;
        // SAFETY: event and number are live; the kernel's number of a timer is an int.
        check(unsafe {
            libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut number)
        })?;
        let alarm = signal_set(&[libc::SIGALRM]);
        // SAFETY: alarm is an initialised signal set.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, ptr::null_mut()) };
        Ok(Interrupter(number))
    }

    /// Fails in a process that was split off: timers stay with the one that made them.
    fn set(&self, microseconds: u16) -> io::Result<()> {
        let moment = libc::timespec { tv_sec: 0, tv_nsec: i64::from(microseconds) * 1000 };
        let times = libc::itimerspec { it_interval: moment, it_value: moment };
        // SAFETY: times is live plain data; the old value is not asked for.
        check(unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                self.0,
                0,
                &raw const times,
                ptr::null_mut::<libc::itimerspec>(),
            )
        })?;
        Ok(())
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: takes a number; one that is not this process's own is refused.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

fn set_interval(microseconds: u16) {
    let set = INTERRUPTER.try_with(|interrupter| -> io::Result<()> {
        let mut interrupter = interrupter.try_borrow_mut().map_err(io::Error::other)?;
        if let Some(known) = interrupter.take() {
            if known.set(microseconds).is_ok() {
                *interrupter = Some(known);
                return Ok(());
            }
            // Of the process that this one was split off from: here its number may be another's.
            mem::forget(known);
        }
        interrupter.insert(Interrupter::for_this_thread()?).set(microseconds)
    });
    if matches!(set, Ok(Ok(()))) {
        return;
    }
    // No timer of its own can be had: one for whichever thread it meets.
    let moment = libc::timeval { tv_sec: 0, tv_usec: microseconds.into() };
    let timer = libc::itimerval { it_interval: moment, it_value: moment };
    // SAFETY: timer is live plain data.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// Gives back the memory of this program's own code; what is needed again comes back from the file. A process
/// that waits has used most of its code for the last time, and the kernel maps sixteen pages for each it needs.
pub fn give_back_code() {
    unsafe extern "C" {
        static __executable_start: u8;
        static etext: u8;
    }
    const PAGE: usize = 4096;
    let (start, end) = (&raw const __executable_start as usize, &raw const etext as usize);
    let (start, end) = (start & !(PAGE - 1), end & !(PAGE - 1));
    if start < end {
        // SAFETY: by the linker's own words everything between is headers and code: mapped from the file, read-only
        // and never changed, so that a page that is dropped is the same when it is read again.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// Sends a signal; a negative pid means the process group.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(c_long::from(unsafe { libc::kill(pid, signal) }))?;
    Ok(())
}

/// What `wait4` says of an ended child.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub pid: i32,
    pub status: i32,
    pub cpu_ms: u64,
    pub max_rss_bytes: u64,
    /// From and to storage, by it and by those it has waited for.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// Reaps one ended child (`pid` or, with -1, any), without waiting unless `block` is set.
pub fn reap(pid: i32, block: Block) -> io::Result<Option<Ended>> {
    let mut status: c_int = 0;
    // SAFETY: rusage is plain data.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    let options = match block {
        Block::No => libc::WNOHANG | libc::__WALL,
        Block::Yes => libc::__WALL,
    };
    loop {
        // SAFETY: status and usage are live.
        let result = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        if result > 0 {
            // The kernel counts bytes and tells blocks of 512, whatever the filesystem's are.
            let bytes = |blocks: libc::c_long| u64::try_from(blocks).unwrap_or(0) * 512;
            let ms = |t: libc::timeval| (t.tv_sec as u64) * 1000 + (t.tv_usec as u64) / 1000;
            return Ok(Some(Ended {
                pid: result,
                status,
                cpu_ms: ms(usage.ru_utime) + ms(usage.ru_stime),
                max_rss_bytes: (usage.ru_maxrss as u64) * 1024,
                read_bytes: bytes(usage.ru_inblock),
                written_bytes: bytes(usage.ru_oublock),
            }));
        }
        if result == 0 {
            return Ok(None);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    No,
    Yes,
}

/// Lets a socket receive only what a classic BPF program keeps.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the option reads one sock_fprog, which points to a live array of the length given.
    check(c_long::from(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            mem::size_of_val(&program) as libc::socklen_t,
        )
    }))?;
    Ok(())
}

/// From now on what arrives on this IPv6 socket comes with the address it was sent to.
pub fn tell_destination_v6(socket: BorrowedFd<'_>) -> io::Result<()> {
    let yes: c_int = 1;
    // SAFETY: the option reads one int.
    check(c_long::from(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVPKTINFO,
            (&raw const yes).cast(),
            mem::size_of_val(&yes) as libc::socklen_t,
        )
    }))?;
    Ok(())
}

/// The number of the network namespace that a socket belongs to (since Linux 5.14).
pub fn network_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    const SO_NETNS_COOKIE: c_int = 71;
    let mut cookie: u64 = 0;
    let mut length = mem::size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the option writes one u64, and `length` says how much room there is.
    check(c_long::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    }))?;
    Ok(cookie)
}

/// A datagram as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    pub length: usize,
    /// Of an IPv6 socket; unspecified otherwise.
    pub source: Ipv6Addr,
    /// Of an IPv6 socket that was asked to tell it.
    pub destination: Option<Ipv6Addr>,
}

/// Takes one datagram without waiting.
pub fn receive_with_destination(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Arrived> {
    // SAFETY: sockaddr_in6 is plain data.
    let mut source: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    let mut control = [0_u64; 16];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut source).cast();
    message.msg_namelen = mem::size_of_val(&source) as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: every pointer in the message is to live memory of the length given beside it.
    let length =
        check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) } as c_long)?;
    let mut destination = None;
    // SAFETY: the kernel filled `control` and said how much of it is used; these walk within that.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so it points to a whole header inside `control`.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::IPPROTO_IPV6 && kind == libc::IPV6_PKTINFO {
            // SAFETY: a message of this kind carries one in6_pktinfo; it may lie unaligned.
            let info: libc::in6_pktinfo = unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
            destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(Arrived { length: length as usize, source: Ipv6Addr::from(source.sin6_addr.s6_addr), destination })
}

/// A `prctl` that takes numbers only.
pub fn prctl(option: c_int, argument: u64) -> io::Result<i32> {
    // SAFETY: every option used here takes plain numbers.
    check(c_long::from(unsafe { libc::prctl(option, argument, 0, 0, 0) })).map(|value| value as i32)
}

/// Unlocks the slave side of a pseudo-terminal and returns it.
pub fn open_pty_slave(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut unlock: c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int.
    check(c_long::from(unsafe {
        libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK as libc::Ioctl, &raw mut unlock)
    }))?;
    // SAFETY: TIOCGPTPEER takes open flags and returns a fresh descriptor.
    let fd = check(c_long::from(unsafe {
        libc::ioctl(
            master.as_raw_fd(),
            libc::TIOCGPTPEER as libc::Ioctl,
            libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC,
        )
    }))?;
    // SAFETY: a fresh descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Takes over a descriptor number that this process inherited by agreement.
pub fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: only called for numbers that the launcher placed there and that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A copy of a descriptor that this program was started with, by its number.
pub fn copy_of_inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number, open or not, and changes nothing but the table of descriptors.
    let copy = check(c_long::from(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) }))?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

/// Duplicates onto a fixed number, close-on-exec.
pub fn duplicate_to(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: dup3 takes numbers; whatever was open at `number` is replaced, which the caller intends.
    check(c_long::from(unsafe { libc::dup3(fd.as_raw_fd(), number, libc::O_CLOEXEC) }))?;
    Ok(())
}

/// Duplicates onto 0, 1 or 2, kept across exec.
pub fn duplicate_to_stdio(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes numbers; replacing standard descriptors is the purpose.
    check(c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), number) }))?;
    Ok(())
}

/// Connects a socket to a raw address as another process gave it.
pub fn connect_raw(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    // SAFETY: address is live memory of the length given; the kernel validates its content.
    check(c_long::from(unsafe {
        libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t)
    }))?;
    Ok(())
}

/// Binds a socket to a raw address as another process gave it.
pub fn bind_raw(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    // SAFETY: address is live memory of the length given; the kernel validates its content.
    check(c_long::from(unsafe {
        libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t)
    }))?;
    Ok(())
}

/// The Landlock ABI of the running kernel, 0 when it has none or it is switched off.
pub fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with the version flag the call takes no attribute and only answers a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::AsFd,
        time::{Duration, Instant},
    };

    use super::*;

    /// Waits in a call that nothing but a signal ends; how long.
    fn wait_for_nothing(pipe: BorrowedFd<'_>) -> Duration {
        let started = Instant::now();
        assert_eq!(rustix::io::read(pipe, &mut [0]), Err(rustix::io::Errno::INTR));
        started.elapsed()
    }

    #[test]
    fn each_thread_is_interrupted_by_itself_and_not_by_another() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let (read, _write) = rustix::pipe::pipe().unwrap();
                    for _ in 0..5 {
                        interrupt_blocking_calls();
                        assert!(wait_for_nothing(read.as_fd()) < Duration::from_secs(2));
                        // Nobody else's stop is this one's.
                        assert!(wait_for_nothing(read.as_fd()) < Duration::from_secs(2));
                        stop_interrupting();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_thread_that_did_not_ask_is_left_alone() {
        let bystander = std::thread::spawn(|| {
            let mut fds: [rustix::event::PollFd<'_>; 0] = [];
            let moment = rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            rustix::event::poll(&mut fds, Some(&moment))
        });
        interrupt_blocking_calls();
        let (read, _write) = rustix::pipe::pipe().unwrap();
        wait_for_nothing(read.as_fd());
        assert_eq!(bystander.join().unwrap(), Ok(0));
        stop_interrupting();
    }
}
