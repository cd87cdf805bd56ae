//! The changes in short, as a table for people and as JSON for programs.

use std::fmt;

use serde::Serialize;

use crate::change::{Change, Clash, Conflict, Node, What};
use crate::diff::{Comparison, DiffOptions, Reader};
use crate::escape;
use crate::id::TransactionId;
use crate::transaction::Transaction;

/// Under which heading a change is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Section {
    /// A commit applies it.
    Plain,
    /// A commit applies it only when it is asked to.
    Persistent,
    /// The host has changed: no commit until that is solved.
    Conflict,
    Refused,
}

impl Section {
    pub(crate) fn of(change: &Change, conflict: Option<&Conflict>) -> Self {
        if change.refused.is_some() {
            Section::Refused
        } else if conflict.is_some() {
            Section::Conflict
        } else if change.persistence.is_some() {
            Section::Persistent
        } else {
            Section::Plain
        }
    }

    pub(crate) fn heading(self) -> Option<&'static str> {
        match self {
            Section::Plain => None,
            Section::Persistent => Some("acts on the next run:"),
            Section::Conflict => Some("changed on the host meanwhile:"),
            Section::Refused => Some("never applied:"),
        }
    }
}

/// One change and how much of it there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    #[serde(flatten)]
    pub change: Change,
    pub section: Section,
    /// Lines, where both sides are text that is not too long to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lines {
    pub added: usize,
    pub removed: usize,
}

/// All changes of a transaction, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub id: TransactionId,
    pub entries: Vec<Entry>,
    /// What stands against a commit now.
    pub conflicts: Vec<Clash>,
}

impl Summary {
    pub(crate) fn of(transaction: &Transaction, options: DiffOptions) -> Self {
        let mut reader = Reader::new(transaction, options);
        let mut entries = Vec::with_capacity(transaction.changes().len());
        let mut conflicts = Vec::new();
        for (section, number, conflict) in reader.order() {
            let Some(change) = transaction.changes().0.get(number) else { continue };
            let mut change = change.clone();
            if let Some(conflict) = conflict {
                conflicts.push(Clash { path: change.path.clone(), conflict: conflict.clone() });
                change.conflict = Some(conflict);
            }
            let lines = match reader.compare(&change) {
                Comparison::Text { old, new } => Some(reader.count(&old, &new)),
                _ => None,
            };
            entries.push(Entry { change, section, lines });
        }
        Self { id: transaction.id(), entries, conflicts }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = Section::Plain;
        let (mut added, mut removed) = (0, 0);
        for entry in &self.entries {
            if entry.section != section {
                section = entry.section;
                writeln!(f, "{}", section.heading().unwrap_or_default())?;
            }
            let change = &entry.change;
            write!(f, " {} {}", letter(change), escape::name(&change.path))?;
            if let Some(lines) = entry.lines {
                added += lines.added;
                removed += lines.removed;
                write!(f, " | +{} -{}", lines.added, lines.removed)?;
            } else if let Some(Node::File { size, .. }) = change.node {
                write!(f, " | {size} bytes")?;
            }
            if change.stripped != 0 {
                write!(f, " | without bits {:04o}", change.stripped)?;
            }
            match (change.refused, &change.conflict, change.persistence) {
                (Some(refusal), _, _) => writeln!(f, " ({refusal})")?,
                (None, Some(conflict), _) => writeln!(f, " ({conflict})")?,
                (None, None, Some(reason)) => writeln!(f, " ({reason})")?,
                (None, None, None) => writeln!(f)?,
            }
        }
        let count = self.entries.len();
        let noun = if count == 1 { "change" } else { "changes" };
        writeln!(f, "{count} {noun}, {added} lines added, {removed} removed")
    }
}

fn letter(change: &Change) -> char {
    match change.what {
        What::Created => 'A',
        What::Modified => 'M',
        What::Deleted => 'D',
        What::ModeChanged => 'P',
        What::TypeChanged => 'T',
    }
}
