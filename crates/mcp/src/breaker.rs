//! Brakes on calls: the same call over and over is a loop, and a server answers only so many in a minute.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

/// How many are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub identical: usize,
    pub within: Duration,
    /// Of one server; none when it is zero.
    pub per_minute: usize,
}

/// Why a call does not go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Brake {
    Identical { count: usize, within: Duration },
    TooMany { per_minute: usize },
}

impl std::fmt::Display for Brake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Brake::Identical { count, within } => write!(
                f,
                "CIRCUIT BREAKER: this call was made {count} times with the same arguments within {} seconds; do something else, or wait",
                within.as_secs()
            ),
            Brake::TooMany { per_minute } => write!(
                f,
                "CIRCUIT BREAKER: this server takes at most {per_minute} calls a minute (limits.callsPerMinute); wait before the next one"
            ),
        }
    }
}

/// The memory of one server's calls.
#[derive(Debug, Default)]
pub struct Breaker {
    same: HashMap<[u8; 32], VecDeque<Instant>>,
    all: VecDeque<Instant>,
    looked: Option<Instant>,
}

/// So many different calls are remembered; of more, those that were made only once are forgotten.
const REMEMBERED: usize = 50_000;
/// So often the old ones are looked through.
const LOOKING: Duration = Duration::from_secs(1);

impl Breaker {
    fn forget(&mut self, limits: Limits, now: Instant) {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOKING) {
            return;
        }
        self.looked = Some(now);
        let recent = |times: &VecDeque<Instant>| {
            times.back().is_some_and(|time| now.duration_since(*time) < limits.within)
        };
        self.same.retain(|_, times| recent(times));
        if self.same.len() > REMEMBERED {
            self.same.retain(|_, times| times.len() > 1);
        }
    }

    /// Counts a call, unless it is one too many.
    pub fn pass(&mut self, tool: &str, arguments: &str, limits: Limits, now: Instant) -> Result<(), Brake> {
        let minute = Duration::from_secs(60);
        while self.all.front().is_some_and(|time| now.duration_since(*time) >= minute) {
            self.all.pop_front();
        }
        if limits.per_minute > 0 && self.all.len() >= limits.per_minute {
            return Err(Brake::TooMany { per_minute: limits.per_minute });
        }
        self.forget(limits, now);
        let mut digest = Sha256::new();
        digest.update(tool);
        digest.update([0]);
        digest.update(arguments);
        let times = self.same.entry(digest.finalize().into()).or_default();
        while times.front().is_some_and(|time| now.duration_since(*time) >= limits.within) {
            times.pop_front();
        }
        if limits.identical > 0 && times.len() >= limits.identical {
            return Err(Brake::Identical { count: times.len(), within: limits.within });
        }
        times.push_back(now);
        if limits.per_minute > 0 {
            self.all.push_back(now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { identical: 3, within: Duration::from_secs(60), per_minute: 5 };

    #[test]
    fn the_same_call_is_stopped_and_another_is_not_and_time_heals() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(breaker.pass("t", "{}", LIMITS, now), Ok(()));
        }
        assert!(matches!(breaker.pass("t", "{}", LIMITS, now), Err(Brake::Identical { count: 3, .. })));
        assert_eq!(breaker.pass("t", "{\"a\":1}", LIMITS, now), Ok(()));
        assert_eq!(breaker.pass("t", "{}", LIMITS, now + Duration::from_secs(61)), Ok(()));
    }

    #[test]
    fn a_server_takes_only_so_many_calls_a_minute() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for number in 0..5 {
            assert_eq!(breaker.pass("t", &number.to_string(), LIMITS, now), Ok(()));
        }
        assert_eq!(breaker.pass("t", "x", LIMITS, now), Err(Brake::TooMany { per_minute: 5 }));
        let unlimited = Limits { per_minute: 0, ..LIMITS };
        assert_eq!(Breaker::default().pass("t", "x", unlimited, now), Ok(()));
    }
}
