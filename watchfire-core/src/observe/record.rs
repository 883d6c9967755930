//! One thing that happened.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use crate::backend::{Issue, IssueKind, Message, Part, Source, Status};
use crate::model::Timestamp;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Where it stands in the order of its log.
    pub cursor: Cursor,
    /// When.
    pub time: Timestamp,
    /// How we know.
    pub source: Source,
    /// What.
    pub body: Body,
    /// How many bytes of it were too much to keep.
    pub omitted_bytes: u64,
}

impl Record {
    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.body.kind()
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// A step of bringing text to the agent.
    Delivery {
        /// How far it is.
        state: DeliveryState,
        /// The same, finer: `queued`, `written`, `submitted`, `accepted`.
        receipt: Option<String>,
        /// Which message.
        message_id: Option<String>,
        /// The stable code and the words of what went wrong.
        error: Option<(String, String)>,
    },
    /// Something else with a name, such as `turn_completed`.
    Event {
        /// Its name.
        name: String,
        /// What belongs to it.
        payload: serde_json::Value,
    },
    /// Something blocks the agent.
    Issue(Issue),
    /// What blocked it is gone.
    IssueCleared(IssueKind),
    /// The life of the session or of a task: `started`, `ended`, `merged`, …
    Lifecycle {
        /// Which step.
        name: String,
        /// What belongs to it.
        payload: serde_json::Value,
    },
    /// The agent wrote to its terminal or stream.
    Output {
        /// What, as it came.
        bytes: Bytes,
        /// What of it is text: what these bytes add to the sanitised output.
        text: Box<str>,
        /// How many of the first bytes end an escape sequence that began before.
        lead: usize,
    },
    /// What the agent is doing.
    Status(Status),
    /// A message of its transcript.
    Transcript(Message),
}

impl Body {
    /// The event `name`, with nothing more to say.
    pub fn event(name: impl Into<String>) -> Self {
        Self::Event { name: name.into(), payload: serde_json::Value::Null }
    }

    /// The step `name` of a life, with what belongs to it.
    pub fn lifecycle(name: impl Into<String>, payload: serde_json::Value) -> Self {
        Self::Lifecycle { name: name.into(), payload }
    }

    /// A step of a delivery.
    #[must_use]
    pub fn delivery(state: DeliveryState) -> Self {
        Self::Delivery { state, receipt: None, message_id: None, error: None }
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Delivery { .. } => Kind::Delivery,
            Self::Event { .. } => Kind::Event,
            Self::Issue(_) | Self::IssueCleared(_) => Kind::Issue,
            Self::Lifecycle { .. } => Kind::Lifecycle,
            Self::Output { .. } => Kind::Output,
            Self::Status(_) => Kind::Status,
            Self::Transcript(_) => Kind::Transcript,
        }
    }

    /// The bytes that it holds beyond its own size.
    pub(super) fn size(&self) -> usize {
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
                text(&message.id) + message.parts.iter().map(part_size).sum::<usize>()
            }
            Self::IssueCleared(_) | Self::Status(_) => 0,
        }
    }

    /// Makes it at most about `limit` bytes long and gives back how many went. Output is split before, never cut.
    pub(super) fn cut(&mut self, limit: usize) -> u64 {
        let before = self.size();
        if before <= limit {
            return 0;
        }
        match self {
            Self::Delivery { receipt, message_id, error, .. } => {
                let mut left = limit;
                let error = error.iter_mut().flat_map(|(code, message)| [code, message]);
                for text in receipt.iter_mut().chain(message_id).chain(error) {
                    cut_text(text, &mut left);
                }
            }
            Self::Event { name, payload } | Self::Lifecycle { name, payload } => {
                *payload = serde_json::Value::Null;
                cut_text(name, &mut { limit });
            }
            Self::Issue(issue) => cut_text(&mut issue.message, &mut { limit }),
            Self::Transcript(message) => {
                let mut left = limit;
                message.id.iter_mut().for_each(|id| cut_text(id, &mut left));
                for part in &mut message.parts {
                    part_texts(part).into_iter().for_each(|text| cut_text(text, &mut left));
                }
                message.parts.retain(|part| part_size(part) > 0);
            }
            Self::Output { .. } | Self::IssueCleared(_) | Self::Status(_) => {}
        }
        before.saturating_sub(self.size()) as u64
    }
}

fn cut_text(text: &mut String, left: &mut usize) {
    let mut end = text.len().min(*left);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
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

/// The kinds of records. Each has its own bounds and its own account of losses.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Steps of bringing text to the agent.
    Delivery,
    /// Named events.
    Event,
    /// What blocks the agent.
    Issue,
    /// The life of a session or a task.
    Lifecycle,
    /// What the agent wrote.
    Output,
    /// What the agent is doing.
    Status,
    /// Messages of its transcript.
    Transcript,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Delivery,
        Self::Event,
        Self::Issue,
        Self::Lifecycle,
        Self::Output,
        Self::Status,
        Self::Transcript,
    ];

    /// The word on the wire.
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

/// How far a delivery is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It did not arrive.
    Failed,
    /// A way was chosen; nothing is submitted yet.
    Pending,
    /// It was written and submitted.
    Submitted,
}

impl DeliveryState {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Pending => "pending",
            Self::Submitted => "submitted",
        }
    }
}
