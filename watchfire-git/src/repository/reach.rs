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

/// Returns the commits in the log of a branch that are still there, oldest first. The flag is true for one that a merge of
/// ours brought.
pub(crate) fn log(repo: &Repository, branch: &str) -> Vec<(Oid, bool)> {
    let name = names::head(branch);
    // libgit2 makes a log that is missing, and git would write to it from then on.
    let log = repo.reference_has_log(&name).unwrap_or(false).then(|| repo.reflog(&name));
    let Some(Ok(log)) = log else { return Vec::new() };
    let is_ours = |entry: &git2::ReflogEntry<'_>| {
        entry.message_bytes().is_some_and(|message| message.starts_with(b"watchfire: merge"))
    };
    let entries = log.iter().rev().map(|entry| (entry.id_new(), is_ours(&entry)));
    entries.filter(|(id, _)| repo.find_commit(*id).is_ok()).collect()
}
