//! Cases about claims and fences.

use std::time::Duration;

use super::{StoreFactory, kind, number};
use crate::model::TaskNumber;
use crate::store::{Holder, NewTask, Patch, ProjectPatch, TaskPatch, TaskStore};
use crate::{Error, ErrorKind, Result};

const MINUTE: Duration = Duration::from_secs(60);

fn holder(home: &str, start: &str) -> Holder {
    Holder::new("machine", home, start)
}

async fn task(store: &dyn TaskStore) -> Result<TaskNumber> {
    Ok(store.create(NewTask::new("a"), None).await?.value.task_number)
}

pub(super) async fn a_claim_has_one_holder_and_growing_fences(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let (one, two) = (holder("one", "1"), holder("two", "1"));
    let task = task(&*store).await?;
    let unknown = store.claim(number(9)?, &one, MINUTE).await;
    ensure!(kind(&unknown) == Some(ErrorKind::NotFound), "claiming an unknown task gives {unknown:?}");
    let first = store.claim(task, &one, MINUTE).await?;
    ensure!(first.number == task && first.holder == one, "the claim is {first:?}");
    let busy = other.claim(task, &two, MINUTE).await;
    ensure!(kind(&busy) == Some(ErrorKind::Busy), "a second home gets {busy:?}");
    let named = busy.err().and_then(|error| error.detail("holder").map(str::to_owned));
    ensure!(named == Some(one.to_string()), "the error names {named:?}");
    let again = other.claim(task, &one, MINUTE).await?;
    // Claiming again is how a holder makes sure that it still has the task.
    ensure!(again == first, "claiming again gives {again:?}");
    // After a release the task is free at once, without waiting for the lease.
    store.release(&first).await?;
    let second = other.claim(task, &two, MINUTE).await?;
    ensure!(second.fence > first.fence, "the fence did not grow");
    // The first holder's release comes late, when the task has another holder.
    store.release(&first).await?;
    let busy = store.claim(task, &one, MINUTE).await;
    ensure!(kind(&busy) == Some(ErrorKind::Busy), "releasing a lost claim took the new one away");
    Ok(())
}

pub(super) async fn a_lease_expires(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let (one, two) = (holder("one", "1"), holder("two", "1"));
    let task = task(&*store).await?;
    // Expired at once, as if the holder had slept for long.
    let first = store.claim(task, &one, Duration::ZERO).await?;
    let lost = store.renew(std::slice::from_ref(&first), Duration::ZERO).await?;
    // A laptop that slept keeps its task if no other home wanted it.
    ensure!(lost.is_empty(), "an expired claim that was not taken is lost: {lost:?}");
    let second = other.claim(task, &two, MINUTE).await?;
    ensure!(second.fence > first.fence, "the fence did not grow");
    let lost = store.renew(std::slice::from_ref(&first), MINUTE).await?;
    ensure!(lost == [first], "renewing a lost claim gives {lost:?}");
    ensure!(store.renew(&[second], MINUTE).await?.is_empty(), "the new claim was lost with the old one");
    Ok(())
}

pub(super) async fn a_later_start_of_the_same_home_takes_over(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let task = task(&*store).await?;
    let first = store.claim(task, &holder("one", "1"), MINUTE).await?;
    // A home that was copied to another machine is another home.
    let elsewhere = Holder::new("another machine", "one", "2");
    let busy = other.claim(task, &elsewhere, MINUTE).await;
    ensure!(kind(&busy) == Some(ErrorKind::Busy), "a copy of the home elsewhere gets {busy:?}");
    let second = other.claim(task, &holder("one", "2"), MINUTE).await?;
    ensure!(second.fence > first.fence, "the fence did not grow");
    let lost = store.renew(std::slice::from_ref(&first), MINUTE).await?;
    ensure!(lost == [first], "the earlier start loses {lost:?}");
    Ok(())
}

pub(super) async fn many_claims_are_renewed_at_once(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let (one, two) = (holder("one", "1"), holder("two", "1"));
    let mut claims = Vec::new();
    // One write for all, since a renewal comes every 20 seconds.
    for _ in 0..5 {
        claims.push(store.claim(task(&*store).await?, &one, Duration::ZERO).await?);
    }
    // One of five is lost in the meantime.
    let taken = other.claim(number(3)?, &two, MINUTE).await?;
    let lost = store.renew(&claims, MINUTE).await?;
    ensure!(lost.iter().map(|claim| claim.number).eq([number(3)?]), "{lost:?} are lost");
    for claim in &claims {
        let busy = kind(&other.claim(claim.number, &two, MINUTE).await);
        let expected = (claim.number != taken.number).then_some(ErrorKind::Busy);
        ensure!(busy == expected, "claiming {} after the renewal gives {busy:?}", claim.number);
    }
    Ok(())
}

pub(super) async fn fenced_writes_end_with_the_claim(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let (one, two) = (holder("one", "1"), holder("two", "1"));
    let (task, untouched) = (task(&*store).await?, task(&*store).await?);
    // The claim expires at once, so that the other home can take over below.
    let fence = Some(store.claim(task, &one, Duration::ZERO).await?.fence);
    let title = |title: &str| TaskPatch::new().with_title(title);
    store.update(task, title("under a claim"), None, fence).await?;
    store.create(NewTask::new("under a claim"), fence).await?;
    store.reorder(&[untouched, task], fence).await?;
    store.update_project(ProjectPatch::new().with_name("under a claim"), None, fence).await?;
    let before = store.get(task).await?;

    // From here on the first fence is outdated.
    let new = other.claim(task, &two, MINUTE).await?;
    let failed = TaskPatch { failure_reason: Patch::Set("late".to_owned()), ..TaskPatch::new() };
    // Every kind of write, with and without an expected revision.
    let refused = [
        kind(&store.update(task, failed, None, fence).await),
        kind(&store.update(task, title("late"), Some(&before.revision), fence).await),
        kind(&store.create(NewTask::new("late"), fence).await),
        kind(&store.reorder(&[task, untouched], fence).await),
        kind(&store.update_project(ProjectPatch::new().with_name("late"), None, fence).await),
    ];
    ensure!(refused == [Some(ErrorKind::ClaimLost); 5], "late writes give {refused:?}");
    ensure!(other.get(task).await? == before, "a late write happened");
    ensure!(kind(&store.get(number(4)?).await) == Some(ErrorKind::NotFound), "a late task was created");

    // A person may always write, the holder also after releasing the claim, and the loser still may not.
    store.update(task, title("a person"), None, None).await?;
    other.release(&new).await?;
    other.update(task, title("the new holder"), None, Some(new.fence)).await?;
    let late = kind(&store.update(task, title("late"), None, fence).await);
    ensure!(late == Some(ErrorKind::ClaimLost), "after a release a late write gives {late:?}");
    Ok(())
}
