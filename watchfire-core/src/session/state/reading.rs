//! How far the reading of an agent's transcript is.

/// The result of a read of the transcript.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) enum Reading {
    /// No message of the agent yet.
    Nothing,
    /// The messages so far.
    Messages,
    /// All messages. No further read follows.
    Over,
}
