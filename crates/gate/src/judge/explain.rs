//! A decision with everything that led to it, for people.

use serde::Serialize;

use crate::{
    facts::Facts,
    judge::{Circumstances, Judge, clause::Clause, combine::Ruling},
    verdict::{Decision, Rule},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub decision: Decision,
    pub rule: Rule,
    pub reason: String,
    /// As policies name it; none if there is no such tool.
    pub action: Option<String>,
    pub facts: Facts,
    pub circumstances: Circumstances,
    /// Every policy whose conditions hold, by id.
    pub satisfied: Vec<Part>,
    /// Every policy that failed. One is enough to deny.
    pub erred: Vec<Failure>,
    /// Policies about this action whose conditions do not hold.
    pub near: Vec<Part>,
    /// Policies that do not fit the tools and are out of force.
    pub unfit: Vec<Part>,
}

/// A policy that had a part in it, or nearly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub id: String,
    pub file: String,
    pub line: usize,
    pub effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalates: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Permit,
    Forbid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    #[serde(flatten)]
    pub policy: Part,
    pub error: String,
}

impl From<&Clause> for Part {
    fn from(clause: &Clause) -> Self {
        Part {
            id: clause.id.clone(),
            file: clause.text.name.clone(),
            line: clause.line,
            effect: if clause.means.is_permit() { Effect::Permit } else { Effect::Forbid },
            escalates: clause.means.question().map(str::to_owned),
            reason: clause.reason.clone(),
        }
    }
}

pub(super) fn explain(
    judge: &Judge,
    ruling: Ruling<'_>,
    facts: &Facts,
    circumstances: &Circumstances,
) -> Explanation {
    let Ruling { decision, rule, reason, place, evaluation } = ruling;
    let took_part = |clause: &Clause| {
        let erred = evaluation.erred.iter().filter_map(|(erred, _)| *erred);
        evaluation.satisfied.iter().copied().chain(erred).any(|part| part.id == clause.id)
    };
    let in_force = judge.clauses.iter().enumerate().filter(|(at, _)| !judge.unfit.contains(at));
    let near = in_force
        .map(|(_, clause)| clause)
        .filter(|clause| place.is_some_and(|place| clause.scope.matches(place)) && !took_part(clause))
        .map(Part::from)
        .collect();
    Explanation {
        decision,
        rule,
        reason,
        action: place.map(|place| place.action.to_owned()),
        facts: facts.clone(),
        circumstances: circumstances.clone(),
        satisfied: evaluation.satisfied.iter().map(|clause| Part::from(*clause)).collect(),
        erred: evaluation
            .erred
            .iter()
            .filter_map(|(clause, error)| {
                Some(Failure { policy: Part::from((*clause)?), error: error.clone() })
            })
            .collect(),
        near,
        unfit: judge.unfit.iter().filter_map(|at| judge.clauses.get(*at)).map(Part::from).collect(),
    }
}
