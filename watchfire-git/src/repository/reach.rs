//! Tests whether commits can be reached, for example without a branch that is about to be deleted.

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::names;
use crate::repository::project::tip;

/// Returns true if `ancestor` is `commit` or one of its ancestors.
pub(crate) fn contains(repo: &Repository, commit: Oid, ancestor: Oid) -> Result<bool> {
    Ok(commit == ancestor || repo.graph_descendant_of(commit, ancestor).during("walking the history")?)
}

/// Returns true if `commit` is reachable from the branch `target` or from a reference that only a person
/// deletes.
pub(crate) fn is_kept(repo: &Repository, commit: Oid, target: &str) -> Result<bool> {
    if let Some(target) = tip(repo, &names::head(target))?
        && contains(repo, target, commit)?
    {
        return Ok(true);
    }
    for prefix in [names::RESCUE, names::LEFT] {
        let references = repo.references_glob(&format!("{prefix}*")).during("listing references")?;
        for reference in references {
            // References of agents may be tags. Tags of trees and blobs keep no commit.
            let kept = reference.during("reading a reference")?.peel_to_commit();
            // A walk that fails proves nothing, so the commit counts as not kept.
            if kept.is_ok_and(|kept| contains(repo, kept.id(), commit).unwrap_or(false)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the number of commits that `tip` has and `base` lacks.
pub(crate) fn ahead(repo: &Repository, tip: Oid, base: Option<Oid>) -> Result<usize> {
    let mut walk = repo.revwalk().during("walking the history")?;
    walk.push(tip).during("walking the history")?;
    if let Some(base) = base {
        walk.hide(base).during("walking the history")?;
    }
    let mut count = 0;
    for commit in walk {
        commit.during("walking the history")?;
        count += 1;
    }
    Ok(count)
}
