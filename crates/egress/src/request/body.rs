//! Where the body of a request ends: after a length, or after the last of its chunks and the trailer.

use super::RequestError;
use super::head::{Framing, Head};
use super::lines::{Found, Lines};

/// The most bytes an extension of one chunk may have.
const MAX_EXTENSION: usize = 1024;
/// The most bytes the trailer may have.
const MAX_TRAILER: usize = 8 * 1024;
/// Some servers count in signed numbers.
pub const MAX_SIZE: u64 = i64::MAX as u64;

#[derive(Debug)]
pub enum Body {
    Length(u64),
    Chunked(Chunk),
}

/// Where in a chunked body the next byte is (RFC 9112, 7.1).
#[derive(Debug)]
pub enum Chunk {
    Size { size: u64, digits: u8 },
    Extension { size: u64, length: usize },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataEnd,
    Trailer { lines: Lines, length: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

impl Body {
    /// The body after this head; `None` when there is not a byte of it.
    pub fn of(head: &Head) -> Option<Self> {
        match head.framing {
            Framing::Empty | Framing::Length(0) => None,
            Framing::Length(length) => Some(Body::Length(length)),
            Framing::Chunked => Some(Body::Chunked(Chunk::Size { size: 0, digits: 0 })),
        }
    }

    /// How many of these bytes are of the body. What is right before an error is passed first, so that the
    /// pieces in which the bytes come make no difference.
    pub fn pass(&mut self, input: &[u8]) -> Result<(usize, Progress), RequestError> {
        match self {
            Body::Length(left) => {
                let taken = skip(left, input);
                Ok((taken, if *left == 0 { Progress::Done } else { Progress::More }))
            }
            Body::Chunked(chunk) => {
                let mut rest = input;
                loop {
                    let taken = input.len() - rest.len();
                    if let Chunk::Data { left } = chunk {
                        let (_, after) = rest.split_at_checked(skip(left, rest)).unwrap_or((rest, &[]));
                        rest = after;
                        if *left == 0 {
                            *chunk = Chunk::DataReturn;
                        }
                        if rest.is_empty() {
                            return Ok((input.len(), Progress::More));
                        }
                        continue;
                    }
                    let Some((byte, after)) = rest.split_first() else {
                        return Ok((taken, Progress::More));
                    };
                    match chunk.next(*byte) {
                        Ok(Progress::More) => rest = after,
                        Ok(Progress::Done) => return Ok((taken + 1, Progress::Done)),
                        Err(error) if taken == 0 => return Err(error),
                        Err(_) => return Ok((taken, Progress::More)),
                    }
                }
            }
        }
    }
}

/// Takes what it can of `input` off `left`.
fn skip(left: &mut u64, input: &[u8]) -> usize {
    let taken = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left = left.saturating_sub(taken as u64);
    taken
}

impl Chunk {
    /// A byte that is not data. On an error nothing changes.
    fn next(&mut self, byte: u8) -> Result<Progress, RequestError> {
        *self = match (&mut *self, byte) {
            (Chunk::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
                let size = size.filter(|size| *size <= MAX_SIZE && *digits < 16);
                Chunk::Size { size: size.ok_or(RequestError::ChunkSize)?, digits: *digits + 1 }
            }
            (Chunk::Size { size, digits: 1.. }, b';') => Chunk::Extension { size: *size, length: 0 },
            (Chunk::Size { size, digits: 1.. } | Chunk::Extension { size, .. }, b'\r') => {
                Chunk::SizeEnd { size: *size }
            }
            (Chunk::Size { .. }, _) => return Err(RequestError::ChunkSize),
            (Chunk::Extension { size, length }, b'\t' | b' '..=b'~') => {
                if *length == MAX_EXTENSION {
                    return Err(RequestError::ChunkExtension);
                }
                Chunk::Extension { size: *size, length: *length + 1 }
            }
            (Chunk::Extension { .. }, b'\n') => return Err(RequestError::BareLineFeed),
            (Chunk::Extension { .. }, _) => return Err(RequestError::ControlCharacter),
            (Chunk::SizeEnd { size: 0 }, b'\n') => Chunk::Trailer { lines: Lines::of_trailer(), length: 0 },
            (Chunk::SizeEnd { size }, b'\n') => Chunk::Data { left: *size },
            (Chunk::SizeEnd { .. }, _) => return Err(RequestError::BareCarriageReturn),
            (Chunk::DataReturn, b'\r') => Chunk::DataEnd,
            (Chunk::DataEnd, b'\n') => Chunk::Size { size: 0, digits: 0 },
            (Chunk::DataReturn | Chunk::DataEnd | Chunk::Data { .. }, _) => {
                return Err(RequestError::ChunkEnd);
            }
            (Chunk::Trailer { lines, length }, _) => {
                if *length == MAX_TRAILER {
                    return Err(RequestError::TrailerTooLong);
                }
                let mut lines = *lines;
                if lines.next(byte)? == Found::End {
                    return Ok(Progress::Done);
                }
                Chunk::Trailer { lines, length: *length + 1 }
            }
        };
        Ok(Progress::More)
    }
}
