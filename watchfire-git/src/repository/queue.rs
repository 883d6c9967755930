//! Candidates that wait for a held target, one on top of the other under `refs/watchfire/queue/<target>`.
//!
//! While the target is held, later work is merged onto the last candidate that waits, so that a hold costs nobody
//! their turn. What waits is published together, by whichever publication comes through first. A queue counts only
//! as long as it is ahead of its target: a commit of the person makes it void.

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::names;
use crate::repository::project::{delete_ref, tip};
use crate::repository::reach;

/// The tip of the queue for a target that is at `at`; none if there is no queue, or a void one.
pub(crate) fn last(repo: &Repository, target: &str, at: Oid) -> Result<Option<Oid>> {
    let Some(last) = tip(repo, &name(target))? else { return Ok(None) };
    Ok((last != at && reach::contains(repo, last, at)?).then_some(last))
}

/// Returns true if `commit` waits for the target, which is at `at`.
pub(crate) fn holds(repo: &Repository, target: &str, at: Oid, commit: Oid) -> Result<bool> {
    match last(repo, target, at)? {
        Some(last) => Ok(reach::contains(repo, last, commit)? && !reach::contains(repo, at, commit)?),
        None => Ok(false),
    }
}

/// Puts a held candidate at the end of the queue, unless it waits there already.
pub(crate) fn push(repo: &Repository, target: &str, at: Option<Oid>, candidate: Oid) -> Result<()> {
    if at.map_or(Ok(false), |at| holds(repo, target, at, candidate))? {
        return Ok(());
    }
    repo.reference(&name(target), candidate, true, "watchfire: held").during("queueing a merge").map(|_| ())
}

/// Ends the queue, if `commit` waits in it or it is void: what waits is merged again when its turn comes.
pub(crate) fn withdraw(repo: &Repository, target: &str, commit: Option<Oid>) -> Result<()> {
    let Some(last) = tip(repo, &name(target))? else { return Ok(()) };
    let waits = match commit {
        Some(commit) => reach::contains(repo, last, commit)?,
        None => false,
    };
    let void = match tip(repo, &names::head(target))? {
        Some(at) => last == at || !reach::contains(repo, last, at)?,
        None => true,
    };
    if waits || void {
        delete_ref(repo, &name(target), last)?;
    }
    Ok(())
}

fn name(target: &str) -> String {
    format!("{}{target}", names::QUEUE)
}
