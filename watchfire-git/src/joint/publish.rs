//! Moves the targets of a candidate in all its repositories.
//!
//! The steps are those of a publication in one repository, side by side:
//!
//! 1. the locks of all repositories, in the order of their paths;
//! 2. the intent, which names all parts, and a note of each part;
//! 3. the locks of all indices, in the same order, all checks, and all that needs room;
//! 4. the references, one after the other;
//! 5. the files and the indices of each repository, and the end of its note;
//! 6. the end of the intent.
//!
//! Until the first reference moves, everything is undone. From then on nothing is: what can be completed is, and the rest
//! makes the candidate half published.

use std::path::PathBuf;

use git2::{Oid, Repository};
use watchfire_core::workspace::{Candidate, InTargets, Obstacle, ObstacleKind, PublishRequest, Published};
use watchfire_core::{Error, ErrorKind, Result};

use crate::failpoint::reached;
use crate::joint::intent::Intent;
use crate::joint::merge::{Part, idle_targets_stand, parts, place};
use crate::joint::recover;
use crate::joint::repositories::Joint;
use crate::joint::work::within;
use crate::names;
use crate::publish::carry::Carrying;
use crate::publish::publication::{
    self, Completed, Merged, Outcome, Publication, Way, cannot_write, check_fence, remember,
};
use crate::publish::user_checkout::Checkout;
use crate::repository::last_merge::{LastMerge, MergedPart};
use crate::repository::project::{oid, tip};
use crate::repository::queue;
use crate::repository::record::Record;

/// Publishes a candidate, after completing what earlier publications left.
pub(crate) fn publish(joint: &Joint, candidate: &Candidate, request: &PublishRequest) -> Result<Published> {
    let parts = parts(joint, candidate)?;
    let locks = joint.lock()?;
    if let Some(obstacle) = finish_notes(joint)? {
        return Ok(Published::Held(obstacle));
    }
    recover::settle_all(joint, &mut |_| {})?;
    if let Some((own, others)) = parts.split_last()
        && others.iter().all(Part::is_idle)
    {
        // What was verified were the others as they were then.
        if !idle_targets_stand(others)? {
            return Ok(Published::Moved);
        }
        drop(locks);
        let published = publication::publish(joint.first(), &own.candidate, request)?;
        match published {
            Published::Done { .. } => complete(joint, &parts)?,
            Published::Incomplete(_) => record(joint, &parts, false)?,
            _ => {}
        }
        return Ok(published);
    }
    check_fence(joint.first(), &candidate.key, request.fence.0)?;
    let mut free = Vec::new();
    let (mut is_begun, mut has_moved) = (false, false);
    for part in parts.iter().filter(|part| !part.is_idle()) {
        match look(part)? {
            // This call is repeated, or another candidate took it along.
            Way::Done => is_begun |= part.is_own(),
            Way::Moved => has_moved = true,
            Way::Held(by) => {
                return held(joint, candidate, request, &parts, is_begun, place(part.member, by));
            }
            Way::Free { from, checkouts } => free.push(Free { part, from, checkouts }),
        }
    }
    // What was verified are all parts together. Once one is published, the others follow without that.
    if !is_begun && !free.is_empty() {
        has_moved |= !idle_targets_stand(&parts)?;
    }
    if has_moved {
        return match is_begun {
            true => half(joint, candidate, request, &parts, None).map(Published::Held),
            false => Ok(Published::Moved),
        };
    }
    if free.is_empty() {
        for part in parts.iter().filter(|part| !part.is_idle()) {
            remember(
                &part.member.project,
                &part.candidate.key,
                request.fence.0,
                &Merged::from(&part.candidate),
            )?;
        }
        complete(joint, &parts)?;
        return Ok(Published::done(Vec::new()));
    }
    let intent = Intent { candidate: candidate.clone(), fence: request.fence.0, is_half: is_begun };
    if let Err(error) = intent.write(joint.first()) {
        return cannot_write(error, None).map(Published::Held);
    }
    match carry(&free, request)? {
        Carried::Done(checkouts) => {
            complete(joint, &parts)?;
            Ok(Published::done(checkouts))
        }
        // All targets have moved, and the notes of the parts are enough to complete them.
        Carried::Incomplete(by) => {
            complete(joint, &parts)?;
            Ok(Published::Incomplete(by))
        }
        Carried::Held(by) => held(joint, candidate, request, &parts, is_begun, by),
        Carried::Moved if !is_begun => {
            Intent::forget(joint.first(), &candidate.key)?;
            Ok(Published::Moved)
        }
        Carried::Moved => half(joint, candidate, request, &parts, None).map(Published::Held),
        Carried::Stopped(why) => half(joint, candidate, request, &parts, why).map(Published::Held),
    }
}

/// Looks whether the target of a part may move.
pub(crate) fn look(part: &Part<'_>) -> Result<Way> {
    let project = &part.member.project;
    let record = Record::read(project, &part.candidate.key)?.unwrap_or_default();
    let way = publication::look(project, &project.open()?, &part.candidate, &record);
    way.map_err(|error| within(part.member, error))
}

/// Completes the publications that are under way in any of the repositories. Returns the obstacle of one that cannot be.
fn finish_notes(joint: &Joint) -> Result<Option<Obstacle>> {
    for member in &joint.members {
        for path in publication::pending(&member.project)? {
            if let Completed::Incomplete(obstacle) = publication::complete(&member.project, &path)? {
                return Ok(Some(place(member, obstacle)));
            }
        }
    }
    Ok(None)
}

/// Returns the outcome of a publication that is held before any further target has moved.
fn held(
    joint: &Joint,
    candidate: &Candidate,
    request: &PublishRequest,
    parts: &[Part<'_>],
    is_begun: bool,
    by: Obstacle,
) -> Result<Published> {
    if is_begun {
        return half(joint, candidate, request, parts, Some(by.to_string())).map(Published::Held);
    }
    // Never queued: other work that is merged onto it would publish one part without the others.
    Intent::forget(joint.first(), &candidate.key)?;
    Ok(Published::Held(by))
}

/// Records that a candidate is half published.
pub(crate) fn half(
    joint: &Joint,
    candidate: &Candidate,
    request: &PublishRequest,
    parts: &[Part<'_>],
    why: Option<String>,
) -> Result<Obstacle> {
    Intent { candidate: candidate.clone(), fence: request.fence.0, is_half: true }.write(joint.first())?;
    let found = found(parts)?;
    record(joint, parts, true)?;
    Ok(found.obstacle(why))
}

/// Records the parts of a candidate that have moved their targets, and ends its intent.
pub(crate) fn complete(joint: &Joint, parts: &[Part<'_>]) -> Result<()> {
    record(joint, parts, false)?;
    let key = parts.last().map(|own| &own.candidate.key);
    key.map_or(Ok(()), |key| Intent::forget(joint.first(), key))
}

/// Records the parts of a candidate that are in their targets, so that an undo takes them back together.
fn record(joint: &Joint, parts: &[Part<'_>], is_half: bool) -> Result<()> {
    let Some(own) = parts.last() else { return Ok(()) };
    let mut merged = Vec::new();
    for Part { member, candidate } in parts.iter().filter(|part| part.is_own()) {
        let Candidate { target, commit, .. } = candidate;
        if !is_half || publication::is_published(&member.project, target, commit)? {
            let (repository, target, commit) = (member.at.clone(), target.clone(), commit.clone());
            merged.push(MergedPart { repository, target, commit });
        }
    }
    match merged.is_empty() {
        true => Ok(()),
        false => LastMerge::record(joint.first(), &own.candidate.key, merged, is_half),
    }
}

/// The parts of a candidate that are in their targets, and the others, in words.
#[derive(Default)]
pub(crate) struct Found {
    there: Vec<String>,
    missing: Vec<String>,
    /// True if a part with work of this candidate's own is in its target.
    is_begun: bool,
}

/// Asks git which targets contain their part.
pub(crate) fn found(parts: &[Part<'_>]) -> Result<Found> {
    let mut found = Found::default();
    for part in parts.iter().filter(|part| !part.is_idle()) {
        let Candidate { target, commit, .. } = &part.candidate;
        let words = format!("{target} of {}", part.member.title());
        let asked = publication::is_published(&part.member.project, target, commit);
        if asked.map_err(|error| within(part.member, error))? {
            found.is_begun |= part.is_own();
            found.there.push(words);
        } else {
            found.missing.push(words);
        }
    }
    Ok(found)
}

impl Found {
    /// Returns true if the targets contain all parts.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns true if they contain some.
    pub(crate) fn is_half(&self) -> bool {
        self.is_begun && !self.is_whole()
    }

    /// Returns the obstacle of a half published candidate.
    pub(crate) fn obstacle(&self, why: Option<String>) -> Obstacle {
        let (there, missing) = (self.there.join(", "), self.missing.join(", "));
        let why = why.unwrap_or_else(|| "the target has moved since the work was merged".to_owned());
        let message = format!("half published: it is in {there}, and not in {missing}: {why}");
        Obstacle::new(ObstacleKind::HalfPublished, message)
    }
}

/// Returns whether the targets of a candidate contain it.
pub(crate) fn found_in_targets(joint: &Joint, candidate: &Candidate) -> Result<InTargets> {
    let found = found(&parts(joint, candidate)?)?;
    Ok(match (found.is_whole(), found.is_half()) {
        (true, _) => InTargets::All,
        (_, true) => InTargets::Some(found.obstacle(None)),
        _ => InTargets::None,
    })
}

/// A part whose target may move.
pub(crate) struct Free<'a> {
    pub(crate) part: &'a Part<'a>,
    pub(crate) from: Option<Oid>,
    pub(crate) checkouts: Vec<Checkout>,
}

/// The result of carrying out several publications as one.
pub(crate) enum Carried {
    /// All targets have moved, and these checkouts with them.
    Done(Vec<PathBuf>),
    /// Nothing has moved.
    Held(Obstacle),
    /// Nothing has moved, since the target of one is not at its base any more.
    Moved,
    /// Some targets have moved, and the next one could not, for this reason.
    Stopped(Option<String>),
    /// All targets have moved, and a checkout could not be brought along.
    Incomplete(Obstacle),
}

/// Publishes parts whose targets may move. The caller holds all locks and has written the intent.
pub(crate) fn carry(free: &[Free<'_>], request: &PublishRequest) -> Result<Carried> {
    let mut publications = Vec::new();
    for Free { part, from, checkouts } in free {
        let begun = Publication::begin(&part.member.project, &part.candidate, *from, request, checkouts);
        match begun {
            Ok(publication) => publications.push(publication),
            Err(error) => {
                abandon(free, &publications)?;
                return cannot_write(error, None).map(|by| Carried::Held(place(part.member, by)));
            }
        }
        reached("joint: noted");
    }
    let ended = carry_noted(free, &publications);
    match &ended {
        // Nothing has moved.
        Err(Ended::Failed(_)) | Ok(Carried::Held(_) | Carried::Moved) => abandon(free, &publications)?,
        _ => {}
    }
    match ended {
        Ok(carried) => Ok(carried),
        Err(Ended::Failed(error) | Ended::FailedAfter(error)) => Err(error),
    }
}

/// Undoes publications of which no target has moved.
fn abandon(free: &[Free<'_>], publications: &[Publication]) -> Result<()> {
    free.iter()
        .zip(publications)
        .try_for_each(|(free, publication)| publication.abandon(&free.part.member.project))
}

/// An error, before or after the first target has moved.
enum Ended {
    Failed(Error),
    FailedAfter(Error),
}

fn carry_noted(free: &[Free<'_>], publications: &[Publication]) -> Result<Carried, Ended> {
    let opened = free.iter().map(|free| free.part.member.project.open()).collect::<Result<Vec<_>>>();
    let opened: Vec<Repository> = opened.map_err(Ended::Failed)?;
    let mut carryings = Vec::new();
    for ((free, publication), repo) in free.iter().zip(publications).zip(&opened) {
        let new = oid(&free.part.candidate.commit).map_err(Ended::Failed)?;
        let carrying = Carrying::new(&free.part.member.project, repo, publication, free.from, new);
        carryings.push((free, carrying.map_err(|error| Ended::Failed(within(free.part.member, error)))?));
    }
    // Two projects that name the same repositories in another order must not wait for each other.
    let mut by_path: Vec<_> = carryings.iter_mut().collect();
    by_path.sort_by(|(a, _), (b, _)| a.part.member.project.common.cmp(&b.part.member.project.common));
    for step in Carrying::BEFORE {
        for (free, carrying) in &mut by_path {
            let outcome = step(carrying).map_err(|error| Ended::Failed(within(free.part.member, error)))?;
            match outcome {
                None => {}
                Some(Outcome::Moved) => return Ok(Carried::Moved),
                Some(Outcome::Held(by)) => return Ok(Carried::Held(place(free.part.member, by))),
                Some(Outcome::Done | Outcome::Incomplete(_)) => {
                    let message = "a publication ended before its target moved";
                    return Err(Ended::Failed(Error::new(ErrorKind::Internal, message)));
                }
            }
        }
    }
    reached("joint: all checked");
    let mut stopped = None;
    let mut moved = 0;
    for ((free, carrying), repo) in carryings.iter().zip(&opened) {
        let why = match carrying.move_target() {
            Ok(true) => None,
            Ok(false) => Some(None),
            // Git decides whether it moved, not the error.
            Err(_) if is_there(repo, &free.part.candidate) => None,
            Err(error) if moved == 0 => return Err(Ended::Failed(within(free.part.member, error))),
            Err(error) => Some(Some(error.report())),
        };
        if let Some(why) = why {
            if moved == 0 {
                return Ok(Carried::Moved);
            }
            stopped = Some(why);
            break;
        }
        moved += 1;
        reached("joint: a target moved");
    }
    let mut checkouts = Vec::new();
    let (mut incomplete, mut failed) = (None, None);
    for (n, ((free, carrying), publication)) in carryings.iter_mut().zip(publications).enumerate() {
        let project = &free.part.member.project;
        let ended = if n >= moved {
            publication.abandon(project)
        } else if let Err(failure) = carrying.bring() {
            // Its note and its locks stay until the next call completes it.
            incomplete = incomplete.or(Some(place(free.part.member, failure.obstacle)));
            Ok(())
        } else {
            checkouts.extend(free.checkouts.iter().map(|checkout| checkout.files.clone()));
            let target = &free.part.candidate.target;
            let withdraw = |()| queue::withdraw(&project.open()?, target, None);
            publication.finish(project).and_then(withdraw)
        };
        failed = failed.or(ended.err().map(|error| within(free.part.member, error)));
        reached("joint: a part ended");
    }
    match (stopped, failed, incomplete) {
        (Some(why), _, _) => Ok(Carried::Stopped(why)),
        (None, Some(error), _) => Err(Ended::FailedAfter(error)),
        (None, None, Some(by)) => Ok(Carried::Incomplete(by)),
        (None, None, None) => Ok(Carried::Done(checkouts)),
    }
}

/// Returns true if the target of a candidate is at its commit.
fn is_there(repo: &Repository, candidate: &Candidate) -> bool {
    let at = tip(repo, &names::head(&candidate.target));
    matches!((at, oid(&candidate.commit)), (Ok(Some(at)), Ok(new)) if at == new)
}
