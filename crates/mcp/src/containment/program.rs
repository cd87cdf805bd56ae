//! Which program a server is, and its arguments: found before anything is started, so that what is missing is said
//! by its name.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{Place, absolute};
use crate::config::Local;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("command: `{command}` is not in PATH ({path}): install it, or write the whole path")]
    NotFound { command: String, path: String },
    #[error("command: {program} {why}", program = program.display())]
    Unusable { program: PathBuf, why: &'static str },
    #[error("command: {0}")]
    Path(super::PathFault),
    #[error("cwd: {0}")]
    Directory(super::PathFault),
    #[error("cwd: {path} is no directory", path = .0.display())]
    NoDirectory(PathBuf),
}

/// What is executed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absolute. A link is not followed: shims look at the name they are called by.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The session directory, unless the entry says otherwise.
    pub directory: PathBuf,
}

impl Program {
    /// With the program in front.
    pub fn command(&self) -> Vec<OsString> {
        std::iter::once(self.program.clone().into_os_string()).chain(self.args.iter().cloned()).collect()
    }
}

/// Finds the program of a server. Relative paths are below the directory of the file (`base`), since nobody knows
/// where the session directory will be when the file is written.
pub fn find(
    server: &Local,
    base: &Path,
    place: &Place,
    environment: &[(OsString, OsString)],
) -> Result<Program, ProgramError> {
    let program = if server.command.contains('/') || server.command.starts_with('~') {
        let program = absolute(&server.command, base, place.home.as_deref()).map_err(ProgramError::Path)?;
        usable(&program).map_err(|why| ProgramError::Unusable { program: program.clone(), why })?;
        program
    } else {
        search(&server.command, environment)?
    };
    let directory = match &server.directory {
        None => place.session.clone(),
        Some(text) => {
            let path = absolute(text, base, place.home.as_deref()).map_err(ProgramError::Directory)?;
            if !path.is_dir() {
                return Err(ProgramError::NoDirectory(path));
            }
            path
        }
    };
    // With a directory of its own, the server's relative paths are below that.
    let base = if server.directory.is_some() { &directory } else { base };
    Ok(Program { program, args: server.args.iter().map(|arg| argument(arg, base)).collect(), directory })
}

fn usable(program: &Path) -> Result<(), &'static str> {
    match fs::metadata(program) {
        Err(_) => Err("does not exist"),
        Ok(metadata) if metadata.is_dir() => Err("is a directory"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Err("is not executable"),
        Ok(_) => Ok(()),
    }
}

fn search(command: &str, environment: &[(OsString, OsString)]) -> Result<PathBuf, ProgramError> {
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    // Relative entries would be looked for in whatever directory this is.
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(command))
        .find(|program| usable(program).is_ok())
        .ok_or_else(|| ProgramError::NotFound {
            command: command.to_owned(),
            path: path.to_string_lossy().into_owned(),
        })
}

/// An argument that is a relative path: by its beginning, or because it is there. A word that only happens to be
/// the name of a directory (`build`) stays a word.
pub(crate) fn argument(text: &str, base: &Path) -> OsString {
    let written = text.starts_with("./") || text.starts_with("../") || text == "." || text == "..";
    let is_there = || {
        let path = base.join(text);
        let plain = !text.starts_with(['-', '/', '~']) && !text.contains('@') && !text.contains("://");
        plain && (path.is_file() && path.extension().is_some() || text.contains('/') && path.exists())
    };
    if written || is_there() {
        return super::normal(&base.join(text)).into_os_string();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{InheritEnv, Sandbox, Variables};

    fn local(command: &str, args: &[&str]) -> Local {
        Local {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: Variables::default(),
            directory: None,
            inherit_env: InheritEnv::Usual,
            sandbox: Sandbox::default(),
        }
    }

    fn found(server: &Local, base: &Path, path: &str) -> Result<Program, ProgramError> {
        let place = Place { session: "/session".into(), home: Some("/home/u".into()), ..Place::default() };
        find(server, base, &place, &[("PATH".into(), path.into())])
    }

    #[test]
    fn a_name_is_looked_for_in_the_servers_own_path() {
        let program = found(&local("sh", &["-c", "true"]), Path::new("/"), "/nowhere:/usr/bin:/bin").unwrap();
        assert!(program.program.is_absolute() && program.program.ends_with("sh"));
        assert_eq!(program.directory, Path::new("/session"));
        let error = found(&local("no-such-program", &[]), Path::new("/"), "/bin").unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("/bin"), "{error}");
    }

    #[test]
    fn a_relative_entry_of_path_is_not_searched() {
        assert!(found(&local("sh", &[]), Path::new("/"), ".:bin:").is_err());
    }

    #[test]
    fn a_path_that_is_no_program_says_why() {
        for (command, why) in
            [("/etc/passwd", "not executable"), ("/etc", "directory"), ("./no-such", "not exist")]
        {
            let error = found(&local(command, &[]), Path::new("/"), "/bin").unwrap_err().to_string();
            assert!(error.contains(why), "{command}: {error}");
        }
    }

    /// Rows `wrap: npm specs kept`, `relative file args absolute`.
    #[test]
    fn arguments_that_are_relative_paths_are_below_the_files_directory_and_others_stay() {
        for (argument, meant) in [
            ("./servers/exec-server.js", "/etc/servers/exec-server.js"),
            ("../x y.js", "/x y.js"),
            (".", "/etc"),
            ("ssl/../hostname", "/etc/hostname"),
            ("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-filesystem"),
            ("-y", "-y"),
            ("--root=./x", "--root=./x"),
            ("--pattern=$HOME/*.txt", "--pattern=$HOME/*.txt"),
            ("/tmp/x", "/tmp/x"),
            ("no/such/thing", "no/such/thing"),
            ("hostname", "hostname"),
            ("ssl", "ssl"),
            ("ld.so.conf", "/etc/ld.so.conf"),
            ("https://x/y", "https://x/y"),
            ("stdio", "stdio"),
        ] {
            let program = found(&local("sh", &[argument]), Path::new("/etc"), "/bin:/usr/bin").unwrap();
            assert_eq!(program.args, [OsString::from(meant)], "{argument}");
        }
    }

    #[test]
    fn a_directory_of_its_own_is_where_the_server_starts() {
        let mut server = local("sh", &["./x"]);
        server.directory = Some("../usr".to_owned());
        let program = found(&server, Path::new("/etc"), "/bin:/usr/bin").unwrap();
        assert_eq!(
            (program.directory.as_path(), program.args.as_slice()),
            (Path::new("/usr"), ["/usr/x".into()].as_slice())
        );
        server.directory = Some("/no/such".to_owned());
        assert!(matches!(
            found(&server, Path::new("/etc"), "/bin"),
            Err(ProgramError::NoDirectory(_) | ProgramError::NotFound { .. })
        ));
    }
}
