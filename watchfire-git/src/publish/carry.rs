//! The steps of a publication. Several publications may be carried out side by side, step by step.

use git2::{Oid, Repository};
use watchfire_core::workspace::{Obstacle, ObstacleKind};
use watchfire_core::{Error, ErrorKind, Result};

use crate::failpoint::reached;
use crate::index::file::IndexFile;
use crate::names;
use crate::objects::tree_diff::Change;
use crate::objects::tree_path::check_path;
use crate::publish::bring::Bringing;
use crate::publish::place::Place;
use crate::publish::publication::{Outcome, Publication, aside, cannot_write, changes, failed};
use crate::repository::project::{Project, delete_ref, move_ref};

/// A publication that is being carried out.
pub(crate) struct Carrying<'a> {
    project: &'a Project,
    repo: &'a Repository,
    publication: &'a Publication,
    name: String,
    base: Option<Oid>,
    new: Oid,
    changes: Vec<Change>,
    /// The changes on their way to each checkout.
    bringings: Vec<Bringing>,
    /// The index of each checkout, once it was checked.
    indices: Vec<IndexFile>,
}

/// A failure to bring the changes to a checkout.
pub(crate) struct Failure {
    pub(crate) obstacle: Obstacle,
    /// True if an index is in place already.
    pub(crate) is_entered: bool,
}

/// A step before the target moves. Returns the outcome if it ends the publication.
type Step<'a> = fn(&mut Carrying<'a>) -> Result<Option<Outcome>>;

impl<'a> Carrying<'a> {
    /// The steps before the target moves, in order.
    pub(crate) const BEFORE: [Step<'a>; 4] = [Self::convert, Self::lock, Self::check, Self::announce];

    /// Prepares the way from `base` to `new`. The note of the publication is written.
    pub(crate) fn new(
        project: &'a Project,
        repo: &'a Repository,
        publication: &'a Publication,
        base: Option<Oid>,
        new: Oid,
    ) -> Result<Self> {
        let changes = changes(repo, base, new)?;
        // The history was checked for this too. Whether git itself runs something must not depend on a single
        // check.
        changes.iter().try_for_each(|change| check_path(&change.path))?;
        let bringing = |place| Bringing::new(publication.stage(project, place), aside(project));
        let bringings = publication.checkouts.iter().map(bringing).collect();
        let name = names::head(&publication.target);
        Ok(Self { project, repo, publication, name, base, new, changes, bringings, indices: Vec::new() })
    }

    /// Converts files that need it.
    fn convert(&mut self) -> Result<Option<Outcome>> {
        for place in &self.publication.checkouts {
            // Before the lock, because a filter may take its time. An index that cannot be read is reported
            // further down.
            let Ok(index) = place.index() else { continue };
            let to = self.publication.converted(self.project, place);
            if let Some(obstacle) = place.checkout().convert(self.project, &index, &self.changes, &to)? {
                return Ok(Some(Outcome::Held(obstacle)));
            }
            reached("publication: converted");
        }
        Ok(None)
    }

    /// Takes all locks. None is checked before: a git command could change a checked place otherwise.
    fn lock(&mut self) -> Result<Option<Outcome>> {
        for place in &self.publication.checkouts {
            if !place.lock()? {
                let message = "another git command is running, or left its index.lock";
                return Ok(held(place, ObstacleKind::IndexLocked, message.to_owned()));
            }
        }
        Ok(None)
    }

    /// Checks all checkouts, and writes everything that needs room.
    fn check(&mut self) -> Result<Option<Outcome>> {
        for (place, bringing) in self.publication.checkouts.iter().zip(&self.bringings) {
            let checkout = place.checkout();
            // Checked again, because now no other git command can begin something.
            if let Some(reason) = checkout.underway(&self.name)? {
                return Ok(held(place, ObstacleKind::OperationUnderWay, reason.to_owned()));
            }
            if !checkout.is_on(&self.name)? {
                return Ok(Some(Outcome::Moved));
            }
            let index = match place.index() {
                Ok(index) => index,
                Err(e) => return Ok(held(place, unreadable(&e), unread(&e))),
            };
            let converted = self.publication.converted(self.project, place);
            if let Some(obstacle) = checkout.obstacle(&index, &self.changes, &converted)? {
                return Ok(Some(Outcome::Held(obstacle)));
            }
            let staged = place
                .stage(&self.changes, &converted, bringing)
                .and_then(|()| place.reserve(&index, &self.changes));
            if let Err(error) = staged {
                return cannot_write(error, Some(&place.files)).map(Outcome::Held).map(Some);
            }
            self.indices.push(index);
        }
        reached("publication: staged");
        Ok(None)
    }

    /// Enters the changes into the indices.
    fn announce(&mut self) -> Result<Option<Outcome>> {
        for (place, index) in self.publication.checkouts.iter().zip(self.indices.drain(..)) {
            if let Err(error) = place.announce(index, &self.changes) {
                return cannot_write(error, Some(&place.files)).map(Outcome::Held).map(Some);
            }
        }
        reached("publication: announced");
        Ok(None)
    }

    /// Moves the target. Returns false if another process has moved it.
    pub(crate) fn move_target(&self) -> Result<bool> {
        let message = format!("watchfire: merge {}", self.publication.key);
        move_ref(self.repo, &self.name, self.base, self.new, &message)
    }

    /// Brings the changes to all checkouts.
    pub(crate) fn bring(&mut self) -> Result<(), Failure> {
        let failure = |place: &Place, error: &Error, is_entered| {
            let obstacle = failed(error, Some(&place.files));
            Failure { obstacle, is_entered }
        };
        // All files before the first index: until an index is in place, everything can be taken back.
        let mut indices = Vec::new();
        for (place, bringing) in self.publication.checkouts.iter().zip(&mut self.bringings) {
            let converted = self.publication.converted(self.project, place);
            let index = place.bring(&self.changes, &converted, bringing);
            indices.push((place, index.map_err(|error| failure(place, &error, false))?));
        }
        for (n, (place, index)) in indices.iter().enumerate() {
            place.put(index).map_err(|error| failure(place, &error, n > 0))?;
        }
        let finish = |(place, bringing): (&Place, Bringing)| {
            bringing.finish().map_err(|error| failure(place, &error, true))
        };
        self.publication.checkouts.iter().zip(self.bringings.drain(..)).try_for_each(finish)
    }

    /// Takes back files and target. Returns false if that cannot be done.
    pub(crate) fn take_back(&mut self) -> Result<bool> {
        // The target last: a checkout whose files stay must not lose its target.
        for (place, bringing) in self.publication.checkouts.iter().zip(&mut self.bringings).rev() {
            let converted = self.publication.converted(self.project, place);
            let files = place.take_back(&self.changes, &converted, bringing);
            // The indices before the target, as on the way there.
            if let Err(error) = files.and_then(|()| place.take_back_index()) {
                tracing::warn!(error = %error.report(), "a publication cannot be taken back");
                return Ok(false);
            }
        }
        match self.base {
            Some(base) => {
                move_ref(self.repo, &self.name, Some(self.new), base, "watchfire: merge taken back")
            }
            None => delete_ref(self.repo, &self.name, self.new),
        }
    }
}

fn held(place: &Place, kind: ObstacleKind, message: String) -> Option<Outcome> {
    Some(Outcome::Held(place.checkout().obstructed(kind, message, Vec::new())))
}

fn unread(error: &Error) -> String {
    format!("its index cannot be read ({})", error.report())
}

/// Returns the obstacle that an index is which cannot be read because of `error`.
pub(crate) fn unreadable(error: &Error) -> ObstacleKind {
    match error.kind() {
        ErrorKind::NotSupported if error.detail("extension") == Some("sdir") => ObstacleKind::IndexSparse,
        ErrorKind::NotSupported => ObstacleKind::IndexUnsupported,
        _ => ObstacleKind::IndexUnreadable,
    }
}
