//! Again and again, until somebody says that it is enough.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// SIGTERM and SIGINT are waited for from here on, and end nothing by themselves.
pub fn ending_signals() -> anyhow::Result<OwnedFd> {
    let signals = [Signal::TERM, Signal::INT].map(Signal::as_raw);
    lazaret_runtime::signals_as_descriptor(&signals).context("signals cannot be waited for")
}

/// Waits for one of them.
pub fn wait(signals: &OwnedFd) {
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {}
}

/// Does something at once, and then, where an interval is given, after each of them until a signal comes. What
/// fails the first time is an error, what fails later is left to `tell`: it may go better the next time.
pub fn repeat(
    every: Option<Duration>,
    mut act: impl FnMut() -> anyhow::Result<()>,
    tell: impl Fn(&anyhow::Error),
) -> anyhow::Result<()> {
    let signals = every.map(|_| ending_signals()).transpose()?;
    act()?;
    let (Some(every), Some(signals)) = (every, signals) else { return Ok(()) };
    loop {
        let due = Instant::now() + every;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).context("the interval is too long")?;
            match poll(&mut [PollFd::new(&signals, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => break,
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("signals cannot be waited for"),
            }
        }
        if let Err(error) = act() {
            tell(&error);
        }
    }
}
