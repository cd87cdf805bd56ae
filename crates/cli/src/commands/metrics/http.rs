//! One client of `lazaret metrics serve`: HTTP/1.1 with GET and HEAD, and nothing that needs a body.

use std::{io, net::IpAddr, time::Duration};

use lazaret_audit::metrics::{Format, Readable, text};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::serve::Station;

/// The most bytes and fields of a request.
const HEAD: usize = 8 * 1024;
const FIELDS: usize = 64;
/// A request that has begun is complete within this time, however slowly it drips in.
const TO_ASK: Duration = Duration::from_secs(5);
/// A connection without a request is closed after this time.
const IDLE: Duration = Duration::from_secs(60);
/// An answer is taken within this time.
const TO_TAKE: Duration = Duration::from_secs(10);
/// A client that is done with hangs up within this time, and so many pieces of what it still sends are read.
const TO_LEAVE: Duration = Duration::from_secs(1);
const UNREAD: usize = 64;
/// So many requests on one connection.
const REQUESTS: usize = 1000;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    format: Format,
    host: Host,
    body: Body,
    after: After,
}

/// What becomes of the connection afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    KeepAlive,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Some,
}

/// The name under which this server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// An address, or `localhost`.
    Plain,
    /// Somebody's page in a browser may have a name that leads here.
    Name,
}

enum Heard {
    Request(Request, usize),
    Incomplete,
    Bad(&'static str),
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

pub async fn converse(mut stream: TcpStream, station: &Station) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    for _ in 0..REQUESTS {
        let request = match next(&mut stream, &mut buffer).await? {
            Some(Ok(request)) => request,
            Some(Err(status)) => {
                let answer = plain(status, status);
                respond(&mut stream, &answer, "GET", After::Close).await?;
                return linger(stream).await;
            }
            None => return Ok(()),
        };
        let answer = answer(&request, station).await;
        respond(&mut stream, &answer, &request.method, request.after).await?;
        if request.after == After::Close {
            return linger(stream).await;
        }
    }
    Ok(())
}

/// Closed at once, with something unread, a connection is reset, and the client may not see its answer.
async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut nothing = [0; 2048];
    let rest = async {
        for _ in 0..UNREAD {
            if stream.read(&mut nothing).await? == 0 {
                break;
            }
        }
        Ok(())
    };
    timeout(TO_LEAVE, rest).await.unwrap_or(Ok(()))
}

/// The next request; `None` when the client is done or too slow to begin one.
async fn next(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Result<Request, &'static str>>> {
    if buffer.is_empty() {
        match timeout(IDLE, fill(stream, buffer)).await {
            Ok(read) => {
                if read? == 0 {
                    return Ok(None);
                }
            }
            Err(_) => return Ok(None),
        }
    }
    let whole = timeout(TO_ASK, async {
        loop {
            match parse(buffer) {
                Heard::Request(request, length) => {
                    buffer.drain(..length);
                    return Ok(Some(Ok(request)));
                }
                Heard::Bad(status) => return Ok(Some(Err(status))),
                Heard::Incomplete if buffer.len() >= HEAD => {
                    return Ok(Some(Err("431 Request Header Fields Too Large")));
                }
                Heard::Incomplete => {}
            }
            if fill(stream, buffer).await? == 0 {
                return Ok(None);
            }
        }
    });
    whole.await.unwrap_or(Ok(Some(Err("408 Request Timeout"))))
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 2048];
    let length = stream.read(&mut piece).await?;
    buffer.extend_from_slice(piece.get(..length).unwrap_or_default());
    Ok(length)
}

fn parse(bytes: &[u8]) -> Heard {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Heard::Incomplete,
        Err(httparse::Error::TooManyHeaders) => return Heard::Bad("431 Request Header Fields Too Large"),
        Err(_) => return Heard::Bad("400 Bad Request"),
    };
    let values = |name: &'static str| {
        let named = parsed.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| String::from_utf8_lossy(field.value).trim().to_ascii_lowercase())
    };
    let says = |word: &str| values("connection").any(|value| value.split(',').any(|it| it.trim() == word));
    let after = match parsed.version {
        Some(1) if !says("close") => After::KeepAlive,
        Some(0) if says("keep-alive") => After::KeepAlive,
        _ => After::Close,
    };
    let hosts: Vec<String> = values("host").collect();
    let host = match hosts.as_slice() {
        [host] => host_of(host),
        // HTTP/1.0 need not say.
        [] if parsed.version == Some(0) => Host::Plain,
        _ => return Heard::Bad("400 Bad Request"),
    };
    let has_length = values("content-length").any(|length| length != "0");
    let body =
        if has_length || values("transfer-encoding").next().is_some() { Body::Some } else { Body::None };
    let accept: Vec<String> = values("accept").collect();
    let target = parsed.path.unwrap_or_default();
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        format: format_of(&accept.join(",")),
        host,
        body,
        // What follows would be taken for the next request.
        after: if body == Body::Some { After::Close } else { after },
    };
    Heard::Request(request, length)
}

fn host_of(host: &str) -> Host {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    }
    .unwrap_or_default();
    if name == "localhost" || name.parse::<IpAddr>().is_ok() { Host::Plain } else { Host::Name }
}

/// OpenMetrics where it is asked for, and not less than plain text is.
fn format_of(accept: &str) -> Format {
    let weight = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next() == Some(wanted);
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
            is_it.then_some(weight)
        });
        ranges.fold(0.0, f32::max)
    };
    let wanted = weight("application/openmetrics-text");
    if wanted > 0.0 && wanted >= weight("text/plain") { Format::OpenMetrics } else { Format::Prometheus }
}

async fn answer(request: &Request, station: &Station) -> Answer {
    if station.local && request.host == Host::Name {
        return plain("421 Misdirected Request", "ask by address or as localhost");
    }
    let known = matches!(request.path.as_str(), "/metrics" | "/healthz");
    if !known {
        return plain("404 Not Found", "there is /metrics and /healthz");
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return plain("405 Method Not Allowed", "GET and HEAD only");
    }
    if request.body == Body::Some {
        return plain("400 Bad Request", "no body is expected");
    }
    if request.path == "/healthz" {
        return match station.catch_up().await {
            Readable::Yes => plain("200 OK", "ok"),
            Readable::No => plain("503 Service Unavailable", "the audit log cannot be read"),
        };
    }
    let body = text(&station.families().await, request.format);
    Answer { status: "200 OK", kind: request.format.content_type(), body }
}

fn plain(status: &'static str, sentence: &str) -> Answer {
    Answer { status, kind: "text/plain; charset=utf-8", body: format!("{sentence}\n") }
}

async fn respond(stream: &mut TcpStream, answer: &Answer, method: &str, after: After) -> io::Result<()> {
    let Answer { status, kind, body } = answer;
    let connection = match after {
        After::KeepAlive => "keep-alive",
        After::Close => "close",
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n{allow}Connection: {connection}\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        bytes.push_str(body);
    }
    timeout(TO_TAKE, stream.write_all(bytes.as_bytes()))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Heard::Request(request, length) if length == text.len() => request,
            Heard::Request(..) => panic!("not all of it"),
            Heard::Incomplete => panic!("incomplete"),
            Heard::Bad(status) => panic!("{status}"),
        }
    }

    #[test]
    fn a_request_is_whole_or_waited_for_or_bad() {
        assert_eq!(request("GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n").path, "/metrics");
        assert!(matches!(parse(b"GET /metrics HTTP/1.1\r\nHost: a"), Heard::Incomplete));
        for bad in ["GET\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\0\0\0\0"] {
            assert!(matches!(parse(bad.as_bytes()), Heard::Bad(_)), "{bad:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS + 1));
        assert!(matches!(parse(many.as_bytes()), Heard::Bad(status) if status.starts_with("431")));
        let two = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert!(matches!(parse(two.as_bytes()), Heard::Bad(_)));
    }

    #[test]
    fn only_addresses_and_localhost_are_plain_hosts() {
        for host in ["127.0.0.1", "127.0.0.1:9469", "[::1]:9469", "localhost:1", "10.1.2.3"] {
            assert_eq!(host_of(host), Host::Plain, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:9469", "", "[evil]:1"] {
            assert_eq!(host_of(host), Host::Name, "{host}");
        }
    }

    #[test]
    fn the_format_is_the_one_that_is_wanted_most() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
        ] {
            assert_eq!(format_of(accept), format, "{accept}");
        }
    }

    #[test]
    fn a_connection_is_kept_unless_somebody_says_otherwise_or_a_body_follows() {
        let after = |text: &str| request(text).after;
        assert_eq!(after("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), After::KeepAlive);
        assert_eq!(after("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: x, Close\r\n\r\n"), After::Close);
        assert_eq!(after("GET / HTTP/1.0\r\n\r\n"), After::Close);
        assert_eq!(after("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), After::KeepAlive);
        assert_eq!(after("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"), After::Close);
        assert_eq!(
            after("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"),
            After::Close
        );
    }
}
