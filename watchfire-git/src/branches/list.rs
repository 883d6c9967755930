//! Lists the branches and folders of agents.

use std::collections::BTreeMap;

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::workspace::{BranchInfo, BranchSize, BranchStatus};

use crate::branches::distance::distances;
use crate::error::During;
use crate::names;
use crate::objects::tree::{self, SUBMODULE};
use crate::objects::tree_diff;
use crate::repository::project::{Project, commit, tip};
use crate::repository::record::Record;

/// Returns all branches and folders of agents, sorted by branch.
pub(crate) fn list(project: &Project) -> Result<Vec<BranchInfo>> {
    let mut own = of_one(project)?;
    let Some(before) = &project.before else { return Ok(own) };
    let mut all = of_one(before)?;
    all.retain(|info| info.status != BranchStatus::Orphaned);
    // Of these the own repository knows no more than the folder.
    own.retain(|info| all.iter().all(|held| held.key != info.key));
    all.extend(own);
    all.sort_by(|a, b| a.branch.cmp(&b.branch));
    Ok(all)
}

fn of_one(project: &Project) -> Result<Vec<BranchInfo>> {
    let repo = project.open()?;
    // Without a default, for example on a detached HEAD, the list still has every branch.
    let default = project.default_target(&repo).ok();
    let mut all = BTreeMap::new();
    let mut tips: BTreeMap<String, Vec<(String, Oid)>> = BTreeMap::new();
    let pattern = format!("{}*", names::head(names::BRANCHES));
    for reference in repo.references_glob(&pattern).during("listing branches")? {
        let reference = reference.during("reading a branch")?;
        let Ok(branch) = reference.shorthand() else { continue };
        let Some(id) = reference.target() else { continue };
        let key = branch.strip_prefix(names::BRANCHES).unwrap_or(branch);
        // Another project that works here too lists its own.
        if names::parse_key(key).is_some_and(|key| !project.is_own(&key)) {
            continue;
        }
        let mut info = BranchInfo::new(branch, key, BranchStatus::Unmerged);
        info.tip = Some(commit(id));
        let record = names::parse_key(key).map_or(Ok(None), |key| Record::read(project, &key))?;
        // After a squash or a rebase the target has other commits. The record knows that this work is merged.
        let is_merged = info.tip.is_some() && record.as_ref().is_some_and(|record| record.merged == info.tip);
        if is_merged {
            info.status = BranchStatus::Merged;
        }
        // It stands where it began.
        if !is_merged && info.tip.is_some() && record.as_ref().is_some_and(|record| record.base == info.tip) {
            info.status = BranchStatus::Empty;
        }
        let target = record.map(|record| record.target).filter(|target| !target.is_empty());
        info.target = target.or_else(|| default.clone());
        if let Ok(found) = repo.find_commit(id) {
            info.committed_at = Some(found.time().seconds());
            info.subject = found.summary_bytes().map(|subject| String::from_utf8_lossy(subject).into_owned());
            let target = info.target.clone().unwrap_or_default();
            tips.entry(target).or_default().push((key.to_owned(), id));
        }
        all.insert(key.to_owned(), info);
    }
    for (target, branches) in tips.iter().filter(|(target, _)| !target.is_empty()) {
        let Some(target) = tip(&repo, &names::head(target))? else { continue };
        let tips: Vec<_> = branches.iter().map(|(_, tip)| *tip).collect();
        for ((key, tip), distance) in branches.iter().zip(distances(&repo, target, &tips)?) {
            let Some(info) = all.get_mut(key) else { continue };
            (info.ahead, info.behind) = (distance.ahead, distance.behind);
            if info.ahead == 0 && info.status != BranchStatus::Empty {
                info.status = BranchStatus::Merged;
            }
            // A branch that an agent damaged has no size. The others are still listed.
            info.size = size(&repo, distance.base, *tip).ok();
        }
    }
    for (key, path) in project.folders()? {
        let name = key.to_string();
        let orphan = || BranchInfo::new(names::branch(&key), &name, BranchStatus::Orphaned);
        all.entry(name.clone()).or_insert_with(orphan).worktree = Some(path);
    }
    Ok(all.into_values().collect())
}

/// Returns the size of a branch's changes since it left its target.
fn size(repo: &Repository, base: Option<Oid>, tip: Oid) -> Result<BranchSize> {
    let changes = tree_diff::diff(repo, tree::of_commit(repo, base)?, tree::of_commit(repo, Some(tip))?)?;
    let odb = repo.odb().during("opening the repository")?;
    let mut bytes = 0;
    for node in changes.iter().filter_map(|change| change.new).filter(|node| node.mode != SUBMODULE) {
        bytes += odb.read_header(node.id).during("reading a file")?.0 as u64;
    }
    Ok(BranchSize::new(changes.len(), bytes))
}
