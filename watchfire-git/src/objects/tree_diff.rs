//! The differences between two trees. Folders that are equal on both sides are not read.

use git2::{Oid, Repository, Tree};
use watchfire_core::Result;

use crate::error::During;
use crate::objects::tree::{Node, check_depth, join};

/// A path that differs between two trees.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) old: Option<Node>,
    pub(crate) new: Option<Node>,
}

/// A name, and its node on either side.
type Differing = (Vec<u8>, Option<Node>, Option<Node>);

/// Returns all paths that differ between `old` and `new`, sorted. A folder appears as the files in it.
pub(crate) fn diff(repo: &Repository, old: Option<Oid>, new: Option<Oid>) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    descend(repo, old, new, &[], 0, &mut changes)?;
    // git sorts a folder as if its name ended with a slash, so the order of levels is not that of whole
    // paths.
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

fn descend(
    repo: &Repository,
    old: Option<Oid>,
    new: Option<Oid>,
    prefix: &[u8],
    depth: usize,
    changes: &mut Vec<Change>,
) -> Result<()> {
    if old == new {
        return Ok(());
    }
    check_depth(depth)?;
    for (name, old, new) in differing(repo, old, new)? {
        let path = join(prefix, &name);
        // A folder in place of a file is two kinds of change at once: the file goes, and the folder's files
        // come.
        let folder = |node: Option<Node>| node.filter(Node::is_folder).map(|node| node.id);
        let leaf = |node: Option<Node>| node.filter(|node| !node.is_folder());
        descend(repo, folder(old), folder(new), &path, depth + 1, changes)?;
        let (old, new) = (leaf(old), leaf(new));
        if old != new {
            changes.push(Change { path, old, new });
        }
    }
    Ok(())
}

/// Returns the names of one level that differ. Equal ones are not even copied: in a folder they are nearly
/// all.
fn differing(repo: &Repository, old: Option<Oid>, new: Option<Oid>) -> Result<Vec<Differing>> {
    let find = |id: Option<Oid>| id.map(|id| repo.find_tree(id)).transpose().during("reading a tree");
    let (old, new) = (find(old)?, find(new)?);
    let find = |tree: &Option<Tree<'_>>, name: &[u8]| {
        tree.as_ref().and_then(|tree| tree.get_name_bytes(name)).map(|entry| Node::of(&entry))
    };
    let mut pairs = Vec::new();
    for entry in old.iter().flat_map(Tree::iter) {
        let (name, here, there) = (entry.name_bytes(), Node::of(&entry), find(&new, entry.name_bytes()));
        if Some(here) != there {
            pairs.push((name.to_vec(), Some(here), there));
        }
    }
    for entry in new.iter().flat_map(Tree::iter) {
        if find(&old, entry.name_bytes()).is_none() {
            pairs.push((entry.name_bytes().to_vec(), None, Some(Node::of(&entry))));
        }
    }
    Ok(pairs)
}
