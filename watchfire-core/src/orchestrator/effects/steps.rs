//! Steps of wildfire that work on no task: what they are given, and what is taken over of what they write.
//!
//! A step reads the checkout and all tasks, and writes only into its session's folder. Of that folder, a refinement may
//! change its draft, and a generation may add drafts. Everything else is left out, and told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::files::read_untrusted;
use crate::model::{Phase, Task, TaskNumber, TaskStatus};
use crate::orchestrator::compose::SessionRequest;
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{Ending, Life, NoticeCode, Outcome, Subject};
use crate::store::{NewTask, Revision, TaskPatch, TaskQuery, read_written_task, render_task};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the tasks of one generation.
const MOST: usize = 100;
/// Upper bound for the size of a task file.
const LIMIT: u64 = 1 << 20;

/// The tasks that a step was given, as they were then.
pub(super) struct Given {
    tasks: Vec<Task>,
    /// The draft that it refines.
    draft: Option<(Task, Revision)>,
}

/// Composes the request for a step's session. The inner error is the end of a step that is not needed any more.
pub(super) async fn prepare(
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
    tasks.retain(|task| draft.as_ref().is_none_or(|(draft, _)| draft.task_number != task.task_number));
    let mut options = life.options.clone();
    options.agent = options.agent.or(shared.settings().await?.0.wildfire.agent);
    let mut request = SessionRequest::in_root(shared, life.subject.mode(), options);
    request.phase = life.subject.phase();
    request.attempt = life.attempt;
    request.task = draft.as_ref().map(|(draft, _)| draft.clone());
    request.others.clone_from(&tasks);
    Ok(Ok((request, Given { tasks, draft })))
}

/// Takes over what the agent wrote into the session's folder `files`.
pub(super) async fn import(
    shared: &Arc<ProjectShared>,
    life: &Life,
    files: &Path,
    given: Given,
) -> Result<Outcome> {
    let folder = files.join("tasks");
    let (given, written) = blocking("reading what a step wrote", move || {
        let written = read(&folder, &given)?;
        Ok((given, written))
    })
    .await?;
    let refused =
        |what: String| shared.notice(NoticeCode::Refused, None, format!("{}: {what}", life.subject));
    written.refused.into_iter().for_each(&refused);
    let ending = match (life.subject.phase(), given.draft) {
        (Some(Phase::Refine), Some((draft, revision))) => {
            written.new.keys().for_each(|number| refused(format!("the new task #{number}")));
            refine(shared, &draft, &revision, written.draft).await?
        }
        _ => generate(shared, &given.tasks, written.new, &refused).await?,
    };
    shared.store_changed();
    Ok(Outcome::Ended(ending))
}

/// What an agent wrote.
struct Written {
    /// Its draft, or why that cannot be read.
    draft: Option<Result<Task>>,
    new: BTreeMap<TaskNumber, Task>,
    /// What is not taken over.
    refused: Vec<String>,
}

fn read(folder: &Path, given: &Given) -> Result<Written> {
    let mut written = Written { draft: None, new: BTreeMap::new(), refused: Vec::new() };
    let known: BTreeMap<_, _> = given.tasks.iter().map(|task| (task.task_number, task)).collect();
    let entries =
        std::fs::read_dir(folder).map_err(|e| Error::io("reading its tasks", e).with_path(folder))?;
    // In the order of their names, so that a bound always leaves out the same.
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

/// Makes a draft ready with the words of the agent, unless a person changed it meanwhile.
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
                if current.value.status != TaskStatus::Draft {
                    return Ok(Ending::Refined);
                }
                if words(&current.value) != words(draft) {
                    return failed("a person changed the draft meanwhile".to_owned());
                }
                revision = current.revision;
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return failed(error.report());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Creates the tasks that an agent wrote, as drafts. One that is there already is left out: a generation that writes the
/// same again has found nothing.
async fn generate(
    shared: &ProjectShared,
    given: &[Task],
    new: BTreeMap<TaskNumber, Task>,
    refused: &impl Fn(String),
) -> Result<Ending> {
    let words = |task: &Task| (task.title.trim().to_lowercase(), task.prompt.trim().to_owned());
    let mut known: BTreeSet<_> = given.iter().map(words).collect();
    let mut created = BTreeMap::new();
    for (number, task) in &new {
        if !known.insert(words(task)) {
            refused(format!("task {:?}: it is there already", task.title));
            continue;
        }
        let draft = NewTask::new(task.title.clone())
            .with_prompt(task.prompt.clone())
            .with_acceptance_criteria(task.acceptance_criteria.clone());
        match shared.store.create(draft, None).await {
            Ok(task) => drop(created.insert(*number, task.value.task_number)),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                refused(format!("task #{number}: {}", error.report()))
            }
            Err(error) => return Err(error),
        }
    }
    for (number, task) in new.iter().filter(|(_, task)| !task.depends_on.is_empty()) {
        let Some(of) = created.get(number) else { continue };
        // By the numbers that they have now: meanwhile a person may have used those that the agent chose.
        let is_given = |task: &TaskNumber| given.iter().any(|given| given.task_number == *task);
        let below =
            task.depends_on.iter().filter_map(|it| created.get(it).or(is_given(it).then_some(it)).copied());
        let patch = TaskPatch::new().with_depends_on(below.collect::<Vec<_>>());
        shared.store.update(*of, patch, None, None).await?;
    }
    Ok(Ending::Generated { tasks: created.into_values().collect() })
}
