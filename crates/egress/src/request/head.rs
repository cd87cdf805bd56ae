//! The head of a request: method, target, whom it is for, and how long its body is.

use super::authority::Authority;
use super::body::MAX_SIZE;
use super::{MAX_HEADERS, RequestError};

/// One complete head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    /// As it was sent.
    pub target: String,
    pub form: Form,
    /// The target as a server of its own takes it: `/path?query`, or `*`. For CONNECT, the target.
    pub path: String,
    /// From the Host field and the target; where both name it they agree.
    pub authority: Authority,
    /// The `x` of HTTP/1.x.
    pub minor_version: u8,
    pub framing: Framing,
    pub upgrade: Upgrade,
    bytes: Vec<u8>,
    /// The length of the request line.
    line: usize,
}

/// The form of a target (RFC 9112, 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute(Scheme),
    /// `host:port`, of CONNECT.
    Authority,
    /// `*`, of OPTIONS.
    Asterisk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing was said, so there is none.
    Empty,
    Length(u64),
    Chunked,
}

/// Whether another protocol may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upgrade {
    None,
    /// The method is CONNECT.
    Connect,
    /// The protocols in the Upgrade field.
    Asked(String),
    /// To HTTP/2 over plain TCP, which many clients offer without need. Not waited for: should the server
    /// agree, then the first bytes of HTTP/2 are an error. [`super::rewrite`] leaves the offer out.
    Http2,
}

impl Head {
    /// All bytes of the head, with the empty line at its end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The header fields as bytes, each with its line end, without the empty line.
    pub fn header_block(&self) -> &[u8] {
        self.bytes.get(self.line..self.bytes.len().saturating_sub(2)).unwrap_or_default()
    }

    /// Each header field as it was sent: its name, its value without the spaces around it, and its line.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8], &[u8])> {
        self.header_block().split_inclusive(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
            let value = value.strip_prefix(b":").unwrap_or(value);
            Some((str::from_utf8(name).ok()?, value.trim_ascii(), line))
        })
    }

    /// Reads a head whose lines were checked to be lines.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Head, RequestError> {
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (first, fields) = bytes.split_at_checked(line).unwrap_or((&bytes, &[]));
        if first == b"PRI * HTTP/2.0\r\n" {
            return Err(RequestError::Http2);
        }
        spaces_before_colons(fields)?;
        let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut slots);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err(RequestError::RequestLine),
            Err(error) => return Err(name_error(error)),
        }
        let (Some(method), Some(target), Some(minor_version)) =
            (request.method, request.path, request.version)
        else {
            return Err(RequestError::RequestLine);
        };
        let fields = Fields::collect(request.headers)?;
        let (form, path, named) = target_of(method, target)?;
        let authority = fields.authority(form, named, minor_version)?;
        let head = Head {
            method: method.to_owned(),
            target: target.to_owned(),
            form,
            path,
            authority,
            minor_version,
            framing: fields.framing(minor_version)?,
            upgrade: fields.upgrade(form)?,
            line,
            bytes: Vec::new(),
        };
        if form == Form::Authority && !matches!(head.framing, Framing::Empty | Framing::Length(0)) {
            return Err(RequestError::BodyOfConnect);
        }
        let is_empty = matches!(head.framing, Framing::Empty | Framing::Length(0));
        if !is_empty && (head.method.eq_ignore_ascii_case("GET") || head.method.eq_ignore_ascii_case("HEAD"))
        {
            return Err(RequestError::BodyOfGet);
        }
        Ok(Head { bytes, ..head })
    }
}

fn name_error(error: httparse::Error) -> RequestError {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => RequestError::Header,
        httparse::Error::TooManyHeaders => RequestError::TooManyHeaders,
        httparse::Error::Version => RequestError::Version,
        httparse::Error::NewLine | httparse::Error::Status | httparse::Error::Token => {
            RequestError::RequestLine
        }
    }
}

fn spaces_before_colons(fields: &[u8]) -> Result<(), RequestError> {
    for field in fields.split(|byte| *byte == b'\n') {
        let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
        if name.len() < field.len() && matches!(name.last(), Some(b' ' | b'\t')) {
            return Err(RequestError::SpaceBeforeColon);
        }
    }
    Ok(())
}

/// The form of a target, its path, and whom it names.
fn target_of(method: &str, target: &str) -> Result<(Form, String, Option<Authority>), RequestError> {
    // RFC 9112, 3.2: no fragment. What is not ASCII is read in many ways.
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(RequestError::Target);
    }
    if method == "CONNECT" {
        let authority = Authority::parse(target.as_bytes()).filter(|authority| authority.port.is_some());
        let authority = authority.ok_or(RequestError::Target)?;
        return Ok((Form::Authority, target.to_owned(), Some(authority)));
    }
    if target.starts_with('/') {
        return Ok((Form::Origin, target.to_owned(), None));
    }
    if target == "*" && method == "OPTIONS" {
        return Ok((Form::Asterisk, target.to_owned(), None));
    }
    let (scheme, rest) = target.split_once("://").ok_or(RequestError::Target)?;
    let scheme = match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
        _ if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
        _ => return Err(RequestError::Target),
    };
    let (authority, path) =
        rest.split_at_checked(rest.find(['/', '?']).unwrap_or(rest.len())).ok_or(RequestError::Target)?;
    let authority = Authority::parse(authority.as_bytes()).ok_or(RequestError::Target)?;
    let path = match path {
        // RFC 9112, 3.2.4.
        "" if method == "OPTIONS" => "*".to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("/{path}"),
    };
    Ok((Form::Absolute(scheme), path, Some(authority)))
}

/// The fields that decide whom a request is for and where it ends.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    upgrade: Option<Vec<String>>,
}

impl<'a> Fields<'a> {
    fn collect(headers: &[httparse::Header<'a>]) -> Result<Self, RequestError> {
        let mut fields = Fields::default();
        for header in headers {
            let (place, repeated) = match header.name {
                name if name.eq_ignore_ascii_case("host") => (&mut fields.host, RequestError::RepeatedHost),
                name if name.eq_ignore_ascii_case("content-length") => {
                    (&mut fields.length, RequestError::RepeatedContentLength)
                }
                name if name.eq_ignore_ascii_case("transfer-encoding") => {
                    (&mut fields.encoding, RequestError::TransferEncoding)
                }
                name if name.eq_ignore_ascii_case("upgrade") => {
                    let value = str::from_utf8(header.value).map_err(|_| RequestError::Header)?;
                    let offers = value.split(',').map(|offer| offer.trim_ascii().to_owned());
                    fields.upgrade.get_or_insert_default().extend(offers);
                    continue;
                }
                _ => continue,
            };
            if place.replace(header.value).is_some() {
                return Err(repeated);
            }
        }
        Ok(fields)
    }

    fn authority(
        &self,
        form: Form,
        named: Option<Authority>,
        minor_version: u8,
    ) -> Result<Authority, RequestError> {
        let host = self.host.map(|host| Authority::parse(host).ok_or(RequestError::Host)).transpose()?;
        let agrees = |named: &Authority, host: &Authority| match form {
            Form::Absolute(scheme) => named.agrees(host, scheme.port()),
            // Some clients leave the port out of the Host of a CONNECT.
            _ => named.agrees(host, named.port_or(0)),
        };
        match (named, host) {
            (Some(named), Some(host)) if agrees(&named, &host) => Ok(named),
            (Some(_), Some(_)) => Err(RequestError::HostMismatch),
            // Without a Host only before HTTP/1.1 (RFC 9112, 3.2), and CONNECT, whose target says it all.
            (Some(named), None) if minor_version == 0 || form == Form::Authority => Ok(named),
            (None, Some(host)) => Ok(host),
            (_, None) => Err(RequestError::MissingHost),
        }
    }

    fn framing(&self, minor_version: u8) -> Result<Framing, RequestError> {
        match (self.length, self.encoding) {
            (Some(_), Some(_)) => Err(RequestError::TwoLengths),
            (None, None) => Ok(Framing::Empty),
            // In another case or in a list, a server may not know it.
            (None, Some(b"chunked")) if minor_version > 0 => Ok(Framing::Chunked),
            (None, Some(_)) => Err(RequestError::TransferEncoding),
            (Some(text), None) => {
                let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
                let text = str::from_utf8(text).ok().filter(digits);
                let length = text.and_then(|text| text.parse().ok()).filter(|length| *length <= MAX_SIZE);
                length.map(Framing::Length).ok_or(RequestError::ContentLength)
            }
        }
    }

    fn upgrade(&self, form: Form) -> Result<Upgrade, RequestError> {
        let is_http2 = |offer: &String| {
            let protocol = offer.split('/').next().unwrap_or_default();
            ["h2", "h2c"].iter().any(|name| protocol.eq_ignore_ascii_case(name))
                || offer.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("http/2"))
        };
        match &self.upgrade {
            _ if form == Form::Authority => Ok(Upgrade::Connect),
            None => Ok(Upgrade::None),
            Some(offers) if offers.iter().all(is_http2) => Ok(Upgrade::Http2),
            // Nobody could tell from a 101 which of them was taken.
            Some(offers) if offers.iter().any(is_http2) => Err(RequestError::UpgradeToHttp2),
            Some(offers) => Ok(Upgrade::Asked(offers.join(", "))),
        }
    }
}
