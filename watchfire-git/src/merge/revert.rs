//! Takes back what was merged, on a branch of its own.

use git2::{Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{RevertRequest, Reverted};
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

/// Merges into the target the way back from what it became by the merge to what it was before.
pub(crate) fn revert(project: &Project, request: &RevertRequest) -> Result<Reverted> {
    let repo = project.open()?;
    let key = &request.key;
    if agent_ref::tip(project, &repo, key)?.is_some() || project.worktree(key).exists() {
        return Err(Error::new(ErrorKind::AlreadyExists, "there is work under this key").with("key", key));
    }
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
    let new = match three_way(&repo, &attributes, Some(tree(Some(merged))?), ours, tree(before)?)? {
        Ok(new) if new == ours => return Ok(Reverted::Nothing),
        Ok(new) => new,
        Err(clashes) => {
            let paths = clashes.into_iter().map(|clash| RepoPath::new(clash.path));
            return Ok(Reverted::Conflicts(paths.collect()));
        }
    };
    let person = identity::person(&repo, &project.options.fallback)?;
    let during = "taking a merge back";
    let parent = repo.find_commit(at).during(during)?;
    let new = repo.find_tree(new).during(during)?;
    let made = make(&repo, &person, &person, &request.message, &new, &[&parent])?;
    let record = Record {
        root: project.root.clone(),
        checkout: Some(ownership::checkout_of(project)),
        target,
        base: Some(commit(at)),
        ..Record::default()
    };
    // Before the branch, as where a folder is opened.
    record.write(project, key)?;
    repo.reference(&names::base(key), at, true, "watchfire: base").during("recording the base")?;
    reached("revert: recorded");
    if !agent_ref::advance(project, &repo, key, None, made, &person, "watchfire: revert")? {
        let error = Error::new(ErrorKind::Busy, "the branch was made by someone else meanwhile");
        return Err(error.with("branch", names::branch(key)));
    }
    Ok(Reverted::Done(commit(made)))
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
