//! Who a text names on the network: URLs by the rules of WHATWG, `user@host:path`, and bare hosts where the name of
//! the argument says that there is one. Hosts come out as the egress writes them ([`lazaret_policy::host::Host`]).
//!
//! Programs read strange URLs differently. Where two readings would lead to two hosts there is no answer, and the
//! call is refused.

mod tokens;

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use lazaret_policy::host::{Host, HostError};
use url::Url;

use super::{
    resolve::PathFault,
    words::{Roles, Strength},
};
use crate::facts::HostKind;

/// Schemes without a host, however they go on.
const HOSTLESS: [&str; 12] =
    ["data", "mailto", "urn", "javascript", "about", "tel", "blob", "news", "cid", "mid", "sms", "magnet"];
/// WHATWG's special schemes: any number of slashes, either way round, come before the host.
const SPECIAL: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];
const LONGEST_SHOWN: usize = 500;
const MOST_NESTED: usize = 4;

/// Why a text that looks like a host or a URL names none that could be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    #[error("it looks like a URL and is none ({0}); write scheme://host/path")]
    Broken(url::ParseError),
    #[error(
        "programs disagree about the host of such a URL (white space, a backslash or a second `@` before its path); \
         write scheme://host/path"
    )]
    Ambiguous,
    #[error("{0}; write the plain host name")]
    Host(HostError),
    #[error("`{0}` is no port")]
    Port(String),
}

/// A host that was found, as a fact without its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub given: String,
    pub host: String,
    pub port: Option<u16>,
    pub scheme: Option<String>,
    pub kind: HostKind,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readings {
    pub hosts: Vec<Found>,
    /// What `file:` URLs may mean, in every way that programs take them.
    pub files: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Host(HostFault),
    Path(PathFault),
}

impl From<HostFault> for Unreadable {
    fn from(fault: HostFault) -> Self {
        Unreadable::Host(fault)
    }
}

/// Everything on the network, and every `file:` URL, that a text with these roles names.
pub(super) fn read(text: &str, roles: Roles) -> Result<Readings, Unreadable> {
    let mut found = Readings::default();
    if text.trim().is_empty() {
        return Ok(found);
    }
    if roles.text {
        // Text is only looked at when the whole of it is a URL, and then it need not be a good one.
        if !text.trim().contains(char::is_whitespace) && has_authority(text.trim()) {
            let mut whole = Readings::default();
            if read_one(text, Roles::default(), &mut whole, 0).is_ok() {
                found = whole;
            }
        }
        if found == Readings::default() && !text.trim().contains(char::is_whitespace) {
            found.hosts = tokens::hosts(text);
        }
        return Ok(found);
    }
    let mut whole = read_one(text, roles, &mut found, 0);
    if roles.url.is_none() && roles.host.is_none() {
        let several = tokens::hosts(text);
        // As one URL, several have white space where none may be.
        if several.len() > 1 {
            whole = Ok(());
        }
        found.hosts.extend(several);
    }
    // A list in one string, which as a whole may be no URL at all.
    let urls: Vec<&str> = match roles.url.is_some() || roles.host.is_some() {
        true => text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|')).collect(),
        false => Vec::new(),
    };
    let urls: Vec<&str> = urls.into_iter().filter(|part| !part.is_empty()).collect();
    if urls.len() < 2 {
        whole?;
    } else if urls.iter().all(|part| has_authority(part)) {
        urls.iter().try_for_each(|part| read_one(part, roles, &mut found, 0))?;
    } else if whole.is_err() && roles.host.is_some() && text.contains([',', ';']) {
        text.split([',', ';']).try_for_each(|part| read_one(part, roles, &mut found, 0))?;
    } else {
        whole?;
        let mut parts = urls.iter().filter(|part| has_authority(part));
        parts.try_for_each(|part| read_one(part, roles, &mut found, 0))?;
    }
    let mut seen: Vec<Found> = Vec::new();
    for host in found.hosts {
        let known = |it: &Found| (&it.host, it.port, &it.scheme) == (&host.host, host.port, &host.scheme);
        if !seen.iter().any(known) {
            seen.push(host);
        }
    }
    found.hosts = seen;
    Ok(found)
}

/// Does it begin with `scheme://`?
fn has_authority(text: &str) -> bool {
    scheme_of(text)
        .is_some_and(|(scheme, rest)| rest.starts_with("//") || scheme.eq_ignore_ascii_case("file"))
}

fn read_one(text: &str, roles: Roles, found: &mut Readings, nested: usize) -> Result<(), Unreadable> {
    let text = cleaned(text);
    let Some((scheme, rest)) = scheme_of(&text) else {
        return Ok(read_without_scheme(&text, roles, found)?);
    };
    let scheme = scheme.to_ascii_lowercase();
    let (scheme, named) = (scheme.as_str(), roles.url.is_some() || roles.host.is_some());
    if scheme == "file" {
        found.files.extend(files(&text, rest).map_err(Unreadable::Path)?);
    } else if SPECIAL.contains(&scheme) && (named || rest.starts_with(['/', '\\'])) || rest.starts_with("//")
    {
        found.hosts.extend(url(&text, scheme, rest)?);
    } else if HOSTLESS.contains(&scheme) && !(named && rest.starts_with(|c: char| c.is_ascii_digit())) {
        // `data:80` in an argument for hosts is a port all the same.
    } else if nested < MOST_NESTED && has_authority(rest) {
        // `git+ssh` has one scheme, `view-source:https://…` and `jar:file:…` have two.
        read_one(rest, roles, found, nested + 1)?;
    } else if named {
        read_without_scheme(&text, roles, found)?;
    }
    Ok(())
}

/// As the parsers of WHATWG begin: outer control characters and spaces gone, tabs and line breaks gone everywhere.
fn cleaned(text: &str) -> String {
    let text = text.trim_matches(|c: char| c <= ' ');
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect()
}

/// A scheme and what follows its colon. One letter is a drive of Windows.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let well_formed = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    well_formed.then_some((scheme, rest))
}

fn url(text: &str, scheme: &str, rest: &str) -> Result<Option<Found>, HostFault> {
    let slashes: &[char] = if SPECIAL.contains(&scheme) { &['/', '\\'] } else { &['/'] };
    let authority = match SPECIAL.contains(&scheme) {
        true => rest.trim_start_matches(slashes),
        false => rest.strip_prefix("//").unwrap_or(rest),
    };
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains(|c: char| c == '\\' || c.is_whitespace()) || authority.matches('@').count() > 1 {
        return Err(HostFault::Ambiguous);
    }
    let url = Url::parse(text).map_err(HostFault::Broken)?;
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else { return Ok(None) };
    let host = Host::parse(host).map_err(HostFault::Host)?;
    let port = url.port_or_known_default().or(match scheme {
        "ssh" | "git+ssh" | "ssh+git" | "sftp" => Some(22),
        "git" => Some(9418),
        _ => None,
    });
    let (given, scheme) = (without_credentials(text), Some(scheme.to_owned()));
    Ok(Some(Found { given, host: host.to_string(), port, scheme, kind: HostKind::Url }))
}

/// The text without what stands before the `@` of its authority.
pub(super) fn without_credentials(text: &str) -> String {
    let start = text.find(':').map_or(0, |colon| colon + 1);
    let (scheme, rest) = text.split_at_checked(start).unwrap_or(("", text));
    let authority = rest.trim_start_matches(['/', '\\']);
    let slashes = rest.strip_suffix(authority).unwrap_or_default();
    let end = authority.find(['/', '?', '#', '\\']).unwrap_or(authority.len());
    let (host, tail) = authority.split_at_checked(end).unwrap_or((authority, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    shortened(&format!("{scheme}{slashes}{host}{tail}"))
}

/// Long enough to be recognised.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn read_without_scheme(text: &str, roles: Roles, found: &mut Readings) -> Result<(), HostFault> {
    let strength = roles.url.max(roles.host);
    if let Some(host) = scp(text, strength)? {
        found.hosts.push(host);
        return Ok(());
    }
    let Some(strength) = strength else { return Ok(()) };
    let two_slashes = text.get(..2).is_some_and(|start| start.chars().all(|c| matches!(c, '/' | '\\')));
    if two_slashes {
        let whole = format!("https:{text}");
        let host = url(&whole, "https", whole.trim_start_matches("https:"))?;
        found.hosts.extend(host.map(|host| Found {
            given: host.given.trim_start_matches("https:").to_owned(),
            scheme: None,
            ..host
        }));
        return Ok(());
    }
    // Paths, and parts of a page.
    if text.starts_with(['/', '.', '~', '#', '?', '\\']) || text.is_empty() {
        return Ok(());
    }
    match bare(text) {
        Ok(host) if worth(&host, text, roles) => found.hosts.push(host),
        Ok(_) => {}
        Err(fault) if strength == Strength::Certain => return Err(fault),
        Err(_) => {}
    }
    Ok(())
}

/// Is a bare word a host, when its argument is not certainly one?
fn worth(found: &Found, text: &str, roles: Roles) -> bool {
    if roles.url == Some(Strength::Certain) || roles.host == Some(Strength::Certain) {
        return true;
    }
    let dotted = found.host.contains(['.', ':']);
    let plain = found.host == "localhost" || found.port.is_some();
    // `uri` and `repo` hold file names and `owner/name` as well.
    match roles.host {
        Some(_) => dotted || plain,
        None => plain || dotted && (text.contains('/') || found.host.starts_with("www.")),
    }
}

/// `host`, `host:port`, `user@host`, `[::1]:80`, each with a path behind it or not.
fn bare(text: &str) -> Result<Found, HostFault> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = text.get(..end).unwrap_or(text);
    if authority.contains('\\') || authority.matches('@').count() > 1 {
        return Err(HostFault::Ambiguous);
    }
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.rsplit_once(':') {
        // More than one colon is IPv6, and without brackets it has no port.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => (place, None),
        Some((host, port)) if !place.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    };
    let port = match port.filter(|port| !port.is_empty()) {
        Some(port) => Some(port.parse().map_err(|_| HostFault::Port(port.chars().take(20).collect()))?),
        None => None,
    };
    let host = Host::parse(host).map_err(HostFault::Host)?.to_string();
    let tail = text.get(end..).unwrap_or_default();
    let given = shortened(&format!("{place}{tail}"));
    Ok(Found { given, host, port, scheme: None, kind: HostKind::Host })
}

/// `user@host:path`, which ssh and git take.
fn scp(text: &str, strength: Option<Strength>) -> Result<Option<Found>, HostFault> {
    let Some((user, rest)) = text.split_once('@') else { return Ok(None) };
    if user.is_empty() || user.contains(|c: char| c.is_whitespace() || matches!(c, '/' | ':' | '\\')) {
        return Ok(None);
    }
    let split = match rest.strip_prefix('[').and_then(|_| rest.find("]:")) {
        Some(end) => rest.split_at_checked(end + 1).map(|(host, path)| (host, path.trim_start_matches(':'))),
        None => rest.split_once(':'),
    };
    let Some((host, path)) = split.filter(|(host, path)| !host.contains('/') && !path.is_empty()) else {
        return Ok(None);
    };
    // `user@host:22` is a port.
    if strength.is_some() && path.chars().all(|c| c.is_ascii_digit()) {
        return Ok(None);
    }
    let sure = strength == Some(Strength::Certain);
    match Host::parse(host).map_err(HostFault::Host) {
        Ok(host) if strength.is_some() || host.to_string().contains(['.', ':']) => Ok(Some(Found {
            given: shortened(text),
            host: host.to_string(),
            port: Some(22),
            scheme: Some("ssh".to_owned()),
            kind: HostKind::Url,
        })),
        Err(fault) if sure => Err(fault),
        _ => Ok(None),
    }
}

/// A `file:` URL as WHATWG reads it, as those do who only take the beginning off, and those who also decode.
fn files(text: &str, rest: &str) -> Result<Vec<PathBuf>, PathFault> {
    let url = Url::parse(text).map_err(|_| PathFault::FileUrl)?;
    if url.host_str().is_some_and(|host| !host.is_empty() && host != "localhost") {
        return Err(PathFault::FileUrl);
    }
    let mut files = vec![decoded(url.path())];
    let raw = rest.strip_prefix("//").unwrap_or(rest);
    let host_ends = raw.find('/').unwrap_or(0);
    let raw = match raw.split_at_checked(host_ends) {
        Some((host, path)) if host.eq_ignore_ascii_case("localhost") => path,
        _ => raw,
    };
    let without_query = raw.split(['?', '#']).next().unwrap_or_default();
    for reading in [decoded(without_query), PathBuf::from(raw)] {
        if !files.contains(&reading) && reading != Path::new("") {
            files.push(reading);
        }
    }
    Ok(files)
}

fn decoded(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if *first == b'%'
            && let [high, low, after @ ..] = after
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            bytes.push(high * 16 + low);
            rest = after;
            continue;
        }
        bytes.push(*first);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests;
