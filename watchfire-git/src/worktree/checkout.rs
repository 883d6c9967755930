//! Puts a merged tree into a folder of its own, to be verified.

use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Rule, RuleAccess};
use watchfire_core::workspace::{Candidate, Scratch};
use watchfire_core::{Error, Result};

use crate::files;
use crate::names;
use crate::repository::project::{Project, oid};
use crate::worktree::open;

/// Writes the candidate's tree to a scratch folder: a worktree with a detached HEAD, so that git works in it.
pub(crate) fn checkout(project: &Project, candidate: &Candidate) -> Result<Scratch> {
    let name = name();
    checkout_at(project, candidate, &name, &parent(project).join(&name))
}

/// Returns the folder that holds a project's scratch folders.
pub(crate) fn parent(project: &Project) -> PathBuf {
    project.root.join(".watchfire").join("scratch")
}

/// Returns a new name for a scratch folder.
pub(crate) fn name() -> String {
    // Without the dot the name begins as `names::SCRATCH`, by which its administration is known.
    files::unique("scratch").trim_start_matches('.').to_owned()
}

/// Does the same as [`checkout`] at `folder`, which is the folder `name` among the scratch folders, or lies in it.
pub(crate) fn checkout_at(
    project: &Project,
    candidate: &Candidate,
    name: &str,
    folder: &Path,
) -> Result<Scratch> {
    let repo = project.open()?;
    project.make_worktrees()?;
    let admin_name = format!("{}{name}", names::ADMIN);
    let admin = project.common.join("worktrees").join(&admin_name);
    // Held as long as the folder is in use. Until then, prune leaves the folder alone.
    let lock_path = project.state().join("scratch").join(name);
    let lock = files::try_lock(&lock_path)?;
    let parent = folder.parent().unwrap_or(&project.root);
    fs::create_dir_all(parent).map_err(|e| Error::io("creating a folder", e).with_path(parent))?;
    let commit = oid(&candidate.commit)?;
    open::create(project, &repo, folder, &admin_name, &format!("{commit}\n"), Some(commit), &[])?;
    let rules = vec![
        Rule::new(folder, RuleAccess::Write, "git: the scratch folder"),
        Rule::new(folder.join(".git"), RuleAccess::Read, "git: the pointer to the repository"),
        Rule::new(&project.common, RuleAccess::Read, "git: the repository"),
        Rule::new(project.state(), RuleAccess::Deny, "git: Watchfire's records"),
    ];
    let clean_up = move |path: &Path| {
        for gone in [path, &admin] {
            if let Err(error) = files::remove_checkout(gone) {
                tracing::warn!(path = %gone.display(), %error, "a scratch folder is left for the next prune");
            }
        }
        _ = fs::remove_file(&lock_path);
        drop(lock);
    };
    Ok(Scratch::new(folder, clean_up).with_policy_rules(rules))
}
