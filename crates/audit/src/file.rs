//! How files of the log are opened, locked and scanned: never following a link, never waiting for a FIFO.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
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

/// Lines of a file, one at a time in one buffer of bounded size.
pub struct Lines {
    input: BufReader<File>,
    buffer: Vec<u8>,
    start: u64,
    limit: u64,
}

impl Lines {
    /// Lines of the first `limit` bytes of a file.
    pub fn new(file: File, limit: u64) -> Self {
        Self { input: BufReader::with_capacity(64 * 1024, file), buffer: Vec::new(), start: 0, limit }
    }

    /// Goes back to the first line.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.start = 0;
        self.input.rewind()
    }

    /// The line found last.
    pub fn text(&self) -> &[u8] {
        &self.buffer
    }

    /// Moves to the next line. After [`Found::Partial`] the same bytes are read afresh next time.
    pub fn next(&mut self) -> io::Result<Found> {
        self.buffer.clear();
        let mut length = 0u64;
        loop {
            let left = usize::try_from(self.limit.saturating_sub(self.start + length)).unwrap_or(usize::MAX);
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk.get(..left).unwrap_or(chunk),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                if length == 0 {
                    return Ok(Found::End);
                }
                self.input.seek(SeekFrom::Start(self.start))?;
                return Ok(Found::Partial);
            }
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let text = newline.and_then(|at| chunk.get(..at)).unwrap_or(chunk);
            if self.buffer.len() + text.len() <= MAX_LINE {
                self.buffer.extend_from_slice(text);
            } else {
                // One byte too many is remembered, so that the rest of the line is not kept either.
                self.buffer.resize(MAX_LINE + 1, 0);
            }
            let used = text.len() + usize::from(newline.is_some());
            self.input.consume(used);
            length += used as u64;
            if newline.is_some() {
                self.start += length;
                return Ok(if self.buffer.len() < MAX_LINE { Found::Line } else { Found::TooLong });
            }
        }
    }
}
