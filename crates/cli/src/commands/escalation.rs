//! `lazaret escalation`: what MCP sessions ask a person, seen and answered. The files in which questions and
//! answers lie are the business of `lazaret_gate::escalation`.

mod keys;
mod list;
mod reply;
mod screen;
mod show;
mod telling;
mod terminal;
mod view;
mod visible;
mod watch;

use std::{env, path::PathBuf};

use anyhow::bail;
use lazaret_gate::escalation::{self, Open, Survey};
use lazaret_runtime::state::Directories;

use crate::{args::Escalation, exit::Exit, output};

pub fn escalation(command: &Escalation) -> anyhow::Result<Exit> {
    let sessions = Sessions::of_the_caller()?;
    match command {
        Escalation::List(args) => list::list(&sessions, args),
        Escalation::Show(args) => show::show(&sessions, args),
        Escalation::Approve(args) => reply::approve(&sessions, args),
        Escalation::Deny(args) => reply::deny(&sessions, args),
        Escalation::Watch(args) => watch::watch(&sessions, args),
    }
}

/// Where sessions are.
struct Sessions(PathBuf);

impl Sessions {
    fn of_the_caller() -> anyhow::Result<Sessions> {
        let Some(state) = Directories::from_environment(|name| env::var_os(name)).state else {
            bail!("there is no place where sessions could be: set HOME or XDG_STATE_HOME");
        };
        Ok(Sessions(state.join("sessions")))
    }

    fn survey(&self) -> anyhow::Result<Survey> {
        Ok(escalation::open_questions(&self.0)?)
    }

    /// What is asked, by one session if one is named; what had to be left out is told.
    fn questions(&self, session: Option<&str>) -> anyhow::Result<Vec<Open>> {
        let mut survey = self.survey()?;
        for trouble in &survey.troubles {
            output::warning(&visible::text(&trouble.to_string()));
        }
        if let Some(wanted) = session {
            select(&mut survey, wanted)?;
        }
        Ok(survey.questions)
    }

    /// The question that was meant. `None` if there is none, which has been told then.
    fn find(&self, id: &str) -> anyhow::Result<Option<Open>> {
        let questions = self.questions(None)?;
        Ok(match escalation::find(&questions, id) {
            Ok(open) => Some(open.clone()),
            Err(error) => {
                output::error(&visible::text(&error.to_string()));
                output::message("`lazaret escalation list` shows the questions that wait");
                None
            }
        })
    }
}

/// Leaves the questions of one session: by its id, the beginning of it, or its directory.
fn select(survey: &mut Survey, wanted: &str) -> anyhow::Result<()> {
    let directory = std::fs::canonicalize(wanted).ok();
    let is_meant = |session: &escalation::Session| {
        (!wanted.is_empty() && session.id.starts_with(wanted))
            || directory.as_ref().is_some_and(|path| {
                std::fs::canonicalize(&session.directory).is_ok_and(|directory| directory == *path)
            })
    };
    let mut meant = survey.sessions.iter().filter(|session| is_meant(session));
    let Some(first) = meant.next() else {
        bail!(
            "no session {} runs: give its id, the beginning of it, or its directory",
            visible::text(wanted)
        );
    };
    if meant.any(|other| other.directory != first.directory) {
        bail!("several sessions have an id that begins with {}: give more of it", visible::text(wanted));
    }
    survey.questions.retain(|open| is_meant(&open.session));
    Ok(())
}
