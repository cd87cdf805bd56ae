//! From satisfied policies to one decision. The strictest wins, whatever their order.

use cedar_policy::EntityUid;

use crate::{
    facts::Facts,
    judge::{
        Refusal, action,
        clause::{Clause, Means},
        scope::Place,
    },
    verdict::{Decision, Rule, Verdict},
};

/// What Cedar found. Sorted by id.
#[derive(Default)]
pub struct Evaluation<'a> {
    pub satisfied: Vec<&'a Clause>,
    pub erred: Vec<(Option<&'a Clause>, String)>,
}

/// A decision, and what led to it.
pub struct Ruling<'a> {
    pub decision: Decision,
    pub rule: Rule,
    pub reason: String,
    /// None where there is no such action.
    pub place: Option<Place<'a>>,
    pub evaluation: Evaluation<'a>,
}

impl<'a> Ruling<'a> {
    pub fn refused(place: Option<Place<'a>>, refusal: &Refusal) -> Self {
        Ruling {
            decision: Decision::Deny,
            rule: Rule(refusal.rule().into()),
            reason: refusal.to_string(),
            place,
            evaluation: Evaluation::default(),
        }
    }

    pub fn into_verdict(self, facts: &Facts) -> Verdict {
        Verdict { decision: self.decision, rule: self.rule, reason: self.reason, facts: facts.clone() }
    }
}

pub fn combine<'a>(place: Place<'a>, evaluation: Evaluation<'a>) -> Ruling<'a> {
    let (decision, rule, reason) = decide(place, &evaluation);
    Ruling { decision, rule: Rule(rule), reason, place: Some(place), evaluation }
}

fn decide(place: Place<'_>, evaluation: &Evaluation<'_>) -> (Decision, String, String) {
    // Cedar goes on without a policy that fails. If that is a forbid, the request would pass.
    if let Some((_, error)) = evaluation.erred.first() {
        let reason = format!("a policy could not be evaluated, so this is denied: {error}");
        return (Decision::Deny, Rule::UNDECIDABLE.into(), reason);
    }
    let satisfied = &evaluation.satisfied;
    if let Some(clause) = satisfied.iter().find(|clause| clause.means == Means::Forbid) {
        return (Decision::Deny, clause.id.clone(), said(clause, "forbidden"));
    }
    let questions: Vec<(&Clause, &str)> =
        satisfied.iter().filter_map(|clause| Some((*clause, clause.means.question()?))).collect();
    let Some(permit) = satisfied.iter().find(|clause| clause.means.is_permit()) else {
        return (Decision::Deny, Rule::DEFAULT_DENY.into(), not_permitted(place, &questions));
    };
    match questions.as_slice() {
        [] => (Decision::Allow, permit.id.clone(), said(permit, "permitted")),
        [(first, _), ..] => {
            let mut sentences: Vec<&str> = questions.iter().map(|(_, question)| *question).collect();
            sentences.dedup();
            (Decision::Escalate, first.id.clone(), sentences.join("; "))
        }
    }
}

fn said(clause: &Clause, word: &str) -> String {
    match &clause.reason {
        Some(reason) => reason.clone(),
        None => format!("{word} by the policy `{}` ({}:{})", clause.id, clause.text.name, clause.line),
    }
}

fn not_permitted(place: Place<'_>, questions: &[(&Clause, &str)]) -> String {
    let what = match place.kind {
        action::READ => "reading this resource of",
        action::PROMPT => "this prompt of",
        _ => "this call of",
    };
    let mut reason = format!("no policy permits {what} the server `{}`", place.server);
    if let Some((clause, _)) = questions.first() {
        reason += &format!("; `{}` leaves it to a person only where a policy permits it", clause.id);
    }
    // By Cedar's own hand: a tool's name can hold anything.
    if let Ok(action) = literal(place.action) {
        reason += &format!(". This line would: permit(principal, action == {action}, resource);");
    }
    reason
}

fn literal(action: &str) -> Result<String, Box<dyn std::error::Error>> {
    let uid = EntityUid::from_type_name_and_id("Action".parse()?, cedar_policy::EntityId::new(action));
    Ok(uid.to_string())
}
