//! Candidates that wait for a held target, one on top of the other, under `refs/watchfire/queue/<target>`.
//!
//! While the target is held, later work is merged onto the last candidate that waits, so that a hold costs no
//! task its turn. All candidates that wait are published together, by the first publication that succeeds. A
//! queue counts only as long as it is ahead of its target: a commit of the person makes it void.

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::names;
use crate::repository::project::{delete_ref, tip};
use crate::repository::reach;

/// Returns the tip of the queue for a target that is at `at`, or `None` if there is no queue or it is void.
pub(crate) fn last(repo: &Repository, target: &str, at: Oid) -> Result<Option<Oid>> {
    let Some(last) = tip(repo, &name(target))? else { return Ok(None) };
    // At the target: all of the queue has been published. Not containing it: the person committed.
    Ok((last != at && reach::contains(repo, last, at)?).then_some(last))
}

/// Returns true if `commit` waits for the target, which is at `at`.
pub(crate) fn holds(repo: &Repository, target: &str, at: Oid, commit: Oid) -> Result<bool> {
    match last(repo, target, at)? {
        // The queue's history contains everything before the target too, which no longer waits.
        Some(last) => Ok(reach::contains(repo, last, commit)? && !reach::contains(repo, at, commit)?),
        None => Ok(false),
    }
}

/// Puts a held candidate at the end of the queue, unless it already waits there.
pub(crate) fn push(repo: &Repository, target: &str, at: Option<Oid>, candidate: Oid) -> Result<()> {
    if at.map_or(Ok(false), |at| holds(repo, target, at, candidate))? {
        return Ok(());
    }
    repo.reference(&name(target), candidate, true, "watchfire: held").during("queueing a merge").map(|_| ())
}

/// Deletes the queue if `commit` waits in it, or if it is void. All work that waits in it is merged again
/// when its turn comes.
pub(crate) fn withdraw(repo: &Repository, target: &str, commit: Option<Oid>) -> Result<()> {
    let Some(last) = tip(repo, &name(target))? else { return Ok(()) };
    let waits = match commit {
        Some(commit) => reach::contains(repo, last, commit)?,
        None => false,
    };
    let void = match tip(repo, &names::head(target))? {
        // The same rule as in `last`.
        Some(at) => last == at || !reach::contains(repo, last, at)?,
        // A target that is gone can get no publication.
        None => true,
    };
    if waits || void {
        delete_ref(repo, &name(target), last)?;
    }
    Ok(())
}

/// Returns the targets for which candidates wait, with the last one for each.
pub(crate) fn all(repo: &Repository) -> Result<Vec<(String, Oid)>> {
    let during = "listing the merges that wait";
    let mut all = Vec::new();
    for reference in repo.references_glob(&format!("{}*", names::QUEUE)).during(during)? {
        let reference = reference.during(during)?;
        // Only we make them, and none of ours has another name.
        let target = reference.name().ok().and_then(|name| name.strip_prefix(names::QUEUE));
        if let (Some(target), Some(last)) = (target, reference.target()) {
            all.push((target.to_owned(), last));
        }
    }
    Ok(all)
}

fn name(target: &str) -> String {
    format!("{}{target}", names::QUEUE)
}
