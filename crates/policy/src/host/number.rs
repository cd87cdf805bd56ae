//! IPv4 addresses in all the forms that C libraries and browsers take (`inet_aton`, WHATWG URL §3.5). A rule on
//! `127.0.0.1` is worth nothing when `0x7f.1` passes as a name.

use std::net::Ipv4Addr;

pub(super) enum Reading {
    Address(Ipv4Addr),
    /// It ends in a number, so resolvers may take it for an address, but it is none.
    Broken,
    Name,
}

/// Reads a name in normal form.
pub(super) fn ipv4(name: &str) -> Reading {
    let last = name.rsplit('.').next().unwrap_or(name);
    // "An ends-in-a-number check": also `09`, which is no octal number, and `0x` alone, which counts as zero.
    if !last.bytes().all(|byte| byte.is_ascii_digit()) && number(last).is_none() {
        return Reading::Name;
    }
    match address(name) {
        Some(address) => Reading::Address(address),
        None => Reading::Broken,
    }
}

fn address(name: &str) -> Option<Ipv4Addr> {
    let parts = name.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let (last, bytes) = parts.split_last()?;
    // The last part fills all bytes that are left: `127.1` is `127.0.0.1`.
    let left = u32::try_from(4usize.checked_sub(bytes.len()).filter(|left| *left > 0)?).ok()?;
    if *last >= 1u64 << (8 * left) || bytes.iter().any(|byte| *byte > 0xff) {
        return None;
    }
    let head = bytes.iter().fold(0u64, |sum, byte| sum << 8 | byte);
    u32::try_from(head << (8 * left) | last).ok().map(Ipv4Addr::from)
}

/// One part: decimal, octal after `0`, hexadecimal after `0x`.
fn number(part: &str) -> Option<u64> {
    let (digits, radix) = match (part.strip_prefix("0x"), part.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) => (octal, 8),
        (None, None) => (part, 10),
    };
    if digits.is_empty() {
        return (!part.is_empty()).then_some(0);
    }
    // `from_str_radix` alone would take a sign.
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    // Too large for any address is not the same as no number.
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
