//! What a guest's commits may not bring, although they are sound.
//!
//! With a submodule in the person's index, their git looks into the repository that the guest made at that path, and runs
//! what it says. Files that git runs, and paths that the project protects, cannot be changed in the checkout; a commit
//! that is made without it must not change them either.

use std::collections::{BTreeMap, BTreeSet};

use git2::{Commit, Oid, Repository};
use watchfire_core::Result;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::MergeGuard;

use crate::error::During;
use crate::guest::state::State;
use crate::merge::guard;
use crate::objects::tree::{Node, SUBMODULE};
use crate::objects::tree_diff;
use crate::private::transfer::Transfer;

/// Reasons, by what would bring the commits: a reference, HEAD, or the id of a stash's entry.
pub(super) type Refusals = BTreeMap<String, String>;

/// Returns a reason for each of `news` that has commits which must not come in.
pub(super) fn refusals(
    transfer: &Transfer,
    person: &State,
    guard: &MergeGuard,
    news: impl IntoIterator<Item = (String, Oid)>,
) -> Result<Refusals> {
    let repo = transfer.both();
    let during = "looking at new commits";
    let mut found = Refusals::new();
    for (name, new) in news {
        let Ok(new) = repo.find_object(new, None).and_then(|object| object.peel_to_commit()) else {
            continue;
        };
        let mut walk = repo.revwalk().during(during)?;
        walk.push(new.id()).during(during)?;
        // What only the guest has, or what was kept aside, is as new as before.
        let persons = person.refs.iter().filter(|(name, _)| !name.starts_with("refs/watchfire/"));
        for known in persons.map(|(_, id)| *id).chain(person.commit()) {
            // Tags of trees and blobs reach no commit.
            _ = walk.hide(known);
        }
        for id in walk {
            transfer.check_time()?;
            let commit = repo.find_commit(id.during(during)?).during(during)?;
            if let Some(reason) = reason(repo, guard, &commit)? {
                found.insert(name, reason);
                break;
            }
        }
    }
    Ok(found)
}

/// Returns the reason for which HEAD must not go from one commit to the other: the person's index would get a submodule.
pub(super) fn brings_submodule(repo: &Repository, old: Option<Oid>, new: Oid) -> Result<Option<String>> {
    let tree = |id: Oid| repo.find_commit(id).map(|commit| commit.tree_id()).during("reading a commit");
    let added = submodules(repo, old.map(tree).transpose()?, Some(tree(new)?))?.into_iter().next();
    Ok(added.map(|path| no_submodule(&RepoPath::new(path))))
}

/// Returns why a commit must not come in, by what it changes against each of its parents.
fn reason(repo: &Repository, guard: &MergeGuard, commit: &Commit<'_>) -> Result<Option<String>> {
    let mut parents: Vec<_> = commit.parents().map(|parent| Some(parent.tree_id())).collect();
    if parents.is_empty() {
        parents.push(None);
    }
    let tree = commit.tree_id();
    let added = in_all(&parents, |parent| Ok(submodules(repo, parent, Some(tree))?.into_iter().collect()))?;
    if let Some(path) = added.into_iter().next() {
        return Ok(Some(no_submodule(&RepoPath::new(path))));
    }
    let mut why = None;
    let held = in_all(&parents, |parent| {
        let obstacle = guard::check(repo, guard, parent, tree)?;
        why = why.take().or_else(|| obstacle.as_ref().map(|obstacle| obstacle.message.clone()));
        Ok(obstacle.into_iter().flat_map(|obstacle| obstacle.files).map(|file| file.to_string()).collect())
    })?;
    Ok(held.into_iter().next().map(|file| format!("it {}: {file}", why.unwrap_or_default())))
}

/// Returns what is found against all parents: what a merge has from one of them is no change of its own.
fn in_all<T: Ord>(
    parents: &[Option<Oid>],
    mut found: impl FnMut(Option<Oid>) -> Result<BTreeSet<T>>,
) -> Result<BTreeSet<T>> {
    let mut all: Option<BTreeSet<T>> = None;
    for parent in parents {
        let mut here = found(*parent)?;
        if let Some(before) = &all {
            here.retain(|path| before.contains(path));
        }
        all = Some(here);
    }
    Ok(all.unwrap_or_default())
}

fn submodules(repo: &Repository, old: Option<Oid>, new: Option<Oid>) -> Result<Vec<Vec<u8>>> {
    let is_submodule = |node: Option<Node>| node.is_some_and(|node| node.mode == SUBMODULE);
    let changes = tree_diff::diff(repo, old, new)?.into_iter();
    let added = changes.filter(|change| is_submodule(change.new) && !is_submodule(change.old));
    Ok(added.map(|change| change.path).collect())
}

fn no_submodule(path: &RepoPath) -> String {
    format!("a chat cannot add the submodule {path}, in which git would run commands")
}
