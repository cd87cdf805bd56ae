//! Which changes a commit applies, and which it leaves for later or for ever.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::change::{Change, Changes, What};

/// What to do with changes that act on the next run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistent {
    /// They stay in the transaction.
    #[default]
    LeaveOut,
    Include,
}

/// What to do when the host has changed under some of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contested {
    /// Nothing at all is applied.
    #[default]
    Refuse,
    /// They stay in the transaction, and the others are applied.
    LeaveOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitOptions {
    pub persistent: Persistent,
    pub contested: Contested,
}

/// The changes by number; each is in one of the lists.
#[derive(Debug, Default)]
pub struct Selection {
    pub apply: Vec<usize>,
    pub left: Vec<usize>,
    pub never: Vec<usize>,
}

/// `contested` are the changes that cannot be applied now.
pub fn select(changes: &Changes, options: CommitOptions, contested: &HashSet<usize>) -> Selection {
    let never = never(changes);
    let mut left: Vec<bool> = match options.persistent {
        Persistent::LeaveOut => changes.iter().map(|change| change.persistence.is_some()).collect(),
        Persistent::Include => vec![false; changes.len()],
    };
    for (number, left) in left.iter_mut().enumerate() {
        *left |= contested.contains(&number);
    }
    hold_back_dependents(&changes.0, &mut left);
    let mut selection = Selection::default();
    for (number, (never, left)) in never.into_iter().zip(left).enumerate() {
        match (never, left) {
            (true, _) => selection.never.push(number),
            (false, true) => selection.left.push(number),
            (false, false) => selection.apply.push(number),
        }
    }
    selection
}

/// The same selection as an interrupted commit made.
pub fn reselect(changes: &Changes, left_out: &[u32]) -> Selection {
    let left_out: HashSet<usize> = left_out.iter().map(|number| *number as usize).collect();
    let mut selection = Selection::default();
    for (number, never) in never(changes).into_iter().enumerate() {
        match (left_out.contains(&number), never) {
            (false, _) => selection.apply.push(number),
            (true, true) => selection.never.push(number),
            (true, false) => selection.left.push(number),
        }
    }
    selection
}

fn never(changes: &Changes) -> Vec<bool> {
    let mut never = changes.iter().map(|change| change.refused.is_some()).collect::<Vec<_>>();
    hold_back_dependents(&changes.0, &mut never);
    never
}

/// What is below a held back directory cannot be made, and a directory of which something stays cannot go.
fn hold_back_dependents(changes: &[Change], held: &mut [bool]) {
    if !held.contains(&true) {
        return;
    }
    let by_path: HashMap<&Path, usize> =
        changes.iter().enumerate().map(|(number, change)| (change.path.as_path(), number)).collect();
    loop {
        let before = held.iter().filter(|held| **held).count();
        let mut closed: HashSet<&Path> = HashSet::new();
        for (change, held) in changes.iter().zip(held.iter_mut()) {
            // Directories come before what is in them, so one look at the parent is enough.
            let inherited = change.path.parent().is_some_and(|parent| closed.contains(parent));
            *held |= inherited;
            if inherited || (*held && (change.makes_directory() || change.what == What::TypeChanged)) {
                closed.insert(&change.path);
            }
        }
        for (number, change) in changes.iter().enumerate() {
            if held.get(number) != Some(&true) || change.what == What::Created {
                continue;
            }
            for above in change.path.ancestors().skip(1) {
                let Some((other, at)) = by_path.get(above).and_then(|at| Some((changes.get(*at)?, *at)))
                else {
                    break;
                };
                if !other.removes_directory() {
                    break;
                }
                if let Some(held) = held.get_mut(at) {
                    *held = true;
                }
            }
        }
        if held.iter().filter(|held| **held).count() == before {
            return;
        }
    }
}
