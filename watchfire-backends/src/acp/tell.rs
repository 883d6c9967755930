//! Turns an agent's updates while it works into messages.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;
use watchfire_core::backend::{Message, Part, Role};

use crate::common::json;

/// Upper bound for text that is gathered before it is passed on.
const GATHERED: usize = 32 * 1024;
/// Upper bound for tool calls that are followed at a time.
const FOLLOWED: usize = 64;
/// The longest id of a tool call.
const LONGEST_ID: usize = 256;

/// Makes whole messages out of pieces. What it keeps is bounded.
#[derive(Debug, Default)]
pub(super) struct Teller {
    said: String,
    thinking: bool,
    calls: VecDeque<Call>,
}

/// A tool at work.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    input: String,
    told: bool,
}

impl Teller {
    /// Takes in a piece of speech or thought.
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

    /// Text that is not passed on yet.
    pub(super) fn flush(&mut self) -> Option<Message> {
        let text = std::mem::take(&mut self.said);
        if text.trim().is_empty() {
            return None;
        }
        let part = if self.thinking { Part::Thinking { text } } else { Part::Text { text } };
        Some(Message::new(Role::Assistant, vec![part]))
    }

    /// Takes in an update of a tool call. The call is passed on when its purpose is known, and again when it has ended.
    pub(super) fn follow(&mut self, update: &ToolCallUpdate) -> Vec<Message> {
        let mut messages: Vec<Message> = self.flush().into_iter().collect();
        let (id, fields) = (update.tool_call_id.0.as_ref(), &update.fields);
        if id.len() > LONGEST_ID {
            return messages;
        }
        let known = self.calls.iter().position(|call| call.id == id);
        let mut call = known.and_then(|at| self.calls.remove(at)).unwrap_or_else(|| Call {
            id: id.to_owned(),
            name: String::new(),
            input: String::new(),
            told: false,
        });
        call.learn(fields);
        let begun = !matches!(fields.status, None | Some(ToolCallStatus::Pending));
        if !call.told && (begun || known.is_some()) {
            call.told = true;
            messages.push(call.message());
        }
        if let Some(ToolCallStatus::Completed | ToolCallStatus::Failed) = fields.status {
            // Of opencode a command that failed has completed.
            let exit =
                fields.raw_output.as_ref().is_some_and(|output| json::exit_failed(output, "metadata.exit"));
            let failed = fields.status == Some(ToolCallStatus::Failed) || exit;
            let result = Part::ToolResult { text: result(fields), failed };
            messages.push(Message::new(Role::Tool, vec![result]));
            return messages;
        }
        self.calls.push_back(call);
        if self.calls.len() > FOLLOWED {
            self.calls.pop_front();
        }
        messages
    }

    /// The turn has ended, and so have its tools.
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
        let given =
            fields.raw_input.as_ref().filter(|input| input.as_object().is_some_and(|all| !all.is_empty()));
        match (given, &fields.title) {
            (Some(input), _) => self.input = json::summary(input),
            (None, Some(title)) if self.input.is_empty() || !self.told => self.input = json::one_line(title),
            _ => {}
        }
    }

    fn message(&self) -> Message {
        let part = Part::ToolCall { name: self.name.clone(), input: self.input.clone() };
        Message::new(Role::Assistant, vec![part])
    }
}

/// Returns the kind of tool, in the protocol's word for it.
fn word(kind: ToolKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or("tool").to_owned()
}

/// Returns the result of a tool: the content that it shows, else its raw output.
fn result(fields: &ToolCallUpdateFields) -> String {
    let shown = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Content(content) => text_of(&content.content),
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

/// The text of a piece of content; for anything else, what it is.
fn text_of(content: &ContentBlock) -> Option<String> {
    match content {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::ResourceLink(link) => Some(link.uri.clone()),
        _ => None,
    }
}
