//! git's cache of trees in an index: the tree of each folder's entries, which saves git from looking at every
//! entry.

use git2::{Oid, Repository, Tree};
use watchfire_core::Result;

use crate::error::During;
use crate::objects::tree::{MAX_DEPTH, Node, check_depth};

/// The cache: the folders in the order of the file, each followed by the folders in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Trees(Vec<Folder>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Folder {
    /// Empty for the top.
    name: Vec<u8>,
    /// Number of entries below and the tree that they form, or `None` if git must form it anew.
    tree: Option<(usize, Oid)>,
    /// Number of following folders that are directly in this one.
    direct: usize,
    below: usize,
}

impl Trees {
    /// Returns the cache for an index that holds exactly the files in `tree`. With it, the first commit in a
    /// folder writes only the trees that changed.
    pub(crate) fn of(repo: &Repository, tree: Oid) -> Result<Self> {
        let mut folders = Vec::new();
        add(repo, Vec::new(), tree, 0, &mut folders)?;
        Ok(Self(folders))
    }

    /// Reads the extension `TREE`. Returns `None` if it is damaged, because it is only a cache.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut folders: Vec<Folder> = Vec::new();
        // The folders that are not complete yet, and the number of folders that each still lacks.
        let mut open: Vec<(usize, usize)> = Vec::new();
        loop {
            let name = until(&mut bytes, 0)?.to_vec();
            let count = until(&mut bytes, b' ')?;
            let direct = str::from_utf8(until(&mut bytes, b'\n')?).ok()?.parse().ok()?;
            // A count of -1: git must make the tree anew.
            let tree = if count.starts_with(b"-") {
                None
            } else {
                let (id, rest) = bytes.split_first_chunk::<20>()?;
                bytes = rest;
                Some((str::from_utf8(count).ok()?.parse().ok()?, Oid::from_bytes(id).ok()?))
            };
            folders.push(Folder { name, tree, direct, below: 0 });
            open.push((folders.len() - 1, direct));
            while let Some((at, 0)) = open.last().copied() {
                open.pop();
                let below = folders.len() - 1 - at;
                folders.get_mut(at)?.below = below;
            }
            if open.len() > MAX_DEPTH {
                return None;
            }
            match open.last_mut() {
                Some((_, lacking)) => *lacking -= 1,
                None => break,
            }
        }
        bytes.is_empty().then_some(Self(folders))
    }

    /// Returns the content of the extension.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for Folder { name, tree, direct, .. } in &self.0 {
            out.extend(name);
            out.push(0);
            let count = tree.map_or("-1".to_owned(), |(count, _)| count.to_string());
            out.extend(format!("{count} {direct}\n").as_bytes());
            out.extend(tree.iter().flat_map(|(_, id)| id.as_bytes()));
        }
        out
    }

    /// Forgets the trees of all folders that contain `path`, and of all folders in it, if it was a folder.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        let mut parts = path.split(|byte| *byte == b'/');
        let mut at = 0;
        loop {
            let Some(folder) = self.0.get_mut(at) else { return };
            folder.tree = None;
            let (mut left, below) = (folder.direct, folder.below);
            let Some(part) = parts.next() else {
                let inside = self.0.iter_mut().skip(at + 1).take(below);
                return inside.for_each(|folder| folder.tree = None);
            };
            at += 1;
            while left > 0 && self.0.get(at).is_some_and(|folder| folder.name != part) {
                at += self.0.get(at).map_or(0, |folder| folder.below) + 1;
                left -= 1;
            }
            if left == 0 {
                return;
            }
        }
    }
}

/// Adds a folder and the folders in it. Returns the number of entries below.
fn add(repo: &Repository, name: Vec<u8>, id: Oid, depth: usize, folders: &mut Vec<Folder>) -> Result<usize> {
    check_depth(depth)?;
    let tree = repo.find_tree(id).during("reading a tree")?;
    let nodes = || tree.iter().map(|entry| (entry.name_bytes().to_vec(), Node::of(&entry)));
    let mut inside: Vec<_> = nodes().filter(|(_, node)| node.is_folder()).collect();
    // In git's order: shorter names first.
    inside.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    let (at, direct) = (folders.len(), inside.len());
    let mut count = Tree::len(&tree) - direct;
    folders.push(Folder { name, tree: None, direct, below: 0 });
    for (name, node) in inside {
        count += add(repo, name, node.id, depth + 1, folders)?;
    }
    let below = folders.len() - 1 - at;
    if let Some(folder) = folders.get_mut(at) {
        (folder.tree, folder.below) = (Some((count, id)), below);
    }
    Ok(count)
}

fn until<'a>(bytes: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = bytes.iter().position(|byte| *byte == end)?;
    let (taken, rest) = bytes.split_at_checked(at)?;
    *bytes = rest.get(1..)?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of a cache with `a/{x,y}/`, `ab/` and the top.
    fn bytes(top: &str, a: &str, x: &str, y: &str, ab: &str) -> Vec<u8> {
        let folder = |name: &str, count: &str, folders: usize| {
            let id: &[u8] = if count == "-1" { &[] } else { &[7; 20] };
            [name.as_bytes(), b"\0", format!("{count} {folders}\n").as_bytes(), id].concat()
        };
        [folder("", top, 2), folder("a", a, 2), folder("x", x, 0), folder("y", y, 0), folder("ab", ab, 0)]
            .concat()
    }

    #[test]
    fn what_is_read_is_written() {
        for whole in [bytes("9", "4", "2", "2", "1"), bytes("-1", "-1", "2", "2", "1")] {
            assert_eq!(Trees::read(&whole).unwrap().to_bytes(), whole);
            for length in 0..whole.len() {
                assert_eq!(Trees::read(&whole[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn a_change_is_forgotten_up_to_the_top() {
        for (path, left) in [
            ("a/y/file", bytes("-1", "-1", "2", "-1", "1")),
            ("a/file", bytes("-1", "-1", "2", "2", "1")),
            ("ab/file", bytes("-1", "4", "2", "2", "-1")),
            ("file", bytes("-1", "4", "2", "2", "1")),
            ("a", bytes("-1", "-1", "-1", "-1", "1")),
            ("new/file", bytes("-1", "4", "2", "2", "1")),
        ] {
            let mut trees = Trees::read(&bytes("9", "4", "2", "2", "1")).unwrap();
            trees.forget(path.as_bytes());
            assert_eq!(trees.to_bytes(), left, "{path}");
        }
    }
}
