//! The files of one log: those set aside by rotation, oldest first, and the one that is being written.
//!
//! A segment is named after the number of its first line, so that names sort as lines do and are never used
//! twice: `audit.jsonl.000000000001`.

use std::io;
use std::path::{Path, PathBuf};

use crate::{file, head, line};

/// Digits of a number in a name, at least.
const DIGITS: usize = 12;

/// A file that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The number of its first line, as its name has it.
    pub first: u64,
    pub path: PathBuf,
}

impl Segment {
    /// The name of the file alone, for a person.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }
}

/// The name of a file without its directory.
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Where a log whose first line has this number is set aside.
pub fn path_of(log: &Path, first: u64) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".{first:0DIGITS$}"));
    PathBuf::from(name)
}

/// The segments of a log in the order of their lines.
pub fn list(log: &Path) -> io::Result<Vec<Segment>> {
    let directory = match log.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(name) = log.file_name() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let first = number(name.as_encoded_bytes(), entry.file_name().as_encoded_bytes());
        found.extend(first.map(|first| Segment { first, path: log.with_file_name(entry.file_name()) }));
    }
    found.sort();
    Ok(found)
}

fn number(log: &[u8], name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(log)?.strip_prefix(b".")?;
    let plain = digits.len() >= DIGITS && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// Every file that belongs to a log and is there now, and log and head in any case: what nothing inside a
/// sandbox may see.
#[must_use]
pub fn files_of(log: &Path) -> Vec<PathBuf> {
    let mut files = vec![log.to_owned(), head::path_of(log)];
    files.extend(list(log).unwrap_or_default().into_iter().map(|segment| segment.path));
    files
}

/// The number of the first line of a file; nothing if there is no whole line that begins as one of ours.
pub fn first_of(file: impl std::os::fd::AsFd) -> io::Result<Option<u64>> {
    let mut start = [0; 64];
    let n = file::read_at(file, &mut start, 0)?;
    Ok(line::number(start.get(..n).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_known_by_its_name_and_nothing_else_is() {
        let log = Path::new("/x/audit.jsonl");
        assert_eq!(path_of(log, 1), Path::new("/x/audit.jsonl.000000000001"));
        let known = |name: &str| number(b"audit.jsonl", name.as_bytes());
        assert_eq!(known("audit.jsonl.000000000001"), Some(1));
        assert_eq!(known("audit.jsonl.1234567890123"), Some(1_234_567_890_123));
        for other in [
            "audit.jsonl",
            "audit.jsonl.head",
            "audit.jsonl.1",
            "audit.jsonl.00000000001x",
            "audit.jsonl.000000000001.gz",
            "audit.jsonl-000000000001",
            "other.jsonl.000000000001",
            "audit.jsonl.99999999999999999999999",
        ] {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
