//! Numbers from events (RFC-0002 §11.2): a [`Tally`] hears every event of a log and tells what it has counted as
//! [`Family`]s, which are then written as text for Prometheus, as JSON or as OTLP.
//!
//! Reading the log is [`feed`]'s part; the rest is pure. Labels never come from hosts or paths, and there are at
//! most so many values of each.

mod family;
pub mod feed;
mod gather;
mod json;
#[cfg(feature = "otlp")]
pub mod otlp;
mod run;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub use family::{Family, Histogram, Kind, Sample, Value};
pub use gather::{Readable, Telling};
pub use json::json;
pub use run::Watched;
pub use tally::{Fate, Tally};
pub use text::{Format, text};
