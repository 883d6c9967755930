//! Conditions: parsing them, and matching them against records.

use std::fmt;
use std::str::FromStr;

use super::record::{Body, DeliveryState, Record, RecordKind};
use crate::backend::Status;
use crate::{Error, ErrorKind};

/// A condition that a watch waits for: `status:idle`, `output:DONE`, `event:turn_completed`, `delivery:submitted`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Condition {
    /// A delivery reaches this state.
    Delivery(DeliveryState),
    /// An event or a lifecycle record has this name.
    Event(String),
    /// The sanitised output, or a message of the agent, contains this text.
    Output(String),
    /// The status changes to this one.
    Status(Status),
}

impl Condition {
    /// Returns the kinds of records that can satisfy the condition.
    pub(super) fn kinds(&self) -> &'static [RecordKind] {
        match self {
            Self::Delivery(_) => &[RecordKind::Delivery],
            Self::Event(_) => &[RecordKind::Event, RecordKind::Lifecycle],
            Self::Output(_) => &[RecordKind::Output, RecordKind::Transcript],
            Self::Status(_) => &[RecordKind::Status],
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(state) => write!(f, "delivery:{}", state.as_str()),
            Self::Event(name) => write!(f, "event:{name}"),
            Self::Output(text) => write!(f, "output:{text}"),
            Self::Status(status) => write!(f, "status:{}", status.as_str()),
        }
    }
}

impl FromStr for Condition {
    type Err = Error;

    /// # Errors
    /// `unsupported_watch_condition` for a well-formed condition that cannot be observed; `invalid_input` for text of
    /// another form.
    fn from_str(text: &str) -> Result<Self, Error> {
        let failed = |kind, message| Err(Error::new(kind, message).with("until", format_args!("{text:?}")));
        // An empty value is refused: every output contains the empty text.
        let Some((what, value)) = text.split_once(':').filter(|(_, value)| !value.is_empty()) else {
            return failed(
                ErrorKind::InvalidInput,
                "not a watch condition, expected one such as status:idle, output:TEXT, event:turn_completed or \
                 delivery:submitted",
            );
        };
        // Through serde, so that the names are those of the wire.
        let word = || serde_json::Value::from(value);
        let known = match what {
            "delivery" => serde_json::from_value(word()).ok().map(Self::Delivery),
            "event" => Some(Self::Event(value.to_owned())),
            "output" => Some(Self::Output(value.to_owned())),
            "status" => serde_json::from_value(word()).ok().map(Self::Status),
            _ => None,
        };
        known.map_or_else(
            || {
                failed(
                    ErrorKind::UnsupportedWatchCondition,
                    "this condition cannot be observed, expected status:, output:, event: or delivery: \
                     (pending, submitted, failed)",
                )
            },
            Ok,
        )
    }
}

/// Matches a condition against a sequence of records.
#[derive(Debug)]
pub(super) struct Matcher {
    condition: Condition,
    /// End of the output so far. Always shorter than the wanted text, so that only new output can complete a match.
    carry: String,
}

impl Matcher {
    pub(super) fn new(condition: Condition) -> Self {
        Self { condition, carry: String::new() }
    }

    pub(super) fn condition(&self) -> &Condition {
        &self.condition
    }

    pub(super) fn matches(&mut self, record: &Record) -> bool {
        match (&self.condition, &record.body) {
            (Condition::Delivery(wanted), Body::Delivery { state, .. }) => wanted == state,
            (Condition::Event(wanted), Body::Event { name, .. } | Body::Lifecycle { name, .. }) => {
                wanted == name
            }
            (Condition::Output(wanted), Body::Output { text, .. }) => {
                self.carry.push_str(text);
                let found = self.carry.contains(wanted.as_str());
                // The wanted text may be split between two records: carry one byte less than its length over.
                let mut start = self.carry.len() - self.carry.len().min(wanted.len().saturating_sub(1));
                while !self.carry.is_char_boundary(start) {
                    start += 1;
                }
                self.carry.drain(..start);
                found
            }
            // Only the agent's own messages: the user's prompt may quote the awaited text.
            (Condition::Output(wanted), Body::Transcript(message)) => {
                message.role == crate::backend::Role::Assistant && message.text().contains(wanted.as_str())
            }
            // Records of a status are written only on a change, so an old one cannot match late.
            (Condition::Status(wanted), Body::Status(status)) => wanted == status,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_survive_their_text() {
        for text in ["status:idle", "output:a:b c", "event:turn_completed", "delivery:failed"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_unsupported_condition_differs_from_malformed_text() {
        for text in ["weather:sunny", "status:bored", "delivery:lost"] {
            assert_eq!(
                text.parse::<Condition>().unwrap_err().code(),
                "unsupported_watch_condition",
                "{text}"
            );
        }
        for text in ["", "idle", "status:", "output:"] {
            assert_eq!(text.parse::<Condition>().unwrap_err().code(), "invalid_input", "{text}");
        }
    }
}
