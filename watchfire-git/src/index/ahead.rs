//! A new index that is in place before the reference that it belongs to.
//!
//! `git commit` reads HEAD, then the index, and takes the lock of the index last. If it reads the new HEAD and the old index,
//! its commit takes back what HEAD has just got, and nothing stops it, because HEAD is still as it was read. So the new
//! index comes first, under the lock. Then whoever reads the new HEAD reads the new index, and a commit on the old HEAD fails
//! when it wants to move HEAD.

use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::{Error, Result};

use crate::files;
use crate::index::file::IndexFile;

/// The two indices while the reference moves. The caller holds the lock.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    index: PathBuf,
    /// The index of before.
    old: PathBuf,
    /// A second name of the new index, which proves that the one in place is ours.
    new: PathBuf,
    /// The new index while it is written.
    half: PathBuf,
}

impl Ahead {
    /// Uses names that begin with `token`, which a later process must know to take the index back.
    pub(crate) fn new(git: &Path, token: &Path) -> Self {
        let name = |ending: &str| {
            let mut name = token.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self { index: git.join("index"), old: name(".old"), new: name(".new"), half: name(".half") }
    }

    /// Makes `bytes` the index, and keeps the one of before.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<()> {
        self.forget();
        let written = (|| {
            if files::absent(fs::hard_link(&self.index, &self.old))?.is_none() {
                fs::write(&self.old, IndexFile::default().to_bytes())?;
            }
            // Not synced: after a power failure the index of before is put back first.
            fs::write(&self.half, bytes)?;
            fs::set_permissions(&self.half, fs::metadata(&self.old)?.permissions())?;
            fs::hard_link(&self.half, &self.new)?;
            fs::rename(&self.half, &self.index)
        })();
        written.map_err(|e| {
            self.forget();
            Error::io("writing the index", e).with_path(&self.index)
        })
    }

    /// Returns true if the new index is in place. git never writes into an index: it puts another file there.
    pub(crate) fn is_there(&self) -> bool {
        files::is_same(&self.new, &self.index)
    }

    /// Returns the index as it is without the changes that are ahead.
    pub(crate) fn read(&self) -> Result<IndexFile> {
        IndexFile::read(if self.is_there() { &self.old } else { &self.index })
    }

    /// Puts the index of before back, unless another one has come since.
    pub(crate) fn take_back(&self) -> Result<()> {
        if self.is_there() {
            fs::rename(&self.old, &self.index)
                .map_err(|e| Error::io("writing the index", e).with_path(&self.index))?;
        }
        self.forget();
        Ok(())
    }

    /// Gives up the index of before.
    pub(crate) fn forget(&self) {
        for name in [&self.half, &self.new, &self.old] {
            _ = fs::remove_file(name);
        }
    }
}
