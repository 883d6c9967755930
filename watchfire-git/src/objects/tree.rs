//! Trees of the object database, read one level at a time.

use std::collections::BTreeMap;

use git2::{Oid, Repository, TreeEntry};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};

/// Maximum depth of folders. A tree that an agent made by hand could be deeper than the stack of a thread.
pub(crate) const MAX_DEPTH: usize = 200;

/// Upper bound for the files of a tree. No project has more, but a tree that holds another one ten times, and
/// so on, would.
const MOST_FILES: usize = 5_000_000;

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const FOLDER: u32 = 0o040_000;
pub(crate) const SUBMODULE: u32 = 0o160_000;

/// The object that a name in a tree stands for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) mode: u32,
    pub(crate) id: Oid,
}

impl Node {
    pub(crate) fn of(entry: &TreeEntry<'_>) -> Self {
        Self { mode: u32::try_from(entry.filemode()).unwrap_or(FILE), id: entry.id() }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.mode == FOLDER
    }

    /// Returns true for a file with content, executable or not.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.mode, FILE | EXECUTABLE)
    }
}

/// Returns the entries of one tree, or none without a tree.
pub(crate) fn level(repo: &Repository, tree: Option<Oid>) -> Result<BTreeMap<Vec<u8>, Node>> {
    let Some(id) = tree else { return Ok(BTreeMap::new()) };
    let tree = repo.find_tree(id).during("reading a tree")?;
    Ok(tree.iter().map(|entry| (entry.name_bytes().to_vec(), Node::of(&entry))).collect())
}

/// Returns everything below a tree by path, except for the folders themselves.
pub(crate) fn flatten(repo: &Repository, tree: Option<Oid>) -> Result<BTreeMap<Vec<u8>, Node>> {
    let mut all = BTreeMap::new();
    let mut pending = vec![(Vec::new(), tree, 0)];
    while let Some((prefix, tree, depth)) = pending.pop() {
        check_depth(depth)?;
        for (name, node) in level(repo, tree)? {
            let path = join(&prefix, &name);
            // Checked while reading: a few small objects can stand for more files than there is memory.
            if all.len() > MOST_FILES {
                return Err(broken("a tree has more files than any project"));
            }
            if node.is_folder() {
                pending.push((path, Some(node.id), depth + 1));
            } else {
                all.insert(path, node);
            }
        }
    }
    Ok(all)
}

/// Returns the node at `path`, or `None` if there is none.
pub(crate) fn lookup(repo: &Repository, tree: Option<Oid>, path: &[u8]) -> Result<Option<Node>> {
    let mut at = tree;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let Some(id) = at else { return Ok(None) };
        let tree = repo.find_tree(id).during("reading a tree")?;
        let Some(entry) = tree.get_name_bytes(part) else { return Ok(None) };
        let node = Node::of(&entry);
        if parts.peek().is_none() {
            return Ok(Some(node));
        }
        // A file on the way ends the search.
        at = node.is_folder().then_some(node.id);
    }
    Ok(None)
}

/// Returns the path of `name` below `prefix`.
pub(crate) fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// Returns an error for trees that are deeper than [`MAX_DEPTH`].
pub(crate) fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(
            Error::new(ErrorKind::NotSupported, "folders are nested too deeply").with("limit", MAX_DEPTH)
        );
    }
    Ok(())
}

/// Returns the tree of a commit, or `None` without a commit.
pub(crate) fn of_commit(repo: &Repository, commit: Option<Oid>) -> Result<Option<Oid>> {
    commit.map(|id| Ok(repo.find_commit(id).during("reading a commit")?.tree_id())).transpose()
}
