//! The tool registry: which programs may be called by name, with what input, under which policy. Reading
//! the file is in `document`, who may have written it in `source`, the input in `input`, the answer in
//! `result`. Running a tool is left to the caller: here it becomes an argument list and a policy.

mod command;
mod document;
mod input;
mod json;
mod result;
mod schema;
mod source;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use lazaret_policy::{
    Policy,
    load::{self, LoadError, Loaded},
    profile::Profile,
    spelling,
    units::Bytes,
};

pub use input::{CheckedInput, InputError};
pub use result::{Completeness, ErrorCode, ToolFailure, ToolResult, pad_to_quantum};
pub use source::{Keeper, Source};

use crate::report::printable;

/// What a tool may write to standard output when its entry does not say.
const USUAL_OUTPUT: Bytes = Bytes(1 << 20);

/// One tool, as its entry describes it.
#[derive(Debug)]
pub struct Tool {
    name: String,
    description: String,
    command: command::Command,
    policy: PolicyChoice,
    input: InputWay,
    output: OutputForm,
    time_quantum: Duration,
    max_output: Bytes,
    schema: schema::Schema,
    source: Source,
}

/// Where the policy of a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChoice {
    File(PathBuf),
    Profile(&'static Profile),
}

/// How the JSON input reaches the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputWay {
    /// The JSON text on standard input.
    Stdin,
    /// Only through the placeholders of the command.
    Arguments,
    /// The JSON text in the variable `LAZARET_INPUT`.
    Environment,
}

/// What the tool writes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    Text,
    /// One JSON value; anything else makes the result an error.
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    #[error("{file} is not safe to trust: {why}", file = file.display())]
    Untrusted { file: PathBuf, why: &'static str },
    #[error("{file} cannot be opened: check who may read it", file = file.display())]
    Open {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} cannot be read", file = file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// What stands in the file, or in a policy or schema that it names.
    #[error(transparent)]
    Refused(#[from] LoadError),
}

/// A name that no entry has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{}`{}", printable(name), self.suggestion())]
pub struct UnknownTool {
    pub name: String,
    /// The registered name that was probably meant.
    pub nearest: Option<String>,
}

impl UnknownTool {
    fn suggestion(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!(": did you mean `{nearest}`?"),
            None => ": see which tools are registered".to_owned(),
        }
    }
}

/// All tools of all files.
#[derive(Debug, Default)]
pub struct Registry {
    tools: BTreeMap<String, Tool>,
}

impl Registry {
    /// Reads every source. A file that does not exist has no tools; a fault in any of them is an error of the
    /// whole, so that a damaged administrator's file never lets the caller's entry through. For the same name
    /// the administrator's entry wins, and among equals the earlier source.
    pub fn load(sources: &[Source]) -> Result<Registry, ToolsError> {
        let mut tools = BTreeMap::<String, Tool>::new();
        for source in sources {
            let Some(text) = source.read(&source.file)? else { continue };
            for tool in document::tools(&text, source)? {
                match tools.get(&tool.name) {
                    Some(known) if known.source.keeper >= tool.source.keeper => {}
                    _ => drop(tools.insert(tool.name.clone(), tool)),
                }
            }
        }
        Ok(Registry { tools })
    }

    /// Sorted by name.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    pub fn find(&self, name: &str) -> Result<&Tool, UnknownTool> {
        self.tools.get(name).ok_or_else(|| UnknownTool {
            name: name.chars().take(LONGEST_NAME).collect(),
            nearest: spelling::nearest(name, self.tools.keys().map(String::as_str)).map(str::to_owned),
        })
    }
}

const LONGEST_NAME: usize = 64;

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`: a name is part of messages, of logs and of keys of the quarantine.
fn is_tool_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

impl Tool {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Empty when the entry has none.
    pub fn description(&self) -> &str {
        &self.description
    }

    pub fn policy_choice(&self) -> &PolicyChoice {
        &self.policy
    }

    pub fn input_way(&self) -> InputWay {
        self.input
    }

    pub fn output_form(&self) -> OutputForm {
        self.output
    }

    /// The answer is given at the next multiple of this; zero means at once.
    pub fn time_quantum(&self) -> Duration {
        self.time_quantum
    }

    /// What is written beyond this is cut off.
    pub fn max_output(&self) -> Bytes {
        self.max_output
    }

    /// The JSON Schema of the input.
    pub fn input_schema(&self) -> &serde_json::Value {
        self.schema.value()
    }

    /// The file with the entry, and who keeps it.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Reads the policy of the tool. What an administrator's entry names must be the administrator's as well.
    pub fn policy(&self) -> Result<Loaded, ToolsError> {
        match &self.policy {
            PolicyChoice::Profile(profile) => Ok(profile.load()?),
            PolicyChoice::File(file) => {
                self.source.trust(file)?;
                Ok(load::load_file(file)?)
            }
        }
    }

    /// Checks an input and turns it into what the tool is started with.
    ///
    /// Members that the schema declares with `format = "path"` are validated against `policy`, in which `~`
    /// and `.` are already replaced; where it has no `rootPath`, `directory` is the root. This is a check by
    /// name, early and with a good message; the wall is the sandbox's view.
    pub fn check(
        &self,
        input_text: &str,
        policy: &Policy,
        directory: &Path,
    ) -> Result<CheckedInput, Vec<InputError>> {
        input::check(self, input_text, policy, directory)
    }
}

#[cfg(test)]
mod tests;
