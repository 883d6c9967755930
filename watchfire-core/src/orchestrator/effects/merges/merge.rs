//! One ticket of the merge queue: its lives are merged in memory one on top of the other, verified, and published.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;

use super::held::take_out;
use super::verify;
use crate::failpoint::reached;
use crate::model::{Project, RepoPath, Review, Settings, TaskNumber};
use crate::orchestrator::effects::commands::{Failure, check_secrets};
use crate::orchestrator::effects::publication::{ask_again, found_in_targets};
use crate::orchestrator::effects::{claims, mirror, release};
use crate::orchestrator::shared::{Control, ProjectShared};
use crate::schedule::{Bisection, Ending, Fact, Life, LifeId, MergeResult, NoticeCode, StopReason, Ticket};
use crate::workspace::{
    Candidate, Conflict, InTargets, Merge, MergeGuard, MergeRequest, Obstacle, ObstacleKind, PublishRequest,
    Published,
};
use crate::{Error, ErrorKind, Result};

/// The time after which a missing task file was deleted, and the interval at which it is looked for until then.
const MISSING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(100);

/// Results of a ticket so far.
#[derive(Default)]
struct Results {
    ended: Vec<(LifeId, MergeResult)>,
    /// True if the target moved under the others.
    moved: bool,
}

/// Carries out a ticket and reports the results, even after a panic. Makes progress in every case: at least one life
/// gets a result, or the target has moved, or the rest is tried again in a smaller batch.
pub(crate) async fn merge(shared: Arc<ProjectShared>, ticket: Ticket, lives: Vec<Life>, control: Control) {
    // In a task of its own: a foreign workspace may panic.
    let merging = tokio::spawn({
        let (shared, ticket, lives) = (Arc::clone(&shared), ticket.clone(), lives.clone());
        async move {
            let mut results = Results::default();
            // A stop drops the merge at its next await, and ends the verify command with everything it
            // started.
            let merged = tokio::select! {
                biased;
                _ = control.wait_stopped() => Ok(Vec::new()),
                merged = merge_all(&shared, &ticket, &lives, &mut results) => merged,
            };
            // A publication is never dropped: the stop may concern another life of the ticket, and from the permit on the
            // target may move at any moment.
            let done = match merged {
                Ok(stack) => {
                    publish(&shared, stack, &mut results).await;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            (results, done)
        }
    });
    let (mut results, done) = merging.await.unwrap_or_else(|error| {
        let panicked = Error::new(ErrorKind::Internal, format!("the merge panicked: {error}"));
        // Results from before the panic are lost, and these lives are merged again.
        (Results::default(), Err(panicked))
    });
    if let Err(error) = done {
        let ended = |life: &LifeId| results.ended.iter().any(|(id, _)| id == life);
        let left: Vec<LifeId> = ticket.lives.iter().copied().filter(|life| !ended(life)).collect();
        // With several lives left, the error may concern only one, so they are tried again in a smaller
        // batch.
        if let [life] = left[..] {
            results.ended.push((life, failed(&error)));
        }
    }
    for (id, result) in &mut results.ended {
        if let Some(task) = task_of(&lives, *id) {
            withdraw_failed(&shared, task, result).await;
            mirror(&shared, *id, task, result).await;
            // Before the report: the next board must show the results.
            shared.store_changed(Some(task));
        }
    }
    let unknown: Vec<_> = results.ended.iter().filter_map(|(id, result)| unknown(*id, result)).collect();
    shared.report(Fact::TicketOver { ticket, results: results.ended, moved: results.moved });
    // After the report: the schedule ignores the answer about a life that is on a ticket.
    for (id, candidate) in unknown {
        tokio::spawn(ask_again(Arc::clone(&shared), id, candidate));
    }
}

/// Takes work whose merge has failed out of what waits for its target, where an earlier start may have put it. The schedule
/// does so itself with stopped work.
async fn withdraw_failed(shared: &ProjectShared, task: TaskNumber, result: &mut MergeResult) {
    let MergeResult::Ended(ending) = result else { return };
    if ending.is_integrated() || matches!(ending, Ending::Stopped { .. }) {
        return;
    }
    match take_out(shared, task).await {
        Ok(None) => {}
        Ok(Some(published)) => *ending = published,
        // The next start takes it out.
        Err(error) => {
            let message = format!("its work may still wait to be published: {}", error.report());
            shared.notice(NoticeCode::Workspace, Some(task), message);
        }
    }
}

/// Returns the candidate that the target must be asked about.
pub(in crate::orchestrator::effects) fn unknown(
    life: LifeId,
    result: &MergeResult,
) -> Option<(LifeId, Candidate)> {
    match result {
        MergeResult::Unknown { candidate } => Some((life, (**candidate).clone())),
        _ => None,
    }
}

/// Returns the result of a merge that met `error`. Trouble of this machine is no fault of the work, which waits until it is
/// over.
fn failed(error: &Error) -> MergeResult {
    match error.is_trouble() {
        true => {
            // Without a candidate: the target may have moved by the time that there is room again.
            MergeResult::Held { candidate: None, by: Obstacle::new(ObstacleKind::OutOfSpace, error.report()) }
        }
        false => MergeResult::Ended(Ending::Error { code: error.code().to_owned(), message: error.report() }),
    }
}

/// Writes the result of a merge into the task's file. In a task of its own, because a foreign store may panic.
pub(in crate::orchestrator::effects) async fn mirror(
    shared: &Arc<ProjectShared>,
    life: LifeId,
    task: TaskNumber,
    result: &MergeResult,
) {
    let (shared, result) = (Arc::clone(shared), result.clone());
    let writing = tokio::spawn(async move {
        match result {
            MergeResult::Ended(ending) => mirror::mirror(&shared, life, task, &ending).await,
            MergeResult::Held { by, .. } => mirror::mirror_obstacle(&shared, life, task, "held", &by).await,
            MergeResult::Incomplete { by, .. } => {
                mirror::mirror_obstacle(&shared, life, task, "incomplete", &by).await;
            }
            MergeResult::Moved | MergeResult::Unknown { .. } => {}
        }
    });
    let _ = writing.await;
}

fn task_of(lives: &[Life], id: LifeId) -> Option<TaskNumber> {
    lives.iter().find(|life| life.id == id).and_then(|life| life.subject.task())
}

/// A life whose candidate is ready.
struct Stacked<'a> {
    life: &'a Life,
    candidate: Candidate,
}

/// Merges and verifies; returns the lives that may be published together, bottom first.
async fn merge_all<'a>(
    shared: &Arc<ProjectShared>,
    ticket: &Ticket,
    lives: &'a [Life],
    results: &mut Results,
) -> Result<Vec<Stacked<'a>>> {
    let (project, settings) = shared.settings().await?;
    let mut stack: Vec<Stacked<'_>> = Vec::new();
    for life in lives {
        let Some(task) = life.subject.task() else { continue };
        // A life that merges after a restart has no claim yet.
        claims::claim(shared, life.id, task).await?;
        let wanted = life.options.merge.or(project.auto_merge).unwrap_or(settings.defaults.auto_merge);
        let sandbox = |life: &Life| (life.options.sandbox.clone(), life.options.enforcement);
        let result = if !wanted {
            MergeResult::Ended(Ending::Unmerged)
        } else if is_withdrawn(shared, task).await? {
            MergeResult::Ended(Ending::Stopped { by: StopReason::Withdrawn })
        } else if !project.verify.is_empty()
            && let Err(error) = check_secrets(shared, &settings, &life.options)
        {
            // Without them the commands would fail, and the work would be blamed.
            MergeResult::Held {
                candidate: None,
                by: Obstacle::new(ObstacleKind::VariablesGone, error.message()),
            }
        } else if stack.last().is_some_and(|below| sandbox(below.life) != sandbox(life)) {
            // It has to be verified in another sandbox than those below it, so the ticket ends here.
            break;
        } else {
            let onto = stack.last().map(|below| &below.candidate);
            // Held work may have been published with other work: its candidate is no base for a merge any more.
            if let Some(below) = onto
                && shared.workspace.found_in_targets(below).await? != InTargets::None
            {
                break;
            }
            match prepare(shared, ticket, life, task, (&project, &settings), onto).await {
                Ok(Ok(candidate)) => {
                    if !candidate.tool_files.is_empty() {
                        let files = some(&candidate.tool_files);
                        let message = format!("the work changes files that tools run on their own: {files}");
                        shared.notice(NoticeCode::ToolFiles, Some(task), message);
                    }
                    stack.push(Stacked { life, candidate });
                    continue;
                }
                // The cause may lie in a life below that will fail itself. This one is judged once it is the
                // lowest.
                _ if onto.is_some() => break,
                Ok(Err(result)) => result,
                Err(error) => failed(&error),
            }
        };
        results.ended.push((life.id, result));
    }
    // The whole stack first. Only if that fails is it halved, so a good batch costs one verification.
    let (mut search, mut blame) = (Bisection::among(stack.len()), None);
    while let Some(count) = search.next() {
        let Some(top) = stack.get(count - 1) else { break };
        let failure = verify::run(shared, &project, &settings, top.life, &top.candidate).await?;
        reached(|| "verified");
        search.verified(count, failure.is_none());
        // Each failure is of a smaller stack than the one before, so the last one is that of the guilty
        // merge.
        blame = failure.or(blame);
    }
    if let Some((guilty, failure)) = search.guilty().and_then(|at| stack.get(at)).zip(blame) {
        let Failure { command, how, output } = failure;
        let ending = Ending::VerifyFailed { command, how, output };
        results.ended.push((guilty.life.id, MergeResult::Ended(ending)));
    }
    stack.truncate(search.good());
    // Checked again after verification, which may have taken half an hour.
    let mut withdrawn = Vec::new();
    for stacked in &stack {
        if let Some(task) = stacked.life.subject.task()
            && is_withdrawn(shared, task).await?
        {
            let ending = Ending::Stopped { by: StopReason::Withdrawn };
            withdrawn.push((stacked.life.id, MergeResult::Ended(ending)));
        }
    }
    if !withdrawn.is_empty() {
        // Without the withdrawn ones, the others are not what was verified.
        results.ended.extend(withdrawn);
        stack.clear();
    }
    Ok(stack)
}

/// Merges one life in memory, onto the target or another candidate. The inner error is a result without a merge.
async fn prepare(
    shared: &Arc<ProjectShared>,
    ticket: &Ticket,
    life: &Life,
    task: TaskNumber,
    (project, settings): (&Project, &Settings),
    onto: Option<&Candidate>,
) -> Result<Result<Candidate, MergeResult>> {
    shared.report(Fact::Merging(life.id));
    // The title is only for the message; a file that cannot be read must not keep the work from its merge.
    let title = shared.store.get(task).await.map(|task| task.value.title).unwrap_or_default();
    let message = format!("Merge watchfire/{task}: {}", title.lines().next().unwrap_or_default());
    let accept = life.options.accept;
    // From the main project's file, which no agent can write.
    let protected = if accept.protected { Vec::new() } else { project.protected.clone() };
    let guard = MergeGuard::default()
        .with_protected(protected)
        .with_wiring(!accept.commands && !settings.git.allow_git_wiring)
        .with_tools(!accept.commands && project.review == Review::Tools);
    let mut request = MergeRequest::new(task, &ticket.target, message.trim_end_matches([':', ' ']))
        .with_strategy(project.merge.strategy)
        .with_accept_marks(accept.marks)
        .with_guard(guard);
    request.onto = onto.cloned();
    let prepared = shared.patiently(Some(task), "merging its work", shared.workspace.prepare_merge(&request));
    Ok(match prepared.await? {
        Merge::Ready(candidate) => Ok(candidate),
        Merge::Conflicts(conflicts) => {
            Err(MergeResult::Ended(Ending::Conflict { reason: describe(&conflicts) }))
        }
        Merge::Nothing => Err(MergeResult::Ended(Ending::Nothing)),
        Merge::Held(by) => Err(MergeResult::Held { candidate: None, by }),
    })
}

/// Returns true if a person deleted the task, or set it back, since its agent claimed success.
pub(in crate::orchestrator::effects) async fn is_withdrawn(
    shared: &ProjectShared,
    task: TaskNumber,
) -> Result<bool> {
    let clock = &shared.inner.clock;
    let deadline = clock.boot_time() + MISSING;
    loop {
        match shared.store.get(task).await {
            Ok(task) => return Ok(task.value.is_deleted() || !task.value.claims_success()),
            // Editors and `git stash` take files away and bring them back.
            Err(error) if error.kind() == ErrorKind::NotFound && clock.boot_time() < deadline => {
                clock.sleep_until(clock.boot_time() + AGAIN).await;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

/// Publishes candidates that were verified together, as one, if the schedule still permits it.
async fn publish(shared: &Arc<ProjectShared>, stack: Vec<Stacked<'_>>, results: &mut Results) {
    let candidates: Vec<_> = stack.iter().map(|it| (it.life.id, it.candidate.clone())).collect();
    let lives: Vec<(Life, Candidate)> = stack.into_iter().map(|it| (it.life.clone(), it.candidate)).collect();
    if lives.is_empty() {
        return;
    }
    // A task of its own: the target is asked about what a panic leaves open.
    let publishing = tokio::spawn({
        let (shared, lives) = (Arc::clone(shared), lives.clone());
        async move {
            // Durable before the target moves, so that a later start asks the target whether it did.
            if !shared.permit(Fact::Publishing(candidates)).await {
                return Vec::new();
            }
            publish_all(&shared, lives).await
        }
    });
    let published = match publishing.await {
        Ok(published) => published,
        Err(panicked) => ask_all(shared, &lives, &panicked).await,
    };
    for (life, result) in published {
        match result {
            MergeResult::Moved => results.moved = true,
            result => results.ended.push((life, result)),
        }
    }
}

/// Asks the target which of the candidates it contains, after their publication has panicked.
async fn ask_all(
    shared: &Arc<ProjectShared>,
    lives: &[(Life, Candidate)],
    panicked: &JoinError,
) -> Vec<(LifeId, MergeResult)> {
    let mut results = Vec::new();
    for (life, candidate) in lives {
        let result = match found_in_targets(shared, life.subject.task(), candidate).await {
            Ok(InTargets::All) => MergeResult::Ended(Ending::published(candidate)),
            Ok(InTargets::Some(by)) => MergeResult::Held { candidate: None, by },
            Ok(InTargets::None) => MergeResult::Ended(Ending::Error {
                code: ErrorKind::Internal.code().to_owned(),
                message: format!("publishing panicked: {panicked}"),
            }),
            Err(_) => MergeResult::Unknown { candidate: Box::new(candidate.clone()) },
        };
        results.push((life.id, result));
    }
    results
}

async fn publish_all(
    shared: &Arc<ProjectShared>,
    lives: Vec<(Life, Candidate)>,
) -> Vec<(LifeId, MergeResult)> {
    let Some((top, candidate)) = lives.last() else { return Vec::new() };
    // The topmost contains all others. Publishing it first means that only a verified tree is ever the
    // target.
    let topmost = published(shared, top, candidate, lives.len() > 1).await;
    reached(|| "topmost published");
    let mut results = Vec::new();
    let is_half =
        matches!(&topmost, Ok(MergeResult::Held { by, .. }) if by.kind == ObstacleKind::HalfPublished);
    if lives.len() > 1 && !is_half && matches!(topmost, Ok(MergeResult::Held { .. })) {
        // Any of them may be in the way, and what lies below the topmost was not verified without it: they are merged
        // and verified again in a smaller batch.
        return results;
    }
    for (life, candidate) in &lives {
        let result = match &topmost {
            // The others went along with it: each is asked for its own outcome.
            Ok(MergeResult::Ended(_) | MergeResult::Incomplete { .. }) if life.id != top.id => {
                published(shared, life, candidate, true).await
            }
            // Parts of the others may have gone along.
            Ok(_) if is_half && life.id != top.id => published(shared, life, candidate, true).await,
            Ok(MergeResult::Unknown { .. }) => {
                Ok(MergeResult::Unknown { candidate: Box::new(candidate.clone()) })
            }
            Ok(result) => Ok(result.clone()),
            // Every life of the stack gets the error of the topmost.
            Err(error) => Ok(failed(error)),
        };
        let result = result.unwrap_or_else(|error| failed(&error));
        // Safe before the ending is recorded: after a kill at this point, the target is asked, and contains
        // the work.
        if matches!(result, MergeResult::Ended(Ending::Merged { .. }))
            && let Some(task) = life.subject.task()
        {
            release::remove_merged(shared, task).await;
        }
        results.push((life.id, result));
    }
    results
}

/// Publishes one candidate. After an error the target is asked whether it contains the commit: an error never decides
/// whether work was published. A candidate that is to be published only `once` is forgotten if it is held.
pub(in crate::orchestrator::effects) async fn published(
    shared: &Arc<ProjectShared>,
    life: &Life,
    candidate: &Candidate,
    once: bool,
) -> Result<MergeResult> {
    let Some(task) = candidate.key.task() else {
        return Err(Error::new(ErrorKind::Internal, "only the work on tasks is published")
            .with("key", &candidate.key));
    };
    // Held work of an earlier start has no claim yet.
    let fence = claims::claim_to_publish(shared, life.id, task).await?;
    reached(|| "publishing");
    let merged = || MergeResult::Ended(Ending::published(candidate));
    let request = PublishRequest::new(fence).with_once(once);
    let publishing = shared.workspace.publish(candidate, &request);
    match shared.patiently(Some(task), "publishing its work", publishing).await {
        Ok(Published::Done { .. }) => Ok(merged()),
        // What is missing must be merged again.
        Ok(Published::Held(by)) if by.kind == ObstacleKind::HalfPublished => {
            Ok(MergeResult::Held { candidate: None, by })
        }
        Ok(Published::Held(by)) => Ok(MergeResult::Held { candidate: Some(Box::new(candidate.clone())), by }),
        Ok(Published::Incomplete(by)) => {
            Ok(MergeResult::Incomplete { candidate: Box::new(candidate.clone()), by })
        }
        Ok(Published::Moved) => Ok(MergeResult::Moved),
        // Nothing was begun, and no target can be asked before a person has changed something.
        Err(error) if error.kind() == ErrorKind::NotSupported => Err(error),
        Err(error) => {
            // Repairs what can be repaired now, e.g. an index that was locked half-way.
            if let Err(error) = shared.workspace.recover().await {
                shared.notice(NoticeCode::Workspace, Some(task), error.report());
            }
            match found_in_targets(shared, Some(task), candidate).await {
                Ok(InTargets::All) => Ok(merged()),
                Ok(InTargets::Some(by)) => Ok(MergeResult::Held { candidate: None, by }),
                Ok(InTargets::None) => Err(error),
                Err(_) => Ok(MergeResult::Unknown { candidate: Box::new(candidate.clone()) }),
            }
        }
    }
}

fn describe(conflicts: &[Conflict]) -> String {
    some(conflicts.iter().map(|conflict| &conflict.path))
}

/// Lists the first paths, and the number of the others.
fn some<'a>(paths: impl IntoIterator<Item = &'a RepoPath, IntoIter: ExactSizeIterator>) -> String {
    let paths = paths.into_iter();
    let all = paths.len();
    let mut names: Vec<_> = paths.take(20).map(ToString::to_string).collect();
    if all > names.len() {
        names.push(format!("and {} more", all - names.len()));
    }
    names.join(", ")
}
