//! Messages of an agent.

use serde_json::{Map, Value, json};

use super::call::AgentCall;
use super::signal::Signal;

/// A message of an agent.
///
/// ```
/// # use watchfire_core::endpoint::SpoolMessage;
/// for json in [
///     r#"{"kind":"hook","event":"Stop","payload":"{\"session_id\":\"1\"}"}"#,
///     r#"{"kind":"note","text":"half way"}"#,
///     r#"{"kind":"signal","status":"questions","questions":[{"id":"1","question":"Which port?"}]}"#,
/// ] {
///     let value: serde_json::Value = serde_json::from_str(json)?;
///     assert_eq!(SpoolMessage::parse(json.as_bytes())?.to_json(), value);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SpoolMessage {
    /// A call of a hook.
    #[non_exhaustive]
    Hook {
        /// Name of the event, as configured.
        event: String,
        /// Payload that the agent gave the hook.
        payload: String,
        /// Set if the payload was too long and its end is missing.
        truncated: bool,
    },
    /// A note for people.
    #[non_exhaustive]
    Note {
        /// Text of the note.
        text: String,
    },
    /// A signal, as in `signal.json`.
    Signal(Signal),
    /// A call, which has a reply in the inbox.
    Call(AgentCall),
}

impl SpoolMessage {
    /// Creates a call of a hook.
    pub fn hook(event: impl Into<String>, payload: impl Into<String>) -> Self {
        Self::Hook { event: event.into(), payload: payload.into(), truncated: false }
    }

    /// Creates a note.
    pub fn note(text: impl Into<String>) -> Self {
        Self::Note { text: text.into() }
    }

    /// Parses a message, ignoring unknown fields.
    ///
    /// # Errors
    /// A fragment that names the fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
        let object = value.as_object().ok_or("not a JSON object")?;
        // A field `session` is ignored: the folder that a message came through identifies the session.
        match object.get("kind").and_then(Value::as_str) {
            Some("hook") => {
                // Programs that write the message themselves may give JSON instead of text; backends get text.
                let payload = object.get("payload").map(|payload| match payload {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                });
                Ok(Self::Hook {
                    event: text(object, "event")?,
                    payload: payload.unwrap_or_default(),
                    truncated: object.get("truncated").and_then(Value::as_bool).unwrap_or(false),
                })
            }
            Some("note") => Ok(Self::Note { text: text(object, "text")? }),
            Some("signal") => Signal::parse(object).map(Self::Signal),
            Some("call") => AgentCall::parse(&value).map(Self::Call),
            Some(other) => Err(format!("unknown kind {other:?}, expected call, hook, note or signal")),
            None => Err("the field kind is missing".to_owned()),
        }
    }

    /// Returns the message as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Hook { event, payload, truncated: false } => {
                json!({"kind": "hook", "event": event, "payload": payload})
            }
            Self::Hook { event, payload, truncated } => {
                json!({"kind": "hook", "event": event, "payload": payload, "truncated": truncated})
            }
            Self::Note { text } => json!({"kind": "note", "text": text}),
            Self::Call(call) => call.to_json(),
            Self::Signal(signal) => {
                let mut value = signal.to_json();
                if let Some(object) = value.as_object_mut() {
                    object.insert("kind".to_owned(), "signal".into());
                }
                value
            }
        }
    }
}

fn text(object: &Map<String, Value>, field: &str) -> Result<String, String> {
    let text = object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("the field {field} is missing, expected text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_message_is_refused_with_the_reason() {
        for (json, why) in [
            ("", "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "the field kind"),
            (r#"{"kind":"root"}"#, "unknown kind"),
            (r#"{"kind":"hook"}"#, "the field event"),
            (r#"{"kind":"note","text":7}"#, "the field text"),
            (r#"{"kind":"call","id":"../x","call":"list"}"#, "the field id"),
            (r#"{"kind":"call","id":"1","call":"rule"}"#, "not a call"),
            (r#"{"kind":"signal","status":"bored"}"#, "unknown status"),
        ] {
            let error = SpoolMessage::parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn a_payload_may_be_any_json_and_a_session_counts_nothing() {
        let json = br#"{"kind":"hook","event":"Stop","payload":{"a":1},"session":"someone-else"}"#;
        assert_eq!(SpoolMessage::parse(json).unwrap(), SpoolMessage::hook("Stop", r#"{"a":1}"#));
    }
}
