//! Messages on a stream: one JSON text per line. A line that is longer than the limit is not kept, but its id is
//! found on the way, so that whoever waits for it can be told.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    Line(Bytes),
    /// So many bytes, of which none is kept.
    TooLong {
        id: Option<Bytes>,
        length: u64,
    },
}

#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// So much of the buffer has no line break.
    searched: usize,
    limit: usize,
    skipping: Option<Skipping>,
}

#[derive(Debug, Default)]
struct Skipping {
    finder: IdFinder,
    length: u64,
}

/// So much is asked for at once.
const CHUNK: usize = 64 << 10;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R, limit: usize) -> Lines<R> {
        Lines { reader, buffer: BytesMut::new(), searched: 0, limit, skipping: None }
    }

    /// The next line that is not empty; `None` at the end. A last line without a line break counts.
    pub async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            if let Some(incoming) = self.take_line() {
                match incoming {
                    Incoming::Line(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                    incoming => return Ok(Some(incoming)),
                }
            }
            if self.buffer.len() > self.limit && self.skipping.is_none() {
                self.skipping = Some(Skipping::default());
            }
            if let Some(skipping) = &mut self.skipping {
                skipping.pass(&self.buffer);
                self.buffer.clear();
                self.searched = 0;
            }
            self.buffer.reserve(CHUNK);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.rest());
            }
        }
    }

    fn take_line(&mut self) -> Option<Incoming> {
        let unsearched = self.buffer.get(self.searched..)?;
        let Some(found) = memchr::memchr(b'\n', unsearched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + found;
        self.searched = 0;
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        if let Some(mut skipping) = self.skipping.take() {
            skipping.pass(&line);
            return Some(skipping.done());
        }
        if line.len() > self.limit {
            let mut skipping = Skipping::default();
            skipping.pass(&line);
            return Some(skipping.done());
        }
        if line.last() == Some(&b'\r') {
            line.truncate(end - 1);
        }
        // A short line must not keep a large buffer alive.
        if line.len() < CHUNK / 4 && line.capacity() > CHUNK * 4 {
            return Some(Incoming::Line(Bytes::copy_from_slice(&line)));
        }
        Some(Incoming::Line(line.freeze()))
    }

    fn rest(&mut self) -> Option<Incoming> {
        let line = self.buffer.split().freeze();
        self.searched = 0;
        if let Some(mut skipping) = self.skipping.take() {
            skipping.pass(&line);
            return Some(skipping.done());
        }
        if line.iter().all(u8::is_ascii_whitespace) { None } else { Some(Incoming::Line(line)) }
    }
}

impl Skipping {
    fn pass(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.finder.pass(bytes);
    }

    fn done(self) -> Incoming {
        Incoming::TooLong { id: self.finder.found(), length: self.length }
    }
}

/// Reads an object as it passes by and keeps the value of its `id`.
#[derive(Debug, Default)]
struct IdFinder {
    depth: u64,
    string: Within,
    /// The last string at the object's own level.
    key: Vec<u8>,
    side: Side,
    value: Vec<u8>,
    id: Option<Vec<u8>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    No,
    String,
    Escape,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Side {
    #[default]
    Key,
    Value,
}

impl IdFinder {
    const LONGEST: usize = 256;

    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        match self.string {
            Within::Escape => {
                self.keep(byte);
                self.string = Within::String;
            }
            Within::String => {
                self.keep(byte);
                self.string = match byte {
                    b'"' => Within::No,
                    b'\\' => Within::Escape,
                    _ => Within::String,
                };
            }
            Within::No => self.token(byte),
        }
    }

    fn token(&mut self, byte: u8) {
        match byte {
            b'"' => {
                if self.depth == 1 && self.side == Side::Key {
                    self.key.clear();
                }
                self.keep(byte);
                self.string = Within::String;
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
                self.keep(byte);
            }
            b':' if self.depth == 1 => {
                self.side = Side::Value;
                self.value.clear();
            }
            b',' if self.depth == 1 => self.end_value(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 && self.side == Side::Key {
            return;
        }
        let kept = if self.side == Side::Key { &mut self.key } else { &mut self.value };
        if kept.len() <= Self::LONGEST {
            kept.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.side == Side::Value && self.key == b"\"id\"" && self.value.len() <= Self::LONGEST {
            self.id = Some(std::mem::take(&mut self.value));
        }
        self.side = Side::Key;
        self.key.clear();
        self.value.clear();
    }

    fn found(self) -> Option<Bytes> {
        self.id.map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &[u8], limit: usize) -> Vec<Incoming> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(input, limit);
            let mut all = Vec::new();
            while let Some(incoming) = lines.next().await.unwrap() {
                all.push(incoming);
            }
            all
        })
    }

    fn line(text: &str) -> Incoming {
        Incoming::Line(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_are_split_and_empty_ones_and_carriage_returns_are_left_out() {
        assert_eq!(read_all(b"a\r\n\n  \nbc\nlast", 100), [line("a"), line("bc"), line("last")]);
        assert_eq!(read_all(b"", 100), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_with_its_id_and_the_next_one_is_read() {
        let long = format!(
            r#"{{"result":{{"id":5,"t":"{}\" ,\"id\":9"}}, "id" : "x\"y" ,"jsonrpc":"2.0"}}"#,
            "z".repeat(300_000)
        );
        let input = format!("{long}\nnext\n");
        let expected =
            Incoming::TooLong { id: Some(Bytes::from_static(b"\"x\\\"y\"")), length: long.len() as u64 };
        assert_eq!(read_all(input.as_bytes(), 1000), [expected, line("next")]);
    }

    #[test]
    fn a_long_line_that_never_ends_is_told_at_the_end() {
        let input = format!(r#"{{"id":12,"result":[{}"#, "1,".repeat(100_000));
        let Incoming::TooLong { id, .. } = &read_all(input.as_bytes(), 1000)[0] else { panic!() };
        assert_eq!(id.as_ref().unwrap(), "12");
    }

    #[test]
    fn garbage_that_is_too_long_has_no_id() {
        let input = vec![b'x'; 200_000];
        assert_eq!(read_all(&input, 1000), [Incoming::TooLong { id: None, length: 200_000 }]);
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        let exact = "y".repeat(1000);
        assert_eq!(read_all(format!("{exact}\n").as_bytes(), 1000), [line(&exact)]);
        assert!(matches!(read_all(format!("{exact}y\n").as_bytes(), 1000)[0], Incoming::TooLong { .. }));
    }
}
