//! Indices made from trees.

use git2::{Oid, Repository};
use rustix::fs::Stat;
use watchfire_core::Result;

use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::repository::tree::{self, Node};

/// Files as they were written: path, the node that git has there, and what the file is.
pub(crate) type Written = Vec<(Vec<u8>, Node, Option<Stat>)>;

/// The index of the files of `tree` as they were written.
pub(crate) fn index_of(repo: &Repository, tree: Option<Oid>, written: Written) -> Result<IndexFile> {
    let entry = |(path, node, stat): &(Vec<u8>, _, Option<_>)| Entry::new(path, *node, stat.as_ref());
    let mut entries: Vec<_> = written.iter().map(entry).collect();
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    IndexFile::of(entries).with_trees_of(repo, tree)
}

/// Returns the index of a commit's files without their states on disk: git will look at each.
pub(crate) fn unlooked(repo: &Repository, commit: Option<Oid>) -> Result<IndexFile> {
    let tree = tree::of_commit(repo, commit)?;
    let files = tree::flatten(repo, tree)?;
    index_of(repo, tree, files.into_iter().map(|(path, node)| (path, node, None)).collect())
}
