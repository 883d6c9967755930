//! Takes back what was merged, on a branch of its own.

use git2::{Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{Commit, RevertRequest, Reverted, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::identity;
use crate::merge::three_way::{attributes, three_way};
use crate::names;
use crate::objects::commit::make;
use crate::objects::tree;
use crate::objects::tree_edit;
use crate::repository::agent_ref;
use crate::repository::ownership;
use crate::repository::project::{Project, commit, oid};
use crate::repository::reach;
use crate::repository::record::Record;
use crate::worktree::open;

/// The outcome of looking for the way back from a merge.
pub(crate) enum Found {
    /// The target, with the merge taken back.
    Back(Back),
    /// Nothing of the merge is left in the target.
    Nothing,
    /// Later work has changed the same places of these files.
    Conflicts(Vec<RepoPath>),
}

/// The start of a branch that takes a merge back.
pub(crate) struct Back {
    target: String,
    /// The tip of the target.
    at: Oid,
    /// The tree without the merge. `None` for a branch that changes nothing.
    tree: Option<Oid>,
}

impl Back {
    /// Returns the start of a branch at the target, for work that is in other repositories alone.
    pub(crate) fn nothing(project: &Project, target: &str) -> Result<Self> {
        let (target, at) = open::target(project, &project.open()?, Some(target))?;
        let at = at.ok_or_else(|| Error::new(ErrorKind::NotFound, "the branch has no commit"))?;
        Ok(Self { target, at, tree: None })
    }
}

/// Takes back in one repository what was merged.
pub(crate) fn revert(project: &Project, request: &RevertRequest) -> Result<Reverted> {
    refuse_taken(project, &request.key)?;
    Ok(match look(project, request)? {
        Found::Back(back) => Reverted::Done(make_branch(project, request, &back)?),
        Found::Nothing => Reverted::Nothing,
        Found::Conflicts(files) => Reverted::Conflicts(files),
    })
}

/// Returns an error if there is work under `key`.
pub(crate) fn refuse_taken(project: &Project, key: &WorkspaceKey) -> Result<()> {
    if agent_ref::tip(project, &project.open()?, key)?.is_none() && !project.worktree(key).exists() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::AlreadyExists, "there is work under this key").with("key", key))
}

/// Merges into the target the way back from what it became by the merge to what it was before. Changes only the object
/// database, and does not look at the request's key.
pub(crate) fn look(project: &Project, request: &RevertRequest) -> Result<Found> {
    let repo = project.open()?;
    let (target, at) = open::target(project, &repo, Some(&request.target))?;
    let merged = oid(&request.commit)?;
    let absent = || {
        let error = Error::new(ErrorKind::NotFound, "the branch does not contain the merge");
        error.with("branch", &target).with("commit", request.commit.short())
    };
    let at = at.ok_or_else(absent)?;
    let is_there = repo.odb().during("opening the repository")?.exists(merged);
    // git's walk fails for a commit that is not there.
    if !is_there || !reach::contains(&repo, at, merged)? {
        return Err(absent());
    }
    let before = before(project, &repo, request, merged)?;
    let tree = |commit| -> Result<Oid> {
        tree::of_commit(&repo, commit)?.map_or_else(|| tree_edit::empty(&repo), Ok)
    };
    let attributes = attributes(project, &repo)?;
    let ours = tree(Some(at))?;
    let found = match three_way(&repo, &attributes, Some(tree(Some(merged))?), ours, tree(before)?)? {
        Ok(new) if new == ours => Found::Nothing,
        Ok(new) => Found::Back(Back { target, at, tree: Some(new) }),
        Err(clashes) => {
            Found::Conflicts(clashes.into_iter().map(|clash| RepoPath::new(clash.path)).collect())
        }
    };
    Ok(found)
}

/// Makes the branch for the request's key. Returns its tip.
pub(crate) fn make_branch(project: &Project, request: &RevertRequest, back: &Back) -> Result<Commit> {
    let Back { target, at, tree } = back;
    let (repo, key) = (project.open()?, &request.key);
    let person = identity::person(&repo, &project.options.fallback)?;
    let during = "taking a merge back";
    let made = match tree {
        Some(tree) => {
            let parent = repo.find_commit(*at).during(during)?;
            let tree = repo.find_tree(*tree).during(during)?;
            make(&repo, &person, &person, &request.message, &tree, &[&parent])?
        }
        None => *at,
    };
    let record = Record {
        root: project.root.clone(),
        checkout: Some(ownership::checkout_of(project)),
        target: target.clone(),
        base: Some(commit(*at)),
        ..Record::default()
    };
    // Before the branch, as where a folder is opened.
    record.write(project, key)?;
    repo.reference(&names::base(key), *at, true, "watchfire: base").during("recording the base")?;
    reached("revert: recorded");
    if !agent_ref::advance(project, &repo, key, None, made, &person, "watchfire: revert")? {
        let error = Error::new(ErrorKind::Busy, "the branch was made by someone else meanwhile");
        return Err(error.with("branch", names::branch(key)));
    }
    Ok(commit(made))
}

/// Returns the commit that the work was merged onto.
fn before(project: &Project, repo: &Repository, request: &RevertRequest, merged: Oid) -> Result<Option<Oid>> {
    let record = Record::read(project, &request.of)?.unwrap_or_default();
    if record.published.as_ref() == Some(&request.commit)
        && let Some(onto) = &record.merged_onto
    {
        return oid(onto).map(Some);
    }
    let found = repo.find_commit(merged).during("reading a commit")?;
    let parents: Vec<_> = found.parent_ids().collect();
    match parents[..] {
        [first, _] => Ok(Some(first)),
        // One commit of several, perhaps.
        _ => {
            let error = Error::new(ErrorKind::NotSupported, "it is not recorded what was merged");
            let hint = format!("git revert {} takes this one commit back", request.commit.short());
            Err(error.with("commit", request.commit.short()).with("hint", hint))
        }
    }
}
