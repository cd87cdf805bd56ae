//! Moments as people type them: `2h` ago, a date, a time as in RFC 3339. Without a zone it is UTC, as in the log.

use std::str::FromStr;

use jiff::{Timestamp, civil};

/// A moment in milliseconds since the epoch, as the log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAMoment(String);

impl std::error::Error for NotAMoment {}

impl std::fmt::Display for NotAMoment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} is not a moment: 90s, 30m, 2h, 7d or 4w (ago), 2026-01-31, 2026-01-31T12:00 or 2026-01-31T12:00:00Z",
            self.0
        )
    }
}

impl FromStr for Moment {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        parse(text.trim(), now).map(Moment).ok_or_else(|| NotAMoment(text.to_owned()))
    }
}

fn parse(text: &str, now: u64) -> Option<u64> {
    if let Some(ago) = ago(text) {
        return Some(now.saturating_sub(ago));
    }
    let timestamp = match text.parse::<Timestamp>() {
        Ok(timestamp) => timestamp,
        Err(_) => {
            let moment = text.parse::<civil::DateTime>().ok();
            let moment = moment.or_else(|| Some(text.parse::<civil::Date>().ok()?.at(0, 0, 0, 0)))?;
            moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()
        }
    };
    u64::try_from(timestamp.as_millisecond()).ok()
}

fn ago(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_relative_or_dates_or_times() {
        let now = 1_800_000_000_000;
        let at = |text: &str| parse(text, now);
        assert_eq!(at("2h"), Some(now - 7_200_000));
        assert_eq!(at("30m"), Some(now - 1_800_000));
        assert_eq!(at("7d"), Some(now - 604_800_000));
        assert_eq!(at("1000w"), Some(now - 604_800_000_000));
        assert_eq!(at("99999999w"), Some(0));
        assert_eq!(at("1970-01-02"), Some(86_400_000));
        assert_eq!(at("1970-01-01T01:00"), Some(3_600_000));
        assert_eq!(at("1970-01-01T01:00:00.5Z"), Some(3_600_500));
        assert_eq!(at("1970-01-01T01:00:00+01:00"), Some(0));
        for bad in ["", "h", "2", "2 hours", "yesterday", "2026-13-01", "-2h", "99999999999999999999h"] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert!("soon".parse::<Moment>().unwrap_err().to_string().contains("7d"));
    }
}
