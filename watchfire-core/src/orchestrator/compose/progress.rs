//! `progress.md`: an agent's notes on its task, which the next attempt finds where the prompt names them.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::files::{make_private, read_untrusted, replace};
use crate::model::TaskNumber;
use crate::session::SessionDirectory;

/// Upper bound for the size of the notes. Longer ones are not kept: the next agent would pay for reading them.
const LIMIT: u64 = 64 << 10;

/// Keeps the notes of a session that has ended, or was lost.
///
/// # Errors
/// `malformed` for notes beyond 64 KiB; I/O errors.
pub(crate) fn keep(state: &Path, task: TaskNumber, directory: &SessionDirectory) -> Result<()> {
    // An agent that removed its notes keeps those of before.
    let Some(notes) = read_untrusted(&in_session(directory), LIMIT)? else { return Ok(()) };
    make_private(&state.join("progress"))?;
    replace(&kept(state, task), &notes)
}

/// Gives the notes of earlier attempts to a session.
///
/// # Errors
/// I/O errors.
pub(crate) fn give(state: &Path, task: TaskNumber, directory: &SessionDirectory) -> Result<()> {
    match read_untrusted(&kept(state, task), LIMIT)? {
        Some(notes) => replace(&in_session(directory), &notes),
        None => Ok(()),
    }
}

/// Removes the notes on a task whose work is merged.
pub(crate) fn forget(state: &Path, task: TaskNumber) {
    // There may be none.
    let _ = std::fs::remove_file(kept(state, task));
}

fn in_session(directory: &SessionDirectory) -> PathBuf {
    directory.files().join("progress.md")
}

fn kept(state: &Path, task: TaskNumber) -> PathBuf {
    state.join("progress").join(format!("{task}.md"))
}
