//! The bytes of a line: how an event is written, which characters are escaped, how the chain is read back.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter};
use sha2::{Digest, Sha256};

use crate::event::Event;

/// The most bytes one line may have, its newline included.
pub const MAX_LINE: usize = 64 * 1024;
/// The `prev` of the first line.
pub const ZERO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const HASH_KEY: &[u8] = b",\"hash\":\"";
const HASH_LEN: usize = 64;
const SUFFIX_LEN: usize = HASH_KEY.len() + HASH_LEN + 2;

/// Escapes characters that can hide or reorder what a terminal shows.
struct Visible(CompactFormatter);

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        // Every such character is DEL or not ASCII, and most strings hold neither.
        if text.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(text.as_bytes());
        }
        let mut rest = text;
        while let Some(at) = rest.find(hides) {
            let (plain, tail) = rest.split_at(at);
            self.0.write_string_fragment(writer, plain)?;
            let mut chars = tail.chars();
            if let Some(hidden) = chars.next() {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        self.0.write_string_fragment(writer, rest)
    }
}

/// Characters without a mark of their own, or that change how others are laid out.
pub fn hides(c: char) -> bool {
    matches!(c,
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// JSON as it stands in a line.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::with_capacity(128);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible(CompactFormatter)))?;
    Ok(bytes)
}

/// SHA-256 in lowercase hex.
pub fn hash(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    Sha256::digest(bytes).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Adds the line of `event` to `out` and fills in its hash. `sandbox` and `details` are those of the event,
/// encoded beforehand.
pub fn write(out: &mut Vec<u8>, event: &mut Event, sandbox: &[u8], details: &[u8]) {
    let start = out.len();
    out.extend_from_slice(b"{\"seq\":");
    out.extend_from_slice(event.seq.to_string().as_bytes());
    out.extend_from_slice(b",\"eventId\":\"");
    out.extend_from_slice(event.event_id.as_bytes());
    out.extend_from_slice(b"\",\"sandboxId\":");
    out.extend_from_slice(sandbox);
    out.extend_from_slice(b",\"timestamp\":");
    out.extend_from_slice(event.timestamp.to_string().as_bytes());
    out.extend_from_slice(b",\"time\":\"");
    out.extend_from_slice(event.time.as_bytes());
    out.extend_from_slice(b"\",\"event\":\"");
    out.extend_from_slice(event.event.name().as_bytes());
    out.extend_from_slice(b"\",\"details\":");
    out.extend_from_slice(details);
    out.extend_from_slice(b",\"prev\":\"");
    out.extend_from_slice(event.prev.as_bytes());
    out.push(b'"');
    event.hash = hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(HASH_KEY);
    out.extend_from_slice(event.hash.as_bytes());
    out.extend_from_slice(b"\"}\n");
}

/// The number that a line begins with.
pub fn number(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

/// The part of a line the chain consists of.
#[derive(Debug, Deserialize)]
pub struct Link<'a> {
    pub seq: u64,
    pub time: &'a str,
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    pub prev: &'a str,
    pub hash: &'a str,
}

/// Why a line is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLine {
    /// Not of the form this crate writes.
    Form,
    /// Of that form, with a hash that is not that of its content.
    Content,
}

/// Whether these bytes are a hash as this crate writes it.
pub fn is_hash(text: &[u8]) -> bool {
    text.len() == HASH_LEN && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a line (without its newline) and checks its own hash, not its place.
pub fn link(line: &[u8]) -> Result<Link<'_>, BadLine> {
    let (body, suffix) =
        line.len().checked_sub(SUFFIX_LEN).and_then(|at| line.split_at_checked(at)).ok_or(BadLine::Form)?;
    let stored = suffix
        .strip_prefix(HASH_KEY)
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .filter(|stored| is_hash(stored))
        .ok_or(BadLine::Form)?;
    if hash(body).as_bytes() != stored {
        return Err(BadLine::Content);
    }
    serde_json::from_slice(line).map_err(|_| BadLine::Form)
}
