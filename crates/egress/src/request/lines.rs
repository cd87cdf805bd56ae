//! Lines that end with an empty one: the head of a request, and the trailer of a chunked body.

use super::RequestError;

/// How far such lines were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// The last byte was a carriage return.
    returned: bool,
    /// The line holds nothing so far.
    empty: bool,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first line, where empty ones do not count.
    Before,
    First,
    Later,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    More,
    /// The byte was the last one of the empty line.
    End,
}

impl Lines {
    pub fn of_head() -> Self {
        Self { returned: false, empty: true, place: Place::Before }
    }

    pub fn of_trailer() -> Self {
        Self { returned: false, empty: true, place: Place::Later }
    }

    pub fn next(&mut self, byte: u8) -> Result<Found, RequestError> {
        match (byte, self.returned) {
            (b'\n', true) => {
                let ended = self.empty && self.place != Place::Before;
                if self.place == Place::First {
                    self.place = Place::Later;
                }
                self.returned = false;
                self.empty = true;
                return Ok(if ended { Found::End } else { Found::More });
            }
            (_, true) => return Err(RequestError::BareCarriageReturn),
            (b'\n', false) => return Err(RequestError::BareLineFeed),
            (b'\r', false) => self.returned = true,
            (b' ' | b'\t', false) if self.empty && self.place == Place::Later => {
                return Err(RequestError::FoldedHeader);
            }
            (0..=8 | 10..=0x1f | 0x7f, false) => return Err(RequestError::ControlCharacter),
            _ => {
                self.empty = false;
                if self.place == Place::Before {
                    self.place = Place::First;
                }
            }
        }
        Ok(Found::More)
    }
}
