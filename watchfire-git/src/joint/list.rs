//! Lists and tidies the branches and folders in all repositories.

use std::collections::BTreeMap;
use std::path::PathBuf;

use watchfire_core::workspace::{BranchInfo, BranchPart, BranchStatus, Commit, Pruned};
use watchfire_core::{ErrorKind, Result};

use crate::branches::{list, prune};
use crate::diff::{self, Diff, DiffRequest};
use crate::joint::repositories::Joint;
use crate::joint::work::within;
use crate::names;
use crate::repository::last_merge::LastMerge;
use crate::repository::record::Record;

/// Returns all branches and folders of agents. The parts of one work are one entry.
pub(crate) fn list(joint: &Joint) -> Result<Vec<BranchInfo>> {
    let mut all: BTreeMap<String, BranchInfo> = BTreeMap::new();
    for member in &joint.members {
        for branch in list::list(&member.project).map_err(|error| within(member, error))? {
            if member.is_first() {
                all.insert(branch.key.clone(), branch);
                continue;
            }
            let Some(key) = names::parse_key(&branch.key).and_then(|key| joint.whole(&key)) else { continue };
            let name = key.to_string();
            let whole = all.entry(name.clone()).or_insert_with(|| {
                // Its own branch is gone. A kill came in between.
                BranchInfo::new(names::branch(&key), name, BranchStatus::Merged)
            });
            whole.status = together(whole.status, branch.status);
            whole.others.push(BranchPart::new(&member.at, branch));
        }
    }
    Ok(all.into_values().collect())
}

/// Returns the state of work with two parts: it is unmerged if either part is.
fn together(a: BranchStatus, b: BranchStatus) -> BranchStatus {
    let rank = |status| match status {
        BranchStatus::Unmerged => 0,
        BranchStatus::Orphaned => 1,
        BranchStatus::Merged => 2,
        _ => 3,
    };
    if rank(a) <= rank(b) { a } else { b }
}

/// Removes leftovers in all repositories.
pub(crate) fn prune(joint: &Joint) -> Result<Pruned> {
    let mut all = prune::prune(joint.first())?;
    for member in joint.members.iter().filter(|member| !member.is_first()) {
        let mut one = Pruned::default();
        // Folders kept ready and backups are those of the project that has this repository for its own.
        prune::leftovers(&member.project, &mut one).map_err(|error| within(member, error))?;
        let told = |line: String| format!("{}: {line}", member.at.display());
        all.removed.extend(one.removed.into_iter().map(told));
        all.kept.extend(one.kept.into_iter().map(told));
    }
    Ok(all)
}

/// Returns the changes of the work in each repository that it is in.
pub(crate) fn diffs(joint: &Joint, request: &DiffRequest) -> Result<Vec<(PathBuf, Diff)>> {
    let mut all = Vec::new();
    let asked = request.merged.clone().or(request.last_merge.clone()).map(Commit::new);
    let last = asked.map(|asked| LastMerge::of(joint.first(), &request.key, &asked)).transpose()?.flatten();
    // Also where the work is removed: its merges are still known there.
    for member in &joint.members {
        let mut of = request.clone();
        of.key = joint.key(member, &request.key);
        if let Some(last) = &last {
            let commit = last.commit_in(&member.at).map(ToString::to_string);
            of.merged = of.merged.and(commit.clone());
            of.last_merge = of.last_merge.and(commit);
            if request.merged.is_some() && of.merged.is_none() {
                if member.is_first() {
                    all.push((PathBuf::new(), Diff::default()));
                }
                continue;
            }
        } else if !member.is_first() {
            let record = Record::read(&member.project, &of.key)?;
            let published = record.and_then(|record| record.published).map(|commit| commit.to_string());
            of.merged = of.merged.and(published.clone());
            of.last_merge = of.last_merge.and(published);
            if request.merged.is_some() && of.merged.is_none() {
                continue;
            }
        }
        match diff::diff(&member.project, &of) {
            Err(error) if error.kind() == ErrorKind::NotFound && !member.is_first() => {}
            // All that it merged is in other repositories.
            Err(error)
                if error.kind() == ErrorKind::NotFound && last.is_some() && of.last_merge.is_none() =>
            {
                all.push((PathBuf::new(), Diff::default()));
            }
            diff => all.push((member.at.clone(), diff.map_err(|error| within(member, error))?)),
        }
    }
    Ok(all)
}
