//! Merges work with its target, and looks for work that did not come as far as its branch where a merge finds nothing.
//!
//! An attempt that ends in an error may leave all of it in the folder, or in the private copies. "Nothing to merge" would
//! end such a task as if it were done.

use git2::Repository;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{Merge, MergeRequest, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::broken;
use crate::merge::prepare;
use crate::private::copies::Private;
use crate::private::import;
use crate::repository::agent_ref;
use crate::repository::project::{Kind, Project};
use crate::repository::reach;
use crate::worktree::capture::Work;
use crate::worktree::unfinished::Underway;

/// Largest number of files that are named.
const NAMED: usize = 3;

/// Merges the work under a key into its target, as [`prepare::prepare`] does.
///
/// # Errors
/// `workspace_broken` if nothing is to be merged and there is work that is not on the branch.
pub(crate) fn prepare(project: &Project, request: &MergeRequest) -> Result<Merge> {
    let merge = prepare::prepare(project, request)?;
    if !matches!(merge, Merge::Nothing) || project.kind == Kind::Past {
        return Ok(merge);
    }
    let (repo, key) = (project.open()?, &request.key);
    let before = agent_ref::tip(project, &repo, key)?;
    import(project, &repo, key)?;
    check_folder(project, &repo, key)?;
    match agent_ref::tip(project, &repo, key)? == before {
        true => Ok(merge),
        // Nobody had taken the commits over.
        false => prepare::prepare(project, request),
    }
}

/// Imports the work in the private copies, and says where they are if that is not possible.
fn import(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<()> {
    let failed = |error: Error| {
        let (Some(private), ErrorKind::WorkspaceBroken) = (Private::find(project, key), error.kind()) else {
            return error;
        };
        let copies = private.admin();
        broken("nothing is merged, because the commits in the task's private copies cannot be taken over")
            .with_path(copies.parent().unwrap_or(&copies))
            .with(
                "hint",
                "repair or remove there what the message names and merge again; `watchfire branches delete N --discard` \
                 sets them aside",
            )
            .with_source(error)
    };
    import::import(project, repo, key).map_err(failed)
}

/// Returns an error if the folder holds work that the branch lacks.
fn check_folder(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<()> {
    let work = Work::look(project, repo, key, false)?;
    let left = |message: &'static str| {
        broken(message).with_path(project.worktree(key)).with(
            "hint",
            "run the task again, which goes on from there, or commit it on the task's branch and merge again",
        )
    };
    if let Some(scan) = work.scan.as_ref().filter(|_| work.is_dirty()) {
        let named = scan.edits.keys().take(NAMED).map(|path| RepoPath::new(path.clone()).to_string());
        let mut files = named.collect::<Vec<_>>().join(", ");
        if scan.edits.len() > NAMED {
            files += &format!(" and {} more", scan.edits.len() - NAMED);
        }
        return Err(left("nothing is merged, because the task's folder has work that is not committed")
            .with("files", files));
    }
    // During a rebase the branch still has everything.
    let (Some(head), Some(tip)) = (work.head, work.tip) else { return Ok(()) };
    if !Underway::of(project, repo, key)?.is_rebase && !reach::contains(repo, tip, head)? {
        return Err(left(
            "nothing is merged, because the HEAD of the task's folder has commits that its branch lacks",
        ));
    }
    Ok(())
}
