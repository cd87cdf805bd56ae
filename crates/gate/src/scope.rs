//! How far a person's yes may reach: what can be approved for the rest of a session, and whether an earlier approval
//! covers a call. Never wider than the directory of a file or one host, for one tool of one server; and never for what
//! is protected.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    call::Call,
    classify::Surroundings,
    facts::{Access, Facts, HostFact, HostKind, PathFact, Place},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CandidateKind {
    /// Everything below one directory, with an access no stronger than this one.
    Directory,
    /// One host, not its subdomains.
    Domain,
    /// The same call again, with the same arguments.
    Exact,
}

/// Something that can be approved for the rest of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub kind: CandidateKind,
    /// The directory, the host (with its port unless that is the web's), or the hash of the call.
    pub value: String,
    /// The strongest access it covers. Pushing to a host is writing.
    pub access: Access,
    /// For the person who is asked.
    pub description: String,
}

/// What a person approved: some or all of a call's candidates, for this tool of this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub server: String,
    pub tool: String,
    pub candidates: Vec<Candidate>,
}

/// Was a call approved before?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// This very call was.
    Exact,
    /// Every directory and host it is about was.
    Scope,
    /// Ask.
    None,
}

/// What may be approved for the session, instead of this call only. Empty when a protected place is involved.
///
/// Approving covers a later call only when it covers all of it: with a file and a host, both are needed.
pub fn candidates(call: &Call<'_>, facts: &Facts, surroundings: &Surroundings) -> Vec<Candidate> {
    if facts.paths.iter().any(|fact| fact.protected.is_some()) {
        return Vec::new();
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    let outside = facts.paths.iter().filter(|fact| fact.place == Place::Outside);
    for fact in outside {
        let Some(directory) = directory_of(fact).filter(|it| !is_too_wide(it, surroundings)) else {
            continue;
        };
        // A name that is no text cannot be shown and compared.
        let Some(value) = directory.to_str() else { continue };
        add(&mut candidates, CandidateKind::Directory, value.to_owned(), fact.access);
    }
    for fact in &facts.hosts {
        add(&mut candidates, CandidateKind::Domain, domain_of(fact), access_of(fact));
    }
    for candidate in &mut candidates {
        candidate.description = describe(call, candidate);
    }
    candidates.push(Candidate {
        kind: CandidateKind::Exact,
        value: fingerprint(call),
        access: Access::Delete,
        description: format!("{} of {} again with exactly these arguments", call.tool.name, call.tool.server),
    });
    candidates
}

/// Does what was approved cover this call?
pub fn covers(approvals: &[Approval], call: &Call<'_>, facts: &Facts) -> Coverage {
    if facts.paths.iter().any(|fact| fact.protected.is_some()) {
        return Coverage::None;
    }
    let same_tool = |it: &&Approval| it.server == call.tool.server && it.tool == call.tool.name;
    let approved: Vec<&Candidate> =
        approvals.iter().filter(same_tool).flat_map(|it| &it.candidates).collect();
    if approved.is_empty() {
        return Coverage::None;
    }
    let exact = fingerprint(call);
    if approved.iter().any(|it| it.kind == CandidateKind::Exact && it.value == exact) {
        return Coverage::Exact;
    }
    let mut outside = facts.paths.iter().filter(|fact| fact.place == Place::Outside).peekable();
    // What escalated for another reason than a place was approved only as it was.
    if outside.peek().is_none() && facts.hosts.is_empty() {
        return Coverage::None;
    }
    let of_kind = |kind| approved.iter().filter(move |it| it.kind == kind);
    let path_is_covered = |fact: &PathFact| {
        of_kind(CandidateKind::Directory).any(|it| {
            it.access >= fact.access
                && Path::new(&it.value).is_absolute()
                && fact.resolved.starts_with(&it.value)
        })
    };
    let host_is_covered = |fact: &HostFact| {
        of_kind(CandidateKind::Domain).any(|it| it.access >= access_of(fact) && it.value == domain_of(fact))
    };
    match outside.all(path_is_covered) && facts.hosts.iter().all(host_is_covered) {
        true => Coverage::Scope,
        false => Coverage::None,
    }
}

fn add(candidates: &mut Vec<Candidate>, kind: CandidateKind, value: String, access: Access) {
    match candidates.iter_mut().find(|it| it.kind == kind && it.value == value) {
        Some(known) => known.access = known.access.max(access),
        None => candidates.push(Candidate { kind, value, access, description: String::new() }),
    }
}

/// The directory that a path is in; a directory that is read or written to is its own, but deleting or moving one is
/// something done to its parent.
fn directory_of(fact: &PathFact) -> Option<PathBuf> {
    match fact.access != Access::Delete && fact.resolved.is_dir() {
        true => Some(fact.resolved.clone()),
        false => fact.resolved.parent().map(Path::to_owned),
    }
}

/// The root, the home directory and what holds the session are more than anybody means by "this directory".
fn is_too_wide(directory: &Path, surroundings: &Surroundings) -> bool {
    let holds = |place: &Path| place.starts_with(directory);
    directory.parent().is_none() || holds(surroundings.session()) || surroundings.home().is_some_and(holds)
}

fn domain_of(fact: &HostFact) -> String {
    match fact.port {
        None | Some(80 | 443) => fact.host.clone(),
        Some(port) if fact.host.contains(':') => format!("[{}]:{port}", fact.host),
        Some(port) => format!("{}:{port}", fact.host),
    }
}

fn access_of(fact: &HostFact) -> Access {
    match fact.kind {
        HostKind::GitPush => Access::Write,
        HostKind::Url | HostKind::Host | HostKind::GitFetch => Access::Read,
    }
}

fn describe(call: &Call<'_>, candidate: &Candidate) -> String {
    let Candidate { kind, value, access, .. } = candidate;
    let deed = match (kind, access) {
        (CandidateKind::Domain, Access::Read) => "use the host",
        (CandidateKind::Domain, _) => "push to the host",
        (_, Access::Read) => "read below",
        (_, Access::Write) => "read and write below",
        (_, Access::Delete) => "read, write and delete below",
    };
    format!("let {} of {} {deed} {value}", call.tool.name, call.tool.server)
}

/// The same for the same tool with the same arguments, in whatever order these are written.
fn fingerprint(call: &Call<'_>) -> String {
    let mut hash = Sha256::new();
    for part in [call.tool.server.as_str(), call.tool.name.as_str()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    add_object(&mut hash, call.arguments);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add_object(hash: &mut Sha256, object: &Map<String, Value>) {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by_key(|(name, _)| name.as_str());
    hash.update(b"{");
    hash.update((members.len() as u64).to_le_bytes());
    for (name, value) in members {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        add_value(hash, value);
    }
}

fn add_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(object) => add_object(hash, object),
        Value::Array(elements) => {
            hash.update(b"[");
            hash.update((elements.len() as u64).to_le_bytes());
            elements.iter().for_each(|element| add_value(hash, element));
        }
        Value::String(text) => {
            hash.update(b"s");
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let text = value.to_string();
            hash.update(b"v");
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::{Hints, Tool};

    fn tool(name: &str) -> Tool {
        Tool {
            server: "files".to_owned(),
            name: name.to_owned(),
            description: String::new(),
            input_schema: Value::Null,
            hints: Hints::default(),
        }
    }

    fn surroundings() -> Surroundings {
        Surroundings::new(Path::new("/no/where/session"), Path::new("/no/where/session"))
            .and_then(|it| it.with_home(Path::new("/no/home/me")))
            .expect("absolute")
    }

    fn path(resolved: &str, access: Access) -> PathFact {
        let place = if resolved.starts_with("/no/where/session") { Place::Session } else { Place::Outside };
        let resolved = resolved.into();
        PathFact {
            argument: "/path".to_owned(),
            given: String::new(),
            resolved,
            place,
            protected: None,
            access,
        }
    }

    fn host(name: &str, port: Option<u16>, kind: HostKind) -> HostFact {
        let (argument, given) = ("/url".to_owned(), String::new());
        HostFact { argument, given, host: name.to_owned(), port, scheme: None, kind }
    }

    fn approve(tool: &str, facts: &Facts, which: fn(&Candidate) -> bool) -> Approval {
        let tool = self::tool(tool);
        let arguments = Map::new();
        let call = Call { tool: &tool, arguments: &arguments };
        let candidates = candidates(&call, facts, &surroundings()).into_iter().filter(which).collect();
        Approval { server: tool.server, tool: tool.name, candidates }
    }

    fn coverage(approval: &Approval, tool: &str, facts: &Facts) -> Coverage {
        let tool = self::tool(tool);
        let arguments = json!({"x": 1});
        let call = Call { tool: &tool, arguments: arguments.as_object().expect("is an object") };
        covers(std::slice::from_ref(approval), &call, facts)
    }

    fn any(_: &Candidate) -> bool {
        true
    }

    #[test]
    fn a_directory_covers_what_is_below_it_with_no_stronger_access() {
        let facts = |name: &str, access| Facts { paths: vec![path(name, access)], hosts: vec![] };
        let approval = approve("read", &facts("/no/dir/a", Access::Write), any);
        assert_eq!(approval.candidates[0].value, "/no/dir");
        assert_eq!(coverage(&approval, "read", &facts("/no/dir/b/c", Access::Write)), Coverage::Scope);
        assert_eq!(coverage(&approval, "read", &facts("/no/dir/b", Access::Read)), Coverage::Scope);
        assert_eq!(coverage(&approval, "read", &facts("/no/dir/b", Access::Delete)), Coverage::None);
        assert_eq!(coverage(&approval, "read", &facts("/no/dir-evil/b", Access::Read)), Coverage::None);
        assert_eq!(coverage(&approval, "read", &facts("/no/other", Access::Read)), Coverage::None);
        assert_eq!(coverage(&approval, "other", &facts("/no/dir/a", Access::Read)), Coverage::None);
    }

    #[test]
    fn a_host_covers_itself_only() {
        let facts = |name: &str, port, kind| Facts { paths: vec![], hosts: vec![host(name, port, kind)] };
        let approval = approve("get", &facts("example.com", Some(443), HostKind::Url), any);
        assert_eq!(
            coverage(&approval, "get", &facts("example.com", Some(80), HostKind::Url)),
            Coverage::Scope
        );
        assert_eq!(
            coverage(&approval, "get", &facts("example.com", Some(22), HostKind::Url)),
            Coverage::None
        );
        assert_eq!(coverage(&approval, "get", &facts("a.example.com", None, HostKind::Url)), Coverage::None);
        assert_eq!(
            coverage(&approval, "get", &facts("example.com", None, HostKind::GitPush)),
            Coverage::None
        );
    }

    #[test]
    fn everything_a_call_is_about_must_be_covered() {
        let both = Facts {
            paths: vec![path("/no/dir/a", Access::Read), path("/no/where/session/x", Access::Delete)],
            hosts: vec![host("example.com", None, HostKind::Url)],
        };
        assert_eq!(coverage(&approve("t", &both, any), "t", &both), Coverage::Scope);
        let half = approve("t", &both, |it| it.kind == CandidateKind::Directory);
        assert_eq!(coverage(&half, "t", &both), Coverage::None);
        // Nothing outside: only the very same call is covered.
        let inside = Facts { paths: vec![path("/no/where/session/x", Access::Write)], hosts: vec![] };
        assert_eq!(coverage(&approve("t", &inside, any), "t", &inside), Coverage::None);
    }

    #[test]
    fn exactly_the_same_call_is_covered_in_any_order_of_its_arguments() {
        let tool = tool("t");
        let call =
            |arguments: &'static str| serde_json::from_str::<Map<String, Value>>(arguments).expect("is JSON");
        let (one, same, other) =
            (call(r#"{"a":1,"b":[2]}"#), call(r#"{"b":[2],"a":1}"#), call(r#"{"a":1,"b":["2"]}"#));
        let approved = candidates(&Call { tool: &tool, arguments: &one }, &Facts::default(), &surroundings());
        assert_eq!(approved.len(), 1);
        let approvals = [Approval { server: "files".into(), tool: "t".into(), candidates: approved }];
        let coverage = |arguments| covers(&approvals, &Call { tool: &tool, arguments }, &Facts::default());
        assert_eq!(coverage(&same), Coverage::Exact);
        assert_eq!(coverage(&other), Coverage::None);
    }

    #[test]
    fn nothing_wide_and_nothing_protected_is_offered() {
        for place in ["/etc", "/no/home/x", "/no/home/me/.bashrc", "/no/where/x"] {
            let facts = Facts { paths: vec![path(place, Access::Delete)], hosts: vec![] };
            let kinds: Vec<_> = approve("t", &facts, any).candidates.iter().map(|it| it.kind).collect();
            assert_eq!(kinds, [CandidateKind::Exact], "{place}");
        }
        let mut facts = Facts { paths: vec![path("/no/dir/a", Access::Read)], hosts: vec![] };
        let approval = approve("t", &facts, any);
        facts.paths[0].protected = Some("the log".to_owned());
        assert!(approve("t", &facts, any).candidates.is_empty());
        assert_eq!(coverage(&approval, "t", &facts), Coverage::None);
    }
}
