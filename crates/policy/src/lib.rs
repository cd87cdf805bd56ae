//! What is allowed and why: the policy schema of RFC-0002 §3.2, how it is loaded and checked, the
//! built-in profiles, path validation, the rules of the network and the severity table of violations.
//!
//! Pure: it reads the files it is given and changes nothing. How a policy is enforced is the business
//! of `runtime` (which lowers it to a `Spec`) and `sandbox` (which builds the walls).
#![forbid(unsafe_code)]

pub mod host;
pub mod lasting;
pub mod load;
pub mod network;
pub mod path;
pub mod profile;
pub mod schema;
pub mod spelling;
pub mod syscalls;
pub mod units;
pub mod violation;

pub use schema::Policy;
