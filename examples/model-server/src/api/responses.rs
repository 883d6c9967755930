//! Reads and writes the OpenAI Responses API.

use serde_json::{Value, json};

use super::{Body, CACHED, INPUT, OUTPUT, Reply, halves, named};
use crate::Ask;
use crate::ask::{list, text_of};

pub(super) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: text_of(&body["model"]),
        system: text_of(&body["instructions"]),
        stream: body["stream"] == true,
        ..Ask::default()
    };
    for tool in list(&body["tools"]) {
        // Tools of other types have no schema that could be filled in.
        match tool["type"].as_str() {
            Some("function") => ask.tools.push((text_of(&tool["name"]), tool["parameters"].clone())),
            // Codex has the tools of a server in a namespace. No name of a tool has a dot in it.
            Some("namespace") => ask.tools.extend(list(&tool["tools"]).iter().map(|inner| {
                (
                    format!("{}.{}", text_of(&tool["name"]), text_of(&inner["name"])),
                    inner["parameters"].clone(),
                )
            })),
            _ => {}
        }
    }
    // The short form of a single message.
    if let Value::String(text) = &body["input"] {
        ask.user_says(text.clone());
    }
    for item in list(&body["input"]) {
        // The type may be left out for messages.
        match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
            ("message", Some("user")) => {
                let text = text_of(&item["content"]);
                // Codex sends its surroundings and the person's instructions in the user's name.
                let added = ["<environment_context>", "# AGENTS.md", "<user_instructions>"];
                match added.iter().any(|start| text.trim_start().starts_with(start)) {
                    true => ask.added.push(text),
                    false => ask.user_says(text),
                }
            }
            ("message", Some("developer" | "system")) => {
                ask.system.push('\n');
                ask.system.push_str(&text_of(&item["content"]));
            }
            ("function_call_output" | "custom_tool_call_output", _) => {
                ask.tool_says(text_of(&item["output"]))
            }
            _ => {}
        }
    }
    ask
}

pub(super) fn write(ask: &Ask, reply: &Reply) -> Body {
    let mut items = Vec::new();
    if !reply.text.is_empty() {
        items.push(json!({
            "type": "message", "id": format!("msg_wf{}", reply.number), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": reply.text, "annotations": [] }],
        }));
    }
    if let Some(call) = &reply.call {
        let (namespace, name) = call.name.split_once('.').unzip();
        let mut item = json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "status": "completed",
            "name": name.unwrap_or(&call.name), "arguments": call.input.to_string(),
        });
        if let Some(namespace) = namespace {
            item["namespace"] = namespace.into();
        }
        items.push(item);
    }
    let whole = json!({
        "id": format!("resp_wf{}", reply.number), "object": "response", "created_at": 0, "status": "completed",
        "model": ask.model, "output": items,
        "usage": {
            "input_tokens": INPUT, "input_tokens_details": { "cached_tokens": CACHED },
            "output_tokens": OUTPUT, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": INPUT + OUTPUT,
        },
    });
    if !ask.stream {
        return Body::Json(whole);
    }
    let mut started = whole.clone();
    started["status"] = json!("in_progress");
    // The response starts empty; its items follow.
    started["output"] = json!([]);
    let mut events = vec![named(&json!({ "type": "response.created", "response": started }))];
    for (index, item) in items.iter().enumerate() {
        let mut empty = item.clone();
        empty["status"] = json!("in_progress");
        let message = item["type"] == "message";
        if message {
            empty["content"] = json!([]);
        } else {
            empty["arguments"] = json!("");
        }
        events.push(named(
            &json!({ "type": "response.output_item.added", "output_index": index, "item": empty }),
        ));
        let text = if message { &reply.text } else { item["arguments"].as_str().unwrap_or_default() };
        let kind =
            if message { "response.output_text.delta" } else { "response.function_call_arguments.delta" };
        events.extend(halves(text).map(|part| {
            named(&json!({ "type": kind, "output_index": index, "content_index": 0, "item_id": item["id"], "delta": part }))
        }));
        events.push(named(
            &json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        ));
    }
    events.push(named(&json!({ "type": "response.completed", "response": whole })));
    Body::Events(events)
}
