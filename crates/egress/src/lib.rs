//! The one way out of a sandbox: a name server that asks nobody, a gate that decides by name, and a thread that
//! resolves, checks, dials and copies. The [`engine`] is the thread, the [`gate`] decides, [`carry`] is the life
//! of one connection.
//!
//! Hostile bytes are read by parsers without input or output ([`hello`], [`request`], [`socks`], [`wire`]): each
//! takes them in whatever pieces they come, is bounded and never panics.
#![forbid(unsafe_code)]

pub mod carry;
mod check;
pub mod dial;
pub mod dns;
mod door;
pub mod engine;
pub mod entropy;
pub mod event;
pub mod gate;
pub mod guard;
pub mod hello;
mod names;
mod parent;
mod relay;
pub mod request;
mod response;
pub mod socks;
pub mod wire;
