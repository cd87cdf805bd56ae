//! Requests since 2026-07-28: each says in its own body who asks and in which version, and its headers repeat
//! what those need who pass it on without reading it. Where the two disagree nobody can say what was asked.

use hyper::{HeaderMap, StatusCode};

use super::{
    answer::{
        HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, Refusal, UNSUPPORTED_VERSION,
    },
    head,
    posted::{Params, Presence},
};

/// Whether a request's headers say what its body says, in a version that is spoken here.
pub fn check(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), Refusal> {
    let meta = params.meta.as_ref();
    let (Some(version), Some(Presence::Present)) =
        (meta.and_then(|meta| meta.version.as_deref()), meta.map(|meta| meta.capabilities))
    else {
        let message = "params._meta must have io.modelcontextprotocol/protocolVersion and \
                       io.modelcontextprotocol/clientCapabilities";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, message));
    };
    if head::single(headers, &head::PROTOCOL_VERSION)? != Some(version) {
        return Err(mismatch("MCP-Protocol-Version", "the version in params._meta"));
    }
    check_method(headers, method)?;
    let (name, need) = match method {
        "tools/call" | "prompts/get" => (&params.name, Need::Must),
        "resources/read" => (&params.uri, Need::Must),
        "resources/subscribe" | "resources/unsubscribe" => (&params.uri, Need::May),
        "tasks/get" | "tasks/update" | "tasks/cancel" => (&params.task, Need::May),
        _ => (&None, Need::May),
    };
    if let Some(name) = name {
        match head::single(headers, &head::NAME)? {
            None if need == Need::May => {}
            Some(value) if decode(value).as_deref() == Some(name.as_str()) => {}
            _ => return Err(mismatch("Mcp-Name", "what the body names")),
        }
    }
    if !head::STATELESS.contains(&version) {
        return Err(head::unsupported(version));
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Need {
    Must,
    May,
}

pub fn check_method(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match head::single(headers, &head::METHOD)? {
        Some(value) if value == method => Ok(()),
        _ => Err(mismatch("Mcp-Method", "the method in the body")),
    }
}

fn mismatch(header: &str, of: &str) -> Refusal {
    let message = format!("the header {header} must be {of}");
    Refusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message)
}

/// The HTTP status of a response that came alone.
pub fn status(response: &[bytes::Bytes]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Failed {
        error: Option<Code>,
    }
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    // Errors are small; a large response is a result.
    const LARGEST: usize = 64 << 10;
    if response.iter().map(bytes::Bytes::len).sum::<usize>() > LARGEST {
        return StatusCode::OK;
    }
    let code = serde_json::from_slice::<Failed>(&response.concat()).ok().and_then(|failed| failed.error);
    match code.map(|error| error.code) {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A header's value: as it is, or as `=?base64?…?=` when it could not stand in a header.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(text) => String::from_utf8(base64(text)?).ok(),
    }
}

/// RFC 4648, in the one form an encoder writes.
fn base64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0u32);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0 && count < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::http::posted::Meta;

    fn params(version: &str, name: Option<&str>) -> Params {
        let meta = Meta { version: Some(version.to_owned()), capabilities: Presence::Present };
        Params { name: name.map(str::to_owned), meta: Some(meta), ..Params::default() }
    }

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn code(result: Result<(), Refusal>) -> Option<String> {
        result.err().map(|refusal| format!("{refusal:?}").split("code: ").nth(1).unwrap()[..6].to_owned())
    }

    #[test]
    fn headers_must_say_what_the_body_says() {
        use head::{METHOD, NAME, PROTOCOL_VERSION as VERSION};
        let good = [(VERSION, "2026-07-28"), (METHOD, "tools/call"), (NAME, "echo")];
        let called = params("2026-07-28", Some("echo"));
        assert_eq!(code(check(&headers(&good), "tools/call", &called)), None);
        for missing in 0..good.len() {
            let rest: Vec<_> = good
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != missing)
                .map(|(_, pair)| pair.clone())
                .collect();
            assert_eq!(code(check(&headers(&rest), "tools/call", &called)).as_deref(), Some("-32020"));
        }
        for (name, value) in [(VERSION, "2025-11-25"), (METHOD, "tools/list"), (NAME, "rm")] {
            let mut wrong = headers(&good);
            wrong.insert(name.clone(), HeaderValue::from_str(value).unwrap());
            assert_eq!(code(check(&wrong, "tools/call", &called)).as_deref(), Some("-32020"), "{name}");
            let mut twice = headers(&good);
            twice.append(name.clone(), HeaderValue::from_str(value).unwrap());
            assert_eq!(code(check(&twice, "tools/call", &called)).as_deref(), Some("-32020"), "{name} twice");
        }
        let other = [(VERSION, "2031-01-01"), (METHOD, "tools/list")];
        assert_eq!(
            code(check(&headers(&other), "tools/list", &params("2031-01-01", None))).as_deref(),
            Some("-32022")
        );
        assert_eq!(code(check(&headers(&good), "tools/call", &Params::default())).as_deref(), Some("-32602"));
    }

    #[test]
    fn names_that_cannot_stand_in_a_header_are_encoded() {
        assert_eq!(decode("plain").as_deref(), Some("plain"));
        assert_eq!(decode("=?base64?SMOkdXNlcg==?=").as_deref(), Some("Häuser"));
        assert_eq!(decode("=?base64??=").as_deref(), Some(""));
        for bad in [
            "=?base64?SMOkdXNlcg?=",
            "=?base64?SMOkdXNlch==?=",
            "=?base64?!!!!?=",
            "=?base64?/w==?=",
            "=?base64?A===?=",
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_error_that_came_alone_has_a_status() {
        let of = |text: &'static str| status(&[Bytes::from_static(text.as_bytes())]);
        assert_eq!(of(r#"{"id":1,"error":{"code":-32601,"message":""}}"#), StatusCode::NOT_FOUND);
        assert_eq!(of(r#"{"id":1,"error":{"code":-32022,"message":""}}"#), StatusCode::BAD_REQUEST);
        assert_eq!(of(r#"{"id":1,"error":{"code":-32602,"message":""}}"#), StatusCode::OK);
        assert_eq!(of(r#"{"id":1,"result":{"error":{"code":-32601}}}"#), StatusCode::OK);
    }
}
