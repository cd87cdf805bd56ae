//! Starts a process inside limits: a plain [`Spec`] becomes a printable [`plan::Plan`], the plan is carried
//! out by the child itself, and the child reports what is really in force as an [`Enforcement`].
//!
//! Knows nothing of policies, profiles or audit logs: `runtime` lowers those to a `Spec` and decides what
//! an `Enforcement` or a blocked call means.

pub mod enforcement;
pub mod pattern;
pub mod plan;
pub mod spec;

#[cfg(target_os = "linux")]
pub mod linux;

pub use enforcement::{Enforcement, Layer};
pub use pattern::Pattern;
pub use plan::Plan;
pub use spec::Spec;
