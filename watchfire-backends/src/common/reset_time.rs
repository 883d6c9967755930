//! Parses the end of a limit from the words in which an agent reports it.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};

use watchfire_core::backend::Issue;
use watchfire_core::model::Timestamp;

/// Words after which a time follows.
const ANCHORS: [&str; 5] = ["reset", "try again", "retry", "available again", "automatically at"];
/// Number of words after an anchor that are examined.
const WORDS: usize = 14;
/// Age up to which a time of day still means today: the message was written a moment ago.
const SLACK_SECONDS: i64 = 120;
/// Longest limit that is believed: no vendor limits an account for longer.
const LONGEST_SECONDS: i64 = 400 * 24 * 3600;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Returns the time at which `issue` ends by its own words, on the clock of this machine's time zone.
pub(crate) fn of(issue: &Issue, now: &Timestamp) -> Option<Timestamp> {
    parse(&issue.message, now, &TimeZone::system())
}

/// Returns the time that `message` names. It may be absolute, a time of day with or without a date and a zone
/// (`local` if there is none), or a duration from `now`.
fn parse(message: &str, now: &Timestamp, local: &TimeZone) -> Option<Timestamp> {
    let lower = message.to_ascii_lowercase();
    let now = jiff::Timestamp::from_millisecond(now.unix_millis()).ok()?;
    let found = ANCHORS.iter().flat_map(|anchor| lower.match_indices(anchor)).find_map(|(at, _)| {
        let words: Vec<&str> = message
            .get(at..)?
            .split(|c: char| c.is_whitespace() || ",()[]·;|".contains(c))
            .map(|word| word.trim_matches(|c: char| ".!?\"'`".contains(c)))
            .filter(|word| !word.is_empty())
            .take(WORDS)
            .collect();
        words
            .iter()
            .find_map(|word| word.parse::<jiff::Timestamp>().ok())
            .or_else(|| duration(&words, now))
            .or_else(|| time(&words, now, local))
    })?;
    // A time outside of these bounds was misread.
    let ahead = found.as_second() - now.as_second();
    (-SLACK_SECONDS..=LONGEST_SECONDS)
        .contains(&ahead)
        .then(|| Timestamp::from_unix_millis(found.as_millisecond()))
}

/// Parses a duration such as `in 2 hours 5 minutes` or `after 8h2m1s`.
fn duration(words: &[&str], now: jiff::Timestamp) -> Option<jiff::Timestamp> {
    let start =
        words.iter().position(|word| ["in", "after"].contains(&word.to_ascii_lowercase().as_str()))?;
    let (mut seconds, mut number, mut any) = (0.0, None, false);
    for word in words.get(start + 1..)? {
        let mut rest: &str = &word.to_ascii_lowercase();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            if digits > 0 {
                let (value, more) = rest.split_at(digits);
                (number, rest) = (value.parse::<f64>().ok(), more);
                continue;
            }
            let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (unit, more) = rest.split_at(end);
            rest = more;
            // A word without a number in front of it ends the duration.
            let Some(value) = number.take() else { break };
            seconds += value * unit_seconds(unit)?;
            any = true;
        }
        if number.is_none() && !any {
            return None;
        }
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float that is too large becomes the largest number"
    )]
    let seconds = seconds.ceil() as i64;
    if !any || seconds > LONGEST_SECONDS {
        return None;
    }
    now.checked_add(Span::new().try_seconds(seconds).ok()?).ok()
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    })
}

/// Parses a time of day such as `11:21pm (UTC)`, `at 11:17 PM`, `Nov 25, 3am (Europe/Berlin)` or `23:21 UTC`.
fn time(words: &[&str], now: jiff::Timestamp, local: &TimeZone) -> Option<jiff::Timestamp> {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let (place, time) = lower
        .iter()
        .enumerate()
        .find_map(|(at, word)| Some((at, clock(word, lower.get(at + 1).map(String::as_str))?)))?;
    let zone = words.iter().skip(place + 1).find_map(|word| zone(word)).unwrap_or_else(|| local.clone());
    let today = now.to_zoned(zone.clone());
    let at = |date: Date| date.to_datetime(time).to_zoned(zone.clone()).ok();
    let month = |word: &str| MONTHS.iter().position(|month| word.starts_with(month) && word.len() <= 9);
    if let Some((at_word, month)) = lower.iter().enumerate().find_map(|(at, word)| Some((at, month(word)?))) {
        let day = lower.get(at_word + 1)?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        let year = lower.iter().find_map(|word| word.parse::<i16>().ok().filter(|year| *year > 2000));
        let month = i8::try_from(month + 1).ok()?;
        let date = |year| Date::new(year, month, day).ok();
        let this = date(year.unwrap_or(today.year()))?;
        // A date without a year that is over by more than a day means the next year.
        let passed = year.is_none() && this < today.date().checked_sub(Span::new().days(1)).ok()?;
        return Some(at(if passed { date(today.year() + 1)? } else { this })?.timestamp());
    }
    let weekday =
        lower.iter().find_map(|word| DAYS.iter().position(|day| word.starts_with(day) && word.len() <= 9));
    let first = |moment: &Zoned| moment.timestamp().as_second() + SLACK_SECONDS >= now.as_second();
    let fits = |moment: &Zoned| {
        weekday.is_none_or(|day| {
            i8::try_from(day).is_ok_and(|day| moment.weekday().to_monday_zero_offset() == day)
        })
    };
    // Today and the seven days after it: a weekday whose time is over today means the one next week.
    (0..8)
        .filter_map(|days| at(today.date().checked_add(Span::new().days(days)).ok()?))
        .find(|moment| first(moment) && fits(moment))
        .map(|moment| moment.timestamp())
}

/// Parses a clock time such as `3am`, `11:21pm`, `11:17` in front of `PM`, or `23:21`.
fn clock(word: &str, next: Option<&str>) -> Option<Time> {
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        _ => match next {
            Some("am") => (word, Some(0)),
            Some("pm") => (word, Some(12)),
            _ => (word, None),
        },
    };
    let mut parts = digits.split(':');
    let hour: i8 = parts.next()?.parse().ok()?;
    let minute = match (parts.next(), half) {
        (Some(minute), _) => minute.parse().ok()?,
        (None, Some(_)) => 0,
        // A bare number may be anything, such as a count of attempts.
        (None, None) => return None,
    };
    let second = parts.next().map_or(Ok(0), str::parse).ok()?;
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

fn zone(word: &str) -> Option<TimeZone> {
    match word {
        "UTC" | "GMT" | "Z" | "utc" | "gmt" => Some(TimeZone::UTC),
        // Only names of the time zone database, which have a slash. Other words are part of the sentence.
        _ if word.contains('/') => TimeZone::get(word).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sunday.
    const NOW: &str = "2026-11-22T20:00:00Z";

    fn said(message: &str) -> Option<String> {
        let now: Timestamp = NOW.parse().unwrap();
        let local = TimeZone::fixed(jiff::tz::offset(-5));
        parse(message, &now, &local)
            .map(|at| jiff::Timestamp::from_millisecond(at.unix_millis()).unwrap().to_string())
    }

    #[test]
    fn every_form_that_agents_use() {
        for (message, expected) in [
            ("You've hit your 5-hour limit · resets 11:21pm (UTC)", "2026-11-22T23:21:00Z"),
            ("You've hit your 5-hour limit · resets 3am (UTC)", "2026-11-23T03:00:00Z"),
            ("Usage limit reached · set to continue automatically at 11:21pm", "2026-11-23T04:21:00Z"),
            ("You've hit your weekly limit · resets Nov 25, 3pm (Europe/Berlin)", "2026-11-25T14:00:00Z"),
            (
                "You’ve hit your usage limit. Upgrade to Pro (...) or try again at 11:17 PM.",
                "2026-11-23T04:17:00Z",
            ),
            ("try again at Nov 25th, 2026 11:17 PM.", "2026-11-26T04:17:00Z"),
            ("try again at Jan 2, 9:00 AM", "2027-01-02T14:00:00Z"),
            ("limit reached, resets Monday 9am (UTC)", "2026-11-23T09:00:00Z"),
            ("resets Sunday 9am (UTC)", "2026-11-29T09:00:00Z"),
            ("Try again in 5 days 3 hours 20 minutes.", "2026-11-27T23:20:00Z"),
            ("Your quota will reset after 8h2m1s.", "2026-11-23T04:02:01Z"),
            ("You exceeded your current quota. Please retry in 1.5s.", "2026-11-22T20:00:02Z"),
            ("resets at 2026-11-22T22:00:00+00:00", "2026-11-22T22:00:00Z"),
            ("resets 19:59 UTC", "2026-11-22T19:59:00Z"),
            ("resets 19:00 (UTC)", "2026-11-23T19:00:00Z"),
            ("resets 1:30am (America/New_York)", "2026-11-23T06:30:00Z"),
        ] {
            assert_eq!(said(message).as_deref(), Some(expected), "{message}");
        }
    }

    #[test]
    fn other_words_are_no_time() {
        for message in [
            "",
            "Please try again later.",
            "retry 3 of 10",
            "Request rejected (429) · try again in a moment",
            "resets 25:00 (UTC)",
            "resets 13pm",
            "try again in 99999999999999999999 days",
            "at 11:17 PM something else",
            "try again at 11 o'clock",
        ] {
            assert_eq!(said(message), None, "{message}");
        }
    }
}
