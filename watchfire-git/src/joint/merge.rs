//! Merges the work in all repositories in memory, and puts the merged trees beside each other.

use std::path::Path;

use watchfire_core::workspace::{Candidate, CandidatePart, Conflict, Merge, MergeRequest, Obstacle, Scratch};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::files;
use crate::joint::repositories::{Joint, Member, places};
use crate::joint::work::{not_the_checkout, seen_from_first, within};
use crate::merge::taken;
use crate::names;
use crate::repository::agent_ref;
use crate::repository::layout::Layout;
use crate::repository::project::{commit, oid, tip};
use crate::repository::reach;
use crate::repository::record::Record;
use crate::worktree::checkout;

/// One part of a candidate.
pub(crate) struct Part<'a> {
    pub(crate) member: &'a Member,
    pub(crate) candidate: Candidate,
}

impl Part<'_> {
    /// Returns true if the part moves no target: its files are there only for the verification.
    pub(crate) fn is_idle(&self) -> bool {
        self.candidate.base.as_ref() == Some(&self.candidate.commit)
    }

    /// Returns true if it holds work of this candidate's own, and not only of one that it was merged onto.
    pub(crate) fn is_own(&self) -> bool {
        self.candidate.own_commit().is_some()
    }
}

/// Returns the parts of a candidate, in the order in which they are published: what lies in other repositories first, since
/// the project's own is what builds on them.
pub(crate) fn parts<'a>(joint: &'a Joint, candidate: &Candidate) -> Result<Vec<Part<'a>>> {
    let mut parts = Vec::new();
    for part in &candidate.others {
        let member = joint.member(&part.repository)?;
        parts.push(Part { member, candidate: part.candidate.clone() });
    }
    let Some(first) = joint.members.first() else { return Ok(parts) };
    parts.push(Part { member: first, candidate: candidate.clone().with_others(Vec::new()) });
    Ok(parts)
}

/// Merges the work in each repository with its target.
pub(crate) fn prepare(joint: &Joint, request: &MergeRequest) -> Result<Merge> {
    let among = joint.of(&request.key)?;
    let below = match &request.onto {
        Some(onto) => parts(joint, onto)?,
        None => Vec::new(),
    };
    // Where a fast-forward is all that is allowed, a conflict names no path.
    let mut conflicts: Option<Vec<Conflict>> = None;
    let mut held = None;
    let mut has_work = false;
    let mut merged = Vec::new();
    for member in &joint.members {
        let is_among = among.iter().any(|it| it.at == member.at);
        let below = below.iter().find(|part| part.member.at == member.at).map(|part| part.candidate.clone());
        if !is_among && below.is_none() {
            continue;
        }
        let outcome = match is_among {
            true => {
                prepare_one(joint, member, request, below.clone()).map_err(|error| within(member, error))?
            }
            false => Merge::Nothing,
        };
        match outcome {
            Merge::Ready(candidate) => {
                has_work = true;
                merged.push((member, candidate));
            }
            Merge::Nothing => {
                let target = target_of(joint, member, request)?;
                merged.extend(idle(joint, member, request, target, below)?.map(|idle| (member, idle)));
            }
            Merge::Conflicts(found) => {
                let seen = |it: Conflict| Conflict::new(seen_from_first(member, &it.path), it.hunks);
                conflicts.get_or_insert_default().extend(found.into_iter().map(seen));
            }
            Merge::Held(by) => held = held.or(Some(place(member, by))),
            _ => return Err(Error::new(ErrorKind::Internal, "an unknown outcome of a merge")),
        }
    }
    if let Some(by) = held {
        return Ok(Merge::Held(by));
    }
    if let Some(conflicts) = conflicts {
        return Ok(Merge::Conflicts(conflicts));
    }
    if !has_work {
        return Ok(Merge::Nothing);
    }
    join(merged).map(Merge::Ready)
}

/// Returns the target in one of the repositories.
fn target_of(joint: &Joint, member: &Member, request: &MergeRequest) -> Result<String> {
    if member.is_first() {
        return Ok(request.target.clone());
    }
    let record = Record::read(&member.project, &joint.key(member, &request.key))?.unwrap_or_default();
    let repo = member.project.open()?;
    if record.target.is_empty() {
        return member.project.default_target(&repo);
    }
    // Renamed: a log goes along with its branch.
    if tip(&repo, &names::head(&record.target))?.is_none()
        && let Some(base) = record.base.as_ref().map(oid).transpose()?
        && let Ok(now) = member.project.default_target(&repo)
        && reach::log(&repo, &now).iter().any(|(id, _)| *id == base)
    {
        return Ok(now);
    }
    Ok(record.target)
}

fn prepare_one(
    joint: &Joint,
    member: &Member,
    request: &MergeRequest,
    below: Option<Candidate>,
) -> Result<Merge> {
    let mut of = request.clone();
    of.key = joint.key(member, &request.key);
    of.target = target_of(joint, member, request)?;
    of.onto = below;
    let repo = member.project.open()?;
    if !member.is_first() && agent_ref::tip(&member.project, &repo, &of.key)?.is_none() {
        let layout = Layout::read(&joint.first().state(), &request.key)?;
        if layout.is_some_and(|layout| layout.is_open) {
            let message = format!(
                "its work in {} is gone, with its branch there: bring the branch back, or give the rest up with `watchfire branches \
                 delete --discard` and have it done again",
                member.at.display()
            );
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        // Killed before it was opened there.
        return Ok(Merge::Nothing);
    }
    taken::prepare(&member.project, &of)
}

/// Returns the part of a repository in which the work has nothing to merge. With a candidate below, the part of that one
/// goes along: otherwise a publication of this one would publish only some of the other.
fn idle(
    joint: &Joint,
    member: &Member,
    request: &MergeRequest,
    target: String,
    below: Option<Candidate>,
) -> Result<Option<Candidate>> {
    let key = joint.key(member, &request.key);
    let repo = member.project.open()?;
    let work = agent_ref::tip(&member.project, &repo, &key)?.map(commit);
    if let Some(below) = below {
        let work = work.unwrap_or(below.work);
        let onto = Some(below.commit.clone());
        let carried = Candidate::new(key, below.target, below.base, below.commit, below.tree, work);
        return Ok(Some(carried.with_onto(onto)));
    }
    // Without a commit it has no files to be verified with.
    let Some(at) = tip(&repo, &names::head(&target))? else { return Ok(None) };
    let tree = repo.find_commit(at).during("reading a commit")?.tree_id();
    let at = commit(at);
    let idle = Candidate::new(
        key,
        target,
        Some(at.clone()),
        at.clone(),
        tree.to_string(),
        work.unwrap_or(at.clone()),
    );
    Ok(Some(idle.with_onto(Some(at))))
}

/// Makes one candidate of the parts.
fn join(merged: Vec<(&Member, Candidate)>) -> Result<Candidate> {
    let mut tool_files = Vec::new();
    let (mut own, mut others) = (None, Vec::new());
    for (member, candidate) in merged {
        tool_files.extend(candidate.tool_files.iter().map(|path| seen_from_first(member, path)));
        match member.is_first() {
            true => own = Some(candidate),
            false => others.push(CandidatePart::new(&member.at, candidate)),
        }
    }
    let Some(own) = own else {
        let message = "the project's own repository has no commit yet: make the first one";
        return Err(Error::new(ErrorKind::NotSupported, message));
    };
    Ok(own.with_others(others).with_tool_files(tool_files))
}

/// Says in which repository an obstacle is.
pub(crate) fn place(member: &Member, by: Obstacle) -> Obstacle {
    match by.checkout {
        None if !member.is_first() => by.with_checkout(&member.project.root),
        _ => by,
    }
}

/// Writes the trees of all parts to folders that lie to each other as the repositories do.
pub(crate) fn checkout(joint: &Joint, candidate: &Candidate) -> Result<Scratch> {
    if candidate.others.is_empty() {
        return checkout::checkout(joint.first(), candidate);
    }
    let mut parts = parts(joint, candidate)?;
    // The project's own first: the lock of its folder keeps the whole from being pruned.
    parts.rotate_right(1);
    let name = checkout::name();
    let around = checkout::parent(joint.first()).join(&name);
    let members: Vec<_> = parts.iter().map(|part| part.member).collect();
    let places = places(&around, &members);
    let (mut made, mut rules) = (Vec::new(), Vec::new());
    for (part, place) in parts.iter().zip(places) {
        let scratch = checkout::checkout_at(&part.member.project, &part.candidate, &name, &place.folder);
        let scratch = scratch.map_err(|error| within(part.member, error))?;
        if !part.member.is_first() {
            rules.push(not_the_checkout(part.member));
        }
        rules.extend(scratch.policy_rules.iter().cloned());
        made.push(scratch);
    }
    let path = made.first().map(|scratch| scratch.path().to_path_buf()).unwrap_or_default();
    let clean_up = move |_: &Path| {
        // The one whose lock guards the rest goes last.
        while let Some(scratch) = made.pop() {
            drop(scratch);
        }
        // With what a command left beside them.
        if let Err(error) = files::remove_tree(&around) {
            tracing::warn!(path = %around.display(), %error, "a scratch folder is left for the next prune");
        }
    };
    Ok(Scratch::new(path, clean_up).with_policy_rules(rules))
}

/// Returns true if the targets of the parts without work are where they were when the candidate was made.
pub(crate) fn idle_targets_stand(parts: &[Part<'_>]) -> Result<bool> {
    for part in parts.iter().filter(|part| part.is_idle()) {
        let at = tip(&part.member.project.open()?, &names::head(&part.candidate.target))?;
        if at.map(commit).as_ref() != Some(&part.candidate.commit) {
            return Ok(false);
        }
    }
    Ok(true)
}
