//! The target moved to a candidate, and the checkouts of it brought along.
//!
//! The order, so that a kill at any point is completed or undone by [`complete`]: a note of what is about to happen;
//! the locks of the indices; the checks; the reference, by compare-and-swap; the files; the indices, which releases
//! their locks; the note goes. As long as the reference has moved and the files have not, the locks keep the
//! person's git from committing the difference back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{Oid, Repository};
use serde::{Deserialize, Serialize};
use watchfire_core::workspace::{
    Candidate, Commit, Obstacle, ObstacleKind, PublishRequest, Published, WorkspaceKey,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files::{self, unique};
use crate::index_file::IndexFile;
use crate::names;
use crate::queue;
use crate::reach;
use crate::record::{Queued, Record};
use crate::repository::{Project, commit, move_ref, oid, tip};
use crate::tree;
use crate::tree_diff::{self, Change};
use crate::user_checkout::{self, Checkout};

/// How long a publication waits for a git command of the person.
const PATIENCE: Duration = Duration::from_millis(500);

/// A publication under way.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Publication {
    key: String,
    target: String,
    base: Option<Commit>,
    commit: Commit,
    work: Commit,
    fence: u64,
    checkouts: Vec<Place>,
}

/// A checkout that takes part in a publication.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Place {
    git: PathBuf,
    files: PathBuf,
    /// A file of ours. The lock is a second name of it, which proves that it is ours.
    token: PathBuf,
}

/// What came of carrying out a publication.
enum Outcome {
    Done,
    Held(Obstacle),
    Moved,
}

/// What became of a publication that a killed process left.
#[derive(Debug)]
pub(crate) enum Completed {
    /// The target has it, and so have the checkouts. Files that were displaced and hold an edit.
    Done(String, Vec<PathBuf>),
    /// Nothing of it is left.
    Undone(String),
    /// The target has it; a checkout could not be brought along.
    Stuck(String),
}

/// Publishes a candidate.
pub(crate) fn publish(
    project: &Project,
    candidate: &Candidate,
    request: &PublishRequest,
) -> Result<Published> {
    let _lock = project.lock()?;
    for path in pending(project)? {
        complete(project, &path)?;
    }
    let repo = project.open()?;
    let key = &candidate.key;
    let record = Record::read(project, key)?.unwrap_or_default();
    if request.fence.0 < record.fence {
        return Err(Error::new(ErrorKind::ClaimLost, "another orchestrator has taken over this task")
            .with("key", key)
            .with("fence", request.fence.0)
            .with("newest", record.fence));
    }
    let name = names::head(&candidate.target);
    let new = oid(&candidate.commit)?;
    let base = candidate.base.as_ref().map(oid).transpose()?;
    let current = tip(&repo, &name)?;
    if let Some(current) = current
        && reach::contains(&repo, current, new)?
    {
        remember(project, key, request.fence.0, &candidate.commit, &candidate.work)?;
        return Ok(Published::Done { checkouts: Vec::new() });
    }
    // A candidate on top of one that waits takes it along.
    let from = match (current, base) {
        (Some(current), Some(base)) if queue::holds(&repo, &candidate.target, current, base)? => {
            Some(current)
        }
        _ => base,
    };
    if current != from || record.published.as_ref() == Some(&candidate.commit) {
        return Ok(Published::Moved);
    }
    let mut checkouts = Vec::new();
    for checkout in user_checkout::all(project)? {
        if let Some(reason) = checkout.underway(&name)? {
            wait(project, &repo, candidate, record, new)?;
            let obstacle = checkout.obstructed(ObstacleKind::OperationUnderWay, reason, Vec::new());
            return Ok(Published::Held(obstacle));
        }
        if checkout.is_on(&name)? {
            checkouts.push(checkout);
        }
    }
    let publication = Publication::begin(project, candidate, from, request, &checkouts)?;
    let published = publication.carry_out(project, &repo, from, new);
    match published {
        Ok(Outcome::Done) => {
            publication.finish(project)?;
            queue::withdraw(&repo, &candidate.target, None)?;
            Ok(Published::Done { checkouts: checkouts.into_iter().map(|checkout| checkout.files).collect() })
        }
        Ok(Outcome::Held(obstacle)) => {
            publication.abandon(project)?;
            if !lasts(obstacle.kind) {
                wait(project, &repo, candidate, record, new)?;
            }
            Ok(Published::Held(obstacle))
        }
        Ok(Outcome::Moved) => {
            publication.abandon(project)?;
            Ok(Published::Moved)
        }
        // The note and the locks stay for the next call.
        Err(error) if tip(&repo, &name)? == Some(new) => Ok(Published::Incomplete(failed(&error))),
        Err(error) => {
            publication.abandon(project)?;
            Err(error)
        }
    }
}

/// Returns true for obstacles that stay until the branch is merged in another way: nothing else waits for that.
fn lasts(kind: ObstacleKind) -> bool {
    matches!(
        kind,
        ObstacleKind::FilterNotAllowed
            | ObstacleKind::ConversionFailed
            | ObstacleKind::IndexUnreadable
            | ObstacleKind::IndexUnsupported
    )
}

/// Describes a failure to write to a checkout.
fn failed(error: &Error) -> Obstacle {
    let kind = match error.kind() {
        ErrorKind::OutOfSpace => ObstacleKind::OutOfSpace,
        ErrorKind::PermissionDenied => ObstacleKind::ReadOnly,
        _ => ObstacleKind::WriteFailed,
    };
    Obstacle::new(kind, error.report())
}

/// Returns true if the branch `target` contains `commit`.
pub(crate) fn is_published(project: &Project, target: &str, commit: &Commit) -> Result<bool> {
    let repo = project.open()?;
    let Some(at) = tip(&repo, &names::head(target))? else { return Ok(false) };
    let commit = oid(commit)?;
    let is_there = repo.odb().during("opening the repository")?.exists(commit);
    // What a branch contains is there: a commit that is not was never published, or cannot be.
    if is_there { reach::contains(&repo, at, commit) } else { Ok(false) }
}

/// Remembers what was published last, so that it is not published again.
fn remember(project: &Project, key: &WorkspaceKey, fence: u64, commit: &Commit, work: &Commit) -> Result<()> {
    let mut record = Record::read(project, key)?.unwrap_or_default();
    record.fence = record.fence.max(fence);
    record.published = Some(commit.clone());
    record.merged = Some(work.clone());
    record.write(project, key)
}

/// Lets a held candidate wait in the queue.
fn wait(project: &Project, repo: &Repository, candidate: &Candidate, record: Record, new: Oid) -> Result<()> {
    queue::push(repo, &candidate.target, tip(repo, &names::head(&candidate.target))?, new)?;
    Record { queued: Some(Queued::new(candidate)), ..record }.write(project, &candidate.key)
}

/// The notes of publications under way.
pub(crate) fn pending(project: &Project) -> Result<Vec<PathBuf>> {
    let notes = files::entries(&project.state().join("publish"))?;
    Ok(notes
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect())
}

/// Completes or undoes what the note at `path` says was under way. The caller holds the project's lock.
pub(crate) fn complete(project: &Project, path: &Path) -> Result<Completed> {
    let bytes = files::read(path)?.unwrap_or_default();
    let publication: Publication = serde_json::from_slice(&bytes).map_err(|e| {
        Error::new(ErrorKind::WorkspaceBroken, "the note of a publication cannot be read: remove it")
            .with_path(path)
            .with_source(e)
    })?;
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
    let changes = changes(&repo, base, new)?;
    let mut left = Vec::new();
    for place in &publication.checkouts {
        if !place.checkout().is_on(&name)? {
            place.release();
            continue;
        }
        if !place.is_locked() && !place.lock()? {
            return Ok(Completed::Stuck(format!(
                "{title}: {} is locked by another git",
                place.files.display()
            )));
        }
        let converted = publication.converted(project, place);
        left.extend(place.checkout().sweep(&changes, &converted)?);
        place.bring(&changes, &converted)?;
    }
    publication.finish(project)?;
    Ok(Completed::Done(title, left))
}

fn changes(repo: &Repository, base: Option<Oid>, new: Oid) -> Result<Vec<Change>> {
    tree_diff::diff(repo, tree::of_commit(repo, base)?, tree::of_commit(repo, Some(new))?)
}

impl Publication {
    /// Notes what is about to happen.
    fn begin(
        project: &Project,
        candidate: &Candidate,
        from: Option<Oid>,
        request: &PublishRequest,
        checkouts: &[Checkout],
    ) -> Result<Self> {
        let place = |checkout: &Checkout| Place {
            git: checkout.git.clone(),
            files: checkout.files.clone(),
            token: checkout.git.join(unique("lock")),
        };
        let publication = Self {
            key: candidate.key.to_string(),
            target: candidate.target.clone(),
            base: from.map(commit),
            commit: candidate.commit.clone(),
            work: candidate.work.clone(),
            fence: request.fence.0,
            checkouts: checkouts.iter().map(place).collect(),
        };
        let bytes = serde_json::to_vec_pretty(&publication)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a note").with_source(e))?;
        // Without a checkout there is nothing to complete.
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
        let name = names::head(&self.target);
        let changes = changes(repo, base, new)?;
        for place in &self.checkouts {
            // Before the lock: a filter may take its time. An index that cannot be read is spoken of below.
            let Ok(index) = place.index() else { continue };
            let to = self.converted(project, place);
            if let Some(obstacle) = place.checkout().convert(project, &index, &changes, &to)? {
                return Ok(Outcome::Held(obstacle));
            }
            reached("publication: converted");
        }
        for place in &self.checkouts {
            if !place.lock()? {
                let message = "another git command is running, or left its index.lock";
                return Ok(place.held(ObstacleKind::IndexLocked, message));
            }
        }
        for place in &self.checkouts {
            let checkout = place.checkout();
            // Once more, now that nobody else can begin something.
            if let Some(reason) = checkout.underway(&name)? {
                return Ok(place.held(ObstacleKind::OperationUnderWay, reason));
            }
            if !checkout.is_on(&name)? {
                return Ok(Outcome::Moved);
            }
            let index = match place.index() {
                Ok(index) => index,
                Err(e) => {
                    let message = format!("its index cannot be read ({})", e.report());
                    return Ok(place.held(ObstacleKind::IndexUnreadable, message));
                }
            };
            if let Some(obstacle) = checkout.obstacle(&index, &changes, &self.converted(project, place))? {
                return Ok(Outcome::Held(obstacle));
            }
        }
        let message = format!("watchfire: merge {}", self.key);
        if !move_ref(repo, &name, base, new, &message)? {
            return Ok(Outcome::Moved);
        }
        for place in &self.checkouts {
            place.bring(&changes, &self.converted(project, place))?;
        }
        Ok(Outcome::Done)
    }

    /// Remembers the publication and removes the note.
    fn finish(&self, project: &Project) -> Result<()> {
        if let Some(key) = names::parse_key(&self.key) {
            remember(project, &key, self.fence, &self.commit, &self.work)?;
        }
        self.abandon(project)
    }

    /// Releases the locks and removes the note.
    fn abandon(&self, project: &Project) -> Result<()> {
        reached("publication: ending");
        self.checkouts.iter().for_each(Place::release);
        reached("publication: released");
        files::remove_tree(&self.path(project).with_extension("files")).during("removing converted files")?;
        files::absent(fs::remove_file(self.path(project))).during("removing a note").map(|_| ())
    }

    fn path(&self, project: &Project) -> PathBuf {
        project.state().join("publish").join(format!("{}.json", self.key))
    }

    /// Where files are that git has converted for a checkout; they last as long as the note.
    fn converted(&self, project: &Project, place: &Place) -> PathBuf {
        let name = place.token.file_name().unwrap_or_default();
        self.path(project).with_extension("files").join(name)
    }
}

impl Place {
    fn held(&self, kind: ObstacleKind, message: impl Into<String>) -> Outcome {
        Outcome::Held(self.checkout().obstructed(kind, message, Vec::new()))
    }

    fn checkout(&self) -> Checkout {
        Checkout { git: self.git.clone(), files: self.files.clone() }
    }

    fn lock_path(&self) -> PathBuf {
        self.git.join("index.lock")
    }

    /// Takes git's own lock on the index; false if somebody else has it.
    fn lock(&self) -> Result<bool> {
        // An old token may by now be the index itself.
        let made = files::absent(fs::remove_file(&self.token))
            .and_then(|_| fs::OpenOptions::new().write(true).create_new(true).open(&self.token));
        made.map_err(|e| Error::io("locking the index", e).with_path(&self.token))?;
        reached("lock: token made");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::hard_link(&self.token, self.lock_path()) {
                Ok(()) => {
                    reached("lock: taken");
                    return Ok(true);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("locking the index", e).with_path(self.lock_path())),
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the lock is there, and ours.
    fn is_locked(&self) -> bool {
        files::is_same(&self.token, &self.lock_path())
    }

    fn release(&self) {
        if self.is_locked() {
            _ = fs::remove_file(self.lock_path());
        }
        _ = fs::remove_file(&self.token);
    }

    fn index(&self) -> Result<IndexFile> {
        IndexFile::read(&self.git.join("index"))
    }

    /// Brings the changes to files and index, and releases the lock by putting the new index in place.
    fn bring(&self, changes: &[Change], converted: &Path) -> Result<()> {
        let index = self.checkout().apply(self.index()?, changes, converted)?;
        reached("publication: files brought");
        let bytes = index.to_bytes();
        let path = self.lock_path();
        let written = (|| {
            use std::io::Write;
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            if let Ok(old) = fs::metadata(self.git.join("index")) {
                file.set_permissions(old.permissions())?;
            }
            reached("publication: index written");
            fs::rename(&path, self.git.join("index"))
        })();
        written.map_err(|e| Error::io("writing the index", e).with_path(&path))?;
        reached("publication: index in place");
        _ = fs::remove_file(&self.token);
        Ok(())
    }
}
