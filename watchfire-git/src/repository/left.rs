//! Keeps the commits that an agent took back by an amend, a reset or a rebase. Only the logs of the agent's
//! git name them, and the notes of an operation that its git has not ended.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::workspace::WorkspaceKey;

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::identity;
use crate::names;
use crate::objects::id::hex;
use crate::objects::tree_edit;
use crate::objects::verify;
use crate::private::agent_refs;
use crate::repository::agent_ref;
use crate::repository::project::Project;

/// References by their full names.
pub(crate) type References = BTreeMap<String, Oid>;

/// Number of bytes that count at the end of a log: some five thousand steps.
const LOG: u64 = 1 << 20;
/// Upper bound for a note of git's, in bytes. A longer one is not read.
const NOTE: u64 = 64 << 10;
/// Upper bound for tips that get references of their own at once. Older ones become the parents of one
/// commit.
const MOST: usize = 100;

/// Notes that git keeps beside HEAD: the commits that it works on, and those that it put away for the time
/// being.
const NOTES: &[&str] = &[
    "ORIG_HEAD",
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "rebase-merge/autostash",
    "rebase-merge/orig-head",
    "rebase-apply/autostash",
    "rebase-apply/orig-head",
];

/// Folders in which git keeps its notes on a rebase.
const REBASE: &[&str] = &["rebase-merge", "rebase-apply"];

/// Files that show that git has not ended an operation.
const UNDERWAY: &[&str] = &[
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_MSG",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "SQUASH_MSG",
    "BISECT_START",
    "BISECT_LOG",
    "BISECT_NAMES",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// Returns the ids in the notes of the administration `admin`. They need not name commits that exist.
pub(crate) fn noted(admin: &Path) -> Result<Vec<Oid>> {
    let mut found = Vec::new();
    for name in NOTES {
        let note = files::read_plain(&admin.join(name), NOTE)?.unwrap_or_default();
        // `MERGE_HEAD` has one line for each parent.
        found.extend(note.split(|byte| *byte == b'\n').filter_map(|line| hex(line.trim_ascii())));
    }
    Ok(found)
}

/// Returns the ids in the lines that a log has and the log `known` lacks. An agent's private log begins as a
/// copy of `known`.
pub(crate) fn logged(log: &Path, known: Option<&Path>) -> Result<Vec<Oid>> {
    let known = known.map_or(Ok(None), |known| files::read_tail(known, LOG))?.unwrap_or_default();
    let known: HashSet<&[u8]> = lines(&known).collect();
    let log = files::read_tail(log, LOG)?.unwrap_or_default();
    // `<old> <new> <who> …`
    let ids =
        lines(&log).filter(|line| !known.contains(line)).flat_map(|line| [line.get(..40), line.get(41..81)]);
    Ok(ids.flatten().filter_map(hex).collect())
}

/// Keeps the `commits`, with their histories, that neither a reference nor `head` reaches.
/// Each tip gets a reference. `head` is the future HEAD of the agent's worktree.
pub(crate) fn keep(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    commits: &[Oid],
    head: Option<Oid>,
) -> Result<()> {
    // Nearly always the branch has all of them. Only if not, the references of a large repository are read.
    let branch = agent_ref::tip(project, repo, key)?;
    keep_beyond(project, repo, key, commits, branch.into_iter().chain(head).collect())
}

/// Keeps the `commits`, with their histories, that neither a reference nor a commit of `known` reaches.
pub(crate) fn keep_beyond(
    project: &Project,
    repo: &Repository,
    key: &dyn Display,
    commits: &[Oid],
    known: Vec<Oid>,
) -> Result<()> {
    let beyond = tips(repo, commits, known.iter().copied())?;
    if beyond.is_empty() {
        return Ok(());
    }
    let references = repo.references().during("listing references")?.flatten();
    // Tags of trees and blobs reach no commit, and are skipped.
    let reached_by = references.filter_map(|reference| reference.peel_to_commit().ok()).map(|tip| tip.id());
    let mut lost = tips(repo, &beyond, reached_by.chain(known))?;
    if lost.len() > MOST {
        // Newest first, so the oldest tips share a commit.
        let older = lost.split_off(MOST - 1);
        lost.push(join(project, repo, &older)?);
    }
    lost.into_iter().try_for_each(|tip| put(repo, key, tip))
}

/// Keeps `references` under the names that the agent gave them. Beyond [`MOST`], adds only their commits to
/// `others`.
pub(crate) fn keep_named(
    repo: &Repository,
    key: &dyn Display,
    references: &References,
    others: &mut Vec<Oid>,
) -> Result<()> {
    for (n, (name, id)) in references.iter().enumerate() {
        if n < MOST {
            put_named(repo, key, name, *id)?;
        } else if let Ok(commit) = repo.find_object(*id, None).and_then(|found| found.peel_to_commit()) {
            others.push(commit.id());
        }
    }
    Ok(())
}

/// Keeps `id` under the name that it had with the agent. If an earlier attempt took the name, its object
/// moves to a reference named after itself.
pub(crate) fn put_named(repo: &Repository, key: &dyn Display, name: &str, id: Oid) -> Result<()> {
    // Under an object id [`keep`] keeps other tips: a reference that the agent named like one must not
    // replace them.
    if names::is_object_name(name) {
        return put(repo, key, id);
    }
    let kept = names::left_named(key, name);
    match repo.find_reference(&kept) {
        Ok(there) if there.target() == Some(id) => return Ok(()),
        Ok(there) => {
            if let Some(old) = there.target() {
                put(repo, key, old)?;
            }
        }
        Err(_) => {}
    }
    match repo.reference(&kept, id, true, "watchfire: left behind by the agent") {
        Ok(_) => Ok(()),
        // git allows no reference `a` beside `a/b`. An earlier attempt had a branch where this one has a
        // folder of branches, or the other way round.
        Err(error) => {
            tracing::debug!(%error, name, "kept without its name");
            put(repo, key, id)
        }
    }
}

/// Keeps a commit that leaves the branch, under a reference named after its id.
pub(crate) fn put(repo: &Repository, key: &dyn Display, commit: Oid) -> Result<()> {
    let name = names::left(key, commit);
    repo.reference(&name, commit, true, "watchfire: left behind by the agent").during("keeping a tip")?;
    reached("left: a tip is kept");
    Ok(())
}

/// Keeps the commits that an agent without private copies took back. Called before its logs are removed.
pub(crate) fn keep_logged(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<()> {
    let admin = project.admin(key);
    let branch_log = project.common.join("logs").join(names::head(&names::branch(key)));
    let mut named = noted(&admin)?;
    named.extend(agent_refs::of_folder(&admin)?.values());
    named.extend(logged(&admin.join("logs/HEAD"), None)?);
    named.extend(logged(&branch_log, None)?);
    let branch = agent_ref::tip(project, repo, key)?;
    let commits: HashSet<Oid> = named.into_iter().filter(|id| repo.find_commit(*id).is_ok()).collect();
    // The agent wrote the objects itself. A reference to damaged ones would break the person's git.
    let whole: Vec<_> = commits.into_iter().filter(|id| verify::is_whole(repo, branch, *id)).collect();
    keep(project, repo, key, &whole, None)
}

/// Returns true for the name of a file or folder that git keeps only while it has not ended an operation.
pub(crate) fn is_note(name: &OsStr) -> bool {
    UNDERWAY.iter().any(|note| name == *note)
}

/// Returns true if git has an operation under way in the administration `admin`.
pub(crate) fn is_underway(admin: &Path) -> bool {
    UNDERWAY.iter().any(|name| admin.join(name).symlink_metadata().is_ok())
}

/// Returns true while git moves HEAD or files about in the git directory `git`: until then, neither says what anybody
/// wants. Messages and other notes, which [`is_underway`] counts too, stay after an operation that was broken off.
pub(crate) fn is_moving(git: &Path) -> bool {
    const SIGNS: &[&str] = &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_START"];
    SIGNS.iter().chain(REBASE).any(|sign| git.join(sign).symlink_metadata().is_ok())
}

/// Returns true if git has a rebase under way in the administration `admin`. HEAD is then on its way, and the
/// branch still has all commits.
pub(crate) fn is_rebasing(admin: &Path) -> bool {
    REBASE.iter().any(|name| admin.join(name).symlink_metadata().is_ok())
}

/// Ends every operation that git has under way, without touching files, index or HEAD.
pub(crate) fn end(admin: &Path) -> Result<()> {
    for name in UNDERWAY {
        let path = admin.join(name);
        // The agent may have put a folder where git has a file, and a link where git has a folder.
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let gone = if is_folder { files::remove_tree(&path) } else { std::fs::remove_file(&path) };
        files::absent(gone).during("ending what git was in the midst of")?;
    }
    Ok(())
}

/// Returns the tips among `commits` and their ancestors, newest first: those that `known` does not reach and
/// that are no parent of another one.
fn tips(repo: &Repository, commits: &[Oid], known: impl IntoIterator<Item = Oid>) -> Result<Vec<Oid>> {
    let during = "walking the history";
    let mut walk = repo.revwalk().during(during)?;
    walk.set_sorting(git2::Sort::TIME).during(during)?;
    commits.iter().try_for_each(|id| walk.push(*id)).during(during)?;
    known.into_iter().try_for_each(|id| walk.hide(id)).during(during)?;
    let (mut found, mut parents) = (Vec::new(), HashSet::new());
    for id in walk {
        let id = id.during(during)?;
        parents.extend(repo.find_commit(id).during(during)?.parent_ids());
        found.push(id);
    }
    found.retain(|id| !parents.contains(id));
    Ok(found)
}

/// Makes a commit whose only purpose is to reach all of `tips`.
fn join(project: &Project, repo: &Repository, tips: &[Oid]) -> Result<Oid> {
    let during = "keeping many tips";
    let parents =
        tips.iter().map(|id| repo.find_commit(*id)).collect::<Result<Vec<_>, _>>().during(during)?;
    let tree = repo.find_tree(tree_edit::empty(repo)?).during(during)?;
    let who = identity::agent(&project.options.agent)?;
    let parents: Vec<_> = parents.iter().collect();
    repo.commit(None, &who, &who, "Left behind by the agent\n", &tree, &parents).during(during)
}

fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.split(|byte| *byte == b'\n')
}
