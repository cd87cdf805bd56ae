//! Black-box tests of the program `lazaret`: every test runs the binary as a person would and judges from
//! outside. Where the test process is root, everything that is enforced is tried twice: started by root and
//! started by an ordinary user.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests"
)]

mod case;
mod host;
mod outcome;
mod terminal;

mod audit;
mod audit_files;
mod audit_reading;
mod checklist;
mod command_line;
mod degraded;
mod detours;
mod environment;
mod escalation;
mod escape_response;
mod executables;
mod exit_codes;
mod faults;
mod guarded;
mod identity;
mod interactive;
mod learn;
mod leftovers;
mod levels;
mod library;
mod limits;
mod mcp;
mod metrics;
mod network;
mod paths;
mod policy;
mod real_programs;
mod refusals;
mod resources;
mod serving;
mod signals;
mod srt;
mod streams;
mod supervision;
mod telling;
mod tools;
mod transactions;
mod view;
