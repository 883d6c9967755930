//! Claims on tasks: taken before the first effect of a life, renewed while it is under way, released when it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::Clock;
use crate::failpoint::reached;
use crate::model::{Task, TaskNumber};
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Fact, Life, LifeId, NoticeCode};
use crate::store::{Claim, Fence, TaskPatch};
use crate::{Error, ErrorKind, Result};

/// Lease of a claim, and so the longest time that another machine waits for one that is gone.
const LEASE: Duration = Duration::from_secs(60);

/// Returns the fence of a life's claim, and takes the claim if we do not hold it.
///
/// # Errors
/// `busy` if another orchestrator holds the task; `claim_lost` if it took the task over from this life.
pub(super) async fn claim(shared: &ProjectShared, life: LifeId, task: TaskNumber) -> Result<Fence> {
    if shared.has_lost_claim(life) {
        return Err(lost(task));
    }
    if let Some(fence) = shared.fence(life) {
        return Ok(fence);
    }
    let claim = shared.store.claim(task, &shared.inner.holder, LEASE).await?;
    let fence = claim.fence;
    reached(|| "claimed");
    shared.keep_claim(life, claim);
    Ok(fence)
}

/// Returns the fence of a life's claim for a publication, and first renews a claim whose lease may be over: after a suspend, another
/// machine may have taken it before the next renewal is due.
///
/// # Errors
/// The errors of [`claim`]; errors of the store.
pub(super) async fn claim_to_publish(
    shared: &ProjectShared,
    life: LifeId,
    task: TaskNumber,
) -> Result<Fence> {
    let fence = claim(shared, life, task).await?;
    let now = shared.inner.clock.boot_time();
    if now.saturating_sub(shared.renewed_at()) < LEASE {
        return Ok(fence);
    }
    let held: Vec<Claim> =
        shared.claims().into_iter().filter(|(id, _)| *id == life).map(|(_, claim)| claim).collect();
    let gone = shared.store.renew(&held, LEASE).await?;
    match gone.is_empty() && !held.is_empty() {
        true => Ok(fence),
        false => {
            shared.lose_claim(life);
            shared.report(Fact::ClaimLost(life));
            Err(lost(task))
        }
    }
}

fn lost(task: TaskNumber) -> Error {
    Error::new(ErrorKind::ClaimLost, "the task is not ours").with("task", task)
}

/// Changes a task under a life's claim. The store rejects the change if another orchestrator has taken over; without a
/// fence it would take the change for a person's.
///
/// # Errors
/// `claim_lost` without a claim, and if it was lost; those of the store.
pub(super) async fn update(
    shared: &ProjectShared,
    life: LifeId,
    task: TaskNumber,
    patch: TaskPatch,
) -> Result<Task> {
    let fence = shared.fence(life).ok_or_else(|| lost(task))?;
    shared.store.update(task, patch, None, Some(fence)).await.map(|task| task.value)
}

/// Takes a claim for a short operation that belongs to no life.
pub(super) async fn claim_briefly(shared: &ProjectShared, task: TaskNumber) -> Result<Claim> {
    shared.store.claim(task, &shared.inner.holder, LEASE).await
}

/// Gives back the claim of a life that has ended. An earlier start, which was killed, may have taken it; then it is taken
/// over first.
pub(super) async fn give_back(shared: &ProjectShared, life: &Life, task: TaskNumber) {
    // Dropped first, so that no renewal races with the release. A failed release expires with its lease.
    let claim = match shared.drop_claim(life.id) {
        Some(claim) => claim,
        None if life.attempt.0 == 0 || is_held(shared, task) => return,
        None => match claim_briefly(shared, task).await {
            Ok(claim) => claim,
            // Another home works on it, or it is no more.
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotFound) => return,
            Err(error) => return not_given_back(shared, task, &error),
        },
    };
    reached(|| "giving back");
    // A life that followed has the same claim: its holder is the same.
    if is_held(shared, task) {
        return;
    }
    if let Err(error) = shared.store.release(&claim).await {
        not_given_back(shared, task, &error);
    }
}

pub(super) fn is_held(shared: &ProjectShared, task: TaskNumber) -> bool {
    shared.claims().iter().any(|(_, claim)| claim.number == task)
}

fn not_given_back(shared: &ProjectShared, task: TaskNumber, error: &Error) {
    let message = format!("giving the task back: {}", error.report());
    shared.notice(NoticeCode::Store, Some(task), message);
}

/// Releases all claims when the project is closed. Lives that continue at the next start claim their tasks again.
pub(crate) async fn release_all(shared: &ProjectShared) {
    for (life, claim) in shared.claims() {
        // First, so that no renewal makes a new lease out of the released one.
        shared.drop_claim(life);
        if let Err(error) = shared.store.release(&claim).await {
            tracing::warn!(task = %claim.number, "giving the task back: {}", error.report());
        }
    }
}

/// Renews all claims at a third of their lease until the project is closed. A lost claim stops its life.
pub(crate) async fn renew_claims(shared: Weak<ProjectShared>, clock: Arc<dyn Clock>) {
    loop {
        // Boot time, which includes suspends: after one, the renewal is at most a minute late.
        clock.sleep_until(clock.boot_time() + LEASE / 3).await;
        let Some(shared) = shared.upgrade() else { return };
        let held = shared.claims();
        // Before the renewal, whose leases begin after this.
        let now = clock.boot_time();
        if held.is_empty() {
            shared.set_renewed_at(now);
            continue;
        }
        let claims: Vec<Claim> = held.iter().map(|(_, claim)| claim.clone()).collect();
        match shared.store.renew(&claims, LEASE).await {
            Ok(lost) => {
                shared.set_renewed_at(now);
                for (life, claim) in held.iter().filter(|(_, claim)| lost.contains(claim)) {
                    // Given back meanwhile, with the end of its life.
                    if shared.fence(*life).is_none() {
                        continue;
                    }
                    // Before the report, so that nothing is written without a fence.
                    shared.lose_claim(*life);
                    let message = "another orchestrator took over the task; its agent is stopped";
                    shared.notice(NoticeCode::Store, Some(claim.number), message);
                    shared.report(Fact::ClaimLost(*life));
                }
            }
            // The next renewal may succeed. A claim is lost only once another holder has taken it.
            Err(error) => {
                let message = format!("renewing claims: {}", error.report());
                shared.notice(NoticeCode::Store, None, message);
            }
        }
    }
}
