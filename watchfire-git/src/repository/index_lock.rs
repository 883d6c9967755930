//! git's own lock on an index, held within one call.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use watchfire_core::{Error, Result};

use crate::error::broken;
use crate::failpoint::reached;

/// The lock on an index. Released when it is dropped.
///
/// A person may remove the lock, and another git may take it. So the file is known by its inode, and never by
/// its name alone.
#[derive(Debug)]
pub(crate) struct IndexLock {
    path: PathBuf,
    file: File,
}

impl IndexLock {
    /// Locks the index of the git directory `git`. Returns `None` if it is locked.
    pub(crate) fn take(git: &Path) -> Result<Option<Self>> {
        let path = git.join("index.lock");
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Some(Self { path, file })),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io("locking the index", e).with_path(path)),
        }
    }

    /// Returns true if the lock is still this one.
    pub(crate) fn is_held(&self) -> bool {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let there = fs::symlink_metadata(&self.path).map(id);
        there.is_ok_and(|there| self.file.metadata().map(id).is_ok_and(|ours| ours == there))
    }

    /// Makes `bytes` the index, which releases the lock.
    pub(crate) fn put(mut self, bytes: &[u8]) -> Result<()> {
        let index = self.path.with_file_name("index");
        let failed = |e| Error::io("writing the index", e).with_path(&index);
        self.file.write_all(bytes).map_err(failed)?;
        if !self.is_held() {
            return Err(
                broken("another git command has taken over the lock of the index").with_path(&self.path)
            );
        }
        fs::rename(&self.path, &index).map_err(failed)?;
        reached("init: index in place");
        Ok(())
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // After `put` the name may belong to another git.
        if self.is_held() {
            _ = fs::remove_file(&self.path);
        }
    }
}
