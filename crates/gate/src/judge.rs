//! Judges requests by Cedar policies: default deny, a `forbid` wins, an annotation asks a person, and whatever
//! cannot be decided is denied.
//!
//! Facts come from outside (`facts`): here nothing is resolved, and the text of an argument is never taken for
//! a path or a host. The steps from files to a judge are `directory` (read), `clause` (parse), `schema`
//! (generate), `fit` (check); `source` repeats them when files or tools change.

mod action;
pub mod catalog;
mod clause;
mod combine;
mod context;
mod desk;
pub mod diagnostic;
mod directory;
pub mod explain;
mod fit;
mod schema;
mod scope;
mod shape;
pub mod source;
mod stack;

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{Authorizer, EntityUid, Request, Schema};

pub use self::{
    catalog::Catalog,
    context::{Circumstances, Containment, Network, Pin},
    explain::Explanation,
    source::{Origin, Refresh, Source},
};
use self::{
    clause::Clause,
    combine::{Evaluation, Ruling},
    context::{Particulars, Unclear, Wanted},
    desk::{Counter, Desk},
    diagnostic::{Diagnostic, Refused, Severity, any_error, printable},
    scope::Place,
    shape::{Members, Mismatch},
};
use crate::{
    call::{Call, Hints},
    facts::Facts,
    verdict::{Rule, Verdict},
};

/// A request that is not a tool call.
#[derive(Debug, Clone, Copy)]
pub enum Retrieval<'a> {
    /// `resources/read`, and subscribing to it.
    Resource { server: &'a str, uri: &'a str },
    /// `prompts/get`.
    Prompt { server: &'a str, name: &'a str },
}

/// Policies in force, ready to decide. It does not change: a new set of policies or tools is a new judge.
pub struct Judge {
    types: action::Types,
    schema: Schema,
    desks: HashMap<String, Desk>,
    /// In the order of their ids, so that neither files nor their order choose who is named.
    clauses: Vec<Clause>,
    ids: HashMap<String, usize>,
    /// What of the context any policy looks at.
    wanted: Wanted,
    /// Policies that do not fit the tools: see [`Fitness::Lenient`].
    unfit: BTreeSet<usize>,
    actions: BTreeSet<String>,
    /// Also those that are not running.
    servers: BTreeSet<String>,
    client: EntityUid,
    authorizer: Authorizer,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Judge").field("clauses", &self.clauses).finish_non_exhaustive()
    }
}

/// What to do with policies that do not fit the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fitness {
    /// Refuse them all: somebody wrote them just now and can correct them.
    Strict,
    /// The tools changed under policies that fitted before. A permit that no longer fits is out of force; a
    /// forbid denies everything that it could have been meant for. The rest goes on.
    Lenient,
}

/// Why a request is refused before any policy is asked.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("there is no server `{0}`, or it is not running")]
    NoServer(String),
    #[error("the server `{server}` has no tool `{tool}`")]
    NoTool { server: String, tool: String },
    #[error("`{path}` is protected ({what}); no policy can allow it")]
    Protected { path: String, what: String },
    #[error(transparent)]
    Argument(#[from] Mismatch),
    #[error(transparent)]
    Unclear(#[from] Unclear),
    #[error("`{0}` leads to files or hosts, and these were not found out")]
    Unclassified(String),
    #[error(
        "the policy `{id}` ({place}) no longer fits the tools of the running servers, and could have been meant for this; correct it or restart the server that changed"
    )]
    Unfit { id: String, place: String },
}

impl Refusal {
    fn rule(&self) -> &'static str {
        match self {
            Refusal::NoServer(_) | Refusal::NoTool { .. } => Rule::UNKNOWN_TOOL,
            Refusal::Protected { .. } => Rule::PROTECTED_PATH,
            Refusal::Argument(_) => Rule::INVALID_ARGUMENT,
            Refusal::Unclear(_) | Refusal::Unclassified(_) | Refusal::Unfit { .. } => Rule::UNDECIDABLE,
        }
    }
}

/// A request as it is put to the policies.
struct Case<'a, 'r> {
    desk: &'a Desk,
    counter: &'a Counter,
    kind: &'static str,
    particulars: Particulars<'r>,
}

impl<'a> Case<'a, '_> {
    fn place(&self) -> Place<'a> {
        Place { action: &self.counter.id, kind: self.kind, server: &self.desk.name, group: &self.desk.group }
    }
}

impl Judge {
    /// About a tool call whose facts were found out. Never fails: what cannot be decided is denied.
    pub fn decide(&self, call: &Call<'_>, facts: &Facts, circumstances: &Circumstances) -> Verdict {
        self.call(call, facts, circumstances).into_verdict(facts)
    }

    /// About `resources/read` and `prompts/get`. The facts of a URI are its host and its file.
    pub fn decide_retrieval(
        &self,
        retrieval: &Retrieval<'_>,
        facts: &Facts,
        circumstances: &Circumstances,
    ) -> Verdict {
        self.retrieval(retrieval, facts, circumstances).into_verdict(facts)
    }

    /// The same as [`Judge::decide`], with everything that led to it.
    pub fn explain(&self, call: &Call<'_>, facts: &Facts, circumstances: &Circumstances) -> Explanation {
        explain::explain(self, self.call(call, facts, circumstances), facts, circumstances)
    }

    /// The same as [`Judge::decide_retrieval`], with everything that led to it.
    pub fn explain_retrieval(
        &self,
        retrieval: &Retrieval<'_>,
        facts: &Facts,
        circumstances: &Circumstances,
    ) -> Explanation {
        explain::explain(self, self.retrieval(retrieval, facts, circumstances), facts, circumstances)
    }

    /// How many policies are in force.
    pub fn policies(&self) -> usize {
        self.clauses.len() - self.unfit.len()
    }

    fn call(&self, call: &Call<'_>, facts: &Facts, circumstances: &Circumstances) -> Ruling<'_> {
        stack::make_room();
        let case = || {
            let desk = self.desk(&call.tool.server)?;
            let counter = desk.tools.get(&call.tool.name).ok_or_else(|| Refusal::NoTool {
                server: printable(&call.tool.server),
                tool: printable(&call.tool.name),
            })?;
            let args = counter.arguments.value(call.arguments)?;
            let particulars =
                Particulars { own: vec![("tool", &call.tool.name)], args, hints: counter.hints };
            Ok(Case { desk, counter, kind: action::CALL, particulars })
        };
        self.rule(case(), facts, circumstances)
    }

    fn retrieval(
        &self,
        retrieval: &Retrieval<'_>,
        facts: &Facts,
        circumstances: &Circumstances,
    ) -> Ruling<'_> {
        stack::make_room();
        let case = || {
            let nothing = Members::default().value(&serde_json::Map::new())?;
            let hints = Hints::default();
            match *retrieval {
                Retrieval::Resource { server, uri } => {
                    let desk = self.desk(server)?;
                    let scheme = scheme(uri);
                    if leads_out(scheme) && facts == &Facts::default() {
                        return Err(Refusal::Unclassified(printable(uri)));
                    }
                    let particulars =
                        Particulars { own: vec![("uri", uri), ("scheme", scheme)], args: nothing, hints };
                    Ok(Case { desk, counter: &desk.read, kind: action::READ, particulars })
                }
                Retrieval::Prompt { server, name } => {
                    let desk = self.desk(server)?;
                    let particulars = Particulars { own: vec![("prompt", name)], args: nothing, hints };
                    Ok(Case { desk, counter: &desk.prompt, kind: action::PROMPT, particulars })
                }
            }
        };
        self.rule(case(), facts, circumstances)
    }

    fn desk(&self, server: &str) -> Result<&Desk, Refusal> {
        self.desks.get(server).ok_or_else(|| Refusal::NoServer(printable(server)))
    }

    fn rule<'a>(
        &'a self,
        case: Result<Case<'a, '_>, Refusal>,
        facts: &Facts,
        circumstances: &Circumstances,
    ) -> Ruling<'a> {
        let case = match case {
            Ok(case) => case,
            Err(refusal) => return Ruling::refused(None, &refusal),
        };
        let place = case.place();
        match self.evaluate(case, facts, circumstances) {
            Ok(evaluation) => combine::combine(place, evaluation),
            Err(refusal) => Ruling::refused(Some(place), &refusal),
        }
    }

    fn evaluate(
        &self,
        case: Case<'_, '_>,
        facts: &Facts,
        circumstances: &Circumstances,
    ) -> Result<Evaluation<'_>, Refusal> {
        if let Some((path, what)) = facts.paths.iter().find_map(|fact| Some((fact, fact.protected.as_ref()?)))
        {
            return Err(Refusal::Protected {
                path: printable(&path.resolved.display().to_string()),
                what: what.clone(),
            });
        }
        self.check_unfit(case.place())?;
        let unclear = |words: String| Refusal::Unclear(Unclear::Refused(words));
        let entities = case
            .desk
            .entities(&self.types, circumstances)
            .ok_or_else(|| unclear("the entities of this server could not be built".into()))?;
        let resource = case.desk.resource.clone();
        let action = case.counter.action.clone();
        let in_force = self.clauses.iter().enumerate().filter(|(at, _)| !self.unfit.contains(at));
        let sets = case
            .counter
            .sets(case.place(), in_force.map(|(_, clause)| clause))
            .ok_or_else(|| unclear("the policies about it could not be put together".into()))?;
        // The values were made after the types of the schema, so that Cedar's own check would be a second one: it
        // takes as long as the decision. Tests make it nevertheless.
        if cfg!(debug_assertions) {
            let whole = context::context(&case.particulars, facts, circumstances, &Wanted::All)?;
            let (client, resource) = (self.client.clone(), resource.clone());
            Request::new(client, action.clone(), resource, whole, Some(&self.schema))
                .map_err(|error| unclear(error.to_string()))?;
        }
        let context = context::context(&case.particulars, facts, circumstances, &self.wanted)?;
        let request = Request::new(self.client.clone(), action, resource, context, None)
            .map_err(|error| unclear(error.to_string()))?;

        let mut evaluation = Evaluation::default();
        for set in [&sets.forbids, &sets.permits] {
            let response = self.authorizer.is_authorized(&request, set, entities);
            let found = response.diagnostics();
            evaluation.satisfied.extend(found.reason().filter_map(|id| self.clause(id.as_ref())));
            for error in found.errors() {
                let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
                evaluation.erred.push((self.clause(error.policy_id().as_ref()), error.to_string()));
            }
        }
        evaluation.satisfied.sort_by(|one, other| one.id.cmp(&other.id));
        evaluation.erred.sort_by(|(_, one), (_, other)| one.cmp(other));
        Ok(evaluation)
    }

    fn clause(&self, id: &str) -> Option<&Clause> {
        self.ids.get(id).and_then(|at| self.clauses.get(*at))
    }

    /// A forbid that does not fit the tools any more is not forgotten.
    fn check_unfit(&self, place: Place<'_>) -> Result<(), Refusal> {
        for clause in self.unfit.iter().filter_map(|at| self.clauses.get(*at)) {
            let exists = |name: &str| self.actions.contains(name);
            let is_server = |name: &str| self.servers.contains(name);
            if !clause.means.is_permit() && clause.scope.may_mean(place, exists, is_server) {
                let place = format!("{}:{}", clause.text.name, clause.line);
                return Err(Refusal::Unfit { id: clause.id.clone(), place });
            }
        }
        Ok(())
    }

    /// Puts policies in force against the tools that there are, or says why not.
    fn build(
        mut clauses: Vec<Clause>,
        catalog: &Catalog,
        fitness: Fitness,
    ) -> Result<(Self, Vec<Diagnostic>), Refused> {
        clauses.sort_by(|one, other| one.id.cmp(&other.id));
        let unplaced = |message: String| Refused {
            diagnostics: vec![Diagnostic {
                file: "policies".into(),
                line: None,
                column: None,
                severity: Severity::Error,
                message,
                hint: None,
            }],
        };
        let generated = schema::generate(catalog).map_err(|error| unplaced(error.to_string()))?;
        let types =
            action::Types::new().ok_or_else(|| unplaced("the types of the schema have no names".into()))?;
        let fit::Findings { diagnostics, unfit } = fit::check(&clauses, catalog, &generated);
        if fitness == Fitness::Strict && any_error(&diagnostics) {
            return Err(Refused { diagnostics });
        }
        let judge = Judge {
            desks: desk::desks(catalog, &generated, &types),
            ids: clauses.iter().enumerate().map(|(at, clause)| (clause.id.clone(), at)).collect(),
            actions: generated.schema.actions().map(|uid| uid.id().unescaped().to_owned()).collect(),
            servers: catalog.servers().map(|(name, _)| name.to_owned()).collect(),
            wanted: fit::wanted(&clauses),
            schema: generated.schema,
            client: types.client(),
            authorizer: Authorizer::new(),
            types,
            clauses,
            unfit,
        };
        Ok((judge, diagnostics))
    }
}

fn scheme(uri: &str) -> &str {
    let (scheme, _) = uri.split_once(':').unwrap_or_default();
    let letters =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if letters(scheme) { scheme } else { "" }
}

/// Schemes that mean a file or a host whoever reads them; others are names of the server's own.
fn leads_out(scheme: &str) -> bool {
    let known = ["file", "http", "https", "ftp", "ftps", "sftp", "ws", "wss", "ssh", "git"];
    known.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests;
