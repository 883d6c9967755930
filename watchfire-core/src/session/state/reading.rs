//! How far the reading of an agent's transcript is.

/// What a read of the transcript found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) enum Reading {
    /// Nothing that tells what the agent says, as yet.
    Nothing,
    /// What the agent has written down so far.
    Messages,
    /// All that there is. No further read follows.
    Over,
}
