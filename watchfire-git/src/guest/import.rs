//! Carries a guest's work over to the person's repository: objects, each one checked, then references, HEAD and
//! index. May be repeated, also after a kill half-way.

use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::guest::carry::{Carrier, HEAD, Moved, OUTSIDE, entered, set_head};
use crate::guest::copies::Guest;
use crate::guest::refusals::{brings_submodule, refusals};
use crate::guest::stash::{StashNews, Stashed};
use crate::guest::state::{Head, State, is_carried};
use crate::index::file::IndexFile;
use crate::names;
use crate::private::copies::unreadable;
use crate::private::transfer::Transfer;
use crate::repository::index_lock::IndexLock;
use crate::repository::left;
use crate::repository::project::Project;

/// Result of an import.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// Remarks for the person about commits that were not carried over, with the place where they are kept.
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
    let mut stash = StashNews::of(guest)?;
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
            imported.told.push(format!("{id} of the chat is not taken over: it is not what git writes"));
        }
    }
    // The guest took these back. Its git may have removed parts, so unsound ones are skipped.
    let mut taken_back = Vec::new();
    for id in logged {
        if transfer.may_be_commit(id) && transfer.sound_commit(id)? {
            taken_back.push(id);
        }
    }
    let branch = match &base.head {
        Head::Branch(name) => Some(name),
        Head::Commit(_) => None,
    };
    let heads = sound.iter().filter_map(|moved| Some((moved.name.clone(), moved.new?)));
    let entries = stash.added.iter().map(|entry| entry.id).filter(|id| others.contains(id));
    let entries = entries.map(|id| (id.to_string(), id));
    let new_head = detached.filter(|id| others.contains(id)).map(|id| (HEAD.to_owned(), id));
    let news = heads.chain(entries).chain(new_head);
    let mut refused = refusals(&transfer, &State::of_person(project)?, &guest.guard()?, news)?;
    // The commits may be the person's own, and only the repository at the submodule's place the guest's.
    let is_sound = |id: &Oid| {
        odb.exists(*id) || others.contains(id) || sound.iter().any(|moved| moved.new.as_ref() == Some(id))
    };
    if let Some(new) = theirs.commit().filter(is_sound)
        && let Some(reason) = brings_submodule(transfer.both(), base.commit(), new)?
    {
        let is_switch = base.head != theirs.head;
        refused.insert(branch.filter(|_| !is_switch).map_or_else(|| HEAD.to_owned(), String::clone), reason);
    }
    transfer.finish()?;
    reached("guest: objects are there");

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
    if let Some(lock) = &lock
        && let Some(index) =
            entered(project, repo, &guest.base_index()?, index, [base.commit(), theirs.commit()])?
    {
        lock.put_ahead(&index.to_bytes())?;
    }
    let carrier = Carrier { project, repo, guest, held };
    // HEAD can name a branch only once that is there, and leaves one before that goes.
    let (deleted, made): (Vec<_>, Vec<_>) = sound.iter().partition(|moved| moved.new.is_none());
    for moved in made {
        carrier.carry(moved, refused.get(&moved.name), &mut imported)?;
    }
    let ours = State::of_person(project)?;
    let mut follows = ours.head == theirs.head;
    if base.head != theirs.head && !follows {
        let refused = match carrier.refuses_head(&ours, base, theirs, &others, refused.get(HEAD))? {
            None if set_head(repo, &ours.head, &theirs.head)? => None,
            None => Some(OUTSIDE.to_owned()),
            refused => refused,
        };
        follows = refused.is_none();
        if let Some(reason) = refused {
            imported.told.push(format!("the chat's switch to another branch is not taken over: {reason}"));
        }
    }
    reached("guest: references moved");
    if let Some(lock) = lock
        && follows
        && (State { head: theirs.head.clone(), ..ours }).commit() == theirs.commit()
    {
        lock.has_moved();
        reached("guest: index in place");
    }
    for moved in deleted {
        carrier.carry(moved, None, &mut imported)?;
    }
    if imported.is_damaged {
        // A stash that cannot be read whole stays where it is.
        others.retain(|id| stash.added.iter().any(|entry| entry.id == *id));
    } else {
        stash.dropped.iter().try_for_each(|id| left::put(repo, &guest.name, *id))?;
        for Stashed { id, .. } in stash.refuse(&refused) {
            left::put(repo, &guest.name, id)?;
            let (reason, kept) = (&refused[&id.to_string()], names::left(&guest.name, id));
            let told = format!("a stash of the chat is not taken over ({reason}): it is kept as {kept}");
            imported.told.push(told);
        }
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

/// Returns the references that the guest made, moved or deleted, as far as they are carried over.
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
    // A worktree that the guest added ends with the copies.
    for (_, admin) in files::entries(&top.join("worktrees")).map_err(unreadable)? {
        found.extend(left::logged(&admin.join("logs/HEAD"), None).map_err(unreadable)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
