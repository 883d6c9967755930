//! Moves the person's references, HEAD and index as a guest moved its own.

use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::guest::copies::Guest;
use crate::guest::import::Imported;
use crate::guest::state::{Head, State, is_carried};
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::names;
use crate::objects::tree_diff;
use crate::publish::user_checkout;
use crate::repository::left;
use crate::repository::project::{Project, delete_ref, move_ref};
use crate::repository::reach;

/// Reason for which something stays as the person has it.
pub(super) const OUTSIDE: &str = "it was moved outside meanwhile";

/// Name of HEAD among references.
pub(super) const HEAD: &str = "HEAD";

/// A reference that a guest made, moved or deleted.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) name: String,
    pub(super) old: Option<Oid>,
    pub(super) new: Option<Oid>,
}

/// Outcome of carrying over one reference.
enum Carried {
    Done,
    /// The person moved it too, or it must not move.
    Refused(String),
}

/// Moves references of the person's.
pub(super) struct Carrier<'a> {
    pub(super) project: &'a Project,
    pub(super) repo: &'a Repository,
    pub(super) guest: &'a Guest,
    /// The reason for which nothing moves, if there is one.
    pub(super) held: Option<&'a str>,
}

impl Carrier<'_> {
    /// Moves one reference as the guest did. If it must not move, keeps the guest's commits elsewhere and adds the
    /// reason to the report for the person.
    pub(super) fn carry(
        &self,
        moved: &Moved,
        refused: Option<&String>,
        imported: &mut Imported,
    ) -> Result<()> {
        let refused = match (refused, self.held) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(reason)) => Some(reason.to_owned()),
            (None, None) => match self.try_carry(moved)? {
                Carried::Done => None,
                Carried::Refused(reason) => Some(reason),
            },
        };
        let Some(reason) = refused else { return Ok(()) };
        let Moved { name, new, .. } = moved;
        match new {
            Some(id) => {
                left::put_named(self.repo, &self.guest.name, name, *id)?;
                let kept = names::left_named(&self.guest.name, name);
                imported
                    .told
                    .push(format!("{name} of the chat is not taken over ({reason}): it is kept as {kept}"));
            }
            None => imported.told.push(format!("{name} is not deleted ({reason})")),
        }
        Ok(())
    }

    /// Returns the reason for which HEAD must not move as the guest's did, if there is one.
    pub(super) fn refuses_head(
        &self,
        ours: &State,
        base: &State,
        theirs: &State,
        sound: &[Oid],
        refused: Option<&String>,
    ) -> Result<Option<String>> {
        let not_there = || Some("its commits were not taken over".to_owned());
        if let Some(reason) = self.held {
            return Ok(Some(reason.to_owned()));
        }
        if ours.head != base.head {
            return Ok(Some(OUTSIDE.to_owned()));
        }
        if refused.is_some() {
            return Ok(refused.cloned());
        }
        Ok(match &theirs.head {
            Head::Branch(name) if !is_carried(name) || !is_branch_of_persons(name) => {
                Some(format!("{name} is no branch for a person"))
            }
            // A branch without a commit has no reference, on both sides.
            Head::Branch(name) if ours.refs.get(name) != theirs.refs.get(name) => not_there(),
            Head::Branch(name) => self.elsewhere(name)?,
            Head::Commit(id) if !sound.contains(id) => not_there(),
            Head::Commit(_) => None,
        })
    }

    /// Returns the reason for which the branch `name` must not move: another worktree of the person has it.
    fn elsewhere(&self, name: &str) -> Result<Option<String>> {
        self.checked_out(name, |git| git != self.project.git)
    }

    /// Returns in which of the person's checkouts, of those `among` whose folders of git it is, the branch is checked out.
    fn checked_out(&self, name: &str, among: impl Fn(&Path) -> bool) -> Result<Option<String>> {
        for checkout in user_checkout::all(self.project)? {
            if among(&checkout.git) && checkout.is_on(name)? {
                return Ok(Some(format!("it is checked out in {}", checkout.files.display())));
            }
        }
        Ok(None)
    }

    fn try_carry(&self, moved: &Moved) -> Result<Carried> {
        let Moved { name, old, new } = moved;
        let (repo, message) = (self.repo, "watchfire: from a chat");
        let there = repo.find_reference(name).ok().and_then(|reference| reference.target());
        if there == *new {
            return Ok(Carried::Done);
        }
        let outside = || Ok(Carried::Refused(OUTSIDE.to_owned()));
        if there != *old {
            return outside();
        }
        if new.is_some() && !is_branch_of_persons(name) {
            return Ok(Carried::Refused("git makes no branch of that name".to_owned()));
        }
        // The guest's own checkout is the person's: both may move a branch there. But nobody deletes one that is checked out,
        // and the person may have switched to it meanwhile.
        if let Some(reason) = self.checked_out(name, |git| new.is_none() || git != self.project.git)? {
            return Ok(Carried::Refused(reason));
        }
        if let Some(old) = *old {
            // Amended, reset, rebased or deleted. HEAD has the commits of a branch that was merged before it went.
            let by = new.or_else(|| repo.head().ok().and_then(|head| head.target()));
            let is_reached = by.is_some_and(|by| reach::contains(repo, by, old).unwrap_or(false));
            if !is_reached {
                left::put(repo, &self.guest.name, old)?;
            }
        }
        let done = match (old, new) {
            (Some(old), None) => delete_ref(repo, name, *old),
            (old, Some(new)) => move_ref(repo, name, *old, *new, message),
            (None, None) => Ok(true),
        };
        match done {
            Ok(true) => Ok(Carried::Done),
            Ok(false) => outside(),
            // A name that lies below or above another one, or a lock of a git that was killed.
            Err(error) => Ok(Carried::Refused(error.report())),
        }
    }
}

/// Returns true unless `name` is a branch with a name that git's commands refuse, such as one that looks like an option.
fn is_branch_of_persons(name: &str) -> bool {
    let branch = name.strip_prefix("refs/heads/");
    branch.is_none_or(|branch| git2::Branch::name_is_valid(branch).unwrap_or(false))
}

/// Moves HEAD as the guest did. Returns false if it is not at `old` any more.
pub(super) fn set_head(repo: &Repository, old: &Head, new: &Head) -> Result<bool> {
    let message = "watchfire: from a chat";
    let done = match (old, new) {
        (Head::Branch(old), Head::Branch(new)) => {
            repo.reference_symbolic_matching(HEAD, new, true, old, message).map(drop)
        }
        (Head::Commit(old), Head::Commit(new)) => {
            repo.reference_matching(HEAD, *new, true, *old, message).map(drop)
        }
        // libgit2 compares values of one kind only. The person's git holds the lock of the index while it moves HEAD,
        // and that is ours now.
        (_, Head::Branch(new)) => repo.set_head(new),
        (_, Head::Commit(new)) => repo.set_head_detached(*new),
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.code() == git2::ErrorCode::Modified => Ok(false),
        Err(error) => Err(error).during("moving HEAD"),
    }
}

/// Returns the person's index with what the guest committed, but for paths that the person staged otherwise. Returns `None`
/// if nothing changes.
pub(super) fn entered(
    project: &Project,
    repo: &Repository,
    base: &IndexFile,
    mut index: IndexFile,
    [old, new]: [Option<Oid>; 2],
) -> Result<Option<IndexFile>> {
    let tree = |commit: Option<Oid>| {
        let tree = commit.map(|id| repo.find_commit(id).map(|commit| commit.tree_id()));
        tree.transpose().during("reading a commit")
    };
    let changes = tree_diff::diff(repo, tree(old)?, tree(new)?)?;
    if changes.is_empty() {
        return Ok(None);
    }
    // The index gets a new time, and git believes entries that are older than their index.
    index.settle(&project.root);
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for change in &changes {
        let node = |index: &IndexFile| index.entry(&change.path).map(|entry| entry.node);
        let there = node(&index);
        if there != change.old && there != node(base) {
            continue;
        }
        match change.new {
            // Without a stamp: what the guest's index says of the file is not believed, so git looks at it.
            Some(node) => set.push(Entry::new(&change.path, node, None)),
            None => removed.push(change.path.as_slice()),
        }
    }
    index.change(set, &removed);
    Ok(Some(index))
}
