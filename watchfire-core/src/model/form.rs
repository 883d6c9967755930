//! Texts that have a form: time spans and colours.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{Error, ErrorKind, Result};

/// Parses a duration: `500ms`, `90s`, `45m`, `2h`, `1d`, or a plain number of seconds.
///
/// # Errors
/// `invalid_input` for anything else, with examples of valid texts.
pub fn duration(text: &str) -> Result<Duration> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let millis = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let value = digits.parse::<u64>().ok().zip(millis).and_then(|(value, unit)| value.checked_mul(unit));
    value.filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "invalid duration, expected 90s, 45m or 2h")
            .with("value", format_args!("{text:?}"))
    })
}

/// Rejects what is no `#rrggbb`. An empty text is no colour at all, and fine.
pub(crate) fn check_color(text: &str) -> Result<()> {
    let digits = text.strip_prefix('#').unwrap_or_default();
    if text.is_empty() || (digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, "not a colour, expected #rrggbb")
        .with("value", format_args!("{text:?}")))
}

/// Reads a colour. Nothing is no colour.
pub(super) fn color<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(d)?.unwrap_or_default();
    check_color(&text).map_err(in_file::<D>)?;
    Ok(text)
}

/// Reads the text of a time span. An empty one counts as missing.
pub(super) fn time_span<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(d)?.filter(|text| !text.trim().is_empty());
    text.as_deref().map_or(Ok(()), |text| duration(text).map(drop)).map_err(in_file::<D>)?;
    Ok(text)
}

/// Returns the error as serde has it, to which the reader of the file adds key and line.
fn in_file<'de, D: Deserializer<'de>>(error: Error) -> D::Error {
    D::Error::custom(format_args!("{}, found {}", error.message(), error.detail("value").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Project;

    #[test]
    fn what_has_another_form_is_refused() {
        let read = |key: &str, value: Value| {
            let mut project = json!({ "version": 1, "project_id": "p", "name": "n" });
            project[key] = value;
            serde_json::from_value::<Project>(project)
        };
        for (key, text, expected) in [
            ("color", "nothex", "not a colour, expected #rrggbb, found \"nothex\""),
            ("color", "#12345g", "not a colour, expected #rrggbb, found \"#12345g\""),
            ("time_limit", "2 weeks", "invalid duration, expected 90s, 45m or 2h, found \"2 weeks\""),
            ("stall_after", "0s", "invalid duration, expected 90s, 45m or 2h, found \"0s\""),
        ] {
            assert_eq!(read(key, text.into()).unwrap_err().to_string(), expected);
        }
        assert_eq!(read("color", "#1f6FEB".into()).unwrap().color, "#1f6FEB");
        // In YAML a colour without quotes is a comment.
        assert_eq!(read("color", Value::Null).unwrap().color, "");
        assert_eq!(read("time_limit", "90m".into()).unwrap().time_limit.as_deref(), Some("90m"));
        assert_eq!(read("stall_after", " ".into()).unwrap().stall_after, None);
    }
}
