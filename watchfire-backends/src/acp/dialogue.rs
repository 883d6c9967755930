//! The state machine of one conversation: a handshake, a session, a mode, and then turns, one request at a time.

use std::path::PathBuf;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as OURS, CLIENT_METHOD_NAMES as THEIRS, CancelNotification, ContentBlock, Error,
    ErrorCode, Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, Meta,
    NewSessionRequest, PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse, RequestId,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
    SelectedPermissionOutcome, SessionId, SessionModeState, SessionNotification, SessionUpdate,
    SetSessionModeRequest, StopReason, TextContent,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchfire_core::backend::{Dialogue, Fact, Issue, IssueKind, Message, Move, Part, Role, Status, Usage};

use super::tell::Teller;
use super::wire::{self, Incoming};
use crate::common::{issues, json};

/// Words of an agent that wants a login before it speaks the protocol.
const ASKS_FOR_LOGIN: &str = "visit the following URL to authorize";

/// The requests at the beginning of a conversation.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Opening {
    /// The folder in which the agent works.
    pub cwd: PathBuf,
    /// The agent's session to go on with, instead of a new one.
    pub resume: Option<String>,
    /// The mode to set, if the agent has it.
    pub mode: Option<String>,
    /// Additions to the request for a session, beyond the protocol.
    pub meta: Option<Meta>,
    /// Servers of tools for the agent, as the protocol has them.
    pub tools: Option<Value>,
}

impl Opening {
    /// Returns the opening of a new session that works in `cwd`, which must be absolute.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: cwd.into(), ..Self::default() }
    }

    /// Resumes the agent's session with this id instead of a new one.
    #[must_use]
    pub fn with_resume(mut self, id: Option<String>) -> Self {
        self.resume = id;
        self
    }

    /// Sets the mode to ask for. It is ignored if the agent does not have it.
    #[must_use]
    pub fn with_mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Adds a vendor's own fields to the request for a session.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = Some(meta);
        self
    }
}

/// The client of the Agent Client Protocol: see [the module](super).
#[derive(Debug)]
pub struct AcpDialogue {
    opening: Opening,
    stage: Stage,
    /// The id of our last request. At most one request waits for its answer.
    asked: i64,
    session: Option<SessionId>,
    teller: Teller,
    /// True once the model has answered in this turn.
    answered: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Initializing,
    /// The request for a session is open.
    Opening,
    /// The request for a mode is open.
    Setting,
    Idle,
    /// A prompt was sent, and its turn has not ended.
    Turn,
    Over,
}

/// The fields that we read in the answers to the three requests that open a session: new, resume and load.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    session_id: Option<SessionId>,
    #[serde(default)]
    modes: Value,
}

impl AcpDialogue {
    /// Creates a conversation that has not begun.
    #[must_use]
    pub fn new(opening: Opening) -> Self {
        Self {
            opening,
            stage: Stage::Initializing,
            asked: 0,
            session: None,
            teller: Teller::default(),
            answered: false,
        }
    }

    fn ask(&mut self, stage: Stage, method: &str, params: impl serde::Serialize) -> Move {
        self.stage = stage;
        self.asked += 1;
        Move::Write(wire::request(self.asked, method, params))
    }

    fn answer(&mut self, result: Result<Value, Error>) -> Vec<Move> {
        match (self.stage, result) {
            (Stage::Initializing, Ok(result)) => self.initialized(result),
            (Stage::Opening, Ok(result)) => self.opened(result),
            // Not fatal without the mode: the agent only asks for permission more often, and `request` grants
            // it.
            (Stage::Setting, _) => self.idle().collect(),
            (Stage::Turn, Ok(result)) => self.ended(&result),
            (Stage::Turn, Err(error)) => self.failed(&error),
            (Stage::Initializing | Stage::Opening, Err(error)) => {
                let said = said(&error);
                match issue(&error, &said) {
                    Some(kind) => self.refused(kind, &said),
                    None => self.give_up(&said).into(),
                }
            }
            // A second answer with the id of a request that is answered already.
            (Stage::Idle | Stage::Over, _) => Vec::new(),
        }
    }

    fn initialized(&mut self, result: Value) -> Vec<Move> {
        let Some(agent) = parsed::<InitializeResponse>(result) else {
            return self.give_up("it does not speak the Agent Client Protocol").into();
        };
        // The agent answers with the version that it will speak, which need not be the one that we asked for.
        if agent.protocol_version != ProtocolVersion::V1 {
            let why = format!("it speaks version {} of the protocol, not 1", agent.protocol_version);
            return self.give_up(&why).into();
        }
        let (cwd, meta) = (self.opening.cwd.clone(), self.opening.meta.clone());
        let can = agent.agent_capabilities;
        let next = match self.opening.resume.clone() {
            None => {
                let request = self.with_tools(NewSessionRequest::new(cwd).meta(meta));
                self.ask(Stage::Opening, OURS.session_new, request)
            }
            // Preferred to `session/load`, which repeats the whole conversation as updates.
            Some(id) if can.session_capabilities.resume.is_some() => {
                // Set now: neither answer has to name the session again.
                self.session = Some(SessionId::new(id.clone()));
                let request = self.with_tools(ResumeSessionRequest::new(id, cwd).meta(meta));
                self.ask(Stage::Opening, OURS.session_resume, request)
            }
            Some(id) if can.load_session => {
                self.session = Some(SessionId::new(id.clone()));
                let request = self.with_tools(LoadSessionRequest::new(id, cwd).meta(meta));
                self.ask(Stage::Opening, OURS.session_load, request)
            }
            Some(_) => return self.give_up("it cannot go on with a session").into(),
        };
        vec![next]
    }

    /// Adds the servers of tools to a request for a session.
    fn with_tools(&self, request: impl Serialize) -> Value {
        let mut request = serde_json::to_value(request).unwrap_or_default();
        if let (Some(tools), Some(fields)) = (&self.opening.tools, request.as_object_mut()) {
            fields.insert("mcpServers".to_owned(), tools.clone());
        }
        request
    }

    fn opened(&mut self, result: Value) -> Vec<Move> {
        // Some agents answer the request to resume a session with `null`.
        let opened: Option<Opened> = if result.is_null() { None } else { parsed(result) };
        let id = opened.as_ref().and_then(|opened| opened.session_id.clone());
        // An empty id would match no update of the session.
        if let Some(id) = id.filter(|id| !id.0.is_empty()) {
            self.session = Some(id);
        }
        let Some(session) = self.session.clone() else {
            return self.give_up("it opened a session without an id").into();
        };
        let id = Move::Fact(Fact::VendorSession(session.0.to_string()));
        let modes = opened.and_then(|opened| parsed::<SessionModeState>(opened.modes));
        // A request for a mode that the agent lacks or is already in would change nothing.
        let wanted = self.opening.mode.clone().zip(modes).filter(|(mode, modes)| {
            *modes.current_mode_id.0 != **mode
                && modes.available_modes.iter().any(|known| *known.id.0 == **mode)
        });
        match wanted {
            Some((mode, _)) => {
                let request = SetSessionModeRequest::new(session, mode);
                vec![id, self.ask(Stage::Setting, OURS.session_set_mode, request)]
            }
            None => [id].into_iter().chain(self.idle()).collect(),
        }
    }

    fn idle(&mut self) -> impl Iterator<Item = Move> + use<> {
        self.stage = Stage::Idle;
        [Move::Fact(Fact::Status(Status::Idle))].into_iter()
    }

    fn ended(&mut self, result: &Value) -> Vec<Move> {
        self.stage = Stage::Idle;
        // First the text that was still being gathered, so that messages stay in the order in which they were
        // said.
        let mut messages: Vec<Message> = self.teller.end().into_iter().collect();
        // A reason that this version of the types does not know still ends the turn.
        let reason = parsed(result.clone()).map(|response: PromptResponse| response.stop_reason);
        let early = match reason {
            Some(StopReason::MaxTokens) => Some("the answer is too long"),
            Some(StopReason::MaxTurnRequests) => Some("the turn takes too many requests"),
            Some(StopReason::Refusal) => Some("the model refuses to go on"),
            _ => None,
        };
        messages.extend(early.map(error_message));
        messages.extend(usage(result));
        let facts = [Fact::TurnCompleted, Fact::Status(Status::Idle)].map(Move::Fact);
        messages.into_iter().map(Move::Message).chain(facts).collect()
    }

    fn failed(&mut self, error: &Error) -> Vec<Move> {
        self.stage = Stage::Idle;
        let said = said(error);
        let messages = self.teller.end().into_iter().chain([error_message(&said)]).map(Move::Message);
        // A turn that we cancelled may end with this error instead of a stop reason. That is no failure.
        let cancelled = error.code == ErrorCode::RequestCancelled;
        let facts = match cancelled {
            true => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
            false => issues::failed_turn(issue(error, &said), &said),
        };
        messages.chain(facts.into_iter().map(Move::Fact)).collect()
    }

    /// Ends the conversation for an issue.
    fn refused(&mut self, kind: IssueKind, said: &str) -> Vec<Move> {
        let issue = Move::Fact(Fact::Issue(Issue::new(kind, said)));
        [issue].into_iter().chain(self.give_up(said)).collect()
    }

    fn give_up(&mut self, why: &str) -> [Move; 2] {
        self.stage = Stage::Over;
        [Move::Fact(Fact::Status(Status::Error)), Move::GiveUp(json::one_line(why))]
    }

    fn request(&mut self, id: RequestId, method: &str, params: Value) -> Vec<Move> {
        if method != THEIRS.session_request_permission {
            // We announced no files and no terminals. Without an answer the agent would wait for one.
            let error = Error::method_not_found();
            return vec![Move::Write(wire::answer(id, Err::<(), _>(error)))];
        }
        let Some(asked) = parsed::<RequestPermissionRequest>(params) else {
            return vec![Move::Write(wire::answer(id, Err::<(), _>(Error::invalid_params())))];
        };
        let mut moves: Vec<Move> =
            // The request may be the first message that describes its call.
            self.teller.follow(&asked.tool_call).into_iter().map(Move::Message).collect();
        let granted = allowing(&asked.options);
        let outcome = match granted {
            Some(option) => {
                let selected = SelectedPermissionOutcome::new(option.option_id.clone());
                RequestPermissionOutcome::Selected(selected)
            }
            None => RequestPermissionOutcome::Cancelled,
        };
        let title = asked.tool_call.fields.title.as_deref().unwrap_or_default();
        let payload = json!({ "for": json::one_line(title), "granted": granted.is_some() });
        moves.push(Move::event("permission", payload));
        moves.push(Move::Write(wire::answer(id, Ok(RequestPermissionResponse::new(outcome)))));
        moves
    }

    fn update(&mut self, update: SessionUpdate) -> Vec<Move> {
        // While a session is being loaded, the agent repeats its old updates. They are already in the log of
        // an earlier session.
        if !matches!(self.stage, Stage::Idle | Stage::Turn) {
            return Vec::new();
        }
        let messages = match update {
            // An empty chunk is no answer of the model, and must not clear its issues below.
            SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::AgentThoughtChunk(chunk) if matches!(&chunk.content, ContentBlock::Text(text) if text.text.is_empty()) =>
            {
                return Vec::new();
            }
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.teller.hear(&chunk.content, false).into_iter().collect()
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                self.teller.hear(&chunk.content, true).into_iter().collect()
            }
            SessionUpdate::ToolCall(call) => self.teller.follow(&call.into()),
            SessionUpdate::ToolCallUpdate(update) => self.teller.follow(&update),
            SessionUpdate::Plan(plan) => {
                let entry = |entry: &_| serde_json::to_value(entry).unwrap_or_default();
                let payload = json!({ "entries": plan.entries.iter().map(entry).collect::<Vec<_>>() });
                return vec![Move::event("plan", payload)];
            }
            _ => return Vec::new(),
        };
        // Once a turn: every chunk would record the same status and the same cleared issues again.
        let first = self.stage == Stage::Turn && !std::mem::replace(&mut self.answered, true);
        let facts = if first { issues::answered(Status::Processing) } else { Vec::new() };
        messages.into_iter().map(Move::Message).chain(facts.into_iter().map(Move::Fact)).collect()
    }
}

impl Dialogue for AcpDialogue {
    fn open(&mut self) -> Vec<Move> {
        let us = Implementation::new("watchfire", env!("CARGO_PKG_VERSION")).title("Watchfire".to_owned());
        // A capability that is not named counts as absent, so the agent uses its own files and commands in
        // its sandbox.
        let request = InitializeRequest::new(ProtocolVersion::V1).client_info(us);
        vec![self.ask(Stage::Initializing, OURS.initialize, request)]
    }

    fn hear(&mut self, line: &str) -> Vec<Move> {
        match wire::read(line) {
            _ if self.stage == Stage::Over => Vec::new(),
            // Gemini asks in plain text, and would take the next request for the answer.
            None if self.stage == Stage::Initializing && line.contains(ASKS_FOR_LOGIN) => {
                self.refused(IssueKind::AuthRequired, "asks for a login in the browser")
            }
            None => Vec::new(),
            Some(Incoming::Response { id, result }) if id == self.asked => self.answer(result),
            // No open request of ours has this id, so the stage must not change.
            Some(Incoming::Response { .. }) => Vec::new(),
            Some(Incoming::Request { id, method, params }) => self.request(id, &method, params),
            Some(Incoming::Notification { method, params }) if method == THEIRS.session_update => {
                match parsed::<SessionNotification>(params) {
                    // Updates of another session in the same agent are not part of this conversation.
                    Some(told) if Some(&told.session_id) == self.session.as_ref() => self.update(told.update),
                    _ => Vec::new(),
                }
            }
            Some(Incoming::Notification { .. }) => Vec::new(),
        }
    }

    fn say(&mut self, text: &str) -> Vec<Move> {
        let Some(session) = self.session.clone() else { return Vec::new() };
        self.answered = false;
        let prompt = vec![ContentBlock::Text(TextContent::new(text))];
        let asked = self.ask(Stage::Turn, OURS.session_prompt, PromptRequest::new(session, prompt));
        let message = Message::new(Role::User, vec![Part::text(text)]);
        vec![Move::Message(message), Move::Fact(Fact::Status(Status::Processing)), asked]
    }

    fn interrupt(&mut self) -> Vec<Move> {
        match (self.stage, self.session.clone()) {
            (Stage::Turn, Some(session)) => {
                // A notification has no answer of its own: the turn ends with the answer to its prompt.
                vec![Move::Write(wire::notification(OURS.session_cancel, CancelNotification::new(session)))]
            }
            _ => Vec::new(),
        }
    }

    fn is_ready(&self) -> bool {
        self.stage == Stage::Idle
    }
}

/// Returns the option that allows least: some agents write a permanent permission down in the worktree.
fn allowing(options: &[PermissionOption]) -> Option<&PermissionOption> {
    let of = |kind| options.iter().find(|option| option.kind == kind);
    of(PermissionOptionKind::AllowOnce).or_else(|| of(PermissionOptionKind::AllowAlways))
}

fn parsed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

/// Returns the message of an error. Some agents put the provider's answer into it as JSON.
fn said(error: &Error) -> String {
    let inner = json::object(&error.message);
    let inner = inner.as_ref().and_then(|inner| json::text(inner, "error.message"));
    let data = match &error.data {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(data) => ["message", "details", "error"].iter().find_map(|key| json::text(data, key)),
        None => None,
    };
    let record = data.and_then(json::object);
    let data = record.as_ref().and_then(|record| json::text(record, "error.message")).or(data);
    // Agents put this in front of errors of every kind. It must not be classified as the provider's internal
    // error.
    let said = inner.unwrap_or(&error.message).trim_start_matches("Internal error").trim_start_matches(": ");
    match data {
        Some(data) if said.is_empty() => data.to_owned(),
        Some(data) if !said.contains(data) => format!("{said}: {data}"),
        _ if said.is_empty() => error.message.clone(),
        _ => said.to_owned(),
    }
}

/// Returns the issue that an error stands for: one of the protocol, or one of the provider by its words or its HTTP
/// status.
fn issue(error: &Error, said: &str) -> Option<IssueKind> {
    if error.code == ErrorCode::AuthRequired {
        return Some(IssueKind::AuthRequired);
    }
    // Some agents use the provider's HTTP status as the error code.
    let status = u64::try_from(i32::from(error.code)).ok();
    issues::by_words(said).or_else(|| issues::by_status(status?))
}

fn error_message(text: &str) -> Message {
    Message::new(Role::Assistant, vec![Part::error(text)])
}

/// Returns the tokens of a turn. Some agents count cached tokens as input too, which the sum shows.
fn usage(result: &Value) -> Option<Message> {
    let counts = result.get("usage").filter(|counts| counts.is_object())?;
    let number = |key: &str| json::number(counts, key);
    let mut usage = Usage::default();
    usage.output_tokens = number("outputTokens").saturating_add(number("thoughtTokens"));
    usage.cache_read_tokens = number("cachedReadTokens");
    usage.cache_write_tokens = number("cachedWriteTokens");
    let others = [usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens];
    let others = others.into_iter().fold(0, u64::saturating_add);
    usage.input_tokens = match json::at(counts, "totalTokens").and_then(Value::as_u64) {
        // Input is at most the part of the sum that no other count has, so cached tokens are not counted
        // twice.
        Some(total) => number("inputTokens").min(total.saturating_sub(others)),
        None => number("inputTokens"),
    };
    let mut message = Message::new(Role::Assistant, Vec::new());
    message.usage = Some(usage);
    Some(message)
}
