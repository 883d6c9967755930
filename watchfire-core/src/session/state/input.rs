//! What is put in line for an agent, and the answer to it.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::mailbox::Letter;
use crate::Result;
use crate::observe::Cursor;

/// Result of a delivery to the agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// The text and the submit key were written. Only the agent's later activity shows whether it received them.
    Submitted,
    /// The agent's box held exactly the text, and became empty when it was submitted.
    Accepted,
}

/// A text that was delivered.
#[derive(Debug)]
pub(in crate::session) struct Typed {
    pub(in crate::session) receipt: Receipt,
    /// Position in the log from which on its effects stand.
    pub(in crate::session) from: Cursor,
}

/// Item of the input queue.
#[derive(Debug)]
pub(in crate::session) enum Input {
    /// Keystrokes of a person, passed on unchanged.
    Keys(Vec<u8>, oneshot::Sender<Result<()>>),
    /// The terminal's answer to what the program asked before this offset of its output.
    Answer(Vec<u8>, Option<u64>),
    /// A text to frame and submit once the agent is ready.
    Text(Text),
}

/// A text for the agent.
#[derive(Debug)]
pub(in crate::session) struct Text {
    pub(in crate::session) words: String,
    pub(in crate::session) reply: oneshot::Sender<Result<Typed>>,
    /// True if it is to begin a turn: then it waits for the end of one that is under way.
    pub(in crate::session) own_turn: bool,
    /// True if it is not typed once its sender no longer waits for the receipt.
    pub(in crate::session) is_revocable: bool,
    /// Its file in the mailbox.
    pub(in crate::session) letter: Option<Letter>,
}

impl Text {
    /// Returns a text of ours, and the receiver of its receipt.
    pub(in crate::session) fn new(words: String) -> (Self, oneshot::Receiver<Result<Typed>>) {
        let (reply, typed) = oneshot::channel();
        (Self { words, reply, own_turn: false, is_revocable: false, letter: None }, typed)
    }
}
