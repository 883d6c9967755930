//! Merges three trees.
//!
//! The result comes from [`trees`], which knows no renames. libgit2 merges the whole trees, with renames, only after a
//! conflict that a rename could explain.

use std::cell::OnceCell;

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::index::file::IndexFile;
use crate::merge::renames;
use crate::merge::trees::{self, Clash};
use crate::objects::tree_edit;
use crate::repository::project::Project;
use crate::worktree::attributes::Attributes;

/// Opens the attributes of the person's checkout.
pub(crate) fn attributes<'a>(project: &'a Project, repo: &'a Repository) -> Result<Attributes<'a>> {
    // Few merges need it: only where a file of attributes is not in the checkout.
    let index = OnceCell::new();
    let in_index = move |path: &[u8]| {
        let index = index.get_or_init(|| IndexFile::read(&project.git.join("index")).unwrap_or_default());
        Some(repo.find_blob(index.entry(path)?.node.id).ok()?.content().to_vec())
    };
    Attributes::open(repo, &project.root, Box::new(in_index))
}

/// Merges the changes that `ours` and `theirs` made to `base`. Returns the clashes if they conflict.
pub(crate) fn three_way(
    repo: &Repository,
    attributes: &Attributes<'_>,
    base: Option<Oid>,
    ours: Oid,
    theirs: Oid,
) -> Result<Result<Oid, Vec<Clash>>> {
    let merged = trees::merge(repo, attributes, base, Some(ours), Some(theirs))?;
    if merged.clashes.is_empty() {
        let at_odds =
            base.map_or_else(|| Ok(Vec::new()), |base| renames::at_odds(repo, [base, ours, theirs]))?;
        if !at_odds.is_empty() {
            return Ok(Err(at_odds));
        }
        return merged.tree.map_or_else(|| tree_edit::empty(repo), Ok).map(Ok);
    }
    // libgit2 resolves some mixed names where git reports a conflict. What conflicts without a rename does so with them.
    if let Some(base) = base
        && merged.clashes.iter().all(Clash::could_be_rename)
        && !merged.mixed
        && let Some(tree) = renames::merge(repo, attributes, [base, ours, theirs], &merged)?
    {
        return Ok(Ok(tree));
    }
    Ok(Err(merged.clashes))
}
