//! The stand-in where the environment of other processes cannot be read: nothing is found.

use crate::model::SessionId;

/// Returns 0: descendants that left the agent's process group are out of reach on this system.
#[must_use]
pub(crate) fn end_marked(_: &SessionId) -> usize {
    0
}
