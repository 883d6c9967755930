//! Transcripts: the messages between an agent and its user, independent of the provider.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Usage;
use crate::model::Timestamp;

/// The transcript file of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Transcript {
    /// Path of the file.
    pub path: PathBuf,
    /// Format of the file.
    pub format: TranscriptFormat,
}

impl Transcript {
    /// Returns a transcript of JSON lines.
    #[must_use]
    pub fn json_lines(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: TranscriptFormat::JsonLines }
    }

    /// Returns a transcript that is read as a whole after the session.
    #[must_use]
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: TranscriptFormat::Whole }
    }
}

/// Format of a transcript.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TranscriptFormat {
    /// One JSON value per line, appended, so that it can be followed while it grows.
    JsonLines,
    /// Any other format, read as a whole after the session.
    Whole,
}

/// A message of a transcript, in a form common to all providers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Role of the speaker.
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<Part>,
    /// Provider's id of the message. Lines with the same id are parts of one message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True for a piece of a message that a stream sends bit by bit. The next piece continues its text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_piece: bool,
    /// Time of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Provider's name of the model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Token usage. Every part of a message carries the usage of the whole, so an id counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Message {
    /// Creates a message of `role`.
    #[must_use]
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, ..Self::default() }
    }

    /// Returns the text parts, joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// The role of a speaker.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent.
    #[default]
    Assistant,
    /// Instructions of the vendor or of Watchfire.
    System,
    /// A tool.
    Tool,
    /// The user, or Watchfire in place of the user.
    User,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Part {
    /// An error of the provider or the agent.
    #[non_exhaustive]
    Error {
        /// Message of the error.
        text: String,
    },
    /// Text.
    #[non_exhaustive]
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning that the agent shows.
    #[non_exhaustive]
    Thinking {
        /// The reasoning.
        text: String,
    },
    /// A call of a tool.
    #[non_exhaustive]
    ToolCall {
        /// Name of the tool.
        name: String,
        /// Summary of the input, in one line.
        input: String,
    },
    /// The result of a tool.
    #[non_exhaustive]
    ToolResult {
        /// Excerpt of the result.
        text: String,
        /// True if the tool failed.
        failed: bool,
    },
}

impl Part {
    /// Returns [`Text`](Self::Text).
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns [`ToolResult`](Self::ToolResult).
    #[must_use]
    pub fn tool_result(text: impl Into<String>, failed: bool) -> Self {
        Self::ToolResult { text: text.into(), failed }
    }

    /// Returns [`ToolCall`](Self::ToolCall).
    #[must_use]
    pub fn tool_call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::ToolCall { name: name.into(), input: input.into() }
    }

    /// Returns [`Thinking`](Self::Thinking).
    #[must_use]
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking { text: text.into() }
    }

    /// Returns [`Error`](Self::Error).
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error { text: text.into() }
    }
}
