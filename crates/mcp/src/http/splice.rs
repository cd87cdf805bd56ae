//! Finds one value in a message that lies in several pieces, and puts another in its place, without joining
//! the pieces: a large result is neither copied nor read into values.

use std::ops::Range;

use bytes::Bytes;

/// Where the value at `path` lies, counted over all pieces. `None` when it is not there, when something on the
/// way is not an object, or when this is no JSON. Keys are compared as they are written: an escaped key is
/// another key.
pub fn find(pieces: &[Bytes], path: &[&str]) -> Option<Range<usize>> {
    let mut cursor = Cursor { pieces, offset: 0, at: 0 };
    for key in path {
        cursor.skip_space();
        cursor.expect(b'{')?;
        while !cursor.key_is(key)? {
            cursor.skip_value()?;
            cursor.skip_space();
            cursor.expect(b',')?;
        }
    }
    let start = cursor.at;
    cursor.skip_value()?;
    Some(start..cursor.at)
}

/// The bytes in a range, when they are these.
pub fn holds(pieces: &[Bytes], range: Range<usize>, expected: &[u8]) -> bool {
    pieces.iter().flatten().skip(range.start).take(range.len()).eq(expected)
}

/// The same message with other bytes in a range.
pub fn replace(pieces: Vec<Bytes>, range: Range<usize>, with: Bytes) -> Vec<Bytes> {
    let mut replaced = Vec::with_capacity(pieces.len() + 2);
    let mut with = Some(with);
    let mut start = 0;
    for piece in pieces {
        let length = piece.len();
        let before = range.start.saturating_sub(start).min(length);
        let after = range.end.saturating_sub(start).min(length);
        if before > 0 {
            replaced.push(piece.slice(..before));
        }
        if before < length
            && let Some(with) = with.take()
        {
            replaced.push(with);
        }
        if after.max(before) < length {
            replaced.push(piece.slice(after.max(before)..));
        }
        start += length;
    }
    replaced
}

struct Cursor<'a> {
    pieces: &'a [Bytes],
    /// In the first of the pieces.
    offset: usize,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<u8> {
        loop {
            let (first, rest) = self.pieces.split_first()?;
            match first.get(self.offset) {
                Some(byte) => return Some(*byte),
                None => {
                    self.pieces = rest;
                    self.offset = 0;
                }
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.offset += 1;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.next();
        }
    }

    /// Reads a key and what stands between it and its value.
    fn key_is(&mut self, key: &str) -> Option<bool> {
        self.skip_space();
        self.expect(b'"')?;
        let mut rest = Some(key.as_bytes());
        loop {
            match self.next()? {
                b'"' => break,
                byte => {
                    rest = rest
                        .and_then(<[u8]>::split_first)
                        .filter(|(first, _)| **first == byte)
                        .map(|(_, rest)| rest);
                    if byte == b'\\' {
                        self.next()?;
                    }
                }
            }
        }
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Some(rest.is_some_and(<[u8]>::is_empty))
    }

    fn skip_string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => {
                    self.next()?;
                }
                _ => {}
            }
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    self.next();
                    depth += 1;
                }
                b'}' | b']' => {
                    self.next();
                    depth = depth.checked_sub(1)?;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' if depth > 0 => {
                    self.next();
                }
                _ => self.skip_scalar()?,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn skip_scalar(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(byte) = self.peek()
            && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"')
        {
            self.next();
        }
        (self.at > start).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pieces(text: &str, width: usize) -> Vec<Bytes> {
        text.as_bytes().chunks(width.max(1)).map(Bytes::copy_from_slice).collect()
    }

    fn joined(pieces: &[Bytes]) -> String {
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn a_value_is_found_in_pieces_of_any_width() {
        let text = r#" { "result" : {"id":7,"deep":[{"id":8}],"text":"\"id\": 9"} , "jsonrpc":"2.0" , "id" : "a\"b" }"#;
        for width in 1..=text.len() {
            let range = find(&pieces(text, width), &["id"]).unwrap();
            assert_eq!(&text[range.clone()], r#""a\"b""#);
            let replaced = replace(pieces(text, width), range, Bytes::from_static(b"42"));
            let value: Value = serde_json::from_str(&joined(&replaced)).unwrap();
            assert_eq!(value["id"], json!(42));
            assert_eq!(value["result"]["id"], json!(7));
        }
    }

    #[test]
    fn a_path_leads_through_objects_alone() {
        let text = r#"{"params":{"list":[{"token":1}],"_meta":{"other":{"token":2},"token":3}}}"#;
        let range = find(&pieces(text, 5), &["params", "_meta", "token"]).unwrap();
        assert_eq!(&text[range], "3");
        assert_eq!(find(&pieces(text, 5), &["params", "list", "token"]), None);
        assert_eq!(find(&pieces(text, 5), &["params", "token"]), None);
    }

    #[test]
    fn garbage_has_no_values() {
        for text in [
            "",
            "{",
            "[]",
            "{\"id\"",
            "{\"id\":",
            "{\"id\":}",
            "{\"id\" 1}",
            "\"id\"",
            "{,\"id\":1}",
            "{\"id\\",
        ] {
            assert_eq!(find(&pieces(text, 3), &["id"]), None, "{text}");
        }
    }

    #[test]
    fn what_a_range_holds_is_compared_across_pieces() {
        let pieces = pieces("0123456789", 3);
        assert!(holds(&pieces, 2..7, b"23456"));
        assert!(!holds(&pieces, 2..7, b"2345"));
        assert!(!holds(&pieces, 8..12, b"89ab"));
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..64), width in 1usize..9) {
            let pieces: Vec<Bytes> = text.chunks(width).map(Bytes::copy_from_slice).collect();
            if let Some(range) = find(&pieces, &["id"]) {
                prop_assert!(range.start < range.end && range.end <= text.len());
            }
        }

        #[test]
        fn replacing_is_splicing(text in "[a-z]{0,30}", width in 1usize..9, start in 0usize..30, length in 1usize..9) {
            let start = start.min(text.len().saturating_sub(1));
            let end = (start + length).min(text.len());
            prop_assume!(start < end);
            let replaced = replace(pieces(&text, width), start..end, Bytes::from_static(b"XY"));
            let mut expected = text.clone();
            expected.replace_range(start..end, "XY");
            prop_assert_eq!(joined(&replaced), expected);
        }
    }
}
