//! Questions to a person. The proxy asks at its [`Desk`], a person answers with `lazaret escalation` or any front
//! end that writes the file of an answer; what was approved for the session is kept in [`Approvals`].
//!
//! Everything goes through files in a directory that only its owner can enter: `request-ID.json` and
//! `response-ID.json`. `docs/escalations.md` has the protocol. Nothing here starts a thread or sleeps, but for
//! [`Desk::wait`] and [`answer`].
//!
//! Whatever is wrong with an answer makes it a no.

mod approvals;
mod canonical;
mod context;
mod desk;
mod directory;
mod hidden;
mod presence;
mod reply;
mod request;
mod response;
mod strict;
mod survey;

#[cfg(test)]
mod place;

pub use approvals::{Approvals, GrantError, PatternId, Scope, describe, suggest};
pub use canonical::CallDigest;
pub use desk::{AskError, BadTimeout, Desk, DeskError, Ticket, Timeout};
pub use directory::DirectoryError;
pub use hidden::is_hidden;
pub use presence::{Presence, Process};
pub use reply::{Delivery, Reply, ReplyError, answer};
pub use request::{Candidate, Context, Question, QuestionId, Request};
pub use response::{Answer, Approval, Breadth, Denial};
pub use survey::{FindError, Open, Session, Survey, SurveyError, Trouble, find, open_questions};
