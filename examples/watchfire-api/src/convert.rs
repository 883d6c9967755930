//! Between the library's types, their messages, and JSON.

use prost_types::value::Kind;
use prost_types::{Struct, Value as ProtoValue};
use serde_json::{Map, Value, json};
use watchfire_core::model::Timestamp;
use watchfire_core::observe::{
    AgentView, Candidate, DeliveryDetail, DeliveryView, EventView, OutputView, TranscriptView, WatchResponse,
};
use watchfire_core::orchestrator::Followed;
use watchfire_core::session::Session;

use crate::proto;

pub(crate) fn session(known: &Candidate, running: Option<&Session>) -> proto::Session {
    let (usage, cost_micros) = running.map(Session::spent).unzip();
    proto::Session {
        id: known.session.to_string(),
        alias: known.alias.as_ref().map(ToString::to_string).unwrap_or_default(),
        project_id: known.project.to_string(),
        project_name: known.project_name.clone(),
        mode: known.mode.to_string(),
        task_number: known.task.map_or(0, |task| task.value()),
        labels: known.labels.clone(),
        backend: known.backend.to_string(),
        started_at: known.started_at.to_string(),
        running: known.is_running,
        status: running.map_or("off", |session| session.status().as_str()).to_owned(),
        doing: running.map(Session::doing).unwrap_or_default(),
        runtime_state: running.map_or("target_off", |session| session.runtime_state().as_str()).to_owned(),
        phase: word_of(known.phase),
        usage: usage.map(|usage| proto::Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
        }),
        cost_micros: cost_micros.flatten(),
    }
}

fn word_of<T: ToString>(word: Option<T>) -> String {
    word.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Returns what a session works on, for people: `Execute #0001`, `Refine #0004`, `Generate`, `#0003`, or its mode.
#[must_use]
pub fn work(mode: &str, phase: &str, task: u32) -> String {
    let mut letters = phase.chars();
    let phase = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters);
    match (phase.collect::<String>(), task) {
        (phase, 0) if phase.is_empty() => mode.to_owned(),
        (phase, 0) => phase,
        (phase, task) => format!("{phase} #{task:04}").trim_start().to_owned(),
    }
}

/// Returns a session as JSON.
#[must_use]
pub fn session_json(session: &proto::Session) -> Value {
    json!({
        "id": session.id, "alias": session.alias, "project_id": session.project_id,
        "project_name": session.project_name, "mode": session.mode,
        "phase": (!session.phase.is_empty()).then_some(&session.phase),
        "task": (session.task_number > 0).then_some(session.task_number), "labels": session.labels,
        "backend": session.backend, "started_at": session.started_at, "running": session.running,
        "status": session.status, "doing": session.doing, "runtime_state": session.runtime_state,
        "usage": session.usage.map(|usage| json!({
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens,
        })),
        "cost_micros": session.cost_micros,
    })
}

pub(crate) fn watch(response: WatchResponse) -> proto::WatchResponse {
    let WatchResponse {
        schema,
        agent,
        cursor,
        matched,
        events,
        transcript,
        output,
        raw_output,
        delivery,
        warnings,
        ..
    } = response;
    let AgentView { name, uuid, provider, mode, phase, task, status, last_status_at, .. } = agent;
    proto::WatchResponse {
        schema,
        agent: Some(proto::Agent {
            name,
            uuid,
            provider,
            status: status.as_str().to_owned(),
            last_status_at,
            mode: word_of(mode),
            phase: word_of(phase),
            task_number: task.map_or(0, |task| task.value()),
        }),
        cursor: cursor.to_string(),
        matched: matched.as_ref().map(ToString::to_string).unwrap_or_default(),
        events: events.into_iter().map(event).collect(),
        transcript: transcript.map(conversation),
        output: output.map(text),
        raw_output: raw_output.map(text),
        delivery: delivery.map(|DeliveryView { input_available, last_state, last_error, .. }| {
            proto::Delivery {
                input_available,
                last_state: last_state.map(|state| state.as_str().to_owned()),
                last_error,
            }
        }),
        warnings,
    }
}

fn conversation(view: TranscriptView) -> proto::Transcript {
    let messages = view.messages.into_iter().map(|message| proto::Message {
        cursor: message.cursor.to_string(),
        role: word(&message.role),
        text: message.text,
        provider: message.provider,
        turn_id: message.turn_id,
        source: word(&message.source),
    });
    proto::Transcript {
        cursor: view.cursor.to_string(),
        messages: messages.collect(),
        latest_text: view.latest_text,
        truncated: view.truncated,
        omitted_bytes: view.omitted_bytes,
    }
}

fn text(view: OutputView) -> proto::Output {
    let OutputView { text, truncated, omitted_bytes, oldest_available_cursor, .. } = view;
    let oldest_available_cursor = oldest_available_cursor.map(|cursor| cursor.to_string());
    proto::Output { text, truncated, omitted_bytes, oldest_available_cursor }
}

pub(crate) fn event(view: EventView) -> proto::Event {
    let EventView { cursor, time, kind, source, replayed, fields, .. } = view;
    let source = source.as_ref().map(word).unwrap_or_default();
    proto::Event { cursor: cursor.to_string(), time, kind, source, fields: Some(to_struct(fields)), replayed }
}

/// Returns an item of a stream of the project with this id.
pub(crate) fn followed(project: &str, followed: Followed, now: &Timestamp) -> proto::FollowResponse {
    let about = |session: &Candidate, event| proto::FollowResponse {
        session_id: session.session.to_string(),
        alias: session.alias.as_ref().map(ToString::to_string).unwrap_or_default(),
        project_id: session.project.to_string(),
        task_number: session.task.map_or(0, |task| task.value()),
        event: Some(event),
    };
    let notice = |kind: &str, cursor: String, fields| {
        let (kind, time, fields) = (kind.to_owned(), now.to_string(), Some(to_struct(fields)));
        proto::Event { cursor, time, kind, fields, ..proto::Event::default() }
    };
    match followed {
        Followed::Session { session, item, .. } => about(&session, event(item.view(now))),
        Followed::Refused { session, from, error, .. } => {
            let fields = Map::from_iter([("message".to_owned(), error.message().into())]);
            about(&session, notice(error.code(), from.to_string(), fields))
        }
        // Of the project: none of its sessions is followed.
        _ => proto::FollowResponse {
            project_id: project.to_owned(),
            event: Some(notice("heartbeat", String::new(), Map::new())),
            ..proto::FollowResponse::default()
        },
    }
}

pub(crate) fn delivery(detail: DeliveryDetail) -> proto::DeliveryDetail {
    let DeliveryDetail { uuid, name, provider, runtime_state, delivery_state, error, .. } = detail;
    proto::DeliveryDetail {
        uuid,
        name,
        provider,
        runtime_state: runtime_state.as_str().to_owned(),
        delivery_state: delivery_state.as_str().to_owned(),
        error: error.map(|error| proto::DeliveryError { code: error.code, message: error.message }),
    }
}

/// Returns an answer in the JSON shape that `observe::WatchResponse` documents.
#[must_use]
pub fn watch_json(response: &proto::WatchResponse) -> Value {
    let agent = response.agent.clone().unwrap_or_default();
    let mut all = json!({
        "schema": response.schema,
        "agent": {
            "name": agent.name, "uuid": agent.uuid, "provider": agent.provider, "status": agent.status,
            "last_status_at": agent.last_status_at,
        },
        "cursor": response.cursor,
        "events": response.events.iter().map(event_json).collect::<Vec<_>>(),
    });
    for (name, value) in [("mode", &agent.mode), ("phase", &agent.phase)] {
        if !value.is_empty() {
            all["agent"][name] = value.as_str().into();
        }
    }
    if agent.task_number > 0 {
        all["agent"]["task"] = agent.task_number.into();
    }
    let mut add = |name: &str, value: Option<Value>| {
        if let (Value::Object(fields), Some(value)) = (&mut all, value) {
            fields.insert(name.to_owned(), value);
        }
    };
    add("matched", (!response.matched.is_empty()).then(|| response.matched.clone().into()));
    add("transcript", response.transcript.as_ref().map(conversation_json));
    add("output", response.output.as_ref().map(text_json));
    add("raw_output", response.raw_output.as_ref().map(text_json));
    add(
        "delivery",
        response.delivery.as_ref().map(|delivery| {
            json!({
                "input_available": delivery.input_available, "last_state": delivery.last_state,
                "last_error": delivery.last_error,
            })
        }),
    );
    add("warnings", (!response.warnings.is_empty()).then(|| response.warnings.clone().into()));
    all
}

fn conversation_json(transcript: &proto::Transcript) -> Value {
    let messages = transcript.messages.iter().map(|message| {
        let mut all = json!({
            "cursor": message.cursor, "role": message.role, "text": message.text, "provider": message.provider,
            "source": message.source,
        });
        if let (Value::Object(fields), Some(id)) = (&mut all, &message.turn_id) {
            fields.insert("turn_id".to_owned(), id.clone().into());
        }
        all
    });
    json!({
        "cursor": transcript.cursor, "messages": messages.collect::<Vec<_>>(),
        "latest_text": transcript.latest_text, "truncated": transcript.truncated,
        "omitted_bytes": transcript.omitted_bytes,
    })
}

fn text_json(output: &proto::Output) -> Value {
    let mut all = json!({
        "text": output.text, "truncated": output.truncated, "omitted_bytes": output.omitted_bytes,
    });
    if let (Value::Object(fields), Some(cursor)) = (&mut all, &output.oldest_available_cursor) {
        fields.insert("oldest_available_cursor".to_owned(), cursor.clone().into());
    }
    all
}

/// Returns an event in the JSON shape that `observe::EventView` documents.
#[must_use]
pub fn event_json(event: &proto::Event) -> Value {
    let mut all = Map::new();
    // A notice about the whole stream has none.
    if !event.cursor.is_empty() {
        all.insert("cursor".to_owned(), event.cursor.clone().into());
    }
    all.insert("time".to_owned(), event.time.clone().into());
    all.insert("kind".to_owned(), event.kind.clone().into());
    if !event.source.is_empty() {
        all.insert("source".to_owned(), event.source.clone().into());
    }
    if event.replayed {
        all.insert("replayed".to_owned(), true.into());
    }
    let fields = event.fields.iter().flat_map(|fields| &fields.fields);
    all.extend(fields.map(|(name, value)| (name.clone(), from_value(value))));
    Value::Object(all)
}

/// Returns what came of a text as JSON.
#[must_use]
pub fn delivery_json(detail: &proto::DeliveryDetail) -> Value {
    let error = detail.error.as_ref().map(|error| json!({ "code": error.code, "message": error.message }));
    json!({
        "uuid": detail.uuid, "name": detail.name, "provider": detail.provider,
        "runtime_state": detail.runtime_state, "delivery_state": detail.delivery_state, "error": error,
    })
}

/// Returns the name that a value has on the wire.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn to_struct(fields: Map<String, Value>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name, to_value(value))).collect() }
}

fn to_value(value: Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
        Value::String(value) => Kind::StringValue(value),
        Value::Array(values) => {
            Kind::ListValue(prost_types::ListValue { values: values.into_iter().map(to_value).collect() })
        }
        Value::Object(fields) => Kind::StructValue(to_struct(fields)),
    };
    ProtoValue { kind: Some(kind) }
}

#[expect(clippy::cast_possible_truncation, reason = "only whole numbers that fit")]
fn from_value(value: &ProtoValue) -> Value {
    /// The largest whole number below which every one has an exact form.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => (*value).into(),
        Some(Kind::NumberValue(value)) if value.fract() == 0.0 && value.abs() <= EXACT => {
            (*value as i64).into()
        }
        Some(Kind::NumberValue(value)) => (*value).into(),
        Some(Kind::StringValue(value)) => value.clone().into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(from_value).collect(),
        Some(Kind::StructValue(fields)) => {
            fields.fields.iter().map(|(name, value)| (name.clone(), from_value(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that JSON of the library survives the way into messages and back.
    #[test]
    fn an_answer_keeps_its_shape() {
        let cursor = |n: u32| format!("57244fa9:0000000000000001:{n:016x}");
        let wanted = json!({
            "schema": 1,
            "agent": {
                "name": "brave-otter", "uuid": "57244fa9", "provider": "codex", "status": "idle",
                "last_status_at": "2026-05-07T10:14:32.120Z"
            },
            "cursor": cursor(42), "matched": cursor(41),
            "events": [
                { "cursor": cursor(41), "time": "2026-05-07T10:14:31.870Z", "kind": "status", "source": "hook",
                  "replayed": true, "status": "processing" },
                { "cursor": cursor(42), "time": "2026-05-07T10:14:31.870Z", "kind": "lifecycle", "source": "process",
                  "name": "x", "payload": { "a": [1, -2.5, "t", null, true], "b": {} } }
            ],
            "transcript": {
                "cursor": cursor(42),
                "messages": [{ "cursor": cursor(40), "role": "assistant", "text": "OK", "provider": "codex",
                               "turn_id": "turn-1", "source": "transcript" }],
                "latest_text": "OK", "truncated": false, "omitted_bytes": 0
            },
            "output": { "text": "OK\n", "truncated": true, "omitted_bytes": 120,
                        "oldest_available_cursor": cursor(7) },
            "raw_output": { "text": "OK\r\n", "truncated": false, "omitted_bytes": 0 },
            "delivery": { "input_available": true, "last_state": "submitted", "last_error": null },
            "warnings": ["output_truncated"]
        });
        let response: WatchResponse = serde_json::from_value(wanted.clone()).unwrap();
        assert_eq!(watch_json(&watch(response)), wanted);
    }
}
