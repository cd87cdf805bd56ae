//! The program to execute: where it is in the view, and what it looks like.

use std::{
    ffi::{CString, OsStr},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags};

use super::sys;

/// Finds the program as a shell would, in the view of the sandbox.
pub fn find_program(argv: &[Vec<u8>], environment: &[(Vec<u8>, Vec<u8>)]) -> io::Result<CString> {
    let not_found = || io::Error::from_raw_os_error(libc::ENOENT);
    let program = argv.first().filter(|program| !program.is_empty()).ok_or_else(not_found)?;
    let c_string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| not_found());
    if program.contains(&b'/') {
        return c_string(program.clone());
    }
    let default = b"/usr/local/bin:/usr/bin:/bin".to_vec();
    let path = environment.iter().find(|(key, _)| key == b"PATH").map_or(default, |(_, value)| value.clone());
    let mut denied = false;
    for directory in path.split(|byte| *byte == b':') {
        let directory = if directory.is_empty() { b"." } else { directory };
        let candidate = Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(program));
        let Ok(metadata) = std::fs::metadata(&candidate) else { continue };
        if !metadata.is_file() {
            continue;
        }
        if rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok() {
            return c_string(candidate.as_os_str().as_bytes().to_vec());
        }
        denied = true;
    }
    Err(if denied { io::Error::from_raw_os_error(libc::EACCES) } else { not_found() })
}

/// `execve`, as `execvp` would: a text file without an interpreter line is a shell script. Returns only on failure.
pub fn become_program(program: &CString, argv: &[CString], envp: &[CString]) -> io::Error {
    let error = sys::execve(program, argv, envp);
    if error.raw_os_error() != Some(libc::ENOEXEC) || !looks_like_text(program) {
        return error;
    }
    let shell = c"/bin/sh";
    let mut script = vec![shell.to_owned(), program.clone()];
    script.extend(argv.iter().skip(1).cloned());
    sys::execve(shell, &script, envp)
}

/// Is this a script, rather than a program for another machine?
fn looks_like_text(program: &CString) -> bool {
    let mut head = [0; 256];
    rustix::fs::openat(CWD, program.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut head))
        .is_ok_and(|length| {
            head.get(..length).is_some_and(|head| !head.contains(&0) && !head.starts_with(b"\x7fELF"))
        })
}

/// Checked for NUL bytes by the supervisor.
pub fn c_strings(strings: impl Iterator<Item = Vec<u8>>) -> Vec<CString> {
    strings.filter_map(|string| CString::new(string).ok()).collect()
}
