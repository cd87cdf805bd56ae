//! Hears of every violation while the sandbox runs: for a program that has to say, the moment a tool answers,
//! whether it was the sandbox that stood in the way.
//!
//! A violation is heard before the call that it is about is answered, wherever that call waits for an answer
//! (a blocked or judged system call, a look-up, a connection that is dialled). What the carrying thread refuses
//! reaches the tap through the supervisor a moment later: [`crate::serve::Handle::settle`] waits for that.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::record::Violation;

/// So many different ones are kept; of more, those that were heard longest ago are forgotten.
const KEPT: usize = 256;

/// A place to listen at. Copies are the same place; one serves one sandbox, or several.
#[derive(Debug, Clone, Default)]
pub struct ViolationTap(Arc<Mutex<Heard>>);

/// A moment in the life of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

#[derive(Debug, Default)]
struct Heard {
    total: u64,
    /// In the order of when each was heard last.
    kept: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    violation: Arc<Violation>,
    count: u64,
    /// Its number among all that were heard.
    number: u64,
}

impl ViolationTap {
    pub fn new() -> ViolationTap {
        ViolationTap::default()
    }

    /// Now: what is heard from here on came since.
    pub fn mark(&self) -> Mark {
        Mark(self.heard().total)
    }

    /// What was heard since, oldest first, each distinct one once; `count` says how often it has been seen in
    /// its sandbox, also before.
    pub fn since(&self, mark: Mark) -> Vec<Violation> {
        // Copied after the lock is given back: who records must not wait for that.
        let found: Vec<(Arc<Violation>, u64)> = self
            .heard()
            .kept
            .iter()
            .filter(|kept| kept.number >= mark.0)
            .map(|kept| (Arc::clone(&kept.violation), kept.count))
            .collect();
        found.into_iter().map(|(violation, count)| Violation { count, ..(*violation).clone() }).collect()
    }

    /// How many were heard since, each time counted.
    pub fn count_since(&self, mark: Mark) -> u64 {
        self.heard().total.saturating_sub(mark.0)
    }

    pub(crate) fn hear(&self, violation: &Violation, count: u64) {
        let mut heard = self.heard();
        let number = heard.total;
        heard.total += 1;
        // In a flood it is the last one.
        let known = heard.kept.iter().rposition(|kept| is_the_same(&kept.violation, violation));
        let kept = match known.and_then(|at| heard.kept.remove(at)) {
            Some(kept) => Kept { count, number, ..kept },
            None => Kept { violation: Arc::new(violation.clone()), count, number },
        };
        if heard.kept.len() >= KEPT {
            heard.kept.pop_front();
        }
        heard.kept.push_back(kept);
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_the_same(one: &Violation, other: &Violation) -> bool {
    let what = |violation: &Violation| (violation.severity, violation.kind);
    what(one) == what(other)
        && one.description == other.description
        && one.process == other.process
        && one.layer == other.layer
}

#[cfg(test)]
mod tests {
    use lazaret_policy::violation::{Indicator, Severity};

    use super::*;

    fn violation(description: &str) -> Violation {
        Violation {
            event: "POLICY_VIOLATION".to_owned(),
            kind: Indicator::Filesystem,
            severity: Severity::Medium,
            indicator: Indicator::Filesystem.at(0),
            description: description.to_owned(),
            layer: "mountns".to_owned(),
            pid: 2,
            process: "cat".to_owned(),
            syscall: None,
            path: None,
            peer: None,
            remedy: String::new(),
            count: 0,
        }
    }

    fn told(tap: &ViolationTap, mark: Mark) -> Vec<(String, u64)> {
        tap.since(mark).into_iter().map(|violation| (violation.description, violation.count)).collect()
    }

    #[test]
    fn what_came_before_the_mark_is_not_told_and_what_came_again_is() {
        let tap = ViolationTap::new();
        tap.hear(&violation("a"), 1);
        tap.hear(&violation("b"), 1);
        let mark = tap.mark();
        assert_eq!(told(&tap, mark), []);
        tap.hear(&violation("c"), 1);
        tap.hear(&violation("a"), 2);
        assert_eq!(told(&tap, mark), [("c".to_owned(), 1), ("a".to_owned(), 2)]);
        assert_eq!((tap.count_since(mark), told(&tap, tap.mark()).len()), (2, 0));
    }

    #[test]
    fn a_flood_takes_no_more_room_than_its_kinds_and_the_newest_stay() {
        let tap = ViolationTap::new();
        let mark = tap.mark();
        for count in 1..=10_000 {
            tap.hear(&violation("again"), count);
        }
        assert_eq!(told(&tap, mark), [("again".to_owned(), 10_000)]);
        for number in 0..1000 {
            tap.hear(&violation(&number.to_string()), 1);
        }
        let kept = told(&tap, mark);
        assert_eq!((kept.len(), kept.last().unwrap().0.as_str()), (KEPT, "999"));
        assert_eq!(tap.count_since(mark), 11_000);
    }

    #[test]
    fn copies_hear_the_same() {
        let tap = ViolationTap::new();
        let (copy, mark) = (tap.clone(), tap.mark());
        std::thread::spawn(move || copy.hear(&violation("a"), 1)).join().unwrap();
        assert_eq!(told(&tap, mark).len(), 1);
    }
}
