//! Points in time, in the form that files have them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, ErrorKind};

/// A point in time.
///
/// One that was parsed from RFC 3339 keeps its text, so that it is written back byte for byte; comparisons ignore the
/// text. A new one is written in UTC with whole seconds.
#[derive(Clone)]
pub struct Timestamp {
    at: jiff::Timestamp,
    text: Option<Box<str>>,
}

impl Timestamp {
    /// Creates a timestamp from milliseconds since 1970-01-01T00:00:00Z. Values out of range are clamped.
    #[must_use]
    pub fn from_unix_millis(millis: i64) -> Self {
        let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        Self { at, text: None }
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn unix_millis(&self) -> i64 {
        self.at.as_millisecond()
    }

    /// Returns the time that has passed since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        Duration::from_millis(
            u64::try_from(self.unix_millis().saturating_sub(earlier.unix_millis())).unwrap_or(0),
        )
    }

    /// Returns the timestamp that is later by `by`.
    #[must_use]
    pub fn plus(&self, by: Duration) -> Self {
        // A span that overflows ends at the last time that can be written.
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_unix_millis(self.unix_millis().saturating_add(millis))
    }

    /// Formats it for people, in the time zone of this machine: `2026-02-03 16:00 Europe/Lisbon`. Seconds show where they
    /// are not zero.
    #[must_use]
    pub fn local(&self) -> String {
        self.in_zone(jiff::tz::TimeZone::system())
    }

    fn in_zone(&self, zone: jiff::tz::TimeZone) -> String {
        let at = self.at.to_zoned(zone);
        let format = if at.second() == 0 { "%Y-%m-%d %H:%M %:Q" } else { "%Y-%m-%d %H:%M:%S %:Q" };
        at.strftime(format).to_string()
    }

    /// Returns its day in the time zone of this machine: `2026-02-03`.
    #[must_use]
    pub fn date(&self) -> String {
        self.at.to_zoned(jiff::tz::TimeZone::system()).date().to_string()
    }

    /// Formats it with milliseconds, for records: `2026-02-03T13:05:00.123Z`.
    #[must_use]
    pub(crate) fn to_millis_string(&self) -> String {
        format!("{:.3}", self.at)
    }

    /// Formats it for file names, in UTC: `2026-02-03T13-05-00`.
    #[must_use]
    pub(crate) fn to_file_name(&self) -> String {
        // Some file systems allow no colon in a name.
        format!("{:.0}", self.at).trim_end_matches('Z').replace(':', "-")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            // Whole seconds, as the Go edition writes them.
            None => write!(f, "{:.0}", self.at),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let at = text.trim().parse().map_err(|error: jiff::Error| {
            Error::new(
                ErrorKind::Malformed,
                "invalid timestamp, expected RFC 3339 such as 2026-02-03T13:05:00Z",
            )
            .with("value", format_args!("{text:?}"))
            .with_source(error)
        })?;
        // The text is kept, so that a file whose other fields change keeps this line byte for byte.
        Ok(Self { at, text: Some(text.into()) })
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timestamp {}

impl Hash for Timestamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Reads an optional timestamp. An empty string counts as missing, because agents write one.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(text) if !text.trim().is_empty() => text.parse().map(Some).map_err(serde::de::Error::custom),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written_back() {
        for text in ["2026-02-03T13:05:00Z", "2026-02-03T13:05:00.120+02:00", "2026-02-03t13:05:00z"] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(time.to_string(), text);
        }
        let a: Timestamp = "2026-02-03T13:05:00Z".parse().unwrap();
        let b: Timestamp = "2026-02-03T15:05:00+02:00".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(a.plus(Duration::from_secs(90)).since(&b), Duration::from_secs(90));
        assert_eq!(a.to_file_name(), "2026-02-03T13-05-00");
        assert_eq!(a.to_millis_string(), "2026-02-03T13:05:00.000Z");
    }

    #[test]
    fn people_read_it_in_their_zone() {
        let time: Timestamp = "2026-02-03T13:05:00Z".parse().unwrap();
        assert_eq!(time.in_zone(jiff::tz::TimeZone::UTC), "2026-02-03 13:05 UTC");
        let zone = jiff::tz::Offset::from_seconds(3600).unwrap().to_time_zone();
        assert_eq!(time.plus(Duration::from_secs(7)).in_zone(zone), "2026-02-03 14:05:07 +01:00");
    }

    #[test]
    fn made_by_us_it_has_whole_seconds() {
        assert_eq!(Timestamp::from_unix_millis(1_770_123_900_999).to_string(), "2026-02-03T13:05:00Z");
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!(Timestamp::from_unix_millis(i64::MAX) > Timestamp::from_unix_millis(0));
    }
}
