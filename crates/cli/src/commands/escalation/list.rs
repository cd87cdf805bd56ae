//! `lazaret escalation list`: one line for each question that waits.

use jiff::Timestamp;
use lazaret_gate::escalation::Open;
use serde_json::json;

use super::{Sessions, telling, visible};
use crate::{args::escalation::List, exit::Exit, output};

pub fn list(sessions: &Sessions, args: &List) -> anyhow::Result<Exit> {
    let questions = sessions.questions(args.session.as_deref())?;
    let now = Timestamp::now();
    if args.json {
        let all: Vec<_> = questions.iter().map(|open| telling::json(open, now)).collect();
        output::data(&format!("{}\n", visible::escaped(&json!(all).to_string())));
    } else if questions.is_empty() {
        output::message("lazaret: no question waits for an answer");
    } else {
        output::data(&table(&questions, now));
    }
    Ok(Exit::Ok)
}

fn table(questions: &[Open], now: Timestamp) -> String {
    let heading = ["ID", "SESSION", "SERVER", "TOOL", "AGE", "LEFT", "REASON"].map(str::to_owned);
    let mut rows = vec![heading];
    for (id, open) in telling::short_ids(questions).into_iter().zip(questions) {
        let request = &open.request;
        rows.push([
            id,
            telling::short_session(request),
            visible::text(&request.server_name),
            visible::text(&request.tool_name),
            telling::time(request.age(now)),
            telling::time(request.time_left(now)),
            visible::text(&request.reason),
        ]);
    }
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| visible::width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths.iter().map(Some).chain([None])) {
            text.push_str(cell);
            if let Some(width) = width {
                text.push_str(&" ".repeat(width.saturating_sub(visible::width(cell)) + 2));
            }
        }
        text.push('\n');
    }
    text
}
