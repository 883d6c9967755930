//! Removes a folder and a branch, once everything in them is reachable in another way.

use std::path::Path;

use git2::Repository;
use watchfire_core::model::{Attempt, RepoPath};
use watchfire_core::workspace::{RemoveRequest, Removed, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::failpoint::reached;
use crate::files;
use crate::names;
use crate::private::copies;
use crate::private::import;
use crate::repository::admin;
use crate::repository::agent_ref;
use crate::repository::left;
use crate::repository::project::{Project, delete_ref, oid, tip};
use crate::repository::queue;
use crate::repository::reach;
use crate::repository::record::Record;
use crate::worktree::capture::Work;
use crate::worktree::folder::Scan;
use crate::worktree::open::set_aside;
use crate::worktree::rescue;

/// The way to a removal.
enum Way {
    /// There is nothing to remove.
    Nothing,
    /// Folder and branch are kept, for this reason.
    Kept(String),
    /// Nothing is lost by it, once the work is rescued where that is needed.
    Free { work: Box<Work>, record: Box<Option<Record>>, target: String, must_rescue: bool },
}

/// Returns the reason why folder and branch of a key would be kept, or `None` if they can be removed.
pub(crate) fn why_kept(project: &Project, request: &RemoveRequest) -> Result<Option<String>> {
    Ok(match look(project, &project.open()?, request)? {
        Way::Kept(reason) => Some(reason),
        Way::Nothing | Way::Free { .. } => None,
    })
}

fn look(project: &Project, repo: &Repository, request: &RemoveRequest) -> Result<Way> {
    let key = &request.key;
    match import::import(project, repo, key) {
        Err(error) if error.kind() == ErrorKind::WorkspaceBroken && !request.discard => {
            return Ok(Way::Kept(error.report()));
        }
        Err(error) if error.kind() != ErrorKind::WorkspaceBroken => return Err(error),
        // Copies that cannot be imported are set aside below.
        _ => {}
    }
    if let Some(reason) = admin::lock_of_person(&project.admin(key))? {
        return Ok(Way::Kept(reason));
    }
    let work = Work::look(project, repo, key, true)?;
    if work.tip.is_none() && work.scan.is_none() {
        return Ok(Way::Nothing);
    }
    let record = Record::read(project, key)?;
    let target = match &record {
        Some(record) => record.target.clone(),
        None => project.default_target(repo)?,
    };
    let must_rescue = match why_not(repo, &work, &target)? {
        None => false,
        // A squash or a rebase put the changes into the target, but not the commits. Those get a rescue
        // reference, and the branch goes.
        Some(_) if request.discard || is_merged(&work, record.as_ref()) => true,
        Some(reason) => return Ok(Way::Kept(reason)),
    };
    Ok(Way::Free { work: Box::new(work), record: Box::new(record), target, must_rescue })
}

/// Removes folder and branch of a key, or returns the reason why they are kept.
pub(crate) fn remove(project: &Project, request: &RemoveRequest) -> Result<Removed> {
    let key = &request.key;
    let repo = project.open()?;
    let (work, record, target, must_rescue) = match look(project, &repo, request)? {
        Way::Nothing => return Ok(Removed::gone(None)),
        Way::Kept(reason) => return Ok(Removed::kept(reason)),
        Way::Free { work, record, target, must_rescue } => (work, *record, target, must_rescue),
    };
    let rescued = match must_rescue {
        true => rescue::put_away(project, &repo, key, next_attempt(&repo, key)?, &work)?,
        false => None,
    };
    if let Some(queued) = record.and_then(|record| record.queued) {
        // A candidate of this work must not be published later.
        let at = tip(&repo, &names::head(&queued.target))?;
        let waits = oid(&queued.commit)?;
        if at.map_or(Ok(false), |at| queue::holds(&repo, &queued.target, at, waits))? {
            queue::withdraw(&repo, &queued.target, Some(waits))?;
        }
    }
    import::settle(project, &repo, key)?;
    dismantle(project, &repo, key, &work, &target)?;
    if let Some(mut record) = Record::read(project, key)? {
        // A branch that appears under the name from now on is not ours.
        record.base = None;
        record.write(project, key)?;
    }
    Ok(Removed::gone(rescued))
}

/// Returns the reason why work would be lost, if it would.
fn why_not(repo: &Repository, work: &Work, target: &str) -> Result<Option<String>> {
    if work.is_dirty() {
        let edits = work.scan.iter().flat_map(|scan| scan.edits.keys());
        let first: Vec<_> =
            edits.clone().take(3).map(|path| RepoPath::new(path.clone()).to_string()).collect();
        let (count, first) = (edits.count(), first.join(", "));
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        return Ok(Some(match work.tip {
            Some(_) => format!("it has changes that are not committed, in {files}: {first}"),
            // git takes every file for a new one then.
            None => {
                format!("its branch is gone, so nothing in its folder counts as committed ({files}: {first})")
            }
        }));
    }
    // HEAD may be at commits that the branch lacks.
    for (what, commit) in [("branch", work.tip), ("HEAD", work.head)] {
        let Some(commit) = commit else { continue };
        if !reach::is_kept(repo, commit, target)? {
            return Ok(Some(format!("its {what} has commits that {target} lacks")));
        }
    }
    Ok(None)
}

/// Returns true if exactly this work was published, in any form.
fn is_merged(work: &Work, record: Option<&Record>) -> bool {
    let merged = record.and_then(|record| record.merged.as_ref()).and_then(|merged| oid(merged).ok());
    !work.is_dirty() && merged.is_some() && work.tip == merged && work.head == merged
}

/// Returns the attempt after the last one that was rescued.
fn next_attempt(repo: &Repository, key: &WorkspaceKey) -> Result<Attempt> {
    let task = key.to_string();
    let last = rescue::list(repo)?.into_iter().filter(|r| r.task == task).map(|r| r.attempt.0).max();
    Ok(Attempt(last.unwrap_or(0) + 1))
}

/// Removes folder, administration and branch. The caller has proved that nothing of `work` is lost.
/// A folder with anything for which that cannot be proved, such as a repository, is set aside, and commits that only the
/// logs name are kept.
pub(crate) fn dismantle(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    work: &Work,
    target: &str,
) -> Result<()> {
    admin::refuse_locked(&project.admin(key))?;
    // Before the rest, because the logs go with the administration.
    left::keep_logged(project, repo, key)?;
    let folder = project.worktree(key);
    if std::fs::symlink_metadata(&folder).is_ok() {
        if holds_more(&folder, work) {
            set_aside(project, key, &folder)?;
        } else {
            // Renamed first, so that a kill leaves no half folder under the key.
            let trash = project.worktrees().join(files::unique("trash"));
            std::fs::rename(&folder, &trash)
                .map_err(|e| Error::io("removing a folder", e).with_path(&folder))?;
            reached("removal: folder set aside");
            files::remove_checkout(&trash)
                .map_err(|e| Error::io("removing a folder", e).with_path(&trash))?;
        }
    }
    let admin = project.admin(key);
    admin::refuse_foreign(&admin)?;
    if std::fs::symlink_metadata(admin.join("modules")).is_ok() {
        // These are repositories of submodules that the agent fetched.
        set_aside(project, key, &admin)?;
    } else {
        files::remove_tree(&admin).map_err(|e| Error::io("removing a folder", e).with_path(&admin))?;
    }
    copies::give_up_modules(project, key)?;
    reached("removal: administration gone");
    // Before libgit2 reads the branch: it would follow a link.
    agent_ref::guard(project, key)?;
    retire_base(repo, key, target)?;
    let deleted = match work.tip {
        // Only if the branch is where it was when the work was found safe.
        Some(old) => delete_ref(repo, &names::head(&names::branch(key)), old)?,
        None => true,
    };
    // libgit2 removes empty folders too, also those over which other agents' copies are shown.
    copies::make_targets(project)?;
    if !deleted {
        return Err(Error::new(ErrorKind::Conflict, "the branch moved while it was removed, and is kept")
            .with("branch", names::branch(key)));
    }
    Ok(())
}

/// Removes the reference to the base of the work. If the person has taken that commit out of the target
/// since, it is kept.
pub(crate) fn retire_base(repo: &Repository, key: &WorkspaceKey, target: &str) -> Result<()> {
    let Some(base) = tip(repo, &names::base(key))? else { return Ok(()) };
    if !reach::is_kept(repo, base, target)? {
        left::put(repo, key, base)?;
    }
    delete_ref(repo, &names::base(key), base).map(|_| ())
}

/// Returns true if the folder may hold what no capture takes: repositories, files beyond the size limit, or new files with the
/// name of a secret.
fn holds_more(folder: &Path, work: &Work) -> bool {
    // In place of our pointer: the agent made a repository of the folder.
    let replaced = std::fs::symlink_metadata(folder.join(".git")).is_ok_and(|metadata| !metadata.is_file());
    let holds = |scan: &Scan| {
        let left_out = [&scan.nested, &scan.large, &scan.secret, &scan.refused, &scan.deep];
        left_out.iter().any(|paths| !paths.is_empty())
    };
    // Without a scan nothing is known about the folder.
    replaced || work.scan.as_ref().is_none_or(holds)
}
