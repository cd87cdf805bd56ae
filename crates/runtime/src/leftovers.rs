//! What a killed owner leaves behind, and how the next run finds it. Processes and mounts die with their
//! owner; a control group and a half-done transaction do not.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use lazaret_sandbox::linux::cgroup::{self, Cgroup};

use crate::{prepare::RunError, settle};

/// A note that a control group exists, taken back when it is gone.
#[derive(Debug)]
pub struct Note {
    directory: PathBuf,
    file: PathBuf,
}

impl Note {
    /// Written before anything runs in the group. Without a place for it, the next run that makes a group finds
    /// this one all the same.
    pub fn write(state: Option<&Path>, group: &Cgroup) -> io::Result<Option<Note>> {
        let (Some(state), Some(first)) = (state, group.paths().next()) else { return Ok(None) };
        let directory = state.join("groups");
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let file = directory.join(first.file_name().unwrap_or_default());
        let lines: Vec<&[u8]> = group.paths().map(|path| path.as_os_str().as_bytes()).collect();
        fs::write(&file, lines.join(&b'\n'))?;
        Ok(Some(Note { directory, file }))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        // Only when it is empty.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Clears what others left; what is in use stays. Says what was put in order.
pub fn clear(state: &Path, log: &Path) -> Result<Vec<String>, RunError> {
    let directory = state.join("groups");
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let paths = fs::read_to_string(entry.path()).unwrap_or_default();
        let paths: Vec<&Path> = paths.lines().map(Path::new).collect();
        paths.iter().for_each(|path| cgroup::remove_abandoned(path));
        if paths.iter().all(|path| !path.exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(&directory);
    settle::recover(state, log)
}
