//! What a recording is made of.

use std::time::Duration;

use watchfire_core::terminal::Size;

/// The version of the format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Version {
    /// Times since the start; what all players know.
    #[default]
    V2,
    /// Times since the event before; asciinema 3.
    V3,
}

/// The header of a recording.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// The version.
    pub version: Version,
    /// The size of the screen at the start.
    pub size: Size,
    /// When it began, in seconds since 1970.
    pub timestamp: Option<u64>,
    /// Its title.
    pub title: Option<String>,
    /// The command that ran.
    pub command: Option<String>,
    /// The kind of terminal, `TERM`.
    pub term: Option<String>,
    /// Pauses should be shown no longer than this.
    pub idle_time_limit: Option<Duration>,
}

impl Header {
    /// Creates a header of version 2 with nothing but the size.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self {
            version: Version::V2,
            size,
            timestamp: None,
            title: None,
            command: None,
            term: None,
            idle_time_limit: None,
        }
    }

    /// Sets the version.
    #[must_use]
    pub fn with_version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets the start, in seconds since 1970.
    #[must_use]
    pub fn with_timestamp(mut self, seconds: u64) -> Self {
        self.timestamp = Some(seconds);
        self
    }

    /// Sets the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the command.
    #[must_use]
    pub fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Sets the kind of terminal.
    #[must_use]
    pub fn with_term(mut self, term: impl Into<String>) -> Self {
        self.term = Some(term.into());
        self
    }
}

/// Something that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// When, since the start.
    pub at: Duration,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// The program wrote this.
    Output(String),
    /// The user typed this.
    Input(String),
    /// The screen changed its size.
    Resize(Size),
    /// A mark with a label.
    Marker(String),
    /// The program ended with this status.
    Exit(i32),
    /// An event of a kind that we do not know.
    Other(char, String),
}

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The file cannot be written or read.
    #[error("write or read the recording")]
    Io(#[from] std::io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the recording: {problem}")]
    #[non_exhaustive]
    Line {
        /// The line, from 1.
        line: usize,
        /// The mistake, and the correct form.
        problem: String,
    },
}
