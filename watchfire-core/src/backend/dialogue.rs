//! Talking with an agent by a protocol of its own, such as the Agent Client Protocol.

use std::fmt::Debug;

use super::{Fact, Message};

/// One conversation with an agent that asks and answers in lines: what to write next, and what is learnt.
///
/// It holds the state of the protocol and does nothing itself. Who has it writes what it says and reads what the agent
/// answers, which is why it needs no runtime and can be tested by a table of lines.
///
/// **Implementers ensure** that
/// - nothing waits, reads or writes: every method only answers with [`Move`]s;
/// - whatever an agent writes ends in moves: no panic, and no more kept than a fixed amount;
/// - every question of the agent that it could wait for is answered, if only with an error.
///
/// **Callers may not assume** that a line has an answer, or that an agent ever becomes ready.
pub trait Dialogue: Debug + Send {
    /// Opens the conversation. Called once, before all else.
    fn open(&mut self) -> Vec<Move>;

    /// Takes in a line that the agent wrote, without its end.
    fn hear(&mut self, line: &str) -> Vec<Move>;

    /// Says `text` to the agent. Called only while [`is_ready`](Self::is_ready).
    fn say(&mut self, text: &str) -> Vec<Move>;

    /// Stops the running turn; nothing if there is none.
    fn interrupt(&mut self) -> Vec<Move>;

    /// Whether a text can be said now; until then texts wait.
    fn is_ready(&self) -> bool;
}

/// Something that a conversation comes to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Move {
    /// Write this line to the agent; it has no end of line.
    Write(String),
    /// This is known now.
    Fact(Fact),
    /// This was said.
    Message(Message),
    /// Something else that people may want to know, as an event of the session.
    Event {
        /// Its name, such as `permission`.
        name: String,
        /// What belongs to it.
        payload: serde_json::Value,
    },
    /// The conversation cannot go on, for this reason: the agent is ended.
    GiveUp(String),
}
