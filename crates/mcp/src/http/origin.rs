//! Who a browser says it is speaking for, and for whom it thinks this server speaks: both must be this machine,
//! or what was allowed. A page of the web can make a browser on this machine send requests here; its `Origin`
//! gives it away, and when it had its own name resolve to 127.0.0.1, its `Host`.

use std::str::FromStr;

use hyper::Uri;

/// `scheme://host:port` of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

/// Why a text is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no origin; write it as a browser does: https://app.example.com or http://localhost:3000"
)]
pub struct NotAnOrigin {
    text: String,
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Origin, NotAnOrigin> {
        Origin::read(text).ok_or_else(|| NotAnOrigin { text: text.chars().take(100).collect() })
    }
}

impl Origin {
    fn read(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let (host, port) = read_authority(authority)?;
        Some(Origin { scheme, host, port: port.unwrap_or(usual) })
    }

    /// A page that is served by this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Whether a `Host` header, or the authority of a request's target, means this server.
pub fn is_this_server(authority: &str, own_port: u16) -> bool {
    read_authority(authority).is_some_and(|(host, port)| is_loopback(&host) && port.unwrap_or(80) == own_port)
}

/// The names of this machine that nobody else's name server can answer for. Other addresses of 127.0.0.0/8 are
/// not served.
fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Host, in small letters, and port. Nothing that has a user, a path or more in it.
fn read_authority(text: &str) -> Option<(String, Option<u16>)> {
    if text.contains(['@', '/', '?', '#', ' ']) {
        return None;
    }
    let uri = Uri::builder().scheme("http").authority(text).path_and_query("/").build().ok()?;
    let authority = uri.authority()?;
    let host = authority.host();
    let port = match authority.as_str().strip_prefix(host)? {
        "" => None,
        rest => Some(rest.strip_prefix(':')?.parse().ok()?),
    };
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_loopback_with_the_port_is_this_server() {
        for authority in ["localhost:8080", "LocalHost:8080", "127.0.0.1:8080", "[::1]:8080"] {
            assert!(is_this_server(authority, 8080), "{authority}");
        }
        for authority in [
            "",
            "localhost",
            "localhost:",
            "localhost:80",
            "localhost:8081",
            "evil.example:8080",
            "localhost.:8080",
            "localhost.evil.example:8080",
            "127.0.0.1.evil.example:8080",
            "127.0.0.2:8080",
            "0.0.0.0:8080",
            "user@localhost:8080",
            "localhost:8080@evil.example",
            "evil.example@localhost:8080",
            "::1:8080",
            "localhost:8080/x",
            "localhost:8080#",
            "localhost:8080, evil.example",
            "[::ffff:127.0.0.1]:8080",
            "localhost:08080x",
            "2130706433:8080",
            "localhost:808065536",
        ] {
            assert!(!is_this_server(authority, 8080), "{authority}");
        }
        assert!(is_this_server("localhost", 80));
    }

    #[test]
    fn origins_are_compared_with_their_port() {
        let of = |text: &str| Origin::from_str(text).unwrap();
        assert_eq!(of("https://App.Example.com"), of("https://app.example.com:443"));
        assert_ne!(of("https://app.example.com"), of("http://app.example.com"));
        assert_ne!(of("http://app.example.com:3000"), of("http://app.example.com"));
        assert!(of("http://localhost:3000").is_loopback());
        assert!(of("http://[::1]:3000").is_loopback());
        assert!(!of("http://localhost.evil.example").is_loopback());
        assert!(!of("http://127.0.0.1.nip.example").is_loopback());
    }

    #[test]
    fn what_is_no_origin_is_none() {
        for text in [
            "",
            "null",
            "*",
            "localhost",
            "file://",
            "file:///x",
            "http://",
            "http://a/b",
            "http://u@localhost",
            "moz-extension://localhost",
            "http://localhost http://evil.example",
        ] {
            assert!(Origin::from_str(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}") {
            let _ = Origin::from_str(&text);
            let _ = is_this_server(&text, 8080);
        }
    }
}
