//! Claims on disk.
//!
//! There are two files: `fences.json` keeps the highest fence of each task for ever, `leases.json` the claims that
//! are currently held. Renewals rewrite only the second. Both lie beside their lock, in a folder that every home with
//! access to the project can reach.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::PATIENCE;
use crate::files::{FileLock, Replace, make_private, make_shared, read_untrusted};
use crate::store::Fence;
use crate::store::ledger::{Fences, Leases, Ledger};
use crate::{Error, ErrorKind, Result};

const LEASES: &str = "leases.json";
const FENCES: &str = "fences.json";

/// Size limit of both files: a million tasks.
const LIMIT: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Claims {
    folder: PathBuf,
    shared: bool,
}

/// The ledger, under its lock.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    pub(super) ledger: Ledger,
    stored: Ledger,
    folder: &'a Path,
    _lock: FileLock,
}

impl Claims {
    /// Returns the claims in `shared`, or in `state` for a project without a folder that its homes share.
    pub(super) fn new(shared: Option<&Path>, state: &Path) -> Self {
        Self { folder: shared.unwrap_or(state).join("claims"), shared: shared.is_some() }
    }

    pub(super) fn lock(&self) -> Result<Locked<'_>> {
        // In a repository that several users share, all of them must be able to take the lock.
        if self.shared {
            make_shared(&self.folder)?
        } else {
            make_private(&self.folder)?
        }
        let lock = FileLock::acquire(&self.folder.join("lock"), PATIENCE)?;
        let fences: Fences = read(&self.folder.join(FENCES))?;
        let leases: Leases = read(&self.folder.join(LEASES))?;
        let ledger = Ledger { fences, leases };
        Ok(Locked { stored: ledger.clone(), ledger, folder: &self.folder, _lock: lock })
    }

    /// Keeps other homes from claiming during a write under `fence`. Returns `None` for a person's write, which has
    /// no fence.
    pub(super) fn guard(
        &self,
        fence: Option<Fence>,
        check: impl FnOnce(&Ledger, Fence) -> Result<()>,
    ) -> Result<Option<Locked<'_>>> {
        let Some(fence) = fence else { return Ok(None) };
        let locked = self.lock()?;
        // Under the lock, which the caller holds until its write is done: check and write are one step.
        check(&locked.ledger, fence)?;
        Ok(Some(locked))
    }
}

impl Locked<'_> {
    /// Writes the changed files.
    pub(super) fn save(self) -> Result<()> {
        if self.ledger.fences != self.stored.fences {
            // Fences first and synced: a lease without its fence could be given twice.
            write(&self.folder.join(FENCES), &self.ledger.fences, Replace::new())?;
        }
        if self.ledger.leases != self.stored.leases {
            // If a crash of the machine reverts a lease, it only expires sooner.
            write(&self.folder.join(LEASES), &self.ledger.leases, Replace::new().without_sync())?;
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    let Some(bytes) = read_untrusted(path, LIMIT)? else { return Ok(T::default()) };
    // An unsynced file can be empty after a crash of the machine.
    if bytes.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::new(ErrorKind::Malformed, "not a record of claims").with_path(path).with_source(error)
    })
}

fn write<T: Serialize>(path: &Path, value: &T, replacement: Replace) -> Result<()> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "encoding claims").with_source(error))?;
    replacement.like_folder().write(path, &bytes)
}
