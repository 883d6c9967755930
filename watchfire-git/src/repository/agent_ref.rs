//! The branch of an agent, read and moved as a file without following a link.
//!
//! An agent may write anything into the folder of its branch: a link in place of the file, for instance,
//! through which libgit2 would move another branch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{Oid, Repository, Signature};
use rustix::fs::OFlags;
use watchfire_core::workspace::WorkspaceKey;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, Said, broken};
use crate::failpoint::reached;
use crate::files::{self, absent, unique};
use crate::names;
use crate::repository::project::Project;

/// Age at which a lock on a branch counts as abandoned. git holds such a lock only until it renames it.
const STALE: Duration = Duration::from_secs(10);

/// Returns the tip of the agent's branch, or `None` if there is no such branch.
pub(crate) fn tip(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Option<Oid>> {
    let Some(id) = read(project, repo, key)? else { return Ok(None) };
    repo.find_commit(id).map(|commit| Some(commit.id())).map_err(|e| {
        broken("the branch of an agent points to a commit that is not there")
            .with("branch", names::branch(key))
            .with_source(Said(e))
    })
}

/// Moves the branch from `old` to `new`. Returns false if the branch is not at `old`. Waits for a git of the
/// agent that holds the lock, at most as long as [`STALE`].
pub(crate) fn advance(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    old: Option<Oid>,
    new: Oid,
    who: &Signature<'_>,
    message: &str,
) -> Result<bool> {
    let path = path(project, key);
    let lock = path.with_file_name(format!("{key}.lock"));
    let moving = |e| Error::io("moving the branch of an agent", e).with_path(&path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(moving)?;
    }
    let scratch = project.state().join("tmp");
    fs::create_dir_all(&scratch).map_err(moving)?;
    // The lock is a second name of a file of ours, by which `recover` knows it: a plain lock would not say
    // whose it is.
    let token = scratch.join(unique("branch"));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&token).map_err(moving)?;
    reached("branch: token made");
    let locked = take_lock(&token, &lock);
    let moved = locked.map_err(moving).and_then(|()| {
        reached("branch: lock taken");
        // Compared under the lock: a git of the agent may have moved the branch before.
        if read(project, repo, key)? != old {
            return Ok(false);
        }
        // Synced before the rename, so that a power failure leaves no empty branch.
        file.write_all(format!("{new}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(moving)?;
        reached("branch: locked");
        fs::rename(&lock, &path).map_err(moving)?;
        reached("branch: moved");
        Ok(true)
    });
    if !matches!(moved, Ok(true)) {
        release(&token, &lock);
        return moved;
    }
    _ = fs::remove_file(&token);
    // The branch has moved already. A log that cannot be written must not undo that.
    if let Err(error) = log(project, key, old, new, who, message) {
        tracing::debug!(%error, "the log of an agent's branch was not written");
    }
    Ok(true)
}

/// Releases the locks on agents' branches that a killed process of ours left behind.
pub(crate) fn release_stale(project: &Project) -> Result<()> {
    let locks = files::entries(&project.common.join("refs/heads/watchfire"))?;
    let tokens = files::entries(&project.state().join("tmp"))?.into_iter();
    for (_, token) in tokens.filter(|(name, _)| files::is_abandoned(name)) {
        let locks = locks.iter().filter(|(name, _)| name.as_encoded_bytes().ends_with(b".lock"));
        // The same file under two names: the lock was ours.
        locks.for_each(|(_, lock)| _ = files::is_same(&token, lock) && fs::remove_file(lock).is_ok());
    }
    Ok(())
}

fn take_lock(token: &Path, lock: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        // A link is made only where nothing is, so of two processes one gets the lock.
        match fs::hard_link(token, lock) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let age = fs::symlink_metadata(lock)
                    .and_then(|metadata| metadata.modified())
                    .map(|time| time.elapsed());
                // The agent may have set its time into the future, so our own waiting counts too.
                if began.elapsed() > STALE || age.is_ok_and(|age| age.is_ok_and(|age| age > STALE)) {
                    // The lock of a git that was killed with its agent, or something else (a folder) that the
                    // agent put there.
                    absent(fs::remove_file(lock)).or_else(|_| files::remove_tree(lock).map(Some))?;
                } else {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            other => return other,
        }
    }
}

fn release(token: &Path, lock: &Path) {
    // After a failure the lock may be that of another process.
    if files::is_same(token, lock) {
        _ = fs::remove_file(lock);
    }
    _ = fs::remove_file(token);
}

/// Removes links in place of the branch and its log. Called before git itself changes the branch, because git
/// would follow them.
pub(crate) fn guard(project: &Project, key: &WorkspaceKey) -> Result<()> {
    for path in [path(project, key), log_path(project, key)] {
        if absent(fs::symlink_metadata(&path)).during("reading a branch")?.is_some_and(|m| m.is_symlink()) {
            fs::remove_file(&path).during("removing a link in place of a branch")?;
        }
    }
    Ok(())
}

fn path(project: &Project, key: &WorkspaceKey) -> PathBuf {
    project.common.join(names::head(&names::branch(key)))
}

fn log_path(project: &Project, key: &WorkspaceKey) -> PathBuf {
    project.common.join("logs").join(names::head(&names::branch(key)))
}

fn read(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Option<Oid>> {
    // First, because reading must not follow a link either.
    guard(project, key)?;
    let Some(text) = files::read_plain(&path(project, key), 4096)? else { return packed(repo, key) };
    let id = str::from_utf8(text.trim_ascii())
        .ok()
        // Only a commit's id. `ref: …` would make another branch of it.
        .filter(|id| id.len() == 40)
        .and_then(|id| Oid::from_str(id).ok());
    id.map(Some).ok_or_else(|| {
        broken("the branch of an agent is no plain branch any more: delete it, or make it a branch again")
            .with("branch", names::branch(key))
    })
}

/// Reads the branch from `packed-refs`, which agents cannot write.
fn packed(repo: &Repository, key: &WorkspaceKey) -> Result<Option<Oid>> {
    match repo.find_reference(&names::head(&names::branch(key))) {
        Ok(reference) => Ok(reference.target()),
        Err(e) if e.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(e) => Err(Error::new(ErrorKind::WorkspaceBroken, "the branch of an agent cannot be read")
            .with_source(Said(e))),
    }
}

fn log(
    project: &Project,
    key: &WorkspaceKey,
    old: Option<Oid>,
    new: Oid,
    who: &Signature<'_>,
    message: &str,
) -> io::Result<()> {
    let path = log_path(project, key);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // The agent may have put a link or a FIFO in place of its log.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file: File = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    let old = old.unwrap_or(Oid::ZERO_SHA1);
    let (name, email) =
        (String::from_utf8_lossy(who.name_bytes()), String::from_utf8_lossy(who.email_bytes()));
    writeln!(file, "{old} {new} {name} <{email}> {} +0000\t{message}", who.when().seconds())
}
