//! Completes or undoes joint publications that killed processes left half-done.

use watchfire_core::Result;
use watchfire_core::store::Fence;
use watchfire_core::workspace::{Obstacle, PublishRequest, Recovery, WorkspaceKey};

use crate::branches::recover;
use crate::joint::intent::Intent;
use crate::joint::merge::{Part, parts, place};
use crate::joint::publish::{self, Carried, Found, Free, carry, found};
use crate::joint::repositories::{Joint, Member};
use crate::joint::work;
use crate::publish::publication::{self, Completed, Way};

/// The end of a joint publication that was under way.
pub(crate) enum Settled {
    /// All targets have their part.
    Completed(String),
    /// No target has moved.
    Undone(String),
    /// Some targets have their part, and the others cannot get theirs.
    Half(Obstacle),
    /// All targets have their part, and a checkout could not be brought along.
    Incomplete(Obstacle),
    /// It cannot be looked at.
    Told(String),
}

/// Completes or undoes everything that was under way in any repository.
pub(crate) fn recover(joint: &Joint) -> Result<Recovery> {
    let mut all = Recovery::default();
    {
        let _locks = joint.lock()?;
        // Before each repository by itself: the locks that a kill left keep its person's git from moving a target that is to
        // move now.
        settle_all(joint, &mut |settled| match settled {
            Settled::Completed(what) => all.completed.push(what),
            Settled::Undone(what) => all.undone.push(what),
            Settled::Half(by) => all.half.push(by),
            Settled::Incomplete(by) => all.incomplete.push(by),
            Settled::Told(line) => all.attention.push(line),
        })?;
    }
    for member in &joint.members {
        let one = recover::recover(&member.project).map_err(|error| work::within(member, error))?;
        add(&mut all, member, one);
    }
    all.undone.extend(work::sweep(joint)?);
    Ok(all)
}

fn add(all: &mut Recovery, member: &Member, one: Recovery) {
    let told = |line: String| match member.is_first() {
        true => line,
        false => format!("{}: {line}", member.at.display()),
    };
    all.completed.extend(one.completed.into_iter().map(told));
    all.undone.extend(one.undone.into_iter().map(told));
    all.incomplete.extend(one.incomplete.into_iter().map(|by| place(member, by)));
    for line in one.attention {
        // Some folders are the project's, and every repository looks into them.
        if !all.attention.contains(&line) {
            all.attention.push(told(line));
        }
    }
}

/// Settles all intents. The caller holds all locks.
pub(crate) fn settle_all(joint: &Joint, told: &mut dyn FnMut(Settled)) -> Result<()> {
    for key in Intent::keys(joint.first())? {
        if let Some(settled) = settle(joint, &key)? {
            told(settled);
        }
    }
    Ok(())
}

fn settle(joint: &Joint, key: &WorkspaceKey) -> Result<Option<Settled>> {
    let Some(intent) = Intent::read(joint.first(), key)? else { return Ok(None) };
    let parts = match parts(joint, &intent.candidate) {
        Ok(parts) => parts,
        // The others of the project need not wait for it.
        Err(error) => return Ok(Some(Settled::Told(error.report()))),
    };
    let mut incomplete = None;
    for part in &parts {
        if let Some(Completed::Incomplete(by)) =
            publication::complete_of(&part.member.project, &part.candidate.key)?
        {
            incomplete = incomplete.or(Some(place(part.member, by)));
        }
    }
    let title =
        format!("merge of {key} into {} repositories", parts.iter().filter(|part| !part.is_idle()).count());
    let mut state = found(&parts)?;
    if state.is_half() && !intent.is_half {
        let request = PublishRequest::new(Fence(intent.fence));
        let why = match missing(&parts)? {
            Ok(free) => match carry(&free, &request)? {
                Carried::Done(_) => None,
                Carried::Incomplete(by) => {
                    incomplete = incomplete.or(Some(by));
                    None
                }
                Carried::Held(by) => Some(Some(by.to_string())),
                Carried::Moved => Some(None),
                Carried::Stopped(why) => Some(why),
            },
            Err(why) => Some(why),
        };
        if let Some(why) = why {
            return publish::half(joint, &intent.candidate, &request, &parts, why)
                .map(Settled::Half)
                .map(Some);
        }
        state = found(&parts)?;
    }
    settled(joint, &parts, title, &state, incomplete).map(Some)
}

fn settled(
    joint: &Joint,
    parts: &[Part<'_>],
    title: String,
    state: &Found,
    incomplete: Option<Obstacle>,
) -> Result<Settled> {
    if state.is_half() {
        return Ok(Settled::Half(state.obstacle(None)));
    }
    match parts.last() {
        Some(own) if !state.is_whole() => Intent::forget(joint.first(), &own.candidate.key)?,
        _ => publish::complete(joint, parts)?,
    }
    Ok(match (state.is_whole(), incomplete) {
        (true, Some(by)) => Settled::Incomplete(by),
        (true, None) => Settled::Completed(title),
        (false, _) => Settled::Undone(title),
    })
}

/// Returns the parts that are missing, if the targets of all of them may move. Otherwise the reason, if it is another than
/// that a target has moved.
fn missing<'a>(parts: &'a [Part<'a>]) -> Result<std::result::Result<Vec<Free<'a>>, Option<String>>> {
    let mut free = Vec::new();
    for part in parts.iter().filter(|part| !part.is_idle()) {
        match publish::look(part)? {
            Way::Done => {}
            Way::Moved => return Ok(Err(None)),
            Way::Held(by) => return Ok(Err(Some(place(part.member, by).to_string()))),
            Way::Free { from, checkouts } => free.push(Free { part, from, checkouts }),
        }
    }
    Ok(Ok(free))
}
