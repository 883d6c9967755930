//! Decides whose work stands under a key: this project's, or that of another project on the same repository.
//!
//! A project is known by its checkout's git directory, relative to the git directory that all checkouts
//! share. This path stays the same when the project's folder is renamed, and it differs between two checkouts
//! of one repository.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
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
    /// The work is this project's, and the project's folder had another name when the work began.
    Moved,
    /// The work belongs to the project that this one was copied from. The original still exists.
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
        // A record of an older version names only the root, so the root decides.
        None => !is_other_checkout(project, root)?,
    };
    Ok(match is_same_checkout {
        false => Ownership::Other,
        // A folder that was renamed leaves nothing under the old name.
        true if root.join(project.mark()).exists() => Ownership::Copied,
        true => Ownership::Moved,
    })
}

/// Returns the git directory of the project's checkout, relative to the shared git directory. Empty for the
/// main checkout.
pub(crate) fn checkout_of(project: &Project) -> PathBuf {
    project.git.strip_prefix(&project.common).map(Path::to_path_buf).unwrap_or_default()
}

/// Returns true if another checkout of the repository lies, or lay, at `root`.
fn is_other_checkout(project: &Project, root: &Path) -> Result<bool> {
    // The main checkout has no folder under `worktrees`.
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

/// The relation of a linked checkout to the git directory that administers it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Link {
    /// Its `.git` file leads back.
    Here,
    /// It belongs to another repository. In a copy of a repository, the administration still names the checkouts of the
    /// original.
    Another,
    /// Nothing there can be read: it is on a disk that is away, it was moved or deleted, or the project was moved.
    Away,
}

/// Returns the relation of the linked checkout `files` to the git directory `git`.
pub(crate) fn link(files: &Path, git: &Path) -> Link {
    let text = match fs::read(files.join(".git")) {
        Ok(text) => text,
        // A repository was made in its place.
        Err(error) if error.kind() == ErrorKind::IsADirectory => return Link::Another,
        Err(_) => return Link::Away,
    };
    let pointer = text.strip_prefix(b"gitdir:").unwrap_or_default().trim_ascii();
    let Ok(found) = files.join(OsStr::from_bytes(pointer)).canonicalize() else { return Link::Away };
    match git.canonicalize().is_ok_and(|git| git == found) {
        true => Link::Here,
        false => Link::Another,
    }
}
