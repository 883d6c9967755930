//! Removes leftovers on which no work depends.

use git2::Repository;
use watchfire_core::workspace::{Pruned, WorkspaceKey};
use watchfire_core::{Error, Result};

use crate::branches::backup;
use crate::error::During;
use crate::files;
use crate::index::file::IndexFile;
use crate::names;
use crate::objects::tree;
use crate::repository::admin::{self, Owner};
use crate::repository::agent_head;
use crate::repository::agent_ref;
use crate::repository::left;
use crate::repository::new_pack;
use crate::repository::ownership::{self, Ownership};
use crate::repository::project::Project;
use crate::repository::record::Record;
use crate::worktree::ready;
use crate::worktree::remove;

/// Removes leftovers. Returns descriptions of everything that was removed, and of everything that was kept.
pub(crate) fn prune(project: &Project) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    leftovers(project, &mut pruned)?;
    match ready::clear(project)? {
        0 => {}
        count => pruned.removed.push(format!("{count} folders kept ready")),
    }
    // A backup that fails must not keep the rest from being removed.
    if let Err(error) = backup::save(project) {
        pruned.kept.push(format!("no backup of settings and tasks: {}", error.report()));
    }
    Ok(pruned)
}

/// Removes what lies in folders and in git's administration.
pub(crate) fn leftovers(project: &Project, pruned: &mut Pruned) -> Result<()> {
    let _lock = project.lock()?;
    let repo = project.open()?;
    scratch(project, pruned)?;
    administration(project, &repo, pruned)?;
    folders(project, &repo, pruned)
}

/// Removes scratch folders whose process is gone.
pub(crate) fn scratch(project: &Project, pruned: &mut Pruned) -> Result<()> {
    let locks = project.state().join("scratch");
    let folder = project.root.join(".watchfire").join("scratch");
    for (name, path) in files::entries(&folder)? {
        // Folders with our prefix are still being made.
        let Some(name) = name.to_str().filter(|name| !name.starts_with(files::PREFIX)) else { continue };
        let lock_path = locks.join(name);
        // The lock is held as long as the folder is in use.
        let Some(_lock) = files::try_lock(&lock_path)? else { continue };
        let admin = project.common.join("worktrees").join(format!("{}{name}", names::ADMIN));
        if is_persons(&admin)? {
            continue;
        }
        files::remove_tree(&path).map_err(|e| Error::io("removing a scratch folder", e).with_path(&path))?;
        files::remove_tree(&admin).map_err(|e| Error::io("removing a folder", e).with_path(&admin))?;
        _ = std::fs::remove_file(&lock_path);
        pruned.removed.push(format!("scratch folder {}", path.display()));
    }
    // Locks and administration of folders that were never finished. A folder of a living process may still
    // come.
    for (name, lock) in files::entries(&locks)? {
        let Some(name) = name.to_str().filter(|name| files::is_abandoned(format!(".{name}").as_ref())) else {
            continue;
        };
        if std::fs::symlink_metadata(folder.join(name)).is_err() {
            let admin = project.common.join("worktrees").join(format!("{}{name}", names::ADMIN));
            if is_persons(&admin)? {
                continue;
            }
            files::remove_tree(&admin).map_err(|e| Error::io("removing a folder", e).with_path(&admin))?;
            _ = std::fs::remove_file(&lock);
        }
    }
    Ok(())
}

/// Returns true if a person made or locked this worktree.
fn is_persons(admin: &std::path::Path) -> Result<bool> {
    Ok(admin.is_dir() && (admin::owner(admin)? == Owner::Person || admin::lock_of_person(admin)?.is_some()))
}

/// Removes references to bases of tasks of which nothing else exists: they were being opened or removed. No
/// task may be opened at the same time.
pub(crate) fn bases(project: &Project, repo: &Repository) -> Result<()> {
    for name in repo.references_glob(&format!("{}*", names::BASE)).during("listing references")?.names() {
        let Ok(name) = name else { continue };
        let Some(key) = name.strip_prefix(names::BASE).and_then(names::parse_key) else { continue };
        let Some(record) = Record::read(project, &key)? else { continue };
        let is_ours = project.is_own(&key)
            && matches!(ownership::of(project, &record)?, Ownership::Own | Ownership::Moved);
        let is_gone = |path: std::path::PathBuf| std::fs::symlink_metadata(path).is_err();
        if is_ours
            && agent_ref::tip(project, repo, &key)?.is_none()
            && is_gone(project.worktree(&key))
            && is_gone(project.admin(&key))
        {
            remove::retire_base(repo, &key, &record.target)?;
        }
    }
    Ok(())
}

/// Removes the temporary files that killed processes left among our records, and in the administration of
/// agents' worktrees.
pub(crate) fn temporary(project: &Project) -> Result<()> {
    new_pack::complete(project)?;
    let state = project.state();
    let folders = files::entries(&state)?.into_iter().map(|(_, path)| path);
    // Private copies and folders that are kept ready have sweeps of their own.
    let own_sweep = |path: &std::path::Path| path.ends_with("private") || path.ends_with("ready");
    let folders = folders.filter(|path| path.is_dir() && !own_sweep(path)).chain([state.clone()]);
    for folder in folders {
        for (_, path) in files::entries(&folder)?.iter().filter(|(name, _)| files::is_abandoned(name)) {
            _ = std::fs::remove_file(path).or_else(|_| files::remove_tree(path));
        }
    }
    for (_, admin) in files::entries(&project.common.join("worktrees"))? {
        if !admin.is_dir() || admin::owner(&admin)? == Owner::Person {
            continue;
        }
        for (_, path) in files::entries(&admin)?.iter().filter(|(name, _)| files::is_abandoned(name)) {
            _ = std::fs::remove_file(path).or_else(|_| files::remove_tree(path));
        }
    }
    Ok(())
}

/// Removes administration whose folder is gone.
fn administration(project: &Project, repo: &Repository, pruned: &mut Pruned) -> Result<()> {
    for (_, path) in files::entries(&project.common.join("worktrees"))? {
        let (key, folder) = match admin::owner(&path)? {
            Owner::Person => continue,
            Owner::Agent(key) if Record::read(project, &key)?.is_none() => continue,
            Owner::Agent(key) => (Some(key.clone()), project.worktree(&key)),
            Owner::Scratch(name) => (None, project.root.join(".watchfire").join("scratch").join(name)),
        };
        // Other projects on this repository remove their own.
        let is_here = admin::checkout(&path)?.is_none_or(|checkout| checkout == folder);
        if !is_here || std::fs::symlink_metadata(&folder).is_ok() {
            continue;
        }
        // Locked by a person, who gives another reason than we do.
        if let Some(reason) = admin::lock_of_person(&path)? {
            pruned.kept.push(format!("{}: {reason}", path.display()));
            continue;
        }
        if let Some(key) = key {
            if holds_more(project, repo, &key)? {
                pruned.kept.push(format!("{}: files are staged there that no commit has", path.display()));
                continue;
            }
            // The logs go with the administration, and with them the only names of some commits.
            left::keep_logged(project, repo, &key)?;
        }
        files::remove_tree(&path).map_err(|e| Error::io("removing a folder", e).with_path(&path))?;
        pruned.removed.push(format!("administration {}", path.display()));
    }
    Ok(())
}

/// Returns true if the index or the HEAD of a folder that is gone has work that the branch lacks.
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

/// Removes empty folders without a branch. Other folders without one may hold work, and are kept.
fn folders(project: &Project, repo: &Repository, pruned: &mut Pruned) -> Result<()> {
    for (key, path) in project.folders()? {
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
