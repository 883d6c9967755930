//! What an agent and its user said to each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Usage;
use crate::model::Timestamp;

/// Where a transcript is and how it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Transcript {
    /// The file.
    pub path: PathBuf,
    /// How it is written.
    pub format: TranscriptFormat,
}

impl Transcript {
    /// A transcript of JSON lines.
    #[must_use]
    pub fn json_lines(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: TranscriptFormat::JsonLines }
    }

    /// A transcript that is read whole at the end.
    #[must_use]
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: TranscriptFormat::Whole }
    }
}

/// How a transcript is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TranscriptFormat {
    /// One JSON value a line, appended: can be read while it grows.
    JsonLines,
    /// Some other file, read whole at the end.
    Whole,
}

/// One message, whoever the provider is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What, in order.
    pub parts: Vec<Part>,
    /// The provider's id of the message; lines with the same id are parts of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The model that wrote it, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it cost. Parts of one message each carry the count of the whole: count an id once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Message {
    /// A message of `role` with these parts.
    #[must_use]
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, ..Self::default() }
    }

    /// Its text parts, joined by newlines.
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

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent.
    #[default]
    Assistant,
    /// The vendor's or our own instructions.
    System,
    /// Results of tools.
    Tool,
    /// The person, or we in their place.
    User,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Part {
    /// An error of the provider or the agent.
    Error {
        /// In its own words.
        text: String,
    },
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// Reasoning that the agent shows.
    Thinking {
        /// The reasoning.
        text: String,
    },
    /// A tool is called.
    ToolCall {
        /// Its name.
        name: String,
        /// One line about its input.
        input: String,
    },
    /// What a tool gave back.
    ToolResult {
        /// One line or more of it.
        text: String,
        /// Whether the tool failed.
        failed: bool,
    },
}
