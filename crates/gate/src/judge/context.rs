//! What a policy sees of a request beside its arguments: the facts, what the server claims, and how it runs.
//! The table of names is here, once, for the schema and for the values.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

use cedar_policy::{Context, RestrictedExpression};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    call::Hints,
    facts::{Access, Facts, HostKind, Place},
    judge::{diagnostic::printable, shape::Members},
};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Call,
    Read,
    Prompt,
}

/// How a server runs and what is known of the tool, at the time of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Circumstances {
    pub containment: Containment,
    pub network: Network,
    /// The session directory.
    pub session: PathBuf,
    pub pin: Pin,
}

/// As the sandbox itself reports, never as the configuration asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Containment {
    Sandboxed,
    Bare,
}

/// Whether the server's sandbox lets anything out. A bare server has the host's network, whatever is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    Closed,
    Open,
}

/// The tool beside what was pinned when it was first used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Pin {
    /// Nothing was pinned before.
    First,
    Same,
    Changed,
}

/// Attributes of every context that are sets of strings, booleans and others, in this order.
const SETS: [&str; 10] = [
    "paths",
    "outsidePaths",
    "readPaths",
    "writePaths",
    "deletePaths",
    "pathsWithin",
    "outsideWithin",
    "domains",
    "domainsWithin",
    "schemes",
];
const TRUTHS: [&str; 4] = ["insideSession", "pushes", "pinned", "toolChanged"];
const OTHERS: [&str; 5] = ["args", "addresses", "ports", "hints", "session"];
const HINTS: [&str; 4] = ["readOnly", "destructive", "idempotent", "openWorld"];
pub const OF_SERVER: [&str; 2] = ["sandboxed", "network"];

/// Names that the context of a kind has beyond those of every context.
fn own(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Call => &["tool"],
        Kind::Read => &["uri", "scheme"],
        Kind::Prompt => &["prompt"],
    }
}

/// Every name in any context, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    let kinds = [Kind::Call, Kind::Read, Kind::Prompt];
    let own = kinds.into_iter().flat_map(own).copied();
    SETS.into_iter().chain(TRUTHS).chain(OTHERS).chain(own)
}

pub fn hint_names() -> impl Iterator<Item = &'static str> {
    HINTS.into_iter()
}

/// The attributes of a context, as Cedar's JSON schema has them.
pub fn attributes(kind: Kind, arguments: &Members) -> Map<String, Value> {
    let set = |of: Value| json!({ "type": "Set", "element": of });
    let truth = || json!({ "type": "Boolean" });
    let text = || json!({ "type": "String" });
    let mut all = Map::new();
    for name in SETS {
        all.insert(name.into(), set(text()));
    }
    for name in TRUTHS {
        all.insert(name.into(), truth());
    }
    for name in own(kind) {
        all.insert((*name).into(), text());
    }
    all.insert("args".into(), arguments.to_cedar());
    all.insert("addresses".into(), set(json!({ "type": "Extension", "name": "ipaddr" })));
    all.insert("ports".into(), set(json!({ "type": "Long" })));
    let hints: Map<String, Value> = HINTS.iter().map(|name| ((*name).to_owned(), truth())).collect();
    all.insert("hints".into(), json!({ "type": "Record", "attributes": hints }));
    all.insert("session".into(), text());
    all
}

/// Why a request cannot be put to the policies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("the path {} is not valid Unicode, so no policy can judge it", printable(&.0.display().to_string()))]
    Path(PathBuf),
    #[error("the request cannot be put to the policies: {0}")]
    Refused(String),
}

/// The parts of a context that are not facts.
pub struct Particulars<'a> {
    pub own: Vec<(&'static str, &'a str)>,
    pub args: RestrictedExpression,
    pub hints: Hints,
}

/// Which names of the context are looked at by any policy. The others need not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    All,
    Only(BTreeSet<String>),
}

impl Wanted {
    fn holds(&self, name: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Only(names) => names.contains(name),
        }
    }
}

pub fn context(
    particulars: &Particulars<'_>,
    facts: &Facts,
    circumstances: &Circumstances,
    wanted: &Wanted,
) -> Result<Context, Unclear> {
    let mut pairs: Vec<(String, RestrictedExpression)> = Vec::with_capacity(24);
    let mut put = |name: &str, value: &dyn Fn() -> RestrictedExpression| {
        if wanted.holds(name) {
            pairs.push((name.to_owned(), value()));
        }
    };

    let mut paths = Vec::with_capacity(facts.paths.len());
    for fact in &facts.paths {
        let text = fact.resolved.to_str().ok_or_else(|| Unclear::Path(fact.resolved.clone()))?;
        paths.push((text, fact.place, fact.access));
    }
    let every = || paths.iter().map(|(path, ..)| *path);
    let outside = || paths.iter().filter(|(_, place, _)| *place == Place::Outside).map(|(path, ..)| *path);
    let with = |wanted: Access| {
        texts(paths.iter().filter(move |(_, _, access)| *access == wanted).map(|(path, ..)| *path))
    };
    put("paths", &|| texts(every()));
    put("outsidePaths", &|| texts(outside()));
    put("readPaths", &|| with(Access::Read));
    put("writePaths", &|| with(Access::Write));
    put("deletePaths", &|| with(Access::Delete));
    put("pathsWithin", &|| texts(ancestors(shared(every()))));
    put("outsideWithin", &|| texts(ancestors(shared(outside()))));
    put("insideSession", &|| RestrictedExpression::new_bool(outside().next().is_none()));

    let hosts = &facts.hosts;
    put("domains", &|| texts(hosts.iter().map(|fact| fact.host.as_str())));
    put("domainsWithin", &|| texts(zones(facts)));
    put("addresses", &|| {
        let addresses = hosts.iter().filter_map(|fact| address(&fact.host));
        RestrictedExpression::new_set(addresses.map(|ip| RestrictedExpression::new_ip(ip.to_string())))
    });
    put("schemes", &|| texts(hosts.iter().filter_map(|fact| fact.scheme.as_deref())));
    put("ports", &|| {
        let ports = hosts.iter().filter_map(|fact| fact.port);
        RestrictedExpression::new_set(ports.map(|port| RestrictedExpression::new_long(port.into())))
    });
    let pushes = || hosts.iter().any(|fact| fact.kind == HostKind::GitPush);
    put("pushes", &|| RestrictedExpression::new_bool(pushes()));

    let session = circumstances.session.to_str();
    let session = session.ok_or_else(|| Unclear::Path(circumstances.session.clone()))?;
    put("session", &|| RestrictedExpression::new_string(session.to_owned()));
    put("pinned", &|| RestrictedExpression::new_bool(circumstances.pin == Pin::Same));
    put("toolChanged", &|| RestrictedExpression::new_bool(circumstances.pin == Pin::Changed));
    put("args", &|| particulars.args.clone());
    for (name, value) in &particulars.own {
        put(name, &|| RestrictedExpression::new_string((*value).to_owned()));
    }
    if wanted.holds("hints") {
        pairs.push(("hints".to_owned(), claims(particulars.hints)?));
    }
    Context::from_pairs(pairs).map_err(|error| Unclear::Refused(error.to_string()))
}

/// With MCP's defaults for what the server does not say.
fn claims(hints: Hints) -> Result<RestrictedExpression, Unclear> {
    let claimed = [
        hints.read_only_hint.unwrap_or(false),
        hints.destructive_hint.unwrap_or(true),
        hints.idempotent_hint.unwrap_or(false),
        hints.open_world_hint.unwrap_or(true),
    ];
    let fields = HINTS.into_iter().zip(claimed);
    RestrictedExpression::new_record(
        fields.map(|(name, truth)| (name.to_owned(), RestrictedExpression::new_bool(truth))),
    )
    .map_err(|error| Unclear::Refused(error.to_string()))
}

fn texts<'a>(all: impl Iterator<Item = &'a str>) -> RestrictedExpression {
    RestrictedExpression::new_set(all.map(|text| RestrictedExpression::new_string(text.to_owned())))
}

pub fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The deepest path that all others are at or under; whole names count, not letters.
fn shared<'a>(mut all: impl Iterator<Item = &'a str>) -> Option<&'a Path> {
    let mut common = Path::new(all.next()?);
    for path in all {
        while !Path::new(path).starts_with(common) {
            common = common.parent()?;
        }
    }
    Some(common)
}

fn ancestors(deepest: Option<&Path>) -> impl Iterator<Item = &str> {
    deepest.into_iter().flat_map(Path::ancestors).filter_map(Path::to_str).filter(|text| !text.is_empty())
}

/// Every name that all hosts are, or end in after a dot. An address lies in itself only.
fn zones(facts: &Facts) -> impl Iterator<Item = &str> {
    let mut hosts = facts.hosts.iter().map(|fact| fact.host.as_str());
    let mut common = hosts.next();
    for host in hosts {
        while let Some(zone) = common
            && !lies_in(host, zone)
        {
            common = above(zone);
        }
    }
    std::iter::successors(common, |zone| above(zone))
}

fn lies_in(host: &str, zone: &str) -> bool {
    host == zone
        || host.strip_suffix(zone).is_some_and(|front| front.ends_with('.') && address(host).is_none())
}

fn above(zone: &str) -> Option<&str> {
    if address(zone).is_some() {
        return None;
    }
    zone.split_once('.').map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::HostFact;

    fn hosts(names: &[&str]) -> Facts {
        let fact = |name: &&str| HostFact {
            argument: "/url".into(),
            given: (*name).into(),
            host: (*name).into(),
            port: None,
            scheme: None,
            kind: HostKind::Url,
        };
        Facts { paths: vec![], hosts: names.iter().map(fact).collect() }
    }

    fn zones_of(names: &[&str]) -> Vec<String> {
        zones(&hosts(names)).map(str::to_owned).collect()
    }

    #[test]
    fn zones_are_shared_by_all_hosts() {
        assert_eq!(zones_of(&["api.github.com"]), ["api.github.com", "github.com", "com"]);
        assert_eq!(zones_of(&["api.github.com", "github.com"]), ["github.com", "com"]);
        assert_eq!(zones_of(&["api.github.com", "notgithub.com"]), ["com"]);
        assert!(zones_of(&["api.github.com", "evil.example"]).is_empty());
        assert!(zones_of(&[]).is_empty());
    }

    #[test]
    fn an_address_lies_in_itself_only() {
        assert_eq!(zones_of(&["10.0.0.1"]), ["10.0.0.1"]);
        assert!(zones_of(&["10.0.0.1", "0.0.1"]).is_empty());
        assert!(zones_of(&["10.0.0.1", "10.1.0.1"]).is_empty());
    }

    #[test]
    fn directories_are_shared_by_whole_names() {
        let within = |paths: &[&str]| -> Vec<String> {
            ancestors(shared(paths.iter().copied())).map(str::to_owned).collect()
        };
        assert_eq!(within(&["/srv/data/x"]), ["/srv/data/x", "/srv/data", "/srv", "/"]);
        assert_eq!(within(&["/srv/data/x", "/srv/database"]), ["/srv", "/"]);
        assert_eq!(within(&["/srv/data", "/etc"]), ["/"]);
        assert!(within(&[]).is_empty());
    }
}
