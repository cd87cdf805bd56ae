//! The file as a whole: which of the known shapes it has, its options, its servers.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use lazaret_policy::{
    load::{
        Fault, LoadError,
        document::{self, Entry, Node, Value},
        position,
    },
    spelling,
};

use super::{
    Config, Limits, OnToolChange, Options, SANDBOX_POLICY, SandboxPolicy, Server, ServerName, Surroundings,
    ToolNames,
    read::{bytes, choice, filled, number, section, table, unknown},
    server,
};

/// Our options beside the servers.
pub const OPTIONS: [&str; 7] = [
    "sandboxPolicy",
    "escalationTimeoutSeconds",
    "protectedPaths",
    "auditLogPath",
    "toolNames",
    "onToolChange",
    "limits",
];
/// Where clients keep their servers.
const WRAPPERS: [&str; 2] = ["mcpServers", "servers"];
/// What other clients have beside the servers.
const THEIRS: [&str; 5] = ["$schema", "inputs", "globalShortcut", "preferences", "isUsingBuiltInNodeForMcp"];
const LIMITS: [&str; 7] = [
    "callsPerMinute",
    "maxOutputBytes",
    "maxMessageBytes",
    "callTimeoutSeconds",
    "startupTimeoutSeconds",
    "identicalCalls",
    "identicalCallsSeconds",
];
const POLICIES: [(&str, SandboxPolicy); 2] =
    [("enforce", SandboxPolicy::Enforce), ("warn", SandboxPolicy::Warn)];
/// A day: longer is a mistake.
const LONGEST: u64 = 86_400;

/// How the servers stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// TB0's: the names of the servers are the keys.
    Bare,
    /// `mcpServers`, as in .mcp.json, Claude Desktop and Cursor, or `servers`, as in VS Code.
    Wrapped(&'static str),
}

impl Shape {
    /// By the keys at the top.
    pub fn of(tree: &Node) -> Result<Shape, Fault> {
        let is_server =
            |node: &Node| matches!(node.child("command").map(|node| &node.value), Some(Value::Text(_)));
        for entry in table(tree, "the file", "an object with servers")? {
            if is_server(&entry.node) {
                continue;
            }
            if let Some(wrapper) = WRAPPERS.into_iter().find(|wrapper| *wrapper == entry.key) {
                return Ok(Shape::Wrapped(wrapper));
            }
            if let Some(near) = spelling::nearest(&entry.key, WRAPPERS) {
                let message = format!("unknown key `{}`", entry.key);
                return Err(Fault::at(entry.offset, message).hint(format!("did you mean `{near}`?")));
            }
        }
        Ok(Shape::Bare)
    }
}

pub fn config(text: &str, file: &Path, surroundings: &Surroundings) -> Result<Config, LoadError> {
    let absolute = std::path::absolute(file).map_err(|error| {
        LoadError::unplaced(file, format!("no such place: {error}"), "write the whole path")
    })?;
    // Some editors begin a file with a byte order mark, which JSON does not know.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        let hint = "write the servers, or make the file with `lazaret mcp import FILE`";
        return Err(LoadError::unplaced(file, "the file is empty", hint));
    }
    let from_environment = policy_of_environment(surroundings).map_err(|value| {
        let message = format!("the variable {SANDBOX_POLICY} is `{}`", value.escape_debug());
        LoadError::unplaced(file, message, "set it to enforce or warn, or unset it")
    })?;
    let mut notes = Vec::new();
    let mut note = |offset: usize, text: String| notes.push((offset, text));
    let outcome = (|| {
        let tree = document::from_jsonc(text)?;
        let (servers, others) = match Shape::of(&tree)? {
            Shape::Bare => (table(&tree, "the file", "an object with servers")?, [].as_slice()),
            Shape::Wrapped(wrapper) => {
                let servers = tree
                    .child(wrapper)
                    .map_or(Ok([].as_slice()), |node| table(node, wrapper, "an object with servers"))?;
                (servers, tree.entries(&[]))
            }
        };
        let places = Places { file: &absolute, home: surroundings.home.as_deref() };
        let options = options(others, from_environment, &places, &mut note)?;
        let servers = self::servers(servers, &options, surroundings, &mut note)?;
        Ok::<_, Fault>((options, servers))
    })();
    let (options, servers) = outcome.map_err(|fault| fault.placed(text, file))?;
    notes.sort();
    let placed = |(offset, note)| {
        let (line, column) = position(text, offset);
        format!("{}:{line}:{column}: {note}", file.display())
    };
    let notes = notes.into_iter().map(placed).collect();
    Ok(Config { file: absolute, options, servers, notes })
}

/// What the variable says; `Err` with what is no answer.
fn policy_of_environment(surroundings: &Surroundings) -> Result<Option<SandboxPolicy>, String> {
    match surroundings.environment.get(OsStr::new(SANDBOX_POLICY)) {
        None => Ok(None),
        Some(value) => POLICIES
            .iter()
            .find(|(word, _)| value == word)
            .map(|(_, policy)| Some(*policy))
            .ok_or_else(|| value.to_string_lossy().into_owned()),
    }
}

/// Where relative paths of the options begin, and `~`.
struct Places<'a> {
    file: &'a Path,
    home: Option<&'a Path>,
}

impl Places<'_> {
    fn path(&self, node: &Node, key: &str) -> Result<PathBuf, Fault> {
        let text = filled(node, key)?;
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        crate::containment::absolute(text, directory, self.home)
            .map_err(|fault| Fault::at(node.offset, format!("{key}: {fault}")))
    }
}

fn options(
    entries: &[Entry],
    from_environment: Option<SandboxPolicy>,
    places: &Places<'_>,
    note: &mut dyn FnMut(usize, String),
) -> Result<Options, Fault> {
    let mut options = Options {
        sandbox_policy: from_environment.unwrap_or_default(),
        escalation_timeout: Duration::from_secs(300),
        protected_paths: Vec::new(),
        audit_log: None,
        tool_names: ToolNames::default(),
        on_tool_change: OnToolChange::default(),
        limits: Limits::default(),
    };
    for Entry { key, offset, node } in entries {
        match key.as_str() {
            "sandboxPolicy" => {
                let written = choice(node, key, &POLICIES)?;
                options.sandbox_policy = from_environment.map_or(written, |other| other.max(written));
                if options.sandbox_policy != written {
                    note(
                        *offset,
                        format!("{SANDBOX_POLICY} is set to {}, which is stricter", options.sandbox_policy),
                    );
                }
            }
            "escalationTimeoutSeconds" => {
                options.escalation_timeout = Duration::from_secs(number(node, key, 30, 600)?);
            }
            "protectedPaths" => {
                let paths = super::read::list(node, key)?.iter();
                options.protected_paths =
                    paths.map(|path| places.path(path, key)).collect::<Result<_, _>>()?;
            }
            "auditLogPath" => options.audit_log = Some(places.path(node, key)?),
            "toolNames" => {
                let choices = [("auto", ToolNames::Auto), ("prefixed", ToolNames::Prefixed)];
                options.tool_names = choice(node, key, &choices)?;
            }
            "onToolChange" => {
                let choices = [
                    ("escalate", OnToolChange::Escalate),
                    ("deny", OnToolChange::Deny),
                    ("allow", OnToolChange::Allow),
                ];
                options.on_tool_change = choice(node, key, &choices)?;
            }
            "limits" => options.limits = limits(node, key, Limits::default())?,
            key if WRAPPERS.contains(&key) => {}
            key if THEIRS.contains(&key) => {
                if key != "$schema" {
                    note(*offset, format!("`{key}` is not used here"));
                }
            }
            key => {
                let known: Vec<&str> = WRAPPERS.into_iter().chain(OPTIONS).collect();
                let message = format!("unknown key `{key}` at the top level");
                return Err(Fault::at(*offset, message).hint(unknown(key, &known)));
            }
        }
    }
    let lists: Vec<&Entry> = entries.iter().filter(|entry| WRAPPERS.contains(&entry.key.as_str())).collect();
    if let [_, second, ..] = lists.as_slice() {
        let message = "both `mcpServers` and `servers` are there";
        return Err(Fault::at(second.offset, message).hint("put all servers into one of them"));
    }
    Ok(options)
}

/// Limits, where left out those of `common`.
pub fn limits(node: &Node, key: &str, common: Limits) -> Result<Limits, Fault> {
    let mut limits = common;
    for Entry { key: name, node, .. } in section(node, key, &LIMITS)? {
        let key = format!("{key}.{name}");
        let small =
            |from, to| number(node, &key, from, to).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let seconds = |from| number(node, &key, from, LONGEST).map(Duration::from_secs);
        match name.as_str() {
            "callsPerMinute" => limits.calls_per_minute = Some(small(1, 1_000_000)?),
            "maxOutputBytes" => limits.max_output_bytes = bytes(node, &key, 1 << 10, 1 << 32)?,
            "maxMessageBytes" => limits.max_message_bytes = bytes(node, &key, 1 << 16, 1 << 32)?,
            "callTimeoutSeconds" => limits.call_timeout = seconds(1)?,
            "startupTimeoutSeconds" => limits.startup_timeout = seconds(1)?,
            "identicalCalls" => limits.identical_calls = small(1, 1_000_000)?,
            _ => limits.identical_calls_within = seconds(1)?,
        }
    }
    Ok(limits)
}

fn servers(
    entries: &[Entry],
    options: &Options,
    surroundings: &Surroundings,
    note: &mut dyn FnMut(usize, String),
) -> Result<Vec<Server>, Fault> {
    let mut servers: Vec<Server> = Vec::with_capacity(entries.len());
    for entry in entries {
        if OPTIONS.contains(&entry.key.as_str()) && !matches!(entry.node.value, Value::Table(_)) {
            let message = format!("`{}` is an option, and the servers stand beside it", entry.key);
            return Err(Fault::at(entry.offset, message).hint("put the servers into an object `mcpServers`"));
        }
        let name = ServerName::new(&entry.key).map_err(|fault| {
            Fault::at(entry.offset, fault.to_string())
                .hint("a name has 1 to 64 visible characters, and no `/`")
        })?;
        let folded = name.as_str().to_lowercase();
        if let Some(same) = servers.iter().find(|server| server.name.as_str().to_lowercase() == folded) {
            note(entry.offset, format!("`{name}` and `{}` differ only in capitals", same.name));
        }
        match server::server(entry, options.limits, surroundings, note)? {
            server::Meaning::Server { limits, definition } => {
                servers.push(Server { name, limits, definition })
            }
            server::Meaning::Disabled => {
                note(entry.offset, format!("`{name}` is disabled, so it is left out"))
            }
        }
    }
    Ok(servers)
}
