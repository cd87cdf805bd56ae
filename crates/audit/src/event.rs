//! The event: what is recorded, under which names, and what a caller supplies to record one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! kinds {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// The kinds of events a log can hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum EventKind {
            $(#[doc = $doc] #[serde(rename = $name)] $variant,)*
        }

        impl EventKind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$variant,)*];

            /// The name used in the log.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(EventKind::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    SandboxCreated = "SANDBOX_CREATED", "A sandbox was made.";
    SandboxEntered = "SANDBOX_ENTERED", "A process began to run inside a sandbox.";
    SandboxExited = "SANDBOX_EXITED", "The process of a sandbox ended.";
    SandboxDestroyed = "SANDBOX_DESTROYED", "A sandbox and what belonged to it were removed.";
    PolicyViolation = "POLICY_VIOLATION", "Something was tried that the policy forbids.";
    EscapeAttempt = "ESCAPE_ATTEMPT", "A violation that looks like an attempt to get out.";
    ResourceLimitExceeded = "RESOURCE_LIMIT_EXCEEDED", "A limit on memory, time, processes or size was hit.";
    SyscallBlocked = "SYSCALL_BLOCKED", "A system call was refused.";
    EnforcementWeakened = "ENFORCEMENT_WEAKENED", "A layer of protection is missing or weaker than asked.";
    ToolQuarantined = "TOOL_QUARANTINED", "A tool was barred from running.";
    ToolReleased = "TOOL_RELEASED", "A barred tool may run again.";
    Level0Used = "LEVEL0_USED", "Something ran without isolation.";
    SecurityAlert = "SECURITY_ALERT", "A person should look at this.";
    SignalReceived = "SIGNAL_RECEIVED", "A signal arrived or ended a process.";
    TransactionCommitted = "TRANSACTION_COMMITTED", "Changes made inside were applied outside.";
    TransactionDiscarded = "TRANSACTION_DISCARDED", "Changes made inside were thrown away.";
    NetworkConnection = "NETWORK_CONNECTION", "A connection was opened or refused.";
    DnsQuery = "DNS_QUERY", "A name was looked up.";
    McpSessionStarted = "MCP_SESSION_STARTED", "The proxy began to serve a client.";
    McpSessionEnded = "MCP_SESSION_ENDED", "The proxy has ended its servers and serves no more.";
    McpServerStarted = "MCP_SERVER_STARTED", "A server behind the proxy runs.";
    McpServerFailed = "MCP_SERVER_FAILED", "A server behind the proxy could not be started or used.";
    McpServerEnded = "MCP_SERVER_ENDED", "A server behind the proxy has ended.";
    ToolCall = "TOOL_CALL", "A tool was called through the proxy, or was not allowed to be.";
    ToolListChanged = "TOOL_LIST_CHANGED", "A server offers other tools than it did when they were noted first.";
    EscalationRequested = "ESCALATION_REQUESTED", "A person was asked whether a call may go on.";
    EscalationAnswered = "ESCALATION_ANSWERED", "The question got an answer, or its time was over.";
    PolicyReloaded = "POLICY_RELOADED", "Policies were read again, with or without success.";
    LogRotated = "LOG_ROTATED", "The log goes on in a new file; always the first line of one.";
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`EventKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of audit event; the kinds are {kinds}", kinds = names())]
pub struct UnknownKind(pub String);

/// As people write it: `policy-violation` and `POLICY_VIOLATION` are the same.
impl std::str::FromStr for EventKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let wanted = name.trim().replace('-', "_").to_ascii_uppercase();
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == wanted)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

fn names() -> String {
    EventKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Position in the log, from 1.
    pub seq: u64,
    /// A version 7 UUID.
    pub event_id: String,
    pub sandbox_id: String,
    /// Milliseconds since the epoch.
    pub timestamp: u64,
    /// The same moment in RFC 3339, UTC, with milliseconds.
    pub time: String,
    pub event: EventKind,
    pub details: Map<String, Value>,
    /// The `hash` of the line before; 64 zeros in the first line.
    pub prev: String,
    /// SHA-256, in hex, of the line up to its `,"hash":`.
    pub hash: String,
}

/// What a caller supplies; the log adds the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub sandbox_id: String,
    pub kind: EventKind,
    pub details: Map<String, Value>,
}

impl NewEvent {
    #[must_use]
    pub fn new(kind: EventKind, sandbox_id: &str) -> Self {
        Self { sandbox_id: sandbox_id.to_owned(), kind, details: Map::new() }
    }

    /// Adds a detail; a later value for the same key replaces the earlier one.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_name_in_display_parsing_and_json() {
        for kind in EventKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!("sandbox-created".parse(), Ok(EventKind::SandboxCreated));
        assert_eq!("Dns_Query".parse(), Ok(EventKind::DnsQuery));
        let error = "sandbox".parse::<EventKind>().unwrap_err();
        assert!(error.to_string().contains("SANDBOX_CREATED, SANDBOX_ENTERED"), "{error}");
        // In a log there is one spelling only.
        assert!(serde_json::from_str::<EventKind>("\"sandbox-created\"").is_err());
    }

    #[test]
    fn a_later_detail_replaces_an_earlier_one() {
        let event = NewEvent::new(EventKind::DnsQuery, "s").with("name", "a").with("name", "b").with("n", 3);
        assert_eq!(event.details.get("name"), Some(&Value::from("b")));
        assert_eq!(event.details.len(), 2);
    }
}
