//! Completes or undoes what killed processes left half-done.

use watchfire_core::Result;
use watchfire_core::workspace::{Pruned, Recovery};

use crate::branches::prune;
use crate::files;
use crate::private::copies::{self as private, Private};
use crate::private::import;
use crate::publish::publication::{self as publish, Completed};
use crate::repository::agent_ref;
use crate::repository::ownership::{self, Ownership};
use crate::repository::project::Project;
use crate::repository::record::Record;
use crate::repository::ref_lock;
use crate::worktree::ready;

/// Completes or undoes everything that was under way. A part that fails is reported, and the others go on.
pub(crate) fn recover(project: &Project) -> Result<Recovery> {
    let mut recovery = of_one(project)?;
    if let Some(before) = &project.before {
        let Recovery { completed, undone, incomplete, attention, .. } = of_one(before)?;
        recovery.completed.extend(completed);
        recovery.undone.extend(undone);
        recovery.incomplete.extend(incomplete);
        recovery.attention.extend(attention);
    }
    Ok(recovery)
}

fn of_one(project: &Project) -> Result<Recovery> {
    let _lock = project.lock()?;
    let mut recovery = Recovery::default();
    // Locks first: what follows moves and deletes references.
    ref_lock::release_packed(project);
    if let Err(error) = ref_lock::release_stale(project) {
        recovery.attention.push(error.report());
    }
    for note in publish::pending(project)? {
        match publish::complete(project, &note)? {
            Completed::Done(what, notices) => {
                let edits =
                    notices.edits.iter().map(|path| format!("an edit was moved to {}", path.display()));
                recovery.attention.extend(edits);
                if !notices.reverted.is_empty() {
                    let files: Vec<_> = notices.reverted.iter().map(ToString::to_string).collect();
                    let message = format!("the {what}: a later commit takes back {}", files.join(", "));
                    recovery.attention.push(message);
                }
                recovery.completed.push(what);
            }
            Completed::Undone(what) => recovery.undone.push(what),
            Completed::Incomplete(obstacle) => recovery.incomplete.push(obstacle),
        }
    }
    // Folders that were being made or removed. No agent has worked in them yet, or will again.
    let scratch = project.root.join(".watchfire").join("scratch");
    for (name, path) in [files::entries(&project.worktrees())?, files::entries(&scratch)?].concat() {
        if files::is_abandoned(&name) {
            match files::remove_tree(&path) {
                Ok(()) => recovery.undone.push(format!("unfinished folder {}", path.display())),
                Err(error) => recovery.attention.push(format!("cannot remove {}: {error}", path.display())),
            }
        }
    }
    // Scratch folders of verifications whose process was killed.
    let mut scratched = Pruned::default();
    if let Err(error) = prune::scratch(project, &mut scratched) {
        recovery.attention.push(error.report());
    }
    recovery.undone.extend(scratched.removed);
    if let Err(error) = private::sweep(project) {
        recovery.attention.push(error.report());
    }
    if let Err(error) = ready::sweep(project) {
        recovery.attention.push(error.report());
    }
    let repo = project.open()?;
    for key in Private::keys(project)? {
        let owner = Record::read(project, &key)?.map(|record| ownership::of(project, &record)).transpose()?;
        // Another project on the repository imports its own.
        let ours = project.is_own(&key) && matches!(owner, Some(Ownership::Own | Ownership::Moved));
        if let Err(error) = if ours { import::import(project, &repo, &key) } else { Ok(()) } {
            recovery
                .attention
                .push(format!("the work of task {key} cannot be taken over: {}", error.report()));
        }
    }
    if let Err(error) = prune::bases(project, &repo) {
        recovery.attention.push(error.report());
    }
    // A folder that was removed without its branch or administration needs nothing here: `open` and `prune`
    // start from such a state anyway.
    agent_ref::release_stale(project)?;
    // After the locks of references, which are told by their second names among these files.
    if let Err(error) = prune::temporary(project) {
        recovery.attention.push(error.report());
    }
    for aside in [project.worktrees().join("aside"), private::aside(project)] {
        if !files::entries(&aside)?.is_empty() {
            recovery.attention.push(format!("set aside, for you to look through: {}", aside.display()));
        }
    }
    Ok(recovery)
}
