//! How files of the log are opened, locked and scanned: never following a link, never waiting for a FIFO.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::line::MAX_LINE;

const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a regular file; anything else is `Ok(None)`.
pub fn open(path: &Path, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let fd = retry_on_intr(|| rustix::fs::open(path, flags | ALWAYS, Mode::RUSR | Mode::WUSR))?;
    let regular = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::RegularFile;
    Ok(regular.then_some(fd))
}

/// Opens a regular file for reading only.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    match open(path, OFlags::RDONLY)? {
        Some(fd) => Ok(File::from(fd)),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Whether a name leads to this open file, or to nothing when there is none.
pub fn is_named(file: Option<&File>, path: &Path) -> io::Result<bool> {
    let named = match retry_on_intr(|| rustix::fs::lstat(path)) {
        Ok(named) => Some((named.st_dev, named.st_ino)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno.into()),
    };
    let own = file.map(rustix::fs::fstat).transpose()?.map(|own| (own.st_dev, own.st_ino));
    Ok(named == own)
}

/// Makes the directory a file will be in, and those above it, for the owner alone.
pub fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)
        }
        _ => Ok(()),
    }
}

/// An advisory lock on an open file, given back when dropped.
pub struct Lock<'a, F: AsFd>(&'a F);

impl<'a, F: AsFd> Lock<'a, F> {
    pub fn exclusive(file: &'a F) -> Result<Self, Errno> {
        retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockExclusive))?;
        Ok(Self(file))
    }

    pub fn shared(file: &'a F) -> Result<Self, Errno> {
        retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockShared))?;
        Ok(Self(file))
    }
}

impl<F: AsFd> Drop for Lock<'_, F> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; closing the file gives the lock back as well.
        let _ = retry_on_intr(|| rustix::fs::flock(self.0, FlockOperation::Unlock));
    }
}

/// Reads at `offset` until `buffer` is full or the file ends; says how much was read.
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match retry_on_intr(|| rustix::io::pread(&file, &mut *rest, offset + filled as u64))? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

/// What [`Lines::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A line; its newline is not part of the text.
    Line,
    /// A line longer than any this crate writes; its text is not kept.
    TooLong,
    /// Bytes at the end without a newline.
    Partial,
    /// Nothing more, for now.
    End,
}

/// How much is read at a time. Larger ones are no faster, and push more out of the processor's cache.
const BLOCK: usize = 256 * 1024;

/// Lines of a file, one at a time, in one buffer of bounded size.
pub struct Lines {
    file: File,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet given out.
    unread: std::ops::Range<usize>,
    text: std::ops::Range<usize>,
    /// Where in the file the next line begins, and where the unread part of the buffer ends.
    start: u64,
    end: u64,
    limit: u64,
}

impl Lines {
    /// Lines of the first `limit` bytes of a file.
    pub fn new(file: File, limit: u64) -> Self {
        Self { file, buffer: Vec::new(), unread: 0..0, text: 0..0, start: 0, end: 0, limit }
    }

    /// Goes to the line that begins at an offset.
    pub fn seek(&mut self, offset: u64) {
        (self.start, self.end, self.unread) = (offset, offset, 0..0);
    }

    /// Where the next line begins.
    pub fn offset(&self) -> u64 {
        self.start
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The line found last.
    pub fn text(&self) -> &[u8] {
        self.buffer.get(self.text.clone()).unwrap_or_default()
    }

    /// Moves to the next line. After [`Found::Partial`] the same bytes are read afresh next time.
    pub fn next(&mut self) -> io::Result<Found> {
        let mut searched = 0;
        // Bytes of this line that were dropped because it is too long anyway.
        let mut dropped = 0;
        loop {
            let unread = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let fresh = unread.get(searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', fresh) {
                let length = searched + at;
                self.text = self.unread.start..self.unread.start + length;
                self.unread.start += length + 1;
                self.start += dropped + length as u64 + 1;
                let whole = dropped == 0 && length < MAX_LINE;
                return Ok(if whole { Found::Line } else { Found::TooLong });
            }
            searched = unread.len();
            if searched >= MAX_LINE {
                dropped += searched as u64;
                searched = 0;
                self.unread.start = self.unread.end;
            }
            if self.read_more()? == 0 {
                let nothing = dropped == 0 && searched == 0;
                self.seek(self.start);
                return Ok(if nothing { Found::End } else { Found::Partial });
            }
        }
    }

    /// Adds to the unread part, after moving it to the front of the buffer.
    fn read_more(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer.resize(BLOCK, 0);
        }
        let kept = self.unread.len();
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..kept;
        let left = usize::try_from(self.limit.saturating_sub(self.end)).unwrap_or(usize::MAX);
        let room = self.buffer.get_mut(kept..).unwrap_or_default();
        let room = match room.get_mut(..left) {
            Some(room) => room,
            None => self.buffer.get_mut(kept..).unwrap_or_default(),
        };
        let n = retry_on_intr(|| rustix::io::pread(&self.file, &mut *room, self.end))?;
        self.unread.end += n;
        self.end += n as u64;
        Ok(n)
    }
}

/// Lines of a file from its end to its beginning. What comes after the last newline is left out.
pub struct Backwards {
    file: File,
    /// Read and not yet given out; it lies at `start` in the file.
    buffer: Vec<u8>,
    start: u64,
    text: Vec<u8>,
}

impl Backwards {
    /// Lines of the first `end` bytes of a file.
    pub fn new(file: File, end: u64) -> io::Result<Self> {
        let mut lines = Self { file, buffer: Vec::new(), start: end, text: Vec::new() };
        while memchr::memrchr(b'\n', &lines.buffer).is_none() && lines.read_more()? > 0 {}
        let whole = memchr::memrchr(b'\n', &lines.buffer).map_or(0, |at| at + 1);
        lines.buffer.truncate(whole);
        Ok(lines)
    }

    /// The line found last.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where the line found last begins.
    pub fn offset(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Moves to the line before. Never [`Found::Partial`].
    pub fn next(&mut self) -> io::Result<Found> {
        self.text.clear();
        if self.buffer.is_empty() && self.read_more()? == 0 {
            return Ok(Found::End);
        }
        // The newline of the line itself.
        self.buffer.pop();
        let mut long = false;
        loop {
            if let Some(at) = memchr::memrchr(b'\n', &self.buffer) {
                let line = self.buffer.split_off(at + 1);
                self.keep(&line, &mut long);
                break;
            }
            let line = std::mem::take(&mut self.buffer);
            self.keep(&line, &mut long);
            if self.read_more()? == 0 {
                break;
            }
        }
        Ok(if long { Found::TooLong } else { Found::Line })
    }

    /// Puts an earlier piece in front of the line.
    fn keep(&mut self, piece: &[u8], long: &mut bool) {
        *long |= self.text.len() + piece.len() >= MAX_LINE;
        if *long {
            self.text.clear();
        } else {
            self.text.splice(0..0, piece.iter().copied());
        }
    }

    /// Puts the block before into the buffer, in place of what is there.
    fn read_more(&mut self) -> io::Result<usize> {
        let from = self.start.saturating_sub(BLOCK as u64);
        self.buffer.resize(usize::try_from(self.start - from).unwrap_or(BLOCK), 0);
        let n = read_at(&self.file, &mut self.buffer, from)?;
        // Shorter than it was: a torn line has just been taken off its end.
        self.buffer.truncate(n);
        self.start = from;
        Ok(n)
    }
}
