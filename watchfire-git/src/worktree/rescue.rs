//! Keeps work under references that nothing else moves.

use git2::{Oid, Repository};
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{RescueRef, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::names;
use crate::private::import;
use crate::repository::project::{Project, commit, move_ref, oid, tip};
use crate::repository::reach;
use crate::repository::record::Record;
use crate::worktree::capture::Work;

/// Keeps all work under `key` under a rescue reference.
pub(crate) fn rescue(project: &Project, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>> {
    let repo = project.open()?;
    import::import(project, &repo, key)?;
    let work = Work::look(project, &repo, key, true)?;
    put_away(project, &repo, key, attempt, &work)
}

/// Keeps scanned work, with the content of nested repositories, under a rescue reference. Returns `None` if
/// there is nothing beyond the base.
pub(crate) fn put_away(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    attempt: Attempt,
    work: &Work,
) -> Result<Option<RescueRef>> {
    let message = format!("Rescued from task {key}, attempt {attempt}\n");
    let made = work.commit(project, repo, &message, None)?;
    let base = Record::read(project, key)?.and_then(|record| record.base).as_ref().map(oid).transpose()?;
    let mut last = None;
    // Usually one reference is enough: the first commit contains the others.
    for wanted in [made, work.head, work.tip].into_iter().flatten() {
        let is_base =
            base.is_some_and(|base| base == wanted || reach::contains(repo, base, wanted).unwrap_or(false));
        let is_kept = match &last {
            Some((kept, _)) => reach::contains(repo, *kept, wanted)?,
            None => false,
        };
        if !is_base && !is_kept {
            let reference = keep(repo, key, attempt, wanted)?;
            last = last.or(Some((wanted, reference)));
        }
    }
    Ok(last.map(|(_, reference)| reference))
}

/// Puts `wanted` under a rescue reference of the attempt. A name whose commit `wanted` does not contain is
/// left alone, and the next one is tried.
fn keep(repo: &Repository, key: &WorkspaceKey, attempt: Attempt, wanted: Oid) -> Result<RescueRef> {
    let first = names::rescue(key, attempt);
    let mut name = first.clone();
    let mut next = 2;
    loop {
        let there = tip(repo, &name)?;
        let fits = match there {
            Some(there) => reach::contains(repo, wanted, there)?,
            None => true,
        };
        if there == Some(wanted) || (fits && move_ref(repo, &name, there, wanted, "watchfire: rescue")?) {
            return Ok(RescueRef::new(name, commit(wanted), key.to_string(), attempt));
        }
        name = format!("{first}-{next}");
        next += 1;
    }
}

/// Makes a branch at rescued work.
pub(crate) fn restore(repo: &Repository, rescue: &str, branch: &str) -> Result<RescueRef> {
    let rescued = list(repo)?.into_iter().find(|rescued| rescued.name == rescue);
    let rescued = rescued.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no work was rescued under this name").with("reference", rescue)
    })?;
    let name = names::head(branch);
    // Below `watchfire/` every branch is an agent's. git takes a name that begins with `-` for an option.
    let ours = branch == names::BRANCHES.trim_end_matches('/') || branch.starts_with(names::BRANCHES);
    if ours || branch.starts_with('-') || !git2::Reference::is_valid_name(&name) {
        return Err(
            Error::new(ErrorKind::InvalidInput, "no name for a branch of yours").with("branch", branch)
        );
    }
    if move_ref(repo, &name, None, oid(&rescued.commit)?, "watchfire: restored")? {
        return Ok(rescued);
    }
    Err(Error::new(ErrorKind::AlreadyExists, "there is such a branch").with("branch", branch))
}

/// Returns all rescue references, and the references to what agents left behind.
pub(crate) fn list(repo: &Repository) -> Result<Vec<RescueRef>> {
    let mut all = Vec::new();
    for prefix in [names::RESCUE, names::LEFT] {
        for reference in repo.references_glob(&format!("{prefix}*")).during("listing references")? {
            let reference = reference.during("reading a reference")?;
            let (Ok(name), Some(id)) = (reference.name(), reference.target()) else { continue };
            // `<key>/<attempt>`, `<key>/<commit>`, or `<key>/` followed by a name that an agent gave.
            let parts = name.strip_prefix(prefix).and_then(|rest| rest.split_once('/'));
            let Some((task, attempt)) = parts else { continue };
            let id = reference.peel_to_commit().map_or(id, |commit| commit.id());
            let number = match prefix {
                names::LEFT => Some(0),
                _ => attempt.split('-').next().and_then(|number| number.parse().ok()),
            };
            let Some(number) = number else { continue };
            all.push(RescueRef::new(name, commit(id), task, Attempt(number)));
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Returns the references of `key` that are kept under names given by its agent.
pub(crate) fn named(repo: &Repository, key: &WorkspaceKey) -> Result<Vec<RescueRef>> {
    let all = list(repo)?.into_iter().filter(|kept| kept.task == key.to_string());
    let prefix = names::left_named(key, "");
    // A name has a folder (`heads/`, `tags/`). An id has none.
    Ok(all.filter(|kept| kept.name.strip_prefix(&prefix).is_some_and(|name| name.contains('/'))).collect())
}
