//! Messages on a stream: one JSON text per line. A line that is longer than the limit is not kept, but its id is
//! found on the way, so that whoever waits for it can be told.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    Line(Bytes),
    /// A line of so many bytes, of which none is kept. When its id is known it is told at once, not at its end.
    TooLong {
        id: Option<Bytes>,
        length: u64,
    },
    /// A line that goes on and on, and whose id has not come yet.
    Endless {
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
    /// A line that has become long: in memory of its own that grows where it is, so that it is there once.
    long: Option<Vec<u8>>,
    skipping: Option<Skipping>,
}

#[derive(Debug, Default)]
struct Skipping {
    finder: IdFinder,
    length: u64,
    told: Told,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Told {
    #[default]
    No,
    Yes,
}

/// So much is asked for at once.
const CHUNK: usize = 64 << 10;
/// From this length on a line is long.
const LONG: usize = 256 << 10;
/// So many times the limit is waited for an id.
const PATIENCE: u64 = 4;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R, limit: usize) -> Lines<R> {
        Lines { reader, buffer: BytesMut::new(), searched: 0, limit, long: None, skipping: None }
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
            if let Some(incoming) = self.skip() {
                return Ok(Some(incoming));
            }
            let count = match &mut self.long {
                Some(long) => {
                    if long.capacity() - long.len() < CHUNK {
                        // A little more each time: doubling would take twice of what is needed.
                        long.reserve_exact((long.len() / 4).clamp(CHUNK, 16 << 20));
                    }
                    let before = long.len();
                    let count = self.reader.read_buf(long).await?;
                    self.split_long(before);
                    count
                }
                None => {
                    self.buffer.reserve(CHUNK);
                    self.reader.read_buf(&mut self.buffer).await?
                }
            };
            if count == 0 {
                return Ok(self.rest());
            }
        }
    }

    /// What came behind the line break of a long line is the beginning of the next.
    fn split_long(&mut self, from: usize) {
        let Some(long) = &mut self.long else { return };
        let found = long.get(from..).and_then(|new| memchr::memchr(b'\n', new));
        if let Some(found) = found {
            let end = from + found;
            self.buffer = BytesMut::from(long.get(end..).unwrap_or_default());
            long.truncate(end);
            self.searched = 0;
        }
    }

    fn take_line(&mut self) -> Option<Incoming> {
        let unsearched = self.buffer.get(self.searched..)?;
        let Some(found) = memchr::memchr(b'\n', unsearched) else {
            self.searched = self.buffer.len();
            if self.buffer.len() > LONG && self.long.is_none() && self.skipping.is_none() {
                self.long = Some(std::mem::take(&mut self.buffer).to_vec());
                self.searched = 0;
            }
            return None;
        };
        let end = self.searched + found;
        self.searched = 0;
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        if let Some(mut skipping) = self.skipping.take() {
            skipping.pass(&line);
            return skipping.done().or(Some(Incoming::Line(Bytes::new())));
        }
        if let Some(long) = self.long.take() {
            return Some(self.whole(long.into()));
        }
        // A short line must not keep a large buffer alive.
        if line.len() < CHUNK / 4 && line.capacity() > CHUNK * 4 {
            return Some(self.whole(Bytes::copy_from_slice(&line)));
        }
        Some(self.whole(line.freeze()))
    }

    fn whole(&self, line: Bytes) -> Incoming {
        if line.len() > self.limit {
            let mut skipping = Skipping::default();
            skipping.pass(&line);
            return Incoming::TooLong { length: skipping.length, id: skipping.finder.found() };
        }
        let end = if line.last() == Some(&b'\r') { line.len() - 1 } else { line.len() };
        Incoming::Line(line.slice(..end))
    }

    /// Lets pass what is not kept.
    fn skip(&mut self) -> Option<Incoming> {
        if self.skipping.is_none() && self.long.as_ref().is_some_and(|long| long.len() > self.limit) {
            let long = self.long.take()?;
            let mut skipping = Skipping::default();
            skipping.pass(&long);
            self.skipping = Some(skipping);
        }
        let limit = self.limit as u64;
        let skipping = self.skipping.as_mut()?;
        skipping.pass(&self.buffer);
        self.buffer.clear();
        self.searched = 0;
        if skipping.told == Told::Yes {
            return None;
        }
        if let Some(id) = skipping.finder.known() {
            skipping.told = Told::Yes;
            return Some(Incoming::TooLong { id: Some(id), length: skipping.length });
        }
        if skipping.length > limit.saturating_mul(PATIENCE) {
            skipping.told = Told::Yes;
            return Some(Incoming::Endless { length: skipping.length });
        }
        None
    }

    fn rest(&mut self) -> Option<Incoming> {
        let line = match self.long.take() {
            Some(long) => Bytes::from(long),
            None => self.buffer.split().freeze(),
        };
        self.searched = 0;
        if let Some(mut skipping) = self.skipping.take() {
            skipping.pass(&line);
            return skipping.done();
        }
        if line.iter().all(u8::is_ascii_whitespace) { None } else { Some(self.whole(line)) }
    }
}

impl Skipping {
    fn pass(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.finder.pass(bytes);
    }

    /// What is to be told at its end, if it was not told before.
    fn done(self) -> Option<Incoming> {
        match self.told {
            Told::Yes => None,
            Told::No => Some(Incoming::TooLong { length: self.length, id: self.finder.found() }),
        }
    }
}

/// The id in something that may be no message.
pub fn id_of(line: &[u8]) -> Option<Bytes> {
    let mut finder = IdFinder::default();
    finder.pass(line);
    finder.found()
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

    fn known(&self) -> Option<Bytes> {
        self.id.clone().map(Bytes::from)
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
    fn a_long_line_whose_id_is_known_is_told_before_its_end_and_only_once() {
        let input = format!("{{\"id\":12,\"result\":[{}\nnext\n", "1,".repeat(1_000_000));
        let all = read_all(input.as_bytes(), 1000);
        let [Incoming::TooLong { id, length }, next] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((id.as_ref().unwrap(), next), (&Bytes::from_static(b"12"), &line("next")));
        assert!(*length < 1_000_000);
    }

    #[test]
    fn a_line_without_end_and_without_id_is_given_up() {
        let input = vec![b'x'; 3_000_000];
        assert!(matches!(read_all(&input, 300_000).as_slice(), [Incoming::Endless { .. }]));
    }

    #[test]
    fn long_lines_arrive_whole_with_what_follows() {
        let long = "y".repeat(3_000_000);
        let input = format!("{long}\nshort\n{long}\r\nlast");
        assert_eq!(
            read_all(input.as_bytes(), 4_000_000),
            [line(&long), line("short"), line(&long), line("last")]
        );
    }

    #[test]
    fn the_id_of_a_broken_answer_is_found() {
        assert_eq!(id_of(br#"{"jsonrpc":"2.0","id":7,"result":1,"result":2}"#).unwrap(), "7");
        assert_eq!(id_of(b"log: {"), None);
    }

    #[test]
    fn garbage_that_is_too_long_has_no_id() {
        let input = vec![b'x'; 2000];
        assert_eq!(read_all(&input, 1000), [Incoming::TooLong { id: None, length: 2000 }]);
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        let exact = "y".repeat(1000);
        assert_eq!(read_all(format!("{exact}\n").as_bytes(), 1000), [line(&exact)]);
        assert!(matches!(read_all(format!("{exact}y\n").as_bytes(), 1000)[0], Incoming::TooLong { .. }));
    }
}
