//! What a path leads to, judged once and then held: a place with a name, or one of the kernel's own links to an
//! object that somebody has open.

use std::{
    ffi::OsString,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
};

use super::{Broker, Purpose, Stop};
use crate::linux::{
    errand::Request,
    walk::{Place, Resolved, Way, canonical, resolve},
};

/// What the kernel adds to the name of what has none any more.
const GONE: &[u8] = b" (deleted)";

/// Where a path led.
pub enum Target {
    Place(Place),
    /// Opened without any right but to be looked at.
    Object(OwnedFd),
}

impl Broker {
    /// Resolves a path as the kernel would for the process that asked, link by link. Every link on the way is
    /// judged by its own name, too.
    pub(super) fn find(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        path: &[u8],
        follow_last: bool,
        purpose: Purpose,
    ) -> Result<Target, Stop> {
        let mut followed = Vec::new();
        let private: Vec<u32> = self.helping.borrow().iter().copied().chain([std::process::id()]).collect();
        let way = Way {
            proc: self.proc.as_fd(),
            private: &private,
            followed: (!self.shield.is_empty()).then_some(&mut followed),
        };
        let resolved = resolve(request.caller(), base, path, follow_last, way)?;
        for link in followed {
            if self.shield.hides_name(&link) || (purpose == Purpose::Change && self.shield.protects(&link)) {
                return Err(Stop::Refused(link));
            }
        }
        match resolved {
            Resolved::Place(place) => Ok(Target::Place(place)),
            Resolved::Magic(path) => {
                // Once: whatever the number means the next moment, this is what is judged and used.
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let object = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
                self.judge_object(object.as_fd(), purpose)?;
                Ok(Target::Object(object))
            }
        }
    }

    /// A handle on something, got before it was guarded or in some other way.
    fn judge_object(&self, object: BorrowedFd<'_>, purpose: Purpose) -> Result<(), Stop> {
        let name = rustix::fs::readlinkat(&self.proc, in_proc(object), Vec::new())?;
        let mut name = name.into_bytes();
        // What was replaced meanwhile keeps its name, and is what it was.
        if let Some(length) = name.len().checked_sub(GONE.len())
            && name.ends_with(GONE)
        {
            name.truncate(length);
        }
        let name = PathBuf::from(OsString::from_vec(name));
        let closed = self.guarded.iter().any(|guarded| name.starts_with(guarded))
            || self.shield.hides(&name, self.shield.identity_of(object))
            || (purpose == Purpose::Change && self.shield.protects(&name));
        if closed { Err(Stop::Refused(name)) } else { Ok(()) }
    }

    /// The very object, with these flags.
    pub(super) fn reopen(&self, object: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.proc, in_proc(object), flags, Mode::empty())
    }

    pub(super) fn open_object(&self, object: OwnedFd, flags: OFlags) -> Result<Option<OwnedFd>, Stop> {
        let fifo = rustix::fs::fstat(&object)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        if fifo && !flags.contains(OFlags::NONBLOCK) {
            return Err(Stop::WaitFor(object, flags));
        }
        match self.reopen(object.as_fd(), flags) {
            Err(Errno::INTR) => Err(Stop::WaitFor(object, flags)),
            other => Ok(Some(other?)),
        }
    }

    pub(super) fn link(
        &self,
        request: &Request,
        base: Option<BorrowedFd<'_>>,
        second: Option<BorrowedFd<'_>>,
    ) -> Result<Option<OwnedFd>, Stop> {
        let to = self.unguarded_name(request, second, &request.other)?;
        let by_object = |object: BorrowedFd<'_>| {
            rustix::fs::linkat(&self.proc, in_proc(object), &to.parent, &to.name, AtFlags::SYMLINK_FOLLOW)
        };
        if request.flags & libc::AT_EMPTY_PATH as u32 != 0 && request.path.is_empty() {
            let base = base.ok_or(Errno::BADF)?;
            // O_TMPFILE gets its first name. What has one already is judged by it.
            if rustix::fs::fstat(base)?.st_nlink != 0 {
                self.judge_object(base, Purpose::Change)?;
            }
            self.refuse_socket_object(base, &to)?;
            by_object(base)?;
            return Ok(None);
        }
        let follow = request.flags & libc::AT_SYMLINK_FOLLOW as u32 != 0;
        match self.find(request, base, &request.path, follow, Purpose::Change)? {
            Target::Object(object) => {
                self.refuse_socket_object(object.as_fd(), &to)?;
                by_object(object.as_fd())?;
            }
            Target::Place(from) => {
                self.refuse_closed(&from)?;
                self.refuse_socket(&from, &to)?;
                let stat = rustix::fs::statat(&from.parent, &from.name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    // Another name for a link is as good as a link.
                    self.refuse_ancestors(&to)?;
                    let full = canonical(self.proc.as_fd(), &to)?;
                    if self.shield.forbids_link(&full) {
                        return Err(Stop::Refused(full));
                    }
                }
                rustix::fs::linkat(&from.parent, &from.name, &to.parent, &to.name, AtFlags::empty())?;
            }
        }
        Ok(None)
    }
}

/// The name of a descriptor of ours in a procfs.
fn in_proc(object: BorrowedFd<'_>) -> String {
    format!("self/fd/{}", object.as_raw_fd())
}
