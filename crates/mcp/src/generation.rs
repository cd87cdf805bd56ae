//! The two generations of the protocol: with a handshake (`initialize`), and since 2026-07-28 without one, where
//! every request says in its `_meta` who asks and in which version.

use serde_json::{Map, Value, json};

use crate::message;

/// Oldest first.
pub const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
pub const WITHOUT_HANDSHAKE: &str = "2026-07-28";

pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    Handshake,
    Stateless,
}

/// Who the client is, as it says.
#[derive(Debug, Clone)]
pub struct Client {
    pub generation: Generation,
    pub version: String,
    pub info: Value,
    pub capabilities: Value,
}

impl Client {
    /// From the params of `initialize`.
    pub fn introduced(params: &str) -> Client {
        let part = |name| message::member(params, name).and_then(|raw| serde_json::from_str(raw).ok());
        let asked = message::string(params, "protocolVersion").unwrap_or_default();
        let known = WITH_HANDSHAKE.contains(&asked.as_str());
        Client {
            generation: Generation::Handshake,
            version: if known { asked } else { NEWEST_WITH_HANDSHAKE.to_owned() },
            info: part("clientInfo").unwrap_or_else(|| json!({ "name": "unknown", "version": "0" })),
            capabilities: part("capabilities").unwrap_or_else(|| json!({})),
        }
    }

    /// From a request that came without a handshake; `None` if its `_meta` says no version.
    pub fn stateless(params: &str) -> Option<Client> {
        let meta = message::member(params, "_meta")?;
        let part = |name| message::member(meta, name).and_then(|raw| serde_json::from_str(raw).ok());
        Some(Client {
            generation: Generation::Stateless,
            version: message::string(meta, VERSION_KEY)?,
            info: part(INFO_KEY).unwrap_or_else(|| json!({ "name": "unknown", "version": "0" })),
            capabilities: part(CAPABILITIES_KEY).unwrap_or_else(|| json!({})),
        })
    }

    /// One that said nothing of itself.
    pub fn unknown() -> Client {
        Client {
            generation: Generation::Handshake,
            version: NEWEST_WITH_HANDSHAKE.to_owned(),
            info: json!({ "name": "unknown", "version": "0" }),
            capabilities: json!({}),
        }
    }

    /// What servers may make their tools depend on: what the client can do.
    pub fn kind(&self) -> String {
        let mut able: Vec<&str> =
            self.capabilities.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        able.sort_unstable();
        format!("{:?}: {}", self.generation, able.join(" "))
    }

    /// The params of our `initialize` to a server.
    pub fn handshake(&self) -> String {
        // A client without handshakes cannot be asked in the old way.
        let (version, capabilities) = match self.generation {
            Generation::Handshake => (self.version.as_str(), self.capabilities.clone()),
            Generation::Stateless => (NEWEST_WITH_HANDSHAKE, json!({})),
        };
        json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": self.info })
            .to_string()
    }

    /// The `_meta` of a request without handshake.
    pub fn meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        meta.insert(VERSION_KEY.to_owned(), json!(WITHOUT_HANDSHAKE));
        meta.insert(INFO_KEY.to_owned(), self.info.clone());
        meta.insert(CAPABILITIES_KEY.to_owned(), self.capabilities.clone());
        meta
    }
}

/// All that one of several servers can do, the client can be told that this one can.
pub fn united(all: &[Value]) -> Value {
    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    match into.get_mut(key) {
                        Some(known) => merge(known, value),
                        None => {
                            into.insert(key.clone(), value.clone());
                        }
                    }
                }
            }
            (Value::Bool(into), Value::Bool(from)) => *into |= *from,
            _ => {}
        }
    }
    let mut whole = json!({});
    for capabilities in all {
        merge(&mut whole, capabilities);
    }
    // The tools of a server can vanish with it, so that the list can always change.
    if let Some(tools) = whole.get_mut("tools").and_then(Value::as_object_mut) {
        tools.insert("listChanged".to_owned(), Value::Bool(true));
    }
    whole
}

/// What we say of ourselves.
pub fn own_info() -> Value {
    json!({ "name": "lazaret", "title": "Lazaret", "version": env!("CARGO_PKG_VERSION") })
}

pub fn initialize_result(client: &Client, capabilities: &Value, instructions: &str) -> Value {
    let mut result = json!({
        "protocolVersion": client.version, "capabilities": capabilities, "serverInfo": own_info(),
    });
    if !instructions.is_empty() {
        set(&mut result, "instructions", json!(instructions));
    }
    result
}

pub fn discover_result(capabilities: &Value, instructions: &str) -> Value {
    let versions: Vec<&str> = WITH_HANDSHAKE.iter().copied().chain([WITHOUT_HANDSHAKE]).collect();
    let mut result = json!({
        "resultType": "complete", "supportedVersions": versions, "capabilities": capabilities,
        "ttlMs": 0, "cacheScope": "private", "_meta": { SERVER_INFO_KEY: own_info() },
    });
    if !instructions.is_empty() {
        set(&mut result, "instructions", json!(instructions));
    }
    result
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_united_and_the_tool_list_can_always_change() {
        let all = [
            json!({"tools": {}, "resources": {"subscribe": false}}),
            json!({"resources": {"subscribe": true}, "logging": {}}),
        ];
        assert_eq!(
            united(&all),
            json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}})
        );
    }

    #[test]
    fn an_unknown_version_is_answered_with_the_newest_that_has_a_handshake() {
        let client = Client::introduced(
            r#"{"protocolVersion":"2031-01-01","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}"#,
        );
        assert_eq!(client.version, NEWEST_WITH_HANDSHAKE);
        assert_eq!(client.capabilities, json!({"roots": {}}));
        assert_eq!(Client::introduced(r#"{"protocolVersion":"2024-11-05"}"#).version, "2024-11-05");
    }

    #[test]
    fn a_client_without_handshake_says_who_it_is_with_every_request() {
        let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}"#;
        let client = Client::stateless(params).unwrap();
        assert_eq!((client.generation, client.version.as_str()), (Generation::Stateless, "2026-07-28"));
        assert!(client.handshake().contains("\"capabilities\":{}"));
        assert!(Client::stateless("{}").is_none());
    }
}
