//! What is asked and answered, as it goes over the wire: schema 1 of the watch document.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::record::{Body, DeliveryState, Kind, Record};
use super::sanitize::present;
use crate::backend::{Role, Source, Status};
use crate::{Error, ErrorKind};

/// A question to a log.
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
    /// Only what came after this cursor. Without it: all that is kept, or, with `until`, what comes from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Answer when this [`Condition`](super::Condition) has come true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What the answer holds.
    #[serde(default = "Include::defaults")]
    pub include: Vec<Include>,
    /// The longest output, of each form, in bytes: its end is kept.
    #[serde(default = "tail_bytes")]
    pub tail_bytes: usize,
    /// How long to wait for `until`.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// With a `status` condition: answer at once if that is the status already.
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
    /// Everything that is kept, in the default classes, at most 16 KiB of output; 30 s where it waits.
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
    /// Asks for what came after `cursor`.
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

    /// Sets what the answer holds.
    #[must_use]
    pub fn with_include(mut self, include: impl IntoIterator<Item = Include>) -> Self {
        self.include = include.into_iter().collect();
        self
    }

    /// Adds the raw output to what the answer holds.
    #[must_use]
    pub fn with_raw(mut self) -> Self {
        if !self.include.contains(&Include::RawOutput) {
            self.include.push(Include::RawOutput);
        }
        self
    }

    /// Sets the longest output.
    #[must_use]
    pub fn with_tail_bytes(mut self, bytes: usize) -> Self {
        self.tail_bytes = bytes;
        self
    }

    /// Sets how long to wait.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Accepts that the awaited status is there already.
    #[must_use]
    pub fn with_accept_current(mut self, accept: bool) -> Self {
        self.accept_current = accept;
        self
    }

    pub(super) fn includes(&self, class: Include) -> bool {
        self.include.contains(&class)
    }

    /// The kinds of records that the answer depends on.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.include.iter().flat_map(|class| class.kinds()).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// A class of data in an answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// Who the agent is; always there.
    Agent,
    /// Where delivery stands.
    Delivery,
    /// Every record but output and transcript, in order.
    Events,
    /// Sanitised output.
    Output,
    /// Output as it came, with its escape sequences.
    RawOutput,
    /// Changes of status, among the events.
    Status,
    /// The transcript.
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

    /// What an answer holds when nobody says otherwise: status, transcript, output, delivery.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![Self::Status, Self::Transcript, Self::Output, Self::Delivery]
    }

    /// Reads a list such as `status,output`.
    ///
    /// # Errors
    /// `invalid_input` for a word that is no class.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Error> {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
    }

    /// The word on the wire.
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

    /// The kinds whose records it shows one by one or as a whole.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Agent | Self::Delivery => &[],
            Self::Events => &[Kind::Status, Kind::Delivery, Kind::Event, Kind::Issue, Kind::Lifecycle],
            Self::Output | Self::RawOutput => &[Kind::Output],
            Self::Status => &[Kind::Status],
            Self::Transcript => &[Kind::Transcript],
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

/// The answer.
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
    /// The version of this shape: 1.
    pub schema: u32,
    /// Who.
    pub agent: AgentView,
    /// The point up to which this answer goes; hand it back as `since`.
    pub cursor: Cursor,
    /// With `until`: the record that made the condition true; none when it was true already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<Cursor>,
    /// What happened, oldest first.
    #[serde(default)]
    pub events: Vec<EventView>,
    /// The transcript, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<TranscriptView>,
    /// The sanitised output, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputView>,
    /// The output as it came, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<OutputView>,
    /// Where delivery stands, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryView>,
}

/// Who is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentView {
    /// Its name for people.
    pub name: String,
    /// The session.
    pub uuid: String,
    /// The backend.
    pub provider: String,
    /// What it is doing.
    pub status: Status,
    /// Since when; RFC 3339 with milliseconds.
    pub last_status_at: Option<String>,
}

impl AgentView {
    pub(super) fn new(
        name: String,
        uuid: String,
        provider: String,
        status: Status,
        at: Option<String>,
    ) -> Self {
        Self { name, uuid, provider, status, last_status_at: at }
    }
}

/// One record.
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
    /// Its cursor.
    pub cursor: Cursor,
    /// When; RFC 3339 with milliseconds.
    pub time: String,
    /// What kind: that of the record, or the name of an event.
    pub kind: String,
    /// How we know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What belongs to the kind.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl EventView {
    pub(super) fn new(cursor: Cursor, time: String, kind: &str, fields: serde_json::Value) -> Self {
        let fields = match fields {
            serde_json::Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        Self { cursor, time, kind: kind.to_owned(), source: None, fields }
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
            fields.retain(|_, value| !value.is_null());
            if record.omitted_bytes > 0 {
                fields.insert("omitted_bytes".to_owned(), record.omitted_bytes.into());
            }
        }
        let time = record.time.to_millis_string();
        Self { source: Some(record.source), ..Self::new(record.cursor.clone(), time, kind, fields) }
    }
}

/// Output, cut to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputView {
    /// The text.
    pub text: String,
    /// Whether something before it is missing.
    pub truncated: bool,
    /// How much, in bytes; where records went while a watch waited, at most this much.
    pub omitted_bytes: u64,
    /// When something is missing: the cursor from which all output is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_available_cursor: Option<Cursor>,
}

impl OutputView {
    /// The end of `text`. `boundary` moves the place to cut to one where the text may be cut.
    pub(super) fn tail(
        text: String,
        limit: usize,
        lost: u64,
        oldest: Cursor,
        boundary: impl FnOnce(&str, usize) -> usize,
    ) -> Self {
        let mut start = text.len().saturating_sub(limit);
        if start > 0 {
            start = boundary(&text, start);
        }
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let omitted_bytes = start as u64 + lost;
        let truncated = omitted_bytes > 0;
        let text = text.get(start..).unwrap_or_default().to_owned();
        Self { text, truncated, omitted_bytes, oldest_available_cursor: truncated.then_some(oldest) }
    }
}

/// The messages of a transcript, the last ones first to stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TranscriptView {
    /// The point up to which it goes.
    pub cursor: Cursor,
    /// The messages, oldest first.
    pub messages: Vec<TranscriptMessage>,
    /// The last text that is not blank; empty when there is none.
    pub latest_text: String,
    /// Whether something before them is missing.
    pub truncated: bool,
    /// How much, in bytes.
    pub omitted_bytes: u64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TranscriptMessage {
    /// Its cursor.
    pub cursor: Cursor,
    /// Who speaks.
    pub role: Role,
    /// What.
    pub text: String,
    /// The backend.
    pub provider: String,
    /// The provider's id of the message or turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// How we know.
    pub source: Source,
}

impl TranscriptView {
    /// The messages that fit `limit` bytes, from the end; the first of them is cut at its head.
    pub(super) fn new<'a>(
        cursor: Cursor,
        provider: &str,
        records: impl DoubleEndedIterator<Item = &'a Record>,
        limit: usize,
        lost: u64,
    ) -> Self {
        let (mut messages, mut left, mut omitted) = (Vec::new(), limit, lost);
        let (mut latest_text, mut latest_found) = (String::new(), false);
        for record in records.rev() {
            let Body::Transcript(message) = &record.body else { continue };
            let text = shown(&message.text());
            let mut start = text.len().saturating_sub(left);
            while !text.is_char_boundary(start) {
                start += 1;
            }
            omitted += start as u64 + record.omitted_bytes;
            let kept = text.get(start..).unwrap_or_default();
            left -= kept.len().min(left);
            if kept.is_empty() {
                continue;
            }
            if !latest_found && !kept.trim().is_empty() {
                (latest_text, latest_found) = (kept.to_owned(), true);
            }
            messages.push(TranscriptMessage {
                cursor: record.cursor.clone(),
                role: message.role,
                text: kept.to_owned(),
                provider: provider.to_owned(),
                turn_id: message.id.clone(),
                source: record.source,
            });
        }
        messages.reverse();
        Self { cursor, messages, latest_text, truncated: omitted > 0, omitted_bytes: omitted }
    }
}

/// Where delivery stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeliveryView {
    /// Whether text can be delivered now.
    pub input_available: bool,
    /// How far the last delivery got.
    pub last_state: Option<DeliveryState>,
    /// The code of what went wrong with it.
    pub last_error: Option<String>,
}

impl DeliveryView {
    pub(super) fn new(available: bool, state: Option<DeliveryState>, error: Option<String>) -> Self {
        Self { input_available: available, last_state: state, last_error: error }
    }
}

/// A message's text without what could command a terminal.
fn shown(text: &str) -> String {
    let (mut strip, mut clean) = (super::sanitize::Strip::new(), String::new());
    super::sanitize::Sanitizer::feed(&mut strip, text.as_bytes(), &mut clean);
    present(&clean)
}
