//! A host with or without a port, as in a Host field or a target.

use std::fmt;
use std::net::Ipv6Addr;

/// The longest name there is in DNS, as text.
const MAX_HOST: usize = 253;

/// Whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// As it was sent: letters, digits, `-`, `.` and `_`, or an IPv6 address without its brackets.
    pub host: String,
    pub port: Option<u16>,
}

impl Authority {
    /// Strict (RFC 3986, 3.2): nobody's name and password, no escapes, no empty port.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (address, port)
            }
            None => {
                let (name, port) = text.split_at_checked(text.find(':').unwrap_or(text.len()))?;
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                if name.is_empty() || name.len() > MAX_HOST || !name.bytes().all(fits) {
                    return None;
                }
                (name, port)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits)
                if (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                Some(digits.parse().ok().filter(|port| *port != 0)?)
            }
            _ => return None,
        };
        Some(Authority { host: host.to_owned(), port })
    }

    pub fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }

    /// Whether both mean the same, where no port means `default`.
    pub fn agrees(&self, other: &Authority, default: u16) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.port_or(default) == other.port_or(default)
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_or_without_a_port_is_an_authority() {
        for text in
            ["example.com", "Example.com:8080", "192.0.2.1:80", "[2001:db8::1]", "[::1]:443", "a_b.c-d."]
        {
            assert_eq!(Authority::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a: 1",
            "a:000080",
            "u@a",
            "a/b",
            "a b",
            "a%2eb",
            "a,b",
            "[a]",
            "[::1",
            "[::1]x",
            "::1",
            "a\\b",
            "é",
            "a:80:80",
            "[fe80::1%25eth0]",
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Authority::parse("a".repeat(254).as_bytes()), None);
    }

    #[test]
    fn no_port_agrees_with_the_default_one() {
        let parse = |text: &str| Authority::parse(text.as_bytes()).unwrap();
        assert!(parse("a.example").agrees(&parse("A.Example:80"), 80));
        assert!(!parse("a.example").agrees(&parse("a.example:80"), 443));
        assert!(!parse("a.example").agrees(&parse("a.example."), 80));
    }
}
