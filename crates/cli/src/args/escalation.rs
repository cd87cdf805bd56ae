//! What can be typed after `lazaret escalation`.

use std::num::NonZeroUsize;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// A tool call that the policy escalates waits until its owner answers, or until its time is over, which denies it.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  lazaret escalation list
  lazaret escalation show 3f2a9c1e
  lazaret escalation approve 3f2a9c1e
  lazaret escalation approve 3f2a9c1e --session
  lazaret escalation deny 3f2a9c1e --reason 'use the copy in the session directory'
  lazaret escalation watch

Exit codes: 0 done; 1 no such question, answered already or expired; 125 lazaret's own failure.")]
pub enum Escalation {
    /// List the questions that wait for an answer
    List(List),
    /// Show everything about a question
    Show(Show),
    /// Let a call be made
    Approve(Approve),
    /// Refuse a call
    Deny(Deny),
    /// Show questions as they come, and answer them with single keys
    Watch(Watch),
}

#[derive(Debug, ClapArgs)]
pub struct List {
    /// Of one session: its id, the beginning of it, or its directory
    #[arg(long, value_name = "ID|DIR")]
    pub session: Option<String>,
    #[arg(long)]
    pub json: bool,
}

/// Characters that cannot be seen, or that reorder what is seen, are written as \uXXXX: whoever wrote the arguments
/// may want to fool you.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// The question, or the beginning of its id
    pub id: String,
    #[arg(long)]
    pub json: bool,
}

/// Once, unless said otherwise. What approving for the session covers is what `show` says, and nothing wider.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  lazaret escalation approve 3f2a9c1e
  lazaret escalation approve 3f2a9c1e --session --note 'the build needs it'")]
pub struct Approve {
    /// The question, or the beginning of its id
    pub id: String,
    /// Calls like it, too, until the session ends: the same as --scope session
    #[arg(long, conflicts_with = "scope")]
    pub session: bool,
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "once")]
    pub scope: Scope,
    /// For the session, in this of the ways that `show` lists [default: 1]
    #[arg(long, value_name = "N")]
    pub candidate: Option<NonZeroUsize>,
    /// Goes into the record
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// This call
    Once,
    /// Calls like it until the session ends
    Session,
}

#[derive(Debug, ClapArgs)]
pub struct Deny {
    /// The question, or the beginning of its id
    pub id: String,
    /// The agent is told
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[arg(long)]
    pub json: bool,
}

/// Keys: up, down, j, k select; a approves once, s for the session; d denies; enter shows everything; q ends.
/// Without a terminal, or with --json, a line is printed for each question that comes.
#[derive(Debug, ClapArgs)]
pub struct Watch {
    /// Of one session: its id, the beginning of it, or its directory
    #[arg(long, value_name = "ID|DIR")]
    pub session: Option<String>,
    /// One question in a line
    #[arg(long)]
    pub json: bool,
}
