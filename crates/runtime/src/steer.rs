//! The wishes of other threads to the one that watches: to end what runs, at once or in good order, or to say
//! when everything that has happened until now is on record.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub struct Steering {
    wake: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wish: Option<Wish>,
    asked: u64,
    settled: u64,
    stage: Stage,
}

/// How something that runs is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It is asked to, and made to when it has not after this time.
    Terminate(Duration),
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    #[default]
    Starting,
    /// The command has been executed.
    Running,
    /// Nobody watches any more.
    Over,
}

/// What the watching thread is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    pub end: Option<Wish>,
    asked: u64,
}

impl Steering {
    pub fn new() -> io::Result<Steering> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Steering { wake, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Readable when there are wishes.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// For the thread that watches.
    pub fn take(&self) -> Wishes {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut state = self.state();
        Wishes { end: state.wish.take(), asked: state.asked }
    }

    /// Whatever had happened when these wishes were taken is on record.
    pub fn settled(&self, wishes: Wishes) {
        self.state().settled = wishes.asked;
        self.changed.notify_all();
    }

    /// Only ever forwards.
    pub fn reach(&self, stage: Stage) {
        let mut state = self.state();
        state.stage = state.stage.max(stage);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until it runs, or is over.
    pub fn await_start(&self) -> Stage {
        let state = self.state();
        let waited = self.changed.wait_while(state, |state| state.stage == Stage::Starting);
        waited.unwrap_or_else(PoisonError::into_inner).stage
    }

    pub fn stage(&self) -> Stage {
        self.state().stage
    }

    pub fn wish(&self, wish: Wish) {
        let mut state = self.state();
        // Being killed is not taken back.
        if state.wish != Some(Wish::Kill) {
            state.wish = Some(wish);
        }
        drop(state);
        self.wake();
    }

    /// Waits, for a while, until the thread that watches has looked at everything that was there to see.
    /// Tells whether it has; when it is over, it has.
    pub fn settle(&self, patience: Duration) -> bool {
        let mut state = self.state();
        state.asked += 1;
        let asked = state.asked;
        self.wake();
        let end = Instant::now() + patience;
        loop {
            if state.settled >= asked || state.stage == Stage::Over {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn who_asks_waits_for_an_answer_that_was_begun_after_the_question() {
        let steering = Arc::new(Steering::new().unwrap());
        let early = steering.take();
        let asker = {
            let steering = Arc::clone(&steering);
            thread::spawn(move || steering.settle(Duration::from_secs(20)))
        };
        while !matches!(steering.take(), Wishes { asked: 1, .. }) {
            thread::yield_now();
        }
        steering.settled(early);
        assert!(!asker.is_finished());
        steering.settled(steering.take());
        assert!(asker.join().unwrap());
    }

    #[test]
    fn nobody_who_watches_is_waited_for_no_longer_than_said_and_not_at_all_afterwards() {
        let steering = Steering::new().unwrap();
        assert!(!steering.settle(Duration::from_millis(5)));
        steering.reach(Stage::Over);
        assert!(steering.settle(Duration::from_secs(20)));
        assert_eq!(steering.await_start(), Stage::Over);
        steering.reach(Stage::Running);
        assert_eq!(steering.stage(), Stage::Over);
    }

    #[test]
    fn to_be_killed_is_not_taken_back() {
        let steering = Steering::new().unwrap();
        steering.wish(Wish::Kill);
        steering.wish(Wish::Terminate(Duration::from_secs(1)));
        assert_eq!(steering.take().end, Some(Wish::Kill));
        assert_eq!(steering.take().end, None);
    }
}
