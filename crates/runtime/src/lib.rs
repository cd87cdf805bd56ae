//! The life of a sandbox: a policy and a request are lowered to a `Spec`, the sandbox is launched, watched
//! and ended, and everything that was denied is recorded. The story is in [`run`].
#![forbid(unsafe_code)]

pub mod alert;
pub mod approvals;
pub mod availability;
mod conclude;
pub mod configuration;
pub mod doctor;
mod environment;
mod filter;
mod growth;
pub mod learn;
pub mod leftovers;
pub mod life;
mod lower;
pub mod meter;
pub mod network;
mod paths;
mod prepare;
pub mod presence;
mod processes;
pub mod quarantine;
pub mod record;
pub mod report;
pub mod request;
mod resolver;
mod respond;
pub mod run;
pub mod settle;
pub mod state;
mod steer;
mod supervise;
pub mod tap;
mod terminal;
pub mod tools;
mod totals;
mod trace;
mod view;
mod watch;

pub use availability::{Availability, availability, availability_here};
pub use lazaret_sandbox::linux::{
    launch::Stem,
    launcher::{self, Launcher, LauncherError},
    sys::{copy_of_inherited, ignore_file_size_signal, signals_as_descriptor},
};
pub use life::{Child, Command, Output, Sandbox, Stdio, serve};
pub use prepare::{Prepared, RunError, prepare};
pub use report::Report;
pub use request::{Request, Requirement};
pub use run::{Outcome, begin};
pub use tap::{Mark, ViolationTap};
