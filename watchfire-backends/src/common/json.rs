//! Reads JSON that other programs wrote. A value that is missing or of another type counts as absent, never as an
//! error.

use serde_json::Value;
use watchfire_core::backend::{Fact, Usage};
use watchfire_core::model::Timestamp;

/// Parses a line. Returns `None` for anything but an object.
pub(crate) fn object(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    value.is_object().then_some(value)
}

/// Returns the text at a path of keys, such as `message.id`.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// Returns the fact of the vendor's session id at a path of keys, if there is one.
pub(crate) fn session(value: &Value, path: &str) -> Vec<Fact> {
    text(value, path).map(|id| Fact::VendorSession(id.to_owned())).into_iter().collect()
}

/// Returns the flag at a path of keys. A missing flag is false.
pub(crate) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the number at a path of keys. A missing, negative or fractional number is 0.
pub(crate) fn number(value: &Value, path: &str) -> u64 {
    at(value, path).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns true if there is an exit code at a path of keys and it is not zero. A command that was ended may have
/// null, which counts as a failure.
pub(crate) fn exit_failed(value: &Value, path: &str) -> bool {
    at(value, path).is_some_and(|code| code.as_f64() != Some(0.0))
}

/// Returns the value at a path of keys.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

/// Returns the elements of a list. Empty for anything else.
pub(crate) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the time at a path of keys.
pub(crate) fn moment(value: &Value, path: &str) -> Option<Timestamp> {
    text(value, path)?.parse().ok()
}

/// Returns the token counts at a path of keys, by the provider's names for input, output, cache read and cache write.
/// Returns `None` if there is no object at the path.
pub(crate) fn usage(value: &Value, path: &str, names: [&str; 4]) -> Option<Usage> {
    let counts = at(value, path).filter(|counts| counts.is_object())?;
    let mut usage = Usage::default();
    usage.input_tokens = number(counts, names[0]);
    usage.output_tokens = number(counts, names[1]);
    usage.cache_read_tokens = number(counts, names[2]);
    usage.cache_write_tokens = number(counts, names[3]);
    Some(usage)
}

/// Returns the token counts of a provider that counts cached tokens as input too. Here they count once.
pub(crate) fn usage_with_cache(value: &Value, path: &str, names: [&str; 4]) -> Option<Usage> {
    let mut counted = usage(value, path, names)?;
    // Counts that contradict this stay as they are.
    let fresh = counted.input_tokens.checked_sub(counted.cache_read_tokens);
    counted.input_tokens = fresh.unwrap_or(counted.input_tokens);
    Some(counted)
}

/// Returns one line about the input of a tool: its most telling value, or the whole input.
pub(crate) fn summary(input: &Value) -> String {
    const TELLING: &[&str] = &[
        "command",
        "cmd",
        "file_path",
        "filePath",
        "absolute_path",
        "path",
        "pattern",
        "query",
        "url",
        "prompt",
        "description",
    ];
    // In the order of the list: of several such values the first says most about the call.
    let telling = TELLING.iter().find_map(|key| match input.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    });
    one_line(&telling.unwrap_or_else(|| match input {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }))
}

/// Returns the text on one line, cut after 200 characters.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 200;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Counted in characters, so that the cut is never inside one.
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}
