//! The session of a life, as the journal records it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Alias, BackendName, ProcessIdentity, SessionId, Timestamp};

/// A session whose process may exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRef {
    /// Its id.
    pub id: SessionId,
    /// Its name for people.
    pub alias: Alias,
    /// Its backend.
    pub backend: BackendName,
    /// The sandbox and its step: `landlock, without namespaces`.
    pub sandbox: String,
    /// Parts of the policy that this sandbox does not fully enforce, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The vendor's session id, if we chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    /// Time of its start.
    pub started: Timestamp,
    /// The agent's process. Absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ProcessIdentity>,
    /// The guardian's process. Absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian: Option<ProcessIdentity>,
}

impl SessionRef {
    /// Returns the record of a session that is about to start.
    pub fn new(
        id: SessionId,
        alias: Alias,
        backend: BackendName,
        sandbox: impl Into<String>,
        cwd: impl Into<PathBuf>,
        started: Timestamp,
    ) -> Self {
        Self {
            id,
            alias,
            backend,
            sandbox: sandbox.into(),
            open: Vec::new(),
            cwd: cwd.into(),
            vendor_session: None,
            started,
            agent: None,
            guardian: None,
        }
    }
}

/// An answer to a question of an agent. It is durable before it is delivered.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// The id of the question.
    pub id: String,
    /// The question.
    pub question: String,
    /// The answer.
    pub text: String,
    /// The session to which it was delivered. Absent if it goes into the prompt of the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

impl Answer {
    /// Returns the answer `text` to the question `id`.
    pub fn new(id: impl Into<String>, question: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), question: question.into(), text: text.into(), session: None }
    }
}
