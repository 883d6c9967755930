//! All branches and folders of agents.

use std::collections::BTreeMap;

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::workspace::{BranchInfo, BranchSize, BranchStatus, WorkspaceKey};

use crate::error::During;
use crate::files;
use crate::names;
use crate::record::Record;
use crate::repository::{Project, commit, tip};
use crate::tree::{self, SUBMODULE};
use crate::tree_diff;

/// Lists them, sorted by branch.
pub(crate) fn list(project: &Project) -> Result<Vec<BranchInfo>> {
    let repo = project.open()?;
    let default = project.default_target(&repo).ok();
    let mut all = BTreeMap::new();
    let pattern = format!("{}*", names::head(names::BRANCHES));
    for reference in repo.references_glob(&pattern).during("listing branches")? {
        let reference = reference.during("reading a branch")?;
        let Ok(branch) = reference.shorthand() else { continue };
        let Some(id) = reference.target() else { continue };
        let key = branch.strip_prefix(names::BRANCHES).unwrap_or(branch);
        let mut info = BranchInfo::new(branch, key, BranchStatus::Unmerged);
        info.target = target(project, key)?.or_else(|| default.clone());
        describe(&repo, &mut info, id)?;
        all.insert(key.to_owned(), info);
    }
    for (name, path) in files::entries(&project.worktrees())? {
        let Some(key) = name.to_str().and_then(names::parse_key) else { continue };
        let name = key.to_string();
        let orphan = || BranchInfo::new(names::branch(&key), &name, BranchStatus::Orphaned);
        all.entry(name.clone()).or_insert_with(orphan).worktree = Some(path);
    }
    Ok(all.into_values().collect())
}

fn target(project: &Project, key: &str) -> Result<Option<String>> {
    let key: Option<WorkspaceKey> = names::parse_key(key);
    let record = key.map_or(Ok(None), |key| Record::read(project, &key))?;
    Ok(record.map(|record| record.target).filter(|target| !target.is_empty()))
}

fn describe(repo: &Repository, info: &mut BranchInfo, id: Oid) -> Result<()> {
    info.tip = Some(commit(id));
    let Ok(found) = repo.find_commit(id) else { return Ok(()) };
    info.committed_at = Some(found.time().seconds());
    info.subject = found.summary_bytes().map(|subject| String::from_utf8_lossy(subject).into_owned());
    let Some(target) = &info.target else { return Ok(()) };
    let Some(target) = tip(repo, &names::head(target))? else { return Ok(()) };
    (info.ahead, info.behind) = repo.graph_ahead_behind(id, target).during("comparing branches")?;
    if info.ahead == 0 {
        info.status = BranchStatus::Merged;
    }
    // What an agent damaged has no size; the list goes on.
    info.size = size(repo, target, id).ok();
    Ok(())
}

/// What a branch changes against where it left `target`.
fn size(repo: &Repository, target: Oid, tip: Oid) -> Result<BranchSize> {
    let base = match repo.merge_base(target, tip) {
        Ok(base) => Some(base),
        Err(e) if e.code() == git2::ErrorCode::NotFound => None,
        Err(e) => return Err(e).during("finding the merge base"),
    };
    let changes = tree_diff::diff(repo, tree::of_commit(repo, base)?, tree::of_commit(repo, Some(tip))?)?;
    let odb = repo.odb().during("opening the repository")?;
    let mut bytes = 0;
    for node in changes.iter().filter_map(|change| change.new).filter(|node| node.mode != SUBMODULE) {
        bytes += odb.read_header(node.id).during("reading a file")?.0 as u64;
    }
    Ok(BranchSize::new(changes.len(), bytes))
}
