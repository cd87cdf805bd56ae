//! The input of a tool: a JSON text is parsed, validated, and becomes arguments, standard input and
//! variables. Everything that is wrong is said in the tool's own terms, with the place in the input.

use std::{ffi::OsString, fmt, path::Path};

use lazaret_policy::{Policy, path};
use serde::Serialize;
use serde_json::Value;

use super::{InputWay, Tool, command::LONGEST_ARGUMENT, json};
use crate::report::printable;

const VARIABLE: &str = "LAZARET_INPUT";

/// Messages name members, and members are as long as the caller likes.
const LONGEST_MESSAGE: usize = 1000;

/// What is wrong with an input, and where: `path` is a JSON pointer, empty for the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputError {
    pub path: String,
    pub message: String,
}

impl InputError {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        InputError { path: shortened(path.into()), message: shortened(message.into()) }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", printable(&self.path))?;
        }
        f.write_str(&printable(&self.message))
    }
}

impl std::error::Error for InputError {}

/// An input that passed every check, in the form in which the tool gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedInput {
    argv: Vec<OsString>,
    stdin: String,
    environment: Vec<(OsString, OsString)>,
}

impl CheckedInput {
    /// The program and its arguments.
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// What the tool reads from standard input; empty when the input goes another way.
    pub fn stdin(&self) -> &str {
        &self.stdin
    }

    /// Variables to set in addition to what the policy lets through.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }
}

pub(super) fn check(
    tool: &Tool,
    text: &str,
    policy: &Policy,
    directory: &Path,
) -> Result<CheckedInput, Vec<InputError>> {
    let input = json::parse(text, json::LARGEST).map_err(|error| vec![error])?;
    let mut errors = tool.schema.errors(&input, text.len());
    if errors.is_empty() {
        errors = refused_paths(tool, &input, policy, directory);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let argv = tool.command.fill(&input)?;
    // The text as it was given: nothing in it can be read in two ways, and numbers keep all their digits.
    let (stdin, environment) = match tool.input {
        InputWay::Stdin => (text.to_owned(), Vec::new()),
        InputWay::Arguments => (String::new(), Vec::new()),
        InputWay::Environment if VARIABLE.len() + 1 + text.len() > LONGEST_ARGUMENT => {
            let message = "the input is too long for a variable: the kernel takes less than 128 KiB; use \
                           input = \"stdin\" for this tool";
            return Err(vec![InputError::new("", message)]);
        }
        InputWay::Environment => (String::new(), vec![(VARIABLE.into(), text.into())]),
    };
    Ok(CheckedInput { argv, stdin, environment })
}

fn refused_paths(tool: &Tool, input: &Value, policy: &Policy, directory: &Path) -> Vec<InputError> {
    let declared = tool.schema.paths(input);
    if declared.is_empty() {
        return Vec::new();
    }
    let mut filesystem = policy.filesystem.clone();
    filesystem.root_path.get_or_insert_with(|| directory.to_owned());
    let refusal = |(place, path): (String, &str)| {
        let refusal = path::validate(Path::new(path), &filesystem).err()?;
        let mut message = refusal.to_string();
        if let Some(source) = std::error::Error::source(&refusal) {
            message += &format!(" ({source})");
        }
        Some(InputError::new(place, message))
    };
    declared.into_iter().filter_map(refusal).collect()
}
