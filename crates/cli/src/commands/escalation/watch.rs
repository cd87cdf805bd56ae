//! `lazaret escalation watch`: questions as they come. At a terminal they can be answered with single keys, anywhere
//! else a line is printed for each.

use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use lazaret_gate::escalation::{self, Open};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Signal,
};

use super::{
    Sessions,
    keys::keys,
    reply, screen, telling,
    terminal::{Taken, is_usable},
    view::{News, Now, View, Wish},
    visible,
};
use crate::{
    args::escalation::Watch,
    exit::Exit,
    output::{self, Stream, Written},
};

/// How long a question may wait to be seen.
const PATIENCE: Duration = Duration::from_millis(200);

pub fn watch(sessions: &Sessions, args: &Watch) -> anyhow::Result<Exit> {
    let ending = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
    let ending = signals(&ending)?;
    let source = Source { sessions, session: args.session.as_deref() };
    if args.json || !is_usable() { tell(&source, args, &ending) } else { answer(&source, &ending) }
}

struct Source<'a> {
    sessions: &'a Sessions,
    session: Option<&'a str>,
}

impl Source<'_> {
    /// What is asked. What has to be left out is not told again and again: `list` tells it.
    fn questions(&self) -> anyhow::Result<Vec<Open>> {
        let mut survey = self.sessions.survey()?;
        if let Some(wanted) = self.session {
            super::select(&mut survey, wanted)?;
        }
        Ok(survey.questions)
    }
}

/// One line for each question, when it comes.
fn tell(source: &Source<'_>, args: &Watch, ending: &OwnedFd) -> anyhow::Result<Exit> {
    let mut out = Stream::new();
    let mut known = BTreeSet::new();
    // What is wrong from the beginning is an error; later it may pass.
    let mut questions = source.questions()?;
    loop {
        let now = Now::read();
        for open in &questions {
            if known.contains(&open.request.escalation_id) {
                continue;
            }
            let line = if args.json {
                visible::escaped(&telling::json(open, now.clock).to_string())
            } else {
                let request = &open.request;
                format!(
                    "{} {}: {} ({} left)",
                    request.escalation_id,
                    telling::call(request),
                    visible::text(&request.reason),
                    telling::time(request.time_left(now.clock))
                )
            };
            if out.line(line.as_bytes()) == Written::NobodyReads {
                return Ok(Exit::Ok);
            }
        }
        known = questions.iter().map(|open| open.request.escalation_id.clone()).collect();
        if out.flush() == Written::NobodyReads || output::wait_for_reader_to_leave(PATIENCE) {
            return Ok(Exit::Ok);
        }
        if let Some(signal) = next_signal(ending) {
            return Ok(Exit::Command(128 + signal));
        }
        questions = source.questions().unwrap_or_default();
    }
}

/// The live view.
fn answer(source: &Source<'_>, ending: &OwnedFd) -> anyhow::Result<Exit> {
    let resized = signals(&[Signal::WINCH])?;
    let questions = source.questions()?;
    let mut terminal = Taken::take()?;
    let mut view = View::new(questions, Now::read());
    let mut looked = Instant::now();
    loop {
        let (size, now) = (terminal.size(), Now::read());
        view.note_what_was_read(size, now);
        terminal.show(screen::draw(&view, size, now.clock));
        match wait(ending, &resized)? {
            Event::Signal(signal) => return Ok(Exit::Command(128 + signal)),
            Event::Resized => terminal.forget(),
            Event::HungUp => return Ok(Exit::Ok),
            Event::Typed(bytes) => {
                for key in keys(&bytes) {
                    match view.press(key, size, Now::read()) {
                        Wish::Nothing => {}
                        Wish::Quit => return Ok(Exit::Ok),
                        Wish::Answer(open, reply) => {
                            view.message = match escalation::answer(&open, &reply) {
                                Ok(delivery) => reply::told(&open, &reply, delivery),
                                Err(error) => visible::text(&error.to_string()),
                            };
                            // At once, so that the next key is for what is open then.
                            renew(source, &mut view, &terminal);
                            looked = Instant::now();
                        }
                    }
                }
            }
            Event::Nothing => {}
        }
        if looked.elapsed() >= PATIENCE {
            renew(source, &mut view, &terminal);
            looked = Instant::now();
        }
    }
}

fn renew(source: &Source<'_>, view: &mut View, terminal: &Taken) {
    match source.questions() {
        Ok(questions) => {
            if view.update(questions, Now::read()) == News::Some {
                terminal.ring();
            }
        }
        Err(error) => {
            view.update(Vec::new(), Now::read());
            view.message = visible::text(&output::chain(&error));
        }
    }
}

enum Event {
    Nothing,
    Typed(Vec<u8>),
    Resized,
    HungUp,
    /// By its number.
    Signal(u8),
}

fn wait(ending: &OwnedFd, resized: &OwnedFd) -> anyhow::Result<Event> {
    let stdin = rustix::stdio::stdin();
    let mut polled = [
        PollFd::new(ending, PollFlags::IN),
        PollFd::new(resized, PollFlags::IN),
        PollFd::new(&stdin, PollFlags::IN),
    ];
    let patience = Timespec::try_from(PATIENCE).context("no such time")?;
    match poll(&mut polled, Some(&patience)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("the terminal cannot be waited for"),
    }
    let [ended, sized, typed] = polled.map(|polled| !polled.revents().is_empty());
    if ended && let Some(signal) = next_signal(ending) {
        return Ok(Event::Signal(signal));
    }
    if sized {
        while next_signal(resized).is_some() {}
        return Ok(Event::Resized);
    }
    if typed {
        let mut buffer = [0; 1024];
        return Ok(match rustix::io::read(stdin, &mut buffer) {
            Ok(0) => Event::HungUp,
            Ok(count) => Event::Typed(buffer.get(..count).unwrap_or_default().to_vec()),
            Err(Errno::INTR | Errno::AGAIN) => Event::Nothing,
            Err(_) => Event::HungUp,
        });
    }
    Ok(Event::Nothing)
}

fn signals(signals: &[Signal]) -> anyhow::Result<OwnedFd> {
    let numbers: Vec<i32> = signals.iter().map(|signal| signal.as_raw()).collect();
    lazaret_runtime::signals_as_descriptor(&numbers).context("signals cannot be waited for")
}

/// The number of a signal that has come (signalfd(2): the first member of what is read).
fn next_signal(descriptor: &OwnedFd) -> Option<u8> {
    let mut buffer = [0; 128];
    let count = rustix::io::read(descriptor, &mut buffer).ok()?;
    let number = buffer.get(..count)?.first_chunk::<4>()?;
    u8::try_from(u32::from_ne_bytes(*number)).ok()
}
