//! What a session needs of this room: its own copy of a task file, and a folder to be told about.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Notify;

use super::document::{Fault, compose, decode};
use super::files::{Dir, failure};
use super::watch::Watch;
use crate::model::Task;
use crate::{Error, ErrorKind, Result};

/// The text of a task file that holds `task`.
pub(crate) fn render_task(task: &Task) -> Result<String> {
    compose(task).map(|(text, _)| text).map_err(error)
}

/// The task in an agent's copy of its file.
///
/// # Errors
/// `malformed`, with the line where it is known.
pub(crate) fn read_task(bytes: &[u8]) -> Result<Task> {
    decode(bytes).map_err(error)
}

/// Puts `bytes` in place of a file in one step; what was there stays until all of it is on the disk.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(parent), Some(name)) = (path.parent(), name) else {
        return Err(Error::new(ErrorKind::InvalidInput, "not the path of a file").with_path(path));
    };
    let dir = Dir::open(parent)?;
    let mode = dir.mode(name).unwrap_or(0o644);
    let staged = dir.stage(name, bytes, mode)?;
    dir.rename(staged.name(), name, rustix::fs::RenameFlags::empty())
        .map_err(|error| failure("replacing the file", path, error))?;
    staged.keep();
    dir.sync()
}

/// A folder of a session under watch, until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderWatch(#[expect(dead_code, reason = "held, and ended on drop")] Watch);

impl FolderWatch {
    /// Has `signal` notified of every event in `folder` itself, at once.
    ///
    /// # Errors
    /// When the system has no watch to give.
    pub(crate) fn new(folder: &Path, signal: &Arc<Notify>) -> Result<Self> {
        Watch::new(&Dir::open(folder)?, signal).map(Self)
    }
}

fn error(fault: Fault) -> Error {
    let error = Error::new(ErrorKind::Malformed, fault.reason);
    match fault.line {
        Some(line) => error.with("line", line),
        None => error,
    }
}
