//! The host's side of a case: scripts that run without a sandbox, and a directory as it stands.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::case::{Case, OTHER, PATH, Who};

/// Files up to this size are compared by content, larger ones by size.
const COMPARED: u64 = 1 << 20;

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: char,
    pub mode: u32,
    pub uid: u32,
    pub size: u64,
    /// Of a file its bytes, of a link its target.
    pub content: Vec<u8>,
}

/// Everything below a directory, by relative path.
pub type Tree = BTreeMap<PathBuf, Entry>;

pub fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let kind = metadata.file_type();
            let (letter, content) = if kind.is_dir() {
                todo.push(path.clone());
                ('d', Vec::new())
            } else if kind.is_symlink() {
                ('l', fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
            } else if kind.is_fifo() {
                ('p', Vec::new())
            } else if kind.is_file() {
                let small = metadata.len() <= COMPARED;
                ('f', if small { fs::read(&path).unwrap() } else { Vec::new() })
            } else {
                ('?', Vec::new())
            };
            let size = if letter == 'f' { metadata.len() } else { 0 };
            let mode = metadata.mode() & 0o7777;
            let entry = Entry { kind: letter, mode, uid: metadata.uid(), size, content };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), entry);
        }
    }
    found
}

/// The names alone.
pub fn names(root: &Path) -> Vec<String> {
    tree(root).keys().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Runs a script in the working directory as whoever runs the case, without a sandbox. What it printed.
#[track_caller]
pub fn outside(case: &Case, script: &str) -> String {
    let mut command = Command::new("sh");
    command.current_dir(&case.work).env_clear().env("PATH", PATH).env("HOME", &case.home);
    command.arg("-e").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if case.who == Who::Other {
        command.uid(OTHER).gid(OTHER);
    }
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{script}: {} {out} {err}", output.status);
    out.trim().to_owned()
}

/// Makes the host's files by a script, and lets a moment pass: what a run finds was not made by the tick of
/// the clock in which it starts.
#[track_caller]
pub fn prepared(case: &Case, script: &str) {
    outside(case, script);
    let_time_pass();
}

/// Longer than a tick of the clock that stamps files.
pub fn let_time_pass() {
    thread::sleep(Duration::from_millis(25));
}
