//! Why a call is denied before any policy is asked.

use super::{git::GitFault, hosts::HostFault, resolve::PathFault};
use crate::{
    facts::{Access, Facts},
    verdict::{Decision, Rule, Verdict},
};

/// A denial that no policy can lift, and what was found out until then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Refusal {
    pub fault: Box<Fault>,
    pub facts: Facts,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("Unknown argument(s): {names}. {known}")]
    UnknownArguments { names: String, known: String },
    #[error("Missing argument(s): {names}. The tool's schema requires them.")]
    MissingArguments { names: String },
    #[error("Argument `{argument}` is {found}, and the tool's schema wants {wanted}.")]
    WrongType { argument: String, found: &'static str, wanted: String },
    #[error(
        "The schema of the tool describes no arguments with names, so none can be given; ask who maintains the server."
    )]
    NotAnObjectSchema,
    #[error("The schema of the tool is too deep or too large to check arguments against.")]
    SchemaTooLarge,
    #[error("The arguments are too large to check; make several calls of it.")]
    TooLarge,
    #[error(
        "Argument `{argument}` leads to a protected place ({what}). No policy can allow this; do not try again."
    )]
    Protected { argument: String, what: String },
    #[error(
        "Argument `{argument}` is a directory that holds a protected place ({what}), and the call would {deed} it. \
         No policy can allow this; name the files that are meant."
    )]
    HoldsProtected { argument: String, what: String, deed: &'static str },
    #[error("It cannot be told which file argument `{argument}` means: {fault}.")]
    Path { argument: String, fault: PathFault },
    #[error("It cannot be told which host argument `{argument}` means: {fault}.")]
    Host { argument: String, fault: HostFault },
    #[error("It cannot be told where the repository of this call would connect to: {0}.")]
    Git(GitFault),
    #[error("The call refers to more than {most} files and hosts; make several calls of it.")]
    TooMany { most: usize },
}

impl Fault {
    /// One of the constants of [`Rule`].
    pub fn rule(&self) -> &'static str {
        match self {
            Fault::UnknownArguments { .. } | Fault::NotAnObjectSchema => Rule::UNKNOWN_ARGUMENT,
            Fault::MissingArguments { .. } | Fault::WrongType { .. } => Rule::INVALID_ARGUMENT,
            Fault::Protected { .. } | Fault::HoldsProtected { .. } => Rule::PROTECTED_PATH,
            Fault::SchemaTooLarge
            | Fault::TooLarge
            | Fault::Path { .. }
            | Fault::Host { .. }
            | Fault::Git(_)
            | Fault::TooMany { .. } => Rule::UNDECIDABLE,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal { fault: Box::new(fault), facts: Facts::default() }
    }
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        Verdict {
            decision: Decision::Deny,
            rule: Rule(refusal.fault.rule().to_owned()),
            reason: refusal.fault.to_string(),
            facts: refusal.facts,
        }
    }
}

/// The word for a deed in a sentence.
pub(super) fn deed(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write to",
        Access::Delete => "move or delete",
    }
}

/// Names come from the agent: bounded, and without anything that could be taken for more than a name.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
