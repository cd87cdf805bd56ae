//! One server of the file: its name, how it is started, its sandbox.

use std::{collections::BTreeMap, fmt};

use lazaret_policy::{
    load::{
        Fault,
        document::{Entry, Node, Value},
    },
    network::{Pins, Rules},
    schema::{NetworkPolicy, ResourcePolicy},
    spelling,
    units::Bytes,
};

use super::{
    Custom, Defaults, Definition, Domains, Filesystem, InheritEnv, Limits, Local, Network, Sandbox,
    Surroundings, Unusable, Variables, decode,
    read::{bytes, filled, flag, list, number, section, table, text, texts},
    variables::expand,
};

/// Longer names are no names.
const LONGEST_NAME: usize = 64;
/// Our keys of a server.
const OURS: [&str; 8] = ["command", "args", "env", "cwd", "disabled", "sandbox", "inheritEnv", "limits"];
/// Keys of other clients that are near to one of ours, or common: passed over.
const THEIRS: [&str; 14] = [
    "type",
    "transport",
    "enabled",
    "envFile",
    "timeout",
    "autoApprove",
    "alwaysAllow",
    "description",
    "tools",
    "headers",
    "trust",
    "dev",
    "url",
    "name",
];
/// Where a remote server is.
const ADDRESSES: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];
const FILESYSTEM: [&str; 5] = ["allowWrite", "denyRead", "denyWrite", "allowRead", "replaceDefaults"];
const NETWORK: [&str; 4] = ["allowedDomains", "deniedDomains", "allowedAddresses", "resolve"];
const SANDBOX: [&str; 3] = ["filesystem", "network", "resources"];
const RESOURCES: [&str; 4] = ["memory", "processes", "openFiles", "cpuPercent"];

/// What a server is called in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    #[error("a server's name is empty")]
    Empty,
    #[error("a server's name is longer than {LONGEST_NAME} characters")]
    Long,
    #[error("a server's name contains `{}`", .0.escape_default())]
    Character(char),
}

impl ServerName {
    pub fn new(name: &str) -> Result<ServerName, NameFault> {
        let unfit = |c: &char| c.is_control() || *c == '/' || is_invisible(*c);
        match name.chars().find(unfit) {
            _ if name.trim().is_empty() => Err(NameFault::Empty),
            _ if name.chars().count() > LONGEST_NAME => Err(NameFault::Long),
            Some(unfit) => Err(NameFault::Character(unfit)),
            None => Ok(ServerName(name.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Characters that turn or hide the text around them: what a person approves must be what is written.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// What an entry comes to.
pub enum Meaning {
    Server { limits: Limits, definition: Definition },
    Disabled,
}

/// Reads one entry. Notes go to `note`, with their places.
pub fn server(
    entry: &Entry,
    common: Limits,
    surroundings: &Surroundings,
    note: &mut dyn FnMut(usize, String),
) -> Result<Meaning, Fault> {
    let name = &entry.key;
    let at = |key: &str| format!("{name}.{key}");
    let entries = table(&entry.node, name, "an object with `command`")?;
    let (mut local, mut limits) = (None, common);
    let (mut args, mut env, mut directory) = (Vec::new(), BTreeMap::new(), None);
    let (mut inherit_env, mut sandbox) = (InheritEnv::default(), Sandbox::default());
    let (mut disabled, mut address, mut transport) = (false, None, None);
    for Entry { key, offset, node } in entries {
        match key.as_str() {
            "command" => local = Some(filled(node, &at(key))?.to_owned()),
            "args" => {
                let items = list(node, &at(key))?.iter();
                args = items.map(|item| text(item, &at(key)).map(str::to_owned)).collect::<Result<_, _>>()?;
            }
            "env" => env = variables(node, &at(key))?,
            "cwd" => directory = Some(filled(node, &at(key))?.to_owned()),
            "disabled" => disabled |= flag(node, &at(key))?,
            "enabled" => disabled |= !flag(node, &at(key))?,
            "inheritEnv" => inherit_env = inherited(node, &at(key))?,
            "limits" => limits = decode::limits(node, &at(key), common)?,
            "sandbox" => sandbox = self::sandbox(node, &at(key), note)?,
            "type" | "transport" => transport = Some(text(node, &at(key))?.to_ascii_lowercase()),
            key if ADDRESSES.contains(&key) => address = Some((key, *offset)),
            key => {
                foreign(name, key, *offset)?;
                note(*offset, format!("{name}: `{key}` is not used here"));
            }
        }
    }
    if disabled {
        return Ok(Meaning::Disabled);
    }
    let definition = match (local, address, transport.as_deref()) {
        (_, _, Some(transport)) if transport != "stdio" => {
            Definition::Unusable(Unusable::Remote { transport: transport.to_owned() })
        }
        (Some(command), address, _) => {
            if let Some((key, offset)) = address {
                note(offset, format!("{name}: `{key}` is not used, since there is a command"));
            }
            let local = Local { command, args, env: Variables(env), directory, inherit_env, sandbox };
            filled_in(local, surroundings)
        }
        (None, Some((key, _)), _) => Definition::Unusable(Unusable::Remote { transport: key.to_owned() }),
        (None, None, _) => {
            let message = format!("{name}: there is no `command`");
            return Err(Fault::at(entry.offset, message).hint("write the program that is the server"));
        }
    };
    Ok(Meaning::Server { limits, definition })
}

/// A key that is not ours is let pass, unless it looks like one of ours or belongs elsewhere.
fn foreign(name: &str, key: &str, offset: usize) -> Result<(), Fault> {
    let fault = |hint: String| Err(Fault::at(offset, format!("{name}: unknown key `{key}`")).hint(hint));
    for (section, keys) in
        [("sandbox", SANDBOX.as_slice()), ("sandbox.filesystem", &FILESYSTEM), ("sandbox.network", &NETWORK)]
    {
        if keys.iter().any(|known| known.eq_ignore_ascii_case(key)) {
            return fault(format!("`{key}` belongs in `{section}`"));
        }
    }
    if decode::OPTIONS.iter().any(|known| known.eq_ignore_ascii_case(key)) {
        return fault(format!("`{key}` belongs at the top level, beside `mcpServers`"));
    }
    if THEIRS.contains(&key) {
        return Ok(());
    }
    match spelling::nearest(key, OURS) {
        Some(near) => fault(format!("did you mean `{near}`?")),
        None => Ok(()),
    }
}

/// Fills in variables; one that is missing makes the server unusable, not the file.
fn filled_in(mut local: Local, surroundings: &Surroundings) -> Definition {
    let fill = |text: &mut String, key: &str| {
        *text = expand(text, key, &surroundings.environment)?;
        Ok(())
    };
    let outcome = (|| {
        fill(&mut local.command, "command")?;
        local.args.iter_mut().try_for_each(|argument| fill(argument, "args"))?;
        local.directory.iter_mut().try_for_each(|directory| fill(directory, "cwd"))?;
        local.env.0.iter_mut().try_for_each(|(name, value)| fill(value, &format!("env.{name}")))
    })();
    match outcome {
        Ok(()) => Definition::Local(Box::new(local)),
        Err(unusable) => Definition::Unusable(unusable),
    }
}

fn variables(node: &Node, key: &str) -> Result<BTreeMap<String, String>, Fault> {
    let mut variables = BTreeMap::new();
    for Entry { key: name, offset, node } in table(node, key, "an object with variables")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Fault::at(
                *offset,
                format!("{key}: `{}` is no name of a variable", name.escape_default()),
            ));
        }
        let value = match &node.value {
            // Some clients take these; what is meant is clear.
            Value::Bool(flag) => flag.to_string(),
            Value::Unsigned(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            _ => text(node, &format!("{key}.{name}"))?.to_owned(),
        };
        variables.insert(name.clone(), value);
    }
    Ok(variables)
}

fn inherited(node: &Node, key: &str) -> Result<InheritEnv, Fault> {
    Ok(match &node.value {
        Value::Bool(true) => InheritEnv::Everything,
        Value::Bool(false) => InheritEnv::Usual,
        Value::List(_) => InheritEnv::Listed(texts(node, key)?),
        _ => {
            let message = format!("{key}: expected true, false or a list of names");
            return Err(Fault::at(node.offset, message));
        }
    })
}

fn sandbox(node: &Node, key: &str, note: &mut dyn FnMut(usize, String)) -> Result<Sandbox, Fault> {
    match &node.value {
        Value::Bool(true) => return Ok(Sandbox::Restrictive),
        Value::Bool(false) => return Ok(Sandbox::OptOut),
        Value::Table(_) => {}
        _ => {
            let message = format!("{key}: expected false, or an object with what is allowed");
            return Err(Fault::at(node.offset, message).hint("leave it out for a sandbox without network"));
        }
    }
    let mut custom = Custom::default();
    for Entry { key: name, node, .. } in section(node, key, &SANDBOX)? {
        let key = format!("{key}.{name}");
        match name.as_str() {
            "filesystem" => custom.filesystem = filesystem(node, &key)?,
            "network" => custom.network = network(node, &key, note)?,
            _ => (custom.resources, custom.max_processes) = resources(node, &key)?,
        }
    }
    Ok(Sandbox::Custom(Box::new(custom)))
}

fn filesystem(node: &Node, key: &str) -> Result<Filesystem, Fault> {
    let mut filesystem = Filesystem::default();
    for Entry { key: name, node, .. } in section(node, key, &FILESYSTEM)? {
        let key = format!("{key}.{name}");
        match name.as_str() {
            "allowWrite" => filesystem.allow_write = texts(node, &key)?,
            "denyRead" => filesystem.deny_read = texts(node, &key)?,
            "denyWrite" => filesystem.deny_write = texts(node, &key)?,
            "allowRead" => filesystem.allow_read = texts(node, &key)?,
            _ if flag(node, &key)? => filesystem.defaults = Defaults::Replaced,
            _ => filesystem.defaults = Defaults::Kept,
        }
    }
    Ok(filesystem)
}

fn network(node: &Node, key: &str, note: &mut dyn FnMut(usize, String)) -> Result<Network, Fault> {
    const HINT: &str = "write false for no network, or { \"allowedDomains\": [\"example.com\"] }";
    match &node.value {
        Value::Bool(false) => return Ok(Network::Off),
        Value::Table(_) => {}
        _ => return Err(Fault::at(node.offset, format!("{key}: expected false or an object")).hint(HINT)),
    }
    let mut domains = Domains::default();
    for Entry { key: name, node, .. } in section(node, key, &NETWORK)? {
        let key = format!("{key}.{name}");
        match name.as_str() {
            "allowedDomains" => domains.allowed = texts(node, &key)?,
            "deniedDomains" => domains.denied = texts(node, &key)?,
            "allowedAddresses" => domains.addresses = texts(node, &key)?,
            _ => {
                for Entry { key: host, node, .. } in table(node, &key, "an object with names and addresses")?
                {
                    domains.resolve.insert(host.clone(), pins(node, &format!("{key}.{host}"))?);
                }
            }
        }
    }
    if node.child("allowedDomains").is_none() {
        return Err(Fault::at(node.offset, format!("{key}: `allowedDomains` is missing")).hint(HINT));
    }
    if domains.allowed.iter().any(|entry| entry == "*") {
        let offset = node.offset_of(&["allowedDomains"]);
        if domains.allowed.len() > 1 {
            return Err(Fault::at(
                offset,
                format!("{key}.allowedDomains: `*` is every host, so it stands alone"),
            ));
        }
        note(offset, format!("{key}.allowedDomains: every public host can be reached"));
    }
    check(&domains, node, key)?;
    Ok(Network::Domains(domains))
}

/// Rules that do not compile are found here, with their places, and not when the server starts.
fn check(domains: &Domains, node: &Node, key: &str) -> Result<(), Fault> {
    let mut policy = NetworkPolicy { allow_network: true, ..domains.to_policy() };
    if domains.allowed.is_empty() {
        // Judged all the same, although nothing of it will be asked.
        policy.allowed_domains = Some(Vec::new());
        policy.denied_domains = domains.denied.clone();
        policy.allowed_addresses = domains.addresses.clone();
        policy.resolve = domains.resolve.clone();
    }
    Rules::compile(&policy).map(drop).map_err(|error| {
        let index = if error.field == "resolve" { error.entry.clone() } else { error.index.to_string() };
        let offset = node.offset_of(&[error.field, &index]);
        Fault::at(offset, format!("{key}.{}: {}", error.field, error.fault)).hint(error.fault.hint())
    })
}

fn pins(node: &Node, key: &str) -> Result<Pins, Fault> {
    let fault = |error| Fault::at(node.offset, format!("{key}: {error}"));
    let value = match &node.value {
        Value::List(_) => serde_json::Value::from(texts(node, key)?),
        _ => serde_json::Value::from(filled(node, key)?),
    };
    serde_json::from_value(value).map_err(fault)
}

fn resources(node: &Node, key: &str) -> Result<(ResourcePolicy, Option<u64>), Fault> {
    let mut resources = ResourcePolicy::default();
    let mut processes = None;
    for Entry { key: name, node, .. } in section(node, key, &RESOURCES)? {
        let key = format!("{key}.{name}");
        match name.as_str() {
            "memory" => resources.max_memory = Some(Bytes(bytes(node, &key, 1 << 20, u64::MAX)?)),
            "processes" => processes = Some(number(node, &key, 1, 1 << 22)?),
            "openFiles" => resources.max_file_descriptors = Some(number(node, &key, 16, 1 << 20)?),
            _ => resources.max_cpu_percent = Some(number(node, &key, 1, 100_000)?),
        }
    }
    Ok((resources, processes))
}
