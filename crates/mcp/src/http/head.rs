//! Reads the head of a request: headers that may be there once, what the client accepts, and protocol versions.

use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName},
};
use serde_json::json;

use super::answer::{HEADER_MISMATCH, Refusal, TRANSPORT, UNSUPPORTED_VERSION};

pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub const JSON: &str = "application/json";
pub const EVENT_STREAM: &str = "text/event-stream";

/// Versions with `initialize` and sessions.
pub const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Versions in which every request stands for itself.
pub const STATELESS: [&str; 1] = ["2026-07-28"];

/// The value of a header that may be there once: two readers of two values could take different ones.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        let message = format!("the header {name} is there more than once");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message));
    }
    let text = value.to_str().map_err(|_| {
        let message = format!("the header {name} has characters other than visible ASCII");
        Refusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message)
    })?;
    Ok(Some(text))
}

/// A POST may be answered in both ways, so the client must take both.
pub fn accepts_both(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, JSON) && accepts(headers, EVENT_STREAM) {
        return Ok(());
    }
    let message = "the client must accept application/json and text/event-stream (header Accept)";
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, TRANSPORT, message))
}

pub fn accepts_events(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, EVENT_STREAM) {
        return Ok(());
    }
    let message = "the client must accept text/event-stream (header Accept)";
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, TRANSPORT, message))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split_once('/').map_or(kind, |(group, _)| group);
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        let mut pieces = range.split(';').map(str::trim);
        let named = pieces.next().unwrap_or_default().to_ascii_lowercase();
        let refused = pieces.filter_map(|piece| piece.split_once('=')).any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("q")
                && value.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0)
        });
        let matches =
            named == kind || named == "*/*" || named.strip_suffix("/*").is_some_and(|named| named == group);
        matches && !refused
    })
}

pub fn content_is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = single(headers, &CONTENT_TYPE).ok().flatten().unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    let message = "the body must be application/json (header Content-Type)";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, TRANSPORT, message))
}

/// Which way of working a request asks for in its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// Nothing: a client of 2025-03-26 or older, or one that does not know yet.
    Nothing,
    Handshake(&'a str),
    Stateless(&'a str),
    Unknown(&'a str),
}

pub fn version(headers: &HeaderMap) -> Result<Named<'_>, Refusal> {
    Ok(match single(headers, &PROTOCOL_VERSION)? {
        None => Named::Nothing,
        Some(version) if HANDSHAKE.contains(&version) => Named::Handshake(version),
        Some(version) if STATELESS.contains(&version) => Named::Stateless(version),
        Some(version) => Named::Unknown(version),
    })
}

pub fn unsupported(requested: &str) -> Refusal {
    let supported: Vec<&str> = HANDSHAKE.iter().chain(&STATELESS).copied().collect();
    let requested: String = requested.chars().take(64).collect();
    Refusal::new(StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(json!({ "supported": supported, "requested": requested }))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn with(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn both_kinds_must_be_accepted() {
        for values in [
            &["application/json, text/event-stream"][..],
            &["text/event-stream;q=0.5", "Application/JSON"],
            &["*/*"],
            &["application/*, text/*;q=0.1"],
        ] {
            assert!(accepts_both(&with(ACCEPT, values)).is_ok(), "{values:?}");
        }
        for values in [
            &[][..],
            &[""],
            &["application/json"],
            &["text/event-stream"],
            &["application/json, text/event-stream;q=0"],
            &["text/html, application/jsonx, text/event-streamer"],
        ] {
            assert!(accepts_both(&with(ACCEPT, values)).is_err(), "{values:?}");
        }
    }

    #[test]
    fn only_json_is_taken() {
        for value in ["application/json", "APPLICATION/json; charset=utf-8"] {
            assert!(content_is_json(&with(CONTENT_TYPE, &[value])).is_ok(), "{value}");
        }
        for values in
            [&[][..], &["text/plain"], &["application/json-seq"], &["text/plain", "application/json"]]
        {
            assert!(content_is_json(&with(CONTENT_TYPE, values)).is_err(), "{values:?}");
        }
    }

    #[test]
    fn versions_say_how_a_request_works() {
        assert_eq!(version(&HeaderMap::new()).unwrap(), Named::Nothing);
        assert_eq!(
            version(&with(PROTOCOL_VERSION, &["2025-06-18"])).unwrap(),
            Named::Handshake("2025-06-18")
        );
        assert_eq!(
            version(&with(PROTOCOL_VERSION, &["2026-07-28"])).unwrap(),
            Named::Stateless("2026-07-28")
        );
        assert_eq!(version(&with(PROTOCOL_VERSION, &["2031-01-01"])).unwrap(), Named::Unknown("2031-01-01"));
        assert!(version(&with(PROTOCOL_VERSION, &["2025-06-18", "2026-07-28"])).is_err());
    }
}
