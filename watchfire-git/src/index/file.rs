//! Index files, read and written as files: the lock, and when the new one takes effect, are the caller's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{Oid, Repository};
use rustix::fs::Stat;
use watchfire_core::Result;

use crate::error::{During, broken};
use crate::files;
use crate::index::entry::{Entry, Stamp};
use crate::index::format::{self as index_format, Content};
use crate::index::hidden::Hidden;
use crate::index::trees::Trees;
use crate::repository::tree::{Node, join};

/// More than an index of five million files.
const LARGEST: u64 = 512 << 20;

/// An index in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexFile {
    content: Content,
    /// When the original was written: entries as young as that may have changed without showing it.
    written: Option<(i64, i64)>,
}

impl IndexFile {
    /// Reads the index at `path`. One without entries if there is none.
    ///
    /// # Errors
    /// `workspace_broken` if it is damaged, or of a form that is not read here.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let stat = files::absent(rustix::fs::lstat(path).map_err(Into::into)).during("reading the index")?;
        let Some(stat) = stat else { return Ok(Self::default()) };
        let bytes = files::read_plain(path, LARGEST)?
            .ok_or_else(|| broken("an index is no plain file, or larger than any").with_path(path))?;
        let content = index_format::read(&bytes).map_err(|e| e.with_path(path))?;
        Ok(Self { content, written: Some((seconds(&stat), nanoseconds(&stat))) })
    }

    /// An index of `entries`, which are sorted by path.
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        Self { content: Content { entries, ..Content::default() }, written: None }
    }

    /// The same index with other `entries`, which are sorted by path.
    pub(crate) fn with(&self, entries: Vec<Entry>) -> Self {
        let content = Content { version: self.content.version, entries, ..Content::default() };
        Self { content, written: self.written }
    }

    /// Adds the cache of trees for an index that holds exactly the files in `tree`.
    pub(crate) fn with_trees_of(mut self, repo: &Repository, tree: Option<Oid>) -> Result<Self> {
        self.content.trees = tree.map(|tree| Trees::of(repo, tree)).transpose()?;
        Ok(self)
    }

    /// Returns true if it has a cache of trees.
    pub(crate) fn has_trees(&self) -> bool {
        self.content.trees.is_some()
    }

    /// Returns true if it has exactly these files.
    pub(crate) fn is_of(&self, files: &BTreeMap<Vec<u8>, Node>) -> bool {
        let same = |entry: &Entry| !entry.is_conflict() && files.get(&entry.path) == Some(&entry.node);
        self.entries().len() == files.len() && self.entries().iter().all(same)
    }

    /// All entries, by path.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.content.entries
    }

    /// The entry for `path` that is no side of a conflict.
    pub(crate) fn entry(&self, path: &[u8]) -> Option<&Entry> {
        self.any(path).filter(|entry| !entry.is_conflict())
    }

    /// The entry for `path`; of a conflict, one of the sides.
    pub(crate) fn any(&self, path: &[u8]) -> Option<&Entry> {
        self.entries().get(self.from(path)).filter(|entry| entry.path == path)
    }

    /// Returns true if it has an entry in the folder `path`.
    pub(crate) fn has_below(&self, path: &[u8]) -> bool {
        let below = join(path, b"");
        self.entries().get(self.from(&below)).is_some_and(|entry| entry.path.starts_with(&below))
    }

    /// Returns the position of the first entry that is not before `path`.
    fn from(&self, path: &[u8]) -> usize {
        self.entries().partition_point(|entry| entry.path.as_slice() < path)
    }

    /// Sets an entry that is no side of a conflict. A file goes where it is a folder now, and the other way round.
    pub(crate) fn set(&mut self, entry: Entry) {
        let slashes = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above: Vec<_> = slashes.filter_map(|end| entry.path.get(..end)).collect();
        above.iter().for_each(|above| self.remove(above));
        if self.has_below(&entry.path) {
            let below = join(&entry.path, b"");
            self.content.entries.retain(|entry| !entry.path.starts_with(&below));
        }
        self.forget(&entry.path);
        let at = self.from(&entry.path);
        match self.content.entries.get_mut(at) {
            Some(there) if there.path == entry.path && !there.is_conflict() => *there = entry,
            _ => self.content.entries.insert(at, entry),
        }
    }

    /// Removes the entry for `path` that is no side of a conflict.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        if self.entry(path).is_some() {
            self.forget(path);
            self.content.entries.remove(self.from(path));
        }
    }

    fn forget(&mut self, path: &[u8]) {
        if let Some(trees) = &mut self.content.trees {
            trees.forget(path);
        }
    }

    /// Marks files that the sandbox hides as absent on purpose: git inside neither misses nor changes them. Whether there
    /// are any that were not marked.
    pub(crate) fn hide(&mut self, hidden: &Hidden) -> bool {
        let counts =
            |entry: &&mut Entry| !entry.is_conflict() && !entry.is_sparse() && hidden.has(&entry.path);
        let mut any = false;
        for entry in self.content.entries.iter_mut().filter(counts) {
            *entry = entry.clone().sparse();
            any = true;
        }
        any
    }

    /// Returns true if `stat` proves that the file is the one the entry was made from.
    pub(crate) fn is_fresh(&self, entry: &Entry, stat: &Stat) -> bool {
        entry.stamp.is_same(&Stamp::of(stat))
            && self.written.is_some_and(|written| (seconds(stat), nanoseconds(stat)) < written)
    }

    /// Makes git look at the files that were changed in the instant in which their entry was made: from an index
    /// written later it would believe the entry. For an index of the checkout `files` that is about to be rewritten.
    pub(crate) fn settle(&mut self, files: &Path) {
        let Some(written) = self.written else { return };
        let is_racy = |entry: &&mut Entry| {
            let [seconds, nanoseconds] = entry.stamp.mtime.map(i64::from);
            let counts = entry.node.is_file() && !entry.is_conflict() && entry.stamp.size != 0;
            counts && (seconds, nanoseconds) >= written
        };
        for entry in self.content.entries.iter_mut().filter(is_racy) {
            let path = files.join(OsStr::from_bytes(&entry.path));
            let is = |path: &Path, what: fn(&std::fs::Metadata) -> bool| {
                std::fs::symlink_metadata(path).is_ok_and(|metadata| what(&metadata))
            };
            // Through a link the file would be one outside.
            let above = path.ancestors().skip(1).take_while(|above| *above != files);
            let is_file = is(&path, std::fs::Metadata::is_file)
                && above.into_iter().all(|above| is(above, std::fs::Metadata::is_dir));
            if is_file && files::hash_plain(&path).ok().flatten() != Some(entry.node.id) {
                // Without a size, git looks at the file.
                entry.stamp.size = 0;
            }
        }
    }

    /// The index as a file's content.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        index_format::write(&self.content)
    }
}

fn seconds(stat: &Stat) -> i64 {
    stat.st_mtime
}

fn nanoseconds(stat: &Stat) -> i64 {
    stat.st_mtime_nsec as i64
}
