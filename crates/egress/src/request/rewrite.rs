//! A head as a proxy passes it on.

use super::head::{Head, Upgrade};

/// Fields between two neighbours only (RFC 9110, 7.6.1). `Transfer-Encoding` is one too, but the body is passed
/// on as it came.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "upgrade",
    "http2-settings",
];
/// Nobody may have these taken out by naming them in `Connection`: a body without its length is a new request.
const KEPT: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// The head for the server itself: the target without scheme and host, Host set to whom it is for, and no
/// fields that were meant for the proxy. An upgrade stays, but for one to HTTP/2, and so does the wish to
/// close the connection. The head of a CONNECT is for the proxy alone and comes out with its target as it was.
pub fn rewrite(head: &Head) -> Vec<u8> {
    let named: Vec<String> = head
        .headers()
        .filter(|(name, ..)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value, _)| value.split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .collect();
    let mut bytes = Vec::with_capacity(head.bytes().len() + 64);
    let Head { method, path, minor_version, authority, .. } = head;
    let start = format!("{method} {path} HTTP/1.{minor_version}\r\nHost: {authority}\r\n");
    bytes.extend_from_slice(start.as_bytes());
    let is = |names: &[&str], name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    for (name, _, line) in head.headers() {
        let is_hop = is(&HOP_BY_HOP, name) || named.iter().any(|other| other.eq_ignore_ascii_case(name));
        if name.eq_ignore_ascii_case("host") || is_hop && !is(&KEPT, name) {
            continue;
        }
        bytes.extend_from_slice(line);
    }
    if let Upgrade::Asked(protocols) = &head.upgrade {
        bytes.extend_from_slice(b"Connection: upgrade\r\nUpgrade: ");
        bytes.extend_from_slice(protocols.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    } else if named.iter().any(|option| option == "close") {
        bytes.extend_from_slice(b"Connection: close\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
