//! What happened, in an order nobody can quietly change: one event type, an append-only log of JSON lines
//! in which each line carries the hash of the one before, and the reader and verifier of that log.
//!
//! Decides nothing: callers say what an event means. Secrets are taken out on the way in ([`redact`]).
#![forbid(unsafe_code)]

mod clean;
pub mod event;
mod file;
mod head;
mod line;
pub mod log;
pub mod metrics;
pub mod reader;
pub mod redact;
pub mod verify;

pub use event::{Event, EventKind, NewEvent, UnknownKind};
pub use line::MAX_LINE;
pub use log::{AuditError, Log};
pub use reader::{ReadError, Reader};
pub use verify::{Reason, Verified, VerifyError, verify};
