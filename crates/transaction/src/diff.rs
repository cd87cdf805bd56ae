//! The changes as a unified diff, as git writes it. Contents are read when the text is written, one file at
//! a time, so that a large transaction takes no more memory than a small one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use similar::{ChangeTag, TextDiff};

use crate::change::{Change, Conflict, Kind, Node, What};
use crate::check::{self, Roots};
use crate::copy;
use crate::escape;
use crate::store::FILES;
use crate::summary::{Lines, Section};
use crate::transaction::Transaction;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// Lines around a change.
    pub context: usize,
    /// The largest file that is compared line by line; of others the size is told.
    pub largest: u64,
    /// How long one file may take: two hostile files can be made to take for ever.
    pub patience: Duration,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { context: 3, largest: 1 << 20, patience: Duration::from_millis(500) }
    }
}

/// A diff to be written with `{}`.
pub struct Diff<'a> {
    transaction: &'a Transaction,
    options: DiffOptions,
    reader: RefCell<Reader<'a>>,
}

impl<'a> Diff<'a> {
    pub(crate) fn new(transaction: &'a Transaction, options: DiffOptions) -> Self {
        Self { transaction, options, reader: RefCell::new(Reader::new(transaction, options)) }
    }
}

/// Both sides of a changed file.
pub(crate) enum Comparison {
    Text {
        old: String,
        new: String,
    },
    Binary {
        old: Option<u64>,
        new: Option<u64>,
    },
    /// No file on either side, or none whose content changed.
    Nothing,
}

/// Reads both sides: the host's, and the kept one.
pub(crate) struct Reader<'a> {
    transaction: &'a Transaction,
    options: DiffOptions,
    roots: Roots,
    files: Option<OwnedFd>,
}

enum Side {
    Absent,
    Text(Vec<u8>),
    Binary(u64),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(transaction: &'a Transaction, options: DiffOptions) -> Self {
        let path = PathBuf::from(transaction.id().to_string()).join(FILES);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let files = rustix::fs::openat(transaction.store.fd(), &path, flags, Mode::empty()).ok();
        Self { transaction, options, roots: Roots::open(&transaction.record().trees), files }
    }

    /// The changes by section, each section sorted by path, with what stands against them now.
    pub(crate) fn order(&self) -> Vec<(Section, usize, Option<Conflict>)> {
        let record = self.transaction.record();
        let changes = &record.changes.0;
        let numbers: Vec<usize> = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| change.refused.is_none())
            .map(|(number, _)| number)
            .collect();
        let clashes = check::check(record, &numbers, &self.roots);
        let mut clashes: HashMap<usize, Conflict> =
            clashes.into_iter().map(|(number, clash)| (number, clash.conflict)).collect();
        let mut order: Vec<_> = changes
            .iter()
            .enumerate()
            .map(|(number, change)| {
                let conflict = clashes.remove(&number);
                (Section::of(change, conflict.as_ref()), number, conflict)
            })
            .collect();
        order.sort_by(|(section, number, _), (other_section, other, _)| {
            let path = |number: &usize| changes.get(*number).map(|change| change.path.as_path());
            section.cmp(other_section).then_with(|| path(number).cmp(&path(other)))
        });
        order
    }

    pub(crate) fn compare(&mut self, change: &Change) -> Comparison {
        if change.what == What::ModeChanged {
            return Comparison::Nothing;
        }
        match (self.old(change), self.new_side(change)) {
            (Side::Absent, Side::Absent) => Comparison::Nothing,
            (Side::Binary(old), new) => Comparison::Binary { old: Some(old), new: length(&new) },
            (old, Side::Binary(new)) => Comparison::Binary { old: length(&old), new: Some(new) },
            (old, new) => Comparison::Text { old: text(old), new: text(new) },
        }
    }

    pub(crate) fn count(&self, old: &str, new: &str) -> Lines {
        let diff = TextDiff::configure().timeout(self.options.patience).diff_lines(old, new);
        let mut lines = Lines { added: 0, removed: 0 };
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => lines.added += 1,
                ChangeTag::Delete => lines.removed += 1,
                ChangeTag::Equal => {}
            }
        }
        lines
    }

    fn old(&self, change: &Change) -> Side {
        let Some(object) = change.base.object().filter(|object| object.kind == Kind::File) else {
            return Side::Absent;
        };
        let mut ways = self.roots.parents();
        let opened = ways.to(change).ok().and_then(|(parent, name)| copy::open_regular(parent, name).ok());
        self.side(opened.map(|(file, _)| file), object.size)
    }

    fn new_side(&self, change: &Change) -> Side {
        let Some(Node::File { size, content, .. }) = change.node else { return Side::Absent };
        let opened = content
            .zip(self.files.as_ref())
            .and_then(|(number, files)| copy::open_own(files.as_fd(), number.to_string().as_str()).ok());
        self.side(opened.map(|(file, _)| file), size)
    }

    /// A file that cannot be read is shown as its size.
    fn side(&self, file: Option<OwnedFd>, size: u64) -> Side {
        let Some(file) = file.filter(|_| size <= self.options.largest) else { return Side::Binary(size) };
        let mut bytes = Vec::new();
        let limit = self.options.largest.saturating_add(1);
        match std::fs::File::from(file).take(limit).read_to_end(&mut bytes) {
            Ok(n) if n as u64 <= self.options.largest && !bytes.contains(&0) => Side::Text(bytes),
            _ => Side::Binary(size),
        }
    }
}

fn length(side: &Side) -> Option<u64> {
    match side {
        Side::Absent => None,
        Side::Text(bytes) => Some(bytes.len() as u64),
        Side::Binary(size) => Some(*size),
    }
}

fn text(side: Side) -> String {
    match side {
        Side::Text(bytes) => escape::content(&bytes),
        Side::Absent | Side::Binary(_) => String::new(),
    }
}

impl fmt::Display for Diff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reader = self.reader.borrow_mut();
        let mut last = Section::Plain;
        for (section, number, conflict) in reader.order() {
            let Some(change) = self.transaction.changes().0.get(number) else { continue };
            if section != last {
                last = section;
                writeln!(f, "{}", section.heading().unwrap_or_default())?;
            }
            self.change(f, &mut reader, change, conflict.as_ref())?;
        }
        Ok(())
    }
}

impl Diff<'_> {
    fn change(
        &self,
        f: &mut fmt::Formatter<'_>,
        reader: &mut Reader<'_>,
        change: &Change,
        conflict: Option<&Conflict>,
    ) -> fmt::Result {
        let directory = &self.transaction.origin().directory;
        let shown = change.path.strip_prefix(directory).ok().filter(|below| !below.as_os_str().is_empty());
        let shown = shown.or_else(|| change.path.strip_prefix("/").ok()).unwrap_or(&change.path);
        let (a, b) = (escape::name(&Path::new("a").join(shown)), escape::name(&Path::new("b").join(shown)));
        writeln!(f, "diff --git {a} {b}")?;
        if let Some(refusal) = change.refused {
            writeln!(f, "refused: {refusal}")?;
        }
        if let Some(conflict) = conflict {
            writeln!(f, "conflict: {conflict}")?;
        }
        if let Some(reason) = change.persistence {
            writeln!(f, "persistent: {reason}")?;
        }
        modes(f, change)?;
        if change.refused.is_none() || matches!(change.node, Some(Node::Symlink { .. })) {
            self.body(f, reader, change, &a, &b)?;
        }
        Ok(())
    }

    fn body(
        &self,
        f: &mut fmt::Formatter<'_>,
        reader: &mut Reader<'_>,
        change: &Change,
        a: &str,
        b: &str,
    ) -> fmt::Result {
        if let Some(Node::Symlink { target }) = &change.node {
            writeln!(f, "link to {}", escape::name(target))?;
        }
        let comparison = reader.compare(change);
        let absent = "/dev/null";
        let before = if change.base.kind() == Some(Kind::File) { a } else { absent };
        let after = if matches!(change.node, Some(Node::File { .. })) { b } else { absent };
        match comparison {
            Comparison::Nothing => Ok(()),
            Comparison::Binary { old, new } => {
                let size = |size: Option<u64>| {
                    size.map_or_else(|| "absent".to_owned(), |size| format!("{size} bytes"))
                };
                let name = if after == absent { a } else { b };
                writeln!(f, "Binary file {name} changed ({} → {})", size(old), size(new))
            }
            Comparison::Text { old, new } => {
                let diff = TextDiff::configure()
                    .timeout(self.options.patience)
                    .diff_lines(old.as_str(), new.as_str());
                let mut unified = diff.unified_diff();
                unified.context_radius(self.options.context);
                let mut hunks = unified.iter_hunks().peekable();
                if hunks.peek().is_some() {
                    writeln!(f, "--- {before}\n+++ {after}")?;
                } else if old.len() + new.len() > 0 {
                    writeln!(f, "Files differ only in bytes that are shown alike")?;
                }
                hunks.try_for_each(|hunk| write!(f, "{hunk}"))
            }
        }
    }
}

fn modes(f: &mut fmt::Formatter<'_>, change: &Change) -> fmt::Result {
    let old = change.base.object();
    let new = change.node.as_ref().map(|node| (word(node), change.mode));
    match (old, new) {
        (None, Some((word, mode))) => writeln!(f, "new {word} mode {mode:04o}")?,
        (Some(old), None) => writeln!(f, "deleted {} mode {:04o}", old_word(old.kind), old.mode)?,
        (Some(old), Some((word, mode))) if change.what == What::TypeChanged => {
            writeln!(f, "{} becomes {word} mode {mode:04o}", old_word(old.kind))?;
        }
        (Some(old), Some((_, mode))) if old.kind != Kind::Symlink && old.mode != mode => {
            writeln!(f, "old mode {:04o}\nnew mode {mode:04o}", old.mode)?;
        }
        _ => {}
    }
    if change.stripped != 0 {
        writeln!(f, "without bits {:04o}", change.stripped)?;
    }
    Ok(())
}

fn word(node: &Node) -> &'static str {
    match node {
        Node::File { .. } => "file",
        Node::Directory => "directory",
        Node::Symlink { .. } => "link",
        Node::Fifo => "fifo",
        Node::Special => "special file",
    }
}

fn old_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        Kind::Fifo => "fifo",
        Kind::Other => "special file",
    }
}
