//! Carries what a guest did over to the person's repository: objects, each one checked, then references, HEAD and
//! index. May be repeated, also after a kill half-way.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::guest::copies::Guest;
use crate::guest::stash::StashNews;
use crate::guest::state::{Head, State, is_carried};
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::names;
use crate::private::copies::unreadable;
use crate::private::transfer::Transfer;
use crate::publish::user_checkout;
use crate::repository::index_lock::IndexLock;
use crate::repository::left;
use crate::repository::project::{Project, delete_ref, move_ref};
use crate::repository::reach;
use crate::repository::tree::{Node, SUBMODULE};
use crate::repository::tree_diff;

/// A reference that a guest made, moved or deleted.
#[derive(Debug)]
struct Moved {
    name: String,
    old: Option<Oid>,
    new: Option<Oid>,
}

/// What came of carrying over one reference.
enum Carried {
    Done,
    /// The person moved it too, or it must not move.
    Refused(String),
}

/// Result of an import.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// Remarks for the person: what was not carried over, and where it is kept.
    pub(crate) told: Vec<String>,
    /// True if something in the copies is not what git would have written. It stays there alone.
    pub(crate) is_damaged: bool,
}

/// Carries over what the guest did since both sides had `base` in common. Returns `None` if the person's git is at
/// work at this moment. If `held`, moves no reference for that reason, and keeps the commits elsewhere.
pub(crate) fn import(
    project: &Project,
    repo: &Repository,
    guest: &Guest,
    [base, theirs]: [&State; 2],
    held: Option<&str>,
) -> Result<Option<Imported>> {
    let mut imported = Imported::default();
    let moved = moved(base, theirs);
    let stash = StashNews::of(guest)?;
    // What the guest took back since the last import is not here yet.
    let odb = repo.odb().during("opening the repository")?;
    let logged = logged(project, guest, &moved)?;
    let has_lost = logged.iter().any(|id| !odb.exists(*id));
    if moved.is_empty() && stash.is_empty() && base.head == theirs.head && !has_lost {
        return Ok(Some(imported));
    }
    let mut transfer = Transfer::new(project, &guest.objects())?;
    let mut sound = Vec::new();
    for Moved { name, old, new } in moved {
        let is_sound = match new {
            None => true,
            Some(id) if name.starts_with("refs/heads/") => {
                transfer.may_be_commit(id) && transfer.sound_commit(id)?
            }
            Some(id) => transfer.sound_reference(id)?,
        };
        if is_sound {
            sound.push(Moved { name, old, new });
        } else {
            imported.is_damaged = true;
            imported.told.push(format!("{name} of the chat is not taken over: it is not what git writes"));
        }
    }
    let detached = match theirs.head {
        Head::Commit(id) if base.head != theirs.head => Some(id),
        _ => None,
    };
    let mut others = Vec::new();
    for id in stash.added.iter().map(|entry| entry.id).chain(detached) {
        if transfer.may_be_commit(id) && transfer.sound_commit(id)? {
            others.push(id);
        } else {
            imported.is_damaged = true;
        }
    }
    // The guest took these back. Its git may have removed parts, so unsound ones are skipped.
    let mut taken_back = Vec::new();
    for id in logged {
        if transfer.may_be_commit(id) && transfer.sound_commit(id)? {
            taken_back.push(id);
        }
    }
    let submodules = new_submodules(&transfer, base, &sound, detached)?;
    transfer.finish()?;
    reached("guest: objects are there");

    let branch = match &base.head {
        Head::Branch(name) => Some(name),
        Head::Commit(_) => None,
    };
    let moves_head = base.head != theirs.head || sound.iter().any(|moved| Some(&moved.name) == branch);
    let moves_head = moves_head && held.is_none();
    let lock = if moves_head { IndexLock::take_as(&project.git, guest.lock_token())? } else { None };
    if moves_head && lock.is_none() {
        return Ok(None);
    }
    // Before anything moves: an index that cannot be read must not become wrong.
    let index = match &lock {
        Some(_) => IndexFile::read(&project.git.join("index"))?,
        None => IndexFile::default(),
    };
    if index.has_conflicts() {
        return Ok(None);
    }
    let carrier = Carrier { project, repo, guest, held };
    // HEAD can name a branch only once that is there, and leaves one before that goes.
    let (deleted, made): (Vec<_>, Vec<_>) = sound.iter().partition(|moved| moved.new.is_none());
    for moved in made {
        carrier.carry(moved, submodules.get(&moved.name), &mut imported)?;
    }
    let ours = State::of_person(project)?;
    let mut follows = ours.head == theirs.head;
    if base.head != theirs.head && !follows {
        let is_there = match &theirs.head {
            // A branch without a commit may have no reference, on both sides.
            Head::Branch(name) => ours.refs.get(name) == theirs.refs.get(name),
            Head::Commit(id) => others.contains(id) && !submodules.contains_key(HEAD),
        };
        follows =
            is_there && held.is_none() && ours.head == base.head && set_head(repo, &ours.head, &theirs.head)?;
        if !follows {
            let told =
                "the chat's switch to another branch is not taken over: HEAD was moved outside meanwhile";
            imported.told.push(told.to_owned());
        }
    }
    reached("guest: references moved");
    if let Some(lock) = lock
        && follows
        && State::of_person(project)?.commit() == theirs.commit()
    {
        let base_index = guest.base_index()?;
        enter(project, repo, &base_index, index, [base.commit(), theirs.commit()], lock)?;
    }
    for moved in deleted {
        carrier.carry(moved, None, &mut imported)?;
    }
    if imported.is_damaged {
        // A stash that cannot be read whole stays where it is.
        others.retain(|id| stash.added.iter().any(|entry| entry.id == *id));
    } else {
        stash.dropped.iter().try_for_each(|id| left::put(repo, &guest.name, *id))?;
        stash.apply(project)?;
    }
    others.extend(taken_back);
    left::keep_beyond(
        project,
        repo,
        &guest.name,
        &others,
        theirs.commit().into_iter().filter(|_| follows).collect(),
    )?;
    // A `git gc --prune=now` of the person may have come between the objects and the references to them.
    transfer.check()?;
    Ok(Some(imported))
}

/// Name of HEAD among the references with submodules.
const HEAD: &str = "HEAD";

/// Returns what the guest did to the references that are carried over.
fn moved(base: &State, theirs: &State) -> Vec<Moved> {
    let names = base.refs.keys().chain(theirs.refs.keys().filter(|name| !base.refs.contains_key(*name)));
    let moved = names.filter(|name| is_carried(name)).filter_map(|name| {
        let (old, new) = (base.refs.get(name).copied(), theirs.refs.get(name).copied());
        (old != new).then(|| Moved { name: name.clone(), old, new })
    });
    moved.collect()
}

/// Returns the commits that the guest made and took back, as far as its git has recorded them.
fn logged(project: &Project, guest: &Guest, moved: &[Moved]) -> Result<Vec<Oid>> {
    let top = guest.top();
    let mut found = left::noted(&top).map_err(unreadable)?;
    let logs = moved.iter().map(|moved| moved.name.as_str()).filter(|name| name.starts_with("refs/heads/"));
    for name in logs.chain([HEAD]) {
        let log = |git: &Path| git.join("logs").join(name);
        found.extend(left::logged(&log(&top), Some(&log(&project.git))).map_err(unreadable)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Submodules that new commits add, by the reference that brings them.
type Submodules = BTreeMap<String, RepoPath>;

/// Returns the references whose new commits add a submodule. With its path, git of the person would look into the
/// repository that the guest made there, and run what that says.
fn new_submodules(
    transfer: &Transfer,
    base: &State,
    moved: &[Moved],
    detached: Option<Oid>,
) -> Result<Submodules> {
    let repo = transfer.both();
    let during = "looking for submodules";
    let mut found = Submodules::new();
    let heads = moved.iter().filter_map(|moved| Some((moved.name.as_str(), moved.new?)));
    for (name, new) in heads.chain(detached.map(|id| (HEAD, id))) {
        let Ok(new) = repo.find_object(new, None).and_then(|object| object.peel_to_commit()) else {
            continue;
        };
        let mut walk = repo.revwalk().during(during)?;
        walk.push(new.id()).during(during)?;
        for known in base.refs.values().copied().chain(base.commit()) {
            // Tags of trees and blobs reach no commit.
            _ = walk.hide(known);
        }
        for id in walk {
            transfer.check_time()?;
            let commit = repo.find_commit(id.during(during)?).during(during)?;
            if let Some(path) = added_submodule(repo, &commit)? {
                found.insert(name.to_owned(), path);
                break;
            }
        }
    }
    Ok(found)
}

/// Returns a submodule of `commit` that none of its parents has.
fn added_submodule(repo: &Repository, commit: &git2::Commit<'_>) -> Result<Option<RepoPath>> {
    let is_submodule = |node: Option<Node>| node.is_some_and(|node| node.mode == SUBMODULE);
    let mut parents: Vec<_> = commit.parents().map(|parent| Some(parent.tree_id())).collect();
    if parents.is_empty() {
        parents.push(None);
    }
    let mut added: Option<Vec<Vec<u8>>> = None;
    for parent in parents {
        let changes = tree_diff::diff(repo, parent, Some(commit.tree_id()))?.into_iter();
        let here = changes.filter(|change| is_submodule(change.new) && !is_submodule(change.old));
        let here: Vec<_> = here.map(|change| change.path).collect();
        added = Some(match added {
            None => here,
            Some(before) => before.into_iter().filter(|path| here.contains(path)).collect(),
        });
    }
    Ok(added.and_then(|added| added.into_iter().next()).map(RepoPath::new))
}

struct Carrier<'a> {
    project: &'a Project,
    repo: &'a Repository,
    guest: &'a Guest,
    held: Option<&'a str>,
}

impl Carrier<'_> {
    /// Moves one reference as the guest did, or keeps the guest's commits elsewhere and tells so.
    fn carry(&self, moved: &Moved, submodule: Option<&RepoPath>, imported: &mut Imported) -> Result<()> {
        let refused = match (submodule, self.held) {
            (Some(path), _) => {
                Some(format!("a chat cannot add the submodule {path}, in which git would run commands"))
            }
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

    fn try_carry(&self, moved: &Moved) -> Result<Carried> {
        let Moved { name, old, new } = moved;
        let (repo, message) = (self.repo, "watchfire: from a chat");
        let there = repo.find_reference(name).ok().and_then(|reference| reference.target());
        if there == *new {
            return Ok(Carried::Done);
        }
        let outside = || Ok(Carried::Refused("it was moved outside meanwhile".to_owned()));
        if there != *old {
            return outside();
        }
        for checkout in user_checkout::all(self.project)? {
            if checkout.git != self.project.git && checkout.is_on(name)? {
                return Ok(Carried::Refused(format!("it is checked out in {}", checkout.files.display())));
            }
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

/// Moves HEAD as the guest did. Returns false if it is not at `old` any more.
fn set_head(repo: &Repository, old: &Head, new: &Head) -> Result<bool> {
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

/// Enters what the guest committed into the person's index, but for paths that the person staged otherwise.
fn enter(
    project: &Project,
    repo: &Repository,
    base: &IndexFile,
    mut index: IndexFile,
    [old, new]: [Option<Oid>; 2],
    lock: IndexLock,
) -> Result<()> {
    let tree = |commit: Option<Oid>| {
        let tree = commit.map(|id| repo.find_commit(id).map(|commit| commit.tree_id()));
        tree.transpose().during("reading a commit")
    };
    let changes = tree_diff::diff(repo, tree(old)?, tree(new)?)?;
    if changes.is_empty() {
        return Ok(());
    }
    // The index gets a new time, and git believes entries that are older than their index.
    index.settle(&project.root);
    for change in changes {
        let node = |index: &IndexFile| index.entry(&change.path).map(|entry| entry.node);
        let there = node(&index);
        if there != change.old && there != node(base) {
            continue;
        }
        match change.new {
            // Without a stamp: what the guest's index says of the file is not believed, so git looks at it.
            Some(node) => index.set(Entry::new(&change.path, node, None)),
            None => index.remove(&change.path),
        }
    }
    if !lock.is_held() {
        return Err(Error::new(ErrorKind::Busy, "another git command has taken over the lock of the index"));
    }
    lock.put(&index.to_bytes())?;
    reached("guest: index in place");
    Ok(())
}

/// Returns true while the git directory `git` is in the midst of something that moves HEAD about.
pub(crate) fn is_underway(git: &Path) -> bool {
    const SIGNS: [&str; 6] =
        ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_START", "rebase-merge", "rebase-apply"];
    SIGNS.iter().any(|sign| is_there(git, sign))
}

/// Returns true while a git writes the index or HEAD in the git directory `git`.
pub(crate) fn is_locked(git: &Path) -> bool {
    ["index.lock", "HEAD.lock"].iter().any(|lock| is_there(git, lock))
}

fn is_there(git: &Path, name: &str) -> bool {
    std::fs::symlink_metadata(git.join(name)).is_ok()
}
