//! `lazaret audit query`: the events that are asked for, one in a line.

use lazaret_audit::{
    Event,
    follow::RawFollow,
    query::{self, Answer, Hit, Matcher, Then},
};

use super::{Unreadable, resolve, telling};
use crate::{args, exit::Exit, output};

pub fn query(args: args::Query) -> anyhow::Result<Exit> {
    let (log, filter) = resolve(args.filters)?;
    let mut matcher = Matcher::new(filter, &log)?;
    let mut printer = Printer::new(args.json);
    let mut unreadable = Unreadable::default();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let each = |answer: Answer<'_>| {
        if left == 0 {
            return Then::Stop;
        }
        match answer {
            Answer::Unreadable(error) => unreadable.tell(&error),
            Answer::Hit(hit) => {
                left -= 1;
                if printer.print(&hit) == Then::Stop || left == 0 {
                    return Then::Stop;
                }
            }
        }
        Then::GoOn
    };
    if args.reverse {
        query::backwards(&log, &mut matcher, each)?;
    } else {
        query::forwards(&mut RawFollow::open(&log)?, &mut matcher, each);
    }
    printer.flush();
    Ok(unreadable.exit())
}

/// Writes events, as lines of the log or as lines for a person.
pub struct Printer {
    out: output::Stream,
    json: bool,
}

impl Printer {
    pub fn new(json: bool) -> Self {
        Printer { out: output::Stream::new(), json }
    }

    pub fn print(&mut self, hit: &Hit<'_>) -> Then {
        let written = if self.json {
            self.out.line(hit.text)
        } else {
            match serde_json::from_slice::<Event>(hit.text) {
                Ok(event) => self.out.line(telling::line(&event).as_bytes()),
                // It was read as an event before.
                Err(error) => self.out.line(error.to_string().as_bytes()),
            }
        };
        if written == output::Written::NobodyReads { Then::Stop } else { Then::GoOn }
    }

    pub fn flush(&mut self) -> output::Written {
        self.out.flush()
    }
}
