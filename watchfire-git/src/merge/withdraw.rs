//! Takes work out of the queue of its target.

use git2::Repository;
use watchfire_core::Result;
use watchfire_core::workspace::{Candidate, WorkspaceKey};

use crate::error::During;
use crate::names;
use crate::repository::agent_ref;
use crate::repository::project::{Project, oid, tip};
use crate::repository::queue;
use crate::repository::reach;
use crate::repository::record::{Queued, Record};

/// Takes the work under a key out of the queue. Returns its candidate if the target has it already, without its task
/// having been told.
pub(crate) fn withdraw(project: &Project, key: &WorkspaceKey) -> Result<Option<Candidate>> {
    if Record::read(project, key)?.is_none_or(|record| record.queued.is_none()) {
        return Ok(None);
    }
    // A publication that is under way with it is over then, and none begins before it is out.
    let _lock = project.lock()?;
    withdraw_locked(project, &project.open()?, key)
}

fn withdraw_locked(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Option<Candidate>> {
    let Some(mut record) = Record::read(project, key)? else { return Ok(None) };
    let Some(queued) = record.queued.take() else { return Ok(None) };
    let target = tip(repo, &names::head(&queued.target))?;
    // Once nothing refers to it, git deletes the commit.
    let exists = repo.odb().during("opening the repository")?.exists(oid(&queued.commit)?);
    if let (Some(target), true) = (target, exists) {
        let commit = oid(&queued.commit)?;
        let work = oid(&queued.work)?;
        // A branch that cannot be read must not keep the work in the queue.
        let is_current = matches!(agent_ref::tip(project, repo, key), Ok(Some(tip)) if tip == work);
        let untold = record.published.as_ref() != Some(&queued.commit);
        if untold && is_current && reach::contains(repo, target, commit)? {
            return Ok(Some(queued.candidate(key)));
        }
        if queue::holds(repo, &queued.target, target, commit)? {
            queue::withdraw(repo, &queued.target, Some(commit))?;
        }
    }
    // One that is void now could count again if the person takes the target back.
    queue::withdraw(repo, &queued.target, None)?;
    // Last, because a repeated call finds by it what is left to do.
    record.write(project, key)?;
    Ok(None)
}

/// Takes all work of the project out of the queues but that under `keys`, and ends queues whose last candidate is nobody's.
pub(crate) fn withdraw_others(project: &Project, keys: &[WorkspaceKey]) -> Result<()> {
    let repo = project.open()?;
    if queue::all(&repo)?.is_empty() {
        return Ok(());
    }
    let _lock = project.lock()?;
    let (mut waiting, mut has_unknown): (Vec<Queued>, _) = (Vec::new(), false);
    for key in Record::keys(project)? {
        // Whose work waits there is not known then, and what is wanted of it is merged again.
        let Ok(record) = Record::read(project, &key) else {
            has_unknown = true;
            continue;
        };
        let Some(queued) = record.and_then(|record| record.queued) else { continue };
        match project.is_own(&key) && !keys.contains(&key) {
            true => drop(withdraw_locked(project, &repo, &key)?),
            false => waiting.push(queued),
        }
    }
    for (target, last) in queue::all(&repo)? {
        let is_last = |queued: &Queued| queued.target == target && queued.commit.as_str() == last.to_string();
        if has_unknown || !waiting.iter().any(is_last) {
            queue::withdraw(&repo, &target, Some(last))?;
        }
    }
    Ok(())
}
