//! Makes indices of trees.

use git2::{Oid, Repository};
use rustix::fs::Stat;
use watchfire_core::Result;

use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::objects::tree::{self, Node};

/// Files as they were written: path, git's node, and the state of the file.
pub(crate) type Written = Vec<(Vec<u8>, Node, Option<Stat>)>;

/// Returns the index of the files of `tree` as they were written.
pub(crate) fn index_of(repo: &Repository, tree: Option<Oid>, written: Written) -> Result<IndexFile> {
    let entry = |(path, node, stat): &(Vec<u8>, _, Option<_>)| Entry::new(path, *node, stat.as_ref());
    let mut entries: Vec<_> = written.iter().map(entry).collect();
    // The files may come from several threads, in no order.
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    IndexFile::of(entries).with_trees_of(repo, tree)
}

/// Returns the index of a commit's files without their states on disk, so that git looks at each file.
pub(crate) fn unlooked(repo: &Repository, commit: Option<Oid>) -> Result<IndexFile> {
    let tree = tree::of_commit(repo, commit)?;
    let files = tree::flatten(repo, tree)?;
    index_of(repo, tree, files.into_iter().map(|(path, node)| (path, node, None)).collect())
}
