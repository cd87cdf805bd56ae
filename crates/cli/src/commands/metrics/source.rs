//! Where the numbers come from: the log as far as it has been read, and who of those in it still runs.

use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_audit::{
    ReadError,
    metrics::{
        Family, Fate, Readable, Tally, Telling, Watched,
        feed::{Feed, Progress},
    },
};
use lazaret_runtime::presence::{Presence, Supervisor};

use crate::{args, commands::audit};

/// So many lines are read at a time, where others wait meanwhile.
const PORTION: usize = 5000;

#[derive(Debug)]
pub struct Source {
    feed: Feed,
    tally: Tally,
    one_by_one: usize,
}

impl Source {
    pub fn of(args: &args::Count) -> anyhow::Result<Source> {
        let log = audit::log_file(args.audit.clone())?;
        Ok(Source { feed: Feed::new(&log), tally: Tally::new(), one_by_one: usize::from(args.per_sandbox) })
    }

    /// Reads a part of what is new.
    pub fn read(&mut self) -> Result<Progress, ReadError> {
        self.feed.read(&mut self.tally, PORTION)
    }

    /// Reads everything that is new and tells it.
    pub fn families(&mut self) -> Result<Vec<Family>, ReadError> {
        while self.read()? == Progress::More {}
        Ok(self.told(Readable::Yes))
    }

    /// What has been read.
    pub fn told(&mut self, log: Readable) -> Vec<Family> {
        let now_ms = now_ms();
        self.tally.look_for_lost(now_ms, fate);
        let version = env!("CARGO_PKG_VERSION");
        self.tally.families(&Telling { now_ms, version, one_by_one: self.one_by_one, log })
    }

    /// Since when it is counted, in milliseconds.
    #[cfg(feature = "otlp")]
    pub fn since(&self) -> u64 {
        self.tally.since().unwrap_or_else(now_ms)
    }
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn fate(watched: &Watched) -> Fate {
    let supervisor = watched.supervisor.clone();
    match supervisor.and_then(|it| serde_json::from_value::<Supervisor>(it).ok()).map(|it| it.presence()) {
        Some(Presence::Here) => Fate::Runs,
        Some(Presence::Gone) => Fate::Lost,
        Some(Presence::Unknown) | None => Fate::Unknown,
    }
}
