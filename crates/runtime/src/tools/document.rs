//! From the TOML text of a registry to its tools, with errors that name file, line and column. Unknown keys
//! are errors: a misspelt limit is a limit that is not there.

use std::{path::Path, time::Duration};

use lazaret_policy::{
    load::{LoadError, position},
    profile, spelling,
    units::{Bytes, Millis},
};
use serde_json::{Map, Number, Value, json};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    InputWay, OutputForm, PolicyChoice, Source, Tool, ToolsError, USUAL_OUTPUT,
    command::Command,
    is_tool_name, json,
    schema::{self, BadSchema, Schema},
    source::unplaced,
};
use crate::report::printable;

const KEYS: [&str; 9] = [
    "description",
    "command",
    "policy",
    "profile",
    "input",
    "output",
    "timeQuantum",
    "maxOutput",
    "inputSchema",
];

/// What a tool runs under when its entry names nothing.
const USUAL_PROFILE: &str = "strict";

type Node<'t> = Spanned<DeValue<'t>>;

/// Every tool of one file.
pub(super) fn tools(text: &str, source: &Source) -> Result<Vec<Tool>, ToolsError> {
    // Some editors begin a file with a byte order mark, which TOML does not know.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document { text, source };
    let root = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        document.fault(offset, format!("not valid TOML: {}", error.message()), "")
    })?;
    let mut tools = Vec::new();
    for (key, value) in in_order(root.get_ref()) {
        if key.get_ref() != "tools" {
            return Err(document.unknown(key, &["tools"]).into());
        }
        for (name, entry) in in_order(document.table(value, "tools")?) {
            tools.push(document.tool(name, entry)?);
        }
    }
    Ok(tools)
}

type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;

/// The toml crate sorts keys by name; errors are reported in the order of the document.
fn in_order<'d, 't>(table: &'d DeTable<'t>) -> Vec<(&'d Key<'t>, &'d Node<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Document<'a> {
    text: &'a str,
    source: &'a Source,
}

impl Document<'_> {
    fn fault(&self, offset: usize, message: impl Into<String>, hint: impl Into<String>) -> LoadError {
        let (line, column) = position(self.text, offset);
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        let file = self.source.file.clone();
        LoadError { file, line: Some(line), column: Some(column), message: message.into(), hint }
    }

    fn unknown(&self, key: &Key<'_>, known: &[&str]) -> LoadError {
        let word = key.get_ref();
        let hint = match spelling::nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("known here: {}; a tool's name with a dot is written in quotes", known.join(", "))
            }
        };
        self.fault(key.span().start, format!("unknown key `{}`", printable(word)), hint)
    }

    fn table<'d, 't>(&self, node: &'d Node<'t>, key: &str) -> Result<&'d DeTable<'t>, LoadError> {
        match node.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.fault(node.span().start, format!("{key}: not a section"), "write [tools.NAME]")),
        }
    }

    fn string<'d>(&self, node: &'d Node<'_>, key: &str) -> Result<&'d str, LoadError> {
        match node.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.fault(node.span().start, format!("{key}: not a text"), "write it in quotes")),
        }
    }

    fn tool(&self, name: &Key<'_>, entry: &Node<'_>) -> Result<Tool, ToolsError> {
        let at = name.span().start;
        let name = name.get_ref();
        if !is_tool_name(name) {
            let message = format!("`{}` cannot be the name of a tool", printable(name));
            let hint = "a name has 1 to 64 letters, digits, dots, underscores and hyphens, and begins with a \
                        letter or digit";
            return Err(self.fault(at, message, hint).into());
        }
        let entry = self.table(entry, name)?;
        for (key, _) in in_order(entry) {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                return Err(self.unknown(key, &KEYS).into());
            }
        }
        let string = |key: &str| entry.get(key).map(|node| self.string(node, key)).transpose();
        let Some(command_node) = entry.get("command") else {
            let hint = "write the program and its arguments, like command = [\"wc\", \"-w\"]";
            return Err(self.fault(at, format!("{name} has no command"), hint).into());
        };
        let schema = self.schema(entry.get("inputSchema"))?;
        let command = self.command(command_node, &schema)?;
        Ok(Tool {
            name: name.to_string(),
            description: string("description")?.unwrap_or_default().to_owned(),
            command,
            policy: self.policy(entry)?,
            input: self.choice(
                entry.get("input"),
                "input",
                &[
                    ("stdin", InputWay::Stdin),
                    ("arguments", InputWay::Arguments),
                    ("environment", InputWay::Environment),
                ],
            )?,
            output: self.choice(
                entry.get("output"),
                "output",
                &[("text", OutputForm::Text), ("json", OutputForm::Json)],
            )?,
            time_quantum: self.time_quantum(entry.get("timeQuantum"))?,
            max_output: match entry.get("maxOutput") {
                Some(node) => Bytes(self.measure(node, "maxOutput", |text| Ok(text.parse::<Bytes>()?.0))?),
                None => USUAL_OUTPUT,
            },
            schema,
            source: self.source.clone(),
        })
    }

    fn command(&self, node: &Node<'_>, schema: &Schema) -> Result<Command, LoadError> {
        let DeValue::Array(items) = node.get_ref() else {
            let hint = "write a list, like [\"wc\", \"-w\"]: no shell splits the command into words";
            return Err(self.fault(node.span().start, "command: not a list", hint));
        };
        let words = items
            .iter()
            .map(|item| self.string(item, "command").map(str::to_owned))
            .collect::<Result<Vec<_>, _>>()?;
        let place = |number: usize| items.get(number).map_or(node.span().start, |item| item.span().start);
        let command = Command::parse(&words)
            .map_err(|bad| self.fault(place(bad.number), format!("command: {}", bad.message), bad.hint))?;
        if let Some((number, member)) = command.members().find(|(_, member)| !schema.knows(member)) {
            let properties = schema.value().get("properties").and_then(Value::as_object);
            let known: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let hint = match spelling::nearest(member, known.iter().copied()) {
                Some(near) => format!("did you mean `{{{near}}}`?"),
                None => "add it to the properties of inputSchema, or remove the placeholder".to_owned(),
            };
            let message = format!("command: no input can have the member `{member}`");
            return Err(self.fault(place(number), message, hint));
        }
        Ok(command)
    }

    fn policy(&self, entry: &DeTable<'_>) -> Result<PolicyChoice, LoadError> {
        let name = match (entry.get("policy"), entry.get("profile")) {
            (Some(_), Some(profile)) => {
                let hint = "remove one of the two: it would be unclear which of them counts";
                return Err(self.fault(profile.span().start, "both policy and profile", hint));
            }
            (Some(policy), None) => {
                let file = self.string(policy, "policy")?;
                return self.beside(policy, "policy", file).map(PolicyChoice::File);
            }
            (None, Some(profile)) => self.string(profile, "profile")?,
            (None, None) => USUAL_PROFILE,
        };
        profile::find(name).map(PolicyChoice::Profile).ok_or_else(|| {
            let known: Vec<&str> = profile::builtin().iter().map(|profile| profile.name).collect();
            let offset = entry.get("profile").map_or(0, |node| node.span().start);
            let message = format!("profile: there is no profile `{}`", printable(name));
            self.fault(offset, message, format!("write one of {}", known.join(", ")))
        })
    }

    /// A file that is named relative to this one.
    fn beside(&self, node: &Node<'_>, key: &str, file: &str) -> Result<std::path::PathBuf, LoadError> {
        if file.is_empty() || file.starts_with('~') || file.contains('\0') {
            let hint = "write an absolute path, or one relative to the directory of this file";
            return Err(self.fault(node.span().start, format!("{key}: not the path of a file"), hint));
        }
        Ok(self.source.file.parent().unwrap_or(Path::new("")).join(file))
    }

    /// One of several words; the first when nothing is written.
    fn choice<T: Copy>(
        &self,
        node: Option<&Node<'_>>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<T, LoadError> {
        let word = node.map(|node| self.string(node, key)).transpose()?;
        let found = choices.iter().find(|(name, _)| word.is_none_or(|word| word == *name));
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let message = format!("{key}: unknown value `{}`", printable(word.unwrap_or_default()));
            let offset = node.map_or(0, |node| node.span().start);
            self.fault(offset, message, format!("write one of {}", names.join(", ")))
        })
    }

    fn time_quantum(&self, node: Option<&Node<'_>>) -> Result<Duration, LoadError> {
        let Some(node) = node else { return Ok(Duration::ZERO) };
        match self.measure(node, "timeQuantum", |text| Ok(text.parse::<Millis>()?.0))? {
            0 => Err(self.fault(node.span().start, "timeQuantum: no time at all", "leave it out instead")),
            millis => Ok(Duration::from_millis(millis)),
        }
    }

    /// A whole number, or a text with a unit.
    fn measure(
        &self,
        node: &Node<'_>,
        key: &str,
        parse: impl Fn(&str) -> Result<u64, lazaret_policy::units::UnitError>,
    ) -> Result<u64, LoadError> {
        let fault = |message: String| self.fault(node.span().start, format!("{key}: {message}"), "");
        match node.get_ref() {
            DeValue::String(text) => parse(text).map_err(|error| fault(error.to_string())),
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| fault("not a whole number that can be used here".to_owned())),
            _ => Err(fault("neither a whole number nor a text with a unit".to_owned())),
        }
    }

    fn schema(&self, node: Option<&Node<'_>>) -> Result<Schema, ToolsError> {
        let anything = Node::new(0..0, DeValue::Table(DeTable::default()));
        let fault = |offset, bad: BadSchema| {
            self.fault(offset, format!("inputSchema: {}", bad.message), "a JSON Schema (2020-12) is needed")
        };
        let node = node.unwrap_or(&anything);
        match node.get_ref() {
            DeValue::String(file) => {
                let file = self.beside(node, "inputSchema", file)?;
                let Some(text) = self.source.read(&file)? else {
                    let message = format!("inputSchema: there is no file {}", file.display());
                    return Err(self.fault(node.span().start, message, "check the path").into());
                };
                schema::from_json(&text).map_err(|bad| {
                    let message = format!("{}: {}", json::pointer(&bad.place), bad.message);
                    unplaced(&file, message.trim_start_matches(": "), "a JSON Schema (2020-12) is needed")
                        .into()
                })
            }
            DeValue::Table(table) if table.is_empty() => {
                // Tools are called with named members; whoever wants something else says so.
                Schema::compile(json!({ "type": "object" })).map_err(|bad| fault(0, bad).into())
            }
            DeValue::Table(_) => {
                let value = self.json(node, 0)?;
                Schema::compile(value).map_err(|bad| fault(offset_of(node, &bad.place), bad).into())
            }
            _ => {
                let hint = "write a section [tools.NAME.inputSchema], or the name of a JSON file";
                Err(self.fault(node.span().start, "inputSchema: neither a section nor a file", hint).into())
            }
        }
    }

    fn json(&self, node: &Node<'_>, depth: usize) -> Result<Value, LoadError> {
        let fault = |message: &str| self.fault(node.span().start, format!("inputSchema: {message}"), "");
        if depth > json::DEEPEST {
            return Err(fault("nested too deeply"));
        }
        Ok(match node.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Integer(number) => {
                let (text, radix) = (number.as_str(), number.radix());
                let unsigned = u64::from_str_radix(text, radix).map(Number::from);
                let number = unsigned.or_else(|_| i64::from_str_radix(text, radix).map(Number::from));
                Value::Number(number.map_err(|_| fault("this number is too large"))?)
            }
            DeValue::Float(number) => {
                let number = number.as_str().parse().ok().and_then(Number::from_f64);
                Value::Number(number.ok_or_else(|| fault("JSON has no such number"))?)
            }
            DeValue::Datetime(_) => return Err(fault("JSON has no dates: write it in quotes")),
            DeValue::Array(items) => {
                Value::Array(items.iter().map(|item| self.json(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Object(
                table
                    .iter()
                    .map(|(key, value)| Ok((key.get_ref().to_string(), self.json(value, depth + 1)?)))
                    .collect::<Result<Map<_, _>, LoadError>>()?,
            ),
        })
    }
}

/// Where the value at `place` begins, or what is there of it.
fn offset_of(node: &Node<'_>, place: &[String]) -> usize {
    let mut node = node;
    for name in place {
        let child = match node.get_ref() {
            DeValue::Table(table) => table.get(name.as_str()),
            DeValue::Array(items) => name.parse().ok().and_then(|number: usize| items.get(number)),
            _ => None,
        };
        match child {
            Some(child) => node = child,
            None => break,
        }
    }
    node.span().start
}
