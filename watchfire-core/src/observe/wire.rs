//! Requests and responses of the watch protocol, schema 1.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::delivery::DeliveryState;
use super::log::LogSubject;
use super::record::{Body, Record, RecordKind};
use super::sanitize::present;
use crate::backend::{Message, Role, Source, Status};
use crate::model::{Mode, Phase, TaskNumber};
use crate::{Error, ErrorKind};

/// A request to a log.
///
/// ```
/// # use watchfire_core::observe::{Include, WatchRequest};
/// let json = r#"{"until":"output:READY","include":["output","events"],"tail_bytes":4096,"timeout_ms":30000}"#;
/// let request: WatchRequest = serde_json::from_str(json)?;
/// assert_eq!(request, WatchRequest::default()
///     .with_until("output:READY")
///     .with_include([Include::Output, Include::Events])
///     .with_tail_bytes(4096)
///     .with_timeout(std::time::Duration::from_secs(30)));
/// assert_eq!(serde_json::to_string(&request)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// Cursor after which the response begins. Without it, a response holds everything kept; with `until`, everything
    /// from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// [`Condition`](super::Condition) to wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Classes of data in the response.
    #[serde(default = "Include::defaults")]
    pub include: Vec<Include>,
    /// Maximum length of the output, and of the transcript, in bytes. Longer ones are cut at their start.
    #[serde(default = "tail_bytes")]
    pub tail_bytes: usize,
    /// Maximum time to wait for `until`, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Set to answer at once if `until` is a status that is already current.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_current: bool,
}

fn tail_bytes() -> usize {
    16 * 1024
}

fn timeout_ms() -> u64 {
    30_000
}

impl Default for WatchRequest {
    /// Requests everything kept, in the default classes, with at most 16 KiB of output and a timeout of 30 s.
    fn default() -> Self {
        Self {
            since: None,
            until: None,
            include: Include::defaults(),
            tail_bytes: tail_bytes(),
            timeout_ms: timeout_ms(),
            accept_current: false,
        }
    }
}

impl WatchRequest {
    /// Checks the condition.
    ///
    /// # Errors
    /// `unsupported_watch_condition`.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let until = self.until.as_deref().map(str::parse::<super::condition::Condition>);
        until.transpose().map(|_| ())
    }

    /// Begins the response after `cursor`.
    #[must_use]
    pub fn with_since(mut self, cursor: impl ToString) -> Self {
        self.since = Some(cursor.to_string());
        self
    }

    /// Waits for `condition`.
    #[must_use]
    pub fn with_until(mut self, condition: impl ToString) -> Self {
        self.until = Some(condition.to_string());
        self
    }

    /// Sets the classes of data in the response.
    #[must_use]
    pub fn with_include(mut self, include: impl IntoIterator<Item = Include>) -> Self {
        self.include = include.into_iter().collect();
        self
    }

    /// Sets the maximum length of the output.
    #[must_use]
    pub fn with_tail_bytes(mut self, bytes: usize) -> Self {
        self.tail_bytes = bytes;
        self
    }

    /// Sets the maximum time to wait.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets whether a status that is already current satisfies the condition.
    #[must_use]
    pub fn with_accept_current(mut self, accept: bool) -> Self {
        self.accept_current = accept;
        self
    }

    pub(super) fn includes(&self, class: Include) -> bool {
        self.include.contains(&class)
    }

    /// Returns the kinds of records that the response depends on.
    pub(super) fn kinds(&self) -> Vec<RecordKind> {
        let mut kinds: Vec<RecordKind> =
            self.include.iter().flat_map(|class| class.kinds()).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// A class of data in a response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// Identity and status of the agent. Always included.
    Agent,
    /// State of the last delivery.
    Delivery,
    /// All records except output and transcript, in order.
    Events,
    /// Sanitised output.
    Output,
    /// Output as the agent wrote it, with escape sequences.
    RawOutput,
    /// Changes of status, among the events.
    Status,
    /// Messages of the transcript.
    Transcript,
}

impl Include {
    const ALL: [Self; 7] = [
        Self::Agent,
        Self::Delivery,
        Self::Events,
        Self::Output,
        Self::RawOutput,
        Self::Status,
        Self::Transcript,
    ];

    /// Returns the default classes: status, transcript, output, delivery.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![Self::Status, Self::Transcript, Self::Output, Self::Delivery]
    }

    /// Parses a list such as `status,output`.
    ///
    /// # Errors
    /// `invalid_input` for an unknown class.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Error> {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
    }

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Delivery => "delivery",
            Self::Events => "events",
            Self::Output => "output",
            Self::RawOutput => "raw_output",
            Self::Status => "status",
            Self::Transcript => "transcript",
        }
    }

    /// Returns the kinds of records that this class renders.
    pub(super) fn kinds(self) -> &'static [RecordKind] {
        match self {
            // Rendered from the current state, not from records.
            Self::Agent | Self::Delivery => &[],
            Self::Events => &[
                RecordKind::Status,
                RecordKind::Delivery,
                RecordKind::Event,
                RecordKind::Issue,
                RecordKind::Lifecycle,
            ],
            Self::Output | Self::RawOutput => &[RecordKind::Output],
            Self::Status => &[RecordKind::Status],
            Self::Transcript => &[RecordKind::Transcript],
        }
    }
}

impl FromStr for Include {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|class| class.as_str() == text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                "unknown class, expected agent, delivery, events, output, raw_output, status or transcript",
            )
            .with("include", format_args!("{text:?}"))
        })
    }
}

/// The response to a [`WatchRequest`].
///
/// ```
/// # use watchfire_core::observe::WatchResponse;
/// let json = serde_json::json!({
///     "schema": 1,
///     "agent": {
///         "name": "brave-otter", "uuid": "57244fa9", "provider": "codex",
///         "status": "idle", "last_status_at": "2026-05-07T10:14:32.120Z"
///     },
///     "cursor": "57244fa9:0000000000000001:0000000000000042",
///     "events": [{
///         "cursor": "57244fa9:0000000000000001:0000000000000041", "time": "2026-05-07T10:14:31.870Z",
///         "kind": "status", "source": "hook", "status": "processing"
///     }],
///     "transcript": {
///         "cursor": "57244fa9:0000000000000001:0000000000000042",
///         "messages": [{
///             "cursor": "57244fa9:0000000000000001:0000000000000040", "role": "assistant", "text": "PROBE_OK",
///             "provider": "codex", "turn_id": "turn-1", "source": "transcript"
///         }],
///         "latest_text": "PROBE_OK", "truncated": false, "omitted_bytes": 0
///     },
///     "output": {
///         "text": "PROBE_OK\n", "truncated": true, "omitted_bytes": 120,
///         "oldest_available_cursor": "57244fa9:0000000000000001:0000000000000007"
///     },
///     "delivery": { "input_available": true, "last_state": "submitted", "last_error": null }
/// });
/// let response: WatchResponse = serde_json::from_value(json.clone())?;
/// assert_eq!(serde_json::to_value(&response)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchResponse {
    /// Version of the schema: 1.
    pub schema: u32,
    /// The session that this response describes.
    pub agent: AgentView,
    /// Position up to which this response goes. Pass it back as `since` to continue.
    pub cursor: Cursor,
    /// Record that satisfied `until`; none if a status was already current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<Cursor>,
    /// Records, oldest first.
    #[serde(default)]
    pub events: Vec<EventView>,
    /// Transcript, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<TranscriptView>,
    /// Sanitised output, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputView>,
    /// Output with escape sequences, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<OutputView>,
    /// State of the last delivery, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryView>,
    /// Codes of what is less than was asked for: `output_truncated` where the transcript or the output is cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Identity and status of the watched agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentView {
    /// Display name.
    pub name: String,
    /// Id of the session.
    pub uuid: String,
    /// Name of the backend.
    pub provider: String,
    /// Mode in which the session was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Phase of wildfire that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Task that the session is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNumber>,
    /// Current status.
    pub status: Status,
    /// Time of the last change of status; RFC 3339 with milliseconds.
    pub last_status_at: Option<String>,
}

impl AgentView {
    pub(super) fn new(subject: LogSubject, uuid: String, status: Status, at: Option<String>) -> Self {
        let LogSubject { name, provider, mode, phase, task } = subject;
        Self { name, uuid, provider, mode, phase, task, status, last_status_at: at }
    }
}

/// A record, or a notice about the stream.
///
/// ```
/// # use watchfire_core::observe::EventView;
/// let json = r#"{"cursor":"s1:0000000000000001:0000000000000029","time":"2026-05-07T10:14:31.870Z","kind":"status","source":"process","status":"processing"}"#;
/// let event: EventView = serde_json::from_str(json)?;
/// assert_eq!(event.fields["status"], "processing");
/// assert_eq!(serde_json::to_string(&event)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventView {
    /// Position of the record.
    pub cursor: Cursor,
    /// Time of the record; RFC 3339 with milliseconds.
    pub time: String,
    /// Kind of the record; for an event, its name.
    pub kind: String,
    /// Origin of the observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// True if the record was read back from disk, after the program that wrote it had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// Data specific to the kind.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl EventView {
    pub(super) fn new(cursor: Cursor, time: String, kind: &str, fields: serde_json::Value) -> Self {
        let fields = match fields {
            serde_json::Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        Self { cursor, time, kind: kind.to_owned(), source: None, replayed: false, fields }
    }
}

impl From<&Record> for EventView {
    fn from(record: &Record) -> Self {
        use serde_json::json;
        let (kind, mut fields) = match &record.body {
            Body::Delivery { state, receipt, message_id, error } => (
                "delivery",
                json!({
                    "state": state,
                    "receipt": receipt,
                    "message_id": message_id,
                    "error": error.as_ref().map(|(code, message)| json!({"code": code, "message": message})),
                }),
            ),
            Body::Event { name, payload } => (name.as_str(), json!({ "payload": payload })),
            Body::Issue(issue) => ("issue", json!({ "issue": issue })),
            Body::IssueCleared(kind) => ("issue_cleared", json!({ "issue": { "kind": kind } })),
            Body::Lifecycle { name, payload } => ("lifecycle", json!({ "name": name, "payload": payload })),
            Body::Output { text, .. } => ("output", json!({ "text": text })),
            Body::Status(status) => ("status", json!({ "status": status })),
            Body::Transcript(message) => {
                ("transcript", json!({ "role": message.role, "text": shown(&message.text()) }))
            }
        };
        if let Some(fields) = fields.as_object_mut() {
            // The protocol leaves absent fields out instead of sending null.
            fields.retain(|_, value| !value.is_null());
            if record.omitted_bytes > 0 {
                fields.insert("omitted_bytes".to_owned(), record.omitted_bytes.into());
            }
        }
        let time = record.time.to_millis_string();
        Self {
            source: Some(record.source),
            replayed: record.replayed,
            ..Self::new(record.cursor.clone(), time, kind, fields)
        }
    }
}

/// The end of the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputView {
    /// The text.
    pub text: String,
    /// True if earlier output is missing.
    pub truncated: bool,
    /// Number of missing bytes. An upper bound if records were evicted while a watch waited.
    pub omitted_bytes: u64,
    /// Cursor after which all output is still available; set if output is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_available_cursor: Option<Cursor>,
}

impl OutputView {
    /// Returns the last `limit` bytes of `text`. `boundary` moves the cut to the next index that is allowed.
    pub(super) fn tail(
        text: String,
        limit: usize,
        lost: u64,
        oldest: Cursor,
        boundary: impl FnOnce(&str, usize) -> usize,
    ) -> Self {
        let mut start = text.len().saturating_sub(limit);
        // A cut inside an escape sequence would show its rest as text.
        if start > 0 {
            start = boundary(&text, start);
        }
        // Moved forward, so that the result stays within the limit.
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let omitted_bytes = start as u64 + lost;
        let truncated = omitted_bytes > 0;
        let text = text.get(start..).unwrap_or_default().to_owned();
        Self { text, truncated, omitted_bytes, oldest_available_cursor: truncated.then_some(oldest) }
    }
}

/// The end of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TranscriptView {
    /// Position up to which the transcript goes.
    pub cursor: Cursor,
    /// Messages, oldest first.
    pub messages: Vec<TranscriptMessage>,
    /// Text of the agent's last message that is not blank, or empty.
    pub latest_text: String,
    /// True if earlier messages are missing or shortened.
    pub truncated: bool,
    /// Number of missing bytes.
    pub omitted_bytes: u64,
}

/// A message of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TranscriptMessage {
    /// Position of the record.
    pub cursor: Cursor,
    /// Role of the speaker.
    pub role: Role,
    /// Sanitised text.
    pub text: String,
    /// Name of the backend.
    pub provider: String,
    /// The backend's id of the message or turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Origin of the observation.
    pub source: Source,
}

impl TranscriptView {
    /// Returns the last messages that fit into `limit` bytes, the first one cut at its start.
    pub(super) fn new<'a>(
        cursor: Cursor,
        provider: &str,
        records: impl DoubleEndedIterator<Item = &'a Record>,
        limit: usize,
        lost: u64,
    ) -> Self {
        // Bytes lost before these records are missing from the transcript as well.
        let (mut messages, mut left, mut omitted) = (Vec::new(), limit, lost);
        let mut latest = Latest::default();
        // From the newest message, because the limit keeps the end.
        for record in records.rev() {
            let Body::Transcript(message) = &record.body else { continue };
            let text = shown(&message.text());
            // Not from what is left of the limit: words of others after it must not take it away.
            latest.add_before(message, &text);
            let tail = end_of(&text, left);
            omitted += (text.len() - tail.len()) as u64 + record.omitted_bytes;
            left -= tail.len().min(left);
            // The loop goes on after the limit is used up: `omitted` counts every message.
            if tail.is_empty() {
                continue;
            }
            messages.push(TranscriptMessage {
                cursor: record.cursor.clone(),
                role: message.role,
                text: tail.to_owned(),
                provider: provider.to_owned(),
                turn_id: message.id.clone(),
                source: record.source,
            });
        }
        messages.reverse();
        let latest_text = end_of(&latest.text, limit).to_owned();
        Self { cursor, messages, latest_text, truncated: omitted > 0, omitted_bytes: omitted }
    }
}

/// The agent's last message, from its end.
#[derive(Default)]
struct Latest<'a> {
    text: String,
    /// The part of it that was found last.
    first: Option<&'a Message>,
    is_whole: bool,
}

impl<'a> Latest<'a> {
    /// Adds what came before.
    fn add_before(&mut self, message: &'a Message, text: &str) {
        let Some(first) = self.first else {
            if message.role == Role::Assistant && !text.trim().is_empty() {
                (self.text, self.first) = (text.to_owned(), Some(message));
            }
            return;
        };
        // Pieces of a stream follow each other; lines of one message have its id.
        let is_piece = first.is_piece && message.is_piece;
        let is_line = first.id.is_some() && first.id == message.id;
        self.is_whole |= message.role != Role::Assistant || !is_piece && !is_line;
        if !self.is_whole && !text.is_empty() {
            self.text.insert_str(0, if is_piece { "" } else { "\n" });
            self.text.insert_str(0, text);
            self.first = Some(message);
        }
    }
}

/// Returns the end of a text: at most `limit` bytes, in whole characters.
fn end_of(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// State of the last delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeliveryView {
    /// True if text can be delivered now.
    pub input_available: bool,
    /// State that the last delivery reached.
    pub last_state: Option<DeliveryState>,
    /// Code of its error, if it failed.
    pub last_error: Option<String>,
}

impl DeliveryView {
    pub(super) fn new(available: bool, state: Option<DeliveryState>, error: Option<String>) -> Self {
        Self { input_available: available, last_state: state, last_error: error }
    }
}

/// Sanitises the text of a message: a transcript is the agent's own file and may hold escape sequences.
fn shown(text: &str) -> String {
    let (mut sanitizer, mut clean) = (super::sanitize::Sanitizer::default(), String::new());
    sanitizer.feed(text.as_bytes(), &mut clean);
    present(&clean)
}
