//! The token a client must show: 256 random bits in a file that nobody but its owner can read.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

/// Fewer characters could be guessed.
const SHORTEST: usize = 32;
const LONGEST: usize = 1024;

/// A secret: it is shown only by [`Token::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot get random bytes from the kernel for a token: {source}")]
    Random { source: io::Error },
    #[error("cannot read the token file {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the token file {path}: {source}; the directory must exist and be writable")]
    Write { path: PathBuf, source: io::Error },
    #[error("the token file {path} is not a regular file; name a file of your own, not a link or a device")]
    NotAFile { path: PathBuf },
    #[error("the token file {path} belongs to user {owner}, not to you; use a file of your own")]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "the token file {path} can be read or written by others (mode {mode:04o}); chmod 600 {path}, and replace the token if somebody may have seen it"
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("{0}")]
    Unfit(Unfit),
    #[error("the token in {path} cannot be used: {unfit}; remove the file to have a new one made")]
    UnfitFile { path: PathBuf, unfit: Unfit },
}

/// What is wrong with a text that should be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is shorter than {SHORTEST} characters and could be guessed")]
    Short,
    #[error("it is longer than {LONGEST} characters")]
    Long,
    #[error(
        "it has characters that a bearer token cannot have (RFC 6750: letters, digits and -._~+/, = at the end)"
    )]
    Characters,
}

impl Token {
    /// A token that somebody else made.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        fitness(text).map_err(TokenError::Unfit)?;
        Ok(Token(text.to_owned()))
    }

    /// The secret itself, for the one who has to show it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares digests, so that the time it takes says nothing about how much of a guess was right.
    pub(super) fn is(&self, shown: &[u8]) -> bool {
        let (own, shown) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(shown));
        own.iter().zip(shown.iter()).fold(0, |difference, (own, shown)| difference | (own ^ shown)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// A new token.
pub fn generate() -> Result<Token, TokenError> {
    let bytes: [u8; 32] = random().map_err(|source| TokenError::Random { source })?;
    Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// The token in a file; when there is no such file, a new token that is then in it.
pub fn read_or_create(path: &Path) -> Result<Token, TokenError> {
    match read(path) {
        Err(TokenError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => create(path),
        other => other,
    }
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let failed = |source| TokenError::Read { path: path.to_owned(), source };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(TokenError::NotAFile { path: path.to_owned() });
        }
        other => other.map_err(failed)?,
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(TokenError::NotAFile { path: path.to_owned() });
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenError::Foreign { path: path.to_owned(), owner: facts.uid() });
    }
    if facts.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_owned(), mode: facts.mode() & 0o7777 });
    }
    let mut text = String::new();
    file.take(LONGEST as u64 + 2).read_to_string(&mut text).map_err(failed)?;
    let text = text.trim_end_matches(['\r', '\n']);
    fitness(text).map_err(|unfit| TokenError::UnfitFile { path: path.to_owned(), unfit })?;
    Ok(Token(text.to_owned()))
}

/// The file appears with its content, so that another process never reads half a token, and the token of
/// whoever was first is everybody's.
fn create(path: &Path) -> Result<Token, TokenError> {
    let failed = |source| TokenError::Write { path: path.to_owned(), source };
    let token = generate()?;
    let mut name =
        path.file_name().map(ToOwned::to_owned).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let number = u64::from_ne_bytes(random().map_err(|source| TokenError::Random { source })?);
    name.push(format!(".{number:016x}.new"));
    let draft = path.with_file_name(name);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(token.0.as_bytes())?;
            file.write_all(b"\n")
        })
        .and_then(|()| fs::hard_link(&draft, path));
    // It is another name of the file now, or of nothing that anybody needs.
    let _ = fs::remove_file(&draft);
    match written {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(error)),
    }
}

/// Random bytes of the kernel.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..)
        && !rest.is_empty()
    {
        filled += rustix::io::retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()))?;
    }
    Ok(bytes)
}

fn fitness(text: &str) -> Result<(), Unfit> {
    let body = text.trim_end_matches('=');
    if !body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)) {
        return Err(Unfit::Characters);
    }
    match body.len() {
        ..SHORTEST => Err(Unfit::Short),
        _ if text.len() > LONGEST => Err(Unfit::Long),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A directory of a test's own, gone at its end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let number = u64::from_ne_bytes(random().unwrap());
            let path = std::env::temp_dir().join(format!("lazaret-token-{name}-{number:x}"));
            fs::create_dir(&path).unwrap();
            Place(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_token_is_made_once_and_read_again() {
        let place = Place::new("once");
        let path = place.0.join("token");
        let first = read_or_create(&path).unwrap();
        assert_eq!(first.reveal().len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(read_or_create(&path).unwrap(), first);
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1, "no draft is left");
        assert_ne!(generate().unwrap(), generate().unwrap());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let place = Place::new("open");
        let path = place.0.join("token");
        read_or_create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read_or_create(&path).unwrap_err();
            assert!(matches!(error, TokenError::Open { .. }), "{mode:o}: {error}");
        }
    }

    #[test]
    fn links_directories_and_fifos_are_refused() {
        let place = Place::new("kinds");
        read_or_create(&place.0.join("token")).unwrap();
        symlink(place.0.join("token"), place.0.join("link")).unwrap();
        symlink(place.0.join("nowhere"), place.0.join("dangling")).unwrap();
        fs::create_dir(place.0.join("directory")).unwrap();
        let fifo = place.0.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        for name in ["link", "dangling", "directory", "fifo"] {
            let error = read_or_create(&place.0.join(name)).unwrap_err();
            assert!(matches!(error, TokenError::NotAFile { .. }), "{name}: {error}");
        }
    }

    #[test]
    fn a_weak_or_strange_token_is_refused_and_not_shown() {
        let place = Place::new("weak");
        let path = place.0.join("token");
        for (text, unfit) in [
            ("", Unfit::Short),
            ("hunter2", Unfit::Short),
            (&*format!("hunter2{}", "=".repeat(40)), Unfit::Short),
            (&*"hunter2 ".repeat(8), Unfit::Characters),
            (&*"hunter2".repeat(200), Unfit::Long),
        ] {
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = read_or_create(&path).unwrap_err();
            assert!(matches!(error, TokenError::UnfitFile { unfit: found, .. } if found == unfit), "{error}");
            assert!(!error.to_string().contains("hunter2"));
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_token_is_itself_alone_and_is_not_printed() {
        let token = Token::new(&"z".repeat(40)).unwrap();
        assert!(token.is("z".repeat(40).as_bytes()));
        assert!(!token.is("z".repeat(39).as_bytes()));
        assert!(!token.is("z".repeat(41).as_bytes()));
        assert!(!token.is(b""));
        assert!(!format!("{token:?}").contains('z'));
    }
}
