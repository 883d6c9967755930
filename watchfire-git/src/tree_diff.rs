//! What differs between two trees, without expanding what does not.

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::tree::{Node, check_depth, join, level};

/// A path that differs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) old: Option<Node>,
    pub(crate) new: Option<Node>,
}

/// All paths that differ between `old` and `new`, sorted. Folders appear as what is in them.
pub(crate) fn diff(repo: &Repository, old: Option<Oid>, new: Option<Oid>) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    descend(repo, old, new, &[], 0, &mut changes)?;
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
    let (old, mut new) = (level(repo, old)?, level(repo, new)?);
    let mut pairs: Vec<_> = old
        .into_iter()
        .map(|(name, node)| {
            let other = new.remove(&name);
            (name, Some(node), other)
        })
        .collect();
    pairs.extend(new.into_iter().map(|(name, node)| (name, None, Some(node))));
    for (name, old, new) in pairs {
        if old == new {
            continue;
        }
        let path = join(prefix, &name);
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
