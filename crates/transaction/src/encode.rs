//! How bytes and times are written as JSON.
//!
//! A path, a link's target or an argument is a string where it is UTF-8, which nearly all are. Where it is
//! not, it is an object: `{"text": "na\u{fffd}me", "bytes": "6e61ff6d65"}`, the text to read and the bytes,
//! in hexadecimal, to act on. A reader that expects strings alone fails then instead of meeting a name that
//! is another file's.
//!
//! A time is a string of seconds and nanoseconds since 1970, `"1789000000.000000042"`: a JSON number would
//! lose the last digits.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Hex),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    text: String,
    bytes: String,
}

fn write<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => {
            let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Hex { text: String::from_utf8_lossy(bytes).into_owned(), bytes: hex }.serialize(serializer)
        }
    }
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(text.into_bytes()),
        Written::Bytes(hex) => unhex(&hex.bytes).ok_or_else(|| de::Error::custom("not hexadecimal")),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// For a [`PathBuf`].
pub mod path {
    use super::{Deserializer, OsStrExt, OsString, OsStringExt, Path, PathBuf, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        super::write(path.as_os_str().as_bytes(), serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        super::read(deserializer).map(|bytes| OsString::from_vec(bytes).into())
    }
}

/// Seconds and nanoseconds as one string.
pub mod time {
    use super::{Deserialize, Deserializer, Serializer, de};

    pub fn parse(text: &str) -> Option<(i64, u32)> {
        let (seconds, nanoseconds) = text.split_once('.')?;
        if nanoseconds.len() != 9 || !nanoseconds.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
    }

    pub fn write<S: Serializer>(time: (i64, u32), serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{:09}", time.0, time.1))
    }

    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(i64, u32), D::Error> {
        let written = String::deserialize(deserializer)?;
        parse(&written).ok_or_else(|| de::Error::custom("not a time"))
    }
}

/// For a [`std::time::SystemTime`].
pub mod moment {
    use super::{Deserializer, Serializer, time};
    use std::time::{Duration, SystemTime};

    pub fn serialize<S: Serializer>(moment: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        time::write(since_epoch(*moment), serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let (seconds, nanoseconds) = time::read(deserializer)?;
        Ok(SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds))
    }

    /// A moment before 1970 counts as 1970: then everything on the host is later, which is the safe side.
    pub fn since_epoch(moment: SystemTime) -> (i64, u32) {
        let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Named(#[serde(with = "path")] PathBuf);

    fn round(bytes: &[u8]) -> String {
        let json = serde_json::to_string(&Named(OsString::from_vec(bytes.to_vec()).into())).unwrap();
        let back: Named = serde_json::from_str(&json).unwrap();
        assert_eq!(back.0.as_os_str().as_bytes(), bytes);
        json
    }

    #[test]
    fn a_name_in_utf8_is_a_string_and_any_other_keeps_its_bytes() {
        assert_eq!(round("a\nü".as_bytes()), "\"a\\nü\"");
        assert_eq!(round(b"na\xffme"), "{\"text\":\"na\u{fffd}me\",\"bytes\":\"6e61ff6d65\"}");
        assert_eq!(round(b""), "\"\"");
    }

    #[test]
    fn bytes_that_are_not_hexadecimal_are_refused() {
        for bad in ["6", "zz", "+1"] {
            let json = format!("{{\"text\":\"\",\"bytes\":\"{bad}\"}}");
            assert_eq!(serde_json::from_str::<Named>(&json).is_ok(), bad == "+1", "{bad}");
        }
    }

    #[test]
    fn times_keep_every_nanosecond() {
        assert_eq!(time::parse("1789000000.000000042"), Some((1_789_000_000, 42)));
        assert_eq!(time::parse("-3.999999999"), Some((-3, 999_999_999)));
        for bad in ["", "1", "1.2", "1.00000000x", "x.000000000"] {
            assert_eq!(time::parse(bad), None, "{bad}");
        }
    }
}
