//! One exchange between a guest and the person: what the guest did first, then what the person did.

use std::path::Path;
use std::thread;
use std::time::Duration;

use watchfire_core::model::SessionId;
use watchfire_core::sandbox::{Rule, RuleAccess};
use watchfire_core::workspace::{Exchanged, MergeGuard, Opened};
use watchfire_core::{ErrorKind, Result};

use crate::guest::copies::{Guest, abandoned};
use crate::guest::import::{Imported, import};
use crate::guest::state::{self, State};
use crate::guest::{planted, refresh, wiring};
use crate::index::file::IndexFile;
use crate::merge::places::Places;
use crate::plain::snapshot;
use crate::private::copies as private;
use crate::repository::index_lock::IndexLock;
use crate::repository::left;
use crate::repository::project::Project;

/// Time for which the end of a session waits for a git of the person.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIES: u32 = 50;

/// The cure for an index that is not read here.
const PLAIN_INDEX: &str = "git update-index --no-split-index, or git sparse-checkout reapply --no-sparse-index, gives the index its usual \
     form; watchfire chat --worktree needs none";

/// Prepares the root for `session`, and its copies if it is `isolated`. What it makes may not come in if `guard` holds it.
pub(crate) fn enter(
    project: &Project,
    session: &SessionId,
    isolated: bool,
    guard: &MergeGuard,
) -> Result<Opened> {
    let mut opened = Opened::at(&project.root);
    // A session in a plain folder changes the person's files; what they were is in a snapshot.
    opened.attention.extend(snapshot::refresh(project)?.remark());
    let wired = wiring::of(project)?;
    let made_for_it = wiring::make(project, &wired.missing);
    opened.policy_rules = wiring::rules(&wired.places);
    // In a linked worktree or a submodule, the repository lies outside of the root, and the sandbox closes it.
    if !isolated || project.git != project.root.join(".git") || project.git != project.common {
        return Ok(opened);
    }
    for told in make_up(project)? {
        opened.attention.push(told);
    }
    // A place that is none is told now, not with each exchange.
    Places::new(&project.open()?, None, &guard.protected)?;
    let _lock = project.lock()?;
    let made = private::refuse_links(project).and_then(|()| {
        // Read as an exchange will.
        IndexFile::read(&project.git.join("index"))?;
        Guest::find(project, session).map_or_else(|| Guest::make(project, session), Ok)
    });
    // On the repository itself it could make the person's git run what it wrote.
    let guest = made.map_err(|error| match error.kind() {
        ErrorKind::NotSupported => error.with("hint", PLAIN_INDEX),
        _ => error,
    })?;
    guest.set_guard(guard)?;
    guest.note_made(&made_for_it)?;
    guest.note_links(project)?;
    opened.policy_rules.push(Rule::new(project.state(), RuleAccess::Deny, "git: Watchfire's records"));
    opened.binds = guest.binds(project)?;
    Ok(opened)
}

/// Carries over what the guest and the person did since the last exchange. Does nothing while a git of either is in
/// the midst of something.
pub(crate) fn exchange(project: &Project, session: &SessionId) -> Result<Exchanged> {
    let mut exchanged = Exchanged::default();
    let Some(guest) = Guest::find(project, session) else { return Ok(exchanged) };
    let look =
        || Ok::<_, watchfire_core::Error>([state::look(&project.git)?, state::look(&guest.top())?].concat());
    // Of an exchange that was killed. Where one is under way, this waits for its end.
    if guest.lock_token().exists() {
        let _lock = project.lock()?;
        IndexLock::release(&project.git, &guest.lock_token());
    }
    let seen = look()?;
    let is_seen = guest.is_seen(&seen)?;
    if !is_seen {
        guest.note_links(project)?;
    }
    // The sandbox keeps the submodules of the start. The person may have others by now, by a checkout or a merge.
    exchanged.told = planted::set_aside_at(project, &guest.began(), &guest.links()?)?;
    if is_seen || is_busy(&project.git) || is_busy(&guest.top()) {
        return Ok(exchanged);
    }
    let _lock = project.lock()?;
    let repo = project.open()?;
    let (base, theirs) = (guest.base()?, State::read(&guest.top())?);
    let Some(Imported { told, is_damaged }) = import(project, &repo, &guest, [&base, &theirs], None)? else {
        return Ok(exchanged);
    };
    exchanged.told.extend(told);
    if is_damaged {
        // Before it is taken out of the references, or nobody would know at the end.
        guest.mark_damaged()?;
    }
    if refresh::refresh(project, &guest, &base, &theirs)? {
        // As it was before anything was written: so the next exchange looks once more, and finds nothing to do.
        guest.set_seen(&seen)?;
    }
    Ok(exchanged)
}

/// Carries over what the guest did last, and removes its copies. Nothing of the session may run any more.
pub(crate) fn leave(project: &Project, session: &SessionId) -> Result<Exchanged> {
    let mut exchanged = Exchanged::default();
    let Some(guest) = Guest::find(project, session) else { return Ok(exchanged) };
    guest.mark_ended()?;
    exchanged.told.extend(planted::set_aside(project, &guest.began())?);
    guest.unmake();
    let _lock = project.lock()?;
    // Another process may have made up for it meanwhile.
    if !guest.root.is_dir() {
        return Ok(exchanged);
    }
    IndexLock::release(&project.git, &guest.lock_token());
    let taken = last(project, &guest, &mut exchanged).map(|is_damaged| is_damaged || guest.is_damaged());
    match taken {
        Ok(false) => guest.discard(project)?,
        Ok(true) => exchanged
            .told
            .push(kept(guest.set_aside(project)?.display(), "part of it is not what git writes")),
        Err(error) if error.kind() == ErrorKind::WorkspaceBroken => {
            exchanged.told.push(kept(guest.set_aside(project)?.display(), &error.report()));
        }
        Err(error) => return Err(error),
    }
    Ok(exchanged)
}

/// Makes up for the ends of sessions that failed or never came. Returns remarks for the person.
pub(crate) fn make_up(project: &Project) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for session in abandoned(project)? {
        match leave(project, &session) {
            Ok(exchanged) => told.extend(exchanged.told),
            Err(error) => told.push(format!("the work of a chat is not carried over: {}", error.report())),
        }
    }
    Ok(told)
}

/// Returns true while a git is at work in the git directory `git`.
fn is_busy(git: &Path) -> bool {
    left::is_moving(git)
        || ["index.lock", "HEAD.lock"].iter().any(|lock| git.join(lock).symlink_metadata().is_ok())
}

fn kept(place: std::path::Display<'_>, why: &str) -> String {
    format!("what a chat did to the repository is kept in {place}: {why}")
}

/// Makes the last import. Returns true if the copies hold more than could be taken over.
fn last(project: &Project, guest: &Guest, exchanged: &mut Exchanged) -> Result<bool> {
    let repo = project.open()?;
    let (base, mut theirs) = (guest.base()?, State::read(&guest.top())?);
    if left::is_moving(&guest.top()) {
        // A rebase moves HEAD about. Its commits are kept, and HEAD stays where the person has it.
        theirs.head = base.head.clone();
    }
    for _ in 0..TRIES {
        let imported = if is_busy(&project.git) {
            Ok(None)
        } else {
            import(project, &repo, guest, [&base, &theirs], None)
        };
        match imported {
            Ok(Some(imported)) => {
                exchanged.told.extend(imported.told);
                return Ok(imported.is_damaged);
            }
            Ok(None) => {}
            // The index took another form meanwhile.
            Err(error) if error.kind() == ErrorKind::NotSupported => break,
            Err(error) => return Err(error),
        }
        thread::sleep(PATIENCE / TRIES);
    }
    let held = "git was in the midst of something";
    let imported = import(project, &repo, guest, [&base, &theirs], Some(held))?.unwrap_or_default();
    exchanged.told.extend(imported.told);
    Ok(imported.is_damaged)
}
