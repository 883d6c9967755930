//! Records: what a log consists of.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::delivery::DeliveryState;
use crate::backend::{Issue, IssueKind, Message, Part, Source, Status};
use crate::model::Timestamp;

/// An entry of a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Position in the log.
    pub cursor: Cursor,
    /// Time at which the record was written.
    pub time: Timestamp,
    /// Origin of the observation.
    pub source: Source,
    /// The observation.
    pub body: Body,
    /// Number of bytes truncated from the body.
    pub omitted_bytes: u64,
    /// True if the record was read back from disk, after the program that wrote it had ended.
    pub replayed: bool,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// Progress of delivering text to the agent.
    #[non_exhaustive]
    Delivery {
        /// Coarse state.
        state: DeliveryState,
        /// Finer state: `queued`, `written`, `submitted` or `accepted`.
        receipt: Option<String>,
        /// Id of the delivered message.
        message_id: Option<String>,
        /// Stable code and message of the error, if delivery failed.
        error: Option<(String, String)>,
    },
    /// A named event, such as `turn_completed`.
    #[non_exhaustive]
    Event {
        /// Name of the event.
        name: String,
        /// Data of the event.
        payload: serde_json::Value,
    },
    /// An issue that blocks the agent.
    Issue(Issue),
    /// The end of an issue.
    IssueCleared(IssueKind),
    /// A change in the life of the session or task: `started`, `ended`, `merged`, …
    #[non_exhaustive]
    Lifecycle {
        /// Name of the change.
        name: String,
        /// Data of the change.
        payload: serde_json::Value,
    },
    /// Output of the agent on its terminal or stream.
    #[non_exhaustive]
    Output {
        /// The bytes as the agent wrote them.
        bytes: Bytes,
        /// Sanitised text that these bytes add.
        text: Box<str>,
        /// Number of leading bytes that complete an escape sequence begun in an earlier record.
        lead: usize,
    },
    /// A new status of the agent.
    Status(Status),
    /// A message of the agent's transcript.
    Transcript(Message),
}

impl Body {
    /// Returns an event without data.
    pub(crate) fn event(name: impl Into<String>) -> Self {
        Self::Event { name: name.into(), payload: serde_json::Value::Null }
    }

    /// Returns a lifecycle record.
    pub(crate) fn lifecycle(name: impl Into<String>, payload: serde_json::Value) -> Self {
        Self::Lifecycle { name: name.into(), payload }
    }

    /// Returns a delivery record with nothing but its state.
    #[cfg(test)]
    pub(super) fn delivery(state: DeliveryState) -> Self {
        Self::Delivery { state, receipt: None, message_id: None, error: None }
    }

    /// Returns the kind of record.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Delivery { .. } => RecordKind::Delivery,
            Self::Event { .. } => RecordKind::Event,
            Self::Issue(_) | Self::IssueCleared(_) => RecordKind::Issue,
            Self::Lifecycle { .. } => RecordKind::Lifecycle,
            Self::Output { .. } => RecordKind::Output,
            Self::Status(_) => RecordKind::Status,
            Self::Transcript(_) => RecordKind::Transcript,
        }
    }

    /// Returns the number of bytes on the heap.
    pub(super) fn size(&self) -> usize {
        // The size of the JSON text stands for the size of the tree, which cannot be measured.
        let json = |value: &serde_json::Value| match value {
            serde_json::Value::Null => 0,
            value => serde_json::to_vec(value).map_or(0, |bytes| bytes.len()),
        };
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Delivery { receipt, message_id, error, .. } => {
                text(receipt)
                    + text(message_id)
                    + error.as_ref().map_or(0, |(code, message)| code.len() + message.len())
            }
            Self::Event { name, payload } | Self::Lifecycle { name, payload } => name.len() + json(payload),
            Self::Issue(issue) => issue.message.len(),
            Self::Output { bytes, text, .. } => bytes.len() + text.len(),
            Self::Transcript(message) => {
                let parts =
                    size_of_val(&message.parts[..]) + message.parts.iter().map(part_size).sum::<usize>();
                text(&message.id) + text(&message.model) + parts
            }
            Self::IssueCleared(_) | Self::Status(_) => 0,
        }
    }

    /// Truncates the body to about `limit` bytes and returns the number of bytes removed.
    pub(super) fn cut(&mut self, limit: usize) -> u64 {
        let before = self.size();
        if before <= limit {
            return 0;
        }
        match self {
            Self::Delivery { receipt, message_id, error, .. } => {
                // One budget for all texts of the record.
                let mut left = limit;
                let error = error.iter_mut().flat_map(|(code, message)| [code, message]);
                for text in receipt.iter_mut().chain(message_id).chain(error) {
                    cut_text(text, &mut left);
                }
            }
            // Half a JSON value is of no use to a reader, so the payload goes as a whole.
            Self::Event { name, payload } | Self::Lifecycle { name, payload } => {
                *payload = serde_json::Value::Null;
                // Backends name events freely, so names are bounded too.
                cut_text(name, &mut { limit });
            }
            Self::Issue(issue) => cut_text(&mut issue.message, &mut { limit }),
            Self::Transcript(message) => {
                let mut left = limit;
                message.id.iter_mut().chain(&mut message.model).for_each(|text| cut_text(text, &mut left));
                for part in &mut message.parts {
                    left = left.saturating_sub(size_of::<Part>());
                    part_texts(part).into_iter().for_each(|text| cut_text(text, &mut left));
                }
                // Parts that were cut to nothing would still cost their overhead.
                message.parts.retain(|part| part_size(part) > 0);
            }
            // The writer splits output into pieces below any limit.
            Self::Output { .. } | Self::IssueCleared(_) | Self::Status(_) => {}
        }
        before.saturating_sub(self.size()) as u64
    }
}

/// Truncates `text` to the `left` bytes and takes its length from them.
fn cut_text(text: &mut String, left: &mut usize) {
    let mut end = text.len().min(*left);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    // Lanes count lengths: without this, the memory of what was cut would stay allocated and uncounted.
    text.shrink_to_fit();
    *left -= end;
}

fn part_size(part: &Part) -> usize {
    match part {
        Part::Error { text }
        | Part::Text { text }
        | Part::Thinking { text }
        | Part::ToolResult { text, .. } => text.len(),
        Part::ToolCall { name, input } => name.len() + input.len(),
    }
}

fn part_texts(part: &mut Part) -> Vec<&mut String> {
    match part {
        Part::Error { text }
        | Part::Text { text }
        | Part::Thinking { text }
        | Part::ToolResult { text, .. } => {
            vec![text]
        }
        Part::ToolCall { name, input } => vec![name, input],
    }
}

/// The kinds of records. Each is bounded and evicted separately.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// Progress of deliveries.
    Delivery,
    /// Named events.
    Event,
    /// Issues that block the agent.
    Issue,
    /// Changes in the life of a session or task.
    Lifecycle,
    /// Output of the agent.
    Output,
    /// Changes of the agent's status.
    Status,
    /// Messages of the agent's transcript.
    Transcript,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[
        Self::Delivery,
        Self::Event,
        Self::Issue,
        Self::Lifecycle,
        Self::Output,
        Self::Status,
        Self::Transcript,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Event => "event",
            Self::Issue => "issue",
            Self::Lifecycle => "lifecycle",
            Self::Output => "output",
            Self::Status => "status",
            Self::Transcript => "transcript",
        }
    }
}
