//! Whether policies fit the tools that there are: names of servers, tools and arguments first, with hints of our
//! own, then Cedar's type check against the generated schema.
//!
//! A policy that names something of a server which is configured but not up is not an error, because the rest
//! has to work without that server: it is a warning, and the policy is checked when the server comes. Until then
//! nothing of that server can be called.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{
    EntityUid, Policy, PolicySet, ValidationMode, ValidationWarning, Validator, ffi::DetailedError,
};
use lazaret_policy::spelling;
use serde_json::Value;

use crate::judge::{
    action,
    catalog::{Catalog, Server},
    clause::Clause,
    context::{self, Wanted},
    diagnostic::{Diagnostic, Severity, printable},
    schema::Generated,
    shape::{Found, Members},
};

/// What was found, and which policies (by their place in the list) do not fit.
#[derive(Debug, Default)]
pub struct Findings {
    pub diagnostics: Vec<Diagnostic>,
    pub unfit: BTreeSet<usize>,
}

impl Findings {
    fn add(&mut self, clause: usize, found: Diagnostic) {
        if found.severity == Severity::Error {
            self.unfit.insert(clause);
        }
        if !self.diagnostics.contains(&found) {
            self.diagnostics.push(found);
        }
    }
}

pub fn check(clauses: &[Clause], catalog: &Catalog, generated: &Generated) -> Findings {
    let names = Names::of(catalog, generated);
    let mut findings = Findings::default();
    let mut unchecked = BTreeSet::new();
    for (at, clause) in clauses.iter().enumerate() {
        let before = findings.diagnostics.len();
        names.check(clause, &mut |found| findings.add(at, found));
        let mut own = findings.diagnostics.iter().skip(before);
        if own.any(|found| found.severity == Severity::Warning) {
            unchecked.insert(at);
        }
    }
    let ids: BTreeMap<&str, usize> =
        clauses.iter().enumerate().map(|(at, clause)| (clause.id.as_str(), at)).collect();
    let fits = |at: &usize| !findings.unfit.contains(at) && !unchecked.contains(at);
    let set = PolicySet::from_policies(
        clauses.iter().enumerate().filter(|(at, _)| fits(at)).map(|(_, clause)| clause.policy.clone()),
    );
    let Ok(set) = set else {
        // Only ids that occur twice; these were refused before.
        findings.unfit.extend(0..clauses.len());
        return findings;
    };
    let result = Validator::new(generated.schema.clone()).validate(&set, ValidationMode::Strict);
    for error in result.validation_errors() {
        let detail = DetailedError::from(error);
        if let Some((at, clause)) =
            ids.get(AsRef::<str>::as_ref(error.policy_id())).and_then(|at| Some((*at, clauses.get(*at)?)))
        {
            findings.add(at, clause.reported(Severity::Error, &detail));
        }
    }
    for warning in result.validation_warnings() {
        let id: &str = warning.policy_id().as_ref();
        let Some((at, clause)) = ids.get(id).and_then(|at| Some((*at, clauses.get(*at)?))) else { continue };
        let idle = matches!(
            warning,
            ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_)
        );
        // Where there is nothing yet that it could be about, it is no wonder.
        if idle && names.scope(clause).is_thin() {
            continue;
        }
        findings.add(at, clause.reported(Severity::Warning, &DetailedError::from(warning)));
    }
    findings
}

/// Everything that can be named.
struct Names<'a> {
    catalog: &'a Catalog,
    generated: &'a Generated,
    /// Names of actions and groups.
    actions: BTreeSet<String>,
    /// Servers by the name that is written in actions.
    servers: BTreeMap<String, (&'a str, &'a Server)>,
}

/// What the head of a policy is about.
struct InScope<'a> {
    tools: Vec<&'a Members>,
    /// Whether a server is among it whose tools are not known.
    unknown: Option<&'a str>,
}

impl InScope<'_> {
    fn is_thin(&self) -> bool {
        self.tools.is_empty() || self.unknown.is_some()
    }
}

impl<'a> Names<'a> {
    fn of(catalog: &'a Catalog, generated: &'a Generated) -> Self {
        let servers: BTreeMap<String, (&str, &Server)> =
            catalog.servers().map(|(name, server)| (action::server(name), (name, server))).collect();
        let actions = generated.schema.actions().map(|uid| uid.id().unescaped().to_owned()).collect();
        Names { catalog, generated, actions, servers }
    }

    fn check(&self, clause: &Clause, report: &mut impl FnMut(Diagnostic)) {
        let mut misnamed = false;
        let mut report_name = |found: Diagnostic| {
            misnamed |= found.severity == Severity::Error;
            report(found);
        };
        for literal in clause.policy.entity_literals() {
            match literal.type_name().to_string().as_str() {
                "Action" => self.check_action(clause, &literal, &mut report_name),
                "Server" => self.check_server(clause, &literal, &mut report_name),
                "Agent" if literal.id().unescaped() != action::CLIENT => {
                    let message = format!("there is no {literal}");
                    let hint = "the one who calls is always Agent::\"client\"".to_owned();
                    report_name(clause.at_word(&quoted(&literal), Severity::Error, message, Some(hint)));
                }
                _ => {}
            }
        }
        for path in attributes(&clause.policy) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match path.as_slice() {
                ["context", "args"] => {}
                // Of which tools it would be an argument is not known then.
                ["context", "args", ..] if misnamed => {}
                ["context", "args", argument @ ..] => self.check_argument(clause, argument, report),
                ["context", "hints", name, ..] => {
                    known(clause, name, "context.hints", context::hint_names(), report)
                }
                ["context", name, ..] => known(clause, name, "the context", context::names(), report),
                ["resource", name, ..] => {
                    known(clause, name, "a server", context::OF_SERVER.into_iter(), report)
                }
                _ => {}
            }
        }
    }

    fn check_action(&self, clause: &Clause, literal: &EntityUid, report: &mut impl FnMut(Diagnostic)) {
        let id = literal.id().unescaped();
        if self.actions.contains(id) {
            return;
        }
        let part = action::server_part(id).unwrap_or_default();
        let nearest = |names: &mut dyn Iterator<Item = &str>| {
            spelling::nearest(id, names).map(|near| format!("did you mean Action::{near:?}?"))
        };
        let (severity, message, hint) = match self.servers.get(part) {
            Some((name, Server::Absent)) => (
                Severity::Warning,
                format!("{literal} cannot be checked: the server `{name}` is not running"),
                Some("the policy is in force, and is checked when the server comes".to_owned()),
            ),
            Some((name, Server::Running(_))) => {
                let start = format!("{part}/");
                let mut own = self.actions.iter().map(String::as_str).filter(|name| name.starts_with(&start));
                let hint = nearest(&mut own).or_else(|| self.listed(name));
                (Severity::Error, format!("the server `{name}` has nothing that is called {literal}"), hint)
            }
            None => {
                let hint = nearest(&mut self.actions.iter().map(String::as_str)).or_else(|| {
                    let near = spelling::nearest(part, self.servers.keys().map(String::as_str));
                    near.map(|near| format!("did you mean the server `{near}`?"))
                });
                let words =
                    if id.contains(['/', '#']) { "no such server" } else { "no such server or group" };
                (
                    Severity::Error,
                    format!("{literal} does not exist: there is {words}"),
                    hint.or_else(|| self.all()),
                )
            }
        };
        report(clause.at_word(&quoted(literal), severity, message, hint));
    }

    fn check_server(&self, clause: &Clause, literal: &EntityUid, report: &mut impl FnMut(Diagnostic)) {
        let name = literal.id().unescaped();
        if self.catalog.server(name).is_some() {
            return;
        }
        let near = spelling::nearest(name, self.catalog.servers().map(|(name, _)| name));
        let hint = near.map(|near| format!("did you mean Server::{near:?}?")).or_else(|| self.all());
        let message = format!("there is no server `{}`", name.escape_debug());
        report(clause.at_word(&quoted(literal), Severity::Error, message, hint));
    }

    fn check_argument(&self, clause: &Clause, path: &[&str], report: &mut impl FnMut(Diagnostic)) {
        let scope = self.scope(clause);
        let found: Vec<Found> = scope.tools.iter().map(|members| members.find(path)).collect();
        if found.contains(&Found::Expressed) {
            return;
        }
        let shown = path.join(".");
        let word = path.last().copied().unwrap_or_default();
        let left_out = found.iter().find_map(|found| match found {
            Found::LeftOut(why) => Some(*why),
            Found::Expressed | Found::Unknown => None,
        });
        if let Some(why) = left_out {
            let message = format!("policies do not see the argument `{shown}`: {why}");
            let hint = "its paths and hosts are in the context all the same: context.paths, context.domains";
            report(clause.at_word(word, Severity::Error, message, Some(hint.into())));
            return;
        }
        if let Some(server) = scope.unknown {
            let message =
                format!("the argument `{shown}` cannot be checked: the server `{server}` is not running");
            let hint = "the policy is in force, and is checked when the server comes";
            report(clause.at_word(word, Severity::Warning, message, Some(hint.into())));
            return;
        }
        // Without any tool there is nothing to compare with, and nothing to call.
        if self.catalog.servers().next().is_none() {
            return;
        }
        let names = || scope.tools.iter().flat_map(|members| members.expressed.keys()).map(String::as_str);
        let first = path.first().copied().unwrap_or_default();
        let hint = spelling::nearest(first, names())
            .map(|near| format!("did you mean context.args.{}?", printable(near)));
        let hint = hint.or_else(|| {
            let all: BTreeSet<&str> = names().take(20).collect();
            let all: Vec<&str> = all.into_iter().collect();
            (!all.is_empty()).then(|| format!("there are {}", printable(&all.join(", "))))
        });
        let message = format!("no tool that this policy is about has an argument `{shown}`");
        report(clause.at_word(word, Severity::Error, message, hint));
    }

    fn scope(&self, clause: &Clause) -> InScope<'_> {
        let mut found = InScope { tools: Vec::new(), unknown: None };
        for (server, state) in self.catalog.servers() {
            if clause.scope.server().is_some_and(|wanted| wanted != server) {
                continue;
            }
            let group = action::server(server);
            let named = |id: &str| match clause.scope.actions() {
                None => true,
                Some(names) => names.iter().any(|name| name == action::CALL || *name == group || name == id),
            };
            match state {
                Server::Absent => {
                    let part = |name: &String| action::server_part(name) == Some(group.as_str());
                    if named(&group) || clause.scope.actions().is_some_and(|names| names.iter().any(part)) {
                        found.unknown = Some(server);
                    }
                }
                Server::Running(listing) => {
                    for (tool, offer) in &listing.tools {
                        let id = action::tool(server, tool);
                        if named(&id) {
                            found.tools.push(self.generated.arguments(&id, offer));
                        }
                    }
                }
            }
        }
        found
    }

    fn listed(&self, server: &str) -> Option<String> {
        let Some(Server::Running(listing)) = self.catalog.server(server) else { return None };
        let tools: Vec<String> =
            listing.tools.keys().take(12).map(|tool| format!("{:?}", action::tool(server, tool))).collect();
        (!tools.is_empty()).then(|| format!("it has {}", tools.join(", ")))
    }

    fn all(&self) -> Option<String> {
        let names: Vec<&str> = self.servers.keys().map(String::as_str).take(12).collect();
        Some(match names.as_slice() {
            [] => "no server is known here; there are Action::\"call\", \"read\" and \"prompt\"".into(),
            names => format!("the servers are {}; the groups are call, read and prompt", names.join(", ")),
        })
    }
}

/// A literal as it is most likely written.
fn quoted(literal: &EntityUid) -> String {
    format!("\"{}\"", literal.id().escaped())
}

fn known(
    clause: &Clause,
    name: &str,
    of: &str,
    mut names: impl Iterator<Item = &'static str>,
    report: &mut impl FnMut(Diagnostic),
) {
    let all: Vec<&str> = names.by_ref().collect();
    if !all.contains(&name) {
        let hint = match spelling::nearest(name, all.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", all.join(", ")),
        };
        let message = format!("{of} has no attribute `{}`", name.escape_debug());
        report(clause.at_word(name, Severity::Error, message, Some(hint)));
    }
}

/// What of the context the policies look at. All, if one takes it as a whole.
pub fn wanted(clauses: &[Clause]) -> Wanted {
    let mut names = BTreeSet::new();
    for path in clauses.iter().flat_map(|clause| attributes(&clause.policy)) {
        match path.as_slice() {
            [variable] if variable == CONTEXT => return Wanted::All,
            [variable, name, ..] if variable == CONTEXT => names.insert(name.clone()),
            _ => false,
        };
    }
    Wanted::Only(names)
}

const CONTEXT: &str = "context";

/// Chains of attributes that a policy takes or asks for (`has`), from the variable on; a variable alone is one
/// that is used as a whole. Cedar holds `has` of a name that cannot be there for false and goes on: a `forbid`
/// with a typing error would never be satisfied.
fn attributes(policy: &Policy) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    match policy.to_json() {
        Ok(tree) => collect(&tree, &mut found),
        // Nothing is known of it then.
        Err(_) => drop(found.insert(vec![CONTEXT.to_owned()])),
    }
    found
}

fn collect(tree: &Value, found: &mut BTreeSet<Vec<String>>) {
    // Deep conditions were parsed with a stack that grows; ours does not, so it is a list.
    let mut waiting = vec![tree];
    while let Some(node) = waiting.pop() {
        if let Some(names) = chain(node) {
            // The rest of it is the chain's own beginning.
            found.insert(names);
            continue;
        }
        match node {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
}

fn chain(node: &Value) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut node = node;
    loop {
        if let Some(variable) = node.get("Var").and_then(Value::as_str) {
            names.push(variable.to_owned());
            names.reverse();
            return Some(names);
        }
        let step = node.get(".").or_else(|| node.get("has"))?;
        // `has a.b` is one step with two names.
        match step.get("attr")? {
            Value::Array(several) => {
                names.extend(several.iter().rev().filter_map(Value::as_str).map(str::to_owned))
            }
            one => names.push(one.as_str()?.to_owned()),
        }
        node = step.get("left")?;
    }
}
