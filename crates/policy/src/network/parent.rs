//! A proxy of the host's own network: where it is, and for which hosts it is used.

use std::{fmt, path::PathBuf};

use crate::{
    host::{Cidr, Host},
    schema::ParentProxy,
};

use super::{Entry, List};

/// A proxy as it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub speaks: Speaks,
    pub at: At,
    /// User and password; in no message.
    pub credentials: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP with CONNECT.
    Http,
    /// SOCKS 5; names are resolved there.
    Socks,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    Port { host: Host, port: u16 },
    Socket(PathBuf),
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.at, self.speaks) {
            (At::Socket(path), _) => write!(f, "unix:{}", path.display()),
            (At::Port { host, port }, Speaks::Http) => write!(f, "http://{host}:{port}"),
            (At::Port { host, port }, Speaks::Socks) => write!(f, "socks5h://{host}:{port}"),
        }
    }
}

/// What is wrong with a proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParentFault {
    #[error("a proxy that is spoken to in TLS (https://) cannot be used")]
    Tls,
    #[error("`{0}` is no scheme of a proxy")]
    Scheme(String),
    #[error("it names no host")]
    NoHost,
    #[error("its port is no number from 1 to 65535")]
    Port,
    #[error("it has a path")]
    Path,
    #[error("the path of its socket is not absolute")]
    Socket,
}

impl ParentFault {
    pub fn hint(&self) -> &'static str {
        "write http://[USER:PASSWORD@]HOST[:PORT], socks5h://HOST[:PORT] or unix:/PATH"
    }
}

/// Which proxy is used for what.
#[derive(Debug, Clone, Default)]
pub struct Parents {
    http: Option<Upstream>,
    https: Option<Upstream>,
    routes: Vec<(Vec<Entry>, Upstream)>,
    exempt: Exempt,
}

/// Hosts that are reached without.
#[derive(Debug, Clone, Default)]
struct Exempt {
    all: bool,
    /// A name stands for itself and for what is below it.
    names: Vec<String>,
    networks: Vec<Cidr>,
}

/// Where in `parentProxy` something is wrong.
pub type Misplaced<E> = (&'static str, String, E);

impl Parents {
    pub(crate) fn compile(policy: &ParentProxy) -> Result<Parents, Misplaced<ParentFault>> {
        let one = |field, text: &Option<String>| match text {
            Some(text) => parse(text).map(Some).map_err(|fault| (field, text.clone(), fault)),
            None => Ok(None),
        };
        let http = one("parentProxy.http", &policy.http)?;
        let https = one("parentProxy.https", &policy.https)?;
        let mut routes = Vec::new();
        for route in &policy.routes {
            let upstream =
                parse(&route.proxy).map_err(|fault| ("parentProxy.routes", route.proxy.clone(), fault))?;
            // What cannot be read has been refused when the policy was checked.
            let hosts = route.hosts.iter().filter_map(|host| Entry::parse(host, List::Deny).ok()).collect();
            routes.push((hosts, upstream));
        }
        let exempt = Exempt::parse(policy.no_proxy.as_deref().unwrap_or_default());
        Ok(Parents { http, https, routes, exempt })
    }

    /// The proxy for a connection, or none.
    pub fn of(&self, host: &Host, port: u16) -> Option<&Upstream> {
        let listed = |entry: &Entry| entry.at(Some(port)) && entry.covers(host);
        if let Some((_, upstream)) = self.routes.iter().find(|(hosts, _)| hosts.iter().any(listed)) {
            return Some(upstream);
        }
        if self.exempt.covers(host) {
            return None;
        }
        match port {
            80 => self.http.as_ref(),
            _ => self.https.as_ref().or(self.http.as_ref()),
        }
    }
}

impl Exempt {
    fn parse(text: &str) -> Exempt {
        let mut exempt = Exempt::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                exempt.all = true;
            } else if let Ok(network) = Cidr::parse(entry.trim_matches(['[', ']'])) {
                exempt.networks.push(network);
            } else {
                let name = entry.trim_start_matches("*.").trim_start_matches('.');
                // A port at the end says nothing here.
                let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
                exempt.names.extend(Host::parse(name).ok().map(|host| host.to_string()));
            }
        }
        exempt
    }

    fn covers(&self, host: &Host) -> bool {
        match host {
            _ if self.all => true,
            Host::Address(address) => {
                address.is_loopback() || self.networks.iter().any(|network| network.contains(*address))
            }
            Host::Name(name) => {
                let name = name.as_str();
                let below = |above: &str| {
                    name.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                below("localhost") || self.names.iter().any(|above| below(above))
            }
        }
    }
}

/// A proxy as people write it; `HOST:PORT` alone is HTTP.
pub(crate) fn parse(text: &str) -> Result<Upstream, ParentFault> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
        return match path.is_absolute() {
            true => Ok(Upstream { speaks: Speaks::Http, at: At::Socket(path), credentials: None }),
            false => Err(ParentFault::Socket),
        };
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (speaks, usual) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (Speaks::Http, 80),
        "socks5" | "socks5h" => (Speaks::Socks, 1080),
        "https" => return Err(ParentFault::Tls),
        other => return Err(ParentFault::Scheme(other.to_owned())),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    if place.contains(['/', '?', '#']) {
        return Err(ParentFault::Path);
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(ParentFault::Port)?
        }
        Some(_) => return Err(ParentFault::Port),
        None => usual,
    };
    let host = Host::parse(host).map_err(|_| ParentFault::NoHost)?;
    let credentials = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (decoded(name), decoded(password))
    });
    Ok(Upstream { speaks, at: At::Port { host, port }, credentials })
}

/// `%40` is an `@`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ProxyRoute;

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    fn chosen(policy: &ParentProxy, name: &str, port: u16) -> String {
        Parents::compile(policy)
            .unwrap()
            .of(&host(name), port)
            .map_or_else(|| "direct".to_owned(), ToString::to_string)
    }

    #[test]
    fn a_proxy_is_read_as_people_write_it() {
        for (text, meant) in [
            ("http://proxy.example:3128", "http://proxy.example:3128"),
            ("proxy.example:3128", "http://proxy.example:3128"),
            ("http://[::1]:8080/", "http://::1:8080"),
            ("http://u:p%40ss@proxy.example", "http://proxy.example:80"),
            ("socks5h://10.1.2.3", "socks5h://10.1.2.3:1080"),
            ("unix:/run/proxy.sock", "unix:/run/proxy.sock"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), meant, "{text}");
        }
        let with_user = parse("http://u:p%40ss@proxy.example").unwrap();
        assert_eq!(with_user.credentials, Some(("u".to_owned(), "p@ss".to_owned())));
        for (text, fault) in [
            ("https://proxy.example", ParentFault::Tls),
            ("ftp://proxy.example", ParentFault::Scheme("ftp".to_owned())),
            ("http://", ParentFault::NoHost),
            ("http://proxy.example:0", ParentFault::Port),
            ("http://proxy.example:+80", ParentFault::Port),
            ("http://proxy.example/x", ParentFault::Path),
            ("unix:run/x", ParentFault::Socket),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn hosts_that_are_exempt_are_reached_without() {
        let policy = ParentProxy {
            http: Some("http://h.example".into()),
            https: Some("http://s.example".into()),
            no_proxy: Some("internal.example, .corp.example:443, 10.0.0.0/8, [fd00::1]".into()),
            routes: vec![ProxyRoute { hosts: vec!["*.mitm.example".into()], proxy: "unix:/run/m".into() }],
        };
        for (name, port, via) in [
            ("a.example", 80, "http://h.example:80"),
            ("a.example", 443, "http://s.example:80"),
            ("internal.example", 443, "direct"),
            ("x.internal.example", 443, "direct"),
            ("notinternal.example", 443, "http://s.example:80"),
            ("corp.example", 443, "direct"),
            ("10.1.1.1", 443, "direct"),
            ("11.1.1.1", 443, "http://s.example:80"),
            ("fd00::1", 443, "direct"),
            ("localhost", 443, "direct"),
            ("127.0.0.9", 443, "direct"),
            ("a.mitm.example", 443, "unix:/run/m"),
        ] {
            assert_eq!(chosen(&policy, name, port), via, "{name}:{port}");
        }
        let all = ParentProxy { no_proxy: Some("*".into()), ..policy };
        assert_eq!(chosen(&all, "a.example", 443), "direct");
    }
}
