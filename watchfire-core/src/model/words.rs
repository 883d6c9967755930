//! What is wrong with a value, for people: serde speaks of the types of Rust.

/// Returns a message of serde with its types as the writer of a file knows them.
#[must_use]
pub fn in_words(message: &str) -> String {
    const EXPECTED: &str = ", expected ";
    // A number that no type holds.
    if let Some((before, found)) = message.split_once("invalid type: integer `")
        && let Some((found, _)) = found.split_once("` as ")
    {
        return format!("{before}expected a smaller number, or a text in quotes, found {found}");
    }
    let parts = |kind: &str| {
        let (before, rest) = message.split_once(kind)?;
        let (found, expected) = rest.rsplit_once(EXPECTED)?;
        Some((before, found, expected))
    };
    if let Some((before, found, expected)) = parts("invalid type: ") {
        return format!("{before}expected {}, found {}", wanted(expected), seen(found));
    }
    if let Some((before, found, expected)) = parts("invalid value: ") {
        return format!("{before}expected {}, found {}", within(expected), seen(found));
    }
    if let Some((before, found, expected)) = parts("unknown variant ") {
        let (found, expected) = (found.trim_matches('`'), expected.replace('`', ""));
        return format!("{before}unknown word {found:?}, expected {expected}");
    }
    message.to_owned()
}

/// Returns the words for a type whose bounds a value exceeds.
fn within(expected: &str) -> String {
    match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        other => wanted(other).to_owned(),
    }
}

fn wanted(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "str" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "keys with values",
        _ if expected.starts_with("struct ") => "keys with values",
        other => other,
    }
}

fn seen(found: &str) -> String {
    // As in `string "one"` and "integer `5`".
    let value = |kind: &str| found.strip_prefix(kind).map(|rest| rest.trim_matches('`'));
    if let Some(text) = value("string ") {
        return format!("the text {text}");
    }
    for kind in ["integer ", "floating point ", "boolean "] {
        if let Some(value) = value(kind) {
            return value.to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "keys with values".to_owned(),
        "unit value" | "null" => "nothing".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn no_type_of_rust_reaches_a_person() {
        fn read<T: serde::de::DeserializeOwned>(value: &Value) -> String {
            let error = T::deserialize(value).map(drop).unwrap_err();
            in_words(&error.to_string())
        }
        assert_eq!(read::<u32>(&json!("one")), "expected a whole number from 0 on, found the text \"one\"");
        assert_eq!(read::<bool>(&json!(1)), "expected true or false, found 1");
        assert_eq!(read::<String>(&json!([])), "expected a text, found a list");
        assert_eq!(read::<f64>(&json!({})), "expected a number, found keys with values");
        assert_eq!(read::<Vec<u8>>(&json!(null)), "expected a list, found nothing");
        assert_eq!(read::<BTreeMap<String, u8>>(&json!(true)), "expected keys with values, found true");
        assert_eq!(read::<u16>(&json!(99999)), "expected a whole number from 0 to 65535, found 99999");
        assert_eq!(read::<u64>(&json!(-1)), "expected a whole number from 0 on, found -1");
        assert_eq!(
            in_words("name: invalid type: integer `99999999999999999999` as u128, expected any YAML value"),
            "name: expected a smaller number, or a text in quotes, found 99999999999999999999"
        );
        assert_eq!(in_words("unknown variant `x`, expected `y`"), "unknown word \"x\", expected y");
        assert_eq!(
            in_words("status: unknown variant `x`, expected one of `y`, `z`"),
            "status: unknown word \"x\", expected one of y, z"
        );
        assert_eq!(
            in_words("a.b: invalid type: map, expected a string"),
            "a.b: expected a text, found keys with values"
        );
    }
}
