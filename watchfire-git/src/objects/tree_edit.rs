//! Makes a tree from another one by changing some paths.

use std::collections::BTreeMap;

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::objects::tree::{FOLDER, Node, check_depth};

/// The new node of each path, or `None` to remove it.
pub(crate) type Edits = BTreeMap<Vec<u8>, Option<Node>>;

/// A path below the tree at hand, and its new node.
type Edit<'a> = (&'a [u8], Option<Node>);

/// Returns `tree` with `edits` made, or `None` if nothing is left in it. Writes only the trees on the way to
/// an edit.
pub(crate) fn edit(repo: &Repository, tree: Option<Oid>, edits: &Edits) -> Result<Option<Oid>> {
    let edits: Vec<_> = edits.iter().map(|(path, node)| (path.as_slice(), *node)).collect();
    edit_level(repo, tree, &edits, 0)
}

/// Returns the tree without entries.
pub(crate) fn empty(repo: &Repository) -> Result<Oid> {
    repo.treebuilder(None).and_then(|builder| builder.write()).during("writing an empty tree")
}

fn edit_level(repo: &Repository, tree: Option<Oid>, edits: &[Edit<'_>], depth: usize) -> Result<Option<Oid>> {
    check_depth(depth)?;
    let tree = tree.map(|id| repo.find_tree(id)).transpose().during("reading a tree")?;
    let mut builder = repo.treebuilder(tree.as_ref()).during("writing a tree")?;
    let mut below: BTreeMap<&[u8], Vec<Edit<'_>>> = BTreeMap::new();
    let mut set: BTreeMap<&[u8], Node> = BTreeMap::new();
    for (path, node) in edits {
        match path.iter().position(|byte| *byte == b'/').map(|at| path.split_at(at)) {
            Some((name, rest)) => {
                below.entry(name).or_default().push((rest.get(1..).unwrap_or_default(), *node))
            }
            None => match node {
                Some(node) => _ = set.insert(*path, *node),
                None => {
                    // The path that is removed was a file. A folder of the same name came from other edits.
                    let is_folder =
                        matches!(builder.get(*path), Ok(Some(e)) if e.filemode() == FOLDER as i32);
                    if !is_folder && matches!(builder.get(*path), Ok(Some(_))) {
                        builder.remove(*path).during("writing a tree")?;
                    }
                }
            },
        }
    }
    // Folders first: where a file takes the place of a folder, removing the folder's files must not remove
    // the new file.
    for (name, edits) in below {
        let old = tree.as_ref().and_then(|tree| tree.get_name_bytes(name));
        let old = old.filter(|entry| entry.filemode() == FOLDER as i32).map(|entry| entry.id());
        let here = matches!(builder.get(name), Ok(Some(_)));
        match edit_level(repo, old, &edits, depth + 1)? {
            Some(id) => _ = builder.insert(name, id, FOLDER as i32).during("writing a tree")?,
            None if here && old.is_some() => builder.remove(name).during("writing a tree")?,
            None => {}
        }
    }
    for (name, node) in set {
        builder.insert(name, node.id, node.mode as i32).during("writing a tree")?;
    }
    // git knows no empty folders.
    if builder.is_empty() { Ok(None) } else { builder.write().map(Some).during("writing a tree") }
}
