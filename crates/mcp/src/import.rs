//! From another client's configuration to ours: which servers are in there, what of each is taken over, what is
//! not and why. Variables stay as they are written, and nobody's network is guessed.

mod sources;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use lazaret_policy::load::{
    self, LoadError, Sort,
    document::{self, Entry, Node, Value as Tree},
};
use serde_json::{Map, Value, json};

use crate::{
    config::{self, Definition, Sandbox, ServerName, Surroundings},
    containment::{absolute, program},
};
use sources::{Source, sources};

/// Some clients keep everything in one file.
const LARGEST: u64 = 64 << 20;
/// What is taken over as it is.
const KEPT: [&str; 5] = ["args", "env", "sandbox", "inheritEnv", "limits"];
/// Said of every such server already, or of no use anywhere else.
const PASSED_OVER: [&str; 4] = ["type", "transport", "disabled", "enabled"];

/// Whose configuration it is, as far as the file tells: what is to be put into it is written accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    ClaudeCode,
    Codex,
    VsCode,
    /// `mcpServers` in a file of its own: Claude Desktop, Cursor and many others.
    Other,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub client: Client,
    pub taken: Vec<Taken>,
    pub left: Vec<Left>,
    /// Our file.
    pub text: String,
}

/// A server that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub name: ServerName,
    /// Program and arguments, for a person.
    pub command: String,
    pub sandbox: Sandbox,
    /// What was changed or could not be kept, and what it will probably miss.
    pub remarks: Vec<String>,
}

/// A server that was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub name: String,
    pub reason: String,
}

/// Reads a client's file.
pub fn load(file: &Path, surroundings: &Surroundings) -> Result<Imported, LoadError> {
    let sort =
        Sort { noun: "a client's configuration", largest: LARGEST, if_missing: "give the client's own file" };
    import(&load::read(file, sort)?, file, surroundings)
}

/// The same for a text; `file` says what format it has, and where relative paths begin.
pub fn import(text: &str, file: &Path, surroundings: &Surroundings) -> Result<Imported, LoadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let is_toml = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let tree = if is_toml { document::from_toml(text) } else { document::from_jsonc(text) };
    let tree = tree.map_err(|fault| fault.placed(text, &file))?;
    let (client, sources) = sources(&tree, &file).map_err(|fault| fault.placed(text, &file))?;
    let mut import = Import { surroundings, servers: Vec::new(), taken: Vec::new(), left: Vec::new() };
    for source in sources {
        for entry in source.entries {
            if let Err(reason) = import.take(entry, &source) {
                import.left.push(Left { name: entry.key.clone(), reason });
            }
        }
    }
    let text = rendered(&import.servers);
    Ok(Imported { client, taken: import.taken, left: import.left, text })
}

struct Import<'a> {
    surroundings: &'a Surroundings,
    servers: Vec<(ServerName, Map<String, Value>)>,
    taken: Vec<Taken>,
    left: Vec<Left>,
}

impl Import<'_> {
    /// Takes one server over, or says why not.
    fn take(&mut self, entry: &Entry, source: &Source<'_>) -> Result<(), String> {
        let node = &entry.node;
        let text = |key: &str| match node.child(key).map(|node| &node.value) {
            Some(Tree::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let is = |key: &str, value: bool| matches!(node.child(key).map(|node| &node.value), Some(Tree::Bool(flag)) if *flag == value);
        if is("disabled", true) || is("enabled", false) {
            return Err("it is disabled".to_owned());
        }
        let remote = ["type", "transport"].iter().find_map(|key| text(key)).filter(|kind| *kind != "stdio");
        if let Some(kind) = remote {
            return Err(remote_reason(kind));
        }
        let Some(command) = text("command").filter(|command| !command.trim().is_empty()) else {
            let url = ["url", "serverUrl", "httpUrl"].iter().find(|key| text(key).is_some());
            return Err(url.map_or_else(|| "it has no command".to_owned(), |key| remote_reason(key)));
        };
        if is_ourselves(command, node) {
            return Err("it is lazaret itself".to_owned());
        }
        let mut remarks = Vec::new();
        let mut server = Map::new();
        let command = if command.contains('/') || command.starts_with('~') {
            let home = self.surroundings.home.as_deref();
            let path = absolute(command, &source.base, home).map_err(|fault| fault.to_string())?;
            if command.starts_with(['/', '$']) { command.to_owned() } else { path.display().to_string() }
        } else {
            command.to_owned()
        };
        server.insert("command".to_owned(), command.into());
        for Entry { key, node, .. } in node_entries(node) {
            match key.as_str() {
                "command" => {}
                "cwd" => drop(server.insert(key.clone(), self.directory(node, source)?)),
                // Codex's words for them.
                "startup_timeout_sec" => limit(&mut server, "startupTimeoutSeconds", node),
                "tool_timeout_sec" => limit(&mut server, "callTimeoutSeconds", node),
                "env_vars" => drop(server.insert("inheritEnv".to_owned(), plain(node))),
                key if KEPT.contains(&key) => drop(server.insert(key.to_owned(), plain(node))),
                key if PASSED_OVER.contains(&key) => {}
                key => remarks.push(format!("`{key}` is not taken over")),
            }
        }
        if let Some(Value::Array(args)) = server.get_mut("args") {
            for arg in args.iter_mut() {
                if let Value::String(text) = arg {
                    *text = program::argument(text, &source.base).to_string_lossy().into_owned();
                }
            }
        }
        let name = self.name(&entry.key, &server, source, &mut remarks)?;
        self.keep(name, server, remarks)
    }

    fn directory(&self, node: &Node, source: &Source<'_>) -> Result<Value, String> {
        match &node.value {
            Tree::Text(text) if text.contains("${") => Ok(text.as_str().into()),
            Tree::Text(text) => absolute(text, &source.base, self.surroundings.home.as_deref())
                .map(|path| path.display().to_string().into())
                .map_err(|fault| format!("cwd: {fault}")),
            _ => Err("its `cwd` is no text".to_owned()),
        }
    }

    /// A name that we take and that is not taken.
    fn name(
        &self,
        written: &str,
        server: &Map<String, Value>,
        source: &Source<'_>,
        remarks: &mut Vec<String>,
    ) -> Result<ServerName, String> {
        let mut name: String =
            written.chars().map(|c| if c == '/' || c.is_control() { '-' } else { c }).take(64).collect();
        if let Some((_, same)) = self.servers.iter().find(|(taken, _)| taken.as_str() == name) {
            if same == server {
                return Err("the same server is there already".to_owned());
            }
            let suffix =
                source.project.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
            let suffix = suffix.as_deref().unwrap_or("2").to_owned();
            name =
                format!("{}-{suffix}", name.chars().take(40).collect::<String>()).chars().take(64).collect();
            if self.servers.iter().any(|(taken, _)| taken.as_str() == name) {
                return Err("another server has its name".to_owned());
            }
        }
        if name != written {
            remarks.push(format!("it was called `{}`", written.escape_debug()));
        }
        ServerName::new(&name).map_err(|fault| fault.to_string())
    }

    /// Reads it as `serve` will, so that what is written can be read.
    fn keep(
        &mut self,
        name: ServerName,
        server: Map<String, Value>,
        mut remarks: Vec<String>,
    ) -> Result<(), String> {
        let text = json!({ "mcpServers": { name.as_str(): &server } }).to_string();
        let config = config::parse(&text, Path::new("mcp-servers.json"), self.surroundings);
        let config = config.map_err(|error| match error.hint {
            Some(hint) => format!("{} ({hint})", error.message),
            None => error.message,
        })?;
        let sandbox = match config.servers.into_iter().next().map(|server| server.definition) {
            Some(Definition::Local(local)) => local.sandbox,
            // A variable that is missing here may be set where the proxy is started.
            Some(Definition::Unusable(why @ config::Unusable::Variable { .. })) => {
                remarks.push(why.to_string());
                Sandbox::default()
            }
            Some(Definition::Unusable(why)) => return Err(why.to_string()),
            None => return Err("it is disabled".to_owned()),
        };
        let words = |key: &str| server.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let args: Vec<String> =
            words("args").iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect();
        let program = server.get("command").and_then(Value::as_str).unwrap_or_default();
        if sandbox != Sandbox::OptOut {
            remarks.extend(needs(program, &args, &server, &sandbox));
        }
        let command =
            std::iter::once(program).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        self.taken.push(Taken { name: name.clone(), command, sandbox, remarks });
        self.servers.push((name, server));
        Ok(())
    }
}

fn remote_reason(kind: &str) -> String {
    config::Unusable::Remote { transport: kind.to_owned() }.to_string()
}

/// A proxy in a proxy would only ask everything twice.
fn is_ourselves(command: &str, node: &Node) -> bool {
    let first = node.child("args").and_then(|args| args.child("0")).map(|node| &node.value);
    Path::new(command).file_name().is_some_and(|name| name == "lazaret")
        && matches!(first, Some(Tree::Text(text)) if text == "mcp")
}

fn node_entries(node: &Node) -> &[Entry] {
    match &node.value {
        Tree::Table(entries) => entries,
        _ => &[],
    }
}

fn limit(server: &mut Map<String, Value>, name: &str, node: &Node) {
    let seconds = match node.value {
        Tree::Unsigned(seconds) => seconds,
        Tree::Float(seconds) if seconds.is_finite() && seconds > 0.0 => seconds.ceil() as u64,
        _ => return,
    };
    let limits = server.entry("limits").or_insert_with(|| json!({}));
    if let Value::Object(limits) = limits {
        limits.insert(name.to_owned(), seconds.max(1).into());
    }
}

/// Without places.
fn plain(node: &Node) -> Value {
    match &node.value {
        Tree::Null | Tree::Date => Value::Null,
        Tree::Bool(flag) => (*flag).into(),
        Tree::Unsigned(number) => (*number).into(),
        Tree::Signed(number) => (*number).into(),
        Tree::Float(number) => (*number).into(),
        Tree::Text(text) => text.as_str().into(),
        Tree::List(items) => items.iter().map(plain).collect(),
        Tree::Table(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), plain(&entry.node))).collect())
        }
    }
}

/// What a server in a sandbox will probably miss, and the line that would give it.
fn needs(program: &str, args: &[String], server: &Map<String, Value>, sandbox: &Sandbox) -> Vec<String> {
    let mut needs = Vec::new();
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (network, writable) = match sandbox {
        Sandbox::Custom(custom) => {
            (custom.network != config::Network::Off, custom.filesystem.allow_write.as_slice())
        }
        _ => (false, [].as_slice()),
    };
    match name.as_ref() {
        "npx" | "bunx" | "pnpx" if !network => needs.push(format!(
            "{name} starts what it has fetched before; to let it fetch, list npm's registry in network.allowedDomains"
        )),
        "uvx" | "uv" | "pipx" if !network => needs.push(format!(
            "{name} starts what it has fetched before; to let it fetch, list the hosts of PyPI in network.allowedDomains"
        )),
        "docker" | "podman" => needs.push(format!(
            "{name} hands the work to a daemon outside, which a sandbox does not let it reach: run the server without \
             {name}"
        )),
        _ => {}
    }
    let directories = args.iter().map(Path::new).filter(|path| path.is_absolute() && path.is_dir());
    for path in directories.filter(|path| !writable.iter().any(|writable| path.starts_with(writable))) {
        needs.push(format!(
            "{} can be read and not be written; to let it write there: \"filesystem\": {{ \"allowWrite\": [{}] }}",
            path.display(),
            Value::from(path.display().to_string())
        ));
    }
    let secrets = server.get("env").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let secrets: Vec<&str> = secrets
        .map(String::as_str)
        .filter(|name| {
            ["TOKEN", "KEY", "SECRET", "PASSWORD"].iter().any(|word| name.to_uppercase().contains(word))
        })
        .collect();
    if !network && !secrets.is_empty() {
        needs.push(format!(
            "it is given {}, so it probably has to reach a host: \"network\": {{ \"allowedDomains\": [\"HOST\"] }}",
            secrets.join(", ")
        ));
    }
    needs
}

/// Readable, in the order in which the servers were found, and each with its command first.
fn rendered(servers: &[(ServerName, Map<String, Value>)]) -> String {
    const ORDER: [&str; 7] = ["command", "args", "env", "cwd", "inheritEnv", "sandbox", "limits"];
    let mut text = String::from("{\n  \"mcpServers\": {");
    for (number, (name, server)) in servers.iter().enumerate() {
        text += if number == 0 { "\n" } else { ",\n" };
        text += &format!("    {}: {{", Value::from(name.as_str()));
        let keys = ORDER.iter().filter_map(|key| server.get(*key).map(|value| (key, value)));
        for (number, (key, value)) in keys.enumerate() {
            text += if number == 0 { "\n" } else { ",\n" };
            text += &format!("      \"{key}\": {}", spaced(value));
        }
        text += "\n    }";
    }
    text += if servers.is_empty() { "}\n}\n" } else { "\n  }\n}\n" };
    text
}

/// On one line, with spaces.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) if !fields.is_empty() => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), spaced(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// What to put into the client, so that it talks to the proxy instead.
pub fn snippet(client: Client, name: &str, program: &Path, config: &Path) -> String {
    let (program, config) = (program.display().to_string(), config.display().to_string());
    let args = [Value::from("mcp"), "serve".into(), "--config".into(), config.as_str().into()];
    let args = Value::from(args.to_vec());
    let object = |key: &str, more: &str| {
        format!(
            "{{\n  \"{key}\": {{\n    {}: {{ {more}\"command\": {}, \"args\": {} }}\n  }}\n}}\n",
            Value::from(name),
            Value::from(program.as_str()),
            spaced(&args)
        )
    };
    match client {
        Client::ClaudeCode => format!(
            "claude mcp add --scope user {} -- {} mcp serve --config {}\n",
            quoted(name),
            quoted(&program),
            quoted(&config)
        ),
        // A basic string of TOML and one of JSON are written alike.
        Client::Codex => format!(
            "[mcp_servers.{}]\ncommand = {}\nargs = {}\n",
            Value::from(name),
            Value::from(program.as_str()),
            spaced(&args)
        ),
        Client::VsCode => object("servers", "\"type\": \"stdio\", "),
        Client::Other => object("mcpServers", ""),
    }
}

/// For a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Where ours is kept.
pub fn default_output(config_directory: &Path) -> PathBuf {
    config_directory.join("mcp-servers.json")
}
