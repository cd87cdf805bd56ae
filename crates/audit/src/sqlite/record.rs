//! A row as a record: a header of the types, then the values.

/// What a column can hold here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
}

impl<'a> Value<'a> {
    pub fn text(text: Option<&'a str>) -> Self {
        text.map_or(Value::Null, Value::Text)
    }

    /// The number of its type, and how many bytes it takes.
    fn serial(&self) -> (u64, usize) {
        match self {
            Value::Null => (0, 0),
            Value::Integer(0) => (8, 0),
            Value::Integer(1) => (9, 0),
            Value::Integer(n) => {
                // The bits without the sign, and one for it.
                let bits = 65 - if *n < 0 { n.leading_ones() } else { n.leading_zeros() };
                match bits.div_ceil(8) {
                    1 => (1, 1),
                    2 => (2, 2),
                    3 => (3, 3),
                    4 => (4, 4),
                    5 | 6 => (5, 6),
                    _ => (6, 8),
                }
            }
            Value::Text(text) => (13 + 2 * text.len() as u64, text.len()),
        }
    }
}

/// Seven bits in a byte, the most significant first; the ninth byte has eight.
pub fn varint(out: &mut Vec<u8>, n: u64) {
    if n >> 56 != 0 {
        (0..8).rev().for_each(|group| out.push((n >> (8 + 7 * group)) as u8 | 0x80));
        out.push(n as u8);
        return;
    }
    let groups = (64 - n.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        out.push((n >> (7 * group)) as u8 & 0x7f | more);
    }
}

pub fn encode(values: &[Value<'_>]) -> Vec<u8> {
    let mut types = Vec::with_capacity(values.len() * 2);
    let mut length = 0;
    for value in values {
        let (serial, size) = value.serial();
        varint(&mut types, serial);
        length += size;
    }
    // The header counts its own length, whose own length is one byte up to 127 and two up to 16383.
    let header = if types.len() < 127 { types.len() + 1 } else { types.len() + 2 };
    let mut record = Vec::with_capacity(header + length);
    varint(&mut record, header as u64);
    record.extend_from_slice(&types);
    for value in values {
        match value {
            Value::Null => {}
            Value::Integer(n) => {
                let (_, size) = value.serial();
                record.extend_from_slice(n.to_be_bytes().get(8 - size..).unwrap_or_default());
            }
            Value::Text(text) => record.extend_from_slice(text.as_bytes()),
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_the_format_says() {
        let bytes = |n| {
            let mut out = Vec::new();
            varint(&mut out, n);
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [0x7f]);
        assert_eq!(bytes(128), [0x81, 0]);
        assert_eq!(bytes(16_384), [0x81, 0x80, 0]);
        assert_eq!(bytes((1 << 56) - 1), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(bytes(1 << 56), [0x80, 0xc0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
        assert_eq!(bytes(u64::MAX), [0xff; 9]);
    }

    #[test]
    fn the_smallest_type_that_holds_a_number_is_taken() {
        let serial = |n| Value::Integer(n).serial();
        assert_eq!([serial(0), serial(1)], [(8, 0), (9, 0)]);
        assert_eq!([serial(2), serial(-1), serial(127), serial(-128)], [(1, 1); 4]);
        assert_eq!([serial(128), serial(-129), serial(32_767)], [(2, 2); 3]);
        assert_eq!([serial(32_768), serial(-8_388_608)], [(3, 3); 2]);
        assert_eq!([serial(8_388_608), serial(i64::from(i32::MIN))], [(4, 4); 2]);
        assert_eq!([serial(1 << 31), serial((1 << 47) - 1)], [(5, 6); 2]);
        assert_eq!([serial(1 << 47), serial(i64::MIN), serial(i64::MAX)], [(6, 8); 3]);
    }

    #[test]
    fn a_record_is_its_types_and_then_its_values() {
        let record = encode(&[Value::Null, Value::Integer(300), Value::Text("ab"), Value::Integer(1)]);
        assert_eq!(record, [5, 0, 2, 17, 9, 1, 44, b'a', b'b']);
        let many = encode(&[Value::Null; 127]);
        assert_eq!((many.len(), &many[..2]), (129, &[0x81, 1][..]));
    }
}
