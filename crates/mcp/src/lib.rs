//! The MCP proxy: the client talks to one server, this one; each real server runs in a sandbox of its own, and
//! every call is judged before it is passed on.
#![forbid(unsafe_code)]

pub mod blocked;
pub mod breaker;
pub mod line;
pub mod link;
pub mod message;
pub mod names;
pub mod pins;
