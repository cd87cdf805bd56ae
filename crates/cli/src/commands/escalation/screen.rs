//! How the view looks on a screen of a size. Nothing is printed here; every line is plain text that fits.

use jiff::Timestamp;

use super::{
    telling,
    view::{Page, Size, View},
    visible,
};

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub look: Look,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Plain,
    Heading,
    Selected,
    Warning,
}

/// Title, rule, message, keys.
const AROUND: usize = 4;
const KEYS: &str = "j/k select  enter all of it  a approve once  s for the session  d deny  q quit";
const KEYS_OF_DETAILS: &str = "j/k scroll  esc back  a approve once  s for the session  d deny  q quit";

/// The whole screen, exactly as many lines as it has.
pub fn draw(view: &View, size: Size, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![line(&title(view), Look::Heading)];
    match view.page {
        Page::List => {
            lines.extend(list(view, size, now));
            lines.push(line(&"─".repeat(size.columns), Look::Plain));
            lines.extend(beginning_of_details(view, size, now));
        }
        Page::Details { top } => {
            let all = details(view, size, now);
            let count = all.len();
            let shown = page_rows(size);
            lines.extend(all.into_iter().skip(top).take(shown));
            fill(&mut lines, shown + 1);
            let rule = if top + shown < count {
                format!("── {} more lines ", count - top - shown)
            } else {
                String::new()
            };
            let rest = size.columns.saturating_sub(visible::width(&rule));
            lines.push(line(&format!("{rule}{}", "─".repeat(rest)), Look::Plain));
        }
    }
    lines.truncate(size.rows.saturating_sub(2));
    fill(&mut lines, size.rows.saturating_sub(2));
    lines.push(line(&view.message, Look::Warning));
    let keys = if view.page == Page::List { KEYS } else { KEYS_OF_DETAILS };
    lines.push(line(keys, Look::Plain));
    lines.truncate(size.rows);
    for line in &mut lines {
        line.text = visible::cut(&line.text, size.columns);
    }
    lines
}

fn line(text: &str, look: Look) -> Line {
    Line { text: text.to_owned(), look }
}

fn fill(lines: &mut Vec<Line>, count: usize) {
    while lines.len() < count {
        lines.push(line("", Look::Plain));
    }
}

fn title(view: &View) -> String {
    match view.questions.len() {
        0 => "lazaret: no question waits for an answer".to_owned(),
        1 => "lazaret: 1 question waits for an answer".to_owned(),
        count => format!("lazaret: {count} questions wait for an answer"),
    }
}

/// How many questions are listed at once.
pub fn list_rows(view: &View, size: Size) -> usize {
    let room = size.rows.saturating_sub(AROUND);
    view.questions.len().clamp(1, (room / 3).max(1))
}

/// How many lines of a question fit below the list.
fn rows_below(view: &View, size: Size) -> usize {
    size.rows.saturating_sub(AROUND + list_rows(view, size))
}

/// How many lines of a question fit on a page of its own.
pub fn page_rows(size: Size) -> usize {
    size.rows.saturating_sub(AROUND)
}

fn list(view: &View, size: Size, now: Timestamp) -> Vec<Line> {
    let rows = list_rows(view, size);
    let selected = view.index().unwrap_or(0);
    // The selected one is always among those that are listed.
    let top = (selected + 1).saturating_sub(rows);
    let titles = view.titles().into_iter().zip(&view.questions).enumerate();
    let mut lines: Vec<Line> = titles
        .skip(top)
        .take(rows)
        .map(|(number, ((id, call), open))| {
            let mark = if number == selected { '>' } else { ' ' };
            let left = telling::time(open.request.time_left(now));
            let text = format!("{mark} {id}  {left:>11}  {call}  {}", visible::text(&open.request.reason));
            line(&text, if number == selected { Look::Selected } else { Look::Plain })
        })
        .collect();
    fill(&mut lines, rows);
    lines
}

fn beginning_of_details(view: &View, size: Size, now: Timestamp) -> Vec<Line> {
    let all = details(view, size, now);
    let room = rows_below(view, size);
    if all.len() <= room {
        return all;
    }
    let shown = room.saturating_sub(1);
    let more = all.len() - shown;
    let mut lines: Vec<Line> = all.into_iter().take(shown).collect();
    lines.push(line(&format!("… {more} more lines: press enter"), Look::Warning));
    lines
}

/// All lines of the selected question, none wider than the screen.
pub fn details(view: &View, size: Size, now: Timestamp) -> Vec<Line> {
    let Some(open) = view.current() else { return Vec::new() };
    let mut lines = Vec::new();
    for told in telling::details(open, now) {
        let look = if told.starts_with("BEWARE") { Look::Warning } else { Look::Plain };
        lines.extend(visible::wrap(&told, size.columns.max(4)).iter().map(|part| line(part, look)));
    }
    lines
}

/// Is all of the selected question on the screen, or its last page?
pub fn shows_the_end(view: &View, size: Size, now: Timestamp) -> bool {
    let count = details(view, size, now).len();
    match view.page {
        Page::List => count <= rows_below(view, size),
        Page::Details { top } => count <= top + page_rows(size),
    }
}

#[cfg(test)]
mod tests;
