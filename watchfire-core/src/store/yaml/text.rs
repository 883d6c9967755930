//! Task files as text, for the copies that agents work on.

use super::atomic::error;
use super::document::{compose, decode};
use crate::Result;
use crate::model::Task;

/// Returns the text of a task file that holds `task`.
pub(crate) fn render_task(task: &Task) -> Result<String> {
    compose(task).map(|(text, _)| text).map_err(error)
}

/// Parses an agent's copy of its task file.
///
/// # Errors
/// `malformed`, with the line if known.
pub(crate) fn read_task(bytes: &[u8]) -> Result<Task> {
    decode(bytes).map_err(error)
}
