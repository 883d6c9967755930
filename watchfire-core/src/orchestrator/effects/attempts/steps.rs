//! Steps of wildfire that work on no task: the preparation of their sessions, and the import of their
//! results.
//!
//! A step reads the checkout and all tasks, and writes only into its session's folder. Of that folder, a refinement may
//! change its draft, and a generation may add drafts. Everything else is left out and reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::account::answered;
use crate::files::{make_private, read_untrusted, replace};
use crate::model::{Phase, Task, TaskNumber, TaskStatus};
use crate::orchestrator::compose::SessionRequest;
use crate::orchestrator::shared::{ProjectShared, Proposal, blocking};
use crate::schedule::{Ending, Life, NoticeCode, Outcome, Subject};
use crate::store::{NewTask, Revision, TaskPatch, TaskQuery, read_written_task, render_task};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the tasks of one generation.
const MOST: usize = 100;
/// Upper bound for the size of a task file.
const LIMIT: u64 = 1 << 20;

/// The tasks that a step was given, as they were then.
pub(in crate::orchestrator::effects) struct Given {
    tasks: Vec<Task>,
    /// The draft that it refines.
    draft: Option<(Task, Revision)>,
}

/// Composes the request for a step's session. The inner error is the end of a step that is not needed any more.
pub(in crate::orchestrator::effects) async fn prepare(
    shared: &Arc<ProjectShared>,
    life: &Life,
) -> Result<std::result::Result<(SessionRequest, Given), Ending>> {
    let mut tasks: Vec<Task> =
        shared.store.list(&TaskQuery::new()).await?.tasks.into_iter().map(|task| task.value).collect();
    let draft = match life.subject {
        Subject::Refine { draft } => match shared.store.get(draft).await {
            Ok(task) if task.value.status == TaskStatus::Draft && !task.value.is_deleted() => {
                Some((task.value, task.revision))
            }
            // A person was faster.
            Ok(_) => return Ok(Err(Ending::Refined)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(Ending::Refined)),
            Err(error) => return Err(error),
        },
        _ => None,
    };
    // The draft itself is given as the task of the session.
    tasks.retain(|task| draft.as_ref().is_none_or(|(draft, _)| draft.task_number != task.task_number));
    let mut options = life.options.clone();
    if let Some(phase) = life.subject.phase() {
        // Before the agent that a draft names for its work.
        options.agent = options.agent.or(shared.settings().await?.0.wildfire.agent(phase).cloned());
    }
    let mut request = SessionRequest::in_root(shared, life.subject.mode(), options);
    request.phase = life.subject.phase();
    request.attempt = life.attempt;
    request.task = draft.as_ref().map(|(draft, _)| draft.clone());
    request.others = Some(tasks.clone());
    request.previous = answered(life);
    Ok(Ok((request, Given { tasks, draft })))
}

/// Imports what the agent wrote into the session's folder `files`.
pub(in crate::orchestrator::effects) async fn import(
    shared: &Arc<ProjectShared>,
    life: &Life,
    files: &Path,
    given: Given,
) -> Result<Outcome> {
    let (folder, definition) = (files.join("tasks"), files.join("definition.md"));
    let (given, mut written) = blocking("reading what a step wrote", move || {
        let mut written = read(&folder, &given)?;
        let text =
            read_untrusted(&definition, LIMIT)?.map(|text| String::from_utf8_lossy(&text).into_owned());
        written.definition = text.filter(|text| !text.trim().is_empty());
        Ok((given, written))
    })
    .await?;
    let draft = given.draft.filter(|_| life.subject.phase() == Some(Phase::Refine));
    let mut tasks = Vec::new();
    match &draft {
        Some((draft, _)) => {
            let changed = written.draft.iter().flatten().flat_map(|task| not_imported(draft, task));
            let changed: Vec<_> = changed.map(|field| format!("`{field}`")).collect();
            if !changed.is_empty() {
                written.refused.push(format!("its change of {}", changed.join(", ")));
            }
            written.refused.extend(written.new.keys().map(|number| format!("the new task #{number}")));
        }
        None => tasks = new_ones(&given.tasks, written.new, &mut written.refused),
    }
    for what in &written.refused {
        shared.notice(NoticeCode::Refused, None, format!("{}: refused {what}", life.subject));
    }
    let ending = match draft {
        _ if life.subject.is_proposal() => {
            let Written { definition, refused, .. } = written;
            propose(shared, life.subject, Proposal { definition, tasks, refused }).await?
        }
        Some((draft, revision)) => refine(shared, &draft, &revision, written.draft).await?,
        None => Ending::Generated { tasks: create(shared, tasks).await? },
    };
    shared.store_changed(None);
    Ok(Outcome::Ended(ending))
}

/// The result of a step, as its agent wrote it.
struct Written {
    /// Its draft, or the error that keeps it from being read.
    draft: Option<Result<Task>>,
    new: BTreeMap<TaskNumber, Task>,
    /// The definition, where it was to be written.
    definition: Option<String>,
    /// Parts of the result that are not imported, in words.
    refused: Vec<String>,
}

fn read(folder: &Path, given: &Given) -> Result<Written> {
    let mut written = Written { draft: None, new: BTreeMap::new(), definition: None, refused: Vec::new() };
    let known: BTreeMap<_, _> = given.tasks.iter().map(|task| (task.task_number, task)).collect();
    let entries =
        std::fs::read_dir(folder).map_err(|e| Error::io("reading its tasks", e).with_path(folder))?;
    // In the order of their names, so that a bound always leaves out the same. The agent decides how many
    // there are.
    let mut names: Vec<_> = entries.flatten().take(100_000).map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let text = name.to_string_lossy();
        let number = text.strip_suffix(".yaml").and_then(|stem| stem.parse::<TaskNumber>().ok());
        // Editors leave all kinds of files behind.
        let Some(number) = number else { continue };
        let read = || {
            let bytes = read_untrusted(&folder.join(&name), LIMIT)?.unwrap_or_default();
            read_written_task(&bytes, number).map(|task| (task, bytes))
        };
        if given.draft.as_ref().is_some_and(|(draft, _)| draft.task_number == number) {
            written.draft = Some(read().map(|(task, _)| task));
            continue;
        }
        match (known.get(&number), read()) {
            // An untouched copy of a task that the step was given.
            (Some(task), Ok((_, bytes))) if render_task(task)?.as_bytes() == bytes => {}
            (Some(_), _) => written.refused.push(format!("its change of task #{number}")),
            (None, Ok(_)) if written.new.len() >= MOST => {
                written.refused.push(format!("task #{number}: more than {MOST} new ones"));
            }
            (None, Ok((task, _))) => drop(written.new.insert(number, task)),
            (None, Err(error)) => written.refused.push(format!("task #{number}: {}", error.report())),
        }
    }
    Ok(written)
}

/// Makes a draft ready with the words of the agent, unless a person has changed the draft since the step
/// began.
async fn refine(
    shared: &ProjectShared,
    draft: &Task,
    revision: &Revision,
    written: Option<Result<Task>>,
) -> Result<Ending> {
    let failed = |reason: String| Ok(Ending::Failed { reason });
    let written = match written {
        Some(Ok(task)) => task,
        Some(Err(error)) => return failed(format!("its task file: {}", error.report())),
        None => return failed("its task file is gone".to_owned()),
    };
    if written.status != TaskStatus::Ready {
        let why = written.prompt.lines().next().unwrap_or_default();
        return failed(format!("the agent left it a draft: {why}"));
    }
    let patch = TaskPatch::new()
        .with_title(written.title)
        .with_prompt(written.prompt)
        .with_acceptance_criteria(written.acceptance_criteria)
        .with_depends_on(written.depends_on)
        .with_status(TaskStatus::Ready);
    let words = |task: &Task| {
        (task.title.clone(), task.prompt.clone(), task.acceptance_criteria.clone(), task.depends_on.clone())
    };
    let mut revision = revision.clone();
    loop {
        match shared.store.update(draft.task_number, patch.clone(), Some(&revision), None).await {
            Ok(_) => return Ok(Ending::Refined),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let current = shared.store.get(draft.task_number).await?;
                // A person was faster, and their words stay.
                if current.value.status != TaskStatus::Draft {
                    return Ok(Ending::Refined);
                }
                if words(&current.value) != words(draft) {
                    return failed("a person changed the draft meanwhile".to_owned());
                }
                // Another field changed, such as the position; the agent's words still belong to this draft.
                revision = current.revision;
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return failed(error.report());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the fields of a draft, other than those that a refinement is for, that the agent changed.
fn not_imported(draft: &Task, written: &Task) -> BTreeSet<String> {
    const WORDS: [&str; 5] = ["title", "prompt", "acceptance_criteria", "depends_on", "status"];
    // The store's own, some of which every write changes.
    const OWN: [&str; 4] = ["version", "task_id", "updated_at", "failure_reason"];
    let fields = |task: &Task| match serde_json::to_value(task) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (fields(draft), fields(written));
    let names = before.keys().chain(after.keys());
    names
        .filter(|name| !WORDS.contains(&name.as_str()) && !OWN.contains(&name.as_str()))
        .filter(|name| before.get(*name) != after.get(*name))
        .cloned()
        .collect()
}

/// Returns the tasks that are not there already, with the fields that count: a generation that writes the same again has
/// found nothing.
fn new_ones(given: &[Task], new: BTreeMap<TaskNumber, Task>, refused: &mut Vec<String>) -> Vec<Task> {
    let words = |task: &Task| (task.title.trim().to_lowercase(), task.prompt.trim().to_owned());
    let mut known: BTreeSet<_> = given.iter().map(words).collect();
    let mut tasks = Vec::new();
    for task in new.into_values() {
        if task.title.trim().is_empty() {
            refused.push(format!("task #{}: it has no title", task.task_number));
        } else if !known.insert(words(&task)) {
            refused.push(format!("task {:?}: it is there already", task.title));
        } else {
            tasks.push(Task {
                prompt: task.prompt,
                acceptance_criteria: task.acceptance_criteria,
                depends_on: task.depends_on,
                ..Task::new(task.task_id, task.task_number, task.title)
            });
        }
    }
    tasks
}

/// Creates drafts, and returns their numbers. Dependencies follow to the numbers that they get: a person may have used
/// those that the agent chose.
pub(crate) async fn create(shared: &ProjectShared, tasks: Vec<Task>) -> Result<Vec<TaskNumber>> {
    let there = shared.store.list(&TaskQuery::new()).await?.tasks;
    let there: BTreeSet<_> = there.into_iter().map(|task| task.value.task_number).collect();
    let mut created = BTreeMap::new();
    for task in &tasks {
        let draft = NewTask::new(task.title.clone())
            .with_prompt(task.prompt.clone())
            .with_acceptance_criteria(task.acceptance_criteria.clone());
        let number = shared.store.create(draft, None).await?.value.task_number;
        created.insert(task.task_number, number);
    }
    // After all are created: a task may depend on one that comes after it.
    let mut depends_on = BTreeMap::<_, Vec<_>>::new();
    for task in tasks.iter().filter(|task| !task.depends_on.is_empty()) {
        let Some(of) = created.get(&task.task_number) else { continue };
        let now = |it: &TaskNumber| created.get(it).copied().or(there.get(it).copied());
        for below in task.depends_on.iter().filter_map(now) {
            depends_on.entry(*of).or_default().push(below);
            // Without itself, also by way of others, and without numbers that nothing has: each would keep the task waiting for ever.
            if Task::ring(*of, |task| depends_on.get(&task).cloned().unwrap_or_default()).is_some() {
                depends_on.entry(*of).or_default().pop();
            }
        }
    }
    for (of, below) in depends_on {
        shared.store.update(of, TaskPatch::new().with_depends_on(below), None, None).await?;
    }
    Ok(created.into_values().collect())
}

/// Saves a proposal until the next one of its kind.
async fn propose(shared: &Arc<ProjectShared>, subject: Subject, mut proposal: Proposal) -> Result<Ending> {
    let failed = |what: &str| {
        let refused: Vec<_> = proposal.refused.iter().map(|what| format!("refused {what}")).collect();
        let separator = if refused.is_empty() { "" } else { ": " };
        Ok(Ending::Failed { reason: format!("{what}{separator}{}", refused.join("; ")) })
    };
    match subject {
        Subject::GenerateDefinition => {
            let before = shared.settings().await?.0.definition;
            if proposal.definition.as_ref().is_none_or(|text| text.trim() == before.trim()) {
                return failed("the agent wrote no other definition");
            }
            proposal.tasks.clear();
        }
        _ => {
            if proposal.tasks.is_empty() {
                return failed("the agent wrote no new task");
            }
            proposal.definition = None;
        }
    }
    let path = proposed(shared, subject);
    blocking("keeping what an agent proposes", move || {
        path.parent().map(make_private).transpose()?;
        let text = serde_json::to_vec_pretty(&proposal)
            .map_err(|error| Error::new(ErrorKind::Internal, "writing a proposal").with_source(error))?;
        replace(&path, &text)
    })
    .await?;
    Ok(Ending::Proposed)
}

/// Reads the latest proposal of this kind.
pub(crate) async fn proposal(shared: &Arc<ProjectShared>, subject: Subject) -> Result<Proposal> {
    let path = proposed(shared, subject);
    blocking("reading what an agent proposes", move || {
        let text = std::fs::read(&path).map_err(|e| Error::io("reading a proposal", e).with_path(&path))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::Malformed, "not a proposal").with_source(error).with_path(path)
        })
    })
    .await
}

fn proposed(shared: &ProjectShared, subject: Subject) -> PathBuf {
    shared.state_dir.join("proposals").join(format!("{}.json", subject.mode()))
}
