//! One ticket of the merge queue: its tasks merged in memory one on the other, verified, published.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::{Finished, mirror};
use super::dispatcher::Message;
use super::project::ProjectShared;
use super::{Step, resume, verify};
use crate::journal::{self, Entry, StepResult, TaskState};
use crate::model::{Attempt, Project, RepoPath, Settings, TaskNumber};
use crate::schedule::{Bisection, Ending, MergeTicket};
use crate::store::Fence;
use crate::workspace::{
    Candidate, Conflict, Merge, MergeRequest, PublishRequest, Published, RemoveRequest, Removed,
};
use crate::{ErrorKind, Result};

/// What came of a ticket.
#[derive(Default)]
pub(super) struct Merged {
    /// The tasks that have come to their end, and how.
    pub(super) ended: Vec<(TaskNumber, Attempt, Ending)>,
    /// Whether the target has moved under the others.
    pub(super) moved: bool,
}

/// Carries out the merges of a ticket and tells the dispatcher what came of them, whatever happens. At least one of its
/// tasks ends, or the target has moved, or what is left is tried again in a smaller batch.
pub(super) async fn run(
    shared: Arc<ProjectShared>,
    ticket: MergeTicket,
    finished: BTreeMap<TaskNumber, Finished>,
) {
    let attempt = |task| finished.get(&task).map(|finished| finished.attempt).unwrap_or_default();
    // A task of its own: a foreign workspace may panic.
    let merging = tokio::spawn({
        let (shared, ticket, finished) = (Arc::clone(&shared), ticket.clone(), finished.clone());
        async move {
            let mut merged = Merged::default();
            let done = merge(&shared, &ticket, &finished, &mut merged).await;
            (merged, done.map_err(|error| error.report()))
        }
    });
    let (mut merged, done) = merging
        .await
        .unwrap_or_else(|error| (Merged::default(), Err(format!("the merge broke off: {error}"))));
    if let Err(reason) = done {
        let has_ended = |task: TaskNumber| merged.ended.iter().any(|(ended, ..)| *ended == task);
        let left: Vec<_> = ticket.tasks.iter().filter(|task| !has_ended(**task)).collect();
        // Of several, it may be about one only: they are tried again in a smaller batch.
        if let [task] = left[..] {
            merged.ended.push((*task, attempt(*task), Ending::Error { reason }));
        }
    }
    for (task, attempt, ending) in &merged.ended {
        shared.record_ending(*task, *attempt, ending);
        mirror(&shared, *task, ending).await;
    }
    shared.store_changed();
    shared.inner.outbox.send(Message::MergeEnded { project: shared.id.clone(), ticket, merged });
}

/// A task whose merge is ready.
struct Stacked<'a> {
    finished: &'a Finished,
    candidate: Candidate,
}

impl Stacked<'_> {
    fn task(&self) -> TaskNumber {
        self.candidate.key.task
    }

    fn ended(&self, ending: Ending) -> (TaskNumber, Attempt, Ending) {
        (self.task(), self.finished.attempt, ending)
    }
}

async fn merge(
    shared: &Arc<ProjectShared>,
    ticket: &MergeTicket,
    finished: &BTreeMap<TaskNumber, Finished>,
    merged: &mut Merged,
) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    let mut stack: Vec<Stacked<'_>> = Vec::new();
    for task in &ticket.tasks {
        let Some(finished) = finished.get(task) else {
            merged.ended.push((*task, Attempt::default(), Ending::Nothing));
            continue;
        };
        let wanted = finished.options.merge.or(project.auto_merge).unwrap_or(settings.defaults.auto_merge);
        let asked = |finished: &Finished| (finished.options.sandbox.clone(), finished.options.enforcement);
        let ending = if !wanted {
            Ending::Unmerged
        } else if is_taken_back(shared, *task).await? {
            Ending::Cancelled
        } else if stack.last().is_some_and(|below| asked(below.finished) != asked(finished)) {
            // They are to be verified in another sandbox.
            break;
        } else {
            let onto = stack.last().map(|below| &below.candidate);
            match prepare(shared, ticket, *task, finished, &project, &settings, onto).await {
                Ok(Ok(candidate)) => {
                    stack.push(Stacked { finished, candidate });
                    continue;
                }
                // What is in its way may be a task below it that does not come through.
                _ if onto.is_some() => break,
                Ok(Err(ending)) => ending,
                Err(error) => Ending::Error { reason: error.report() },
            }
        };
        merged.ended.push((*task, finished.attempt, ending));
    }

    let (mut search, mut blame) = (Bisection::among(stack.len()), None);
    while let Some(count) = search.next() {
        let Some(top) = stack.get(count - 1) else { break };
        let failure = verify::run(
            shared,
            &project,
            &settings,
            &top.finished.options,
            top.finished.attempt,
            &top.candidate,
        )
        .await?;
        search.verified(count, failure.is_none());
        blame = failure.or(blame);
    }
    if let Some(guilty) = search.guilty().and_then(|at| stack.get(at)) {
        merged.ended.push(guilty.ended(Ending::VerifyFailed { reason: blame.unwrap_or_default() }));
    }
    stack.truncate(search.good());
    let mut taken_back = Vec::new();
    for stacked in &stack {
        if is_taken_back(shared, stacked.task()).await? {
            taken_back.push(stacked.ended(Ending::Cancelled));
        }
    }
    if taken_back.is_empty() {
        publish(shared, &project, &settings, &stack, merged).await;
    } else {
        // Without it, the others are not what was verified.
        merged.ended.extend(taken_back);
    }
    Ok(())
}

/// The merge of one task, onto the target or another candidate; or how the task ends without one.
async fn prepare(
    shared: &Arc<ProjectShared>,
    ticket: &MergeTicket,
    number: TaskNumber,
    finished: &Finished,
    project: &Project,
    settings: &Settings,
    onto: Option<&Candidate>,
) -> Result<Result<Candidate, Ending>> {
    let Finished { attempt, publishing, .. } = finished;
    shared.progress(number, *attempt, Step::Merging, ticket.target.clone());
    let title = shared.store.get(number).await.map(|task| task.value.title).unwrap_or_default();
    let message = format!("Merge watchfire/{number}: {}", title.lines().next().unwrap_or_default());
    let mut request = MergeRequest::new(number, &ticket.target, message.trim_end_matches([':', ' ']))
        .with_strategy(project.merge.strategy);
    request.onto = onto.cloned();
    let prepared = match shared.workspace.prepare_merge(&request).await {
        // What a killed orchestrator published and cleaned up is no longer there to be merged.
        Err(error) if error.kind() == ErrorKind::NotFound && publishing.is_some() => Merge::Nothing,
        prepared => prepared?,
    };
    match prepared {
        Merge::Ready(candidate) => {
            if let Some((id, _)) = publishing {
                shared.journal.post(vec![Entry::Outcome { id: *id, result: StepResult::Abandoned }]);
            }
            Ok(Ok(candidate))
        }
        Merge::Conflicts(conflicts) => Ok(Err(Ending::Conflict { reason: describe(&conflicts) })),
        Merge::Held(obstacle) => Ok(Err(Ending::Held { reason: obstacle.to_string() })),
        // On another candidate, that may yet change.
        Merge::Nothing if onto.is_some() => Ok(Err(Ending::Nothing)),
        Merge::Nothing => {
            let target = Some(ticket.target.clone()).filter(|target| !target.is_empty());
            let (outcome, ending) = match publishing {
                Some((id, commit)) => {
                    let ending = Ending::Merged { commit: Some(commit.to_string()), target };
                    (Some(Entry::Outcome { id: *id, result: StepResult::Done }), ending)
                }
                None => (None, Ending::Nothing),
            };
            settle(shared, number, *attempt, outcome, &ending).await?;
            remove(shared, project, settings, number).await;
            Ok(Err(ending))
        }
    }
}

/// Whether someone has deleted the task, or set it back, since its agent said that it was done.
async fn is_taken_back(shared: &ProjectShared, number: TaskNumber) -> Result<bool> {
    match shared.store.get(number).await {
        Ok(task) => Ok(task.value.is_deleted() || !task.value.claims_success()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes down on the disk how it ended, before what it was made from goes.
async fn settle(
    shared: &ProjectShared,
    task: TaskNumber,
    attempt: Attempt,
    outcome: Option<Entry>,
    ending: &Ending,
) -> Result<()> {
    let state = Entry::TaskState { task, attempt, state: TaskState::Ended { ending: ending.clone() } };
    shared.journal.append(outcome.into_iter().chain([state]).collect()).await.map(|_| ())
}

/// Publishes what was verified together, as one.
async fn publish(
    shared: &Arc<ProjectShared>,
    project: &Project,
    settings: &Settings,
    stack: &[Stacked<'_>],
    merged: &mut Merged,
) {
    let Some(top) = stack.last() else { return };
    let mut steps = Vec::new();
    for Stacked { finished, candidate } in stack {
        shared.progress(candidate.key.task, finished.attempt, Step::Publishing, candidate.target.clone());
        steps.push(shared.intent(journal::Step::Publish {
            task: candidate.key.task,
            attempt: finished.attempt,
            target: candidate.target.clone(),
            base: candidate.base.clone(),
            commit: candidate.commit.clone(),
        }));
    }
    let (ids, intents): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    // What may be half-done after a crash is on disk before it begins.
    let topmost = match shared.journal.append(intents).await {
        Ok(_) => publish_one(shared, top).await,
        Err(error) => Err(error.report()),
    };
    for (stacked, id) in stack.iter().zip(ids) {
        let published = match &topmost {
            // The others went along with it, or wait like it: each is told.
            Ok(Published::Done { .. } | Published::Held { .. }) if stacked.task() != top.task() => {
                publish_one(shared, stacked).await
            }
            as_topmost => as_topmost.clone(),
        };
        let failed = |code: &str, message: String| {
            let result = StepResult::Failed { code: code.to_owned(), message };
            shared.journal.post(vec![Entry::Outcome { id, result }]);
        };
        let (number, candidate) = (stacked.task(), &stacked.candidate);
        let ending = match published {
            Ok(Published::Done { .. }) => {
                let ending = Ending::Merged {
                    commit: Some(candidate.commit.to_string()),
                    target: Some(candidate.target.clone()),
                };
                let outcome = Entry::Outcome { id, result: StepResult::Done };
                match settle(shared, number, stacked.finished.attempt, Some(outcome), &ending).await {
                    Ok(()) => remove(shared, project, settings, number).await,
                    // Merged all the same: the open intent tells the next start.
                    Err(error) => {
                        shared.attention(Some(number), format!("writing down the merge: {}", error.report()));
                    }
                }
                ending
            }
            Ok(Published::Held(obstacle)) => {
                failed("held", obstacle.to_string());
                Ending::Held { reason: obstacle.to_string() }
            }
            // The intent stays open: the next start completes it.
            Ok(Published::Incomplete(obstacle)) => Ending::Error { reason: obstacle.to_string() },
            Ok(Published::Moved) => {
                failed("moved", String::new());
                merged.moved = true;
                continue;
            }
            Err(reason) => Ending::Error { reason },
        };
        merged.ended.push(stacked.ended(ending));
    }
}

async fn publish_one(
    shared: &ProjectShared,
    stacked: &Stacked<'_>,
) -> std::result::Result<Published, String> {
    let request = PublishRequest::new(Fence(u64::from(stacked.finished.attempt.0)));
    let published = shared.workspace.publish(&stacked.candidate, &request).await;
    if published.is_err() {
        // It may have happened or not. The intent stays open, so that the next start finds out; what can be put right
        // now is.
        shared.workspace.recover().await.map_err(|error| error.report())?;
    }
    published.map_err(|error| error.report())
}

/// Removes worktree and branch after a merge, if the project wants that. A failure costs nothing but disk.
async fn remove(shared: &ProjectShared, project: &Project, settings: &Settings, number: TaskNumber) {
    if !project.auto_delete_branch.unwrap_or(settings.defaults.auto_delete_branch) {
        return;
    }
    match shared.workspace.remove(&RemoveRequest::new(number)).await {
        Ok(Removed::Gone { .. }) => {
            let state = shared.state_dir.clone();
            // Nothing waits for it.
            tokio::task::spawn_blocking(move || resume::forget(&state, number));
        }
        Ok(Removed::Kept { reason }) => shared.attention(Some(number), format!("branch kept: {reason}")),
        Err(error) => shared.attention(Some(number), format!("branch kept: {}", error.report())),
    }
}

fn describe(conflicts: &[Conflict]) -> String {
    some(conflicts.iter().map(|conflict| &conflict.path))
}

/// The first of some paths, and how many more there are.
fn some<'a>(paths: impl IntoIterator<Item = &'a RepoPath, IntoIter: ExactSizeIterator>) -> String {
    let paths = paths.into_iter();
    let all = paths.len();
    let mut names: Vec<_> = paths.take(20).map(ToString::to_string).collect();
    if all > names.len() {
        names.push(format!("and {} more", all - names.len()));
    }
    names.join(", ")
}
