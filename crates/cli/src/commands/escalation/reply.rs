//! `lazaret escalation approve` and `deny`.

use anyhow::{Context as _, bail};
use lazaret_gate::escalation::{self, Breadth, Delivery, Open, Reply};
use serde_json::json;

use super::{Sessions, telling, visible};
use crate::{
    args::escalation::{Approve, Deny, Scope},
    exit::Exit,
    output,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Words,
    Json,
}

impl Form {
    fn of(json: bool) -> Form {
        if json { Form::Json } else { Form::Words }
    }
}

pub fn approve(sessions: &Sessions, args: &Approve) -> anyhow::Result<Exit> {
    let breadth = match (args.session || args.scope == Scope::Session, args.candidate) {
        (true, candidate) => Breadth::Session { candidate: candidate.map_or(0, |number| number.get() - 1) },
        (false, None) => Breadth::Once,
        (false, Some(_)) => bail!("--candidate is a way to approve for the session: say --session, too"),
    };
    give(sessions, &args.id, &Reply::Approve { breadth, note: args.note.clone() }, Form::of(args.json))
}

pub fn deny(sessions: &Sessions, args: &Deny) -> anyhow::Result<Exit> {
    give(sessions, &args.id, &Reply::Deny { note: args.reason.clone() }, Form::of(args.json))
}

fn give(sessions: &Sessions, id: &str, reply: &Reply, form: Form) -> anyhow::Result<Exit> {
    let Some(open) = sessions.find(id)? else { return Ok(Exit::Failed) };
    let delivery = match escalation::answer(&open, reply) {
        Ok(delivery) => delivery,
        Err(error) if error.is_too_late() => {
            output::error(&format!("{}: {error}", telling::call(&open.request)));
            return Ok(Exit::Failed);
        }
        Err(error) => {
            return Err(error).with_context(|| format!("{} is not answered", telling::call(&open.request)));
        }
    };
    if form == Form::Json {
        let answer = json!({ "ok": true, "id": open.request.escalation_id.as_str(), "digest": open.digest,
            "decision": if matches!(reply, Reply::Deny { .. }) { "denied" } else { "approved" },
            "scope": match reply {
                Reply::Approve { breadth: Breadth::Once, .. } => Some("once"),
                Reply::Approve { breadth: Breadth::Session { .. }, .. } => Some("session"),
                Reply::Deny { .. } => None,
            },
            "taken": delivery == Delivery::Taken });
        output::data(&format!("{}\n", visible::escaped(&answer.to_string())));
    } else {
        output::message(&format!("lazaret: {}", told(&open, reply, delivery)));
    }
    Ok(Exit::Ok)
}

/// What was done, in a sentence.
pub fn told(open: &Open, reply: &Reply, delivery: Delivery) -> String {
    let call = telling::call(&open.request);
    let done = match reply {
        Reply::Approve { breadth: Breadth::Once, .. } => format!("{call} is approved once"),
        Reply::Approve { breadth: Breadth::Session { candidate }, .. } => {
            let candidate = open.request.whitelist_candidates.get(*candidate);
            let what = candidate.map(|candidate| visible::text(&candidate.description)).unwrap_or_default();
            format!("approved for the session: {what}")
        }
        Reply::Deny { .. } => format!("{call} is denied"),
    };
    match delivery {
        Delivery::Taken => done,
        Delivery::NotYetTaken => format!("{done}, but its session has not taken the answer yet"),
    }
}
