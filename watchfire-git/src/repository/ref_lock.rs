//! Releases locks on references that a killed process left: ours, or the git of an agent that ran without a
//! sandbox.
//!
//! libgit2 creates `<reference>.lock`, writes it and renames it. A kill in between leaves the lock, and every
//! later change of the reference fails.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use watchfire_core::Result;

use crate::files;
use crate::names;
use crate::repository::project::Project;

/// Time for which a lock must be idle. Longer than git waits for the lock of another process.
const PATIENCE: Duration = Duration::from_secs(2);

/// Removes the locks on references that only we and our agents write, if they are older than this start and idle.
///
/// Younger locks may be in use, because recovery also runs after a publication that failed. An older one may be held by the git
/// of an agent that has outlived its orchestrator, for a moment.
pub(crate) fn release_stale(project: &Project) -> Result<()> {
    let mut old = Vec::new();
    for folder in ["refs/watchfire", "refs/heads/watchfire"] {
        find_old(project, &project.common.join(folder), &mut old)?;
    }
    let start = Instant::now();
    while !old.is_empty() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
        old.retain(|(path, found)| identity(path) == Some(*found));
    }
    // Another process may have removed it first.
    old.iter().for_each(|(path, _)| _ = fs::remove_file(path));
    Ok(())
}

/// Finds locks that are older than this start, each with its inode and time of change, which a later lock does not have.
fn find_old(project: &Project, folder: &Path, old: &mut Vec<(PathBuf, (u64, i64, i64))>) -> Result<()> {
    for (name, path) in files::entries(folder)? {
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            find_old(project, &path, old)?;
        } else if name.as_encoded_bytes().ends_with(b".lock") && is_older(project, &path) {
            old.extend(identity(&path).map(|found| (path, found)));
        }
    }
    Ok(())
}

fn identity(path: &Path) -> Option<(u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Removes the lock on the branch `target` that a publication of `commit` left. Such a lock names that
/// commit, or is still empty.
pub(crate) fn release_target(project: &Project, target: &str, commit: &str) {
    let lock = project.common.join(format!("{}.lock", names::head(target)));
    let Ok(Some(content)) = files::read_plain(&lock, 4096) else { return };
    let text = content.trim_ascii();
    if !text.is_empty() && text != commit.as_bytes() {
        return;
    }
    // A person's git holds an empty lock for microseconds. A lock from before this start has no holder any more. Where the
    // clock was set back, it may look younger, and is the same one for a while.
    let (found, start) = (identity(&lock), Instant::now());
    while !is_older(project, &lock) && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
        if identity(&lock) != found {
            return;
        }
    }
    _ = fs::remove_file(&lock);
}

/// Removes a lock on `packed-refs` whose holder is dead.
///
/// Every `git commit` takes this lock for a moment, and git itself waits for it for a second at most. The
/// holder keeps the lock empty and writes to `packed-refs.new`. So the holder is dead if the lock stays
/// empty, alone and unchanged for longer.
pub(crate) fn release_packed(project: &Project) {
    let lock = project.common.join("packed-refs.lock");
    let idle = || {
        let found = fs::symlink_metadata(&lock).ok().filter(|found| found.is_file() && found.len() == 0)?;
        let writes = fs::symlink_metadata(project.common.join("packed-refs.new")).is_ok();
        if writes { None } else { found.modified().ok() }
    };
    let Some(first) = idle() else { return };
    let start = Instant::now();
    // The lock's time may lie in the future, so our own waiting counts too.
    while start.elapsed() < PATIENCE && first.elapsed().unwrap_or_default() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
        // Another process took the lock in between, or it is gone.
        if idle() != Some(first) {
            return;
        }
    }
    _ = fs::remove_file(&lock);
}

fn is_older(project: &Project, lock: &Path) -> bool {
    let modified = fs::symlink_metadata(lock).and_then(|found| found.modified());
    modified.is_ok_and(|modified| modified < project.opened)
}
