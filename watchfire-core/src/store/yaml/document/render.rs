//! Values as text, in the style of the spec's examples.

use serde_yaml::{Mapping, Value};

/// A value after its key: the part on the key's line, and the lines below.
pub(super) struct Rendered {
    pub(super) head: String,
    pub(super) body: Vec<String>,
}

impl Rendered {
    fn inline(head: impl Into<String>) -> Self {
        Self { head: head.into(), body: Vec::new() }
    }
}

/// Renders `value` below a key that is indented by `indent`.
pub(super) fn render(value: &Value, indent: usize) -> Rendered {
    match value {
        Value::String(text) => string(text, indent),
        Value::Sequence(items) if items.iter().any(|item| !is_plain(item)) => {
            let body = items.iter().flat_map(|item| self::item(item, indent + 2)).collect();
            Rendered { head: String::new(), body }
        }
        Value::Mapping(map) if !map.is_empty() => {
            Rendered { head: String::new(), body: entries(map, indent + 2) }
        }
        other => Rendered::inline(flow(other)),
    }
}

/// Renders the lines of a mapping.
pub(super) fn entries(map: &Mapping, indent: usize) -> Vec<String> {
    map.iter().flat_map(|(key, value)| entry(key, value, indent)).collect()
}

/// Renders the lines of one entry.
pub(super) fn entry(key: &Value, value: &Value, indent: usize) -> Vec<String> {
    let Rendered { head, body } = render(value, indent);
    let space = if head.is_empty() { "" } else { " " };
    let mut lines = vec![format!("{:indent$}{}:{space}{head}", "", self::key(key))];
    lines.extend(body);
    lines
}

/// Renders the lines of one item of a sequence.
pub(super) fn item(value: &Value, indent: usize) -> Vec<String> {
    let mut lines = match value {
        Value::Mapping(map) if !map.is_empty() => entries(map, indent + 2),
        other => return vec![format!("{:indent$}- {}", "", flow(other))],
    };
    if let Some(first) = lines.first_mut() {
        *first = format!("{:indent$}- {}", "", first.trim_start());
    }
    lines
}

/// Renders `value` in the quoting style of the scalar `old`.
pub(super) fn like(old: &str, value: &Value, indent: usize) -> Rendered {
    match value {
        Value::String(text) if is_word(text) && is_word(old) => Rendered::inline(text),
        // Between single quotes only the quote itself needs an escape, so any other text fits unchanged.
        Value::String(text)
            if old.starts_with('\'') && !text.contains(|c: char| c == '\'' || is_special(c)) =>
        {
            Rendered::inline(format!("'{text}'"))
        }
        other => render(other, indent),
    }
}

fn string(text: &str, indent: usize) -> Rendered {
    let body = text.strip_suffix('\n').unwrap_or(text);
    // Texts that a block scalar cannot hold, or holds only by rules that few readers implement, are quoted.
    let block = body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with('\n')
        && !body.chars().any(|c| c != '\n' && c != '\t' && is_special(c))
        && body.lines().last().is_some_and(|line| !line.trim().is_empty());
    if !block {
        return Rendered::inline(quote(text));
    }
    // Without the digit, a reader would take the first line's spaces for indentation.
    let leading = if body.starts_with([' ', '\t']) { "2" } else { "" };
    let chomp = if text.ends_with('\n') { "" } else { "-" };
    let body = body
        .split('\n')
        .map(|line| if line.is_empty() { String::new() } else { format!("{:1$}{line}", "", indent + 2) })
        .collect();
    Rendered { head: format!("|{leading}{chomp}"), body }
}

fn key(key: &Value) -> String {
    match key {
        Value::String(text) if is_word(text) => text.clone(),
        other => flow(other),
    }
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_) | Value::Number(_))
}

/// Renders a value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote(text),
        Value::Sequence(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Mapping(map) => {
            let entries: Vec<_> = map.iter().map(|(k, v)| format!("{}: {}", key(k), flow(v))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Tagged(tagged) => format!("{} {}", tagged.tag, flow(&tagged.value)),
    }
}

/// Returns true for text that every reader takes for the same string without quotes.
fn is_word(text: &str) -> bool {
    // YAML 1.1 readers take these for booleans or null.
    const OTHERS: &[&str] = &["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str())
}

/// Returns true for characters that YAML readers fold, forbid or do not show.
fn is_special(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{85}' | '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_special(c) => quoted.push_str(&match u32::from(c) {
                code @ 0..=0xff => format!("\\x{code:02X}"),
                code @ 0x100..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            }),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        entry(&"k".into(), &text.into(), 0).join("\n")
    }

    #[test]
    fn texts_look_as_in_the_spec() {
        assert_eq!(shown("a b"), "k: \"a b\"");
        assert_eq!(shown("a\nb\n"), "k: |\n  a\n  b");
        assert_eq!(shown("a\n\nb"), "k: |-\n  a\n\n  b");
        assert_eq!(shown("  a\nb\n"), "k: |2\n    a\n  b");
        assert_eq!(shown("a\nb\n\n"), "k: \"a\\nb\\n\\n\"");
        assert_eq!(shown("a\r\nb"), "k: \"a\\r\\nb\"");
    }

    proptest! {
        #[test]
        fn every_string_reads_back(text in "[ -~\\n\\t\\r:#'\"éß\u{85}\u{2028}\u{feff}\u{7f}]{0,40}", indent in 0_usize..3) {
            let mut lines = entry(&"k".into(), &Value::from(text.as_str()), indent * 2);
            lines.push(format!("{:1$}z: 1", "", indent * 2));
            let map: Mapping = serde_yaml::from_str(&lines.join("\n")).unwrap();
            prop_assert_eq!(map.get("k").and_then(Value::as_str), Some(text.as_str()));
            let single = like("'x'", &Value::from(text.as_str()), 0);
            let one = format!("k: {}\n{}\nz: 1", single.head, single.body.join("\n"));
            let map: Mapping = serde_yaml::from_str(&one).unwrap();
            prop_assert_eq!(map.get("k").and_then(Value::as_str), Some(text.as_str()));
        }
    }
}
