//! Reaches a host through a proxy of the host's own network: dials the proxy, asks it for a tunnel, and hands
//! the tunnel back. The name is resolved there; what it may be was decided before.

use std::{io, net::IpAddr, os::fd::OwnedFd, time::Duration};

use lazaret_policy::{
    host::Host,
    network::parent::{At, Speaks, Upstream},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{dial, engine::stream, guard::Resolver};

/// For the whole of it.
const ASKING: Duration = Duration::from_secs(30);
/// A longer answer is none.
const LONGEST_ANSWER: usize = 16 * 1024;

/// A tunnel to `host`.
pub async fn reach(
    upstream: &Upstream,
    resolver: &Resolver,
    host: &Host,
    port: u16,
) -> io::Result<TcpStream> {
    let reached = async {
        let mut proxy = connect(upstream, resolver).await?;
        match upstream.speaks {
            Speaks::Http => ask_http(&mut proxy, upstream, host, port).await?,
            Speaks::Socks => ask_socks(&mut proxy, upstream, host, port).await?,
        }
        Ok(proxy)
    };
    let outcome = timeout(ASKING, reached).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    outcome.map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("through the parent proxy {upstream}: {error}"))
    })
}

async fn connect(upstream: &Upstream, resolver: &Resolver) -> io::Result<TcpStream> {
    match &upstream.at {
        At::Port { host: Host::Address(address), port } => dial::dial(&[(*address, *port).into()]).await,
        At::Port { host: Host::Name(name), port } => {
            let found = resolver.look_up(name).await.map_err(io::Error::other)?;
            let addresses: Vec<_> = found.into_iter().map(|address| (address, *port).into()).collect();
            dial::dial(&addresses).await
        }
        // A stream is a stream: what only TCP has is asked for in vain, and nobody minds.
        At::Socket(path) => {
            let socket = std::os::unix::net::UnixStream::connect(path)?;
            stream(OwnedFd::from(socket))
        }
    }
}

async fn ask_http(proxy: &mut TcpStream, upstream: &Upstream, host: &Host, port: u16) -> io::Result<()> {
    let authority = match host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        other => format!("{other}:{port}"),
    };
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some((user, password)) = &upstream.credentials {
        let code = base64(format!("{user}:{password}").as_bytes());
        request.push_str(&format!("Proxy-Authorization: Basic {code}\r\n"));
    }
    request.push_str("\r\n");
    proxy.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // One by one: what comes after the answer is not ours.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= LONGEST_ANSWER {
            return Err(io::Error::other("its answer is too long"));
        }
        answer.push(proxy.read_u8().await?);
    }
    let status = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = String::from_utf8_lossy(status);
    let mut words = text.split(' ');
    let (version, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let good = version.starts_with("HTTP/1.") && code.len() == 3 && code.starts_with('2');
    if good { Ok(()) } else { Err(io::Error::other(format!("it refused: {}", text.escape_debug()))) }
}

async fn ask_socks(proxy: &mut TcpStream, upstream: &Upstream, host: &Host, port: u16) -> io::Result<()> {
    const NONE: u8 = 0;
    const PASSWORD: u8 = 2;
    let method = if upstream.credentials.is_some() { PASSWORD } else { NONE };
    proxy.write_all(&[5, 1, method]).await?;
    let mut chosen = [0; 2];
    proxy.read_exact(&mut chosen).await?;
    if chosen != [5, method] {
        return Err(io::Error::other("it wants another way to log in"));
    }
    if let Some((user, password)) = &upstream.credentials {
        let mut message = vec![1];
        for part in [user, password] {
            let length =
                u8::try_from(part.len()).map_err(|_| io::Error::other("the password is too long"))?;
            message.push(length);
            message.extend(part.as_bytes());
        }
        proxy.write_all(&message).await?;
        let mut answer = [0; 2];
        proxy.read_exact(&mut answer).await?;
        if answer != [1, 0] {
            return Err(io::Error::other("it does not take the user and password"));
        }
    }
    let mut message = vec![5, 1, 0];
    match host {
        Host::Address(IpAddr::V4(address)) => {
            message.push(1);
            message.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            message.push(4);
            message.extend(address.octets());
        }
        Host::Name(name) => {
            let name = name.as_str();
            message
                .extend([3, u8::try_from(name.len()).map_err(|_| io::Error::other("the name is too long"))?]);
            message.extend(name.as_bytes());
        }
    }
    message.extend(port.to_be_bytes());
    proxy.write_all(&message).await?;
    let mut head = [0; 4];
    proxy.read_exact(&mut head).await?;
    let [5, 0, _, kind] = head else {
        return Err(io::Error::other(format!("it refused with code {}", head.get(1).copied().unwrap_or(1))));
    };
    let length = match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(proxy.read_u8().await?),
        _ => return Err(io::Error::other("its answer makes no sense")),
    };
    let mut rest = vec![0; length + 2];
    proxy.read_exact(&mut rest).await.map(drop)
}

/// RFC 4648, for one header.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let number = a << 16 | b << 8 | c;
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS.get((number >> shift & 63) as usize).copied().unwrap_or(b'=');
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("a:b?>", "YTpiPz4="),
        ] {
            assert_eq!(base64(plain.as_bytes()), code);
        }
    }
}
