//! The places at which a test kills the process, to see that recovery copes. Nothing in a release.

#[cfg(not(test))]
#[inline(always)]
pub fn step() {}

/// The variable that says before which step the process ends.
#[cfg(test)]
pub const VARIABLE: &str = "LAZARET_TEST_CRASH_STEP";

#[cfg(test)]
pub fn step() {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static LIMIT: LazyLock<Option<u64>> = LazyLock::new(|| std::env::var(VARIABLE).ok()?.parse().ok());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(limit) = *LIMIT else { return };
    if COUNT.fetch_add(1, Ordering::SeqCst) + 1 == limit {
        // As `kill -9`: no destructor, no handler, nothing flushed.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
