//! The command of a tool: literal arguments, and arguments with placeholders for members of the input. Each
//! becomes exactly one argument, whatever the member contains; no shell ever sees it.

use std::ffi::OsString;

use serde_json::Value;

use super::{InputError, json};

/// The kernel refuses a single argument or variable of 128 KiB or more (MAX_ARG_STRLEN, execve(2)).
pub(super) const LONGEST_ARGUMENT: usize = (128 << 10) - 1;

/// A placeholder may occur often; together the arguments stay well below what the kernel takes.
const LONGEST_COMMAND: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    program: String,
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Member(String),
}

/// Why a word of the command is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadWord {
    pub number: usize,
    pub message: String,
    pub hint: &'static str,
}

const BRACES: &str = "a placeholder is a member's name in braces, like {text}; write {{ and }} for braces";

impl Command {
    pub fn parse(words: &[String]) -> Result<Command, BadWord> {
        let bad = |number, message: &str, hint| Err(BadWord { number, message: message.to_owned(), hint });
        let mut arguments = Vec::new();
        for (number, word) in words.iter().enumerate() {
            if word.contains('\0') {
                return bad(number, "an argument cannot contain a NUL byte", "remove the byte");
            }
            match Argument::parse(word) {
                Ok(argument) => arguments.push(argument),
                Err(message) => return Err(BadWord { number, message, hint: BRACES }),
            }
        }
        let mut arguments = arguments.into_iter();
        match arguments.next().as_ref().map(|first| first.0.as_slice()) {
            Some([Part::Text(program)]) if !program.is_empty() => {
                Ok(Command { program: program.clone(), arguments: arguments.collect() })
            }
            None | Some([] | [Part::Text(_)]) => {
                bad(0, "the command is empty", "write the program and its arguments, like [\"wc\", \"-w\"]")
            }
            Some(_) => bad(
                0,
                "the program cannot be chosen by the input",
                "name one program; register a tool for each that may be called",
            ),
        }
    }

    /// The members that the command uses, with the number of the word.
    pub fn members(&self) -> impl Iterator<Item = (usize, &str)> {
        self.arguments
            .iter()
            .enumerate()
            .flat_map(|(number, argument)| argument.members().map(move |member| (number + 1, member)))
    }

    /// The arguments for an input. An argument with a member that is missing or null is left out as a whole.
    pub fn fill(&self, input: &Value) -> Result<Vec<OsString>, Vec<InputError>> {
        if self.members().next().is_some() && !input.is_object() {
            return Err(vec![InputError::new("", "not an object: the tool's arguments are its members")]);
        }
        let mut filled = vec![OsString::from(&self.program)];
        let mut errors = Vec::new();
        let mut options_ended = false;
        for argument in &self.arguments {
            options_ended |= argument.0 == [Part::Text("--".to_owned())];
            match argument.fill(input) {
                Ok(Some(text)) if !options_ended && argument.is_turned_into_option(&text, input) => {
                    errors.extend(argument.members().next().map(|member| {
                        let message = "begins with `-`, which the program would take for an option: give a \
                                       value that does not, or put \"--\" before it in the tool's command";
                        InputError::new(json::pointer(&[member.to_owned()]), message)
                    }));
                }
                Ok(Some(text)) => filled.push(text.into()),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if filled.iter().map(|argument| argument.len()).sum::<usize>() > LONGEST_COMMAND {
            errors.push(InputError::new("", "the arguments are too long together: use at most 1 MiB"));
        }
        if errors.is_empty() { Ok(filled) } else { Err(errors) }
    }
}

impl Argument {
    fn parse(word: &str) -> Result<Argument, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut letters = word.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '{' | '}' if letters.next_if_eq(&letter).is_some() => text.push(letter),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match letters.next() {
                            Some('}') => break,
                            Some(letter) if letter.is_ascii_alphanumeric() || "_-.".contains(letter) => {
                                name.push(letter);
                            }
                            Some(letter) => {
                                return Err(format!("`{}` in a placeholder", letter.escape_default()));
                            }
                            None => return Err("a `{` without its `}`".to_owned()),
                        }
                    }
                    if name.is_empty() {
                        return Err("a placeholder without a name".to_owned());
                    }
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    parts.push(Part::Member(name));
                }
                '}' => return Err("a `}` without its `{`".to_owned()),
                letter => text.push(letter),
            }
        }
        // An empty literal is an argument like any other, except as the program.
        if !text.is_empty() || (parts.is_empty() && word.is_empty()) {
            parts.push(Part::Text(text));
        }
        Ok(Argument(parts))
    }

    fn members(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Member(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    fn fill(&self, input: &Value) -> Result<Option<String>, InputError> {
        let mut filled = String::new();
        for part in &self.0 {
            let name = match part {
                Part::Text(text) => {
                    filled += text;
                    continue;
                }
                Part::Member(name) => name,
            };
            let refuse = |why: &str| InputError::new(json::pointer(std::slice::from_ref(name)), why);
            match input.get(name) {
                None | Some(Value::Null) => return Ok(None),
                Some(Value::String(text)) if text.contains('\0') => {
                    return Err(refuse("contains a NUL byte, which no argument can carry"));
                }
                Some(Value::String(text)) => filled += text,
                Some(Value::Bool(flag)) => filled += if *flag { "true" } else { "false" },
                Some(Value::Number(number)) => {
                    // A whole number beyond 64 bits was rounded when it was read (2^53 and more as a float).
                    if number.is_f64() && number.as_f64().is_none_or(|number| number.abs() >= 9e15) {
                        return Err(refuse("is too large to be passed on exactly: give it as a text"));
                    }
                    filled += &number.to_string();
                }
                Some(Value::Array(_) | Value::Object(_)) => {
                    return Err(refuse(
                        "is a list or an object: only text, a number or a boolean can be an \
                                       argument",
                    ));
                }
            }
            if filled.len() > LONGEST_ARGUMENT {
                return Err(refuse("is too long for an argument: the kernel takes less than 128 KiB"));
            }
        }
        Ok(Some(filled))
    }

    /// Does the input, and not the author of the command, make this an option? A number does not: `-5` is
    /// what was asked for.
    fn is_turned_into_option(&self, filled: &str, input: &Value) -> bool {
        match self.0.as_slice() {
            [Part::Member(name)] if input.get(name).is_some_and(Value::is_number) => false,
            [Part::Member(_), ..] => filled.starts_with('-'),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn command(words: &[&str]) -> Result<Command, BadWord> {
        Command::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn fill(words: &[&str], input: &Value) -> Vec<String> {
        let filled = command(words).unwrap().fill(input).unwrap();
        filled.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    fn refused(words: &[&str], input: &Value) -> String {
        command(words).unwrap().fill(input).unwrap_err()[0].to_string()
    }

    #[test]
    fn a_member_is_one_argument_whatever_it_contains() {
        let hostile = "a b; rm -rf / $(id) `id` \"'\n\t* {n} {{";
        assert_eq!(fill(&["p", "{a}"], &json!({ "a": hostile, "n": 1 })), ["p", hostile]);
        assert_eq!(fill(&["p", "{a}"], &json!({ "a": "" })), ["p", ""]);
    }

    #[test]
    fn placeholders_may_stand_inside_a_longer_argument() {
        let input = json!({ "a": "x y", "n": -2.5, "b": true });
        assert_eq!(fill(&["p", "--out={a}/{n}.{b}"], &input), ["p", "--out=x y/-2.5.true"]);
        assert_eq!(fill(&["p", "{{a}}", "{{{a}}}", ""], &input), ["p", "{a}", "{x y}", ""]);
    }

    #[test]
    fn a_missing_or_null_member_drops_its_argument() {
        assert_eq!(
            fill(&["p", "-v", "--a={a}", "{b}{c}", "z"], &json!({ "a": null, "b": 1 })),
            ["p", "-v", "z"]
        );
    }

    #[test]
    fn what_cannot_be_an_argument_is_refused_with_its_place() {
        assert!(refused(&["p", "{a}"], &json!({ "a": "x\0y" })).starts_with("/a: contains a NUL"));
        assert!(refused(&["p", "x{a}"], &json!({ "a": [1] })).starts_with("/a: is a list"));
        assert!(refused(&["p", "{a}"], &json!({ "a": { "b": 1 } })).starts_with("/a: "));
        assert!(refused(&["p", "{a}"], &json!({ "a": 1e22 })).contains("exactly"));
        assert!(
            refused(&["p", "{a}"], &json!({ "a": "x".repeat(LONGEST_ARGUMENT + 1) })).contains("128 KiB")
        );
        assert!(refused(&["p", "{a}"], &json!("text")).contains("not an object"));
        let often = vec!["{a}"; 10];
        let words: Vec<&str> = ["p"].into_iter().chain(often).collect();
        assert!(refused(&words, &json!({ "a": "x".repeat(LONGEST_ARGUMENT) })).contains("1 MiB"));
    }

    #[test]
    fn the_input_cannot_smuggle_in_an_option() {
        let input = json!({ "a": "-rf", "e": "", "n": -5 });
        for words in [["p", "{a}"], ["p", "{a}x"], ["p", "{e}{a}"]] {
            assert!(refused(&words, &input).contains("option"), "{words:?}");
        }
        assert_eq!(fill(&["p", "--", "{a}"], &input), ["p", "--", "-rf"]);
        assert_eq!(fill(&["p", "--x={a}", "./{a}", "{n}"], &input), ["p", "--x=-rf", "./-rf", "-5"]);
    }

    #[test]
    fn faults_of_a_command_name_the_word() {
        for (words, number, message) in [
            (&[][..], 0, "empty"),
            (&[""][..], 0, "empty"),
            (&["{a}"][..], 0, "chosen by the input"),
            (&["p{a}"][..], 0, "chosen by the input"),
            (&["p", "{"][..], 1, "without its `}`"),
            (&["p", "x", "}"][..], 2, "without its `{`"),
            (&["p", "{}"][..], 1, "without a name"),
            (&["p", "{print $1}"][..], 1, "` ` in a placeholder"),
            (&["p", "{a\nb}"][..], 1, "`\\n` in a placeholder"),
            (&["p", "a\0b"][..], 1, "NUL"),
        ] {
            let bad = command(words).unwrap_err();
            assert_eq!(bad.number, number, "{words:?}");
            assert!(bad.message.contains(message), "{words:?}: {}", bad.message);
        }
    }

    proptest! {
        #[test]
        fn the_number_of_arguments_never_depends_on_the_text(text in "\\PC{0,40}", word in "[a-z]{1,3}=") {
            let words = ["p".to_owned(), format!("{word}{{a}}"), "z".to_owned()];
            let filled = Command::parse(&words).unwrap().fill(&json!({ "a": text })).unwrap();
            prop_assert_eq!(filled, ["p", &format!("{word}{text}"), "z"]);
        }

        #[test]
        fn doubled_braces_give_any_literal_back(text in "[a-c{}-]{1,20}") {
            let words = ["p".to_owned(), text.replace('{', "{{").replace('}', "}}")];
            let filled = Command::parse(&words).unwrap().fill(&json!({})).unwrap();
            prop_assert_eq!(filled, ["p", &text]);
        }
    }
}
