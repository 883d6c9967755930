//! Following files: watches, polling, and another look at every sign of a change.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::store::blocking;
use super::{Watching, YamlOptions};
use crate::clock::Clock;
use crate::files::{Dir, FolderWatch};
use crate::store::changes::lock;
use crate::{Error, Result};

/// Files that are looked at repeatedly.
pub(in crate::store) trait Watched: Send + Sync + 'static {
    /// Returns the folders whose events matter now.
    fn folders(&self) -> Vec<Dir>;
    /// Finds and announces changes. Returns the time since boot of the next look, if it is earlier than usual.
    fn look(&self) -> Result<Option<Duration>>;
    /// Returns the current source of changes.
    fn watching(&self) -> &Mutex<Watching>;
}

/// Pace of looking.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Pace {
    pub(in crate::store) watch: bool,
    pub(in crate::store) debounce: Duration,
    pub(in crate::store) poll: Duration,
}

impl From<&YamlOptions> for Pace {
    fn from(options: &YamlOptions) -> Self {
        Self { watch: options.watch, debounce: options.debounce, poll: options.poll }
    }
}

/// Looks until `target` is dropped. `signal` wakes it early.
pub(in crate::store) async fn follow<W: Watched>(
    target: Weak<W>,
    signal: Arc<Notify>,
    clock: Arc<dyn Clock>,
    pace: Pace,
) {
    let mut watches = Vec::new();
    loop {
        // Weak: this task must not keep a store alive that was dropped.
        let Some(watched) = target.upgrade() else { return };
        let waker = Arc::clone(&signal);
        // First the watches, then the look, so that no change falls between them.
        let looked = blocking(move || {
            let now = if pace.watch { rewatch(&*watched, &waker, &mut watches) } else { off() };
            *lock(watched.watching()) = now;
            let due = watched.look().unwrap_or_else(|error| {
                tracing::debug!(error = %error.report(), "the files cannot be looked at");
                None
            });
            Ok((watches, due))
        });
        let due;
        // A look that panicked has lost the watches. The next round makes them anew.
        (watches, due) = looked.await.unwrap_or_default();
        let next = clock.boot_time() + pace.poll;
        tokio::select! {
            // One save is several events.
            () = signal.notified() => clock.sleep_until(clock.boot_time() + pace.debounce).await,
            () = clock.sleep_until(due.map_or(next, |due| due.min(next))) => {}
        }
    }
}

fn off() -> Watching {
    Watching::PollingOnly { reason: "watching is switched off".to_owned() }
}

fn rewatch(watched: &impl Watched, signal: &Arc<Notify>, watches: &mut Vec<FolderWatch>) -> Watching {
    let before = lock(watched.watching()).clone();
    let folders = watched.folders();
    // A folder that was deleted and made anew is another one, and its old watch is dead.
    watches.retain(|watch| folders.iter().any(|dir| watch.is_of(dir)));
    let mut unwatched = None;
    for dir in &folders {
        if watches.iter().any(|watch| watch.is_of(dir)) {
            continue;
        }
        match FolderWatch::of(dir, signal) {
            Ok(watch) => watches.push(watch),
            Err(error) => drop(unwatched.get_or_insert(error)),
        }
    }
    // One folder without a watch is enough to miss changes. The others are watched all the same.
    unwatched.map_or(Watching::Events, |error| step_down(&before, &error))
}

fn step_down(before: &Watching, error: &Error) -> Watching {
    let now = Watching::PollingOnly { reason: error.report() };
    // Said once, not at every look.
    if now != *before {
        tracing::warn!(error = %error.report(), "changes are seen by polling only");
    }
    now
}
