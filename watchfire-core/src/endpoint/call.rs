//! Calls of an agent, which have replies.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::is_plain;
use crate::Error;
use crate::inquiry::AnswerStatus;
use crate::model::Question;

/// Maximum length of the id of a call, in bytes.
const LONGEST_ID: usize = 48;

/// A call of an agent. The session that it comes from is known by the folder, and by nothing in it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AgentCall {
    /// Id of the call: letters, digits, `-`, `_` and `.`. A call with the id of an earlier one is the same call.
    pub id: String,
    /// Requested action.
    pub action: AgentAction,
}

/// A request of an agent to its session.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentAction {
    /// Answer what another session asked.
    #[non_exhaustive]
    Answer {
        /// Id of the inquiry.
        inquiry: String,
        /// The answer.
        text: String,
        /// Outcome of the request.
        #[serde(default)]
        status: AnswerStatus,
    },
    /// Ask another session. The reply has the id of the inquiry, to await.
    #[non_exhaustive]
    Ask {
        /// Name of the session: a task, an alias or an id.
        target: String,
        /// The question.
        text: String,
        /// Time for delivery and answer together, in milliseconds. Default: 10 minutes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// Ask the person. The answer appears in the inbox as that to a question with the id of this call.
    #[non_exhaustive]
    AskPerson {
        /// The question.
        text: String,
    },
    /// Wait for the end of an inquiry of its own.
    #[non_exhaustive]
    Await {
        /// Id of the inquiry.
        inquiry: String,
        /// Maximum time to wait, in milliseconds. The reply then has the state `pending`.
        wait_ms: u64,
    },
    /// End the work: done, or failed for a reason.
    #[non_exhaustive]
    Finish {
        /// True if it is done.
        success: bool,
        /// The reason for a refusal, or a note about the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// List the sessions that run in the project.
    List,
    /// Wait for something from a peer: a question, or the end of an inquiry of its own. The oldest first.
    #[non_exhaustive]
    Listen {
        /// Maximum time to wait, in milliseconds. The reply is then empty.
        wait_ms: u64,
    },
}

impl AgentAction {
    /// Returns the time that it waits, if it does.
    pub(super) fn wait_ms(&mut self) -> Option<&mut u64> {
        match self {
            Self::Await { wait_ms, .. } | Self::Listen { wait_ms } => Some(wait_ms),
            _ => None,
        }
    }
}

impl AgentCall {
    /// Returns a call with this id.
    pub fn new(id: impl Into<String>, action: AgentAction) -> Self {
        Self { id: id.into(), action }
    }

    /// Parses a call, ignoring unknown fields.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let id = value.get("id").and_then(Value::as_str).filter(|id| is_plain(id) && id.len() <= LONGEST_ID);
        let id = id.ok_or("the field id is missing or not plain")?.to_owned();
        let action = AgentAction::deserialize(value).map_err(|error| format!("not a call: {error}"))?;
        Ok(Self { id, action })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(&self.action).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("kind".to_owned(), "call".into());
            object.insert("id".to_owned(), self.id.as_str().into());
        }
        value
    }

    /// Returns its question to the person, whose id is its own.
    pub(super) fn question(&self) -> Option<Question> {
        match &self.action {
            AgentAction::AskPerson { text } => Some(Question::new(&self.id, text)),
            _ => None,
        }
    }

    /// Returns the name of one of its files: `call-ID.json` or `reply-ID.json`.
    pub(super) fn file_name(&self, what: &str) -> String {
        format!("{what}-{}.json", self.id)
    }
}

/// Returns the envelope of a reply.
pub(crate) fn envelope(result: &Result<Value, Error>) -> Value {
    match result {
        Ok(value) => json!({ "schema": 1, "ok": true, "result": value }),
        Err(error) => {
            let details = error.context().filter(|(name, _)| *name != "hint");
            let details: serde_json::Map<_, _> =
                details.map(|(name, value)| (name.to_owned(), value.into())).collect();
            json!({ "schema": 1, "ok": false, "error": {
                "code": error.code(), "message": error.message(), "details": details, "hint": error.detail("hint"),
            }})
        }
    }
}
