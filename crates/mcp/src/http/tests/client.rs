//! A client that writes every byte itself, and reads every byte that comes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

pub const BOTH: &str = "application/json, text/event-stream";

pub struct Client {
    stream: TcpStream,
    token: String,
    host: String,
    unread: Vec<u8>,
}

pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub data: Option<String>,
    pub comment: Option<String>,
}

impl Event {
    pub fn json(&self) -> Value {
        serde_json::from_str(self.data.as_deref().unwrap()).unwrap()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr, token: &str) -> Client {
        #[expect(clippy::disallowed_methods, reason = "the client of a test, on loopback")]
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, token: token.to_owned(), host: address.to_string(), unread: Vec::new() }
    }

    pub async fn write(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
    }

    /// With the headers every good client sends, unless one of that name is given; `-` leaves it out.
    pub async fn send(&mut self, method: &str, headers: &[(&str, &str)], body: &str) {
        self.send_to("/mcp", method, headers, body).await;
    }

    pub async fn send_to(&mut self, target: &str, method: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        let authorization = format!("Bearer {}", self.token);
        let length = body.len().to_string();
        let usual = [
            ("host", self.host.as_str()),
            ("authorization", &authorization),
            ("accept", BOTH),
            ("content-type", "application/json"),
            ("content-length", &length),
        ];
        for (name, value) in usual {
            if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        for (name, value) in headers.iter().filter(|(_, value)| *value != "-") {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.write(text).await;
    }

    pub async fn post(&mut self, headers: &[(&str, &str)], body: &str) -> (Head, String) {
        self.send("POST", headers, body).await;
        self.whole().await
    }

    /// An answer of known length.
    pub async fn whole(&mut self) -> (Head, String) {
        let head = self.head().await;
        if head.status == 202 || head.status == 204 {
            return (head, String::new());
        }
        let length: usize = head.get("content-length").expect("an answer of known length").parse().unwrap();
        while self.unread.len() < length {
            assert!(self.more().await, "the answer was cut");
        }
        let body = self.unread.drain(..length).collect();
        (head, String::from_utf8(body).unwrap())
    }

    pub async fn head(&mut self) -> Head {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "the connection ended before a head");
        };
        let text = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        Head { status, headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// The next event of a chunked stream; `None` at its end.
    pub async fn event(&mut self) -> Option<Event> {
        let mut text = String::new();
        while !text.ends_with("\n\n") {
            text.push_str(&self.chunk().await?);
        }
        let mut event = Event::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match name {
                "" => event.comment = Some(value),
                "id" => event.id = Some(value),
                "data" => {
                    event.data = Some(event.data.map_or(value.clone(), |data| format!("{data}\n{value}")))
                }
                "retry" => {}
                other => panic!("a field {other}"),
            }
        }
        Some(event)
    }

    /// The next event with a message.
    pub async fn message(&mut self) -> Option<Event> {
        loop {
            let event = self.event().await?;
            if event.data.as_ref().is_some_and(|data| !data.is_empty()) {
                return Some(event);
            }
        }
    }

    async fn chunk(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.unread.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            if !self.more().await {
                return None;
            }
        };
        let line = String::from_utf8(self.unread.drain(..end + 2).collect()).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        while self.unread.len() < length + 2 {
            if !self.more().await {
                return None;
            }
        }
        let chunk: Vec<u8> = self.unread.drain(..length + 2).take(length).collect();
        (length > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        let read = self.stream.read(&mut buffer).await.unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Whether the server ends the connection without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.more().await
    }
}
