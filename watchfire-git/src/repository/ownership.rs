//! Whose work stands under a key: this project's, or that of another one on the same repository.
//!
//! A project is known by its checkout's git directory, relative to the one that all checkouts share. That stays the
//! same when its folder is renamed, and differs between two checkouts of one repository.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::Result;

use crate::files;
use crate::repository::admin;
use crate::repository::project::Project;
use crate::repository::record::Record;

/// Relation of a record to the project that reads it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ownership {
    /// The work is this project's.
    Own,
    /// The work is this project's, whose folder had another name when the work was begun.
    Moved,
    /// The work belongs to the project that this one is a copy of. The original still exists.
    Copied,
    /// The work belongs to another checkout of the same repository.
    Other,
}

/// Returns the relation of `record` to `project`.
pub(crate) fn of(project: &Project, record: &Record) -> Result<Ownership> {
    let root = &record.root;
    if root.as_os_str().is_empty() || *root == project.root {
        return Ok(Ownership::Own);
    }
    let is_same_checkout = match &record.checkout {
        Some(checkout) => *checkout == checkout_of(project),
        None => !is_other_checkout(project, root)?,
    };
    Ok(match is_same_checkout {
        false => Ownership::Other,
        // Of a renamed folder nothing is left under the old name.
        true if root.join(".git").exists() => Ownership::Copied,
        true => Ownership::Moved,
    })
}

/// Returns the git directory of the project's checkout, relative to the shared one: empty for the main checkout.
pub(crate) fn checkout_of(project: &Project) -> PathBuf {
    project.git.strip_prefix(&project.common).map(Path::to_path_buf).unwrap_or_default()
}

/// Returns true if another checkout of the repository lies, or lay, at `root`.
fn is_other_checkout(project: &Project, root: &Path) -> Result<bool> {
    if project.git != project.common && project.common == root.join(".git") {
        return Ok(true);
    }
    for (_, path) in files::entries(&project.common.join("worktrees"))? {
        if path != project.git && admin::checkout(&path)?.is_some_and(|checkout| checkout == root) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the `.git` file of the linked checkout `files` leads to the git directory `git`. In a copy of a
/// repository, the administration still names the checkouts of the original.
pub(crate) fn leads_back(files: &Path, git: &Path) -> bool {
    let Ok(text) = fs::read(files.join(".git")) else { return false };
    let pointer = text.strip_prefix(b"gitdir:").unwrap_or_default().trim_ascii();
    let found = files.join(OsStr::from_bytes(pointer)).canonicalize();
    found.is_ok_and(|found| git.canonicalize().is_ok_and(|git| git == found))
}
