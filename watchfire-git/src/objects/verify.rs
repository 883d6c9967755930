//! Checks the commits of an agent before anything of the person's can reach them. An agent writes objects
//! itself, so they may be missing, damaged, or say what git would not have written.

use std::collections::HashSet;

use git2::{Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, Said, broken};
use crate::objects::tree::{self, EXECUTABLE, FILE, LINK, Node, SUBMODULE};
use crate::objects::tree_diff::{self, Change};
use crate::objects::tree_path::{check_path, is_read_by_git, plain};

/// Upper bound for the size of a file or another object of an agent, in bytes. Objects are held in memory.
pub(crate) const LARGEST: usize = 512 << 20;
/// Says which limit an object exceeds, and what to do about it.
pub(crate) const TOO_LARGE: &str = "the work has a file that is larger than 512 MiB, the limit of a file: take it out of the branch's commits";

/// Checks every commit that `work` has and `known` lacks: its trees, its paths, and that each object matches
/// its name. Rejects changes of Watchfire's own files.
pub(crate) fn history(repo: &Repository, known: Option<Oid>, work: Oid) -> Result<()> {
    walk(repo, known, work, |path| match is_watchfires(path) {
        // Merged, such a file would be a task or the project's own settings, which no agent may write.
        true => Err(Error::new(ErrorKind::InvalidInput, "the work changes Watchfire's own files")
            .with("file", RepoPath::new(path))),
        false => Ok(()),
    })
}

/// Returns true if every commit that `work` has and `known` lacks is in the repository and sound, with all
/// its changes.
pub(crate) fn is_whole(repo: &Repository, known: Option<Oid>, work: Oid) -> bool {
    walk(repo, known, work, |_| Ok(())).is_ok()
}

fn walk(
    repo: &Repository,
    known: Option<Oid>,
    work: Oid,
    accept: impl Fn(&[u8]) -> Result<()>,
) -> Result<()> {
    let during = "walking the history";
    let mut walk = repo.revwalk().during(during)?;
    walk.push(work).during(during)?;
    if let Some(known) = known {
        walk.hide(known).during(during)?;
    }
    let mut sound = HashSet::new();
    for id in walk {
        let id = id.during(during)?;
        let commit =
            repo.find_commit(id).map_err(|e| damaged("a commit").with("commit", id).with_source(Said(e)))?;
        let mut parents = Vec::new();
        for parent in commit.parent_ids() {
            let parent = repo
                .find_commit(parent)
                .map_err(|e| damaged("a commit").with("commit", parent).with_source(Said(e)))?;
            parents.push(parent.tree_id());
        }
        // Only what changed: other entries were checked with the parent that has them, or are known.
        let changes = tree_diff::diff(repo, parents.first().copied(), Some(commit.tree_id()))?;
        for change in changes {
            // A merge shows everything that came from its other parents as a change.
            if is_inherited(repo, &parents, &change)? {
                continue;
            }
            accept(&change.path)?;
            let Some(node) = change.new else { continue };
            // The path is checked every time, the content once: a content may be allowed at one path and not
            // at another.
            check_place(&change.path, node)?;
            // The commit of a submodule lies in another repository.
            if node.mode != SUBMODULE && sound.insert(node.id) {
                check_content(repo, &change.path, node)?;
            }
        }
    }
    Ok(())
}

/// Returns true if some other parent has the same entry at this path, i.e. the change was merged, not made
/// here.
fn is_inherited(repo: &Repository, parents: &[Oid], change: &Change) -> Result<bool> {
    for parent in parents.iter().skip(1) {
        if tree::lookup(repo, Some(*parent), &change.path)? == change.new {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if some file system takes the path for one in `.watchfire`.
fn is_watchfires(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    // The second is the short name that Windows gives it.
    matches!(plain(first).as_str(), ".watchfire" | "watchf~1")
}

/// Rejects a node that may not stand at this path with any content.
fn check_place(path: &[u8], node: Node) -> Result<()> {
    check_path(path)?;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    check_link(name, node)?;
    match node.mode {
        SUBMODULE | FILE | EXECUTABLE | LINK => Ok(()),
        _ => Err(damaged("a file mode").with("file", RepoPath::new(path))),
    }
}

fn check_content(repo: &Repository, path: &[u8], node: Node) -> Result<()> {
    let damaged = |e| damaged("a file").with("file", RepoPath::new(path)).with_source(Said(e));
    let header = repo.odb().and_then(|odb| odb.read_header(node.id));
    // Asked before the object is read: a few compressed bytes may stand for more than there is memory.
    if header.map_err(damaged)?.0 > LARGEST {
        return Err(broken(TOO_LARGE).with("file", RepoPath::new(path)));
    }
    // libgit2 compares the content with its name when it reads it.
    repo.find_blob(node.id).map(|_| ()).map_err(damaged)
}

/// Rejects links in place of files that git itself reads, because git would follow them.
pub(crate) fn check_link(name: &[u8], node: Node) -> Result<()> {
    let read = [&b".gitmodules"[..], b".gitattributes", b".gitignore", b".mailmap"];
    if node.mode == LINK && read.iter().any(|read| is_read_by_git(name, read)) {
        return Err(
            broken("the work makes a link of a file that git reads").with("file", RepoPath::new(name))
        );
    }
    Ok(())
}

fn damaged(what: &str) -> watchfire_core::Error {
    broken(format!("the work has {what} that is missing or damaged in the repository"))
}

#[cfg(test)]
mod tests {
    use super::is_watchfires;

    #[test]
    fn our_folder_is_known_by_every_name_that_a_file_system_has_for_it() {
        let names = [
            ".watchfire",
            ".Watchfire/tasks/0001.yaml",
            ".watch\u{200c}fire/x",
            ".watchfire. /x",
            "WATCHF~1/x",
        ];
        assert!(names.iter().all(|name| is_watchfires(name.as_bytes())));
        let others = ["watchfire/x", ".watchfire-notes", "a/.watchfire/x", ".watchfires"];
        assert!(!others.iter().any(|name| is_watchfires(name.as_bytes())));
    }
}
