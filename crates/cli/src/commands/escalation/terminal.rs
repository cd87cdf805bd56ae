//! The terminal while `watch` has it: raw mode and the alternate screen, given back however it ends.

use std::{
    fmt::Write as _,
    panic,
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use rustix::termios::{
    OptionalActions, QueueSelector, Termios, isatty, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::{
    screen::{Line, Look},
    view::Size,
};
use crate::output;

/// What the terminal was like before; also for whoever panics.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Is there a person at a terminal that can be drawn on?
pub fn is_usable() -> bool {
    let drawable = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    drawable && isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout())
}

/// The terminal, for as long as this lives.
#[derive(Debug)]
pub struct Taken {
    shown: Vec<Line>,
}

impl Taken {
    pub fn take() -> anyhow::Result<Taken> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).context("the terminal cannot be asked for its modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let taken = Taken { shown: Vec::new() };
        tcsetattr(stdin, OptionalActions::Now, &raw).context("the terminal cannot be set to raw mode")?;
        // What was typed before anything was shown is no answer to it.
        let _ = tcflush(stdin, QueueSelector::IFlush);
        // The alternate screen, without a cursor.
        output::data("\x1b[?1049h\x1b[?25l\x1b[2J");
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            previous(info);
        }));
        Ok(taken)
    }

    /// Shows these lines, if they are not what is shown.
    pub fn show(&mut self, lines: Vec<Line>) {
        if lines == self.shown {
            return;
        }
        let mut text = String::from("\x1b[H");
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            let look = match line.look {
                Look::Plain => "",
                Look::Heading | Look::Warning => "\x1b[1m",
                Look::Selected => "\x1b[7m",
            };
            // Cleared first: after a line that fills the screen, it would take the last character away.
            let _ = write!(text, "\x1b[K{look}{}\x1b[0m", line.text);
        }
        text.push_str("\x1b[J");
        output::data(&text);
        self.shown = lines;
    }

    /// The screen is not what it was: everything is drawn anew.
    pub fn forget(&mut self) {
        self.shown.clear();
    }

    pub fn size(&self) -> Size {
        let size = tcgetwinsize(rustix::stdio::stdout()).ok();
        let known = |count: u16, usual: usize| if count == 0 { usual } else { usize::from(count) };
        size.map_or(Size { rows: 24, columns: 80 }, |size| Size {
            rows: known(size.ws_row, 24),
            columns: known(size.ws_col, 80),
        })
    }

    pub fn ring(&self) {
        output::data("\x07");
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        output::data("\x1b[0m\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}
