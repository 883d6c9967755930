//! One merge: in memory, verified, published.

use std::sync::Arc;

use super::attempt::{Finished, mirror};
use super::dispatcher::Message;
use super::project::ProjectShared;
use super::{Step, verify};
use crate::journal::{self, Entry, StepResult, TaskState};
use crate::model::{Attempt, Project, Settings, TaskNumber};
use crate::schedule::{Ending, MergeTicket};
use crate::store::Fence;
use crate::workspace::{
    Candidate, Conflict, Merge, MergeRequest, PublishRequest, Published, RemoveRequest, Removed,
};
use crate::{ErrorKind, Result};

/// Carries out a merge and tells the dispatcher what came of it, whatever happens.
pub(super) async fn run(shared: Arc<ProjectShared>, ticket: MergeTicket, finished: Option<Finished>) {
    let attempt = finished.as_ref().map(|finished| finished.attempt).unwrap_or_default();
    // A task of its own: a foreign workspace may panic.
    let merging = tokio::spawn({
        let (shared, ticket) = (Arc::clone(&shared), ticket.clone());
        async move { merge(&shared, &ticket, finished).await }
    });
    let ending = match merging.await {
        Ok(Ok(Some(ending))) => ending,
        Ok(Ok(None)) => {
            return shared.inner.outbox.send(Message::MergeMoved { project: shared.id.clone(), ticket });
        }
        Ok(Err(error)) => Ending::Error { reason: error.report() },
        Err(error) => Ending::Error { reason: format!("the merge broke off: {error}") },
    };
    shared.record_ending(ticket.task, attempt, &ending);
    mirror(&shared, ticket.task, &ending).await;
    shared.store_changed();
    shared.inner.outbox.send(Message::MergeEnded { project: shared.id.clone(), ticket, attempt, ending });
}

/// How the merge ended; none when the target has moved under it.
async fn merge(
    shared: &Arc<ProjectShared>,
    ticket: &MergeTicket,
    finished: Option<Finished>,
) -> Result<Option<Ending>> {
    let (project, settings) = shared.settings().await?;
    let Some(Finished { attempt, options, publishing, .. }) = finished else {
        return Ok(Some(Ending::Nothing));
    };
    let number = ticket.task;
    let wanted = options.merge.or(project.auto_merge).unwrap_or(settings.defaults.auto_merge);
    if !wanted {
        return Ok(Some(Ending::Unmerged));
    }
    if is_taken_back(shared, number).await? {
        return Ok(Some(Ending::Cancelled));
    }
    shared.progress(number, attempt, Step::Merging, ticket.target.clone());
    let title = shared.store.get(number).await.map(|task| task.value.title).unwrap_or_default();
    let message = format!("Merge watchfire/{number}: {}", title.lines().next().unwrap_or_default());
    let request = MergeRequest::new(number, &ticket.target, message.trim_end_matches([':', ' ']))
        .with_strategy(project.merge.strategy);
    let prepared = match shared.workspace.prepare_merge(&request).await {
        // What a killed orchestrator published and cleaned up is no longer there to be merged.
        Err(error) if error.kind() == ErrorKind::NotFound && publishing.is_some() => Merge::Nothing,
        prepared => prepared?,
    };
    let candidate = match prepared {
        Merge::Ready(candidate) => candidate,
        Merge::Conflicts(conflicts) => return Ok(Some(Ending::Conflict { reason: describe(&conflicts) })),
        Merge::Nothing => {
            let target = Some(ticket.target.clone()).filter(|target| !target.is_empty());
            let (outcome, ending) = match publishing {
                Some((id, commit)) => {
                    let ending = Ending::Merged { commit: Some(commit.to_string()), target };
                    (Some(Entry::Outcome { id, result: StepResult::Done }), ending)
                }
                None => (None, Ending::Nothing),
            };
            settle(shared, number, attempt, outcome, &ending).await?;
            remove(shared, &project, &settings, number).await;
            return Ok(Some(ending));
        }
    };
    if let Some((id, _)) = publishing {
        shared.journal.post(vec![Entry::Outcome { id, result: StepResult::Abandoned }]);
    }
    if let Some(reason) = verify::run(shared, &project, &settings, &options, attempt, &candidate).await? {
        return Ok(Some(Ending::VerifyFailed { reason }));
    }
    if is_taken_back(shared, number).await? {
        return Ok(Some(Ending::Cancelled));
    }
    publish(shared, &project, &settings, attempt, &candidate).await
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

async fn publish(
    shared: &Arc<ProjectShared>,
    project: &Project,
    settings: &Settings,
    attempt: Attempt,
    candidate: &Candidate,
) -> Result<Option<Ending>> {
    let number = candidate.key.task;
    shared.progress(number, attempt, Step::Publishing, candidate.target.clone());
    let (id, intent) = shared.intent(journal::Step::Publish {
        task: number,
        attempt,
        target: candidate.target.clone(),
        base: candidate.base.clone(),
        commit: candidate.commit.clone(),
    });
    // What may be half-done after a crash is on disk before it begins.
    shared.journal.append(vec![intent]).await?;
    let request = PublishRequest::new(Fence(u64::from(attempt.0)));
    let published = match shared.workspace.publish(candidate, &request).await {
        Ok(published) => published,
        Err(error) => {
            // It may have happened or not. The intent stays open, so that the next start finds out; what can be put
            // right now is.
            shared.workspace.recover().await?;
            return Err(error);
        }
    };
    let failed = |code: &str, message: String| {
        vec![Entry::Outcome { id, result: StepResult::Failed { code: code.to_owned(), message } }]
    };
    match published {
        Published::Done { .. } => {
            let ending = Ending::Merged {
                commit: Some(candidate.commit.to_string()),
                target: Some(candidate.target.clone()),
            };
            let outcome = Entry::Outcome { id, result: StepResult::Done };
            match settle(shared, number, attempt, Some(outcome), &ending).await {
                Ok(()) => remove(shared, project, settings, number).await,
                // Merged all the same: the open intent tells the next start.
                Err(error) => {
                    shared.attention(Some(number), format!("writing down the merge: {}", error.report()))
                }
            }
            Ok(Some(ending))
        }
        Published::Held { checkout, reason, files } => {
            let mut names: Vec<_> = files.iter().take(20).map(ToString::to_string).collect();
            if files.len() > names.len() {
                names.push(format!("and {} more", files.len() - names.len()));
            }
            let reason = format!("{reason} in {}: {}", checkout.display(), names.join(", "));
            let reason = reason.trim_end_matches([':', ' ']).to_owned();
            shared.journal.post(failed("held", reason.clone()));
            Ok(Some(Ending::Held { reason }))
        }
        Published::Moved => {
            shared.journal.post(failed("moved", String::new()));
            Ok(None)
        }
    }
}

/// Removes worktree and branch after a merge, if the project wants that. A failure costs nothing but disk.
async fn remove(shared: &ProjectShared, project: &Project, settings: &Settings, number: TaskNumber) {
    if !project.auto_delete_branch.unwrap_or(settings.defaults.auto_delete_branch) {
        return;
    }
    match shared.workspace.remove(&RemoveRequest::new(number)).await {
        Ok(Removed::Gone { .. }) => {}
        Ok(Removed::Kept { reason }) => shared.attention(Some(number), format!("branch kept: {reason}")),
        Err(error) => shared.attention(Some(number), format!("branch kept: {}", error.report())),
    }
}

fn describe(conflicts: &[Conflict]) -> String {
    let mut names: Vec<_> = conflicts.iter().take(20).map(|conflict| conflict.path.to_string()).collect();
    if conflicts.len() > names.len() {
        names.push(format!("and {} more", conflicts.len() - names.len()));
    }
    names.join(", ")
}
