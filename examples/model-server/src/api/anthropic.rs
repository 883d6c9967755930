//! Reads and writes the Anthropic Messages API.

use serde_json::{Value, json};

use super::{Body, CACHED, INPUT, OUTPUT, Reply, halves, named};
use crate::Ask;
use crate::ask::{list, text_of};

pub(super) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: text_of(&body["model"]),
        system: text_of(&body["system"]),
        stream: body["stream"] == true,
        ..Ask::default()
    };
    for tool in list(&body["tools"]) {
        ask.tools.push((text_of(&tool["name"]), tool["input_schema"].clone()));
    }
    for message in list(&body["messages"]) {
        let content = &message["content"];
        let results: Vec<&Value> =
            list(content).iter().filter(|block| block["type"] == "tool_result").collect();
        match message["role"].as_str() {
            // Results of tools come in the user's name. They answer no prompt and must not count as one.
            Some("user") if !results.is_empty() => {
                results.iter().for_each(|result| ask.tool_says(text_of(&result["content"])));
            }
            Some("user") => {
                let texts = match content {
                    Value::Array(blocks) => blocks.iter().map(text_of).collect(),
                    other => vec![text_of(other)],
                };
                // Claude Code adds its reminders to the user's message as further blocks.
                let is_added = |text: &String| text.trim_start().starts_with("<system-reminder>");
                let (added, said): (Vec<_>, Vec<_>) = texts.into_iter().partition(is_added);
                ask.added.extend(added);
                ask.user_says(said.join("\n"));
            }
            Some("system") => ask.system.push_str(&text_of(content)),
            _ => {}
        }
    }
    ask
}

pub(super) fn write(ask: &Ask, reply: &Reply) -> Body {
    let mut content = Vec::new();
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text }));
    }
    if let Some(call) = &reply.call {
        content.push(json!({ "type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name, "input": call.input }));
    }
    let stop = if reply.call.is_some() { "tool_use" } else { "end_turn" };
    let message = json!({
        "id": format!("msg_wf{:06}", reply.number), "type": "message", "role": "assistant", "model": ask.model,
        "content": content, "stop_reason": stop, "stop_sequence": null,
        // Here the input count leaves cached tokens out, unlike in the other APIs.
        "usage": { "input_tokens": INPUT - CACHED, "output_tokens": OUTPUT, "cache_creation_input_tokens": 0, "cache_read_input_tokens": CACHED },
    });
    if !ask.stream {
        return Body::Json(message);
    }
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    // The final count comes in `message_delta`.
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![named(&json!({ "type": "message_start", "message": start }))];
    for (index, block) in content.iter().enumerate() {
        // A block starts empty; its content follows as deltas.
        let mut empty = block.clone();
        let whole = match block["type"].as_str() {
            Some("text") => {
                empty["text"] = json!("");
                text_of(&block["text"])
            }
            _ => {
                // The input of a tool is streamed as pieces of JSON text.
                empty["input"] = json!({});
                block["input"].to_string()
            }
        };
        events.push(named(&json!({ "type": "content_block_start", "index": index, "content_block": empty })));
        for part in halves(&whole) {
            let delta = match block["type"].as_str() {
                Some("text") => json!({ "type": "text_delta", "text": part }),
                _ => json!({ "type": "input_json_delta", "partial_json": part }),
            };
            events.push(named(&json!({ "type": "content_block_delta", "index": index, "delta": delta })));
        }
        events.push(named(&json!({ "type": "content_block_stop", "index": index })));
    }
    events.push(named(&json!({
        "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": OUTPUT },
    })));
    events.push(named(&json!({ "type": "message_stop" })));
    Body::Events(events)
}
