//! Texts that have a form: time spans, colours, paths and words.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Error, ErrorKind, Result};

/// Colours of the terminal interface.
pub(super) const THEMES: &[&str] = &["dark", "light"];
/// Events of which a person can be told.
const EVENTS: &[&str] = &["asks", "limited", "held", "failed", "over"];

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

/// A text, or a number that stands for itself: in JSON they are two.
struct Span(String);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time span such as 45m")
    }

    fn visit_str<E>(self, text: &str) -> Result<Span, E> {
        Ok(Span(text.to_owned()))
    }

    fn visit_u64<E>(self, seconds: u64) -> Result<Span, E> {
        Ok(Span(seconds.to_string()))
    }

    fn visit_i64<E>(self, seconds: i64) -> Result<Span, E> {
        Ok(Span(seconds.to_string()))
    }
}

fn span<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Span>::deserialize(d)?.map(|span| span.0))
}

/// Reads the text of a time span. An empty one counts as missing.
pub(super) fn time_span<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = span(d)?.filter(|text| !text.trim().is_empty());
    text.as_deref().map_or(Ok(()), |text| duration(text).map(drop)).map_err(in_file::<D>)?;
    Ok(text)
}

/// Reads the text of a time span, or `never`. An empty one counts as missing.
pub(super) fn time_span_or_never<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = span(d)?.unwrap_or_default();
    if !["", "never"].contains(&text.trim()) {
        duration(&text).map_err(in_file::<D>)?;
    }
    Ok(text)
}

/// Rejects 0 where at least one is meant.
pub(crate) fn check_count(number: Option<u32>) -> Result<()> {
    match number {
        Some(0) => {
            Err(Error::new(ErrorKind::InvalidInput, "expected a whole number from 1 on").with("value", 0))
        }
        _ => Ok(()),
    }
}

/// Rejects commands of the shell that do nothing, and so succeed.
pub(crate) fn check_lines(commands: &[String]) -> Result<()> {
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    match commands.iter().find(|command| command.lines().all(says_nothing)) {
        Some(empty) => Err(Error::new(ErrorKind::InvalidInput, "a command that does nothing")
            .with("value", format_args!("{empty:?}"))),
        None => Ok(()),
    }
}

/// Reads a number from 1 on.
pub(super) fn from_one<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<u32>::deserialize(d)?;
    check_count(number).map_err(in_file::<D>)?;
    Ok(number)
}

/// Reads commands of the shell, each of which does something.
pub(super) fn commands<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let commands = Option::<Vec<String>>::deserialize(d)?.unwrap_or_default();
    check_lines(&commands).map_err(in_file::<D>)?;
    Ok(commands)
}

/// Reads names of environment variables, and prefixes of names that end in `*`.
pub(super) fn variables<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let names = Option::<Vec<String>>::deserialize(d)?.unwrap_or_default();
    let is_name = |name: &str| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(part) && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match names.iter().find(|name| name.is_empty() || !is_name(name.strip_suffix('*').unwrap_or(name))) {
        Some(wrong) => Err(D::Error::custom(format_args!("expected names of variables, found {wrong:?}"))),
        None => Ok(names),
    }
}

/// Reads ports.
pub(super) fn ports<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u16>, D::Error> {
    let ports = Option::<Vec<u16>>::deserialize(d)?.unwrap_or_default();
    match ports.contains(&0) {
        true => Err(D::Error::custom("expected ports from 1 to 65535, found 0")),
        false => Ok(ports),
    }
}

/// Reads one of the [`THEMES`].
pub(super) fn theme<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let word = Option::<String>::deserialize(d)?.filter(|word| !word.is_empty());
    word.iter().try_for_each(|word| one_of(word, THEMES)).map_err(in_file::<D>)?;
    Ok(word)
}

/// Reads some of the [`EVENTS`].
pub(super) fn events<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<String>>, D::Error> {
    let words = Option::<Vec<String>>::deserialize(d)?;
    words.iter().flatten().try_for_each(|word| one_of(word, EVENTS)).map_err(in_file::<D>)?;
    Ok(words)
}

fn one_of(word: &str, words: &[&str]) -> Result<()> {
    if words.contains(&word) {
        return Ok(());
    }
    let expected = format!("unknown word, expected one of {}", words.join(", "));
    Err(Error::new(ErrorKind::InvalidInput, expected).with("value", format_args!("{word:?}")))
}

/// Returns an entry as a path of plain names, none of which is git's or ours.
pub(crate) fn below_root(entry: &str) -> Result<PathBuf> {
    let parts = Path::new(entry).components().filter(|part| *part != Component::CurDir);
    let parts: Option<Vec<_>> = parts
        .map(|part| match part {
            Component::Normal(name) => Some(name)
                .filter(|name| ![".git", ".watchfire"].iter().any(|own| name.eq_ignore_ascii_case(own))),
            _ => None,
        })
        .collect();
    match parts {
        Some(parts) if !parts.is_empty() => Ok(parts.into_iter().collect()),
        _ => Err(Error::new(ErrorKind::InvalidInput, "not a path below the project's root")
            .with("value", format_args!("{entry:?}"))),
    }
}

/// Reads paths below the project's root.
pub(super) fn paths_below_root<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let paths = Option::<Vec<String>>::deserialize(d)?.unwrap_or_default();
    paths.iter().try_for_each(|path| below_root(path).map(drop)).map_err(in_file::<D>)?;
    Ok(paths)
}

/// Reads paths that lead from the project's root to other folders.
pub(super) fn paths_from_root<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let paths = Option::<Vec<String>>::deserialize(d)?.unwrap_or_default();
    let is_relative =
        |path: &String| !path.is_empty() && Path::new(path).is_relative() && !path.starts_with('~');
    if let Some(path) = paths.iter().find(|path| !is_relative(path)) {
        let expected = "expected a path relative to the project, such as ../lib";
        let error = Error::new(ErrorKind::InvalidInput, expected);
        return Err(in_file::<D>(error.with("value", format_args!("{path:?}"))));
    }
    Ok(paths)
}

/// Reads paths anywhere, where `~` stands for the home folder.
pub(super) fn places<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Option::<Vec<PathBuf>>::deserialize(d)?.unwrap_or_default();
    let is_place = |path: &PathBuf| {
        let is_normal =
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        is_normal && (path.is_absolute() || path.starts_with("~"))
    };
    if let Some(path) = paths.iter().find(|path| !is_place(path)) {
        let expected = "expected a path from / or ~ without . or ..";
        let error = Error::new(ErrorKind::InvalidInput, expected);
        return Err(in_file::<D>(error.with("value", format_args!("{path:?}"))));
    }
    Ok(paths)
}

/// Returns the error as serde has it, to which the reader of the file adds key and line.
fn in_file<'de, D: Deserializer<'de>>(error: Error) -> D::Error {
    D::Error::custom(format_args!("{}, found {}", error.message(), error.detail("value").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::{Project, Settings};

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
        for (key, paths, is_good) in [
            ("share", json!(["target", "./a/b"]), true),
            ("share", json!(["../target"]), false),
            ("copy", json!(["/etc/passwd"]), false),
            ("protected", json!([".git/config"]), false),
            ("protected", json!(["ci/", "a"]), true),
            ("repositories", json!(["../lib", "../../more"]), true),
            ("repositories", json!(["/srv/lib"]), false),
            ("repositories", json!(["~/lib"]), false),
            ("sandbox_rules", json!({ "deny": ["~/x", "/y"] }), true),
            ("sandbox_rules", json!({ "deny": ["x"] }), false),
            ("sandbox_rules", json!({ "deny": ["~/../x"] }), false),
            ("verify", json!([""]), false),
            ("verify", json!(["make", " # nothing\n"]), false),
            ("setup", json!([null]), false),
            ("setup", json!(["# all of it\nmake"]), true),
            ("max_parallel", json!(0), false),
            ("max_parallel", json!(null), true),
            ("merge", json!({ "batch": 0 }), false),
            ("merge", json!({ "batch": 3 }), true),
        ] {
            assert_eq!(read(key, paths.clone()).is_ok(), is_good, "{key}: {paths}");
        }
        for (settings, is_good) in [
            (json!({ "tui": { "theme": "pink" } }), false),
            (json!({ "tui": { "theme": "light" } }), true),
            (json!({ "notify": { "events": ["asks", "foo"] } }), false),
            (json!({ "notify": { "events": ["asks", "over"] } }), true),
            (json!({ "defaults": { "prune_every": "x" } }), false),
            (json!({ "defaults": { "prune_every": "never", "stop_without_clients": "10s" } }), true),
            (json!({ "sandbox": { "write": ["rel"] } }), false),
            (json!({ "sandbox": { "pass_env": ["A_1", "B_*", "_"] } }), true),
            (json!({ "sandbox": { "pass_env": ["A B"] } }), false),
            (json!({ "sandbox": { "pass_env": ["*"] } }), true),
            (json!({ "sandbox": { "pass_env": [""] } }), false),
            (json!({ "agents": { "codex": { "pass_env": ["A=B"] } } }), false),
            (json!({ "sandbox": { "deny_ports": [22, 0] } }), false),
            (json!({ "sandbox": { "deny_ports": [22, 65535] } }), true),
        ] {
            assert_eq!(serde_json::from_value::<Settings>(settings.clone()).is_ok(), is_good, "{settings}");
        }
        assert_eq!(read("color", "#1f6FEB".into()).unwrap().color, "#1f6FEB");
        // In YAML a colour without quotes is a comment.
        assert_eq!(read("color", Value::Null).unwrap().color, "");
        assert_eq!(read("time_limit", "90m".into()).unwrap().time_limit.as_deref(), Some("90m"));
        assert_eq!(read("stall_after", " ".into()).unwrap().stall_after, None);
        assert_eq!(read("stall_after", 90.into()).unwrap().stall_after.as_deref(), Some("90"));
        let told = read("stall_after", json!([1])).unwrap_err().to_string();
        assert!(told.ends_with("expected a time span such as 45m"), "{told}");
    }
}
