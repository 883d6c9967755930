//! Moves the target to a candidate, and brings the target's checkouts along.
//!
//! The steps come in an order in which a kill at any point is completed or undone by [`complete`]:
//!
//! 1. a note of what is about to happen;
//! 2. the locks of the indices;
//! 3. the checks;
//! 4. the new indices, without what the files will be like ([`Ahead`](crate::index::ahead::Ahead));
//! 5. the reference, by compare-and-swap;
//! 6. the files;
//! 7. the complete indices, which releases their locks;
//! 8. the note is removed.
//!
//! While the reference has moved and the files have not, the locks keep the person's git from committing the
//! difference back.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use serde::{Deserialize, Serialize};
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{
    Candidate, Commit, Obstacle, ObstacleKind, PublishRequest, Published, WorkspaceKey,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::names;
use crate::objects::tree;
use crate::objects::tree_diff::{self, Change};
use crate::plain::{past, snapshot};
use crate::publish::bring::Bringing;
use crate::publish::carry::Carrying;
use crate::publish::place::Place;
use crate::publish::user_checkout::{self, Checkout};
use crate::repository::project::{Kind, Project, commit, oid, tip};
use crate::repository::queue;
use crate::repository::reach;
use crate::repository::record::{Queued, Record};
use crate::repository::ref_lock;

/// The note of a publication that is under way.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Publication {
    pub(super) key: String,
    pub(super) target: String,
    base: Option<Commit>,
    commit: Commit,
    work: Commit,
    #[serde(default)]
    onto: Option<Commit>,
    #[serde(default, rename = "claim_fence")]
    fence: u64,
    pub(super) checkouts: Vec<Place>,
}

/// The result of carrying out a publication.
pub(crate) enum Outcome {
    Done,
    Held(Obstacle),
    /// The target has moved, and the files that were brought could not be taken back.
    Incomplete(Obstacle),
    Moved,
}

/// The result of completing a publication that a killed process left.
#[derive(Debug)]
pub(crate) enum Completed {
    /// Target and checkouts have the merge.
    Done(String, Notices),
    /// The publication was rolled back.
    Undone(String),
    /// The target has the merge, and a checkout could not be brought along.
    Incomplete(Obstacle),
}

/// Remarks for the person about a completed publication.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Places to which displaced edits were moved.
    pub(crate) edits: Vec<PathBuf>,
    /// Files of the merge that the target has changed back since.
    pub(crate) reverted: Vec<RepoPath>,
}

/// Publishes a candidate, after completing what earlier publications left.
pub(crate) fn publish(
    project: &Project,
    candidate: &Candidate,
    request: &PublishRequest,
) -> Result<Published> {
    if project.kind == Kind::Past {
        return Ok(Published::Held(past::obstacle(project, &candidate.key)));
    }
    let _lock = project.lock()?;
    // Its locks and its half-brought files would be in the way of this publication.
    for path in pending(project)? {
        if let Completed::Incomplete(obstacle) = complete(project, &path)? {
            return Ok(Published::Held(obstacle));
        }
    }
    let repo = project.open()?;
    let key = &candidate.key;
    let record = check_fence(project, key, request.fence.0)?;
    let name = names::head(&candidate.target);
    let new = oid(&candidate.commit)?;
    let (from, checkouts) = match look(project, &repo, candidate, &record)? {
        // This call is repeated, or another candidate took it along.
        Way::Done => {
            remember(project, key, request.fence.0, &Merged::from(candidate))?;
            return Ok(Published::done(Vec::new()));
        }
        Way::Moved => return Ok(Published::Moved),
        Way::Held(obstacle) => {
            if !request.once {
                wait(project, &repo, candidate, record, new)?;
            }
            return Ok(Published::Held(obstacle));
        }
        Way::Free { from, checkouts } => (from, checkouts),
    };
    let publication = match Publication::begin(project, candidate, from, request, &checkouts) {
        Ok(publication) => publication,
        Err(error) => return cannot_write(error, None).map(Published::Held),
    };
    match publication.carry_out(project, &repo, from, new) {
        Ok(Outcome::Done) => {
            publication.finish(project)?;
            queue::withdraw(&repo, &candidate.target, None)?;
            Ok(Published::done(checkouts.into_iter().map(|checkout| checkout.files).collect()))
        }
        Ok(Outcome::Held(obstacle)) => {
            publication.abandon(project)?;
            // In a plain folder, edits of the person are commits of the target, and to be merged with.
            if obstacle.kind == ObstacleKind::LocalEdits && snapshot::refresh_locked(project, &repo)?.is_new {
                return Ok(Published::Moved);
            }
            let obstacle = snapshot::explained(project, obstacle);
            if !request.once && !lasts(obstacle.kind) {
                wait(project, &repo, candidate, record, new)?;
            }
            Ok(Published::Held(obstacle))
        }
        // The note and the locks stay until the next call completes the publication.
        Ok(Outcome::Incomplete(obstacle)) => Ok(Published::Incomplete(obstacle)),
        Ok(Outcome::Moved) => {
            publication.abandon(project)?;
            Ok(Published::Moved)
        }
        Err(error) => {
            // Too late to give up: the target has moved.
            if tip(&repo, &name)? == Some(new) {
                return Ok(Published::Incomplete(failed(&error, None)));
            }
            publication.abandon(project)?;
            Err(error)
        }
    }
}

/// Refuses a claim that is older than the newest one that was seen. Returns the record of the work.
pub(crate) fn check_fence(project: &Project, key: &WorkspaceKey, fence: u64) -> Result<Record> {
    let mut record = Record::read(project, key)?.unwrap_or_default();
    if fence < record.fence {
        return Err(Error::new(ErrorKind::ClaimLost, "another orchestrator has taken over this task")
            .with("key", key)
            .with("fence", fence)
            .with("newest", record.fence));
    }
    // On disk before anything else, so that from now on an orchestrator with an older claim is refused.
    if fence > record.fence {
        record.fence = fence;
        record.write(project, key)?;
    }
    Ok(record)
}

/// The way of a candidate to its target.
pub(crate) enum Way {
    /// The target contains it.
    Done,
    /// The target is not at its base any more.
    Moved,
    /// A git operation is under way in a checkout of the target.
    Held(Obstacle),
    /// The target may move from `from`.
    Free { from: Option<Oid>, checkouts: Vec<Checkout> },
}

/// Looks whether the target of a candidate may move to it.
pub(crate) fn look(
    project: &Project,
    repo: &Repository,
    candidate: &Candidate,
    record: &Record,
) -> Result<Way> {
    let name = names::head(&candidate.target);
    let new = oid(&candidate.commit)?;
    let base = candidate.base.as_ref().map(oid).transpose()?;
    let current = tip(repo, &name)?;
    if !repo.odb().during("opening the repository")?.exists(new) {
        let message = format!(
            "the merged work is gone from {}, which was made anew or has lost objects: bring it back, or give the work up with \
             `watchfire branches delete --discard` and have it done again",
            project.root.display()
        );
        return Err(Error::new(ErrorKind::NotFound, message).with("commit", new));
    }
    if let Some(current) = current
        && reach::contains(repo, current, new)?
    {
        return Ok(Way::Done);
    }
    // A candidate on top of one that waits publishes that one too.
    let from = match (current, base) {
        (Some(current), Some(base)) if queue::holds(repo, &candidate.target, current, base)? => Some(current),
        _ => base,
    };
    // A candidate that was published before is not in the target any more: the person took it back, and it
    // must not return.
    if current != from || record.published.as_ref() == Some(&candidate.commit) {
        return Ok(Way::Moved);
    }
    for away in user_checkout::away(project)? {
        if away.is_on(&name)? || away.underway(&name)?.is_some() {
            let message = format!("a worktree that is away has {} checked out", candidate.target);
            return Ok(Way::Held(away.obstructed(ObstacleKind::WorktreeAway, message, Vec::new())));
        }
    }
    let mut checkouts = Vec::new();
    // All checkouts, because during a rebase or bisection of the target none has it checked out.
    for checkout in user_checkout::all(project)? {
        if let Some(reason) = checkout.underway(&name)? {
            let obstacle = checkout.obstructed(ObstacleKind::OperationUnderWay, reason, Vec::new());
            return Ok(Way::Held(obstacle));
        }
        if checkout.is_on(&name)? {
            checkouts.push(checkout);
        }
    }
    Ok(Way::Free { from, checkouts })
}

/// Returns true for obstacles that stay until the branch is merged in another way. Nothing else waits for
/// such a branch.
fn lasts(kind: ObstacleKind) -> bool {
    matches!(
        kind,
        ObstacleKind::FilterNotAllowed
            | ObstacleKind::ConversionFailed
            | ObstacleKind::IndexSparse
            | ObstacleKind::IndexUnreadable
            | ObstacleKind::IndexUnsupported
    )
}

/// Describes a failure to write to a checkout.
pub(crate) fn failed(error: &Error, checkout: Option<&Path>) -> Obstacle {
    let kind = match error.kind() {
        ErrorKind::OutOfSpace => ObstacleKind::OutOfSpace,
        ErrorKind::PermissionDenied => ObstacleKind::ReadOnly,
        _ => ObstacleKind::WriteFailed,
    };
    let obstacle = Obstacle::new(kind, error.report());
    checkout.map_or(obstacle.clone(), |checkout| obstacle.with_checkout(checkout))
}

/// Describes a failure that a person can do something about. Returns any other error as it is.
pub(crate) fn cannot_write(error: Error, checkout: Option<&Path>) -> Result<Obstacle> {
    match error.kind() {
        ErrorKind::OutOfSpace | ErrorKind::PermissionDenied => Ok(failed(&error, checkout)),
        _ => Err(error),
    }
}

/// Returns true if the branch `target` contains `commit`.
pub(crate) fn is_published(project: &Project, target: &str, commit: &Commit) -> Result<bool> {
    let repo = project.open()?;
    let Some(at) = tip(&repo, &names::head(target))? else { return Ok(false) };
    let commit = oid(commit)?;
    let is_there = repo.odb().during("opening the repository")?.exists(commit);
    // A branch contains only commits that exist, and git's walk fails for one that does not.
    if is_there { reach::contains(&repo, at, commit) } else { Ok(false) }
}

/// The parts of a publication that the record of its task keeps.
pub(crate) struct Merged<'a> {
    target: &'a str,
    commit: &'a Commit,
    work: &'a Commit,
    onto: Option<&'a Commit>,
}

impl<'a> From<&'a Candidate> for Merged<'a> {
    fn from(candidate: &'a Candidate) -> Self {
        let Candidate { target, commit, work, onto, .. } = candidate;
        Self { target, commit, work, onto: onto.as_ref() }
    }
}

/// Records the last publication, so that it is not published again.
pub(crate) fn remember(project: &Project, key: &WorkspaceKey, fence: u64, merged: &Merged<'_>) -> Result<()> {
    let mut record = Record::read(project, key)?.unwrap_or_default();
    // The target may have been renamed since the task began.
    record.target = merged.target.to_owned();
    record.fence = record.fence.max(fence);
    record.published = Some(merged.commit.clone());
    record.merged = Some(merged.work.clone());
    record.merged_onto = merged.onto.cloned();
    record.write(project, key)
}

/// Puts a held candidate into the queue.
fn wait(project: &Project, repo: &Repository, candidate: &Candidate, record: Record, new: Oid) -> Result<()> {
    // The record first: work that waits without a record would be published along with other work, and for
    // its own task there would be nothing left to merge.
    Record { queued: Some(Queued::new(candidate)), ..record }.write(project, &candidate.key)?;
    reached("publication: waits");
    queue::push(repo, &candidate.target, tip(repo, &names::head(&candidate.target))?, new)
}

/// Returns the notes of publications that are under way.
pub(crate) fn pending(project: &Project) -> Result<Vec<PathBuf>> {
    let notes = files::entries(&project.state().join("publish"))?;
    Ok(notes
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect())
}

/// Completes or undoes the publication under `key`, if one is under way. The caller holds the project's lock.
pub(crate) fn complete_of(project: &Project, key: &WorkspaceKey) -> Result<Option<Completed>> {
    let path = note(project, &key.to_string());
    if path.is_file() { complete(project, &path).map(Some) } else { Ok(None) }
}

/// Returns the path of the note of the publication under `key`.
fn note(project: &Project, key: &str) -> PathBuf {
    project.state().join("publish").join(format!("{key}.json"))
}

/// Completes or undoes the publication whose note is at `path`. The caller holds the project's lock.
pub(crate) fn complete(project: &Project, path: &Path) -> Result<Completed> {
    let bytes = files::read(path)?.unwrap_or_default();
    let publication: Publication = serde_json::from_slice(&bytes).map_err(|e| {
        Error::new(ErrorKind::WorkspaceBroken, "the note of a publication cannot be read: remove it")
            .with_path(path)
            .with_source(e)
    })?;
    // A kill while the target moved leaves its lock, and every later move would fail.
    ref_lock::release_target(project, &publication.target, publication.commit.as_str());
    let repo = project.open()?;
    let name = names::head(&publication.target);
    let new = oid(&publication.commit)?;
    let title = format!("merge of {} into {}", publication.key, publication.target);
    let moved = match tip(&repo, &name)? {
        Some(current) => reach::contains(&repo, current, new)?,
        None => false,
    };
    if !moved {
        publication.abandon(project)?;
        return Ok(Completed::Undone(title));
    }
    let base = publication.base.as_ref().map(oid).transpose()?;
    let mut notices = Notices::default();
    // A person who removed the lock may have committed since. A checkout should have what the target has now.
    let now = tree::of_commit(&repo, tip(&repo, &name)?)?;
    let mut current = Vec::new();
    let all = changes(&repo, base, new)?;
    for change in &all {
        let at = tree::lookup(&repo, now, &change.path)?;
        match at == change.new {
            true => current.push(change.clone()),
            false if at == change.old => notices.reverted.push(RepoPath::new(change.path.clone())),
            false => {}
        }
    }
    for place in &publication.checkouts {
        if !place.checkout().is_on(&name)? {
            // The person has switched this checkout to another branch since.
            place.release();
            continue;
        }
        match publication.complete_at(project, place, &all, &current) {
            Ok(Ok(edits)) => notices.edits.extend(edits),
            Ok(Err(obstacle)) => return Ok(Completed::Incomplete(obstacle)),
            Err(error) => return Ok(Completed::Incomplete(failed(&error, Some(&place.files)))),
        }
    }
    publication.finish(project)?;
    Ok(Completed::Done(title, notices))
}

/// Returns the folder for displaced edits that cannot stay where they are.
pub(super) fn aside(project: &Project) -> PathBuf {
    project.worktrees().join("aside")
}

pub(super) fn changes(repo: &Repository, base: Option<Oid>, new: Oid) -> Result<Vec<Change>> {
    tree_diff::diff(repo, tree::of_commit(repo, base)?, tree::of_commit(repo, Some(new))?)
}

impl Publication {
    /// Writes the note of a publication before it begins.
    pub(crate) fn begin(
        project: &Project,
        candidate: &Candidate,
        from: Option<Oid>,
        request: &PublishRequest,
        checkouts: &[Checkout],
    ) -> Result<Self> {
        let state = project.shared();
        let publication = Self {
            key: candidate.key.to_string(),
            target: candidate.target.clone(),
            base: from.map(commit),
            commit: candidate.commit.clone(),
            work: candidate.work.clone(),
            onto: candidate.onto.clone(),
            fence: request.fence.0,
            checkouts: checkouts
                .iter()
                .map(|checkout| Place::new(checkout, &state))
                .collect::<Result<_>>()?,
        };
        let bytes = serde_json::to_vec_pretty(&publication)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a note").with_source(e))?;
        // Without a checkout a power failure can leave nothing to complete.
        let replace = if checkouts.is_empty() { files::replace } else { files::replace_durably };
        replace(&publication.path(project), &bytes)?;
        Ok(publication)
    }

    fn carry_out(
        &self,
        project: &Project,
        repo: &Repository,
        base: Option<Oid>,
        new: Oid,
    ) -> Result<Outcome> {
        let mut carrying = Carrying::new(project, repo, self, base, new)?;
        for step in Carrying::BEFORE {
            if let Some(outcome) = step(&mut carrying)? {
                return Ok(outcome);
            }
        }
        if !carrying.move_target()? {
            return Ok(Outcome::Moved);
        }
        let Err(failure) = carrying.bring() else { return Ok(Outcome::Done) };
        let is_back = !failure.is_entered && carrying.take_back()?;
        Ok(if is_back { Outcome::Held(failure.obstacle) } else { Outcome::Incomplete(failure.obstacle) })
    }

    /// Completes a publication in one checkout. Returns the places of the edits that it displaced, or the
    /// obstacle.
    fn complete_at(
        &self,
        project: &Project,
        place: &Place,
        all: &[Change],
        current: &[Change],
    ) -> Result<std::result::Result<Vec<PathBuf>, Obstacle>> {
        let checkout = place.checkout();
        // The person may have removed the lock.
        if !place.is_locked() && !place.lock()? {
            let message = "another git command is running, or left its index.lock";
            return Ok(Err(checkout.obstructed(ObstacleKind::IndexLocked, message, Vec::new())));
        }
        let (converted, stage) = (self.converted(project, place), self.stage(project, place));
        let aside = aside(project);
        // Before the stage is filled, which empties it first: it may hold the only copy of an edit.
        let edits = checkout.sweep(&place.index()?, all, &converted, &stage, &aside)?;
        let mut bringing = Bringing::new(stage, aside);
        place.stage(current, &converted, &bringing)?;
        let index = place.bring(current, &converted, &mut bringing)?;
        place.put(&index)?;
        bringing.finish()?;
        Ok(Ok(edits))
    }

    /// Records the publication and removes its note.
    pub(crate) fn finish(&self, project: &Project) -> Result<()> {
        if let Some(key) = names::parse_key(&self.key) {
            let (target, commit) = (&self.target, &self.commit);
            let merged = Merged { target, commit, work: &self.work, onto: self.onto.as_ref() };
            remember(project, &key, self.fence, &merged)?;
        }
        self.abandon(project)
    }

    /// Releases the locks, removes the stages, and removes the note.
    pub(crate) fn abandon(&self, project: &Project) -> Result<()> {
        reached("publication: ending");
        self.checkouts.iter().for_each(Place::release);
        reached("publication: released");
        for place in &self.checkouts {
            place.clear(&self.stage(project, place))?;
        }
        files::remove_tree(&self.path(project).with_extension("files")).during("removing converted files")?;
        // Last: as long as the note is there, the next start removes what a kill left.
        files::absent(fs::remove_file(self.path(project))).during("removing a note").map(|_| ())
    }

    fn path(&self, project: &Project) -> PathBuf {
        note(project, &self.key)
    }

    /// Returns the folder in which the new contents for a checkout wait.
    pub(super) fn stage(&self, project: &Project, place: &Place) -> PathBuf {
        place.stage.clone().unwrap_or_else(|| self.converted(project, place).with_extension("stage"))
    }

    /// Returns the folder of converted files for a checkout. They stay as long as the note.
    pub(super) fn converted(&self, project: &Project, place: &Place) -> PathBuf {
        let name = place.token.file_name().unwrap_or_default();
        self.path(project).with_extension("files").join(name)
    }
}
