//! Finds merges that an agent left unfinished: files in which both sides stand one below the other.

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::WorkspaceKey;

use crate::error::During;
use crate::files;
use crate::index::file::IndexFile;
use crate::objects::id::hex;
use crate::objects::text::is_binary;
use crate::objects::tree::{self, Node};
use crate::objects::tree_diff;
use crate::private::copies::Private;
use crate::repository::left;
use crate::repository::project::Project;
use crate::repository::record::Unfinished;

/// Upper bound for a note of git's, in bytes.
const NOTE: u64 = 64 << 10;

/// A merge that is under way in an agent's git.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    /// The commit that is being merged.
    pub(crate) with: Option<Oid>,
    /// True if a rebase is under way.
    pub(crate) is_rebase: bool,
    /// The paths that the agent's index has as unmerged.
    unmerged: Vec<Vec<u8>>,
}

impl Underway {
    /// Reads the state of the git of `key`.
    pub(crate) fn of(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Self> {
        // Without private copies, the agent's git works on the administration itself.
        let admin = Private::find(project, key).map_or_else(|| project.admin(key), |private| private.admin());
        let note = files::read_plain(&admin.join("MERGE_HEAD"), NOTE).ok().flatten().unwrap_or_default();
        let with = hex(note.trim_ascii()).filter(|id| repo.find_commit(*id).is_ok());
        let index = IndexFile::read(&admin.join("index")).unwrap_or_default();
        let mut unmerged: Vec<_> = index
            .entries()
            .iter()
            .filter(|entry| entry.is_conflict())
            .map(|entry| entry.path.clone())
            .collect();
        unmerged.dedup();
        Ok(Self { with, is_rebase: left::is_rebasing(&admin), unmerged })
    }
}

/// Returns the files of merges that are not finished in `tip`. Files that an earlier capture found (`known`)
/// count until the agent has changed them.
pub(crate) fn files(
    repo: &Repository,
    underway: &Underway,
    known: &Unfinished,
    base: Option<Oid>,
    tip: Option<Oid>,
) -> Result<Unfinished> {
    let (old, new) = (tree::of_commit(repo, base)?, tree::of_commit(repo, tip)?);
    let mut found = Unfinished::new();
    let id = |node: Option<Node>| node.map_or_else(String::new, |node| node.id.to_string());
    for path in &underway.unmerged {
        found.insert(RepoPath::new(path.clone()), id(tree::lookup(repo, new, path)?));
    }
    for (path, content) in known {
        if id(tree::lookup(repo, new, path.as_bytes())?) == *content {
            found.insert(path.clone(), content.clone());
        }
    }
    let merges = underway.with.is_some() || !underway.unmerged.is_empty() || !known.is_empty();
    // Without a merge, lines that look like marks are the text's own.
    if merges || has_merges(repo, base, tip)? {
        for change in tree_diff::diff(repo, old, new)? {
            let Some(node) = change.new.filter(Node::is_file) else { continue };
            let before = change.old.filter(Node::is_file);
            // Marks that were there at the base are not the agent's.
            if has_marks(repo, node)? && !before.map_or(Ok(false), |before| has_marks(repo, before))? {
                found.insert(RepoPath::new(change.path), node.id.to_string());
            }
        }
    }
    Ok(found)
}

/// Returns true if the agent has made a merge since `base`.
fn has_merges(repo: &Repository, base: Option<Oid>, tip: Option<Oid>) -> Result<bool> {
    let during = "walking the history";
    let Some(tip) = tip else { return Ok(false) };
    let mut walk = repo.revwalk().during(during)?;
    walk.push(tip).during(during)?;
    base.map_or(Ok(()), |base| walk.hide(base)).during(during)?;
    for id in walk {
        if repo.find_commit(id.during(during)?).during(during)?.parent_count() > 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a text has all three lines with which git marks a conflict, in the right order.
fn has_marks(repo: &Repository, node: Node) -> Result<bool> {
    let blob = repo.find_blob(node.id).during("reading a file")?;
    if is_binary(blob.content()) {
        return Ok(false);
    }
    let mut wanted = [&b"<<<<<<< "[..], b"=======", b">>>>>>> "].into_iter().peekable();
    for line in blob.content().split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_mark =
            // The outer marks are followed by the name of a side.
            |mark: &&[u8]| if mark.ends_with(b" ") { line.starts_with(mark) } else { line == *mark };
        _ = wanted.next_if(is_mark);
    }
    Ok(wanted.peek().is_none())
}
