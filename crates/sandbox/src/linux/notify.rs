//! System calls that wait for the supervisor's word: what was called, by whom, and the ways to answer.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    process::PidfdFlags,
};

use super::{
    sys,
    syscalls::{self, NATIVE_ARCH, X32_BIT},
};

/// The supervisor's end of a filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    pub id: u64,
    /// The thread, as numbered on the host.
    pub pid: i32,
    pub arch: u32,
    pub number: u32,
    pub args: [u64; 6],
}

impl Notification {
    /// The call's name; foreign calls have none that could be trusted.
    pub fn name(&self) -> String {
        if self.arch != NATIVE_ARCH {
            return format!("foreign-architecture call {}", self.number);
        }
        if self.number & X32_BIT != 0 {
            return format!("x32 call {}", self.number & !X32_BIT);
        }
        syscalls::name(self.number).map_or_else(|| format!("call {}", self.number), str::to_owned)
    }

    pub fn is_native(&self) -> bool {
        self.arch == NATIVE_ARCH && self.number & X32_BIT == 0
    }
}

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        sys::notify_on_one_processor(descriptor.as_fd());
        Listener(descriptor)
    }

    /// Takes a waiting call; `None` when it gave up meanwhile.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        match sys::notify_receive(self.0.as_fd()) {
            Ok(raw) => Ok(Some(Notification {
                id: raw.id,
                pid: raw.pid as i32,
                arch: raw.data.arch,
                number: raw.data.nr as u32,
                args: raw.data.args,
            })),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Is the call still waiting? Only then is what was read of its process really of that process.
    pub fn is_waiting(&self, id: u64) -> bool {
        sys::notify_id_valid(self.0.as_fd(), id)
    }

    /// The call fails.
    pub fn deny(&self, id: u64, errno: i32) {
        self.answer(id, 0, -errno, 0);
    }

    /// The call is taken as done, with this result.
    pub fn done(&self, id: u64, value: i64) {
        self.answer(id, value, 0, 0);
    }

    /// The kernel carries the call out. Safe only where the decision does not hang on memory that the
    /// process can change: the kernel reads that memory again.
    pub fn proceed(&self, id: u64) {
        self.answer(id, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// The call returns a copy of this descriptor.
    pub fn done_with_descriptor(&self, id: u64, descriptor: BorrowedFd<'_>, close_on_exec: bool) {
        if sys::notify_add_descriptor_and_send(self.0.as_fd(), id, descriptor, close_on_exec).is_err() {
            self.deny(id, libc::EMFILE);
        }
    }

    fn answer(&self, id: u64, val: i64, error: i32, flags: u32) {
        // Fails only when the process is gone, and then nobody waits for the answer.
        let _ = sys::notify_send(self.0.as_fd(), &libc::seccomp_notif_resp { id, val, error, flags });
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The process behind a notification, looked at from outside. What is read here counts only while the
/// notification is still waiting.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pid: i32,
}

impl Task {
    pub fn of(notification: &Notification) -> Task {
        Task { pid: notification.pid }
    }

    /// The name the process gave itself: data, not to be trusted.
    pub fn name(&self) -> String {
        std::fs::read(format!("/proc/{}/comm", self.pid))
            .map(|name| String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
            .unwrap_or_default()
    }

    /// Bytes at an address, as many as can be read.
    pub fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; length];
        let read = sys::read_process_memory(self.pid, address, &mut buffer)?;
        buffer.truncate(read);
        Ok(buffer)
    }

    /// A NUL-terminated string, at most PATH_MAX long.
    pub fn string(&self, address: u64) -> io::Result<Vec<u8>> {
        const PAGE: u64 = 4096;
        let mut string = Vec::new();
        let mut at = address;
        while string.len() < libc::PATH_MAX as usize {
            // Page by page: the next page may not be there.
            let chunk = self.bytes(at, (PAGE - at % PAGE) as usize)?;
            if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
                string.extend(chunk.get(..end).unwrap_or_default());
                return Ok(string);
            }
            if chunk.is_empty() {
                break;
            }
            at += chunk.len() as u64;
            string.extend(chunk);
        }
        Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
    }

    /// The directory that a relative path starts from: `dirfd`, or the working directory for AT_FDCWD.
    pub fn directory(&self, dirfd: i32) -> io::Result<OwnedFd> {
        let path = if dirfd == libc::AT_FDCWD {
            format!("/proc/{}/cwd", self.pid)
        } else {
            format!("/proc/{}/fd/{dirfd}", self.pid)
        };
        rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
            let not_open = errno == rustix::io::Errno::NOENT && dirfd != libc::AT_FDCWD;
            if not_open { io::Error::from_raw_os_error(libc::EBADF) } else { errno.into() }
        })
    }

    /// Its root directory.
    pub fn root(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/{}/root", self.pid);
        Ok(rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// A copy of one of its descriptors.
    pub fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        // The number is whatever the process passed; the wrapper below asserts that it is a descriptor.
        if number < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let pidfd = match open_task(self.pid, PidfdFlags::empty()) {
            // Not the first thread of its process. Such a thread can be opened since Linux 6.9.
            Err(Errno::INVAL | Errno::NOENT) => {
                match open_task(self.pid, PidfdFlags::from_bits_retain(PIDFD_THREAD)) {
                    Err(Errno::INVAL) => open_task(self.numbers()?.host_process, PidfdFlags::empty())?,
                    other => other?,
                }
            }
            other => other?,
        };
        Ok(rustix::process::pidfd_getfd(&pidfd, number, rustix::process::PidfdGetfdFlags::empty())?)
    }

    /// The absolute path of the working directory or descriptor, as the process sees it.
    pub fn path_of(&self, dirfd: i32) -> io::Result<std::path::PathBuf> {
        let path = if dirfd == libc::AT_FDCWD {
            format!("/proc/{}/cwd", self.pid)
        } else {
            format!("/proc/{}/fd/{dirfd}", self.pid)
        };
        std::fs::read_link(path)
    }

    pub fn numbers(&self) -> io::Result<TaskNumbers> {
        // The name in it is whatever the process says, and need not be text. In one go: the kernel writes all
        // of it anew for every piece that is read.
        let path = format!("/proc/{}/status", self.pid);
        let file = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut status = [0; 4096];
        let length = rustix::io::read(&file, &mut status)?;
        let status = String::from_utf8_lossy(status.get(..length).unwrap_or_default());
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let last = |name: &str| field(name)?.split_whitespace().last()?.parse().ok();
        let parse = || {
            Some(TaskNumbers {
                host_process: field("Tgid")?.parse().ok()?,
                process: last("NStgid")?,
                thread: last("NSpid")?,
                umask: u32::from_str_radix(field("Umask")?, 8).ok()?,
            })
        };
        parse().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }
}

const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

fn open_task(pid: i32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, flags)
}

/// Numbers of a task, outside and inside.
#[derive(Debug, Clone, Copy)]
pub struct TaskNumbers {
    pub host_process: i32,
    pub process: u32,
    pub thread: u32,
    pub umask: u32,
}
