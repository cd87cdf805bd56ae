//! What happened, in an order nobody can quietly change: one event type, an append-only log of JSON lines
//! in which each line carries the hash of the one before, the files it is rotated into, and the reader and
//! verifier of that log.
//!
//! Decides nothing: callers say what an event means. Secrets are taken out on the way in ([`redact`]). To read
//! all events and those that arrive later, see [`Follow`]; to ask for some of them, [`query`].
#![forbid(unsafe_code)]

mod clean;
pub mod event;
pub mod export;
mod file;
pub mod follow;
mod head;
mod line;
pub mod log;
pub mod metrics;
pub mod query;
pub mod reader;
pub mod redact;
mod rotation;
mod segment;
pub mod sqlite;
pub mod stats;
pub mod verify;
pub mod view;

pub use event::{Event, EventKind, NewEvent, UnknownKind};
pub use follow::{Follow, Position};
pub use line::MAX_LINE;
pub use log::{AuditError, Log};
pub use query::{Filter, HostPattern};
pub use reader::{ReadError, Reader};
pub use rotation::{Rotated, Rotation};
pub use segment::files_of;
pub use verify::{Reason, Verified, VerifyError, verify};
pub use view::{Facts, Severity, View};
