//! `lazaret audit show`: one sandbox from its beginning to its end.

use std::{collections::BTreeSet, path::Path};

use lazaret_audit::{
    Event, EventKind, Filter,
    follow::RawFollow,
    query::{self, Answer, Matcher, Then},
};
use lazaret_runtime::report::printable;

use super::{Unreadable, log_file, timeline};
use crate::{args, exit::Exit, output};

/// So many candidates are named when the beginning of an id is not enough.
const CANDIDATES: usize = 10;

pub fn show(args: args::Show) -> anyhow::Result<Exit> {
    let log = log_file(args.file)?;
    let mut unreadable = Unreadable::default();
    let wanted = match args.sandbox.clone() {
        Some(prefix) => Some(prefix),
        None => newest(&log)?,
    };
    let Some(prefix) = wanted else {
        output::error(&format!("{}: no sandbox has been made yet", log.display()));
        return Ok(Exit::Failed);
    };
    let mut lines = lines_of(&log, &prefix, &mut unreadable)?;
    let mut ids: BTreeSet<String> = lines.iter().map(|(id, _)| id.clone()).collect();
    if ids.contains(&prefix) {
        ids = BTreeSet::from([prefix.clone()]);
    }
    let mut found = ids.iter();
    match (found.next(), found.next()) {
        (Some(id), None) => lines.retain(|(other, _)| other == id),
        (None, _) => {
            let prefix = printable(&prefix);
            output::error(&format!("{}: there is no sandbox {prefix}", log.display()));
            return Ok(Exit::Failed);
        }
        _ => {
            let mut named: Vec<String> = ids.iter().take(CANDIDATES).map(|id| printable(id)).collect();
            if ids.len() > CANDIDATES {
                named.push(format!("and {} more", ids.len() - CANDIDATES));
            }
            let prefix = printable(&prefix);
            output::error(&format!("{prefix} is the beginning of several sandboxes: {}", named.join(", ")));
            return Ok(Exit::Failed);
        }
    }
    let mut out = output::Stream::new();
    if args.json {
        for (_, text) in &lines {
            out.line(text);
        }
    } else {
        let events: Vec<Event> =
            lines.iter().filter_map(|(_, text)| serde_json::from_slice(text).ok()).collect();
        for line in timeline::of(&events) {
            out.line(line.as_bytes());
        }
    }
    out.flush();
    Ok(unreadable.exit())
}

/// The sandbox that was made last.
fn newest(log: &Path) -> anyhow::Result<Option<String>> {
    let created = Filter { kinds: vec![EventKind::SandboxCreated], ..Filter::default() };
    let mut newest = None;
    query::backwards(log, &mut Matcher::new(created, log)?, |answer| match answer {
        Answer::Hit(hit) => {
            newest = Some(hit.view.sandbox_id.into_owned());
            Then::Stop
        }
        // It is told when the events are read.
        Answer::Unreadable(_) => Then::GoOn,
    })?;
    Ok(newest)
}

/// Sandbox and line of all events of sandboxes whose id begins so.
fn lines_of(log: &Path, prefix: &str, unreadable: &mut Unreadable) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let filter = Filter { sandbox: Some(prefix.to_owned()), ..Filter::default() };
    let mut lines = Vec::new();
    query::forwards(&mut RawFollow::open(log)?, &mut Matcher::new(filter, log)?, |answer| {
        match answer {
            // Events that belong to no sandbox.
            Answer::Hit(hit) if hit.view.sandbox_id.is_empty() => {}
            Answer::Hit(hit) => lines.push((hit.view.sandbox_id.into_owned(), hit.text.to_vec())),
            Answer::Unreadable(error) => unreadable.tell(&error),
        }
        Then::GoOn
    });
    Ok(lines)
}
