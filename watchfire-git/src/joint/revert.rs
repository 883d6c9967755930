//! Takes back what was merged in several repositories, as work under one key.

use std::path::PathBuf;

use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{RemoveRequest, RevertRequest, Reverted};
use watchfire_core::{Error, ErrorKind, Result};

use crate::failpoint::reached;
use crate::joint::repositories::{Joint, Member};
use crate::joint::work::{seen_from_first, within};
use crate::merge::revert::{self, Back, Found};
use crate::repository::last_merge::{LastMerge, MergedPart};
use crate::repository::record::Record;
use crate::worktree::remove;

/// The way back in one repository.
pub(crate) struct Way<'a> {
    member: &'a Member,
    request: RevertRequest,
    back: Back,
}

/// The outcome of looking for the way back in all repositories.
pub(crate) enum Ways<'a> {
    /// The ways in those that change, and in the project's own, which comes last.
    Back(Vec<Way<'a>>),
    /// No target has anything of the merge any more.
    Nothing,
    /// Later work has changed the same places of these files, in any repository.
    Conflicts(Vec<RepoPath>),
}

/// Puts the way back on a branch in each repository. A branch in the project's own says that all are there.
pub(crate) fn revert(joint: &Joint, request: &RevertRequest) -> Result<Reverted> {
    revert::refuse_taken(joint.first(), &request.key)?;
    let ways = match look(joint, request)? {
        Ways::Back(ways) => ways,
        Ways::Nothing => return Ok(Reverted::Nothing),
        Ways::Conflicts(files) => return Ok(Reverted::Conflicts(files)),
    };
    joint.lay_out(&request.key)?;
    let mut tip = None;
    for Way { member, request, back } in &ways {
        let project = &member.project;
        if !member.is_first() {
            // A branch that a kill left before the last one was made. Work that is not merged is kept under a rescue ref.
            let left = RemoveRequest::new(request.key.clone()).with_discard(true);
            remove::remove(project, &left).map_err(|error| within(member, error))?;
        }
        let made = revert::make_branch(project, request, back).map_err(|error| within(member, error))?;
        tip = Some(made);
        reached("joint: a way back made");
    }
    let none = || Error::new(ErrorKind::Internal, "work without a repository");
    tip.map(Reverted::Done).ok_or_else(none)
}

/// Looks for the way back in each repository. Changes only the object databases, and does not look at the request's key.
pub(crate) fn look<'a>(joint: &'a Joint, request: &RevertRequest) -> Result<Ways<'a>> {
    let (mut ways, mut own, mut conflicts) = (Vec::new(), None, Vec::new());
    for part in parts(joint, request)? {
        let member = joint.member(&part.repository)?;
        let of = request_in(joint, member, request, &part);
        match revert::look(&member.project, &of).map_err(|error| within(member, error))? {
            Found::Back(back) if member.is_first() => own = Some(back),
            Found::Back(back) => ways.push(Way { member, request: of, back }),
            Found::Nothing => {}
            Found::Conflicts(files) => {
                conflicts.extend(files.iter().map(|file| seen_from_first(member, file)));
            }
        }
    }
    if !conflicts.is_empty() {
        return Ok(Ways::Conflicts(conflicts));
    }
    if own.is_none() && ways.is_empty() {
        return Ok(Ways::Nothing);
    }
    if let Some(member) = joint.members.first() {
        let back = own.map_or_else(|| Back::nothing(&member.project, &request.target), Ok)?;
        ways.push(Way { member, request: request.clone(), back });
    }
    Ok(Ways::Back(ways))
}

/// Returns the request to take back one part of a merge.
fn request_in(joint: &Joint, member: &Member, request: &RevertRequest, part: &MergedPart) -> RevertRequest {
    let (key, of) = (joint.key(member, &request.key), joint.key(member, &request.of));
    // A person may name another branch, which is one of the project's own repository.
    let target = if member.is_first() { &request.target } else { &part.target };
    RevertRequest::new(key, of, part.commit.clone(), target, &request.message)
}

/// Returns the parts of the merge that is to be taken back.
///
/// # Errors
/// `not_supported` for a merge in several repositories that was made by a version that did not record its parts.
fn parts(joint: &Joint, request: &RevertRequest) -> Result<Vec<MergedPart>> {
    if let Some(last) = LastMerge::of(joint.first(), &request.of, &request.commit)? {
        return Ok(last.parts);
    }
    for member in joint.members.iter().filter(|member| !member.is_first()) {
        let record = Record::read(&member.project, &joint.key(member, &request.of))?;
        if let Some(merged) = record.and_then(|record| record.published) {
            let hint = format!("take back each of its merges with `git revert`, there {}", merged.short());
            let message = "it is not recorded which merges in several repositories belong together";
            return Err(Error::new(ErrorKind::NotSupported, message)
                .with("repository", member.at.display())
                .with("hint", hint));
        }
    }
    let (target, commit) = (request.target.clone(), request.commit.clone());
    Ok(vec![MergedPart { repository: PathBuf::new(), target, commit }])
}
