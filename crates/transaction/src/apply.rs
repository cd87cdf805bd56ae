//! Carries changes out, one atomic step each. The same code finishes a commit that was interrupted: what is
//! done already is recognised and skipped.
//!
//! Everything to be renamed lay ready before the journal said `committing`. So a source that is gone was
//! renamed: that is how a finished change is told from one still to do.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::change::{Base, Change, Clash, Conflict, Kind, Node, What};
use crate::check::{self, Roots, Ways, compare, conflict_of, look};
use crate::failpoint;
use crate::keep::owner_of;
use crate::place;
use crate::record::Record;
use crate::stage::Stage;

/// Whether parts of it may have been done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    First,
    Resumed,
}

/// What became of it: what was not possible any more, by number.
#[derive(Debug, Default)]
pub struct Outcome {
    pub skipped: Vec<(usize, Clash)>,
}

pub fn apply(record: &Record, numbers: &[usize], roots: &Roots, stage: &Stage, run: Run) -> Outcome {
    let mut apply = Apply {
        record,
        roots,
        stage,
        run,
        ways: roots.parents(),
        failed: HashSet::new(),
        blocked: HashSet::new(),
        made: HashMap::new(),
        outcome: Outcome::default(),
    };
    let changes = || numbers.iter().filter_map(|number| Some((*number, record.changes.0.get(*number)?)));
    for (number, change) in changes().filter(|(_, change)| check::opens_directory(change)) {
        apply.step(number, change, Apply::set_mode);
    }
    for (number, change) in changes().rev() {
        let in_the_way = change.removes_directory()
            || change.what == What::Deleted
            || (change.what == What::TypeChanged && change.makes_directory());
        if in_the_way {
            apply.step(number, change, Apply::remove);
        }
    }
    apply.ways.forget();
    for (number, change) in changes().filter(|(_, change)| change.makes_directory()) {
        apply.step(number, change, Apply::make_directory);
    }
    apply.ways.forget();
    for (number, change) in changes() {
        apply.step(number, change, Apply::rename);
    }
    // A directory that shuts us out does so after everything in it is done.
    for (number, change) in changes().rev() {
        if change.makes_directory() || change.what == What::ModeChanged {
            apply.step(number, change, Apply::set_mode);
        }
    }
    apply.outcome
}

struct Apply<'a> {
    record: &'a Record,
    roots: &'a Roots,
    stage: &'a Stage,
    run: Run,
    ways: Ways<'a>,
    failed: HashSet<usize>,
    /// Directories that could not be made: nothing is put below their name.
    blocked: HashSet<&'a Path>,
    /// The directories that were made, by identity: a name can be exchanged.
    made: HashMap<usize, (u64, u64)>,
    outcome: Outcome,
}

type Step<'a> = fn(&mut Apply<'a>, usize, &'a Change) -> Result<(), Conflict>;

impl<'a> Apply<'a> {
    fn step(&mut self, number: usize, change: &'a Change, act: Step<'a>) {
        if !self.failed.is_empty() && self.failed.contains(&number) {
            return;
        }
        let below_blocked = !self.blocked.is_empty()
            && change.base == Base::Absent
            && change.path.parent().is_some_and(|parent| self.blocked.contains(parent));
        let result = if below_blocked { Err(Conflict::Parent) } else { act(self, number, change) };
        if let Err(conflict) = result {
            self.failed.insert(number);
            if change.makes_directory() {
                self.blocked.insert(&change.path);
            }
            self.outcome.skipped.push((number, Clash { path: change.path.clone(), conflict }));
        }
    }

    /// Takes away what the host has under the name.
    fn remove(&mut self, number: usize, change: &'a Change) -> Result<(), Conflict> {
        if self.is_renamed(number, change)? {
            return Ok(());
        }
        let run = self.run;
        let (parent, name) = match self.ways.to(change) {
            // The directory it was in went after it, or was replaced by what is there now.
            Err(Conflict::Parent) if run == Run::Resumed => return self.roots.get(change.tree).map(drop),
            other => other?,
        };
        let now = look(parent, name)?;
        match (&now, run) {
            (None, Run::Resumed) => return Ok(()),
            (Some(now), Run::Resumed) if change.makes_directory() && now.kind == Kind::Directory => {
                return Ok(());
            }
            _ => compare(change, now.as_ref())?,
        }
        let flags = match change.base.kind() {
            Some(Kind::Directory) => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        failpoint::step();
        match rustix::fs::unlinkat(parent, name, flags) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Conflict::NotEmpty),
            Err(errno) => Err(conflict_of(errno)),
        }
    }

    fn make_directory(&mut self, number: usize, change: &'a Change) -> Result<(), Conflict> {
        let owner = owner_of(change, self.record.trees.get(change.tree as usize));
        let run = self.run;
        let (parent, name) = self.ways.to(change)?;
        failpoint::step();
        match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) => match look(parent, name)? {
                Some(now) if run == Run::Resumed && now.kind == Kind::Directory => {}
                _ => return Err(Conflict::Appeared),
            },
            Err(errno) => return Err(conflict_of(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(conflict_of)?;
        let stat = rustix::fs::fstat(&directory).map_err(conflict_of)?;
        if run == Run::First {
            // Whoever owns the tree may have put another directory in its place: ours is new and empty.
            let new = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o7777 == 0o700;
            if !new || !place::names(directory.as_fd()).map_err(conflict_of)?.is_empty() {
                return Err(Conflict::Replaced);
            }
        }
        self.made.insert(number, (stat.st_dev, stat.st_ino));
        if let Some((uid, gid)) = owner {
            failpoint::step();
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            rustix::fs::fchown(&directory, uid, gid).map_err(conflict_of)?;
        }
        Ok(())
    }

    /// Whether the new object is in its place already: then its source is gone.
    fn is_renamed(&self, number: usize, change: &Change) -> Result<bool, Conflict> {
        if self.run == Run::First {
            return Ok(false);
        }
        match (&change.node, change.what) {
            (_, What::Deleted | What::ModeChanged) | (None | Some(Node::Directory | Node::Special), _) => {
                Ok(false)
            }
            _ => match self.stage.source(number, change) {
                Some(source) => {
                    Ok(place::look(source.directory, source.name.as_str()).map_err(conflict_of)?.is_none())
                }
                // The staging directory itself is gone: it is removed after everything is done. Where the
                // whole tree is gone, nothing is known.
                None => self.roots.get(change.tree).map(|_| true),
            },
        }
    }

    fn rename(&mut self, number: usize, change: &'a Change) -> Result<(), Conflict> {
        if self.is_renamed(number, change)? {
            return Ok(());
        }
        let Some(source) = self.stage.source(number, change) else { return Ok(()) };
        let run = self.run;
        let (parent, name) = self.ways.to(change)?;
        let replaces = change.base != Base::Absent && !change.removes_directory();
        failpoint::step();
        if replaces {
            compare(change, look(parent, name)?.as_ref())?;
            return rustix::fs::renameat(source.directory, &source.name, parent, name).map_err(conflict_of);
        }
        match rustix::fs::renameat_with(source.directory, &source.name, parent, name, RenameFlags::NOREPLACE)
        {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) if run == Run::Resumed => link_done(&source, parent, name),
            Err(Errno::EXIST) => Err(Conflict::Appeared),
            // A filesystem that cannot promise it (NFS): a link never replaces anything either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::linkat(source.directory, &source.name, parent, name, AtFlags::empty()) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => return Err(Conflict::Appeared),
                    Err(errno) => return Err(conflict_of(errno)),
                }
                failpoint::step();
                rustix::fs::unlinkat(source.directory, &source.name, AtFlags::empty()).map_err(conflict_of)
            }
            Err(errno) => Err(conflict_of(errno)),
        }
    }

    fn set_mode(&mut self, number: usize, change: &'a Change) -> Result<(), Conflict> {
        let (parent, name) = self.ways.to(change)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let object = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(object) => object,
            Err(Errno::NOENT) => return Err(Conflict::Gone),
            Err(errno) => return Err(conflict_of(errno)),
        };
        let now = crate::change::Object::of(&rustix::fs::fstat(&object).map_err(conflict_of)?);
        match change.base.object() {
            _ if change.makes_directory() => {
                let ours = self.made.get(&number).is_none_or(|made| *made == (now.device, now.inode));
                if now.kind != Kind::Directory || !ours {
                    return Err(Conflict::Replaced);
                }
            }
            // By the first pass over directories, or before an interruption.
            Some(old) if old.is(&now) && old.kind == now.kind && now.mode == change.mode => return Ok(()),
            _ => compare(change, Some(&now))?,
        }
        if now.mode == change.mode {
            return Ok(());
        }
        failpoint::step();
        place::set_mode(object.as_fd(), change.mode).map_err(conflict_of)
    }
}

/// The link that stands in for a rename was made, and its source not yet removed.
fn link_done(
    source: &crate::stage::Source<'_>,
    parent: std::os::fd::BorrowedFd<'_>,
    name: &std::ffi::OsStr,
) -> Result<(), Conflict> {
    let from = place::look(source.directory, source.name.as_str()).map_err(conflict_of)?;
    let to = place::look(parent, name).map_err(conflict_of)?;
    match (from, to) {
        (Some(from), Some(to)) if (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino) => {
            rustix::fs::unlinkat(source.directory, &source.name, AtFlags::empty()).map_err(conflict_of)
        }
        _ => Err(Conflict::Appeared),
    }
}
