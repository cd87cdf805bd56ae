//! Where entries are read from, and whether a file may be believed: an administrator's file only when nobody
//! else could have written it.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use lazaret_policy::load::LoadError;
use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, retry_on_intr},
};

use super::ToolsError;
use crate::state::{ADMINISTRATOR, Directories};

/// A registry is some kilobytes; whatever is larger is a mistake or an attack.
const LARGEST: u64 = 1 << 20;

/// Who keeps a file. `Ord`: the greater one's entry wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeper {
    /// The one who calls the tools.
    Caller,
    /// Root: the file must be owned by root and writable by nobody else.
    Administrator,
}

/// A file of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub file: PathBuf,
    pub keeper: Keeper,
}

impl Source {
    /// `/etc/lazaret/tools.toml`, and `$XDG_CONFIG_HOME/lazaret/tools.toml` where the caller has one.
    pub fn standard(directories: &Directories) -> Vec<Source> {
        let administrator =
            Source { file: Path::new(ADMINISTRATOR).join("tools.toml"), keeper: Keeper::Administrator };
        let caller = directories
            .config
            .as_ref()
            .map(|config| Source { file: config.join("tools.toml"), keeper: Keeper::Caller });
        std::iter::once(administrator).chain(caller).collect()
    }

    /// The text of a file of this keeper; none when there is no such file.
    pub(super) fn read(&self, file: &Path) -> Result<Option<String>, ToolsError> {
        // Without O_NONBLOCK the open of a FIFO would wait for somebody to write to it. Callers link their
        // files from elsewhere; an administrator's link could lead to what somebody else can write.
        let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if self.keeper == Keeper::Administrator {
            flags |= OFlags::NOFOLLOW;
        }
        let handle = match retry_on_intr(|| rustix::fs::open(file, flags, Mode::empty())) {
            Ok(handle) => File::from(handle),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) if self.keeper == Keeper::Administrator => {
                return Err(untrusted(file, "it is a symbolic link"));
            }
            Err(error) => return Err(ToolsError::Open { file: file.to_owned(), source: error.into() }),
        };
        let unreadable = |source| ToolsError::Read { file: file.to_owned(), source };
        self.judge(file, &handle.metadata().map_err(unreadable)?)?;
        let mut bytes = Vec::new();
        // Files in /proc say they are empty: the limit counts what is read.
        handle.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LARGEST {
            return Err(unplaced(file, "larger than 1 MiB", "a registry is some kilobytes of text").into());
        }
        String::from_utf8(bytes).map(Some).map_err(|error| {
            let message = format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to());
            unplaced(file, &message, "save the file as UTF-8 text").into()
        })
    }

    /// May this file, which an entry names, be believed?
    pub(super) fn trust(&self, file: &Path) -> Result<(), ToolsError> {
        if self.keeper == Keeper::Caller {
            return Ok(());
        }
        let metadata = fs::symlink_metadata(file)
            .map_err(|source| ToolsError::Open { file: file.to_owned(), source })?;
        self.judge(file, &metadata)
    }

    fn judge(&self, file: &Path, metadata: &fs::Metadata) -> Result<(), ToolsError> {
        if !metadata.is_file() {
            return Err(untrusted(file, "it is not a regular file"));
        }
        if self.keeper == Keeper::Caller {
            return Ok(());
        }
        let missing = || ToolsError::Open { file: file.to_owned(), source: io::ErrorKind::NotFound.into() };
        let parent = file.parent().ok_or_else(missing)?;
        let directory =
            fs::metadata(parent).map_err(|source| ToolsError::Open { file: parent.to_owned(), source })?;
        for metadata in [metadata, &directory] {
            if !is_roots_alone(metadata.uid(), metadata.mode()) {
                return Err(untrusted(file, "somebody other than root can write it or its directory"));
            }
        }
        Ok(())
    }
}

fn is_roots_alone(owner: u32, mode: u32) -> bool {
    owner == 0 && mode & 0o022 == 0
}

fn untrusted(file: &Path, why: &'static str) -> ToolsError {
    ToolsError::Untrusted { file: file.to_owned(), why }
}

/// A refusal that has no place in the text.
pub(super) fn unplaced(file: &Path, message: &str, hint: &str) -> LoadError {
    LoadError {
        file: file.to_owned(),
        line: None,
        column: None,
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_may_be_able_to_write_an_administrators_file() {
        assert!(is_roots_alone(0, 0o100_644) && is_roots_alone(0, 0o100_600));
        for (owner, mode) in [(1000, 0o644), (0, 0o664), (0, 0o646), (0, 0o622), (1000, 0o600)] {
            assert!(!is_roots_alone(owner, mode), "{owner} {mode:o}");
        }
    }

    #[test]
    fn the_standard_files_are_the_administrators_and_the_callers() {
        let config = Some(PathBuf::from("/home/me/.config/lazaret"));
        let sources = Source::standard(&Directories { config, ..Directories::default() });
        let files: Vec<_> = sources.iter().map(|source| source.file.to_str().unwrap()).collect();
        assert_eq!(files, ["/etc/lazaret/tools.toml", "/home/me/.config/lazaret/tools.toml"]);
        assert_eq!(Source::standard(&Directories::default()).len(), 1);
    }
}
