//! Reading policy files: a directory of `*.cedar`, or one file. What cannot be read is an error, because a
//! `forbid` may stand in it.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::fs::{FileType, Mode, OFlags};

use crate::judge::{
    clause::Text,
    diagnostic::{Diagnostic, Severity},
};

const EXTENSION: &str = "cedar";
/// A file of policies is a few kilobytes, and a directory of them a few files.
const LARGEST: u64 = 1 << 20;
const MOST_FILES: usize = 1000;

/// By which a change is noticed without reading. The inode's own times are the kernel's: `touch -d` does not
/// set them back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Print {
    name: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    files: Vec<Print>,
    /// Names that could not be looked at; never equal to having been able to.
    blind: Vec<PathBuf>,
}

/// What was read, or why something could not be.
#[derive(Debug)]
pub struct Contents {
    pub texts: Vec<Text>,
    pub fingerprint: Fingerprint,
    /// Whether a later change is sure to show in the fingerprint: times are as fine as the kernel's clock tick.
    pub settled: Settled,
    pub faults: Vec<Diagnostic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Yes,
    No,
}

/// The `*.cedar` files of a directory by name, not those of directories in it, or the one file that is given.
/// Names that begin with a dot are editors' own and left out.
pub fn read(place: &Path) -> Contents {
    let mut contents = Contents {
        texts: Vec::new(),
        fingerprint: Fingerprint::default(),
        settled: Settled::Yes,
        faults: Vec::new(),
    };
    let files = match list(place) {
        Ok(files) => files,
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "make the directory; an empty one denies everything",
                _ => "policies are read from a directory of *.cedar files",
            };
            contents.faults.push(fault(place, format!("cannot be read: {error}"), hint));
            contents.fingerprint.blind.push(place.to_owned());
            return contents;
        }
    };
    if files.len() > MOST_FILES {
        contents.faults.push(fault(
            place,
            format!("has more than {MOST_FILES} policy files"),
            "is it the right place?",
        ));
        return contents;
    }
    let now = SystemTime::now();
    for file in files {
        match read_file(&file) {
            Ok((text, print)) => {
                if is_young(print.changed, now) {
                    contents.settled = Settled::No;
                }
                contents.fingerprint.files.push(print);
                contents.texts.push(text);
            }
            Err((message, hint)) => {
                contents.fingerprint.blind.push(file.clone());
                contents.faults.push(fault(&file, message, hint));
            }
        }
    }
    contents
}

/// The same fingerprint as of [`read`], without reading.
pub fn look(place: &Path) -> Fingerprint {
    let mut seen = Fingerprint::default();
    match list(place) {
        Err(_) => seen.blind.push(place.to_owned()),
        Ok(files) => {
            for file in files {
                let status = rustix::fs::lstat(&file);
                match status {
                    Ok(status) if FileType::from_raw_mode(status.st_mode).is_file() => {
                        seen.files.push(print(&file, &status));
                    }
                    _ => seen.blind.push(file),
                }
            }
        }
    }
    seen
}

/// Whether a path is to be taken for policies of tool calls: a `*.cedar` file, or a directory with one.
pub fn holds_policies(place: &Path) -> bool {
    if place.is_dir() { list(place).is_ok_and(|files| !files.is_empty()) } else { is_policy(place) }
}

fn list(place: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(place)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let name = entry?.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && is_policy(Path::new(&name)) {
            files.push(place.join(name));
        }
    }
    files.sort();
    Ok(files)
}

fn is_policy(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(EXTENSION))
}

fn read_file(file: &Path) -> Result<(Text, Print), (String, &'static str)> {
    let name = file.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|name| !name.chars().any(char::is_control)) else {
        return Err((
            "has a name that is not plain text".into(),
            "rename it: the name is part of policy ids",
        ));
    };
    // NONBLOCK: opening a named pipe must not wait for somebody who writes.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(file, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => (
            "is a symbolic link, and policies are not read through links".to_owned(),
            "put the file itself there: what a link leads to can be changed from elsewhere",
        ),
        error => (
            format!("cannot be read: {}", io::Error::from(error)),
            "a policy that is not read is not in force",
        ),
    })?;
    let unread =
        |error: io::Error| (format!("cannot be read: {error}"), "a policy that is not read is not in force");
    let status = rustix::fs::fstat(&opened).map_err(|error| unread(error.into()))?;
    if !FileType::from_raw_mode(status.st_mode).is_file() {
        return Err(("is not a regular file".into(), "only files are read, no directories and devices"));
    }
    let mut content = String::new();
    let mut limited = File::from(opened).take(LARGEST + 1);
    limited.read_to_string(&mut content).map_err(unread)?;
    if content.len() as u64 > LARGEST {
        return Err(("is larger than 1 MiB".into(), "is it the right file?"));
    }
    let content = content.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(content);
    let text = Text { name: name.to_owned(), file: file.to_owned(), content };
    Ok((text, print(file, &status)))
}

fn print(file: &Path, status: &rustix::fs::Stat) -> Print {
    Print {
        name: file.to_owned(),
        device: status.st_dev,
        inode: status.st_ino,
        size: u64::try_from(status.st_size).unwrap_or(u64::MAX),
        modified: (status.st_mtime, nanoseconds(status.st_mtime_nsec)),
        changed: (status.st_ctime, nanoseconds(status.st_ctime_nsec)),
    }
}

/// The field's type differs between platforms.
fn nanoseconds(field: impl TryInto<u64>) -> u64 {
    field.try_into().unwrap_or(0)
}

fn is_young(changed: (i64, u64), now: SystemTime) -> bool {
    let now =
        now.duration_since(SystemTime::UNIX_EPOCH).map_or(i64::MAX, |since| since.as_secs().cast_signed());
    now.saturating_sub(changed.0) < 2
}

fn fault(file: &Path, message: String, hint: &str) -> Diagnostic {
    Diagnostic {
        file: file.to_owned(),
        line: None,
        column: None,
        severity: Severity::Error,
        message,
        hint: Some(hint.into()),
    }
}
