//! Reads and writes Gemini's generateContent API.

use serde_json::{Value, json};

use super::{Body, CACHED, INPUT, OUTPUT, Reply, data, halves};
use crate::Ask;
use crate::ask::{list, text_of};

/// Prefix of requests from agents with a login instead of a key. These requests and their answers are in an envelope.
const WITH_LOGIN: &str = "/v1internal:";

pub(super) fn read(path: &str, body: &Value) -> Ask {
    let with_login = path.starts_with(WITH_LOGIN);
    // With a key the model is part of the path: `/v1beta/models/NAME:generateContent`.
    let model = path.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    let model = if with_login { text_of(&body["model"]) } else { model.to_owned() };
    let body = if with_login { &body["request"] } else { body };
    let mut ask = Ask {
        model,
        system: text_of(&body["systemInstruction"]),
        stream: path.ends_with(":streamGenerateContent"),
        ..Ask::default()
    };
    for tool in list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"])) {
        // The newer form is JSON Schema, the older one Gemini's own.
        let schema = ["parametersJsonSchema", "parameters"].iter().find_map(|key| tool.get(*key));
        ask.tools.push((text_of(&tool["name"]), schema.map(lowercase_types).unwrap_or_default()));
    }
    for content in list(&body["contents"]).iter().filter(|content| content["role"] != "model") {
        let parts = list(&content["parts"]);
        let results: Vec<&Value> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
        // Results of tools come in the user's name. They answer no prompt and must not count as one.
        if results.is_empty() {
            let is_added = |text: &String| text.trim_start().starts_with("<session_context>");
            let (added, said): (Vec<_>, Vec<_>) = parts.iter().map(text_of).partition(is_added);
            ask.added.extend(added);
            ask.user_says(said.join("\n"));
        }
        results.iter().for_each(|result| ask.tool_says(result["response"].to_string()));
    }
    ask
}

/// Returns the schema with its types in lower case, as JSON Schema has them. Gemini's own schemas write them in
/// capitals.
fn lowercase_types(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let lower = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("type", Value::String(kind)) => (key.clone(), json!(kind.to_lowercase())),
                _ => (key.clone(), lowercase_types(value)),
            };
            Value::Object(map.iter().map(lower).collect())
        }
        Value::Array(all) => all.iter().map(lowercase_types).collect(),
        other => other.clone(),
    }
}

pub(super) fn write(ask: &Ask, reply: &Reply) -> Body {
    let usage = json!({ "promptTokenCount": INPUT, "cachedContentTokenCount": CACHED, "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT });
    let answer = |parts: Vec<Value>, finish: bool| {
        let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
        if finish {
            candidate["finishReason"] = json!("STOP");
        }
        let answer = json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": ask.model, "responseId": format!("wf{}", reply.number) });
        if ask.path.starts_with(WITH_LOGIN) { json!({ "response": answer }) } else { answer }
    };
    let text = |text: &str| json!({ "text": text });
    let call = reply.call.as_ref().map(|call| {
        // Newer models sign their calls, and the client must send the signature back.
        json!({ "functionCall": { "name": call.name, "args": call.input }, "thoughtSignature": "d2F0Y2hmaXJl" })
    });
    if !ask.stream {
        let parts = Some(text(&reply.text)).filter(|_| !reply.text.is_empty()).into_iter().chain(call);
        return Body::Json(answer(parts.collect(), true));
    }
    let mut events = Vec::new();
    if !reply.text.is_empty() {
        let [one, other] = halves(&reply.text);
        events.push(data(&answer(vec![text(one)], false)));
        // Only the last piece has a reason for the end.
        events.push(data(&answer(vec![text(other)], call.is_none())));
    }
    if let Some(call) = call {
        events.push(data(&answer(vec![call], true)));
    }
    Body::Events(events)
}
