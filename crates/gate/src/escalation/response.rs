//! `response-ID.json`: what an answer says, read strictly. An approval is a file that says so, in a form that
//! leaves no doubt; everything else denies.

use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    directory::{DirectoryError, FileTrouble},
    hidden::plain,
    strict,
};

/// No answer is larger.
pub const MOST: u64 = 64 << 10;
/// So much of a note is kept.
const NOTE: usize = 500;
const NAME: usize = 100;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Approved(Approval),
    Denied(Denial),
    /// Nobody answered in time: denied.
    TimedOut,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub breadth: Breadth,
    /// Who, as the front end says; nothing proves it.
    pub by: Option<String>,
    pub note: Option<String>,
}

/// How much was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// This call.
    Once,
    /// Calls like it for as long as the session lasts: which, says the candidate of this number in the question.
    Session { candidate: usize },
}

/// Why it is a no. The sentence can be given to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Denial {
    #[error("a person denied it{}", words(.note.as_ref()))]
    Person { by: Option<String>, note: Option<String> },
    #[error("the answer cannot be trusted: {0}")]
    Untrusted(FileTrouble),
    #[error("the answer cannot be trusted: others can reach the directory it lies in")]
    Exposed,
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    #[error("the answer has the decision {0:?}; only \"approved\" approves")]
    UnknownDecision(String),
    #[error("the answer is about another question: its digest is not that of this one")]
    OtherQuestion,
    #[error("the answer approves what was not offered: {0}")]
    NotOffered(&'static str),
}

impl From<DirectoryError> for Denial {
    fn from(_: DirectoryError) -> Denial {
        Denial::Exposed
    }
}

fn words(note: Option<&String>) -> String {
    note.map(|note| format!(": {note}")).unwrap_or_default()
}

/// What the question was, for those who compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub digest: String,
    pub candidates: usize,
}

/// What the bytes of a response come to. `Err` is a file that is cut off: its writer may not be done.
pub fn judge(bytes: &[u8], asked: &Asked) -> Result<Answer, CutOff> {
    match strict::read(bytes) {
        Ok(Value::Object(response)) => Ok(decide(&response, asked).unwrap_or_else(Answer::Denied)),
        Ok(_) => Ok(Answer::Denied(Denial::Malformed("it is not an object".to_owned()))),
        Err(error) if error.is_eof() => Err(CutOff),
        Err(error) => Ok(Answer::Denied(Denial::Malformed(plain(&error.to_string(), NOTE)))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff;

impl From<CutOff> for Answer {
    fn from(_: CutOff) -> Answer {
        Answer::Denied(Denial::Malformed("it is empty or cut off".to_owned()))
    }
}

fn decide(response: &Map<String, Value>, asked: &Asked) -> Result<Answer, Denial> {
    let by = words_of(response, "answeredBy", NAME);
    let note = words_of(response, "note", NOTE);
    match response.get("decision") {
        Some(Value::String(decision)) if decision == "approved" => {}
        Some(Value::String(decision)) if decision == "denied" => return Err(Denial::Person { by, note }),
        other => {
            let other = other.map(Value::to_string).unwrap_or_default();
            return Err(Denial::UnknownDecision(plain(&other, NAME)));
        }
    }
    if let Some(digest) = response.get("digest")
        && digest.as_str() != Some(asked.digest.as_str())
    {
        return Err(Denial::OtherQuestion);
    }
    let breadth = breadth(response, asked.candidates)?;
    Ok(Answer::Approved(Approval { breadth, by, note }))
}

/// What is asked for has to be what was offered. IronCurtain takes a selection out of range for an approval of the
/// one call; but whoever sent it saw another list than ours, so it is not known what they approved.
fn breadth(response: &Map<String, Value>, candidates: usize) -> Result<Breadth, Denial> {
    let selection = match response.get("whitelistSelection") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            let number = number.filter(|number| *number < candidates);
            Some(number.ok_or(Denial::NotOffered("there is no candidate of that number"))?)
        }
    };
    match (response.get("scope").map(Value::as_str), selection) {
        (None, None) | (Some(Some("once")), None) => Ok(Breadth::Once),
        (None | Some(Some("session")), Some(candidate)) => Ok(Breadth::Session { candidate }),
        (Some(Some("session")), None) if candidates > 0 => Ok(Breadth::Session { candidate: 0 }),
        (Some(Some("session")), None) => {
            Err(Denial::NotOffered("this call can be approved once, not for the session"))
        }
        (Some(Some("once")), Some(_)) => {
            Err(Denial::NotOffered("it is to hold once and for the session at the same time"))
        }
        (Some(_), _) => Err(Denial::NotOffered("its scope is neither \"once\" nor \"session\"")),
    }
}

fn words_of(response: &Map<String, Value>, key: &str, most: usize) -> Option<String> {
    let text = plain(response.get(key)?.as_str()?, most);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked() -> Asked {
        Asked { digest: "d1".into(), candidates: 2 }
    }

    fn answer(text: &str) -> Answer {
        judge(text.as_bytes(), &asked()).unwrap_or_else(Answer::from)
    }

    fn approved(breadth: Breadth) -> Answer {
        Answer::Approved(Approval { breadth, by: None, note: None })
    }

    #[test]
    fn the_answers_of_existing_front_ends_are_understood() {
        assert_eq!(answer(r#"{"decision":"approved"}"#), approved(Breadth::Once));
        assert_eq!(
            answer("{\n  \"decision\": \"approved\",\n  \"whitelistSelection\": 1\n}"),
            approved(Breadth::Session { candidate: 1 })
        );
        assert_eq!(
            answer(r#"{"decision":"denied"}"#),
            Answer::Denied(Denial::Person { by: None, note: None })
        );
    }

    #[test]
    fn ours_say_for_how_long_and_by_whom() {
        assert_eq!(
            answer(r#"{"decision":"approved","scope":"once","digest":"d1"}"#),
            approved(Breadth::Once)
        );
        assert_eq!(
            answer(r#"{"decision":"approved","scope":"session"}"#),
            approved(Breadth::Session { candidate: 0 })
        );
        let Answer::Approved(approval) =
            answer(r#"{"decision":"approved","answeredBy":"ann\u001b[1m","note":"ok\nthen","more":[1]}"#)
        else {
            panic!("not approved");
        };
        assert_eq!((approval.by.unwrap().as_str(), approval.note.unwrap().as_str()), ("ann[1m", "ok then"));
        let denied = answer(r#"{"decision":"denied","note":"use the copy"}"#);
        let Answer::Denied(why) = denied else { panic!("not denied") };
        assert_eq!(why.to_string(), "a person denied it: use the copy");
    }

    #[test]
    fn whatever_is_not_plainly_an_approval_denies() {
        for text in [
            "",
            "null",
            "[]",
            "\"approved\"",
            "{}",
            r#"{"decision":"Approved"}"#,
            r#"{"decision":"approve"}"#,
            r#"{"decision":"approved "}"#,
            r#"{"decision":true}"#,
            r#"{"decision":["approved"]}"#,
            r#"{"decision":"denied","decision":"approved"}"#,
            r#"{"decision":"approved","note":"a","note":"b"}"#,
            r#"{"decision":"approved"} trailing"#,
            r#"{"decision":"approved","digest":"d2"}"#,
            r#"{"decision":"approved","digest":null}"#,
            r#"{"decision":"approved","whitelistSelection":2}"#,
            r#"{"decision":"approved","whitelistSelection":-1}"#,
            r#"{"decision":"approved","whitelistSelection":0.5}"#,
            r#"{"decision":"approved","whitelistSelection":"0"}"#,
            r#"{"decision":"approved","scope":"once","whitelistSelection":0}"#,
            r#"{"decision":"approved","scope":"forever"}"#,
            r#"{"decision":"approved","scope":null}"#,
            "{\"decision\":\"approved\"",
            "\u{feff}{\"decision\":\"approved\"}",
        ] {
            assert!(matches!(answer(text), Answer::Denied(_)), "{text}");
        }
    }

    #[test]
    fn nothing_is_approved_for_the_session_that_was_not_offered() {
        let none = Asked { digest: "d1".into(), candidates: 0 };
        for text in [
            r#"{"decision":"approved","scope":"session"}"#,
            r#"{"decision":"approved","whitelistSelection":0}"#,
        ] {
            let answer = judge(text.as_bytes(), &none).unwrap();
            assert!(matches!(answer, Answer::Denied(Denial::NotOffered(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn only_the_word_itself_approves(decision in "\\PC{0,12}", bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let text = serde_json::json!({ "decision": &decision }).to_string();
            let is_approved = matches!(answer(&text), Answer::Approved(_));
            prop_assert_eq!(is_approved, decision == "approved");
            prop_assert!(!matches!(judge(&bytes, &asked()), Ok(Answer::Approved(_))));
        }
    }
}
