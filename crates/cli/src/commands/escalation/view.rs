//! What `watch` shows and what keys do to it. Plain data: nothing is drawn, read or answered here.
//!
//! Whoever can make questions come can also make them come at the moment in which a key is pressed. So the
//! selection follows the question and not its line; when it changes by itself, approving has to wait a moment; and
//! only what has been on the screen as a whole can be approved.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use lazaret_gate::escalation::{Breadth, Open, QuestionId, Reply};

use super::{keys::Key, screen, telling};

/// So long a selection that nobody made cannot be approved.
pub const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
}

/// When something is looked at: for deadlines of ours, and for those of questions.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub steady: Instant,
    pub clock: Timestamp,
}

impl Now {
    pub fn read() -> Now {
        Now { steady: Instant::now(), clock: Timestamp::now() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The questions, and as much of the selected one as there is room for.
    List,
    /// The selected one, from this line on.
    Details { top: usize },
}

#[derive(Debug)]
pub struct View {
    pub questions: Vec<Open>,
    pub selected: Option<QuestionId>,
    pub page: Page,
    pub message: String,
    /// Until then nothing is approved.
    quiet_until: Instant,
    /// What has been on the screen to its end.
    read: BTreeSet<QuestionId>,
    known: BTreeSet<QuestionId>,
}

/// What a key asks for.
#[derive(Debug, Clone)]
pub enum Wish {
    Nothing,
    Quit,
    Answer(Box<Open>, Reply),
}

/// Did questions come that were not there before?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    Some,
    None,
}

impl View {
    pub fn new(questions: Vec<Open>, now: Now) -> View {
        let mut view = View {
            questions: Vec::new(),
            selected: None,
            page: Page::List,
            message: String::new(),
            quiet_until: now.steady,
            read: BTreeSet::new(),
            known: BTreeSet::new(),
        };
        view.update(questions, now);
        view
    }

    /// These questions are open now.
    pub fn update(&mut self, questions: Vec<Open>, now: Now) -> News {
        self.questions = questions;
        let ids: BTreeSet<_> = self.questions.iter().map(|open| open.request.escalation_id.clone()).collect();
        let news = if ids.is_subset(&self.known) { News::None } else { News::Some };
        self.read.retain(|id| ids.contains(id));
        self.known = ids;
        if let Some(selected) = &self.selected
            && !self.known.contains(selected)
        {
            if self.page != Page::List && self.message.is_empty() {
                "the question is not open any more".clone_into(&mut self.message);
            }
            self.selected = None;
            self.page = Page::List;
        }
        if self.selected.is_none()
            && let Some(first) = self.questions.first()
        {
            self.selected = Some(first.request.escalation_id.clone());
            self.quiet_until = now.steady + QUIET;
        }
        news
    }

    pub fn index(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.questions.iter().position(|open| open.request.escalation_id == *selected)
    }

    pub fn current(&self) -> Option<&Open> {
        self.questions.get(self.index()?)
    }

    pub fn press(&mut self, key: Key, size: Size, now: Now) -> Wish {
        self.message.clear();
        match key {
            Key::Quit => return Wish::Quit,
            Key::Back => self.page = Page::List,
            Key::Enter => {
                self.page = match self.page {
                    Page::List if self.selected.is_some() => Page::Details { top: 0 },
                    _ => Page::List,
                }
            }
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::First | Key::Last => {
                self.go(key, size, now);
            }
            Key::Approve => return self.answer(Some(Breadth::Once), size, now),
            Key::ApproveForSession => {
                return self.answer(Some(Breadth::Session { candidate: 0 }), size, now);
            }
            Key::Deny => return self.answer(None, size, now),
        }
        self.note_what_was_read(size, now);
        Wish::Nothing
    }

    fn go(&mut self, key: Key, size: Size, now: Now) {
        let (at, length, page) = match self.page {
            Page::List => (self.index().unwrap_or(0), self.questions.len(), screen::list_rows(self, size)),
            Page::Details { top } => {
                (top, screen::details(self, size, now.clock).len(), screen::page_rows(size))
            }
        };
        let last = match self.page {
            Page::List => length.saturating_sub(1),
            Page::Details { .. } => length.saturating_sub(page),
        };
        let to = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => at + 1,
            Key::PageUp => at.saturating_sub(page.max(1)),
            Key::PageDown => at + page.max(1),
            Key::First => 0,
            _ => last,
        };
        let to = to.min(last);
        match self.page {
            Page::Details { .. } => self.page = Page::Details { top: to },
            Page::List => {
                if let Some(open) = self.questions.get(to) {
                    self.selected = Some(open.request.escalation_id.clone());
                }
            }
        }
    }

    /// Notes that the end of the selected question is on the screen.
    pub fn note_what_was_read(&mut self, size: Size, now: Now) {
        if let (Some(id), true) = (&self.selected, screen::shows_the_end(self, size, now.clock)) {
            self.read.insert(id.clone());
        }
    }

    fn answer(&mut self, approved: Option<Breadth>, size: Size, now: Now) -> Wish {
        let Some(open) = self.current().cloned() else { return Wish::Nothing };
        let Some(breadth) = approved else {
            return Wish::Answer(Box::new(open), Reply::Deny { note: None });
        };
        let refusal = if now.steady < self.quiet_until {
            Some("this question has just come up: look at it first")
        } else if !self.read.contains(&open.request.escalation_id)
            && !screen::shows_the_end(self, size, now.clock)
        {
            Some("there is more to it than is shown: press enter and go to its end first")
        } else if breadth != Breadth::Once && open.request.whitelist_candidates.is_empty() {
            Some("this call can be approved once (a), not for the session")
        } else {
            None
        };
        if let Some(refusal) = refusal {
            refusal.clone_into(&mut self.message);
            return Wish::Nothing;
        }
        Wish::Answer(Box::new(open), Reply::Approve { breadth, note: None })
    }

    /// One line for each question, without its time.
    pub fn titles(&self) -> Vec<(String, String)> {
        let ids = telling::short_ids(&self.questions);
        ids.into_iter().zip(&self.questions).map(|(id, open)| (id, telling::call(&open.request))).collect()
    }
}
