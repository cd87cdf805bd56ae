//! Where a git repository would connect to: the remote of a call, by name, by default or as a URL, turned into URLs as
//! git does, from the repository's own configuration, which the agent may have written. Starts no git.
//!
//! What git would *run* (hooks, filters, credential helpers) is not looked for: that runs in the server's sandbox.

pub mod config;
mod options;
mod remotes;
mod repository;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    hosts::{Found, HostFault},
    surroundings::{Lookups, Surroundings},
    words::words,
};
use crate::{
    call::Call,
    facts::{HostKind, PathFact},
};
use options::Said;
use remotes::{Destination, Remotes};
use repository::{Repository, Settings};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitFault {
    #[error("`{file}` cannot be read", file = file.display())]
    Unreadable { file: PathBuf },
    #[error("`{file}` is larger than 1 MiB", file = file.display())]
    TooLarge { file: PathBuf },
    #[error("line {line} of `{file}` is no configuration that git would take", file = file.display())]
    Config { file: PathBuf, line: usize },
    #[error("the configuration includes too many files, or itself")]
    TooManyIncludes,
    #[error("its arguments name more than 8 repositories; make several calls of it")]
    TooManyRepositories,
    #[error("`{file}` includes a file whose place is not clear; write its whole path", file = file.display())]
    Include { file: PathBuf },
    #[error(
        "`{file}` is included under a condition and changes remotes; put these settings into the repository's own \
         configuration",
        file = file.display()
    )]
    ConditionalInclude { file: PathBuf },
    #[error(
        "remote `{remote}` is given by an old file under `remotes` or `branches` of the repository; use a URL"
    )]
    OldRemote { remote: String },
    #[error("git would run the program `git-remote-{helper}` for it; use https:// or ssh://")]
    Helper { helper: String },
    #[error("remote `{remote}` begins with `-` and would be taken for an option")]
    Option { remote: String },
    #[error(
        "option `{option}` can lead git to another place or have it run another program; leave it out, and name the \
         remote"
    )]
    FreeOption { option: String },
    #[error("its arguments name more than 64 addresses; make several calls of it")]
    TooManyAddresses,
    #[error("the URL of remote `{remote}` is not text")]
    NotText { remote: String },
    #[error(
        "the repository's own configuration sets `{key}`, so another program decides where it leads; unset it"
    )]
    Program { key: &'static str },
    #[error("remote `{remote}` cannot be looked up, since the repository is not to be read here; use a URL")]
    NoLookup { remote: String },
    #[error("remote `{remote}` leads to no host: {fault}")]
    Host { remote: String, fault: HostFault },
}

const MOST_REPOSITORIES: usize = 8;
/// How many words of a command are looked through for what it does.
const MOST_WORDS: usize = 64;

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Fetch,
    Push,
}

impl Direction {
    fn kind(self) -> HostKind {
        match self {
            Direction::Fetch => HostKind::GitFetch,
            Direction::Push => HostKind::GitPush,
        }
    }
}

/// What a call does with remotes.
#[derive(Debug, Default)]
struct Errand {
    directions: Vec<Direction>,
    /// The remote as it was given, with its argument.
    remotes: Vec<(String, String)>,
    every_remote: bool,
    /// Addresses and words among arguments that are not for remotes: they come on top.
    addresses: Vec<(String, String)>,
    words: Vec<String>,
    /// The tool calls itself git's, or has an argument for a remote.
    is_git: bool,
    makes_repository: bool,
}

/// A host or a local directory that git would connect to.
#[derive(Debug)]
pub(super) enum Connection {
    Host {
        argument: String,
        found: Found,
    },
    /// Relative to the repository, if not absolute.
    Path {
        argument: String,
        given: String,
        base: PathBuf,
        kind: HostKind,
    },
}

/// Everything that git would connect to for this call. `paths` are the directories among its arguments.
pub(super) fn connections(
    call: &Call<'_>,
    paths: &[PathFact],
    surroundings: &Surroundings,
) -> Result<Vec<Connection>, GitFault> {
    let mut errand = Errand::of(call);
    if errand.directions.is_empty() {
        return Ok(Vec::new());
    }
    let repositories = match surroundings.lookups {
        Lookups::Files => errand.repositories(paths, surroundings)?,
        Lookups::Nothing => Vec::new(),
    };
    // A tool called `fetch` that has nothing to do with a repository.
    if !errand.is_git && repositories.is_empty() {
        return Ok(Vec::new());
    }
    errand.look_at_options(call)?;
    let mut connections = Vec::new();
    for (argument, repository) in &repositories {
        let remotes = Remotes { settings: &repository.settings, repository: Some(repository) };
        errand.connect(&remotes, &repository.directory, argument, &mut connections)?;
    }
    if repositories.is_empty() {
        let settings = match surroundings.lookups {
            Lookups::Files => Settings::of_user(&surroundings.git_configs, surroundings.home.as_deref())?,
            Lookups::Nothing => Settings::default(),
        };
        let by_name = errand.remotes.iter().find(|(_, remote)| !remotes::is_address(remote));
        if let (Lookups::Nothing, Some((_, remote))) = (surroundings.lookups, by_name) {
            return Err(GitFault::NoLookup { remote: remote.chars().take(100).collect() });
        }
        let remotes = Remotes { settings: &settings, repository: None };
        errand.connect(&remotes, &surroundings.working_directory, "", &mut connections)?;
    }
    Ok(connections)
}

impl Errand {
    fn of(call: &Call<'_>) -> Errand {
        let mut errand = Errand::default();
        let mut name = words(&call.tool.name);
        let has_git = |words: &[String]| words.iter().any(|word| word == "git");
        errand.is_git = has_git(&name) || has_git(&words(&call.tool.server));
        for (argument, value) in call.arguments {
            let argument_words = words(argument);
            match argument_words.as_slice() {
                // What a tool for all of git's commands is to do.
                [one]
                    if matches!(
                        one.as_str(),
                        "command" | "subcommand" | "action" | "operation" | "args" | "argv" | "mode"
                    ) =>
                {
                    name.extend(
                        texts(value)
                            .flat_map(|text| text.split_whitespace().take(MOST_WORDS))
                            .map(|word| word.trim_matches(['\'', '"']).to_lowercase()),
                    );
                }
                [one] if one == "all" && *value == Value::Bool(true) => errand.every_remote = true,
                [.., last] => {
                    let says_remote = argument_words.iter().any(|word| word == "remote");
                    let is_remote = matches!(last.as_str(), "remote" | "remotes" | "upstream")
                        || says_remote && matches!(last.as_str(), "name" | "url" | "repository");
                    let is_address = matches!(last.as_str(), "url" | "urls" | "uri" | "repository" | "repo");
                    if is_remote || is_address {
                        for text in texts(value).filter(|text| !text.is_empty()) {
                            if is_remote || remotes::is_address(text) {
                                errand.remotes.push((format!("/{}", escaped(argument)), text.to_owned()));
                            }
                        }
                    }
                    errand.is_git |= is_remote && value.is_string();
                }
                [] => {}
            }
        }
        errand.choose(&name);
        errand
    }

    /// Arguments without a name that says more: options that lead elsewhere are refused, addresses are remotes.
    fn look_at_options(&mut self, call: &Call<'_>) -> Result<(), GitFault> {
        let mut said = Said { clones: self.makes_repository, ..Said::default() };
        for (argument, value) in call.arguments {
            let pointer = format!("/{}", escaped(argument));
            // A remote has no blanks, so what has some may be more than one word for the server.
            let several = || texts(value).any(|text| text.contains(char::is_whitespace));
            if several() || !self.remotes.iter().any(|(known, _)| *known == pointer) {
                said.look(&pointer, argument, value)?;
            }
        }
        self.addresses = said.remotes;
        self.words = said.words;
        self.every_remote |= said.every_remote && self.directions.contains(&Direction::Fetch);
        Ok(())
    }

    fn choose(&mut self, words: &[String]) {
        let has = |word: &str| words.iter().any(|it| it == word);
        // A pull request is made on a server, not by git.
        let request = has("request") || has("requests");
        if has("push") {
            self.directions.push(Direction::Push);
        }
        self.makes_repository = has("clone");
        if has("fetch")
            || has("clone")
            || has("ls-remote")
            || has("ls") && has("remote")
            || has("submodule")
            || has("pull") && !request
        {
            self.directions.push(Direction::Fetch);
        }
        let lists_only = has("list") || has("get") || has("show");
        if self.directions.is_empty() && !self.remotes.is_empty() && self.is_git && !lists_only {
            self.directions = vec![Direction::Fetch, Direction::Push];
        }
    }

    /// The repositories that the call may be about, and the arguments that say so.
    fn repositories(
        &self,
        paths: &[PathFact],
        surroundings: &Surroundings,
    ) -> Result<Vec<(String, Repository)>, GitFault> {
        let mut found: Vec<(String, Repository)> = Vec::new();
        if self.makes_repository {
            return Ok(found);
        }
        let named = paths.iter().map(|fact| (fact.argument.as_str(), fact.resolved.as_path()));
        let mut add = |argument: &str, directory: &Path| -> Result<(), GitFault> {
            let is_new = |seen: &(String, Repository)| seen.1.directory != *directory;
            if !directory.is_dir() || !found.iter().all(is_new) {
                return Ok(());
            }
            let configs = &surroundings.git_configs;
            let repository = Repository::find(directory, configs, surroundings.home.as_deref())?;
            let known = |repository: &Repository| {
                found.iter().any(|(_, seen)| seen.directory == repository.directory)
            };
            if let Some(repository) = repository.filter(|repository| !known(repository)) {
                if found.len() == MOST_REPOSITORIES {
                    return Err(GitFault::TooManyRepositories);
                }
                found.push((argument.to_owned(), repository));
            }
            Ok(())
        };
        for (argument, directory) in named {
            add(argument, directory)?;
        }
        if found.is_empty() && self.is_git {
            let configs = &surroundings.git_configs;
            let here = &surroundings.working_directory;
            let repository = Repository::find(here, configs, surroundings.home.as_deref())?;
            found.extend(repository.map(|repository| (String::new(), repository)));
        }
        Ok(found)
    }

    fn connect(
        &self,
        remotes: &Remotes<'_>,
        base: &Path,
        argument: &str,
        connections: &mut Vec<Connection>,
    ) -> Result<(), GitFault> {
        for direction in &self.directions {
            for (argument, remote) in self.chosen(remotes, *direction, argument) {
                for destination in remotes.destinations(&remote, *direction)? {
                    let argument = argument.clone();
                    connections.push(match destination {
                        Destination::Host(found) => {
                            Connection::Host { argument, found: Found { kind: direction.kind(), ..found } }
                        }
                        Destination::Path(given) => Connection::Path {
                            argument,
                            given,
                            base: base.to_owned(),
                            kind: direction.kind(),
                        },
                    });
                }
            }
        }
        Ok(())
    }

    /// The remotes that were asked for, or those that git takes when none was.
    fn chosen(&self, remotes: &Remotes<'_>, direction: Direction, at: &str) -> Vec<(String, String)> {
        let mut chosen: Vec<(String, String)> = Vec::new();
        if self.every_remote {
            chosen.extend(remotes.names().into_iter().map(|name| (at.to_owned(), name)));
        }
        for (argument, remote) in &self.remotes {
            let group = remotes.group(remote);
            match group.is_empty() {
                true => chosen.push((argument.clone(), remote.clone())),
                false => chosen.extend(group.into_iter().map(|name| (argument.clone(), name))),
            }
        }
        if chosen.is_empty() {
            chosen.extend(remotes.default(direction).into_iter().map(|name| (at.to_owned(), name)));
        }
        let names = if self.words.is_empty() { Vec::new() } else { remotes.names() };
        let is_remote = |word: &&String| names.contains(word) || !remotes.group(word).is_empty();
        for word in self.words.iter().filter(is_remote) {
            let group = remotes.group(word);
            let names = if group.is_empty() { vec![word.clone()] } else { group };
            chosen.extend(names.into_iter().map(|name| (at.to_owned(), name)));
        }
        chosen.extend(self.addresses.iter().cloned());
        let mut seen = Vec::new();
        chosen.retain(|one| {
            let is_new = !seen.contains(one);
            seen.push(one.clone());
            is_new
        });
        chosen
    }
}

/// An argument's name in a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let many = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value.as_str().into_iter().chain(many.iter().filter_map(Value::as_str))
}

#[cfg(test)]
mod tests;
