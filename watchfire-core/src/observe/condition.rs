//! Conditions: what a watch waits for, and their text.

use std::fmt;
use std::str::FromStr;

use super::delivery::DeliveryState;
use super::record::RecordKind;
use crate::backend::{IssueKind, Status};
use crate::{Error, ErrorKind};

/// Maximum depth of lists in lists.
const DEPTH: usize = 8;
/// Maximum number of conditions in one text.
const PARTS: usize = 64;

/// A condition that a watch waits for.
///
/// Its text is `status:idle`, `output:DONE`, `transcript:DONE`, `event:turn_completed`, `delivery:submitted`, `issue:usage_limit`,
/// `issue:any`, or a list of these: `any(status:idle, issue:any)`, `all(output:DONE, status:idle)`. In a list, a condition
/// with a comma, a parenthesis or a quotation mark stands in double quotes, with `\"` and `\\` inside.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Condition {
    /// All of these have come true, each at its own time.
    All(Vec<Self>),
    /// One of these comes true.
    Any(Vec<Self>),
    /// A delivery reaches this state.
    Delivery(DeliveryState),
    /// An event or a lifecycle record has this name.
    Event(String),
    /// An issue of this kind begins, or any issue.
    Issue(Option<IssueKind>),
    /// The sanitised output, or a message of the agent, contains this text.
    Output(String),
    /// The status changes to this one.
    Status(Status),
    /// A message of the agent contains this text.
    Transcript(String),
}

impl Condition {
    /// Returns the kinds of records that can satisfy the condition.
    pub(super) fn kinds(&self) -> Vec<RecordKind> {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                let mut kinds: Vec<_> = parts.iter().flat_map(Self::kinds).collect();
                kinds.sort_unstable();
                kinds.dedup();
                kinds
            }
            Self::Delivery(_) => vec![RecordKind::Delivery],
            Self::Event(_) => vec![RecordKind::Event, RecordKind::Lifecycle],
            Self::Issue(_) => vec![RecordKind::Issue],
            Self::Output(_) => vec![RecordKind::Output, RecordKind::Transcript],
            Self::Status(_) => vec![RecordKind::Status],
            Self::Transcript(_) => vec![RecordKind::Transcript],
        }
    }

    fn parse(text: &str, depth: usize) -> Result<Self, Error> {
        let failed = |kind, message| Err(Error::new(kind, message).with("until", format_args!("{text:?}")));
        for (word, list) in [("any(", Self::Any as fn(_) -> _), ("all(", Self::All)] {
            let Some(rest) = text.strip_prefix(word) else { continue };
            let parts = rest.strip_suffix(')').and_then(split);
            let Some(parts) = parts.filter(|parts| depth < DEPTH && parts.len() <= PARTS) else {
                return failed(
                    ErrorKind::InvalidInput,
                    "not a list of watch conditions, expected one such as any(status:idle, \"output:a, b\")",
                );
            };
            return parts.iter().map(|part| Self::parse(part, depth + 1)).collect::<Result<_, _>>().map(list);
        }
        // An empty value is refused: every output contains the empty text.
        let Some((what, value)) = text.split_once(':').filter(|(_, value)| !value.is_empty()) else {
            return failed(
                ErrorKind::InvalidInput,
                "not a watch condition, expected one such as status:idle, output:TEXT, event:turn_completed, \
                 issue:any or delivery:submitted",
            );
        };
        // Through serde, so that the names are those of the wire.
        let word = || serde_json::Value::from(value);
        let known = match what {
            "delivery" => serde_json::from_value(word()).ok().map(Self::Delivery),
            "event" => Some(Self::Event(value.to_owned())),
            "issue" if value == "any" => Some(Self::Issue(None)),
            "issue" => serde_json::from_value(word()).ok().map(|kind| Self::Issue(Some(kind))),
            "output" => Some(Self::Output(value.to_owned())),
            "status" => serde_json::from_value(word()).ok().map(Self::Status),
            "transcript" => Some(Self::Transcript(value.to_owned())),
            _ => None,
        };
        known.map_or_else(
            || {
                failed(
                    ErrorKind::UnsupportedWatchCondition,
                    "this condition cannot be observed, expected status:, output:, transcript:, event:, issue: or \
                     delivery: (pending, submitted, failed)",
                )
            },
            Ok,
        )
    }
}

/// Returns the parts of a list, or `None` for text that is none: an empty part, or a quotation without an end.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0_usize);
    // True for a part that was quoted. It is taken as it is.
    let mut quoted = false;
    let mut end = |part: &mut String, quoted: &mut bool| {
        let whole = std::mem::take(part);
        let whole = if std::mem::take(quoted) { whole } else { whole.trim().to_owned() };
        let is_empty = whole.is_empty();
        parts.push(whole);
        !is_empty
    };
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if depth == 0 && part.trim().is_empty() && !quoted => {
                (part, quoted) = (String::new(), true);
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => part.push(letters.next()?),
                        other => part.push(other),
                    }
                }
            }
            // Inside a list in this list, quotations are copied for its own turn.
            '"' if depth > 0 => {
                part.push('"');
                loop {
                    let inside = letters.next()?;
                    part.push(inside);
                    match inside {
                        '"' => break,
                        '\\' => part.push(letters.next()?),
                        _ => {}
                    }
                }
            }
            ',' if depth == 0 => {
                if !end(&mut part, &mut quoted) {
                    return None;
                }
            }
            blank if quoted && blank.is_whitespace() => {}
            _ if quoted => return None,
            _ => {
                match letter {
                    '(' => depth += 1,
                    ')' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                part.push(letter);
            }
        }
    }
    (depth == 0 && end(&mut part, &mut quoted)).then_some(parts)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let mut list = |name, parts: &[Self]| {
            write!(f, "{name}(")?;
            for (index, part) in parts.iter().enumerate() {
                let text = part.to_string();
                let is_list = matches!(part, Self::All(_) | Self::Any(_));
                let is_plain = !text.contains(['"', '\\', ',', '(', ')']) && text.trim() == text;
                f.write_str(if index > 0 { ", " } else { "" })?;
                if is_list || is_plain {
                    f.write_str(&text)?;
                } else {
                    write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))?;
                }
            }
            f.write_str(")")
        };
        match self {
            Self::All(parts) => list("all", parts),
            Self::Any(parts) => list("any", parts),
            Self::Delivery(state) => write!(f, "delivery:{}", state.as_str()),
            Self::Event(name) => write!(f, "event:{name}"),
            Self::Issue(None) => f.write_str("issue:any"),
            Self::Issue(Some(kind)) => write!(f, "issue:{}", word(serde_json::json!(kind))),
            Self::Output(text) => write!(f, "output:{text}"),
            Self::Status(status) => write!(f, "status:{}", status.as_str()),
            Self::Transcript(text) => write!(f, "transcript:{text}"),
        }
    }
}

impl FromStr for Condition {
    type Err = Error;

    /// # Errors
    /// `unsupported_watch_condition` for a well-formed condition that cannot be observed; `invalid_input` for text of
    /// another form, and for lists that are too long or too deep.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text, 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn conditions_survive_their_text() {
        for text in [
            "status:idle",
            "output:a:b c",
            "event:turn_completed",
            "delivery:failed",
            "transcript:any(x",
            "issue:any",
            "issue:usage_limit",
            "any(status:idle, all(output:x, \"transcript:a, \\\"b\\\" (c)\"), issue:any)",
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        // Outside of a list nothing is quoted.
        assert_eq!("output:a, b)".parse::<Condition>().unwrap(), Condition::Output("a, b)".to_owned()));
    }

    #[test]
    fn an_unsupported_condition_differs_from_malformed_text() {
        for text in ["weather:sunny", "status:bored", "delivery:lost", "issue:weather", "any(weather:sunny)"]
        {
            assert_eq!(
                text.parse::<Condition>().unwrap_err().code(),
                "unsupported_watch_condition",
                "{text}"
            );
        }
        let deep = format!("{}status:idle{}", "any(".repeat(100), ")".repeat(100));
        let long = format!("any({})", vec!["status:idle"; 100].join(","));
        for text in
            ["", "idle", "status:", "output:", "any()", "any(status:idle", "any(status:idle,)", &deep, &long]
        {
            assert_eq!(text.parse::<Condition>().unwrap_err().code(), "invalid_input", "{text}");
        }
        for text in ["any(\"output:x)", "any(\"output:x\" y)", "any(status:idle))", "any(output:a(b)"] {
            assert_eq!(text.parse::<Condition>().unwrap_err().code(), "invalid_input", "{text}");
        }
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let text = "[ab,() \"\\\\]{0,5}x[ab,() \"\\\\]{0,5}";
        let leaf = prop_oneof![
            text.prop_map(Condition::Output),
            text.prop_map(Condition::Transcript),
            Just(Condition::Status(Status::Idle)),
            Just(Condition::Issue(None)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(Condition::Any),
                proptest::collection::vec(inner, 1..4).prop_map(Condition::All),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_condition_survives_its_text(wanted in condition()) {
            prop_assert_eq!(wanted.to_string().parse::<Condition>().unwrap(), wanted);
        }

        #[test]
        fn no_text_panics(text in "(any|all)\\([a-z:,() \"\\\\]{0,20}\\)?") {
            let _ = text.parse::<Condition>();
        }
    }
}
