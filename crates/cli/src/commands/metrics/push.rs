//! `lazaret metrics push`: OTLP over HTTP, without TLS, to a collector that is told by address.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use lazaret_audit::metrics::otlp::{Export, request};
use serde_json::Value;

use super::{interval, source::Source, source::now_ms, ticks};
use crate::{args, exit::Exit, output};

/// A collector answers within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of an answer.
const ANSWER: usize = 64 * 1024;
const PATH: &str = "/v1/metrics";

/// Where to send to.
#[derive(Debug, PartialEq, Eq)]
struct Collector {
    address: SocketAddr,
    path: String,
}

pub fn push(args: &args::Push) -> anyhow::Result<Exit> {
    let every = interval(args.every)?;
    let collector = collector(&args.otlp)?;
    if !collector.address.ip().is_loopback() && !args.dangerously_send_anywhere {
        bail!(
            "{} is not of this machine, and what is sent there can be read and changed on its way: send to a \
             collector on 127.0.0.1 that passes it on, or say --dangerously-send-anywhere",
            collector.address
        );
    }
    let mut source = Source::of(&args.count)?;
    let act = || {
        let families = source.families()?;
        let export =
            Export { version: env!("CARGO_PKG_VERSION"), since_ms: source.since(), now_ms: now_ms() };
        send(&collector, &request(&families, &export).to_string())
    };
    ticks::repeat(every, act, |error| output::warning(&output::chain(error)))?;
    Ok(Exit::Ok)
}

fn collector(url: &str) -> anyhow::Result<Collector> {
    let wanted = "write http://ADDRESS:PORT, such as http://127.0.0.1:4318";
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("--otlp {url}: only http is spoken, to a collector on this machine; {wanted}");
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = match authority.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => authority.to_owned(),
    };
    let Ok(address) = authority.parse() else {
        bail!("--otlp {url}: `{authority}` is no address with a port, and names are not looked up; {wanted}");
    };
    ensure!(path.bytes().all(|byte| byte.is_ascii_graphic()), "--otlp {url:?}: strange characters; {wanted}");
    let path = path.trim_end_matches('/');
    let path = if path.ends_with(PATH) { path.to_owned() } else { format!("{path}{PATH}") };
    Ok(Collector { address, path })
}

fn send(collector: &Collector, body: &str) -> anyhow::Result<()> {
    let Collector { address, path } = collector;
    let context = || {
        format!(
            "the metrics cannot be sent to {address} (does a collector with OTLP over HTTP listen there?)"
        )
    };
    let answer = exchange(*address, path, body).with_context(context)?;
    let (head, content) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let line = head.lines().next().unwrap_or_default();
        bail!("the collector {address} refused the metrics at {path}: {line:?} {}", content.trim());
    }
    // Not all of it, perhaps (OTLP, "partial success").
    let partial = serde_json::from_str::<Value>(content).unwrap_or_default();
    let message = partial.pointer("/partialSuccess/errorMessage").and_then(Value::as_str).unwrap_or_default();
    if !message.is_empty() {
        output::warning(&format!("the collector {address} says: {message}"));
    }
    Ok(())
}

fn exchange(address: SocketAddr, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: lazaret/{}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let end = Instant::now() + PATIENCE;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < ANSWER {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut piece)? {
            0 => break,
            length => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_address_and_a_path_that_ends_where_metrics_go() {
        for (url, path) in [
            ("http://127.0.0.1:4318", "/v1/metrics"),
            ("http://localhost:4318/", "/v1/metrics"),
            ("http://127.0.0.1:4318/v1/metrics", "/v1/metrics"),
            ("http://127.0.0.1:9090/api/v1/otlp", "/api/v1/otlp/v1/metrics"),
        ] {
            assert_eq!(collector(url).unwrap().path, path, "{url}");
            assert!(collector(url).unwrap().address.ip().is_loopback());
        }
        for url in [
            "https://127.0.0.1:4318",
            "127.0.0.1:4318",
            "http://collector.example:4318",
            "http://127.0.0.1",
            "http://127.0.0.1:1/a\r\nb",
        ] {
            assert!(collector(url).is_err(), "{url}");
        }
    }
}
