//! Reads and writes the OpenAI Chat Completions API.

use serde_json::{Value, json};

use super::{Body, CACHED, INPUT, OUTPUT, Reply, data, halves};
use crate::Ask;
use crate::ask::{list, text_of};

pub(super) fn read(body: &Value) -> Ask {
    let mut ask = Ask { model: text_of(&body["model"]), stream: body["stream"] == true, ..Ask::default() };
    for tool in list(&body["tools"]) {
        ask.tools.push((text_of(&tool["function"]["name"]), tool["function"]["parameters"].clone()));
    }
    for message in list(&body["messages"]) {
        let text = text_of(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => ask.system.push_str(&text),
            Some("tool") => ask.tool_says(text),
            Some("user") => ask.user_says(text),
            _ => {}
        }
    }
    ask
}

pub(super) fn write(ask: &Ask, reply: &Reply) -> Body {
    let id = format!("chatcmpl-wf{}", reply.number);
    let finish = if reply.call.is_some() { "tool_calls" } else { "stop" };
    let usage = json!({
        "prompt_tokens": INPUT, "prompt_tokens_details": { "cached_tokens": CACHED },
        "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
    });
    let call = |arguments: &str| {
        reply.call.as_ref().map(|call| {
            json!([{ "index": 0, "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } }])
        })
    };
    let input = reply.call.as_ref().map(|call| call.input.to_string()).unwrap_or_default();
    if !ask.stream {
        let mut message = json!({ "role": "assistant", "content": reply.text });
        if let Some(calls) = call(&input) {
            message["tool_calls"] = calls;
        }
        return Body::Json(json!({
            "id": id, "object": "chat.completion", "created": 0, "model": ask.model, "usage": usage,
            "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        }));
    }
    let chunk = |delta: Value, finish: Value| {
        data(&json!({
            "id": id, "object": "chat.completion.chunk", "created": 0, "model": ask.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if !reply.text.is_empty() {
        events.extend(halves(&reply.text).map(|part| chunk(json!({ "content": part }), Value::Null)));
    }
    // The name comes first with empty arguments, then the arguments piece by piece.
    if let Some(calls) = call("") {
        events.push(chunk(json!({ "tool_calls": calls }), Value::Null));
        events.extend(halves(&input).map(|part| {
            chunk(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": part } }] }), Value::Null)
        }));
    }
    events.push(chunk(json!({}), json!(finish)));
    // The usage is in a chunk of its own, without choices, at the end.
    events.push(data(&json!({
        "id": id, "object": "chat.completion.chunk", "created": 0, "model": ask.model, "choices": [], "usage": usage,
    })));
    events.push("data: [DONE]\n\n".into());
    Body::Events(events)
}
