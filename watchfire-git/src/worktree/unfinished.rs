//! Finds merges that an agent left unfinished: files in which both sides stand one below the other.

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::WorkspaceKey;

use crate::error::During;
use crate::files;
use crate::index::file::IndexFile;
use crate::merge::trees::MAX_TEXT;
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

/// Number of characters of git's shortest marks. Fewer stand in texts for other things.
const SHORTEST: usize = 7;

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
    // Whatever the agent did: a rebase, a cherry-pick, a stash or a merge that it squashed leaves no trace of itself.
    for change in tree_diff::diff(repo, old, new)? {
        let Some(node) = change.new.filter(Node::is_file) else { continue };
        let before = change.old.filter(Node::is_file);
        // Marks that were there at the base are not the agent's.
        if has_marks(repo, node)? && !before.map_or(Ok(false), |before| has_marks(repo, before))? {
            found.insert(RepoPath::new(change.path), node.id.to_string());
        }
    }
    Ok(found)
}

/// Returns true if a text has all three lines with which git marks a conflict, in the right order and of one length, which
/// the attribute `conflict-marker-size` gives.
fn has_marks(repo: &Repository, node: Node) -> Result<bool> {
    let during = "reading a file";
    // git merges nothing larger line by line either, and so marks nothing in it.
    if repo.odb().and_then(|odb| odb.read_header(node.id)).during(during)?.0 > MAX_TEXT {
        return Ok(false);
    }
    let blob = repo.find_blob(node.id).during(during)?;
    Ok(!is_binary(blob.content()) && marks_conflict(blob.content()))
}

fn marks_conflict(text: &[u8]) -> bool {
    // The length of the marks, and true from the middle one on.
    let mut open: Option<(usize, bool)> = None;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(first @ (b'<' | b'=' | b'>')) = line.first() else { continue };
        let length = line.iter().take_while(|byte| *byte == first).count();
        let rest = line.get(length..).unwrap_or_default();
        // The outer marks are followed by the name of a side.
        match (first, open) {
            (b'<', _) if length >= SHORTEST && rest.starts_with(b" ") => open = Some((length, false)),
            (b'=', Some((of, _))) if length == of && rest.is_empty() => open = Some((of, true)),
            (b'>', Some((of, true))) if length == of && rest.starts_with(b" ") => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_one_length_in_their_order_are_a_conflict() {
        for (text, is_conflict) in [
            ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> abc (c)\n", true),
            ("<<<<<<< HEAD\r\na\r\n||||||| base\r\n=======\r\nb\r\n>>>>>>> x\r\n", true),
            ("<<<<<<<<<<<< a\n============\n>>>>>>>>>>>> b\n", true),
            ("<<<<<<< a\n<<<<<<<<< b\n=========\n>>>>>>>>> c\n", true),
            ("<<<<<<<< a\n=======\n>>>>>>> b\n", false),
            (">>>>>>> a\n=======\n<<<<<<< b\n", false),
            ("Title\n=======\n", false),
            ("<<<<<< a\n======\n>>>>>> b\n", false),
        ] {
            assert_eq!(marks_conflict(text.as_bytes()), is_conflict, "{text}");
        }
    }
}
