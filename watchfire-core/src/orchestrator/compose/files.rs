//! The session's copies of the project's files, and their import.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::memory;
use crate::endpoint::{Spool, SpoolLimits};
use crate::files::{make_private, read_untrusted};
use crate::model::{Mode, PromptSection, Task, TaskNumber, TaskStatus, Timestamp};
use crate::session::SessionDirectory;
use crate::store::{DocumentName, Fence, Revision, TaskQuery, TaskStore, render_task};
use crate::{Error, ErrorKind, Result};

/// Size limit of an agent's `memory.md`.
const LIMIT: u64 = 1 << 20;
/// Number of other tasks whose files a session gets at most. Each is written at its start, which must stay quick in a project
/// of thousands.
const OTHERS: usize = 100;
/// Upper bound for the size of a transcript that is kept.
const TRANSCRIPT: u64 = 256 << 20;

/// The documents of the project that a session starts with. A missing document is empty.
pub(crate) struct Documents {
    pub(crate) memory: String,
    pub(crate) instructions: String,
    /// The project's own texts of sections of the prompt.
    pub(crate) wording: BTreeMap<PromptSection, String>,
    /// The tasks whose files the session gets, beside its own.
    pub(crate) tasks: Vec<Task>,
    /// Texts of sections that are not used, because a link or something else that is no file stands at their place.
    pub(crate) ignored: Vec<String>,
}

impl Documents {
    /// Reads the documents of a session that works on `own`. Its other tasks are those that are `given`, or else the project's.
    pub(crate) async fn read(
        store: &dyn TaskStore,
        given: Option<Vec<Task>>,
        own: Option<&Task>,
    ) -> Result<Self> {
        let text = async |name| {
            let document = store.document(name).await?;
            Ok::<_, Error>(document.map(|document| document.value).unwrap_or_default())
        };
        let (mut wording, mut ignored) = (BTreeMap::new(), Vec::new());
        for section in PromptSection::ALL {
            match store.document(DocumentName::Prompt(*section)).await {
                Ok(None) => {}
                Ok(Some(own)) => drop(wording.insert(*section, own.value)),
                // Never followed: it may lead to a file that no agent may see.
                Err(error) if error.kind() == ErrorKind::Malformed => {
                    ignored.push(format!("prompts/{section}.md is ignored: {}", error.report()));
                }
                Err(error) => return Err(error),
            }
        }
        let tasks = match given {
            Some(tasks) => tasks,
            None => {
                let all = store.list(&TaskQuery::new()).await?.tasks;
                others(all.into_iter().map(|task| task.value).collect(), own)
            }
        };
        Ok(Self {
            wording,
            ignored,
            memory: text(DocumentName::Memory).await?,
            instructions: text(DocumentName::Instructions).await?,
            tasks,
        })
    }
}

/// Returns the other tasks whose files a session on `own` gets: those that it depends on, then the open ones in work order,
/// then the latest of those that are done.
fn others(mut tasks: Vec<Task>, own: Option<&Task>) -> Vec<Task> {
    tasks.retain(|task| own.is_none_or(|own| own.task_number != task.task_number));
    let needed = |task: &Task| own.is_some_and(|own| own.depends_on.contains(&task.task_number));
    tasks.sort_by_key(|task| match task.status {
        _ if needed(task) => (0, Reverse(0)),
        TaskStatus::Done => (2, Reverse(task.task_number.value())),
        _ => (1, Reverse(0)),
    });
    tasks.truncate(OTHERS);
    tasks
}

/// Returns the path of the session's own copy of a task file.
pub(crate) fn task_copy(directory: &SessionDirectory, number: TaskNumber) -> PathBuf {
    directory.files().join("tasks").join(format!("{number}.yaml"))
}

/// Writes copies of the task file and of `memory.md` into the session's folder. The task is rendered from the
/// last good read, so a file that is malformed now does not reach the agent.
///
/// Sandboxes with binds show the folder in place of the project's `.watchfire`.
pub(crate) fn provide(
    directory: &SessionDirectory,
    task: Option<&Task>,
    documents: &Documents,
) -> Result<()> {
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).map_err(|e| Error::io("writing a session's copy", e).with_path(path))
    };
    write(directory.files().join("memory.md"), &documents.memory)?;
    write(memory_base(directory), &documents.memory)?;
    // Makes the spool's folders, for one of which the session's policy has a rule.
    Spool::open(&directory.files(), SpoolLimits::default())?;
    for task in &documents.tasks {
        write(task_copy(directory, task.task_number), &render_task(task)?)?;
    }
    if let Some(task) = task {
        // The results of earlier attempts are in the prompt. In this file they would pass for claims of this
        // attempt.
        let task = Task { failure_reason: None, merge_failure_reason: None, ..task.clone() };
        write(task_copy(directory, task.task_number), &render_task(&task)?)?;
    }
    Ok(())
}

/// Makes the folder in which a folder of a task shows, at its own place below `.watchfire`: a bind needs one that exists, and `.watchfire` is hidden behind the
/// session's files.
pub(crate) fn make_mount_point(root: &Path, directory: &SessionDirectory, cwd: &Path) -> Result<()> {
    match cwd.strip_prefix(root.join(".watchfire")) {
        Ok(below) => make_private(&directory.files().join(below)),
        Err(_) => Ok(()),
    }
}

/// Returns the file that records `memory.md` as of the start of the session, out of the agent's sight.
fn memory_base(directory: &SessionDirectory) -> PathBuf {
    directory.root().join("memory.base")
}

/// Merges the agent's `memory.md` into the project's, once. Returns true if anything was written.
///
/// # Errors
/// `claim_lost` if another orchestrator has taken over the work of `fence`; those of the store and the disk.
pub(crate) async fn import_memory(
    store: &dyn TaskStore,
    directory: &SessionDirectory,
    fence: Option<Fence>,
) -> Result<bool> {
    let (base, copy) = (memory_base(directory), directory.files().join("memory.md"));
    // A missing base was imported before. An agent that removed its copy contributes nothing.
    let (Some(began), Some(agent)) = (read_text(&base)?, read_text(&copy)?) else { return Ok(false) };
    let written = loop {
        let stored = store.document(DocumentName::Memory).await?;
        let (current, revision) = stored
            .map_or_else(|| (String::new(), Revision::absent()), |stored| (stored.value, stored.revision));
        let Some(merged) = memory::merge(&began, &agent, &current) else { break false };
        match store.write_document(DocumentName::Memory, &merged, Some(&revision), fence).await {
            // Another session or a person wrote in between; merge with that version.
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            // A store without memory gave the agent none.
            Err(error) if error.kind() == ErrorKind::NotSupported => break false,
            result => break result.map(|_| true)?,
        }
    };
    // Last: after a kill before this, the import is repeated, and adds no line twice.
    std::fs::remove_file(&base)
        .map_err(|e| Error::io("writing down that memory.md is imported", e).with_path(base))?;
    Ok(written)
}

/// Copies a transcript beside the logs, private to our user. The agent chose its path.
pub(crate) fn keep_transcript(from: &Path, to: &Path) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let Some(bytes) = read_untrusted(from, TRANSCRIPT)? else { return Ok(()) };
    let mut options = std::fs::File::options();
    let written = options.write(true).create(true).truncate(true).mode(0o600).open(to);
    written.and_then(|mut file| file.write_all(&bytes)).map_err(|e| Error::io("keeping it", e).with_path(to))
}

/// Returns the number of the next session of a task, or of a mode without one, and a free name for its log:
/// `0001-2-2026-02-03T14-30-00.log`, or with the mode in place of the task. Blocks.
pub(crate) fn next_log(
    logs: &Path,
    task: Option<&Task>,
    mode: Mode,
    now: &Timestamp,
) -> Result<(u32, PathBuf)> {
    let what = task.map_or_else(|| mode.to_string(), |task| task.task_number.to_string());
    let entries = match std::fs::read_dir(logs) {
        Ok(entries) => entries.collect::<std::io::Result<Vec<_>>>(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    // A number that is not known must not be given again.
    let entries = entries.map_err(|e| Error::io("reading the logs", e).with_path(logs))?;
    // What a session spent is kept when its log is gone, and with it the number.
    let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
    let numbers = names.filter_map(|name| {
        name.strip_prefix(&what)?.strip_prefix('-')?.split_once('-')?.0.parse::<u32>().ok()
    });
    let number = numbers.max().unwrap_or(0).saturating_add(1);
    let stem = format!("{what}-{number}-{}", now.to_file_name());
    // Two sessions at once must not share a log.
    let names = std::iter::once(format!("{stem}.log")).chain((2..100).map(|n| format!("{stem}.{n}.log")));
    let mut free = names.map(|name| logs.join(name)).filter(|path| !path.exists());
    Ok((number, free.next().unwrap_or_else(|| logs.join(format!("{stem}.log")))))
}

/// Reads a text file of an agent, or returns `None` if it is missing. Replaces invalid UTF-8.
fn read_text(path: &Path) -> Result<Option<String>> {
    let bytes = read_untrusted(path, LIMIT)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::model::{Project, ProjectId, TaskId};
    use crate::store::{MemoryStore, NewTask};

    #[test]
    fn sessions_are_numbered_by_task_and_mode() {
        let logs = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-02-03T13:05:00Z".parse().unwrap();
        let task = |number| Task::new(TaskId::random(), TaskNumber::new(number).unwrap(), "t");
        let next = |task: Option<&Task>, mode| {
            let (number, path) = next_log(logs.path(), task, mode, &now).unwrap();
            std::fs::write(path, "").unwrap();
            number
        };
        let (one, ten) = (task(1), task(10));
        assert_eq!([next(Some(&one), Mode::Task), next(Some(&one), Mode::Task)], [1, 2]);
        assert_eq!([next(Some(&ten), Mode::Task), next(None, Mode::Chat)], [1, 1]);
        // Only its record of spending is left.
        let (log, spent) = ("chat-7-2026-02-03T13-00-00.spent.json", next(None, Mode::Chat));
        std::fs::write(logs.path().join(log), "").unwrap();
        assert_eq!([spent, next(None, Mode::Chat), next(None, Mode::GenerateTasks)], [2, 8, 1]);
    }

    #[tokio::test]
    async fn a_step_gets_no_task_that_it_was_not_given() {
        let project = Project::new(ProjectId::random(), "p");
        let store = MemoryStore::new(project, Arc::new(SystemClock));
        let own = store.create(NewTask::new("own"), None).await.unwrap().value;
        store.create(NewTask::new("made meanwhile"), None).await.unwrap();
        let titles = async |given, own| {
            let documents = Documents::read(&store, given, own).await.unwrap();
            documents.tasks.into_iter().map(|task| task.title).collect::<Vec<_>>()
        };
        assert_eq!(titles(None, Some(&own)).await, ["made meanwhile"]);
        // A step of a project that was empty compares what its agent makes of nothing.
        assert!(titles(Some(Vec::new()), None).await.is_empty());
    }
}
