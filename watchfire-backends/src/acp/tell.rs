//! Turns the updates of a working agent into messages: pieces of text are joined, and a tool call becomes one message
//! when it starts and one when it ends. Everything kept in memory is bounded.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;
use watchfire_core::backend::{Message, Part, Role};

use crate::common::json;

/// Largest text that is gathered before it is passed on, in bytes.
const GATHERED: usize = 32 * 1024;
/// Largest number of tool calls that are followed at a time.
const FOLLOWED: usize = 64;
/// Longest id of a tool call, in bytes.
const LONGEST_ID: usize = 256;

/// The text and the tool calls that an agent has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Teller {
    said: String,
    thinking: bool,
    calls: VecDeque<Call>,
}

/// A tool call that has not ended.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    input: String,
    /// True once the call was passed on as a message.
    told: bool,
}

impl Teller {
    /// Takes in a piece of text or thought. Returns the gathered text if this piece does not continue it.
    pub(super) fn hear(&mut self, content: &ContentBlock, thinking: bool) -> Option<Message> {
        let text = text_of(content)?;
        let before = if thinking == self.thinking && self.said.len() + text.len() <= GATHERED {
            None
        } else {
            self.flush()
        };
        self.thinking = thinking;
        self.said.push_str(&text);
        before
    }

    /// Returns the gathered text, if it is more than blanks.
    pub(super) fn flush(&mut self) -> Option<Message> {
        let text = std::mem::take(&mut self.said);
        if text.trim().is_empty() {
            return None;
        }
        let part = if self.thinking { Part::thinking(text) } else { Part::text(text) };
        Some(Message::new(Role::Assistant, vec![part]))
    }

    /// Takes in an update of a tool call. The call is passed on when its purpose is known, and again when it has ended.
    pub(super) fn follow(&mut self, update: &ToolCallUpdate) -> Vec<Message> {
        // The text before a call stands before it in the log, too.
        let mut messages: Vec<Message> = self.flush().into_iter().collect();
        let (id, fields) = (update.tool_call_id.0.as_ref(), &update.fields);
        // The agent chooses the id, and the list keeps it.
        if id.len() > LONGEST_ID {
            return messages;
        }
        let known = self.calls.iter().position(|call| call.id == id);
        // Taken out and pushed again at the end, so that the call without news for the longest time is
        // dropped first.
        let mut call = known.and_then(|at| self.calls.remove(at)).unwrap_or_else(|| Call {
            id: id.to_owned(),
            name: String::new(),
            input: String::new(),
            told: false,
        });
        call.learn(fields);
        // A pending call may not have its input yet. The next update shows it.
        let begun = !matches!(fields.status, None | Some(ToolCallStatus::Pending));
        if !call.told && (begun || known.is_some()) {
            call.told = true;
            messages.push(call.message());
        }
        if let Some(ToolCallStatus::Completed | ToolCallStatus::Failed) = fields.status {
            // opencode reports a command that failed as completed, with its exit code in the metadata.
            let exit =
                fields.raw_output.as_ref().is_some_and(|output| json::exit_failed(output, "metadata.exit"));
            let failed = fields.status == Some(ToolCallStatus::Failed) || exit;
            let result = Part::tool_result(result(fields), failed);
            messages.push(Message::new(Role::Tool, vec![result]));
            return messages;
        }
        self.calls.push_back(call);
        // An agent that never ends its calls must not fill the memory.
        if self.calls.len() > FOLLOWED {
            self.calls.pop_front();
        }
        messages
    }

    /// Ends the turn and its tool calls. Returns the gathered text.
    pub(super) fn end(&mut self) -> Option<Message> {
        self.calls.clear();
        self.flush()
    }
}

impl Call {
    fn learn(&mut self, fields: &ToolCallUpdateFields) {
        if let Some(name) = fields.name.clone().or_else(|| fields.kind.map(word)) {
            self.name = json::one_line(&name);
        }
        // An empty object says less than the title.
        let given =
            fields.raw_input.as_ref().filter(|input| input.as_object().is_some_and(|all| !all.is_empty()));
        match (given, &fields.title) {
            (Some(input), _) => self.input = json::summary(input),
            (None, Some(title)) if self.input.is_empty() || !self.told => self.input = json::one_line(title),
            _ => {}
        }
    }

    fn message(&self) -> Message {
        let part = Part::tool_call(self.name.clone(), self.input.clone());
        Message::new(Role::Assistant, vec![part])
    }
}

/// Returns the kind of a tool as the protocol names it.
fn word(kind: ToolKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or("tool").to_owned()
}

/// Returns the result of a tool: the content that it shows, else its raw output.
fn result(fields: &ToolCallUpdateFields) -> String {
    let shown = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Content(content) => text_of(&content.content),
        // The path alone: the change itself is in the worktree.
        ToolCallContent::Diff(diff) => Some(diff.path.display().to_string()),
        _ => None,
    });
    let shown = shown.collect::<Vec<_>>().join("\n");
    if !shown.is_empty() {
        return shown;
    }
    const KEYS: &[&str] = &["formatted_output", "output", "content", "stdout", "error", "message"];
    match &fields.raw_output {
        Some(Value::String(text)) => text.clone(),
        Some(output) => KEYS.iter().find_map(|key| json::text(output, key)).unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

/// Returns the text of a piece of content, or the address of a link. Returns `None` for images, audio and other data.
fn text_of(content: &ContentBlock) -> Option<String> {
    match content {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::ResourceLink(link) => Some(link.uri.clone()),
        _ => None,
    }
}
