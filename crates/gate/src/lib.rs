//! One decision for every tool call: what a call is about is found out here (`classify`), judged by policies
//! (`judge`), and put to a person where the policy says so (`escalation`).
//!
//! Starts nothing and speaks no protocol: see the crate `mcp`.
#![forbid(unsafe_code)]

pub mod call;
pub mod classify;
pub mod escalation;
pub mod facts;
pub mod judge;
pub mod verdict;

pub use call::{Call, Hints, Tool};
pub use classify::{Lookups, Refusal, Surroundings, classify};
pub use facts::{Access, Facts, HostFact, HostKind, PathFact, Place};
pub use judge::{Circumstances, Explanation, Judge};
pub use verdict::{Decision, Rule, Verdict};
