//! How many may watch at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, ErrorKind, Result};

/// Places for blocked watchers and followers, shared by many logs. A clone is the same set of places.
#[derive(Clone, Debug)]
pub struct WatcherSlots {
    taken: Arc<AtomicUsize>,
    limit: usize,
    scope: &'static str,
}

impl WatcherSlots {
    /// `limit` places for all logs that share them.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { taken: Arc::default(), limit, scope: "all sessions" }
    }

    pub(super) fn of_one_log(limit: usize) -> Self {
        Self { scope: "session", ..Self::new(limit) }
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes one place until it is dropped.
    pub(super) fn take(&self) -> Result<Slot> {
        let more = |taken: usize| (taken < self.limit).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Slot(Arc::clone(&self.taken))),
            Err(_) => Err(Error::new(ErrorKind::TooManyWatchers, "too many watchers")
                .with("scope", self.scope)
                .with("limit", self.limit)),
        }
    }
}

impl Default for WatcherSlots {
    /// 1,024 places.
    fn default() -> Self {
        Self::new(1024)
    }
}

/// A place taken.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
