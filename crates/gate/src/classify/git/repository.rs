//! A repository's configuration, put together from its files as git would: found upwards from a directory, through
//! `.git` files, linked worktrees and includes. Only reads regular files, none of them large.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags};

use super::{
    GitFault,
    config::{Entry, parse},
};

const LARGEST_FILE: u64 = 1 << 20;
/// Git's own limit on includes within includes.
const DEEPEST_INCLUDE: usize = 10;
const MOST_FILES: usize = 64;
const MOST_PARENTS: usize = 64;

/// Who wrote a setting: a repository in the session is written to by the servers themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    Repository,
}

#[derive(Debug, Default)]
pub(super) struct Settings {
    entries: Vec<(Origin, Entry)>,
}

#[derive(Debug)]
pub(super) struct Repository {
    /// Where git runs, and relative remotes begin.
    pub directory: PathBuf,
    pub common: PathBuf,
    pub settings: Settings,
    pub branch: Branch,
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Branch {
    Named(String),
    Detached,
    /// Kept in a form that is not read here.
    Hidden,
}

impl Settings {
    /// The settings that hold everywhere.
    pub fn of_user(files: &[PathBuf], home: Option<&Path>) -> Result<Self, GitFault> {
        let mut settings = Settings::default();
        let mut left = MOST_FILES;
        for file in files {
            settings.add_file(file, home, Origin::User, 0, &mut left)?;
        }
        Ok(settings)
    }

    /// Every value of a key, in order.
    pub fn all<'a>(
        &'a self,
        section: &'a str,
        subsection: Option<&'a str>,
        key: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        self.with_origin(section, subsection, key).map(|(_, value)| value)
    }

    pub fn with_origin<'a>(
        &'a self,
        section: &'a str,
        subsection: Option<&'a str>,
        key: &'a str,
    ) -> impl Iterator<Item = (Origin, &'a str)> {
        let wanted = move |entry: &Entry| {
            entry.section == section && entry.subsection.as_deref() == subsection && entry.key == key
        };
        let matching = self.entries.iter().filter(move |(_, entry)| wanted(entry));
        matching.map(|(origin, entry)| (*origin, entry.value.as_deref().unwrap_or_default()))
    }

    /// The value that holds: the last.
    pub fn last(&self, section: &str, subsection: Option<&str>, key: &str) -> Option<&str> {
        self.entries.iter().rev().find_map(|(_, entry)| {
            let same =
                entry.section == section && entry.subsection.as_deref() == subsection && entry.key == key;
            same.then(|| entry.value.as_deref().unwrap_or_default())
        })
    }

    /// Everything of one section, as (subsection, key, value).
    pub fn section<'a>(&'a self, section: &'a str) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let of_section = self.entries.iter().map(|(_, entry)| entry).filter(move |it| it.section == section);
        of_section.map(|it| {
            (
                it.subsection.as_deref().unwrap_or_default(),
                it.key.as_str(),
                it.value.as_deref().unwrap_or_default(),
            )
        })
    }

    fn add_file(
        &mut self,
        file: &Path,
        home: Option<&Path>,
        origin: Origin,
        depth: usize,
        left: &mut usize,
    ) -> Result<(), GitFault> {
        if *left == 0 || depth > DEEPEST_INCLUDE {
            return Err(GitFault::TooManyIncludes);
        }
        *left -= 1;
        let Some(bytes) = read(file)? else { return Ok(()) };
        let entries =
            parse(&bytes).map_err(|error| GitFault::Config { file: file.to_owned(), line: error.line })?;
        for entry in entries {
            let include = match (entry.section.as_str(), entry.key.as_str()) {
                ("include", "path") if entry.subsection.is_none() => entry.value.clone(),
                ("includeif", "path") => {
                    let target = included(file, entry.value.as_deref().unwrap_or_default(), home)?;
                    conditional(&target, home, left)?;
                    None
                }
                _ => None,
            };
            self.entries.push((origin, entry));
            if let Some(target) = include {
                self.add_file(&included(file, &target, home)?, home, origin, depth + 1, left)?;
            }
        }
        Ok(())
    }
}

/// Whether a condition holds is not worked out. That matters only if the file says something about remotes, and then
/// there is no answer.
fn conditional(file: &Path, home: Option<&Path>, left: &mut usize) -> Result<(), GitFault> {
    let mut settings = Settings::default();
    settings.add_file(file, home, Origin::User, DEEPEST_INCLUDE, left)?;
    let matters = |entry: &Entry| {
        matches!(
            entry.section.as_str(),
            "remote" | "remotes" | "url" | "branch" | "include" | "includeif" | "http"
        ) || entry.section == "core" && matches!(entry.key.as_str(), "sshcommand" | "gitproxy")
            || entry.section == "extensions"
    };
    match settings.entries.iter().any(|(_, entry)| matters(entry)) {
        true => Err(GitFault::ConditionalInclude { file: file.to_owned() }),
        false => Ok(()),
    }
}

fn included(from: &Path, target: &str, home: Option<&Path>) -> Result<PathBuf, GitFault> {
    let unclear = || GitFault::Include { file: from.to_owned() };
    let target = match target.strip_prefix("~/") {
        Some(below) => home.ok_or_else(unclear)?.join(below),
        None if target.starts_with(['~', '%']) || target.contains('\u{fffd}') => return Err(unclear()),
        None => PathBuf::from(target),
    };
    Ok(from.parent().map_or_else(|| target.clone(), |directory| directory.join(&target)))
}

/// The bytes of a file; none when it does not exist. Never waits, whatever lies there.
fn read(file: &Path) -> Result<Option<Vec<u8>>, GitFault> {
    let unreadable = || GitFault::Unreadable { file: file.to_owned() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match rustix::fs::open(file, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(_) => return Err(unreadable()),
    };
    let stat = rustix::fs::fstat(&opened).map_err(|_| unreadable())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(unreadable());
    }
    let mut bytes = Vec::new();
    File::from(opened).take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|_| unreadable())?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(GitFault::TooLarge { file: file.to_owned() });
    }
    Ok(Some(bytes))
}

/// A small file with one line in it.
fn read_line(file: &Path) -> Result<Option<String>, GitFault> {
    let Some(bytes) = read(file)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| GitFault::Unreadable { file: file.to_owned() })?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

impl Repository {
    /// The repository that git would find from `directory`. None when there is none.
    pub fn find(
        directory: &Path,
        git_configs: &[PathBuf],
        home: Option<&Path>,
    ) -> Result<Option<Repository>, GitFault> {
        for parent in directory.ancestors().take(MOST_PARENTS) {
            if let Some(git) = git_directory(parent)? {
                return Repository::open(parent, &git, git_configs, home).map(Some);
            }
        }
        Ok(None)
    }

    fn open(
        directory: &Path,
        git: &Path,
        git_configs: &[PathBuf],
        home: Option<&Path>,
    ) -> Result<Repository, GitFault> {
        let common = match read_line(&git.join("commondir"))? {
            Some(common) => git.join(common),
            None => git.to_owned(),
        };
        let mut settings = Settings::of_user(git_configs, home)?;
        let mut left = MOST_FILES;
        settings.add_file(&common.join("config"), home, Origin::Repository, 0, &mut left)?;
        if settings.last("extensions", None, "worktreeconfig").is_some_and(is_true) {
            settings.add_file(&git.join("config.worktree"), home, Origin::Repository, 0, &mut left)?;
        }
        let elsewhere = settings.last("extensions", None, "refstorage").is_some_and(|kind| kind != "files");
        let branch = match read_line(&git.join("HEAD")) {
            _ if elsewhere => Branch::Hidden,
            Ok(Some(head)) => match head.strip_prefix("ref:").map(str::trim_start) {
                Some(name) => match name.strip_prefix("refs/heads/") {
                    Some(branch) => Branch::Named(branch.to_owned()),
                    None => Branch::Detached,
                },
                None => Branch::Detached,
            },
            // A link in old repositories.
            Ok(None) | Err(_) => Branch::Hidden,
        };
        Ok(Repository { directory: directory.to_owned(), common, settings, branch })
    }
}

/// The `.git` of a directory: a directory, or a file that says where it is; or the directory itself if it is bare.
fn git_directory(directory: &Path) -> Result<Option<PathBuf>, GitFault> {
    let git = directory.join(".git");
    match std::fs::metadata(&git) {
        Ok(found) if found.is_dir() => return Ok(Some(git)),
        Ok(found) if found.is_file() => {
            let line = read_line(&git)?.unwrap_or_default();
            let target = line.strip_prefix("gitdir: ");
            let target = target.ok_or_else(|| GitFault::Unreadable { file: git.clone() })?;
            return Ok(Some(directory.join(target)));
        }
        Ok(_) => return Err(GitFault::Unreadable { file: git }),
        Err(_) => {}
    }
    let bare = ["objects", "refs"].iter().all(|name| directory.join(name).is_dir());
    Ok((bare && directory.join("HEAD").exists()).then(|| directory.to_owned()))
}

fn is_true(value: &str) -> bool {
    // A key without a value is true, and comes as an empty text; an empty text itself is false, but what is read for
    // it too many does no harm.
    matches!(value.to_ascii_lowercase().as_str(), "" | "true" | "yes" | "on")
        || value.parse::<i64>().is_ok_and(|number| number != 0)
}
