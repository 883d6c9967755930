//! Merges with renames. libgit2 does them, on a handle without a checkout: there it reads no attributes, whose patterns could
//! keep it busy for ever. What the attributes ask for is put in, or checked, afterwards.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{Commit, Index, IndexEntry, IndexTime, ObjectType, Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::merge::trees::{Clash, Driver, Merged, driver};
use crate::objects::tree::{self, Node};
use crate::objects::tree_diff::{self, Change};
use crate::worktree::attributes::Attributes;

/// Merges three trees, the base first, of which `own` is the merge without renames. Returns `None` after a conflict.
pub(crate) fn merge(
    repo: &Repository,
    attributes: &Attributes<'_>,
    [base, ours, theirs]: [Oid; 3],
    own: &Merged,
) -> Result<Option<Oid>> {
    let bare = bare(repo)?;
    let tree = |id| bare.find_tree(id).during("reading a tree");
    let mut whole = bare.merge_trees(&tree(base)?, &tree(ours)?, &tree(theirs)?, None).during("merging")?;
    let conflicts = whole.conflicts().during("merging")?.collect::<std::result::Result<Vec<_>, _>>();
    for conflict in conflicts.during("merging")? {
        let sides = [conflict.ancestor, conflict.our, conflict.their];
        let Some(path) = sides.into_iter().flatten().map(|entry| entry.path).next() else { return Ok(None) };
        // A file that conflicts only because the attributes were not read, for example with `merge=union`.
        let clashes = own.clashes.iter().any(|clash| clash.path == path);
        let resolved = if clashes { None } else { tree::lookup(repo, own.tree, &path)? };
        let Some(node) = resolved else { return Ok(None) };
        resolve(&mut whole, path, node)?;
    }
    let written = write(&mut whole, repo)?;
    let obeys = obeys(repo, attributes, [Some(base), Some(ours), Some(theirs)], own.tree, written)?;
    Ok(obeys.then_some(written))
}

/// Merges two commits with several merge bases, which are merged first. Returns `None` after a conflict.
pub(crate) fn merge_commits(
    repo: &Repository,
    attributes: &Attributes<'_>,
    ours: &Commit<'_>,
    theirs: &Commit<'_>,
) -> Result<Option<Oid>> {
    let bare = bare(repo)?;
    let commit = |id| bare.find_commit(id).during("reading a commit");
    let mut whole = bare.merge_commits(&commit(ours.id())?, &commit(theirs.id())?, None).during("merging")?;
    if whole.has_conflicts() {
        return Ok(None);
    }
    let written = write(&mut whole, repo)?;
    let sides = [None, Some(ours.tree_id()), Some(theirs.tree_id())];
    Ok(obeys(repo, attributes, sides, None, written)?.then_some(written))
}

/// Returns the files that both sides took from their place, and that one of them put elsewhere, unchanged, but not where the
/// other did. git reports these as conflicts, though no path has two sides.
pub(crate) fn at_odds(repo: &Repository, [base, ours, theirs]: [Oid; 3]) -> Result<Vec<Clash>> {
    let ours = tree_diff::diff(repo, Some(base), Some(ours))?;
    let theirs = tree_diff::diff(repo, Some(base), Some(theirs))?;
    let gone = |changes: &[Change]| -> BTreeMap<Vec<u8>, Node> {
        let gone = changes.iter().filter(|change| change.new.is_none());
        gone.filter_map(|change| Some((change.path.clone(), change.old.filter(Node::is_file)?))).collect()
    };
    let mut both = gone(&ours);
    let in_theirs = gone(&theirs);
    both.retain(|path, _| in_theirs.contains_key(path));
    // git takes no empty file for a renamed one.
    let empty = Oid::hash_object(ObjectType::Blob, &[]).during("naming a file")?;
    both.retain(|_, node| node.id != empty);
    let places = |changes: &[Change], id: Oid| -> HashSet<Vec<u8>> {
        let is_new = |change: &&Change| {
            change.old.is_none() && change.new.is_some_and(|new| new.is_file() && new.id == id)
        };
        changes.iter().filter(is_new).map(|change| change.path.clone()).collect()
    };
    let at_odds = both.into_iter().filter(|(_, node)| {
        let (ours, theirs) = (places(&ours, node.id), places(&theirs, node.id));
        !(ours.is_empty() && theirs.is_empty()) && ours.is_disjoint(&theirs)
    });
    Ok(at_odds
        .map(|(path, node)| Clash { path, base: Some(node), ours: None, theirs: None, marked: None })
        .collect())
}

fn bare(repo: &Repository) -> Result<Repository> {
    Repository::from_odb(repo.odb().during("opening the objects")?).during("opening the objects")
}

fn write(index: &mut Index, repo: &Repository) -> Result<Oid> {
    index.write_tree_to(repo).during("writing a tree")
}

fn resolve(index: &mut Index, path: Vec<u8>, node: Node) -> Result<()> {
    let during = "merging";
    index.conflict_remove(Path::new(OsStr::from_bytes(&path))).during(during)?;
    let none = IndexTime::new(0, 0);
    let entry = IndexEntry {
        ctime: none,
        mtime: none,
        dev: 0,
        ino: 0,
        mode: node.mode,
        uid: 0,
        gid: 0,
        file_size: 0,
        id: node.id,
        flags: 0,
        flags_extended: 0,
        path,
    };
    index.add(&entry).during(during)
}

/// Returns true if no file was merged line by line that the attributes want otherwise.
fn obeys(
    repo: &Repository,
    attributes: &Attributes<'_>,
    [base, ours, theirs]: [Option<Oid>; 3],
    own: Option<Oid>,
    merged: Oid,
) -> Result<bool> {
    // Content that one side has is no result of a merge, wherever it lies now.
    let mut known = HashSet::new();
    for (old, new) in [(base, ours), (base, theirs), (ours, theirs)] {
        for change in tree_diff::diff(repo, old, new)? {
            known.extend([change.old, change.new].into_iter().flatten().map(|node| node.id));
        }
    }
    for change in tree_diff::diff(repo, ours, Some(merged))? {
        let Some(new) = change.new.filter(|new| new.is_file() && !known.contains(&new.id)) else { continue };
        let as_own = own.is_some() && tree::lookup(repo, own, &change.path)? == Some(new);
        if !as_own && !matches!(driver(repo, attributes, &change.path)?, Driver::Text(None)) {
            return Ok(false);
        }
    }
    Ok(true)
}
