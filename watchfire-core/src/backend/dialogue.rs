//! Conversations over a protocol of the agent, such as the Agent Client Protocol.

use std::fmt::Debug;

use super::{Fact, Message};

/// A conversation with an agent over a line-based protocol.
///
/// It holds the state of the protocol and does no I/O: the session writes and reads the lines. So it needs no runtime,
/// and a table of lines tests it.
///
/// **Implementers ensure** that
/// - no method waits, reads or writes; each only returns [`Move`]s;
/// - any line is handled without a panic and with bounded memory;
/// - every request of the agent that it could wait for is answered, if only with an error.
///
/// **Callers may not assume** that a line has an answer, or that an agent ever becomes ready.
pub trait Dialogue: Debug + Send {
    /// Opens the conversation. Called once, before any other method.
    fn open(&mut self) -> Vec<Move>;

    /// Handles a line of the agent, given without its line end.
    fn hear(&mut self, line: &str) -> Vec<Move>;

    /// Sends `text` to the agent. Called only while [`is_ready`](Self::is_ready) returns true.
    fn say(&mut self, text: &str) -> Vec<Move>;

    /// Stops the running turn, if there is one.
    fn interrupt(&mut self) -> Vec<Move>;

    /// Returns true if text can be sent now. Until then the session queues it.
    fn is_ready(&self) -> bool;
}

/// An action or a result of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Move {
    /// Write this line to the agent. It has no line end.
    Write(String),
    /// A fact about the agent.
    Fact(Fact),
    /// A message of the conversation.
    Message(Message),
    /// An event of the session.
    #[non_exhaustive]
    Event {
        /// Name of the event, such as `permission`.
        name: String,
        /// Data of the event.
        payload: serde_json::Value,
    },
    /// The conversation has failed for this reason. The session ends the agent.
    GiveUp(String),
}

impl Move {
    /// Returns [`Event`](Self::Event).
    #[must_use]
    pub fn event(name: impl Into<String>, payload: serde_json::Value) -> Self {
        Self::Event { name: name.into(), payload }
    }
}
