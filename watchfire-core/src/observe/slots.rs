//! Bounds on the number of watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, ErrorKind, Result};

/// Slots for waiting watches and open streams. Clones share the slots.
#[derive(Clone, Debug)]
pub(crate) struct WatcherSlots {
    taken: Arc<AtomicUsize>,
    limit: usize,
    scope: &'static str,
}

impl WatcherSlots {
    /// Creates `limit` slots for all logs that share them.
    #[must_use]
    pub(crate) fn new(limit: usize) -> Self {
        Self { taken: Arc::default(), limit, scope: "all sessions" }
    }

    pub(super) fn of_one_log(limit: usize) -> Self {
        Self { scope: "session", ..Self::new(limit) }
    }

    /// Returns the number of slots in use.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a slot until the guard is dropped.
    pub(super) fn take(&self) -> Result<SlotGuard> {
        // In one step: two watchers that ask at the same time must not both get the last slot.
        let more = |taken: usize| (taken < self.limit).then_some(taken + 1);
        // Relaxed: the count guards no other memory.
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(SlotGuard(Arc::clone(&self.taken))),
            Err(_) => Err(Error::new(ErrorKind::TooManyWatchers, "too many watchers")
                .with("scope", self.scope)
                .with("limit", self.limit)),
        }
    }
}

/// A slot in use.
#[derive(Debug)]
pub(super) struct SlotGuard(Arc<AtomicUsize>);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
