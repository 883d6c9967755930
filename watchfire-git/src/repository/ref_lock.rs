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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::SystemTime;

    use super::*;
    use crate::GitOptions;

    const COMMIT: &str = "0123456789012345678901234567890123456789";

    /// Makes a repository in which `content` locks `main`, changed an hour from now: the clock was set back since.
    fn locked(content: &str) -> (tempfile::TempDir, Project, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let project = Project::find(dir.path(), GitOptions::default()).unwrap();
        let lock = project.common.join("refs/heads/main.lock");
        fs::write(&lock, content).unwrap();
        let later = SystemTime::now() + Duration::from_secs(3600);
        File::options().write(true).open(&lock).unwrap().set_modified(later).unwrap();
        (dir, project, lock)
    }

    #[test]
    fn a_lock_of_a_killed_publication_is_released_where_the_clock_was_set_back() {
        let (_dir, project, lock) = locked("");
        release_target(&project, "main", COMMIT);
        assert!(!lock.exists(), "an empty lock is left");
        let (_dir, project, lock) = locked(&format!("{COMMIT}\n"));
        release_target(&project, "main", COMMIT);
        assert!(!lock.exists(), "the publication's own lock is left");
    }

    #[test]
    fn a_lock_of_another_change_stays() {
        let (_dir, project, lock) = locked(&COMMIT.replace('0', "f"));
        release_target(&project, "main", COMMIT);
        assert!(lock.exists(), "another commit's lock is gone");

        // Taken again and again, as by a person's git.
        let (_dir, project, lock) = locked("");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let other = lock.with_extension("other");
                    fs::write(&other, "").unwrap();
                    let later = SystemTime::now() + Duration::from_secs(3600);
                    File::options().write(true).open(&other).unwrap().set_modified(later).unwrap();
                    fs::rename(&other, &lock).unwrap();
                    thread::sleep(Duration::from_millis(5));
                }
            });
            release_target(&project, "main", COMMIT);
            over.store(true, Ordering::Relaxed);
        });
        assert!(lock.exists(), "a lock in use is gone");
    }
}
