//! A remote's name turned into where git connects: `url` and `pushurl`, `insteadOf` and `pushInsteadOf`, defaults,
//! groups; and a URL turned into a host or a local path as git reads it.

use lazaret_policy::host::Host;

use super::{
    Direction, GitFault,
    repository::{Branch, Origin, Repository, Settings},
};
use crate::{
    classify::{
        hosts::{self, Found, HostFault, Unreadable},
        words::{Roles, Strength},
    },
    facts::HostKind,
};

/// Transports that are part of git. Every other scheme is a program.
const BUILT_IN: [&str; 9] = ["http", "https", "ftp", "ftps", "ssh", "git", "git+ssh", "ssh+git", "file"];
const MOST_DESTINATIONS: usize = 64;

pub(super) enum Destination {
    Host(Found),
    Path(String),
}

pub(super) struct Remotes<'a> {
    pub settings: &'a Settings,
    pub repository: Option<&'a Repository>,
}

impl Remotes<'_> {
    /// The names of all remotes.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _, _) in self.settings.section("remote") {
            if !name.is_empty() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The remotes of `remotes.<group>`.
    pub fn group(&self, name: &str) -> Vec<String> {
        let key = name.to_ascii_lowercase();
        let lists = self.settings.all("remotes", None, &key);
        lists.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }

    /// What git takes when no remote is named. Many tools write `origin` then, so that one counts as well; and all
    /// of them where it cannot be seen which branch is checked out.
    pub fn default(&self, direction: Direction) -> Vec<String> {
        let Some(repository) = self.repository else { return Vec::new() };
        let names = self.names();
        let of_branch = |key: &str| match &repository.branch {
            Branch::Named(branch) => self.settings.last("branch", Some(branch), key).map(str::to_owned),
            Branch::Detached | Branch::Hidden => None,
        };
        if repository.branch == Branch::Hidden {
            return names;
        }
        let mut chosen = match direction {
            Direction::Push => {
                let everywhere = || self.settings.last("remote", None, "pushdefault").map(str::to_owned);
                of_branch("pushremote").or_else(everywhere)
            }
            Direction::Fetch => None,
        };
        chosen = chosen.or_else(|| of_branch("remote"));
        if chosen.is_none() && names.len() == 1 {
            chosen = names.first().cloned();
        }
        let mut chosen: Vec<String> = chosen.into_iter().collect();
        if names.iter().any(|name| name == "origin") && !chosen.iter().any(|name| name == "origin") {
            chosen.push("origin".to_owned());
        }
        chosen
    }

    /// Where this remote leads.
    pub fn destinations(&self, remote: &str, direction: Direction) -> Result<Vec<Destination>, GitFault> {
        if remote.starts_with('-') {
            return Err(GitFault::Option { remote: remote.to_owned() });
        }
        let of_remote =
            |key| self.settings.last("remote", Some(remote), key).filter(|value| !value.is_empty());
        if let Some(helper) = of_remote("vcs") {
            return Err(GitFault::Helper { helper: helper.chars().take(40).collect() });
        }
        let mut urls: Vec<String> = self.urls(remote, direction);
        if urls.is_empty() {
            self.refuse_old_form(remote)?;
            urls = self.rewritten(&[remote.to_owned()], &[], direction);
        }
        let mut destinations = Vec::new();
        for url in urls.iter().take(MOST_DESTINATIONS) {
            destinations.push(self.destination(remote, url, 0)?);
        }
        for proxy in of_remote("proxy").into_iter().chain(self.proxies()) {
            let roles = Roles { url: Some(Strength::Certain), ..Roles::default() };
            let read = hosts::read(proxy, roles).map_err(|fault| unreadable(remote, fault))?;
            destinations.extend(read.hosts.into_iter().map(Destination::Host));
        }
        Ok(destinations)
    }

    fn urls(&self, remote: &str, direction: Direction) -> Vec<String> {
        let values =
            |key| self.settings.all("remote", Some(remote), key).map(str::to_owned).collect::<Vec<_>>();
        let (mut urls, pushurls) = (values("url"), values("pushurl"));
        // An empty one clears those before it in new versions of git and is one more in old ones: then all count.
        let clears = urls.iter().any(String::is_empty);
        urls.retain(|url| !url.is_empty());
        if direction == Direction::Fetch && !clears {
            urls.truncate(1);
        }
        let pushurls: Vec<String> = pushurls.into_iter().filter(|url| !url.is_empty()).collect();
        self.rewritten(&urls, &pushurls, direction)
    }

    /// Git's `alias_all_urls`: `pushInsteadOf` only without a `pushurl`, and then only what it matched is pushed to.
    fn rewritten(&self, urls: &[String], pushurls: &[String], direction: Direction) -> Vec<String> {
        let plain = |url: &String| self.alias(url, "insteadof").unwrap_or_else(|| url.clone());
        if direction == Direction::Push {
            if !pushurls.is_empty() {
                return pushurls.iter().map(plain).collect();
            }
            let pushed: Vec<String> =
                urls.iter().filter_map(|url| self.alias(url, "pushinsteadof")).collect();
            if !pushed.is_empty() {
                return pushed;
            }
        }
        urls.iter().map(plain).collect()
    }

    /// The longest `insteadOf` that begins the URL is replaced.
    fn alias(&self, url: &str, key: &str) -> Option<String> {
        let mut best: Option<(&str, &str)> = None;
        for (base, name, prefix) in self.settings.section("url") {
            if name == key
                && url.starts_with(prefix)
                && best.is_none_or(|(_, known)| known.len() < prefix.len())
            {
                best = Some((base, prefix));
            }
        }
        best.map(|(base, prefix)| format!("{base}{}", url.get(prefix.len()..).unwrap_or_default()))
    }

    /// Git still reads `.git/remotes/NAME` and `.git/branches/NAME`.
    fn refuse_old_form(&self, remote: &str) -> Result<(), GitFault> {
        let Some(repository) = self.repository else { return Ok(()) };
        let plain = !remote.contains('/') && !matches!(remote, "." | "..");
        let exists = |kind: &str| repository.common.join(kind).join(remote).exists();
        if plain && (exists("remotes") || exists("branches")) {
            return Err(GitFault::OldRemote { remote: remote.to_owned() });
        }
        Ok(())
    }

    /// `http.proxy` and `http.<url>.proxy`: bytes go there first.
    fn proxies(&self) -> impl Iterator<Item = &str> {
        let proxies =
            self.settings.section("http").filter(|(_, key, value)| *key == "proxy" && !value.is_empty());
        proxies.map(|(_, _, value)| value)
    }

    fn destination(&self, remote: &str, url: &str, nested: usize) -> Result<Destination, GitFault> {
        let long = || remote.chars().take(100).collect::<String>();
        let broken = |fault| GitFault::Host { remote: long(), fault };
        if url.starts_with('-') {
            return Err(GitFault::Option { remote: long() });
        }
        if url.contains(['\u{fffd}', '\0']) {
            return Err(GitFault::NotText { remote: long() });
        }
        if let Some((helper, rest)) = helper_of(url) {
            return match BUILT_IN.contains(&helper) && nested == 0 {
                true => self.destination(remote, rest, nested + 1),
                false => Err(GitFault::Helper { helper: helper.chars().take(40).collect() }),
            };
        }
        if let Some((scheme, _)) = url.split_once("://") {
            let scheme = scheme.to_ascii_lowercase();
            if !BUILT_IN.contains(&scheme.as_str()) {
                return Err(GitFault::Helper { helper: scheme.chars().take(40).collect() });
            }
            if scheme == "file" {
                let path = url.get("file://".len()..).unwrap_or_default();
                return Ok(Destination::Path(path.to_owned()));
            }
            self.refuse_programs(&scheme)?;
            let read = hosts::read(url, Roles::default()).map_err(|fault| unreadable(&long(), fault))?;
            let found = read.hosts.into_iter().next();
            let found =
                found.ok_or_else(|| broken(HostFault::Host(lazaret_policy::host::HostError::Empty)))?;
            if found.host.starts_with('-') {
                return Err(GitFault::Option { remote: long() });
            }
            return Ok(Destination::Host(found));
        }
        let Some(host) = scp_host(url) else { return Ok(Destination::Path(url.to_owned())) };
        self.refuse_programs("ssh")?;
        if host.starts_with('-') {
            return Err(GitFault::Option { remote: long() });
        }
        let host = Host::parse(host).map_err(|error| broken(HostFault::Host(error)))?.to_string();
        let given = hosts::without_credentials(&format!("ssh://{host}"));
        let scheme = Some("ssh".to_owned());
        Ok(Destination::Host(Found { given, host, port: Some(22), scheme, kind: HostKind::GitFetch }))
    }

    /// A program of the user's own choice is trusted to lead where the URL says; one that the repository brings along
    /// is not.
    fn refuse_programs(&self, scheme: &str) -> Result<(), GitFault> {
        let of_repository = |key: &str| {
            self.settings.with_origin("core", None, key).any(|(origin, _)| origin == Origin::Repository)
        };
        match scheme {
            "ssh" | "git+ssh" | "ssh+git" if of_repository("sshcommand") => {
                Err(GitFault::Program { key: "core.sshCommand" })
            }
            "git" if of_repository("gitproxy") => Err(GitFault::Program { key: "core.gitProxy" }),
            _ => Ok(()),
        }
    }
}

fn unreadable(remote: &str, fault: Unreadable) -> GitFault {
    let fault = match fault {
        Unreadable::Host(fault) => fault,
        Unreadable::Path(_) => HostFault::Ambiguous,
    };
    GitFault::Host { remote: remote.chars().take(100).collect(), fault }
}

/// `helper::address`.
fn helper_of(url: &str) -> Option<(&str, &str)> {
    let (helper, rest) = url.split_once("::")?;
    let well_formed = helper.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
    (well_formed && !helper.is_empty()).then_some((helper, rest))
}

/// The host of `[user@]host:path`: a colon before any slash. `[host:port]:path` and `[::1]:path` are possible.
fn scp_host(url: &str) -> Option<&str> {
    let bracketed = url.split_once('@').map_or(url, |(_, rest)| rest);
    if let Some(inner) = bracketed.strip_prefix('[').or_else(|| url.strip_prefix('[')) {
        let (inner, _) = inner.split_once("]:")?;
        let inner = inner.rsplit('@').next().unwrap_or_default();
        // `host:port`, where `::1` has more colons than one.
        return Some(match inner.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => inner,
        });
    }
    let (before, _) = url.split_once(':')?;
    (!before.contains('/')).then(|| before.rsplit('@').next().unwrap_or_default())
}

/// Is it `[user@]host:path`, with something on both sides?
pub(super) fn is_scp(text: &str) -> bool {
    scp_host(text).is_some_and(|host| !host.is_empty()) && !text.ends_with(':')
}

/// Is it a URL, a path or a helper's address, and not a remote's name?
pub(super) fn is_address(text: &str) -> bool {
    text.contains("://")
        || helper_of(text).is_some()
        || scp_host(text).is_some()
        || text.starts_with(['/', '.', '~'])
}
