//! `lazaret escalation show`: everything about one question.

use jiff::Timestamp;

use super::{Sessions, telling, visible};
use crate::{args::escalation::Show, exit::Exit, output};

pub fn show(sessions: &Sessions, args: &Show) -> anyhow::Result<Exit> {
    let Some(open) = sessions.find(&args.id)? else { return Ok(Exit::Failed) };
    let now = Timestamp::now();
    if args.json {
        output::data(&format!("{}\n", visible::escaped(&telling::json(&open, now).to_string())));
    } else {
        output::data(&format!("{}\n", telling::details(&open, now).join("\n")));
    }
    Ok(Exit::Ok)
}
