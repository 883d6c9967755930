//! The agent's view of the Agent Client Protocol: reads the client's messages and writes the agent's.

use std::io::{self, BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use crate::common::json;

const SESSION: &str = "scripted-session";

/// The client of the agent's conversation.
pub(super) struct Client {
    /// Messages that the client wrote, except its interrupts.
    lines: Receiver<Value>,
}

impl Client {
    /// Starts to read the client's messages, in a thread of its own.
    pub(super) fn new() -> io::Result<Self> {
        let (sender, lines) = channel();
        std::thread::Builder::new().name("client".into()).spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let Some(message) = json::object(&line) else { continue };
                if json::text(&message, "method") == Some("session/cancel") {
                    // A cancelled turn takes the same path as Ctrl+C, see `Watch`.
                    let _ = kill_process(getpid(), Signal::INT);
                } else if sender.send(message).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines })
    }

    /// Waits for the next prompt, and returns it with the id with which its turn is ended. Answers the other
    /// requests. Returns `None` if nothing will follow.
    pub(super) fn text(&self) -> io::Result<Option<(Value, String)>> {
        while let Ok(message) = self.lines.recv() {
            let id = message.get("id").cloned().unwrap_or_default();
            let result = match json::text(&message, "method") {
                Some("initialize") => {
                    json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } })
                }
                Some("session/new") => json!({ "sessionId": SESSION }),
                // The script keeps no conversation, so there is nothing to repeat.
                Some("session/load") => json!({}),
                Some("session/prompt") => {
                    let blocks = json::list(json::at(&message, "params.prompt"));
                    let texts = blocks.iter().filter_map(|block| json::text(block, "text"));
                    return Ok(Some((id, texts.collect::<Vec<_>>().join("\n"))));
                }
                _ => continue,
            };
            write(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
        }
        Ok(None)
    }

    /// Waits for the client's next answer, and returns it as it came.
    pub(super) fn answer(&self) -> Option<String> {
        self.lines.recv().ok().map(|message| message.to_string())
    }

    pub(super) fn end_turn(&self, id: &Value, reason: &str) -> io::Result<()> {
        write(&json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": reason } }))
    }

    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        let content = json!({ "type": "text", "text": format!("{text}\n") });
        update(&json!({ "sessionUpdate": "agent_message_chunk", "content": content }))
    }

    /// Reports a completed tool call on a file.
    pub(super) fn note(&self, tool: &str, path: &str) -> io::Result<()> {
        update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": format!("{tool} {path}"), "title": path, "name": tool,
            "kind": "edit", "status": "completed",
        }))
    }
}

fn update(update: &Value) -> io::Result<()> {
    let params = json!({ "sessionId": SESSION, "update": update });
    write(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}

fn write(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}
