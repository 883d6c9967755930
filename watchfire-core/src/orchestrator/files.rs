//! The copies of the project's files that a session works on, and their way back.

use std::path::{Path, PathBuf};

use super::memory;
use crate::endpoint::{Spool, SpoolLimits};
use crate::files::{make_private, read_untrusted, replace};
use crate::model::{Attempt, Mode, Task, TaskNumber, Timestamp};
use crate::session::SessionDirectory;
use crate::store::render_task;
use crate::{Error, Result};

/// The largest memory or instructions file that is read.
const LIMIT: u64 = 1 << 20;
/// The largest transcript that is kept.
const TRANSCRIPT: u64 = 256 << 20;

/// What was copied for a session, as text.
pub(super) struct Copied {
    /// `memory.md`, or nothing.
    pub(super) memory: String,
    /// `secrets/instructions.md`, or nothing.
    pub(super) instructions: String,
}

/// Where a session's own copy of a task file is.
pub(super) fn task_copy(directory: &SessionDirectory, number: TaskNumber) -> PathBuf {
    directory.files().join("tasks").join(format!("{number}.yaml"))
}

/// Puts copies of the task file and of `memory.md` in the session's folder. The task is written anew from what was
/// read, so that a file that is malformed right now does not reach the agent.
///
/// Sandboxes that can show the folder in place of the project's `.watchfire`; what the agent works in, if that is below
/// `.watchfire`, shows at its own place in it.
pub(super) fn provide(
    root: &Path,
    directory: &SessionDirectory,
    task: Option<&Task>,
    cwd: &Path,
) -> Result<Copied> {
    let watchfire = root.join(".watchfire");
    if let Ok(below) = cwd.strip_prefix(&watchfire) {
        make_private(&directory.files().join(below))?;
    }
    let copied = Copied {
        memory: read_text(&watchfire.join("memory.md"))?,
        instructions: read_text(&watchfire.join("secrets/instructions.md"))?,
    };
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).map_err(|e| Error::io("writing a session's copy", e).with_path(path))
    };
    write(directory.files().join("memory.md"), &copied.memory)?;
    write(memory_base(directory), &copied.memory)?;
    Spool::open(&directory.files(), SpoolLimits::default())?;
    if let Some(task) = task {
        // What an earlier attempt came to stands in the prompt; here it would be taken for this one's.
        let task = Task { failure_reason: None, merge_failure_reason: None, ..task.clone() };
        write(task_copy(directory, task.task_number), &render_task(&task)?)?;
    }
    Ok(copied)
}

/// Where it is written down what `memory.md` held when the session began: out of the agent's sight.
fn memory_base(directory: &SessionDirectory) -> PathBuf {
    directory.root().join("memory.base")
}

/// Brings what the agent wrote into its `memory.md` back into the project's, once. Returns whether anything was written.
pub(super) fn import_memory(root: &Path, directory: &SessionDirectory) -> Result<bool> {
    let Some(base) = read_untrusted(&memory_base(directory), LIMIT)? else { return Ok(false) };
    let base = String::from_utf8_lossy(&base).into_owned();
    // An agent that removed its copy has said nothing.
    let Some(agent) = read_untrusted(&directory.files().join("memory.md"), LIMIT)? else { return Ok(false) };
    let agent = String::from_utf8_lossy(&agent).into_owned();
    let path = root.join(".watchfire/memory.md");
    let current = read_text(&path)?;
    let merged = memory::merge(&base, &agent, &current);
    if let Some(merged) = &merged {
        replace(&path, merged.as_bytes())?;
    }
    let done = memory_base(directory);
    std::fs::remove_file(&done)
        .map_err(|e| Error::io("writing down that memory.md is imported", e).with_path(done))?;
    Ok(merged.is_some())
}

/// Copies a transcript beside the logs, private to us. Its path was in the agent's hands.
pub(super) fn keep_transcript(from: &Path, to: &Path) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let Some(bytes) = read_untrusted(from, TRANSCRIPT)? else { return Ok(()) };
    let mut options = std::fs::File::options();
    let written = options.write(true).create(true).truncate(true).mode(0o600).open(to);
    written.and_then(|mut file| file.write_all(&bytes)).map_err(|e| Error::io("keeping it", e).with_path(to))
}

/// The name of a session's log: `0001-2-2026-02-03T14-30-00.log`, or with the mode in place of the task.
pub(super) fn log_name(
    logs: &Path,
    task: Option<&Task>,
    mode: Mode,
    attempt: Attempt,
    now: &Timestamp,
) -> PathBuf {
    let what = task.map_or_else(|| mode.to_string(), |task| task.task_number.to_string());
    let stem = format!("{what}-{attempt}-{}", now.to_file_name());
    // Two sessions in one second do not share a log.
    let names = std::iter::once(format!("{stem}.log")).chain((2..100).map(|n| format!("{stem}.{n}.log")));
    let mut free = names.map(|name| logs.join(name)).filter(|path| !path.exists());
    free.next().unwrap_or_else(|| logs.join(format!("{stem}.log")))
}

/// The text of a file that people or agents write; nothing when there is none. What is not UTF-8 is replaced.
fn read_text(path: &Path) -> Result<String> {
    let bytes = read_untrusted(path, LIMIT)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
}
