//! How often what was denied in one run, exactly: the numbers behind the log, which hears of the first, the
//! tenth, the hundredth … of a kind only.

use lazaret_audit::EventKind;
use lazaret_policy::violation::{Indicator, Severity};
use serde::Serialize;

use crate::record::Violation;

/// So many blocked calls are told by name: they have to fit into one event.
const NAMED: usize = 100;
/// What stands for the names beyond.
const OTHER: &str = "other";

/// One number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Total {
    pub event: String,
    #[serde(rename = "type")]
    pub kind: Indicator,
    pub severity: Severity,
    /// Which call, where it is a call that is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    pub count: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Totals(pub Vec<Total>);

impl Totals {
    pub fn add(&mut self, violation: &Violation, count: u64) {
        let blocked = violation.event == EventKind::SyscallBlocked.name();
        let name = violation.syscall.as_ref().map(|call| call.name.as_str()).filter(|_| blocked);
        if self.found(violation, name, count) {
            return;
        }
        let name = if self.0.len() < NAMED { name } else { name.map(|_| OTHER) };
        if self.found(violation, name, count) {
            return;
        }
        self.0.push(Total {
            event: violation.event.clone(),
            kind: violation.kind,
            severity: violation.severity,
            syscall: name.map(str::to_owned),
            count,
        });
    }

    /// Adds to a number that is there already.
    fn found(&mut self, violation: &Violation, name: Option<&str>, count: u64) -> bool {
        let wanted = (violation.event.as_str(), violation.kind, violation.severity, name);
        let same = |total: &&mut Total| {
            (total.event.as_str(), total.kind, total.severity, total.syscall.as_deref()) == wanted
        };
        let known = self.0.iter_mut().find(same);
        if let Some(total) = known {
            total.count += count;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Syscall;

    fn blocked(name: &str) -> Violation {
        Violation {
            event: EventKind::SyscallBlocked.name().to_owned(),
            kind: Indicator::Syscall,
            severity: Severity::Medium,
            indicator: Indicator::Syscall.at(0),
            description: String::new(),
            layer: String::new(),
            pid: 1,
            process: String::new(),
            syscall: Some(Syscall { number: 1, name: name.to_owned(), args: Vec::new() }),
            path: None,
            peer: None,
            remedy: String::new(),
            count: 0,
        }
    }

    #[test]
    fn nothing_is_lost_when_there_are_more_names_than_are_told() {
        let mut totals = Totals::default();
        for number in 0..1000 {
            totals.add(&blocked(&format!("call{number}")), 2);
        }
        assert_eq!(totals.0.iter().map(|total| total.count).sum::<u64>(), 2000);
        assert_eq!(totals.0.len(), NAMED + 1);
        assert_eq!(totals.0.last().unwrap().syscall.as_deref(), Some(OTHER));
        assert_eq!(totals.0.last().unwrap().count, 1800);
    }

    #[test]
    fn only_blocked_calls_are_told_by_name() {
        let mut totals = Totals::default();
        let event = EventKind::PolicyViolation.name().to_owned();
        totals.add(&Violation { event, ..blocked("openat") }, 3);
        assert_eq!(totals.0.first().unwrap().syscall, None);
    }
}
