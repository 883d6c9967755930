//! Reads and writes index files as plain files. The caller holds the lock, and decides when a new index takes
//! effect.

use std::collections::{BTreeMap, HashSet};
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
use crate::objects::tree::{Node, join};

/// Upper bound for an index, in bytes: more than an index of five million files has.
const LARGEST: u64 = 512 << 20;

/// An index in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexFile {
    content: Content,
    /// Time at which the original was written. A file that is as young may have changed without its entry
    /// showing it.
    written: Option<(i64, i64)>,
}

impl IndexFile {
    /// Reads the index at `path`. Returns an index without entries if there is none.
    ///
    /// # Errors
    /// `workspace_broken` if the index is damaged, or of a form that is not read here.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        // Before the content: if the index is replaced in between, its older time makes more files count as
        // changed.
        let stat = files::absent(rustix::fs::lstat(path).map_err(Into::into)).during("reading the index")?;
        let Some(stat) = stat else { return Ok(Self::default()) };
        let bytes = files::read_plain(path, LARGEST)?
            .ok_or_else(|| broken("an index is no plain file, or larger than any").with_path(path))?;
        let content = index_format::read(&bytes).map_err(|e| e.with_path(path))?;
        Ok(Self { content, written: Some((seconds(&stat), nanoseconds(&stat))) })
    }

    /// Reads an index that is in memory. No bytes are an index without entries, as a repository without a commit has it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { content: index_format::read(bytes)?, written: None })
    }

    /// Makes an index of `entries`, which are sorted by path.
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        Self { content: Content { entries, ..Content::default() }, written: None }
    }

    /// Makes an index like this one with other `entries`, which are sorted by path.
    pub(crate) fn with(&self, entries: Vec<Entry>) -> Self {
        let content = Content { version: self.content.version, entries, ..Content::default() };
        Self { content, written: self.written }
    }

    /// Adds the cache of trees for an index that holds exactly the files in `tree`.
    pub(crate) fn with_trees_of(mut self, repo: &Repository, tree: Option<Oid>) -> Result<Self> {
        self.content.trees = tree.map(|tree| Trees::of(repo, tree)).transpose()?;
        Ok(self)
    }

    /// Returns true if the index has a cache of trees.
    pub(crate) fn has_trees(&self) -> bool {
        self.content.trees.is_some()
    }

    /// Returns true if the index has exactly these files.
    pub(crate) fn is_of(&self, files: &BTreeMap<Vec<u8>, Node>) -> bool {
        let same = |entry: &Entry| !entry.is_conflict() && files.get(&entry.path) == Some(&entry.node);
        self.entries().len() == files.len() && self.entries().iter().all(same)
    }

    /// Returns true if a path is in conflict.
    pub(crate) fn has_conflicts(&self) -> bool {
        self.entries().iter().any(Entry::is_conflict)
    }

    /// Returns all entries, by path.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.content.entries
    }

    /// Returns the entry for `path`, unless it is a side of a conflict.
    pub(crate) fn entry(&self, path: &[u8]) -> Option<&Entry> {
        self.any(path).filter(|entry| !entry.is_conflict())
    }

    /// Returns the entry for `path`. In a conflict, it is one of the sides.
    pub(crate) fn any(&self, path: &[u8]) -> Option<&Entry> {
        self.entries().get(self.from(path)).filter(|entry| entry.path == path)
    }

    /// Returns true if the index has an entry in the folder `path`.
    pub(crate) fn has_below(&self, path: &[u8]) -> bool {
        let below = join(path, b"");
        self.entries().get(self.from(&below)).is_some_and(|entry| entry.path.starts_with(&below))
    }

    /// Returns the position of the first entry that is not before `path`.
    fn from(&self, path: &[u8]) -> usize {
        self.entries().partition_point(|entry| entry.path.as_slice() < path)
    }

    /// Sets an entry that is no side of a conflict. Entries that cannot exist beside it go: a file in place
    /// of one of its folders, or files below it.
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
        // Sides of a conflict come after the entry without one.
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

    /// Does what [`set`](Self::set) and [`remove`](Self::remove) do, for many entries at once: each insertion moves all that
    /// come after it.
    pub(crate) fn change(&mut self, set: Vec<Entry>, removed: &[&[u8]]) {
        let position = |index: &Self, path: &[u8]| index.entry(path).map(|_| index.from(path));
        let mut gone = HashSet::new();
        for path in removed {
            if let Some(at) = position(self, path) {
                gone.insert(at);
                self.forget(path);
            }
        }
        for entry in &set {
            for end in entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
                let above = entry.path.get(..end).unwrap_or_default();
                if let Some(at) = position(self, above) {
                    gone.insert(at);
                    self.forget(above);
                }
            }
            let below = join(&entry.path, b"");
            let from = self.from(&below);
            let inside = self.entries().iter().skip(from).take_while(|entry| entry.path.starts_with(&below));
            gone.extend(from..from + inside.count());
            gone.extend(position(self, &entry.path));
            self.forget(&entry.path);
        }
        let mut at = 0..;
        self.content.entries.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
        self.content.entries.extend(set);
        // Sides of a conflict come after the entry without one.
        self.content.entries.sort_by(|a, b| (&a.path, a.stage()).cmp(&(&b.path, b.stage())));
    }

    fn forget(&mut self, path: &[u8]) {
        if let Some(trees) = &mut self.content.trees {
            trees.forget(path);
        }
    }

    /// Marks the files that the sandbox hides as absent on purpose, so that the agent's git neither misses
    /// nor changes them. Returns true if any was not marked before.
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

    /// Returns true if `stat` proves that the file is the one from which the entry was made.
    pub(crate) fn is_fresh(&self, entry: &Entry, stat: &Stat) -> bool {
        entry.stamp.is_same(&Stamp::of(stat))
            // A file as young as the index may have changed once more in the same instant.
            && self.written.is_some_and(|written| (seconds(stat), nanoseconds(stat)) < written)
    }

    /// Makes git look again at files of the checkout `files` that changed in the instant in which their entry
    /// was made. Called before an index is rewritten: git believes entries that are older than their index,
    /// and a new index would make them older.
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
            // A link on the way would lead to a file outside of the checkout.
            let above = path.ancestors().skip(1).take_while(|above| *above != files);
            let is_file = is(&path, std::fs::Metadata::is_file)
                && above.into_iter().all(|above| is(above, std::fs::Metadata::is_dir));
            if is_file && files::hash_plain(&path).ok().flatten() != Some(entry.node.id) {
                // Without a size, git looks at the file.
                entry.stamp.size = 0;
            }
        }
    }

    /// Returns the content of the index file.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::tree::FILE;

    fn entry(path: &str, stage: u16, id: u8) -> Entry {
        let node = Node { mode: FILE, id: Oid::from_bytes(&[id; 20]).unwrap() };
        let mut entry = Entry::new(path.as_bytes(), node, None);
        entry.flags = stage << 12;
        entry
    }

    proptest! {
        /// Files come in place of folders, folders in place of files, and sides of conflicts stay.
        #[test]
        fn many_changes_are_as_one_by_one(
            there in prop::collection::btree_map(("[ab](/[ab]){0,2}", 0_u16..4), any::<u8>(), 0..12),
            set in prop::collection::btree_map("[ab](/[ab]){0,2}", any::<u8>(), 0..6),
            removed in prop::collection::btree_set("[ab](/[ab]){0,2}", 0..6),
        ) {
            let entries = there.iter().map(|((path, stage), id)| entry(path, *stage, *id)).collect();
            let is_below = |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
            // Of one tree: no path of it lies below another.
            let set: Vec<_> = set
                .iter()
                .filter(|(path, _)| set.keys().all(|above| !is_below(path, above)) && !removed.contains(*path))
                .map(|(path, id)| entry(path, 0, *id))
                .collect();
            let mut one_by_one = IndexFile::of(entries);
            let mut at_once = one_by_one.clone();
            removed.iter().for_each(|path| one_by_one.remove(path.as_bytes()));
            set.iter().for_each(|entry| one_by_one.set(entry.clone()));
            let removed: Vec<_> = removed.iter().map(String::as_bytes).collect();
            at_once.change(set, &removed);
            prop_assert_eq!(at_once.entries(), one_by_one.entries());
        }
    }
}
