//! What was typed, from the bytes that a terminal sends.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Back,
    Approve,
    ApproveForSession,
    Deny,
    Quit,
}

/// All keys in what was read at once. What is not known is passed over, a whole sequence at a time, so that its
/// letters do not count as keys of their own.
pub fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        let key = match first {
            0x1b => {
                let (key, rest) = sequence(rest);
                bytes = rest;
                key
            }
            b'k' => Some(Key::Up),
            b'j' => Some(Key::Down),
            b' ' => Some(Key::PageDown),
            b'g' => Some(Key::First),
            b'G' => Some(Key::Last),
            b'\r' | b'\n' => Some(Key::Enter),
            b'a' => Some(Key::Approve),
            b's' => Some(Key::ApproveForSession),
            b'd' => Some(Key::Deny),
            // Control and C or D: in raw mode they are bytes like others.
            b'q' | 0x03 | 0x04 => Some(Key::Quit),
            _ => None,
        };
        keys.extend(key);
    }
    keys
}

/// What follows an escape, and what is left after it (ECMA-48, 5.4: parameters, then a final byte).
fn sequence(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let rest = match bytes.split_first() {
        Some((b'[' | b'O', rest)) => rest,
        // Escape alone, or with a letter, which is Alt and that letter.
        Some((_, rest)) => return (None, rest),
        None => return (Some(Key::Back), bytes),
    };
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
    let (body, rest) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
    let key = match body {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"H" | b"1~" | b"7~" => Some(Key::First),
        b"F" | b"4~" | b"8~" => Some(Key::Last),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    (key, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_sequences_are_keys() {
        assert_eq!(
            keys(b"jk\x1b[A\x1bOB\x1b[6~\r"),
            [Key::Down, Key::Up, Key::Up, Key::Down, Key::PageDown, Key::Enter]
        );
        assert_eq!(
            keys(b"asdq\x03"),
            [Key::Approve, Key::ApproveForSession, Key::Deny, Key::Quit, Key::Quit]
        );
        assert_eq!(keys(b"\x1b"), [Key::Back]);
    }

    #[test]
    fn the_letters_of_an_unknown_sequence_are_no_keys() {
        assert_eq!(keys(b"\x1b[1;5a\x1b[200~\x1bd\x1b[<0;1;1s\x1b[12"), []);
        assert_eq!(keys("xyzé\u{1}".as_bytes()), []);
    }
}
