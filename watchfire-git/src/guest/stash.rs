//! The stash, a reference whose log is a list. An exchange carries over the entries that a guest added or dropped.

use std::path::Path;

use git2::{Oid, Repository};
use watchfire_core::Result;

use crate::error::During;
use crate::files;
use crate::guest::copies::Guest;
use crate::guest::refusals::Refusals;
use crate::objects::id::hex;
use crate::private::copies::{STASH, unreadable};
use crate::repository::project::Project;

/// Upper bound for the log of a stash, in bytes.
const LOG: u64 = 1 << 20;

/// One entry of a stash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stashed {
    pub(crate) id: Oid,
    message: String,
}

/// The changes of a guest's stash.
#[derive(Debug, Default)]
pub(crate) struct StashNews {
    pub(crate) added: Vec<Stashed>,
    pub(crate) dropped: Vec<Oid>,
}

impl StashNews {
    /// Compares the stash of `guest` with the one that both sides had in common.
    pub(crate) fn of(guest: &Guest) -> Result<Self> {
        let (before, now) = (list(&guest.base_stash())?, list(&guest.top().join("logs").join(STASH))?);
        let lacks = |all: &[Stashed], id: Oid| all.iter().all(|entry| entry.id != id);
        Ok(Self {
            added: now.iter().filter(|entry| lacks(&before, entry.id)).cloned().collect(),
            dropped: before.iter().map(|entry| entry.id).filter(|id| lacks(&now, *id)).collect(),
        })
    }

    /// Takes out the added entries that are refused, and returns them.
    pub(crate) fn refuse(&mut self, refused: &Refusals) -> Vec<Stashed> {
        self.added.extract_if(.., |entry| refused.contains_key(&entry.id.to_string())).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.dropped.is_empty()
    }

    /// Does the same to the person's stash. May be repeated.
    pub(crate) fn apply(&self, project: &Project) -> Result<()> {
        let mut repo = project.open()?;
        let during = "carrying over a stash";
        for id in &self.dropped {
            while let Some(n) = position(&mut repo, *id).during(during)? {
                repo.stash_drop(n).during(during)?;
            }
        }
        for Stashed { id, message } in &self.added {
            if position(&mut repo, *id).during(during)?.is_none() {
                // The list is the log, which libgit2 does not make by itself.
                repo.reference_ensure_log(STASH).during(during)?;
                repo.reference(STASH, *id, true, message).during(during)?;
            }
        }
        Ok(())
    }
}

fn position(repo: &mut Repository, id: Oid) -> Result<Option<usize>, git2::Error> {
    let mut found = None;
    repo.stash_foreach(|n, _, stashed| {
        found = (*stashed == id).then_some(n);
        found.is_none()
    })?;
    Ok(found)
}

/// Returns the entries in the log of a stash, oldest first.
fn list(log: &Path) -> Result<Vec<Stashed>> {
    let text = files::read_tail(log, LOG).map_err(unreadable)?.unwrap_or_default();
    // `<old> <new> <who> <when>\t<message>`
    let entry = |line: &[u8]| {
        let id = hex(line.get(41..81)?)?;
        let message = line.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
        Some(Stashed { id, message: String::from_utf8_lossy(message).into_owned() })
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(entry).collect())
}
