//! Imports the work in an agent's private copies into the repository: first the objects, each one checked,
//! then the branch, then HEAD and index. An import may be repeated at any time, also after a kill half-way
//! and while the agent goes on.

use git2::{Oid, Repository};
use watchfire_core::workspace::WorkspaceKey;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::identity;
use crate::index::file::IndexFile;
use crate::index::of_tree;
use crate::names;
use crate::private::copies::{Private, STASH, unreadable};
use crate::private::transfer::{DEADLINE, Transfer};
use crate::repository::agent_ref;
use crate::repository::left;
use crate::repository::left::References;
use crate::repository::project::Project;
use crate::repository::reach;

/// Imports the work that the agent of `key` did in its private copies, if it has any.
///
/// # Errors
/// `workspace_broken` if the copies hold anything that git would not have written. Nothing is in the
/// repository then.
pub(crate) fn import(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<()> {
    if Private::find(project, key).is_none() {
        return Ok(());
    }
    // One after the other: an import that nobody waits for any more may still be at it, and would put back what a capture has
    // made of HEAD and index since.
    let _lock = files::lock(&project.state().join("importing").join(key.to_string()), DEADLINE)?;
    let Some(private) = Private::find(project, key) else { return Ok(()) };
    if private.is_spent(project)? {
        return Ok(());
    }
    // Read before anything else: a change that comes later is left to the next import.
    let state = private.state(project)?;
    let mut transfer = Transfer::new(project, &private.objects())?;

    let tip = private.tip()?.filter(|id| transfer.may_be_commit(*id));
    let detached = detached(&private, key)?.filter(|id| transfer.may_be_commit(*id));
    let (branches, named) = others(&private, key)?;
    let admin = project.admin(key);
    let mut others = private.stashes(project)?;
    others.extend(branches.values());
    // With an administration, git keeps the commits that its HEAD names.
    let named_by_head = detached.filter(|_| admin.is_dir());
    others.extend(detached.filter(|_| named_by_head.is_none()));
    others.retain(|id| transfer.may_be_commit(*id));
    for commit in tip.iter().chain(&detached).chain(&others) {
        transfer.commit(*commit)?;
    }
    // The agent took these back, and its git may have removed parts. So unsound ones are skipped and are no
    // error.
    for commit in private.taken_back(project)? {
        if transfer.may_be_commit(commit) && transfer.sound_commit(commit)? {
            others.push(commit);
        }
    }
    let mut tags_and_notes = References::new();
    for (name, id) in named {
        if transfer.sound_reference(id)? {
            tags_and_notes.insert(name, id);
        }
    }
    let index = index(project, key, &private, &mut transfer)?;
    // Everything is checked now. Objects before the references that name them.
    transfer.finish()?;
    reached("import: objects are there");

    move_branch(project, repo, key, private.start()?, tip)?;
    let head = detached.or(tip);
    left::keep_named(repo, key, &branches_beyond(repo, branches, head)?, &mut others)?;
    left::keep_named(repo, key, &tags_and_notes, &mut others)?;
    left::keep(project, repo, key, &others, named_by_head)?;
    if !admin.is_dir() {
        // The person removed the administration. `open` makes a new one.
        return private.spend(&state);
    }
    // Never a branch of the person's: git would keep them from checking it out.
    let head = match detached {
        Some(id) => format!("{id}\n"),
        None => format!("ref: {}\n", names::head(&names::branch(key))),
    };
    files::replace(&admin.join("HEAD"), head.as_bytes())?;
    reached("import: before the index");
    match index {
        Some((bytes, written)) => files::replace_as_of(&admin.join("index"), &bytes, written)?,
        // Without a usable index of the agent's, its next git compares every file.
        None => {
            let index = of_tree::unlooked(repo, detached.or(tip))?;
            files::replace(&admin.join("index"), &index.to_bytes())?;
        }
    }
    // A `git gc --prune=now` of the person may have come between the objects and the references to them.
    transfer.check()?;
    private.spend(&state)
}

/// Imports the copies of `key` and removes them. If they cannot be imported, sets them aside and returns
/// their place and the reason as text.
pub(crate) fn settle(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Option<String>> {
    let imported = import(project, repo, key);
    let Some(private) = Private::find(project, key) else { return imported.map(|()| None) };
    // The copies may only go if the result of their import can be read.
    match imported.and_then(|()| agent_ref::tip(project, repo, key)) {
        Ok(_) => private.discard(project).map(|()| None),
        Err(error) if error.kind() == ErrorKind::WorkspaceBroken => {
            let path = private.set_aside(project)?;
            Ok(Some(format!(
                "work that cannot be taken over is kept in {}: {}",
                path.display(),
                error.report()
            )))
        }
        Err(error) => Err(error),
    }
}

/// Moves the branch to the agent's tip. An old tip that the new one does not contain is kept.
fn move_branch(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    start: Option<Oid>,
    tip: Option<Oid>,
) -> Result<()> {
    let Some(new) = tip else { return Ok(()) };
    let old = agent_ref::tip(project, repo, key)?;
    if old == Some(new) {
        return Ok(());
    }
    if let Some(old) = old {
        // The branch moved since the copies were made: by a capture of the same work, or by the person. It
        // has the agent's commits already.
        if old != start.unwrap_or(Oid::ZERO_SHA1) && reach::contains(repo, old, new)? {
            return Ok(());
        }
        // Amended, reset or rebased.
        if !reach::contains(repo, new, old)? {
            left::put(repo, key, old)?;
        }
    }
    let who = identity::agent(&project.options.agent)?;
    match agent_ref::advance(project, repo, key, old, new, &who, "watchfire: import")? {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::Conflict, "the branch of the agent moved while its work was imported")
                .with("branch", names::branch(key)))
        }
    }
}

/// Returns the agent's other branches, with what its git noted in the same way, and everything else that it has named: tags, notes, replacements,
/// references of its own. References to what it fetched are left out.
fn others(private: &Private, key: &WorkspaceKey) -> Result<(References, References)> {
    let own = names::head(&names::branch(key));
    let all = private.references()?.into_iter();
    let others = all.filter(|(name, _)| *name != own && name != STASH && !name.starts_with("refs/remotes/"));
    // What a bisection or a rebase notes is worth keeping only where it names commits that the work lacks, as a branch is.
    const BRANCHES: [&str; 3] = ["refs/heads/", "refs/bisect/", "refs/rewritten/"];
    Ok(others.partition(|(name, _)| BRANCHES.iter().any(|prefix| name.starts_with(prefix))))
}

/// Returns the branches with commits that `head`, the work, does not contain.
fn branches_beyond(repo: &Repository, branches: References, head: Option<Oid>) -> Result<References> {
    let mut beyond = References::new();
    for (name, id) in branches {
        let is_commit = repo.find_commit(id).is_ok();
        if is_commit && !head.map_or(Ok(false), |head| reach::contains(repo, head, id))? {
            beyond.insert(name, id);
        }
    }
    Ok(beyond)
}

/// Returns the commit that the HEAD of the agent's folder names, if HEAD is not on the agent's own branch.
fn detached(private: &Private, key: &WorkspaceKey) -> Result<Option<Oid>> {
    let content = private.head()?.unwrap_or_default();
    let Ok(text) = str::from_utf8(content.trim_ascii()) else { return Ok(None) };
    match text.strip_prefix("ref:").map(str::trim) {
        Some(name) if name == names::head(&names::branch(key)) => Ok(None),
        Some(name) => private.branch(name),
        None => Ok(Oid::from_str(text).ok().filter(|_| text.len() == 40)),
    }
}

/// Returns the agent's index without entries that only the agent's git could use, and the time at which the
/// index was written. Returns `None` if the index cannot be read, for example in a form that libgit2 does not
/// know.
fn index(
    project: &Project,
    key: &WorkspaceKey,
    private: &Private,
    transfer: &mut Transfer,
) -> Result<Option<(Vec<u8>, std::time::SystemTime)>> {
    let Some(file) = files::open_plain(&private.index()).map_err(unreadable)? else { return Ok(None) };
    let written = file.metadata().and_then(|metadata| metadata.modified()).during("reading an index")?;
    let Ok(index) = IndexFile::read(&private.index()) else { return Ok(None) };
    // An entry that our index has too was checked when it came there. That holds for most entries.
    let ours = IndexFile::read(&project.admin(key).join("index")).unwrap_or_default();
    let mut clean = Vec::with_capacity(index.entries().len());
    for entry in index.entries() {
        let is_known = ours.any(&entry.path).is_some_and(|known| known.node == entry.node);
        if is_known || transfer.file(&entry.path, entry.node)? {
            clean.push(entry.clone());
        }
    }
    // Without its caches of trees, which may name trees that no commit has.
    Ok(Some((IndexFile::of(clean).to_bytes(), written)))
}
