//! The head file beside a log: how far the log had come, so that a log cut at its end is noticed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::file;
use crate::line::is_hash;

const SEQ_LEN: usize = 20;
/// Digits, a space, the hash, a newline.
pub const LEN: usize = SEQ_LEN + 1 + 64 + 1;

/// The last line of a log as its head file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub hash: String,
}

/// What a head file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No file, or an empty one.
    Missing,
    /// Something that is no record.
    Malformed,
    Known(Head),
}

/// `<log>.head`
pub fn path_of(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".head");
    PathBuf::from(name)
}

/// Opens the head file of a log for writing, making it if need be.
pub fn open(log: &Path) -> Result<Option<OwnedFd>, Errno> {
    file::open(&path_of(log), OFlags::RDWR | OFlags::CREATE)
}

/// Records the last line in one write.
pub fn write(fd: &OwnedFd, seq: u64, hash: &str) -> Result<(), Errno> {
    let record = format!("{seq:0SEQ_LEN$} {hash}\n");
    match rustix::io::retry_on_intr(|| rustix::io::pwrite(fd, record.as_bytes(), 0))? {
        n if n == record.len() => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}

/// Reads an open head file.
pub fn read(fd: impl AsFd) -> Result<State, Errno> {
    let mut record = [0; LEN + 1];
    let n = file::read_at(fd, &mut record, 0)?;
    if n == 0 {
        return Ok(State::Missing);
    }
    Ok(record.get(..n).and_then(parse).map_or(State::Malformed, State::Known))
}

/// Reads the head file of a log, if there is one.
pub fn read_for(log: &Path) -> io::Result<State> {
    match file::open_to_read(&path_of(log)) {
        Ok(file) => Ok(read(&file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Missing),
        Err(error) => Err(error),
    }
}

fn parse(record: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(record).ok()?.strip_suffix('\n')?;
    let (seq, hash) = text.split_once(' ')?;
    let digits = seq.len() == SEQ_LEN && seq.bytes().all(|byte| byte.is_ascii_digit());
    (digits && is_hash(hash.as_bytes())).then_some(())?;
    Some(Head { seq: seq.parse().ok()?, hash: hash.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_shape_is_not_a_head() {
        let good = format!("{:020} {}\n", 7, "a".repeat(64));
        assert_eq!(good.len(), LEN);
        assert_eq!(parse(good.as_bytes()), Some(Head { seq: 7, hash: "a".repeat(64) }));
        for bad in [
            "",
            "\n",
            "7 a\n",
            &good[1..],
            &good[..LEN - 1],
            &good.replace('a', "A"),
            &good.replace(' ', "_"),
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
