//! What no work depends on, cleaned up.

use git2::Repository;
use watchfire_core::workspace::{Pruned, WorkspaceKey};
use watchfire_core::{Error, Result};

use crate::admin::{self, Owner};
use crate::agent_head;
use crate::agent_ref;
use crate::files;
use crate::index_file::IndexFile;
use crate::left;
use crate::names;
use crate::ready;
use crate::record::Record;
use crate::repository::Project;
use crate::tree;

/// Cleans up.
pub(crate) fn prune(project: &Project) -> Result<Pruned> {
    let _lock = project.lock()?;
    let repo = project.open()?;
    let mut pruned = Pruned::default();
    scratch(project, &mut pruned)?;
    administration(project, &repo, &mut pruned)?;
    folders(project, &repo, &mut pruned)?;
    match ready::clear(project)? {
        0 => {}
        count => pruned.removed.push(format!("{count} folders kept ready")),
    }
    Ok(pruned)
}

/// Scratch folders whose process is gone.
pub(crate) fn scratch(project: &Project, pruned: &mut Pruned) -> Result<()> {
    let locks = project.state().join("scratch");
    for (name, path) in files::entries(&project.root.join(".watchfire").join("scratch"))? {
        // Those with our prefix are being made.
        let Some(name) = name.to_str().filter(|name| !name.starts_with(files::PREFIX)) else { continue };
        let lock_path = locks.join(name);
        let Some(_lock) = files::try_lock(&lock_path)? else { continue };
        files::remove_tree(&path).map_err(|e| Error::io("removing a scratch folder", e).with_path(&path))?;
        let admin = project.common.join("worktrees").join(format!("{}{name}", names::ADMIN));
        files::remove_tree(&admin).map_err(|e| Error::io("removing a folder", e).with_path(&admin))?;
        _ = std::fs::remove_file(&lock_path);
        pruned.removed.push(format!("scratch folder {}", path.display()));
    }
    Ok(())
}

/// Administration whose folder is gone.
fn administration(project: &Project, repo: &Repository, pruned: &mut Pruned) -> Result<()> {
    for (_, path) in files::entries(&project.common.join("worktrees"))? {
        let (key, folder) = match admin::owner(&path)? {
            Owner::Person => continue,
            Owner::Agent(key) if Record::read(project, &key)?.is_none() => continue,
            Owner::Agent(key) => (Some(key.clone()), project.worktree(&key)),
            Owner::Scratch(name) => (None, project.root.join(".watchfire").join("scratch").join(name)),
        };
        // Other projects on this repository clean up after themselves.
        let is_here = admin::checkout(&path)?.is_none_or(|checkout| checkout == folder);
        if !is_here || std::fs::symlink_metadata(&folder).is_ok() {
            continue;
        }
        if admin::lock(&path)?.is_some_and(|lock| lock != admin::LOCKED) {
            pruned.kept.push(format!("{}: it is locked", path.display()));
            continue;
        }
        if let Some(key) = key {
            if holds_more(project, repo, &key)? {
                pruned.kept.push(format!("{}: files are staged there that no commit has", path.display()));
                continue;
            }
            left::keep_logged(project, repo, &key)?;
        }
        files::remove_tree(&path).map_err(|e| Error::io("removing a folder", e).with_path(&path))?;
        pruned.removed.push(format!("administration {}", path.display()));
    }
    Ok(())
}

/// Whether the index of a folder that is gone, or its HEAD, has what the branch has not.
fn holds_more(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<bool> {
    let tip = agent_ref::tip(project, repo, key)?;
    let head = agent_head::head_commit(project, repo, key)?;
    if head != tip && head.is_some() {
        return Ok(true);
    }
    let flat = tree::flatten(repo, tree::of_commit(repo, tip)?)?;
    let Ok(index) = IndexFile::read(&project.admin(key).join("index")) else { return Ok(false) };
    Ok(index.entries().iter().any(|entry| flat.get(&entry.path) != Some(&entry.node)))
}

/// Folders without a branch: empty ones go, others may hold work.
fn folders(project: &Project, repo: &Repository, pruned: &mut Pruned) -> Result<()> {
    for (name, path) in files::entries(&project.worktrees())? {
        let Some(key) = name.to_str().and_then(names::parse_key) else { continue };
        if agent_ref::tip(project, repo, &key)?.is_some() || project.admin(&key).is_dir() {
            continue;
        }
        if std::fs::remove_dir(&path).is_ok() {
            pruned.removed.push(format!("empty folder {}", path.display()));
        } else {
            pruned.kept.push(format!("{}: a folder without a branch, which may hold work", path.display()));
        }
    }
    Ok(())
}
