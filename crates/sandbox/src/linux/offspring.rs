//! Everything that comes from a process, where no pid namespace holds it together: found through /proc, ended
//! until nobody is left.

use std::{collections::HashMap, time::Duration};

use super::sys::{self, Block};

/// So often, a millisecond apart, what is left is looked for.
const ROUNDS: usize = 10_000;

/// Who comes from a process and has not ended yet.
pub fn descendants(top: i32) -> Vec<i32> {
    let Some(by_parent) = children_by_looking_at_everybody_if_needed(top) else {
        return walk(top, children_of);
    };
    walk(top, |pid| by_parent.get(&pid).cloned().unwrap_or_default())
}

/// Ends whoever comes from this process, until nobody does. This process must be the one that orphans come to
/// (a child subreaper, or the first of its pid namespace): then nobody gets away by ending in between.
pub fn end_descendants() {
    let own = std::process::id() as i32;
    for round in 0..ROUNDS {
        descendants(own).into_iter().for_each(|pid| drop(sys::kill(pid, libc::SIGKILL)));
        loop {
            match sys::reap(-1, Block::No) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Nobody is left to wait for.
                Err(_) => return,
            }
        }
        // They have to run once more to end, and what they started comes here only then.
        if round > 2 {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            std::thread::yield_now();
        }
    }
}

fn walk(top: i32, children_of: impl Fn(i32) -> Vec<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut waiting = vec![top];
    while let Some(pid) = waiting.pop() {
        waiting.extend(children_of(pid));
        if pid != top && !has_ended(pid) {
            found.push(pid);
        }
    }
    found
}

/// Its own, ended or not.
pub fn children_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .flat_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

/// A kernel without CONFIG_PROC_CHILDREN tells only who somebody's parent is.
fn children_by_looking_at_everybody_if_needed(top: i32) -> Option<HashMap<i32, Vec<i32>>> {
    if std::fs::exists(format!("/proc/{top}/task/{top}/children")).unwrap_or(false) {
        return None;
    }
    let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some((_, parent)) = state_and_parent(pid) {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    Some(by_parent)
}

fn has_ended(pid: i32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state == 'Z')
}

fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
