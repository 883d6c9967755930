//! Puts a merged tree into a folder of its own, to be verified.

use std::fs;

use watchfire_core::sandbox::{Rule, RuleAccess};
use watchfire_core::workspace::{Candidate, Scratch};
use watchfire_core::{Error, Result};

use crate::files;
use crate::names;
use crate::repository::project::{Project, oid};
use crate::worktree::open;

/// Writes the candidate's tree to a scratch folder: a worktree with a detached HEAD, so that git works in it.
pub(crate) fn checkout(project: &Project, candidate: &Candidate) -> Result<Scratch> {
    let repo = project.open()?;
    project.make_worktrees()?;
    let parent = project.root.join(".watchfire").join("scratch");
    fs::create_dir_all(&parent).map_err(|e| Error::io("creating a folder", e).with_path(&parent))?;
    // Without the dot the name begins as `names::SCRATCH`, by which its administration is known.
    let name = files::unique("scratch").trim_start_matches('.').to_owned();
    let folder = parent.join(&name);
    let admin_name = format!("{}{name}", names::ADMIN);
    let admin = project.common.join("worktrees").join(&admin_name);
    // Held as long as the folder is in use. Until then, prune leaves the folder alone.
    let lock_path = project.state().join("scratch").join(&name);
    let lock = files::try_lock(&lock_path)?;
    let commit = oid(&candidate.commit)?;
    open::create(project, &repo, &folder, &admin_name, &format!("{commit}\n"), Some(commit), &[])?;
    let rules = vec![
        Rule::new(&folder, RuleAccess::Write, "git: the scratch folder"),
        Rule::new(folder.join(".git"), RuleAccess::Read, "git: the pointer to the repository"),
        Rule::new(&project.common, RuleAccess::Read, "git: the repository"),
        Rule::new(project.state(), RuleAccess::Deny, "git: Watchfire's records"),
    ];
    let clean_up = move |path: &std::path::Path| {
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
