//! git's own lock on an index, held within one call.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use watchfire_core::{Error, Result};

use crate::error::broken;
use crate::failpoint::reached;
use crate::files;
use crate::index::ahead::Ahead;

/// The lock on an index. Released when it is dropped.
///
/// A person may remove the lock, and another git may take it. So the file is known by its inode, and never by
/// its name alone.
#[derive(Debug)]
pub(crate) struct IndexLock {
    path: PathBuf,
    file: File,
    /// A second name of the lock, by which a later process knows it as one of ours.
    token: Option<PathBuf>,
}

impl IndexLock {
    /// Locks the index of the git directory `git`. Returns `None` if it is locked.
    pub(crate) fn take(git: &Path) -> Result<Option<Self>> {
        let path = git.join("index.lock");
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Some(Self { path, file, token: None })),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io("locking the index", e).with_path(path)),
        }
    }

    /// Locks the index as [`take`](Self::take) does, so that a kill leaves no lock for good: [`release`](Self::release)
    /// with the same `token` removes it.
    pub(crate) fn take_as(git: &Path, token: PathBuf) -> Result<Option<Self>> {
        let failed = |e| Error::io("locking the index", e).with_path(&token);
        // An old token may be a second name of the index by now, and writing to it would change the index.
        files::absent(fs::remove_file(&token)).map_err(failed)?;
        let file = fs::OpenOptions::new().write(true).create_new(true).open(&token).map_err(failed)?;
        reached("index lock: token made");
        let lock = Self { path: git.join("index.lock"), file, token: Some(token) };
        // A link is made only where nothing is, so a git command that has the lock keeps it.
        match fs::hard_link(lock.token.as_deref().unwrap_or(&lock.path), &lock.path) {
            Ok(()) => {
                reached("index lock: taken");
                Ok(Some(lock))
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io("locking the index", e).with_path(&lock.path)),
        }
    }

    /// Removes the lock that a killed process took with this `token`, and takes back the index that it had put ahead.
    pub(crate) fn release(git: &Path, token: &Path) {
        let path = git.join("index.lock");
        take_back(&Ahead::new(git, token));
        if files::is_same(token, &path) {
            _ = fs::remove_file(path);
        }
        _ = fs::remove_file(token);
    }

    /// Returns true if the lock is still this one.
    pub(crate) fn is_held(&self) -> bool {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let there = fs::symlink_metadata(&self.path).map(id);
        there.is_ok_and(|there| self.file.metadata().map(id).is_ok_and(|ours| ours == there))
    }

    /// Makes `bytes` the index and keeps the lock, before HEAD moves. Dropping the lock takes the index back, unless HEAD
    /// [has moved](Self::has_moved).
    ///
    /// # Errors
    /// `workspace_broken` if the lock is another one by now, as if a person has removed it.
    pub(crate) fn put_ahead(&self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.ahead().put(bytes)?;
        reached("index lock: index ahead");
        Ok(())
    }

    /// Releases the lock, and the index stays as it was put [ahead](Self::put_ahead).
    pub(crate) fn has_moved(self) {
        self.ahead().forget();
    }

    fn ahead(&self) -> Ahead {
        let git = self.path.parent().unwrap_or(Path::new("/"));
        Ahead::new(git, self.token.as_ref().unwrap_or(&self.path))
    }

    fn check(&self) -> Result<()> {
        let taken =
            || broken("another git command has taken over the lock of the index").with_path(&self.path);
        self.is_held().then_some(()).ok_or_else(taken)
    }

    /// Makes `bytes` the index, which releases the lock.
    pub(crate) fn put(mut self, bytes: &[u8]) -> Result<()> {
        let index = self.path.with_file_name("index");
        let failed = |e| Error::io("writing the index", e).with_path(&index);
        self.file.write_all(bytes).map_err(failed)?;
        self.check()?;
        fs::rename(&self.path, &index).map_err(failed)
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        take_back(&self.ahead());
        // After `put` the name may belong to another git.
        if self.is_held() {
            _ = fs::remove_file(&self.path);
        }
        if let Some(token) = &self.token {
            _ = fs::remove_file(token);
        }
    }
}

fn take_back(ahead: &Ahead) {
    if let Err(error) = ahead.take_back() {
        tracing::warn!(error = %error.report(), "an index cannot be put back");
    }
}
