//! What a call is about, found out from its arguments: which files, which hosts. Policies judge these, not the
//! text.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that the arguments of one call refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub paths: Vec<PathFact>,
    pub hosts: Vec<HostFact>,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathFact {
    /// Which argument, as a JSON pointer: `/path`, `/files/0/name`.
    pub argument: String,
    pub given: String,
    /// Absolute, links followed, as the operating system would find it.
    pub resolved: PathBuf,
    pub place: Place,
    /// What is protected there, in words, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    pub access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the session directory, or that directory itself.
    Session,
    Outside,
}

/// What the call will do with it, as far as names tell. Writing is assumed when they do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    Read,
    Write,
    Delete,
}

/// Somewhere on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostFact {
    pub argument: String,
    /// Without credentials.
    pub given: String,
    /// Normalised as the egress does: lower case, punycode, an address in its usual form.
    pub host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    pub kind: HostKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HostKind {
    Url,
    Host,
    /// Where a repository fetches from.
    GitFetch,
    /// Where it pushes to; may be another place.
    GitPush,
}
