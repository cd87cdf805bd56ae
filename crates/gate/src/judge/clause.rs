//! From the text of a policy file to single policies, each with its place, its id and what its annotations say.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use cedar_policy::{Effect, Policy, PolicyId, Template, ffi::DetailedError};
use lazaret_policy::spelling;

use crate::{
    judge::{
        diagnostic::{Diagnostic, Severity, position},
        scope::Scope,
    },
    verdict::Rule,
};

const KNOWN: [&str; 4] = ["id", "escalate", "decision", "reason"];
const LONGEST_ID: usize = 128;
const LONGEST_REASON: usize = 1024;

/// A file of policies, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// As it appears in ids: without its directory.
    pub name: String,
    pub file: PathBuf,
    pub content: String,
}

/// One policy.
#[derive(Clone)]
pub struct Clause {
    pub policy: Policy,
    pub id: String,
    pub scope: Scope,
    pub means: Means,
    /// `@reason`, in words for the verdict.
    pub reason: Option<String>,
    pub text: Arc<Text>,
    pub line: usize,
    /// Where it begins in its file, and its text from there with comments blanked out.
    start: usize,
    masked: String,
}

impl fmt::Debug for Clause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Clause({})", self.id)
    }
}

/// What it comes to when a policy is satisfied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    Permit,
    Forbid,
    /// A permit, or a forbid, that leaves it to a person.
    PermitByPerson(String),
    ForbidUnlessPerson(String),
}

impl Means {
    pub fn is_permit(&self) -> bool {
        matches!(self, Means::Permit | Means::PermitByPerson(_))
    }

    /// The sentence for the person.
    pub fn question(&self) -> Option<&str> {
        match self {
            Means::PermitByPerson(question) | Means::ForbidUnlessPerson(question) => Some(question),
            Means::Permit | Means::Forbid => None,
        }
    }
}

impl Clause {
    /// At a byte of the policy's own text.
    pub fn at(&self, offset: usize, severity: Severity, message: String, hint: Option<String>) -> Diagnostic {
        placed(&self.text, self.start + offset, severity, message, hint)
    }

    /// At a word of it, or at its beginning if that is not found.
    pub fn at_word(
        &self,
        word: &str,
        severity: Severity,
        message: String,
        hint: Option<String>,
    ) -> Diagnostic {
        self.at(self.find(word), severity, message, hint)
    }

    fn find(&self, word: &str) -> usize {
        let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
        let bounded = |at: usize| {
            let before = self.masked.get(..at).and_then(|text| text.chars().next_back());
            let after = self.masked.get(at + word.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(inside) && !after.is_some_and(inside)
        };
        self.masked.match_indices(word).map(|(at, _)| at).find(|at| bounded(*at)).unwrap_or(0)
    }
}

fn placed(
    text: &Text,
    offset: usize,
    severity: Severity,
    message: String,
    hint: Option<String>,
) -> Diagnostic {
    let (line, column) = position(&text.content, offset);
    Diagnostic { file: text.file.clone(), line: Some(line), column: Some(column), severity, message, hint }
}

/// All policies of all files. Every fault is reported, not only the first.
pub fn parse(texts: &[Text]) -> (Vec<Clause>, Vec<Diagnostic>) {
    let mut clauses: Vec<Clause> = Vec::new();
    let mut diagnostics = Vec::new();
    for text in texts {
        parse_file(&Arc::new(text.clone()), &mut clauses, &mut diagnostics);
    }
    let mut seen: BTreeMap<&str, &Clause> = BTreeMap::new();
    for clause in &clauses {
        if let Some(first) = seen.insert(&clause.id, clause) {
            let message =
                format!("the id `{}` is in use already, at {}:{}", clause.id, first.text.name, first.line);
            let hint = "ids appear in the audit log as the rule that decided: give each policy its own";
            diagnostics.push(clause.at(0, Severity::Error, message, Some(hint.into())));
        }
    }
    (clauses, diagnostics)
}

fn parse_file(text: &Arc<Text>, clauses: &mut Vec<Clause>, diagnostics: &mut Vec<Diagnostic>) {
    let pieces = split(&text.content);
    let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
    for Piece { start, end, masked } in pieces {
        let source = text.content.get(start..end).unwrap_or_default();
        match Policy::parse(None, source) {
            Err(error) => diagnostics.extend(unparsable(text, start, source, &DetailedError::from(&error))),
            Ok(policy) => {
                let (line, column) = position(&text.content, start);
                let on_this_line = lines.entry(line).or_default();
                *on_this_line += 1;
                let place = match on_this_line {
                    1 => format!("{}:{line}", text.name),
                    _ => format!("{}:{line}:{column}", text.name),
                };
                let scope = Scope::of(&policy);
                let text = text.clone();
                let mut clause = Clause {
                    policy,
                    id: place,
                    scope,
                    means: Means::Permit,
                    reason: None,
                    text,
                    line,
                    start,
                    masked,
                };
                let faults = annotate(&mut clause);
                if faults.is_empty() {
                    clause.policy = clause.policy.new_id(PolicyId::new(&clause.id));
                    clauses.push(clause);
                } else {
                    diagnostics.extend(faults);
                }
            }
        }
    }
}

fn unparsable(text: &Text, start: usize, source: &str, error: &DetailedError) -> Vec<Diagnostic> {
    if Template::parse(None, source).is_ok_and(|template| template.slots().next().is_some()) {
        let message =
            "this is a policy template (it has a slot such as `?resource`), which nothing fills in here";
        let hint = "write the name in its place: `resource == Server::\"git\"`";
        let offset = source.find('?').unwrap_or(0);
        return vec![placed(text, start + offset, Severity::Error, message.into(), Some(hint.into()))];
    }
    std::iter::once(error)
        .chain(&error.related)
        .map(|error| from_cedar(text, start, Severity::Error, error))
        .collect()
}

/// A finding of Cedar's, whose places count from the beginning of the policy.
fn from_cedar(text: &Text, start: usize, severity: Severity, error: &DetailedError) -> Diagnostic {
    let label = error.source_locations.first();
    let mut message = error.message.clone();
    if let Some(words) = label.and_then(|label| label.label.as_ref()) {
        message += &format!(": {words}");
    }
    let offset = label.map_or(0, |label| label.loc.start);
    placed(text, start + offset, severity, message, error.help.clone())
}

impl Clause {
    /// A finding of Cedar's about this policy.
    pub fn reported(&self, severity: Severity, error: &DetailedError) -> Diagnostic {
        from_cedar(&self.text, self.start, severity, error)
    }
}

/// Reads the annotations into the clause.
fn annotate(clause: &mut Clause) -> Vec<Diagnostic> {
    let notes: BTreeMap<String, String> = {
        let all = clause.policy.annotations();
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let mut faults = Vec::new();
    let mut fault = |clause: &Clause, name: &str, message: String, hint: String| {
        faults.push(clause.at_word(&format!("@{name}"), Severity::Error, message, Some(hint)));
    };
    for name in notes.keys().filter(|name| !KNOWN.contains(&name.as_str())) {
        let hint = match spelling::nearest(name, KNOWN) {
            Some(near) => format!("did you mean `@{near}`?"),
            None => format!("there are @{}; for everything else there are comments", KNOWN.join(", @")),
        };
        fault(clause, name, format!("there is no annotation `@{name}`"), hint);
    }
    for name in ["escalate", "reason"] {
        if let Some(value) = notes.get(name)
            && (value.trim().is_empty() || value.len() > LONGEST_REASON)
        {
            let hint = format!("a person has to decide by it: @{name}(\"pushes to a remote repository\")");
            fault(
                clause,
                name,
                format!("`@{name}` needs a sentence, of at most {LONGEST_REASON} bytes"),
                hint,
            );
        }
    }
    if let Some(id) = notes.get("id") {
        match id_fault(id) {
            Some(why) => fault(clause, "id", format!("`@id` {why}"), "for example @id(\"git-push\")".into()),
            None => clause.id.clone_from(id),
        }
    }
    let reason = notes.get("reason");
    let question = match (notes.get("escalate"), notes.get("decision").map(String::as_str)) {
        (Some(_), Some(_)) => {
            let hint = "@escalate(\"…\") is enough".to_owned();
            fault(clause, "decision", "`@escalate` and `@decision` say the same thing twice".into(), hint);
            None
        }
        (Some(question), None) => Some(question),
        (None, Some("escalate")) => {
            if reason.is_none() {
                let hint = "add @reason(\"…\"): the person who is asked reads it".to_owned();
                fault(clause, "decision", "`@decision(\"escalate\")` needs a `@reason`".into(), hint);
            }
            reason
        }
        (None, Some(other)) => {
            let hint =
                "without it a permit allows and a forbid denies; `@decision(\"escalate\")` asks a person";
            fault(clause, "decision", format!("there is no decision `{other}` to choose here"), hint.into());
            None
        }
        (None, None) => None,
    };
    clause.means = match (clause.policy.effect(), question) {
        (Effect::Permit, None) => Means::Permit,
        (Effect::Forbid, None) => Means::Forbid,
        (Effect::Permit, Some(question)) => Means::PermitByPerson(question.clone()),
        (Effect::Forbid, Some(question)) => Means::ForbidUnlessPerson(question.clone()),
    };
    clause.reason = reason.cloned();
    faults
}

fn id_fault(id: &str) -> Option<&'static str> {
    if id.trim().is_empty() || id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        return Some("must be a name of 1 to 128 characters in one line");
    }
    // The log must not show a policy as something that no policy can be.
    if id == Rule::DEFAULT_DENY || id.starts_with("structural-") || id.starts_with("escalation-") {
        return Some("is a name that this program itself uses for decisions");
    }
    None
}

struct Piece {
    start: usize,
    end: usize,
    /// The piece with its comments blanked out, byte by byte.
    masked: String,
}

/// Policies end with `;`, which occurs nowhere else outside of strings and comments.
fn split(text: &str) -> Vec<Piece> {
    #[derive(PartialEq)]
    enum State {
        Plain,
        Quoted,
        Escaped,
        Comment,
    }
    let mut pieces = Vec::new();
    let mut piece = Piece { start: 0, end: 0, masked: String::new() };
    let mut state = State::Plain;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let end = at + letter.len_utf8();
        state = match (state, letter) {
            (State::Plain, '/') if letters.peek().is_some_and(|(_, next)| *next == '/') => State::Comment,
            (State::Plain, '"') => State::Quoted,
            (State::Quoted, '"') => State::Plain,
            (State::Quoted, '\\') => State::Escaped,
            (State::Escaped, _) => State::Quoted,
            (State::Comment, '\n' | '\r') => State::Plain,
            (state, _) => state,
        };
        let blank = state == State::Comment || (letter.is_whitespace() && state == State::Plain);
        if blank && piece.masked.is_empty() {
            continue;
        }
        if piece.masked.is_empty() {
            piece.start = at;
        }
        if blank {
            piece.masked.extend(std::iter::repeat_n(' ', letter.len_utf8()));
        } else {
            piece.masked.push(letter);
        }
        piece.end = end;
        if letter == ';' && state == State::Plain {
            pieces.push(std::mem::replace(&mut piece, Piece { start: end, end, masked: String::new() }));
        }
    }
    if !piece.masked.trim().is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use cedar_policy::PolicySet;
    use proptest::prelude::*;

    use super::*;

    fn read(content: &str) -> (Vec<Clause>, Vec<Diagnostic>) {
        parse(&[Text { name: "a.cedar".into(), file: "dir/a.cedar".into(), content: content.into() }])
    }

    fn fault(content: &str) -> String {
        let (_, diagnostics) = read(content);
        assert!(!diagnostics.is_empty(), "no fault in {content}");
        diagnostics[0].to_string()
    }

    #[test]
    fn policies_are_found_with_their_lines_as_ids() {
        let (clauses, diagnostics) = read(
            "// a; comment \"\n\npermit(principal, action, resource); forbid(principal, action, resource)\n  when { \"x;\\\"//\" == \"y\" }; // end\n",
        );
        assert_eq!(diagnostics, []);
        let ids: Vec<&str> = clauses.iter().map(|clause| clause.id.as_str()).collect();
        assert_eq!(ids, ["a.cedar:3", "a.cedar:3:38"]);
    }

    #[test]
    fn annotations_give_id_and_question() {
        let (clauses, diagnostics) = read(
            "@id(\"push\") @escalate(\"pushes\") permit(principal, action, resource);\n\
             @decision(\"escalate\") @reason(\"why\") forbid(principal, action, resource);\n\
             @reason(\"no\") forbid(principal, action, resource);",
        );
        assert_eq!(diagnostics, []);
        assert_eq!(clauses[0].id, "push");
        assert_eq!(clauses[0].means, Means::PermitByPerson("pushes".into()));
        assert_eq!(clauses[1].means, Means::ForbidUnlessPerson("why".into()));
        assert_eq!((&clauses[2].means, clauses[2].reason.as_deref()), (&Means::Forbid, Some("no")));
    }

    #[test]
    fn faults_have_a_place_and_a_hint() {
        let all = "permit(principal, action, resource);";
        assert_eq!(
            fault(&format!("\n  @escalte(\"x\") {all}")),
            "dir/a.cedar:2:3: there is no annotation `@escalte`\n  hint: did you mean `@escalate`?"
        );
        assert!(fault(&format!("@escalate(\"\") {all}")).contains("needs a sentence"));
        assert!(fault(&format!("@escalate {all}")).contains("needs a sentence"));
        assert!(fault(&format!("@decision(\"escalate\") {all}")).contains("needs a `@reason`"));
        assert!(fault(&format!("@decision(\"allow\") {all}")).contains("no decision `allow`"));
        assert!(
            fault(&format!("@escalate(\"x\") @decision(\"escalate\") @reason(\"x\") {all}"))
                .contains("twice")
        );
        assert!(fault(&format!("@id(\"structural-x\") {all}")).contains("this program itself"));
        assert!(fault(&format!("@id(\"default-deny\") {all}")).contains("this program itself"));
        assert!(
            fault(&format!("@id(\"a\") {all}\n@id(\"a\") {all}"))
                .starts_with("dir/a.cedar:2:1: the id `a` is in use already, at a.cedar:1")
        );
        assert!(
            fault("permit(principal == ?principal, action, resource);")
                .starts_with("dir/a.cedar:1:21: this is a policy template")
        );
    }

    #[test]
    fn every_fault_is_reported_and_placed() {
        let (clauses, diagnostics) = read(
            "permit(principal, action resource);\npermit(principal, action, resource);\nforbid(principal, action, resource) when { 1 + };\npermit",
        );
        assert_eq!(clauses.len(), 1);
        let lines: Vec<_> = diagnostics.iter().map(|found| found.line).collect();
        assert_eq!(lines, [Some(1), Some(3), Some(4)]);
    }

    proptest! {
        /// Ours finds the same policies as Cedar's own parser does in the whole text.
        #[test]
        fn pieces_are_what_cedar_reads(parts in prop::collection::vec(prop::sample::select(vec![
            "permit(principal, action, resource);", "forbid(principal, action, resource) when { \"a;//\" == \"\\\"\" };",
            "// x; \"\n", "\n", " ", "// permit(principal, action, resource);\n", "@id(\"// no\")\n", "\"", ";", "/", "\\", "\r",
        ]), 0..8)) {
            let text: String = parts.concat();
            let (clauses, diagnostics) = read(&text);
            match text.parse::<PolicySet>() {
                Ok(set) => {
                    let faulty = diagnostics.iter().all(|found| found.message.contains("in use already"));
                    prop_assert!(faulty, "{:?}", diagnostics);
                    prop_assert_eq!(clauses.len(), set.policies().count());
                }
                Err(_) => prop_assert!(!diagnostics.is_empty()),
            }
        }
    }
}
