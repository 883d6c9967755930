//! Backs up the settings and tasks of a project into the repository. `.watchfire/` is ignored, so `git clean
//! -fdx` deletes it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::Repository;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::Commit;
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::files;
use crate::identity;
use crate::names;
use crate::objects::tree::{self, FILE, Node};
use crate::objects::tree_edit::{self, Edits};
use crate::objects::tree_path;
use crate::options::GitOptions;
use crate::repository::layout::TOGETHER;
use crate::repository::project::{Project, commit, move_ref, tip};

/// Folders of `.watchfire/` that are left out. The work of agents has branches. Secrets do not belong in a
/// repository that is pushed.
const LEFT_OUT: &[&str] = &["worktrees", TOGETHER, "scratch", "secrets"];
/// Upper bound for a file, in bytes. Larger files are neither settings nor tasks.
const LARGEST: u64 = 1 << 20;
/// Depth to which folders are saved.
const DEEPEST: usize = 4;

/// Saves `.watchfire/` as it is now. Returns the commit, or `None` if nothing has changed since the last
/// backup.
pub(crate) fn save(project: &Project) -> Result<Option<Commit>> {
    let repo = project.open()?;
    let mut edits = Edits::new();
    collect(&repo, &project.root.join(".watchfire"), b"", &mut edits)?;
    // A folder that `git clean` has just emptied must not replace the last backup.
    if !edits.contains_key(&b"project.yaml"[..]) {
        return Ok(None);
    }
    let Some(tree) = tree_edit::edit(&repo, None, &edits)? else { return Ok(None) };
    let last = tip(&repo, names::BACKUP)?;
    if tree::of_commit(&repo, last)? == Some(tree) {
        return Ok(None);
    }
    let tree = repo.find_tree(tree).during("reading a tree")?;
    let parent = last.map(|last| repo.find_commit(last)).transpose().during("reading a commit")?;
    let who = identity::agent(&GitOptions::default().fallback)?;
    let parents: Vec<_> = parent.iter().collect();
    let made = repo
        .commit(None, &who, &who, "Backup of .watchfire\n", &tree, &parents)
        .during("committing a backup")?;
    // If another process was faster, it has saved the same.
    let moved = move_ref(&repo, names::BACKUP, last, made, "watchfire: backup")?;
    Ok(moved.then(|| commit(made)))
}

/// Returns the time of the last backup, in seconds since 1970.
pub(crate) fn saved_at(project: &Project) -> Result<Option<i64>> {
    let repo = project.open()?;
    let last = tip(&repo, names::BACKUP)?.map(|last| repo.find_commit(last)).transpose();
    Ok(last.during("reading a commit")?.map(|last| last.time().seconds()))
}

/// Writes the files of the last backup that are missing, and returns them. Existing files are left alone.
pub(crate) fn restore(project: &Project) -> Result<Vec<RepoPath>> {
    // What proves that a plain folder is the project's may be among what is missing.
    let repo = project.open_unchecked()?;
    let last = tip(&repo, names::BACKUP)?;
    let mut written = Vec::new();
    for (path, node) in tree::flatten(&repo, tree::of_commit(&repo, last)?)? {
        // A path with `..` would lead out of `.watchfire/`.
        tree_path::check_path(&path)?;
        let to = project.root.join(".watchfire").join(OsStr::from_bytes(&path));
        if node.mode != FILE || std::fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        let parent = to.parent().unwrap_or(&project.root);
        std::fs::create_dir_all(parent).map_err(|e| Error::io("creating a folder", e).with_path(parent))?;
        let blob = repo.find_blob(node.id).during("reading a file")?;
        files::replace(&to, blob.content())?;
        written.push(RepoPath::new(path));
    }
    Ok(written)
}

fn collect(repo: &Repository, folder: &Path, at: &[u8], edits: &mut Edits) -> Result<()> {
    for (name, path) in files::entries(folder)? {
        let bytes = name.as_encoded_bytes();
        // Temporary files begin with a dot.
        if bytes.starts_with(b".") || (at.is_empty() && LEFT_OUT.iter().any(|out| name == *out)) {
            continue;
        }
        let found = std::fs::symlink_metadata(&path);
        let inside = [at, bytes].concat();
        match found {
            Ok(found) if found.is_dir() && at.iter().filter(|byte| **byte == b'/').count() < DEEPEST => {
                collect(repo, &path, &[&inside, &b"/"[..]].concat(), edits)?;
            }
            Ok(found) if found.is_file() => {
                // Too large, or replaced since it was listed: left out.
                if let Some(content) = files::read_plain(&path, LARGEST)? {
                    let id = repo.blob(&content).during("storing a file")?;
                    edits.insert(inside, Some(Node { mode: FILE, id }));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
