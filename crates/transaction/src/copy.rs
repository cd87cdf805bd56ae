//! Reading and copying file contents: holes stay holes, whatever size they claim, and nothing but a regular
//! file is ever opened.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::change::{Kind, kind_of};
use crate::place;

/// The unit of reading; a file that fits is copied with one read and one write.
pub const BUFFER: usize = 128 * 1024;
/// The longest value the kernel stores for an extended attribute (XATTR_SIZE_MAX).
const ATTRIBUTE: usize = 64 * 1024;

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens a regular file of which `lstat` said that it is one. Fails with `EINVAL` if it is not after all.
pub fn open_regular<P: rustix::path::Arg + Copy>(
    directory: BorrowedFd<'_>,
    name: P,
) -> Result<(OwnedFd, Stat), Errno> {
    let file = retry_on_intr(|| rustix::fs::openat(directory, name, READ, Mode::empty()));
    let file = file?;
    let stat = rustix::fs::fstat(&file)?;
    if kind_of(&stat) == Kind::File { Ok((file, stat)) } else { Err(Errno::INVAL) }
}

/// As [`open_regular`], for a file of ours whose permissions shut us out: they are
/// widened for the moment of opening it.
pub fn open_own<P: rustix::path::Arg + Copy>(
    directory: BorrowedFd<'_>,
    name: P,
) -> Result<(OwnedFd, Stat), Errno> {
    match open_regular(directory, name) {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&object)?;
    if kind_of(&stat) != Kind::File {
        return Err(Errno::INVAL);
    }
    place::set_mode(object.as_fd(), (stat.st_mode & 0o777) | 0o400)?;
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    place::set_mode(object.as_fd(), stat.st_mode & 0o7777)?;
    Ok((file?, stat))
}

fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match retry_on_intr(|| rustix::io::pread(file, &mut *rest, offset + filled as u64))? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

fn write_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::pwrite(file, bytes, offset))? {
            0 => return Err(Errno::IO),
            n => {
                bytes = bytes.get(n..).unwrap_or_default();
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Where data begins at or after an offset; `None` when only a hole follows.
fn next_data(file: BorrowedFd<'_>, offset: u64) -> Result<Option<u64>, Errno> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        // A filesystem without knowledge of holes: everything is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(errno) => Err(errno),
    }
}

fn data_end(file: BorrowedFd<'_>, offset: u64, size: u64) -> Result<u64, Errno> {
    match rustix::fs::seek(file, SeekFrom::Hole(offset)) {
        Ok(at) => Ok(at.min(size)),
        Err(Errno::NXIO) => Ok(offset),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(size),
        Err(errno) => Err(errno),
    }
}

/// Whether two files of the same size say the same.
pub fn same_content(one: BorrowedFd<'_>, other: BorrowedFd<'_>, size: u64) -> Result<bool, Errno> {
    let length = usize::try_from(size).unwrap_or(BUFFER).min(BUFFER);
    let (mut left, mut right) = (vec![0; length], vec![0; length]);
    let mut at = 0;
    while at < size {
        if size > BUFFER as u64 {
            // Where both have a hole there is nothing to compare.
            at = match (next_data(one, at)?, next_data(other, at)?) {
                (None, None) => return Ok(true),
                (Some(at), None) | (None, Some(at)) => at,
                (Some(a), Some(b)) => a.min(b),
            };
        }
        let n = read_at(one, &mut left, at)?;
        let m = read_at(other, &mut right, at)?;
        if n != m || left.get(..n) != right.get(..m) {
            return Ok(false);
        }
        if n == 0 {
            break;
        }
        at += n as u64;
    }
    Ok(true)
}

/// Copies all data of a file into an empty one; holes are left out.
pub fn copy_content(
    from: BorrowedFd<'_>,
    stat: &Stat,
    to: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(), Errno> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let dense = (stat.st_blocks as u64).saturating_mul(512) >= size;
    if dense && size <= buffer.len() as u64 {
        let n = read_at(from, buffer.get_mut(..usize::try_from(size).unwrap_or(0)).unwrap_or_default(), 0)?;
        return write_at(to, buffer.get(..n).unwrap_or_default(), 0);
    }
    retry_on_intr(|| rustix::fs::ftruncate(to, size))?;
    let mut at = 0;
    while at < size {
        let Some(start) = next_data(from, at)? else { break };
        let end = data_end(from, start, size)?;
        at = start;
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = read_at(from, buffer.get_mut(..length).unwrap_or_default(), at)?;
            if n == 0 {
                return Ok(());
            }
            write_at(to, buffer.get(..n).unwrap_or_default(), at)?;
            at += n as u64;
        }
        at = end.max(start + 1);
    }
    Ok(())
}

/// What a copy gets besides its content.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    pub mode: u32,
    /// Who it belongs to, where we may say.
    pub owner: Option<(u32, u32)>,
}

/// Gives a copy the user attributes and the time of its original, its owner and, last, its permissions:
/// whoever may not read it does not own it earlier.
pub fn finish(
    from: BorrowedFd<'_>,
    stat: &Stat,
    to: BorrowedFd<'_>,
    attributes: Attributes,
) -> Result<(), Errno> {
    copy_user_attributes(from, to)?;
    if let Some((uid, gid)) = attributes.owner {
        rustix::fs::fchown(to, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(attributes.mode))?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ },
    };
    rustix::fs::futimens(to, &times)
}

fn copy_user_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut few = [0_u8; 512];
    let list = match rustix::fs::flistxattr(from, &mut few[..]) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(()),
        Ok(n) => few.get(..n).unwrap_or_default().to_vec(),
        Err(Errno::RANGE) => {
            let mut many = vec![0; ATTRIBUTE];
            let n = rustix::fs::flistxattr(from, &mut many[..])?;
            many.truncate(n);
            many
        }
        Err(errno) => return Err(errno),
    };
    let mut value = Vec::new();
    for name in list.split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") || name.starts_with(b"user.overlay.") {
            continue;
        }
        value.resize(ATTRIBUTE, 0);
        let n = match rustix::fs::fgetxattr(from, name, &mut value[..]) {
            Ok(n) => n,
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno),
        };
        match rustix::fs::fsetxattr(to, name, value.get(..n).unwrap_or_default(), XattrFlags::empty()) {
            // A host that stores no such attributes, or not as many, keeps the file without them.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
