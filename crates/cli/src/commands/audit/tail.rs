//! `lazaret audit tail`: the last events, and those that arrive.

use std::{collections::VecDeque, time::Duration};

use lazaret_audit::{
    follow::RawFollow,
    query::{self, Answer, Hit, Matcher, Then},
    view::View,
};

use super::{Unreadable, query::Printer, resolve};
use crate::{
    args,
    exit::Exit,
    output::{self, Written},
};

/// How long an event may wait to be seen.
const PATIENCE: Duration = Duration::from_millis(50);

pub fn tail(args: args::Tail) -> anyhow::Result<Exit> {
    let (log, filter) = resolve(args.filters)?;
    let mut unreadable = Unreadable::default();
    let mut printer = Printer::new(args.json);

    // Where to follow from is taken first: what arrives meanwhile comes after it and is not printed twice.
    let mut follow = RawFollow::from_now(&log)?;
    // Nothing seen: the log has just gone on in a new file.
    let end = Some(follow.seen()).filter(|seen| *seen > 0).unwrap_or(u64::MAX);
    let mut last: VecDeque<Vec<u8>> = VecDeque::new();
    let mut matcher = Matcher::new(filter, &log)?;
    query::backwards(&log, &mut matcher, |answer| {
        match answer {
            Answer::Hit(_) | Answer::Unreadable(_) if last.len() >= args.lines => return Then::Stop,
            Answer::Hit(hit) if hit.view.seq <= end => last.push_front(hit.text.to_vec()),
            Answer::Hit(_) => {}
            Answer::Unreadable(error) => unreadable.tell(&error),
        }
        if last.len() >= args.lines { Then::Stop } else { Then::GoOn }
    })?;
    for text in &last {
        if let Ok(view) = View::of(text)
            && printer.print(&Hit { text, view }) == Then::Stop
        {
            return Ok(unreadable.exit());
        }
    }
    if !args.follow {
        printer.flush();
        return Ok(unreadable.exit());
    }
    // Goes on with what was learnt about which sandboxes belong to a tool.
    loop {
        let mut over = false;
        query::forwards(&mut follow, &mut matcher, |answer| {
            match answer {
                Answer::Hit(hit) => over = printer.print(&hit) == Then::Stop,
                Answer::Unreadable(error) => {
                    over = error.is_final();
                    unreadable.tell(&error);
                }
            }
            if over { Then::Stop } else { Then::GoOn }
        });
        if over || printer.flush() == Written::NobodyReads || output::wait_for_reader_to_leave(PATIENCE) {
            return Ok(unreadable.exit());
        }
    }
}
