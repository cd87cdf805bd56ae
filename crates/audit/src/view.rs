//! A line without copying it: what stands at its beginning, found by bytes alone, and the few details that
//! questions are asked about.
//!
//! The keys of details under which a host, a path, a tool, a system call and a severity are found are named
//! here and nowhere else on the reading side.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::EventKind;

/// How grave it is, as the details say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// A name that is no [`Severity`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a severity; the severities are LOW, MEDIUM, HIGH, CRITICAL")]
pub struct UnknownSeverity(pub String);

impl Severity {
    pub const ALL: [Severity; 4] = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];

    /// The name used in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Low => "LOW",
            Severity::Medium => "MEDIUM",
            Severity::High => "HIGH",
            Severity::Critical => "CRITICAL",
        }
    }
}

impl std::str::FromStr for Severity {
    type Err = UnknownSeverity;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|severity| severity.name().eq_ignore_ascii_case(name.trim()));
        known.ok_or_else(|| UnknownSeverity(name.to_owned()))
    }
}

/// The beginning of a line, as this crate writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    pub sandbox_id: &'a [u8],
    pub timestamp: u64,
    pub kind: EventKind,
}

impl<'a> Header<'a> {
    /// Nothing when the line is not exactly of the form this crate writes; it may be an event all the same.
    #[must_use]
    pub fn of(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"{\"seq\":")?;
        let (_, rest) = digits(rest)?;
        let rest = rest.strip_prefix(b",\"eventId\":\"")?;
        let (_, rest) = text(rest)?;
        let (sandbox_id, rest) = text(rest.strip_prefix(b",\"sandboxId\":\"")?)?;
        let (timestamp, rest) = digits(rest.strip_prefix(b",\"timestamp\":")?)?;
        let (_, rest) = text(rest.strip_prefix(b",\"time\":\"")?)?;
        let (kind, rest) = text(rest.strip_prefix(b",\"event\":\"")?)?;
        if !rest.starts_with(b",\"details\":{") || !line.ends_with(b"\"}") {
            return None;
        }
        Some(Self { sandbox_id, timestamp, kind: kind_of(kind)? })
    }
}

/// A number of at most 19 digits and what follows it.
fn digits(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(20) {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?,
            _ if at == 0 => return None,
            _ => return bytes.get(at..).map(|rest| (value, rest)),
        }
    }
    None
}

/// A string without escapes, and what follows its closing quote.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr2(b'"', b'\\', bytes)?;
    let (text, rest) = bytes.split_at_checked(at)?;
    Some((text, rest.strip_prefix(b"\"")?))
}

fn kind_of(name: &[u8]) -> Option<EventKind> {
    EventKind::ALL.iter().copied().find(|kind| kind.name().as_bytes() == name)
}

/// A whole line, its details unread.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View<'a> {
    pub seq: u64,
    #[serde(borrow)]
    pub event_id: Cow<'a, str>,
    #[serde(borrow)]
    pub sandbox_id: Cow<'a, str>,
    pub timestamp: u64,
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    pub event: EventKind,
    #[serde(borrow, deserialize_with = "object")]
    pub details: &'a RawValue,
    #[serde(borrow)]
    pub prev: Cow<'a, str>,
    #[serde(borrow)]
    pub hash: Cow<'a, str>,
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'de RawValue, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    if raw.get().starts_with('{') { Ok(raw) } else { Err(D::Error::custom("its details are not an object")) }
}

impl<'a> View<'a> {
    pub fn of(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// The details that questions are asked about.
    pub fn facts(&self) -> Result<Facts<'a>, serde_json::Error> {
        let Details { own, indicator } = serde_json::from_str(self.details.get())?;
        let mut facts = own;
        if self.event == EventKind::EscapeAttempt {
            // What was tried is told as a violation of its own in there.
            facts.severity = facts.severity.or(indicator.severity);
            facts.host = facts.host.or(indicator.host);
            facts.path = facts.path.or(indicator.path);
            facts.syscall = facts.syscall.or(indicator.syscall);
            facts.remedy = facts.remedy.or(indicator.remedy);
        }
        if self.event != EventKind::DnsQuery {
            facts.name = None;
        }
        facts.host = facts.host.or(facts.name.take());
        // What says more of itself is taken at its word.
        facts.severity = facts.severity.max(severity_of(self.event, &facts));
        Ok(facts)
    }
}

/// Events of these kinds may have a severity without naming one.
pub(crate) fn has_severity_by_kind(kind: EventKind) -> bool {
    use EventKind::{
        EscalationAnswered, EscalationRequested, McpServerFailed, PolicyReloaded, ToolCall, ToolListChanged,
    };
    matches!(
        kind,
        EscalationAnswered
            | EscalationRequested
            | McpServerFailed
            | PolicyReloaded
            | ToolCall
            | ToolListChanged
    )
}

/// How grave it is at least, by what it is.
fn severity_of(kind: EventKind, facts: &Facts<'_>) -> Option<Severity> {
    match kind {
        EventKind::ToolCall if facts.is_refused() => Some(Severity::Medium),
        EventKind::McpServerFailed | EventKind::ToolListChanged => Some(Severity::Medium),
        EventKind::EscalationRequested => Some(Severity::Medium),
        EventKind::EscalationAnswered if facts.is_refused() => Some(Severity::Medium),
        EventKind::EscalationAnswered => Some(Severity::Low),
        EventKind::PolicyReloaded if facts.outcome.as_deref() == Some("failed") => Some(Severity::Medium),
        EventKind::PolicyReloaded => Some(Severity::Low),
        _ => None,
    }
}

/// What the details of an event say, as far as they do. What has another shape than expected is not there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts<'a> {
    pub severity: Option<Severity>,
    /// The host of a connection or the name of a look-up.
    pub host: Option<Cow<'a, str>>,
    pub path: Option<Cow<'a, str>>,
    pub tool: Option<Cow<'a, str>>,
    /// The server behind the proxy that has the tool.
    pub server: Option<Cow<'a, str>>,
    /// The name of the system call.
    pub syscall: Option<Cow<'a, str>>,
    pub decision: Option<Cow<'a, str>>,
    pub outcome: Option<Cow<'a, str>>,
    pub limit: Option<Cow<'a, str>>,
    pub remedy: Option<Cow<'a, str>>,
    /// How often it happened, where several are told as one.
    pub count: Option<u64>,
    pub exit_code: Option<i64>,
    pub duration_ms: Option<f64>,
    name: Option<Cow<'a, str>>,
    status: Option<Cow<'a, str>>,
}

#[derive(Default)]
struct Details<'a> {
    own: Facts<'a>,
    indicator: Facts<'a>,
}

impl<'de> Deserialize<'de> for Details<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Details<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut details = Details::default();
                while let Some(Key(key)) = map.next_key()? {
                    if key == "indicator" {
                        let Loose(value) = map.next_value()?;
                        details.indicator = match value {
                            Part::Facts(facts) => *facts,
                            _ => Facts::default(),
                        };
                    } else {
                        details.own.take(&key, &mut map)?;
                    }
                }
                Ok(details)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl Facts<'_> {
    /// Did the decision, or what came of it, mean no?
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let said = [&self.decision, &self.outcome].into_iter().flatten();
        said.into_iter().any(|word| matches!(word.as_ref(), "deny" | "denied" | "refused" | "blocked"))
    }
}

impl<'de> Facts<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let place = match key {
            "host" => &mut self.host,
            "path" => &mut self.path,
            "tool" | "toolName" => &mut self.tool,
            "serverName" => &mut self.server,
            "status" => &mut self.status,
            "syscall" => &mut self.syscall,
            "name" => &mut self.name,
            "decision" => &mut self.decision,
            "outcome" => &mut self.outcome,
            "limit" => &mut self.limit,
            "remedy" => &mut self.remedy,
            "policyDecision" => {
                let Loose(value) = map.next_value()?;
                self.decision = value.status();
                return Ok(());
            }
            "result" => {
                let Loose(value) = map.next_value()?;
                self.outcome = value.status();
                return Ok(());
            }
            "severity" | "count" | "exitCode" | "durationMs" => {
                let Loose(value) = map.next_value()?;
                match (key, value) {
                    ("severity", value) => self.severity = value.text().and_then(|name| name.parse().ok()),
                    ("count", value) => self.count = value.whole().and_then(|n| u64::try_from(n).ok()),
                    ("exitCode", value) => self.exit_code = value.whole(),
                    (_, Part::Whole(n)) => self.duration_ms = Some(n as f64),
                    (_, Part::Fraction(n)) => self.duration_ms = Some(n),
                    _ => self.duration_ms = None,
                }
                return Ok(());
            }
            _ => return map.next_value::<IgnoredAny>().map(drop),
        };
        let Loose(value) = map.next_value()?;
        *place = value.text();
        Ok(())
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Loose::deserialize(deserializer)?.0 {
            Part::Text(text) => Ok(Key(text)),
            _ => Err(D::Error::custom("a key is a string")),
        }
    }
}

/// Any value: whatever has not the shape that was hoped for is no error.
struct Loose<'a>(Part<'a>);

enum Part<'a> {
    Text(Cow<'a, str>),
    Whole(i64),
    Fraction(f64),
    Facts(Box<Facts<'a>>),
    Other,
}

impl<'a> Part<'a> {
    /// A text, or the name of what an object tells more about.
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Part::Text(text) => Some(text),
            Part::Facts(facts) => facts.name,
            _ => None,
        }
    }

    /// A text, or how it went with what an object tells more about.
    fn status(self) -> Option<Cow<'a, str>> {
        match self {
            Part::Text(text) => Some(text),
            Part::Facts(facts) => facts.status,
            _ => None,
        }
    }

    fn whole(self) -> Option<i64> {
        if let Part::Whole(n) = self { Some(n) } else { None }
    }
}

impl<'de> Deserialize<'de> for Loose<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Loose)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Part::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Part::Other)
    }

    fn visit_i64<E>(self, n: i64) -> Result<Self::Value, E> {
        Ok(Part::Whole(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(n).map_or(Part::Fraction(n as f64), Part::Whole))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Self::Value, E> {
        Ok(Part::Fraction(n))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Part::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Part::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Part::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut facts = Box::new(Facts::default());
        while let Some(Key(key)) = map.next_key()? {
            facts.take(&key, &mut map)?;
        }
        Ok(Part::Facts(facts))
    }
}
