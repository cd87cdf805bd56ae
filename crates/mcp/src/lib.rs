//! The MCP proxy: the client talks to one server, this one; each real server runs in a sandbox of its own, and
//! every call is judged before it is passed on.
#![forbid(unsafe_code)]

pub mod blocked;
pub mod breaker;
pub mod config;
pub mod containment;
pub mod decide;
pub mod generation;
pub mod house;
pub mod http;
pub mod import;
pub mod journal;
pub mod line;
pub mod link;
pub mod message;
pub mod names;
pub mod outbox;
pub mod pins;
pub mod proxy;
pub mod reply;
pub mod screen;
pub mod session;
pub mod shorten;
pub mod stdio;
