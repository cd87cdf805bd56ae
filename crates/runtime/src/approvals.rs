//! Level 0 is for trusted system tools only, and only with the administrator's word: a file that nobody but
//! the administrator can write names the programs.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The approvals file, `/etc/lazaret/approvals.toml`:
///
/// ```toml
/// [[approval]]
/// program = "/usr/bin/apt-get"
/// reason = "package updates of the build host"
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approvals {
    #[serde(default)]
    approval: Vec<Approval>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    pub program: PathBuf,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error(
        "level 0 (no isolation) needs the administrator's approval: {program} is not named in {file}. \
         Use level 1 or 2, or have the administrator add it",
        program = program.display(), file = file.display()
    )]
    NotApproved { program: PathBuf, file: PathBuf },
    #[error("{file} is not safe to trust: {why}", file = file.display())]
    Untrusted { file: PathBuf, why: String },
    #[error("{file}: {source}", file = file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{file}: {message}", file = file.display())]
    Malformed { file: PathBuf, message: String },
}

/// Finds the approval of a program, by its canonical path.
pub fn find(program: &Path) -> Result<Approval, ApprovalError> {
    find_in(program, &Path::new(crate::state::ADMINISTRATOR).join("approvals.toml"))
}

fn find_in(program: &Path, file: &Path) -> Result<Approval, ApprovalError> {
    let not_approved = || ApprovalError::NotApproved { program: program.to_owned(), file: file.to_owned() };
    let metadata = match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_approved()),
        other => other.map_err(|source| ApprovalError::Unreadable { file: file.to_owned(), source })?,
    };
    let directory = file.parent().and_then(|directory| fs::metadata(directory).ok());
    let untrusted = |why: &str| ApprovalError::Untrusted { file: file.to_owned(), why: why.to_owned() };
    if !metadata.is_file() {
        return Err(untrusted("it is not a regular file"));
    }
    for metadata in [Some(metadata), directory].into_iter().flatten() {
        if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
            return Err(untrusted("somebody other than root can write it or its directory"));
        }
    }
    let text = fs::read_to_string(file)
        .map_err(|source| ApprovalError::Unreadable { file: file.to_owned(), source })?;
    let approvals: Approvals = toml::from_str(&text).map_err(|error| ApprovalError::Malformed {
        file: file.to_owned(),
        message: error.message().to_owned(),
    })?;
    let canonical = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    approvals
        .approval
        .into_iter()
        .find(|approval| approval.program.canonicalize().is_ok_and(|approved| approved == canonical))
        .ok_or_else(not_approved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_nothing_is_approved() {
        let error = find_in(Path::new("/bin/true"), Path::new("/nonexistent/approvals.toml")).unwrap_err();
        assert!(matches!(error, ApprovalError::NotApproved { .. }));
    }

    #[test]
    fn a_file_that_others_can_write_is_not_trusted() {
        let directory = std::env::temp_dir().join(format!("lazaret-approvals-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("approvals.toml");
        fs::write(&file, "[[approval]]\nprogram = \"/bin/true\"\nreason = \"test\"\n").unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let refused = find_in(Path::new("/bin/true"), &file);
        assert!(matches!(refused, Err(ApprovalError::Untrusted { .. })));
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(find_in(Path::new("/bin/true"), &file).unwrap().reason, "test");
            assert!(find_in(Path::new("/bin/false"), &file).is_err());
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
