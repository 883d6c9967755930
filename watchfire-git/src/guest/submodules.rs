//! Submodules that a guest added. With one in its index, git of the person would look into the repository that the
//! guest made at that path, and run what it says.

use std::collections::BTreeMap;

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::model::RepoPath;

use crate::error::During;
use crate::guest::carry::{HEAD, Moved};
use crate::guest::state::State;
use crate::objects::tree::{Node, SUBMODULE};
use crate::objects::tree_diff;
use crate::private::transfer::Transfer;

/// Submodules that new commits add, by the reference that brings them.
pub(super) type Submodules = BTreeMap<String, RepoPath>;

/// Returns the references whose new commits add a submodule.
pub(super) fn new_submodules(
    transfer: &Transfer,
    base: &State,
    moved: &[Moved],
    detached: Option<Oid>,
) -> Result<Submodules> {
    let repo = transfer.both();
    let during = "looking for submodules";
    let mut found = Submodules::new();
    let heads = moved.iter().filter_map(|moved| Some((moved.name.as_str(), moved.new?)));
    for (name, new) in heads.chain(detached.map(|id| (HEAD, id))) {
        let Ok(new) = repo.find_object(new, None).and_then(|object| object.peel_to_commit()) else {
            continue;
        };
        let mut walk = repo.revwalk().during(during)?;
        walk.push(new.id()).during(during)?;
        for known in base.refs.values().copied().chain(base.commit()) {
            // Tags of trees and blobs reach no commit.
            _ = walk.hide(known);
        }
        for id in walk {
            transfer.check_time()?;
            let commit = repo.find_commit(id.during(during)?).during(during)?;
            if let Some(path) = added_submodule(repo, &commit)? {
                found.insert(name.to_owned(), path);
                break;
            }
        }
    }
    Ok(found)
}

/// Returns a submodule of `commit` that none of its parents has.
fn added_submodule(repo: &Repository, commit: &git2::Commit<'_>) -> Result<Option<RepoPath>> {
    let is_submodule = |node: Option<Node>| node.is_some_and(|node| node.mode == SUBMODULE);
    let mut parents: Vec<_> = commit.parents().map(|parent| Some(parent.tree_id())).collect();
    if parents.is_empty() {
        parents.push(None);
    }
    let mut added: Option<Vec<Vec<u8>>> = None;
    for parent in parents {
        let changes = tree_diff::diff(repo, parent, Some(commit.tree_id()))?.into_iter();
        let here = changes.filter(|change| is_submodule(change.new) && !is_submodule(change.old));
        let here: Vec<_> = here.map(|change| change.path).collect();
        added = Some(match added {
            None => here,
            Some(before) => before.into_iter().filter(|path| here.contains(path)).collect(),
        });
    }
    Ok(added.and_then(|added| added.into_iter().next()).map(RepoPath::new))
}
